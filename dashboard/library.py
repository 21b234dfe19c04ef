"""What people bring to the server and what is trained on it: files, models, training jobs. Kept in memory, bounded.

Everything is kept under a key that is made of its content, so that the same file is the same link, and training on
the same points with the same settings is found again. There is one library in a server, `LIBRARY`; no Streamlit here.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from functools import lru_cache
from threading import Lock

import numpy as np

from core import model_files, tables
from core.jobs import Job, State, TrainingQueue
from core.model_files import Models
from core.tables import Upload
from dashboard.specs import SceneSpec

FILES, FILE_BYTES = 64, 200 * 2**20
MODELS, MODEL_BYTES = 256, 100 * 2**20
JOBS = 64
READ = 32  # files kept as points, too


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


class Library:
    """Everything that outlives a session on this server; to be asked from any thread."""

    def __init__(self) -> None:
        self._files = Shelf(FILES, FILE_BYTES)
        self._models = Shelf(MODELS, MODEL_BYTES)
        self._queue = TrainingQueue()
        self._jobs: OrderedDict[SceneSpec, Job] = OrderedDict()
        self._trained: dict[SceneSpec, str] = {}
        self._collected: dict[SceneSpec, Job] = {}  # whose models those are
        self._lock = Lock()
        self._read = lru_cache(maxsize=READ)(self._read_file)

    # The user's own points.

    def keep(self, data: bytes, name: str) -> str:
        """Read a file and keep it; returns its dataset name.

        Raises:
            ValueError: with a sentence for people, where the file cannot be used; nothing is kept then.
        """
        tables.read_points(data, name)
        return f"own-{self._files.put(data, name)}"

    def has(self, dataset: str) -> bool:
        """Whether the file is still here."""
        return self._files.get(dataset.removeprefix("own-")) is not None

    def title(self, dataset: str) -> str:
        """The file's name."""
        return self._file(dataset)[1]

    def contents(self, dataset: str) -> bytes:
        """The file itself."""
        return self._file(dataset)[0]

    def upload(self, dataset: str, columns: tuple[int, ...] = ()) -> Upload:
        """The file as points, with these columns (numbers among its choices), or all.

        Raises:
            ValueError: where the file has gone, or the columns cannot be used.
        """
        self._file(dataset)
        return self._read(dataset, columns)

    def _read_file(self, dataset: str, columns: tuple[int, ...]) -> Upload:
        data, name = self._file(dataset)
        if not columns:
            return tables.read_points(data, name)
        choices = self._read(dataset, ()).choices
        if max(columns) >= len(choices):
            raise ValueError(f"{name} has {len(choices)} columns of numbers; column {max(columns) + 1} was asked for")
        return tables.read_points(data, name, [choices[i] for i in columns])

    def _file(self, dataset: str) -> tuple[bytes, str]:
        found = self._files.get(dataset.removeprefix("own-"))
        if found is None:
            raise ValueError("These points are no longer on this server; bring the file again")
        return found

    # Models and their training.

    def models(self, key: str) -> Models:
        """Trained or loaded models.

        Raises:
            ValueError: where they have gone.
        """
        return model_files.unpack(self.packed_models(key))

    def packed_models(self, key: str) -> bytes:
        """The file of trained or loaded models, as one downloads it."""
        found = self._models.get(key)
        if found is None:
            raise ValueError("These models are no longer on this server; train them again, or load their file")
        return found[0]

    def has_models(self, key: str) -> bool:
        """Whether these models are still here."""
        return self._models.get(key) is not None

    def keep_models(self, data: bytes, name: str) -> str:
        """Keep a file of models that was checked before; its key."""
        return self._models.put(data, name)

    def trained(self, spec: SceneSpec) -> str:
        """Key of the models that were trained here on the same points with the same settings; empty where none were."""
        job = self.job(spec)
        if job is not None and self._collected.get(spec.bare) is not job and job.snapshot().state is State.FINISHED:
            self.collect(spec)  # it ended when nobody was looking
        key = self._trained.get(spec.bare, "")
        return key if key and self.has_models(key) else ""

    def train(self, spec: SceneSpec, points: np.ndarray, held_out: np.ndarray | None = None) -> Job:
        """Ask for training on a scene's points; the job that is under way already, where there is one."""
        with self._lock:
            job = self._jobs.get(spec.bare)
            if job is None or not job.snapshot().state.active:
                job = self._jobs[spec.bare] = self._queue.submit(points, spec.preset, 0, held_out)
                self._jobs.move_to_end(spec.bare)
                while len(self._jobs) > JOBS:
                    self._jobs.popitem(last=False)
        return job

    def job(self, spec: SceneSpec) -> Job | None:
        """The latest training of a scene."""
        return self._jobs.get(spec.bare)

    def collect(self, spec: SceneSpec) -> str:
        """Key of what the latest training of a scene made; empty where it made nothing usable.

        Only a training that ran to its end is found again by others.
        """
        found = self.job(spec)
        data = found.models() if found is not None else None
        if found is None or data is None:
            return ""
        key = self.keep_models(data, "trained here")
        if found.snapshot().state is State.FINISHED:
            self._trained[spec.bare], self._collected[spec.bare] = key, found
        return key


LIBRARY = Library()
