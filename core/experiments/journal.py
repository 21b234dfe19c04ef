"""The finished cells of a run, on the disk as soon as each is done, so that nothing done is ever lost or repeated."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any, BinaryIO

Cell = Mapping[str, Any]  # what a cell is: names -> strings or numbers, all JSON
Entry = dict[str, Any]  # what became of a cell: {cell, rows, seconds}, or {cell, error, traceback}
Tell = Callable[[str], None]


@dataclass(frozen=True)
class Journal:
    """Finished cells, one JSON line each, after a first line with the spec.

    Attributes:
        path: the file.
        file: the same, open and locked.
        done: the finished cells by key.
    """

    path: Path
    file: BinaryIO
    done: dict[str, Entry]

    def add(self, entry: Entry) -> None:
        """Write a finished cell, all the way to the disk."""
        self._write(entry)
        self.done[key(entry["cell"])] = entry

    def begin(self, spec: Mapping[str, Any]) -> None:
        """Start anew; no cell is done."""
        self.file.truncate(0)
        self._write({"spec": spec})

    def read(self, spec: Mapping[str, Any]) -> None:
        """Take over what an earlier run finished. A line that it was killed over is cut off.

        Raises:
            ValueError: if that run had another spec.
        """
        self.file.seek(0)
        whole = list(takewhile(_is_whole, self.file.readlines()))
        if not whole:
            return self.begin(spec)
        if json.loads(whole[0])["spec"] != spec:
            raise ValueError(f"{self.path} belongs to a run with other settings: give those, or leave out --resume")
        self.file.truncate(sum(map(len, whole)))
        self.done.update((key(entry["cell"]), entry) for entry in map(json.loads, whole[1:]))

    def put_aside(self) -> Path | None:
        """Copy what an earlier run finished, for who forgot to resume it. Returns where it is, if there is any."""
        self.file.seek(0)
        text = self.file.read()
        if text.count(b"\n") < 2:
            return None
        aside = self.path.with_suffix(f".old{self.path.suffix}")
        aside.write_bytes(text)
        return aside

    def _write(self, line: Mapping[str, Any]) -> None:
        self.file.write(json.dumps(line).encode() + b"\n")
        self.file.flush()
        os.fsync(self.file.fileno())


@contextmanager
def open_journal(path: Path, spec: Mapping[str, Any], resume: bool, tell: Tell) -> Iterator[Journal]:
    """The journal of a run, locked until it ends, however it ends.

    Raises:
        ValueError: if it belongs to another spec, or to a run that is still under way.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+b") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # the system takes it back from a process that ends
        except BlockingIOError:
            raise ValueError(f"another run is writing {path}: wait for its end, or give another --out") from None
        if os.fstat(file.fileno()).st_nlink == 0:
            raise ValueError(f"another run has just ended with {path}: start again")
        journal = Journal(path, file, {})
        if resume:
            journal.read(spec)
        else:
            if aside := journal.put_aside():
                tell(f"an earlier run did not end, and --resume was not asked for: its cells are kept in {aside}")
            journal.begin(spec)
        yield journal


def _is_whole(line: bytes) -> bool:
    """Whether a line was written to its end."""
    try:
        json.loads(line)
    except ValueError:
        return False
    return line.endswith(b"\n")


def key(cell: Cell) -> str:
    """The cell as one string, by which `Journal.done` has it."""
    return json.dumps(cell, sort_keys=True)


def plain(value: Any) -> Any:
    """As JSON gives it back: tuples become lists, numpy's numbers Python's."""
    return json.loads(json.dumps(value, default=lambda number: number.tolist()))
