"""Between the space of the data and the plane of the page: scaling per column, projection on two axes, snapping."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

TIE = 1e-6  # loadings that differ by a smaller share are equal


@dataclass(frozen=True, eq=False)
class Scaling:
    """x ↦ (x − center) / scale, column by column.

    Args:
        center: `(D,)`, data units.
        scale: `(D,)`, data units, all positive.

    Raises:
        ValueError: if a scale is not positive and finite.
    """

    center: Float[np.ndarray, " D"]
    scale: Float[np.ndarray, " D"]

    def __post_init__(self) -> None:
        if not (np.isfinite(self.scale) & (self.scale > 0)).all():
            raise ValueError(f"scale should be positive and finite; got {self.scale}")

    @classmethod
    def none(cls, dim: int) -> Scaling:
        """The scaling that changes nothing."""
        return cls(np.zeros(dim), np.ones(dim))

    @classmethod
    def standard(cls, points: Float[np.ndarray, "N D"]) -> Scaling:
        """Mean zero and standard deviation one in every column of `points`; a constant column is only centered."""
        center, scale = points.mean(axis=0), points.std(axis=0)
        return cls(center, np.where(np.ptp(points, axis=0) > 0, scale, 1.0))

    def apply(self, x: Float[np.ndarray, "*batch D"]) -> Float[np.ndarray, "*batch D"]:
        """From data units to scaled ones."""
        return (x - self.center) / self.scale

    def undo(self, z: Float[np.ndarray, "*batch D"]) -> Float[np.ndarray, "*batch D"]:
        """From scaled units back to those of the data."""
        return z * self.scale + self.center


@dataclass(frozen=True, eq=False)
class Projection:
    """x ↦ axes (x − center): D dimensions seen in a plane.

    Args:
        center: `(D,)`, the point that lands on the origin.
        axes: `(2, D)`, orthonormal rows.
        titles: of the two axes of the plane.
    """

    center: Float[np.ndarray, " D"]
    axes: Float[np.ndarray, "2 D"]
    titles: tuple[str, str]

    @classmethod
    def principal(cls, points: Float[np.ndarray, "N D"]) -> Projection:
        """The two directions in which `points` vary most, with the shares of variance as titles.

        The largest loading of each is positive, so that the same points are always seen from the same side.

        Raises:
            ValueError: if there are fewer than two points or fewer than two columns.
        """
        if min(points.shape) < 2:
            raise ValueError(f"points should have at least two rows and two columns; got {points.shape}")
        center = points.mean(axis=0)
        _, spreads, directions = np.linalg.svd(points - center, full_matrices=False)
        axes = directions[:2]
        loadings = np.abs(axes)
        # The first of the largest: standardized pairs of columns have equal loadings, but for rounding.
        largest = (loadings > (1 - TIE) * loadings.max(axis=1, keepdims=True)).argmax(axis=1)
        axes = axes * np.sign(axes[[0, 1], largest])[:, None]
        total = float((spreads**2).sum())
        shares = spreads[:2] ** 2 / total if total > 0 else np.zeros(2)
        first, second = (f"PC {k} ({100 * share:.0f} %)" for k, share in enumerate(shares, start=1))
        return cls(center, axes, (first, second))

    @classmethod
    def columns(cls, i: int, j: int, names: Sequence[str]) -> Projection:
        """Column `i` against column `j`, as they are.

        Raises:
            ValueError: if the two are not different columns among those that `names` names.
        """
        dim = len(names)
        if i == j or not (0 <= i < dim and 0 <= j < dim):
            raise ValueError(f"i and j should be two different columns of {dim}; got {i} and {j}")
        return cls(np.zeros(dim), np.eye(dim)[[i, j]], (names[i], names[j]))

    def apply(self, x: Float[np.ndarray, "*batch D"]) -> Float[np.ndarray, "*batch 2"]:
        """Where the points are seen in the plane."""
        return (x - self.center) @ self.axes.T


def nearest(points: Float[np.ndarray, "N 2"], position: Float[np.ndarray, " 2"]) -> int:
    """The index of the point nearest to a position in the plane; the first of several.

    Raises:
        ValueError: if there are no points.
    """
    if len(points) == 0:
        raise ValueError("points should not be empty; there is nothing to be near to")
    return int(np.hypot(*(points - position).T).argmin())
