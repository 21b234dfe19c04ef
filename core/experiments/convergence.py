"""Do paths get better with more points? Mean LPR against the sample size, for every method (paper, Fig. 6, § 5.1).

Endpoints are drawn from the density and join the graph; they are the same pairs for every size, sample and method. The
paper does not print its k, and with a fixed k no graph path converges, whatever its density: the path is a chain of
edges as long as k allows, and its angles never get smaller. So there are two rules, the fixed k = 20 and

    k(n) = 20 (n / 100)^(1/3),

for this reason. In the plane, let edges reach as far as ε, so that k ∝ n ε². A tube of width w around the geodesic
holds a point per edge when n ε w ≈ 1, so a path within it is longer than the geodesic by a share of

    (w / ε)² ≈ (1 / n ε²)² ∝ 1 / k²         for its zigzag, and by
    ε² ∝ k / n                              for its straight edges where the geodesic bends.

The sum is smallest, n^(-2/3), for k ∝ n^(1/3). (In D dimensions w^(D-1) ε n ≈ 1 makes it k ∝ n^((D-1)/(2D-1)).) More
neighbors do no harm where weights look along the whole edge, since shorter edges remain, but gain nothing either.

Two kinds of methods have the fixed rule only. Power weights: a long edge at the power βd + 1 costs more than any way
around it, so more neighbors change no path. Relaxed paths: they keep nothing of the graph that they began on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from jaxtyping import Float

from core import datasets, geodesics, graphs, methods, paths
from core.densities import ExactDensity
from core.experiments.running import Cell, Experiment, Row, watched
from core.geodesics import Status

SIZES = (100, 200, 500, 1000, 2000, 5000, 10_000)
# How the number of neighbors depends on the sample size.
RULES = ("fixed", "growing")
GROWTH, GROWTH_FROM = 1 / 3, 100
# What one cell computes, on one sample: method -> rules. A group learns its models once.
GROUPS: dict[str, dict[str, tuple[str, ...]]] = {
    "graphs": {"power": RULES[:1], "true_graph": RULES},
    "mixture": {"mixture": RULES[:1]},
    "kde": {"kde": RULES[:1]},
    "flow_fast": {"flow": RULES, "score": RULES[:1]},
    "flow_paper": {"flow": RULES},
}


@dataclass(frozen=True)
class ConvergenceSpec:
    """What to compare.

    Attributes:
        datasets: of `core.datasets`.
        sizes: n.
        seeds: number of samples of each size.
        pairs: endpoints for every sample, drawn with `pair_seed`.
        beta: inverse temperature.
        neighbors: k of the fixed rule, and where the growing rule begins.
        groups: of GROUPS.
        largest_paper: size up to which the paper's preset is trained; it takes minutes a flow.
    """

    datasets: tuple[str, ...] = datasets.NAMES
    sizes: tuple[int, ...] = SIZES
    seeds: int = 3
    pairs: int = 1000
    pair_seed: int = 2_000_000
    beta: float = 1.0
    neighbors: int = graphs.DEFAULT_NEIGHBORS
    groups: tuple[str, ...] = tuple(GROUPS)
    largest_paper: int = 1000


def cells(spec: ConvergenceSpec) -> list[Cell]:
    """One cell for each sample and group; the first samples of all datasets and sizes come first."""
    return [
        {"dataset": name, "size": size, "seed": seed, "group": group}
        for seed in range(spec.seeds)
        for name in spec.datasets
        for size in spec.sizes
        for group in spec.groups
        if group != "flow_paper" or size <= spec.largest_paper
    ]


def measure(spec: ConvergenceSpec, cell: Cell) -> list[Row]:
    """LPR of every method and rule of the cell's group; a path that was refused counts as what was shown instead."""
    scene = _learned(cell["dataset"], cell["size"], cell["seed"], cell["group"])
    pairs = true_pairs(cell["dataset"], spec.pairs, spec.pair_seed, spec.beta)
    rows: list[Row] = []
    for method, rules in GROUPS[cell["group"]].items():
        for rule in rules:
            settings = methods.MethodSettings(neighbors=neighbors_of(rule, cell["size"], spec.neighbors))
            found = [
                methods.RECIPES[method](scene, start, end, spec.beta, settings)
                for start, end in watched(
                    list(zip(pairs.starts, pairs.ends)), f"paths by {method}, k = {settings.neighbors}"
                )
            ]
            about = {"method": method, "rule": rule, "k": settings.neighbors}
            refused = sum(status is not Status.CONVERGED for _, status in found)
            rows.append(about | summary(pairs.ratios([path for path, _ in found])) | {"refused": refused})
    return rows


def neighbors_of(rule: str, size: int, first: int = graphs.DEFAULT_NEIGHBORS) -> int:
    """k by a rule: `first` whatever the size, or first (n / 100)^(1/3); see above."""
    return first if rule == "fixed" else round(first * (size / GROWTH_FROM) ** GROWTH)


def _learned(name: str, size: int, seed: int, group: str) -> methods.Scene:
    """A sample and what the group's methods need: its flow and score model are the shipped ones, or trained here."""
    if group not in ("flow_fast", "flow_paper"):
        return methods.Scene.load(name, size, seed)
    preset = group.removeprefix("flow_")
    scene = methods.Scene.load(name, size, seed, preset)
    if scene.flow is not None:
        return scene
    if "score" in GROUPS[group]:
        return scene.train(preset, seed)
    from core import training

    return scene.with_models(training.train_flow(scene.points, preset, seed)[0], None, preset)


# --- pairs of endpoints, and what to say of many paths between them -------------------------------------------------


@dataclass(frozen=True, eq=False)
class TruePairs:
    """Endpoints drawn from a density, and how far apart they are.

    Attributes:
        density: the truth.
        beta: inverse temperature.
        starts, ends: (P, D) data units.
        log_distances: (P,) log lengths of the geodesics, nats.
    """

    density: ExactDensity
    beta: float
    starts: Float[np.ndarray, "P D"]
    ends: Float[np.ndarray, "P D"]
    log_distances: Float[np.ndarray, " P"]

    def ratios(self, found: Sequence[np.ndarray | None]) -> Float[np.ndarray, " P"]:
        """LPR of a path for each pair; nan for none."""
        lengths = [np.nan if p is None else paths.log_length(p, self.density.log_density, self.beta) for p in found]
        return np.array(lengths) - self.log_distances


@lru_cache(maxsize=8)
def true_pairs(name: str, count: int, seed: int, beta: float) -> TruePairs:
    """Pairs drawn from a named dataset, solved once for each process.

    A pair whose geodesic did not converge has no LPR and is left out; so far none was.
    """
    density = datasets.load(name).density
    points = density.sample(2 * count, seed)
    ends = list(zip(points[:count], points[count:]))
    solved = [geodesics.solve(density, *pair, beta) for pair in watched(ends, "true geodesics")]
    kept = np.array([geodesic.status is Status.CONVERGED for geodesic in solved])
    log_distances = np.array([geodesic.log_length for geodesic in solved])
    return TruePairs(density, beta, points[:count][kept], points[count:][kept], log_distances[kept])


def summary(ratios: Float[np.ndarray, " P"]) -> Row:
    """Columns that say how the LPR of many pairs is distributed; the standard error is that of the mean over pairs."""
    return {
        "mean_lpr": ratios.mean(),
        "standard_error": ratios.std(ddof=1) / np.sqrt(len(ratios)),
        "median_lpr": np.median(ratios),
        "q95_lpr": np.quantile(ratios, 0.95),
        "least_lpr": ratios.min(),
        "largest_lpr": ratios.max(),
        "pairs": len(ratios),
    }


EXPERIMENT = Experiment(
    name="convergence",
    paper="Fig. 6, section 5.1",
    question="Do paths get better with more points?",
    full=ConvergenceSpec(),
    quick=ConvergenceSpec(
        datasets=("gaussian_mixture", "two_spirals"),
        sizes=(100, 500),
        seeds=1,
        pairs=20,
        groups=tuple(group for group in GROUPS if group != "flow_paper"),
    ),
    cells=cells,
    measure=measure,
    loads=("torch",),  # a process that joblib starts anew would have to solve all true pairs again
)
