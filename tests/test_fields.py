"""Laws of distance fields and routes: the closed form where there is one, the solver everywhere else."""

import numpy as np
import pytest
from cases import DATASETS, SEED, density, pairs

from core import densities, fields, geodesics, paths
from core.fields import Box

IN_PLANE = DATASETS


@pytest.fixture(scope="module")
def tables():
    """Log density of each dataset on a 256² grid, and its box."""
    found = {}
    for name in IN_PLANE:
        box = fields.box_around(density(name).sample(1000, seed=0))
        found[name] = box, fields.tabulate(density(name).log_density, box, 256)
    return found


# --- the box --------------------------------------------------------------------------------------------------------


def test_a_box_is_square_and_holds_its_points():
    points = np.array([[0.0, 5.0], [4.0, 6.0], [1.0, 5.5]])
    box = fields.box_around(points, margin=0.25)
    np.testing.assert_allclose(box.size, [6, 6])  # 4 wide, a quarter of it more on each side
    np.testing.assert_allclose(np.add(box.low, box.high) / 2, [2, 5.5])
    assert box.contains(points)
    assert not box.contains(np.array([[2.0, 9.0]]))
    assert box.contains(np.array([[2.0, 9.0]]), margin=0.1)


@pytest.mark.parametrize("name", IN_PLANE)
def test_a_sample_fills_its_box(name):
    """No tail is so heavy that its farthest points make a dot of the rest: nine in ten points span a third of it."""
    for seed in range(10):
        sample = density(name).sample(4000, seed=seed)
        middle = np.ptp(np.quantile(sample, [0.05, 0.95], axis=0), axis=0)
        assert middle.max() > fields.box_around(sample, margin=0.05).size[0] / 3


def test_tables_are_rows_along_y():
    box = Box((0.0, 10.0), (1.0, 12.0))
    table = fields.tabulate(lambda x: x[:, 0] + 100 * x[:, 1], box, 3)
    np.testing.assert_allclose(table, [[1000, 1000.5, 1001], [1100, 1100.5, 1101], [1200, 1200.5, 1201]])


# --- distance fields ------------------------------------------------------------------------------------------------


def test_without_a_density_distance_is_euclidean():
    box, start = Box((-1.0, -2.0), (3.0, 2.0)), np.array([0.3, 0.4])
    for table, beta in ((np.zeros((200, 200)), 1.0), (np.random.default_rng(0).normal(size=(200, 200)), 0.0)):
        field = fields.distance_field(table, box, start, beta)
        ends = np.random.default_rng(1).uniform([-1, -2], [3, 2], size=(50, 2))
        euclidean = np.linalg.norm(ends - start, axis=1)
        np.testing.assert_allclose(np.exp(field.log_distance(ends)), euclidean, rtol=0.01)  # 2 % of a cell's width


@pytest.mark.parametrize("beta", [0.25, 0.5, 1.0])
def test_distances_in_the_standard_normal_are_the_closed_form(tables, beta):
    box, table = tables["standard_normal"]
    for start, end in pairs("standard_normal", 6):
        field = fields.distance_field(table, box, start, beta)
        wanted = geodesics.normal_log_distance(start, end, beta)
        # The start's circle is 2.5 cells wide, and the speed varies over it by that share of β r.
        cells = 2.5 * box.size[0] / 255 * beta * max(np.linalg.norm(start), np.linalg.norm(end))
        assert field.log_distance(end[None])[0] == pytest.approx(wanted, abs=0.003 + 0.5 * cells)


@pytest.mark.parametrize("name", IN_PLANE)
def test_a_factor_on_the_density_changes_the_unit_alone(tables, name):
    box, table = tables[name]
    start = density(name).sample(1, seed=SEED)[0]
    field, shifted = (fields.distance_field(table + c, box, start, 2.0) for c in (0.0, -123.0))
    np.testing.assert_allclose(shifted.values, field.values, rtol=1e-9)
    assert shifted.log_unit == pytest.approx(field.log_unit + 2 * 123.0)


@pytest.mark.parametrize("beta", [0.0, 1.0, 3.0, 10.0])
@pytest.mark.parametrize("name", IN_PLANE)
def test_fields_are_finite_and_grow_from_the_start(tables, name, beta):
    """At β = 10 most of the box is a wall; it is far, not NaN."""
    box, table = tables[name]
    start = density(name).sample(1, seed=SEED)[0]
    field = fields.distance_field(table, box, start, beta)
    assert np.isfinite(field.values).all()
    assert (field.values >= 0).all()
    nearest = np.unravel_index(field.values.argmin(), field.values.shape)
    x, y = box.axes(256)
    assert np.hypot(x[nearest[1]] - start[0], y[nearest[0]] - start[1]) < 2 * box.size[0] / 255


@pytest.mark.parametrize("name", IN_PLANE)
def test_descent_is_a_short_path(tables, name):
    """Steps of half a cell down a field on 256² nodes: within 5 % of the geodesic, and never shorter."""
    box, table = tables[name]
    for start, end in pairs(name, 4):
        if not box.contains(np.stack([start, end])):
            continue
        path = fields.descend(fields.distance_field(table, box, start, 1.0), end)
        assert path is not None
        np.testing.assert_array_equal(path[[0, -1]], [start, end])
        geodesic = geodesics.solve(density(name), start, end, 1.0)
        ratio = paths.log_path_ratio(path, density(name), 1.0, geodesic)
        assert -1e-5 < ratio < 0.05


def test_descent_that_leads_nowhere_is_none():
    flat = fields.DistanceField(np.zeros((20, 20)), Box((0.0, 0.0), (1.0, 1.0)), np.array([0.1, 0.1]), 0.0)
    assert fields.descend(flat, np.array([0.9, 0.9])) is None


def test_a_start_outside_the_box_is_refused():
    box = Box((0.0, 0.0), (1.0, 1.0))
    with pytest.raises(ValueError, match=r"^start should lie in the box"):
        fields.distance_field(np.zeros((50, 50)), box, np.array([3.0, 0.5]), 1.0)


# --- routes ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("beta", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("name", IN_PLANE)
def test_routes_are_paths_a_little_longer_than_the_geodesic(name, beta):
    """16 directions cost up to 2.7 %, and the two ends a cell each; the first route is the shortest."""
    routes_of = fields.route_map(density(name))
    for start, end in pairs(name, 5):
        routes = routes_of.routes(start, end, beta)
        assert 1 <= len(routes) <= fields.MAX_ROUTES
        geodesic = geodesics.solve(density(name), start, end, beta)
        lengths = [paths.log_length(route, density(name).log_density, beta) for route in routes]
        for route, length in zip(routes, lengths):
            np.testing.assert_array_equal(route[[0, -1]], [start, end])
            assert length > geodesic.log_length - 1e-5
        assert lengths[0] < geodesic.log_length + 0.2
        assert lengths[0] <= min(lengths) + 0.02


def test_opposite_points_of_the_circle_have_two_routes():
    routes = fields.route_map(density("circle")).routes(np.array([1.0, 0.0]), np.array([-1.0, 0.01]), 1.0)
    sides = {np.sign(route[len(route) // 2, 1]) for route in routes}
    assert sides == {-1.0, 1.0}


@pytest.mark.parametrize("name", IN_PLANE)
def test_routes_start_anywhere(name):
    """Inside a cell, on a node, on the box's edge, outside it."""
    routes_of = fields.route_map(density(name))
    box = routes_of.box
    middle = density(name).sample(1, seed=SEED)[0]
    node = routes_of.points[routes_of.nodes * 10 + 7]
    corner, outside = np.array(box.low), np.array(box.high) + 10 * box.size
    for start in (node, corner, outside, middle + 1e-3 * box.size):
        for first, last in ((start, middle), (middle, start)):
            for beta in (0.5, 10.0):
                for route in routes_of.routes(first, last, beta):
                    assert np.isfinite(route).all()
                    np.testing.assert_array_equal(route[[0, -1]], [first, last])


def test_first_guesses_beyond_the_plane():
    normal = densities.standard_normal(5)
    start, end = normal.sample(2, seed=0)
    (guess,) = fields.first_guesses(normal, start, end, 1.0)
    np.testing.assert_allclose(guess, paths.straight(start, end))
    mixture = density("mixture_6d")
    start, end = mixture.sample(2, seed=0)
    guesses = fields.first_guesses(mixture, start, end, 1.0)
    assert len(guesses) == 2
    for guess in guesses:
        np.testing.assert_array_equal(guess[[0, -1]], [start, end])


@pytest.mark.parametrize("name", IN_PLANE)
def test_maps_are_made_once(name):
    assert fields.route_map(density(name)) is fields.route_map(density(name))
