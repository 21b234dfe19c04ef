"""Laws of every flow: it is a density, it inverts itself, its log determinant and score are derivatives."""

import numpy as np
import pytest
import torch

from core import flows
from core.flows import Flow, FlowSpec

torch.set_num_threads(1)  # small nets; more threads only wait for each other on a busy machine
SPECS = [
    FlowSpec(2, blocks=3, width=16),
    FlowSpec(2, blocks=2, width=16, activation="relu", two_sided=True, batch_norm=True, bins=4),
    FlowSpec(2, blocks=2, width=16, domain_clamp=2.0),
    FlowSpec(3, blocks=4, width=16),
    FlowSpec(5, blocks=3, width=16, two_sided=True),
    FlowSpec.fast(2),
    FlowSpec.paper(2),
    FlowSpec.paper(7),
]
IDS = [f"{s.dim}d-{s.blocks}x{s.width}-{'two' if s.two_sided else 'one'}-sided" for s in SPECS]


def random_flow(spec: FlowSpec, seed: int = 0, bend: float = 0.05) -> Flow:
    """An untrained flow whose splines are far from the identity."""
    net = flows.build(spec, seed)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for module in net.modules():
            if isinstance(module, flows.Subnet):
                module.last.weight.normal_(0, bend, generator=generator)
        net(torch.randn(500, spec.dim, generator=generator))
    rng = np.random.default_rng(seed)
    return Flow(spec, flows.folded(net), rng.normal(size=spec.dim), np.exp(rng.normal(size=spec.dim)))


@pytest.fixture(scope="module", params=SPECS, ids=IDS)
def flow(request):
    return random_flow(request.param)


def points_for(flow: Flow, size: int = 300) -> np.ndarray:
    """Points inside and far outside the splines' box."""
    return flow.mean + flow.scale * 2.5 * np.random.default_rng(1).normal(size=(size, flow.dim))


def test_inverts_itself(flow):
    z = flows.whitened(points_for(flow), flow.mean, flow.scale)
    latent, log_det = flow.net(z)
    back, log_det_back = flow.net(latent, rev=True)
    # Steep splines amplify float32's rounding; almost all points come back to within a few units of it.
    assert (back - z).abs().quantile(0.98) < 2e-4
    assert (log_det + log_det_back).abs().quantile(0.98) < 5e-3


def test_log_determinant_is_that_of_the_jacobian(flow):
    net = random_flow(flow.spec).net.double()
    z = flows.whitened(points_for(flow, 20), flow.mean, flow.scale, np.float64)
    jacobian = torch.func.vmap(torch.func.jacrev(lambda row: net(row[None])[0][0]))(z)
    assert torch.allclose(net(z)[1], torch.linalg.slogdet(jacobian)[1], atol=1e-8)


def test_log_density_is_the_change_of_variables(flow):
    x = points_for(flow, 50)
    z = flows.whitened(x, flow.mean, flow.scale)
    latent, log_det = flow.net(z)
    normal = torch.distributions.Normal(0.0, 1.0).log_prob(latent).sum(1)
    expected = (normal + log_det).double().numpy() - np.log(flow.scale).sum()
    assert flow.log_density(x).dtype == np.float64
    np.testing.assert_allclose(flow.log_density(x), expected, atol=1e-4)


@pytest.mark.parametrize("spec", [*SPECS[:3], FlowSpec.fast(2)], ids=[*IDS[:3], "fast"])
def test_integrates_to_one(spec):
    flow = random_flow(spec, seed=3, bend=0.03)
    # The box is found from samples; a midpoint rule over it in data units.
    sample = flow.sample(4000, 0)
    low, high = sample.min(0) - 3 * flow.scale, sample.max(0) + 3 * flow.scale
    size = 400
    step = (high - low) / size
    axes = [low[i] + step[i] * (np.arange(size) + 0.5) for i in range(2)]
    grid = np.stack(np.meshgrid(*axes), -1).reshape(-1, 2)
    assert np.exp(flow.log_density(grid)).sum() * step.prod() == pytest.approx(1, abs=5e-3)


def test_score_is_the_central_difference_of_the_log_density(flow):
    net = random_flow(flow.spec)
    exact = Flow(flow.spec, net.net.double(), flow.mean, flow.scale)
    x = points_for(flow, 40)

    def log_density(x):
        return exact._log_density(flows.whitened(x, flow.mean, flow.scale, np.float64)).detach().numpy()

    score = flow.score(x)
    for i in range(flow.dim):
        step = np.zeros(flow.dim)
        step[i] = 1e-6 * flow.scale[i]
        difference = (log_density(x + step) - log_density(x - step)) / (2 * step[i])
        off = np.abs(difference - score[:, i]) * flow.scale[i]
        # A spline's score jumps at its knots, and float32 may see the other side of one.
        assert np.quantile(off / (1 + np.abs(difference) * flow.scale[i]), 0.9) < 1e-2


def test_exact_derivatives_are_central_differences(flow):
    x = points_for(flow, 40)
    log_density, score, jacobian = flow.evaluate(x)
    np.testing.assert_allclose(log_density, flow.log_density(x), rtol=1e-4, atol=1e-3)
    np.testing.assert_allclose(jacobian, jacobian.transpose(0, 2, 1), atol=1e-9 * np.abs(jacobian).max())
    for i in range(flow.dim):
        step = np.zeros(flow.dim)
        step[i] = 1e-6 * flow.scale[i]
        after, before = flow.evaluate(x + step), flow.evaluate(x - step)
        for value, derivative in ((0, score[:, i]), (1, jacobian[:, :, i])):
            difference = (after[value] - before[value]) / (2 * step[i])
            # At a knot, and where a rectifier switches, there is no derivative; few points are that close to one.
            off = np.abs(difference - derivative) / (1 + np.abs(derivative))
            assert np.quantile(off, 0.9) < 1e-5


def test_samples_follow_the_density():
    flow = random_flow(SPECS[0])
    sample = flow.sample(20_000, 5)
    # E over samples of p/q for a density q that is easy to integrate is one if the samples follow p... both ways round:
    # the share of samples in a box equals the density's integral over it.
    low, high = np.quantile(sample, 0.3, axis=0), np.quantile(sample, 0.8, axis=0)
    step = (high - low) / 200
    axes = [low[i] + step[i] * (np.arange(200) + 0.5) for i in range(2)]
    inside = np.exp(flow.log_density(np.stack(np.meshgrid(*axes), -1).reshape(-1, 2))).sum() * step.prod()
    assert ((sample > low) & (sample < high)).all(1).mean() == pytest.approx(inside, abs=0.015)


def test_same_seed_same_numbers_and_no_global_seeding():
    torch.manual_seed(7)
    np.random.seed(7)  # noqa: NPY002
    expected = torch.rand(3), np.random.rand(3)  # noqa: NPY002
    torch.manual_seed(7)
    np.random.seed(7)  # noqa: NPY002
    first, second = random_flow(SPECS[3]), random_flow(SPECS[3])
    x = points_for(first)
    np.testing.assert_array_equal(first.log_density(x), second.log_density(x))
    np.testing.assert_array_equal(first.sample(10, 1), second.sample(10, 1))
    assert not np.array_equal(first.sample(10, 1), first.sample(10, 2))
    assert torch.equal(torch.rand(3), expected[0])
    np.testing.assert_array_equal(np.random.rand(3), expected[1])  # noqa: NPY002


def test_zero_parameters_give_the_identity():
    x = torch.linspace(-7, 7, 101)[:, None]
    for rev in (False, True):
        value, log_slope = flows.rational_quadratic_spline(x, torch.zeros(101, 1, 29), 5.0, rev)
        assert torch.allclose(value, x, atol=1e-5)
        assert log_slope.abs().max() < 1e-5


def test_spline_is_monotone_with_linear_tails():
    x = torch.linspace(-8, 8, 4001, dtype=torch.float64)[:, None]
    raw = torch.randn(1, 1, 29, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * 3
    value, log_slope = flows.rational_quadratic_spline(x, raw.expand(4001, 1, 29), 5.0, False)
    assert (value.diff(dim=0) > 0).all()
    outside = x.abs() >= 5
    assert torch.equal(value[outside], x[outside])
    assert torch.equal(log_slope[outside], torch.zeros_like(log_slope[outside]))


def test_every_dimension_is_changed():
    for dim in (2, 3, 5, 10):
        flow = random_flow(FlowSpec.fast(dim))
        z = torch.randn(50, dim, generator=torch.Generator().manual_seed(1))
        jacobian = torch.func.vmap(torch.func.jacrev(lambda row, net=flow.net: net(row[None])[0][0]))(z)
        # No output stays a copy of one input: each depends on several.
        assert ((jacobian.abs() > 1e-6).sum(2).max(0).values > 1).all()


def test_folding_batch_normalization_changes_nothing():
    net = flows.build(SPECS[1])
    generator = torch.Generator().manual_seed(0)
    net.train()
    with torch.no_grad():
        for module in net.modules():
            if isinstance(module, flows.Subnet):
                module.last.weight.normal_(0, 0.5, generator=generator)
        for _ in range(20):
            net(3 * torch.randn(100, 2, generator=generator) + 1)
        z = torch.randn(200, 2, generator=generator)
        before = net.eval()(z)
        after = flows.folded(net)(z)
    assert torch.allclose(before[0], after[0], atol=1e-4)
    assert torch.allclose(before[1], after[1], atol=1e-4)


@pytest.mark.parametrize(
    "x", [np.zeros(2), np.zeros((4, 3)), np.full((2, 2), np.nan), [["a", "b"]]], ids=["1d", "D", "nan", "text"]
)
def test_bad_points_are_refused(x, unchecked):
    flow = random_flow(SPECS[0])
    for method in (flow.log_density, flow.score):
        with pytest.raises(ValueError, match="x should"):
            method(x)


@pytest.mark.parametrize(
    "wrong", [{"dim": 1}, {"dim": 2, "activation": "tanhh"}, {"dim": 2, "bins": 1}, {"dim": 2, "domain_clamp": -1.0}]
)
def test_bad_specs_are_refused(wrong):
    with pytest.raises(ValueError, match=r"wanted|needs"):
        FlowSpec(**wrong)
