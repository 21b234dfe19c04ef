"""Laws of graphs: no edge lost, no edge invented, weights as printed, shortest paths right at any scale and any β."""

from itertools import pairwise

import numpy as np
import oracles
import pytest
from cases import density, random_mixture
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from core import datasets, densities, graphs
from core.paths import log_length

SCALES = (1e-6, 1e-3, 1.0, 1e6)


def weights_of_edges(graph: graphs.NeighborGraph, values: np.ndarray) -> dict[tuple[int, int], float]:
    return {(int(a), int(b)): float(value) for (a, b), value in zip(graph.edges, values)}


def check_graph(graph: graphs.NeighborGraph):
    """Symmetric, no self edges, every edge once in `edges` and twice in the rows."""
    size = len(graph.points)
    assert (graph.edges[:, 0] < graph.edges[:, 1]).all()
    assert len({tuple(edge) for edge in graph.edges.tolist()}) == len(graph.edges)
    matrix = csr_array((graph.edge_of + 1, graph.indices, graph.indptr), shape=(size, size)).toarray()
    assert (matrix == matrix.T).all()
    assert (np.diag(matrix) == 0).all()
    found = {(int(a), int(b)): matrix[a, b] - 1 for a, b in zip(*np.nonzero(np.triu(matrix)))}
    assert found == {tuple(edge): i for i, edge in enumerate(graph.edges.tolist())}
    assert len(graph.indices) == 2 * len(graph.edges)
    degree = np.diff(graph.indptr)
    assert (degree >= graph.neighbors).all()


# --- the graph ------------------------------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(
    size=st.integers(2, 60),
    dim=st.integers(1, 5),
    k=st.integers(1, 25),
    scale=st.sampled_from(SCALES),
    seed=st.integers(0, 9999),
)
def test_edges_are_those_of_brute_force(size, dim, k, scale, seed):
    points = scale * np.random.default_rng(seed).normal(size=(size, dim))
    graph = graphs.neighbor_graph(points, k)
    check_graph(graph)
    assert {tuple(edge) for edge in graph.edges.tolist()} == oracles.nearest_neighbor_edges(points, min(k, size - 1))
    np.testing.assert_allclose(
        graph.lengths, [np.linalg.norm(points[a] - points[b]) for a, b in graph.edges], rtol=1e-12
    )


@pytest.mark.parametrize("scale", SCALES)
def test_far_from_the_origin_edges_are_those_of_brute_force(scale):
    """Nearest neighbors must not be found from squares that cancel."""
    points = scale * (np.random.default_rng(0).normal(size=(100, 2)) + 1e6)
    graph = graphs.neighbor_graph(points, 5)
    assert {tuple(edge) for edge in graph.edges.tolist()} == oracles.nearest_neighbor_edges(points, 5)


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 9999),
    copies=st.integers(2, 12),
    k=st.integers(1, 6),
    dim=st.integers(1, 20),
    scale=st.sampled_from(SCALES),
)
def test_duplicates_make_no_self_edges_and_lose_none(seed, copies, k, dim, scale):
    """With duplicates the nearest neighbors are not unique, but their distances are."""
    distinct = scale * np.random.default_rng(seed).normal(size=(8, dim))
    points = np.repeat(distinct, copies, axis=0)
    graph = graphs.neighbor_graph(points, k)
    check_graph(graph)
    for i in range(len(points)):
        row = graph.indices[graph.indptr[i] : graph.indptr[i + 1]]
        own = np.sort(np.linalg.norm(points[row] - points[i], axis=1))[:k]
        all_others = np.sort(np.delete(np.linalg.norm(points - points[i], axis=1), i))[:k]
        np.testing.assert_allclose(own, all_others, atol=1e-7 * scale)


def test_few_points_are_joined_to_all():
    graph = graphs.neighbor_graph(np.random.default_rng(0).normal(size=(4, 2)), 20)
    assert graph.neighbors == 3
    assert len(graph.edges) == 6


def test_the_graph_knows_no_scale():
    points = np.random.default_rng(1).normal(size=(300, 2))
    edges = [graphs.neighbor_graph(scale * points, 10).edges for scale in SCALES]
    for other in edges[1:]:
        np.testing.assert_array_equal(other, edges[0])


# --- edge weights ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("beta", [0, 0.5, 1, 10])
@pytest.mark.parametrize("segments", [1, 4, 10])
def test_density_weights_are_algorithm_2(beta, segments):
    mixture = random_mixture(3, 4, seed=1)
    points = mixture.sample(25, seed=0)
    graph = graphs.neighbor_graph(points, 3)
    at_midpoints = graphs.midpoint_log_density(graph, mixture.log_density, segments)
    found = graphs.density_weights(graph, mixture.log_density, at_midpoints, beta)
    wanted = oracles.algorithm_2(points, map(tuple, graph.edges.tolist()), mixture.log_density, beta, segments)
    assert weights_of_edges(graph, found.log_weights) == pytest.approx(wanted, abs=1e-10)
    # Endpoints join by the same rule.
    left, right = points[graph.edges[:, 0]], points[graph.edges[:, 1]]
    np.testing.assert_allclose(found.link(left, right), found.log_weights, rtol=1e-13)


@pytest.mark.parametrize("beta", [0.5, 1, 3])
def test_density_weights_tend_to_the_length_of_the_edge(beta):
    """The midpoint rule: S times as many segments, an error S² times smaller."""
    mixture = density("gaussian_mixture")
    points = mixture.sample(60, seed=0)
    graph = graphs.neighbor_graph(points, 4)
    exact = [log_length(points[edge], mixture.log_density, beta) for edge in graph.edges]
    errors = []
    for segments in (20, 40):
        at_midpoints = graphs.midpoint_log_density(graph, mixture.log_density, segments)
        found = graphs.density_weights(graph, mixture.log_density, at_midpoints, beta).log_weights
        errors.append(np.abs(found - exact).max())
    assert errors[1] < errors[0] / 3.5


@pytest.mark.parametrize("intrinsic_dim", [1, 2, 2.5, 25])
@pytest.mark.parametrize("beta", [0, 0.5, 1, 10])
def test_power_weights_are_powers_of_the_length(beta, intrinsic_dim):
    points = np.random.default_rng(0).uniform(0.5, 2, size=(30, 2))
    graph = graphs.neighbor_graph(points, 3)
    found = graphs.power_weights(graph, beta, intrinsic_dim)
    np.testing.assert_allclose(np.exp(found.log_weights), graph.lengths ** (beta * intrinsic_dim + 1), rtol=1e-10)
    left, right = points[graph.edges[:, 0]], points[graph.edges[:, 1]]
    np.testing.assert_allclose(found.link(left, right), found.log_weights, rtol=1e-12)


@pytest.mark.parametrize(
    ("rule", "transcribed"),
    [
        ("inverse_of_mean", lambda p, q: 1 / ((p + q) / 2)),
        ("mean_of_inverse", lambda p, q: (1 / p + 1 / q) / 2),
        ("max", lambda p, q: 1 / max(p, q)),
        ("min", lambda p, q: 1 / min(p, q)),
    ],
)
def test_endpoint_rules_are_those_of_the_appendix(rule, transcribed):
    points = np.random.default_rng(0).normal(size=(30, 2))
    graph = graphs.neighbor_graph(points, 3)
    log_density = densities.standard_normal(2).log_density(points)
    p = np.exp(log_density)
    wanted = [np.linalg.norm(points[a] - points[b]) * transcribed(p[a], p[b]) for a, b in graph.edges]
    found = graphs.endpoint_rule_log_weights(graph, log_density, rule, 1)
    np.testing.assert_allclose(np.exp(found), wanted, rtol=1e-10)
    squared = graphs.endpoint_rule_log_weights(graph, log_density, rule, 2)
    np.testing.assert_allclose(squared - np.log(graph.lengths), 2 * (found - np.log(graph.lengths)), rtol=1e-12)


def test_nearest_neighbor_density_is_the_inverse_distance_power():
    points = np.random.default_rng(0).normal(size=(30, 3))
    graph = graphs.neighbor_graph(points, 4)
    nearest = [min(np.linalg.norm(points[i] - points[j]) for j in range(30) if j != i) for i in range(30)]
    np.testing.assert_allclose(np.exp(graphs.nearest_neighbor_log_density(graph, 3)), np.power(nearest, -3.0))


# --- shortest paths over any weights --------------------------------------------------------------------------------


def random_network(size: int, extra: int, spread: float, seed: int, whole: bool = True):
    """A random connected graph (or two halves) with log weights uniform in ±spread, and links to two endpoints."""
    rng = np.random.default_rng(seed)
    pairs = {(int(rng.integers(i)), i) for i in range(1, size)}
    if not whole:
        half = size // 2
        pairs = {(a, b) for a, b in pairs if (a < half) == (b < half)}
    for _ in range(extra if whole else 0):
        a, b = sorted(rng.choice(size, 2, replace=False).tolist())
        pairs.add((a, b))
    edges = np.array(sorted(pairs))
    graph = graphs._from_edges(np.zeros((size, 2)), 1, edges)
    weights = rng.uniform(-spread, spread, len(edges))
    links = [
        graphs.Links(rng.choice(nodes, 3, replace=False), rng.uniform(-spread, spread, 3))
        for nodes in (np.arange(size // 2), np.arange(size // 2, size))
    ]
    return graph, weights, links


def as_dictionary(graph, weights, links):
    found = weights_of_edges(graph, weights)
    for name, link in zip(("start", "end"), links):
        found |= {(name, int(node)): float(weight) for node, weight in zip(link.nodes, link.log_weights)}
    return found


def length_of(route, network) -> float:
    """Log length of a route by the network's weights; fails if it walks where there is no edge."""
    nodes = ["start", *map(int, route.nodes), "end"]
    logs = []
    for a, b in pairwise(nodes):
        found = [network[edge] for edge in ((a, b), (b, a)) if edge in network]
        logs.append(min(found))
    return float(np.logaddexp.reduce(logs))


@settings(max_examples=100, deadline=None)
@given(
    size=st.integers(8, 40),
    extra=st.integers(0, 60),
    spread=st.sampled_from([0.0, 1.0, 30.0, 300.0, 700.0, 2000.0, 20_000.0]),
    seed=st.integers(0, 10**6),
)
def test_shortest_paths_are_those_of_exact_arithmetic(size, extra, spread, seed):
    graph, weights, links = random_network(size, extra, spread, seed)
    trees = graphs.grow_trees(graph.indptr, graph.indices, weights[graph.edge_of], *links)
    route = graphs.best_route(trees, links[1])
    network = as_dictionary(graph, weights, links)
    wanted = oracles.shortest_log_length(network, "start", "end")
    assert route is not None
    assert len(set(route.nodes.tolist())) == len(route.nodes)
    assert route.log_length == pytest.approx(wanted, rel=1e-12, abs=1e-9)
    assert length_of(route, network) == pytest.approx(wanted, rel=1e-12, abs=1e-9)


@settings(max_examples=60, deadline=None)
@given(size=st.integers(10, 40), spread=st.sampled_from([1.0, 700.0, 2000.0]), seed=st.integers(0, 10**6))
def test_no_path_is_none_and_an_edge_between_the_endpoints_is_used(size, spread, seed):
    graph, weights, links = random_network(size, 0, spread, seed, whole=False)
    trees = graphs.grow_trees(graph.indptr, graph.indices, weights[graph.edge_of], *links)
    assert graphs.best_route(trees, links[1]) is None
    route = graphs.best_route(trees, links[1], direct=3.5)
    assert route.log_length == 3.5
    assert len(route.nodes) == 0


@pytest.mark.parametrize("size", [50, 400])
def test_no_endpoints_among_the_weights_is_none(size):
    graph, weights, links = random_network(size, 10, 1.0, 0)
    nothing = graphs.Links(np.empty(0, dtype=np.int64), np.empty(0))
    trees = graphs.grow_trees(graph.indptr, graph.indices, weights[graph.edge_of], links[0], nothing)
    assert graphs.best_route(trees, nothing) is None


# --- shortest paths over points -------------------------------------------------------------------------------------


def joined(graph, weights, start, end):
    """The graph with its endpoints as a dictionary of log weights, joined to their k nearest points."""
    network = weights_of_edges(graph, weights.log_weights)
    for name, point in (("start", start), ("end", end)):
        nearest = np.argsort(np.linalg.norm(graph.points - point, axis=1))[: graph.neighbors]
        link = weights.link(np.broadcast_to(point, (len(nearest), len(point))), graph.points[nearest])
        network |= {(name, int(node)): float(weight) for node, weight in zip(nearest, link)}
    return network


def both_weights(scale: float, beta: float, name: str = "two_spirals", size: int = 150):
    """Power weights and density weights over a sample in units of 1/scale, with its density."""
    true = datasets.load(name).density
    points = scale * true.sample(size, seed=0)
    graph = graphs.neighbor_graph(points, 8)

    def log_density(x: np.ndarray) -> np.ndarray:
        return true.log_density(x / scale) - 2 * np.log(scale)

    at_midpoints = graphs.midpoint_log_density(graph, log_density, 4)
    return graph, {
        "power": graphs.power_weights(graph, beta, 2),
        "density": graphs.density_weights(graph, log_density, at_midpoints, beta),
    }


ENDS = np.array([[0.5, 0.4], [-0.3, -0.6]])


@pytest.mark.parametrize("kind", ["power", "density"])
@pytest.mark.parametrize("beta", [0, 0.5, 1, 3, 10])
@pytest.mark.parametrize("scale", SCALES)
def test_paths_between_points_are_those_of_exact_arithmetic(scale, beta, kind):
    graph, weights = both_weights(scale, beta)
    path, length = graphs.shortest_path(graph, weights[kind], *scale * ENDS)
    np.testing.assert_array_equal(path[[0, -1]], scale * ENDS)
    wanted = oracles.shortest_log_length(joined(graph, weights[kind], *scale * ENDS), "start", "end")
    assert length == pytest.approx(wanted, abs=1e-9)
    own = weights[kind].link(path[:-1], path[1:])
    assert np.logaddexp.reduce(own) == pytest.approx(length, abs=1e-9)


@pytest.mark.parametrize("kind", ["power", "density"])
@pytest.mark.parametrize("beta", [0, 1, 10])
def test_paths_know_no_scale(kind, beta):
    found = []
    for scale in SCALES:
        graph, weights = both_weights(scale, beta)
        found.append(graphs.shortest_path(graph, weights[kind], *scale * ENDS)[0] / scale)
    for other in found[1:]:
        np.testing.assert_allclose(other, found[0], rtol=1e-9)


@pytest.mark.parametrize("kind", ["power", "density"])
@pytest.mark.parametrize("beta", [0, 1, 10])
def test_reversed_endpoints_reverse_the_path(kind, beta):
    graph, weights = both_weights(1.0, beta)
    path, length = graphs.shortest_path(graph, weights[kind], *ENDS)
    back, same = graphs.shortest_path(graph, weights[kind], *ENDS[::-1])
    np.testing.assert_array_equal(back[::-1], path)
    assert same == pytest.approx(length, abs=1e-12)


@pytest.mark.parametrize("kind", ["power", "density"])
@pytest.mark.parametrize("beta", [0, 1, 10])
def test_duplicates_change_no_path(kind, beta):
    """Points twice in the sample: twice as many neighbors are the same graph with edges of length zero."""
    true = datasets.load("spiral").density
    points = true.sample(100, seed=0)
    doubled = np.repeat(points, 2, axis=0)
    lengths = []
    for sample, k in ((points, 6), (doubled, 13)):
        graph = graphs.neighbor_graph(sample, k)
        at_midpoints = graphs.midpoint_log_density(graph, true.log_density, 4)
        weights = {
            "power": graphs.power_weights(graph, beta, 2),
            "density": graphs.density_weights(graph, true.log_density, at_midpoints, beta),
        }[kind]
        path, length = graphs.shortest_path(graph, weights, points[0], points[1])  # the endpoints are duplicates, too
        assert np.isfinite(path).all()
        assert np.isfinite(length)
        lengths.append(length)
    assert lengths[1] == pytest.approx(lengths[0], abs=1e-9)


def test_endpoints_that_are_close_may_go_straight():
    graph, weights = both_weights(1.0, 1.0)
    start = graph.points[0] + 1e-4
    path, _ = graphs.shortest_path(graph, weights["density"], start, start + 1e-5)
    assert len(path) == 2


@pytest.mark.parametrize("beta", [0, 1, 10])
@pytest.mark.parametrize("kind", ["power", "density"])
def test_a_disconnected_graph_has_no_path(kind, beta):
    rng = np.random.default_rng(0)
    points = np.concatenate([rng.normal(size=(30, 2)), rng.normal(size=(30, 2)) + 100])
    graph = graphs.neighbor_graph(points, 3)
    normal = densities.standard_normal(2)
    at_midpoints = graphs.midpoint_log_density(graph, normal.log_density, 4)
    weights = {
        "power": graphs.power_weights(graph, beta, 2),
        "density": graphs.density_weights(graph, normal.log_density, at_midpoints, beta),
    }[kind]
    assert graphs.shortest_path(graph, weights, np.zeros(2), np.full(2, 100.0)) is None
    assert graphs.shortest_path(graph, weights, np.zeros(2), np.ones(2)) is not None


@pytest.mark.parametrize("dim", [2, 5])
@pytest.mark.parametrize("neighbors", [1, 3])
def test_bridges_join_all_parts_and_add_nothing_else(dim, neighbors):
    rng = np.random.default_rng(dim)
    centers = rng.normal(size=(5, dim)) * 30
    points = np.concatenate([center + rng.normal(size=(40, dim)) for center in centers])
    graph = graphs.neighbor_graph(points, neighbors)
    assert graph.parts.max() >= 4
    whole = graphs.bridged(graph)
    assert whole.parts.max() == 0
    before, after = ({tuple(edge) for edge in g.edges.tolist()} for g in (graph, whole))
    assert before <= after
    added = np.array(sorted(after - before))
    assert (graph.parts[added[:, 0]] != graph.parts[added[:, 1]]).all()
    # The shortest of all links between different parts is among them.
    distances = np.linalg.norm(points[:, None] - points, axis=2)
    distances[graph.parts[:, None] == graph.parts] = np.inf
    i, j = np.unravel_index(distances.argmin(), distances.shape)
    assert (min(i, j), max(i, j)) in after


def test_a_connected_graph_needs_no_bridges():
    points = np.random.default_rng(0).normal(size=(200, 2))
    graph = graphs.neighbor_graph(points, 20)
    assert graphs.bridged(graph) is graph


# --- misuse ---------------------------------------------------------------------------------------------------------

POINTS = np.random.default_rng(0).normal(size=(9, 2))


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("message", "call"),
    [
        ("points should be at least two", lambda: graphs.neighbor_graph(POINTS[:1], 3)),
        ("points should have shape", lambda: graphs.neighbor_graph(POINTS[0], 3)),
        ("points should hold finite", lambda: graphs.neighbor_graph(np.nan * POINTS, 3)),
        ("neighbors should", lambda: graphs.neighbor_graph(POINTS, 0)),
        ("segments should", lambda: graphs.midpoint_log_density(graphs.neighbor_graph(POINTS, 3), np.sum, 0)),
        ("beta should", lambda: graphs.power_log_weights(np.ones(3), -1, 2)),
        ("beta should", lambda: graphs.density_log_weights(np.ones(3), np.ones((3, 2)), np.nan)),
        (
            "rule should be one of inverse_of_mean",
            lambda: graphs.endpoint_rule_log_weights(graphs.neighbor_graph(POINTS, 3), np.ones(9), "mean", 1),
        ),
    ],
)
def test_misuse_is_named(message, call):
    with pytest.raises(ValueError, match=f"^{message}"):
        call()
