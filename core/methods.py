"""The methods a user can name, each a short recipe over graphs, learned densities and the solver; `compare` runs them.

They work on a `Scene`: points, the density that judges (the truth, or a fitted reference) and the learned models.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.special import logsumexp

from core import geodesics, graphs, paths, trust
from core.densities import Density
from core.geodesics import RelaxSettings, Slope, Status
from core.model_files import CheckpointError
from core.scenes import PRESETS as PRESETS
from core.scenes import Scene as Scene

# Steps of relaxed paths of learned densities: coarse, then fine.
LEARNED_STEPS = (100, 200)
LEARNED = RelaxSettings(tolerance=1e-7, max_steps=60)
# A relaxed path whose length by the guard's density exceeds its start's by more than this (nats) is refused. A graph
# path makes use of the density's noise, so a smooth path looks longer to a rough density: 0.1 refused most paths of
# the paper's preset, good ones among them.
GUARD_MARGIN = 0.4
GUARD_STEPS = 400
# Where the truth's solver is beaten by another method's path by more than this (nats), it starts again from there.
BEATEN = 1e-6


@dataclass(frozen=True)
class MethodSettings:
    """Knobs of the methods.

    Attributes:
        neighbors: k of the neighbor graph.
        segments: S, midpoints an edge.
        intrinsic_dim: d of the power weights; None is the ambient dimension.
        steps: T of relaxed paths.
    """

    neighbors: int = graphs.DEFAULT_NEIGHBORS
    segments: int = graphs.DEFAULT_SEGMENTS
    intrinsic_dim: float | None = None
    steps: int = LEARNED_STEPS[1]

    def __post_init__(self):
        for name, least in (("neighbors", 1), ("segments", 1), ("steps", 10)):
            if getattr(self, name) < least:
                raise ValueError(f"{name} should be at least {least}; got {getattr(self, name)}")
        if self.intrinsic_dim is not None and not self.intrinsic_dim > 0:
            raise ValueError(f"intrinsic_dim should be positive; got {self.intrinsic_dim}")


@dataclass(frozen=True)
class PathReport:
    """One method's answer.

    Attributes:
        method: a name of NAMES.
        path: (T + 1, D) with endpoints; (0, D) where the method has none, with a status that says why.
        log_length: nats, by the scene's density; nan without a path.
        lpr: log path ratio against the geodesic of the scene's density; nan without a path.
        seconds: wall clock of this method, with what was learned before already at hand.
        status: CONVERGED or another; `str(status)` is a sentence with advice.
        marks: pairs (i, j) of indices into the path: the stretches that the status speaks of.
    """

    method: str
    path: Float[np.ndarray, "T D"]
    log_length: float
    lpr: float
    seconds: float
    status: Status
    marks: tuple[tuple[int, int], ...] = ()

    @property
    def longer(self) -> float:
        """How much longer than the geodesic, as a fraction: e^LPR − 1."""
        return float(np.expm1(self.lpr))

    def as_json(self) -> dict[str, Any]:
        """The report as plain JSON values; what is not a number becomes None."""
        return {
            "method": self.method,
            "lpr": float(self.lpr) if np.isfinite(self.lpr) else None,
            "log_length": float(self.log_length) if np.isfinite(self.log_length) else None,
            "seconds": self.seconds,
            "status": self.status.name,
            "advice": str(self.status),
            "marks": [list(mark) for mark in self.marks],
            "path": self.path.tolist(),
        }


# --- recipes: (scene, start, end, beta, settings) -> path or None, status ---------------------------------------------

Answer = tuple[np.ndarray | None, Status]
Recipe = Callable[[Scene, np.ndarray, np.ndarray, float, MethodSettings], Answer]


def _straight(scene: Scene, start: np.ndarray, end: np.ndarray, beta: float, settings: MethodSettings) -> Answer:
    return paths.straight(start, end), Status.CONVERGED


def _power(scene: Scene, start: np.ndarray, end: np.ndarray, beta: float, settings: MethodSettings) -> Answer:
    graph = scene.graph(settings.neighbors)
    weights = graphs.power_weights(graph, beta, settings.intrinsic_dim or scene.dim)
    return _along_graph(graph, weights, start, end)


def _along_graph(
    graph: graphs.NeighborGraph, weights: graphs.EdgeWeights, start: np.ndarray, end: np.ndarray
) -> Answer:
    found = graphs.shortest_path(graph, weights, start, end)
    return (None, Status.DISCONNECTED) if found is None else (found[0], Status.CONVERGED)


def _missing(scene: Scene, model: str) -> Status | None:
    """Why a scene has no such model; None where it has one."""
    try:
        return Status.UNAVAILABLE if getattr(scene, model) is None else None
    except CheckpointError:
        return Status.UNREADABLE


def _density_graph(model: str) -> Recipe:
    """Shortest path over the graph whose edges are weighed by a model's density (paper, Algorithm 2)."""

    def recipe(scene: Scene, start: np.ndarray, end: np.ndarray, beta: float, settings: MethodSettings) -> Answer:
        missing = _missing(scene, model)
        if missing is not None:
            return None, missing
        return _along_graph(
            scene.graph(settings.neighbors),
            scene.weights(model, beta, settings.neighbors, settings.segments),
            start,
            end,
        )

    return recipe


def relaxed_density(model: str) -> Recipe:
    """A model's graph path, relaxed with the same model's exact score."""

    def recipe(scene: Scene, start: np.ndarray, end: np.ndarray, beta: float, settings: MethodSettings) -> Answer:
        first, status = _density_graph(model)(scene, start, end, beta, settings)
        if first is None:
            return first, status
        density = getattr(scene, model)
        return _relaxed(scene, first, geodesics.exact_slope(density), density, beta, settings)

    return recipe


def _score(scene: Scene, start: np.ndarray, end: np.ndarray, beta: float, settings: MethodSettings) -> Answer:
    """The flow graph's path relaxed with the learned score (paper, section 4.3), guarded by the flow."""
    first, status = _density_graph("flow")(scene, start, end, beta, settings)
    if first is None:
        return first, status
    flow, score_model = scene.flow, scene.score_model
    if flow is None or score_model is None:
        return None, Status.UNAVAILABLE
    return _relaxed(scene, first, score_model.evaluate, flow, beta, settings)


def _truth(scene: Scene, start: np.ndarray, end: np.ndarray, beta: float, settings: MethodSettings) -> Answer:
    solved = geodesics.solve(scene.density, start, end, beta)
    if not scene.has_truth and scene.dim > 2 and beta > 0:
        # No grid of the plane finds the ways around: the path over the sample's own graph is a second first guess.
        along, _ = _density_graph("mixture")(scene, start, end, beta, settings)
        if along is not None:
            again = geodesics.solve(scene.density, start, end, beta, guess=along)
            solved = min(solved, again, key=lambda g: (g.status is not Status.CONVERGED, g.log_length))
    return solved.path, solved.status


RECIPES: dict[str, Recipe] = {
    "straight": _straight,
    "power": _power,
    "flow": _density_graph("flow"),
    "score": _score,
    "mixture": relaxed_density("mixture"),
    "kde": relaxed_density("kde"),
    "true_graph": _density_graph("density"),
    "truth": _truth,
}
NAMES = tuple(RECIPES)
# Which model's density weighs the graph that a method starts from.
GRAPH_MODELS = {"flow": "flow", "score": "flow", "mixture": "mixture", "kde": "kde", "true_graph": "density"}


# Methods that know of the density only what the points say.
LEARNED_FROM_POINTS = ("power", "flow", "score", "mixture", "kde")
# Segments of an edge where the kernel density's path is only wanted for comparison: it is dear at many points.
SECOND_OPINION = 3
# Method -> what is to be said of its path, and the stretches it is said of.
Warnings = dict[str, tuple[Status, tuple[tuple[int, int], ...]]]
# Statuses that warn of a path that was found without trouble.
WARNINGS = (Status.OUTSIDE_SAMPLE, Status.SPLIT, Status.DISPUTED, Status.DETOUR)


# --- relaxing with a learned score, guarded -------------------------------------------------------------------------


def _relaxed(
    scene: Scene, first: np.ndarray, slope: Slope, guard: Density, beta: float, settings: MethodSettings
) -> Answer:
    """Relax a graph path by a learned score; where the result is not to be trusted, the graph path stays."""
    if beta == 0:
        return paths.straight(first[0], first[-1]), Status.CONVERGED
    coarse = geodesics.relax(geodesics.smooth(first, LEARNED_STEPS[0]), slope, beta, LEARNED)
    fine = geodesics.relax(
        paths.resample(coarse.path, settings.steps), slope, beta, replace(LEARNED, pseudo_time=100.0)
    )
    if not _well_formed(scene, fine.path):
        return first, Status.FOLDED
    if not _supported(scene, fine.path, first):
        return first, Status.OFF_SUPPORT
    relaxed_length, first_length = _guard_log_lengths([fine.path, first], guard, beta)
    if not relaxed_length <= first_length + GUARD_MARGIN:
        return first, Status.NOT_SHORTER
    return fine.path, Status.CONVERGED if fine.converged else Status.NOT_CONVERGED


def _guard_log_lengths(candidates: list[np.ndarray], guard: Density, beta: float) -> list[float]:
    """Log lengths by the midpoint rule on GUARD_STEPS steps: enough for the guard, and one call of its density."""
    fine = [paths.resample(path, GUARD_STEPS) for path in candidates]
    middles = np.concatenate([(path[:-1] + path[1:]) / 2 for path in fine])
    costs = -beta * guard.log_density(middles).reshape(len(fine), GUARD_STEPS)
    return [
        float(np.log(paths.arc_length(path)[-1] / GUARD_STEPS) + logsumexp(cost)) for path, cost in zip(fine, costs)
    ]


def _well_formed(scene: Scene, path: np.ndarray) -> bool:
    """Finite, inside the plane's box, never turning back on itself, and still of nearly constant speed."""
    if not np.isfinite(path).all():
        return False
    ends = np.concatenate([scene.points, path[[0, -1]]])
    low, high = ends.min(axis=0), ends.max(axis=0)
    slack = 0.15 * (high - low).max()
    if (path < low - slack).any() or (path > high + slack).any():
        return False
    steps = np.diff(path, axis=0)
    lengths = np.linalg.norm(steps, axis=1)
    if lengths.min() < 0.2 * lengths.mean() or lengths.max() > 5 * lengths.mean():
        return False
    return bool((np.einsum("td,td->t", steps[:-1], steps[1:]) > 0).all())


def _supported(scene: Scene, path: np.ndarray, first: np.ndarray) -> bool:
    """Whether every point of the path is near the sample or near the graph path it started from."""
    radius = scene.support_radius
    graph = scene.graph(graphs.DEFAULT_NEIGHBORS)
    away = graph.nodes_near(path)[0][:, 0] > radius
    if not away.any():
        return True
    start = paths.resample(first, 400)
    gap = np.linalg.norm(path[away][:, None] - start[None], axis=2).min(axis=1)
    return bool((gap <= radius).all())


# --- the comparison -------------------------------------------------------------------------------------------------


def compare(
    scene: Scene,
    start: Any,
    end: Any,
    beta: float,
    names: Iterable[str] = NAMES,
    settings: MethodSettings | None = None,
) -> list[PathReport]:
    """Every named method's path between two points, with its log length and LPR by the scene's density.

    Args:
        scene: points, density and models.
        start, end: (D,) any two different points.
        beta: inverse temperature, >= 0.
        names: of NAMES, in the order of the answer.
        settings: knobs of the methods.

    Raises:
        ValueError: for bad endpoints, beta, names or settings.
    """
    names, settings = list(names), settings or MethodSettings()
    for name in names:
        if name not in NAMES:
            raise ValueError(f"names should be among {', '.join(NAMES)}; got {name!r}")
    beta = paths.check_beta(beta)
    start, end = paths.check_endpoints(start, end, scene.dim)
    answers: dict[str, tuple[np.ndarray | None, Status, float]] = {}
    for name in dict.fromkeys([*names, "truth"]):
        _prepare(scene, name, beta, settings)
        began = time.perf_counter()
        path, status = RECIPES[name](scene, start, end, beta, settings)
        answers[name] = path, status, time.perf_counter() - began
    log_density = scene.density.log_density
    lengths = {
        name: paths.log_length(path, log_density, beta) if path is not None else np.nan
        for name, (path, _, _) in answers.items()
    }
    _repair_truth(scene, beta, answers, lengths)
    warnings = _warnings(scene, start, end, beta, {name: path for name, (path, _, _) in answers.items()}, settings)
    reports = []
    for name in names:
        path, status, seconds = answers[name]
        marks: tuple[tuple[int, int], ...] = ()
        if status is Status.CONVERGED and name in warnings:
            status, marks = warnings[name]
        none = np.empty((0, scene.dim))
        lpr = lengths[name] - lengths["truth"]
        reports.append(PathReport(name, none if path is None else path, lengths[name], lpr, seconds, status, marks))
    return reports


def _warnings(
    scene: Scene,
    start: np.ndarray,
    end: np.ndarray,
    beta: float,
    found: dict[str, np.ndarray | None],
    settings: MethodSettings,
) -> Warnings:
    """What to say of paths that nothing went wrong with: endpoints outside the sample, gaps in it, disagreement.

    The kernel density's path is always among those that are compared, since it depends on no mixture and no flow.
    """
    if beta == 0:
        return {}
    judged = LEARNED_FROM_POINTS if scene.has_truth else (*LEARNED_FROM_POINTS, "truth")
    if scene.outside(np.stack([start, end])).any():
        return {name: (Status.OUTSIDE_SAMPLE, ()) for name in found if name in judged}
    split: Warnings = {}
    for name, path in found.items():
        crossed = _crossings(scene, path, settings.neighbors) if name in judged and path is not None else ()
        if crossed:
            split[name] = Status.SPLIT, crossed
    if scene.has_truth:
        return split
    if "kde" not in found:
        found = found | {"kde": RECIPES["kde"](scene, start, end, beta, replace(settings, segments=SECOND_OPINION))[0]}
    candidates = {name: path for name, path in found.items() if path is not None}
    densities = {name: getattr(scene, name) for name in ("flow", "kde", "mixture")}
    log_densities = {name: density.log_density for name, density in densities.items() if density is not None}
    verdicts = trust.judge(candidates, log_densities, beta)
    said: Warnings = {
        name: (Status.DISPUTED if verdict.disputed else Status.DETOUR, verdict.marks)
        for name, verdict in verdicts.items()
        if verdict.disputed or verdict.detour
    }
    return said | split


def _crossings(scene: Scene, path: np.ndarray, neighbors: int) -> tuple[tuple[int, int], ...]:
    """Where a path goes from one part of the neighbor graph to another: indices of its points around each gap."""
    parts = scene.parts(neighbors)
    if parts.max() == 0:
        return ()
    distances, nearest = scene.graph(graphs.DEFAULT_NEIGHBORS).nodes_near(path)
    at, far = parts[nearest[:, 0]], distances[:, 0] > scene.widest_gap
    marks = []
    for step in np.flatnonzero(at[1:] != at[:-1]).tolist():
        first, last = step, step + 1
        while first > 0 and far[first]:
            first -= 1
        while last < len(path) - 1 and far[last]:
            last += 1
        marks.append((first, last))
    return tuple(marks)


def _prepare(scene: Scene, name: str, beta: float, settings: MethodSettings) -> None:
    """Learn and tabulate what a method needs, so that its seconds are those of the path alone."""
    scene.graph(settings.neighbors)
    model = GRAPH_MODELS.get(name)
    if model is not None and _missing(scene, model) is None:
        scene.weights(model, beta, settings.neighbors, settings.segments)


def _repair_truth(
    scene: Scene, beta: float, answers: dict[str, tuple[np.ndarray | None, Status, float]], lengths: dict[str, float]
) -> None:
    """Start the truth again from a method's path that beats it: a valley that the route map's grid did not see."""
    best = min((name for name in lengths if not np.isnan(lengths[name])), key=lambda name: lengths[name])
    path = answers[best][0]
    if lengths[best] > lengths["truth"] - BEATEN or path is None or best == "truth":
        return
    began = time.perf_counter()
    again = geodesics.solve(scene.density, path[0], path[-1], beta, guess=paths.resample(path, 400))
    if again.log_length < lengths["truth"]:
        seconds = answers["truth"][2] + time.perf_counter() - began
        answers["truth"] = again.path, again.status, seconds
        lengths["truth"] = again.log_length
