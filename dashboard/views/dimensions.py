"""From the plane to 25 dimensions: the shape of geodesics and the quality of paths, for β = 1 and β = 1/D."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import streamlit as st

from core.experiments import dimensions
from core.experiments.report import rows
from core.experiments.running import Result
from dashboard import paper, plane
from dashboard.charts import TITLES
from dashboard.result_charts import Axis, Series, heatmap, lines, method_line

NAME, OTHERS = "dimensions", "alpha_scaling"
PANELS = {"1": "β = 1", "1/D": "β = 1/D"}
RULES = {"1": "β = 1", "1/sqrt(D)": "β = 1/√D", "1/D": "β = 1/D", "1/D^2": "β = 1/D²"}
FLOOR = 1e-5  # LPR below this are errors of the discretization, and a logarithm needs one
LIGHT_TO_DARK = ("#EDAE2F", "#D1495B", "#6A3FB5")  # of dimensions; seen on white and on black
DENSITIES = {
    ("generalized_gaussian", 1.0): "exp(−‖x‖)",
    ("generalized_gaussian", 2.0): "exp(−‖x‖²/2), the normal",
    ("generalized_gaussian", 4.0): "exp(−‖x‖⁴/4)",
    ("student_t", 5.0): "Student's t, ν = 5",
    ("student_t", 30.0): "Student's t, ν = 30",
}
FAMILY_SYMBOLS = {"generalized_gaussian": "α", "student_t": "ν"}
LIVE_SIZES, LIVE_PAIRS = (500, 1000, 2000), 10


class Drawn(NamedTuple):
    """How a method's line is drawn: which models it has, its symbol, and whether it is the paper's variant."""

    method: str
    models: str
    symbol: str

    @property
    def name(self) -> str:
        """In the legend."""
        return TITLES[self.method] + {"points": "", "fast": ", fast", "paper": ", paper's"}[self.models]

    @property
    def line(self) -> dict[str, Any]:
        """Color and dashes; those of the paper's preset are dotted."""
        return method_line(self.method) | ({"dash": "dot"} if self.models == "paper" else {})


# Graphs have circles, relaxed paths diamonds.
METHODS = (
    Drawn("power", "points", "circle"),
    Drawn("flow", "fast", "circle"),
    Drawn("flow", "paper", "circle-open"),
    Drawn("true_graph", "points", "circle"),
    Drawn("straight", "points", "x"),
    Drawn("score", "fast", "diamond"),
    Drawn("score", "paper", "diamond-open"),
    Drawn("mixture", "points", "diamond"),
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
    recompute(experiment.full, None if found is None else found.table)
    paper.to_try(
        "A geodesic of the 10-dimensional normal lies in a plane, and there the metric is that of the plane's own "
        "normal. So the explorer can show it: A and B are put √10 = 3.16 away from the center, as points of ten "
        "dimensions are. At β = 1 the true geodesic dives for the center; set β = 0.1, which is 1/D, and it is nearly "
        "the straight line, while the graphs still zigzag. Then bring A and B to √2 = 1.41, as in the plane, and set "
        "β = 0.5: the same curve, smaller.",
        {
            "dataset": "standard_normal",
            "methods": "truth,true_graph,power,straight",
            "start": "3.16,0",
            "end": "0,3.16",
        },
    )


# --- how well each method finds geodesics ---------------------------------------------------------------------------


def path_ratios(found: Result) -> None:
    """LPR over D, and what to see there."""
    spec, table = found.about["spec"], rows(found.table, part="lpr")
    plane.figure(ratio_figure(table), key="path ratios")
    clipped = " Means below 10⁻⁵, which are errors of the discretization, stand at 10⁻⁵." if clips(table) else ""
    st.caption(
        f"Mean log path ratio (LPR: how much longer than the geodesic a path is, in nats) of {spec['pairs']} pairs, "
        f"with its standard error, on a logarithmic axis; n = {spec['size']:,}. Circles are graphs, diamonds are "
        f"relaxed paths; the paper's recipe of training is dotted and hollow, ours is “fast”.{clipped}"
    )
    st.markdown(against_straight(table))
    st.markdown(
        f"The paper has n = 200,000 points; {spec['size']:,} are what two processor cores manage in about an hour. "
        f"{training_note(spec)} The mixture pool and the straight line are our additions; the pool has it easy here, "
        "since a mixture with one component is a normal distribution."
    )


def training_note(spec: dict[str, Any]) -> str:
    """How the paper's preset was trained here."""
    if spec["paper_steps"] is None:
        return ""
    return (
        f"For the same reason its models take {spec['paper_steps']:,} steps of training (the printed rule, 2500 · "
        "2^(n // 1000), has no end at such n), and the first layer of its score model starts with "
        f"{spec['input_gain']:g} times the usual weights: without that it learns nothing from D = 20 on."
    )


def clips(table: pd.DataFrame) -> bool:
    """Whether a mean LPR is too small to be drawn where it belongs."""
    return bool((table["lpr"] < FLOOR).any())


def against_straight(table: pd.DataFrame) -> str:
    """The best graph beside the straight line in the largest dimension, for both β, and what that means."""
    said, beaten = [], []
    last = int(table["dim"].max())
    for scaling, title in PANELS.items():
        part = rows(table, dim=last, scaling=scaling)
        straight = rows(part, method="straight")["lpr"].iloc[0]
        graph = rows(part, method=GRAPHS)["lpr"].min()
        said.append(f"at {title} the best graph's path is {longer(graph)} and a straight line {longer(straight)}")
        if graph > straight:
            beaten.append(title)
    text = f"In D = {last}, {'; '.join(said)} than the geodesic."
    if "β = 1/D" in beaten:
        text += (
            " The scaled metric is nearly flat, so that a straight line is a good path; a graph has to go from sample "
            "point to sample point, and in many dimensions even near neighbors are far apart and off the way. No density, "
            "not even the true one, can mend that detour; relaxation leaves the points, and so it can."
        )
    return text


def longer(lpr: float) -> str:
    """An LPR as people say it."""
    more = 100 * np.expm1(lpr)
    return f"{np.exp(lpr):.1f} times as long" if more > 100 else f"{more:.2g} % longer"


def ratio_figure(table: pd.DataFrame) -> dict[str, Any]:
    """Mean LPR over D, one panel for each β."""
    series = []
    for panel, scaling in enumerate(PANELS):
        for drawn in METHODS:
            one = rows(table, scaling=scaling, method=drawn.method, models=drawn.models).sort_values("dim")
            x, y, error = (one[name].to_numpy() for name in ("dim", "lpr", "lpr_error"))
            shown = np.maximum(y, FLOOR)
            series.append(Series(drawn.name, x, shown, error, drawn.line, drawn.symbol, panel, panel == 0))
    lpr = table["lpr"].clip(lower=FLOOR)
    span = (lpr.min() / 2, (lpr + table["lpr_error"].fillna(0)).max() * 1.6)
    x = Axis("dimension D", ticks=tuple(d for d in (2, 5, 10, 15, 20, 25) if d <= table["dim"].max()))
    y = [Axis("mean LPR (nats)", log=True, range=span), Axis("", log=True, range=span)]
    return lines(series, x, y, tuple(PANELS.values()), height=500)


# --- the shape of geodesics -----------------------------------------------------------------------------------------


def shapes(table: pd.DataFrame) -> None:
    """The normal's geodesics in all dimensions, for both β."""
    part, lengths = rows(table, part="shape"), rows(table, part="length")
    dims = sorted(int(dim) for dim in part["dim"].unique())
    st.markdown("#### The shape of geodesics")
    color_key(dims)
    for column, (scaling, title) in zip(st.columns(2, gap="medium"), PANELS.items()):
        with column:
            plane.figure(shape_figure(rows(part, scaling=scaling), title, 360), key=f"shape {scaling}")
    near = {s: rows(lengths, scaling=s).set_index("dim")["closest"].loc[[dims[0], dims[-1]]] for s in PANELS}
    st.caption(
        "Geodesics of the standard normal between two points at distance √D from the center (+) and at a right angle; "
        "coordinates over √D. With higher D lines are drawn thinner, so that one can see those below."
    )
    st.markdown(
        f"At β = 1 the geodesic comes as near to the center as {near['1'].iloc[0]:.2f} √D in D = {dims[0]}, and "
        f"{near['1'].iloc[1]:.3f} √D in D = {dims[-1]}. At β = 1/D it is {near['1/D'].iloc[0]:.3f} √D and "
        f"{near['1/D'].iloc[1]:.3f} √D; a straight line has 0.707 √D."
    )


def shape_figure(table: pd.DataFrame, title: str, height: int) -> dict[str, Any]:
    """Curves in the plane of their ends and the center, a color for each D."""
    series = [Series("center", np.zeros(1), np.zeros(1), None, {"color": None, "width": 0}, "cross-thin-open")]
    dims = sorted(table["dim"].unique())
    for k, dim in enumerate(dims):
        one = rows(table, dim=dim)
        line = {"color": colors(len(dims))[k], "width": 1.5 + 6 * (1 - k / max(1, len(dims) - 1))}
        series.append(Series(f"D = {dim:.0f}", one["x"].to_numpy(), one["y"].to_numpy(), None, line, ""))
    figure = lines(series, Axis(""), Axis(""), (title,), height)
    figure["layout"]["yaxis"] |= {"scaleanchor": "x"}
    return figure | {"layout": figure["layout"] | {"showlegend": False}}


def colors(count: int) -> list[str]:
    """From light to dark."""
    stops = np.array([[int(color[k : k + 2], 16) for k in (1, 3, 5)] for color in LIGHT_TO_DARK])
    at = np.linspace(0, len(stops) - 1, count)
    mixed = np.stack([np.interp(at, np.arange(len(stops)), channel) for channel in stops.T], axis=1)
    return ["#" + "".join(f"{round(part):02x}" for part in color) for color in mixed]


def color_key(dims: Sequence[int]) -> None:
    """What the colors of the curves below mean."""
    fields = "".join(f"<i style='background:{color};width:{max(8, 96 // len(dims))}px'></i>" for color in colors(len(dims)))
    st.html(
        "<style>.dims {font-size: 0.875rem} .dims i {display: inline-block; height: 0.7rem}</style>"
        f"<div class='dims'>D = {dims[0]} {fields} {dims[-1]}</div>"
    )


# --- other densities ------------------------------------------------------------------------------------------------


def other_densities(table: pd.DataFrame) -> None:
    """Appendix A.3: curves of a chosen density for four rules, and how far curves are apart for all of them."""
    st.markdown("#### Other densities")
    part = rows(table, part="shape")
    known = list(dict.fromkeys(zip(part["family"], part["parameter"].astype(float))))
    chosen = st.selectbox("Density", known, format_func=density_title, key="dimensions density")
    one = rows(part, family=chosen[0], parameter=chosen[1])
    dims = sorted(int(dim) for dim in one["dim"].unique())
    color_key(dims)
    for column, (rule, title) in zip(st.columns(len(RULES), gap="small"), RULES.items()):
        with column:
            plane.figure(shape_figure(rows(one, scaling=rule), title, 260), key=f"density {rule}")
    st.caption(
        f"Geodesics between two typical points 60° apart, for D = {', '.join(map(str, dims[:-1]))} and {dims[-1]}; "
        "coordinates over their distance from the center (+)."
    )
    left, right = st.columns([3, 2], gap="large")
    gaps = rows(table, part="collapse").groupby(["scaling", "family", "parameter"])["gap"].max()
    with left:
        plane.figure(gap_figure(gaps, known), key="gaps")
    right.markdown(collapse(gaps, dims[-1]))


def density_title(density: tuple[str, float]) -> str:
    """Its formula, or its name."""
    return DENSITIES.get(density, f"{density[0].replace('_', ' ')}, {FAMILY_SYMBOLS[density[0]]} = {density[1]:g}")


def gap_figure(gaps: pd.Series, known: Sequence[tuple[str, float]]) -> dict[str, Any]:
    """How far curves of different D are apart: rules down, densities across."""
    values = np.array([[gaps[rule, family, parameter] for family, parameter in known] for rule in RULES])
    labels = [f"{'t<br>' if family == 'student_t' else ''}{FAMILY_SYMBOLS[family]} = {p:g}" for family, p in known]
    return heatmap(values, labels, list(RULES.values()), "", "", "gap (chords)", height=280)


def collapse(gaps: pd.Series, last: int) -> str:
    """What the gaps say."""
    largest = gaps["1/D"].groupby("family").max()
    return (
        f"The number is the largest distance between the curve of any D and that of D = {last}, as a share of the "
        f"straight line between the ends. At β = 1/D it is {largest['generalized_gaussian']:.0e} for generalized "
        f"Gaussians, which is zero but for rounding, and up to {largest['student_t']:.3f} for Student's t: its tails "
        "are as heavy in every dimension, and only for D much larger than ν do curves tend to a limit. At larger β "
        "curves dive for the center. At β = 1/D² they differ little too, but only since they all become straight: "
        "there the density has no say any more."
    )


# --- a cell, computed again -----------------------------------------------------------------------------------------


def recompute(spec: dimensions.Spec, shipped: pd.DataFrame | None) -> None:
    """The methods that need no training, in one dimension, here and now."""
    st.markdown("#### Compute a cell of this table")
    with st.container(horizontal=True):
        dim = st.selectbox("Dimension D", spec.dims, spec.dims.index(10), key="dimensions live dim")
        size = st.selectbox("Points n", LIVE_SIZES, 1, key="dimensions live size")
    st.caption(
        f"The methods that train no network, for {LIVE_PAIRS} pairs (shipped: n = {spec.size:,}, {spec.pairs} pairs). "
        "The more dimensions and points, the longer: from 2 to about 20 seconds."
    )

    def show(fresh: pd.DataFrame) -> None:
        table = fresh.assign(method=fresh["method"].map(TITLES))[["method", "scaling", "lpr", "lpr_error"]]
        if shipped is not None:
            part = shipped[(shipped["part"] == "lpr") & (shipped["dim"] == dim) & (shipped["models"] == "points")]
            old = part.assign(method=part["method"].map(TITLES))[["method", "scaling", "lpr", "lpr_error"]]
            table = table.merge(old, on=["method", "scaling"], how="left", suffixes=("", " shipped"))
        st.dataframe(
            table.rename(
                columns={
                    "scaling": "β",
                    "lpr": f"mean LPR, n = {size:,}",
                    "lpr_error": "standard error",
                    "lpr shipped": f"shipped, n = {spec.size:,}",
                    "lpr_error shipped": "its standard error",
                }
            ).style.format(precision=4),
            hide_index=True,
            width="stretch",
        )

    cell = {"part": "lpr", "dim": dim, "models": "points"}
    paper.live(NAME, replace(spec, size=size, pairs=LIVE_PAIRS), cell, show)


page()
