"""Neighbor graphs over a sample, with edge weights and shortest paths in log space.

Two kinds of weights from the paper: `‖x − y‖^(βd+1)` (section 2.4) and the density-weighted sum over S midpoints
(Algorithm 2); four nearest-neighbor rules from its appendix beside them. Weights are kept as logs. The log density at
the midpoints does not depend on β: it is computed once a model and reused.

Shortest paths run Dijkstra's algorithm in linear space on weights that are shifted by the *bottleneck*, the largest
weight that no path between the endpoints can avoid: edges far above it are useless to an optimal path and edges
hundreds of nats below it are free, so the shifted exponentials neither overflow nor vanish at any β.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float, Int
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components, dijkstra
from scipy.spatial import KDTree
from scipy.special import logsumexp

from core.densities import as_points
from core.paths import LogDensity, check_beta

DEFAULT_NEIGHBORS = 20
DEFAULT_SEGMENTS = 10
# Links that join two parts of a graph: at most so many, and none longer than so many times the shortest.
MOST_BRIDGES, BRIDGE_REACH = 200, 2.0
# exp(±600) leaves room in float64 for sums over 10^40 edges.
SAFE_NATS = 600.0


@dataclass(frozen=True, eq=False)
class NeighborGraph:
    """A symmetric k-nearest-neighbor graph without self edges.

    Attributes:
        points: (N, D) in data units.
        neighbors: k; an edge joins two points when either is among the k nearest of the other.
        edges: (E, 2) node pairs, each edge once.
        indptr, indices: the same graph as rows of neighbors (CSR), each edge twice.
        edge_of: (2E,) the edge that each CSR entry stands for.
    """

    points: Float[np.ndarray, "N D"]
    neighbors: int
    edges: Int[np.ndarray, "E 2"]
    indptr: Int[np.ndarray, " rows"]
    indices: Int[np.ndarray, " entries"]
    edge_of: Int[np.ndarray, " entries"]

    @cached_property
    def lengths(self) -> Float[np.ndarray, " E"]:
        """Euclidean edge lengths, data units."""
        return np.linalg.norm(self.points[self.edges[:, 1]] - self.points[self.edges[:, 0]], axis=1)

    @cached_property
    def _tree(self) -> KDTree:
        return KDTree(self.points)

    def nodes_near(
        self, x: Float[np.ndarray, "Q D"], count: int = 1
    ) -> tuple[Float[np.ndarray, "Q count"], Int[np.ndarray, "Q count"]]:
        """The nodes nearest to any points of the space: their distances in data units, and which, nearest first."""
        return _nearest(self._tree, x, count)

    @cached_property
    def nearest(self) -> Float[np.ndarray, " N"]:
        """Distance of each point to its nearest other point, data units."""
        return self.nodes_near(self.points, 2)[0][:, 1]

    @cached_property
    def parts(self) -> Int[np.ndarray, " N"]:
        """Which connected part of the graph each point belongs to, numbered from 0."""
        matrix = csr_array((np.ones(len(self.indices), np.int8), self.indices, self.indptr))
        return connected_components(matrix, directed=False)[1].astype(np.int64)


def neighbor_graph(points: Float[np.ndarray, "N D"], neighbors: int = DEFAULT_NEIGHBORS) -> NeighborGraph:
    """Symmetric kNN graph of the points (KNN of the paper's Algorithm 2).

    Raises:
        ValueError: if there are fewer than two points or neighbors < 1.
    """
    points = as_points(points, None, "points")
    if len(points) < 2:
        raise ValueError(f"points should be at least two; got {len(points)}")
    if neighbors < 1:
        raise ValueError(f"neighbors should be at least 1; got {neighbors}")
    size = len(points)
    neighbors = min(neighbors, size - 1)
    own, (_, nearest) = np.arange(size), _nearest(KDTree(points), points, neighbors + 1)
    # A point is among its own nearest, unless more others lie in its place.
    others = nearest != own[:, None]
    others[others.all(axis=1), -1] = False
    pairs = np.stack([np.repeat(own, neighbors), nearest[others]], axis=1)
    edges = np.unique(np.sort(pairs, axis=1), axis=0)
    return _from_edges(points, neighbors, edges)


def _nearest(tree: KDTree, x: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """`tree.query` for any count, with its distances and numbers as (Q, count) even where that is one."""
    distances, numbers = tree.query(x, np.arange(1, count + 1))
    return np.asarray(distances), np.asarray(numbers)


def bridged(graph: NeighborGraph) -> NeighborGraph:
    """The graph with links between its parts, where they are nearest, so that every point can be reached.

    Each part gets links from its points to the nearest points of other parts: the shortest one, and others up to
    BRIDGE_REACH times as long, since the shortest need not be the best way across. Parts that found each other are one
    part, and so on until there is but one (Borůvka's algorithm).
    """
    whole = graph
    while whole.parts.max() > 0:
        links = [_links_out_of(whole, part) for part in range(whole.parts.max() + 1)]
        edges = np.unique(np.concatenate([whole.edges, *links]), axis=0)
        whole = _from_edges(graph.points, graph.neighbors, edges)
    return whole


def _links_out_of(graph: NeighborGraph, part: int) -> Int[np.ndarray, "L 2"]:
    """Links from a part's points to the nearest points outside it, shortest first, thinned evenly."""
    inside, outside = np.flatnonzero(graph.parts == part), np.flatnonzero(graph.parts != part)
    distances, nearest = _nearest(KDTree(graph.points[outside]), graph.points[inside], 1)
    order = np.argsort(distances[:, 0], kind="stable")
    order = order[distances[order, 0] <= BRIDGE_REACH * distances[order[0], 0]]
    order = order[:: -(-len(order) // MOST_BRIDGES)]
    return np.sort(np.stack([inside[order], outside[nearest[order, 0]]], axis=1), axis=1)


def _from_edges(points: np.ndarray, neighbors: int, edges: np.ndarray) -> NeighborGraph:
    rows = np.concatenate([edges[:, 0], edges[:, 1]])
    columns = np.concatenate([edges[:, 1], edges[:, 0]])
    order = np.lexsort((columns, rows))
    indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=len(points)))])
    edge_of = np.tile(np.arange(len(edges)), 2)[order]
    return NeighborGraph(points, neighbors, edges, indptr, columns[order], edge_of)


# --- edge weights, all as log weights -------------------------------------------------------------------------------


def power_log_weights(lengths: Float[np.ndarray, " E"], beta: float, intrinsic_dim: float) -> Float[np.ndarray, " E"]:
    """Log of ‖x − y‖^(βd + 1), the power-weighted edge (paper, section 2.4).

    Its unit is data units^(βd + 1), not that of a density-weighted length: only ratios between paths mean something.
    """
    beta = check_beta(beta)
    with np.errstate(divide="ignore"):  # duplicate points are at log distance -inf, which shortest paths handle
        return (beta * intrinsic_dim + 1) * np.log(lengths)


def midpoints(
    start: Float[np.ndarray, "E D"], end: Float[np.ndarray, "E D"], segments: int = DEFAULT_SEGMENTS
) -> Float[np.ndarray, "ES D"]:
    """The midpoints y_(i−1/2) of S equal segments on each edge (Algorithm 2), edge after edge."""
    fraction = (np.arange(segments) + 0.5) / segments
    return (start[:, None] + (end - start)[:, None] * fraction[None, :, None]).reshape(-1, start.shape[1])


def midpoint_log_density(
    graph: NeighborGraph, log_density: LogDensity, segments: int = DEFAULT_SEGMENTS
) -> Float[np.ndarray, "E S"]:
    """Log density at the S midpoints of every edge: the costly part of Algorithm 2, the same for every β."""
    if segments < 1:
        raise ValueError(f"segments should be at least 1; got {segments}")
    left, right = graph.points[graph.edges[:, 0]], graph.points[graph.edges[:, 1]]
    return log_density(midpoints(left, right, segments)).reshape(-1, segments)


def density_log_weights(
    lengths: Float[np.ndarray, " E"], log_density: Float[np.ndarray, "E S"], beta: float
) -> Float[np.ndarray, " E"]:
    """Log of ‖x − y‖/S Σ_i p(y_(i−1/2))^(−β), the density-weighted edge (Algorithm 2)."""
    beta = check_beta(beta)
    with np.errstate(divide="ignore"):
        return np.log(lengths / log_density.shape[1]) + logsumexp(-beta * log_density, axis=1)


# The four ways of the paper's appendix to make a midpoint density out of the densities at an edge's two ends.
ENDPOINT_RULES: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "inverse_of_mean": lambda left, right: np.logaddexp(left, right) - np.log(2),
    "mean_of_inverse": lambda left, right: np.log(2) - np.logaddexp(-left, -right),
    "max": np.maximum,
    "min": np.minimum,
}


def endpoint_rule_log_weights(
    graph: NeighborGraph, node_log_density: Float[np.ndarray, " N"], rule: str, beta: float
) -> Float[np.ndarray, " E"]:
    """Log of ‖x − y‖ / p̃^β with the midpoint density p̃ made from the edge's two ends (paper, appendix).

    The paper prints the rules for β = 1; other β take the power of the midpoint density.
    """
    if rule not in ENDPOINT_RULES:
        raise ValueError(f"rule should be one of {', '.join(ENDPOINT_RULES)}; got {rule!r}")
    left, right = node_log_density[graph.edges[:, 0]], node_log_density[graph.edges[:, 1]]
    with np.errstate(divide="ignore"):
        return np.log(graph.lengths) - check_beta(beta) * ENDPOINT_RULES[rule](left, right)


def nearest_neighbor_log_density(graph: NeighborGraph, intrinsic_dim: float) -> Float[np.ndarray, " N"]:
    """Log of (min_m ‖x_l − x_m‖)^(−d), the paper's nearest-neighbor density up to a constant."""
    with np.errstate(divide="ignore"):
        return -intrinsic_dim * np.log(graph.nearest)


# --- shortest paths -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Links:
    """Edges from an endpoint that is not a node of the graph: (L,) nodes and (L,) log weights."""

    nodes: Int[np.ndarray, " L"]
    log_weights: Float[np.ndarray, " L"]


@dataclass(frozen=True)
class Route:
    """A shortest path: nodes between the endpoints (empty: go straight), and its log length; None if there is none."""

    nodes: Int[np.ndarray, " R"]
    log_length: float


@dataclass(frozen=True, eq=False)
class Trees:
    """Shortest path trees from both endpoints: distances (2, N) in units of exp(shift), predecessors (2, N)."""

    distances: Float[np.ndarray, "2 N"]
    predecessors: Int[np.ndarray, "2 N"]
    shift: float

    def chain(self, side: int, node: int) -> list[int]:
        """Nodes from the endpoint of that side (not included) to `node`."""
        nodes, size = [], self.distances.shape[1]
        while 0 <= node < size:
            nodes.append(node)
            node = int(self.predecessors[side, node])
        return nodes[::-1]


def grow_trees(indptr: np.ndarray, indices: np.ndarray, log_weights: np.ndarray, start: Links, end: Links) -> Trees:
    """Dijkstra's algorithm from both endpoints over a symmetric CSR graph with log weights (one per entry)."""
    size = len(indptr) - 1
    all_weights = np.concatenate([log_weights, start.log_weights, end.log_weights])
    all_indices = np.concatenate([indices, start.nodes, end.nodes])
    entries = len(indices)
    all_indptr = np.concatenate([indptr, [entries + len(start.nodes), entries + len(start.nodes) + len(end.nodes)]])
    finite = all_weights[np.isfinite(all_weights)]
    shift = float((finite.max() + finite.min()) / 2) if len(finite) else 0.0
    if len(finite) and finite.max() - finite.min() > 2 * SAFE_NATS:
        shift = _bottleneck(all_indptr, all_indices, all_weights)
    linear = np.exp(np.clip(all_weights - shift, -SAFE_NATS, SAFE_NATS))
    matrix = csr_array((linear, all_indices, all_indptr), shape=(size + 2, size + 2))
    distances, predecessors = dijkstra(matrix, directed=True, indices=[size, size + 1], return_predecessors=True)
    return Trees(distances[:, :size], predecessors[:, :size], shift)


def _bottleneck(indptr: np.ndarray, indices: np.ndarray, log_weights: np.ndarray) -> float:
    """Smallest t such that edges of log weight <= t join the last two rows; the largest weight if none does."""
    size = len(indptr) - 1
    rows = np.repeat(np.arange(size), np.diff(indptr))
    levels = np.unique(log_weights)
    low, high = 0, len(levels) - 1
    while low < high:
        middle = (low + high) // 2
        kept = log_weights <= levels[middle]
        part = csr_array((np.ones(kept.sum(), np.int8), (rows[kept], indices[kept])), shape=(size, size))
        labels = connected_components(part, directed=False)[1]
        low, high = (low, middle) if labels[-1] == labels[-2] else (middle + 1, high)
    return float(levels[low])


def best_route(trees: Trees, end: Links, direct: float = np.inf) -> Route | None:
    """The shortest path between the endpoints of two trees.

    Behind the costliest edge, everything cheaper than 1e-16 of it looks alike to the tree that grew through it. There
    the other tree, which grew from the far side, knows the way: the path changes trees at that edge.

    Args:
        trees: from both endpoints.
        end: the links of the end, for the last step.
        direct: log weight of an edge between the endpoints themselves; infinite where there is none.
    """
    last = np.exp(np.clip(end.log_weights - trees.shift, -SAFE_NATS, SAFE_NATS))
    totals = trees.distances[0, end.nodes] + last
    if len(totals) == 0 or not np.isfinite(totals.min()):
        return Route(np.empty(0, dtype=np.int64), float(direct)) if np.isfinite(direct) else None
    best = int(totals.argmin())
    log_length = float(np.log(totals[best]) + trees.shift)
    if direct <= log_length:
        return Route(np.empty(0, dtype=np.int64), float(direct))
    nodes = trees.chain(0, int(end.nodes[best]))
    reached = np.concatenate([[0.0], trees.distances[0, nodes], totals[best : best + 1]])
    costliest = int(np.diff(reached).argmax())  # the edge that leads to nodes[costliest], or to the end
    if costliest < len(nodes):
        nodes = nodes[:costliest] + trees.chain(1, nodes[costliest])[::-1]
    return Route(np.array(nodes, dtype=np.int64), log_length)


@dataclass(frozen=True, eq=False)
class EdgeWeights:
    """How to weigh the edges of a graph and the links of new endpoints, for one β.

    Attributes:
        log_weights: (E,) of the graph's edges.
        link: start (L, D), end (L, D) -> (L,) log weights of further edges, by the same rule.
    """

    log_weights: Float[np.ndarray, " E"]
    link: Callable[[np.ndarray, np.ndarray], np.ndarray]


def power_weights(graph: NeighborGraph, beta: float, intrinsic_dim: float) -> EdgeWeights:
    """Power weights for the graph's edges and for endpoints that join it."""

    def link(start: np.ndarray, end: np.ndarray) -> np.ndarray:
        return power_log_weights(np.linalg.norm(end - start, axis=1), beta, intrinsic_dim)

    return EdgeWeights(power_log_weights(graph.lengths, beta, intrinsic_dim), link)


def density_weights(
    graph: NeighborGraph, log_density: LogDensity, at_midpoints: Float[np.ndarray, "E S"], beta: float
) -> EdgeWeights:
    """Density weights (Algorithm 2) from the stored midpoint log densities, and for endpoints that join."""
    segments = at_midpoints.shape[1]

    def link(start: np.ndarray, end: np.ndarray) -> np.ndarray:
        values = log_density(midpoints(start, end, segments)).reshape(-1, segments)
        return density_log_weights(np.linalg.norm(end - start, axis=1), values, beta)

    return EdgeWeights(density_log_weights(graph.lengths, at_midpoints, beta), link)


def shortest_path(
    graph: NeighborGraph, weights: EdgeWeights, start: Float[np.ndarray, " D"], end: Float[np.ndarray, " D"]
) -> tuple[Float[np.ndarray, "T D"], float] | None:
    """Shortest path between two points of the space that join the graph as nodes, through their k nearest points.

    Returns:
        The path (T + 1, D) and its log length by the edge weights; None where the endpoints are not connected.
    """
    ends = np.stack([start, end])
    distances, nodes = graph.nodes_near(ends, graph.neighbors)
    # One call weighs the links of both ends and the edge between them.
    left = np.concatenate([np.repeat(ends, graph.neighbors, axis=0), ends[:1]])
    right = np.concatenate([graph.points[nodes.ravel()], ends[1:]])
    link_weights = weights.link(left, right)
    links = [Links(nodes[i], link_weights[i * graph.neighbors : (i + 1) * graph.neighbors]) for i in (0, 1)]
    near = np.linalg.norm(end - start) <= distances[:, -1].max()
    trees = grow_trees(graph.indptr, graph.indices, weights.log_weights[graph.edge_of], *links)
    route = best_route(trees, links[1], direct=float(link_weights[-1]) if near else np.inf)
    if route is None:
        return None
    return np.concatenate([start[None], graph.points[route.nodes], end[None]]), route.log_length
