"""The Python door of the plane: what is packed, and what is believed of the browser."""

import json
import struct

import numpy as np
import pytest

from dashboard import plane

BOX = (-1.0, 1.0, -1.0, 1.0)
BASE = plane.Base("ring", np.zeros((3, 4)), BOX, np.ones((5, 2)))
ENDS = ((0.0, 0.0), (1.0, 0.5))


def unpack(message: bytes) -> tuple[dict, dict]:
    (length,) = struct.unpack_from("<I", message)
    head, at, arrays = json.loads(message[4 : 4 + length]), 4 + length, {}
    for name, shape in head["arrays"]:
        size = int(np.prod(shape))
        arrays[name] = np.frombuffer(message, "<f4", size, at).reshape(shape)
        at += 4 * size
    assert at == len(message)
    return head, arrays


def test_a_message_comes_back_as_it_went_in():
    path = np.random.default_rng(0).normal(size=(7, 2))
    field = plane.Field("f", np.full((2, 2), np.inf), BOX)
    report = {"method": "flow", "lpr": np.float64(np.nan), "log_length": np.float64(2), "seconds": 0.1, "status": "OK"}
    overlay = plane.Overlay(ENDS, (report,), {"flow": path}, field, sentence="β")
    head, arrays = unpack(plane.message(BASE, overlay, "plane", 3, []))
    assert set(arrays) == {"path0", "grid", "points", "field"}
    np.testing.assert_allclose(arrays["path0"], path, rtol=1e-6)
    assert head["reports"] == [{"method": "flow", "lpr": None, "log_length": 2.0, "seconds": 0.1, "status": "OK"}]
    assert head["endpoints"] == [[0.0, 0.0], [1.0, 0.5]]
    assert head["sentence"] == "β"


def test_what_the_browser_holds_is_not_sent_again():
    overlay = plane.Overlay(ENDS, field=plane.Field("f", np.zeros((2, 2)), BOX))
    holds = plane.now_held(BASE, overlay, [])
    assert unpack(plane.message(BASE, overlay, "plane", 0, holds))[1] == {}


def test_the_base_on_display_is_never_forgotten():
    holds = []
    for k in range(20):
        holds = plane.now_held(BASE, plane.Overlay(ENDS, field=plane.Field(str(k), np.zeros((2, 2)), BOX)), holds)
    assert len(holds) == plane.HOLD
    assert holds[-2:] == ["base ring", "field 19"]


def test_a_base_without_a_heatmap_is_held_like_any_other():
    base = plane.Base("drawn 0", None, BOX, np.empty((0, 2)), axes=("<b>x</b>", "y & z"))
    overlay = plane.Overlay(ENDS, drawing=True)
    head, arrays = unpack(plane.message(base, overlay, "plane", 0, []))
    assert set(arrays) == {"points"}
    assert arrays["points"].shape == (0, 2)
    assert head["drawing"] is True
    assert head["base_info"]["axes"] == ["<b>x</b>", "y & z"]  # literal: the browser escapes them for plotly
    assert unpack(plane.message(base, overlay, "plane", 0, plane.now_held(base, overlay, [])))[1] == {}


def test_marks_snapping_and_titles_are_told():
    path = np.zeros((5, 2))
    marks = {"flow": ((np.int64(0), np.int64(2)), (3, 3))}
    overlay = plane.Overlay(
        ENDS, paths={"flow": path, "truth": path}, marks=marks, snap=True, titles={"truth": "reference"}
    )
    head, _ = unpack(plane.message(BASE, overlay, "plane", 0, []))
    assert head["marks"] == {"flow": [[0, 2], [3, 3]]}
    assert head["snap"] is True
    assert {name: style["title"] for name, style in head["styles"].items()} == {
        "flow": plane.charts.TITLES["flow"],
        "truth": "reference",
    }
    quiet, _ = unpack(plane.message(BASE, plane.Overlay(ENDS), "plane", 0, []))
    assert (quiet["drawing"], quiet["snap"], quiet["marks"]) == (False, False, {})


def test_an_event_is_read():
    event = plane.read_event({"kind": "move", "endpoint": 1, "endpoints": [[0, 0], [1, 0.5]], "seq": 4})
    assert event == plane.Event("move", 1, ENDS)


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "need"},
        {"endpoint": 2},
        {"endpoints": []},
        {"endpoints": [[0, 0], [1, None]]},
        {"endpoints": None},
        {"endpoints": [["0", "0"], [1, 1]]},
        {"endpoints": [[0, 0], [10**400, 1]]},
        {"endpoints": [[0, 0], [True, 1]]},
    ],
)
def test_what_is_no_event_is_ignored(change):
    good = {"kind": "click", "endpoint": 0, "endpoints": [[0, 0], [1, 1]], "seq": 1}
    assert plane.read_event(good) is not None
    assert plane.read_event(good | change) is None


DRAWN = {"kind": "draw", "endpoint": 0, "endpoints": [[0, 0], [1, 0.5]], "points": [[1, 2], [3.5, -4]], "seq": 2}


def test_sprayed_points_are_read():
    event = plane.read_event(DRAWN | {"strokes": [[2, 2]]}, 1)
    assert event == plane.Event("draw", 0, ENDS, ((1.0, 2.0), (3.5, -4.0)))
    assert plane.read_event(DRAWN) == event
    most = plane.read_event(DRAWN | {"points": [[0, 0]] * 5000})
    assert most is not None
    assert len(most.points) == 5000


def test_a_stroke_that_is_sent_twice_counts_once():
    twice = DRAWN | {"strokes": [[1, 1], [2, 1]]}
    event = plane.read_event(twice, 1)
    assert event is not None
    assert event.points == ((3.5, -4.0),)
    assert plane.read_event(twice, 2) is None


def test_only_drawing_brings_points():
    event = plane.read_event(DRAWN | {"kind": "click"})
    assert event == plane.Event("click", 0, ENDS)


@pytest.mark.parametrize(
    "change",
    [
        {"points": [[0, float("nan")]]},
        {"points": [[0, float("inf")]]},
        {"points": [[0, 0]] * 10**6},
        {"points": []},
        {"points": None},
        {"points": 7},
        {"points": "12"},
        {"points": ["12", "34"]},
        {"points": [["1", "2"]]},
        {"points": [[1, 2, 3]]},
        {"points": [[10**400, 0]]},
        {"points": {"12": 0}},
        {"strokes": [["1", "1"]]},
        {"strokes": "much"},
        {"strokes": [[0, 1.5]]},
        {"strokes": [[0, 10**30]]},
    ],
)
def test_hostile_drawings_are_ignored(change):
    assert plane.read_event(DRAWN | change) is None


def test_negative_sizes_of_strokes_do_not_reach_backwards():
    event = plane.read_event(DRAWN | {"strokes": [[0, -1]]})
    assert event is not None
    assert len(event.points) == 2
