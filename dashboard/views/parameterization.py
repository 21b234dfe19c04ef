"""Constant metric speed against constant Euclidean speed: which equation is easier to solve, and what it costs."""

from __future__ import annotations

import numpy as np
import pandas as pd
import streamlit as st

from core import datasets
from core.experiments import parameterization
from core.experiments.judges import rows
from dashboard import paper, plane
from dashboard.result_charts import SHORT_TITLES, Axis, Series, lines, plain_line

NAME = "parameterization"
FORM_TITLES = {"euclidean": "constant Euclidean speed", "metric": "constant metric speed"}
SOLVER_TITLES = {"newton": "Newton type", "sweeps": "Algorithm 1", "collocation": "solve_bvp"}
DASHES = {"graph": "solid", "straight": "dot"}
GUESS_TITLES = {"graph": "from a graph's path", "straight": "from a straight line"}
COLORS = {form: k for k, form in enumerate(FORM_TITLES)}


def page() -> None:
    """The whole page, top to bottom."""
    experiment = parameterization.EXPERIMENT
    paper.head(
        "Parameterization",
        experiment.question,
        "A geodesic can be walked in two ways: so that each step costs the same (constant metric speed, the textbook's "
        "equation), or so that each step is equally long on paper (constant Euclidean speed, the paper's). Both "
        "equations have the same solutions as curves; a computer does not find both equally well.",
    )
    found = paper.result(NAME)
    if found is not None:
        plane.figure(solver_figure(rows(found.table, part="solver")), key="solvers")
        st.caption(
            "Share of pairs for which a solver ended at the geodesic (no longer than it by 1 %), with the binomial "
            "standard error; 40 pairs a dataset, T = 50 steps."
        )
        st.markdown(
            "From a graph's path the Newton-type solver finds nearly all geodesics in either form; Algorithm 1 and "
            "solve_bvp lose some on the spirals. From a straight line every solver fails for most pairs on the "
            "spirals, where the line crosses empty gaps. Wherever the two forms differ by more than the error bars, "
            "constant Euclidean speed is the better one."
        )
        left, right = st.columns([1, 1], gap="large")
        with left:
            plane.figure(shape_figure(rows(found.table, part="shape")), key="shape")
            st.caption(
                "One geodesic of the Gaussian mixture in 30 equal steps of each kind, drawn apart. At constant metric "
                "speed ‖γ'‖ is proportional to p^β: steps are long where the density is high. (The paper's text says "
                "it the other way round; its formula says this.)"
            )
        with right:
            name = st.selectbox(
                "Dataset", found.about["spec"]["datasets"], 1, format_func=datasets.TITLES.__getitem__, key="length of"
            )
            plane.figure(length_figure(rows(found.table, part="length", dataset=name)), key="lengths")
            st.caption(
                "How much longer than the geodesic the polyline through T steps is, mean over the pairs. Both fall "
                "like T⁻²: the difference of 0.1 % is an error of the discretization, not of the curve, and its sign "
                "depends on T and on the dataset."
            )
        paper.made(NAME, found)
    paper.claims((NAME,))
    recompute(experiment.full, None if found is None else found.table)
    paper.to_try(
        "Open the two spirals with T = 20 and look at the path of the mixture pool: its few equal steps cut the "
        "corners, which is the error that the right figure counts. Then raise T (Advanced) until the corners are gone, "
        "and β until a path stops converging: its row says so.",
        {"dataset": "two_spirals", "methods": "truth,mixture", "beta": "2", "T": "20"},
    )


def recompute(spec: parameterization.Spec, shipped: pd.DataFrame | None) -> None:
    """One solver on one dataset, here and now."""
    st.markdown("#### Compute a cell of this table")
    with st.container(horizontal=True):
        name = st.selectbox("Dataset", spec.datasets, 2, format_func=datasets.TITLES.__getitem__, key="live dataset")
        solver = st.selectbox(
            "Solver", ["newton", "collocation"], format_func=SOLVER_TITLES.__getitem__, key="live solver"
        )
    st.caption("All 40 pairs of the shipped cell, both equations and both first guesses: a few seconds.")

    def show(fresh: pd.DataFrame) -> None:
        columns = ["guess", "form", "converged", "geodesic", "iterations"]
        table = fresh[columns].rename(columns={"converged": "solved", "geodesic": "at the geodesic"})
        if shipped is not None:
            same = rows(shipped, part="solver", dataset=name, solver=solver)
            table["at the geodesic, shipped"] = same["geodesic"].to_numpy()
            table["iterations, shipped"] = same["iterations"].to_numpy()
        table["guess"], table["form"] = table["guess"].map(GUESS_TITLES), table["form"].map(FORM_TITLES)
        st.dataframe(table, hide_index=True, width="stretch")

    paper.live(NAME, spec, {"part": "solver", "dataset": name, "solver": solver}, show)


def solver_figure(table: pd.DataFrame) -> dict:
    """Share of pairs that ended at the geodesic, by dataset: one panel a solver."""
    names = list(dict.fromkeys(table["dataset"]))
    series = []
    for panel, solver in enumerate(SOLVER_TITLES):
        for guess in ("graph", "straight"):
            for form, title in FORM_TITLES.items():
                one = rows(table, solver=solver, guess=guess, form=form).set_index("dataset").loc[names]
                share, count = one["geodesic"].to_numpy(), one["pairs"].to_numpy()
                shift = 0.08 * (COLORS[form] - 0.5)
                series.append(
                    Series(
                        f"{title}, {GUESS_TITLES[guess]}",
                        np.arange(len(names)) + shift,
                        100 * share,
                        100 * np.sqrt(share * (1 - share) / count),
                        plain_line(COLORS[form], DASHES[guess]),
                        "circle" if guess == "graph" else "circle-open",
                        panel,
                        legend=panel == 0,
                    )
                )
    short = tuple(SHORT_TITLES[name] for name in names)
    x = Axis("", ticks=tuple(range(len(names))), labels=short, range=(-0.3, len(names) - 0.7))
    y = [Axis("ended at the geodesic (%)", range=(-4, 104))] + [Axis("", range=(-4, 104))] * 2
    figure = lines(series, x, y, tuple(SOLVER_TITLES.values()), height=400)
    for axis in ("yaxis2", "yaxis3"):
        figure["layout"][axis]["showticklabels"] = False  # the same as on the left; phones are narrow
    return figure


def shape_figure(table: pd.DataFrame) -> dict:
    """The same curve twice, at equal steps of each kind."""
    series = []
    for form, title in FORM_TITLES.items():
        one = rows(table, form=form)
        apart = 0.8 * COLORS[form]
        series.append(
            Series(title, one["x"].to_numpy() + apart, one["y"].to_numpy(), None, plain_line(COLORS[form], width=1.0))
        )
    figure = lines(series, Axis("x, the second curve moved aside"), Axis("y"), height=380)
    figure["layout"]["yaxis"] |= {"scaleanchor": "x"}
    return figure


def length_figure(table: pd.DataFrame) -> dict:
    """Excess length over the number of steps."""
    series = []
    for form, title in FORM_TITLES.items():
        one = rows(table, form=form)
        series.append(
            Series(title, one["steps"].to_numpy(), 100 * np.expm1(one["solved"]), None, plain_line(COLORS[form]))
        )
    steps = tuple(sorted(table["steps"].unique().tolist()))
    return lines(
        series, Axis("steps T", log=True, ticks=steps), Axis("longer than the geodesic (%)", log=True), height=310
    )


page()
