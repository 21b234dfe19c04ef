"""Laws of geodesics: the closed form, Algorithm 1, symmetries, and no shorter way around that was not looked at."""

import numpy as np
import oracles
import pytest
from cases import CURVED, DATASETS, DENSITIES, IN_THE_PLANE, SEED, STRUCTURED, density, pairs, random_mixture
from scipy.spatial import cKDTree

from core import densities, fields, geodesics, paths
from core.densities import GaussianMixture
from core.geodesics import Status

SOLVED = [name for name in DENSITIES if name not in ("normal_1d",)]


class Scaled:
    """A density times a constant."""

    def __init__(self, density, log_factor: float):
        self.density, self.log_factor, self.dim = density, log_factor, density.dim

    def log_density(self, x):
        return self.density.log_density(x) + self.log_factor

    def evaluate(self, x):
        log_density, score, jacobian = self.density.evaluate(x)
        return log_density + self.log_factor, score, jacobian

    def sample(self, size, seed):
        return self.density.sample(size, seed)


class Stretched:
    """A density of points that were multiplied by `scale`."""

    def __init__(self, density, scale: float):
        self.density, self.scale, self.dim = density, scale, density.dim

    def log_density(self, x):
        return self.density.log_density(x / self.scale) - self.dim * np.log(self.scale)

    def evaluate(self, x):
        log_density, score, jacobian = self.density.evaluate(x / self.scale)
        return log_density - self.dim * np.log(self.scale), score / self.scale, jacobian / self.scale**2

    def sample(self, size, seed):
        return self.scale * self.density.sample(size, seed)


def distance_between(path: np.ndarray, other: np.ndarray) -> float:
    """Hausdorff distance of two polylines, as a share of the first one's extent."""
    a, b = paths.resample(path, 2000), paths.resample(other, 2000)
    gap = max(cKDTree(a).query(b)[0].max(), cKDTree(b).query(a)[0].max())
    return float(gap / paths.arc_length(path)[-1])


# --- the standard normal --------------------------------------------------------------------------------------------


def normal_pairs(dim: int, count: int = 6) -> list[tuple[np.ndarray, np.ndarray]]:
    points = densities.standard_normal(dim).sample(2 * count, seed=dim)
    return list(zip(points[:count], points[count:]))


@pytest.mark.parametrize("beta", ["1", "1/2", "2", "1/D"])
@pytest.mark.parametrize("dim", [2, 3, 10, 25])
def test_normal_geodesics_have_the_length_of_the_closed_form(dim, beta):
    """The bar of the project: 1e-5 nats, and every pair converged."""
    value = 1 / dim if beta == "1/D" else {"1": 1.0, "1/2": 0.5, "2": 2.0}[beta]
    normal = densities.standard_normal(dim)
    for start, end in normal_pairs(dim):
        solved = geodesics.solve(normal, start, end, value)
        assert solved.status is Status.CONVERGED
        assert solved.log_length == pytest.approx(geodesics.normal_log_distance(start, end, value), abs=1e-5)


@pytest.mark.parametrize("beta", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("dim", [3, 10, 25])
def test_normal_geodesics_are_planar_ones_rotated(dim, beta):
    for start, end in normal_pairs(dim, 3):
        basis = np.linalg.qr(np.stack([start, end], axis=1))[0]  # (D, 2): the plane of the endpoints and the origin
        solved = geodesics.solve(densities.standard_normal(dim), start, end, beta)
        flat = geodesics.solve(densities.standard_normal(2), start @ basis, end @ basis, beta)
        assert distance_between(flat.path @ basis.T, solved.path) < 1e-4
        constant = beta * 0.5 * (dim - 2) * np.log(2 * np.pi)
        assert solved.log_length == pytest.approx(flat.log_length + constant, abs=1e-5)


@pytest.mark.parametrize("beta", [0.05, 0.5, 1.0, 2.0, 10.0])
def test_closed_form_meets_independent_quadratures(beta):
    """Along a ray and through the origin the length is Dawson's function; symmetric pairs have no other way."""
    from test_paths import log_radial_length

    x, y = np.array([1.2, 1.6]), np.array([-0.6, -0.8])
    through = np.logaddexp(log_radial_length(2.0, beta, 2), log_radial_length(1.0, beta, 2))
    assert geodesics.normal_log_distance(x, y, beta) == pytest.approx(through, abs=1e-9)
    ray = log_radial_length(2.0, beta, 2) + np.log1p(
        -np.exp(log_radial_length(1.0, beta, 2) - log_radial_length(2.0, beta, 2))
    )
    assert geodesics.normal_log_distance(x, -y, beta) == pytest.approx(ray, abs=1e-9)
    assert geodesics.normal_log_distance(x, np.zeros(2), beta) == pytest.approx(log_radial_length(2, beta, 2), abs=1e-9)


@pytest.mark.parametrize("seed", range(8))
def test_closed_form_is_a_distance(seed):
    """Symmetric, the triangle inequality, and continuous where the formula changes its branch."""
    rng = np.random.default_rng(seed)
    x, y, z = rng.normal(size=(3, 3))
    for beta in (0.0, 0.3, 1.0, 3.0):
        xy, yz, xz = (geodesics.normal_log_distance(a, b, beta) for a, b in ((x, y), (y, z), (x, z)))
        assert geodesics.normal_log_distance(y, x, beta) == pytest.approx(xy, abs=1e-9)
        assert xz <= np.logaddexp(xy, yz) + 1e-9
        for nearby in (1e-7, -1e-7):
            assert geodesics.normal_log_distance(x, y * (1 + nearby), beta) == pytest.approx(xy, abs=1e-4)


# --- every density --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SOLVED)
def test_beta_zero_is_the_straight_line(name):
    (start, end), *_ = pairs(name, 1)
    solved = geodesics.solve(density(name), start, end, 0)
    np.testing.assert_allclose(solved.path, paths.straight(start, end, len(solved.path) - 1))
    assert solved.log_length == pytest.approx(np.log(np.linalg.norm(end - start)), abs=1e-12)
    assert solved.status is Status.CONVERGED
    tiny = geodesics.solve(density(name), start, end, 1e-8)
    assert tiny.log_length == pytest.approx(solved.log_length, abs=1e-5)


@pytest.mark.parametrize("name", SOLVED)
def test_what_is_returned_is_true_of_the_path(name):
    """Endpoints, length, residual: each recomputed from the path alone; no other straight or kinked path is shorter."""
    for start, end in pairs(name, 2):
        for beta in (0.5, 1.0):
            solved = geodesics.solve(density(name), start, end, beta)
            assert solved.status is Status.CONVERGED
            np.testing.assert_array_equal(solved.path[[0, -1]], [start, end])
            length = paths.log_length(solved.path, density(name).log_density, beta)
            assert solved.log_length == pytest.approx(length, abs=1e-8)
            assert length <= paths.log_length(paths.straight(start, end), density(name).log_density, beta) + 1e-5
            # Perturbations that vanish at the ends are never shorter, to second order of their size.
            rng = np.random.default_rng(0)
            time = np.linspace(0, 1, len(solved.path))[:, None]
            size = 0.01 * paths.arc_length(solved.path)[-1]
            for mode in (1, 2, 3, 5, 9):
                bump = size / mode * np.sin(np.pi * mode * time) * rng.normal(size=len(start))
                for moved in (solved.path + bump, solved.path - bump):
                    assert paths.log_length(moved, density(name).log_density, beta) > length - 1e-6


@pytest.mark.parametrize("name", SOLVED)
def test_reversed_endpoints_reverse_the_path(name):
    for start, end in pairs(name, 2):
        there, back = (geodesics.solve(density(name), a, b, 1.0) for a, b in ((start, end), (end, start)))
        assert back.log_length == pytest.approx(there.log_length, abs=1e-5)
        assert distance_between(there.path, back.path) < 1e-4


@pytest.mark.parametrize("name", ["standard_normal", *STRUCTURED, *CURVED, "mixture_3d"])
@pytest.mark.parametrize("log_factor", [-300.0, 5.0])
def test_a_factor_on_the_density_moves_no_path(name, log_factor):
    (start, end), *_ = pairs(name, 1)
    for beta in (0.5, 2.0):
        solved = geodesics.solve(density(name), start, end, beta)
        other = geodesics.solve(Scaled(density(name), log_factor), start, end, beta)
        assert other.log_length == pytest.approx(solved.log_length - beta * log_factor, abs=1e-7)
        # A residual of 1e-9 of the path's extent leaves (T/π)² = 16,000 times as much freedom to the path.
        assert distance_between(solved.path, other.path) < 1e-4


@pytest.mark.parametrize("scale", [1e-6, 1e-3, 1e3, 1e6])
@pytest.mark.parametrize("name", ["standard_normal", *STRUCTURED, *CURVED, "mixture_3d"])
def test_scaling_the_data_scales_lengths(name, scale):
    original = density(name)
    if isinstance(original, GaussianMixture):
        scaled = GaussianMixture(original.weights, scale * original.means, scale**2 * original.covariances)
    else:
        scaled = Stretched(original, scale)
    (start, end), *_ = pairs(name, 1)
    solved = geodesics.solve(original, start, end, 1.0)
    other = geodesics.solve(scaled, scale * start, scale * end, 1.0)
    assert other.status is Status.CONVERGED
    # ds grows by the scale, p falls by scale^D.
    shift = (1 + original.dim) * np.log(scale)
    assert other.log_length == pytest.approx(solved.log_length + shift, abs=1e-5)
    assert distance_between(solved.path, other.path / scale) < 1e-4


@pytest.mark.parametrize("name", ["standard_normal", "circle", "mixture_6d"])
def test_solve_many_is_solve_for_each(name):
    chosen = pairs(name, 3)
    starts, ends = (np.stack(side) for side in zip(*chosen))
    for many, (start, end) in zip(geodesics.solve_many(density(name), starts, ends, 1.0), chosen):
        one = geodesics.solve(density(name), start, end, 1.0)
        np.testing.assert_array_equal(many.path, one.path)
        assert many.log_length == one.log_length


# --- the globally shortest path -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def marched():
    """Log density of each dataset on 256² and 512² nodes, and the box."""
    found = {}
    for name in DATASETS:
        box = fields.box_around(density(name).sample(4000, seed=0))
        found[name] = box, [fields.tabulate(density(name).log_density, box, nodes) for nodes in (256, 512)]
    return found


@pytest.mark.parametrize("beta", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("name", DATASETS)
def test_neither_longer_nor_shorter_than_fast_marching(marched, name, beta):
    """Fast marching looks everywhere. Its own error is read off two grids: of first order near the start, so what 512²
    nodes still miss is about what they gained over 256²; bilinear reading costs it another 0.003 nats. It starts from
    the denser end, where the speed varies least over the start's circle."""
    box, tables = marched[name]
    for start, end in pairs(name, 4):
        solved = geodesics.solve(density(name), start, end, beta)
        assert solved.status is Status.CONVERGED
        source, target = sorted((start, end), key=lambda x: -density(name).log_density(x[None])[0])
        coarse, fine = (fields.distance_field(t, box, source, beta).log_distance(target[None])[0] for t in tables)
        assert abs(solved.log_length - fine) <= 1.5 * abs(coarse - fine) + 0.003


@pytest.mark.parametrize("beta", [0.5, 1.0, 2.0])
def test_both_ways_around_the_circle_are_compared(beta):
    """Nearly opposite points: the shorter of the two arcs is returned, whichever the grid happened to prefer."""
    circle = density("circle")
    compared, sides = 0, set()
    for angle in np.linspace(0, np.pi, 8, endpoint=False):
        for offset in (-0.05, 0.0, 0.05):
            start = np.array([np.cos(angle), np.sin(angle)])
            end = -np.array([np.cos(angle + offset), np.sin(angle + offset)])
            solved = geodesics.solve(circle, start, end, beta)
            compared += len(solved.alternatives) > 0
            assert all(other >= solved.log_length for other in solved.alternatives)
            lengths = []
            for turn in (1, -1):
                last = np.arctan2(end[1], end[0]) - angle
                arc = angle + np.linspace(0, last % (2 * np.pi) - (2 * np.pi if turn < 0 else 0), 200)
                lengths.append(geodesics.solve(circle, start, end, beta, np.stack([np.cos(arc), np.sin(arc)], 1)))
            assert {way.status for way in lengths} == {Status.CONVERGED}
            assert solved.log_length == pytest.approx(min(way.log_length for way in lengths), abs=1e-6)
            sides.add(int(np.argmin([way.log_length for way in lengths])))
    assert compared > 0
    assert sides == {0, 1}


def test_the_shorter_way_in_three_dimensions():
    """A ring in space, unevenly filled: the other way around is a local solution that must lose."""
    angle = 2 * np.pi * np.arange(24) / 24
    means = np.stack([np.cos(angle), np.sin(angle), 0 * angle], axis=1)
    weights = np.where(np.sin(angle) > 0.1, 0.02, 1.0)  # the upper half is thinly filled
    ring = GaussianMixture(weights, means, np.broadcast_to(0.02 * np.eye(3), (24, 3, 3)))
    solved = geodesics.solve(ring, np.array([1.0, 0, 0]), np.array([-1.0, 0, 0]), 1.0)
    assert solved.status is Status.CONVERGED
    assert solved.path[len(solved.path) // 2, 1] < -0.8


def test_a_first_guess_stays_in_its_valley():
    """A guess replaces the search: the long way around is found when it is asked for."""
    circle = density("circle")
    start, end = np.array([1.0, 0.0]), np.array([0.0, 1.0])
    arc = np.linspace(0, -1.5 * np.pi, 100)
    long = geodesics.solve(circle, start, end, 1.0, guess=np.stack([np.cos(arc), np.sin(arc)], axis=1))
    short = geodesics.solve(circle, start, end, 1.0)
    assert long.status is Status.CONVERGED
    assert long.log_length > short.log_length + 0.5
    np.testing.assert_array_equal(long.path[[0, -1]], [start, end])


# --- Algorithm 1 ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("beta", [0.0, 1.0])
def test_sweeps_are_algorithm_1(beta):
    mixture = random_mixture(3, 3, seed=1)
    path = paths.straight(*mixture.sample(2, seed=3), 12)
    wanted = oracles.algorithm_1(path, mixture.score, beta, sweeps=5, seed=7)
    np.testing.assert_allclose(geodesics.relax_sweeps(path, mixture.score, beta, 5, seed=7), wanted, atol=1e-12)
    frames = geodesics.relax_sweeps(path, mixture.score, beta, 5, seed=7, keep_every=2)
    assert frames.shape == (3, 13, 3)
    np.testing.assert_array_equal(frames[0], path)
    np.testing.assert_allclose(frames[2], oracles.algorithm_1(path, mixture.score, beta, sweeps=4, seed=7), atol=1e-12)


@pytest.mark.parametrize("beta", [0.5, 1.0])
@pytest.mark.parametrize(
    "name", ["standard_normal", "gaussian_mixture", "circle", "student_t_ring", "wide_moons", "normal_3d"]
)
def test_the_fast_solver_ends_where_algorithm_1_ends(name, beta):
    """From the same smooth guess of T = 16 steps; Algorithm 1 is run until it no longer moves."""
    (start, end), *_ = pairs(name, 1, seed=3)
    guess = paths.resample(geodesics.solve(density(name), start, end, 0.75 * beta).path, 16)
    swept = oracles.algorithm_1(guess, density(name).score, beta, sweeps=600)
    further = oracles.algorithm_1(swept, density(name).score, beta, sweeps=20, seed=1)
    np.testing.assert_allclose(further, swept, atol=1e-6)
    relaxed = geodesics.relax(guess, geodesics.exact_slope(density(name)), beta)
    assert relaxed.converged
    extent = paths.arc_length(guess)[-1]
    assert np.abs(guess - swept).max() > 1e-3 * extent  # there was something to do
    np.testing.assert_allclose(relaxed.path, swept, atol=1e-5 * extent)
    lengths = [paths.log_length(path, density(name).log_density, beta) for path in (relaxed.path, swept)]
    assert lengths[0] == pytest.approx(lengths[1], abs=1e-6)


@pytest.mark.parametrize("name", ["standard_normal", *STRUCTURED, *CURVED, "mixture_3d", "mixture_6d"])
def test_the_banded_system_is_the_derivative_of_the_residual(name):
    (start, end), *_ = pairs(name, 1)
    path = paths.straight(start, end, 6) + 0.03 * np.random.default_rng(0).normal(size=(7, len(start)))
    dim, width, beta = len(start), 2 * len(start) - 1, 0.7
    inner = path[1:-1].size

    def force(x):
        moved = path.copy()
        moved[1:-1] = x.reshape(-1, dim)
        return geodesics.residual(moved, density(name).score(moved[1:-1]), beta).ravel()

    numeric = oracles.central_difference(
        lambda rows: np.stack([force(row) for row in rows]), path[1:-1].reshape(1, -1), 1e-4
    )[0]
    banded = geodesics._banded_system(path, *density(name).evaluate(path[1:-1])[1:], beta)
    full = np.zeros((inner, inner))
    for i in range(inner):
        for j in range(inner):
            if abs(i - j) <= width:
                full[i, j] = banded[2 * width + i - j, j]
    np.testing.assert_allclose(-full, numeric, atol=1e-5 * np.abs(numeric).max())


# --- numerics that fail, and misuse ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", DATASETS)
@pytest.mark.parametrize("beta", [0.25, 1.0, 10.0])
def test_endpoints_far_outside_give_a_status_and_a_finite_path(name, beta):
    """At log density −1000 and beyond: converged or not, but said, finite, and never longer than going straight."""
    sample = density(name).sample(200, seed=SEED)
    for widths in (10, 50, 1000):
        far = sample.mean(axis=0) + widths * sample.std(axis=0).max() * np.array([0.8, 0.6])
        solved = geodesics.solve(density(name), far, sample[0], beta)
        assert np.isfinite(solved.path).all()
        assert np.isfinite(solved.log_length)
        straight = paths.log_length(paths.straight(far, sample[0]), density(name).log_density, beta)
        if solved.status is Status.CONVERGED:
            assert solved.log_length <= straight * (1 + 1e-12) + 1e-3
        else:
            assert "hoose" in str(solved.status) or "ry " in str(solved.status)


@pytest.mark.parametrize("status", list(Status))
def test_every_status_but_one_gives_advice(status):
    assert str(status).endswith(".")
    if status is not Status.CONVERGED:
        advice = ("Try", "try", "Choose", "choose", "Raise", "Train", "Restore")
        assert any(word in str(status) for word in advice)


@pytest.mark.parametrize("name", IN_THE_PLANE)
def test_endpoints_that_nearly_touch(name):
    """1e-6 of the density's width apart: the metric is constant there."""
    (start, _), *_ = pairs(name, 1)
    width = density(name).sample(100, seed=0).std(axis=0).max()
    end = start + 1e-6 * width * np.array([0.6, 0.8])
    solved = geodesics.solve(density(name), start, end, 1.0)
    assert solved.status is Status.CONVERGED
    wanted = np.log(np.linalg.norm(end - start)) - density(name).log_density(start[None])[0]
    assert solved.log_length == pytest.approx(wanted, abs=1e-3)


NORMAL = densities.standard_normal(2)
X, Y = np.zeros(2), np.ones(2)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("message", "call"),
    [
        ("beta should", lambda: geodesics.solve(NORMAL, X, Y, -1)),
        ("beta should", lambda: geodesics.solve(NORMAL, X, Y, "x")),
        ("beta should", lambda: geodesics.solve(NORMAL, X, Y, np.nan)),
        ("start should have shape", lambda: geodesics.solve(NORMAL, np.zeros(3), Y, 1)),
        ("start should hold finite", lambda: geodesics.solve(NORMAL, X * np.nan, Y, 1)),
        ("end should be", lambda: geodesics.solve(NORMAL, X, "there", 1)),
        ("end should have shape", lambda: geodesics.solve(NORMAL, X, 1.0, 1)),
        ("start and end should be different", lambda: geodesics.solve(NORMAL, X, X.copy(), 1)),
        ("start and end should be different", lambda: geodesics.solve(NORMAL, X, X.copy(), 0)),
        ("guess should have shape", lambda: geodesics.solve(NORMAL, X, Y, 1, guess=np.zeros((5, 3)))),
        ("guess should hold finite", lambda: geodesics.solve(NORMAL, X, Y, 1, guess=np.full((5, 2), np.nan))),
        ("starts should have shape", lambda: geodesics.solve_many(NORMAL, X, [Y], 1)),
        ("ends should have shape", lambda: geodesics.solve_many(NORMAL, [X], np.zeros((1, 3)), 1)),
        ("starts and ends should be equally many", lambda: geodesics.solve_many(NORMAL, [X, Y], [Y], 1)),
        ("start and end should be different", lambda: geodesics.solve_many(NORMAL, [X, Y], [Y, Y], 1)),
        ("beta should", lambda: geodesics.normal_log_distance(X, Y, -1)),
        ("end should have shape", lambda: geodesics.normal_log_distance(X, np.ones(3), 1)),
        ("start should", lambda: geodesics.normal_log_distance("here", Y, 1)),
        ("start should", lambda: geodesics.normal_log_distance(np.zeros((2, 2)), Y, 1)),
        ("start should", lambda: geodesics.normal_log_distance(1.0, 2.0, 1)),
        ("start and end should be different", lambda: geodesics.normal_log_distance(Y, Y, 1)),
        ("beta should", lambda: geodesics.relax_sweeps(np.zeros((3, 2)), NORMAL.score, -1, 3)),
        ("path should", lambda: geodesics.relax_sweeps(np.zeros(3), NORMAL.score, 1, 3)),
    ],
)
def test_misuse_is_named(message, call):
    with pytest.raises(ValueError, match=f"^{message}"):
        call()
