"""The experiments on paths: their cells give whole rows, the same each time, and the rows keep the metric's laws."""

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from core import datasets, geodesics, graphs, methods, paths, training
from core.experiments import convergence, edge_weights, flow_scores, methods_on_200_points, running
from core.experiments.convergence import ConvergenceSpec
from core.experiments.edge_weights import EdgeWeightsSpec

SUMMARY = {"mean_lpr", "standard_error", "median_lpr", "q95_lpr", "least_lpr", "largest_lpr", "pairs"}
# Experiment, its spec cut down to seconds, and the columns beside the cell's and SUMMARY's.
CASES = {
    "convergence": (
        convergence.EXPERIMENT,
        ConvergenceSpec(datasets=("gaussian_mixture",), sizes=(200,), seeds=1, pairs=3, largest_paper=0),
        {"method", "rule", "k", "refused"},
    ),
    "edge_weights": (
        edge_weights.EXPERIMENT,
        EdgeWeightsSpec(sizes=(300,), seeds=1, pairs=4),
        {"weights", "k"},
    ),
    "methods_on_200_points": (
        methods_on_200_points.EXPERIMENT,
        methods_on_200_points.MethodsSpec(seeds=1, pairs=4),
        {"method", "shown_lpr"},
    ),
}
# One length is subtracted from another, each good to 1e-9, and the truth's polyline is 3e-6 longer than its curve.
LEAST_LPR = -1e-5


@pytest.mark.parametrize("name", CASES)
def test_cells_give_whole_rows_and_the_same_again(name):
    experiment, spec, columns = CASES[name]
    cells = experiment.cells(spec)
    assert cells
    for cell in cells:
        rows = experiment.measure(spec, cell)
        assert rows
        for row in rows:
            assert set(row) == columns | SUMMARY
            assert not set(row) & set(cell)
            values = [value for value in row.values() if not isinstance(value, str)]
            assert np.isfinite(values).all()
            assert row["least_lpr"] >= LEAST_LPR
            assert row["least_lpr"] <= row["median_lpr"] <= row["q95_lpr"] <= row["largest_lpr"]
            assert row["pairs"] == spec.pairs
        assert experiment.measure(spec, cell) == rows


@pytest.mark.parametrize("name", CASES)
def test_cells_are_json_and_each_but_once(name):
    experiment = running.load(name)
    assert experiment is CASES[name][0]
    for spec in (experiment.full, experiment.quick):
        written = [json.dumps(cell, sort_keys=True) for cell in experiment.cells(spec)]
        assert len(set(written)) == len(written) > 1


def test_the_paper_preset_stops_where_it_is_too_slow():
    cells = convergence.cells(ConvergenceSpec(seeds=1))
    assert {c["size"] for c in cells if c["group"] == "flow_paper"} == {100, 200, 500, 1000}
    assert {c["size"] for c in cells if c["group"] == "flow_fast"} == set(convergence.SIZES)


def test_the_growing_rule_begins_at_the_fixed_one():
    assert [convergence.neighbors_of("growing", size) for size in (100, 800, 2700)] == [20, 40, 60]
    assert {convergence.neighbors_of("fixed", size) for size in convergence.SIZES} == {20}


def test_models_that_are_not_shipped_are_trained(monkeypatch):
    """Both of the fast preset, the flow alone of the paper's; here in three steps, since only the calls matter."""
    asked = []

    def brief(fit, settings):
        def train(points, preset="fast", seed=0, *rest):
            asked.append((fit.__name__, len(points), preset, seed))
            return fit(points, "fast", seed, settings=replace(settings, steps=((100, 3),)))

        return train

    fast = training.PRESETS["fast"]
    monkeypatch.setattr(training, "train_flow", brief(training.train_flow, fast.flow))
    monkeypatch.setattr(training, "train_score", brief(training.train_score, fast.score))
    spec = ConvergenceSpec(pairs=2)
    for group, names in (("flow_fast", {"flow", "score"}), ("flow_paper", {"flow"})):
        cell = {"dataset": "standard_normal", "size": 100, "seed": 7, "group": group}
        assert {row["method"] for row in convergence.measure(spec, cell)} == names
    assert asked == [
        ("train_flow", 100, "fast", 7),
        ("train_score", 100, "fast", 7),
        ("train_flow", 100, "paper", 7),
    ]


def test_pairs_are_solved_once_and_have_lpr_zero_for_their_own_geodesics():
    pairs = convergence.true_pairs("spiral", 3, 5, 1.0)
    assert convergence.true_pairs("spiral", 3, 5, 1.0) is pairs
    solved = geodesics.solve_many(pairs.density, pairs.starts, pairs.ends, 1.0)
    np.testing.assert_allclose(pairs.ratios([geodesic.path for geodesic in solved]), 0, atol=1e-8)
    assert np.isnan(pairs.ratios([None, solved[1].path, None])).tolist() == [True, False, True]


def test_the_true_density_beats_the_power_weights_and_more_neighbors_help_it():
    spec = ConvergenceSpec(pairs=20)
    cell = {"dataset": "gaussian_mixture", "size": 500, "seed": 0, "group": "graphs"}
    rows = pd.DataFrame(convergence.measure(spec, cell)).set_index(["method", "rule"])["mean_lpr"]
    assert 10 * rows["true_graph", "fixed"] < rows["power", "fixed"]
    assert rows["true_graph", "growing"] < rows["true_graph", "fixed"]


def test_every_rule_is_better_with_the_true_density():
    spec = EdgeWeightsSpec(sizes=(1000,), seeds=1, pairs=20)
    cells = [cell for cell in edge_weights.cells(spec) if cell["rule"] == "fixed"]
    learned, true = ({row["weights"]: row["mean_lpr"] for row in edge_weights.measure(spec, cell)} for cell in cells)
    assert all(4 * true[rule] < learned[rule] for rule in graphs.ENDPOINT_RULES)
    assert 4 * true["midpoints"] < learned["power"]


@pytest.mark.parametrize("rule", graphs.ENDPOINT_RULES)
def test_links_of_new_endpoints_are_weighed_as_edges_are(rule):
    """An edge of the graph, asked for as a link, has the edge's weight; in both directions, and for both densities."""
    density = datasets.load("gaussian_mixture").density
    graph = graphs.neighbor_graph(density.sample(60, seed=3), 8)
    left, right = graph.points[graph.edges[:, 0]], graph.points[graph.edges[:, 1]]
    for log_density in (density.log_density, edge_weights.nearest_neighbor_density(graph, 2)):
        weights = edge_weights.endpoint_rule_weights(graph, log_density, rule, 1.5)
        np.testing.assert_allclose(weights.link(left, right), weights.log_weights, rtol=1e-12)
        np.testing.assert_allclose(weights.link(right, left), weights.log_weights, rtol=1e-12)


def test_nearest_neighbor_density_of_the_sample_and_of_new_points():
    graph = graphs.neighbor_graph(np.random.default_rng(0).normal(size=(50, 2)), 5)
    log_density = edge_weights.nearest_neighbor_density(graph, 2)
    np.testing.assert_allclose(log_density(graph.points), graphs.nearest_neighbor_log_density(graph, 2))
    new = np.array([[0.3, -0.2], [4.0, 4.0]])
    nearest = np.linalg.norm(new[:, None] - graph.points, axis=2).min(axis=1)
    np.testing.assert_allclose(log_density(new), -2 * np.log(nearest))


def test_the_shown_pair_tells_the_methods_of_figure_5_apart():
    """As the caption has it: power roughest, then the model's graph, the true graph, and relaxation."""
    spec = methods_on_200_points.EXPERIMENT.full
    density = datasets.load("standard_normal").density
    found = methods_on_200_points.finders(density.sample(spec.size, 0), spec.beta, spec.neighbors)
    ends = np.array(spec.start), np.array(spec.end)
    lengths = [paths.log_length(find(*ends), density.log_density, spec.beta) for find in found.values()]
    assert list(found) == ["power", "model_graph", "true_graph", "relaxed", "truth"]
    assert (np.diff(lengths) < 0).all()
    assert lengths[-1] == pytest.approx(geodesics.normal_log_distance(*ends, spec.beta), abs=1e-5)


def test_the_fitted_gaussian_has_the_sample_mean_and_covariance():
    points = datasets.load("gaussian_mixture").density.sample(200, seed=1)
    model = methods_on_200_points.fitted_gaussian(points)
    np.testing.assert_allclose(model.means[0], points.mean(axis=0))
    centered = points - points.mean(axis=0)
    np.testing.assert_allclose(model.covariances[0], centered.T @ centered / (len(points) - 1))


# --- the scores of flows ----------------------------------------------------------------------------------------------

FEW = flow_scores.FlowScoresSpec(datasets=("gaussian_mixture",), presets=("fast",), pairs=2, fresh=200)


@pytest.mark.parametrize("part", ["error", "paths"])
def test_cells_of_flow_scores_are_whole_and_the_same_again(part):
    (cell,) = [cell for cell in flow_scores.cells(FEW) if cell["part"] == part]
    rows = flow_scores.measure(FEW, cell)
    methods_found = [row["method"] for row in rows]
    assert methods_found == (["flow_score", "score"] if part == "error" else ["flow", "flow_score", "score"])
    for row in rows:
        assert np.isfinite([value for value in row.values() if not isinstance(value, str)]).all()
        if part == "paths":
            assert row["least_lpr"] >= LEAST_LPR
            assert 0 <= row["refused"] <= 1 - row["converged"] <= 1
    assert flow_scores.measure(FEW, cell) == rows


def test_the_true_score_has_no_error_and_none_at_all_has_error_one(monkeypatch):
    scene = methods.Scene.load("gaussian_mixture", FEW.size, FEW.seed)
    nothing = SimpleNamespace(score=np.zeros_like)
    monkeypatch.setattr(methods.Scene, "_models", (scene.density, nothing))
    of_truth, of_none = flow_scores.measure(FEW, flow_scores.cells(FEW)[0])
    assert of_truth["error"] == of_truth["median_error"] == 0
    assert of_none["error"] == 1


def test_both_scores_relax_the_same_graph_path(monkeypatch):
    """A score that is refused everywhere leaves the flow graph's path, and so its LPR."""
    monkeypatch.setattr(methods, "_well_formed", lambda scene, path: False)
    flow, own, learned = flow_scores.measure(FEW, flow_scores.cells(FEW)[1])
    assert own["refused"] == learned["refused"] == 1
    assert own["mean_lpr"] == learned["mean_lpr"] == flow["mean_lpr"]
