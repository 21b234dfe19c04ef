"""How an experiment runs: cell by cell, on any number of processes or machines, so that nothing done is ever lost.

An experiment is a frozen spec, a list of cells (the smallest parts that can be computed by themselves) and a function
from a cell to rows of a table. Every finished cell is written to a journal at once; a run that was killed goes on from
there. When all cells are done the journal becomes `NAME.csv`, whose first lines say how it was made.
"""

from __future__ import annotations

import io
import json
import os
import platform
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import date
from importlib import import_module
from importlib.metadata import version
from itertools import takewhile
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd
from joblib import Parallel, delayed, parallel_config
from joblib.externals.loky.process_executor import TerminatedWorkerError
from threadpoolctl import threadpool_limits

from core.experiments.journal import Cell, Entry, Tell, key, open_journal, plain

RESULTS = Path(__file__).parent.parent.parent / "assets" / "results"
QUICK_RESULTS = Path(__file__).parent.parent.parent / ".results-quick"
LARGE_RESULTS = Path(__file__).parent.parent.parent / ".results-large"
# In the order of the paper.
NAMES = (
    "dimensions",
    "parameterization",
    "methods_on_200_points",
    "convergence",
    "edge_weights",
    "kde_tradeoff",
    "flow_scores",
    "digits",
    "alpha_scaling",
)
VERSIONS = ("numpy", "scipy", "scikit-learn", "torch", "FrEIA")
ABOUT = ("spec", "command", "date", "versions", "seconds")  # the lines above a table
# Columns whose name starts so are timings; they differ from run to run, all others do not.
SECONDS = "seconds"
DIGITS = "%.9g"  # two orders below the 1e-6 to which a rerun is compared
PATIENCE = 60  # seconds for a scheduler to answer, and for its first worker to appear

Row = dict[str, Any]  # one line of the table; the cell's own entries are added to it
Item = TypeVar("Item")


@dataclass(frozen=True)
class Experiment:
    """An experiment of the paper.

    Attributes:
        name: of the file and of its result.
        paper: where the paper has it.
        question: what it asks, in one sentence.
        full: spec of the shipped result.
        quick: spec of a rehearsal that takes about a minute.
        cells: spec -> its cells, in the order of the table.
        measure: spec, cell -> the rows of that cell. It may not look at anything else, since it may run anywhere; for
            the same reason it is a function of a module, not one made inside another.
        small: spec -> the cell that tests of the shipped result compute again, the cheapest; by default the first.
        live: spec, cell -> rows in a few seconds, where `measure` would train for minutes; by default `measure`.
        loads: large modules that the processes of a run load at their start: joblib takes what a process gains between
            two cells for a leak, and starts it anew.
        large: spec of the paper's own size, where `full` is smaller: for a larger machine, which runs the same code.
    """

    name: str
    paper: str
    question: str
    full: Any
    quick: Any
    cells: Callable[[Any], list[Cell]]
    measure: Callable[[Any, Cell], list[Row]]
    small: Callable[[Any], Cell] | None = None
    live: Callable[[Any, Cell], list[Row]] | None = None
    loads: tuple[str, ...] = ()
    large: Any = None

    def smallest(self, spec: Any) -> Cell:
        """The cell that is cheapest to compute again."""
        return plain(dict(self.small(spec) if self.small else self.cells(spec)[0]))


class UnfinishedError(RuntimeError):
    """A run that could not finish every cell; the journal keeps those that it did."""


def load(name: str) -> Experiment:
    """The experiment of that name.

    Raises:
        ValueError: if there is none.
    """
    if name not in NAMES:
        raise ValueError(f"name should be one of {', '.join(NAMES)}; got {name!r}")
    module = f"core.experiments.{name}"
    try:
        return import_module(module).EXPERIMENT
    except ModuleNotFoundError as problem:
        if problem.name != module:
            raise
        raise ValueError(f"{name} is not in this installation") from None


def run(
    experiment: Experiment,
    spec: Any,
    *,
    workers: int = 1,
    cluster: str | None = None,
    resume: bool = False,
    folder: Path = RESULTS,
    command: str = "",
    tell: Tell = print,
) -> Path:
    """Compute every cell that is not done yet, and write the table.

    Args:
        experiment: what to run.
        spec: its settings.
        workers: processes on this machine.
        cluster: address of a Dask scheduler that does the work instead; needs the extra `cluster`.
        resume: go on from the journal of a run that did not end.
        folder: where the result goes.
        command: what was typed, for the header.
        tell: is told about every finished cell.

    Returns:
        Where the table is.

    Raises:
        ValueError: if the journal is that of another spec, or of a run that is still under way.
        UnfinishedError: if cells failed; all others are in the journal.
    """
    cells = [plain(dict(cell)) for cell in experiment.cells(spec)]
    failed = []
    with open_journal(folder / f".{experiment.name}.journal", plain(asdict(spec)), resume, tell) as journal:
        todo = [cell for cell in cells if key(cell) not in journal.done]
        if len(todo) < len(cells):
            tell(f"{experiment.name}: {len(cells) - len(todo)} of {len(cells)} cells were done before")
        began = time.perf_counter()
        for count, entry in enumerate(computed(experiment, spec, todo, workers, cluster), start=1):
            what = f"{experiment.name} [{len(cells) - len(todo) + count}/{len(cells)}] {_words(entry['cell'])}"
            left = (time.perf_counter() - began) / count * (len(todo) - count)
            if "error" in entry:
                failed.append(entry["cell"])
                tell(f"{entry['traceback']}{what}: failed, {entry['error']}; {duration(left)} left")
            else:
                journal.add(entry)
                tell(f"{what}: {entry['seconds']:.1f} s; {duration(left)} left")
        if failed:
            raise UnfinishedError(
                f"{len(failed)} of {len(cells)} cells of {experiment.name} failed: {'; '.join(map(_words, failed))}. "
                "The others are kept, and --resume tries only these again."
            )
        path = _write_table(folder / f"{experiment.name}.csv", spec, [journal.done[key(c)] for c in cells], command)
        journal.path.unlink()
    return path


def duration(seconds: float) -> str:
    """As people say it: "40 s", "12 min", "3 h 05 min"."""
    if seconds < 99.5:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60:02} min"


def _words(cell: Cell) -> str:
    return " ".join(f"{name}={value}" for name, value in cell.items())


# --- progress within a cell -----------------------------------------------------------------------------------------

Watcher = Callable[[str, int, int], None]  # what is done, how many, of how many
_watchers: list[Watcher] = []


def watch(watcher: Watcher) -> None:
    """From now on, this process tells how far its cell is."""
    _watchers.append(watcher)


def watched(items: Sequence[Item], what: str) -> Iterator[Item]:
    """The items one by one, telling whoever watches how many of them are done."""
    for done, item in enumerate(items):
        for watcher in _watchers:
            watcher(what, done, len(items))
        yield item


# --- the work -------------------------------------------------------------------------------------------------------


def computed(
    experiment: Experiment, spec: Any, cells: Sequence[Cell], workers: int = 1, cluster: str | None = None
) -> Iterator[Entry]:
    """What became of each cell, as soon as it is known, in any order.

    Raises:
        ValueError: if the cluster's workers lack this package.
        OSError: if the cluster cannot be reached.
        UnfinishedError: if a process here, or the connection to the cluster, ended before its time.
    """
    if not cells:
        return
    # One cell a batch, all of them queued at once: no result waits for another cell, and workers that join late get
    # their share. Functions travel as their names, so that a worker needs the installed package.
    tasks = (delayed(_measured)(experiment.measure, spec, cell) for cell in cells)
    with _processes(experiment, workers, cluster):
        try:
            yield from Parallel(return_as="generator_unordered", batch_size=1, pre_dispatch="all")(tasks)
        except TerminatedWorkerError:
            raise UnfinishedError(
                f"A process of {experiment.name} was killed, perhaps for want of memory. "
                "Finished cells are kept: use --resume, with fewer --workers."
            ) from None


def _measured(measure: Callable[[Any, Cell], list[Row]], spec: Any, cell: Cell) -> Entry:
    """One cell, wherever it runs: in one thread, so that the numbers do not depend on who else is at work."""
    began = time.perf_counter()
    try:
        rows = rows_of(measure, spec, cell)
    except Exception as problem:  # noqa: BLE001 (whatever it is, it may not cost the other cells)
        return _failed(cell, problem)
    return {"cell": dict(cell), "rows": rows, "seconds": time.perf_counter() - began}


def rows_of(measure: Callable[[Any, Cell], list[Row]], spec: Any, cell: Cell) -> list[Row]:
    """Rows of a cell as JSON, computed in one thread."""
    # scikit-learn would otherwise ask the backend around it, and spread a cell over the cluster.
    with threadpool_limits(1), parallel_config(backend="sequential"):
        return [plain(row) for row in measure(spec, cell)]


def _failed(cell: Cell, problem: BaseException) -> Entry:
    text = f"{type(problem).__name__}: {problem}"
    return {"cell": dict(cell), "error": text, "traceback": "".join(traceback.format_exception(problem))}


@contextmanager
def _processes(experiment: Experiment, workers: int, cluster: str | None) -> Iterator[None]:
    """Where cells are computed: processes here, or the workers of a Dask cluster, which have to know the experiment."""
    if cluster is None:
        begins = {"initializer": _begin, "initargs": (os.getpid(), experiment.loads)}
        with parallel_config("loky", n_jobs=workers, inner_max_num_threads=1, **begins):
            yield
        return
    try:
        from distributed import Client
        from joblib._dask import DaskDistributedBackend
    except ImportError:
        raise ValueError("cluster needs Dask: `pip install 'geodesic-explorer[cluster]'`") from None

    class Backend(DaskDistributedBackend):
        """joblib's, mended where it would wait forever, or work here instead of there."""

        def effective_n_jobs(self, n_jobs: int) -> int:
            return max(2, super().effective_n_jobs(n_jobs))  # joblib does a single job itself

        def submit(self, func: Any, callback: Any = None) -> Any:
            future = super().submit(func, callback)

            def ended(done: Any) -> None:
                # Dask gave up on a cell, such as one that kills every worker it is given to; joblib is not told.
                if problem := done.exception():
                    callback([_failed(cell, problem) for _, (_, _, cell), _ in func.items])

            future.add_done_callback(ended)
            return future

        def retrieve_result_callback(self, out: Any) -> Any:
            if isinstance(out, BaseException):
                raise UnfinishedError(
                    f"The connection to {cluster} was lost. Finished cells are kept: go on with --resume."
                ) from out
            return super().retrieve_result_callback(out)

    with Client(cluster, timeout=PATIENCE, set_as_default=False) as client:
        try:
            client.run(_find, experiment.measure.__module__)
        except ImportError as problem:
            raise ValueError(f"the workers of {cluster} need this package, in the same version: {problem}") from None
        with parallel_config(backend=Backend(client=client, wait_for_workers_timeout=PATIENCE), n_jobs=-1):
            yield


def _find(module: str) -> None:
    import_module(module)


def _begin(parent: int, loads: Sequence[str]) -> None:
    """Let this process end when its parent has, so that whoever was killed leaves nobody at work; load modules."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
    for module in loads:
        import_module(module)


# --- tables ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Result:
    """A table of results: its rows, and how it was made (spec, command, date, versions, seconds)."""

    table: pd.DataFrame
    about: Mapping[str, Any]


def table_of(entries: Sequence[Entry]) -> pd.DataFrame:
    """Rows of finished cells, as they come back from a file."""
    return _table(_csv(entries))


def _csv(entries: Sequence[Entry]) -> str:
    rows = [{**entry["cell"], **row} for entry in entries for row in entry["rows"]]
    return pd.DataFrame(rows).to_csv(index=False, float_format=DIGITS)


def _table(text: str) -> pd.DataFrame:
    return pd.read_csv(io.StringIO(text))


def _write_table(path: Path, spec: Any, entries: Sequence[Entry], command: str) -> Path:
    about = {
        "spec": plain(asdict(spec)),
        "command": command,
        "date": date.today().isoformat(),
        "versions": {name: version(name) for name in VERSIONS} | {"python": platform.python_version()},
        "seconds": round(sum(entry["seconds"] for entry in entries), 1),
    }
    header = "".join(f"# {name}: {json.dumps(about[name])}\n" for name in ABOUT)
    part = path.with_name(f".{path.name}.part")
    part.write_text(header + _csv(entries))
    os.replace(part, path)
    return path


def read(name: str, folder: Path = RESULTS) -> Result:
    """A shipped result.

    Raises:
        ValueError: if there is none, or its file is damaged.
    """
    path = folder / f"{name}.csv"
    try:
        lines = path.read_text().splitlines(keepends=True)
        header = list(takewhile(lambda line: line.startswith("# "), lines))
        about = {key: json.loads(value) for key, value in (line[2:].split(": ", 1) for line in header)}
        return Result(_table("".join(lines[len(header) :])), {key: about[key] for key in ABOUT})
    except FileNotFoundError:
        raise ValueError(f"there is no {path.name}; make it with `python -m core.experiments run {name}`") from None
    except (OSError, KeyError, ValueError) as problem:
        raise ValueError(
            f"{path.name} cannot be read ({problem}); make it with `python -m core.experiments run {name}`"
        ) from problem
