"""Laws of paths: lengths are exact for the polyline they are given, at any density, any β and any scale."""

from itertools import pairwise

import numpy as np
import oracles
import pytest
from cases import DENSITIES, SEED, density
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import dawsn

from core import densities, paths
from core.densities import GaussianMixture

BETAS = (0.25, 1.0, 3.0, 10.0)


def zigzag(name: str, steps: int = 6) -> np.ndarray:
    """A path through points of the density, with a repeated point in the middle."""
    path = density(name).sample(steps, seed=SEED)
    return np.concatenate([path[:3], path[2:]])


def log_radial_length(radius: float, beta: float, dim: int) -> float:
    """Log of ∫_0^R (2π)^(βD/2) exp(β r²/2) dr in closed form: sqrt(2/β) exp(βR²/2) F(R sqrt(β/2)), F Dawson's."""
    return 0.5 * beta * (dim * np.log(2 * np.pi) + radius**2) + np.log(
        np.sqrt(2 / beta) * dawsn(radius * np.sqrt(beta / 2))
    )


@pytest.mark.parametrize("beta", BETAS)
@pytest.mark.parametrize("name", DENSITIES)
def test_length_is_exact_for_the_polyline(name, beta):
    path, log_density = zigzag(name), density(name).log_density
    wanted = oracles.polyline_log_length(path, log_density, beta, pieces=2000)
    assert paths.log_length(path, log_density, beta) == pytest.approx(wanted, abs=1e-8)


@pytest.mark.parametrize("beta", BETAS)
@pytest.mark.parametrize("radius", [1e-3, 1.0, 5.0, 44.7, 300.0])
def test_two_points_far_apart_are_as_exact_as_many_near_ones(radius, beta):
    """From the center of the standard normal outwards: 44.7 is at log density −1000."""
    normal = densities.standard_normal(2)
    path = paths.straight(np.zeros(2), np.array([0.6 * radius, 0.8 * radius]))
    wanted = log_radial_length(radius, beta, 2)
    # The length itself is good to 1e-9; its log, of size β r²/2, to a few units of its last digit.
    assert paths.log_length(path, normal.log_density, beta) == pytest.approx(wanted, rel=1e-14, abs=1e-8)
    assert paths.log_length(paths.resample(path, 400), normal.log_density, beta) == pytest.approx(
        wanted, rel=1e-14, abs=1e-8
    )


@pytest.mark.parametrize("depth", [10.0, 100.0, 1000.0])
def test_two_points_across_a_valley(depth):
    """Two normals so far apart that the log density half-way is `depth` below the tops."""
    half = np.sqrt(2 * depth)
    means = np.array([[-half, 0.0], [half, 0.0]])
    valley = GaussianMixture(np.ones(2), means, np.broadcast_to(np.eye(2), (2, 2, 2)))
    for offset in (0.0, 0.123):  # the cusp in the middle of the path, and not in the middle
        path = means + np.array([[0, 0], [offset, 0]])
        wanted = oracles.polyline_log_length(path, valley.log_density, 1.0, pieces=20_000)
        assert paths.log_length(path, valley.log_density, 1.0) == pytest.approx(wanted, abs=1e-8)


def test_a_narrow_ridge_is_not_missed():
    """A wall that is a thousandth of the path wide and decides its length: it lies between the first nodes."""

    def log_density(x: np.ndarray) -> np.ndarray:
        return -20 * np.exp(-0.5 * ((x[:, 0] - 0.3141) / 0.02) ** 2)

    path = np.array([[0.0, 0.0], [1.0, 0.0]])
    wanted = oracles.polyline_log_length(path, log_density, 1.0, pieces=20_000)
    assert paths.log_length(path, log_density, 1.0) == pytest.approx(wanted, abs=1e-8)


@pytest.mark.parametrize("name", DENSITIES)
def test_beta_zero_is_the_euclidean_length(name):
    path = zigzag(name)
    euclidean = sum(np.linalg.norm(b - a) for a, b in pairwise(path))
    assert paths.log_length(path, density(name).log_density, 0) == pytest.approx(np.log(euclidean), abs=1e-12)
    # ... and is where small β lead to.
    assert paths.log_length(path, density(name).log_density, 1e-9) == pytest.approx(np.log(euclidean), abs=1e-6)


@settings(max_examples=40, deadline=None)
@given(
    name=st.sampled_from(DENSITIES), beta=st.floats(0, 10), log_factor=st.floats(-700, 700), seed=st.integers(0, 999)
)
def test_a_factor_on_the_density_shifts_every_log_length(name, beta, log_factor, seed):
    path = density(name).sample(4, seed=seed)
    length = paths.log_length(path, density(name).log_density, beta)
    shifted = paths.log_length(path, lambda x: density(name).log_density(x) + log_factor, beta)
    assert shifted == pytest.approx(length - beta * log_factor, abs=2e-8)


@settings(max_examples=40, deadline=None)
@given(name=st.sampled_from(DENSITIES), beta=st.floats(0, 10), log_scale=st.floats(-6, 6), seed=st.integers(0, 999))
def test_scaling_the_space_scales_lengths(name, beta, log_scale, seed):
    path, scale = density(name).sample(4, seed=seed), 10.0**log_scale
    length = paths.log_length(path, density(name).log_density, beta)
    scaled = paths.log_length(scale * path, lambda x: density(name).log_density(x / scale), beta)
    assert scaled == pytest.approx(length + np.log(scale), abs=2e-8)


@settings(max_examples=40, deadline=None)
@given(name=st.sampled_from(DENSITIES), beta=st.floats(0, 10), cut=st.integers(1, 5), seed=st.integers(0, 999))
def test_lengths_add_up_and_do_not_know_directions(name, beta, cut, seed):
    path, log_density = density(name).sample(7, seed=seed), density(name).log_density
    whole = paths.log_length(path, log_density, beta)
    parts = paths.log_length(path[: cut + 1], log_density, beta), paths.log_length(path[cut:], log_density, beta)
    assert whole == pytest.approx(np.logaddexp(*parts), abs=5e-9)
    assert paths.log_length(path[::-1], log_density, beta) == pytest.approx(whole, abs=5e-9)
    halved = np.insert(path, np.arange(1, 7), (path[1:] + path[:-1]) / 2, axis=0)
    assert paths.log_length(halved, log_density, beta) == pytest.approx(whole, abs=5e-9)


def test_a_noisy_density_ends():
    rng = np.random.default_rng(0)

    def log_density(x: np.ndarray) -> np.ndarray:
        return rng.normal(size=len(x))

    path = np.array([[0.0, 0.0], [1.0, 0.0]])
    # E exp(−z) = e^(1/2) for standard normal z.
    assert paths.log_length(path, log_density, 1.0) == pytest.approx(0.5, abs=0.2)


def test_a_path_that_stays_has_no_length():
    normal = densities.standard_normal(2)
    assert paths.log_length(np.ones((5, 2)), normal.log_density, 1.0) == -np.inf


# --- resampling and profiles ----------------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(dim=st.integers(1, 5), points=st.integers(2, 30), steps=st.integers(1, 100), seed=st.integers(0, 9999))
def test_resampled_points_lie_evenly_on_the_polyline(dim, points, steps, seed):
    path = np.random.default_rng(seed).normal(size=(points, dim))
    out = paths.resample(path, steps)
    assert out.shape == (steps + 1, dim)
    np.testing.assert_array_equal(out[[0, -1]], path[[0, -1]])
    # Walk along the polyline: each resampled point is where a share i/steps of its length is used up.
    total = paths.arc_length(path)[-1]
    for i in range(1, steps):
        left = total * i / steps
        for a, b in pairwise(path):
            length = np.linalg.norm(b - a)
            if left <= length:
                break
            left -= length
        np.testing.assert_allclose(out[i], a + left / length * (b - a), atol=1e-9 * total)


def test_straight_lines_are_straight_and_even():
    start, end = np.array([1.0, 2.0, 3.0]), np.array([0.1, 0.7, -9.3])
    path = paths.straight(start, end, 7)
    np.testing.assert_array_equal(path[[0, -1]], [start, end])
    np.testing.assert_allclose(np.diff(path, axis=0), np.broadcast_to((end - start) / 7, (7, 3)), atol=1e-14)


@pytest.mark.parametrize("beta", [0.0, 0.5, 1.0, 10.0])
def test_profile_adds_up_to_the_length(beta):
    name = "spiral"
    path = zigzag(name)
    profile = paths.profile(path, density(name).log_density, beta, steps=20_000)
    cost = np.logaddexp.reduce(profile.log_cost) - np.log(len(profile.log_cost))
    assert cost == pytest.approx(paths.log_length(path, density(name).log_density, beta), abs=1e-2)
    assert profile.cumulative[0] == 0
    assert profile.cumulative[-1] == 1
    assert (np.diff(profile.cumulative) >= 0).all()
    np.testing.assert_allclose(profile.fraction, np.linspace(0, 1, 20_001))
    resampled = paths.resample(path, 20_000)
    np.testing.assert_array_equal(profile.log_density, density(name).log_density(resampled))
    half = int(np.searchsorted(profile.fraction, 0.5))
    share = paths.log_length(resampled[: half + 1], density(name).log_density, beta)
    whole = paths.log_length(resampled, density(name).log_density, beta)
    assert profile.cumulative[half] == pytest.approx(np.exp(share - whole), abs=1e-2)


# --- misuse ---------------------------------------------------------------------------------------------------------

NORMAL = densities.standard_normal(2)
GOOD = np.zeros((2, 2))


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("message", "call"),
    [
        ("beta should", lambda: paths.check_beta(-0.5)),
        ("beta should", lambda: paths.check_beta("x")),
        ("beta should", lambda: paths.check_beta(None)),
        ("beta should", lambda: paths.check_beta(np.nan)),
        ("beta should", lambda: paths.check_beta(np.inf)),
        ("beta should", lambda: paths.check_beta([1, 2])),
        ("beta should", lambda: paths.check_beta(1j)),
        ("start should have shape", lambda: paths.check_endpoints([0, 0, 0], [1, 1], 2)),
        ("end should have shape", lambda: paths.check_endpoints([0, 0], [[1, 1]], 2)),
        ("start should be", lambda: paths.check_endpoints("here", [1, 1], 2)),
        ("end should be", lambda: paths.check_endpoints([0, 0], [1, [1, 2]], 2)),
        ("end should hold finite", lambda: paths.check_endpoints([0, 0], [1, np.nan], 2)),
        ("start should", lambda: paths.check_endpoints(None, [1, 1], 2)),
        ("start and end should be different", lambda: paths.check_endpoints([0.5, 1], np.array([0.5, 1]), 2)),
        ("path should have at least two", lambda: paths.log_length(GOOD[:1], NORMAL.log_density, 1)),
        ("path should have shape", lambda: paths.log_length(GOOD[0], NORMAL.log_density, 1)),
        ("path should hold finite", lambda: paths.log_length(np.nan * GOOD, NORMAL.log_density, 1)),
        ("path should be an array", lambda: paths.log_length("a path", NORMAL.log_density, 1)),
        ("path should", lambda: paths.profile(np.nan * GOOD, NORMAL.log_density, 1)),
        ("beta should", lambda: paths.log_length(GOOD, NORMAL.log_density, -1)),
        ("beta should", lambda: paths.profile(GOOD, NORMAL.log_density, "1/D")),
    ],
)
def test_misuse_is_named(message, call):
    with pytest.raises(ValueError, match=f"^{message}"):
        call()
