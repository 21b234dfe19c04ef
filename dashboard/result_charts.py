"""Tables of results -> figure dicts: lines with error bars and heatmaps, in the colors of `charts`. No Streamlit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy import ndarray

from core import datasets
from dashboard.charts import line_style, plain_axis, plain_layout

# More colors for what is no method: Okabe and Ito's, in the order of the palette's contrast.
SERIES_COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C8C8C")
LIGHT_TO_DARK = ("#EDAE2F", "#D1495B", "#6A3FB5")
# Datasets as ticks: upright on wide pages, and apart where narrow ones turn them.
SHORT_TITLES = datasets.TITLES | {
    "standard_normal": "normal",
    "gaussian_mixture": "mixture",
    "two_spirals": "2 spirals",
}


class Series(NamedTuple):
    """One line of a figure.

    Attributes:
        name: in the legend.
        x, y: (M,) numbers.
        error: (M,) standard errors, or None for none.
        line: plotly's line entry; its color None is that of the page's text, its width 0 leaves the markers alone.
        symbol: of the markers; "" for none.
        panel: which panel it is in, counted from 0.
        legend: whether it is in the legend.
    """

    name: str
    x: ndarray
    y: ndarray
    error: ndarray | None
    line: dict[str, Any]
    symbol: str = "circle"
    panel: int = 0
    legend: bool = True


class Axis(NamedTuple):
    """An axis: its title, whether it is logarithmic, and its ticks, if they are not plotly's own."""

    title: str
    log: bool = False
    ticks: tuple[float, ...] = ()
    labels: tuple[str, ...] = ()
    range: tuple[float, float] | None = None


def method_line(method: str, width: float = 2.5) -> dict[str, Any]:
    """A method's line on every page."""
    return line_style(method, width)


def shades(count: int) -> list[str]:
    """Colors of an ordered series, from light to dark, seen on white and on black."""
    stops = np.array([[int(color[k : k + 2], 16) for k in (1, 3, 5)] for color in LIGHT_TO_DARK])
    at = np.linspace(0, len(stops) - 1, count)
    mixed = np.stack([np.interp(at, np.arange(len(stops)), channel) for channel in stops.T], axis=1)
    return ["#" + "".join(f"{round(part):02x}" for part in color) for color in mixed]


def plain_line(k: int, dash: str = "solid", width: float = 2.5) -> dict[str, Any]:
    """The line of the k-th series that is no method."""
    return {"color": SERIES_COLORS[k % len(SERIES_COLORS)], "dash": dash, "width": width}


def lines(
    series: Iterable[Series], x: Axis, y: Axis | Sequence[Axis], titles: Sequence[str] = ("",), height: int = 440
) -> dict[str, Any]:
    """Lines with error bars in one panel or several side by side, which share the legend.

    Args:
        series: what to draw; lines of one name in several panels hide together.
        x: the axis of every panel.
        y: the axis of every panel, or one for each.
        titles: of the panels, one for each.
        height: pixels.

    Returns:
        A figure dict for `dashboard.plane.figure`.
    """
    count = len(titles)
    axes = [y] * count if isinstance(y, Axis) else list(y)
    layout = plain_layout(height) | {"hovermode": "closest", "annotations": []}
    gap = 0.0 if count == 1 else 0.07
    width = (1 - gap * (count - 1)) / count
    for k in range(count):
        number = "" if k == 0 else str(k + 1)
        low = k * (width + gap)
        layout[f"xaxis{number}"] = _axis(x) | {"domain": [low, low + width], "anchor": f"y{number}"}
        layout[f"yaxis{number}"] = _axis(axes[k]) | {"anchor": f"x{number}"}
        if titles[k]:
            place = {
                "x": low + width / 2,
                "y": 1.0,
                "xref": "paper",
                "yref": "paper",
                "yanchor": "bottom",
                "xanchor": "center",
            }
            layout["annotations"].append(place | {"text": titles[k], "showarrow": False, "font": {"size": 13}})
    if count > 1 or titles[0]:
        # From the bottom of the figure, so that it never meets tick labels that a narrow page turns.
        layout["legend"] = {"orientation": "h", "x": 0, "y": 0, "yref": "container", "yanchor": "bottom"}
        layout["margin"] = {"l": 10, "r": 10, "t": 30, "b": 10}
    return {"data": [_line(one) for one in series], "layout": layout}


def _line(one: Series) -> dict[str, Any]:
    number = "" if one.panel == 0 else str(one.panel + 1)
    trace: dict[str, Any] = {
        "type": "scatter",
        "mode": "markers" if not one.line["width"] else "lines+markers" if one.symbol else "lines",
        "name": one.name,
        "legendgroup": one.name,
        "showlegend": one.legend,
        "x": np.asarray(one.x, float),
        "y": np.asarray(one.y, float),
        "xaxis": f"x{number}",
        "yaxis": f"y{number}",
        "line": one.line,
        "hovertemplate": "%{x:.4g}: %{y:.4g}<extra>" + one.name + "</extra>",
    }
    if one.symbol:
        trace["marker"] = {"color": one.line["color"], "symbol": one.symbol, "size": 6}
    if one.error is not None:
        errors = [None if not np.isfinite(error) else float(error) for error in one.error]
        trace["error_y"] = {"type": "data", "array": errors, "thickness": 1.2, "width": 2}
    return trace


def _axis(axis: Axis) -> dict[str, Any]:
    made = plain_axis() | {"title": {"text": axis.title, "standoff": 6}}
    if axis.log:
        # plotly's own logarithmic ticks are crowded: powers of ten, or the ones that are given
        made |= {"type": "log", "exponentformat": "power", "dtick": 1}
    if axis.ticks:
        labels = axis.labels or tuple(f"{tick:g}" for tick in axis.ticks)
        made |= {"tickvals": list(axis.ticks), "ticktext": list(labels)}
        made.pop("dtick", None)
    if axis.range is not None:
        made["range"] = list(np.log10(axis.range)) if axis.log else list(axis.range)
    return made


def heatmap(
    values: ndarray, x_labels: Sequence[str], y_labels: Sequence[str], x: str, y: str, unit: str, height: int = 440
) -> dict[str, Any]:
    """A table of numbers as colors, each number printed in its cell.

    Args:
        values: (R, C).
        x_labels, y_labels: of the C columns and the R rows, from the top.
        x, y: titles of the axes.
        unit: of the numbers, for the color bar.
        height: pixels.
    """
    rows, columns = values.shape
    layout = plain_layout(height) | {"hovermode": "closest"}
    for name, labels, title in (("xaxis", x_labels, x), ("yaxis", y_labels, y)):
        layout[name] |= {
            "title": {"text": title, "standoff": 6},
            "tickvals": list(range(len(labels))),
            "ticktext": list(labels),
            "showgrid": False,
        }
    layout["yaxis"]["autorange"] = "reversed"
    trace = {
        "type": "heatmap",
        "x": np.arange(columns, dtype=float),
        "y": np.arange(rows, dtype=float),
        "z": [[float(value) for value in row] for row in values],
        "texttemplate": "%{z:.2f}",
        "colorscale": "Cividis",
        "reversescale": True,
        "colorbar": {"title": {"text": unit, "side": "right"}, "thickness": 12, "outlinewidth": 0},
        "hovertemplate": f"{y} %{{y}}, {x} %{{x}}: %{{z:.3f}} {unit}<extra></extra>",
        "xgap": 1,
        "ygap": 1,
    }
    return {"data": [trace], "layout": layout}


def mark(
    name: str, x: float, y: float, color: str, symbol: str, size: int, error: float | None = None
) -> dict[str, Any]:
    """A trace to add to a figure: a point without a legend entry, its error bar along x.

    Args:
        name: of the line that it belongs to, with which it hides.
        x, y: where it is.
        color, symbol, size: plotly's, of the marker.
        error: standard error of x, or None for none.
    """
    trace: dict[str, Any] = {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "legendgroup": name,
        "showlegend": False,
        "x": np.array([x], float),
        "y": np.array([y], float),
        "marker": {"color": color, "symbol": symbol, "size": size, "line": {"color": color, "width": 2}},
        "hovertemplate": "%{x:.4g}<extra>" + name + "</extra>",
    }
    if error is not None:
        trace["error_x"] = {"type": "data", "array": [error], "thickness": 2, "width": 5, "color": color}
    return trace
