"""Work away from the page: child processes that answer in lines, and a fair queue of jobs that use them.

A thread of the page's own process would share the interpreter's lock with it, and both would be slow. The children are
plain programs, `python -m MODULE`: multiprocessing would run the page's script in them. A child reads what it has to do
from its standard input; the end of the input means that the server is gone, and it ends at once. It answers in JSON
lines on its standard output.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from pathlib import Path
from typing import IO, Any, BinaryIO, Protocol, runtime_checkable

NICENESS = 5  # the page comes first
LOG_TAIL = 2000  # characters of a failed child's error output that go to the log


class State(Enum):
    """Where a job is."""

    QUEUED = "Waiting for other jobs to end."
    RUNNING = "Under way."
    FINISHED = "Ran to its end."
    CANCELLED = "Cancelled."
    FAILED = "Failed."

    def __str__(self) -> str:
        return self.value

    @property
    def active(self) -> bool:
        """Whether there is still something to wait for."""
        return self in (State.QUEUED, State.RUNNING)


@runtime_checkable
class Job(Protocol):
    """What a queue knows of a job."""

    def run(self) -> None:
        """Do the work, in a thread of the queue's; leaves the queue at the end by `Queue.leave`."""

    def cancel(self, patience: float) -> None:
        """End it, within so many seconds."""


class Queue:
    """First come, first served.

    Args:
        at_once: jobs that run at a time.
    """

    def __init__(self, at_once: int = 1):
        self._at_once = at_once
        self._lock = threading.Lock()
        self._waiting: deque[Job] = deque()
        self._running: list[Job] = []
        self._closed = False

    def enter(self, job: Job) -> None:
        """Put a job at the end of the queue.

        Raises:
            RuntimeError: if the queue is closed.
        """
        with self._lock:
            if self._closed:
                raise RuntimeError("this queue is closed")
            self._waiting.append(job)
        self._advance()

    def leave(self, job: Job) -> None:
        """A job that ran has ended: the next one begins."""
        with self._lock:
            self._running.remove(job)
        self._advance()

    def withdraw(self, job: Job) -> bool:
        """Take a job out of the queue; False if it runs already."""
        with self._lock:
            waits = job in self._waiting
            if waits:
                self._waiting.remove(job)
        return waits

    def ahead(self, job: Job) -> int:
        """Jobs that run or wait before it; 0 if it does not wait."""
        with self._lock:
            return len(self._running) + self._waiting.index(job) if job in self._waiting else 0

    def close(self) -> None:
        """End every job at once and take no more."""
        with self._lock:
            self._closed = True
            jobs = [*self._waiting, *self._running]
        for job in jobs:
            job.cancel(patience=0)

    def _advance(self) -> None:
        with self._lock:
            while self._waiting and len(self._running) < self._at_once:
                job = self._waiting.popleft()
                self._running.append(job)
                threading.Thread(target=job.run, name="job", daemon=True).start()


# --- the server's side of a child -----------------------------------------------------------------------------------


def start(command: list[str]) -> tuple[subprocess.Popen, IO[bytes]]:
    """A child, and the file that its error output goes to: a pipe that nobody reads would stop it."""
    errors = tempfile.TemporaryFile()  # noqa: SIM115
    threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errors,
        env=os.environ | threads,
        # From here the child finds this very package, wherever the server was started.
        cwd=Path(__file__).parent.parent,
        # An interrupt typed into the server's terminal is the server's affair: the child ends with it.
        start_new_session=True,
    )
    return process, errors


def write(process: subprocess.Popen, *parts: bytes | memoryview) -> None:
    """Send bytes to a child. If it is gone, that is seen where its answers are read."""
    assert process.stdin is not None
    with suppress(OSError, ValueError):  # a broken pipe; a closed file
        for part in parts:
            process.stdin.write(part)
        process.stdin.flush()


def end(process: subprocess.Popen) -> None:
    """See to it that nothing of a child is left."""
    process.kill()
    process.wait()
    for stream in (process.stdin, process.stdout):
        with suppress(OSError):  # what was still to be written has no reader
            if stream is not None:
                stream.close()


def last_words(errors: IO[bytes]) -> str:
    """The end of a child's error output."""
    errors.seek(0)
    return errors.read().decode(errors="replace")[-LOG_TAIL:]


# --- the child's own side -------------------------------------------------------------------------------------------


def open_channel() -> tuple[BinaryIO, BinaryIO]:
    """What a child reads its orders from, and what it answers on; called once, before anything else.

    Only this program's messages go to standard output: whatever a library prints joins the errors. The input is
    unbuffered: a thread that waits in a buffered reader holds its lock, also when the program wants to end.
    """
    os.nice(NICENESS)
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return open(0, "rb", buffering=0, closefd=False), answers


def tell(answers: BinaryIO, **told: Any) -> None:
    """One line of an answer."""
    answers.write(json.dumps(told).encode() + b"\n")
    answers.flush()


def read_line(orders: BinaryIO) -> bytes:
    """One line of the orders; without one there is no server, and the child ends."""
    line = orders.readline()
    if not line:
        os._exit(1)
    return line


def obey(orders: BinaryIO, act: Callable[[bytes], None]) -> None:
    """From now on, pass on each further line of the orders, in a thread; end with the server."""

    def listen() -> None:
        while line := orders.readline():
            act(line)
        os._exit(1)

    threading.Thread(target=listen, daemon=True).start()
