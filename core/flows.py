"""Normalizing flows: a learned log density, as a spline coupling flow in FrEIA's framework.

The flow maps whitened data to a standard normal by invertible blocks, so that its log density is exact by the change
of variables.  It gives the weights of the density-weighted graph (paper, Algorithm 2).  PyPI's FrEIA has no spline
coupling; the rational-quadratic block here follows Durkan et al., "Neural Spline Flows" (2019), equations 4 to 8.
"""

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from math import expm1, log, pi

import numpy as np
import torch
from FrEIA.framework import SequenceINN
from FrEIA.modules import ActNorm, InvertibleModule
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from core.densities import as_points

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": functional.relu, "silu": functional.silu}
MIN_BIN = 1e-3  # smallest share of the box one spline bin may take, so that no slope is infinite (Durkan et al.)
MIN_SLOPE = 1e-3  # smallest slope at a knot, so that the spline stays invertible in float32 (Durkan et al.)
CHUNK = 4096  # points per forward pass: small enough to stay in the processor's cache


@dataclass(frozen=True)
class FlowSpec:
    """The shape of a spline coupling flow: everything needed to build it again and fill in its weights.

    Args:
        dim: D, at least 2: a coupling needs a half to look at and a half to change.
        blocks: coupling blocks; ActNorm stands before each, a fixed permutation between them.
        hidden_layers: hidden layers of each subnet.
        width: units of each hidden layer.
        activation: a name in `ACTIVATIONS`.
        batch_norm: whether training normalizes each hidden layer by batch; an evaluated flow has it folded in.
        bins: bins of each spline.
        domain_clamp: B; splines act on [-B, B] and are the identity outside it (linear tails).
        two_sided: whether a block changes both halves in turn, as FrEIA's coupling blocks do, or one of them.
        input_gain: factor on the first layer's initial weights; above 1, fine structure is learned in fewer steps.
    """

    dim: int
    blocks: int = 6
    hidden_layers: int = 2
    width: int = 64
    activation: str = "silu"
    batch_norm: bool = False
    bins: int = 10
    domain_clamp: float = 5.0
    two_sided: bool = False
    input_gain: float = 1.0

    def __post_init__(self):
        if self.dim < 2:
            raise ValueError(f"dim: a coupling flow needs at least 2 dimensions, got {self.dim}")
        if self.activation not in ACTIVATIONS:
            raise ValueError(f"activation: wanted one of {', '.join(ACTIVATIONS)}, got {self.activation!r}")
        if min(self.blocks, self.hidden_layers, self.width) < 1 or self.bins < 2 or not self.domain_clamp > 0:
            raise ValueError(f"spec: wanted positive blocks, layers, width, clamp and at least 2 bins, got {self}")

    @classmethod
    def paper(cls, dim: int) -> "FlowSpec":
        """The paper's flow (appendix "Normalizing Flow Training"): 12 blocks for D = 2, otherwise 5.

        Reading: a block is FrEIA's, which changes both halves of its input.
        """
        return cls(dim, 12 if dim == 2 else 5, 3, 64, "relu", batch_norm=True, two_sided=True)

    @classmethod
    def fast(cls, dim: int) -> "FlowSpec":
        """A smaller flow that trains in seconds; batch normalization is what the paper's loses most by.

        Fine structure is only looked for in up to three dimensions: points are too far apart in more.
        """
        return cls(dim, bins=6, input_gain=3.0 if dim <= 3 else 1.0)


def linear(width_in: int, width_out: int, generator: torch.Generator, gain: float = 1.0) -> nn.Linear:
    """A linear layer with `gain` times torch's default distribution, drawn from `generator`, not the global one."""
    with torch.random.fork_rng(devices=[]):  # not `skip_init`, which imports all of sympy
        layer = nn.Linear(width_in, width_out)
    bound = gain * width_in**-0.5
    with torch.no_grad():
        layer.weight.uniform_(-bound, bound, generator=generator)
        layer.bias.uniform_(-bound, bound, generator=generator)
    return layer


class Subnet(nn.Module):
    """A fully connected net whose last layer starts at zero, so that the coupling it steers starts as the identity."""

    activation: Callable[[Tensor], Tensor]
    hidden: Sequence[nn.Linear]
    norms: Sequence[nn.BatchNorm1d] | None

    def __init__(self, width_in: int, width_out: int, spec: FlowSpec, generator: torch.Generator):
        super().__init__()
        widths = [width_in] + [spec.width] * spec.hidden_layers
        self.activation = ACTIVATIONS[spec.activation]  # type: ignore[assignment]
        gains = [spec.input_gain] + [1.0] * (spec.hidden_layers - 1)
        hidden = [linear(a, b, generator, gain) for (a, b), gain in zip(pairwise(widths), gains)]
        norms = [nn.BatchNorm1d(spec.width) for _ in hidden] if spec.batch_norm else None
        self.hidden = nn.ModuleList(hidden)  # type: ignore[assignment]
        self.norms = nn.ModuleList(norms) if norms else None  # type: ignore[assignment]
        self.last = linear(spec.width, width_out, generator)
        nn.init.zeros_(self.last.weight)
        nn.init.zeros_(self.last.bias)

    def forward(self, h: Tensor) -> Tensor:
        """(N, width_in) -> (N, width_out)."""
        for i, layer in enumerate(self.hidden):
            h = layer(h)
            h = self.activation(h if self.norms is None else self.norms[i](h))
        return self.last(h)

    @torch.no_grad()
    def fold(self) -> None:
        """Move batch normalization with its running statistics into the linear layers before it."""
        for layer, norm in zip(self.hidden, self.norms or []):
            mean, variance = norm.get_buffer("running_mean"), norm.get_buffer("running_var")
            gain = norm.weight / (variance + norm.eps).sqrt()
            layer.bias.copy_((layer.bias - mean) * gain + norm.bias)
            layer.weight.mul_(gain[:, None])
        self.norms = None


def rational_quadratic_spline(x: Tensor, parameters: Tensor, bound: float, rev: bool) -> tuple[Tensor, Tensor]:
    """A monotone rational-quadratic spline of [-B, B] onto itself, the identity outside.

    With θ the place inside bin k, s_k its mean slope and d_k, d_{k+1} the slopes at its knots (Durkan et al., eq. 4):
        f = y_k + h_k (s_k θ² + d_k θ(1-θ)) / (s_k + (d_k + d_{k+1} - 2 s_k) θ(1-θ)).
    The inverse is the stable root of a quadratic (eq. 6 to 8).  Zero parameters give the identity.

    Args:
        x: (N, d), inputs; outputs if `rev`.
        parameters: (N, d, 3K - 1), raw widths, heights and inner slopes.
        bound: B.
        rev: whether to invert.

    Returns:
        (N, d) values and (N, d) log derivatives of the direction taken.
    """
    bins = (parameters.shape[-1] + 1) // 3
    share = functional.softmax(parameters[..., : 2 * bins].unflatten(-1, (2, bins)), dim=-1)
    knots = functional.pad((MIN_BIN + (1 - MIN_BIN * bins) * share).cumsum(-1), (1, 0)) * (2 * bound) - bound
    slopes = MIN_SLOPE + functional.softplus(parameters[..., 2 * bins :] + log(expm1(1 - MIN_SLOPE)))
    slopes = functional.pad(slopes, (1, 1), value=1.0)
    inside = x.abs() < bound
    clamped = x.clamp(-bound, bound)
    bin_ = (knots[..., 1 if rev else 0, 1:-1] <= clamped[..., None]).sum(-1, keepdim=True)
    table = torch.cat([knots, slopes[..., None, :]], dim=-2)
    index = bin_[..., None, :].expand(*bin_.shape[:-1], 3, 1)
    x0, y0, d0 = table.gather(-1, index).squeeze(-1).unbind(-1)
    x1, y1, d1 = table.gather(-1, index + 1).squeeze(-1).unbind(-1)
    width, height = x1 - x0, y1 - y0
    slope = height / width
    bend = d0 + d1 - 2 * slope
    if rev:
        offset = clamped - y0
        a = height * (slope - d0) + offset * bend
        b = height * d0 - offset * bend
        c = -slope * offset
        theta = 2 * c / (-b - (b * b - 4 * a * c).clamp(min=0).sqrt())
        value = theta * width + x0
    else:
        theta = (clamped - x0) / width
    cross = theta * (1 - theta)
    denominator = slope + bend * cross
    if not rev:
        value = y0 + height * (slope * theta * theta + d0 * cross) / denominator
    numerator = slope * slope * (d1 * theta * theta + 2 * slope * cross + d0 * (1 - theta) ** 2)
    log_slope = numerator.log() - 2 * denominator.log()
    zero = log_slope.new_zeros(())
    return torch.where(inside, value, x), torch.where(inside, -log_slope if rev else log_slope, zero)


class SplineCoupling(InvertibleModule):
    """Changes the second part of its input by splines whose knots a subnet reads off the first part.

    If `two_sided`, the first part is then changed in the same way, given the new second part.
    """

    def __init__(self, dims_in, spec: FlowSpec, generator: torch.Generator):
        super().__init__(dims_in)
        self.spec = spec
        self.split = [spec.dim - spec.dim // 2, spec.dim // 2]
        sizes = [self.split, self.split[::-1]] if spec.two_sided else [self.split]
        count = 3 * spec.bins - 1
        self.subnets = nn.ModuleList(Subnet(seen, count * changed, spec, generator) for seen, changed in sizes)

    def forward(self, x_or_z, c=None, rev=False, jac=True):
        """FrEIA's protocol: a tuple with one (N, D) tensor -> the same, and the log determinant (N,)."""
        parts = list(x_or_z[0].split(self.split, dim=1))
        log_det = x_or_z[0].new_zeros(len(x_or_z[0]))
        sides = list(enumerate(self.subnets))
        for side, subnet in reversed(sides) if rev else sides:
            active = 1 - side
            raw = subnet(parts[side]).unflatten(1, (parts[active].shape[1], -1))
            parts[active], slopes = rational_quadratic_spline(parts[active], raw, self.spec.domain_clamp, rev)
            log_det = log_det + slopes.sum(1)
        return (torch.cat(parts, 1),), log_det

    def output_dims(self, input_dims):
        """A coupling keeps the shape."""
        return input_dims


class Permutation(InvertibleModule):
    """A fixed reordering of the dimensions (FrEIA's random one reseeds numpy's global generator)."""

    def __init__(self, dims_in, order: np.ndarray):
        super().__init__(dims_in)
        self.orders = torch.as_tensor(order), torch.as_tensor(np.argsort(order))

    def forward(self, x_or_z, c=None, rev=False, jac=True):
        """FrEIA's protocol, see `SplineCoupling.forward`."""
        return (x_or_z[0][:, self.orders[int(rev)]],), x_or_z[0].new_zeros(len(x_or_z[0]))

    def output_dims(self, input_dims):
        """A permutation keeps the shape."""
        return input_dims


def build(spec: FlowSpec, seed: int = 0) -> SequenceINN:
    """The flow's net from data to latent space, still untrained.

    Between two blocks the halves change places; after each pair of blocks they are also mixed by a permutation that
    depends on the spec alone, so that it need not be saved.
    """
    generator, order = torch.Generator().manual_seed(seed), np.random.default_rng(spec.dim)
    net = SequenceINN(spec.dim)
    for block in range(spec.blocks):
        if block:
            rolled = np.roll(np.arange(spec.dim), spec.dim // 2)
            mixed = block % 2 == 0 and spec.dim > 2
            net.append(Permutation, order=order.permutation(rolled) if mixed else rolled)
        net.append(ActNorm)
        net.append(SplineCoupling, spec=spec, generator=generator)
    return net


def folded(net: SequenceINN) -> SequenceINN:
    """The same function, frozen for evaluation: batch normalization folded in, no gradients of the weights."""
    for module in net.modules():
        if isinstance(module, Subnet):
            module.fold()
    return net.eval().requires_grad_(False)


def standard_normal_log_density(z: Tensor) -> Tensor:
    """log N(z; 0, I) of (N, D) -> (N,)."""
    return -0.5 * (z * z).sum(1) - 0.5 * z.shape[1] * log(2 * pi)


@dataclass(frozen=True, eq=False)
class Flow:
    """A trained flow as a density in data units.

        log p(x) = log N(f(z); 0, I) + log |det ∂f/∂z| - Σ log scale,   z = (x - mean) / scale
    (paper, section "Normalizing Flows").

    Args:
        spec: shape of the net.
        net: the folded net f, see `folded`.
        mean: (D,), data units.
        scale: (D,), data units, positive.
    """

    spec: FlowSpec
    net: SequenceINN
    mean: Float[np.ndarray, " D"]
    scale: Float[np.ndarray, " D"]

    @property
    def dim(self) -> int:
        """D."""
        return self.spec.dim

    def log_density(self, x: Float[np.ndarray, "N D"]) -> Float[np.ndarray, " N"]:
        """Log density in nats: (N, D) -> (N,)."""
        with torch.inference_mode():
            parts = [self._log_density(z).double().numpy() for z in whitened(x, self.mean, self.scale).split(CHUNK)]
        return np.concatenate(parts) - np.log(self.scale).sum()

    def score(self, x: Float[np.ndarray, "N D"]) -> Float[np.ndarray, "N D"]:
        """∇ log p by automatic differentiation: (N, D) -> (N, D); it jumps at spline knots, which are only C¹."""
        parts = []
        with torch.enable_grad():
            for z in whitened(x, self.mean, self.scale).split(CHUNK):
                z = z.clone().requires_grad_()
                (gradient,) = torch.autograd.grad(self._log_density(z).sum(), z)
                parts.append(gradient.double().numpy())
        return np.concatenate(parts) / self.scale

    def evaluate(self, x: Float[np.ndarray, "N D"]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Log density (N,), score (N, D) and score Jacobian (N, D, D) together, in float64 for the derivatives' sake.

        Splines are only C¹: at their knots the log density has kinks and the score jumps, unseen by the Jacobian.
        """
        parts = []
        with torch.enable_grad():
            for z in whitened(x, self.mean, self.scale, np.float64).split(CHUNK):
                z = z.clone().requires_grad_()
                latent, log_det = self._double(z)
                log_density = standard_normal_log_density(latent) + log_det
                (score,) = torch.autograd.grad(log_density.sum(), z, create_graph=True)
                rows = [torch.autograd.grad(column.sum(), z, retain_graph=True)[0] for column in score.unbind(1)]
                parts.append([part.detach().numpy() for part in (log_density, score, torch.stack(rows, dim=1))])
        log_density, score, jacobian = (np.concatenate(part) for part in zip(*parts))
        square = self.scale[:, None] * self.scale
        return log_density - np.log(self.scale).sum(), score / self.scale, jacobian / square

    @cached_property
    def _double(self) -> SequenceINN:
        return deepcopy(self.net).double()

    def sample(self, size: int, seed: int) -> Float[np.ndarray, "N D"]:
        """Draw `size` points: latent normals through the inverse flow."""
        latent = torch.randn(size, self.dim, generator=torch.Generator().manual_seed(seed))
        with torch.inference_mode():
            parts = [self.net(z, rev=True)[0].double().numpy() for z in latent.split(CHUNK)]
        return np.concatenate(parts) * self.scale + self.mean

    def _log_density(self, z: Tensor) -> Tensor:
        latent, log_det = self.net(z)
        return standard_normal_log_density(latent) + log_det


def whitened(x: np.ndarray, mean: np.ndarray, scale: np.ndarray, dtype: type = np.float32) -> Tensor:
    """Data units (N, D) -> whitened tensor of `dtype`, subtracted in float64.

    Raises:
        ValueError: if `x` has another shape than (N, D), or is not finite.
    """
    return torch.from_numpy(((as_points(x, len(mean), "x") - mean) / scale).astype(dtype))
