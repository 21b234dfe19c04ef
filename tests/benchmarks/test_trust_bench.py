"""How often the warnings fire, rightly and wrongly, on the five datasets as if their truth were unknown.

REGRET was chosen on sample seeds 1 and 2 at n = 200 and 1000; here are the shipped models' samples (seed 0) and pairs
that no tuning looked at. GEODESIC_PAIRS sets the number of pairs (default 100).
"""

import os
from itertools import chain

import numpy as np
import pytest

from core import checkpoints, datasets, geodesics, methods, paths
from core.geodesics import Status

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(3600)]
PAIRS = int(os.environ.get("GEODESIC_PAIRS", "100"))
SEED = 20_250_713
SIZES = (200, 500, 1000, 2000)
LEARNED = ("score", "mixture", "kde", "flow")
OTHERS = ("power", "straight")
BETA = 1.0


def without_truth(name: str, size: int, preset: str = "fast") -> methods.Scene:
    scene = methods.Scene.from_points(datasets.load(name).density.sample(size, 0))
    return scene.with_models(*checkpoints.shipped(name, size, 0, preset))


def judged(scene, density, starts, ends, names):
    """(method, status, true LPR) of every path."""
    rows = []
    for start, end in zip(starts, ends):
        truth = geodesics.solve(density, start, end, BETA)
        for report in methods.compare(scene, start, end, BETA, names):
            if len(report.path):
                rows.append((report.method, report.status, paths.log_path_ratio(report.path, density, BETA, truth)))
    return rows


def share(rows, low, high):
    inside = [status is not Status.CONVERGED for _, status, lpr in rows if low <= lpr < high]
    return f"{np.mean(inside) if inside else float('nan'):6.1%} of {len(inside):5d}"


def table(title, rows):
    bands = ((-1, 0.05), (0.05, 0.3), (0.3, np.inf))
    print(f"{title:28s} " + "   ".join(share(rows, *band) for band in bands))


def test_warnings_without_truth():
    print(f"\nwarned paths by true LPR: below 0.05, 0.05 to 0.3, above 0.3 ({PAIRS} pairs a dataset and size)")
    rows = {}
    for name in datasets.NAMES:
        density = datasets.load(name).density
        ends = density.sample(2 * PAIRS, SEED)
        for size in SIZES:
            found = judged(without_truth(name, size), density, ends[:PAIRS], ends[PAIRS:], (*LEARNED, "truth", *OTHERS))
            for method, status, lpr in found:
                kind = "others" if method in OTHERS else "learned"
                rows.setdefault((kind, name, size), []).append((method, status, lpr))
    for kind in ("learned", "others"):
        for name in datasets.NAMES:
            table(f"{kind} {name}", list(chain.from_iterable(rows[kind, name, size] for size in SIZES)))
        for size in SIZES:
            table(f"{kind} n = {size}", list(chain.from_iterable(rows[kind, name, size] for name in datasets.NAMES)))
        table(f"{kind}, all", list(chain.from_iterable(found for key, found in rows.items() if key[0] == kind)))
    table("all paths", list(chain.from_iterable(rows.values())))


@pytest.mark.parametrize(
    ("preset", "names"), [("paper", datasets.NAMES), ("fast", datasets.EXTRA)], ids=["paper's models", "not mixtures"]
)
def test_warnings_where_nothing_was_chosen(preset, names):
    """The paper's models, which err more, and the datasets that are not mixtures: no threshold has seen either."""
    print(f"\nwarned paths by true LPR, {preset} preset, n = 1000: below 0.05, 0.05 to 0.3, above 0.3 ({PAIRS} pairs)")
    every = []
    for name in names:
        density = datasets.load(name).density
        ends = density.sample(2 * PAIRS, SEED)
        scene = without_truth(name, 1000, preset)
        rows = judged(scene, density, ends[:PAIRS], ends[PAIRS:], (*LEARNED, "truth"))
        table(f"learned {name}", rows)
        every += rows
    table("learned, all", every)


@pytest.mark.parametrize("known", [True, False], ids=["with truth", "without truth"])
def test_endpoints_outside_the_data(known):
    print(f"\nendpoints from 1.5 times the data's box, n = 1000, {PAIRS} pairs a dataset")
    for name in datasets.NAMES:
        density = datasets.load(name).density
        scene = methods.Scene.load(name) if known else without_truth(name, 1000)
        low, high = scene.points.min(axis=0), scene.points.max(axis=0)
        middle, half = (low + high) / 2, 1.5 * (high - low) / 2
        ends = middle + half * np.random.default_rng(SEED).uniform(-1, 1, (2 * PAIRS, 2))
        rows = judged(scene, density, ends[:PAIRS], ends[PAIRS:], LEARNED if known else (*LEARNED, "truth"))
        far = [status for _, status, lpr in rows if lpr > 1]
        silent = sum(status is Status.CONVERGED for status in far)
        warned = np.mean([status is not Status.CONVERGED for _, status, _ in rows])
        counts = f"LPR above 1: {len(far):4d} of {len(rows)}, without a warning: {silent}"
        print(f"{name:18s} {counts}; warned in all: {warned:.0%}")
