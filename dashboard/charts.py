"""Arrays -> figure dicts, with one color, one dash pattern and one title per method on every page.

Colors are Okabe and Ito's, without yellow (too faint on white); the truth takes the color of the text, so that it is
black on a light page and white on a dark one. Dash patterns tell the methods apart without color. Nothing here knows
Streamlit: a figure is the plain dict that plotly understands, with a transparent background and no text color of its
own, so that the page's theme shows through.
"""

from typing import NamedTuple

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


def length_profile(profiles: list[Profile]) -> dict:
    """Where each path pays: log density along it, and its cost so far against the truth's.

    The upper panel shows log p over the share of Euclidean length; a path that leaves the data dips there. The lower
    panel shows how much more (in percent of the truth's whole length) the path has paid than the truth at the same
    share of the way; it ends at e^LPR - 1. Without a truth among the profiles, the lower panel shows the cost itself.

    Args:
        profiles: one per path; lengths M may differ.

    Returns:
        A figure dict, ``{"data": [...], "layout": {...}}``.
    """
    truth = next((profile for profile in profiles if profile.method == "truth"), None)
    data = []
    for profile in profiles:
        data.append(_line(profile.method, profile.fraction, profile.log_density, "y2", legend=True))
        if truth is None:
            paid = 100 * profile.cost
        else:
            paid = 100 * (profile.cost - np.interp(profile.fraction, truth.fraction, truth.cost))
        data.append(_line(profile.method, profile.fraction, paid, "y", legend=False))
    lower = "cost so far (%)" if truth is None else "paid beyond the truth (%)"
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


def _line(method: str, x: ndarray, y: ndarray, axis: str, legend: bool) -> dict:
    """One method's line in one panel; both of its lines hide together when its legend entry is clicked."""
    return {
        "type": "scatter",
        "mode": "lines",
        "name": TITLES[method],
        "legendgroup": method,
        "showlegend": legend,
        "x": np.asarray(x, float),
        "y": np.asarray(y, float),
        "xaxis": "x",
        "yaxis": axis,
        "line": line_style(method),
        "hovertemplate": "%{y:.3g}",
    }
