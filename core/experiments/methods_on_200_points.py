"""Every kind of method on a sample of 200 points of the standard normal, where the model is a fitted Gaussian
(paper, Fig. 5).

The model has the mean and the covariance of the sample, so that nothing but the sample limits it. What the paper shows
for one pair on one sample is measured here for many, against the normal's closed form; the pair that pages show is in
the spec, and `finders` draws its paths in milliseconds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from core import datasets, geodesics, graphs, paths
from core.densities import Density, GaussianMixture
from core.experiments.convergence import summary
from core.experiments.running import Cell, Experiment, Row
from core.graphs import EdgeWeights

DATASET = "standard_normal"
# start, end -> path
Finder = Callable[[np.ndarray, np.ndarray], np.ndarray]


@dataclass(frozen=True)
class MethodsSpec:
    """What to compare.

    Attributes:
        size: n.
        seeds: number of samples.
        pairs: endpoints for every sample, drawn with `pair_seed`.
        beta: inverse temperature.
        neighbors: k.
        start, end: the pair to show, on the sample of seed 0. The paper does not print its own; for this one no two
            methods find the same path, while for most the model graph and the true graph do.
    """

    size: int = 200
    seeds: int = 20
    pairs: int = 200
    pair_seed: int = 2_000_000
    beta: float = 1.0
    neighbors: int = graphs.DEFAULT_NEIGHBORS
    start: tuple[float, float] = (-1.5, -1.0)
    end: tuple[float, float] = (1.5, -1.0)


def cells(spec: MethodsSpec) -> list[Cell]:
    """One cell for each sample."""
    return [{"seed": seed} for seed in range(spec.seeds)]


def measure(spec: MethodsSpec, cell: Cell) -> list[Row]:
    """LPR of every method over the pairs, and of its path between the shown pair."""
    density = datasets.load(DATASET).density
    drawn = density.sample(2 * spec.pairs, spec.pair_seed)
    pairs = [(np.array(spec.start), np.array(spec.end)), *zip(drawn[: spec.pairs], drawn[spec.pairs :])]
    distances = np.array([geodesics.normal_log_distance(start, end, spec.beta) for start, end in pairs])
    rows: list[Row] = []
    for method, find in finders(density.sample(spec.size, cell["seed"]), spec.beta, spec.neighbors).items():
        lengths = [paths.log_length(find(start, end), density.log_density, spec.beta) for start, end in pairs]
        shown, *ratios = np.array(lengths) - distances
        rows.append({"method": method} | summary(np.array(ratios)) | {"shown_lpr": shown})
    return rows


def finders(
    points: Float[np.ndarray, "N D"], beta: float, neighbors: int = graphs.DEFAULT_NEIGHBORS
) -> dict[str, Finder]:
    """The figure's methods on a sample of the standard normal, in its order: the graphs, relaxation, the truth.

    Relaxation begins on the model graph's path, and uses the model's score.
    """
    truth, model = datasets.load(DATASET).density, fitted_gaussian(points)
    graph = graphs.bridged(graphs.neighbor_graph(points, neighbors))

    def along(weights: EdgeWeights) -> Finder:
        def find(start: np.ndarray, end: np.ndarray) -> np.ndarray:
            found = graphs.shortest_path(graph, weights, start, end)
            assert found is not None  # a bridged graph has but one part
            return found[0]

        return find

    def density_graph(density: Density) -> Finder:
        at_midpoints = graphs.midpoint_log_density(graph, density.log_density)
        return along(graphs.density_weights(graph, density.log_density, at_midpoints, beta))

    model_graph = density_graph(model)
    return {
        "power": along(graphs.power_weights(graph, beta, points.shape[1])),
        "model_graph": model_graph,
        "true_graph": density_graph(truth),
        "relaxed": lambda start, end: geodesics.solve(model, start, end, beta, model_graph(start, end)).path,
        "truth": lambda start, end: geodesics.solve(truth, start, end, beta).path,
    }


def fitted_gaussian(points: Float[np.ndarray, "N D"]) -> GaussianMixture:
    """The Gaussian with the points' mean and covariance."""
    return GaussianMixture(np.ones(1), points.mean(axis=0)[None], np.cov(points.T)[None])


EXPERIMENT = Experiment(
    name="methods_on_200_points",
    paper="Fig. 5",
    question="How rough are the paths of each method on 200 points, when the model is as good as it can be?",
    full=MethodsSpec(),
    quick=MethodsSpec(seeds=3, pairs=30),
    cells=cells,
    measure=measure,
)
