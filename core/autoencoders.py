"""Networks for images: an autoencoder, and a flow and a score model of its latent space (paper, appendix on MNIST).

The autoencoder squeezes an image into a few numbers, its code; the flow and the score model learn the density of the
codes. They differ from `core.flows` and `core.scores` in shape alone, and what comes out are a `Flow` and a
`ScoreModel` like any other, so that graphs and the solver take them as they are.
"""

from itertools import pairwise

import numpy as np
import torch
from FrEIA.framework import SequenceINN
from FrEIA.modules import GLOWCouplingBlock
from jaxtyping import Float
from torch import Tensor, nn

from core import flows, scores, training
from core.flows import Flow, FlowSpec, Permutation, Subnet, linear
from core.scores import ScoreModel, ScoreNet, ScoreSpec
from core.training import FitSettings

HIDDEN = 400  # width of the one hidden layer of encoder and decoder
FLOW_BLOCKS, FLOW_HIDDEN_LAYERS, FLOW_WIDTH = 4, 2, 128
SCORE_WIDTHS = (128, 256, 128)
RATE, LATENT_RATE = 1e-3, 1e-4  # Adam's, of the autoencoder and of the two models of its codes


class Autoencoder(nn.Module):
    """Pixels -> code -> pixels, each way with one hidden layer of 400 ReLUs.

    Reading: codes and decoded pixels are linear outputs, since a ReLU would fold the latent space at zero.
    """

    def __init__(self, pixels: int, dim: int, seed: int = 0):
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        sizes = {"encoder": (pixels, HIDDEN, dim), "decoder": (dim, HIDDEN, pixels)}
        parts = {name: [linear(a, b, generator) for a, b in pairwise(widths)] for name, widths in sizes.items()}
        self.encoder, self.decoder = (nn.Sequential(first, nn.ReLU(), last) for first, last in parts.values())

    def forward(self, x: Tensor) -> Tensor:
        """(N, P) -> (N, P)."""
        return self.decoder(self.encoder(x))

    @torch.inference_mode()
    def encode(self, pixels: Float[np.ndarray, "N P"]) -> Float[np.ndarray, "N D"]:
        """Codes of images."""
        return self.encoder(torch.from_numpy(pixels.astype(np.float32))).double().numpy()

    @torch.inference_mode()
    def decode(self, codes: Float[np.ndarray, "N D"]) -> Float[np.ndarray, "N P"]:
        """Images of codes, each pixel held to what a pixel can be, 0 to 1."""
        return self.decoder(torch.from_numpy(codes.astype(np.float32))).clamp(0, 1).double().numpy()


class TaperedScoreNet(ScoreNet):
    """A score network whose hidden layers differ in width: 128, 256 and 128, with SiLU."""

    def __init__(self, dim: int, seed: int = 0):
        nn.Module.__init__(self)
        generator = torch.Generator().manual_seed(seed)
        self.plain, self.with_slope = scores.ACTIVATIONS["silu"]  # type: ignore[assignment]
        self.residual = False
        self.first = linear(dim, SCORE_WIDTHS[0], generator)
        self.hidden = nn.ModuleList(linear(a, b, generator) for a, b in pairwise(SCORE_WIDTHS))  # type: ignore[assignment]
        self.last = linear(SCORE_WIDTHS[-1], dim, generator)
        nn.init.zeros_(self.last.weight)
        nn.init.zeros_(self.last.bias)


def affine_spec(dim: int) -> FlowSpec:
    """The shape of the affine flow; what the spec says of splines has no meaning here."""
    return FlowSpec(dim, FLOW_BLOCKS, FLOW_HIDDEN_LAYERS, FLOW_WIDTH, "silu", two_sided=True)


def affine_net(dim: int, seed: int = 0) -> SequenceINN:
    """Four affine coupling blocks with fixed permutations between them, still the identity but for those.

    Reading: a block is FrEIA's `GLOWCouplingBlock`, which changes both halves in turn, y = x exp s(u) + t(u), with s
    and t from one network for each half.
    """
    spec = affine_spec(dim)
    generator, order = torch.Generator().manual_seed(seed), np.random.default_rng(dim)
    net = SequenceINN(dim)
    for block in range(spec.blocks):
        if block:
            net.append(Permutation, order=order.permutation(dim))
        net.append(GLOWCouplingBlock, subnet_constructor=lambda seen, made: Subnet(seen, made, spec, generator))
    return net


def as_flow(net: SequenceINN, mean: Float[np.ndarray, " D"], scale: Float[np.ndarray, " D"]) -> Flow:
    """A net of `affine_net` as a density of codes."""
    return Flow(affine_spec(len(mean)), flows.folded(net), mean, scale)


def as_score_model(net: TaperedScoreNet, mean: Float[np.ndarray, " D"], scale: Float[np.ndarray, " D"]) -> ScoreModel:
    """A tapered net as the score of codes; the spec names its largest width."""
    spec = ScoreSpec(len(mean), len(SCORE_WIDTHS), max(SCORE_WIDTHS), "silu", residual=False)
    return ScoreModel(spec, net.double().eval().requires_grad_(False), mean, scale)


# --- training: the loop of core.training, with these nets ------------------------------------------------------------


def _settings(loss: str, rate: float, size: int, epochs: int, batch: int, noise: float = 0.0) -> FitSettings:
    """Adam at one rate for `epochs` passes over `size` points; the last weights are kept.

    Reading: the paper names no batch size here; it is 256 as in all its other experiments.
    """
    steps = max(1, round(epochs * size / batch))
    return FitSettings(loss, ((size, steps),), rate, batch, noise=noise, one_cycle=False, clip=None, average=None)


@training.one_thread()
def train_autoencoder(
    pixels: Float[np.ndarray, "N P"], dim: int, epochs: int, batch: int, seed: int = 0
) -> Autoencoder:
    """Train an autoencoder by the mean squared error of its pixels.

    Reading: the paper does not name the loss.

    Args:
        pixels: (N, P), from 0 to 1; they are not whitened, some never change.
        dim: D, of the codes.
        epochs: passes over the images.
        batch: images per step.
        seed: the same seed gives the same numbers.
    """

    def loss(net: nn.Module, batch: Tensor, generator: torch.Generator) -> Tensor:
        return (net(batch) - batch).square().mean()

    count = pixels.shape[1]
    plain = torch.from_numpy(pixels.astype(np.float32))
    data = training._Whitened(plain, None, np.zeros(count), np.ones(count), 0.0)
    settings = _settings("reconstruction", RATE, len(pixels), epochs, batch)
    net, _ = training._fit(Autoencoder(count, dim, seed), loss, data, settings, seed, "autoencoder", None, None, None)
    return net.eval().requires_grad_(False)


@training.one_thread()
def train_flow(codes: Float[np.ndarray, "N D"], epochs: int, batch: int, noise: float = 0.0, seed: int = 0) -> Flow:
    """Train the affine flow by maximum likelihood, -E log p(code + noise).

    Args:
        codes: (N, D), whitened per axis inside.
        epochs, batch, seed: as in `train_autoencoder`.
        noise: standard deviation of the noise added to whitened codes.
    """
    settings = _settings("likelihood", LATENT_RATE, len(codes), epochs, batch, noise)
    data = training._Whitened.of(codes, None, settings)

    def loss(net: nn.Module, batch: Tensor, generator: torch.Generator) -> Tensor:
        latent, log_det = net(batch + noise * torch.randn(batch.shape, generator=generator))
        return -(flows.standard_normal_log_density(latent) + log_det).mean()

    net, _ = training._fit(affine_net(data.dim, seed), loss, data, settings, seed, "flow", None, None, None)
    return as_flow(net, data.mean, data.scale)


@training.one_thread()
def train_score(codes: Float[np.ndarray, "N D"], epochs: int, batch: int, seed: int = 0) -> ScoreModel:
    """Train the tapered score model by sliced score matching; arguments as in `train_flow`."""
    settings = _settings("sliced", LATENT_RATE, len(codes), epochs, batch)
    data = training._Whitened.of(codes, None, settings)
    net, _ = training._fit(
        TaperedScoreNet(data.dim, seed),
        scores.sliced_score_matching_loss,
        data,
        settings,
        seed,
        "score model",
        None,
        None,
        None,
    )
    return as_score_model(net, data.mean, data.scale)


def weights(nets: dict[str, nn.Module]) -> dict[str, np.ndarray]:
    """Weights of several nets in float32, as "name.…"."""
    return {f"{name}.{key}": x.float().numpy() for name, net in nets.items() for key, x in net.state_dict().items()}


def fill(nets: dict[str, nn.Module], arrays: dict[str, np.ndarray]) -> None:
    """Put the weights that `weights` gave into nets of the same shapes.

    Raises:
        RuntimeError: if they do not fit.
    """
    for name, net in nets.items():
        start = f"{name}."
        net.load_state_dict({k.removeprefix(start): torch.tensor(x) for k, x in arrays.items() if k.startswith(start)})
