"""What the page says in words about what it shows."""

from __future__ import annotations

import math

from core.geodesics import Status
from core.methods import WARNINGS, PathReport
from dashboard.charts import TITLES
from dashboard.specs import Preset

DRAWING = (
    "Drag over the plane to spray points; zoom with the mouse wheel. "
    "With twenty or more, use them as your data: the reference density is fitted to them at once."
)


NO_MODEL = "Flow and score want models of these points: train them on the left, or load their file in the tab Models."

# What a row says of its path; the whole sentence stands once under the table.
SHORT = {
    Status.OUTSIDE_SAMPLE: "an endpoint outside the sample",
    Status.SPLIT: "crosses a gap in the sample",
    Status.DISPUTED: "disputed: the densities disagree here",
    Status.DETOUR: "a detour, by every density",
    Status.UNAVAILABLE: "no model for these points yet",
}


def note(status: Status) -> str:
    """What a row says of its path."""
    return SHORT.get(status, str(status))


def picture(
    reports: list[PathReport], preset: Preset | None, outside: list[str], dim: int = 2, own: bool = False
) -> str:
    """One or two sentences: the preset's lesson, or which method came closest and which lost most.

    Args:
        reports: of the methods that are drawn.
        preset: the preset that the page shows, if it shows one.
        outside: names of the endpoints that lie outside the picture.
        dim: columns of the data.
        own: whether these are the user's own points, judged by the fitted reference.
    """
    said = _picture(reports, preset, outside, own)
    once = [f"⚠ {status}" for status in WARNINGS if any(r.status is status for r in reports)]
    if any(r.status is Status.UNAVAILABLE for r in reports):
        once.append(NO_MODEL if own else str(Status.UNAVAILABLE))
    return "\n".join([_with_dimensions(said, dim), *once])


def _with_dimensions(said: str, dim: int) -> str:
    if dim > 2:
        said += (
            f" All is computed in {dim} dimensions and seen from one side: A and B sit on data points, and paths that "
            "cross here need not meet. The shade is a kernel density of what is shown."
        )
    return said


def _picture(reports: list[PathReport], preset: Preset | None, outside: list[str], own: bool) -> str:
    if outside:
        lie = "lies" if len(outside) == 1 else "lie"
        return f"{' and '.join(outside)} {lie} outside the picture. Zoom out with the mouse wheel, or press Reset."
    if preset is not None:
        return preset.lesson
    # The mixture is the reference: that it comes closest to itself says nothing.
    standards = ("truth", "mixture") if own else ("truth",)
    judged = [r for r in reports if r.method not in standards and len(r.path)]
    if not judged:
        return f"Choose a method on the left to compare it with the {'reference' if own else 'true'} geodesic."
    truth = next((r for r in reports if r.method == "truth"), None)
    if truth is not None and truth.status not in (Status.CONVERGED, *WARNINGS):
        return f"The {'reference' if own else 'true'} geodesic is not certain here: {truth.status}"
    best, worst = min(judged, key=lambda r: r.lpr), max(judged, key=lambda r: r.lpr)
    shortest = (
        "the shortest path by the fitted reference, which is itself only an estimate" if own else "the shortest path"
    )
    said = f"{TITLES[best.method].capitalize()} comes closest, {longer(best.lpr)} than {shortest}."
    if worst is not best and worst.lpr > max(2 * best.lpr, 0.02):
        said += f" {TITLES[worst.method].capitalize()} loses most, {longer(worst.lpr)}."
    return said


def longer(lpr: float) -> str:
    """An LPR in everyday words, with as many digits as the table beside the plane."""
    factor = math.exp(lpr) if lpr < 50 else math.inf
    percent = 100 * (factor - 1)
    if percent < 0.05:
        return "less than 0.05 % longer"
    if percent < 100:
        return f"{percent:.{1 if percent < 9.95 else 0}f} % longer"
    return f"{factor:.3g} times as long" if factor < 1e6 else f"e^{lpr:.0f} times as long"
