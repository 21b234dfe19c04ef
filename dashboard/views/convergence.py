"""Do paths get better with more points? The paper's main experiment, and the two that say why."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import streamlit as st

from core import datasets
from core.experiments import convergence
from core.experiments.judges import rate, rows
from dashboard import charts, paper, plane
from dashboard.result_charts import Axis, Series, lines, method_line, plain_line

NAMES = ("convergence", "edge_weights", "methods_on_200_points")
RULE_TITLES = {"growing": "k grows", "fixed": "k = 20"}
# What the figure shows: group, method and rule of the table, name, dash (None: the method's own) and panel.
CURVES = (
    ("graphs", "power", "fixed", "power graph, k = 20", None, 0),
    ("flow_paper", "flow", "growing", "flow graph, paper preset, k grows", "dash", 0),
    ("flow_fast", "flow", "fixed", "flow graph, k = 20", "2px,4px", 0),
    ("flow_fast", "flow", "growing", "flow graph, k grows", "solid", 0),
    ("graphs", "true_graph", "fixed", "true-density graph, k = 20", "2px,4px", 0),
    ("graphs", "true_graph", "growing", "true-density graph, k grows", "solid", 0),
    ("kde", "kde", "fixed", "kernel density, relaxed", None, 1),
    ("mixture", "mixture", "fixed", "mixture pool, relaxed", None, 1),
    ("flow_fast", "score", "fixed", "score-relaxed", None, 1),
)
WEIGHT_TITLES = {
    "power": "power weights",
    "midpoints": "midpoints (Algorithm 2)",
    "inverse_of_mean": "inverse of mean",
    "mean_of_inverse": "mean of inverse",
    "max": "maximum",
    "min": "minimum",
}
GROUP_TITLES = {
    "graphs": "power graph and true-density graph",
    "mixture": "mixture pool",
    "kde": "kernel density",
    "flow_fast": "flow graph and score-relaxed (loads torch)",
}
LIVE_PAIRS = 100


def page() -> None:
    """The whole page, top to bottom."""
    experiment = convergence.EXPERIMENT
    paper.head(
        "Convergence",
        experiment.question,
        "1000 pairs of endpoints are drawn from each density, and every method looks for their geodesics with n points "
        "to learn from. The log path ratio (LPR) says how much longer than the true geodesic a path is, in nats: 0.01 "
        "is one percent. A method *converges* if its LPR goes to zero; the steeper its line, the faster.",
    )
    found = paper.result(NAMES[0])
    if found is not None:
        names = found.about["spec"]["datasets"]
        name = st.pills("Dataset", names, default=names[-1], format_func=datasets.TITLES.__getitem__, required=True)
        part = rows(found.table, dataset=name)
        plane.figure(convergence_figure(part), key="convergence")
        st.caption(
            f"Mean LPR over {part['pairs'].max()} pairs and {part['seed'].nunique()} "
            f"sample{'s' if part['seed'].nunique() > 1 else ''} of each size; bars are standard errors, over pairs and "
            "samples together. Left: paths over graphs; dotted lines have the same k = 20 at every n. Right: relaxed "
            "paths."
        )
        with st.expander("How fast each line falls"):
            st.dataframe(rates(part), hide_index=True, width="content")
            st.caption("r of the n^(−r) that fits the mean LPR from n = 500 on; 8 times the points halve it at r = ⅓.")
        fixed, growing = (rate(rows(part, method="true_graph", rule=rule)) for rule in ("fixed", "growing"))
        st.markdown(
            "A fixed k keeps a path's zigzag: however dense the points, each edge is about as crooked against its "
            f"neighbors as before. So even the true density's mean LPR falls only like n^(−{fixed:.2f}) at k = 20. "
            "With k ∝ n^(1/3) edges are long enough to straighten the path, and short enough to follow its bends: "
            f"n^(−{growing:.2f}). The paper does not print its k."
        )
        paper.made(NAMES[0], found)
    st.markdown("#### Is it the graph, or the density?")
    weights = paper.result(NAMES[1])
    if weights is not None:
        plane.figure(weights_figure(weights.table), key="edge weights")
        st.caption(
            "Gaussian mixture, the same graph weighed in ten ways. Left: by densities that are made of distances to "
            "the nearest neighbor; right: by the true density at the same places. Solid: k grows; dotted: k = 20."
        )
        paper.made(NAMES[1], weights)
    st.markdown("#### 200 points of one Gaussian")
    few = paper.result(NAMES[2])
    if few is not None:
        plane.figure(few_figure(few.table), key="200 points")
        st.caption(
            f"Mean LPR over the pairs, one dot for each of {few.table['seed'].nunique()} samples; the model is one "
            "Gaussian, fitted to the 200 points, whose score relaxes; the true graph is weighed by the true density."
        )
        paper.made(NAMES[2], few)
    paper.claims(NAMES)
    recompute(experiment.full, None if found is None else found.table)
    paper.to_try(
        "Open the two spirals at n = 200, where the flow still blurs the arms, and go through n = 500, 1000, 2000: "
        "watch the flow's path leave the gaps, and its LPR follow the line above. Then press Random a few times: the "
        "mean hides how much single pairs differ.",
        {"dataset": "two_spirals", "size": "200", "methods": "truth,score,mixture,flow,power"},
    )


def recompute(full: convergence.ConvergenceSpec, shipped: pd.DataFrame | None) -> None:
    """One sample and group of methods, here and now, with fewer pairs."""
    st.markdown("#### Compute a cell of this table")
    left, middle, right = st.columns([2, 1, 3])
    name = left.selectbox("Dataset", full.datasets, 2, format_func=datasets.TITLES.__getitem__, key="live dataset")
    size = middle.selectbox("n", [200, 500, 1000, 2000], 1, key="live n")
    group = right.selectbox("Methods", list(GROUP_TITLES), format_func=GROUP_TITLES.__getitem__, key="live group")
    st.caption(
        f"The first sample of this size, with {LIVE_PAIRS} pairs of their own instead of 1000: some seconds. "
        "The result should agree with the shipped one within a few standard errors."
    )

    def show(fresh: pd.DataFrame) -> None:
        st.dataframe(beside_the_shipped(fresh, shipped), hide_index=True, width="content")

    spec = replace(full, pairs=LIVE_PAIRS)
    paper.live(NAMES[0], spec, {"dataset": name, "size": size, "seed": 0, "group": group}, show)


def beside_the_shipped(fresh: pd.DataFrame, shipped: pd.DataFrame | None) -> pd.DataFrame:
    """Mean LPR with its standard error, here and in the shipped table."""
    table = pd.DataFrame(
        {
            "method": fresh["method"].map(charts.title),
            "k": fresh["k"],
            "mean LPR here": with_error(fresh),
            f"refused of {LIVE_PAIRS}": fresh["refused"],
        }
    )
    keys = ["dataset", "size", "seed", "group", "method", "rule"]
    if shipped is not None:
        both = fresh[keys].merge(shipped, on=keys, how="left")
        if both["mean_lpr"].notna().any():
            table.insert(3, "mean LPR shipped", with_error(both))
    return table


def with_error(table: pd.DataFrame) -> pd.Series:
    """Mean LPR ± standard error, as text."""
    return pd.Series(
        [f"{mean:.4f} ± {error:.4f}" for mean, error in zip(table["mean_lpr"], table["standard_error"])],
        index=table.index,
    )


def rates(part: pd.DataFrame) -> pd.DataFrame:
    """The exponent of every line of the figure."""
    found = []
    for group, method, rule, name, _, _ in CURVES:
        one = part[(part["group"] == group) & (part["method"] == method) & (part["rule"] == rule)]
        if one["size"].nunique() > 1:
            found.append({"method": name, "r": f"{rate(one):.2f}"})
    return pd.DataFrame(found)


def convergence_figure(part: pd.DataFrame) -> dict:
    """Mean LPR over n for one dataset: graphs in the left panel, relaxed paths in the right one."""
    series = []
    for group, method, rule, name, dash, panel in CURVES:
        one = part[(part["group"] == group) & (part["method"] == method) & (part["rule"] == rule)]
        if not one.empty:
            line = method_line(method) | ({} if dash is None else {"dash": dash})
            series.append(over_size(one, name, line, panel))
    axes = (Axis("mean LPR", log=True), Axis("", log=True))
    figure = lines(series, size_axis(part), axes, ("paths over graphs", "relaxed paths"), height=520)
    figure["layout"]["yaxis2"]["matches"] = "y"
    return figure


def weights_figure(table: pd.DataFrame) -> dict:
    """Mean LPR over n of every way to weigh a graph: one panel a density."""
    series = []
    panels = {"nearest_neighbor": "nearest-neighbor density", "true": "true density"}
    for panel, density in enumerate(panels):
        for rule, dash in (("growing", "solid"), ("fixed", "2px,4px")):
            for k, (weights, title) in enumerate(WEIGHT_TITLES.items()):
                one = table[(table["density"] == density) & (table["rule"] == rule) & (table["weights"] == weights)]
                if not one.empty:
                    line = plain_line(k, dash, 3.5 if weights in ("power", "midpoints") else 2.0)
                    first = rule == "growing" and (panel == 0 or weights == "midpoints")
                    series.append(over_size(one, title, line, panel)._replace(legend=first))
    axes = (Axis("mean LPR", log=True), Axis("", log=True))
    figure = lines(series, size_axis(table), axes, tuple(panels.values()), height=440)
    figure["layout"]["yaxis2"]["matches"] = "y"
    return figure


def over_size(one: pd.DataFrame, name: str, line: dict, panel: int) -> Series:
    """A line over n: means over the samples, with their standard errors.

    The pairs are the same for every sample: more samples make the samples' share of the error smaller, not theirs.
    """
    by_size = one.groupby("size", sort=True)
    over_pairs = by_size["standard_error"].agg(lambda each: (each**2).mean())
    over_samples = by_size["mean_lpr"].var().fillna(0.0) / by_size.size()
    mean, errors = by_size["mean_lpr"].mean(), (over_pairs + over_samples) ** 0.5
    return Series(name, mean.index.to_numpy(float), mean.to_numpy(), errors.to_numpy(), line, panel=panel)


def size_axis(table: pd.DataFrame) -> Axis:
    """n on a logarithmic axis, with the sizes of the table as ticks."""
    sizes = sorted(table["size"].unique().tolist())
    return Axis("sample size n", log=True, ticks=tuple(sizes), labels=tuple(f"{size:,}" for size in sizes))


def few_figure(table: pd.DataFrame) -> dict:
    """Mean LPR of every method, one dot for each sample of 200 points."""
    titles = {
        "power": "power graph",
        "model_graph": "model graph",
        "true_graph": "true graph",
        "relaxed": "relaxed path",
    }
    colors = {"power": "power", "model_graph": "flow", "true_graph": "true_graph", "relaxed": "score"}
    series = []
    for place, (method, title) in enumerate(titles.items()):
        one = rows(table, method=method)
        spread = np.linspace(-0.25, 0.25, len(one))
        line = method_line(colors[method], 0.0)
        series.append(Series(title, place + spread, one["mean_lpr"].to_numpy(), one["standard_error"].to_numpy(), line))
    labels = tuple(title.replace(" ", "<br>", 1) for title in titles.values())
    x = Axis("", ticks=tuple(range(len(titles))), labels=labels, range=(-0.5, len(titles) - 0.5))
    figure = lines(series, x, Axis("mean LPR", log=True), height=340)
    figure["layout"]["showlegend"] = False
    return figure


page()
