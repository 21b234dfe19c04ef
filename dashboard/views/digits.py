"""Digits that turn into each other along geodesics of an autoencoder's latent space, and the paper's table of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from string import Template

import numpy as np
import pandas as pd
import streamlit as st

from core.experiments import digits
from core.experiments.judges import rows
from core.experiments.report import is_rehearsal
from core.experiments.running import Result
from core.geodesics import Status
from dashboard import charts, compute, paper, pictures, plane
from dashboard.result_charts import Axis, Series, heatmap, lines, plain_line

NAME = "digits"
ENDS = {"start": ("From", 5, 27), "end": ("To", 2, 10)}  # title, digit at first, and which image of it
BETAS = {0.0: "0", 0.1: "0.1 = 1/D", 0.5: "0.5", 1.0: "1"}
PLACES = 11  # frames in a strip; the film has five from one to the next
EVERY = digits.STEPS // (5 * (PLACES - 1))
# What is shown, by how it ended: its name, and the method whose color it has.
PATHS = {
    Status.CONVERGED: ("geodesic", "score"),
    Status.NOT_CONVERGED: ("best path", "score"),
    Status.NOT_SHORTER: ("graph's path", "flow"),
}
METHOD_TITLES = {
    "relaxed": "geodesic (relaxed)",
    "graph": "path over the graph",
    "straight": "straight line, its length by the flow",
    "euclidean": "Euclidean distance of the codes",
}
# Table 1 of the paper, its last column: difference of log distances, and standard deviation, of the digits 0 to 9.
PAPER = pd.DataFrame(
    {
        "mean": (1.32, 2.04, 0.49, 0.75, 0.73, 0.59, 0.91, 0.95, 0.46, 0.80),
        "deviation": (0.49, 0.58, 0.35, 0.41, 0.53, 0.39, 0.51, 0.56, 0.39, 0.59),
    }
)
KINDS = ("intra", "inter", "difference")
DIGITS = [str(digit) for digit in range(digits.CLASSES)]
# --t goes from 0 to 1 along the paths; every picture is one row of frames, of which --t shows one.
FILM = """<style>
@property --t {syntax: "\\3c number>"; inherits: true; initial-value: 0}
@keyframes film {0%, 8% {--t: 0} 92%, 100% {--t: 1}} .film-box {container-type: inline-size}
.film {--px: 5px; --big: 34px; font-size: 14px; animation: film 6s steps($frames, jump-none) infinite alternate}
.film:has([value=pause]:checked) {animation-play-state: paused} $stills
.film figure {margin: 0} .film figcaption {padding-bottom: 4px}
.film figcaption::before {content: ""; border-top: 3px solid $color; padding-right: 22px; margin-right: 6px;
  position: relative; top: -4px; font-size: 0}
.film figure:last-child figcaption::before {border-top: 3px dotted #8C8C8C}
.film i {display: block; width: calc(8 * var(--px)); height: calc(8 * var(--px)); image-rendering: pixelated;
  background-size: calc($frames * 100%) 100%; background-position: calc(100% * var(--at, var(--t))) 0;
  outline: 1px solid rgba(128, 128, 128, .7)}
.film i.path {background-image: $path} .film i.line {background-image: $line}
.film-screens {display: flex; gap: 20px} .film-screens i {--px: var(--big)}
.film label {cursor: pointer; position: relative} .film input {position: absolute; opacity: 0; pointer-events: none}
.film label:has(:checked), .film label:has(:focus-visible) {outline: 2px solid #0072B2; outline-offset: 2px}
.film-bar {display: flex; gap: 8px 12px; align-items: center; flex-wrap: wrap; padding: 14px 0}
.film-bar label {padding: 3px 12px; border: 1px solid rgba(128, 128, 128, .5); border-radius: 4px}
.film-strip {display: flex; gap: 5px; align-items: center} .film-strip label, .film-names {display: grid; gap: 5px}
.film-names {width: 80px; margin-bottom: 10px} .film-names span {height: calc(8 * var(--px)); align-content: center}
.film i.aside {background-size: 100% 100%; margin: 0 5px 10px}
.film-track {position: relative; height: 3px; margin-top: 7px; background: rgba(128, 128, 128, .3)}
.film-track b {position: absolute; left: calc((100% - 8px) * var(--t)); top:-2px; border: 4px solid; border-radius: 4px}
@container (max-width: 690px) {.film {--px: 4px; --big: 28px}}
@container (max-width: 590px) {.film {--big: 24px} .film .aside {display: none}}
@container (max-width: 420px) {.film {--px: 3px; --big: 16px} .film-strip {gap: 2px}}
</style>"""


def page() -> None:
    """The whole page, top to bottom."""
    paper.head(
        "Digits",
        digits.EXPERIMENT.question,
        "An autoencoder turns each image into a code of ten numbers, and such codes back into images; a flow and a "
        "score model learn the density of the codes. A geodesic between two codes, decoded point by point, is a film: "
        "one digit becomes another, by way of codes that are likely. The paper does this with MNIST. Here it is the "
        "1797 digits of 8×8 pixels that scikit-learn brings along, since MNIST cannot be shipped; with a network, "
        "`python -m core.experiments run digits --mnist` takes that.",
    )
    watch()
    found = paper.result(NAME)
    if found is not None:
        distances(found)
        paper.made(NAME, found)
    paper.claims((NAME,))
    recompute(found)
    paper.to_try(
        "Go from image 29 of the 1s to image 19 of the 9s, and raise β from 0 to 1: at first one image fades out and "
        "the other in, at last the film goes by way of a 2 and a 3. Then take two 9s: how much shorter is their path?"
    )


# --- the film -------------------------------------------------------------------------------------------------------


@st.fragment
def watch() -> None:
    """Two images, β, and the film between them."""
    i, j = (chosen(end, column) for end, column in zip(ENDS, st.columns(2, gap="large")))
    beta = st.select_slider("β", list(BETAS), 0.1, BETAS.__getitem__, key="digits beta", width=420)
    if i == j:
        st.info("Both are the same image: choose another one on either side.", icon=":material/filter_2:")
        return
    try:
        with st.spinner("Loading the autoencoder, the flow and the score model: some seconds, the first time…"):
            found: digits.LatentGeodesic = compute.digit_geodesic(i, j, beta)
            frames = compute.digit_frames(i, j, beta, EVERY)
    except ValueError as problem:
        st.error(f"There is no film: {problem}.", icon=":material/error:")
        return
    left, right = st.columns([5, 3], gap="large")
    left.html(film(frames, compute.digit_images()[0][[i, j]], found.status))
    with right:
        lengths(found, beta)
    st.markdown(
        "**Can the digits on the way be read?** The paper's Fig. 9 says so. It is a matter for eyes; ours see less of "
        "it here. At β = 1/D the path bends little, and its film is nearly that of the straight line: one "
        "image fades out and the other in. Between a 3 and a 9 that looks right, halfway between a 0 and a 1 one reads "
        "neither. At β = 1 most frames are digits, often others than the two ends. But mostly that is the graph's "
        "path, whose corners are codes of training images: the relaxed one is refused, since by the flow it is longer."
    )


def chosen(end: str, column: st.delta_generator.DeltaGenerator) -> int:
    """Widgets for one end of the path; the row of its image."""
    name, first_digit, first_number = ENDS[end]
    images, held_out = compute.digit_images()
    with column:
        digit = st.pills(
            name, range(digits.CLASSES), default=first_digit, required=True, wrap=True, key=f"digits {end}"
        )
        of_digit = held_out[digit]
        label, at_first = (
            f"Image, of {len(of_digit)} that no model has seen",
            first_number if digit == first_digit else 1,
        )
        number = st.number_input(label, 1, len(of_digit), at_first, key=f"digits {end} {digit}")
        row = of_digit[number - 1]
        with st.container(horizontal=True):
            st.image(pictures.enlarged(images[row], 12), alt=f"the chosen {digit}")
            st.image(compute.digit_sheet(digit, number - 1), alt=f"all held-out images of {digit}")
    return row


def lengths(found: digits.LatentGeodesic, beta: float) -> None:
    """The three lengths, and what is to be said of them."""
    line, name = found.straight_log_length, PATHS[found.status][0]
    shown = f"{name}, evenly spaced" if found.status is Status.NOT_SHORTER else name
    named = {shown: found.log_length, "graph's path": found.graph_log_length, "straight line": line}
    table = [f"| {name} | {nats:.3f} | {100 * np.expm1(nats - line):+.1f}\u00a0% |" for name, nats in named.items()]
    head = "| path | log length (nats) | vs. line |\n|:--|--:|--:|\n"
    st.markdown(head + "\n".join(table).replace("-", "−"))
    longer = [name for name, nats in list(named.items())[1:] if found.log_length > nats]
    if found.status is not Status.CONVERGED:
        st.warning(str(found.status), icon=":material/info:")
    elif beta > 0 and longer:
        st.markdown(
            f"This path is longer than the {' and the '.join(longer)}, as no true geodesic is: it was relaxed by the "
            "score model, its length is the flow's, and the two do not agree about the density to that accuracy."
        )
    if beta == 0:
        st.markdown("At β = 0 density does not count, and the geodesic is the straight line.")
    st.caption("Lengths are by the flow, as in the paper; they can be compared between pairs at the same β.")


def film(frames: tuple[np.ndarray, np.ndarray], ends: np.ndarray, status: Status) -> str:
    """The film of a path beside the straight line's, and frames to choose from, as HTML that plays by itself."""
    name, method = PATHS[status]
    places = list(enumerate(np.linspace(0, 1, PLACES)))
    stills = "".join(f".film:has([value=at{k}]:checked) {{animation: none; --t: {t:g}}}\n" for k, t in places)
    path, line = (pictures.data_url(np.hstack(list(each))) for each in frames)
    color = charts.PALETTE[method]
    style = Template(FILM).substitute(stills=stills, frames=len(frames[0]), path=path, line=line, color=color)
    first, last = (f"<i class='aside' style='background-image: {pictures.data_url(image)}'></i>" for image in ends)
    strip = "".join(
        f"<label style='--at: {t:g}'><input type='radio' name='film' value='at{k}' aria-label='frame {k}'>"
        "<i class='path'></i><i class='line'></i></label>"
        for k, t in places
    )
    return (
        f"{style}<div class='film-box'><div class='film'>"
        f"<div class='film-screens'><figure><figcaption>{name}</figcaption><i class='path'></i></figure>"
        "<figure><figcaption>straight line</figcaption><i class='line'></i></figure></div>"
        "<div class='film-bar'><label><input type='radio' name='film' value='play' checked>▶ Play</label>"
        "<label><input type='radio' name='film' value='pause'>❚❚ Pause</label><span>or choose a frame:</span></div>"
        f"<div class='film-strip'><div class='film-names aside'><span>{name}</span><span>straight line</span></div>"
        f"{first}<div><div class='film-strip'>{strip}</div><div class='film-track'><b></b></div></div>{last}"
        "</div></div></div>"
    )


# --- the table ------------------------------------------------------------------------------------------------------


def distances(found: Result) -> None:
    """All classes against all, and the paper's Table 1 of them."""
    st.markdown("#### How far each digit is from the others")
    method = st.selectbox(
        "Measured along", list(METHOD_TITLES), format_func=METHOD_TITLES.__getitem__, key="digits method", width=320
    )
    spec, table = found.about["spec"], found.table
    left, right = st.columns(2, gap="large")
    with left:
        values = rows(table, kind="distance", method=method).pivot_table("mean_log_distance", "first", "second")
        figure = heatmap(values.to_numpy(), DIGITS, DIGITS, "images of", "from the mean of", "nats", height=500)
        plane.figure(figure, key="digits distances")
        st.caption(
            f"Log distance from the mean code of a digit's training images to {spec['pairs']} held-out images of each "
            f"digit: mean of {spec['seeds']} trainings, each with a split of its own, at β = {spec['beta']:g}."
        )
    with right:
        intra, inter, ours = (summary(table, kind, method) for kind in KINDS)
        both = [points("intra", intra, 0, -1), points("inter", inter, 1, 1)]
        plane.figure(digit_figure(both, "log distance (nats)"), key="digits intra and inter")
        both = [points("ours", ours, 2, -1), points("the paper's, MNIST", PAPER, 6, 1)]
        plane.figure(digit_figure(both, "inter − intra (nats)"), key="digits difference")
        st.caption(
            "Above: ours, to images of the same digit (intra) and of all others (inter). Below: the difference, beside "
            "the paper's Table 1. Bars are standard deviations over images, as there."
        )
    st.markdown(
        "Each row of the map is least on its diagonal. Along geodesics, 8 has the least difference in the paper and "
        "here. 1 has the greatest in the paper, and nearly the least here, where a 1 is a plain stroke, or has a flag, "
        "or a foot. Only differences can be compared: scaling all codes by c, which an autoencoder is free to do, adds "
        "2 log c to every log distance at β = 1/D. Choose the straight line above: its differences are nearly those of "
        "the geodesics, so at this β the bending of paths hardly helps to tell digits apart."
    )
    with st.expander("The numbers, with standard errors"):
        st.dataframe(number_table(table, method), hide_index=True, width="stretch")
        st.caption("± standard deviation over images; standard errors are those of the mean over all trainings.")


def summary(table: pd.DataFrame, kind: str, method: str) -> pd.DataFrame:
    """Mean, deviation over images and standard error of one kind of distance for each digit, all seeds together."""
    part = rows(table, kind=kind, method=method).groupby("first")
    error = part["standard_error"].agg(lambda each: np.sqrt((each**2).sum()) / len(each))
    return pd.DataFrame(
        {"mean": part["mean_log_distance"].mean(), "deviation": part["standard_deviation"].mean(), "error": error}
    )


def points(name: str, values: pd.DataFrame, color: int, side: int) -> Series:
    """One number a digit, with its deviation; no line between digits."""
    x, line = np.arange(digits.CLASSES) + 0.13 * side, plain_line(color, width=0.0)
    return Series(name, x, values["mean"].to_numpy(), values["deviation"].to_numpy(), line)


def digit_figure(series: Sequence[Series], y: str) -> dict:
    """Two numbers a digit, side by side."""
    figure = lines(series, Axis("digit", ticks=tuple(range(digits.CLASSES)), range=(-0.5, 9.5)), Axis(y), height=250)
    figure["layout"]["legend"] = {"orientation": "h", "x": 1, "xanchor": "right", "y": 1, "yanchor": "bottom"}
    return figure


def number_table(table: pd.DataFrame, method: str) -> pd.DataFrame:
    """Table 1 as text, the paper's differences beside ours."""
    said: dict[str, Sequence[str]] = {"digit": DIGITS}
    ours = {kind: summary(table, kind, method) for kind in KINDS}
    for name, values in (ours | {"difference, the paper's": PAPER}).items():
        said[name] = [f"{mean:.2f} ± {deviation:.2f}" for mean, deviation in zip(values["mean"], values["deviation"])]
        if "error" in values:
            said[f"{name}, standard error"] = [f"{error:.3f}" for error in values["error"]]
    return pd.DataFrame(said)


# --- a cell, computed again -----------------------------------------------------------------------------------------


def recompute(found: Result | None) -> None:
    """One class mean against the images of one class, by the shipped models."""
    st.markdown("#### Compute a cell of this table")
    with st.container(horizontal=True):
        first = st.selectbox("From the mean of", range(digits.CLASSES), 8, key="digits live first")
        second = st.selectbox("To images of", range(digits.CLASSES), 3, key="digits live second")
    st.caption(f"{digits.FULL.pairs} geodesics by the shipped models, which are those of the table's seed 0.")

    def show(fresh: pd.DataFrame) -> None:
        table = fresh[["method", "mean_log_distance"]].set_axis(["along", "log distance"], axis=1)
        table["along"] = table["along"].map(METHOD_TITLES)
        if found is not None and not is_rehearsal(found) and found.about["spec"] == asdict(digits.FULL):
            same = rows(found.table, kind="distance", seed=0, first=first, second=second).set_index("method")
            table["shipped"] = same.loc[fresh["method"], "mean_log_distance"].to_numpy()
            apart = (table["log distance"] - table["shipped"]).abs().max()
            st.markdown(f"The shipped table agrees to {apart:.0e} nats.")
        numbers = {name: st.column_config.NumberColumn(format="%.7f") for name in table.columns[1:]}
        st.dataframe(table, hide_index=True, width="stretch", column_config=numbers)

    paper.live(NAME, digits.FULL, {"seed": compute.DIGITS_SEED, "first": first, "second": second}, show)


page()
