"""Training away from the page: a fair queue of jobs, each of two child processes.

A thread of the page's own process would share the interpreter's lock with it, and both would be slow.  A job trains the
flow and the score model side by side, one process and one thread each.  Nothing here loads torch in the parent.

The children are plain programs, `python -m core.jobs`: multiprocessing would run the page's script in them.  A child
reads one JSON line and the points from its standard input, then lines of commands; the end of the input means that the
server is gone, and it ends at once.  It answers in JSON lines, the last of which announces the bytes of the model.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any, BinaryIO

import numpy as np

from core.checkpoints import KINDS, MAX_DIM, fingerprint, merge, pack

CANCEL_PATIENCE = 0.8  # seconds a child has to hand over its last good model
NICENESS = 5  # the page comes first
HELD_OUT_SHARE, HELD_OUT_LEAST, HELD_OUT_MOST = 0.1, 2, 2000
LOG_TAIL = 2000  # characters of a failed child's error output that go to the log
COMMAND = [sys.executable, "-m", "core.jobs"]
CANCEL = b"cancel\n"
NAMES = {"flow": "flow", "score_model": "score model"}

log = logging.getLogger(__name__)


class State(Enum):
    """Where a job is."""

    QUEUED = "Waiting for other trainings to end."
    RUNNING = "Training is under way."
    FINISHED = "Training ran to its end."
    CANCELLED = "Training was cancelled."
    FAILED = "Training failed."

    def __str__(self) -> str:
        return self.value

    @property
    def active(self) -> bool:
        """Whether there is still something to wait for."""
        return self in (State.QUEUED, State.RUNNING)


@dataclass(frozen=True)
class Curve:
    """Losses over steps, whitened units.

    Args:
        steps: where they were recorded.
        training: mean loss of the steps since the one before.
        held_out: loss on points that no step saw, None where it is not finite; empty if there are no such points.
    """

    steps: tuple[int, ...] = ()
    training: tuple[float, ...] = ()
    held_out: tuple[float | None, ...] = ()


@dataclass(frozen=True)
class Snapshot:
    """A job at one moment.

    Args:
        state: where it is.
        ahead: jobs that run or wait before it; 0 unless it is queued.
        fraction: steps done, of the network that has most to do; 0 to 1, never falling.
        seconds: since it began to run.
        seconds_left: by the pace so far, or None where that is not known yet.
        curves: "flow" and "score_model" -> its losses.
        message: a sentence on how it goes, or how it ended and what was kept.
    """

    state: State
    ahead: int
    fraction: float
    seconds: float
    seconds_left: float | None
    curves: Mapping[str, Curve]
    message: str


# --- the server's side ----------------------------------------------------------------------------------------------


class TrainingQueue:
    """First come, first served.

    Args:
        at_once: jobs that run at a time; each keeps two cores busy.
    """

    def __init__(self, at_once: int = 1):
        self._at_once = at_once
        self._lock = threading.Lock()
        self._waiting: deque[Job] = deque()
        self._running: list[Job] = []
        self._closed = False

    def submit(
        self, points: np.ndarray, preset: str = "fast", seed: int = 0, held_out: np.ndarray | None = None
    ) -> Job:
        """A new job at the end of the queue; points that cannot be trained on make it fail, with a sentence.

        Args:
            points: (N, D) data units.
            preset: as in `core.training.train`.
            seed: the same seed gives the same numbers.
            held_out: (M, D) points that no step sees; by default the job sets aside a tenth of `points`, at most 2000.

        Raises:
            ValueError: if the points are no numbers.
            RuntimeError: if the queue is closed.
        """
        # Copies, since the caller may change its arrays while the job waits.
        job = Job(self, np.array(points, "<f8", order="C"), preset, seed, _copied(held_out))
        with self._lock:
            if self._closed:
                raise RuntimeError("this queue is closed")
            self._waiting.append(job)
        self._advance()
        return job

    def close(self) -> None:
        """End every job at once and take no more."""
        with self._lock:
            self._closed = True
            jobs = [*self._waiting, *self._running]
        for job in jobs:
            job.cancel(patience=0)

    def _advance(self, ended: Job | None = None) -> None:
        with self._lock:
            if ended in self._running:
                self._running.remove(ended)
            while self._waiting and len(self._running) < self._at_once:
                job = self._waiting.popleft()
                self._running.append(job)
                threading.Thread(target=job._run, name="training", daemon=True).start()

    def _withdraw(self, job: Job) -> bool:
        """Take a job out of the queue; False if it runs already."""
        with self._lock:
            waits = job in self._waiting
            if waits:
                self._waiting.remove(job)
        return waits

    def _ahead(self, job: Job) -> int:
        with self._lock:
            return len(self._running) + self._waiting.index(job) if job in self._waiting else 0


def _copied(points: np.ndarray | None) -> np.ndarray | None:
    return None if points is None else np.array(points, "<f8", order="C")


@dataclass
class _Child:
    """One process of a job: what it has told so far."""

    kind: str
    process: subprocess.Popen
    errors: IO[bytes]
    steps: list[int] = field(default_factory=list)
    training: list[float] = field(default_factory=list)
    held_out: list[float | None] = field(default_factory=list)
    fraction: float = 0.0
    seconds: float = 0.0  # by the child's clock: here two lines may be read at once
    first: tuple[float, float] | None = None  # fraction and seconds of the first progress
    moment: float = 0.0  # of the latest progress, by this process's clock
    status: str = ""
    model: bytes | None = None
    failure: str = ""
    killed: bool = False
    ended: bool = False

    def seconds_left(self, now: float) -> float | None:
        """By the pace since the first progress."""
        if self.ended or self.fraction >= 1:
            return 0.0
        if self.first is None or self.fraction <= self.first[0]:
            return None
        pace = (self.fraction - self.first[0]) / (self.seconds - self.first[1])
        return max((1 - self.fraction) / pace - (now - self.moment), 0.0)

    def last_words(self) -> str:
        """The end of its error output."""
        self.errors.seek(0)
        return self.errors.read().decode(errors="replace")[-LOG_TAIL:]

    def kill(self) -> None:
        """End it now; what it told so far stays."""
        self.killed = True
        self.process.kill()


class Job:
    """A training in a queue; made by `TrainingQueue.submit`, to be asked from any thread."""

    def __init__(self, queue: TrainingQueue, points: np.ndarray, preset: str, seed: int, held_out: np.ndarray | None):
        self._queue = queue
        self._request = points, preset, seed, held_out
        self._changed = threading.Condition()
        self._state, self._message = State.QUEUED, ""
        self._children: list[_Child] = []
        self._began = self._over = 0.0
        self._deadline: float | None = None  # of the children, once the job is cancelled
        self._models: bytes | None = None

    def snapshot(self) -> Snapshot:
        """How it goes; cheap enough to ask several times a second."""
        ahead = self._queue._ahead(self)
        with self._changed:
            now = time.monotonic()
            running = self._state is State.RUNNING
            left = [child.seconds_left(now) for child in self._children] if running else []
            seconds_left = None if not left or None in left else max(s for s in left if s is not None)
            curves = {
                c.kind: Curve(tuple(c.steps), tuple(c.training), tuple(c.held_out) if set(c.held_out) - {None} else ())
                for c in self._children
            }
            message = self._message
            if self._state is State.QUEUED:
                others = "another training" if ahead == 1 else f"{ahead} other trainings"
                message = f"Waiting for {others} to end." if ahead else "About to begin."
            return Snapshot(
                self._state,
                ahead if self._state is State.QUEUED else 0,
                1.0 if self._state is State.FINISHED else min((c.fraction for c in self._children), default=0.0),
                (now if running else self._over) - self._began if self._began else 0.0,
                seconds_left if running else 0.0 if not self._state.active else None,
                MappingProxyType(curves),
                message,
            )

    def cancel(self, patience: float = CANCEL_PATIENCE) -> None:
        """End it within a second, and keep the last good models; nothing happens if it has ended already."""
        withdrawn = self._queue._withdraw(self)
        with self._changed:
            if withdrawn:
                self._end(State.CANCELLED, "Training was cancelled before it began.")
            elif self._state.active and self._deadline is None:
                self._deadline = time.monotonic() + patience
                for child in self._children:
                    # Before its first steps a child has nothing to keep, and may be too busy loading torch to listen.
                    if child.steps and patience > 0:
                        _write(child.process, CANCEL)
                    else:
                        child.kill()
                self._changed.notify_all()

    def models(self) -> bytes | None:
        """The file of models, see `core.checkpoints.unpack`: both if it finished, what was kept if it was cancelled."""
        with self._changed:
            return self._models

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the end; whether it was reached."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._state.active, timeout)

    # Supervision: this thread starts the children and ends them; one thread a child listens to it.

    def _run(self) -> None:
        try:
            with self._changed:
                self._state, self._message = State.RUNNING, "Loading torch."
                self._began = time.monotonic()
                # Cancelled on the way from the queue to here: there is nothing to start.
                for kind in KINDS if self._deadline is None else ():
                    self._children.append(_Child(kind, *_started()))
                    threading.Thread(target=self._listen, args=(self._children[-1],), daemon=True).start()
                while not all(child.ended for child in self._children):
                    late = self._deadline is not None and time.monotonic() >= self._deadline
                    if late or any(child.failure for child in self._children):
                        for child in self._children:
                            child.kill()
                    self._changed.wait(None if self._deadline is None or late else self._deadline - time.monotonic())
            # The children have ended, so that nobody else changes what is read here without the lock.
            self._end(*self._outcome())
        finally:
            if self._state.active:
                for child in self._children:
                    child.kill()
                self._end(State.FAILED, _why(0))
            self._queue._advance(ended=self)

    def _listen(self, child: _Child) -> None:
        """Give a child its work and take in what it tells, until it ends."""
        points, preset, seed, held_out = self._request
        arrays = [points] if held_out is None else [points, held_out]
        shapes = [array.shape for array in arrays]
        request = json.dumps({"kind": child.kind, "preset": preset, "seed": seed, "shapes": shapes})
        answers, code = child.process.stdout, 0
        assert answers is not None
        try:
            _write(child.process, f"{request}\n".encode(), *(array.data for array in arrays))
            while line := answers.readline():
                told = json.loads(line)
                model = answers.read(told["bytes"]) if "bytes" in told else None
                with self._changed:
                    self._take(child, told, model)
                    self._changed.notify_all()
            code = child.process.wait()
        finally:
            child.process.kill()
            child.process.wait()
            for stream in (child.process.stdin, answers):
                _close(stream)
            with self._changed:
                if not (child.model or child.failure or child.killed):
                    child.failure = _why(code)
                    log.error("the training of the %s ended with %s: %s", NAMES[child.kind], code, child.last_words())
                child.errors.close()
                child.ended = True
                self._changed.notify_all()

    def _take(self, child: _Child, told: dict[str, Any], model: bytes | None) -> None:
        now = time.monotonic()
        if "fraction" in told:
            self._message = str(State.RUNNING)
            child.fraction, child.seconds, child.moment = told["fraction"], told["seconds"], now
            child.first = child.first or (child.fraction, child.seconds)
        elif "step" in told:
            child.steps.append(told["step"])
            child.training.append(told["loss"])
            child.held_out.append(told["held_out"])
        elif "failed" in told:
            child.failure = told["failed"]
        elif model is not None and len(model) == told["bytes"]:
            child.status, child.model = told["status"], model
            if told["status"] == "DIVERGED":
                child.failure = (
                    f"The {NAMES[child.kind]}'s loss became infinite. Try the fast preset, or look for outliers."
                )

    def _outcome(self) -> tuple[State, str, bytes | None]:
        """State, message and models of a job whose children have all ended."""
        failures = [child.failure for child in self._children if child.failure]
        if failures:
            return State.FAILED, failures[0], None
        # A model without a recorded loss is an untrained one: nobody wants it kept.
        kept = {c.kind: c for c in self._children if c.model and c.steps}
        files = [child.model for child in kept.values() if child.model]
        models = merge(*files) if len(files) == 2 else files[0] if files else None
        if len(kept) == len(KINDS) and all(child.status == "FINISHED" for child in self._children):
            return State.FINISHED, str(State.FINISHED), models
        return State.CANCELLED, _kept_in_words(kept), models

    def _end(self, state: State, message: str, models: bytes | None = None) -> None:
        with self._changed:
            self._state, self._message, self._models, self._over = state, message, models, time.monotonic()
            self._changed.notify_all()


def _kept_in_words(kept: Mapping[str, _Child]) -> str:
    if not kept:
        return "Training was cancelled before there was anything to keep."
    what = " and ".join(f"the {NAMES[kind]} of step {child.steps[-1]}" for kind, child in kept.items())
    both = len(kept) == len(KINDS)
    only = "" if both else "; a score model needs a flow beside it" if "score_model" in kept else ", no score model"
    return f"Training was cancelled. Kept: {what}{only}. Train again for the full number of steps."


def _why(code: int) -> str:
    """Why a child may have ended without a word."""
    if code < 0:
        return (
            f"The training was ended by the system (signal {-code}), perhaps for want of memory. "
            "Train on fewer points, or try again later."
        )
    return "The training ended unexpectedly; the server's log says why. Try again, or train on other points."


def _started() -> tuple[subprocess.Popen, IO[bytes]]:
    """A child, and the file that its error output goes to: a pipe that nobody reads would stop it."""
    errors = tempfile.TemporaryFile()  # noqa: SIM115
    threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    process = subprocess.Popen(
        COMMAND,
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


def _write(process: subprocess.Popen, *parts: bytes | memoryview) -> None:
    """Send bytes to a child. If it is gone, that is seen where its answers are read."""
    assert process.stdin is not None
    with suppress(OSError, ValueError):  # a broken pipe; a closed file
        for part in parts:
            process.stdin.write(part)
        process.stdin.flush()


def _close(stream: IO[bytes] | None) -> None:
    with suppress(OSError):  # what was still to be written has no reader
        if stream is not None:
            stream.close()


# --- the child's side -----------------------------------------------------------------------------------------------


def work() -> None:
    """One training, as told on standard input."""
    os.nice(NICENESS)
    # Only this program's messages go to standard output: whatever a library prints joins the errors.
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    # Unbuffered: a thread that waits in a buffered reader holds its lock, also when the program wants to end.
    commands: BinaryIO = open(0, "rb", buffering=0, closefd=False)  # noqa: SIM115
    request = json.loads(_line(commands))
    arrays = [_array(commands, shape) for shape in request["shapes"]]
    cancel = threading.Event()
    threading.Thread(target=_obey, args=(commands, cancel), daemon=True).start()

    def tell(**told: Any) -> None:
        out.write(json.dumps(told).encode() + b"\n")
        out.flush()

    try:
        model, status = _train(request, arrays, cancel, tell)
        tell(bytes=len(model), status=status)
        out.write(model)
        out.flush()
    except ValueError as error:
        tell(failed=f"{str(error)[:1].upper()}{str(error)[1:]}.")
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and "memory" not in str(error):
            raise
        tell(failed="There was not enough memory for this training. Train on fewer points.")
    # Without the interpreter's tidying up, which takes torch a while.
    os._exit(0)


def _train(request: dict[str, Any], arrays: list[np.ndarray], cancel: threading.Event, tell: Any) -> tuple[bytes, str]:
    """The packed model and its status."""
    from core import training
    from core.densities import as_points

    points = as_points(arrays[0], None, "points")
    if points.shape[1] > MAX_DIM:
        raise ValueError(f"points: wanted at most {MAX_DIM} columns, got {points.shape[1]}")
    about = {
        "preset": request["preset"],
        "seed": request["seed"],
        "size": len(points),
        "points_sha256": fingerprint(points),
    }
    seen, held_out = (points, arrays[1]) if len(arrays) > 1 else split(points, request["seed"], training.MIN_POINTS)
    about |= {"trained_on": len(seen), "held_out": 0 if held_out is None else min(len(held_out), HELD_OUT_MOST)}

    def record(step: int, loss: float, held: float | None) -> None:
        tell(step=step, loss=loss, held_out=held if held is not None and np.isfinite(held) else None)

    began = time.perf_counter()

    def progress(done: float, _: str) -> None:
        tell(fraction=done, seconds=time.perf_counter() - began)

    flow, score_model = None, None
    arguments = (seen, request["preset"], request["seed"], progress, cancel, held_out, record)
    if request["kind"] == "flow":
        flow, report = training.train_flow(*arguments)
    else:
        score_model, report = training.train_score(*arguments)
    made = {
        "status": report.status.name,
        "steps": report.steps,
        "seconds": round(report.seconds, 2),
        "noise": report.noise,
        "losses": report.losses,
        "held_out_losses": [[s, loss if np.isfinite(loss) else None] for s, loss in report.held_out_losses],
    }
    return pack(flow, score_model, about | {"models": {request["kind"]: made}}), report.status.name


def split(points: np.ndarray, seed: int, least: int) -> tuple[np.ndarray, np.ndarray | None]:
    """Points to train on, at least `least`, and a tenth of them set aside; None where too few are left for that."""
    size = len(points)
    aside = min(max(round(HELD_OUT_SHARE * size), HELD_OUT_LEAST), HELD_OUT_MOST, size - least)
    if aside < HELD_OUT_LEAST:
        return points, None
    rows = np.random.default_rng(seed).permutation(size)
    return points[np.sort(rows[aside:])], points[np.sort(rows[:aside])]


def _obey(commands: BinaryIO, cancel: threading.Event) -> None:
    """Set the flag at the word of command; end with the server, whose last sign is the end of the input."""
    while line := commands.readline():
        if line == CANCEL:
            cancel.set()
    os._exit(1)


def _line(commands: BinaryIO) -> bytes:
    line = commands.readline()
    if not line:
        os._exit(1)
    return line


def _array(commands: BinaryIO, shape: list[int]) -> np.ndarray:
    data = bytearray(8 * int(np.prod(shape)))
    filled, view = 0, memoryview(data)
    while filled < len(data):
        count = commands.readinto(view[filled:])  # type: ignore[attr-defined]
        if not count:
            os._exit(1)
        filled += count
    return np.frombuffer(data, "<f8").reshape(shape)


if __name__ == "__main__":
    work()
