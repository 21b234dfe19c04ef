"""What the page says in words about what it shows."""

from __future__ import annotations

from core.geodesics import Status
from core.methods import PathReport
from dashboard.charts import TITLES
from dashboard.controls import Preset


def picture(reports: list[PathReport], preset: Preset | None, outside: list[str]) -> str:
    """One or two sentences: the preset's lesson, or which method came closest and which lost most.

    Args:
        reports: of the methods that are drawn.
        preset: the preset that the page shows, if it shows one.
        outside: names of the endpoints that lie outside the picture.
    """
    if outside:
        lie = "lies" if len(outside) == 1 else "lie"
        return f"{' and '.join(outside)} {lie} outside the picture. Zoom out with the mouse wheel, or press Reset."
    if preset is not None:
        return preset.lesson
    judged = [r for r in reports if r.method != "truth" and len(r.path)]
    if not judged:
        return "Choose a method on the left to compare it with the true geodesic."
    truth = next((r for r in reports if r.method == "truth"), None)
    if truth is not None and truth.status is not Status.CONVERGED:
        return f"The true geodesic is not certain here: {truth.status}"
    best, worst = min(judged, key=lambda r: r.lpr), max(judged, key=lambda r: r.lpr)
    said = f"{TITLES[best.method].capitalize()} comes closest, {longer(best.lpr)} than the shortest path."
    if worst is not best and worst.lpr > max(2 * best.lpr, 0.02):
        said += f" {TITLES[worst.method].capitalize()} loses most, {longer(worst.lpr)}."
    return said


def longer(lpr: float) -> str:
    """An LPR in everyday words."""
    factor = 2.718281828459045**lpr if lpr < 50 else float("inf")
    if factor < 1.0005:
        return "less than 0.05 % longer"
    if factor < 2:
        return f"{100 * (factor - 1):.1f} % longer"
    return f"{factor:.3g} times as long" if factor < 1e6 else f"e^{lpr:.0f} times as long"
