"""What the laws are run over: every density, every scene, pairs of endpoints. Adding a case is adding one entry."""

from functools import lru_cache

import numpy as np

from core import curved, datasets, densities, methods, mixtures
from core.densities import GaussianMixture

SEED = 1234


def random_mixture(dim: int, components: int, seed: int, scale: float = 1.0, center: float = 0.0) -> GaussianMixture:
    """Overlapping components of random shapes up to 1 : 10 thin, of size `scale` around `center`."""
    rng = np.random.default_rng(seed)
    turns = np.linalg.qr(rng.normal(size=(components, dim, dim)))[0]
    roots = turns * np.exp(rng.uniform(np.log(0.3), np.log(3), size=(components, 1, dim)))
    covariances = np.einsum("kij,klj->kil", roots, roots)
    means = 2 * rng.normal(size=(components, dim))
    return GaussianMixture(rng.uniform(0.2, 1, components), center + scale * means, scale**2 * covariances)


def with_empty_component() -> GaussianMixture:
    """A mixture with a component of weight zero, which is as good as none."""
    mixture = random_mixture(2, 3, seed=5)
    weights = mixture.weights.copy()
    weights[1] = 0
    return GaussianMixture(weights, mixture.means, mixture.covariances)


@lru_cache(maxsize=8)
def scene(name: str, size: int = 1000, seed: int = 0) -> methods.Scene:
    return methods.Scene.load(name, size, seed)


@lru_cache(maxsize=32)
def density(name: str):
    """A density of DENSITIES by its name; the learned ones were fitted to 300 points of a spiral."""
    return MAKERS[name]()


DATASETS = (*datasets.NAMES, *datasets.EXTRA)
MAKERS = {
    **{name: (lambda name=name: datasets.load(name).density) for name in DATASETS},
    "normal_1d": lambda: densities.standard_normal(1),
    "normal_3d": lambda: densities.standard_normal(3),
    "normal_25d": lambda: densities.standard_normal(25),
    "mixture_3d": lambda: random_mixture(3, 5, seed=3),
    "mixture_6d": lambda: random_mixture(6, 4, seed=6),
    "micrometers": lambda: random_mixture(2, 4, seed=7, scale=1e-6),
    "megameters": lambda: random_mixture(2, 4, seed=8, scale=1e6, center=3e6),
    "empty_component": with_empty_component,
    # Rings so wide that their middle is filled and the squared radius is cut off at zero.
    "wide_ring": lambda: curved.StudentTRing(radius=1.0, width=0.6, freedom=5.0),
    "wide_moons": lambda: curved.Moons(radius=2.0, width=0.7, tilt=1.0),
    "pool": lambda: mixtures.fit_pool(datasets.load("spiral").density.sample(300, seed=2)),
    "pool_6d": lambda: mixtures.fit_pool(random_mixture(6, 2, seed=9).sample(200, seed=2)),
    "kde": lambda: mixtures.fit_kernel_density(datasets.load("spiral").density.sample(300, seed=2)),
}
DENSITIES = tuple(MAKERS)
# Densities of `core.curved`, which are not mixtures.
CURVED = (*datasets.EXTRA, "wide_ring", "wide_moons")
IN_THE_PLANE = (*DATASETS, "micrometers", "megameters", "empty_component", "wide_ring", "wide_moons", "pool", "kde")
# The paper's datasets with several valleys, whose truth is no closed form.
STRUCTURED = ("gaussian_mixture", "circle", "spiral", "two_spirals")


def pairs(name: str, count: int, seed: int = SEED) -> list[tuple[np.ndarray, np.ndarray]]:
    """Endpoints drawn from the density itself."""
    points = density(name).sample(2 * count, seed=seed)
    return list(zip(points[:count], points[count:]))


def far_points(name: str, count: int = 8, widths: float = 30.0) -> np.ndarray:
    """Points `widths` standard deviations away from the density's mass, in random directions."""
    rng = np.random.default_rng(SEED)
    sample = density(name).sample(200, seed=SEED)
    direction = rng.normal(size=(count, sample.shape[1]))
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    return sample.mean(axis=0) + widths * sample.std(axis=0).max() * direction
