"""Is it the graph or the density? Mean LPR of ten ways to weigh the same edges (paper, Fig. 10, appendix).

The paper's four rules make a midpoint density p̃ out of the densities at an edge's two ends, and weigh the edge by
‖x − y‖ / p̃^β. With the nearest-neighbor density (min_m ‖x_l − x_m‖)^(−d) they should do no better than the power
weights ‖x − y‖^(βd+1); with the true density at the same two ends they should converge. Both references stand beside
them: power weights by the nearest-neighbor rules, Algorithm 2 (true density at S midpoints) by the true ones.

An endpoint that joins the graph is weighed as the points are: its nearest-neighbor density is made of its distance to
the sample. (As a node it would also be a neighbor, which would change the densities at a few points; that is left out,
so that the edges are the same for all pairs.)

The growing k of `core.experiments.convergence` stands beside the fixed one here too, and is not always better: these
rules do not see what lies between the ends, so longer edges mislead them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from core import graphs, methods
from core.experiments.convergence import RULES, SIZES, TruePairs, neighbors_of, summary, true_pairs
from core.experiments.running import Cell, Experiment, Row
from core.graphs import EdgeWeights, NeighborGraph
from core.paths import LogDensity

DENSITIES = ("nearest_neighbor", "true")


@dataclass(frozen=True)
class EdgeWeightsSpec:
    """What to compare.

    Attributes:
        dataset: of `core.datasets`.
        sizes: n.
        seeds: number of samples of each size.
        pairs: endpoints for every sample, drawn with `pair_seed`.
        beta: inverse temperature.
        neighbors: k of the fixed rule, and where the growing rule of `core.experiments.convergence` begins.
        segments: S of Algorithm 2.
    """

    dataset: str = "gaussian_mixture"
    sizes: tuple[int, ...] = SIZES
    seeds: int = 3
    pairs: int = 1000
    pair_seed: int = 2_000_000
    beta: float = 1.0
    neighbors: int = graphs.DEFAULT_NEIGHBORS
    segments: int = graphs.DEFAULT_SEGMENTS


def cells(spec: EdgeWeightsSpec) -> list[Cell]:
    """One cell for each sample, rule for k and density."""
    return [
        {"size": size, "seed": seed, "rule": rule, "density": density}
        for size in spec.sizes
        for seed in range(spec.seeds)
        for rule in RULES
        for density in DENSITIES
    ]


def measure(spec: EdgeWeightsSpec, cell: Cell) -> list[Row]:
    """LPR of every way to weigh the cell's graph with the cell's density."""
    pairs = true_pairs(spec.dataset, spec.pairs, spec.pair_seed, spec.beta)
    neighbors = neighbors_of(cell["rule"], cell["size"], spec.neighbors)
    graph = methods.Scene.load(spec.dataset, cell["size"], cell["seed"]).graph(neighbors)
    return [
        {"weights": name, "k": neighbors} | summary(_ratios(pairs, graph, weights))
        for name, weights in weightings(graph, cell["density"], pairs.density.log_density, spec).items()
    ]


def weightings(
    graph: NeighborGraph, density: str, log_density: LogDensity, spec: EdgeWeightsSpec
) -> dict[str, EdgeWeights]:
    """The reference and the four rules, for one of DENSITIES; `log_density` is the true one."""
    dim, beta = graph.points.shape[1], spec.beta
    if density == "nearest_neighbor":
        reference = {"power": graphs.power_weights(graph, beta, dim)}
        log_density = nearest_neighbor_density(graph, dim)
    else:
        at_midpoints = graphs.midpoint_log_density(graph, log_density, spec.segments)
        reference = {"midpoints": graphs.density_weights(graph, log_density, at_midpoints, beta)}
    rules = {rule: endpoint_rule_weights(graph, log_density, rule, beta) for rule in graphs.ENDPOINT_RULES}
    return reference | rules


def endpoint_rule_weights(graph: NeighborGraph, log_density: LogDensity, rule: str, beta: float) -> EdgeWeights:
    """Weights ‖x − y‖ / p̃^β for the graph's edges and for endpoints that join it."""

    def link(start: np.ndarray, end: np.ndarray) -> np.ndarray:
        at_middle = graphs.ENDPOINT_RULES[rule](log_density(start), log_density(end))
        return np.log(np.linalg.norm(end - start, axis=1)) - beta * at_middle

    return EdgeWeights(graphs.endpoint_rule_log_weights(graph, log_density(graph.points), rule, beta), link)


def nearest_neighbor_density(graph: NeighborGraph, intrinsic_dim: float) -> LogDensity:
    """`graphs.nearest_neighbor_log_density` anywhere: at a point of the sample its own, elsewhere by the same rule."""

    def log_density(x: np.ndarray) -> np.ndarray:
        distances, nodes = graph.nodes_near(x)
        in_sample = (graph.points[nodes[:, 0]] == x).all(axis=1)
        return -intrinsic_dim * np.log(np.where(in_sample, graph.nearest[nodes[:, 0]], distances[:, 0]))

    return log_density


def _ratios(pairs: TruePairs, graph: NeighborGraph, weights: EdgeWeights) -> np.ndarray:
    found = [graphs.shortest_path(graph, weights, start, end) for start, end in zip(pairs.starts, pairs.ends)]
    return pairs.ratios([None if route is None else route[0] for route in found])


EXPERIMENT = Experiment(
    name="edge_weights",
    paper="Fig. 10, appendix",
    question="Is it the graph or the density that keeps nearest-neighbor weights from converging?",
    full=EdgeWeightsSpec(),
    quick=EdgeWeightsSpec(sizes=(100, 1000), seeds=1, pairs=50),
    cells=cells,
    measure=measure,
)
