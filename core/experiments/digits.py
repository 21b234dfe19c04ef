"""Distances between images of digits, in the latent space of an autoencoder (paper, appendix on MNIST).

Images become codes of ten numbers; a flow and a score model learn the density of the codes, and the distance of two
images is the length of the geodesic between their codes. As the paper computes it: the shortest path over the graph
that the flow weighs (Algorithm 2), relaxed by the score model (Algorithm 1), its length by the flow (eq. 4).

`measure` makes the paper's table and all ten classes against all ten; `python -m core.experiments.digits weights`
makes the models that the page loads.

Readings, where the paper says nothing:

* β is 1/D = 0.1, which the paper recommends. With that the log distances of a class spread as in its table, by 0.1 to
  0.6 nats, and the differences are alike; with β = 1 they spread by 3.
* The scale of codes is whatever an autoencoder makes it, and scaling them by c adds 2 log c to every log distance at
  β = 1/D. So differences can be compared with the paper's, log distances cannot.
* A class's mean is that of its training codes. The points it is compared with are held-out images, which no model saw;
  the paper's 20 of other classes are here 20 of each other class.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from core import geodesics, paths
from core.experiments import digit_models, running
from core.experiments.digit_models import Models, Spec
from core.geodesics import Status
from core.methods import GUARD_MARGIN, LEARNED, RECIPES, MethodSettings

CLASSES = 10
METHODS = ("graph", "relaxed", "straight", "euclidean")
# T of relaxed paths. At β = 0.1 they are nearly straight: with 400 steps their log length is the same to 1e-5.
STEPS = 100
# Relative error of lengths: the flow is float32, and its density is not known that well anyway.
TOLERANCE = 1e-4

FULL = Spec()
QUICK = Spec(seeds=1, epochs=60, pairs=2)


# --- geodesics ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class LatentGeodesic:
    """A path between two codes, with the straight line beside it; lengths in nats, by the flow.

    Attributes:
        path: (T + 1, D), evenly spaced: relaxed, or the graph's where the status says so.
        log_length: of the path.
        status: CONVERGED or another, `str(status)` is a sentence with advice.
        graph_path: (G + 1, D), the path over the graph that was relaxed.
        graph_log_length: of that.
        straight: (T + 1, D), evenly spaced.
        straight_log_length: of that.
    """

    path: Float[np.ndarray, "T D"]
    log_length: float
    status: Status
    graph_path: Float[np.ndarray, "G D"]
    graph_log_length: float
    straight: Float[np.ndarray, "T D"]
    straight_log_length: float


def between(models: Models, start: Any, end: Any, beta: float) -> LatentGeodesic:
    """The path between two codes by the paper's method.

    The guards of `core.methods` are made for the plane, where samples lie close: in ten dimensions every path leaves
    them. Here the relaxed path is refused only where it is clearly longer than the graph's.

    Args:
        models: trained.
        start, end: (D,) codes.
        beta: inverse temperature, >= 0.

    Raises:
        ValueError: for bad endpoints or beta.
    """
    from core.training import one_thread

    beta = paths.check_beta(beta)
    start, end = paths.check_endpoints(start, end, models.flow.dim)
    with one_thread():  # a second thread makes it ten times slower as soon as anything else is at work
        return _between(models, start, end, beta)


def _between(models: Models, start: np.ndarray, end: np.ndarray, beta: float) -> LatentGeodesic:
    def length(path: np.ndarray) -> float:
        return paths.log_length(path, models.flow.log_density, beta, TOLERANCE)

    straight = paths.straight(start, end, STEPS)
    settings = MethodSettings(neighbors=models.spec.neighbors, segments=models.spec.segments, steps=STEPS)
    along, _ = RECIPES["flow"](models.scene, start, end, beta, settings)
    if along is None:  # the scene's graph is one part, so this cannot be
        raise AssertionError("the graph has no path")
    path, status = straight, Status.CONVERGED
    if beta > 0:
        relaxed = geodesics.relax(geodesics.smooth(along, STEPS), models.score_model.evaluate, beta, LEARNED)
        path, status = relaxed.path, Status.CONVERGED if relaxed.converged else Status.NOT_CONVERGED
    log_length, graph_log_length = length(path), length(along)
    if not log_length <= graph_log_length + GUARD_MARGIN:
        path, status = paths.resample(along, STEPS), Status.NOT_SHORTER
        log_length = length(path)
    return LatentGeodesic(path, log_length, status, along, graph_log_length, straight, length(straight))


def geodesic(models: Models, i: int, j: int, beta: float) -> LatentGeodesic:
    """The path between the codes of two images, by their rows.

    Raises:
        ValueError: for rows that are not there or the same, or a bad beta.
    """
    for name, row in (("i", i), ("j", j)):
        if not 0 <= row < len(models.images):
            raise ValueError(f"{name} should be a row of the {len(models.images)} images; got {row}")
    return between(models, models.codes[i], models.codes[j], beta)


def decode_path(models: Models, path: Float[np.ndarray, "T D"]) -> Float[np.ndarray, "T H W"]:
    """Each point of a path as an image, from 0 to 1."""
    return models.autoencoder.decode(path).reshape(-1, *models.images.shape[1:])


# --- the experiment -------------------------------------------------------------------------------------------------


def cells(spec: Spec) -> list[running.Cell]:
    """One for each seed: all distances of a seed need the same models, and a cell can hand on nothing but rows."""
    return [{"seed": seed} for seed in range(spec.seeds)]


def measure(spec: Spec, cell: running.Cell) -> list[running.Row]:
    """Train the models of a seed, and measure all classes against all.

    Returns:
        Rows of four kinds, with what has no meaning left out:
        "distance": from the mean of class `first` to images of class `second`, by `method`;
        "intra", "inter", "difference": the paper's table for the class `first`, by `method`;
        "quality": `quantity` and its `value`, see `quality`;
        "status": how many relaxed paths ended with the status `quantity`.
        Distances are in nats; the standard error is that of the mean, over pairs.
    """
    from core.training import one_thread

    with one_thread():
        models = digit_models.train(spec, cell["seed"])
        distances, statuses = log_distances(models)
        said = digit_models.quality(models)
    rows = list(_distance_rows(distances))
    rows += [{"kind": "quality", "quantity": name, "value": value} for name, value in said.items()]
    rows += [{"kind": "status", "quantity": name, "value": count} for name, count in sorted(statuses.items())]
    return rows


def measure_live(spec: Spec, cell: running.Cell) -> list[running.Row]:
    """Rows of one class mean, cell["first"], against images of another, cell["second"], with the shipped models.

    For the seed that they were made with these are the numbers of `measure`, without the training.

    Raises:
        ValueError: if the shipped models are of another spec or seed.
    """
    from core.training import one_thread

    models = digit_models.load()
    if models.spec != spec or models.seed != cell["seed"]:
        raise ValueError("the shipped models were made by another spec or seed")
    with one_thread():
        distances, _ = log_distances(models, [cell["first"]], [cell["second"]])
    return [_distance_row(*about, values) for about, values in distances.items()]


def log_distances(
    models: Models, firsts: Sequence[int] | None = None, seconds: Sequence[int] | None = None
) -> tuple[dict[tuple[int, int, str], np.ndarray], Counter[str]]:
    """Log distances from class means to images of every class, and how often each status occurred.

    Args:
        models: trained.
        firsts: the classes whose means are taken; all by default.
        seconds: the classes whose images are taken; all by default.

    Returns:
        (first, second, method) -> (pairs,) nats. Every mean is compared with the same images.
    """
    spec, (trained, held) = models.spec, models.rows
    rng = np.random.default_rng((models.seed, 1))  # not the split's stream
    chosen = {}
    for digit in range(CLASSES):
        rows = held[models.labels[held] == digit]
        chosen[digit] = rng.choice(rows, min(spec.pairs, len(rows)), replace=False)
    found: dict[tuple[int, int, str], np.ndarray] = {}
    statuses: Counter[str] = Counter()
    for first in range(CLASSES) if firsts is None else firsts:
        mean = models.codes[trained[models.labels[trained] == first]].mean(axis=0)
        for second in range(CLASSES) if seconds is None else seconds:
            ends = models.codes[chosen[second]]
            doing = f"distances of {second}s from the mean of {first}s"
            solved = [between(models, mean, end, spec.beta) for end in running.watched(list(ends), doing)]
            statuses.update(one.status.name for one in solved)
            columns = (
                [one.graph_log_length for one in solved],
                [one.log_length for one in solved],
                [one.straight_log_length for one in solved],
                np.log(np.linalg.norm(ends - mean, axis=1)),
            )
            found |= {(first, second, method): np.array(column) for method, column in zip(METHODS, columns)}
    return found, statuses


def _distance_rows(distances: dict[tuple[int, int, str], np.ndarray]) -> Iterator[running.Row]:
    for (first, second, method), values in distances.items():
        yield _distance_row(first, second, method, values)
    for first in range(CLASSES):
        for method in METHODS:
            others = [distances[first, second, method] for second in range(CLASSES) if second != first]
            intra, inter = _summary(distances[first, first, method]), _summary(np.concatenate(others))
            difference = {
                "mean_log_distance": inter["mean_log_distance"] - intra["mean_log_distance"],
                "standard_deviation": float(np.hypot(inter["standard_deviation"], intra["standard_deviation"])),
                "standard_error": float(np.hypot(inter["standard_error"], intra["standard_error"])),
                "pairs": intra["pairs"] + inter["pairs"],
            }
            for kind, said in (("intra", intra), ("inter", inter), ("difference", difference)):
                yield {"kind": kind, "first": first, "method": method, **said}


def _distance_row(first: int, second: int, method: str, values: np.ndarray) -> running.Row:
    return {"kind": "distance", "first": first, "second": second, "method": method, **_summary(values)}


def _summary(values: np.ndarray) -> dict[str, Any]:
    """Mean, standard deviation and standard error; the latter two are nan for a single value."""
    deviation = float(values.std(ddof=1)) if len(values) > 1 else np.nan
    return {
        "mean_log_distance": float(values.mean()),
        "standard_deviation": deviation,
        "standard_error": deviation / np.sqrt(len(values)),
        "pairs": len(values),
    }


EXPERIMENT = running.Experiment(
    name="digits",
    paper="Table 1, Fig. 9",
    question="Are images of the same digit closer, by geodesics in latent space, than images of different digits?",
    full=FULL,
    quick=QUICK,
    cells=cells,
    measure=measure,
    live=measure_live,
)


# --- the command line ------------------------------------------------------------------------------------------------


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line of `python -m core.experiments.digits`."""
    parser = argparse.ArgumentParser(prog="python -m core.experiments.digits", description="Make the page's models.")
    parser.add_argument("what", choices=["weights"])
    parser.add_argument(
        "--out", type=Path, default=digit_models.WEIGHTS, help="the file (default assets/digits/models.safetensors)"
    )
    options = parser.parse_args(arguments)
    models = digit_models.train(FULL, seed=0)
    digit_models.save(models, options.out)
    for name, value in digit_models.quality(models).items():
        print(f"{name}: {value:.4f}")
    print(f"wrote {options.out}, {options.out.stat().st_size / 1024**2:.2f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
