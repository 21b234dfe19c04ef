"""Cells that a reader computes again: in a child, with progress, cancel and a queue."""

import subprocess
import sys
import time
from dataclasses import replace

import pytest

from core.children import Queue, State
from core.experiments import journal, kde_tradeoff, live, running

SPEC = replace(kde_tradeoff.EXPERIMENT.full, sizes=(100,), draws=4, bandwidths=6)
CELL = {"part": "mise", "size": 100}


@pytest.fixture
def queue():
    queue = Queue()
    yield queue
    queue.close()


def until(holds, seconds=30):
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it did not come to that"
        time.sleep(0.01)


def test_a_live_cell_is_the_measured_one(queue):
    cell = live.LiveCell(queue, "kde_tradeoff", SPEC, CELL)
    assert cell.wait(60)
    now = cell.snapshot()
    assert (now.state, now.message) == (State.FINISHED, "")
    assert list(now.rows) == running.rows_of(kde_tradeoff.measure, SPEC, CELL)
    assert now.seconds > 0


def test_it_tells_how_far_it_is(queue):
    spec = replace(SPEC, sizes=(4000,), draws=400)
    cell = live.LiveCell(queue, "kde_tradeoff", spec, {"part": "mise", "size": 4000})
    until(lambda: cell.snapshot().done > 1)
    now = cell.snapshot()
    assert (now.state, now.what, now.of) == (State.RUNNING, "samples", 400)
    cell.cancel()
    assert cell.wait(60)
    assert cell.snapshot().state is State.CANCELLED
    assert cell.snapshot().rows == ()


def test_the_second_waits_for_the_first(queue):
    long = replace(SPEC, sizes=(4000,), draws=400)
    first = live.LiveCell(queue, "kde_tradeoff", long, {"part": "mise", "size": 4000})
    second = live.LiveCell(queue, "kde_tradeoff", SPEC, CELL)
    third = live.LiveCell(queue, "kde_tradeoff", SPEC, CELL)
    assert (second.snapshot().state, second.snapshot().ahead, third.snapshot().ahead) == (State.QUEUED, 1, 2)
    third.cancel()
    assert third.snapshot().state is State.CANCELLED
    first.cancel()
    assert second.wait(60)
    assert second.snapshot().state is State.FINISHED


def test_bad_input_is_a_sentence(queue):
    cell = live.LiveCell(queue, "convergence", SPEC, CELL)
    assert cell.wait(60)
    now = cell.snapshot()
    assert now.state is State.FAILED
    assert now.message == "Convergence has no bandwidths, draws, narrowest, seed, widest."


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("code", ["import sys; sys.exit(3)", "print('no JSON')", "pass"])
def test_a_child_that_misbehaves_fails_with_a_sentence(queue, monkeypatch, code):
    monkeypatch.setattr(live, "COMMAND", [sys.executable, "-c", code])
    cell = live.LiveCell(queue, "kde_tradeoff", SPEC, CELL)
    assert cell.wait(30)
    assert cell.snapshot().state is State.FAILED
    assert "Try again" in cell.snapshot().message


def test_the_child_ends_with_the_server():
    code = """
import time
from dataclasses import replace
from core.children import Queue
from core.experiments import kde_tradeoff, live
spec = replace(kde_tradeoff.EXPERIMENT.full, sizes=(4000,), draws=4000)
cell = live.LiveCell(Queue(), "kde_tradeoff", spec, {"part": "mise", "size": 4000})
while not cell.snapshot().of:
    time.sleep(0.05)
print(cell._process.pid, flush=True)
time.sleep(60)
"""
    server = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    child = int(server.stdout.readline())
    server.kill()
    server.wait()
    server.stdout.close()
    until(lambda: not is_alive(child), 5)


def is_alive(pid):
    """Whether a process runs; one that has ended and is not yet fetched by its parent does not."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_specs_travel_whole():
    for name in running.NAMES:
        experiment = running.load(name)
        told = journal.plain(vars(experiment.full))
        assert live.spec_of(experiment, told) == experiment.full
        with pytest.raises(ValueError, match="has no nonsense"):
            live.spec_of(experiment, told | {"nonsense": 1})
