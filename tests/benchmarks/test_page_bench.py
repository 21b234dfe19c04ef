"""How long a person waits: start to first picture, click to drawn, hover frame; in headless Chromium.

Prints a table, asserts nothing about time: `pytest tests/benchmarks/test_page_bench.py -m benchmark -s`.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from core import datasets

pytestmark = pytest.mark.benchmark
ROOT = Path(__file__).parents[2]
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
PLANE = '[data-testid="plane"]'
CLICKS = int(os.environ.get("BENCH_CLICKS", "40"))

# Notes in the page the moment of each drawing, so that the clock is the browser's own.
WATCH = """() => {
    const plane = document.querySelector('[data-testid="plane"]');
    plane.drawnAt = {};
    new MutationObserver(() => { plane.drawnAt[plane.dataset.drawn] ??= performance.now(); })
        .observe(plane, {attributes: true, attributeFilter: ["data-drawn"]});
    document.addEventListener("pointerup", () => { plane.clickedAt = performance.now(); }, {capture: true});
}"""


@pytest.fixture(scope="module")
def playwright():
    """Playwright, or a skip that says what is missing."""
    sync_api = pytest.importorskip("playwright.sync_api")
    with sync_api.sync_playwright() as started:
        yield started


@pytest.fixture
def browser(playwright):
    """A browser that is already open, as a person's is."""
    chromium = shutil.which("chromium") or pytest.skip("apt-get install chromium")
    launched = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
    yield launched
    launched.close()


@pytest.fixture
def server(browser):
    """A fresh server, started when the browser is open: its port, the moment of its start and its process."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = ["--server.headless=true", f"--server.port={port}", "--server.address=127.0.0.1"]
    began = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "streamlit", "run", "dashboard/app.py", *options],
        cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    yield port, began, process.pid
    process.terminate()
    process.wait(timeout=20)


def open_when_up(page, port, query=""):
    for _ in range(600):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                break
        time.sleep(0.02)
    page.goto(f"http://127.0.0.1:{port}/{query}", wait_until="commit")


def wait_learned(page):
    page.wait_for_function(
        """() => { const plane = document.querySelector('[data-testid="plane"]');
                   const text = plane?.dataset.reports; if (!text) return false;
                   const rows = JSON.parse(text);
                   return rows.length > 0 && rows.every(row => row.status !== "LOADING"); }""",
        timeout=60_000,
    )


def peak_memory(pid):
    """Peak resident memory of a process, MiB."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1]) / 1024


def test_page(browser, server):
    """Start, learned paths, clicks on every dataset, hover."""
    port, began, pid = server
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    open_when_up(page, port)
    page.wait_for_selector(f"{PLANE}[data-drawn]", timeout=60_000)
    first = time.perf_counter() - began
    wait_learned(page)
    learned = time.perf_counter() - began
    print(
        f"\nstreamlit run -> first picture {first:.2f} s (bar 4.5), learned paths {learned - first:.2f} s later (bar 4)"
    )

    print(f"{'click to drawn, ms':20}{'clicks':>8}{'p50':>8}{'p95':>8}   bar 250 / 450")
    for name in datasets.NAMES:
        page.goto(f"http://127.0.0.1:{port}/?dataset={name}")
        page.wait_for_selector(f"{PLANE}[data-drawn]", timeout=60_000)
        wait_learned(page)
        page.wait_for_timeout(1500)
        page.evaluate(WATCH)
        pixels = clickable(page, name)
        took = []
        for i, (x, y) in enumerate(pixels):
            if page.evaluate("([x, y]) => !!document.elementFromPoint(x, y)?.closest('[data-handle]')", [x, y]):
                continue  # a press on a handle begins a drag
            before = int(page.get_attribute(PLANE, "data-drawn"))
            page.mouse.click(x, y)
            page.wait_for_function(
                "([plane, before]) => Number(document.querySelector(plane).dataset.drawn) > before", arg=[PLANE, before]
            )
            ms = page.evaluate(
                "([plane, drawing]) => { const p = document.querySelector(plane);"
                " return p.drawnAt[drawing] - p.clickedAt; }",
                [PLANE, before + 1],
            )
            page.wait_for_timeout(450)
            if i >= 4:  # the first few warm caches
                took.append(ms)
        print(f"{name:20}{len(took):8}{np.median(took):8.0f}{np.quantile(took, 0.95):8.0f}")

    hover = []
    box = page.locator(".plane-plot").bounding_box()
    for t in np.linspace(0, 6, 60):
        page.mouse.move(
            box["x"] + box["width"] * (0.5 + 0.25 * np.cos(t)), box["y"] + box["height"] * (0.5 + 0.25 * np.sin(t))
        )
        page.wait_for_timeout(25)
        value = page.get_attribute(PLANE, "data-hover-ms")
        hover += [float(value)] if value else []
    print(f"hover, ms a frame   {len(hover):8}{np.median(hover):8.2f}{np.quantile(hover, 0.95):8.2f}   bar 2")
    print(f"server peak memory {peak_memory(pid):.0f} MiB")
    reports = json.loads(page.get_attribute(PLANE, "data-reports"))
    assert all(row["lpr"] is None or row["lpr"] >= -1e-5 for row in reports)


def clickable(page, name):
    """Pixels of sample points inside the plot: where a person would click."""
    frame = page.evaluate(
        """() => { const node = document.querySelector(".plane-plot"); const box = node.getBoundingClientRect();
                   const {xaxis, yaxis} = node._fullLayout;
                   return {left: box.left + xaxis._offset, top: box.top + yaxis._offset, width: xaxis._length,
                           height: yaxis._length, x: xaxis.range, y: yaxis.range}; }"""
    )
    points = datasets.load(name).density.sample(CLICKS + 4, seed=77)
    x = frame["left"] + (points[:, 0] - frame["x"][0]) / (frame["x"][1] - frame["x"][0]) * frame["width"]
    y = frame["top"] + (frame["y"][1] - points[:, 1]) / (frame["y"][1] - frame["y"][0]) * frame["height"]
    inside = (y < 790) & (y > frame["top"]) & (x > frame["left"]) & (x < frame["left"] + frame["width"])
    return np.stack([x, y], axis=1)[inside]
