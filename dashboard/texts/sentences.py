"""What the page says in words about what it shows."""

from __future__ import annotations

from core.geodesics import Status
from core.methods import PathReport
from dashboard.charts import TITLES
from dashboard.controls import ExplorerSpec, Preset


def picture(reports: list[PathReport], spec: ExplorerSpec, preset: Preset | None) -> str:
    """One or two sentences: the preset's lesson, or which method came closest and which lost most."""
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
