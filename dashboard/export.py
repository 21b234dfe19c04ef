"""What leaves the page: links, tables, JSON and the code that makes a picture. Plain text in, plain text out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode, urlsplit, urlunsplit

import numpy as np
import pandas as pd

from core.methods import PathReport
from core.paths import Profile
from core.projections import Scaling
from dashboard.specs import ExplorerSpec, SceneSpec


@dataclass(frozen=True)
class Frame:
    """The space that paths live in: what its columns are called, how they were scaled, and where they came from.

    Attributes:
        columns: D names.
        scaling: from the file's units to those of the paths.
        source: the file's name; empty for named datasets.
        start, end: (D,) endpoints, in the units of the paths.
    """

    columns: tuple[str, ...]
    scaling: Scaling
    source: str
    start: tuple[float, ...]
    end: tuple[float, ...]


def link(url: str | None, parameters: Mapping[str, str]) -> str:
    """The page's address with these parameters."""
    parts = urlsplit(url or "")
    return urlunsplit((parts.scheme, parts.netloc, parts.path or "/", urlencode(parameters, safe=","), ""))


def file_name(spec: ExplorerSpec) -> str:
    """A name for files saved from this picture, without ending."""
    return f"geodesics-{spec.scene.dataset}-n{spec.scene.size}-beta{spec.beta:.4g}"


def share(profile: Profile, report: PathReport) -> np.ndarray:
    """Length used up along a path in units of the geodesic's whole length: ends at e^LPR."""
    return profile.cumulative * np.exp(np.minimum(report.lpr, 700.0))


def csv(reports: list[PathReport], frame: Frame) -> str:
    """All paths as one long table: method, point number, coordinates in the units of the data's file."""
    tables = []
    for report in reports:
        if len(report.path):
            table = pd.DataFrame(frame.scaling.undo(report.path), columns=list(frame.columns))
            table.insert(0, "method", report.method)
            table.insert(1, "point", np.arange(len(table)))
            tables.append(table)
    columns = ["method", "point", *frame.columns]
    return (pd.concat(tables) if tables else pd.DataFrame(columns=columns)).to_csv(index=False)


def as_json(spec: ExplorerSpec, reports: list[PathReport], frame: Frame) -> dict[str, Any]:
    """Settings, reports and paths as plain JSON values; paths and endpoints are in scaled units."""
    own = {
        "file": frame.source,
        "columns": list(frame.columns),
        "center": frame.scaling.center.tolist(),
        "scale": frame.scaling.scale.tolist(),
    }
    return {
        "dataset": spec.scene.dataset,
        **(own if spec.scene.own else {}),
        "size": spec.scene.size,
        "seed": spec.scene.seed,
        "models": spec.scene.preset,
        "beta": spec.beta,
        "start": list(frame.start),
        "end": list(frame.end),
        "neighbors": spec.settings.neighbors,
        "segments": spec.settings.segments,
        "intrinsic_dim": spec.settings.intrinsic_dim,
        "steps": spec.settings.steps,
        "judged_by": "the fitted reference" if spec.scene.own else "the true density",
        "reports": [report.as_json() for report in reports],
    }


def code(spec: ExplorerSpec, frame: Frame) -> str:
    """Python that makes the same paths with `core` alone."""
    s, m = spec.scene, spec.settings
    more = ", model_files" if s.models else ""
    scene = _own_scene(spec, frame, more) if s.own else _named_scene(spec, more)
    if s.models:
        scene += f"""
# The tab "Models" has this file to download.
trained = model_files.unpack(Path({models_file(s)!r}).read_bytes())
scene = scene.with_models(trained.flow, trained.score_model, {s.preset!r})
"""
    knobs = f"{m.neighbors}, {m.segments}, {m.intrinsic_dim}, {m.steps}"
    return f"""{scene}settings = methods.MethodSettings({knobs})  # k, S, d, T
names = {spec.methods!r}
for report in methods.compare(scene, {frame.start!r}, {frame.end!r}, {spec.beta!r}, names, settings):
    print(f"{{report.method:10s}} LPR {{report.lpr:.4f}}  {{report.status.name}}")
"""


def models_file(spec: SceneSpec) -> str:
    """A name for the file of a scene's models."""
    return f"models-{spec.preset}-{spec.models[:8]}.safetensors"


def _named_scene(spec: ExplorerSpec, more: str) -> str:
    """The lines that load a named dataset."""
    s, path = spec.scene, "from pathlib import Path\n\n" if spec.scene.models else ""
    return f"""{path}from core import methods{more}

scene = methods.Scene.load({s.dataset!r}, size={s.size}, seed={s.seed}, preset={s.preset!r})
"""


def _own_scene(spec: ExplorerSpec, frame: Frame, more: str) -> str:
    """The lines that read the user's file."""
    s, scaled = spec.scene, "Scaling.standard(points).apply(points)"
    return f"""from pathlib import Path

import numpy as np

from core import datasets, methods{more}
from core.projections import Scaling

data = Path({frame.source!r}).read_bytes()
points = datasets.read_points(data, {frame.source!r}, columns={list(frame.columns)!r}).points
points = {scaled if s.scale == "standard" else "points"}
if len(points) > {s.size}:
    rows = np.random.default_rng({s.seed}).choice(len(points), {s.size}, replace=False)
    points = points[np.sort(rows)]
scene = methods.Scene.from_points(points)
"""
