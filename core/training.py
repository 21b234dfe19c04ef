"""Training of flows and score models from points, in two presets.

`paper` follows the paper's appendix ("Normalizing Flow Training", "Score Model Training"); `fast` trains in seconds.
Points are whitened per axis; both networks go through the same loop.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp
from torch import Tensor, nn

from core import flows, scores
from core.checkpoints import steps_for
from core.densities import as_points
from core.flows import Flow, FlowSpec
from core.scores import ScoreModel, ScoreNet, ScoreSpec

MIN_POINTS = 20
LOSS_WINDOW = 100  # steps averaged for "lowest training loss"
RECORD_WINDOW = 25  # steps averaged for the recorded losses of other fits
HELD_OUT_POINTS = 2000  # held-out points that are judged: more would cost time and show the same curve
INIT_POINTS = 20_000  # points that initialize ActNorm: more change nothing
BANDWIDTH_RANGE = (0.02, 2.0)  # whitened units; repeated points would drive a likelihood bandwidth to zero
BANDWIDTH_QUERIES, BANDWIDTH_POINTS = 600, 5000

Progress = Callable[[float, str], None]
Record = Callable[[int, float, float | None], None]  # of a step, the mean training loss since the last, held-out loss
Loss = Callable[[Any, Tensor, torch.Generator], Tensor]  # of a net, a batch and what draws its noise

Net = TypeVar("Net", bound=nn.Module)


@runtime_checkable
class Cancel(Protocol):
    """A flag such as `threading.Event`."""

    def is_set(self) -> bool:
        """Whether training should stop now."""


class Status(Enum):
    """How a training ended."""

    FINISHED = "Training ran to its end."
    CANCELLED = "Training was cancelled; the model is the last good one. Train again for the full number of steps."
    DIVERGED = "The loss became infinite; the model is the last good one. Try the fast preset, or look for outliers."

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True)
class FitSettings:
    """How one network is fitted.

    Args:
        loss: "likelihood" for flows; "sliced" or "denoising" for score models.
        steps: pairs (training set size, steps), interpolated in the logarithm of the size.
        learning_rate: Adam's; the peak of the schedule if `one_cycle`.
        batch: points per step; below 401 points at most a third of them.
        weight_decay: Adam's.
        noise: standard deviation of the noise added to the points, or σ of denoising, in whitened units; None is the
            leave-one-out bandwidth of the points times `noise_factor`.
        noise_factor: see `noise`.
        one_cycle: warm up and cool down the learning rate instead of holding it.
        clip: largest gradient norm, or None.
        average: decay of the exponential moving average of the weights that is kept, or None.
        keep_lowest: keep the weights with the lowest training loss instead of the last.
    """

    loss: str
    steps: tuple[tuple[int, int], ...]
    learning_rate: float
    batch: int = 256
    weight_decay: float = 0.0
    noise: float | None = None
    noise_factor: float = 1.0
    one_cycle: bool = True
    clip: float | None = 5.0
    average: float | None = 0.98
    keep_lowest: bool = False

    def steps_for(self, size: int) -> int:
        """Steps for a training set of `size` points."""
        return steps_for(self.steps, size)


@dataclass(frozen=True)
class TrainingSettings:
    """A preset: how its flow and its score model are fitted; the shapes are `FlowSpec.paper` and so on."""

    flow: FitSettings
    score: FitSettings


# Reading: the paper prints 2500 · 2^(n // 1000) iterations, which explodes; here 2500 · 2^min(n // 1000, 4).
_PAPER_STEPS = tuple(
    pair for k in range(5) for pair in ((max(1000 * k, 1), 2500 * 2**k), (1000 * k + 999, 2500 * 2**k))
)
_PAPER = FitSettings(
    loss="likelihood",
    steps=_PAPER_STEPS,
    learning_rate=5e-4,
    weight_decay=1e-6,
    noise=1e-5,
    one_cycle=False,
    clip=None,
    average=None,
    keep_lowest=True,
)
PRESETS = {
    "paper": TrainingSettings(flow=_PAPER, score=replace(_PAPER, loss="sliced", learning_rate=1e-3, noise=0.0)),
    "fast": TrainingSettings(
        flow=FitSettings("likelihood", ((300, 400), (1000, 700), (5000, 1500)), learning_rate=5e-3, noise_factor=0.8),
        score=FitSettings(
            "denoising", ((300, 1000), (1000, 1500), (5000, 3000)), learning_rate=2e-3, batch=512, average=0.99
        ),
    ),
}


@dataclass(frozen=True)
class FitReport:
    """How one fit went.

    Args:
        status: how it ended.
        steps: steps taken.
        seconds: wall clock.
        noise: standard deviation of the noise used, whitened units.
        losses: pairs (step, mean training loss since the pair before), in whitened units.
        held_out_losses: pairs (step, loss on held-out points); empty if there were none.
    """

    status: Status
    steps: int
    seconds: float
    noise: float
    losses: tuple[tuple[int, float], ...]
    held_out_losses: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True)
class TrainingReport:
    """How a training went: the fits of the flow and of the score model, the latter None if it was never begun."""

    status: Status
    seconds: float
    flow: FitReport
    score: FitReport | None


@dataclass(frozen=True)
class Trained:
    """A flow and a score model; the latter is None where training was cancelled before it began."""

    flow: Flow
    score_model: ScoreModel | None
    report: TrainingReport


@contextmanager
def one_thread() -> Iterator[None]:
    """Small networks gain little from a second thread, lose much to it on a busy machine, and repeat exactly on one."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def train(
    points: Float[np.ndarray, "N D"],
    preset: str = "fast",
    seed: int = 0,
    progress: Progress | None = None,
    cancel: Cancel | None = None,
    held_out: Float[np.ndarray, "M D"] | None = None,
    record: Record | None = None,
) -> Trained:
    """Train a flow, then a score model.

    Args:
        points: (N, D) data units, N >= 20, D >= 2.
        preset: a name in `PRESETS`.
        seed: the same seed gives the same numbers.
        progress: called often with the fraction done and a line of text.
        cancel: a flag; once set, training ends within a second and keeps the last good models.
        held_out: (M, D) points that no step sees, for the report only; the first 2000 are judged.
        record: told every pair of losses as it is recorded: first the flow's, then, from a small step again, the
            score model's.

    Raises:
        ValueError: for an unknown preset, or points that cannot be trained on.
    """
    began, share = time.perf_counter(), 0.5
    tell = progress or (lambda fraction, message: None)
    flow, flow_report = train_flow(points, preset, seed, lambda f, m: tell(share * f, m), cancel, held_out, record)
    score_model, score_report = None, None
    if not (cancel and cancel.is_set()):
        score_model, score_report = train_score(
            points, preset, seed, lambda f, m: tell(share + (1 - share) * f, m), cancel, held_out, record
        )
    statuses = [flow_report.status, score_report.status if score_report else Status.CANCELLED]
    status = next((s for s in (Status.CANCELLED, Status.DIVERGED) if s in statuses), Status.FINISHED)
    return Trained(flow, score_model, TrainingReport(status, time.perf_counter() - began, flow_report, score_report))


@one_thread()
def train_flow(
    points: Float[np.ndarray, "N D"],
    preset: str = "fast",
    seed: int = 0,
    progress: Progress | None = None,
    cancel: Cancel | None = None,
    held_out: Float[np.ndarray, "M D"] | None = None,
    record: Record | None = None,
    spec: FlowSpec | None = None,
    settings: FitSettings | None = None,
) -> tuple[Flow, FitReport]:
    """Train a flow by maximum likelihood, -E log p(x); arguments as in `train`, spec and settings replace the preset's.

    ActNorm is initialized on the whole training set before the first step; batch normalization is folded away after
    the last.
    """
    settings = settings or _preset(preset).flow
    data = _Whitened.of(points, held_out, settings)
    spec = spec or getattr(FlowSpec, preset)(data.dim)
    net = flows.build(spec, seed)
    with torch.no_grad():
        net(data.points[:: 1 + len(data.points) // INIT_POINTS])

    def loss(net: nn.Module, batch: Tensor, generator: torch.Generator) -> Tensor:
        z = batch + data.noise * torch.randn(batch.shape, generator=generator)
        latent, log_det = net(z)
        return -(flows.standard_normal_log_density(latent) + log_det).mean()

    net, report = _fit(net, loss, data, settings, seed, "flow", progress, cancel, record)
    return Flow(spec, flows.folded(net), data.mean, data.scale), report


@one_thread()
def train_score(
    points: Float[np.ndarray, "N D"],
    preset: str = "fast",
    seed: int = 0,
    progress: Progress | None = None,
    cancel: Cancel | None = None,
    held_out: Float[np.ndarray, "M D"] | None = None,
    record: Record | None = None,
    spec: ScoreSpec | None = None,
    settings: FitSettings | None = None,
) -> tuple[ScoreModel, FitReport]:
    """Train a score model by score matching; arguments as in `train_flow`.

    For denoising the network predicts σ s(z), whose size is about one whatever the data, and is rescaled at the end.
    """
    settings = settings or _preset(preset).score
    data = _Whitened.of(points, held_out, settings)
    spec = spec or getattr(ScoreSpec, preset)(data.dim)

    sliced = settings.loss == "sliced"
    unit = 1.0 if sliced else data.noise

    def loss(net: nn.Module, batch: Tensor, generator: torch.Generator) -> Tensor:
        if sliced:
            return scores.sliced_score_matching_loss(net, batch, generator)
        return scores.denoising_score_matching_loss(lambda z: net(z) / unit, batch, data.noise, generator)

    net, report = _fit(ScoreNet(spec, seed), loss, data, settings, seed, "score model", progress, cancel, record)
    net = net.rescale(1 / unit).double().eval().requires_grad_(False)
    return ScoreModel(spec, net, data.mean, data.scale), report


@dataclass(frozen=True)
class _Whitened:
    """Training points (N, D) and held-out points in whitened units, how to come back, and the noise to train with."""

    points: Tensor
    held_out: Tensor | None
    mean: np.ndarray
    scale: np.ndarray
    noise: float

    @property
    def dim(self) -> int:
        return self.points.shape[1]

    @classmethod
    def of(cls, points: np.ndarray, held_out: np.ndarray | None, settings: FitSettings) -> "_Whitened":
        points = as_points(points, None, "points")
        if len(points) < MIN_POINTS:
            raise ValueError(f"points: wanted at least {MIN_POINTS} to train on, got {len(points)}")
        mean, scale = points.mean(0), points.std(0)
        flat = np.flatnonzero(~(scale > 1e-12 * np.abs(points).max(0)))
        if len(flat):
            raise ValueError(
                f"points: wanted some spread in every column, got the same value all along column {flat[0]}"
            )
        z = (points - mean) / scale
        noise = settings.noise
        if noise is None:
            noise = settings.noise_factor * bandwidth(z)
        held = None if held_out is None else flows.whitened(held_out[:HELD_OUT_POINTS], mean, scale)
        return cls(torch.from_numpy(z.astype(np.float32)), held, mean, scale, noise)


def bandwidth(z: Float[np.ndarray, "N D"]) -> float:
    """Bandwidth of a Gaussian kernel density that maximizes the leave-one-out likelihood.

    Up to 600 of the points are judged, spread over the rows.  Above 5000 rows the density is made of every m-th one
    and its bandwidth is scaled by m^(-1/(D + 4)).

    Args:
        z: (N, D), whitened points.
    """
    size, dim = z.shape
    thin = 1 + (size - 1) // BANDWIDTH_POINTS
    z = z[::thin]
    rows = np.unique(np.linspace(0, len(z) - 1, BANDWIDTH_QUERIES).astype(int))
    squared = np.maximum((z[rows] ** 2).sum(1)[:, None] + (z**2).sum(1) - 2 * z[rows] @ z.T, 0)
    squared[np.arange(len(rows)), rows] = np.inf

    def loss(log_h: float) -> float:
        return dim * log_h - float(logsumexp(-0.5 * np.exp(-2 * log_h) * squared, axis=1).mean())

    found = minimize_scalar(loss, bounds=tuple(np.log(BANDWIDTH_RANGE)), method="bounded", options={"xatol": 0.02})
    return float(np.exp(found.x)) * thin ** (-1 / (dim + 4))


def _preset(name: str) -> TrainingSettings:
    if name not in PRESETS:
        raise ValueError(f"preset: wanted one of {', '.join(PRESETS)}, got {name!r}")
    return PRESETS[name]


def _fit(
    net: Net,
    loss: Loss,
    data: _Whitened,
    settings: FitSettings,
    seed: int,
    name: str,
    progress: Progress | None,
    cancel: Cancel | None,
    record: Record | None,
) -> tuple[Net, FitReport]:
    """The loop that both networks share.

    Reading of the paper's "lowest training loss": the mean over windows of 100 minibatches, since the loss of one is
    mostly noise; the weights and batch statistics at the end of the best window are kept.
    """
    began, size = time.perf_counter(), len(data.points)
    generator = torch.Generator().manual_seed(seed)
    steps, batch = settings.steps_for(size), settings.batch if size > 400 else min(settings.batch, size // 3)
    # All weights in one call: the same numbers as one by one, with less of the interpreter.
    optimizer = torch.optim.Adam(
        net.parameters(), settings.learning_rate, weight_decay=settings.weight_decay, foreach=True
    )
    schedule = (
        torch.optim.lr_scheduler.OneCycleLR(optimizer, settings.learning_rate, total_steps=steps)
        if settings.one_cycle
        else None
    )
    window_size = LOSS_WINDOW if settings.keep_lowest else RECORD_WINDOW
    kept, lowest = deepcopy(net), np.inf
    window: list[float] = []
    losses: list[tuple[int, float]] = []
    held_out_losses: list[tuple[int, float]] = []
    status, step = Status.FINISHED, 0
    net.train()
    for step in range(1, steps + 1):
        if cancel and cancel.is_set():
            status, step = Status.CANCELLED, step - 1
            break
        rows = torch.randperm(size, generator=generator)[:batch]
        optimizer.zero_grad()
        value = loss(net, data.points[rows], generator)
        value.backward()
        norm = nn.utils.clip_grad_norm_(net.parameters(), settings.clip or float("inf"))
        if not (torch.isfinite(value) and torch.isfinite(norm)):
            status, step = Status.DIVERGED, step - 1
            break
        optimizer.step()
        if schedule:
            schedule.step()
        if settings.average:
            _average(kept, net, min(settings.average, (1 + step) / (10 + step)))
        window.append(value.item())
        if len(window) == window_size or step == steps:
            mean = float(np.mean(window))
            losses.append((step, mean))
            if not settings.average and (not settings.keep_lowest or mean < lowest):
                kept, lowest = deepcopy(net), mean
            judged = None if data.held_out is None else _held_out_loss(kept, loss, data.held_out)
            if judged is not None:
                held_out_losses.append((step, judged))
            if record:
                record(step, mean, judged)
            window = []
        if progress and (step % 10 == 0 or step == steps):
            progress(step / steps, f"{name}: step {step} of {steps}, loss {np.mean(window or [losses[-1][1]]):.3f}")
    seconds = time.perf_counter() - began
    return kept, FitReport(status, step, seconds, data.noise, tuple(losses), tuple(held_out_losses))


@torch.no_grad()
def _average(kept: nn.Module, net: nn.Module, decay: float) -> None:
    """kept <- decay · kept + (1 - decay) · net."""
    torch._foreach_lerp_(list(kept.parameters()), list(net.parameters()), 1 - decay)


def _held_out_loss(net: nn.Module, loss: Loss, held_out: Tensor) -> float:
    with torch.no_grad():
        return float(loss(net.eval(), held_out, torch.Generator().manual_seed(0)))


if __name__ == "__main__":
    from core.checkpoints import main

    main()
