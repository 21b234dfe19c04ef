"""One cell of an experiment, computed again while a reader waits: in a child process, with progress and cancel.

`python -m core.experiments.live` is the child's side. It reads one JSON line {name, spec, cell} from its standard
input and answers in JSON lines {what, done, of}, then {rows} or {failed}.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from core import children
from core.children import Queue, State
from core.experiments import running
from core.experiments.running import Cell

COMMAND = [sys.executable, "-m", "core.experiments.live"]
TELL_EVERY = 0.1  # seconds between two lines on progress

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class LiveSnapshot:
    """A live cell at one moment.

    Attributes:
        state: where it is.
        ahead: others that run or wait before it.
        what, done, of: what it is busy with, and how many of them are done; of is 0 where that is not known.
        seconds: since it began to run.
        rows: of the table, once it has finished.
        message: a sentence where it failed.
    """

    state: State
    ahead: int = 0
    what: str = ""
    done: int = 0
    of: int = 0
    seconds: float = 0.0
    rows: tuple[Mapping[str, Any], ...] = ()
    message: str = ""


class LiveCell:
    """A cell in a queue, to be asked from any thread.

    Args:
        queue: where it waits.
        name: of the experiment.
        spec: its settings.
        cell: what to compute.
    """

    def __init__(self, queue: Queue, name: str, spec: Any, cell: Cell):
        self.name, self.spec, self.cell = name, spec, dict(cell)
        self._queue = queue
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._process: subprocess.Popen | None = None
        self._now: dict[str, Any] = {"state": State.QUEUED}
        self._began = self._over = 0.0
        queue.enter(self)

    def snapshot(self) -> LiveSnapshot:
        """How it goes; cheap enough to ask several times a second."""
        ahead = self._queue.ahead(self)
        with self._lock:
            until = self._over or time.monotonic()
            return LiveSnapshot(ahead=ahead, seconds=until - self._began if self._began else 0.0, **self._now)

    def cancel(self, patience: float = 0.0) -> None:
        """End it at once; nothing happens if it has ended already."""
        withdrawn = self._queue.withdraw(self)
        with self._lock:
            if not self._now["state"].active:
                return
            self._now = {"state": State.CANCELLED}
            if self._process is not None:
                self._process.kill()
        if withdrawn:
            self._ended.set()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the end; whether it was reached."""
        return self._ended.wait(timeout)

    def run(self) -> None:
        """Start the child and listen to it; called by the queue."""
        try:
            with self._lock:
                self._began = time.monotonic()
                if self._now["state"] is State.CANCELLED:
                    return
                self._now = {"state": State.RUNNING}
                self._process, errors = children.start(COMMAND)
            self._listen(self._process, errors)
        finally:
            with self._lock:
                self._over = time.monotonic()
                if self._now["state"].active:
                    message = "The computation ended unexpectedly; the server's log says why. Try again."
                    self._now = {"state": State.FAILED, "message": message}
            self._queue.leave(self)
            self._ended.set()

    def _listen(self, process: subprocess.Popen, errors: Any) -> None:
        request = {"name": self.name, "spec": asdict(self.spec), "cell": self.cell}
        try:
            children.write(process, f"{json.dumps(request, default=list)}\n".encode())
            assert process.stdout is not None
            while line := process.stdout.readline():
                self._take(json.loads(line))
            code = process.wait()
            if self.snapshot().state.active:
                log.error("a live cell of %s ended with %s: %s", self.name, code, children.last_words(errors))
        finally:
            children.end(process)
            errors.close()

    def _take(self, told: dict[str, Any]) -> None:
        with self._lock:
            if self._now["state"] is not State.RUNNING:  # cancelled meanwhile
                return
            if "rows" in told:
                self._now = {"state": State.FINISHED, "rows": tuple(told["rows"])}
            elif "failed" in told:
                self._now = {"state": State.FAILED, "message": told["failed"]}
            else:
                self._now = {"state": State.RUNNING, **told}


# --- the child's side -----------------------------------------------------------------------------------------------


def spec_of(experiment: running.Experiment, told: Mapping[str, Any]) -> Any:
    """A spec as JSON tells it: lists are tuples again.

    Raises:
        ValueError: for a field that the experiment's spec lacks.
    """
    kind = type(experiment.full)
    unknown = set(told) - {field.name for field in fields(kind)}
    if unknown:
        raise ValueError(f"{experiment.name} has no {', '.join(sorted(unknown))}")
    return kind(**{name: tuple(value) if isinstance(value, list) else value for name, value in told.items()})


def work() -> None:
    """One cell, as told on standard input."""
    orders, answers = children.open_channel()
    request = json.loads(children.read_line(orders))
    children.obey(orders, lambda line: None)
    last = 0.0

    def pass_on(what: str, done: int, of: int) -> None:
        nonlocal last
        if done == 0 or time.monotonic() - last > TELL_EVERY:
            last = time.monotonic()
            children.tell(answers, what=what, done=done, of=of)

    try:
        experiment = running.load(request["name"])
        running.watch(pass_on)
        rows = running.rows_of(
            experiment.live or experiment.measure, spec_of(experiment, request["spec"]), request["cell"]
        )
        children.tell(answers, rows=rows)
    except ValueError as problem:
        children.tell(answers, failed=f"{str(problem)[:1].upper()}{str(problem)[1:]}.")
    except MemoryError:
        children.tell(answers, failed="There was not enough memory for this.")
    # Without the interpreter's tidying up, which takes torch a while.
    os._exit(0)


if __name__ == "__main__":
    work()
