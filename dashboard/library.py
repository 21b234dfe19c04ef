"""What people bring to the server and what is trained on it: files, models, training jobs. Kept in memory, bounded.

Everything is kept under a key that is made of its content, so that the same file is the same link, and training on
the same points with the same settings is found again.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import TYPE_CHECKING

import streamlit as st

from core import tables
from core.jobs import Job, State, TrainingQueue
from core.tables import Upload
from dashboard.specs import SceneSpec

if TYPE_CHECKING:
    from core.checkpoints import Models

FILES, FILE_BYTES = 64, 200 * 2**20
MODELS, MODEL_BYTES = 256, 100 * 2**20
JOBS = 64


class Shelf:
    """Named bytes, the oldest of which go when there are too many."""

    def __init__(self, count: int, size: int):
        self.count, self.size = count, size
        self._kept: OrderedDict[str, tuple[bytes, str]] = OrderedDict()
        self._lock = Lock()

    def put(self, data: bytes, title: str) -> str:
        """Keep the bytes; returns their key, made of the content alone."""
        key = hashlib.sha256(data).hexdigest()[:16]
        with self._lock:
            self._kept[key] = data, title
            self._kept.move_to_end(key)
            while len(self._kept) > self.count or sum(len(data) for data, _ in self._kept.values()) > self.size:
                if len(self._kept) == 1:
                    break
                self._kept.popitem(last=False)
        return key

    def get(self, key: str) -> tuple[bytes, str] | None:
        """The bytes and their title, or None where they have gone."""
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
            return self._kept.get(key)


@dataclass
class Library:
    """Everything that outlives a session on this server."""

    files: Shelf = field(default_factory=lambda: Shelf(FILES, FILE_BYTES))
    models: Shelf = field(default_factory=lambda: Shelf(MODELS, MODEL_BYTES))
    queue: TrainingQueue = field(default_factory=TrainingQueue)
    jobs: OrderedDict[SceneSpec, Job] = field(default_factory=OrderedDict)
    trained: dict[SceneSpec, str] = field(default_factory=dict)
    lock: Lock = field(default_factory=Lock)


@st.cache_resource(show_spinner=False)
def _library() -> Library:
    return Library()


# --- the user's own points ------------------------------------------------------------------------------------------


def keep(data: bytes, name: str) -> tuple[str, Upload]:
    """Read a file and keep it; its dataset name, and what was read.

    Raises:
        ValueError: with a sentence for people, where the file cannot be used; nothing is kept then.
    """
    read = tables.read_points(data, name)
    return f"own-{_library().files.put(data, name)}", read


def has(dataset: str) -> bool:
    """Whether the file is still here."""
    return _library().files.get(dataset.removeprefix("own-")) is not None


def title(dataset: str) -> str:
    """The file's name."""
    return _file(dataset)[1]


def contents(dataset: str) -> bytes:
    """The file itself."""
    return _file(dataset)[0]


def upload(dataset: str, columns: tuple[int, ...] = ()) -> Upload:
    """The file as points, with these columns (numbers among its choices), or all.

    Raises:
        ValueError: where the file has gone, or the columns cannot be used.
    """
    _file(dataset)
    return _read(dataset, columns)


@st.cache_resource(max_entries=32, show_spinner=False)
def _read(dataset: str, columns: tuple[int, ...]) -> Upload:
    data, name = _file(dataset)
    if not columns:
        return tables.read_points(data, name)
    choices = _read(dataset, ()).choices
    if max(columns) >= len(choices):
        raise ValueError(f"{name} has {len(choices)} columns of numbers; column {max(columns) + 1} was asked for")
    return tables.read_points(data, name, [choices[i] for i in columns])


def _file(dataset: str) -> tuple[bytes, str]:
    found = _library().files.get(dataset.removeprefix("own-"))
    if found is None:
        raise ValueError("These points are no longer on this server; bring the file again")
    return found


# --- models and their training --------------------------------------------------------------------------------------


def models(key: str) -> Models:
    """Trained or loaded models.

    Raises:
        ValueError: where they have gone.
    """
    from core import checkpoints

    return checkpoints.unpack(packed_models(key))


def packed_models(key: str) -> bytes:
    """The file of trained or loaded models, as one downloads it."""
    found = _library().models.get(key)
    if found is None:
        raise ValueError("These models are no longer on this server; train them again, or load their file")
    return found[0]


def has_models(key: str) -> bool:
    """Whether these models are still here."""
    return _library().models.get(key) is not None


def keep_models(data: bytes, name: str) -> str:
    """Keep a file of models that was checked before; its key."""
    return _library().models.put(data, name)


def trained(spec: SceneSpec) -> str:
    """Key of the models that were trained here on the same points with the same settings; empty where none were."""
    key = _library().trained.get(replace(spec, models=""), "")
    return key if key and has_models(key) else ""


def train(spec: SceneSpec, points, held_out=None) -> Job:
    """Ask for training on a scene's points; the job that is under way already, where there is one."""
    library, bare = _library(), replace(spec, models="")
    with library.lock:
        job = library.jobs.get(bare)
        if job is None or not job.snapshot().state.active:
            job = library.jobs[bare] = library.queue.submit(points, spec.preset, 0, held_out)
            library.jobs.move_to_end(bare)
            while len(library.jobs) > JOBS:
                library.jobs.popitem(last=False)
    return job


def job(spec: SceneSpec) -> Job | None:
    """The latest training of a scene."""
    return _library().jobs.get(replace(spec, models=""))


def collect(spec: SceneSpec) -> str:
    """Key of what the latest training of a scene made; empty where it made nothing usable.

    Only a training that ran to its end is found again by others.
    """
    found = job(spec)
    data = found.models() if found is not None else None
    if found is None or data is None:
        return ""
    key = keep_models(data, "trained here")
    if found.snapshot().state is State.FINISHED:
        _library().trained[replace(spec, models="")] = key
    return key
