"""`python -m core.experiments list | run NAME | report`: the paper's experiments from a shell."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from dataclasses import fields, replace
from pathlib import Path

from core.experiments import running

INTERRUPTED = 130  # what shells expect of a command that Ctrl-C ended


def parser() -> argparse.ArgumentParser:
    """The command line's grammar."""
    top = argparse.ArgumentParser(prog="python -m core.experiments", description="The experiments of the paper.")
    commands = top.add_subparsers(dest="command", required=True)
    commands.add_parser("list", help="name them, each with its question")
    run = commands.add_parser("run", help="run one, and write its table")
    run.add_argument("name", choices=running.NAMES)
    size = run.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="a rehearsal of about a minute; its table goes elsewhere")
    size.add_argument("--large", action="store_true", help="dimensions only: the paper's size; goes elsewhere, too")
    run.add_argument("--seeds", type=positive, help="number of sample seeds, where the experiment has several")
    run.add_argument("--workers", type=positive, default=1, help="processes on this machine (default 1)")
    run.add_argument("--cluster", metavar="ADDRESS", help="a Dask scheduler, such as tcp://10.0.0.1:8786")
    run.add_argument("--resume", action="store_true", help="go on with a run that did not end")
    run.add_argument("--mnist", action="store_true", help="digits only: MNIST from openml.org, not the bundled digits")
    run.add_argument("--out", type=Path, help="folder of the table (default: assets/results, or .results-SIZE)")
    report = commands.add_parser("report", help="judge the paper's claims by the tables, in REPORT.md")
    report.add_argument("--out", type=Path, default=running.RESULTS, help="folder of tables and report")
    return top


def positive(text: str) -> int:
    """A whole number from 1 on."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"should be a whole number from 1 on; got {text!r}")
    return int(text)


def main(arguments: list[str] | None = None) -> int:
    """Run a command.

    Returns:
        0 for success; with one clear sentence on stderr, 2 for bad input, 1 for a run that could not finish every cell
        and 130 for one that was interrupted.
    """
    words = sys.argv[1:] if arguments is None else arguments
    chosen = parser().parse_args(words)
    # A cell has one thread, wherever it runs. torch asks for this when it is loaded, which is later.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    try:
        if chosen.command == "list":
            show_list()
        elif chosen.command == "report":
            from core.experiments import report

            print(f"wrote {report.write(chosen.out)}")
        else:
            print(f"wrote {run(chosen, shlex.join(['python', '-m', 'core.experiments', *words]))}")
    except (ValueError, OSError) as problem:
        print(f"error: {problem}", file=sys.stderr)
        return 2
    except running.UnfinishedError as problem:
        print(f"unfinished: {problem}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted: finished cells are kept, go on with --resume", file=sys.stderr)
        return INTERRUPTED
    return 0


def show_list() -> None:
    """One line for each experiment."""
    for name in running.NAMES:
        try:
            experiment = running.load(name)
            print(f"{name:24}{experiment.paper:28}{experiment.question}")
        except ValueError as problem:
            print(f"{name:24}{problem}")


def run(chosen: argparse.Namespace, command: str) -> Path:
    """Run what was asked for; returns where the table is."""
    experiment = running.load(chosen.name)
    size = "quick" if chosen.quick else "large" if chosen.large else "full"
    spec = getattr(experiment, size)
    if spec is None:
        raise ValueError(f"{chosen.name} has no --{size}")
    folders = {"quick": running.QUICK_RESULTS, "large": running.LARGE_RESULTS, "full": running.RESULTS}
    for option in ("seeds", "mnist"):
        value = getattr(chosen, option)
        if value:
            if option not in {field.name for field in fields(spec)}:
                raise ValueError(f"{chosen.name} has no --{option}")
            spec = replace(spec, **{option: value})
    return running.run(
        experiment,
        spec,
        workers=chosen.workers,
        cluster=chosen.cluster,
        resume=chosen.resume,
        folder=chosen.out or folders[size],
        command=command,
        tell=lambda line: print(line, flush=True),
    )


if __name__ == "__main__":
    sys.exit(main())
