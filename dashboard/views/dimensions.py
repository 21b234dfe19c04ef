"""From the plane to 25 dimensions: the shape of geodesics and the quality of paths, for β = 1 and β = 1/D."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st

from core.experiments import dimensions
from core.experiments.judges import rows
from core.experiments.running import Result
from dashboard import paper, plane
from dashboard.charts import TITLES
from dashboard.result_charts import Axis, Series, heatmap, lines, method_line, shades

NAME, OTHERS = "dimensions", "alpha_scaling"
SCALINGS = {"1": "β = 1", "1/D": "β = 1/D"}
RULES = {"1": "β = 1", "1/sqrt(D)": "β = 1/√D", "1/D": "β = 1/D", "1/D^2": "β = 1/D²"}
FLOOR = 1e-5  # a smaller LPR is an error of the discretization, and a logarithmic axis has to end somewhere
ZERO = 1e-9  # gaps between curves below this are rounding
DENSITIES = {
    ("generalized_gaussian", 1.0): "exp(−‖x‖)",
    ("generalized_gaussian", 2.0): "exp(−‖x‖²/2), the normal",
    ("generalized_gaussian", 4.0): "exp(−‖x‖⁴/4)",
    ("student_t", 5.0): "Student's t, ν = 5",
    ("student_t", 30.0): "Student's t, ν = 30",
}
LIVE_SIZES, LIVE_PAIRS = (500, 1000, 2000), 8
MODEL_TITLES = {"points": "", "fast": ", fast", "paper": ", paper's"}
# Lines of the main figure: method, what it has learned, and symbol (circles: graphs, diamonds: relaxed paths).
METHODS = (
    ("power", "points", "circle"),
    ("flow", "fast", "circle"),
    ("flow", "paper", "circle-open"),
    ("true_graph", "points", "circle"),
    ("straight", "points", "x"),
    ("score", "fast", "diamond"),
    ("score", "paper", "diamond-open"),
    ("mixture", "points", "diamond"),
)
GRAPHS = ("power", "flow", "true_graph")


def page() -> None:
    """The whole page, top to bottom."""
    experiment = dimensions.EXPERIMENT
    paper.head(
        "Dimensions",
        experiment.question,
        "β says how strongly the density draws a path. In D dimensions the points of a normal distribution lie about "
        "√D away from its center, where the density is exponentially small: at one and the same β it draws harder with "
        "every dimension. The paper therefore proposes β = 1/D.",
    )
    found = paper.result(NAME)
    if found is not None:
        path_ratios(found)
        shapes(found.table)
        paper.made(NAME, found)
    others = paper.result(OTHERS)
    if others is not None:
        other_densities(others.table)
        paper.made(OTHERS, others)
    paper.claims((NAME, OTHERS))
    recompute(experiment.full, found)
    paper.to_try(
        "A geodesic of the 10-dimensional normal lies in a plane, and there the metric is that of the plane's own "
        "normal, so that the explorer can show it: A and B are put √10 = 3.16 away from the center, as points of ten "
        "dimensions are. At β = 1 the true geodesic dives for the center, and a straight line is 57 % longer. Set β to "
        "0.1, which is 1/D: now the line is only 3.1 % longer. Then move A and B to √2 = 1.41, where points of the "
        "plane are, and set β to ½: the same curve, smaller, and 3.1 % again. (The graph has it easier than in ten "
        "dimensions: in the plane neighbors are near.)",
        {"dataset": "standard_normal", "methods": "truth,true_graph,straight", "start": "3.16,0", "end": "0,3.16"},
    )


# --- how well each method finds geodesics ---------------------------------------------------------------------------


def path_ratios(found: Result) -> None:
    """LPR over D, what to see there, and where we differ from the paper."""
    spec, table = found.about["spec"], rows(found.table, part="lpr")
    plane.figure(ratio_figure(table), key="dimensions ratios")
    clipped = " Means below 10⁻⁵, errors of the discretization, stand at 10⁻⁵." if (table["lpr"] < FLOOR).any() else ""
    st.caption(
        f"Mean log path ratio (LPR: how much longer than the geodesic a path is, in nats) of {spec['pairs']} pairs, "
        f"with its standard error, on a logarithmic axis; n = {spec['size']:,}. Circles are graphs, diamonds are "
        f"relaxed paths. What is trained by the paper's recipe is dotted and hollow; ours is called fast.{clipped}"
    )
    st.markdown(beside_straight(table))
    trained = (
        f" For the same reason its models are trained for {spec['paper_steps']:,} steps: the rule that it prints, "
        "2500 · 2^(n // 1000), cannot be meant for so many points. The first layer of its score model starts with "
        f"{spec['input_gain']:g} times the usual weights; without that it learns nothing from D = 20 on."
    )
    st.markdown(
        f"The paper has n = 200,000; {spec['size']:,} are what two processor cores manage (`run dimensions --large` is "
        "for more of them)."
        f"{trained if spec['paper_steps'] else ''} The mixture pool and the straight line are our additions. The pool "
        "has it easy here: the normal distribution is itself a mixture, of one component."
    )


def beside_straight(table: pd.DataFrame) -> str:
    """The best graph and relaxed paths beside the straight line in the largest dimension, and what that means."""
    last = int(table["dim"].max())
    text = f"In D = {last}, mean paths are longer than the geodesic by as much as this:"
    for scaling, title in SCALINGS.items():
        part = rows(table, dim=last, scaling=scaling)
        straight = rows(part, method="straight")["lpr"].iloc[0]
        graph = rows(part, method=GRAPHS)["lpr"].min()
        fast, recipe = (rows(part, method="score", models=models)["lpr"].iloc[0] for models in ("fast", "paper"))
        text += (
            f"\n- **{title}**: straight line {percent(straight)}, best graph {percent(graph)}, score-relaxed "
            f"{percent(fast)} (fast) and {percent(recipe)} (paper's)."
        )
        if scaling == "1/D" and graph > straight:
            text += (
                " The metric is so flat that a straight line will nearly do. A graph has to go from sample point to "
                "sample point, and in many dimensions even near neighbors are far apart and off the way: a detour that "
                "no density can mend, not even the true one."
            )
    return text


def percent(lpr: float) -> str:
    """How much longer than the geodesic an LPR means."""
    more = 100 * np.expm1(lpr)
    if more < 10:
        return "less than 0.01 %" if more < 0.01 else f"{more:.2g} %"
    return f"{more:,.0f} %" if more < 1e4 else f"a factor of e^{lpr:.0f}"


def ratio_figure(table: pd.DataFrame) -> dict[str, Any]:
    """Mean LPR over D, one panel for each β."""
    series = []
    for panel, scaling in enumerate(SCALINGS):
        for method, models, symbol in METHODS:
            one = rows(table, scaling=scaling, method=method, models=models).sort_values("dim")
            dims, lpr, error = (one[column].to_numpy() for column in ("dim", "lpr", "lpr_error"))
            line = method_line(method) | ({"dash": "dot"} if models == "paper" else {})
            name = TITLES[method] + MODEL_TITLES[models]
            series.append(Series(name, dims, np.maximum(lpr, FLOOR), error, line, symbol, panel, legend=panel == 0))
    shown = table["lpr"].clip(lower=FLOOR)
    span = (shown.min() / 2, (shown + table["lpr_error"].fillna(0)).max() * 1.6)
    x = Axis("dimension D", ticks=tuple(d for d in (2, 5, 10, 15, 20, 25) if d <= table["dim"].max()))
    y = [Axis("mean LPR (nats)", log=True, range=span), Axis("", log=True, range=span)]
    figure = lines(series, x, y, tuple(SCALINGS.values()), height=520)
    figure["layout"]["yaxis2"]["showticklabels"] = False  # the same as on the left; phones are narrow
    return figure


# --- the shape of geodesics -----------------------------------------------------------------------------------------


def shapes(table: pd.DataFrame) -> None:
    """The normal's geodesics in all dimensions, for both β."""
    part, lengths = rows(table, part="shape"), rows(table, part="length")
    dims = sorted(int(dim) for dim in part["dim"].unique())
    st.markdown("#### The shape of geodesics")
    color_key(dims)
    for column, scaling in zip(st.columns(2, gap="medium"), SCALINGS):
        with column:
            plane.figure(shape_figure(part, scaling, 360), key=f"dimensions shape {scaling}")
    st.caption(
        "Geodesics of the standard normal between two points √D away from the center (+), at a right angle; "
        "coordinates over √D. At β = 1/D lines become thinner with D, so that one can see those below."
    )
    near = {scaling: rows(lengths, scaling=scaling).set_index("dim")["closest"] for scaling in SCALINGS}
    low, high = near["1/D"].min(), near["1/D"].max()
    st.markdown(
        f"At β = 1 the geodesic comes as near to the center as {near['1'][dims[0]]:.2f} √D in D = {dims[0]}, and "
        f"{near['1'][dims[-1]]:.2f} √D in D = {dims[-1]}. At β = 1/D it is "
        f"{f'{low:.3f} √D in every dimension' if high - low < 0.001 else f'{low:.3f} √D to {high:.3f} √D'}; "
        "a straight line has 0.707 √D."
    )


def shape_figure(table: pd.DataFrame, rule: str, height: int) -> dict[str, Any]:
    """Curves in the plane of their ends and the center, a color for each D; nested widths where all are one."""
    table = rows(table, scaling=rule)
    dims = sorted(table["dim"].unique())
    widths = np.linspace(8 if rule == "1/D" else 1.5, 1.5, len(dims))
    series = [Series("center", np.zeros(1), np.zeros(1), None, {"color": None, "width": 0}, "cross-thin-open")]
    for dim, color, width in zip(dims, shades(len(dims)), widths):
        one, line = rows(table, dim=dim), {"color": color, "width": width}
        series.append(Series(f"D = {dim:.0f}", one["x"].to_numpy(), one["y"].to_numpy(), None, line, symbol=""))
    figure = lines(series, Axis("", range=(-0.1, 1.1)), Axis(""), (RULES[rule],), height)
    figure["layout"]["yaxis"] |= {"scaleanchor": "x"}
    figure["layout"]["showlegend"] = False
    return figure


def color_key(dims: Sequence[int]) -> None:
    """What the colors of the curves below mean."""
    width = max(8, 96 // len(dims))
    swatches = "".join(f"<i style='background: {color}; width: {width}px'></i>" for color in shades(len(dims)))
    st.html(
        "<style>.dims {font-size: 0.875rem} .dims i {display: inline-block; height: 0.7rem}</style>"
        f"<div class='dims'>D = {dims[0]} {swatches} {dims[-1]}</div>"
    )


# --- other densities ------------------------------------------------------------------------------------------------


def other_densities(table: pd.DataFrame) -> None:
    """Appendix A.3: curves of a chosen density under four rules, and how far curves are apart for all of them."""
    st.markdown("#### Other densities")
    st.markdown(
        "The paper's appendix A.3 argues that β = 1/D, and no other rule, keeps the shape of geodesics for generalized "
        "Gaussians exp(−‖x‖^α/α), too, and approximately for Student's t."
    )
    part = rows(table, part="shape")
    known = list(dict.fromkeys(zip(part["family"], part["parameter"].astype(float))))
    chosen = st.selectbox("Density", known, format_func=density_title, key="dimensions density", width=320)
    one = rows(part, family=chosen[0], parameter=chosen[1])
    dims = sorted(int(dim) for dim in one["dim"].unique())
    color_key(dims)
    for column, rule in zip(st.columns(len(RULES), gap="small"), RULES):
        with column:
            plane.figure(shape_figure(one, rule, 260), key=f"dimensions density {rule}")
    st.caption(
        f"Geodesics between two typical points 60° apart, for D = {', '.join(map(str, dims[:-1]))} and {dims[-1]}; "
        "coordinates over their distance from the center (+)."
    )
    gaps = rows(table, part="collapse").groupby(["scaling", "family", "parameter"])["gap"].max()
    left, right = st.columns([3, 2], gap="large", vertical_alignment="center")
    right.markdown(collapse(gaps, dims[-1]))
    with left:
        plane.figure(gap_figure(gaps, known), key="dimensions gaps")


def density_title(density: tuple[str, float]) -> str:
    """A density's formula or name."""
    return DENSITIES.get(density, f"{density[0].replace('_', ' ')}, {density[1]:g}")


def gap_figure(gaps: pd.Series, known: Sequence[tuple[str, float]]) -> dict[str, Any]:
    """How far curves of different D are apart: rules down, densities across."""
    values = np.array([[gaps[rule, family, parameter] for family, parameter in known] for rule in RULES])
    labels = [f"{'t, ν' if family == 'student_t' else 'α'} = {parameter:g}" for family, parameter in known]
    return heatmap(values, labels, list(RULES.values()), "", "", "gap (chords)", height=280)


def collapse(gaps: pd.Series, last: int) -> str:
    """What the gaps say."""
    gaussian, student = (gaps["1/D", family].max() for family in ("generalized_gaussian", "student_t"))
    return (
        f"The numbers: the largest distance between the curve of any D and that of D = {last}, as a share of the "
        f"straight line between the ends. At β = 1/D it is {'zero but for rounding' if gaussian < ZERO else gaussian} "
        f"for generalized Gaussians, and at most {student:.3f} for Student's t: its curves go over from the normal's, "
        "where D is far below ν, to another one, where D is far above. At larger β curves come ever nearer to the "
        "center. At β = 1/D² they differ little too, but only since all become straight: the density has no say there."
    )


# --- a cell, computed again -----------------------------------------------------------------------------------------


def recompute(spec: dimensions.Spec, shipped: Result | None) -> None:
    """The methods that need no training, in one dimension, here and now."""
    st.markdown("#### Compute a cell of this table")
    with st.container(horizontal=True):
        dim = st.selectbox("Dimension D", spec.dims, spec.dims.index(10), key="dimensions live dim")
        size = st.selectbox("Points n", LIVE_SIZES, 1, key="dimensions live size")
    st.caption(
        f"The methods that train no network, for {LIVE_PAIRS} pairs: from a few seconds in the plane to about twenty "
        "for D = 25 and n = 2000, where nothing else runs. Training would take minutes, and is left out."
    )

    def show(fresh: pd.DataFrame) -> None:
        columns = ["scaling", "method", "lpr", "lpr_error"]
        table = fresh[columns].rename(columns={"lpr": f"mean LPR, n = {size:,}", "lpr_error": "standard error"})
        if shipped is not None:
            old = shipped.table.loc[(shipped.table["dim"] == dim) & (shipped.table["models"] == "points"), columns]
            title = f"shipped, n = {shipped.about['spec']['size']:,}"
            table = table.merge(old.rename(columns={"lpr": title, "lpr_error": "its standard error"}), how="left")
        table["scaling"], table["method"] = table["scaling"].map(SCALINGS), table["method"].map(TITLES)
        shown = table.rename(columns={"scaling": "β"}).style.format("{:.3g}", table.columns[2:], na_rep="–")
        st.dataframe(shown, hide_index=True, width="stretch")
        st.caption("Fewer points than the shipped numbers have, and fewer, other pairs: only the size can be compared.")

    cell = {"part": "lpr", "dim": dim, "models": "points"}
    paper.live(NAME, replace(spec, size=size, pairs=LIVE_PAIRS), cell, show)


page()
