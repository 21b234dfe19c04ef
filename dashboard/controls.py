"""Widgets and links -> frozen specs. Owns every widget key of the sidebar, and what the session remembers.

A choice lives in one place: the session state, under its parameter's name. Widgets are bound to it by key, the link is
read into it when it changed under us (first run, an opened link, the back button) and written from it at each run.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from itertools import combinations
from typing import Any

import numpy as np
import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from core import datasets, methods
from core.mixtures import MIN_POINTS
from core.tables import Upload
from dashboard import charts
from dashboard.library import LIBRARY
from dashboard.specs import (
    BETAS,
    DATASETS,
    LARGEST_SIZE,
    METHOD_ORDER,
    PARAMETERS,
    PRESETS,
    SCALES,
    SIZES,
    ExplorerSpec,
    Place,
    Preset,
    SceneSpec,
    default_endpoints,
    is_own,
    read_url,
    write_url,
)

MODEL_TITLES = {"fast": "fast (our recipe)", "paper": "paper (its hyperparameters)"}
SCALE_TITLES = {"given": "as given", "standard": "standardized"}
NOT_A_MIXTURE = " · not a mixture"
# The user's points at first: at most so many of them, fewer in many dimensions, where every density is dear; and
# standardized where two columns differ in spread by more than this.
FIRST_SIZES, UNLIKE_SPREADS = {5: 5000, 10: 2000, 50: 1000}, 5.0
PASTED, DRAWN = "pasted text", "drawn points"
GONE = "These points are no longer on this server: bring the file again, then the link works."


# --- the session ----------------------------------------------------------------------------------------------------


def sync_with_url() -> list[str]:
    """Take over the link that the page was opened with or taken back to; the sentences about what could not be used.

    Any other link that differs from ours is an old one: the browser asked before it had read of our last change. It
    says nothing, and is written again.
    """
    found = st.query_params.to_dict()
    returned = st.session_state.pop("elsewhere", False)
    if returned and not found and "dataset" in st.session_state:
        _write_url()  # back from another page, whose link has no choices: everything is as it was
        return []
    shown = st.session_state.get("dataset", "")
    gone = is_own(shown) and not LIBRARY.has(shown)
    opened = "url" not in st.session_state or returned or _went_back()
    if not gone and (found == st.session_state.get("url") or not opened):
        return []
    values, complaints = read_url(found)
    if is_own(values["dataset"]) and not LIBRARY.has(values["dataset"]):
        complaints.append(GONE)
        values, _ = read_url({name: text for name, text in found.items() if name in ("beta", "methods")})
    st.session_state.update(values)
    if is_own(values["dataset"]):
        _remember(values["dataset"])
        problem = _unusable(values["dataset"], values["columns"])
        st.session_state["columns refused"], st.session_state["columns in use"] = "", tuple(values["columns"])
        if problem:
            _adopt(values["dataset"])
            if values["columns"]:
                complaints.append(problem)
    _write_url()
    return complaints


def _went_back() -> bool:
    """Whether the browser's back or forward button asked for this run; Streamlit has no public name for it."""
    context = get_script_run_ctx()
    return context is not None and context.is_history_navigation


def leave_explorer() -> None:
    """Another page is shown: its link says nothing of the explorer's choices, which stay as they are."""
    if st.query_params:
        st.query_params.clear()
    st.session_state["elsewhere"] = True


def _write_url() -> None:
    wanted = write_url({p.name: st.session_state[p.name] for p in PARAMETERS})
    if wanted != st.query_params.to_dict():
        st.query_params.from_dict(wanted)
    st.session_state["url"] = wanted


def current() -> ExplorerSpec:
    """The spec of what is chosen now; also writes it to the link."""
    _write_url()
    s = st.session_state
    own = is_own(s["dataset"])
    return ExplorerSpec(
        SceneSpec(s["dataset"], s["size"], s["seed"], s["models"], s["columns in use"] if own else (), s["scale"]),
        float(s["beta"]),
        tuple(name for name in METHOD_ORDER if name in s["methods"] and not (own and name == "true_graph")),
        methods.MethodSettings(neighbors=s["k"], segments=s["S"], intrinsic_dim=float(s["d"]), steps=s["T"]),
        s["start"],
        s["end"],
        s["axes"],
    )


def set_endpoints(start: Place | None, end: Place | None) -> None:
    """Move the endpoints."""
    st.session_state["start"], st.session_state["end"] = start, end


def random_pair(points: np.ndarray) -> None:
    """Two different points of the sample, other ones at each call."""
    draw = st.session_state["draws"] = st.session_state.get("draws", 0) + 1
    i, j = (int(row) for row in np.random.default_rng(draw).choice(len(points), 2, replace=False))
    if points.shape[1] > 2:
        return set_endpoints(i, j)
    (x1, y1), (x2, y2) = points[[i, j]].round(6).tolist()
    return set_endpoints((x1, y1), (x2, y2))


def reset() -> None:
    """Everything as it was at the first visit, except the dataset."""
    dataset = st.session_state["dataset"]
    values, _ = read_url({"dataset": dataset})
    st.session_state.update(values)
    if is_own(dataset):
        _adopt(dataset)


def apply(query: Mapping[str, str]) -> None:
    """Everything that a preset says; the rest as at the first visit."""
    st.session_state["drawing"] = False
    st.session_state.update(read_url(query)[0])


def lesson() -> Preset | None:
    """The preset that the page shows just now, if it shows one."""
    shown = {p.name: st.session_state[p.name] for p in PARAMETERS}
    return next((preset for preset in PRESETS if read_url(preset.query)[0] == shown), None)


# --- the user's own points ------------------------------------------------------------------------------------------


def _remember(dataset: str) -> None:
    """List the file among this session's datasets."""
    known = st.session_state.setdefault("own", [])
    if dataset not in known:
        known.append(dataset)


def _adopt(dataset: str) -> None:
    """Show the user's own points, with defaults that fit them."""
    s, read = st.session_state, LIBRARY.upload(dataset)
    _remember(dataset)
    s["dataset"], s["seed"] = dataset, 0
    s["columns"] = [read.choices.index(name) for name in read.suggested[:2]]
    if _unusable(dataset, s["columns"]):  # too few rows have both: then all columns, which do
        s["columns"] = [read.choices.index(name) for name in read.columns]
    spread = LIBRARY.upload(dataset, tuple(s["columns"])).points.std(axis=0)
    s["scale"] = "standard" if spread.max() > UNLIKE_SPREADS * spread.min() else "given"
    _fit_to_columns()


def _unusable(dataset: str, columns: list[int]) -> str:
    """Why these columns of the user's file cannot be used; empty where they can."""
    if len(columns) < 2:
        return "Choose at least two columns."
    try:
        LIBRARY.upload(dataset, tuple(columns))
    except ValueError as problem:
        return str(problem)
    return ""


def _fit_to_columns() -> None:
    """β, d, n and the endpoints as they are usual for so many columns; nothing while they cannot be used."""
    s = st.session_state
    dim = len(s["columns"])
    s["columns refused"] = _unusable(s["dataset"], s["columns"])
    if s["columns refused"]:
        return
    s["columns in use"] = tuple(s["columns"])
    s["beta"], s["d"] = (1.0, 2.0) if dim == 2 else (float(f"{1 / dim:.6g}"), float(dim))
    s["axes"] = ()
    if dim > 2:
        s["scale"] = "standard"
    most = next(size for most_dim, size in FIRST_SIZES.items() if dim <= most_dim)
    s["size"] = min(len(LIBRARY.upload(s["dataset"], tuple(s["columns"])).points), most)
    set_endpoints(None, None)


def _dataset_changed() -> None:
    s = st.session_state
    s.pop("refused", None)
    s["drawing"] = False
    if is_own(s["dataset"]):
        if LIBRARY.has(s["dataset"]):
            return _adopt(s["dataset"])
        s["own"].remove(s["dataset"])
        s["refused"], s["dataset"] = GONE, PARAMETERS[0].default
    if s["beta"] not in BETAS:
        s["beta"] = 1.0
    s["columns"], s["scale"], s["axes"], s["d"] = [], "given", (), 2.0
    return set_endpoints(*default_endpoints(s["dataset"]))


def _forget_endpoints() -> None:
    set_endpoints(None, None)


def take(data: bytes, name: str) -> None:
    """Bring points to the page; where they cannot be used, all stays as it was and a sentence says why."""
    try:
        dataset = LIBRARY.keep(data, name)
    except ValueError as problem:
        st.session_state["refused"] = str(problem)
        return
    st.session_state.pop("refused", None)
    st.session_state["drawing"] = False
    _adopt(dataset)


def _take_file() -> None:
    file = st.session_state["file"]
    if file is not None:
        take(file.getvalue(), file.name)


def _take_text() -> None:
    take(st.session_state["text"].encode(), PASTED)


# --- drawing points -------------------------------------------------------------------------------------------------


def is_drawing() -> bool:
    """Whether the plane is a canvas now."""
    return bool(st.session_state.get("drawing"))


def drawn_points() -> np.ndarray:
    """What was drawn so far, (N, 2)."""
    strokes = st.session_state.get("strokes", [])
    return np.array([point for stroke in strokes for point in stroke], dtype=float).reshape(-1, 2)


def add_stroke(points: tuple[tuple[float, float], ...]) -> None:
    """One more stroke of the spray."""
    st.session_state.setdefault("strokes", []).append(points)


def _start_drawing() -> None:
    st.session_state["drawing"] = True
    st.session_state.setdefault("strokes", [])


def _stop_drawing() -> None:
    st.session_state["drawing"] = False


def _undo_stroke() -> None:
    st.session_state["strokes"] = st.session_state["strokes"][:-1]


def _clear_strokes() -> None:
    st.session_state["strokes"] = []


def _use_strokes() -> None:
    text = io.StringIO()
    np.savetxt(text, drawn_points(), fmt="%.6g", delimiter=",", header="x,y", comments="")
    take(text.getvalue().encode(), DRAWN)


def drawing_bar() -> None:
    """What one can do with the strokes, above the canvas."""
    count = len(drawn_points())
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.markdown(f"##### Draw points · {count}")
        st.button("Undo", icon=":material/undo:", on_click=_undo_stroke, disabled=not count)
        st.button("Clear", icon=":material/delete:", on_click=_clear_strokes, disabled=not count)
        st.button("Leave", icon=":material/close:", on_click=_stop_drawing, help="Back to the data shown before")
        st.button(
            "Use these points",
            icon=":material/check:",
            type="primary",
            on_click=_use_strokes,
            disabled=count < MIN_POINTS,
            help=f"At least {MIN_POINTS} points are needed.",
        )


# --- widgets --------------------------------------------------------------------------------------------------------


def sidebar() -> None:
    """The left column down to the methods; the rest is `sidebar_end`, so that training can stand between them."""
    with st.sidebar:
        st.markdown("### Geodesic explorer")
        st.selectbox(
            "Data",
            [*DATASETS, *st.session_state.get("own", [])],
            key="dataset",
            format_func=_dataset_title,
            on_change=_dataset_changed,
            persist_state="session",
        )
        _bring_points()
        if is_own(st.session_state["dataset"]):
            _own_points()
        _size()
        _beta()
        own = is_own(st.session_state["dataset"])
        st.pills(
            "Methods",
            [name for name in METHOD_ORDER if not (own and name == "true_graph")],
            selection_mode="multi",
            key="methods",
            format_func=lambda name: charts.title(name, own),
            persist_state="session",
        )
        st.radio(
            "Models of flow and score",
            methods.PRESETS,
            key="models",
            format_func=MODEL_TITLES.__getitem__,
            persist_state="session",
            help="Shipped for sample seed 0: fast at n = 200 to 5000, paper at n = 1000. All else can be trained here.",
        )


def sidebar_end() -> None:
    """The left column below the training: presets and advanced."""
    with st.sidebar:
        with st.popover("Presets", icon=":material/school:", width="stretch"):
            for preset in PRESETS:
                st.button(preset.title, help=preset.lesson, width="stretch", on_click=apply, args=(preset.query,))
        with st.expander("Advanced"):
            keep: dict[str, Any] = {"persist_state": "session"}
            st.number_input("Sample seed", 0, 2**31 - 1, key="seed", help="Models are shipped for seed 0.", **keep)
            st.number_input("k, neighbors in the graph", 2, 100, key="k", **keep)
            st.number_input("S, segments of an edge", 1, 50, key="S", **keep)
            st.number_input("d, intrinsic dimension of power weights", 0.1, 50.0, step=0.5, key="d", **keep)
            st.number_input("T, steps of a relaxed path", 20, 1000, step=20, key="T", **keep)


def _dataset_title(name: str) -> str:
    if is_own(name):
        return LIBRARY.title(name) if LIBRARY.has(name) else "points that have gone"
    return datasets.TITLES[name] + (NOT_A_MIXTURE if name in datasets.EXTRA else "")


def _bring_points() -> None:
    with st.popover("Bring your own points", icon=":material/upload_file:", width="stretch"):
        st.file_uploader(
            "A file of points",
            key="file",
            on_change=_take_file,
            help="CSV, TSV or other text, NPY, NPZ with one array, Parquet; 20 to 100,000 rows, up to 20 MB. "
            "Leave this menu open until the points appear: a file that is still on its way is dropped when it closes. "
            "It stays in the memory of the server that you started.",
        )
        st.text_area("Or paste a table", key="text", height=100, placeholder="x, y\n0.1, 0.7\n…")
        st.button("Use the text", on_click=_take_text, width="stretch", disabled=not st.session_state.get("text"))
        st.button("Or draw points by hand", icon=":material/draw:", on_click=_start_drawing, width="stretch")
    if "refused" in st.session_state:
        st.error(st.session_state["refused"], icon=":material/error:")


def _own_points() -> None:
    """What was read, and which columns of it are used."""
    s = st.session_state
    everything = LIBRARY.upload(s["dataset"])
    in_use = s["columns in use"]
    read = LIBRARY.upload(s["dataset"], in_use)
    with st.expander(_summary(read), icon=":material/table:"):
        st.markdown("\n".join(f"- {charts.plain(note)}" for note in read.notes) or "Everything was used as it came.")
    if len(everything.choices) > 2:
        st.multiselect(
            "Columns",
            range(len(everything.choices)),
            key="columns",
            format_func=everything.choices.__getitem__,
            on_change=_fit_to_columns,
            max_selections=50,
            persist_state="session",
        )
        if s.get("columns refused"):
            st.warning(f"{charts.plain(s['columns refused'])} Until then the last choice is shown.")
        measured = [everything.choices.index(name) for name in everything.suggested]
        if len(measured) > 2 and s["columns"] != measured:
            st.button(
                f"Use all {len(measured)} columns",
                on_click=_use_columns,
                args=(measured,),
                width="stretch",
                help="All columns of numbers, but for row numbers and labels such as classes.",
            )
    st.radio(
        "Scale",
        SCALES,
        key="scale",
        format_func=SCALE_TITLES.__getitem__,
        horizontal=True,
        on_change=_forget_endpoints,
        persist_state="session",
        help="Standardized: each column less its mean, over its standard deviation, so that units do not matter.",
    )
    if len(in_use) > 2:
        names = read.columns
        st.selectbox(
            "Seen along",
            [(), *combinations(range(len(names)), 2)],
            key="axes",
            format_func=lambda pair: " × ".join(names[i] for i in pair) if pair else "principal components",
            persist_state="session",
        )


def _use_columns(columns: list[int]) -> None:
    st.session_state["columns"] = columns
    _fit_to_columns()


def _summary(read: Upload) -> str:
    said = f"{len(read.points)} rows, {len(read.columns)} columns"
    return f"{said}, {len(read.notes)} note{'s' if len(read.notes) > 1 else ''}" if read.notes else said


def _size() -> None:
    s = st.session_state
    most = LARGEST_SIZE
    if is_own(s["dataset"]):
        most = min(LARGEST_SIZE, len(LIBRARY.upload(s["dataset"], s["columns in use"]).points))
        s["size"] = min(s["size"], most)
    sizes = sorted({*(size for size in SIZES if size <= most), s["size"], *([most] if most < LARGEST_SIZE else [])})
    if len(sizes) > 1:
        st.select_slider("Sample size n", sizes, key="size", on_change=_forget_rows, persist_state="session")


def _forget_rows() -> None:
    """Data points have other numbers in another sample."""
    if isinstance(st.session_state["start"], int):
        set_endpoints(None, None)


def _beta() -> None:
    s = st.session_state
    dim = max(2, len(s["columns in use"])) if is_own(s["dataset"]) else 2
    natural = float(f"{1 / dim:.6g}")
    marks = {natural: "½ = 1/D" if dim == 2 else f"{natural:.4g} = 1/D"}
    st.select_slider(
        "Inverse temperature β",
        sorted({*BETAS, s["beta"], natural}),
        key="beta",
        format_func=lambda beta: marks.get(beta, f"{beta:.4g}"),
        persist_state="session",
        help="The metric is p^(−2β): at β = 0 the straight line wins, at high β only the density counts. "
        "β = 1/D keeps the picture alike in every dimension.",
    )
    if dim > 2 and s["beta"] == natural:
        st.caption(
            f"β = 1/{dim}: log densities grow with the number of columns, and 1/D keeps lengths as spread as in one."
        )
