"""The clickable plane: density, sample, paths, handles and method rows in one Streamlit component.

This is the Python door to ``frontend/``. The page describes what is to be seen with three frozen values (Base, Field,
Overlay) and is told about clicks and moves through a callback; the component sends the heavy parts only when the
browser does not hold them yet. The plane knows nothing about ``core``.
"""

import dataclasses
import filecmp
import functools
import importlib.util
import json
import math
import os
import shutil
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import streamlit as st
from numpy import ndarray

from dashboard import charts
from dashboard.plane.events import Event, Point, read_event

FRONTEND = Path(__file__).parent / "frontend"
HOLD = 8  # base pictures and fields that the browser keeps, as in index.js

Bounds = tuple[float, float, float, float]


@dataclass(frozen=True, eq=False)
class Base:
    """What lies under the paths; sent once per key.

    Attributes:
        key: identity of this picture: equal keys mean equal arrays.
        log_density: ``(R, C)``, nats: the heatmap; row 0 at y0, columns from x0 to x1, outer nodes on the bounds. None
            for a grid of lines instead.
        bounds: ``(x0, x1, y0, y1)`` of the outer nodes, data units; a square box looks best.
        points: ``(N, 2)``: the sample.
        view: the zoom is kept while this stays the same (the dataset's name, say).
        axes: titles of the x and the y axis, shown as they are (no markup); "" for none.
    """

    key: str
    log_density: ndarray | None
    bounds: Bounds
    points: ndarray
    view: str = ""
    axes: tuple[str, str] = ("", "")


@dataclass(frozen=True, eq=False)
class Field:
    """Distances from A on a grid, for the live geodesics; sent once per key.

    Attributes:
        key: identity of this field: start, density and beta.
        distance: ``(G, H)``, any increasing function of the distance from A; not finite where unknown. Rows as above.
        bounds: ``(x0, x1, y0, y1)`` of the outer nodes.
    """

    key: str
    distance: ndarray
    bounds: Bounds


@dataclass(frozen=True, eq=False)
class Overlay:
    """What changes with a click.

    Attributes:
        endpoints: A and B.
        reports: one dict per row, in the order of the rows: method (a name of ``charts.TITLES``), lpr, log_length,
            seconds (numbers or None) and status. Status "", "OK" or "CONVERGED" is quiet, "LOADING" pulses, any other
            is shown under the row. A ``note``, where given, is the sentence to show for the status. With a true
            ``warning``, a small sign stands before that sentence, or beside the method where there is none.
        paths: method -> ``(T, 2)``, in drawing order (the last one on top).
        field: distances from A, or None for no live geodesics.
        highlight: method whose path is thick while none is pointed at.
        lpr_title: head of the LPR column.
        sentence: what this picture shows, under the rows.
        file_name: name for saved pictures, without ending.
        drawing: the user sprays points; A, B, the paths and the rows are out of sight.
        marks: method -> ranges ``(i, j)`` of its path, first and last index, to be underlaid with a warning band.
        snap: A and B can only be put on points of the base.
        titles: method -> title, where it is not that of ``charts.TITLES``.
    """

    endpoints: tuple[Point, Point]
    reports: tuple[dict, ...] = ()
    paths: Mapping[str, ndarray] = dataclasses.field(default_factory=dict)
    field: Field | None = None
    highlight: str | None = None
    lpr_title: str = "LPR"
    sentence: str = ""
    file_name: str = "geodesics"
    drawing: bool = False
    marks: Mapping[str, tuple[tuple[int, int], ...]] = dataclasses.field(default_factory=dict)
    snap: bool = False
    titles: Mapping[str, str] = dataclasses.field(default_factory=dict)


def draw(base: Base, overlay: Overlay, *, key: str, on_event: Callable[[Event], None]) -> None:
    """Draw the plane here; ``on_event`` is called before the rerun that a click or a move causes.

    Args:
        base: the picture under the paths.
        overlay: endpoints, paths and rows.
        key: identity of the component on the page.
        on_event: what to do with an Event, usually to put its endpoints into the session state.
    """
    browser = _browser(key)

    def listen() -> None:
        value = st.session_state[key]["event"]
        if not isinstance(value, dict):
            return
        event = read_event(value, browser["answers"])
        browser["holds"] = list(value.get("holds", []))
        browser["answers"] = value.get("seq", 0)
        if event is not None:
            on_event(event)

    data = message(base, overlay, key, browser["answers"], browser["holds"])
    browser["holds"] = now_held(base, overlay, browser["holds"])
    _component()(key=key, data=data, on_event_change=listen)


def message(base: Base, overlay: Overlay, key: str, answers: int, holds: list[str]) -> bytes:
    """The one thing that crosses to the browser, packed.

    Args:
        base: the picture under the paths.
        overlay: endpoints, paths and rows.
        key: the component's key.
        answers: sequence number of the last event that this message takes into account.
        holds: what the browser holds: the arrays of the base and of the field are left out where they are named here.
    """
    base_key, field_key = _names(base, overlay)
    arrays: dict[str, ndarray] = {f"path{k}": path for k, path in enumerate(overlay.paths.values())}
    head: dict[str, Any] = {
        "key": key,
        "answers": answers,
        "base": base_key,
        "base_info": {"view": base.view, "bounds": base.bounds, "axes": base.axes},
        "field": field_key,
        "endpoints": overlay.endpoints,
        "reports": overlay.reports,
        "paths": list(overlay.paths),
        "styles": _styles(overlay),
        "highlight": overlay.highlight,
        "lpr_title": overlay.lpr_title,
        "sentence": overlay.sentence,
        "file_name": overlay.file_name,
        "drawing": overlay.drawing,
        "marks": dict(overlay.marks),
        "snap": overlay.snap,
    }
    if base_key not in holds:
        arrays["points"] = base.points
        if base.log_density is not None:
            arrays["grid"] = base.log_density
    if overlay.field and field_key not in holds:
        arrays["field"] = overlay.field.distance
        head["field_bounds"] = overlay.field.bounds
    return pack(head, arrays)


def pack(head: dict[str, Any], arrays: Mapping[str, ndarray]) -> bytes:
    """``[u32 length][JSON][float32 blobs]``; the JSON lists each blob's name and shape."""
    listed = head | {"arrays": [(name, np.shape(array)) for name, array in arrays.items()]}
    text = json.dumps(_plain(listed), allow_nan=False).encode()
    with np.errstate(over="ignore"):  # beyond float32 is "unknown" in the browser
        blobs = [np.ascontiguousarray(array, "<f4").tobytes() for array in arrays.values()]
    return b"".join([struct.pack("<I", len(text)), text, *blobs])


def preload() -> None:
    """Let the browser begin to load plotly.js, before there is anything to draw."""
    _component()(key="preload", data=b"")


def figure(figure: dict[str, Any], *, key: str) -> None:
    """Draw a figure dict of lines here, with the plane's own plotly.js: zoom and hidden lines are kept over redraws.

    Args:
        figure: as from ``charts``: its traces' ``x`` and ``y`` are arrays.
        key: identity of the figure on the page.
    """
    arrays = {f"{axis}{k}": trace[axis] for k, trace in enumerate(figure["data"]) for axis in ("x", "y")}
    data = [trace | {"x": f"x{k}", "y": f"y{k}"} for k, trace in enumerate(figure["data"])]
    _component()(key=key, data=pack({"figure": {"data": data, "layout": figure["layout"]}}, arrays))


def _plain(value: Any) -> Any:
    """The value as JSON allows it: numpy numbers become Python's, what is not finite becomes None."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _styles(overlay: Overlay) -> dict[str, dict]:
    """Color, dash pattern and title of each method that is shown."""
    styles = {name: charts.style(name) for name in {*overlay.paths, *(r["method"] for r in overlay.reports)}}
    return {name: style | {"title": overlay.titles.get(name, style["title"])} for name, style in styles.items()}


def _browser(key: str) -> dict:
    """What this session's browser is known to hold, and its last event; one dict per component key."""
    return st.session_state.setdefault(f"{key} in the browser", {"holds": [], "answers": 0})


def now_held(base: Base, overlay: Overlay, holds: list[str]) -> list[str]:
    """What the browser holds after this message: the same rule as in index.js, newest last, at most ``HOLD``."""
    named = [name for name in _names(base, overlay) if name]
    return [*(name for name in holds if name not in named), *named][-HOLD:]


def _names(base: Base, overlay: Overlay) -> tuple[str, str | None]:
    """The names under which the browser keeps the base and the field."""
    return f"base {base.key}", f"field {overlay.field.key}" if overlay.field else None


@functools.cache
def _component() -> Callable[..., Any]:
    """The registered component; plotly.js is put beside it first."""
    _copy_plotly()
    return st.components.v2.component("geodesic-explorer.plane", js="index.js", css="plane.css", isolate_styles=False)


def _copy_plotly() -> None:
    """Copy plotly.min.js out of the installed plotly package, when it is missing here or another version."""
    package = importlib.util.find_spec("plotly")
    if package is None or not package.submodule_search_locations:
        raise ModuleNotFoundError("plotly is not installed: run `make setup`")
    source = Path(package.submodule_search_locations[0]) / "package_data" / "plotly.min.js"
    target = FRONTEND / "plotly.min.js"
    if target.exists() and filecmp.cmp(source, target, shallow=False):
        return
    part = FRONTEND / f"plotly.{os.getpid()}.part"  # two servers may start at the same time
    shutil.copyfile(source, part)
    os.replace(part, target)
