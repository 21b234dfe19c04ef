"""Geodesics of the metric p^(-2β) I: a fast boundary value solver, Algorithm 1, and the normal's closed form.

The equation is the paper's constant-Euclidean-speed form (eq. 7), φ'' − β(s·φ')φ' + βs‖φ'‖² = 0, discretized as in its
Algorithm 1. `solve` finds the globally shortest path of an exact density: routes over a grid of the plane
(`core.fields.RouteMap`) give one first guess for each way around, `relax` solves each, the shortest one is returned.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.interpolate import CubicSpline
from scipy.linalg.lapack import dgbsv
from scipy.optimize import brentq
from scipy.special import expit, logsumexp

from core import fields
from core.densities import as_points
from core.paths import arc_length, check_beta, check_endpoints, log_length, resample, straight

# x (N, D) -> score (N, D) and score Jacobian (N, D, D): all that the equation needs to know of a density.
Slope = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]


class Status(Enum):
    """How a solution ended; `str(status)` is a sentence with advice."""

    CONVERGED = "Converged."
    NOT_CONVERGED = (
        "Did not converge: the path is the best found, not a geodesic. "
        "Try a smaller β, or endpoints closer to the data."
    )
    FOLDED = (
        "The relaxed path folded back or left the plane, so the path it started from is shown. "
        "The score is not good enough there: try more points or another method."
    )
    OFF_SUPPORT = (
        "The relaxed path left the data, so the path it started from is shown. "
        "The score knows nothing there: choose endpoints closer to the data, or use more points."
    )
    NOT_SHORTER = (
        "Relaxation made the path longer by its own density, so the path it started from is shown. "
        "Score and density disagree there: try more points or another method."
    )
    FAR_OUTSIDE = (
        "An endpoint lies far outside the data, where the length is nearly all spent next to it. "
        "Choose endpoints closer to the data."
    )
    OUTSIDE_SAMPLE = (
        "An endpoint lies outside the sample, where nothing learned from it can be trusted. "
        "Choose endpoints closer to the data."
    )
    SPLIT = (
        "The sample falls into parts that the neighbor graph does not join. The path crosses the marked gap between "
        "them, but the data does not settle where: raise k, or try more points."
    )
    DISPUTED = (
        "The densities learned from these points disagree about this path by more than their usual error: one of them "
        "knows a clearly shorter one. The marked stretch is a bridge or a gap that the data does not settle; "
        "try more points."
    )
    DETOUR = (
        "Every density learned from these points finds this path clearly longer than another; it pays on the marked "
        "stretch. Choose another method."
    )
    DISCONNECTED = (
        "The neighbor graph has no path between the endpoints. Raise k, use more points, or move an endpoint."
    )
    UNAVAILABLE = (
        "There is no trained model for these points: train one, load one, or choose another method. Models are "
        "shipped for sample seed 0 at n = 200, 500, 1000, 2000 and 5000 (paper preset: 1000)."
    )
    UNREADABLE = (
        "The shipped model file is missing or damaged and was not used. "
        "Restore assets/weights with `git checkout assets/weights`, or make it again with `make weights`."
    )

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True)
class Geodesic:
    """The solution of the boundary value problem.

    Attributes:
        path: (T + 1, D) in data units, endpoints included.
        log_length: nats, of this very polyline.
        status: CONVERGED or another, with advice.
        residual: max norm of the discretized equation, data units.
        error: estimate of how much the polyline is longer than the curve it stands for, nats.
        alternatives: log lengths of the other ways around that were solved and compared, longest last.
    """

    path: Float[np.ndarray, "T D"]
    log_length: float
    status: Status
    residual: float
    error: float = 0.0
    alternatives: tuple[float, ...] = ()


@dataclass(frozen=True)
class RelaxSettings:
    """Knobs of the solver; rare pairs at β = 10 with an endpoint deep in the tail need more than the defaults.

    Attributes:
        tolerance: on the residual, relative to the path's Euclidean length.
        max_steps: linear solves at most.
        pseudo_time: first τ; large values start as Newton's method, small ones as gradient flow.
        reach: largest move of a point in one step, in local length scales 1/sqrt(β‖∂s‖).
        growth: of τ after a step that lowered the residual.
    """

    tolerance: float = 1e-9
    max_steps: int = 100
    pseudo_time: float = 5.0
    reach: float = 0.5
    growth: float = 2.5


@dataclass(frozen=True)
class Relaxed:
    """Outcome of `relax`: the path, linear solves used, the residual in data units and whether it met the tolerance."""

    path: Float[np.ndarray, "T D"]
    steps: int
    residual: float
    converged: bool


GAUSS_NODES, GAUSS_WEIGHTS = np.polynomial.legendre.leggauss(3)
RESOLVED_NATS = 0.2
LEGENDRE_NODES, LEGENDRE_WEIGHTS = np.polynomial.legendre.leggauss(24)
COARSE_STEPS, FINE_STEPS = 100, 400
COARSE = RelaxSettings(tolerance=1e-6)
FINE = RelaxSettings(pseudo_time=1e4, max_steps=60)
# A solution is drawn finely enough that its polyline is longer than the curve by less than this (nats).
LENGTH_ERROR = 3e-6
MAX_PARTS = 16
# Graph paths are jagged; this many passes of the (1/4, 1/2, 1/4) filter leave a curve that the solver can start from.
SMOOTHING_PASSES = 10
FAR_LOG_DENSITY = -500.0


# --- the boundary value solver --------------------------------------------------------------------------------------


def residual(path: np.ndarray, score: np.ndarray, beta: float) -> np.ndarray:
    """Algorithm 1's update minus the point it updates, at every interior point, (T − 1, D) data units."""
    velocity = 0.5 * (path[2:] - path[:-2])
    along = (score * velocity).sum(axis=1, keepdims=True)
    squared = (velocity * velocity).sum(axis=1, keepdims=True)
    return 0.5 * (path[2:] + path[:-2]) - path[1:-1] + 0.5 * beta * (score * squared - along * velocity)


def _banded_system(path: np.ndarray, score: np.ndarray, jacobian: np.ndarray, beta: float) -> np.ndarray:
    """Minus the derivative of `residual`, in LAPACK's band storage with room for the factorization."""
    size, dim = len(score), path.shape[1]
    velocity = 0.5 * (path[2:] - path[:-2])
    eye = np.eye(dim)
    squared = (velocity * velocity).sum(axis=1)[:, None, None]
    along = (score * velocity).sum(axis=1)[:, None, None]
    turned = np.einsum("nji,nj->ni", jacobian, velocity)
    center = -eye + 0.5 * beta * (jacobian * squared - velocity[:, :, None] * turned[:, None, :])
    outer = score[:, :, None] * velocity[:, None, :]
    sideways = 0.5 * beta * (2 * outer - along * eye - outer.transpose(0, 2, 1))
    after, before = 0.5 * (eye + sideways), 0.5 * (eye - sideways)
    width = 2 * dim - 1
    banded = np.zeros((3 * width + 1, size * dim))
    for i in range(dim):
        for j in range(dim):
            diagonal = 2 * width + i - j
            banded[diagonal, j::dim] = -center[:, i, j]
            banded[diagonal - dim, dim + j :: dim] = -after[:-1, i, j]
            banded[diagonal + dim, j : (size - 1) * dim : dim] = -before[1:, i, j]
    return banded


def relax(path: Float[np.ndarray, "T D"], slope: Slope, beta: float, settings: RelaxSettings | None = None) -> Relaxed:
    """Solve the constant-Euclidean-speed equation (paper, eq. 7) with fixed ends, from a first guess.

    Pseudo-transient continuation on the residual F of Algorithm 1: each step solves ((1/τ) I − ∂F) dx = F, a block
    tridiagonal system, and τ grows as F falls, so that it begins as Algorithm 1's flow and ends as Newton's method.
    No point may move farther in a step than `reach` of its local length scale 1/sqrt(β‖∂s‖): otherwise τ shrinks.
    That keeps the path in the valley where it began, which plain Newton does not.

    Args:
        path: (T + 1, D) first guess, its ends are kept.
        slope: score and score Jacobian; a learned score whose Jacobian is not symmetric is fine.
        beta: inverse temperature.
    """
    settings = settings or RelaxSettings()
    path = path.copy()
    extent = float(arc_length(path)[-1])
    tolerance = settings.tolerance * extent
    score, jacobian = slope(path[1:-1])
    force = residual(path, score, beta)
    norm, tau, step = float(np.linalg.norm(force)), settings.pseudo_time, 0
    while step < settings.max_steps and not np.abs(force).max() <= tolerance:
        step += 1
        banded = _banded_system(path, score, jacobian, beta)
        width = 2 * path.shape[1] - 1
        banded[2 * width] += 1 / tau
        _, _, move, info = dgbsv(width, width, banded, force.ravel(), overwrite_ab=True)
        if info != 0 or not np.isfinite(move).all():  # singular, or as good as: a smaller τ is not
            tau *= 0.25
            continue
        move = move.reshape(force.shape)
        # Where the score hardly bends, a tenth of the path's extent is far enough for one step.
        bend = np.maximum(beta * np.linalg.norm(jacobian, axis=(1, 2)), (0.1 / extent) ** 2)
        ratio = float((np.linalg.norm(move, axis=1) * np.sqrt(bend)).max())
        if ratio > settings.reach:
            tau *= max(0.1, 0.7 * settings.reach / ratio)
            if ratio > 2 * settings.reach:
                continue
        moved = path.copy()
        moved[1:-1] += move
        new_score, new_jacobian = slope(moved[1:-1])
        new_force = residual(moved, new_score, beta)
        new_norm = float(np.linalg.norm(new_force))
        if not new_norm <= 2 * norm:
            tau *= 0.25
            continue
        if ratio <= settings.reach:
            speed_up = settings.growth if new_norm < norm else 0.7
            tau = min(tau * min(10.0, max(speed_up, norm / new_norm if new_norm > 0 else 10.0)), 1e12)
        path, score, jacobian, force, norm = moved, new_score, new_jacobian, new_force, new_norm
    largest = float(np.abs(force).max())
    return Relaxed(path, step, largest, largest <= tolerance)


def smooth(path: Float[np.ndarray, "T D"], steps: int = COARSE_STEPS) -> Float[np.ndarray, "S D"]:
    """A jagged path made into a first guess: evenly spaced points, low-pass filtered, ends kept."""
    path = resample(path, steps)
    for _ in range(SMOOTHING_PASSES):
        path[1:-1] = 0.25 * path[:-2] + 0.5 * path[1:-1] + 0.25 * path[2:]
    return resample(path, steps)


def relax_sweeps(
    path: Float[np.ndarray, "T D"],
    score: Callable[[np.ndarray], np.ndarray],
    beta: float,
    sweeps: int,
    seed: int = 0,
    keep_every: int | None = None,
) -> Float[np.ndarray, ...]:
    """Algorithm 1 of the paper as printed: sweeps over the interior points in random order, one point at a time.

    For teaching and as an oracle; the number of sweeps grows like T², `relax` does the same in a few linear solves.

    Args:
        path: (T + 1, D) first guess.
        score: (N, D) -> (N, D), called with one point at a time.
        beta: inverse temperature.
        sweeps: how many times to run the printed step.
        seed: of the order of the updates.
        keep_every: also return the path after every so many sweeps.

    Returns:
        The path (T + 1, D), or (1 + sweeps // keep_every, T + 1, D) from the first guess on when `keep_every` is set.
    """
    beta = check_beta(beta)
    path = as_points(path, None, "path").copy()
    rng = np.random.default_rng(seed)
    interior = np.arange(1, len(path) - 1)
    frames = [path.copy()]
    for sweep in range(1, sweeps + 1):
        rng.shuffle(interior)
        for i in interior:
            velocity = 0.5 * (path[i + 1] - path[i - 1])
            local = score(path[i : i + 1])[0]
            bend = 0.5 * beta * (local * (velocity @ velocity) - (local @ velocity) * velocity)
            path[i] = 0.5 * (path[i + 1] + path[i - 1]) + bend
        if keep_every and sweep % keep_every == 0:
            frames.append(path.copy())
    return np.stack(frames) if keep_every else path


# --- the globally shortest path of an exact density -----------------------------------------------------------------


def solve(density: Any, start: Any, end: Any, beta: float, guess: np.ndarray | None = None) -> Geodesic:
    """The globally shortest path between two points, for a density with exact derivatives.

    Args:
        density: has `dim`, `log_density(x)` and `evaluate(x)` -> log density, score, score Jacobian.
        start, end: (D,) any two different points.
        beta: inverse temperature, >= 0.
        guess: a first guess (T + 1, D) that replaces the search for routes, for instance a neighboring geodesic.

    Returns:
        A `Geodesic`; look at its status.

    Raises:
        ValueError: for bad endpoints or beta.
    """
    beta = check_beta(beta)
    start, end = check_endpoints(start, end, density.dim)
    if beta == 0:
        line = straight(start, end, FINE_STEPS)
        return Geodesic(line, float(np.log(np.linalg.norm(end - start))), Status.CONVERGED, 0.0)
    if guess is not None:
        guesses = [np.concatenate([start[None], as_points(guess, density.dim, "guess")[1:-1], end[None]])]
    else:
        guesses = fields.first_guesses(density, start, end, beta)
    solved = [_solve_from(density, path, beta) for path in guesses]
    # A path that did not converge is only returned when none did; the dataset's own noise never decides.
    solved.sort(key=lambda geodesic: (geodesic.status is not Status.CONVERGED, geodesic.log_length))
    best = solved[0]
    if density.log_density(np.stack([start, end])).min() < FAR_LOG_DENSITY and best.status is not Status.CONVERGED:
        best = replace(best, status=Status.FAR_OUTSIDE)
    return replace(best, alternatives=tuple(geodesic.log_length for geodesic in solved[1:]))


def solve_many(density: Any, starts: Any, ends: Any, beta: float) -> list[Geodesic]:
    """`solve` for P pairs: starts and ends are (P, D)."""
    starts, ends = as_points(starts, density.dim, "starts"), as_points(ends, density.dim, "ends")
    if len(starts) != len(ends):
        raise ValueError(f"starts and ends should be equally many; got {len(starts)} and {len(ends)}")
    return [solve(density, start, end, beta) for start, end in zip(starts, ends)]


def exact_slope(density: Any) -> Slope:
    """Score and Jacobian of a density that has `evaluate`."""
    return lambda x: density.evaluate(x)[1:]


def _solve_from(density: Any, guess: np.ndarray, beta: float) -> Geodesic:
    """Solve on a coarse grid of the path, then on the fine one."""
    slope = exact_slope(density)
    coarse = relax(smooth(guess), slope, beta, COARSE)
    return _finish(density, coarse.path, beta)


def _finish(density: Any, guess: np.ndarray, beta: float) -> Geodesic:
    """Solve on FINE_STEPS steps, then draw the curve through the solution as a finer polyline.

    A chord that replaces an arc which turns by θ is longer, by the metric of a geodesic, by a factor 1 + θ²/24 (second
    variation of the length). Interpolation makes θ small where the curve is; the solution's own error enters squared.
    """
    fine = relax(resample(guess, FINE_STEPS), exact_slope(density), beta, FINE)
    status = Status.CONVERGED if fine.converged else Status.NOT_CONVERGED
    steps = np.diff(fine.path, axis=0)
    steps /= np.linalg.norm(steps, axis=1, keepdims=True)
    turn = np.linalg.norm(np.diff(steps, axis=0), axis=1)
    cost = -beta * density.log_density(fine.path[1:-1])
    share = np.exp(cost - cost.max())
    error = float(share @ turn**2 / share.sum() / 24)
    parts = int(np.clip(np.ceil(np.sqrt(error / LENGTH_ERROR)), 1, MAX_PARTS))
    path = fine.path
    if parts > 1:
        time = np.arange(FINE_STEPS + 1.0)
        path = CubicSpline(time, path)(np.linspace(0, FINE_STEPS, parts * FINE_STEPS + 1))
        path[0], path[-1] = fine.path[0], fine.path[-1]
    length = _resolved_log_length(path, density, beta)
    return Geodesic(path, length, status, fine.residual, error / parts**2)


def _resolved_log_length(path: np.ndarray, density: Any, beta: float) -> float:
    """`log_length` of a path whose steps resolve the density: Gauss's 3-point rule, half the price.

    On a step over which the cost changes by Δ nats the rule errs by about Δ⁶/2·10⁶; where that is too much, the
    adaptive rule takes over.
    """
    step = np.diff(path, axis=0)
    nodes = path[:-1, None] + step[:, None] * ((GAUSS_NODES + 1) / 2)[None, :, None]
    cost = -beta * density.log_density(nodes.reshape(-1, path.shape[1])).reshape(len(step), 3)
    if np.abs(cost[:, 2] - cost[:, 0]).max() > RESOLVED_NATS:
        return log_length(path, density.log_density, beta)
    return float(logsumexp(cost + np.log(np.linalg.norm(step, axis=1) / 2)[:, None] + np.log(GAUSS_WEIGHTS)))


# --- the standard normal's closed form ------------------------------------------------------------------------------


def normal_log_distance(start: Any, end: Any, beta: float) -> float:
    """Log geodesic distance of the standard normal in any dimension, by Clairaut's relation.

    A geodesic lies in the plane of its ends and the origin. There the metric λ(r) = p^(-β) is radial, so λ r sin ψ = c
    is constant along it (ψ: angle to the radius), and both the angle it turns and its length are quadratures over r:

        angle = ∫ c / (r sqrt(λ² r² − c²)) dr,    length = ∫ λ² r / sqrt(λ² r² − c²) dr.

    The constant c is found so that the angles fit. The path either runs from one radius to the other, or first in to a
    turning point where λ r = c and out again.

    Args:
        start, end: (D,) two different points.
        beta: inverse temperature, >= 0.

    Returns:
        log dist(start, end) in nats; the density is the normalized one of dimension D.
    """
    beta = check_beta(beta)
    first, last = check_endpoints(start, end, np.shape(start)[0] if np.ndim(start) == 1 else 1)
    constant = beta * 0.5 * len(first) * np.log(2 * np.pi)
    near, far = sorted((float(np.linalg.norm(first)), float(np.linalg.norm(last))))
    if beta == 0:
        return float(np.log(np.linalg.norm(last - first)))
    # The angle between the ends, from the chord: exact for small and large angles alike.
    angle = 0.0
    if near > 0:
        u, v = first / np.linalg.norm(first), last / np.linalg.norm(last)
        angle = float(2 * np.arctan2(np.linalg.norm(u - v), np.linalg.norm(u + v)))
    return constant + _radial_log_distance(near, far, angle, beta)


def _radial_log_distance(near: float, far: float, angle: float, beta: float) -> float:
    """The same in the plane for the metric exp(β r²/2): radii near <= far, angle in [0, π]; log of the length."""
    if near == 0 or angle == 0:
        return _log_radial_length(near, far, beta)
    if angle > np.pi - 1e-12:
        return float(np.logaddexp(_log_radial_length(0.0, near, beta), _log_radial_length(0.0, far, beta)))

    def legs(position: float) -> tuple[float, float]:
        """Angle and length of the path that turns at radius near / (1 + e^position), inside both ends."""
        turning, depth = near * expit(-position), near * expit(position)
        inner = _radial_leg(turning, 0.0, depth, far, beta)
        outer = _radial_leg(turning, 0.0, depth + (far - near), far, beta)
        return inner[0] + outer[0], inner[1] + outer[1]

    def direct(position: float) -> tuple[float, float]:
        """The same for the path that would turn there, but runs straight from one radius to the other."""
        depth = near * expit(position)
        return _radial_leg(near * expit(-position), depth, depth + (far - near), far, beta)

    # The direct path turns most when it starts at its turning point; beyond that angle the path goes in and out.
    chosen = direct if direct(-80.0)[0] >= angle else legs
    position = brentq(lambda p: chosen(p)[0] - angle, -80.0, 80.0, xtol=1e-14, rtol=1e-14, maxiter=500)
    return float(np.log(chosen(position)[1]) + 0.5 * beta * far**2)


def _radial_leg(turning: float, low: float, high: float, far: float, beta: float) -> tuple[float, float]:
    """Angle and length of one leg between the radii turning + low and turning + high.

    The turning radius m stands for Clairaut's constant c = λ(m) m. With r = m + x² the pole at the turning point goes;
    g = log (λ r / c)² keeps everything in range, and lengths are relative to λ(far), so nothing overflows.
    """
    if high <= low:
        return 0.0, 0.0
    # The angle is turned within a few turning radii, the length spent within 1/(β far) of the far end.
    lower, upper = np.sqrt(low), np.sqrt(high)
    inner = np.geomspace(min(0.1 * np.sqrt(turning), upper), upper, 2 + int(2 * np.log(1 + upper / np.sqrt(turning))))
    outer = np.sqrt(np.maximum(high - np.array([30.0, 10.0, 3.0, 1.0, 0.3]) / (beta * far + 1 / far), 0))
    cuts = np.unique(np.concatenate([[lower], np.clip(np.concatenate([inner, outer]), lower, upper), [upper]]))
    half = np.diff(cuts)[:, None] / 2
    x = (cuts[:-1, None] + half) + half * LEGENDRE_NODES
    r = turning + x * x
    g = 2 * np.log1p(x * x / turning) + beta * x * x * (r + turning)
    weight = 2 * half * LEGENDRE_WEIGHTS * x / np.sqrt(-np.expm1(-g))
    angle = (weight * np.exp(-0.5 * g) / r).sum()
    return float(angle), float((weight * np.exp(0.5 * beta * (r - far) * (r + far))).sum())


def _log_radial_length(low: float, high: float, beta: float) -> float:
    """Log of ∫ exp(β r²/2) dr from low to high, for the metric's radial lines."""
    if high == low:
        return -np.inf
    reach = min(high - low, 50.0 / (beta * high + 1 / high))  # below that the integrand is e^-50 of its end
    cuts = high - np.linspace(reach, 0, 17)
    half = np.diff(cuts)[:, None] / 2
    r = (cuts[:-1, None] + half) + half * LEGENDRE_NODES
    value = (half * LEGENDRE_WEIGHTS * np.exp(0.5 * beta * (r - high) * (r + high))).sum()
    return float(np.log(value) + 0.5 * beta * high**2)
