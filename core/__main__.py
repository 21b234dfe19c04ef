"""`python -m core paths ...`: the methods from a shell, for scripts and screenshots."""

from __future__ import annotations

import argparse
import json
import sys

import numpy as np

from core import datasets, methods, paths


def parser() -> argparse.ArgumentParser:
    """The command line's grammar."""
    top = argparse.ArgumentParser(prog="python -m core", description="Shortest paths that the data suggests.")
    commands = top.add_subparsers(dest="command", required=True)
    command = commands.add_parser("paths", help="compare the methods between two points")
    command.add_argument("--dataset", default="two_spirals", help=f"one of {', '.join(datasets.NAMES)}")
    command.add_argument("--size", type=int, default=1000, help="sample size n (default 1000)")
    command.add_argument("--seed", type=int, default=0, help="sample seed (default 0, that of the shipped models)")
    command.add_argument("--preset", default="fast", help=f"models: {' or '.join(methods.PRESETS)}")
    command.add_argument("--start", type=point, required=True, metavar="X,Y")
    command.add_argument("--end", type=point, required=True, metavar="X,Y")
    command.add_argument("--beta", default="1", help="inverse temperature, a number >= 0 or 1/D (default 1)")
    command.add_argument("--methods", default=",".join(methods.NAMES), help="comma-separated names (default all)")
    command.add_argument("--json", action="store_true", help="print everything, paths included, as JSON")
    return top


def point(text: str) -> np.ndarray:
    """Two comma-separated numbers."""
    try:
        return np.array([float(part) for part in text.split(",")])
    except ValueError:
        raise argparse.ArgumentTypeError(f"should be comma-separated numbers such as 0.1,-0.2; got {text!r}") from None


def main(arguments: list[str] | None = None) -> int:
    """Run a command; 0 for success, 2 with one clear sentence on stderr for bad input."""
    # "--start -0.1,0.2" would be taken for an option; gluing the value on keeps it a value.
    words = list(sys.argv[1:] if arguments is None else arguments)
    for name in ("--start", "--end"):
        if name in words[:-1]:
            at = words.index(name)
            words[at : at + 2] = [f"{name}={words[at + 1]}"]
    chosen = parser().parse_args(words)
    try:
        scene = methods.Scene.load(chosen.dataset, chosen.size, chosen.seed, chosen.preset)
        beta = 1 / scene.dim if chosen.beta.upper() == "1/D" else paths.check_beta(chosen.beta)
        reports = methods.compare(scene, chosen.start, chosen.end, beta, chosen.methods.split(","))
    except ValueError as problem:
        print(f"error: {problem}", file=sys.stderr)
        return 2
    if chosen.json:
        print(json.dumps({"dataset": scene.name, "beta": beta, "reports": [r.as_json() for r in reports]}))
        return 0
    print(f"{'method':12}{'LPR':>9}{'longer':>10}{'log length':>13}{'ms':>8}  status")
    for r in reports:
        if len(r.path) == 0:
            print(f"{r.method:12}{'–':>9}{'–':>10}{'–':>13}{'–':>8}  {r.status}")
            continue
        longer = f"{100 * r.longer:.1f} %" if r.lpr < 5 else f"e^{r.lpr:.1f}"
        print(f"{r.method:12}{r.lpr:9.4f}{longer:>10}{r.log_length:13.4f}{1e3 * r.seconds:8.1f}  {r.status}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
