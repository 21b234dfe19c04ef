"""Laws of densities: everything exact agrees with everything else exact, in any dimension and at any scale."""

from dataclasses import replace

import mpmath
import numpy as np
import oracles
import pytest
from cases import CURVED, DENSITIES, IN_THE_PLANE, SEED, density, far_points, random_mixture
from hypothesis import given, settings
from hypothesis import strategies as st

from core import curved, densities
from core.densities import ExactDensity, GaussianMixture
from core.fields import box_around

every_density = pytest.mark.parametrize("name", DENSITIES)
MIXTURES = [name for name in DENSITIES if not name.startswith("pool") and name not in CURVED]


def points_of(name, count=40):
    """Points where the mass is, and points 30 standard deviations off."""
    return np.concatenate([density(name).sample(count, seed=SEED), far_points(name)])


@pytest.mark.parametrize("dim", [1, 2, 3, 10, 25])
def test_score_of_the_standard_normal_points_home(dim):
    normal = densities.standard_normal(dim)
    x = np.random.default_rng(dim).normal(scale=5, size=(50, dim))
    log_density, score, jacobian = normal.evaluate(x)
    np.testing.assert_allclose(log_density, -0.5 * (x**2).sum(axis=1) - 0.5 * dim * np.log(2 * np.pi), rtol=1e-13)
    np.testing.assert_allclose(score, -x, rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(jacobian, np.broadcast_to(-np.eye(dim), jacobian.shape), atol=1e-12)


@pytest.mark.parametrize("name", MIXTURES)
def test_log_density_is_the_textbook_sum(name):
    # Far away the log density is a difference of large squares: 1e-11 of it is what float64 leaves.
    x = points_of(name)
    wanted = oracles.mixture_log_density(density(name), x)
    np.testing.assert_allclose(density(name).log_density(x), wanted, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("name", [name for name in DENSITIES if name.startswith("pool")])
def test_log_density_of_a_pool_is_the_mean_of_its_members(name):
    pool, x = density(name), points_of(name)
    mean = np.mean([oracles.mixture_log_density(member, x) for member in pool.members], axis=0)
    np.testing.assert_allclose(pool.log_density(x), mean - pool.log_normalizer, rtol=1e-11, atol=1e-12)


@every_density
def test_score_and_jacobian_are_derivatives(name):
    # Fourth order differences at a hundredth of the smallest scale: h⁴ ~ 1e-8 of the scale of the largest derivative.
    x = points_of(name)
    _, score, jacobian = density(name).evaluate(x)
    narrowest = np.sqrt(-1 / np.linalg.eigvalsh(jacobian).min())
    numeric = oracles.central_difference(density(name).log_density, x, 0.01 * narrowest)
    np.testing.assert_allclose(score, numeric, rtol=1e-6, atol=1e-6 * np.abs(score[:40]).max())
    numeric = oracles.central_difference(density(name).score, x, 0.01 * narrowest)
    np.testing.assert_allclose(jacobian, numeric, rtol=1e-6, atol=1e-6 * np.abs(jacobian).max())


@every_density
def test_one_call_or_three_or_one_for_each_point(name):
    x = points_of(name)
    log_density, score, jacobian = density(name).evaluate(x)
    np.testing.assert_allclose(density(name).log_density(x), log_density, rtol=1e-13)
    np.testing.assert_array_equal(density(name).score(x), score)
    np.testing.assert_array_equal(density(name).score_jacobian(x), jacobian)
    single = [density(name).evaluate(point[None]) for point in x]
    for i, together in enumerate((log_density, score, jacobian)):
        apart = np.concatenate([answer[i] for answer in single])
        np.testing.assert_allclose(apart, together, rtol=1e-9, atol=1e-11 * np.abs(together).max())


@every_density
def test_the_jacobian_is_symmetric(name):
    jacobian = density(name).score_jacobian(points_of(name))
    np.testing.assert_allclose(jacobian, jacobian.mT, rtol=1e-12)


@every_density
def test_every_density_is_an_exact_one(name):
    assert isinstance(density(name), ExactDensity)


def test_blocks_do_not_show():
    mixture = density("spiral")
    x = np.tile(mixture.sample(100, seed=SEED), (110, 1))  # several blocks, none of which is a multiple of 100 rows
    assert len(x) > 2 * densities.BLOCK_ELEMENTS // 50
    for whole in mixture.evaluate(x):
        np.testing.assert_allclose(whole, np.tile(whole[:100], (110,) + (1,) * (whole.ndim - 1)), rtol=1e-9, atol=1e-9)
    values = mixture.log_density(x)
    np.testing.assert_allclose(values, np.tile(values[:100], 110), rtol=1e-12)


@every_density
def test_no_points_give_no_answers(name):
    dim = density(name).dim
    assert density(name).log_density(np.empty((0, dim))).shape == (0,)
    assert [part.shape for part in density(name).evaluate(np.empty((0, dim)))] == [(0,), (0, dim), (0, dim, dim)]


@every_density
def test_sample_and_score_belong_to_the_same_density(name):
    """Stein's identities E[s] = 0 and E[s (x − m)'] = −I, for any point m; five standard errors each."""
    x = density(name).sample(5000, seed=SEED)
    score = density(name).score(x)
    products = score[:, :, None] * (x - x.mean(axis=0))[:, None, :]
    for values, expected in ((score, 0.0), (products, -np.eye(x.shape[1]))):
        error = values.std(axis=0) / np.sqrt(len(x))
        assert (np.abs(values.mean(axis=0) - expected) < 5 * error).all()


@pytest.mark.parametrize("name", IN_THE_PLANE)
def test_integrates_to_one(name):
    box = box_around(density(name).sample(4000, seed=SEED), margin=0.5)
    nodes = 400
    cell = np.prod(box.size / (nodes - 1))
    total = np.exp(density(name).log_density(box.grid(nodes))).sum() * cell
    # The pool's normalizer is a Monte Carlo estimate from 8192 draws.
    assert total == pytest.approx(1, abs=0.01 if name == "pool" else 1e-4)


@pytest.mark.parametrize("name", CURVED)
def test_the_normalizer_is_exact(name):
    """The trapezoidal rule on a smooth function that dies out is exact; what the ring's tail has outside is 1e-8."""
    box = box_around(density(name).sample(4000, seed=SEED), margin=3)
    nodes = 1500
    total = np.exp(density(name).log_density(box.grid(nodes))).sum() * np.prod(box.size / (nodes - 1))
    assert total == pytest.approx(1, abs=1e-7)


@pytest.mark.parametrize("name", [name for name in IN_THE_PLANE if name != "pool"])
def test_samples_follow_the_density(name):
    """Kolmogorov–Smirnov in four directions and in the log density itself, against one weighted point in each cell."""
    x = density(name).sample(20_000, seed=SEED)
    box, nodes = box_around(x, margin=0.3), 700
    grid = box.grid(nodes) + np.random.default_rng(0).uniform(-0.5, 0.5, size=(nodes**2, 2)) * box.size / (nodes - 1)
    on_grid = density(name).log_density(grid)
    weight = np.exp(on_grid - on_grid.max())
    directions = np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8], [0.8, -0.6]])
    for drawn, known in [
        *zip((x @ directions.T).T, (grid @ directions.T).T),
        (density(name).log_density(x), on_grid),
    ]:
        order = np.argsort(known)
        share = np.interp(np.sort(drawn), known[order], np.cumsum(weight[order]) / weight.sum())
        gap = np.abs(share - (np.arange(len(drawn)) + 0.5) / len(drawn)).max()
        assert gap < 2.23 / np.sqrt(len(drawn)) + 1e-3  # one in ten thousand, and the grid's own error


@every_density
def test_same_seed_same_points(name):
    first, again, other = (density(name).sample(50, seed=seed) for seed in (3, 3, 4))
    np.testing.assert_array_equal(first, again)
    assert first.shape == (50, density(name).dim)
    assert not (first == other).any()


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10_000), log_scale=st.floats(-6, 6), dim=st.integers(1, 5))
def test_scaling_the_data_shifts_the_log_density(seed, log_scale, dim):
    scale = 10.0**log_scale
    mixture = random_mixture(dim, 3, seed)
    scaled = GaussianMixture(mixture.weights, scale * mixture.means, scale**2 * mixture.covariances)
    x = mixture.sample(10, seed)
    (p, s, h), (q, t, g) = mixture.evaluate(x), scaled.evaluate(scale * x)
    np.testing.assert_allclose(q, p - dim * np.log(scale), rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(scale * t, s, rtol=1e-8, atol=1e-9 * np.abs(s).max())
    np.testing.assert_allclose(scale**2 * g, h, rtol=1e-8, atol=1e-9 * np.abs(h).max())


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10_000), dim=st.integers(2, 6))
def test_rotating_the_data_rotates_the_score(seed, dim):
    mixture = random_mixture(dim, 3, seed)
    turn = np.linalg.qr(np.random.default_rng(seed).normal(size=(dim, dim)))[0]
    covariances = turn @ mixture.covariances @ turn.T
    turned = GaussianMixture(mixture.weights, mixture.means @ turn.T, (covariances + covariances.mT) / 2)
    x = mixture.sample(10, seed)
    (p, s, h), (q, t, g) = mixture.evaluate(x), turned.evaluate(x @ turn.T)
    np.testing.assert_allclose(q, p, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(t, s @ turn.T, rtol=1e-8, atol=1e-9 * np.abs(s).max())
    np.testing.assert_allclose(g, turn @ h @ turn.T, rtol=1e-8, atol=1e-9 * np.abs(h).max())


def test_weights_are_rescaled():
    mixture = random_mixture(2, 3, seed=1)
    doubled = GaussianMixture(2 * mixture.weights, mixture.means, mixture.covariances)
    x = mixture.sample(10, seed=0)
    np.testing.assert_allclose(doubled.log_density(x), mixture.log_density(x), rtol=1e-13)


def test_kernel_density_is_the_mean_of_kernels():
    points = np.random.default_rng(0).normal(size=(30, 2)) * [1, 100]
    kde = densities.kernel_density(points, 0.4)
    x = points + np.array([0.1, 7])
    z, h = (x[:, None] - points) / points.std(axis=0), 0.4
    kernels = np.exp(-0.5 * (z**2).sum(axis=2) / h**2) / (2 * np.pi * h**2 * points.std(axis=0).prod())
    np.testing.assert_allclose(kde.log_density(x), np.log(kernels.mean(axis=1)), rtol=1e-11)


@pytest.mark.parametrize("name", CURVED)
def test_curved_densities_scale_with_their_lengths(name):
    scale = 1e3
    original = density(name)
    powers = {"length": 1, "width": 1, "radius": 1, "amplitude": 1, "bend": -1, "frequency": -1}
    scaled = replace(original, **{k: v * scale ** powers.get(k, 0) for k, v in vars(original).items() if k[0] != "_"})
    x = original.sample(100, seed=SEED)
    np.testing.assert_allclose(scaled.sample(100, seed=SEED), scale * x, rtol=1e-10)
    (p, s, h), (q, t, g) = original.evaluate(x), scaled.evaluate(scale * x)
    np.testing.assert_allclose(q, p - 2 * np.log(scale), rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(scale * t, s, rtol=1e-8, atol=1e-9 * np.abs(s).max())
    np.testing.assert_allclose(scale**2 * g, h, rtol=1e-8, atol=1e-9 * np.abs(h).max())


@pytest.mark.parametrize(("width", "tilt"), [(0.08, 3.0), (0.02, 30.0), (0.7, 0.5), (0.7, 10.0)])
def test_the_crescents_normalizer_in_thirty_digits(width, tilt):
    def integrand(r):
        return 2 * mpmath.pi * r * mpmath.besseli(0, tilt * r) * mpmath.exp(-((r * r - 1) ** 2) / (8 * width**2))

    with mpmath.workdps(30):
        wanted = mpmath.log(mpmath.quad(integrand, np.linspace(0, 5, 31).tolist()))
    moons = curved.Moons(1.0, width, tilt)
    assert moons._log_normalizer == pytest.approx(float(wanted), abs=1e-13)
    assert len(moons.sample(1000, seed=0)) == 1000  # also where the tilt moves the ring far out


def test_a_student_ring_of_many_degrees_of_freedom_is_a_gaussian_one():
    """The law of the squared radius is a normal then; at the ring p = 1 / (2π R s sqrt(2π))."""
    ring = curved.StudentTRing(2.0, 0.1, 1e9)
    x = np.array([[2.0, 0.0], [0.0, -np.sqrt(4.4)]])  # u = 0 and u = 1
    wanted = -np.log(2 * np.pi * 0.2 * np.sqrt(2 * np.pi)) - np.array([0, 0.5])
    np.testing.assert_allclose(ring.log_density(x), wanted, atol=1e-6)


def test_moons_are_two_and_alike():
    """Turning the plane half around between the centers swaps the crescents; each holds half of the sample."""
    moons = density("moons")
    x = moons.sample(10_000, seed=SEED)
    np.testing.assert_allclose(moons.log_density(np.array([1.0, 0.5]) - x), moons.log_density(x), atol=1e-12)
    up = moons._crescent_value(*x.T) > moons._crescent_value(x[:, 0] - 1, 0.5 - x[:, 1])
    assert up.mean() == pytest.approx(0.5, abs=0.025)


ONE, ZERO, EYE = np.ones(1), np.zeros((1, 2)), np.eye(2)[None]


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("message", "call"),
    [
        ("x should have shape", lambda: densities.standard_normal(2).log_density(np.zeros(2))),
        ("x should have shape", lambda: densities.standard_normal(2).score(np.zeros((4, 3)))),
        ("x should hold finite", lambda: densities.standard_normal(2).evaluate(np.array([[np.nan, 0]]))),
        ("x should hold finite", lambda: densities.standard_normal(2).score_jacobian(np.array([[np.inf, 0]]))),
        ("x should be an array", lambda: densities.standard_normal(2).log_density("points")),
        ("dim should", lambda: densities.standard_normal(0)),
        ("size should", lambda: densities.standard_normal(2).sample(0, seed=0)),
        ("weights should", lambda: GaussianMixture(np.ones(2), ZERO, EYE)),
        ("weights should", lambda: GaussianMixture(-ONE, ZERO, EYE)),
        ("weights should", lambda: GaussianMixture(0 * ONE, ZERO, EYE)),
        ("weights should", lambda: GaussianMixture(np.nan * ONE, ZERO, EYE)),
        ("means should", lambda: GaussianMixture(ONE, np.nan * ZERO, EYE)),
        ("means should", lambda: GaussianMixture(ONE, ZERO[0], EYE)),
        ("covariances should have shape", lambda: GaussianMixture(ONE, ZERO, EYE[0])),
        ("covariances should be", lambda: GaussianMixture(ONE, ZERO, -EYE)),
        ("covariances should be", lambda: GaussianMixture(ONE, ZERO, np.nan * EYE)),
        ("covariances should be", lambda: GaussianMixture(ONE, ZERO, np.array([[[1, 0.5], [0, 1]]]))),
        # Asymmetric by half, at a scale where that is a tiny number.
        ("covariances should be", lambda: GaussianMixture(ONE, ZERO, 1e-12 * np.array([[[1, 0.5], [0, 1]]]))),
        ("width should be positive", lambda: curved.Banana(width=0)),
        ("length should be positive", lambda: curved.SineWave(length=-1)),
        ("freedom should be positive", lambda: curved.StudentTRing(freedom=np.nan)),
        ("radius should be positive", lambda: curved.Moons(radius=np.inf)),
        ("x should have shape", lambda: curved.Moons().log_density(np.zeros((4, 3)))),
        ("x should hold finite", lambda: curved.Banana().evaluate(np.array([[np.nan, 0]]))),
        ("size should", lambda: curved.SineWave().sample(0, seed=0)),
        ("bandwidth should", lambda: densities.kernel_density(np.random.default_rng(0).normal(size=(9, 2)), 0)),
        ("points should", lambda: densities.kernel_density(np.ones((9, 2)), 0.5)),
    ],
)
def test_misuse_is_named(message, call):
    with pytest.raises(ValueError, match=f"^{message}"):
        call()


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize(("dim", "size"), [(2, 900), (2, 4500), (5, 900), (20, 300)])
def test_a_kernel_density_that_skips_far_kernels_is_the_whole_sum(scale, dim, size):
    rng = np.random.default_rng(0)
    points = scale * (rng.normal(size=(size, dim)) * np.arange(1, dim + 1) + 3.0)
    kde = densities.kernel_density(points, 0.1)
    whole = densities.GaussianMixture(kde.weights, kde.means, kde.covariances)
    # On the sample, in its tails, and far outside, where the nearest kernels are hundreds of widths away.
    asked = np.concatenate([points, points * 1.7, scale * rng.uniform(-60, 60, size=(800, dim))])
    np.testing.assert_allclose(kde.log_density(asked), whole.log_density(asked), rtol=1e-9, atol=1e-9)
    for part in (asked[::7], asked[-3:]):
        for found, expected in zip(kde.evaluate(part), whole.evaluate(part)):
            np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-7 * np.abs(expected).max())
