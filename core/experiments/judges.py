"""From the tables to verdicts: what a claim needs in order to be called confirmed, by thresholds that were fixed before
the full tables were made. The claims themselves are in `core.experiments.report`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any

import numpy as np
import pandas as pd

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


def bends(table: pd.DataFrame) -> Judgment:
    """Whether the closest approach to the origin falls with every D, and by more than half over all."""
    closest = mean_by(rows(table, part="length", scaling="1"), "dim", "closest")
    first, last = closest.index[0], closest.index[-1]
    return graded(
        [(np.diff(closest) < 0).all() and closest[last] < closest[first] / 2],
        f"the geodesic comes as near to the origin as {closest[first]:.2f} √D for D = {first:.0f}, "
        f"{closest[last]:.3f} √D for D = {last:.0f}",
    )


def same_shape(table: pd.DataFrame) -> Judgment:
    """Whether scaled paths at β = 1/D are one curve."""
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


def straighter(table: pd.DataFrame) -> Judgment:
    """Whether, in the largest dimension, β = 1/D leaves the straight line by less and has the smaller log length."""
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


def graphs_degrade(table: pd.DataFrame) -> Judgment:
    """Whether the LPR over each graph grows far from the smallest to the largest dimension."""
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


def relaxation_lasts(table: pd.DataFrame) -> Judgment:
    """Whether relaxed paths are far better than the best graph's in the largest dimension."""
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


def scaled_is_reliable(table: pd.DataFrame) -> Judgment:
    """Whether β = 1/D has the smaller LPR and at least as many converged paths."""
    holds, said = [], {}
    for models in ("fast", "paper"):
        part = rows(table, part="lpr", method="score", models=models)
        lpr, converged = (mean_by(part, "scaling", column) for column in ("lpr", "converged"))
        holds += [lpr["1/D"] < lpr["1"], converged["1/D"] >= converged["1"]]
        said[f"{models} preset"] = (lpr["1/D"], lpr["1"], 100 * converged["1/D"], 100 * converged["1"])
    form = "LPR {:.4f} ({:.4f}), converged {:.0f} % ({:.0f} %)"
    return graded(holds, f"mean over all dimensions at β = 1/D (β = 1): {_each(said, form)}")


# --- parameterization: figure 3 ---------------------------------------------------------------------------------------


def uneven_steps(table: pd.DataFrame) -> Judgment:
    """Whether steps differ at constant metric speed, and not at constant Euclidean speed."""
    part = rows(table, part="length")
    part = rows(part, steps=part["steps"].max())
    metric, euclidean = (mean_by(rows(part, form=form), "dataset", "spacing") for form in ("metric", "euclidean"))
    return graded(
        (metric > ALIKE) & (euclidean < 1.1),
        f"longest over shortest step, median over pairs: {_each(metric, '{:.0f}')}; "
        f"at constant Euclidean speed at most {euclidean.max():.2f}",
    )


def slightly_longer(table: pd.DataFrame) -> Judgment:
    """Whether constant metric speed is always the longer, and somewhere by about 0.1 %."""
    part = rows(table, part="length", dataset="gaussian_mixture")
    by_steps = {form: mean_by(rows(part, form=form), "steps", "solved") for form in ("metric", "euclidean")}
    more = 100 * (by_steps["metric"] - by_steps["euclidean"]).apply(np.expm1)
    return graded(
        [(more > 0).all(), ((more > 0.1 / FAR) & (more < 0.1 * FAR)).any()],
        f"Gaussian mixture, longer than at constant Euclidean speed: {_each(more, '{:+.2g} %', 'T')}",
    )


def stabler(table: pd.DataFrame) -> Judgment:
    """Whether each solver solves more pairs at constant Euclidean speed."""
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


def speed_where_thin(table: pd.DataFrame) -> Judgment:
    """Whether, along the drawn path, steps are long where the density is low."""
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


def random_order_helps(table: pd.DataFrame) -> Judgment:
    """Whether random order solves more pairs, in fewer sweeps, than each other order."""
    part = rows(table, part="order")
    share, count = (mean_by(part, "order", column) for column in ("converged", "iterations"))
    others = [name for name in share.index if name != "random"]
    said = {name: (100 * share[name], count[name]) for name in share.index}
    return graded(
        [holds for name in others for holds in (share["random"] > share[name], count["random"] < count[name])],
        "share of pairs that Algorithm 1 solved, and its sweeps, means over datasets: "
        f"{_each(said, '{:.0f} %, {:.0f}')}",
    )


def graph_first(table: pd.DataFrame) -> Judgment:
    """Whether a graph's path as the start finds more geodesics, in fewer iterations."""
    part = rows(table, part="solver", form="euclidean")
    share, count = (mean_by(part, "guess", column) for column in ("geodesic", "iterations"))
    return graded(
        [share["graph"] > share["straight"], count["graph"] < count["straight"]],
        f"ends at the geodesic in {100 * share['graph']:.0f} % of the pairs from a graph's path, "
        f"{100 * share['straight']:.0f} % from a straight line, after {count['graph']:.0f} and "
        f"{count['straight']:.0f} iterations (means over solvers and datasets)",
    )


# --- methods on 200 points: figures 4 and 5 ---------------------------------------------------------------------------


def power_is_roughest(table: pd.DataFrame) -> Judgment:
    """Whether power weights have the largest mean LPR of all methods."""
    means = mean_by(table, "method", "mean_lpr")
    others = means.drop(["power", "truth"])
    return graded(means["power"] > others, f"mean LPR: power {means['power']:.3f}, {_each(others, '{:.4f}')}")


def model_graph_between(table: pd.DataFrame) -> Judgment:
    """Whether the model's graph is better than power weights, and surely worse than the true density's."""
    by_seed = table.pivot_table(index="seed", columns="method", values="mean_lpr")
    gap = by_seed["model_graph"] - by_seed["true_graph"]
    error = gap.std() / np.sqrt(len(gap))
    return graded(
        [by_seed["model_graph"].mean() < by_seed["power"].mean(), gap.mean() > 2 * error],
        f"mean LPR: model {by_seed['model_graph'].mean():.4f}, power {by_seed['power'].mean():.3f}; the model's is "
        f"above the true density's by {gap.mean():.4f} ± {error:.4f}, in {(gap > 0).sum()} of {len(gap)} samples",
    )


def relaxed_is_close(table: pd.DataFrame) -> Judgment:
    """Whether relaxed paths are very close to the geodesic, and far closer than the true density's graph."""
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


def follows_data(table: pd.DataFrame) -> Judgment:
    """Whether half of the flow graph's paths are within 5 % of the geodesic."""
    part = rows(table, dataset="gaussian_mixture", group="flow_fast", method="flow", rule="fixed")
    median = mean_by(part, "size", "median_lpr")
    return graded(
        [median.iloc[-1] < 0.05],
        f"half of the paths over the flow's graph are at most {100 * np.expm1(median.iloc[-1]):.1f} % longer than the "
        f"geodesic (n = {median.index[-1]})",
    )


def power_stalls(table: pd.DataFrame) -> Judgment:
    """Whether the LPR of power weights is extremely slow to fall, on every dataset."""
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


def truth_converges(table: pd.DataFrame) -> Judgment:
    """Whether the true density's graph converges by both rules for k."""
    rates = {rule: _rates(table, method="true_graph", rule=rule) for rule in ("growing", "fixed")}
    return graded(
        [min(one.values()) > CONVERGES for one in rates.values()],
        f"r of n^-r: {_each(rates['growing'])} if k grows like n^(1/3); {_each(rates['fixed'])} if k = 20",
    )


def flow_keeps_up(table: pd.DataFrame) -> Judgment:
    """Whether the flow's graph falls at a rate similar to the true density's."""
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


def power_is_inferior(table: pd.DataFrame) -> Judgment:
    """Whether power weights fall far slower than the flow's, and end far above."""
    power, flow = (
        (_rates(table, **which), _last(table, **which))
        for which in ({"method": "power"}, {"method": "flow", "group": "flow_fast", "rule": "growing"})
    )
    both = {name: (power[1][name], flow[1][name]) for name in flow[1]}
    return graded(
        [power[0][name] * FAR < flow[0][name] and power[1][name] > FAR * flow[1][name] for name in both],
        f"mean LPR at the largest n, power and flow: {_each(both, '{:.2f} and {:.3f}')}",
    )


def relaxation_refines(table: pd.DataFrame) -> Judgment:
    """Whether relaxing lowers the LPR at the largest n."""
    score, graph = (_last(table, group="flow_fast", rule="fixed", method=name) for name in ("score", "flow"))
    both = {name: (score[name], graph[name]) for name in score}
    return graded(
        [after < before for after, before in both.values()],
        f"mean LPR at the largest n, relaxed and before: {_each(both, '{:.4f} and {:.4f}')}",
    )


# --- edge weights: figure 10 ------------------------------------------------------------------------------------------

ENDPOINT_RULES = ("inverse_of_mean", "mean_of_inverse", "max", "min")


def nearest_neighbor_rules_stall(table: pd.DataFrame) -> Judgment:
    """Whether each rule is extremely slow, too, and ends where power weights end."""
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


def true_rules_converge(table: pd.DataFrame) -> Judgment:
    """Whether each rule converges with the true density."""
    rates = {
        rule: {name: rate(rows(table, density="true", rule=rule, weights=name)) for name in ENDPOINT_RULES}
        for rule in ("growing", "fixed")
    }
    return graded(
        [one > CONVERGES for by_name in rates.values() for one in by_name.values()],
        f"r of n^-r: {_each(rates['growing'])} if k grows like n^(1/3); {_each(rates['fixed'])} if k = 20",
    )


def density_is_the_bottleneck(table: pd.DataFrame) -> Judgment:
    """Whether the true density takes the same edges far lower than power weights do."""
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


def own_class_is_nearer(table: pd.DataFrame) -> Judgment:
    """Whether all differences are positive, and above their standard deviation."""
    part = rows(table, kind="difference", method="relaxed")
    difference, deviation = (mean_by(part, "first", name) for name in ("mean_log_distance", "standard_deviation"))
    least = difference.idxmin()
    return graded(
        [(difference > 0).all(), (difference > deviation).all()],
        f"{(difference > 0).sum()} of {len(difference)} digits; differences {difference.min():.2f} (digit {least:.0f}) "
        f"to {difference.max():.2f}, above their standard deviation for {(difference > deviation).sum()} "
        "(the paper: 0.46 to 2.04, all above)",
    )


def ones_are_tight(table: pd.DataFrame) -> Judgment:
    """Whether 1 has the smallest intra-class distance."""
    intra = mean_by(rows(table, kind="intra", method="relaxed"), "first", "mean_log_distance").sort_values()
    return graded(
        [intra.index[0] == 1],
        f"1 has place {list(intra.index).index(1) + 1} of {len(intra)} with {intra[1]:.2f}; the tightest is "
        f"{intra.index[0]:.0f} with {intra.iloc[0]:.2f}",
    )


def eights_are_ambiguous(table: pd.DataFrame) -> Judgment:
    """Whether 8 has the smallest difference."""
    difference = mean_by(rows(table, kind="difference", method="relaxed"), "first", "mean_log_distance").sort_values()
    return graded(
        [difference.index[0] == 8],
        f"8 has place {list(difference.index).index(8) + 1} of {len(difference)} with {difference[8]:.2f}; the least "
        f"difference is that of {difference.index[0]:.0f}, {difference.iloc[0]:.2f}",
    )


def eights_are_near(table: pd.DataFrame) -> Judgment:
    """Whether the four digits nearest to the mean of 8 are those of the paper."""
    apart = mean_by(rows(table, kind="distance", method="relaxed", first=8), "second", "mean_log_distance")
    near = apart.drop(8).sort_values().index[:4].astype(int)
    return graded([one in (3, 5, 6, 9) for one in near], f"nearest to the mean of 8: {', '.join(map(str, near))}")


# --- kernel densities: figures 11 and 12 ------------------------------------------------------------------------------


def bandwidths_differ(table: pd.DataFrame) -> Judgment:
    """Whether the log density's best bandwidth is the smaller, for each n and weight."""
    part = rows(table, part="optimum")
    best = {f"n = {row['size']:.0f}, {row['weight']}": (row["log_density"], row["score"]) for _, row in part.iterrows()}
    return graded(
        [log_density < score for log_density, score in best.values()],
        f"best σ for the log density and for the score: {_each(best, '{:.2f} and {:.2f}')}; the former is the smaller "
        f"in {100 * part['ordered'].mean():.0f} % of single samples",
    )


def one_spoils_the_other(table: pd.DataFrame) -> Judgment:
    """Whether each error grows clearly at the other's best bandwidth."""
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


def flow_score_is_noisy(table: pd.DataFrame) -> Judgment:
    """Whether the flow's own score relaxes to longer paths, and converges less often, than the learned one."""
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


def gaussians_collapse(table: pd.DataFrame) -> Judgment:
    """Whether curves at β = 1/D are one, for each generalized Gaussian."""
    gaps = _largest_gaps(table, "generalized_gaussian", "1/D")
    return graded(gaps < CLOSE, f"largest gap between curves, as a share of the chord: {_each(gaps, '{:.1e}', 'α')}")


def nothing_else_does(table: pd.DataFrame) -> Judgment:
    """Whether no other rule for β brings the curves together, for any generalized Gaussian."""
    others = [name for name in _names(table, "scaling") if name != "1/D"]
    gaps = {name: _largest_gaps(table, "generalized_gaussian", name).min() for name in others}
    return graded(
        [gap > FAR * CLOSE for gap in gaps.values()],
        f"largest gap between curves, as a share of the chord, for the best α: {_each(gaps, '{:.2f}', 'β')}",
    )


def student_collapses(table: pd.DataFrame) -> Judgment:
    """Whether curves at β = 1/D are approximately one, for Student's t."""
    gaps = _largest_gaps(table, "student_t", "1/D")
    return graded(
        gaps < FAR * CLOSE, f"largest gap between curves, as a share of the chord: {_each(gaps, '{:.3f}', 'ν')}"
    )
