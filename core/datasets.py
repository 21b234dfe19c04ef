"""The datasets by name, the paper's (appendix "Two-Dimensional Datasets") and four more, each with its exact density.

The paper's five are Gaussian mixtures. Circle, spiral and two_spirals are 50-component mixtures fitted once to 10,000
noisy points (the paper does not say how many) and shipped under `assets/mixtures`, so that the truth never changes with
a scikit-learn release. `python -m core.datasets` makes those files.

The others, `EXTRA`, are not in the paper and not mixtures (`core.curved`), so that what is learned with mixtures can be
judged by a truth of another form.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from jaxtyping import Float

from core import curved
from core.densities import ExactDensity, GaussianMixture, standard_normal
from core.tables import Upload, read_points

__all__ = ["EXTRA", "NAMES", "TITLES", "Dataset", "Upload", "fit_structure", "load", "noisy_structure", "read_points"]

# The paper's, and ours.
NAMES = ("standard_normal", "gaussian_mixture", "circle", "spiral", "two_spirals")
EXTRA = ("banana", "student_t_ring", "moons", "sine_wave")
TITLES = {
    "standard_normal": "standard normal",
    "gaussian_mixture": "Gaussian mixture",
    "circle": "circle",
    "spiral": "spiral",
    "two_spirals": "two spirals",
    "banana": "banana",
    "student_t_ring": "Student-t ring",
    "moons": "moons",
    "sine_wave": "sine wave",
}
STRUCTURED = ("circle", "spiral", "two_spirals")
NON_MIXTURES: dict[str, Callable[[], ExactDensity]] = {
    "banana": curved.Banana,
    "student_t_ring": curved.StudentTRing,
    "moons": curved.Moons,
    "sine_wave": curved.SineWave,
}
MIXTURES = Path(__file__).parent.parent / "assets" / "mixtures"

FIT_COMPONENTS = 50
FIT_SIZE = 10_000
FIT_SEED = 0


@dataclass(frozen=True)
class Dataset:
    """A named density: `name` for code and URLs, `title` for people, `density` for everything else."""

    name: str
    title: str
    density: ExactDensity


@lru_cache(maxsize=16)
def load(name: str) -> Dataset:
    """The dataset of that name.

    Raises:
        ValueError: if there is no such dataset, or its shipped file is missing or damaged.
    """
    if name not in TITLES:
        raise ValueError(f"name should be one of {', '.join(TITLES)}; got {name!r}")
    if name in NON_MIXTURES:
        return Dataset(name, TITLES[name], NON_MIXTURES[name]())
    if name == "standard_normal":
        density = standard_normal(2)
    elif name == "gaussian_mixture":
        density = GaussianMixture(
            weights=np.array([0.25, 0.5, 0.25]),
            means=np.array([[2.0, 1.4], [6.5, 6.3], [8.0, 1.0]]),
            covariances=np.array([[[3.0, 2.5], [2.5, 3.0]], [[3.0, 0.0], [0.0, 3.0]], [[2.0, -0.8], [-0.8, 2.0]]]),
        )
    else:
        density = _read_mixture(MIXTURES / f"{name}.json")
    return Dataset(name, TITLES[name], density)


def _read_mixture(path: Path) -> GaussianMixture:
    try:
        stored = json.loads(path.read_text())
        return GaussianMixture(*(np.array(stored[key]) for key in ("weights", "means", "covariances")))
    except (OSError, KeyError, TypeError, ValueError) as problem:
        raise ValueError(
            f"{path.name} should hold a fitted mixture; restore it with git or remake it with "
            f"`python -m core.datasets` ({problem})"
        ) from problem


def noisy_structure(name: str, size: int, seed: int) -> Float[np.ndarray, "N 2"]:
    """Points on the circle or a spiral, plus Gaussian noise (paper: σ = 0.08, 0.05 and 0.045).

    The spirals are Archimedean, reach radius 1 after one turn, and are sampled uniformly in arc length.
    """
    rng = np.random.default_rng(seed)
    if name == "circle":
        angle = rng.uniform(0, 2 * np.pi, size)
        curve, noise = np.c_[np.cos(angle), np.sin(angle)], 0.08
    elif name == "spiral":
        angle = _uniform_in_arc_length(3.5 * np.pi, rng.uniform(size=size))
        curve, noise = (angle / (2 * np.pi))[:, None] * np.c_[np.cos(angle), np.sin(angle)], 0.05
    elif name == "two_spirals":
        angle = _uniform_in_arc_length(2 * np.pi, rng.uniform(size=size))
        turned = angle + np.pi * rng.integers(0, 2, size)
        curve, noise = (angle / (2 * np.pi))[:, None] * np.c_[np.cos(turned), np.sin(turned)], 0.045
    else:
        raise ValueError(f"name should be one of {', '.join(STRUCTURED)}; got {name!r}")
    return curve + noise * rng.standard_normal((size, 2))


def _uniform_in_arc_length(last_angle: float, quantile: np.ndarray) -> np.ndarray:
    """Angles θ in [0, last_angle] at which the spiral r = θ/2π has used up that share of its arc length."""
    angle = np.linspace(0, last_angle, 10_001)
    arc_length = angle * np.sqrt(1 + angle**2) + np.arcsinh(angle)  # times 1/4π
    return np.interp(quantile * arc_length[-1], arc_length, angle)


def fit_structure(name: str) -> dict[str, object]:
    """Fit the 50-component mixture of one structured dataset; what is shipped, as plain JSON values."""
    import sklearn
    from sklearn.mixture import GaussianMixture as FittedMixture

    fitted = FittedMixture(FIT_COMPONENTS, random_state=FIT_SEED).fit(noisy_structure(name, FIT_SIZE, FIT_SEED))
    return {
        "name": name,
        "command": "python -m core.datasets",
        "fitted_to": f"{FIT_SIZE} points of core.datasets.noisy_structure({name!r}, {FIT_SIZE}, seed={FIT_SEED})",
        "versions": {"scikit-learn": sklearn.__version__, "numpy": np.__version__},
        "weights": fitted.weights_.tolist(),
        "means": fitted.means_.tolist(),
        "covariances": fitted.covariances_.tolist(),
    }


if __name__ == "__main__":
    for structured in STRUCTURED:
        (MIXTURES / f"{structured}.json").write_text(json.dumps(fit_structure(structured)) + "\n")
        print(f"wrote {structured}.json")
