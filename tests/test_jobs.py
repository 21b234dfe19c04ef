"""Jobs: they train what the same call would, can be cancelled, queue in order, and leave no process behind.

How fast, `tests/benchmarks/test_training_bench.py` and `test_waits_bench.py` say.
"""

import logging
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from core import densities, jobs, model_files, training, training_child
from core.jobs import State, TrainingQueue

POINTS = densities.standard_normal(2).sample(40, 0)
LONG = 60.0  # seconds, on a busy machine


@pytest.fixture
def queue():
    queue = TrainingQueue()
    yield queue
    queue.close()


def children(parent: int) -> list[int]:
    """Training processes of a process, zombies too."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(fields[1]) == parent:
            found.append(int(folder.name))
    return found


@pytest.fixture(autouse=True)
def own():
    """Processes that a test has started and not ended yet; none when it is over."""
    others = set(children(os.getpid()))
    yield lambda: set(children(os.getpid())) - others
    until(lambda: set(children(os.getpid())) <= others)


def runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def until(condition):
    """Wait for it."""
    deadline = time.monotonic() + LONG
    while not condition():
        assert time.monotonic() < deadline, "it did not come to that"
        time.sleep(0.01)


def cancel(job):
    """Cancel a job and wait until it has ended."""
    job.cancel()
    assert job.wait(LONG)


def test_a_job_trains_what_the_same_calls_would(queue, own):
    job, seen = queue.submit(POINTS, seed=3), []
    while not job.wait(0.02):
        seen.append(job.snapshot())
    last = job.snapshot()
    assert last.state is State.FINISHED, last.message
    assert (last.fraction, last.seconds_left, last.ahead) == (1.0, 0.0, 0)
    for before, after in zip(seen, [*seen[1:], last]):
        assert before.fraction <= after.fraction
        assert before.seconds <= after.seconds
        assert all(len(before.curves[k].steps) <= len(after.curves[k].steps) for k in before.curves)
    known = [now.seconds_left for now in seen if now.seconds_left is not None]
    assert known
    assert 0 <= min(known) <= max(known) < LONG
    found = model_files.unpack(job.models())
    part, held_out = training_child.split(POINTS, 3, training.MIN_POINTS)
    flow, report = training.train_flow(part, seed=3, held_out=held_out)
    np.testing.assert_array_equal(found.flow.log_density(POINTS), flow.log_density(POINTS))
    assert np.isfinite(found.score_model.score(POINTS)).all()
    curve = last.curves["flow"]
    assert tuple(zip(curve.steps, curve.training)) == report.losses
    assert tuple(zip(curve.steps, curve.held_out)) == report.held_out_losses
    about = found.about
    assert (about["preset"], about["seed"], about["size"], about["trained_on"], about["held_out"]) == (
        "fast",
        3,
        40,
        36,
        4,
    )
    assert about["points_sha256"] == model_files.fingerprint(POINTS)
    assert about["models"]["flow"]["losses"] == [list(pair) for pair in report.losses]
    assert about["models"]["score_model"]["status"] == "FINISHED"
    assert not own()
    job.cancel()
    assert job.snapshot().state is State.FINISHED


def test_jobs_run_in_order_and_a_cancelled_one_leaves_the_queue(queue, own):
    first, second, third = (queue.submit(POINTS, seed=seed) for seed in range(3))
    until(lambda: first.snapshot().state is State.RUNNING)
    assert [job.snapshot().ahead for job in (first, second, third)] == [0, 1, 2]
    assert "Waiting for another training" in second.snapshot().message
    cancel(second)
    assert (second.snapshot().state, second.models()) == (State.CANCELLED, None)
    assert third.snapshot().ahead == 1
    assert third.snapshot().state is State.QUEUED
    # While torch is being loaded there is nothing to keep.
    assert first.snapshot().state is State.RUNNING
    cancel(first)
    assert "before there was anything to keep" in first.snapshot().message
    assert first.models() is None
    # In the middle of its training a job keeps what it has.
    until(lambda: all(curve.steps for curve in third.snapshot().curves.values()) and third.snapshot().curves)
    cancel(third)
    last = third.snapshot()
    assert last.state is State.CANCELLED, last.message
    assert "Kept: the flow of step" in last.message
    assert 0 < last.fraction < 1
    found = model_files.unpack(third.models())
    assert found.about["models"]["flow"]["status"] == "CANCELLED"
    assert np.isfinite(found.flow.log_density(POINTS)).all()
    assert np.isfinite(found.score_model.score(POINTS)).all()
    until(lambda: not own())


def test_two_at_once_and_closing_ends_all(own):
    queue = TrainingQueue(at_once=2)
    both = [queue.submit(POINTS, seed=seed) for seed in range(3)]
    until(lambda: sum(job.snapshot().state is State.RUNNING for job in both) == 2)
    assert both[2].snapshot().state is State.QUEUED
    queue.close()
    for job in both:
        assert job.wait(1)
        assert job.snapshot().state is State.CANCELLED
    assert not own()
    with pytest.raises(RuntimeError, match="closed"):
        queue.submit(POINTS)


def test_bad_points_fail_with_a_sentence():
    queue = TrainingQueue(at_once=3)
    holes = POINTS.copy()
    holes[3, 1] = np.nan
    cases = {
        "Points: wanted at least 20 to train on, got 19.": (POINTS[:19], "fast"),
        "Points should hold finite numbers only; got 1 NaN or inf.": (holes, "fast"),
        "Points should have shape (N, D); got shape (40,).": (POINTS[:, 0], "fast"),
        "Points: wanted some spread in every column": (np.ones((30, 2)), "fast"),
        "Points: wanted at most 50 columns, got 51.": (np.ones((60, 51)), "fast"),
        "Preset: wanted one of paper, fast, got 'slow'.": (POINTS, "slow"),
    }
    submitted = {said: queue.submit(*given) for said, given in cases.items()}
    for said, job in submitted.items():
        assert job.wait(LONG)
        now = job.snapshot()
        assert now.state is State.FAILED
        assert said in now.message
        assert job.models() is None
    queue.close()
    with pytest.raises(ValueError, match="could not convert"):
        TrainingQueue().submit(np.array([["a", "b"]]))


MISBEHAVING = {
    "an error": ("raise SystemError('the cause')", "ended unexpectedly", "the cause"),
    "killed": ("import os; os.kill(os.getpid(), 9)", "signal 9.*memory", "ended with -9"),
    "no protocol": ("print('Hello', flush=True); import time; time.sleep(60)", "ended unexpectedly", ""),
    "half a model": ("""print('{"bytes": 9, "status": "FINISHED"}'); print('abc')""", "ended unexpectedly", ""),
    "much noise": ("import sys; sys.stderr.write('x' * 10**6); sys.exit(3)", "ended unexpectedly", "xxx"),
    "a divergence": (
        """print('{"bytes": 1, "status": "DIVERGED"}'); print('x', end='')""",
        "loss became infinite. Try the fast preset",
        "",
    ),
}


@pytest.mark.parametrize("case", MISBEHAVING)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_child_that_misbehaves_fails_the_job_with_a_sentence(case, queue, monkeypatch, caplog, own):
    code, said, logged = MISBEHAVING[case]
    monkeypatch.setattr(jobs, "COMMAND", [sys.executable, "-c", code])
    with caplog.at_level(logging.ERROR, "core.jobs"):
        job = queue.submit(POINTS)
        assert job.wait(LONG)
    now = job.snapshot()
    assert now.state is State.FAILED
    assert re.search(said, now.message)
    assert logged in caplog.text
    assert not own()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_job_that_cannot_be_started_fails(queue, monkeypatch):
    monkeypatch.setattr(jobs, "COMMAND", ["/no/such/program"])
    job = queue.submit(POINTS)
    assert job.wait(LONG)
    assert job.snapshot().state is State.FAILED
    monkeypatch.undo()
    assert queue.submit(POINTS[:5]).wait(LONG)


def test_a_child_that_does_not_listen_is_killed(queue, monkeypatch, own):
    deaf = """print('{"step": 1, "loss": 2.0, "held_out": null}', flush=True); import time; time.sleep(10**6)"""
    monkeypatch.setattr(jobs, "COMMAND", [sys.executable, "-c", deaf])
    job = queue.submit(POINTS)
    until(lambda: len(job.snapshot().curves) == 2 and all(c.steps for c in job.snapshot().curves.values()))
    cancel(job)
    assert job.snapshot().state is State.CANCELLED
    assert job.models() is None
    assert not own()


SERVER = """
import sys, time
import numpy as np
from core.jobs import TrainingQueue
job = TrainingQueue().submit(np.random.default_rng(0).normal(size=(5000, 2)), preset="paper")  # many minutes
while not (all(c.steps for c in job.snapshot().curves.values()) and job.snapshot().curves):
    if sys.argv[1] == "loading" and job.snapshot().curves:
        break
    time.sleep(0.01)
assert "torch" not in sys.modules
print("now", flush=True)
time.sleep(100)
"""


@pytest.mark.parametrize("moment", ["loading", "training"])
def test_a_killed_server_leaves_no_process_behind(moment):
    server = subprocess.Popen([sys.executable, "-c", SERVER, moment], stdout=subprocess.PIPE)
    assert server.stdout.readline() == b"now\n"
    pids = children(server.pid)
    assert len(pids) == 2
    os.kill(server.pid, signal.SIGKILL)
    server.wait()
    server.stdout.close()
    until(lambda: not any(runs(pid) for pid in pids))


@pytest.mark.parametrize(("size", "aside"), [(20, 0), (21, 0), (22, 2), (40, 4), (1000, 100), (50_000, 2000)])
def test_a_tenth_is_set_aside_where_enough_is_left(size, aside):
    points = np.arange(2.0 * size).reshape(size, 2)
    seen, held_out = training_child.split(points, 0, training.MIN_POINTS)
    assert len(seen) == size - aside
    assert (held_out is None) == (aside == 0)
    both = seen if held_out is None else np.concatenate([seen, held_out])
    np.testing.assert_array_equal(both[np.argsort(both[:, 0])], points)
    np.testing.assert_array_equal(seen, training_child.split(points, 0, training.MIN_POINTS)[0])


def test_states_are_sentences():
    for state in State:
        assert str(state).endswith(".")
    assert [state for state in State if state.active] == [State.QUEUED, State.RUNNING]
