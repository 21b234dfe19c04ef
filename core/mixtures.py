"""Densities learned from the points alone, without torch: a pool of regularized EM mixtures, and the KDE.

The pool is the project's reference where there is no truth: it needs a second and no torch. Eight Gaussian
mixtures, fitted by EM from different starts with two settings that held-out likelihood chooses, are averaged in log
density: errors of single fits cancel, and score and Hessian stay exact and smooth.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float
from scipy.special import logsumexp

from core.densities import ComponentStack, GaussianMixture, as_points, component_tables, kernel_density, monomials

MIN_POINTS = 20
# A kernel estimate's score wants more smoothing than its density does (paper, appendix "Trade-off ...").
KDE_WIDENING = 1.3
BANDWIDTHS = np.geomspace(0.02, 0.9, 28)
BANDWIDTH_QUERIES = 600


@dataclass(frozen=True)
class MixtureSettings:
    """One way to regularize EM.

    Attributes:
        components: K at most.
        prior: covariance prior in squared kernel bandwidths; each covariance is drawn towards prior · h² I.
        temperature: responsibilities are taken to the power 1/temperature; above 1 neighbors share points.
    """

    components: int
    prior: float
    temperature: float


@dataclass(frozen=True)
class PoolSettings:
    """How the pool is fitted (numbers tuned once on other seeds, then frozen).

    Attributes:
        small: sizes that are tried with one prior only.
        medium: sizes that are tried with every prior, besides the largest.
        largest, largest_many: the largest size below and from `many` points on.
        preference: nats of held-out likelihood in favor of the largest size, whose pool is smoother.
        chosen: settings kept; members: mixtures fitted in all, taking turns among the chosen.
    """

    small: tuple[int, ...] = (1, 2, 3)
    medium: tuple[int, ...] = (5, 8, 14)
    priors: tuple[tuple[float, float], ...] = ((4.0, 1.0), (8.0, 1.0), (16.0, 1.0), (4.0, 1.2))
    largest: int = 40
    largest_many: int = 80
    many: int = 3000
    preference: float = 0.01
    folds: int = 5
    folded_up_to: int = 2000
    chosen: int = 2
    members: int = 8
    trial_iterations: int = 40
    iterations: int = 100


@dataclass(frozen=True, eq=False)
class MixturePool:
    """The normalized geometric mean of Gaussian mixtures: log p = mean of their log densities − log Z.

    Score and score Jacobian are exact. Z is estimated by importance sampling from the members' average, whose density
    bounds the geometric mean from above; it is the same for every path and moves none.

    Args:
        members: mixtures of the same dimension.
        seed: of the sample that estimates Z.
    """

    members: tuple[GaussianMixture, ...]
    seed: int = 0
    log_normalizer: float = field(init=False)
    _stack: ComponentStack = field(init=False, repr=False)

    def __post_init__(self):
        size = max(len(m.weights) for m in self.members)
        dim = self.dim
        weights = np.zeros((len(self.members), size))
        means = np.zeros((len(self.members), size, dim))
        covariances = np.broadcast_to(np.eye(dim), (*weights.shape, dim, dim)).copy()
        for row, member in enumerate(self.members):
            count = len(member.weights)
            weights[row, :count] = member.weights
            means[row, :count], covariances[row, :count] = member.means, member.covariances
            covariances[row, count:] = member.covariances[0]
            means[row, count:] = member.means[0]
        object.__setattr__(self, "_stack", ComponentStack(weights, means, covariances))
        object.__setattr__(self, "log_normalizer", 0.0)
        log_ratio = self._log_ratio(self._draw_average(8192, np.random.default_rng(self.seed)))
        object.__setattr__(self, "log_normalizer", float(logsumexp(log_ratio) - np.log(len(log_ratio))))

    @property
    def dim(self) -> int:
        """Ambient dimension D."""
        return self.members[0].dim

    def log_density(self, x: Float[np.ndarray, "N D"]) -> Float[np.ndarray, " N"]:
        """Log density in nats."""
        return self._stack.log_density(as_points(x, self.dim, "x")) - self.log_normalizer

    def score(self, x: Float[np.ndarray, "N D"]) -> Float[np.ndarray, "N D"]:
        """Gradient of the log density, in nats per data unit."""
        return self.evaluate(x)[1]

    def score_jacobian(self, x: Float[np.ndarray, "N D"]) -> Float[np.ndarray, "N D D"]:
        """Hessian of the log density, in nats per squared data unit."""
        return self.evaluate(x)[2]

    def evaluate(self, x: Float[np.ndarray, "N D"]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Log density (N,), score (N, D) and score Jacobian (N, D, D) together."""
        log_density, score, jacobian = self._stack.evaluate(as_points(x, self.dim, "x"))
        return log_density - self.log_normalizer, score, jacobian

    def sample(self, size: int, seed: int) -> Float[np.ndarray, "N D"]:
        """Independent points by rejection: the members' average, thinned by how far the geometric mean lies below."""
        rng = np.random.default_rng(seed)
        kept: list[np.ndarray] = []
        while sum(map(len, kept)) < size:
            points = self._draw_average(2 * size, rng)
            kept.append(points[np.log(rng.uniform(size=len(points))) < self._log_ratio(points) + self.log_normalizer])
        return np.concatenate(kept)[:size]

    def _draw_average(self, size: int, rng: np.random.Generator) -> np.ndarray:
        share = -(-size // len(self.members))
        drawn = [m.sample(share, seed=int(rng.integers(2**31))) for m in self.members]
        return rng.permutation(np.concatenate(drawn))[:size]

    def _log_ratio(self, x: np.ndarray) -> np.ndarray:
        """Log of geometric over arithmetic mean of the members' densities, minus log Z; never above −log Z."""
        members = self._stack.member_log_densities(x)
        return members.mean(axis=0) - logsumexp(members, axis=0) + np.log(len(members)) - self.log_normalizer


def fit_pool(points: Float[np.ndarray, "N D"], seed: int = 0, settings: PoolSettings | None = None) -> MixturePool:
    """Learn a mixture pool from points: about a second for 1000 points in the plane.

    Raises:
        ValueError: if there are fewer than MIN_POINTS points, or a column does not vary.
    """
    settings = settings or PoolSettings()
    points = check_sample(points)
    rng = np.random.default_rng(seed)
    mean, deviation = points.mean(axis=0), points.std(axis=0)
    z = (points - mean) / deviation
    bandwidth = leave_one_out_bandwidth(points)
    best = _choose_settings(z, bandwidth, settings, rng)
    members = []
    for i in range(settings.members):
        w, m, c = _expectation_maximization(z, best[i % len(best)], bandwidth, settings.iterations, 1e-5, rng)
        members.append(GaussianMixture(w, m * deviation + mean, c * np.outer(deviation, deviation)))
    return MixturePool(tuple(members), seed)


def fit_kernel_density(points: Float[np.ndarray, "N D"], widening: float = KDE_WIDENING) -> GaussianMixture:
    """Kernel density estimate with the leave-one-out bandwidth, widened by 1.3 for the sake of its score."""
    points = check_sample(points)
    return kernel_density(points, widening * leave_one_out_bandwidth(points))


def check_sample(points: object) -> np.ndarray:
    """Points that a density can be learned from, or a sentence that says why not."""
    checked = as_points(points, None, "points")
    if len(checked) < MIN_POINTS:
        raise ValueError(f"points should be at least {MIN_POINTS}; got {len(checked)}")
    flat = np.flatnonzero(np.ptp(checked, axis=0) == 0)
    if len(flat):
        raise ValueError(f"points should vary in every column; column {flat[0] + 1} is constant")
    return checked


def leave_one_out_bandwidth(points: Float[np.ndarray, "N D"]) -> float:
    """Kernel bandwidth with the largest leave-one-out likelihood, in units of each axis's standard deviation.

    Up to BANDWIDTH_QUERIES points, evenly taken, are scored against all others.
    """
    z = (points - points.mean(axis=0)) / points.std(axis=0)
    size, dim = z.shape
    queries = np.unique(np.linspace(0, size - 1, min(size, BANDWIDTH_QUERIES)).astype(int))
    squared = (z[queries] ** 2).sum(axis=1)[:, None] + (z**2).sum(axis=1) - 2 * z[queries] @ z.T
    squared = np.maximum(squared, 0)
    squared[np.arange(len(queries)), queries] = np.inf
    nearest = squared.min(axis=1, keepdims=True)
    squared -= nearest  # so that the largest exponential is one
    scores = []
    for h in BANDWIDTHS:
        inner = np.log(np.exp(squared / (-2 * h * h)).sum(axis=1)) - nearest[:, 0] / (2 * h * h)
        scores.append(inner.mean() - dim * np.log(h))
    return float(BANDWIDTHS[int(np.argmax(scores))])


def _choose_settings(
    z: np.ndarray, bandwidth: float, settings: PoolSettings, rng: np.random.Generator
) -> list[MixtureSettings]:
    """The settings with the best held-out likelihood, best last."""
    size = len(z)
    largest = settings.largest if size < settings.many else settings.largest_many
    candidates = [MixtureSettings(k, *settings.priors[0]) for k in settings.small]
    candidates += [
        MixtureSettings(k, prior, temperature)
        for k in (*settings.medium, largest)
        for prior, temperature in settings.priors
        if 5 * k <= size
    ]
    fold = rng.permutation(size) % settings.folds
    folds = range(settings.folds if size <= settings.folded_up_to else 1)
    held_out = []
    for candidate in candidates:
        values = []
        for f in folds:
            kept, left = z[fold != f], z[fold == f]
            w, m, c = _expectation_maximization(kept, candidate, bandwidth, settings.trial_iterations, 1e-4, rng)
            table = component_tables(w[None], m[None], c[None])[0][0]
            values.append(logsumexp(table @ monomials(left), axis=0))
        bonus = settings.preference if candidate.components == largest else 0.0
        held_out.append(float(np.concatenate(values).mean()) + bonus)
    return [candidates[i] for i in np.argsort(held_out)[-settings.chosen :]]


def _expectation_maximization(
    z: np.ndarray,
    settings: MixtureSettings,
    bandwidth: float,
    iterations: int,
    tolerance: float,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """EM for one mixture with an isotropic covariance prior and tempered responsibilities.

    M step: Σ_k = (n_k S_k + ν c h² I) / (n_k + ν) with ν = D + 1; E step: responsibilities ∝ (w_k N_k)^(1/T).

    Returns:
        Weights (K,), means (K, D) and covariances (K, D, D).
    """
    dim = z.shape[1]
    features = monomials(z)
    rows, columns = np.triu_indices(dim)
    strength = dim + 1.0
    prior = strength * settings.prior * bandwidth**2 * np.eye(dim)
    shares = _first_responsibilities(z, settings.components, rng)
    previous = -np.inf
    for iteration in range(iterations):
        sums = shares @ features.T
        counts = sums[:, 0] + 1e-8  # a component that lost all its points stays at the center, with next to no weight
        means = sums[:, 1 : 1 + dim] / counts[:, None]
        second = np.empty((len(counts), dim, dim))
        second[:, rows, columns] = second[:, columns, rows] = sums[:, 1 + dim :] / counts[:, None]
        scatter = second - means[:, :, None] * means[:, None, :]
        n = counts[:, None, None]
        covariances = (n * scatter + prior) / (n + strength)
        weights = counts / counts.sum()
        terms = component_tables(weights[None], means[None], covariances[None])[0][0] @ features
        terms -= (top := terms.max(axis=0))
        shares = np.exp(terms)
        total = shares.sum(axis=0)
        likelihood = float((top + np.log(total)).mean())
        if settings.temperature != 1:
            shares = np.exp(terms / settings.temperature)
            total = shares.sum(axis=0)
        shares /= total
        if likelihood - previous < tolerance and iteration > 10:
            break
        previous = likelihood
    return weights, means, covariances


def _first_responsibilities(z: np.ndarray, components: int, rng: np.random.Generator) -> np.ndarray:
    """k-means++ seeds and four rounds of k-means, as hard responsibilities (K, N)."""
    size = len(z)
    seeds = [int(rng.integers(size))]
    squared = ((z - z[seeds[0]]) ** 2).sum(axis=1)
    for _ in range(components - 1):
        total = squared.sum()
        seeds.append(int(rng.choice(size, p=squared / total) if total > 0 else rng.integers(size)))
        squared = np.minimum(squared, ((z - z[seeds[-1]]) ** 2).sum(axis=1))
    centers = z[seeds]
    for _ in range(4):
        nearest = ((centers**2).sum(axis=1)[:, None] - 2 * centers @ z.T).argmin(axis=0)
        shares = (nearest == np.arange(components)[:, None]).astype(np.float64)
        centers = shares @ z / np.maximum(shares.sum(axis=1), 1)[:, None]
    return shares
