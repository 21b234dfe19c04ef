"""What leaves the page: links, tables, JSON and the code that makes a picture. Plain text in, plain text out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode, urlsplit, urlunsplit

import numpy as np
import pandas as pd

from core.methods import PathReport
from core.paths import Profile
from dashboard.controls import ExplorerSpec


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


def csv(reports: list[PathReport]) -> str:
    """All paths as one long table: method, point number, coordinates."""
    tables = [
        pd.DataFrame(r.path, columns=["x", "y"]).rename_axis("point").reset_index().assign(method=r.method)
        for r in reports
        if len(r.path)
    ]
    columns = ["method", "point", "x", "y"]
    table = pd.concat(tables)[columns] if tables else pd.DataFrame(columns=columns)
    return table.to_csv(index=False)


def as_json(spec: ExplorerSpec, reports: list[PathReport]) -> dict[str, Any]:
    """Settings, reports and paths as plain JSON values."""
    return {
        "dataset": spec.scene.dataset,
        "size": spec.scene.size,
        "seed": spec.scene.seed,
        "models": spec.scene.preset,
        "beta": spec.beta,
        "start": list(spec.start),
        "end": list(spec.end),
        "neighbors": spec.settings.neighbors,
        "segments": spec.settings.segments,
        "intrinsic_dim": spec.settings.intrinsic_dim,
        "steps": spec.settings.steps,
        "reports": [report.as_json() for report in reports],
    }


def code(spec: ExplorerSpec) -> str:
    """Python that makes the same paths with `core` alone."""
    s, m = spec.scene, spec.settings
    return f"""from core import methods

scene = methods.Scene.load({s.dataset!r}, size={s.size}, seed={s.seed}, preset={s.preset!r})
settings = methods.MethodSettings({m.neighbors}, {m.segments}, {m.intrinsic_dim}, {m.steps})  # k, S, d, T
names = {spec.methods!r}
for report in methods.compare(scene, {spec.start!r}, {spec.end!r}, {spec.beta!r}, names, settings):
    print(f"{{report.method:10s}} LPR {{report.lpr:.4f}}  {{report.status.name}}")
"""
