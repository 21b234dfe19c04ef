"""Laws of densities learned from points: normalized, reproducible, as good as promised, never degenerate."""

import numpy as np
import pytest
from cases import SEED, STRUCTURED, random_mixture
from scipy.special import logsumexp

from core import datasets, densities, mixtures
from core.fields import box_around


@pytest.fixture(scope="module")
def pools():
    """A pool and a KDE for 300 points of every dataset, with the true density."""
    found = {}
    for name in datasets.NAMES:
        true = datasets.load(name).density
        points = true.sample(300, seed=1)
        found[name] = true, mixtures.fit_pool(points), mixtures.fit_kernel_density(points)
    return found


@pytest.mark.parametrize("name", datasets.NAMES)
def test_pools_integrate_to_one(pools, name):
    _, pool, _ = pools[name]
    box = box_around(pool.sample(2000, seed=0), margin=0.6)
    cell = np.prod(box.size / 399)
    # The normalizer is a Monte Carlo mean over 8192 draws of ratios between 0 and about 1.
    assert np.exp(pool.log_density(box.grid(400))).sum() * cell == pytest.approx(1, abs=0.01)


@pytest.mark.parametrize("name", datasets.NAMES)
def test_samples_of_a_pool_follow_it(pools, name):
    """Mean log density of a sample against the entropy integral over a grid; five standard errors."""
    _, pool, _ = pools[name]
    values = pool.log_density(pool.sample(4000, seed=SEED))
    box = box_around(pool.sample(2000, seed=0), margin=0.6)
    on_grid = pool.log_density(box.grid(400))
    expected = (np.exp(on_grid) * on_grid).sum() / np.exp(on_grid).sum()
    assert abs(values.mean() - expected) < 5 * values.std() / np.sqrt(len(values)) + 1e-3


@pytest.mark.parametrize("name", datasets.NAMES)
def test_members_are_few_and_sound(pools, name):
    _, pool, _ = pools[name]
    assert 1 < len(pool.members) <= 8
    for member in pool.members:
        assert member.weights.sum() == pytest.approx(1, abs=1e-12)
        assert np.linalg.eigvalsh(member.covariances).min() > 0
        assert len(member.weights) <= 40


@pytest.mark.parametrize("name", STRUCTURED)
def test_the_pool_learns_the_structure(pools, name):
    """On fresh points it beats one Gaussian, and the KDE, and does not beat the truth."""
    true, pool, kde = pools[name]
    fresh = true.sample(5000, seed=2)
    gaussian = densities.GaussianMixture(np.ones(1), fresh.mean(axis=0)[None], np.cov(fresh.T)[None])
    pool_mean, kde_mean, gaussian_mean, true_mean = (
        model.log_density(fresh).mean() for model in (pool, kde, gaussian, true)
    )
    assert gaussian_mean < pool_mean < true_mean
    assert kde_mean < pool_mean


def test_a_normal_sample_is_learned_as_one():
    """The likelihood prefers few components where one is the truth: KL by held-out points below 0.02 nats."""
    true = densities.standard_normal(2)
    pool = mixtures.fit_pool(true.sample(1000, seed=0))
    fresh = true.sample(20_000, seed=1)
    assert (true.log_density(fresh) - pool.log_density(fresh)).mean() < 0.02


def test_same_seed_same_numbers():
    points = datasets.load("circle").density.sample(100, seed=0)
    first, again, other = (mixtures.fit_pool(points, seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first.log_density(points), again.log_density(points))
    assert first.log_normalizer == again.log_normalizer
    np.testing.assert_array_equal(first.sample(20, seed=3), again.sample(20, seed=3))
    assert np.abs(first.log_density(points) - other.log_density(points)).max() > 0


@pytest.mark.parametrize("scale", [1e-6, 1e-3, 1e3, 1e6])
def test_a_pool_knows_no_scale(scale):
    points = datasets.load("spiral").density.sample(200, seed=0)
    near, far = mixtures.fit_pool(points), mixtures.fit_pool(scale * points)
    shift = -2 * np.log(scale)
    np.testing.assert_allclose(far.log_density(scale * points), near.log_density(points) + shift, atol=1e-5)
    scores = near.score(points), scale * far.score(scale * points)
    np.testing.assert_allclose(scores[1], scores[0], atol=1e-4 * np.abs(scores[0]).max())


def test_axes_may_have_different_units():
    points = datasets.load("spiral").density.sample(200, seed=0)
    units = np.array([1e-4, 1e5])
    near, far = mixtures.fit_pool(points), mixtures.fit_pool(units * points + 3 * units)
    shift = -np.log(units).sum()
    np.testing.assert_allclose(far.log_density(units * points + 3 * units), near.log_density(points) + shift, atol=1e-4)


def awkward_points() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    normal = rng.normal(size=(200, 2))
    return {
        "on a line": np.stack([normal[:, 0], 3 * normal[:, 0] + 1], axis=1),
        "many duplicates": np.repeat(normal[:20], 10, axis=0),
        "two places": np.repeat(np.array([[0.0, 0.0], [1.0, 2.0]]), 20, axis=0),
        "whole numbers": rng.integers(0, 3, size=(200, 2)).astype(float),
        "one outlier": np.concatenate([normal, [[1e4, 1e4]]]),
        "as few as allowed": normal[: mixtures.MIN_POINTS],
        "far from zero": normal + 1e6,
        "one column": normal[:, :1],
        "more columns than points": rng.normal(size=(25, 30)),
    }


@pytest.mark.parametrize("kind", awkward_points())
def test_awkward_points_give_finite_densities(kind):
    points = awkward_points()[kind]
    for model in (mixtures.fit_pool(points), mixtures.fit_kernel_density(points)):
        for x in (points, points.mean(axis=0) + 5 * (points - points.mean(axis=0))):
            for part in model.evaluate(x):
                assert np.isfinite(part).all()
        # Where the points are, there is density: more than where they are not.
        away = points.mean(axis=0) + 50 * points.std(axis=0)
        assert model.log_density(points).mean() > model.log_density(away[None])[0]
        sample = model.sample(500, seed=0)
        assert np.isfinite(sample).all()
        spread = np.linalg.norm(points.std(axis=0))
        assert np.linalg.norm(np.median(sample, axis=0) - np.median(points, axis=0)) < 2 * spread


def test_members_of_different_sizes_are_averaged_alike():
    """Mixtures are padded to one size; the padding must not count."""
    members = tuple(random_mixture(2, k, seed=k) for k in (1, 4, 7))
    pool = mixtures.MixturePool(members)
    x = np.concatenate([member.sample(20, seed=0) for member in members])
    for i, part in enumerate(pool.evaluate(x)):
        mean = np.mean([member.evaluate(x)[i] for member in members], axis=0)
        np.testing.assert_allclose(part, mean - (pool.log_normalizer if i == 0 else 0), rtol=1e-10, atol=1e-10)


def test_one_member_is_itself():
    member = random_mixture(3, 4, seed=0)
    pool = mixtures.MixturePool((member,))
    assert pool.log_normalizer == pytest.approx(0, abs=1e-12)
    x = member.sample(10, seed=0)
    np.testing.assert_allclose(pool.log_density(x), member.log_density(x), rtol=1e-12)


@pytest.mark.parametrize("dim", [1, 2, 5])
def test_bandwidth_has_the_largest_leave_one_out_likelihood(dim):
    points = random_mixture(dim, 3, seed=dim).sample(80, seed=0)
    z = (points - points.mean(axis=0)) / points.std(axis=0)
    likelihood = []
    for h in mixtures.BANDWIDTHS:
        total = 0.0
        for i in range(len(z)):
            squared = ((np.delete(z, i, axis=0) - z[i]) ** 2).sum(axis=1)
            total += logsumexp(-0.5 * squared / h**2) - dim * np.log(h)
        likelihood.append(total)
    assert mixtures.leave_one_out_bandwidth(points) == mixtures.BANDWIDTHS[int(np.argmax(likelihood))]


@pytest.mark.parametrize("settings", [(3, 1.0, 1.0), (8, 4.0, 1.0), (20, 8.0, 1.0)])
def test_expectation_maximization_climbs(settings):
    """More iterations never lower the penalized likelihood; with a small prior that is nearly the likelihood."""
    z = np.random.default_rng(0).normal(size=(300, 2)) @ np.array([[1, 0.8], [0, 0.6]])
    h, strength = 0.2, 3.0
    chosen = mixtures.MixtureSettings(*settings)
    values = []
    for iterations in (12, 20, 40, 80):
        fitted = mixtures._expectation_maximization(z, chosen, h, iterations, -np.inf, np.random.default_rng(1))
        likelihood = densities.GaussianMixture(*fitted).log_density(z).sum()
        precision = np.linalg.inv(fitted[2])
        # Log of the prior whose mode the M step takes: ν/2 (log|P| − c h² tr P) for each component.
        prior = (
            0.5 * strength * (np.linalg.slogdet(precision)[1] - chosen.prior * h**2 * np.einsum("kii->k", precision))
        )
        values.append(likelihood + prior.sum())
    assert (np.diff(values) > -1e-3).all()


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("fit", [mixtures.fit_pool, mixtures.fit_kernel_density, mixtures.check_sample])
@pytest.mark.parametrize(
    ("message", "points"),
    [
        ("points should be at least 20; got 3", np.ones((3, 2))),
        ("points should vary in every column; column 2 is constant", np.c_[np.arange(30.0), np.ones(30)]),
        ("points should vary in every column; column 1 is constant", np.full((30, 2), 0.1)),
        ("points should hold finite", np.full((30, 2), np.nan)),
        ("points should have shape", np.arange(30.0)),
        ("points should be an array", "points"),
    ],
)
def test_misuse_is_named(fit, message, points):
    with pytest.raises(ValueError, match=f"^{message}"):
        fit(points)
