"""Arrays -> figure dicts, with one color, one dash pattern and one title per method on every page.

Colors are Okabe and Ito's, without yellow (too faint on white); the truth takes the color of the text, so that it is
black on a light page and white on a dark one. Dash patterns tell the methods apart without color. Nothing here knows
Streamlit: a figure is the plain dict that plotly understands, with a transparent background and no text color of its
own, so that the page's theme shows through.
"""

from collections.abc import Mapping
from types import NoneType
from typing import Any, NamedTuple

import numpy as np
from numpy import ndarray

TITLES = {
    "straight": "straight line",
    "power": "power graph",
    "flow": "flow graph",
    "score": "score-relaxed",
    "mixture": "mixture pool",
    "kde": "kernel density",
    "true_graph": "true-density graph",
    "truth": "true geodesic",
}
# Where there is no truth, the fitted reference stands in for it, and is called so.
OWN_TITLES = {"truth": "reference geodesic", "mixture": "mixture · reference"}
PALETTE = {
    "straight": "#8C8C8C",
    "power": "#E69F00",
    "flow": "#56B4E9",
    "score": "#D55E00",
    "mixture": "#009E73",
    "kde": "#CC79A7",
    "true_graph": "#0072B2",
    "truth": None,  # the color of the text
}
DASH = {  # on and off lengths in pixels; () is a solid line
    "straight": (2, 4),
    "power": (12, 3, 2, 3, 2, 3),
    "flow": (20, 4),
    "score": (),
    "mixture": (14, 3, 3, 3),
    "kde": (5, 3),
    "true_graph": (3, 2),
    "truth": (8, 6),
}
NEUTRAL = "rgba(128, 128, 128, 0.25)"  # grid and axis lines that can be seen on white and on black


class Profile(NamedTuple):
    """One method's path, seen along its way.

    Attributes:
        method: a name of ``TITLES``.
        fraction: ``(M,)``, increasing from 0 to 1: the share of the path's own Euclidean length.
        log_density: ``(M,)``, nats: log p along the path.
        cost: ``(M,)``: length from the start to here under the metric, in units of the truth's whole length; the last
            value is exp(LPR).
    """

    method: str
    fraction: ndarray
    log_density: ndarray
    cost: ndarray


def style(method: str) -> dict:
    """Color (None means the color of the text), dash pattern in pixels and title of one method.

    Raises:
        ValueError: the method is not one of ``TITLES``.
    """
    if method not in TITLES:
        raise ValueError(f"method: expected one of {', '.join(TITLES)}; got {method!r}")
    return {"color": PALETTE[method], "dash": list(DASH[method]), "title": TITLES[method]}


def title(method: str, own: bool = False) -> str:
    """A method's name for people; for one's own points the truth is a fitted reference."""
    return OWN_TITLES.get(method, TITLES[method]) if own else TITLES[method]


def plain(text: str) -> str:
    """Text from outside as Markdown shows it literally."""
    return "".join(f"\\{c}" if c in "\\`*_{}[]()<>#+-.!|$~:^=&" else c for c in text)


def length_profile(profiles: list[Profile], own: bool = False) -> dict:
    """Where each path pays: log density along it, and its cost so far against the truth's.

    The upper panel shows log p over the share of Euclidean length; a path that leaves the data dips there. The lower
    panel shows how much more (in percent of the truth's whole length) the path has paid than the truth at the same
    share of the way; it ends at e^LPR - 1. Without a truth among the profiles, the lower panel shows the cost itself.

    Args:
        profiles: one per path; lengths M may differ.
        own: whether the truth is a fitted reference, and called so.

    Returns:
        A figure dict, ``{"data": [...], "layout": {...}}``.
    """
    truth = next((profile for profile in profiles if profile.method == "truth"), None)
    data = []
    for profile in profiles:
        data.append(_line(profile.method, own, profile.fraction, profile.log_density, "y2", legend=True))
        if truth is None:
            paid = 100 * profile.cost
        else:
            paid = 100 * (profile.cost - np.interp(profile.fraction, truth.fraction, truth.cost))
        data.append(_line(profile.method, own, profile.fraction, paid, "y", legend=False))
    lower = "cost so far (%)" if truth is None else f"paid beyond the {'reference' if own else 'truth'} (%)"
    layout = plain_layout(height=420)
    layout["xaxis"] |= {"title": {"text": "share of the path's Euclidean length"}, "range": [0, 1], "anchor": "y"}
    layout["yaxis"] |= {"title": {"text": lower}, "domain": [0, 0.46], "zeroline": True, "zerolinecolor": NEUTRAL}
    layout["yaxis2"] = plain_axis() | {"title": {"text": "log density (nats)"}, "domain": [0.54, 1], "anchor": "x"}
    return {"data": data, "layout": layout}


def plain_axis() -> dict:
    """An axis that reads on light and dark pages."""
    return {"gridcolor": NEUTRAL, "zeroline": False, "automargin": True, "ticks": ""}


def plain_layout(height: int) -> dict:
    """The layout every chart starts from: transparent, legend on top, the page's own font."""
    return {
        "height": height,
        "margin": {"l": 10, "r": 10, "t": 40, "b": 10},
        "paper_bgcolor": "rgba(0, 0, 0, 0)",
        "plot_bgcolor": "rgba(0, 0, 0, 0)",
        "hovermode": "x unified",
        "legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"},
        "xaxis": plain_axis(),
        "yaxis": plain_axis(),
    }


def line_style(method: str, width: float = 2.5) -> dict:
    """A method's ``line`` entry for a plotly trace; a color of None is that of the page's text."""
    dash = ",".join(f"{length}px" for length in DASH[method]) or "solid"
    return {"color": PALETTE[method], "dash": dash, "width": width}


def _line(method: str, own: bool, x: ndarray, y: ndarray, axis: str, legend: bool) -> dict:
    """One method's line in one panel; both of its lines hide together when its legend entry is clicked."""
    return {
        "type": "scatter",
        "mode": "lines",
        "name": title(method, own),
        "legendgroup": method,
        "showlegend": legend,
        "x": np.asarray(x, float),
        "y": np.asarray(y, float),
        "xaxis": "x",
        "yaxis": axis,
        "line": line_style(method),
        "hovertemplate": "%{y:.3g}",
    }


MODEL_TITLES = {"flow": "flow", "score_model": "score model"}
MODEL_METHODS = {"flow": "flow", "score_model": "score"}  # a model has the color of the method that needs it


def loss_curves(curves: Mapping[str, Any], height: int) -> dict:
    """Training loss (thin) and held-out loss (thick) over the steps, one panel a model.

    Args:
        curves: "flow" and "score_model" -> an object with ``steps``, ``training`` and ``held_out``.
        height: in pixels.

    Returns:
        A figure dict; the losses have units of their own (nats; squared noise), so each panel has its own axis.
    """
    layout = plain_layout(height) | {"showlegend": False, "margin": {"l": 10, "r": 10, "t": 8, "b": 10}}
    data = []
    for k, (model, title) in enumerate(MODEL_TITLES.items()):
        curve = curves.get(model)
        axis = "y" if k else "y2"
        layout["yaxis" if k else "yaxis2"] = plain_axis() | {
            "title": {"text": title, "font": {"size": 12}},
            "domain": [0, 0.44] if k else [0.56, 1],
            "anchor": "x",
            "nticks": 4,
        }
        if curve is None or not curve.steps:
            continue
        color = PALETTE[MODEL_METHODS[model]]
        for values, width, name in ((curve.training, 1.0, "training"), (curve.held_out, 2.5, "held out")):
            if not values:
                continue
            shown = np.array([np.nan if value is None else value for value in values], float)
            data.append(
                {
                    "type": "scatter",
                    "mode": "lines",
                    "name": f"{title}, {name}",
                    "x": np.asarray(curve.steps, float),
                    "y": shown,
                    "xaxis": "x",
                    "yaxis": axis,
                    "line": {"color": color, "width": width},
                    "hovertemplate": "%{y:.3f}",
                }
            )
    layout["xaxis"] |= {"title": {"text": "step", "font": {"size": 12}}, "anchor": "y", "rangemode": "tozero"}
    return {"data": data, "layout": layout}


class Curve(NamedTuple):
    """Losses over the steps: like a training job's own, but read back from a file of models."""

    steps: tuple[int, ...]
    training: tuple[float, ...]
    held_out: tuple[float | None, ...]


def curves_of(about: Mapping[str, Any]) -> dict[str, Curve]:
    """The loss curves that a file of models tells of; files from elsewhere may tell nothing, or nonsense."""
    curves = {}
    for model, made in about.get("models", {}).items():
        losses, held_out = _pairs(made.get("losses")), _pairs(made.get("held_out_losses"))
        if losses:
            steps, training = zip(*losses)
            curves[model] = Curve(steps, training, tuple(loss for _, loss in held_out))
    return curves


def _pairs(told: Any) -> list[tuple[Any, Any]]:
    """Pairs of numbers (the second may be missing), or nothing."""
    if not isinstance(told, list):
        return []
    numbers = (int, float, NoneType)
    fine = all(isinstance(p, list) and len(p) == 2 and all(isinstance(x, numbers) for x in p) for p in told)
    return [(step, loss) for step, loss in told] if fine else []
