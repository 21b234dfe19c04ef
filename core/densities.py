"""Densities with an exact log density, score and score Jacobian: the start of the pipeline.

Gaussian mixtures are the project's truth, its kernel density estimate and the members of its learned mixture pool,
so their evaluation is written once, as matrix products: a component's log density is linear in the monomials
(1, x_i, x_i x_j), and its score is linear in (1, x_i), so everything that is needed at N points is a product of
a table of coefficients with a (monomials, N) matrix, weighted by the responsibilities.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float

# Rows are evaluated in blocks of about this many (point, component) pairs, which stay in the processor's cache.
BLOCK_ELEMENTS = 1 << 18
# Up to this dimension the product of a component's score with itself is cheaper as a table over monomials.
TABULATED_DIM = 3
# The log density of fewer kernels, or at fewer points, is that of any mixture; in the plane and in space so are the
# derivatives, unless there are many kernels.
FEW_POINTS, MANY_KERNELS = 500, 4000
BOX_POINTS = 64, 256  # the largest box of a path, and of many points
# exp(-45) is below float64's resolution of one, even summed over a thousand kernels.
NEGLIGIBLE_NATS = 45.0
# Log weight of a component of weight zero: infinity would make invalid products in the matrix library's padding.
LOG_NOTHING = -1e100
# A covariance may miss its transpose by rounding: by this share of its largest entry.
SYMMETRY = 1e-8


@runtime_checkable
class Density(Protocol):
    """What paths, graphs and geodesics need from a density; exact mixtures and learned ones both have it."""

    @property
    def dim(self) -> int:
        """Ambient dimension D."""

    def log_density(self, x: np.ndarray) -> np.ndarray:
        """Log density in nats, (N, D) -> (N,)."""

    def score(self, x: np.ndarray) -> np.ndarray:
        """Gradient of the log density, (N, D) -> (N, D)."""


@runtime_checkable
class ExactDensity(Density, Protocol):
    """A density with exact derivatives and samples: what `core.geodesics.solve` and the datasets' truth need."""

    def score_jacobian(self, x: np.ndarray) -> np.ndarray:
        """Hessian of the log density, (N, D) -> (N, D, D)."""

    def evaluate(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Log density (N,), score (N, D) and score Jacobian (N, D, D) together."""

    def sample(self, size: int, seed: int) -> np.ndarray:
        """Independent points, (size, D)."""


def as_points(x: object, dim: int | None, name: str) -> np.ndarray:
    """Check that x is a finite (N, D) array and return it in float64.

    Raises:
        ValueError: naming the argument, what was wanted and what came.
    """
    try:
        points = np.asarray(x, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{name} should be an array of numbers of shape (N, D); got {type(x).__name__}") from None
    if points.ndim != 2 or (dim is not None and points.shape[1] != dim):
        raise ValueError(f"{name} should have shape (N, {dim or 'D'}); got shape {points.shape}")
    if not np.isfinite(points).all():
        raise ValueError(f"{name} should hold finite numbers only; got {int((~np.isfinite(points)).sum())} NaN or inf")
    return points


def monomials(z: Float[np.ndarray, "N D"]) -> Float[np.ndarray, "F N"]:
    """The monomials (1, z_i, z_i z_j for i <= j) of every point; F = 1 + D + D (D + 1) / 2.

    Points come last, here and in everything that is made of it: sums over components then run along whole rows.
    """
    size, dim = z.shape
    rows, columns = np.triu_indices(dim)
    out = np.empty((1 + dim + len(rows), size))
    out[0] = 1
    out[1 : 1 + dim] = z.T
    np.multiply(out[1 + rows], out[1 + columns], out=out[1 + dim :])
    return out


def component_tables(
    weights: Float[np.ndarray, "M K"], means: Float[np.ndarray, "M K D"], covariances: Float[np.ndarray, "M K D D"]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Weighted Gaussian components as coefficients over monomials.

    Returns:
        The log table (M, K, F), whose product with the monomials is log w_k N(z; m_k, C_k); the shift (M, K, D) and
        the precision (M, K, D, D), with which a component's score is shift − precision z.
    """
    dim = means.shape[2]
    precision = np.linalg.inv(covariances)
    shift = np.einsum("mkij,mkj->mki", precision, means)
    log_norm = 0.5 * np.linalg.slogdet(precision)[1] - 0.5 * dim * np.log(2 * np.pi)
    log_weights = np.log(np.where(weights > 0, weights, 1.0))
    log_weights[weights == 0] = LOG_NOTHING
    constant = log_weights + log_norm - 0.5 * np.einsum("mki,mki->mk", means, shift)
    rows, columns = np.triu_indices(dim)
    twice = np.where(rows == columns, 0.5, 1.0)  # z_i z_j with i < j stands for both orders
    quadratic = -twice * precision[:, :, rows, columns]
    return np.concatenate([constant[..., None], shift, quadratic], axis=2), shift, precision


class ComponentStack:
    """M mixtures of K Gaussian components each, whose *mean* log density is evaluated; M = 1 is a plain mixture.

    Works in centered, scaled coordinates z = (x - center) / scale, where the monomials keep their precision.
    Components of weight zero are allowed, so that mixtures of different sizes can be stacked.

    Args:
        weights: (M, K), each row sums to one.
        means: (M, K, D) in data units.
        covariances: (M, K, D, D) in squared data units.
    """

    def __init__(self, weights: np.ndarray, means: np.ndarray, covariances: np.ndarray):
        members, components, dim = means.shape
        self.members, self.dim = members, dim
        self.center = np.einsum("mk,mkd->d", weights, means) / members
        spread = np.einsum("mk,mkd->", weights, (means - self.center) ** 2 + np.einsum("mkdd->mkd", covariances))
        self.scale = float(np.sqrt(spread / (members * dim)))

        tables = component_tables(weights, (means - self.center) / self.scale, covariances / self.scale**2)
        self.log_table, shift, precision = tables
        self.log_table[:, :, 0] -= dim * np.log(self.scale)
        self.rows, self.cols = np.triu_indices(dim)
        # (M, K, D, 1 + D): the component score as coefficients of (1, z)
        self.score_table = np.concatenate([shift[..., None], -precision], axis=3)
        self.mean_score_table = self.score_table.reshape(members, components, -1).transpose(0, 2, 1).copy()
        self.precision = precision.reshape(members, components, dim * dim)
        if dim <= TABULATED_DIM:
            self.moment_table = self._moments_over_monomials(precision)

    def _moments_over_monomials(self, precision: np.ndarray) -> np.ndarray:
        """Coefficients of g g' - P over the monomials, (pairs * F, M K); g is the component score."""
        dim, pairs = self.dim, len(self.rows)
        features = self.log_table.shape[2]
        table = np.zeros((*precision.shape[:2], pairs, features))
        column = {(0, i): i for i in range(1 + dim)}
        column |= {(i + 1, j + 1): 1 + dim + p for p, (i, j) in enumerate(zip(self.rows.tolist(), self.cols.tolist()))}
        for p, (i, j) in enumerate(zip(self.rows, self.cols)):
            for u in range(1 + dim):
                for v in range(1 + dim):
                    product = self.score_table[:, :, i, u] * self.score_table[:, :, j, v]
                    table[:, :, p, column[min(u, v), max(u, v)]] += product
            table[:, :, p, 0] -= precision[:, :, i, j]
        return table.reshape(-1, pairs * features).T.copy()

    def _monomials(self, x: np.ndarray) -> np.ndarray:
        return monomials((x - self.center) / self.scale)

    def _log_sums(self, features: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Log density (M, N) of each member, unscaled responsibilities (M, K, N) and their sums (M, 1, N)."""
        terms = self.log_table @ features
        top = terms.max(axis=1, keepdims=True)
        terms -= top
        np.exp(terms, out=terms)
        total = terms.sum(axis=1, keepdims=True)
        return (top + np.log(total))[:, 0], terms, total

    def _blocks(self, size: int) -> list[slice]:
        rows = max(1, BLOCK_ELEMENTS // (self.members * self.log_table.shape[1]))
        return [slice(i, i + rows) for i in range(0, size, rows)]

    def member_log_densities(self, x: np.ndarray) -> np.ndarray:
        """Log density of each member, (N, D) -> (M, N)."""
        out = np.empty((self.members, len(x)))
        for block in self._blocks(len(x)):
            out[:, block] = self._log_sums(self._monomials(x[block]))[0]
        return out

    def log_density(self, x: np.ndarray) -> np.ndarray:
        """Mean log density of the members, (N, D) -> (N,)."""
        return self.member_log_densities(x).mean(axis=0)

    def evaluate(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Log density (N,), score (N, D) and score Jacobian (N, D, D) of the mean log density."""
        blocks = self._blocks(len(x))
        if len(blocks) <= 1:
            return self._evaluate_block(x)
        parts = [self._evaluate_block(x[block]) for block in blocks]
        return tuple(np.concatenate([part[i] for part in parts]) for i in range(3))  # type: ignore[return-value]

    def _evaluate_block(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        dim, members = self.dim, self.members
        features = self._monomials(x)
        log_density, weights, total = self._log_sums(features)
        weights /= total
        linear = features[: 1 + dim]
        averages = (self.mean_score_table @ weights).reshape(members, dim, 1 + dim, len(x))
        scores = (averages * linear).sum(axis=2)  # (M, D, N)
        moment = self._second_moment(weights, features)
        for member in scores:
            moment -= member[:, None] * member[None, :]
        score = scores.sum(axis=0).T / (members * self.scale)
        return log_density.mean(axis=0), score, moment.transpose(2, 0, 1) / (members * self.scale**2)

    def _second_moment(self, weights: np.ndarray, features: np.ndarray) -> np.ndarray:
        """Sum over members of E[g g' - P] under the responsibilities, (D, D, N)."""
        dim, size = self.dim, features.shape[1]
        moment = np.zeros((dim, dim, size))
        if dim <= TABULATED_DIM:
            flat = weights.reshape(self.moment_table.shape[1], size)
            pairs = (self.moment_table @ flat).reshape(len(self.rows), len(features), size)
            moment[self.rows, self.cols] = moment[self.cols, self.rows] = (pairs * features).sum(axis=1)
            return moment
        for member in range(self.members):
            scores = np.einsum("kdu,un->nkd", self.score_table[member], features[: 1 + dim], optimize=True)
            weighted = weights[member].T[:, :, None] * scores
            moment += (weighted.transpose(0, 2, 1) @ scores).transpose(1, 2, 0)
            moment -= (self.precision[member].T @ weights[member]).reshape(dim, dim, size)
        return moment


@dataclass(frozen=True, eq=False)
class GaussianMixture:
    """A Gaussian mixture, p(x) = sum_k w_k N(x; m_k, C_k), in any dimension, exact in all that is asked of it.

    Args:
        weights: (K,) positive, rescaled to sum to one.
        means: (K, D) in data units.
        covariances: (K, D, D), symmetric and positive definite.

    Raises:
        ValueError: if shapes do not fit together, a weight is negative or a covariance is not positive definite.
    """

    weights: Float[np.ndarray, " K"]
    means: Float[np.ndarray, "K D"]
    covariances: Float[np.ndarray, "K D D"]
    _stack: ComponentStack = field(init=False, repr=False)

    def __post_init__(self):
        means = as_points(self.means, None, "means")
        components, dim = means.shape
        weights = np.asarray(self.weights, dtype=np.float64)
        covariances = np.asarray(self.covariances, dtype=np.float64)
        if weights.shape != (components,) or not np.isfinite(weights).all() or weights.min() < 0 or weights.sum() <= 0:
            raise ValueError(f"weights should be {components} non-negative numbers with a positive sum; got {weights}")
        if covariances.shape != (components, dim, dim):
            raise ValueError(f"covariances should have shape {(components, dim, dim)}; got shape {covariances.shape}")
        largest = np.abs(covariances).max(axis=(1, 2), keepdims=True)
        symmetric = (np.abs(covariances - covariances.transpose(0, 2, 1)) <= SYMMETRY * largest).all()
        if not symmetric or np.linalg.eigvalsh(covariances).min() <= 0:
            raise ValueError("covariances should be symmetric and positive definite; got one that is not")
        object.__setattr__(self, "weights", weights / weights.sum())
        object.__setattr__(self, "means", means)
        object.__setattr__(self, "covariances", covariances)
        object.__setattr__(self, "_stack", ComponentStack(self.weights[None], means[None], covariances[None]))

    @property
    def dim(self) -> int:
        """Ambient dimension D."""
        return self.means.shape[1]

    @cached_property
    def _cholesky(self) -> np.ndarray:
        return np.linalg.cholesky(self.covariances)

    def log_density(self, x: Float[np.ndarray, "N D"]) -> Float[np.ndarray, " N"]:
        """Log density in nats."""
        return self._stack.log_density(as_points(x, self.dim, "x"))

    def score(self, x: Float[np.ndarray, "N D"]) -> Float[np.ndarray, "N D"]:
        """Gradient of the log density, in nats per data unit."""
        return self.evaluate(x)[1]

    def score_jacobian(self, x: Float[np.ndarray, "N D"]) -> Float[np.ndarray, "N D D"]:
        """Hessian of the log density, in nats per squared data unit."""
        return self.evaluate(x)[2]

    def evaluate(self, x: Float[np.ndarray, "N D"]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Log density (N,), score (N, D) and score Jacobian (N, D, D) together, hardly dearer than one."""
        return self._stack.evaluate(as_points(x, self.dim, "x"))

    def sample(self, size: int, seed: int) -> Float[np.ndarray, "N D"]:
        """Draw `size` independent points; the same seed gives the same points."""
        if size < 1:
            raise ValueError(f"size should be at least 1; got {size}")
        rng = np.random.default_rng(seed)
        component = rng.choice(len(self.weights), size, p=self.weights)
        noise = rng.standard_normal((size, self.dim))
        return self.means[component] + np.einsum("nij,nj->ni", self._cholesky[component], noise)


def standard_normal(dim: int) -> GaussianMixture:
    """The standard normal density in `dim` dimensions."""
    if dim < 1:
        raise ValueError(f"dim should be at least 1; got {dim}")
    return GaussianMixture(np.ones(1), np.zeros((1, dim)), np.eye(dim)[None])


class _Box(NamedTuple):
    """Some of the points at which a kernel density is asked for, and the kernels near them.

    Attributes:
        rows: (n,) which points.
        points, kernels: (n, D) and (K, D) in units of a kernel's width, seen from the box's corner, so that squared
            distances keep their precision far from the origin.
        parts: (K, n) of each kernel in the density at each point, up to a factor of the point.
        log_density: (n,) nats.
    """

    rows: np.ndarray
    points: np.ndarray
    kernels: np.ndarray
    parts: np.ndarray
    log_density: np.ndarray


@dataclass(frozen=True, eq=False)
class KernelDensity(GaussianMixture):
    """A Gaussian mixture whose components share one diagonal covariance: far kernels can be told at a glance.

    Points are sorted into small boxes, and a box looks only at the kernels that are within NEGLIGIBLE_NATS of its best
    one. The rest would change nothing in float64.
    """

    def log_density(self, x: Float[np.ndarray, "N D"]) -> Float[np.ndarray, " N"]:
        """Log density in nats."""
        x = as_points(x, self.dim, "x")
        if len(x) < FEW_POINTS or len(self.weights) < FEW_POINTS:
            return self._stack.log_density(x)
        out = np.empty(len(x))
        for box in self._boxes(x):
            out[box.rows] = box.log_density
        return out

    def evaluate(self, x: Float[np.ndarray, "N D"]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Log density (N,), score (N, D) and score Jacobian (N, D, D) together, hardly dearer than one."""
        x = as_points(x, self.dim, "x")
        if self.dim <= TABULATED_DIM and len(self.weights) < MANY_KERNELS:
            return self._stack.evaluate(x)
        log_density, score, jacobian = np.empty(len(x)), np.empty(x.shape), np.empty((*x.shape, self.dim))
        for box in self._boxes(x):
            # The score is the mean way to a kernel; its Jacobian is the covariance of these ways, less a kernel's own.
            shares = box.parts / box.parts.sum(axis=0)
            mean = shares.T @ box.kernels
            moment = _second_moment(box.kernels, shares)
            log_density[box.rows] = box.log_density
            score[box.rows] = mean - box.points
            jacobian[box.rows] = moment - mean[:, :, None] * mean[:, None, :] - np.eye(self.dim)
        return log_density, score / self._width, jacobian / (self._width[:, None] * self._width)

    @cached_property
    def _width(self) -> np.ndarray:
        return np.sqrt(np.diagonal(self.covariances[0]))

    def _boxes(self, x: np.ndarray) -> Iterator[_Box]:
        scaled, means, log_weights = x / self._width, self.means / self._width, np.log(self.weights)
        constant = np.log(self._width).sum() + 0.5 * self.dim * np.log(2 * np.pi)
        # Points of a path lie one by one, those of a graph's edges close together.
        largest = int(np.clip(len(x) // 4, *BOX_POINTS))
        waiting = [(np.arange(len(x)), np.arange(len(means)))]
        while waiting:
            rows, near = waiting.pop()
            low, high, kernels = scaled[rows].min(axis=0), scaled[rows].max(axis=0), means[near]
            nearest = ((kernels - kernels.clip(low, high)) ** 2).sum(axis=1)
            farthest = (np.maximum(np.abs(kernels - low), np.abs(kernels - high)) ** 2).sum(axis=1)
            near = near[0.5 * nearest <= 0.5 * farthest.min() + NEGLIGIBLE_NATS]
            if len(rows) > largest:  # halve it at the median of its widest axis: what is far from it is far from both
                middle = len(rows) // 2
                halves = rows[np.argpartition(scaled[rows, (high - low).argmax()], middle)]
                waiting += [(halves[:middle], near), (halves[middle:], near)]
                continue
            points, kernels = scaled[rows] - low, means[near] - low
            parts = kernels @ points.T + (log_weights[near] - 0.5 * (kernels**2).sum(axis=1))[:, None]
            top = parts.max(axis=0)
            parts -= top
            np.exp(parts, out=parts)
            log_density = top + np.log(parts.sum(axis=0)) - 0.5 * (points**2).sum(axis=1) - constant
            yield _Box(rows, points, kernels, parts, log_density)


def _second_moment(x: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Σ_k w_kn x_k x_k', (K, D) and (K, n) -> (n, D, D), in blocks that stay in the processor's cache."""
    size, dim = x.shape
    moment = np.zeros((weights.shape[1], dim * dim))
    rows = max(1, BLOCK_ELEMENTS // dim**2)
    for block in (slice(k, k + rows) for k in range(0, size, rows)):
        moment += weights[block].T @ (x[block, :, None] * x[block, None, :]).reshape(-1, dim * dim)
    return moment.reshape(-1, dim, dim)


def kernel_density(points: Float[np.ndarray, "N D"], bandwidth: float) -> KernelDensity:
    """Gaussian kernel density estimate: one component a point, with covariance bandwidth² diag(variance of the points).

    Args:
        points: (N, D) in data units.
        bandwidth: in units of each axis's standard deviation, positive.
    """
    points = as_points(points, None, "points")
    if not bandwidth > 0:
        raise ValueError(f"bandwidth should be positive; got {bandwidth}")
    if len(points) < 2 or not np.ptp(points, axis=0).all():
        raise ValueError("points should be at least two that vary in every column")
    covariance = np.diag((bandwidth * points.std(axis=0)) ** 2)
    size, dim = points.shape
    return KernelDensity(np.full(size, 1 / size), points, np.broadcast_to(covariance, (size, dim, dim)))
