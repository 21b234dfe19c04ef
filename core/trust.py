"""What a path is worth where there is no truth: do the densities learned from the points agree about it?

A density can bridge a gap or tear a bridge that the data does not settle, and its own path will not tell. So every
path is measured by every learned density, each against the best path at hand: a density's *regret* of a path is how
much longer (nats) it finds the path than that one. Two densities that both knew the truth would have no regrets.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.special import logsumexp

from core.paths import LogDensity, arc_length, resample

# Regrets above this are more than the usual error of densities learned from 200 to 2000 points of the five datasets:
# see `tests/benchmarks/test_trust_bench.py` for how often it warns, rightly and wrongly.
REGRET = 0.04
STEPS = 200
# Marked stretches closer than this share of the path are drawn as one, and none is shorter than it.
SHORTEST_MARK = 0.02


@dataclass(frozen=True)
class Verdict:
    """What the learned densities think of one path.

    Attributes:
        regrets: of each density, nats >= 0: how much longer it finds this path than its best one.
        disputed: some density has a regret above REGRET, and some other has none.
        detour: all of them have.
        marks: pairs (i, j) of indices of the path's points: where the density with the largest regret pays for it.
    """

    regrets: Mapping[str, float]
    disputed: bool
    detour: bool
    marks: tuple[tuple[int, int], ...]


def judge(
    candidates: Mapping[str, Float[np.ndarray, "_ D"]], log_densities: Mapping[str, LogDensity], beta: float
) -> dict[str, Verdict]:
    """Measure every path by every density.

    Args:
        candidates: paths between the same endpoints, by name; each is also what the others are measured against.
        log_densities: (N, D) -> (N,), by name.
        beta: inverse temperature.
    """
    fine = {name: resample(path, STEPS) for name, path in candidates.items()}
    middles = np.concatenate([(path[:-1] + path[1:]) / 2 for path in fine.values()])
    steps = np.array([arc_length(path)[-1] / STEPS for path in fine.values()])
    rates = {
        name: np.log(steps)[:, None] - beta * log_density(middles).reshape(len(fine), STEPS)
        for name, log_density in log_densities.items()
    }
    lengths = {name: logsumexp(rate, axis=1) for name, rate in rates.items()}
    verdicts = {}
    for row, (name, path) in enumerate(candidates.items()):
        regrets = {density: float(length[row] - length.min()) for density, length in lengths.items()}
        worst = max(regrets, key=lambda density: regrets[density])
        above = [regret > REGRET for regret in regrets.values()]
        marks: tuple[tuple[int, int], ...] = ()
        if any(above):
            dear = _dear_steps(rates[worst][row], float(lengths[worst].min()) + REGRET)
            marks = _stretches(dear, path)
        verdicts[name] = Verdict(regrets, any(above) and not all(above), all(above), marks)
    return verdicts


def _dear_steps(rates: np.ndarray, allowed: float) -> np.ndarray:
    """The steps that cost more than c, where c is such that with no step dearer than c the path would be allowed."""
    costs = np.exp(rates - rates.max())
    budget = np.exp(min(allowed - float(rates.max()), 700.0))
    ordered = np.sort(costs)
    # With the m cheapest steps as they are and the others capped at c, the path costs sum(cheapest) + c (T - m).
    spent = np.concatenate([[0.0], np.cumsum(ordered)[:-1]])
    caps = (budget - spent) / np.arange(len(costs), 0, -1)
    fits = np.flatnonzero(caps <= ordered)
    cap = caps[fits[0]] if len(fits) else np.inf
    return costs > cap


def _stretches(dear: np.ndarray, path: np.ndarray) -> tuple[tuple[int, int], ...]:
    """Steps of equal length -> pairs of indices of the path's own points around them."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], dear, [False]]).astype(int)))
    spans: list[list[float]] = []
    for first, last in zip((edges[::2] / STEPS).tolist(), (edges[1::2] / STEPS).tolist()):
        if spans and first - spans[-1][1] < SHORTEST_MARK:
            spans[-1][1] = last
        else:
            spans.append([first, last])
    along = arc_length(path)
    along = along / along[-1]
    marks = []
    for first, last in spans:
        i = max(0, int(np.searchsorted(along, first + 1e-9, side="right")) - 1)
        j = min(len(path) - 1, max(i + 1, int(np.searchsorted(along, last - 1e-9))))
        marks.append((i, j))
    return tuple(marks)
