"""Score models: a network that learns ∇ log p directly, for relaxing paths.

A geodesic needs only the score (paper, equation of constant Euclidean speed), and a flow's own score is too rough for
it.  Here are the networks, the two losses that train them, and the wrapper that turns whitened coordinates into data
units and delivers the score together with its Jacobian, which the Newton-type solver wants.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from core.flows import linear, whitened

Score = Callable[[Tensor], Tensor]


def silu_with_slope(a: Tensor) -> tuple[Tensor, Tensor]:
    """a σ(a) and its derivative."""
    gate = torch.sigmoid(a)
    value = a * gate
    return value, gate + value * (1 - gate)


def softplus_with_slope(a: Tensor) -> tuple[Tensor, Tensor]:
    """log(1 + e^a) and its derivative."""
    return functional.softplus(a), torch.sigmoid(a)


ACTIVATIONS = {"silu": (functional.silu, silu_with_slope), "softplus": (functional.softplus, softplus_with_slope)}


@dataclass(frozen=True)
class ScoreSpec:
    """The shape of a score network: everything needed to build it again and fill in its weights.

    Args:
        dim: D.
        hidden_layers: hidden layers, all of the same width.
        width: units of each hidden layer.
        activation: a name in `ACTIVATIONS`; smooth, since the loss and the solver differentiate the score.
        residual: whether each hidden layer after the first adds to its input instead of replacing it.
        input_gain: factor on the first layer's initial weights; above 1, fine structure is learned in fewer steps.
    """

    dim: int
    hidden_layers: int = 4
    width: int = 128
    activation: str = "silu"
    residual: bool = True
    input_gain: float = 1.0

    def __post_init__(self):
        if min(self.dim, self.hidden_layers, self.width) < 1:
            raise ValueError(f"spec: wanted positive dim, hidden_layers and width, got {self}")
        if self.activation not in ACTIVATIONS:
            raise ValueError(f"activation: wanted one of {', '.join(ACTIVATIONS)}, got {self.activation!r}")

    @classmethod
    def paper(cls, dim: int) -> "ScoreSpec":
        """The paper's network (appendix "Score Model Training"): 6 hidden layers, Softplus.

        Width 128 for 3 <= D <= 5, 170 for D <= 8, 200 for D <= 25.  Reading: D = 2 is not listed and takes 128; above
        25, 200.
        """
        return cls(dim, 6, 128 if dim <= 5 else 170 if dim <= 8 else 200, "softplus", residual=False)

    @classmethod
    def fast(cls, dim: int) -> "ScoreSpec":
        """A residual SiLU network that denoising trains in seconds; see `FlowSpec.fast` for the gain."""
        return cls(dim, input_gain=3.0 if dim <= 3 else 1.0)


class ScoreNet(nn.Module):
    """A fully connected network on whitened points; the last layer starts at zero."""

    hidden: Sequence[nn.Linear]
    plain: Callable[[Tensor], Tensor]
    with_slope: Callable[[Tensor], tuple[Tensor, Tensor]]

    def __init__(self, spec: ScoreSpec, seed: int = 0):
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.plain, self.with_slope = ACTIVATIONS[spec.activation]  # type: ignore[assignment]
        self.residual = spec.residual
        self.first = linear(spec.dim, spec.width, generator, spec.input_gain)
        hidden = [linear(spec.width, spec.width, generator) for _ in range(spec.hidden_layers - 1)]
        self.hidden = nn.ModuleList(hidden)  # type: ignore[assignment]
        self.last = linear(spec.width, spec.dim, generator)
        nn.init.zeros_(self.last.weight)
        nn.init.zeros_(self.last.bias)

    def forward(self, z: Tensor) -> Tensor:
        """(N, D) -> (N, D)."""
        h = self.plain(self.first(z))
        for layer in self.hidden:
            h = h + self.plain(layer(h)) if self.residual else self.plain(layer(h))
        return self.last(h)

    @torch.no_grad()
    def rescale(self, factor: float) -> "ScoreNet":
        """Multiply the output, in place."""
        self.last.weight.mul_(factor)
        self.last.bias.mul_(factor)
        return self

    def with_jacobian(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Value and Jacobian, pushed through the layers together: (N, D) -> (N, D), (N, D, D).

        The D tangents travel as D further rows per point, so that each layer is one matrix product.
        """
        h, slope = self.with_slope(self.first(z))
        rows = torch.cat([h[None], self.first.weight.T[:, None] * slope])
        for layer in self.hidden:
            next_ = rows @ layer.weight.T
            h, slope = self.with_slope(next_[0] + layer.bias)
            next_ *= slope
            next_[0] = h
            rows = rows + next_ if self.residual else next_
        out = rows @ self.last.weight.T
        return out[0] + self.last.bias, out[1:].permute(1, 2, 0)


@dataclass(frozen=True, eq=False)
class ScoreModel:
    """A trained score network in data units: s(x) = net((x - mean) / scale) / scale.

    Args:
        spec: shape of the net.
        net: the trained network, evaluated in float64: a Newton-type solver sees float32's rounding as noise.
        mean: (D,), data units.
        scale: (D,), data units, positive.
    """

    spec: ScoreSpec
    net: ScoreNet
    mean: Float[np.ndarray, " D"]
    scale: Float[np.ndarray, " D"]

    @property
    def dim(self) -> int:
        """D."""
        return self.spec.dim

    def score(self, x: Float[np.ndarray, "N D"]) -> Float[np.ndarray, "N D"]:
        """∇ log p: (N, D) -> (N, D)."""
        with torch.inference_mode():
            return self.net(whitened(x, self.mean, self.scale, np.float64)).numpy() / self.scale

    def evaluate(self, x: Float[np.ndarray, "N D"]) -> tuple[Float[np.ndarray, "N D"], Float[np.ndarray, "N D D"]]:
        """Score and its Jacobian ∂s_i/∂x_j together: (N, D) -> (N, D), (N, D, D)."""
        with torch.inference_mode():
            score, jacobian = self.net.with_jacobian(whitened(x, self.mean, self.scale, np.float64))
        return score.numpy() / self.scale, jacobian.numpy() / (self.scale[:, None] * self.scale)


def sliced_score_matching_loss(score: Score, z: Tensor, generator: torch.Generator) -> Tensor:
    """Sliced score matching, one standard normal slice v per point (Hutchinson).

        E[vᵀ ∇s(z) v + ½ ‖s(z)‖²]
    (paper, section "Score Matching").  Its minimum is the data's own score, without smoothing.

    Args:
        score: (N, D) -> (N, D), differentiable twice.
        z: (N, D), whitened points.
        generator: draws v.

    Returns:
        A scalar.
    """
    v = torch.randn(z.shape, generator=generator, dtype=z.dtype)
    s, tangent = torch.func.jvp(score, (z,), (v,))  # type: ignore[misc]
    return ((v * tangent).sum(1) + 0.5 * (s * s).sum(1)).mean()


def denoising_score_matching_loss(score: Score, z: Tensor, sigma: float, generator: torch.Generator) -> Tensor:
    """Denoising score matching at one noise level, in units of the noise.

        E ‖σ s(z + σ ε) + ε‖² / D,   ε ~ N(0, I)
    (Vincent 2011; paper, section "Score Matching").  Its minimum is the score of the data smoothed by N(0, σ² I).

    Args:
        score: (N, D) -> (N, D).
        z: (N, D), whitened points.
        sigma: σ, whitened units.
        generator: draws ε.

    Returns:
        A scalar.
    """
    noise = torch.randn(z.shape, generator=generator, dtype=z.dtype)
    return (sigma * score(z + sigma * noise) + noise).square().mean()
