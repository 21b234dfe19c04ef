"""What the server keeps: files by their content, models, and trainings that ended when nobody was looking."""

from types import SimpleNamespace

import numpy as np
import pytest

from core.children import State
from dashboard.library import Library, Shelf
from dashboard.specs import SceneSpec

SPEC = SceneSpec("own-0123456789abcdef", 100, 0, "fast")
TABLE = "\n".join(["a,b", *(f"{i},{i * i % 17}" for i in range(40))]).encode()


class FakeJob:
    """A job whose state a test sets."""

    def __init__(self, state, models=None):
        self.state, self.made = state, models

    def snapshot(self):
        return SimpleNamespace(state=self.state)

    def models(self):
        return self.made


@pytest.fixture
def library(monkeypatch):
    library = Library()
    monkeypatch.setattr(library._queue, "submit", lambda *_: FakeJob(State.RUNNING))
    return library


def train(library):
    return library.train(SPEC, np.zeros((100, 2)))


def test_the_same_file_is_the_same_dataset(library):
    first = library.keep(TABLE, "a.csv")
    assert library.keep(TABLE, "b.csv") == first
    assert library.title(first) == "b.csv"
    assert library.upload(first).points.shape == (40, 2)
    with pytest.raises(ValueError, match="no longer on this server"):
        library.upload("own-ffffffffffffffff")


def test_the_oldest_go_first():
    shelf = Shelf(count=2, size=1000)
    keys = [shelf.put(bytes([k]), str(k)) for k in range(3)]
    assert [shelf.get(key) is not None for key in keys] == [False, True, True]


def test_a_training_is_found_again_though_nobody_watched_it(library):
    job = train(library)
    assert library.trained(SPEC) == ""
    job.state, job.made = State.FINISHED, b"models"
    key = library.trained(SPEC)
    assert library.packed_models(key) == b"models"
    assert library.trained(SPEC) == key
    again = train(library)
    assert again is not job
    assert library.trained(SPEC) == key  # the earlier models, as long as the new ones are not there
    again.state, again.made = State.FINISHED, b"better models"
    assert library.packed_models(library.trained(SPEC)) == b"better models"


def test_a_cancelled_training_is_not_found_by_others(library):
    job = train(library)
    job.state, job.made = State.CANCELLED, b"half a model"
    assert library.trained(SPEC) == ""
    assert library.packed_models(library.collect(SPEC)) == b"half a model"
    assert library.trained(SPEC) == ""


def test_a_training_under_way_is_joined(library):
    assert train(library) is train(library)
