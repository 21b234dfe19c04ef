"""Laws of scaling and projecting: what is undone is undone, distances in the plane never exceed those in space."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.projections import Projection, Scaling, nearest

sizes, dims, seeds = st.integers(2, 40), st.integers(2, 8), st.integers(0, 2**32 - 1)
magnitudes = st.sampled_from([1e-6, 1.0, 1e6])


def normal_points(size, dim, seed, magnitude=1.0):
    rng = np.random.default_rng(seed)
    return magnitude * (rng.normal(size=dim) + rng.normal(size=(size, dim)) @ rng.normal(size=(dim, dim)))


@given(sizes, dims, seeds, magnitudes)
@settings(max_examples=30)
def test_undo_undoes_and_standard_standardizes(size, dim, seed, magnitude):
    points = normal_points(size, dim, seed, magnitude)
    scaling = Scaling.standard(points)
    scaled = scaling.apply(points)
    assert np.allclose(scaling.undo(scaled), points, rtol=1e-9, atol=1e-9 * magnitude)
    assert np.allclose(scaled.mean(axis=0), 0, atol=1e-8)
    assert np.allclose(scaled.std(axis=0), 1)
    assert np.allclose(scaling.apply(points[0]), scaled[0])  # one point is scaled like many
    assert np.array_equal(Scaling.none(dim).apply(points), points)


def test_a_constant_column_is_only_centered():
    points = np.c_[np.arange(5.0), np.full(5, 0.1)]
    assert np.allclose(Scaling.standard(points).apply(points)[:, 1], 0)


@pytest.mark.parametrize("scale", [0.0, -1.0, np.nan, np.inf])
def test_a_scale_that_cannot_be_undone_is_refused(scale):
    with pytest.raises(ValueError, match="scale should be positive"):
        Scaling(np.zeros(2), np.array([1.0, scale]))


@given(sizes, dims, seeds, magnitudes)
@settings(max_examples=40)
def test_principal_axes_are_orthonormal_and_ordered_by_variance(size, dim, seed, magnitude):
    points = normal_points(size, dim, seed, magnitude)
    projection = Projection.principal(points)
    seen = projection.apply(points)
    assert np.allclose(projection.axes @ projection.axes.T, np.eye(2), atol=1e-9)
    assert np.allclose(seen.mean(axis=0), 0, atol=1e-8 * magnitude * dim)
    first, second = seen.var(axis=0)
    assert first >= second * (1 - 1e-9)
    assert first >= points.var(axis=0).max() * (1 - 1e-9)  # no column varies more than the first principal axis
    assert abs(np.mean(seen[:, 0] * seen[:, 1])) <= 1e-9 * first
    assert all(loadings[np.abs(loadings).argmax()] > 0 for loadings in projection.axes)
    apart_seen = np.linalg.norm(seen - seen[0], axis=1)
    assert (apart_seen <= np.linalg.norm(points - points[0], axis=1) * (1 + 1e-9)).all()


@given(seeds)
@settings(max_examples=20)
def test_two_columns_lose_nothing(seed):
    points = normal_points(30, 2, seed)
    seen = Projection.principal(points).apply(points)
    assert np.allclose(np.linalg.norm(seen - seen[0], axis=1), np.linalg.norm(points - points[0], axis=1))


def test_reflected_points_are_seen_from_the_same_side():
    points = normal_points(30, 4, 0)
    shuffled = points[np.random.default_rng(1).permutation(30)]
    assert np.allclose(Projection.principal(points).axes, Projection.principal(shuffled).axes)
    assert np.allclose(Projection.principal(points).axes, Projection.principal(-points).axes)


@given(seeds)
@settings(max_examples=20)
def test_equal_loadings_leave_the_side_alone(seed):
    points = normal_points(30, 2, seed)
    standard = Scaling.standard(points).apply(points)
    shuffled = standard[np.random.default_rng(seed).permutation(30)]
    assert np.allclose(Projection.principal(standard).axes, Projection.principal(shuffled).axes, atol=1e-6)


def test_titles_give_the_shares_of_variance():
    points = np.array([[3.0, 0, 0], [-3, 0, 0], [0, 1, 0], [0, -1, 0]])
    assert Projection.principal(points).titles == ("PC 1 (90 %)", "PC 2 (10 %)")
    assert Projection.principal(np.ones((3, 2))).titles == ("PC 1 (0 %)", "PC 2 (0 %)")


def test_columns_are_picked_as_they_are():
    points = normal_points(10, 3, 0)
    projection = Projection.columns(2, 0, ("a", "b", "c"))
    assert np.array_equal(projection.apply(points), points[:, [2, 0]])
    assert projection.titles == ("c", "a")


@pytest.mark.parametrize(("i", "j"), [(0, 0), (0, 3), (-1, 0)])
def test_columns_that_are_not_two_are_refused(i, j):
    with pytest.raises(ValueError, match="two different columns"):
        Projection.columns(i, j, ("a", "b", "c"))


@pytest.mark.parametrize("shape", [(1, 3), (5, 1)])
def test_too_little_for_a_plane_is_refused(shape):
    with pytest.raises(ValueError, match="at least two"):
        Projection.principal(np.zeros(shape))


@given(sizes, seeds, magnitudes)
@settings(max_examples=30)
def test_the_nearest_point_is_nearest(size, seed, magnitude):
    points = normal_points(size, 2, seed, magnitude)
    position = normal_points(2, 2, seed + 1, magnitude)[0]
    found = points[nearest(points, position)]
    assert np.linalg.norm(found - position) <= np.linalg.norm(points - position, axis=1).min() * (1 + 1e-12)
    assert nearest(points, points[-1]) == size - 1


def test_nothing_is_near_nothing():
    with pytest.raises(ValueError, match="empty"):
        nearest(np.empty((0, 2)), np.zeros(2))
