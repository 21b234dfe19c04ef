"""The bars of `core`, measured: `make bench` prints them. Nothing here asserts a time; what is asserted must be true.

Held-out pairs come from one seed that no tuning looks at. GEODESIC_PAIRS sets how many (default 100).
"""

import gc
import os
import resource
import time

import numpy as np
import pytest

from core import datasets, densities, fields, geodesics, graphs, methods, mixtures
from core.geodesics import Status

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(1800)]

HELD_OUT_SEED = 20_250_713
PAIRS = int(os.environ.get("GEODESIC_PAIRS", "100"))
OTHER_SEEDS = (1, 2, 3, 4)
LEAST_LPR = -1e-5

WARM_MS = 5.0
MIXTURE_BAR = dict(zip(datasets.NAMES, (0.002, 0.01, 0.02, 0.025, 0.035)))
SCORE_BAR = dict(zip(datasets.NAMES, (0.005, 0.02, 0.025, 0.05, 0.15)))


def held_out(name: str, count: int = PAIRS) -> tuple[np.ndarray, np.ndarray]:
    points = datasets.load(name).density.sample(2 * count, seed=HELD_OUT_SEED)
    return points[:count], points[count:]


def peak_megabytes() -> str:
    return f"peak memory so far {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB"


def show(title: str, header: list[str], rows: list[list[str]]):
    """A table of plain text: the first column to the left, the others to the right."""
    widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]

    def line(cells: list[str]) -> str:
        return "  ".join([cells[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(cells[1:], widths[1:]))]).rstrip()

    print(f"\n\n{title}\n")
    print(line(header))
    print("  ".join("-" * width for width in widths))
    for row in rows:
        print(line(row))
    print(f"\n({peak_megabytes()})", flush=True)


def verdict(value: float, bar: float) -> str:
    return "OK" if value <= bar else "SHORT"


def milliseconds(seconds: list[float]) -> list[str]:
    return [f"{1e3 * np.median(seconds):.2f}", f"{1e3 * np.quantile(seconds, 0.95):.2f}"]


def test_geodesics():
    rows = []
    for name in datasets.NAMES:
        density = datasets.load(name).density
        geodesics.solve(density, *(ends[0] for ends in held_out(name, 1)), 1.0)  # makes the route map
        warm, cold, solved = [], [], []
        gc.collect()
        for start, end in zip(*held_out(name)):
            guess = fields.first_guesses(density, start, end, 1.0)[0]
            began = time.perf_counter()
            solved.append(geodesics.solve(density, start, end, 1.0, guess=guess))
            warm.append(time.perf_counter() - began)
            began = time.perf_counter()
            best = geodesics.solve(density, start, end, 1.0)
            cold.append(time.perf_counter() - began)
            assert best.log_length <= solved[-1].log_length + 1e-5
        converged = sum(geodesic.status is Status.CONVERGED for geodesic in solved)
        error = max(geodesic.error for geodesic in solved)
        median = 1e3 * float(np.median(warm))
        rows.append(
            [
                *(name, str(PAIRS), *milliseconds(warm), f"{WARM_MS:.0f}", verdict(median, WARM_MS)),
                *(*milliseconds(cold), f"{converged}/{PAIRS}", f"{error:.1e}"),
            ]
        )
    header = ["solve, β = 1", "pairs", "warm ms", "p95", "bar", "", "cold ms", "p95", "converged", "error"]
    show("One geodesic: warm (first guess at hand) and cold (routes searched)", header, rows)


def test_closed_form():
    rows = []
    count = max(10, PAIRS // 4)
    for dim in (2, 3, 10, 25):
        points = densities.standard_normal(dim).sample(2 * count, seed=HELD_OUT_SEED)
        for label, beta in (("1", 1.0), ("1/2", 0.5), ("2", 2.0), ("1/D", 1 / dim)):
            found = geodesics.solve_many(densities.standard_normal(dim), points[:count], points[count:], beta)
            exact = [geodesics.normal_log_distance(a, b, beta) for a, b in zip(points[:count], points[count:])]
            errors = np.abs(np.array([geodesic.log_length for geodesic in found]) - exact)
            converged = sum(geodesic.status is Status.CONVERGED for geodesic in found)
            assert errors.max() <= 1e-5
            assert converged == count
            rows.append(
                [
                    *(str(dim), label, str(count), f"{np.median(errors):.1e}", f"{errors.max():.1e}", "1e-05"),
                    *(verdict(errors.max(), 1e-5), f"{converged}/{count}"),
                ]
            )
    header = ["D", "β", "pairs", "median error", "largest", "bar", "", "converged"]
    show("Standard normal against the closed form, log length in nats", header, rows)


def lprs(scene: methods.Scene, beta: float, names: tuple[str, ...]) -> dict[str, list[methods.PathReport]]:
    found: dict[str, list[methods.PathReport]] = {name: [] for name in names}
    for start, end in zip(*held_out(scene.name)):
        for report in methods.compare(scene, start, end, beta, names):
            found[report.method].append(report)
    return found


def row_of(reports: list[methods.PathReport]) -> tuple[list[str], float]:
    """Mean, standard error, largest, least LPR, statuses other than CONVERGED, median milliseconds."""
    values = np.array([report.lpr for report in reports])
    values = values[~np.isnan(values)]
    if len(values) == 0:
        return ["–", "–", "–", "–", f"{len(reports)} {reports[0].status.name}", "–"], np.nan
    assert values.min() >= LEAST_LPR
    others = [report.status.name for report in reports if report.status is not Status.CONVERGED]
    said = ", ".join(f"{others.count(name)} {name}" for name in sorted(set(others))) or "0"
    numbers = [f"{values.mean():.4f}", f"{values.std(ddof=1) / np.sqrt(len(values)):.4f}"]
    numbers += [f"{values.max():.4f}", f"{values.min():.1e}"]
    return [*numbers, said, f"{1e3 * np.median([report.seconds for report in reports]):.1f}"], float(values.mean())


HEADER = ["method", "mean LPR", "SE", "largest", "least", "not converged", "ms", "bar", ""]


@pytest.mark.parametrize("beta", [1.0, 0.5])
@pytest.mark.parametrize("preset", methods.PRESETS)
@pytest.mark.parametrize("name", datasets.NAMES)
def test_log_path_ratios(name, preset, beta):
    scene = methods.Scene.load(name, size=1000, seed=0, preset=preset)
    # What a preset does not change is measured once.
    names = methods.NAMES if preset == "fast" else ("flow", "score")
    rows, means = [], {}
    for method, reports in lprs(scene, beta, names).items():
        row, means[method] = row_of(reports)
        bars = {"mixture": MIXTURE_BAR, "score": SCORE_BAR}.get(method)
        judged = bars is not None and beta == 1 and preset == "fast" and not np.isnan(means[method])
        rows.append([method, *row, *([f"{bars[name]:g}", verdict(means[method], bars[name])] if judged else ["", ""])])
    show(f"LPR: {name}, n = 1000, seed 0, preset {preset}, β = {beta:g}, {PAIRS} held-out pairs", HEADER, rows)
    if preset == "fast" and not np.isnan(means["score"]):
        ordered = means["score"] < means["flow"] < means["power"]
        print(f"score < flow < power: {'OK' if ordered else 'SHORT'}")


def test_log_path_ratios_of_other_samples():
    """The methods that need no shipped weights, on samples nobody looked at."""
    rows = []
    for name in datasets.NAMES:
        found: dict[str, list[methods.PathReport]] = {"mixture": [], "kde": []}
        worst = {"mixture": 0.0, "kde": 0.0}
        for seed in OTHER_SEEDS:
            here = lprs(methods.Scene.load(name, size=1000, seed=seed), 1.0, ("mixture", "kde"))
            for method, reports in here.items():
                found[method] += reports
                worst[method] = max(worst[method], float(np.nanmean([report.lpr for report in reports])))
        for method, reports in found.items():
            row, mean = row_of(reports)
            bar = [f"{MIXTURE_BAR[name]:g}", verdict(mean, MIXTURE_BAR[name])] if method == "mixture" else ["", ""]
            rows.append([f"{name} {method}", *row, *bar, f"{worst[method]:.4f}"])
    title = f"LPR on sample seeds {', '.join(map(str, OTHER_SEEDS))}, n = 1000, β = 1, {PAIRS} held-out pairs each"
    show(title, [*HEADER, "worst seed's mean"], rows)


def timed(make, repeats: int = 3) -> list[float]:
    seconds = []
    for _ in range(repeats):
        gc.collect()
        began = time.perf_counter()
        make()
        seconds.append(time.perf_counter() - began)
    return seconds


def test_times():
    rows = []
    for size in (1000, 5000):
        for name in ("gaussian_mixture", "two_spirals"):
            scene = methods.Scene.load(name, size=size)
            density = scene.density
            graph = graphs.neighbor_graph(scene.points)
            for what, make, repeats in (
                ("fit the mixture pool", lambda s=scene: mixtures.fit_pool(s.points), 2),
                ("fit the KDE", lambda s=scene: mixtures.fit_kernel_density(s.points), 3),
                ("neighbor graph", lambda s=scene: graphs.neighbor_graph(s.points), 5),
                (
                    "midpoint densities, truth",
                    lambda g=graph, d=density: graphs.midpoint_log_density(g, d.log_density),
                    3,
                ),
            ):
                rows.append([f"{what}, {name}", str(size), *milliseconds(timed(make, repeats))])
    for name in datasets.NAMES:
        scene = methods.Scene.load(name, size=1000)
        starts, ends = held_out(name, 21)
        methods.compare(scene, starts[0], ends[0], 1.0)  # learns, loads and tabulates
        seconds = []
        for start, end in zip(starts[1:], ends[1:]):
            began = time.perf_counter()
            methods.compare(scene, start, end, 1.0)
            seconds.append(time.perf_counter() - began)
        rows.append([f"compare, all methods, warm, {name}", "1000", *milliseconds(seconds)])
    show("Times", ["what", "n", "median ms", "p95"], rows)
