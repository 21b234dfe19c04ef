"""What the user did on the plane, and what is believed of the browser."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

KINDS = ("click", "move", "draw")  # what an Event can be
MOST_POINTS = 5000  # that one Event may bring, as in draw.js

Point = tuple[float, float]


@dataclass(frozen=True)
class Event:
    """What the user did.

    Attributes:
        kind: "click" or "move" (drag or arrow keys) where an endpoint was set, "draw" where points were sprayed.
        endpoint: the endpoint that was set, 0 for A and 1 for B.
        endpoints: A and B.
        points: what was sprayed, data units.
    """

    kind: str
    endpoint: int
    endpoints: tuple[Point, Point]
    points: tuple[Point, ...] = ()


def read_event(value: Mapping[str, Any], answered: int = 0) -> Event | None:
    """An Event from what the browser sent, or None where it is not one ("need" asks for a picture, nothing else).

    Args:
        value: what the browser sent.
        answered: sequence number of the last event before this one. A "draw" carries every stroke for which the browser
            has no answer yet, since Streamlit keeps only the last of two events in quick succession; the strokes up to
            this number were here before, and are left out.
    """
    try:
        kind, endpoint = value["kind"], value["endpoint"]
        start, end = map(_point, value["endpoints"])
        points = _new_points(value, answered) if kind == "draw" else ()
    except (TypeError, KeyError, ValueError, OverflowError):
        return None
    if kind not in KINDS or endpoint not in (0, 1) or (kind == "draw" and not points):
        return None
    return Event(kind, endpoint, (start, end), points)


def _new_points(value: Mapping[str, Any], answered: int) -> tuple[Point, ...]:
    """The points of the strokes after ``answered``; ``value["strokes"]`` lists sequence number and size of each."""
    if len(value["points"]) > MOST_POINTS:
        raise ValueError("more points than one event may bring")
    known = sum(size for seq, size in value.get("strokes", ()) if seq <= answered)
    return tuple(map(_point, value["points"][max(0, known) :]))


def _point(value: Any) -> Point:
    """Two finite numbers."""
    x, y = value
    for number in (x, y):
        if type(number) not in (int, float) or not math.isfinite(number):
            raise ValueError("expected two finite numbers")
    return float(x), float(y)
