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


def test_an_event_is_read():
    event = plane.read_event({"kind": "move", "endpoint": 1, "endpoints": [[0, 0], [1, 0.5]], "seq": 4})
    assert event == plane.Event("move", 1, ENDS)


@pytest.mark.parametrize(
    "change",
    [{"kind": "need"}, {"endpoint": 2}, {"endpoints": []}, {"endpoints": [[0, 0], [1, None]]}, {"endpoints": None}],
)
def test_what_is_no_event_is_ignored(change):
    good = {"kind": "click", "endpoint": 0, "endpoints": [[0, 0], [1, 1]], "seq": 1}
    assert plane.read_event(good) is not None
    assert plane.read_event(good | change) is None
