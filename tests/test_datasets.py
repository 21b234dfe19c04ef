"""Laws of the datasets: the paper's numbers, the shipped mixtures and what they were fitted to, and the four others."""

import json

import numpy as np
import pytest

from core import datasets
from core.densities import ExactDensity, GaussianMixture


def test_the_five_of_the_paper():
    assert datasets.NAMES == ("standard_normal", "gaussian_mixture", "circle", "spiral", "two_spirals")
    assert [datasets.load(name).name for name in datasets.NAMES] == list(datasets.NAMES)
    assert all(datasets.load(name).density.dim == 2 for name in datasets.NAMES)


def test_four_more_are_no_mixtures():
    assert datasets.EXTRA == ("banana", "student_t_ring", "moons", "sine_wave")
    assert list(datasets.TITLES) == [*datasets.NAMES, *datasets.EXTRA]
    for name in datasets.EXTRA:
        dataset = datasets.load(name)
        assert (dataset.name, dataset.title) == (name, datasets.TITLES[name])
        assert isinstance(dataset.density, ExactDensity)
        assert not isinstance(dataset.density, GaussianMixture)


@pytest.mark.parametrize("name", [*datasets.NAMES, *datasets.EXTRA])
def test_a_dataset_is_made_once(name):
    """Densities are known by identity: what is cached for one of them is found again."""
    assert datasets.load(name).density is datasets.load(name).density
    assert len({datasets.load(name).density, datasets.load(name).density}) == 1


def test_the_paper_s_mixture():
    density = datasets.load("gaussian_mixture").density
    np.testing.assert_allclose(density.weights, [0.25, 0.5, 0.25])
    np.testing.assert_allclose(density.means, [[2, 1.4], [6.5, 6.3], [8, 1]])
    np.testing.assert_allclose(density.covariances[0], [[3, 2.5], [2.5, 3]])


@pytest.mark.parametrize("name", datasets.STRUCTURED)
def test_shipped_mixtures_are_plain_json_with_their_command(name):
    stored = json.loads((datasets.MIXTURES / f"{name}.json").read_text())
    assert stored["command"] == "python -m core.datasets"
    assert str(datasets.FIT_SIZE) in stored["fitted_to"]
    assert set(stored["versions"]) == {"scikit-learn", "numpy"}
    assert np.shape(stored["weights"]) == (50,)
    density = datasets.load(name).density
    again = GaussianMixture(*(np.array(stored[key]) for key in ("weights", "means", "covariances")))
    x = density.sample(50, seed=0)
    np.testing.assert_array_equal(density.log_density(x), again.log_density(x))


@pytest.mark.parametrize("name", datasets.STRUCTURED)
def test_shipped_mixtures_fit_their_structure(name):
    """A mixture of 50 components on 10,000 points generalizes: fresh noisy points are as likely as its own sample."""
    density = datasets.load(name).density
    fresh = density.log_density(datasets.noisy_structure(name, 10_000, seed=99))
    own = density.log_density(density.sample(10_000, seed=99))
    # Six parameters for each of 50 components cost about 300 / 10,000 nats a point, twice over, plus noise of 0.02.
    assert abs(fresh.mean() - own.mean()) < 0.1


@pytest.fixture
def noiseless(monkeypatch):
    """The structures without their noise."""

    class Silent:
        def __init__(self, seed):
            self.rng = np.random.Generator(np.random.PCG64(seed))

        def __getattr__(self, name):
            return getattr(self.rng, name)

        def standard_normal(self, shape):
            return np.zeros(shape)

    monkeypatch.setattr(np.random, "default_rng", Silent)


def angles_along(points: np.ndarray, turns: float) -> np.ndarray:
    """The spiral's angle at each point, from the radius θ / 2π, checked against the direction."""
    angle = 2 * np.pi * np.linalg.norm(points, axis=1)
    assert angle.max() <= turns * 2 * np.pi * (1 + 1e-12)
    return angle


@pytest.mark.usefixtures("noiseless")
@pytest.mark.parametrize(("name", "turns", "arms"), [("spiral", 1.75, 1), ("two_spirals", 1.0, 2)])
def test_spirals_are_archimedean_and_uniform_in_arc_length(name, turns, arms):
    points = datasets.noisy_structure(name, 20_000, seed=0)
    angle = angles_along(points, turns)
    unit = points / np.linalg.norm(points, axis=1, keepdims=True)
    ideal = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    along = (unit * ideal).sum(axis=1)  # 1 on the first arm, −1 on the arm opposite
    np.testing.assert_allclose(np.abs(along), 1, atol=1e-6)
    assert ((along < 0).mean() == pytest.approx(0.5, abs=0.02)) if arms == 2 else (along > 0).all()
    # Arc length by summing 200,000 chords: the share used up at each point should be uniform on [0, 1].
    theta = np.linspace(0, turns * 2 * np.pi, 200_001)
    curve = (theta / (2 * np.pi))[:, None] * np.stack([np.cos(theta), np.sin(theta)], axis=1)
    used = np.concatenate([[0], np.cumsum(np.linalg.norm(np.diff(curve, axis=0), axis=1))])
    share = np.sort(np.interp(angle, theta, used / used[-1]))
    gap = np.abs(share - (np.arange(len(share)) + 0.5) / len(share)).max()
    assert gap < 1.95 / np.sqrt(len(share))  # Kolmogorov–Smirnov, one in a thousand
    # One turn ends at radius 1.
    one_turn = angle[np.abs(angle - 2 * np.pi) < 0.01]
    assert len(one_turn) > 0
    np.testing.assert_allclose(np.linalg.norm(points[np.abs(angle - 2 * np.pi) < 0.01], axis=1), 1, atol=0.01)


@pytest.mark.usefixtures("noiseless")
def test_circle_has_radius_one_and_no_preferred_direction():
    points = datasets.noisy_structure("circle", 5000, seed=0)
    np.testing.assert_allclose(np.linalg.norm(points, axis=1), 1, atol=1e-12)
    assert np.abs(points.mean(axis=0)).max() < 5 / np.sqrt(2 * 5000)


@pytest.mark.parametrize(("name", "noise"), [("circle", 0.08), ("spiral", 0.05), ("two_spirals", 0.045)])
def test_noise_is_the_paper_s(name, noise):
    points = datasets.noisy_structure(name, 20_000, seed=1)
    radius = np.linalg.norm(points, axis=1)
    if name == "circle":
        offset = radius - 1
    else:  # radial distance to the arm next to an outer point, where the arm is nearly a circle
        direction = np.arctan2(points[:, 1], points[:, 0]) / (2 * np.pi)
        arms = 2 if name == "two_spirals" else 1
        offset = (radius - direction + 0.5 / arms) % (1 / arms) - 0.5 / arms
        last = 1.75 if name == "spiral" else 1.0
        offset = offset[(radius > 0.5) & (radius < last - 0.25)]
    assert offset.std() == pytest.approx(noise, rel=0.05)  # the arm's slope widens it by one or two percent


def test_same_seed_same_points():
    for name in datasets.STRUCTURED:
        first, again, other = (datasets.noisy_structure(name, 50, seed=seed) for seed in (1, 1, 2))
        np.testing.assert_array_equal(first, again)
        assert not (first == other).any()


def test_misuse_is_named():
    with pytest.raises(ValueError, match=r"^name should be one of standard_normal.*got 'spiral2'"):
        datasets.load("spiral2")
    with pytest.raises(ValueError, match=r"^name should be one of circle"):
        datasets.noisy_structure("standard_normal", 10, seed=0)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("content", [None, "{", "[]", "{}", '{"weights": [1], "means": [[0, 0]], "covariances": [[]]}'])
def test_a_damaged_mixture_file_says_how_to_restore_it(content, tmp_path):
    path = tmp_path / "circle.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(ValueError, match=r"circle\.json should hold a fitted mixture; restore it"):
        datasets._read_mixture(path)
