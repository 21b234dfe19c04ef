"""Laws of score models: the fast Jacobian is the true one, and each loss has its minimum where theory puts it."""

import numpy as np
import pytest
import torch
from torch import nn

from core import scores
from core.scores import ScoreModel, ScoreNet, ScoreSpec

SPECS = [
    ScoreSpec(2, 2, 16),
    ScoreSpec(2, 3, 16, "softplus", residual=False),
    ScoreSpec(1, 1, 8),
    ScoreSpec.fast(5),
    ScoreSpec.paper(2),
    ScoreSpec.paper(10),
]


def random_model(spec: ScoreSpec, seed: int = 0) -> ScoreModel:
    """An untrained model that is not zero."""
    net = ScoreNet(spec, seed)
    nn.init.normal_(net.last.weight, generator=torch.Generator().manual_seed(seed))
    rng = np.random.default_rng(seed)
    mean, scale = rng.normal(size=spec.dim), np.exp(rng.normal(size=spec.dim))
    return ScoreModel(spec, net.double().eval().requires_grad_(False), mean, scale)


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_evaluate_is_the_score_with_its_jacobian(spec):
    model = random_model(spec)
    x = model.mean + model.scale * np.random.default_rng(1).normal(size=(30, spec.dim))
    score, jacobian = model.evaluate(x)
    np.testing.assert_allclose(score, model.score(x), rtol=1e-12, atol=1e-12)
    for j in range(spec.dim):
        step = np.zeros(spec.dim)
        step[j] = 1e-5 * model.scale[j]
        difference = (model.score(x + step) - model.score(x - step)) / (2 * step[j])
        np.testing.assert_allclose(jacobian[:, :, j], difference, rtol=1e-5, atol=1e-7 * np.abs(jacobian).max())


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_jacobian_is_that_of_automatic_differentiation(spec):
    net = random_model(spec).net
    z = torch.randn(20, spec.dim, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    value, jacobian = net.with_jacobian(z)
    expected = torch.func.vmap(torch.func.jacrev(lambda row: net(row[None])[0]))(z)
    assert torch.allclose(value, net(z), atol=1e-12)
    assert torch.allclose(jacobian, expected, atol=1e-12)


def test_paper_widths():
    assert [ScoreSpec.paper(dim).width for dim in (2, 3, 5, 6, 8, 9, 25)] == [128, 128, 128, 170, 170, 200, 200]


def test_sliced_loss_is_unbiased_for_the_exact_trace():
    generator = torch.Generator().manual_seed(0)
    matrix = torch.randn(3, 3, generator=generator, dtype=torch.float64)
    z = torch.randn(50, 3, generator=generator, dtype=torch.float64)
    exact = matrix.trace() + 0.5 * (z @ matrix.T).square().sum(1).mean()
    draws = torch.stack([scores.sliced_score_matching_loss(lambda x: x @ matrix.T, z, generator) for _ in range(2000)])
    assert abs(draws.mean() - exact) < 4 * draws.std() / 2000**0.5


def test_sliced_loss_is_lowest_at_the_data_score():
    generator = torch.Generator().manual_seed(1)
    z = 2 * torch.randn(20_000, 2, generator=generator)
    losses = {
        c: float(scores.sliced_score_matching_loss(lambda x, c=c: -c * x, z, generator)) for c in (0.15, 0.25, 0.4)
    }
    assert min(losses, key=losses.get) == 0.25


def test_denoising_loss_is_lowest_at_the_smoothed_score():
    # Data N(0, s²) smoothed by N(0, σ²) has the score -x / (s² + σ²), not the data's own -x / s².
    s, sigma = 0.5, 0.5
    z = s * torch.randn(200_000, 2, generator=torch.Generator().manual_seed(1))

    def loss(c):
        return float(scores.denoising_score_matching_loss(lambda x: -c * x, z, sigma, torch.Generator().manual_seed(2)))

    exact = 1 / (s**2 + sigma**2)
    assert loss(exact) < min(loss(0.9 * exact), loss(1.1 * exact), loss(1 / s**2))


def test_losses_have_gradients():
    net = ScoreNet(ScoreSpec(2, 2, 8))
    generator = torch.Generator().manual_seed(0)
    z = torch.randn(10, 2, generator=generator)
    for loss in (
        scores.sliced_score_matching_loss(net, z, generator),
        scores.denoising_score_matching_loss(net, z, 0.1, generator),
    ):
        net.zero_grad()
        loss.backward()
        assert net.last.weight.grad.abs().max() > 0


@pytest.mark.parametrize("x", [np.zeros(2), np.zeros((4, 3)), np.full((2, 2), np.inf)], ids=["1d", "D", "inf"])
def test_bad_points_are_refused(x, unchecked):
    model = random_model(SPECS[0])
    for method in (model.score, model.evaluate):
        with pytest.raises(ValueError, match="x should"):
            method(x)


@pytest.mark.parametrize("wrong", [{"dim": 0}, {"dim": 2, "width": 0}, {"dim": 2, "activation": "relu"}])
def test_bad_specs_are_refused(wrong):
    with pytest.raises(ValueError, match="wanted"):
        ScoreSpec(**wrong)
