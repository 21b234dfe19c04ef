"""What the tables say of the paper: every claim of its experiments, a verdict and the number behind it.

A claim is judged by a function of a table, with the thresholds below, which were fixed before the full tables were
made; nobody edits a verdict by hand. `python -m core.experiments report` writes `REPORT.md` beside the tables.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from core.experiments import running
from core.experiments.running import Result

NAME = "REPORT.md"
COMMAND = "python -m core.experiments report"
# An LPR that falls like n^(-r) "converges" from r = 1/3 on (8 times the points halve it), and is "extremely slow" below
# r = 0.1 (it takes 1000 times the points).
CONVERGES, SLOW = 1 / 3, 0.1
# Rates are taken from this n on: with fewer points the spirals' gaps are not seen at all.
ENOUGH = 500
ALIKE = 1.5  # two LPR, or two rates, within this factor are "similar"
FAR = 3.0  # and beyond this factor "far" from each other
# In nats, a path that is 1 % longer than the geodesic is "very close" to it. In chords, so are curves that
# far apart; up to FAR times as much they are "approximately" the same, and beyond that they are not.
CLOSE = 0.01
LEAST_GAP = 1e-9  # the tables' digits


class Verdict(Enum):
    """What became of a claim."""

    CONFIRMED = "confirmed"
    IN_PART = "confirmed in part"
    NOT_CONFIRMED = "not confirmed"
    NOT_TESTABLE = "not testable here"
    NOT_RUN = "not run yet"

    def __str__(self) -> str:
        return self.value


Judgment = tuple[Verdict, str]


@dataclass(frozen=True)
class Claim:
    """Something that the paper says came out of an experiment.

    Attributes:
        said: the claim, in our words.
        where: in the paper.
        experiment: whose table judges it; "" for none, which makes it not testable.
        judge: table -> verdict and a sentence with the number.
        differs: where we differ from the paper, and why; for a claim without experiment, why there is none.
    """

    said: str
    where: str
    experiment: str = ""
    judge: Callable[[pd.DataFrame], Judgment] | None = None
    differs: str = ""


def judged(claim: Claim, results: Mapping[str, Result]) -> Judgment:
    """Verdict and number of a claim.

    Raises:
        ValueError: if the table lacks what the claim is judged by.
    """
    if claim.judge is None:
        return Verdict.NOT_TESTABLE, claim.differs
    if claim.experiment not in results:
        return Verdict.NOT_RUN, f"`python -m core.experiments run {claim.experiment}` has not been run"
    try:
        return claim.judge(results[claim.experiment].table)
    except (KeyError, IndexError, ValueError) as problem:
        raise ValueError(
            f"{claim.experiment}.csv does not have what {claim.said!r} is judged by: {problem!r}"
        ) from problem


def graded(holds: Iterable[Any], number: str) -> Judgment:
    """Confirmed where all hold, in part where some do."""
    found = [bool(one) for one in holds]
    if not found:
        raise ValueError("nothing to judge by")
    verdict = Verdict.CONFIRMED if all(found) else Verdict.IN_PART if any(found) else Verdict.NOT_CONFIRMED
    return verdict, number


# --- reading tables -------------------------------------------------------------------------------------------------


def rows(table: pd.DataFrame, **where: Any) -> pd.DataFrame:
    """The rows whose columns have those values.

    Raises:
        ValueError: if there are none.
    """
    chosen = table
    for name, value in where.items():
        chosen = chosen[chosen[name].isin(value) if isinstance(value, tuple) else chosen[name] == value]
    if chosen.empty:
        raise ValueError(f"no rows with {where}")
    return chosen


def mean_by(table: pd.DataFrame, by: str, column: str) -> pd.Series:
    """Mean of a column over seeds and whatever else, by another column."""
    return table.groupby(by, sort=True)[column].mean()


def enough(table: pd.DataFrame) -> pd.DataFrame:
    """The rows with n >= ENOUGH, if they are of two sizes; a rehearsal has less, and keeps all."""
    large = table[table["size"] >= ENOUGH]
    return large if large["size"].nunique() > 1 else table


def rate(table: pd.DataFrame, column: str = "mean_lpr") -> float:
    """r of the n^(-r) that an LPR falls by: minus the slope of its logarithm over log n, where n is `enough`."""
    by_size = mean_by(enough(table), "size", column)
    if len(by_size) < 2:
        raise ValueError("a rate needs two sizes")
    return float(-np.polyfit(np.log(by_size.index.to_numpy(float)), np.log(by_size.to_numpy()), 1)[0])


def _names(table: pd.DataFrame, column: str) -> list[Any]:
    return list(table[column].dropna().unique())


def _each(values: Mapping[Any, Any] | pd.Series, form: str = "{:.2f}", symbol: str = "") -> str:
    """Names with their numbers, as people read them; names that are numbers are values of the symbol."""
    return "; ".join(f"{_called(name, symbol)}: {form.format(*np.atleast_1d(value))}" for name, value in values.items())


def _called(name: Any, symbol: str) -> str:
    """A name of a table in words; a column with gaps gives its numbers a ".0" that says nothing."""
    said = f"{name:g}" if isinstance(name, float) else str(name).replace("_", " ").replace("gaussian", "Gaussian")
    return f"{symbol} = {said}" if symbol else said


# --- dimensions: figures 2 and 7 --------------------------------------------------------------------------------------


def _bends(table: pd.DataFrame) -> Judgment:
    closest = mean_by(rows(table, part="length", scaling="1"), "dim", "closest")
    first, last = closest.index[0], closest.index[-1]
    return graded(
        [(np.diff(closest) < 0).all() and closest[last] < closest[first] / 2],
        f"the geodesic comes as near to the origin as {closest[first]:.2f} √D for D = {first:.0f}, "
        f"{closest[last]:.3f} √D for D = {last:.0f}",
    )


def _same_shape(table: pd.DataFrame) -> Judgment:
    shapes = {
        scaling: np.stack([one[["x", "y"]] for _, one in rows(table, part="shape", scaling=scaling).groupby("dim")])
        for scaling in ("1/D", "1")
    }
    apart = {scaling: np.ptp(shape, axis=0).max() for scaling, shape in shapes.items()}
    return graded(
        [apart["1/D"] < CLOSE],
        f"scaled paths of all {len(shapes['1/D'])} dimensions are within {max(apart['1/D'], LEAST_GAP):.0e} √D of each "
        f"other (β = 1: {apart['1']:.2f} √D)",
    )


def _straighter(table: pd.DataFrame) -> Judgment:
    lengths = rows(table, part="length")
    last = lengths["dim"].max()
    at = {s: rows(lengths, dim=last, scaling=s).iloc[0] for s in ("1", "1/D")}
    line = np.sqrt(0.5)
    detour = {scaling: line - row["closest"] for scaling, row in at.items()}
    return graded(
        [detour["1/D"] < detour["1"], abs(at["1/D"]["log_length"]) < abs(at["1"]["log_length"])],
        f"D = {last:.0f}: the path leaves the straight line by {detour['1/D']:.2f} √D (β = 1: {detour['1']:.2f} √D), "
        f"and its log length is {at['1/D']['log_length']:.1f} (β = 1: {at['1']['log_length']:.1f})",
    )


def _lpr(table: pd.DataFrame, method: str, scaling: str, models: str) -> pd.Series:
    return mean_by(rows(table, part="lpr", method=method, scaling=scaling, models=models), "dim", "lpr")


GRAPHS_BY_MODELS = (("power", "points"), ("true_graph", "points"), ("flow", "fast"), ("flow", "paper"))


def _graphs_degrade(table: pd.DataFrame) -> Judgment:
    found = {
        f"{method}{f' ({models})' if models != 'points' else ''} at β = {scaling}": _lpr(table, method, scaling, models)
        for method, models in GRAPHS_BY_MODELS
        for scaling in ("1", "1/D")
    }
    ends = {name: (lpr.iloc[0], lpr.iloc[-1]) for name, lpr in found.items()}
    dims = next(iter(found.values())).index
    return graded(
        [last > FAR * first for first, last in ends.values()],
        f"mean LPR from D = {dims[0]:.0f} to {dims[-1]:.0f}: {_each(ends, '{:.2f} → {:.2f}')}",
    )


def _relaxation_lasts(table: pd.DataFrame) -> Judgment:
    found = {
        (models, scaling): (
            _lpr(table, "score", scaling, models).iloc[-1],
            min(_lpr(table, method, scaling, of).iloc[-1] for method, of in GRAPHS_BY_MODELS),
        )
        for models in ("fast", "paper")
        for scaling in ("1", "1/D")
    }
    said = {f"{models} preset at β = {scaling}": pair for (models, scaling), pair in found.items()}
    return graded(
        [score * FAR < graph for score, graph in found.values()],
        f"mean LPR in the largest dimension, beside the best graph's: {_each(said, '{:.3f} ({:.2f})')}",
    )


def _scaled_is_reliable(table: pd.DataFrame) -> Judgment:
    holds, said = [], {}
    for models in ("fast", "paper"):
        part = rows(table, part="lpr", method="score", models=models)
        lpr, converged = (mean_by(part, "scaling", column) for column in ("lpr", "converged"))
        holds += [lpr["1/D"] < lpr["1"], converged["1/D"] >= converged["1"]]
        said[f"{models} preset"] = (lpr["1/D"], lpr["1"], 100 * converged["1/D"], 100 * converged["1"])
    form = "LPR {:.3f} ({:.3f}), converged {:.0f} % ({:.0f} %)"
    return graded(holds, f"mean over all dimensions at β = 1/D (β = 1): {_each(said, form)}")


# --- parameterization: figure 3 ---------------------------------------------------------------------------------------


def _uneven_steps(table: pd.DataFrame) -> Judgment:
    part = rows(table, part="length")
    part = rows(part, steps=part["steps"].max())
    metric, euclidean = (mean_by(rows(part, form=form), "dataset", "spacing") for form in ("metric", "euclidean"))
    return graded(
        (metric > ALIKE) & (euclidean < 1.1),
        f"longest over shortest step, median over pairs: {_each(metric, '{:.0f}')}; "
        f"at constant Euclidean speed at most {euclidean.max():.2f}",
    )


def _slightly_longer(table: pd.DataFrame) -> Judgment:
    part = rows(table, part="length", dataset="gaussian_mixture")
    by_steps = {form: mean_by(rows(part, form=form), "steps", "solved") for form in ("metric", "euclidean")}
    more = 100 * (by_steps["metric"] - by_steps["euclidean"]).apply(np.expm1)
    return graded(
        [(more > 0).all(), ((more > 0.1 / FAR) & (more < 0.1 * FAR)).any()],
        f"Gaussian mixture, longer than at constant Euclidean speed: {_each(more, '{:+.2g} %', 'T')}",
    )


def _stabler(table: pd.DataFrame) -> Judgment:
    part = rows(table, part="solver")
    shares = {
        solver: tuple(
            100 * rows(part, solver=solver, form=form)["converged"].mean() for form in ("euclidean", "metric")
        )
        for solver in _names(part, "solver")
    }
    return graded(
        [euclidean > metric for euclidean, metric in shares.values()],
        f"solved at constant Euclidean (metric) speed: {_each(shares, '{:.0f} % ({:.0f} %)')}",
    )


def _speed_where_thin(table: pd.DataFrame) -> Judgment:
    from core import datasets

    path = rows(table, part="shape", form="metric")[["x", "y"]].to_numpy()
    density = datasets.load("gaussian_mixture").density
    steps = np.log(np.linalg.norm(np.diff(path, axis=0), axis=1))
    together = np.corrcoef(steps, density.log_density((path[1:] + path[:-1]) / 2))[0, 1]
    return graded(
        [together < 0],
        f"log step and log density correlate by {together:+.3f} along the drawn path: steps are long where the density "
        "is high",
    )


def _random_order_helps(table: pd.DataFrame) -> Judgment:
    part = rows(table, part="order")
    share, count = (mean_by(part, "order", column) for column in ("converged", "iterations"))
    others = [name for name in share.index if name != "random"]
    said = {name: (100 * share[name], count[name]) for name in share.index}
    return graded(
        [holds for name in others for holds in (share["random"] > share[name], count["random"] < count[name])],
        "share of pairs that Algorithm 1 solved, and its sweeps, means over datasets: "
        f"{_each(said, '{:.0f} %, {:.0f}')}",
    )


def _graph_first(table: pd.DataFrame) -> Judgment:
    part = rows(table, part="solver", form="euclidean")
    share, count = (mean_by(part, "guess", column) for column in ("geodesic", "iterations"))
    return graded(
        [share["graph"] > share["straight"], count["graph"] < count["straight"]],
        f"ends at the geodesic in {100 * share['graph']:.0f} % of the pairs from a graph's path, "
        f"{100 * share['straight']:.0f} % from a straight line, after {count['graph']:.0f} and "
        f"{count['straight']:.0f} iterations (means over solvers and datasets)",
    )


# --- methods on 200 points: figures 4 and 5 ---------------------------------------------------------------------------


def _power_is_roughest(table: pd.DataFrame) -> Judgment:
    means = mean_by(table, "method", "mean_lpr")
    others = means.drop(["power", "truth"])
    return graded(means["power"] > others, f"mean LPR: power {means['power']:.3f}, {_each(others, '{:.4f}')}")


def _model_graph_between(table: pd.DataFrame) -> Judgment:
    by_seed = table.pivot_table(index="seed", columns="method", values="mean_lpr")
    gap = by_seed["model_graph"] - by_seed["true_graph"]
    error = gap.std() / np.sqrt(len(gap))
    return graded(
        [by_seed["model_graph"].mean() < by_seed["power"].mean(), gap.mean() > 2 * error],
        f"mean LPR: model {by_seed['model_graph'].mean():.4f}, power {by_seed['power'].mean():.3f}; the model's is "
        f"above the true density's by {gap.mean():.4f} ± {error:.4f}, in {(gap > 0).sum()} of {len(gap)} samples",
    )


def _relaxed_is_close(table: pd.DataFrame) -> Judgment:
    means = mean_by(table, "method", "mean_lpr")
    return graded(
        [means["relaxed"] < CLOSE, means["relaxed"] * FAR < means["true_graph"]],
        f"mean LPR {means['relaxed']:.4f}; the graph with the true density has {means['true_graph']:.4f}",
    )


# --- convergence: figures 1 and 6 -------------------------------------------------------------------------------------


def _rates(table: pd.DataFrame, **where: Any) -> dict[str, float]:
    part = rows(table, **where)
    return {name: rate(rows(part, dataset=name)) for name in _names(part, "dataset")}


def _last(table: pd.DataFrame, **where: Any) -> dict[str, float]:
    """Mean LPR at the largest size, by dataset."""
    part = rows(table, **where)
    return {name: mean_by(rows(part, dataset=name), "size", "mean_lpr").iloc[-1] for name in _names(part, "dataset")}


def _follows_data(table: pd.DataFrame) -> Judgment:
    part = rows(table, dataset="gaussian_mixture", group="flow_fast", method="flow", rule="fixed")
    median = mean_by(part, "size", "median_lpr")
    return graded(
        [median.iloc[-1] < 0.05],
        f"half of the paths over the flow's graph are at most {100 * np.expm1(median.iloc[-1]):.1f} % longer than the "
        f"geodesic (n = {median.index[-1]})",
    )


def _power_stalls(table: pd.DataFrame) -> Judgment:
    rates = _rates(table, method="power")
    power = enough(rows(table, method="power"))
    ends = {
        name: tuple(mean_by(rows(power, dataset=name), "size", "mean_lpr").iloc[[0, -1]])
        for name in _names(power, "dataset")
    }
    return graded(
        [rates[name] < SLOW for name in ends],
        f"mean LPR from n = {power['size'].min()} to {power['size'].max()}: {_each(ends, '{:.2f} → {:.2f}')}; "
        f"it falls like n^-r with r at most {max(rates.values()):.2f}",
    )


def _truth_converges(table: pd.DataFrame) -> Judgment:
    rates = {rule: _rates(table, method="true_graph", rule=rule) for rule in ("growing", "fixed")}
    return graded(
        [min(one.values()) > CONVERGES for one in rates.values()],
        f"r of n^-r: {_each(rates['growing'])} if k grows like n^(1/3); {_each(rates['fixed'])} if k = 20",
    )


def _flow_keeps_up(table: pd.DataFrame) -> Judgment:
    holds, said = [], []
    for group in ("flow_fast", "flow_paper"):
        if group not in _names(table, "group"):  # a rehearsal does without the paper's
            continue
        flow = rows(table, group=group, method="flow", rule="growing")
        sizes = tuple(_names(flow, "size"))
        learned, true = _rates(flow), _rates(table, method="true_graph", rule="growing", size=sizes)
        holds += [learned[name] * ALIKE > true[name] for name in learned]
        both = {name: (learned[name], true[name]) for name in learned}
        preset = group.removeprefix("flow_")
        said.append(f"{preset} preset up to n = {max(sizes)}: {_each(both, '{:.2f} ({:.2f})')}")
    return graded(holds, f"r of n^-r, beside the true density's: {'; '.join(said)}")


def _power_is_inferior(table: pd.DataFrame) -> Judgment:
    power, flow = (
        (_rates(table, **which), _last(table, **which))
        for which in ({"method": "power"}, {"method": "flow", "group": "flow_fast", "rule": "growing"})
    )
    both = {name: (power[1][name], flow[1][name]) for name in flow[1]}
    return graded(
        [power[0][name] * FAR < flow[0][name] and power[1][name] > FAR * flow[1][name] for name in both],
        f"mean LPR at the largest n, power and flow: {_each(both, '{:.2f} and {:.3f}')}",
    )


def _relaxation_refines(table: pd.DataFrame) -> Judgment:
    score, graph = (_last(table, group="flow_fast", rule="fixed", method=name) for name in ("score", "flow"))
    both = {name: (score[name], graph[name]) for name in score}
    return graded(
        [after < before for after, before in both.values()],
        f"mean LPR at the largest n, relaxed and before: {_each(both, '{:.3f} and {:.3f}')}",
    )


# --- edge weights: figure 10 ------------------------------------------------------------------------------------------

ENDPOINT_RULES = ("inverse_of_mean", "mean_of_inverse", "max", "min")


def _nearest_neighbor_rules_stall(table: pd.DataFrame) -> Judgment:
    holds, said = [], {}
    for name in ENDPOINT_RULES:
        found = [rows(table, density="nearest_neighbor", rule=rule) for rule in ("fixed", "growing")]
        rates = [rate(rows(part, weights=name)) for part in found]
        factors = [_at_largest(part, name) / _at_largest(part, "power") for part in found]
        holds.append(max(rates) < SLOW and max(factors) < ALIKE and min(factors) > 1 / ALIKE)
        said[name] = (max(rates), *factors)
    return graded(
        holds,
        f"greatest r of n^-r, and LPR over that of power (k fixed, growing): {_each(said, '{:.2f}, {:.2f}, {:.2f}')}",
    )


def _at_largest(table: pd.DataFrame, weights: str) -> float:
    return float(mean_by(rows(table, weights=weights), "size", "mean_lpr").iloc[-1])


def _true_rules_converge(table: pd.DataFrame) -> Judgment:
    rates = {
        rule: {name: rate(rows(table, density="true", rule=rule, weights=name)) for name in ENDPOINT_RULES}
        for rule in ("growing", "fixed")
    }
    return graded(
        [one > CONVERGES for by_name in rates.values() for one in by_name.values()],
        f"r of n^-r: {_each(rates['growing'])} if k grows like n^(1/3); {_each(rates['fixed'])} if k = 20",
    )


def _density_is_the_bottleneck(table: pd.DataFrame) -> Judgment:
    both = {
        f"k {rule}": (
            _at_largest(rows(table, density="nearest_neighbor", rule=rule), "power"),
            _at_largest(rows(table, density="true", rule=rule), "midpoints"),
        )
        for rule in ("fixed", "growing")
    }
    return graded(
        [power > FAR * true for power, true in both.values()],
        "mean LPR over the same edges at the largest n, power weights and true density: "
        f"{_each(both, '{:.3f} and {:.3f}')}",
    )


# --- digits: table 1 and figure 9 -------------------------------------------------------------------------------------


def _own_class_is_nearer(table: pd.DataFrame) -> Judgment:
    part = rows(table, kind="difference", method="relaxed")
    difference, deviation = (mean_by(part, "first", name) for name in ("mean_log_distance", "standard_deviation"))
    least = difference.idxmin()
    return graded(
        [(difference > 0).all(), (difference > deviation).all()],
        f"{(difference > 0).sum()} of {len(difference)} digits; differences {difference.min():.2f} (digit {least:.0f}) "
        f"to {difference.max():.2f}, above their standard deviation for {(difference > deviation).sum()} "
        "(the paper: 0.46 to 2.04, all above)",
    )


def _ones_are_tight(table: pd.DataFrame) -> Judgment:
    intra = mean_by(rows(table, kind="intra", method="relaxed"), "first", "mean_log_distance").sort_values()
    return graded(
        [intra.index[0] == 1],
        f"1 has place {list(intra.index).index(1) + 1} of {len(intra)} with {intra[1]:.2f}; the tightest is "
        f"{intra.index[0]:.0f} with {intra.iloc[0]:.2f}",
    )


def _eights_are_ambiguous(table: pd.DataFrame) -> Judgment:
    difference = mean_by(rows(table, kind="difference", method="relaxed"), "first", "mean_log_distance").sort_values()
    return graded(
        [difference.index[0] == 8],
        f"8 has place {list(difference.index).index(8) + 1} of {len(difference)} with {difference[8]:.2f}; the least "
        f"difference is that of {difference.index[0]:.0f}, {difference.iloc[0]:.2f}",
    )


def _eights_are_near(table: pd.DataFrame) -> Judgment:
    apart = mean_by(rows(table, kind="distance", method="relaxed", first=8), "second", "mean_log_distance")
    near = apart.drop(8).sort_values().index[:4].astype(int)
    return graded([one in (3, 5, 6, 9) for one in near], f"nearest to the mean of 8: {', '.join(map(str, near))}")


# --- kernel densities: figures 11 and 12 ------------------------------------------------------------------------------


def _bandwidths_differ(table: pd.DataFrame) -> Judgment:
    part = rows(table, part="optimum")
    best = {f"n = {row['size']:.0f}, {row['weight']}": (row["log_density"], row["score"]) for _, row in part.iterrows()}
    return graded(
        [log_density < score for log_density, score in best.values()],
        f"best σ for the log density and for the score: {_each(best, '{:.2f} and {:.2f}')}; the former is the smaller "
        f"in {100 * part['ordered'].mean():.0f} % of single samples",
    )


def _one_spoils_the_other(table: pd.DataFrame) -> Judgment:
    part = rows(table, part="optimum", size=1000)
    growth = {
        row["weight"]: (row["log_density"], row["score_growth"], row["score"], row["log_density_growth"])
        for _, row in part.iterrows()
    }
    form = "score error times {1:.1f} at σ = {0:.2f}, log density error times {3:.1f} at σ = {2:.2f}"
    return graded(
        [one > ALIKE for _, score, _, log_density in growth.values() for one in (score, log_density)],
        f"n = 1000, by the weight: {_each(growth, form)}",
    )


# --- flow scores: sections 2.6 and 4.2.2 ------------------------------------------------------------------------------


def _flow_score_is_noisy(table: pd.DataFrame) -> Judgment:
    part = rows(table, part="paths")
    wide = {
        column: part.pivot(index=["preset", "dataset"], columns="method", values=column)
        for column in ("mean_lpr", "converged")
    }
    lpr, converged = wide["mean_lpr"], wide["converged"]
    scores = ["flow_score", "score"]
    means, shares = lpr.groupby("preset").mean(), 100 * converged.groupby("preset").mean()
    said = {
        f"{preset} preset": (*means.loc[preset, ["flow", *scores]], *shares.loc[preset, scores])
        for preset in means.index
    }
    form = "{0:.3f} → {1:.3f} ({2:.3f}), converged {3:.0f} % ({4:.0f} %)"
    return graded(
        [*(lpr["flow_score"] > lpr["score"]), *(converged["flow_score"] < converged["score"])],
        "mean LPR of the graph's paths → relaxed along the flow's own score (the learned score), means over datasets: "
        f"{_each(said, form)}",
    )


# --- scaling: appendix A.3 --------------------------------------------------------------------------------------------


def _largest_gaps(table: pd.DataFrame, family: str, scaling: str) -> pd.Series:
    return rows(table, part="collapse", family=family, scaling=scaling).groupby("parameter")["gap"].max()


def _gaussians_collapse(table: pd.DataFrame) -> Judgment:
    gaps = _largest_gaps(table, "generalized_gaussian", "1/D")
    return graded(gaps < CLOSE, f"largest gap between curves, as a share of the chord: {_each(gaps, '{:.1e}', 'α')}")


def _nothing_else_does(table: pd.DataFrame) -> Judgment:
    others = [name for name in _names(table, "scaling") if name != "1/D"]
    gaps = {name: _largest_gaps(table, "generalized_gaussian", name).min() for name in others}
    return graded(
        [gap > FAR * CLOSE for gap in gaps.values()],
        f"largest gap between curves, as a share of the chord, for the best α: {_each(gaps, '{:.2f}', 'β')}",
    )


def _student_collapses(table: pd.DataFrame) -> Judgment:
    gaps = _largest_gaps(table, "student_t", "1/D")
    return graded(
        gaps < FAR * CLOSE, f"largest gap between curves, as a share of the chord: {_each(gaps, '{:.3f}', 'ν')}"
    )


# --- the claims -------------------------------------------------------------------------------------------------------

OUR_K = (
    "The paper does not print its k. With a fixed k no graph path converges, whatever its density, since its zigzag "
    "stays; so we have a second rule, by which k grows like n^(1/3)."
)
OUR_N = "A smaller sample than the paper's 200,000, fewer pairs and fewer steps of training; the table's head has them."
OUR_DIGITS = (
    "The 1797 digits of 8x8 pixels that scikit-learn brings along, not MNIST (`--mnist` takes that, where there is a "
    "network). β is not printed in the paper; 0.1 is the 1/D that it recommends."
)

# In the order of the paper.
CLAIMS = (
    Claim(
        "Geodesics, and paths over a graph with a learned density, follow the data instead of the straight line.",
        "Fig. 1",
        "convergence",
        _follows_data,
        "The figure shows one pair; the number is for many.",
    ),
    Claim(
        "At β = 1 geodesics of the standard normal bend more and more sharply toward the origin as D grows.",
        "Fig. 2 left, section 2.2",
        "dimensions",
        _bends,
    ),
    Claim(
        "At β = 1/D they have the same shape in every dimension.",
        "Fig. 2 right, section 2.2",
        "dimensions",
        _same_shape,
    ),
    Claim(
        "At β = 1/D geodesics are nearly straight and lengths moderate, which is numerically stabler.",
        "abstract, section 2.2",
        "dimensions",
        _straighter,
    ),
    Claim(
        "At constant metric speed steps are of different sizes, at constant Euclidean speed of one.",
        "Fig. 3, section 2.3",
        "parameterization",
        _uneven_steps,
    ),
    Claim(
        "The discrete path at constant metric speed is slightly longer, by about 0.1 %.",
        "Fig. 3",
        "parameterization",
        _slightly_longer,
        "The paper prints neither its number of points nor its pair; the number is a mean over pairs.",
    ),
    Claim(
        "At constant metric speed the Euclidean velocity rises where the density drops.",
        "section 2.3",
        "parameterization",
        _speed_where_thin,
        "‖γ̇‖ p^(-β) is constant, so ‖γ̇‖ is proportional to p^β: it is the other way round.",
    ),
    Claim("The equation is easier to solve at constant Euclidean speed.", "section 2.3", "parameterization", _stabler),
    Claim(
        "Power-weighted paths are the roughest of all.", "Figs. 4 and 5", "methods_on_200_points", _power_is_roughest
    ),
    Claim(
        "A graph with a model density gives more direct paths, not quite as close as with the true density.",
        "Fig. 5",
        "methods_on_200_points",
        _model_graph_between,
    ),
    Claim(
        "Relaxing with the model's score comes very close to the true geodesic.",
        "Fig. 5",
        "methods_on_200_points",
        _relaxed_is_close,
    ),
    Claim(
        "The random order of updates avoids oscillation and speeds up convergence.",
        "section 3.1",
        "parameterization",
        _random_order_helps,
        "Judged with the true score, from a graph's path; everywhere else we solve the same equations by a Newton-type "
        "method, in which nothing is updated in turn.",
    ),
    Claim(
        "Starting relaxation from a graph's path avoids local minima and converges faster.",
        "section 3.3",
        "parameterization",
        _graph_first,
        "Judged with the true density and score; the paper's sentence is about learned ones.",
    ),
    Claim(
        "Power-weighted paths improve extremely slowly with the sample size, on every dataset.",
        "Fig. 6, section 4.1.1, abstract",
        "convergence",
        _power_stalls,
    ),
    Claim(
        "Paths over a graph weighed by the true density converge to the geodesic.",
        "Fig. 6, section 4.1.2",
        "convergence",
        _truth_converges,
        OUR_K,
    ),
    Claim(
        "With a learned flow they converge at nearly the same rate as with the true density.",
        "Fig. 6, section 4.1.3",
        "convergence",
        _flow_keeps_up,
        "The paper's recipe for flows is trained up to n = 1000 only; the fast preset is ours.",
    ),
    Claim(
        "The power-weighted graph converges at a far inferior rate.",
        "Fig. 6",
        "convergence",
        _power_is_inferior,
    ),
    Claim(
        "Other edge weights from the nearest-neighbor density do as poorly as power weights.",
        "Fig. 10, section 4.1.2, appendix C.2",
        "edge_weights",
        _nearest_neighbor_rules_stall,
    ),
    Claim(
        "The same weights from the true density converge quickly.",
        "Fig. 10, section 4.1.2, appendix C.2",
        "edge_weights",
        _true_rules_converge,
        OUR_K,
    ),
    Claim(
        "The density estimate is the bottleneck, not the graph.",
        "section 4.1.2, conclusion",
        "edge_weights",
        _density_is_the_bottleneck,
    ),
    Claim(
        "Relaxation with a learned score refines the graph's paths (in the plane).",
        "abstract, section 3.3",
        "convergence",
        _relaxation_refines,
        "Our score model learns by denoising and is guarded: the paper's sliced score matching does not learn spirals.",
    ),
    Claim(
        "All graph methods degrade rapidly as D grows, at β = 1 and at β = 1/D.",
        "Fig. 7, section 4.2.1",
        "dimensions",
        _graphs_degrade,
        OUR_N,
    ),
    Claim(
        "Relaxation with a learned score keeps working in high dimensions.",
        "Fig. 7, section 4.2.2",
        "dimensions",
        _relaxation_lasts,
        OUR_N,
    ),
    Claim(
        "It does so more reliably at β = 1/D than at β = 1.",
        "Fig. 7, section 4.2.2",
        "dimensions",
        _scaled_is_reliable,
    ),
    Claim(
        "The score that one gets by differentiating a flow is too noisy to relax with.",
        "sections 2.6, 3.3, 4.2.2",
        "flow_scores",
        _flow_score_is_noisy,
        "The paper shows no numbers for it; ours are of flows and score models in the plane, n = 1000.",
    ),
    Claim(
        "For generalized Gaussians exp(−‖x‖^α/α), β = 1/D keeps the shape of geodesics between typical points.",
        "appendix A.3",
        "alpha_scaling",
        _gaussians_collapse,
    ),
    Claim("No other rule for β does.", "appendix A.3", "alpha_scaling", _nothing_else_does),
    Claim(
        "For Student's t, β = 1/D does so approximately.",
        "appendix A.3",
        "alpha_scaling",
        _student_collapses,
        "For D much larger than ν curves tend to a limit again, but to another one than the normal's.",
    ),
    Claim(
        "MNIST: images are closer to the mean of their own digit than to others, by a safe margin.",
        "Table 1, section 4.3",
        "digits",
        _own_class_is_nearer,
        OUR_DIGITS,
    ),
    Claim("MNIST: 1s cluster most tightly.", "Table 1, appendix C.1", "digits", _ones_are_tight, OUR_DIGITS),
    Claim("MNIST: 8s are the most ambiguous.", "Table 1, appendix C.1", "digits", _eights_are_ambiguous, OUR_DIGITS),
    Claim("MNIST: an 8 easily becomes a 3, 5, 6 or 9.", "appendix C.1", "digits", _eights_are_near, OUR_DIGITS),
    Claim(
        "MNIST: the log distances of Table 1.",
        "Table 1",
        differs="Their scale is that of one autoencoder's latent space, which the paper does not print: scaling it by "
        "c adds 2 log c.",
    ),
    Claim(
        "MNIST: geodesics pass through digits that can be read, by reasonable transitions.",
        "Fig. 9, section 4.3",
        differs="A matter for eyes: the page draws such geodesics.",
    ),
    Claim(
        "The kernel bandwidth that is best for the log density is smaller than the one that is best for the score.",
        "Fig. 11, appendix C.3",
        "kde_tradeoff",
        _bandwidths_differ,
        "The paper does not say what it integrates over; over the line both errors are infinite. We weigh by the "
        "density, and take the interval [-3, 3].",
    ),
    Claim(
        "At the former the score is noisy, at the latter the log density oversmoothed.",
        "Fig. 12, appendix C.3",
        "kde_tradeoff",
        _one_spoils_the_other,
    ),
    Claim(
        "The same trade-off holds for every estimator, flows included, and is why score models win.",
        "appendix C.3, section 2.6",
        differs="A speculation, as the paper says; no experiment of it.",
    ),
)


# --- the file ---------------------------------------------------------------------------------------------------------


def write(folder: Path = running.RESULTS) -> Path:
    """Judge every claim by the tables in a folder; returns where the report is.

    Raises:
        ValueError: if a table is damaged or lacks a column.
    """
    results = {name: running.read(name, folder) for name in running.NAMES if (folder / f"{name}.csv").exists()}
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / NAME
    path.write_text(text(results))
    return path


def text(results: Mapping[str, Result]) -> str:
    """The report in Markdown."""
    verdicts = [judged(claim, results) for claim in CLAIMS]
    counts = Counter(verdict for verdict, _ in verdicts)
    lines = [
        "# What came out of the paper's experiments",
        "",
        f"Made by `{COMMAND}` from the tables beside it; thresholds are in `core/experiments/report.py`.",
        "LPR is the log path ratio: how much longer than the geodesic a path is, in nats.",
        "Models of the paper preset are trained by the paper's recipe, those of the fast preset by ours.",
        "",
        ", ".join(f"{counts[verdict]} {verdict}" for verdict in Verdict if counts[verdict]) + ".",
        "",
        *_table(
            ("Claim", "In the paper", "Verdict", "Number", "Table"),
            [
                (claim.said, claim.where, f"**{verdict}**", number, claim.experiment and f"`{claim.experiment}`")
                for claim, (verdict, number) in zip(CLAIMS, verdicts)
            ],
        ),
        "",
        "## Where we differ, and why",
        "",
    ]
    differences: dict[str, list[str]] = {}
    for claim in CLAIMS:
        if claim.judge and claim.differs:
            differences.setdefault(claim.differs, []).append(claim.said)
    lines += [f"- {' / '.join(said)} — {differs}" for differs, said in differences.items()]
    lines += ["", "## The tables", ""]
    lines += _table(
        ("Table", "Date", "Command", "Computing time", "Versions"),
        [
            (
                f"`{name}.csv`",
                result.about["date"],
                f"`{result.about['command']}`",
                running.duration(result.about["seconds"]) + (", a rehearsal" if is_rehearsal(result) else ""),
                ", ".join(f"{of} {version}" for of, version in result.about["versions"].items()),
            )
            for name, result in results.items()
        ],
    )
    return "\n".join([*lines, ""])


def is_rehearsal(result: Result) -> bool:
    """Whether a table comes from a quick command, so that its numbers mean little."""
    return "--quick" in result.about["command"].split()


def _table(header: Iterable[str], body: Iterable[Iterable[str]]) -> list[str]:
    columns = list(header)
    cells = [[cell.replace("|", "\\|") for cell in row] for row in body]
    return [f"| {' | '.join(row)} |" for row in [columns, ["---"] * len(columns), *cells]]
