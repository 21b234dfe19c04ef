"""Widgets and URL parameters -> frozen specs. Owns every widget key, every URL parameter, and nothing else.

A choice lives in one place: the session state, under its parameter's name. Widgets are bound to it by key, the URL is
read into it when it changed under us (first run, an opened link, the back button) and written from it at each run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import streamlit as st

from core import datasets, methods
from dashboard import charts

Point = tuple[float, float]

SIZES = (200, 500, 1000, 2000, 5000)
LARGEST_SIZE = 10_000
BETAS = (0.0, 0.1, 0.2, 0.25, 0.35, 0.5, 0.7, 1.0, 1.4, 2.0, 3.0, 5.0, 10.0)
MARKS = {0.5: "½ = 1/D"}
FARTHEST = 1e6  # data units: coordinates beyond this are a slip
DEFAULT_METHODS = ("truth", "score", "mixture", "flow", "power")
# Rows and drawing order: the truth first, then from the best to the crudest.
METHOD_ORDER = ("truth", "score", "mixture", "kde", "flow", "true_graph", "power", "straight")
MODEL_TITLES = {"fast": "fast (our recipe)", "paper": "paper (its hyperparameters)"}

# Endpoints that show something on each dataset.
ENDPOINTS: dict[str, tuple[Point, Point]] = {
    "standard_normal": ((-1.6, -0.9), (1.2, 1.5)),
    "gaussian_mixture": ((0.9, 0.4), (7.9, 0.4)),
    "circle": ((-0.95, -0.25), (0.9, 0.35)),
    "spiral": ((0.12, 0.22), (0.05, -1.72)),
    "two_spirals": ((0.35, -0.78), (-0.52, 0.68)),
}


@dataclass(frozen=True)
class SceneSpec:
    """Which points, truth and models; small and hashable, so that it is a cache key."""

    dataset: str
    size: int
    seed: int
    preset: str

    @property
    def title(self) -> str:
        """The dataset's name for people."""
        return datasets.TITLES[self.dataset]


@dataclass(frozen=True)
class ExplorerSpec:
    """Everything that the explorer page shows."""

    scene: SceneSpec
    beta: float
    methods: tuple[str, ...]
    settings: methods.MethodSettings
    start: Point
    end: Point


# --- parameters: how each is read from a URL, written to it, and what it is by default -----------------------------


def _whole(low: int, high: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        number = int(text)
        if not low <= number <= high:
            raise ValueError
        return number

    return read


def _number(low: float, high: float) -> Callable[[str], float]:
    def read(text: str) -> float:
        number = float(text)
        if not low <= number <= high:  # NaN is not, either
            raise ValueError
        return number

    return read


def _beta(text: str) -> float:
    return 0.5 if text.strip().upper() == "1/D" else _number(0.0, 10.0)(text)


def _one_of(names: tuple[str, ...]) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text not in names:
            raise ValueError
        return text

    return read


def _methods(text: str) -> list[str]:
    wanted = [name for name in text.split(",") if name]
    if not set(wanted) <= set(methods.NAMES):
        raise ValueError
    return [name for name in METHOD_ORDER if name in wanted]


def _point(text: str) -> Point:
    x, y = (_number(-FARTHEST, FARTHEST)(part) for part in text.split(","))
    return x, y


@dataclass(frozen=True)
class Parameter:
    """One choice: its name in the URL and the session state, its default, and its way into and out of a URL."""

    name: str
    default: Any
    read: Callable[[str], Any]
    wanted: str
    write: Callable[[Any], str] = str


def _write_point(point: Point) -> str:
    return ",".join(f"{number:.6g}" for number in point)


PARAMETERS = (
    Parameter("dataset", "two_spirals", _one_of(datasets.NAMES), f"one of {', '.join(datasets.NAMES)}"),
    Parameter("size", 1000, _whole(20, LARGEST_SIZE), f"a whole number from 20 to {LARGEST_SIZE}"),
    Parameter("seed", 0, _whole(0, 2**31 - 1), "a whole number >= 0"),
    Parameter("models", "fast", _one_of(methods.PRESETS), f"one of {', '.join(methods.PRESETS)}"),
    Parameter("beta", 1.0, _beta, "a number from 0 to 10, or 1/D", lambda beta: f"{beta:.6g}"),
    Parameter("methods", list(DEFAULT_METHODS), _methods, f"some of {', '.join(methods.NAMES)}", ",".join),
    Parameter("k", 20, _whole(2, 100), "a whole number from 2 to 100"),
    Parameter("S", 10, _whole(1, 50), "a whole number from 1 to 50"),
    Parameter("d", 2.0, _number(0.1, 10.0), "a number from 0.1 to 10", lambda d: f"{d:.6g}"),
    Parameter("T", 200, _whole(20, 1000), "a whole number from 20 to 1000"),
    Parameter("start", None, _point, "two numbers, x,y", _write_point),
    Parameter("end", None, _point, "two numbers, x,y", _write_point),
)


def read_url(params: Mapping[str, str]) -> tuple[dict[str, Any], list[str]]:
    """URL parameters -> a value for every choice, and a sentence for each parameter that could not be used.

    What is missing or unusable takes its default; endpoints take their dataset's.
    """
    values: dict[str, Any] = {}
    complaints = []
    for parameter in PARAMETERS:
        values[parameter.name] = parameter.default
        if parameter.name in params:
            try:
                values[parameter.name] = parameter.read(params[parameter.name])
            except ValueError:
                shown = params[parameter.name][:40]
                complaints.append(f"`{parameter.name}` should be {parameter.wanted}; the link says “{shown}”.")
    known = {parameter.name for parameter in PARAMETERS}
    complaints += [
        f"The link has a parameter `{name[:40]}` that means nothing here." for name in params if name not in known
    ]
    start, end = ENDPOINTS[values["dataset"]]
    values["start"], values["end"] = values["start"] or start, values["end"] or end
    return values, complaints


def write_url(values: Mapping[str, Any]) -> dict[str, str]:
    """The shortest set of URL parameters that `read_url` turns into these values."""
    start, end = ENDPOINTS[values["dataset"]]
    defaults = {parameter.name: parameter.default for parameter in PARAMETERS} | {"start": start, "end": end}
    return {p.name: p.write(values[p.name]) for p in PARAMETERS if values[p.name] != defaults[p.name]}


# --- the session ----------------------------------------------------------------------------------------------------


def sync_with_url() -> list[str]:
    """Take over the URL where it changed under us; the sentences about what could not be used."""
    found = st.query_params.to_dict()
    if found == st.session_state.get("url"):
        return []
    values, complaints = read_url(found)
    st.session_state.update(values)
    _write_url()
    return complaints


def _write_url() -> None:
    wanted = write_url({p.name: st.session_state[p.name] for p in PARAMETERS})
    if wanted != st.query_params.to_dict():
        st.query_params.from_dict(wanted)
    st.session_state["url"] = wanted


def current() -> ExplorerSpec:
    """The spec of what is chosen now; also writes it to the URL."""
    _write_url()
    s = st.session_state
    return ExplorerSpec(
        SceneSpec(s["dataset"], s["size"], s["seed"], s["models"]),
        float(s["beta"]),
        tuple(name for name in METHOD_ORDER if name in s["methods"]),
        methods.MethodSettings(neighbors=s["k"], segments=s["S"], intrinsic_dim=float(s["d"]), steps=s["T"]),
        tuple(s["start"]),
        tuple(s["end"]),
    )


def set_endpoints(start: Point, end: Point) -> None:
    """Move the endpoints."""
    st.session_state["start"], st.session_state["end"] = tuple(start), tuple(end)


def default_endpoints() -> None:
    """The endpoints of the chosen dataset."""
    set_endpoints(*ENDPOINTS[st.session_state["dataset"]])


def swap() -> None:
    """B becomes A."""
    set_endpoints(st.session_state["end"], st.session_state["start"])


def random_pair(points: np.ndarray) -> None:
    """Two different points of the sample, other ones at each call."""
    draw = st.session_state["draws"] = st.session_state.get("draws", 0) + 1
    i, j = np.random.default_rng(draw).choice(len(points), 2, replace=False)
    (x1, y1), (x2, y2) = points[[i, j]].round(6).tolist()
    set_endpoints((x1, y1), (x2, y2))


def reset() -> None:
    """Everything as it was at the first visit, except the dataset."""
    values, _ = read_url({"dataset": st.session_state["dataset"]})
    st.session_state.update(values)


def apply(query: Mapping[str, str]) -> None:
    """Everything that a preset says; the rest as at the first visit."""
    st.session_state.update(read_url(query)[0])


# --- presets: each teaches one thing --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Preset:
    """A picture with a lesson: a title, one sentence, and the URL parameters that make it."""

    title: str
    lesson: str
    query: dict[str, str]


PRESETS = (
    Preset(
        "Follow the data",
        "The straight line crosses the empty gap and pays for it; the geodesic walks both arms.",
        {"dataset": "two_spirals", "methods": "truth,mixture,straight"},
    ),
    Preset(
        "Power weights wander",
        "Even on one Gaussian the power graph is longer than a straight line: its densities are too rough.",
        {"dataset": "standard_normal", "methods": "truth,power,straight"},
    ),
    Preset(
        "Density is the bottleneck",
        "The same graph with the true density is nearly right. What power weights lack is a density, not a graph.",
        {"dataset": "gaussian_mixture", "methods": "truth,true_graph,flow,power"},
    ),
    Preset(
        "Relaxation smooths",
        "The score-relaxed path starts as the flow's jagged graph path and ends next to the truth.",
        {"dataset": "circle", "methods": "truth,score,flow"},
    ),
    Preset(
        "Which way around?",
        "Two ways of nearly equal length: move A or B a little and the geodesic jumps to the other side.",
        {"dataset": "circle", "methods": "truth,mixture,flow", "start": "-1,0.02", "end": "1,-0.06"},
    ),
    Preset(
        "β near 0: almost Euclid",
        "With β = 0.1 the density hardly matters, and every method agrees.",
        {"dataset": "spiral", "beta": "0.1", "methods": "truth,score,mixture,flow,power"},
    ),
    Preset(
        "β = 3: ridges rule",
        "A high β makes the path climb to the ridge of the density at once and stay there.",
        {"dataset": "gaussian_mixture", "beta": "3", "methods": "truth,score,mixture,flow"},
    ),
    Preset(
        "The paper's recipe on spirals",
        "With the paper's hyperparameters the flow blurs the arms and sliced score matching hardly learns them.",
        {"dataset": "two_spirals", "models": "paper", "methods": "truth,score,mixture,flow"},
    ),
)


# --- widgets --------------------------------------------------------------------------------------------------------


def _beta_label(beta: float) -> str:
    return MARKS.get(beta, f"{beta:.4g}")


def sidebar() -> None:
    """The left column: data, models, β, methods, presets, advanced."""
    with st.sidebar:
        st.markdown("### Geodesic explorer")
        st.selectbox(
            "Data",
            datasets.NAMES,
            key="dataset",
            format_func=datasets.TITLES.__getitem__,
            on_change=default_endpoints,
            persist_state="session",
        )
        sizes = sorted({*SIZES, st.session_state["size"]})
        st.select_slider("Sample size n", sizes, key="size", persist_state="session")
        betas = sorted({*BETAS, st.session_state["beta"]})
        st.select_slider(
            "Inverse temperature β",
            betas,
            key="beta",
            format_func=_beta_label,
            persist_state="session",
            help="The metric is p^(−2β): at β = 0 the straight line wins, at high β only the density counts. "
            "β = 1/D keeps the picture alike in every dimension.",
        )
        st.pills(
            "Methods",
            METHOD_ORDER,
            selection_mode="multi",
            key="methods",
            format_func=charts.TITLES.__getitem__,
            persist_state="session",
        )
        st.radio(
            "Models of flow and score",
            methods.PRESETS,
            key="models",
            format_func=MODEL_TITLES.__getitem__,
            persist_state="session",
            help="Shipped for sample seed 0: fast at n = 200 to 5000, paper at n = 1000.",
        )
        with st.popover("Presets", icon=":material/school:", width="stretch"):
            for preset in PRESETS:
                st.button(preset.title, help=preset.lesson, width="stretch", on_click=apply, args=(preset.query,))
        with st.expander("Advanced"):
            keep: dict[str, Any] = {"persist_state": "session"}
            st.number_input("Sample seed", 0, 2**31 - 1, key="seed", help="Models are shipped for seed 0.", **keep)
            st.number_input("k, neighbors in the graph", 2, 100, key="k", **keep)
            st.number_input("S, segments of an edge", 1, 50, key="S", **keep)
            st.number_input("d, intrinsic dimension of power weights", 0.1, 10.0, step=0.5, key="d", **keep)
            st.number_input("T, steps of a relaxed path", 20, 1000, step=20, key="T", **keep)


def lesson() -> Preset | None:
    """The preset that the page shows just now, if it shows one."""
    shown = {p.name: st.session_state[p.name] for p in PARAMETERS}
    return next((preset for preset in PRESETS if read_url(preset.query)[0] == shown), None)
