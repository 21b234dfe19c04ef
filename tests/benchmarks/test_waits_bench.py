"""What else is waited for: a large file, the end of a cancelled cell, that of the children of a killed server."""

import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from core.children import Queue, State
from core.experiments import kde_tradeoff, live
from core.tables import read_points

pytestmark = pytest.mark.benchmark

SERVER = """
import time
import numpy as np
from core.jobs import TrainingQueue
job = TrainingQueue().submit(np.random.default_rng(0).normal(size=(5000, 2)), preset="paper")
while not (all(c.steps for c in job.snapshot().curves.values()) and job.snapshot().curves):
    time.sleep(0.01)
print("now", flush=True)
time.sleep(100)
"""


def test_a_large_file():
    points = np.random.default_rng(0).normal(size=(100_000, 2))
    data = "x,y\n" + "\n".join(f"{x!r},{y!r}" for x, y in points.tolist())
    began = time.perf_counter()
    read_points(data.encode(), "large.csv")
    seconds = time.perf_counter() - began
    print(f"\n100,000 rows read in {seconds:.2f} s")
    assert seconds < 10


def test_cancel_of_a_live_cell():
    spec = replace(kde_tradeoff.EXPERIMENT.full, sizes=(4000,), draws=400)
    queue = Queue()
    cell = live.LiveCell(queue, "kde_tradeoff", spec, {"part": "mise", "size": 4000})
    while cell.snapshot().done < 2:
        assert not cell.wait(0.01)
    began = time.perf_counter()
    cell.cancel()
    assert cell.wait(10)
    seconds = time.perf_counter() - began
    queue.close()
    print(f"\ncancel of a live cell: {seconds * 1e3:.0f} ms")
    assert cell.snapshot().state is State.CANCELLED
    assert seconds < 1


def test_the_children_of_a_killed_server():
    server = subprocess.Popen([sys.executable, "-c", SERVER], stdout=subprocess.PIPE)
    assert server.stdout.readline() == b"now\n"
    threads = Path(f"/proc/{server.pid}/task").iterdir()
    children = [int(pid) for thread in threads for pid in (thread / "children").read_text().split()]
    assert len(children) == 2
    began = time.perf_counter()
    server.send_signal(signal.SIGKILL)
    server.wait()
    server.stdout.close()
    while any(Path(f"/proc/{pid}/stat").exists() for pid in children):
        assert time.perf_counter() - began < 60
        time.sleep(0.01)
    seconds = time.perf_counter() - began
    print(f"\nchildren of a killed server: gone after {seconds:.2f} s")
    assert seconds < 2
