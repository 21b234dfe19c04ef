"""The child's side of a training (`core.jobs`): `python -m core.training_child`.

It reads one JSON line and the points from its standard input, then lines of commands. It answers in JSON lines, the
last of which announces the bytes of the model.
"""

from __future__ import annotations

import json
import os
import threading
import time
from typing import Any, BinaryIO

import numpy as np

from core import children
from core.jobs import CANCEL
from core.model_files import MAX_DIM, fingerprint, pack

HELD_OUT_SHARE, HELD_OUT_LEAST, HELD_OUT_MOST = 0.1, 2, 2000


def work() -> None:
    """One training, as told on standard input."""
    orders, answers = children.open_channel()
    request = json.loads(children.read_line(orders))
    arrays = [_array(orders, shape) for shape in request["shapes"]]
    cancel = threading.Event()
    children.obey(orders, lambda line: cancel.set() if line == CANCEL else None)

    def tell(**told: Any) -> None:
        children.tell(answers, **told)

    try:
        model, status = _train(request, arrays, cancel, tell)
        tell(bytes=len(model), status=status)
        answers.write(model)
        answers.flush()
    except ValueError as error:
        tell(failed=f"{str(error)[:1].upper()}{str(error)[1:]}.")
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and "memory" not in str(error):
            raise
        tell(failed="There was not enough memory for this training. Train on fewer points.")
    # Without the interpreter's tidying up, which takes torch a while.
    os._exit(0)


def _train(request: dict[str, Any], arrays: list[np.ndarray], cancel: threading.Event, tell: Any) -> tuple[bytes, str]:
    """The packed model and its status."""
    from core import training
    from core.densities import as_points

    points = as_points(arrays[0], None, "points")
    if points.shape[1] > MAX_DIM:
        raise ValueError(f"points: wanted at most {MAX_DIM} columns, got {points.shape[1]}")
    about = {
        "preset": request["preset"],
        "seed": request["seed"],
        "size": len(points),
        "points_sha256": fingerprint(points),
    }
    seen, held_out = (points, arrays[1]) if len(arrays) > 1 else split(points, request["seed"], training.MIN_POINTS)
    about |= {"trained_on": len(seen), "held_out": 0 if held_out is None else min(len(held_out), HELD_OUT_MOST)}

    def record(step: int, loss: float, held: float | None) -> None:
        tell(step=step, loss=loss, held_out=held if held is not None and np.isfinite(held) else None)

    began = time.perf_counter()

    def progress(done: float, _: str) -> None:
        tell(fraction=done, seconds=time.perf_counter() - began)

    flow, score_model = None, None
    arguments = (seen, request["preset"], request["seed"], progress, cancel, held_out, record)
    if request["kind"] == "flow":
        flow, report = training.train_flow(*arguments)
    else:
        score_model, report = training.train_score(*arguments)
    made = {
        "status": report.status.name,
        "steps": report.steps,
        "seconds": round(report.seconds, 2),
        "noise": report.noise,
        "losses": report.losses,
        "held_out_losses": [[s, loss if np.isfinite(loss) else None] for s, loss in report.held_out_losses],
    }
    return pack(flow, score_model, about | {"models": {request["kind"]: made}}), report.status.name


def split(points: np.ndarray, seed: int, least: int) -> tuple[np.ndarray, np.ndarray | None]:
    """Points to train on, at least `least`, and a tenth of them set aside; None where too few are left for that."""
    size = len(points)
    aside = min(max(round(HELD_OUT_SHARE * size), HELD_OUT_LEAST), HELD_OUT_MOST, size - least)
    if aside < HELD_OUT_LEAST:
        return points, None
    rows = np.random.default_rng(seed).permutation(size)
    return points[np.sort(rows[aside:])], points[np.sort(rows[:aside])]


def _array(orders: BinaryIO, shape: list[int]) -> np.ndarray:
    data = bytearray(8 * int(np.prod(shape)))
    filled, view = 0, memoryview(data)
    while filled < len(data):
        count = orders.readinto(view[filled:])  # type: ignore[attr-defined]
        if not count:
            os._exit(1)
        filled += count
    return np.frombuffer(data, "<f8").reshape(shape)


if __name__ == "__main__":
    work()
