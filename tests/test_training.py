"""Laws of training: same seed, same numbers; progress only grows; cancelling keeps the last good model."""

import threading
from dataclasses import replace

import numpy as np
import pytest
import torch

from core import densities, training
from core.flows import FlowSpec
from core.scores import ScoreSpec
from core.training import PRESETS, Status

POINTS = densities.standard_normal(2).sample(200, 0) @ np.array([[3.0, 0.0], [1.0, 0.5]]) + 7
SMALL_FLOW, SMALL_SCORE = FlowSpec(2, blocks=2, width=8), ScoreSpec(2, 2, 8)


def short(preset: str, steps: int) -> training.TrainingSettings:
    """A preset with few steps."""
    settings = PRESETS[preset]
    return replace(
        settings,
        flow=replace(settings.flow, steps=((100, steps), (1000, steps))),
        score=replace(settings.score, steps=((100, steps), (1000, steps))),
    )


@pytest.fixture(params=sorted(PRESETS))
def preset(request, monkeypatch):
    """A preset with twelve steps and smaller nets of its own kind."""
    flow, score = getattr(FlowSpec, request.param), getattr(ScoreSpec, request.param)
    monkeypatch.setitem(PRESETS, request.param, short(request.param, 12))
    monkeypatch.setattr(FlowSpec, request.param, lambda dim: replace(flow(dim), blocks=2, width=16))
    monkeypatch.setattr(ScoreSpec, request.param, lambda dim: replace(score(dim), width=16))
    return request.param


def test_fast_preset_learns_a_normal(monkeypatch):
    monkeypatch.setitem(PRESETS, "fast", short("fast", 200))
    density = densities.standard_normal(2)
    fresh = density.sample(2000, 1)
    trained = training.train(density.sample(400, 0))
    assert trained.report.status is Status.FINISHED
    assert abs(np.mean(density.log_density(fresh) - trained.flow.log_density(fresh))) < 0.1
    error = trained.score_model.score(fresh) + fresh
    assert np.sqrt((error**2).sum(1).mean() / 2) < 0.6
    assert trained.flow.score(fresh).shape == fresh.shape


def test_same_seed_same_numbers_and_no_global_seeding(preset):
    state = torch.get_rng_state()
    first, second = (training.train(POINTS, preset, seed=3) for _ in range(2))
    other = training.train(POINTS, preset, seed=4)
    watched = training.train(POINTS, preset, seed=3, progress=lambda f, m: None, held_out=POINTS[:50])
    assert torch.equal(torch.get_rng_state(), state)
    for ask in (lambda t: t.flow.log_density(POINTS), lambda t: t.score_model.score(POINTS)):
        np.testing.assert_array_equal(ask(first), ask(second))
        np.testing.assert_array_equal(ask(first), ask(watched))
        assert not np.array_equal(ask(first), ask(other))
    assert first.report.flow.losses == second.report.flow.losses
    assert not first.report.flow.held_out_losses
    assert watched.report.score.held_out_losses


def test_progress_only_grows_and_reaches_one(preset):
    seen = []
    training.train(POINTS, preset, progress=lambda fraction, message: seen.append((fraction, message)))
    fractions = [fraction for fraction, _ in seen]
    assert fractions == sorted(fractions)
    assert 0 <= fractions[0] < 1
    assert fractions[-1] == 1
    assert "score model" in seen[-1][1]


def test_what_is_recorded_is_what_is_reported():
    settings = replace(PRESETS["fast"].flow, steps=((100, 60), (1000, 60)))
    told = []
    _, report = training.train_flow(
        POINTS, spec=SMALL_FLOW, settings=settings, held_out=POINTS[:30], record=lambda *pair: told.append(pair)
    )
    assert [step for step, _, _ in told] == [25, 50, 60]
    assert report.losses == tuple((step, loss) for step, loss, _ in told)
    assert report.held_out_losses == tuple((step, held_out) for step, _, held_out in told)
    lowest = replace(settings, steps=((100, 150), (1000, 150)), average=None, keep_lowest=True)
    _, report = training.train_flow(POINTS, spec=SMALL_FLOW, settings=lowest)
    assert [step for step, _ in report.losses] == [100, 150]
    told.clear()
    training.train_score(POINTS, spec=SMALL_SCORE, settings=replace(PRESETS["fast"].score, steps=((100, 9), (1000, 9))),
                         record=lambda *pair: told.append(pair))  # fmt: skip
    assert [(step, held_out) for step, _, held_out in told] == [(9, None)]


class CancelAfter:
    """A flag that is set at the n-th time it is looked at."""

    def __init__(self, looks: int):
        self.left = looks

    def is_set(self) -> bool:
        self.left -= 1
        return self.left < 0


@pytest.mark.parametrize("looks", [0, 5, 16])
def test_cancelling_keeps_the_last_good_model(preset, looks):
    trained = training.train(POINTS, preset, cancel=CancelAfter(looks))
    assert trained.report.status is Status.CANCELLED
    assert "cancelled" in str(trained.report.status)
    assert trained.report.flow.steps == min(looks, 12)
    assert np.isfinite(trained.flow.log_density(POINTS)).all()
    assert (trained.score_model is None) == (looks < 12)
    if trained.score_model is not None:
        assert trained.report.score.steps == looks - 13
        assert np.isfinite(trained.score_model.score(POINTS)).all()


def test_cancelling_before_the_start():
    cancel = threading.Event()
    cancel.set()
    trained = training.train(POINTS, cancel=cancel)
    assert trained.report.flow.steps == 0
    # An untrained flow is the whitened normal, which is a density already.
    assert np.isfinite(trained.flow.log_density(POINTS)).all()


def test_a_diverging_fit_says_so_and_keeps_a_finite_model(monkeypatch):
    monkeypatch.setitem(PRESETS, "fast", short("fast", 12))
    calls = []

    def broken(score, z, sigma, generator):
        calls.append(1)
        return score(z).sum() * (np.nan if len(calls) > 4 else 1.0)

    monkeypatch.setattr(training.scores, "denoising_score_matching_loss", broken)
    model, report = training.train_score(POINTS)
    assert report.status is Status.DIVERGED
    assert report.steps == 4
    assert np.isfinite(model.score(POINTS)).all()


@pytest.mark.parametrize("dim", [3, 10, 50])
def test_any_dimension_trains(preset, dim):
    points = np.random.default_rng(0).normal(size=(60, dim)) * np.arange(1, dim + 1)
    trained = training.train(points, preset)
    assert trained.report.status is Status.FINISHED
    assert np.isfinite(trained.flow.log_density(points)).all()
    assert trained.score_model.evaluate(points)[1].shape == (60, dim, dim)


def test_units_do_not_matter():
    settings = replace(PRESETS["fast"].flow, steps=((100, 20), (1000, 20)))
    flow, _ = training.train_flow(POINTS, spec=SMALL_FLOW, settings=settings)
    score_settings = replace(PRESETS["fast"].score, steps=((100, 20), (1000, 20)))
    model, _ = training.train_score(POINTS, spec=SMALL_SCORE, settings=score_settings)
    for scale in (1e-6, 1e6):
        scaled, _ = training.train_flow(POINTS * scale, spec=SMALL_FLOW, settings=settings)
        expected = flow.log_density(POINTS) - 2 * np.log(scale)
        np.testing.assert_allclose(scaled.log_density(POINTS * scale), expected, atol=1e-2)
        scaled_model, _ = training.train_score(POINTS * scale, spec=SMALL_SCORE, settings=score_settings)
        np.testing.assert_allclose(scaled_model.score(POINTS * scale) * scale, model.score(POINTS), atol=1e-2)


def test_bandwidth_is_near_the_best_for_a_normal():
    # For a two-dimensional normal the best bandwidth is n^(-1/6) (Silverman); likelihood finds about that.
    for size in (300, 3000, 30_000):
        z = densities.standard_normal(2).sample(size, 0)
        assert training.bandwidth(z) == pytest.approx(size ** (-1 / 6), rel=0.35)


def test_bandwidth_of_repeated_points_stays_positive():
    z = np.repeat(densities.standard_normal(2).sample(50, 0), 4, axis=0)
    assert training.bandwidth(z) >= training.BANDWIDTH_RANGE[0]


def test_paper_settings_are_those_printed():
    flow, score = PRESETS["paper"].flow, PRESETS["paper"].score
    assert [flow.steps_for(n) for n in (200, 999, 1000, 2500, 3999, 4000, 200_000)] == [
        2500, 2500, 5000, 10_000, 20_000, 40_000, 40_000,
    ]  # fmt: skip
    assert (flow.learning_rate, flow.weight_decay, flow.noise, flow.batch) == (5e-4, 1e-6, 1e-5, 256)
    assert (score.learning_rate, score.weight_decay, score.loss, score.batch) == (1e-3, 1e-6, "sliced", 256)
    spec = FlowSpec.paper(2)
    assert (spec.blocks, spec.bins, spec.domain_clamp, spec.hidden_layers, spec.width) == (12, 10, 5, 3, 64)
    assert FlowSpec.paper(10).blocks == 5
    assert (spec.activation, spec.batch_norm) == ("relu", True)


@pytest.mark.parametrize(
    ("points", "said"),
    [
        (np.zeros(30), r"points should have shape"),
        (np.full((30, 2), np.nan), r"points should hold finite"),
        (np.random.default_rng(0).normal(size=(19, 2)), r"points: wanted at least 20.* got 19"),
        (np.ones((30, 2)), r"points: wanted some spread"),
        (np.random.default_rng(0).normal(size=(30, 1)), r"dim: .* at least 2 dimensions, got 1"),
    ],
    ids=["shape", "nan", "few", "constant", "one column"],
)
def test_bad_points_are_refused(points, said, unchecked):
    with pytest.raises(ValueError, match=said):
        training.train(points)


def test_unknown_preset_is_refused():
    with pytest.raises(ValueError, match="preset: wanted one of paper, fast, got 'slow'"):
        training.train(POINTS, "slow")


def test_many_dimensions_are_smoothed_not_memorized(monkeypatch):
    # Few points in ten dimensions: a score model that ignores the noise's size does worse than the zero score.
    monkeypatch.setitem(PRESETS, "fast", short("fast", 300))
    density = densities.standard_normal(10)
    model, report = training.train_score(density.sample(500, 0))
    fresh = density.sample(1000, 1)
    assert report.noise > 0.5
    assert np.sqrt(np.mean((model.score(fresh) + fresh) ** 2)) < 0.6
