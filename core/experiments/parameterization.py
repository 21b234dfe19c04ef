"""Constant metric speed against constant Euclidean speed (paper, "Geodesic Equation" and its figure 3).

Both forms of the geodesic equation are one equation with another factor a in its middle term,

    φ'' − a β (s·φ') φ' + β s ‖φ'‖² = 0,    a = 1: constant ‖φ'‖ (eq. 7),    a = 2: constant ‖φ'‖ p^(-β) (eq. 6),

so every solver here takes a. At constant metric speed ‖φ'‖ is proportional to p^β: equal steps of time are long in
space where the density is *high* and short where it is low. (The paper's text has it the other way round.)
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.integrate import solve_bvp

from core import datasets, geodesics, graphs, paths
from core.densities import ExactDensity
from core.experiments.running import Cell, Experiment, Row, watched

# a of the equation above, by the speed that it keeps constant.
FORMS: Mapping[str, float] = {"euclidean": 1.0, "metric": 2.0}
# First guesses, at equal Euclidean steps for both forms; at steps of its own the metric form does no better.
GUESSES = ("straight", "graph")
# A converged path counts as the geodesic if it is not longer by more than this (nats); a coarse one is a bit longer.
FOUND = 0.01
# Points that leave the first guess by so many of its lengths are lost.
LOST = 100.0
# Of a curve whose points are placed anew.
PLACING_STEPS = 4000


@dataclass(frozen=True)
class Spec:
    """Settings.

    Attributes:
        datasets: names.
        pairs: of endpoints for each, drawn afresh from the density.
        beta: inverse temperature.
        steps: T of the solvers.
        tolerance: on the residual, relative to the first guess's length; `solve_bvp` has its own measure and default.
        most_sweeps, most_steps: of Algorithm 1, and of the Newton-type solver.
        neighbors, size: of the graph with the true density whose path is the second first guess.
        compared_steps: T of the comparison of lengths.
        drawn_steps: T of the drawn pair.
        seed: of the endpoints, the graph's sample and the order of the sweeps.
    """

    datasets: tuple[str, ...] = datasets.NAMES
    pairs: int = 40
    beta: float = 1.0
    steps: int = 50
    tolerance: float = 1e-6
    most_sweeps: int = 4000
    most_steps: int = 200
    neighbors: int = graphs.DEFAULT_NEIGHBORS
    size: int = 1000
    compared_steps: tuple[int, ...] = (10, 20, 50, 100, 200)
    drawn_steps: int = 30
    seed: int = 0


def cells(spec: Spec) -> list[Cell]:
    """The drawn pair, then for each dataset the lengths, every solver and every order of the sweeps."""
    found: list[Cell] = [{"part": "shape", "dataset": "gaussian_mixture"}]
    for name in spec.datasets:
        found.append({"part": "length", "dataset": name})
        found += [{"part": "solver", "dataset": name, "solver": solver} for solver in SOLVERS]
        found += [{"part": "order", "dataset": name, "order": order} for order in ORDERS]
    return found


def measure(spec: Spec, cell: Cell) -> list[Row]:
    """Rows of one cell, by its part.

    shape: points (x, y) of one geodesic at equal steps of each form.
    length: for each form and T, how much longer (nats) than the geodesic the polyline is that is `solved` from the
        discretized equation, and one whose points are `placed` on the exact curve at equal steps, each as a mean and a
        median over the pairs; and the median of the longest over the shortest step.
    solver: for each form and first guess, the shares that `converged`, that ended at the `geodesic` and that were
        `lost`, medians over the converged of `iterations` and `nodes`, and seconds for each pair.
    order: the same for Algorithm 1 at constant Euclidean speed from a graph's path, with the points moved in another
        order than the paper's random one.
    """
    density = datasets.load(cell["dataset"]).density
    starts, ends = np.split(density.sample(2 * spec.pairs, spec.seed + 1), 2)
    pairs = list(zip(starts, ends))
    truths = [geodesics.solve(density, *pair, spec.beta) for pair in watched(pairs, "true geodesics")]
    if cell["part"] == "shape":
        return _shape(spec, density, truths)
    if cell["part"] == "length":
        return _lengths(spec, density, truths)
    along = _graph_paths(spec, density, truths)
    if cell["part"] == "order":
        first = [geodesics.smooth(path, spec.steps) for path in along]
        began = time.perf_counter()
        attempts = sweeps(spec, density, first, FORMS["euclidean"], cell["order"])
        return [_outcome(spec, density, attempts, truths) | {"seconds_each": _each(began, first)}]
    return _solvers(spec, density, cell["solver"], truths, along)


# --- lengths --------------------------------------------------------------------------------------------------------


def placed(path: np.ndarray, log_density: paths.LogDensity, beta: float, steps: int, form: str) -> np.ndarray:
    """The same polyline at `steps` + 1 points that are equally far apart by the form's own measure of length."""
    if form == "euclidean":
        return paths.resample(path, steps)
    fine = paths.resample(path, PLACING_STEPS)
    cost = -beta * log_density((fine[1:] + fine[:-1]) / 2)
    along = np.concatenate([[0.0], np.cumsum(np.exp(cost - cost.max()))])
    at = np.interp(np.linspace(0, along[-1], steps + 1), along, np.arange(len(fine)))
    out = np.stack([np.interp(at, np.arange(len(fine)), column) for column in fine.T], axis=1)
    out[0], out[-1] = path[0], path[-1]
    return out


def _shape(spec: Spec, density: ExactDensity, truths: list[geodesics.Geodesic]) -> list[Row]:
    """The pair whose steps differ most, in both forms."""
    drawn = [placed(truth.path, density.log_density, spec.beta, spec.drawn_steps, "metric") for truth in truths]
    chosen = int(np.argmax([spacing(path) for path in drawn]))
    rows: list[Row] = []
    for form in FORMS:
        path = placed(truths[chosen].path, density.log_density, spec.beta, spec.drawn_steps, form)
        rows += [{"form": form, "x": x, "y": y} for x, y in path.tolist()]
    return rows


def spacing(path: np.ndarray) -> float:
    """Longest over shortest step."""
    lengths = np.linalg.norm(np.diff(path, axis=0), axis=1)
    return float(lengths.max() / lengths.min())


def _lengths(spec: Spec, density: ExactDensity, truths: list[geodesics.Geodesic]) -> list[Row]:
    rows: list[Row] = []
    for steps in spec.compared_steps:
        for form, factor in FORMS.items():
            excess: dict[str, list[float]] = {"solved": [], "placed": []}
            ratios = []
            for truth in watched(truths, f"paths of {steps} steps at constant {form} speed"):
                path = placed(truth.path, density.log_density, spec.beta, steps, form)
                solved = newton(spec, density, path, factor)
                ratios.append(spacing(path))
                for name, one in (("placed", path), ("solved", solved.path if solved.converged else None)):
                    if one is not None:
                        length = paths.log_length(one, density.log_density, spec.beta)
                        excess[name].append(length - truth.log_length)
            rows.append(
                {
                    "form": form,
                    "steps": steps,
                    "converged": len(excess["solved"]) / len(truths),
                    "solved": np.mean(excess["solved"]),
                    "solved_median": np.median(excess["solved"]),
                    "placed": np.mean(excess["placed"]),
                    "placed_median": np.median(excess["placed"]),
                    "spacing": np.median(ratios),
                }
            )
    return rows


# --- solvers --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Attempt:
    """What a solver made of a first guess: a path (T + 1, D), iterations, points in use, and whether it converged or
    was lost, with points that ran away."""

    path: np.ndarray
    iterations: int
    nodes: int
    converged: bool
    lost: bool = False


def _solvers(
    spec: Spec, density: ExactDensity, solver: str, truths: list[geodesics.Geodesic], along: list[np.ndarray]
) -> list[Row]:
    rows: list[Row] = []
    for guess in GUESSES:
        first = [
            paths.straight(truth.path[0], truth.path[-1], spec.steps)
            if guess == "straight"
            else geodesics.smooth(path, spec.steps)
            for truth, path in zip(truths, along)
        ]
        for form, factor in FORMS.items():
            began = time.perf_counter()
            attempts = SOLVERS[solver](spec, density, first, factor)
            seconds = {"seconds_each": _each(began, first)}
            rows.append({"form": form, "guess": guess} | _outcome(spec, density, attempts, truths) | seconds)
    return rows


def _each(began: float, jobs: Sequence[Any]) -> float:
    """Seconds since then, for each of the jobs."""
    return (time.perf_counter() - began) / len(jobs)


def _outcome(spec: Spec, density: ExactDensity, attempts: list[Attempt], truths: list[geodesics.Geodesic]) -> Row:
    """How many attempts converged, ended at the geodesic, or were lost, and how long they took."""
    done = [(one, truth) for one, truth in zip(attempts, truths) if one.converged]
    lengths = [paths.log_length(one.path, density.log_density, spec.beta) for one, _ in done]
    longer = np.array(lengths) - [truth.log_length for _, truth in done]
    return {
        "pairs": len(attempts),
        "converged": len(done) / len(attempts),
        "geodesic": np.sum(np.abs(longer) <= FOUND) / len(attempts),
        "lost": np.mean([one.lost for one in attempts]),
        "iterations": np.median([one.iterations for one, _ in done]) if done else np.nan,
        "nodes": np.median([one.nodes for one, _ in done]) if done else np.nan,
    }


def _graph_paths(spec: Spec, density: ExactDensity, truths: list[geodesics.Geodesic]) -> list[np.ndarray]:
    """Shortest paths over a graph of a sample, weighed by the true density (Algorithm 2)."""
    graph = graphs.bridged(graphs.neighbor_graph(density.sample(spec.size, spec.seed), spec.neighbors))
    at_midpoints = graphs.midpoint_log_density(graph, density.log_density)
    weights = graphs.density_weights(graph, density.log_density, at_midpoints, spec.beta)
    found = [graphs.shortest_path(graph, weights, truth.path[0], truth.path[-1]) for truth in truths]
    return [path for path, _ in filter(None, found)]  # none is missing: the graph's parts are joined


def residual(path: np.ndarray, score: np.ndarray, beta: float, factor: float) -> np.ndarray:
    """What the printed step of Algorithm 1 would add to every interior point, with a in its middle term; (..., T-1, D).

    ½(φ_(i+1) + φ_(i−1)) − φ_i + ½β [s‖v‖² − a (s·v) v],    v = ½(φ_(i+1) − φ_(i−1)).
    """
    velocity = 0.5 * (path[..., 2:, :] - path[..., :-2, :])
    along = (score * velocity).sum(axis=-1, keepdims=True)
    squared = (velocity * velocity).sum(axis=-1, keepdims=True)
    mean = 0.5 * (path[..., 2:, :] + path[..., :-2, :])
    return mean - path[..., 1:-1, :] + 0.5 * beta * (score * squared - factor * along * velocity)


def newton(spec: Spec, density: ExactDensity, guess: np.ndarray, factor: float) -> Attempt:
    """`geodesics.relax` with a in the equation: pseudo-transient continuation, by the same rules."""
    settings = geodesics.RelaxSettings(tolerance=spec.tolerance, max_steps=spec.most_steps)
    slope, beta = geodesics.exact_slope(density), spec.beta
    path, tau, step = guess.copy(), settings.pseudo_time, 0
    extent = float(paths.arc_length(path)[-1])
    score, jacobian = slope(path[1:-1])
    force = residual(path, score, beta, factor)
    norm = float(np.linalg.norm(force))
    while step < settings.max_steps and not np.abs(force).max() <= settings.tolerance * extent:
        step += 1
        system = _system(path, score, jacobian, beta, factor) + np.eye(force.size) / tau
        move = np.linalg.solve(system, force.ravel()).reshape(force.shape)
        bend = np.maximum(beta * np.linalg.norm(jacobian, axis=(1, 2)), (0.1 / extent) ** 2)
        ratio = float((np.linalg.norm(move, axis=1) * np.sqrt(bend)).max())
        if ratio > settings.reach:
            tau *= max(0.1, 0.7 * settings.reach / ratio)
            if ratio > 2 * settings.reach:
                continue
        moved = path.copy()
        moved[1:-1] += move
        new_score, new_jacobian = slope(moved[1:-1])
        new_force = residual(moved, new_score, beta, factor)
        new_norm = float(np.linalg.norm(new_force))
        if not new_norm <= 2 * norm:
            tau *= 0.25
            continue
        if ratio <= settings.reach:
            speed_up = settings.growth if new_norm < norm else 0.7
            tau = min(tau * min(10.0, max(speed_up, norm / new_norm if new_norm > 0 else 10.0)), 1e12)
        path, score, jacobian, force, norm = moved, new_score, new_jacobian, new_force, new_norm
    return Attempt(path, step, len(path), bool(np.abs(force).max() <= settings.tolerance * extent))


def _system(path: np.ndarray, score: np.ndarray, jacobian: np.ndarray, beta: float, factor: float) -> np.ndarray:
    """Minus the derivative of `residual`, as a full matrix: T is small here."""
    size, dim = score.shape
    velocity, eye = 0.5 * (path[2:] - path[:-2]), np.eye(dim)
    squared = (velocity * velocity).sum(axis=1)[:, None, None]
    along = (score * velocity).sum(axis=1)[:, None, None]
    turned = np.einsum("nji,nj->ni", jacobian, velocity)
    center = 0.5 * beta * (jacobian * squared - factor * velocity[:, :, None] * turned[:, None, :]) - eye
    outer = score[:, :, None] * velocity[:, None, :]
    sideways = 0.5 * beta * (2 * outer - factor * (along * eye + outer.transpose(0, 2, 1)))
    system, row = np.zeros((size, dim, size, dim)), np.arange(size)
    system[row, :, row] = -center
    system[row[:-1], :, row[1:]] = -0.5 * (eye + sideways)[:-1]
    system[row[1:], :, row[:-1]] = -0.5 * (eye - sideways)[1:]
    return system.reshape(size * dim, size * dim)


def _newton(spec: Spec, density: ExactDensity, guesses: list[np.ndarray], factor: float) -> list[Attempt]:
    return [newton(spec, density, guess, factor) for guess in watched(guesses, "paths")]


# Which points of a path (T + 1 of them) are moved in a sweep, and which are looked at for that; one after the other.
Moves = Iterable[tuple[slice, slice]]
ORDERS: Mapping[str, Callable[[np.random.Generator, int], Moves]] = {
    "random": lambda rng, steps: _one_by_one(rng.permutation(np.arange(1, steps))),
    "in turn": lambda rng, steps: _one_by_one(np.arange(1, steps)),
    "at once": lambda rng, steps: [(slice(1, steps), slice(0, steps + 1))],
}


def _one_by_one(points: np.ndarray) -> Moves:
    return [(slice(i, i + 1), slice(i - 1, i + 2)) for i in points.tolist()]


def sweeps(
    spec: Spec, density: ExactDensity, guesses: list[np.ndarray], factor: float, order: str = "random"
) -> list[Attempt]:
    """Algorithm 1 with a in its step, on all paths side by side: each sweep has one order for all of them.

    The paper's order is random; the others of ORDERS are there to see what that is good for.
    """
    rng = np.random.default_rng(spec.seed)
    found = np.stack(guesses)
    extent = np.array([paths.arc_length(guess)[-1] for guess in guesses])
    center = found.mean(axis=1, keepdims=True)
    count = np.full(len(found), spec.most_sweeps)
    converged, lost, todo = np.zeros(len(found), bool), np.zeros(len(found), bool), np.arange(len(found))
    dim = found.shape[2]
    for sweep in watched(range(1, spec.most_sweeps + 1), "sweeps, at most"):
        part = found[todo]
        for moved, window in ORDERS[order](rng, spec.steps):
            now = part[:, moved]
            score = density.score(now.reshape(-1, dim)).reshape(now.shape)
            added = residual(part[:, window], score, spec.beta, factor)
            # A point that runs away stays where it is, and its path is given up after this sweep.
            away = ~(np.abs(now + added - center[todo]).max(axis=2) < LOST * extent[todo, None])
            part[:, moved] += np.where(away[:, :, None], 0.0, added)
            lost[todo] |= away.any(axis=1)
        found[todo] = part
        final = density.score(part[:, 1:-1].reshape(-1, dim)).reshape(len(todo), -1, dim)
        left = np.abs(residual(part, final, spec.beta, factor)).max(axis=(1, 2))
        converged[todo] = ~lost[todo] & (left <= spec.tolerance * extent[todo])
        ended = converged[todo] | lost[todo]
        count[todo[ended]] = sweep
        todo = todo[~ended]
        if len(todo) == 0:
            break
    ends = zip(found, count, converged, lost)
    return [Attempt(path, int(n), len(path), bool(good), bool(bad)) for path, n, good, bad in ends]


class _Left(Exception):  # noqa: N818  # not an error: the solver went where there are no numbers
    """Raised out of `solve_bvp`, which has no other way to stop."""


def collocation(spec: Spec, density: ExactDensity, guesses: list[np.ndarray], factor: float) -> list[Attempt]:
    """`scipy.integrate.solve_bvp` with its defaults; it chooses its own nodes, up to a thousand."""
    dim, beta = guesses[0].shape[1], spec.beta
    times = np.linspace(0, 1, spec.steps + 1)

    def rates(_: np.ndarray, state: np.ndarray) -> np.ndarray:
        if not np.isfinite(state).all():
            raise _Left
        path, velocity = state[:dim], state[dim:]
        score = density.score(path.T).T
        along, squared = (score * velocity).sum(axis=0), (velocity * velocity).sum(axis=0)
        return np.concatenate([velocity, beta * (factor * along * velocity - score * squared)])

    attempts = []
    for guess in watched(guesses, "paths"):

        def misses(first: np.ndarray, last: np.ndarray, guess: np.ndarray = guess) -> np.ndarray:
            return np.concatenate([first[:dim] - guess[0], last[:dim] - guess[-1]])

        state = np.concatenate([guess, np.gradient(guess, times, axis=0)], axis=1).T
        try:
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore")  # singular matrices are its own affair
                solved = solve_bvp(rates, misses, times, state)
            path = solved.sol(times)[:dim].T
            path[0], path[-1] = guess[0], guess[-1]
            attempts.append(Attempt(path, solved.niter, len(solved.x), bool(solved.success)))
        except _Left:
            attempts.append(Attempt(guess, 0, len(guess), False, lost=True))
    return attempts


Solver = Callable[[Spec, ExactDensity, list[np.ndarray], float], list[Attempt]]
SOLVERS: Mapping[str, Solver] = {"newton": _newton, "sweeps": sweeps, "collocation": collocation}

EXPERIMENT = Experiment(
    name="parameterization",
    paper="Figure 3",
    question="Is the geodesic equation easier to solve at constant Euclidean speed than at constant metric speed?",
    full=Spec(),
    quick=Spec(datasets=("gaussian_mixture",), pairs=6, steps=30, most_sweeps=1000, compared_steps=(10, 50)),
    cells=cells,
    measure=measure,
)
