"""Paths as polylines: straight lines, resampling, log length, log path ratio and profiles along a path.

A path is an array (T + 1, D) that includes its endpoints. Its length is the paper's integral (eq. 4),
L = ∫ p^(-β) ds, kept as log L in nats, so that β = 10 and densities of e^-1000 are ordinary numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float
from scipy.special import logsumexp

from core.densities import as_points

if TYPE_CHECKING:
    from core.geodesics import Geodesic

LogDensity = Callable[[np.ndarray], np.ndarray]

# Kronrod's rule with 7 nodes and, on every second one of them, Gauss's with 3: their difference is the error estimate.
_OUTER = [0.960491268708020283, 0.774596669241483377, 0.434243749346802558]
KRONROD_NODES = np.array([*np.negative(_OUTER), 0.0, *_OUTER[::-1]])
_OUTER = [0.104656226026467265, 0.268488089868333441, 0.401397414775962223]
KRONROD_WEIGHTS = np.array([*_OUTER, 0.450916538658474142, *_OUTER[::-1]])
GAUSS_WEIGHTS = np.array([0, 5 / 9, 0, 8 / 9, 0, 5 / 9, 0])
# Every path is looked at in at least this many pieces, so that no feature of the density hides between the nodes.
MIN_PIECES = 64
# Halving a piece this often shrinks it below float64's resolution of the whole path.
MAX_HALVINGS = 50
# A noisy density (float32, a kinked flow) never meets the tolerance everywhere; the work is bounded instead.
MAX_PIECES = 200_000


def check_beta(beta: Any) -> float:
    """Return beta as a float, or say what is wrong with it."""
    try:
        value = float(beta)
    except (TypeError, ValueError):
        raise ValueError(f"beta should be a number >= 0; got {beta!r}") from None
    if not np.isfinite(value) or value < 0:
        raise ValueError(f"beta should be a number >= 0; got {beta!r}")
    return value


def check_endpoints(start: Any, end: Any, dim: int) -> tuple[np.ndarray, np.ndarray]:
    """Return start and end as finite (D,) arrays that differ, or say what is wrong with them."""
    checked = []
    for name, value in (("start", start), ("end", end)):
        try:
            point = np.asarray(value, dtype=np.float64)
        except (TypeError, ValueError):
            raise ValueError(f"{name} should be {dim} numbers; got {value!r}") from None
        if point.shape != (dim,):
            raise ValueError(f"{name} should have shape ({dim},); got shape {point.shape}")
        if not np.isfinite(point).all():
            raise ValueError(f"{name} should hold finite numbers; got {point.tolist()}")
        checked.append(point)
    if np.array_equal(checked[0], checked[1]):
        raise ValueError(f"start and end should be different points; both are {checked[0].tolist()}")
    return checked[0], checked[1]


def straight(start: Float[np.ndarray, " D"], end: Float[np.ndarray, " D"], steps: int = 1) -> Float[np.ndarray, "T D"]:
    """The straight line as a path of `steps` equal steps; its ends are exactly start and end."""
    path = np.linspace(start, end, steps + 1)
    path[0], path[-1] = start, end
    return path


def arc_length(path: Float[np.ndarray, "T D"]) -> Float[np.ndarray, " T"]:
    """Euclidean length from the start to each point of the path, in data units."""
    return np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(path, axis=0), axis=1))])


def resample(path: Float[np.ndarray, "T D"], steps: int) -> Float[np.ndarray, "S D"]:
    """The same polyline at `steps` + 1 points of equal Euclidean spacing along it."""
    along = arc_length(path)
    wanted = np.linspace(0, along[-1], steps + 1)
    out = np.stack([np.interp(wanted, along, path[:, axis]) for axis in range(path.shape[1])], axis=1)
    out[0], out[-1] = path[0], path[-1]
    return out


def log_length(path: Float[np.ndarray, "T D"], log_density: LogDensity, beta: float, tolerance: float = 1e-9) -> float:
    """Log of the path's length ∫ p^(-β) ds (paper, eq. 4), in nats.

    Adaptive Gauss-Kronrod quadrature: pieces on which two rules differ are halved until the errors sum up to less than
    the tolerance, so two far points across a density of e^-1000 are as good as 400 near ones.

    Args:
        path: (T + 1, D) polyline in data units.
        log_density: (N, D) -> (N,) in nats.
        beta: inverse temperature, >= 0.
        tolerance: relative error of the length of this very polyline. A density that is itself noisy at 1e-6
            (float32) wants a tolerance above its noise.

    Raises:
        ValueError: if the path is not a finite array of at least two points, or beta is not a number >= 0.
    """
    beta = check_beta(beta)
    path = as_points(path, None, "path")
    if len(path) < 2:
        raise ValueError(f"path should have at least two points; got {len(path)}")
    start, step = path[:-1], np.diff(path, axis=0)
    moves = np.any(step != 0, axis=1)
    start, step = start[moves], step[moves]
    if len(step) == 0:
        return -np.inf
    if beta == 0:
        return float(np.log(np.linalg.norm(step, axis=1).sum()))

    parts = -(-MIN_PIECES // len(step))
    if parts > 1:
        step = np.repeat(step / parts, parts, axis=0)
        start = np.repeat(start, parts, axis=0) + np.tile(np.arange(parts), len(start))[:, None] * step
    done: list[np.ndarray] = []  # log lengths of pieces that need no more halving
    pieces = 0
    for _ in range(MAX_HALVINGS):
        fine, error = _log_piece_lengths(start, step, log_density, beta)
        pieces += len(fine)
        total = logsumexp(np.concatenate([*done, fine]))
        # Every piece may use the tolerance in proportion to its share of the work so far.
        coarse = error > np.log(tolerance) + total - np.log(pieces)
        done.append(fine[~coarse])
        if not coarse.any():
            return float(total)
        if pieces > MAX_PIECES:
            done.append(fine[coarse])
            break
        half = step[coarse] / 2
        start = np.concatenate([start[coarse], start[coarse] + half])
        step = np.concatenate([half, half])
    else:
        done.append(fine[coarse])
    return float(logsumexp(np.concatenate(done)))


def _log_piece_lengths(
    start: np.ndarray, step: np.ndarray, log_density: LogDensity, beta: float
) -> tuple[np.ndarray, np.ndarray]:
    """Log length of each straight piece by Kronrod's rule, and the log of its estimated error."""
    size, dim = start.shape
    nodes = start[:, None] + step[:, None] * ((KRONROD_NODES + 1) / 2)[None, :, None]
    exponent = -beta * log_density(nodes.reshape(-1, dim)).reshape(size, -1)
    top = exponent.max(axis=1, keepdims=True)
    values = np.exp(exponent - top)
    fine = values @ KRONROD_WEIGHTS
    length = np.log(np.linalg.norm(step, axis=1) / 2) + top[:, 0] + np.log(fine)
    # The difference is the error of Gauss's rule, of order h⁶. Kronrod's, h¹², is taken for h⁹, as QUADPACK does.
    with np.errstate(divide="ignore"):
        return length, length + 1.5 * np.log(np.abs(values @ (KRONROD_WEIGHTS - GAUSS_WEIGHTS)) / fine)


def log_path_ratio(path: Float[np.ndarray, "T D"], density: Any, beta: float, geodesic: Geodesic) -> float:
    """LPR = log(L(path) / dist(start, end)) (paper, section 5), in nats; 0 for the geodesic, positive otherwise."""
    return log_length(path, density.log_density, beta) - geodesic.log_length


@dataclass(frozen=True)
class Profile:
    """What a path meets on its way, at equally spaced points along it.

    Attributes:
        fraction: (M,) of the Euclidean length, from 0 to 1.
        log_density: (M,) in nats.
        log_cost: (M,) log of p^(-β) times the Euclidean length: the cost per unit of `fraction`.
        cumulative: (M,) share of the path's length used up, from 0 to 1.
    """

    fraction: Float[np.ndarray, " M"]
    log_density: Float[np.ndarray, " M"]
    log_cost: Float[np.ndarray, " M"]
    cumulative: Float[np.ndarray, " M"]


def profile(path: Float[np.ndarray, "T D"], log_density: LogDensity, beta: float, steps: int = 400) -> Profile:
    """Density and cost along a path, for the picture of where its length goes."""
    beta = check_beta(beta)
    points = resample(as_points(path, None, "path"), steps)
    values = log_density(points)
    log_cost = np.log(arc_length(points)[-1]) - beta * values
    middle = np.exp(log_cost - log_cost.max())
    used = np.concatenate([[0.0], np.cumsum((middle[1:] + middle[:-1]) / 2)])
    return Profile(np.linspace(0, 1, steps + 1), values, log_cost, used / used[-1])
