"""The bandwidth that is best for a kernel estimate's log density against the one that is best for its score."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st

from core.experiments import kde_tradeoff
from core.experiments.judges import rows
from core.experiments.kde_tradeoff import TARGETS
from core.experiments.running import Result
from core.mixtures import KDE_WIDENING
from dashboard import compute, paper, plane
from dashboard.result_charts import SERIES_COLORS, SHORT_TITLES, Axis, Series, lines, mark, method_line, plain_line

NAME, FLOWS = "kde_tradeoff", "flow_scores"
TITLES = {"log_density": "log density", "score": "score"}
COLORS = {target: k for k, target in enumerate(TARGETS)}
WEIGHT_TITLES = {"density": "where the points are (weight p)", "interval": "evenly on [−3, 3]"}
# Where an error counts: 95 % of the normal density's weight, and all of the interval.
REACHES = {"density": 1.96, "interval": 3.0}
REACH_WORDS = {
    "density": "95 % of the weight",
    "interval": "where the error counts",
}
GRID = kde_tradeoff.EXPERIMENT.full.grid
LEAST, MOST, EACH = 0.7, 30.0, 0.82  # of the figure's vertical axis: its ends, and where single samples' optima are
SHADE = "rgba(128, 128, 128, 0.12)"
ALIKE = 1.1  # an error within this factor of that at its best bandwidth does not suffer
PRESET_TITLES = {"fast": "our fast preset", "paper": "the paper's preset"}
# Method of the table of flow scores -> its title, and the color of its dots.
FLOW_METHODS = {
    "flow": ("flow graph, not relaxed", method_line("flow")["color"]),
    "flow_score": ("the flow's own score", SERIES_COLORS[3]),
    "score": ("the learned score", method_line("score")["color"]),
}
LIVE_DRAWS = {250: 50, 1000: 20, 4000: 8}  # a few seconds of computing for each n


def page() -> None:
    """The whole page, top to bottom."""
    experiment = kde_tradeoff.EXPERIMENT
    paper.head(
        "Estimators",
        experiment.question,
        "Geodesics need a log density, for lengths, and its gradient, the score, for relaxation. The paper suspects "
        "that no estimate is the best for both. Its example is the simplest there is: points from a one-dimensional "
        "standard normal, and a kernel density, which puts a small Gaussian of width σ on every point.",
    )
    found = paper.result(NAME)
    sizes = experiment.full.sizes if found is None else found.about["spec"]["sizes"]
    size, weight = choices(sizes)
    explore(found, size, weight)
    if found is not None:
        paper.made(NAME, found)
    flows_too()
    paper.claims((NAME, FLOWS))
    recompute(experiment.full, found)
    paper.to_try(
        "Here: count the error evenly on [−3, 3], set the slider to the best σ for the log density, and ask for new "
        "samples: the middle of the score stays, its ends shake, where points are rare. In the explorer: our own "
        f"kernel density widens the σ that is best by likelihood {KDE_WIDENING} times, for the sake of its score. "
        "Compare its path on the two moons with the score model's and the true one, then with fewer points.",
        {"dataset": "moons", "methods": "truth,score,kde"},
    )


def choices(sizes: Sequence[int]) -> tuple[int, str]:
    """How many points, and where their estimate's error counts."""
    with st.container(horizontal=True, gap="medium"):
        size = st.radio(
            "Points n", sizes, usual(sizes), horizontal=True, key="estimators size", persist_state="session"
        )
        weight = st.radio(
            "The error counts",
            list(WEIGHT_TITLES),
            format_func=WEIGHT_TITLES.__getitem__,
            horizontal=True,
            key="estimators weight",
            persist_state="session",
            help="The paper does not say what it integrates over. Over the whole line both errors are infinite for "
            "every σ: far out the estimate falls off like a single kernel. So we read it in two ways.",
        )
    return size, weight


def usual(sizes: Sequence[int]) -> int:
    """Which of the sizes is the paper's."""
    return list(sizes).index(1000) if 1000 in sizes else 0


@st.fragment
def explore(found: Result | None, size: int, weight: str) -> None:
    """The shipped errors over the bandwidth, and one sample's estimate at the slider's."""
    best = {} if found is None else rows(found.table, part="optimum", size=size, weight=weight).iloc[0].to_dict()
    places = {target: int(np.abs(GRID - best[target]).argmin()) for target in TARGETS} if best else {}
    place = st.session_state.setdefault("estimators bandwidth", places.get("log_density", len(GRID) // 2))
    draw = st.session_state.setdefault("estimators draw", 0)
    bandwidth = float(GRID[place])
    if found is not None:
        errors = rows(found.table, part="mise", size=size, weight=weight)
        plane.figure(error_figure(errors, best, bandwidth), key="estimators errors")
        st.caption(what_is_drawn(best, found.about["spec"]))
        st.markdown(in_numbers(best, rows(found.table, part="optimum", weight=weight)))
    st.markdown("#### One sample")
    controls(places)
    drawn = compute.kernel_estimate(size, draw, bandwidth)
    plane.figure(estimate_figure(drawn, REACHES[weight]), key="estimators estimate")
    st.caption(f"Shaded: {REACH_WORDS[weight]}. Lines may leave the frame, which is the same for every σ.")
    st.markdown(what_suffers(size, draw, weight, places))


def what_is_drawn(best: Mapping[Any, Any], spec: Mapping[str, Any]) -> str:
    """Lines and marks of the figure of errors."""
    draws, step = spec["draws"], (spec["widest"] / spec["narrowest"]) ** (1 / (spec["bandwidths"] - 1)) - 1
    log_density, score = (f"{best[f'{target}_each']:.3f} ± {best[f'{target}_error']:.3f}" for target in TARGETS)
    return (
        f"Mean integrated squared error (MISE) of {draws} samples, each curve over its own least, with the standard "
        f"error; bandwidths in steps of {100 * step:.0f} %. Rings: the least MISE. Marks below: what is best "
        f"for each sample by itself, in the mean {log_density} and {score}; the former is the smaller for "
        f"{best['ordered'] * draws:.0f} of the {draws}."
    )


def in_numbers(best: Mapping[Any, Any], optima_by_size: pd.DataFrame) -> str:
    """What the figure shows, in words."""
    ratios = optima_by_size["score"] / optima_by_size["log_density"]
    log_density, score = (f"σ\u00a0=\u00a0{best[target]:.2f}" for target in TARGETS)
    return (
        f"The log density is best at **{log_density}**, the score at **{score}**. Each pays for the other's: the error "
        f"of the log density is {best['log_density_growth']:.1f} times its least at {score}, that of the score "
        f"{best['score_growth']:.1f} times its least at {log_density}. The score's best σ is "
        f"{in_words([f'{ratio:.2f}' for ratio in ratios])} times the log density's at n = "
        f"{in_words([f'{size:.0f}' for size in optima_by_size['size']])}."
    )


def in_words(items: Sequence[str]) -> str:
    """One, two and three."""
    return " and ".join(filter(None, (", ".join(items[:-1]), items[-1])))


def controls(places: Mapping[str, int]) -> None:
    """The slider, and buttons that set it or draw another sample."""
    st.select_slider(
        "Bandwidth σ",
        range(len(GRID)),
        format_func=lambda k: f"{GRID[k]:.3f}",
        key="estimators bandwidth",
        persist_state="session",
    )
    with st.container(horizontal=True):
        for target, place in places.items():
            st.button(
                f"Best for the {TITLES[target]}: {GRID[place]:.2f}",
                on_click=set_bandwidth,
                args=(place,),
                key=f"estimators best {target}",
            )
        st.button("New sample", icon=":material/casino:", on_click=next_sample, key="estimators new sample")


def set_bandwidth(place: int) -> None:
    """Move the slider."""
    st.session_state["estimators bandwidth"] = place


def next_sample() -> None:
    """Draw the next sample."""
    st.session_state["estimators draw"] += 1


def what_suffers(size: int, draw: int, weight: str, places: Mapping[str, int]) -> str:
    """The errors of one sample's estimate, and which of them is the worse for the slider's bandwidth."""
    place = st.session_state["estimators bandwidth"]
    now = compute.kernel_errors(size, draw, float(GRID[place]))
    errors = {target: now[weight, target] for target in TARGETS}
    said = f"Sample {draw + 1}: integrated squared error " + ", ".join(
        f"**{error:.3g}** of the {TITLES[target]}" for target, error in errors.items()
    )
    if not places:
        return said + "."
    growth = {
        target: error / compute.kernel_errors(size, draw, float(GRID[places[target]]))[weight, target]
        for target, error in errors.items()
    }
    factors = " and ".join(f"{factor:.2f}" if factor < 10 else f"{factor:.0f}" for factor in growth.values())
    said += f" ({factors} times what they are at their own best σ).  \n"
    worse = max(TARGETS, key=growth.__getitem__)
    if growth[worse] < ALIKE:
        return said + "Neither suffers: both errors are about what they are at their best σ, or less."
    why = (
        "σ is too narrow for it, and it is noisy"
        if place < places[worse]
        else "σ is too wide, and it is smoothed too much"
    )
    return said + f"The **{TITLES[worse]}** suffers more: {why}."


def error_figure(table: pd.DataFrame, best: Mapping[Any, Any], bandwidth: float) -> dict[str, Any]:
    """Both errors over the bandwidth, each over its own least, with the optima and the slider's bandwidth."""
    here = {"color": SERIES_COLORS[6], "dash": "dot", "width": 2}
    series, marks = [Series("the slider below", np.full(2, bandwidth), np.array([LEAST, MOST]), None, here, "")], []
    for target, title in TITLES.items():
        one = rows(table, target=target)
        sigma, mise = one["bandwidth"].to_numpy(), one["mise"].to_numpy()
        line, least = plain_line(COLORS[target]), mise.min()
        series.append(Series(title, sigma, mise / least, one["mise_error"].to_numpy() / least, line, ""))
        each, error = best[f"{target}_each"], best[f"{target}_error"]
        marks.append(mark(title, best[target], 1.0, line["color"], "circle-open", 12))
        marks.append(mark(title, each, EACH, line["color"], "circle", 3, error))
    x = Axis("bandwidth σ", log=True, ticks=(0.1, 0.2, 0.3, 0.5, 1.0), range=(0.98 * GRID[0], 1.02 * GRID[-1]))
    y = Axis("MISE over its own least", log=True, ticks=(1, 2, 5, 10, 20), range=(LEAST, MOST))
    figure = lines(series[1:] + series[:1], x, y, height=360)
    figure["data"] += marks
    return figure


def estimate_figure(drawn: Mapping[str, np.ndarray], reach: float) -> dict[str, Any]:
    """Log density and score of a kernel estimate beside the truth; where the error counts is shaded."""
    series = []
    for panel, (target, title) in enumerate(TITLES.items()):
        line, truth = plain_line(COLORS[target], width=2.0), method_line("truth", 2.0)
        series += [
            Series("truth", drawn["x"], drawn[f"true_{target}"], None, truth, "", panel, legend=panel == 0),
            Series(f"{title}, estimated", drawn["x"], drawn[target], None, line, "", panel),
        ]
    y = [Axis("nats", range=(-11.5, 0.5)), Axis("", range=(-8, 8))]
    figure = lines(series, Axis("x", range=(-4, 4)), y, tuple(TITLES.values()), height=340)
    band = {"type": "rect", "x0": -reach, "x1": reach, "y0": 0, "y1": 1, "layer": "below", "fillcolor": SHADE}
    band |= {"line": {"width": 0}}
    figure["layout"]["shapes"] = [band | {"xref": f"x{k}", "yref": f"y{k} domain"} for k in ("", "2")]
    return figure


def flows_too() -> None:
    """What the score of a flow is worth, beside one that was learned as such."""
    st.markdown("#### Is it so for flows, too?")
    found = paper.result(FLOWS)
    if found is None:
        return
    presets = found.about["spec"]["presets"]
    preset = st.radio(
        "Trained by",
        presets,
        format_func=PRESET_TITLES.__getitem__,
        horizontal=True,
        key="estimators preset",
        persist_state="session",
    )
    part = rows(found.table, preset=preset)
    plane.figure(flow_figure(part), key="estimators flows")
    st.caption(
        f"n = {found.about['spec']['size']}. Left: mean squared error of each score, over that of no score at all, at "
        f"{found.about['spec']['fresh']} points that no model saw. Right: mean LPR of "
        f"{part['pairs'].max():.0f} graph paths, as they are and relaxed along either score by the same solver; bars "
        "are standard errors. Refused paths count as the graph's."
    )
    st.markdown(flows_in_words(part))
    paper.made(FLOWS, found)


def flows_in_words(part: pd.DataFrame) -> str:
    """What the figure of flow scores shows."""
    errors = rows(part, part="error").groupby("method")["error"].agg(["min", "max"])
    lpr, converged = (rows(part, part="paths").groupby("method")[of].mean() for of in ("mean_lpr", "converged"))
    own, learned = (
        " to ".join(f"{errors[end][of]:.{0 if errors[end][of] >= 10 else 2}f}" for end in ("min", "max"))
        for of in ("flow_score", "score")
    )
    return (
        f"The flow's own score has an error of {own}, the learned one of {learned} (1 would be that of no score). "
        f"Relaxation converges for {100 * converged['flow_score']:.0f} % of the pairs along the former and "
        f"{100 * converged['score']:.0f} % along the latter. On the average over datasets it takes the LPR from "
        f"{lpr['flow']:.3f} to {lpr['flow_score']:.3f} along the former, and to {lpr['score']:.3f} along the latter."
    )


def flow_figure(part: pd.DataFrame) -> dict[str, Any]:
    """Errors of both scores, and the LPR of the graph's paths and of both relaxed ones, dataset by dataset."""
    names = list(part["dataset"].unique())
    series = []
    for panel, (which, column, error) in enumerate((("error", "error", ""), ("paths", "mean_lpr", "standard_error"))):
        for k, (method, (title, color)) in enumerate(FLOW_METHODS.items()):
            one = part[(part["part"] == which) & (part["method"] == method)].set_index("dataset").reindex(names)
            at, line = np.arange(len(names)) + 0.15 * (k - 1), {"color": color, "width": 0}
            errors = one[error].to_numpy() if error else None
            series.append(Series(title, at, one[column].to_numpy(), errors, line, panel=panel, legend=panel == 1))
    labels = tuple(SHORT_TITLES[name] for name in names)
    x = Axis("", ticks=tuple(range(len(names))), labels=labels, range=(-0.5, len(names) - 0.5))
    y = [
        Axis("", log=True, ticks=(0.03, 0.1, 0.3, 1, 3, 10, 30, 100)),
        Axis("", log=True, ticks=(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)),
    ]
    return lines(series, x, y, ("error of the score", "mean LPR"), height=360)


def recompute(spec: kde_tradeoff.Spec, found: Result | None) -> None:
    """The optima of one n, here and now."""
    st.markdown("#### Compute the optima again")
    size = st.radio("Points n", spec.sizes, usual(spec.sizes), horizontal=True, key="estimators live size")
    st.caption(
        f"The first {LIVE_DRAWS[size]} of the {spec.draws} samples, for both ways to count the error: some seconds. "
        "Fewer samples, larger error bars."
    )

    def show(fresh: pd.DataFrame) -> None:
        shipped = None if found is None else rows(found.table, part="optimum", size=size)
        st.dataframe(optima(fresh, shipped), hide_index=True, width="stretch")

    few = replace(spec, draws=LIVE_DRAWS[size])
    paper.live(NAME, few, {"part": "optimum", "size": size}, show)


def optima(fresh: pd.DataFrame, shipped: pd.DataFrame | None) -> pd.DataFrame:
    """Fresh optima beside the shipped ones, one line for each weight and target."""
    table = []
    for weight, words in WEIGHT_TITLES.items():
        for target, title in TITLES.items():
            line = {"the error counts": words, "best for the": title}
            for source, which in ((fresh, "here"), (shipped, "shipped")):
                if source is not None:
                    row = rows(source, weight=weight).iloc[0]
                    line[f"σ, {which}"] = f"{row[target]:.3f}"
                    line[f"single samples, {which}"] = f"{row[f'{target}_each']:.3f} ± {row[f'{target}_error']:.3f}"
            table.append(line)
    return pd.DataFrame(table)


page()
