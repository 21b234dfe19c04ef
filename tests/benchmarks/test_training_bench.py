"""Training as a user waits for it: seconds from the click to the models, and from Cancel to the end."""

import os
import sys
import time

import numpy as np
import pytest

from core import datasets, jobs, model_files
from core.jobs import State, TrainingQueue

pytestmark = pytest.mark.benchmark
LIMITS = {1000: 12.0, 5000: 25.0}  # seconds on two idle cores
CANCELS = 10


@pytest.fixture
def queue():
    queue = TrainingQueue()
    yield queue
    queue.close()


def points(size: int) -> np.ndarray:
    return datasets.load("two_spirals").density.sample(size, 0)


def waited(job) -> str:
    assert job.wait(300)
    assert job.snapshot().state is State.FINISHED, job.snapshot().message
    fits = model_files.describe(job.models())["models"]
    return ", ".join(f"{kind} {fit['steps']} steps in {fit['seconds']:.1f} s" for kind, fit in fits.items())


@pytest.mark.parametrize("size", LIMITS)
def test_from_submit_to_finished(size, queue):
    began = time.perf_counter()
    job = queue.submit(points(size))
    submitted = time.perf_counter() - began
    parts = waited(job)
    seconds = time.perf_counter() - began
    print(f"\nn = {size}: {seconds:.1f} s (wanted {LIMITS[size]:.0f}); {parts}; submit {submitted * 1e3:.1f} ms; "
          f"load {os.getloadavg()[0]:.1f}")  # fmt: skip


@pytest.mark.parametrize("size", LIMITS)
def test_two_sessions_at_once(size, queue):
    began = time.perf_counter()
    both = [queue.submit(points(size), seed=seed) for seed in range(2)]
    ends = []
    for job in both:
        waited(job)
        ends.append(time.perf_counter() - began)
    print(f"\nn = {size}, two queued: {ends[0]:.1f} and {ends[1]:.1f} s")


def test_cancel(queue):
    seconds, kept = [], 0
    for turn in range(CANCELS):
        job = queue.submit(points(1000), seed=turn)
        # From the loading of torch to late in the training.
        job.wait(0.5 + 0.6 * turn)
        began = time.perf_counter()
        job.cancel()
        assert job.wait(10)
        seconds.append(time.perf_counter() - began)
        kept += job.models() is not None
    print(
        f"\ncancel: median {np.median(seconds) * 1e3:.0f} ms, max {max(seconds) * 1e3:.0f} ms; "
        f"{kept} of {CANCELS} kept models"
    )
    assert max(seconds) < 1


def test_cancel_of_children_that_do_not_listen(queue, monkeypatch):
    deaf = """print('{"step": 1, "loss": 2.0, "held_out": null}', flush=True); import time; time.sleep(10**6)"""
    monkeypatch.setattr(jobs, "COMMAND", [sys.executable, "-c", deaf])
    job = queue.submit(points(1000))
    while not all(curve.steps for curve in job.snapshot().curves.values()) or len(job.snapshot().curves) < 2:
        assert not job.wait(0.01)
    began = time.perf_counter()
    job.cancel()
    assert job.wait(10)
    seconds = time.perf_counter() - began
    print(f"\ncancel of deaf children: {seconds * 1e3:.0f} ms")
    assert seconds < 1
