"""Is the score that one gets by differentiating a flow too noisy to relax with? (paper, sections 2.6, 3.3 and 4.2.2)

The paper says so and shows no numbers, so this is an experiment of ours: for the shipped flows and score models, how
far their scores are from the true one, and what comes out when the same graph paths are relaxed along each of them by
the same solver, with exact derivatives and the same guards.

There are two ways for a score to be bad. It may be far from the truth, which is measured as its error; or it may be
near it on the average and jump, as that of splines does at their knots, and leave the solver nothing to converge to:
the share of pairs that converge is in the table, too, but which jumps are to blame is not.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from core import datasets, methods
from core.experiments.convergence import summary, true_pairs
from core.experiments.running import Cell, Experiment, Row, watched
from core.geodesics import Status

# Along whose score a path is relaxed -> the recipe; "flow" is the graph's path, from which both begin.
RECIPES = {
    "flow": methods.RECIPES["flow"],
    "flow_score": methods.relaxed_density("flow"),
    "score": methods.RECIPES["score"],
}


@dataclass(frozen=True)
class FlowScoresSpec:
    """What to compare.

    Attributes:
        datasets: of `core.datasets`.
        presets: recipes of training.
        size, seed: the sample, one that models are shipped for.
        pairs: endpoints for every path method, drawn with `pair_seed`.
        beta: inverse temperature.
        fresh: points that no model saw, where scores are compared, drawn with `fresh_seed`.
    """

    datasets: tuple[str, ...] = datasets.NAMES
    presets: tuple[str, ...] = methods.PRESETS
    size: int = 1000
    seed: int = 0
    pairs: int = 40
    pair_seed: int = 2_000_000
    beta: float = 1.0
    fresh: int = 2000
    fresh_seed: int = 3_000_000


def cells(spec: FlowScoresSpec) -> list[Cell]:
    """One cell for each dataset, preset and question."""
    return [
        {"part": part, "dataset": name, "preset": preset}
        for part in ("error", "paths")
        for name in spec.datasets
        for preset in spec.presets
    ]


def measure(spec: FlowScoresSpec, cell: Cell) -> list[Row]:
    """Errors of both scores, or what paths are relaxed to along each."""
    scene = methods.Scene.load(cell["dataset"], spec.size, spec.seed, cell["preset"])
    return _errors(scene, spec) if cell["part"] == "error" else _paths(scene, spec)


def _errors(scene: methods.Scene, spec: FlowScoresSpec) -> list[Row]:
    """Mean squared error of each score, as a share of the true score's mean square, and its median at single points."""
    x = scene.density.sample(spec.fresh, spec.fresh_seed)
    truth = scene.density.score(x)
    flow, score_model = scene.flow, scene.score_model
    assert flow is not None
    assert score_model is not None
    found = {"flow_score": flow.evaluate(x)[1], "score": score_model.score(x)}
    square = (truth**2).sum(axis=1)
    rows: list[Row] = []
    for method, score in found.items():
        missed = ((score - truth) ** 2).sum(axis=1)
        rows.append(
            {
                "method": method,
                "error": missed.sum() / square.sum(),
                "median_error": np.median(missed) / square.mean(),
            }
        )
    return rows


def _paths(scene: methods.Scene, spec: FlowScoresSpec) -> list[Row]:
    """LPR of the graph's paths and of both relaxed ones; for a refused path the graph's, which is shown instead."""
    pairs = true_pairs(scene.name, spec.pairs, spec.pair_seed, spec.beta)
    settings, rows = methods.MethodSettings(), []
    for method, recipe in RECIPES.items():
        found = [
            recipe(scene, start, end, spec.beta, settings)
            for start, end in watched(list(zip(pairs.starts, pairs.ends)), f"paths by {method}")
        ]
        kept = np.array([status in (Status.CONVERGED, Status.NOT_CONVERGED) for _, status in found])
        converged = np.mean([status is Status.CONVERGED for _, status in found])
        rows.append(
            {"method": method, "converged": converged, "refused": 1 - kept.mean()}
            | summary(pairs.ratios([path for path, _ in found]))
        )
    return rows


EXPERIMENT = Experiment(
    name="flow_scores",
    paper="sections 2.6, 3.3 and 4.2.2",
    question="Is the score that one gets by differentiating a flow too noisy to relax with?",
    full=FlowScoresSpec(),
    quick=FlowScoresSpec(datasets=("gaussian_mixture", "two_spirals"), presets=("fast",), pairs=3),
    cells=cells,
    measure=measure,
)
