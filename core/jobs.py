"""Training away from the page: jobs in a fair queue, each of two child processes (`core.training_child`).

A job trains the flow and the score model side by side, one process and one thread each. Nothing here loads torch.
"""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import IO, Any

import numpy as np

from core import children
from core.children import State
from core.model_files import KINDS, merge

CANCEL_PATIENCE = 0.8  # seconds a child has to hand over its last good model
COMMAND = [sys.executable, "-m", "core.training_child"]
CANCEL = b"cancel\n"
UNDER_WAY = "Training is under way."
NAMES = {"flow": "flow", "score_model": "score model"}

log = logging.getLogger(__name__)


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


class TrainingQueue(children.Queue):
    """Trainings, first come, first served; each keeps two cores busy."""

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
        self.enter(job)
        return job


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
        ahead = self._queue.ahead(self)
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
        withdrawn = self._queue.withdraw(self)
        with self._changed:
            if withdrawn:
                self._end(State.CANCELLED, "Training was cancelled before it began.")
            elif self._state.active and self._deadline is None:
                self._deadline = time.monotonic() + patience
                for child in self._children:
                    # Before its first steps a child has nothing to keep, and may be too busy loading torch to listen.
                    if child.steps and patience > 0:
                        children.write(child.process, CANCEL)
                    else:
                        child.kill()
                self._changed.notify_all()

    def models(self) -> bytes | None:
        """The file of models, see `core.model_files.unpack`: both if it finished, what was kept if it was cancelled."""
        with self._changed:
            return self._models

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the end; whether it was reached."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._state.active, timeout)

    # Supervision: this thread starts the children and ends them; one thread a child listens to it.

    def run(self) -> None:
        """Start the children and wait for them; called by the queue."""
        try:
            with self._changed:
                self._state, self._message = State.RUNNING, "Loading torch."
                self._began = time.monotonic()
                # Cancelled on the way from the queue to here: there is nothing to start.
                for kind in KINDS if self._deadline is None else ():
                    self._children.append(_Child(kind, *children.start(COMMAND)))
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
            self._queue.leave(self)

    def _listen(self, child: _Child) -> None:
        """Give a child its work and take in what it tells, until it ends."""
        points, preset, seed, held_out = self._request
        arrays = [points] if held_out is None else [points, held_out]
        shapes = [array.shape for array in arrays]
        request = json.dumps({"kind": child.kind, "preset": preset, "seed": seed, "shapes": shapes})
        answers, code = child.process.stdout, 0
        assert answers is not None
        try:
            children.write(child.process, f"{request}\n".encode(), *(array.data for array in arrays))
            while line := answers.readline():
                told = json.loads(line)
                model = answers.read(told["bytes"]) if "bytes" in told else None
                with self._changed:
                    self._take(child, told, model)
                    self._changed.notify_all()
            code = child.process.wait()
        finally:
            children.end(child.process)
            with self._changed:
                if not (child.model or child.failure or child.killed):
                    child.failure = _why(code)
                    said = children.last_words(child.errors)
                    log.error("the training of the %s ended with %s: %s", NAMES[child.kind], code, said)
                child.errors.close()
                child.ended = True
                self._changed.notify_all()

    def _take(self, child: _Child, told: dict[str, Any], model: bytes | None) -> None:
        now = time.monotonic()
        if "fraction" in told:
            self._message = UNDER_WAY
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
            return State.FINISHED, "Training ran to its end.", models
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
