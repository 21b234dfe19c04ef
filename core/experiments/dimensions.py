"""The standard normal in up to 25 dimensions (paper, "Fermat Distances Which Scale with Dimension" and "Scaling the
Dimension"): the shape of its geodesics, and how well each method finds them, for β = 1 and β = 1/D.

A geodesic of the normal lies in the plane of its ends and the origin, where the metric p^(-β) ∝ exp(β r²/2) is the same
for every D but for the constant factor (2π)^(β(D-2)/2). So the truth costs nothing: shapes are solved in the plane, and
every LPR is judged by the closed form `geodesics.normal_log_distance`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from core import geodesics, graphs, methods, mixtures, paths
from core.densities import Density, standard_normal
from core.experiments.running import Cell, Experiment, Row, watched

# Inverse temperatures by their names in the table: the unscaled metric, and the paper's.
SCALINGS: Mapping[str, Callable[[int], float]] = {"1": lambda dim: 1.0, "1/D": lambda dim: 1 / dim}
# What the methods of a cell learn: nothing but the mixture pool, or a flow and a score model of that preset.
MODELS = ("points", *methods.PRESETS)
# Edges whose midpoints are judged at once: all of them at n = 200,000 and D = 25 would fill 6 GB.
EDGE_BLOCK = 10_000

# start, end -> path, whether the solver met its tolerance (graphs always do)
Finder = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, bool]]


@dataclass(frozen=True)
class Spec:
    """Settings.

    Attributes:
        size: n. The paper's is 200,000 (`EXPERIMENT.large`); 20,000 took 4.3 hours of one core.
        dims: D of the log path ratios.
        pairs: of endpoints, drawn afresh from the density; the same for every method.
        paper_steps: training steps of the paper's preset; None follows its rule as `core.training` reads it, 40,000
            from n = 4000 on. The shipped result stops at an eighth of that, 64 passes over 20,000 points.
        fast_steps: the same for the fast preset, whose rule ends at 1500 (flow) and 3000 (score model).
        input_gain: on the first layer of the paper's score model. Our networks start with a last layer of zeros, of
            which the paper says nothing; from there sliced score matching stays at the score 0 for D >= 20 whatever
            the seed, unless the first layer's weights start larger.
        neighbors, segments: k of the graphs, and S, midpoints an edge.
        shape_dims: D of the shapes.
        points: of each drawn shape.
        seed: of the sample, the endpoints and the training.
    """

    size: int = 20_000
    dims: tuple[int, ...] = (2, 3, 5, 8, 10, 15, 20, 25)
    pairs: int = 100
    paper_steps: int | None = 5000
    fast_steps: int | None = None
    input_gain: float = 3.0
    neighbors: int = graphs.DEFAULT_NEIGHBORS
    segments: int = graphs.DEFAULT_SEGMENTS
    shape_dims: tuple[int, ...] = tuple(range(2, 26))
    points: int = 61
    seed: int = 0


def cells(spec: Spec) -> list[Cell]:
    """The shapes, their lengths, then one cell for each D and what is learned there."""
    found: list[Cell] = [{"part": "shape"}, {"part": "length"}]
    return found + [{"part": "lpr", "dim": dim, "models": models} for dim in spec.dims for models in MODELS]


def measure(spec: Spec, cell: Cell) -> list[Row]:
    """Rows of one cell, by its part.

    shape: points (x, y) of the geodesic between two orthogonal points at distance √D from the origin, divided by √D.
    length: its log length in D dimensions, the solver's error in it, and how close to the origin it comes, over √D.
    lpr: mean LPR over the pairs, its standard error, median and maximum, and the share of relaxations that converged;
        for the straight line too, which under β = 1/D is a better path than any graph's in many dimensions.
    """
    if cell["part"] == "lpr":
        return _path_ratios(spec, cell["dim"], cell["models"])
    rows: list[Row] = []
    for dim in spec.shape_dims:
        for scaling, rule in SCALINGS.items():
            about = {"dim": dim, "scaling": scaling, "beta": rule(dim)}
            solved = planar_geodesic(dim, rule(dim))
            if cell["part"] == "shape":
                drawn = paths.resample(solved.path, spec.points - 1) / np.sqrt(dim)
                rows += [about | {"x": x, "y": y} for x, y in drawn.tolist()]
            else:
                start, end = np.sqrt(dim) * np.eye(dim)[:2]
                exact = geodesics.normal_log_distance(start, end, rule(dim))
                closest = np.linalg.norm(solved.path, axis=1).min() / np.sqrt(dim)
                rows.append(about | {"log_length": exact, "error": solved.log_length - exact, "closest": closest})
    return rows


def planar_geodesic(dim: int, beta: float) -> geodesics.Geodesic:
    """The geodesic of the D-dimensional normal between √D e₁ and √D e₂, as a path in the plane of the two.

    Its log length is that of D dimensions, since there log p_D = log p_2 − (D − 2)/2 · log 2π.
    """
    start, end = np.sqrt(dim) * np.eye(2)
    solved = geodesics.solve(standard_normal(2), start, end, beta, guess=paths.straight(start, end, 100))
    return replace(solved, log_length=solved.log_length + beta * (dim - 2) / 2 * np.log(2 * np.pi))


# --- log path ratios ------------------------------------------------------------------------------------------------


def _path_ratios(spec: Spec, dim: int, models: str) -> list[Row]:
    """LPR of every method that needs these models, for both β."""
    density = standard_normal(dim)
    points = density.sample(spec.size, spec.seed)
    starts, ends = np.split(density.sample(2 * spec.pairs, spec.seed + 1), 2)
    graph = graphs.bridged(graphs.neighbor_graph(points, spec.neighbors))
    began = time.perf_counter()
    judges, slope = _learned(spec, points, models)
    learning = time.perf_counter() - began
    at_midpoints = {name: _at_midpoints(graph, model, spec.segments) for name, model in judges.items()}
    rows: list[Row] = []
    for scaling, rule in SCALINGS.items():
        beta = rule(dim)
        truth = np.array([geodesics.normal_log_distance(*pair, beta) for pair in zip(starts, ends)])
        weights = {
            name: graphs.density_weights(graph, model.log_density, at_midpoints[name], beta)
            for name, model in judges.items()
        }
        if models == "points":
            weights["power"] = graphs.power_weights(graph, beta, dim)
        finders = {name: _along_graph(graph, each) for name, each in weights.items()}
        if models == "points":
            finders["straight"] = lambda start, end: (paths.straight(start, end), True)
            finders["mixture"] = _relaxed(finders["mixture"], slope, beta)
        else:
            finders["score"] = _relaxed(finders["flow"], slope, beta)
        for method, find in finders.items():
            began = time.perf_counter()
            found = [find(*pair) for pair in watched(list(zip(starts, ends)), f"paths by {method}, β = {scaling}")]
            each = (time.perf_counter() - began) / spec.pairs
            lpr = np.array([paths.log_length(path, density.log_density, beta) for path, _ in found]) - truth
            rows.append(
                {
                    "method": method,
                    "scaling": scaling,
                    "beta": beta,
                    "size": spec.size,
                    "pairs": spec.pairs,
                    "lpr": lpr.mean(),
                    "lpr_error": lpr.std(ddof=1) / np.sqrt(spec.pairs),
                    "lpr_median": np.median(lpr),
                    "lpr_max": lpr.max(),
                    "converged": np.mean([converged for _, converged in found]),
                    "seconds_path": each,
                    "seconds_learning": learning,
                }
            )
    return rows


def _learned(spec: Spec, points: np.ndarray, models: str) -> tuple[dict[str, Density], geodesics.Slope]:
    """The densities that weigh a graph, by method, and the slope that relaxes paths over the last one."""
    if models == "points":
        pool = mixtures.fit_pool(points, spec.seed)
        return {"true_graph": standard_normal(points.shape[1]), "mixture": pool}, geodesics.exact_slope(pool)
    # torch takes its time, and other cells do without.
    from core import training
    from core.scores import ScoreSpec

    steps = spec.paper_steps if models == "paper" else spec.fast_steps
    fits = training.PRESETS[models]
    how = [fit if steps is None else replace(fit, steps=((spec.size, steps),)) for fit in (fits.flow, fits.score)]
    flow, _ = training.train_flow(points, models, spec.seed, settings=how[0])
    shape: ScoreSpec = getattr(ScoreSpec, models)(points.shape[1])
    if models == "paper":
        shape = replace(shape, input_gain=spec.input_gain)
    score_model, _ = training.train_score(points, models, spec.seed, spec=shape, settings=how[1])
    return {"flow": flow}, score_model.evaluate


def _at_midpoints(graph: graphs.NeighborGraph, model: Density, segments: int) -> np.ndarray:
    """`graphs.midpoint_log_density` in blocks of edges."""
    blocks = np.array_split(graph.points[graph.edges], max(1, len(graph.edges) // EDGE_BLOCK))
    parts = [model.log_density(graphs.midpoints(b[:, 0], b[:, 1], segments)) for b in blocks]
    return np.concatenate(parts).reshape(-1, segments)


def _along_graph(graph: graphs.NeighborGraph, weights: graphs.EdgeWeights) -> Finder:
    def find(start: np.ndarray, end: np.ndarray) -> tuple[np.ndarray, bool]:
        found = graphs.shortest_path(graph, weights, start, end)
        assert found is not None  # the graph's parts are joined
        return found[0], True

    return find


def _relaxed(first: Finder, slope: geodesics.Slope, beta: float) -> Finder:
    """Relaxation from a graph's path as `methods` does it, but without its guards, which the paper has not."""

    def find(start: np.ndarray, end: np.ndarray) -> tuple[np.ndarray, bool]:
        coarse, fine = methods.LEARNED_STEPS
        guess = geodesics.smooth(first(start, end)[0], coarse)
        relaxed = geodesics.relax(guess, slope, beta, methods.LEARNED)
        guess = paths.resample(relaxed.path, fine)
        relaxed = geodesics.relax(guess, slope, beta, replace(methods.LEARNED, pseudo_time=100.0))
        return relaxed.path, relaxed.converged

    return find


EXPERIMENT = Experiment(
    name="dimensions",
    paper="Figures 2 and 7",
    question="Does β = 1/D keep geodesics the same shape in every dimension, and which methods find them there?",
    full=Spec(),
    quick=Spec(size=400, dims=(2, 10), pairs=6, paper_steps=60, fast_steps=100, shape_dims=(2, 5, 25)),
    large=Spec(size=200_000, pairs=1000, paper_steps=None),
    cells=cells,
    measure=measure,
)
