"""The kernel bandwidth that is best for a log density, and the one that is best for its score (paper, figures 11 and 12
and their appendix, "Trade-off Between Log Density and Score Estimation").

The density is the one-dimensional standard normal, the estimate a Gaussian kernel density with bandwidth σ:

    p̂(x) = 1/(n σ sqrt(2π)) Σ_i exp(−(x − x_i)²/2σ²),    ŝ(x) = d/dx log p̂(x),
    MISE = E ∫ (log p̂ − log p)² w(x) dx,  and the same for the score, E over samples.

The paper does not say what it integrates over. Over the whole line with w = 1 the integrals are infinite for every σ,
since log p̂ falls off by 1/σ² and log p by 1. So two readings stand side by side: "density", w = p, the error where the
points are, and "interval", w = 1 on [−3, 3].
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from core.densities import standard_normal
from core.experiments.running import Cell, Experiment, Row, watched

TARGETS = ("log_density", "score")
# w(x) of the integral; beyond |x| = REACH the weight p has less than 1e-6 left.
WEIGHTS: Mapping[str, Callable[[np.ndarray], np.ndarray]] = {
    "density": lambda x: np.exp(-0.5 * x * x) / np.sqrt(2 * np.pi),
    "interval": lambda x: (np.abs(x) <= 3.0).astype(np.float64),
}
REACH, NODES = 5.0, 401
DRAWN_NODES = 121


@dataclass(frozen=True)
class Spec:
    """Settings.

    Attributes:
        sizes: n; the paper's is 1000.
        draws: samples of each size.
        narrowest, widest, bandwidths: σ, so many, evenly spaced in the logarithm.
        seed: of the first sample; the others count on.
    """

    sizes: tuple[int, ...] = (250, 1000, 4000)
    draws: int = 100
    narrowest: float = 0.08
    widest: float = 1.2
    bandwidths: int = 56
    seed: int = 0

    @property
    def grid(self) -> np.ndarray:
        """The bandwidths, (B,)."""
        return np.geomspace(self.narrowest, self.widest, self.bandwidths)


def cells(spec: Spec) -> list[Cell]:
    """For each size the errors over the bandwidth, the optima, and the estimates at the optima."""
    return [{"part": part, "size": size} for size in spec.sizes for part in ("mise", "optimum", "estimate")]


def measure(spec: Spec, cell: Cell) -> list[Row]:
    """Rows of one cell, by its part.

    mise: mean over the draws and its standard error, for each weight, target and bandwidth.
    optimum: for each weight, the bandwidths that are best for the log density and for the score (of the mean error),
        with the standard error of the best of single draws; the share of draws in which the former is the smaller; and
        by what factor each error grows at the other's bandwidth.
    estimate: log density and score of the first draw at both optima, with w = p, beside the truth.
    """
    if cell["part"] == "mise":
        return _mise(spec, cell["size"])
    if cell["part"] == "optimum":
        return [{"weight": weight} | _optimum(spec, cell["size"], weight) for weight in WEIGHTS]
    best, rows = _optimum(spec, cell["size"], "density"), []
    x = np.linspace(-4, 4, DRAWN_NODES)
    sample = _sample(spec, cell["size"], 0)
    for target in TARGETS:
        log_density, score = kernel_estimates(sample, x, best[target])
        for values in zip(x, log_density, score):
            drawn = dict(zip(("x", "log_density", "score"), map(float, values)))
            truth = {"true_log_density": -0.5 * drawn["x"] ** 2 - 0.5 * np.log(2 * np.pi), "true_score": -drawn["x"]}
            rows.append({"best_for": target, "bandwidth": best[target]} | drawn | truth)
    return rows


def kernel_estimates(sample: np.ndarray, x: np.ndarray, bandwidth: float) -> tuple[np.ndarray, np.ndarray]:
    """log p̂ and ŝ at the points x (M,), from the sample (N,)."""
    away = x[:, None] - sample
    exponent = away * away / (-2 * bandwidth**2)
    top = exponent.max(axis=1)
    kernels = np.exp(exponent - top[:, None])
    total = kernels.sum(axis=1)
    log_density = top + np.log(total) - np.log(len(sample) * bandwidth * np.sqrt(2 * np.pi))
    return log_density, -(kernels * away).sum(axis=1) / (bandwidth**2 * total)


def _sample(spec: Spec, size: int, draw: int) -> np.ndarray:
    return standard_normal(1).sample(size, spec.seed + draw)[:, 0]


@lru_cache(maxsize=8)
def integrated_errors(spec: Spec, size: int) -> Mapping[tuple[str, str], np.ndarray]:
    """Integrated squared errors (draws, B) by weight and target."""
    x = np.linspace(-REACH, REACH, NODES)
    weights = {name: rule(x) * (x[1] - x[0]) for name, rule in WEIGHTS.items()}
    truth = {"log_density": -0.5 * x * x - 0.5 * np.log(2 * np.pi), "score": -x}
    errors = {(weight, target): np.empty((spec.draws, spec.bandwidths)) for weight in WEIGHTS for target in TARGETS}
    for draw in watched(range(spec.draws), "samples"):
        sample = _sample(spec, size, draw)
        for place, bandwidth in enumerate(spec.grid):
            for target, values in zip(TARGETS, kernel_estimates(sample, x, bandwidth)):
                for weight, share in weights.items():
                    errors[weight, target][draw, place] = share @ (values - truth[target]) ** 2
    return errors


def _mise(spec: Spec, size: int) -> list[Row]:
    return [
        {"weight": weight, "target": target, "bandwidth": bandwidth, "mise": mean, "mise_error": error}
        for (weight, target), each in integrated_errors(spec, size).items()
        for bandwidth, mean, error in zip(spec.grid, each.mean(axis=0), _standard_error(each))
    ]


def _optimum(spec: Spec, size: int, weight: str) -> Row:
    errors = {target: integrated_errors(spec, size)[weight, target] for target in TARGETS}
    best = {target: int(each.mean(axis=0).argmin()) for target, each in errors.items()}
    best_each = {target: spec.grid[each.argmin(axis=1)] for target, each in errors.items()}
    row: Row = {}
    for target, other in (TARGETS, TARGETS[::-1]):
        mise = errors[target].mean(axis=0)
        row |= {
            target: spec.grid[best[target]],
            f"{target}_each": best_each[target].mean(),
            f"{target}_error": _standard_error(best_each[target][:, None])[0],
            f"{target}_growth": mise[best[other]] / mise[best[target]],
        }
    return row | {"ordered": np.mean(best_each["log_density"] < best_each["score"])}


def _standard_error(values: np.ndarray) -> np.ndarray:
    """Of the mean over the first axis, (draws, B) -> (B,)."""
    return values.std(axis=0, ddof=1) / np.sqrt(len(values))


EXPERIMENT = Experiment(
    name="kde_tradeoff",
    paper="Figures 11 and 12",
    question="Is the bandwidth that is best for the log density smaller than the one that is best for the score?",
    full=Spec(),
    quick=Spec(sizes=(1000,), draws=4, bandwidths=24),
    cells=cells,
    measure=measure,
    small=lambda spec: {"part": "mise", "size": min(spec.sizes)},
)
