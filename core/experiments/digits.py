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
* The bundled 8x8 digits are 1797 images. The recipe as printed, 400 epochs, overfits them: the flow's held-out negative
  log likelihood (seed 0, whitened codes) is 10.4 nats at its best and 12.1 at the end. Noise of 0.1 added to whitened
  codes while the flow trains, chosen on these images from 0.1, 0.2 and 0.3, makes that 9.5. MNIST, which the recipe is
  for, gets none.
* A batch has 256 images; the last weights are kept.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from http.client import HTTPException
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float, Int

from core import geodesics, model_files, paths
from core.experiments import running
from core.geodesics import Status
from core.methods import GUARD_MARGIN, LEARNED, RECIPES, MethodSettings, Scene
from core.model_files import CheckpointError

if TYPE_CHECKING:
    from core.autoencoders import Autoencoder
    from core.flows import Flow
    from core.scores import ScoreModel

WEIGHTS = running.RESULTS.parent / "digits" / "models.safetensors"
COMMAND = "python -m core.experiments.digits weights"
FORMAT, FORMAT_VERSION = "geodesic explorer digits", 1
CLASSES = 10
METHODS = ("graph", "relaxed", "straight", "euclidean")
# T of relaxed paths. At β = 0.1 they are nearly straight: with 400 steps their log length is the same to 1e-5.
STEPS = 100
# Relative error of lengths: the flow is float32, and its density is not known that well anyway.
TOLERANCE = 1e-4


@dataclass(frozen=True)
class Spec:
    """Settings of the experiment.

    Attributes:
        mnist: MNIST from openml.org instead of the digits that scikit-learn brings along.
        seeds: how often all is done anew: split, weights, pairs.
        held_out: share of the images that nothing is trained on.
        latent_dim: D of the codes.
        epochs: of each of the three models.
        batch: images per step.
        noise: standard deviation of the noise on whitened codes that the flow is trained with; none with MNIST.
        beta: inverse temperature.
        pairs: held-out images of each class that each class mean is compared with, at most.
        neighbors, segments: k and S of the graph.
    """

    mnist: bool = False
    seeds: int = 3
    held_out: float = 0.2
    latent_dim: int = 10
    epochs: int = 400
    batch: int = 256
    noise: float = 0.1
    beta: float = 0.1
    pairs: int = 20
    neighbors: int = 20
    segments: int = 10


FULL = Spec()
QUICK = Spec(seeds=1, epochs=60, pairs=2)


# --- images ---------------------------------------------------------------------------------------------------------


def load_images(mnist: bool = False) -> tuple[Float[np.ndarray, "N H W"], Int[np.ndarray, " N"]]:
    """Images of digits, from 0 to 1, and which digit each shows.

    Raises:
        ValueError: if MNIST cannot be fetched.
    """
    from sklearn import datasets

    if not mnist:
        digits = datasets.load_digits()
        return digits.images / 16, digits.target.astype(np.int64)
    try:
        fetched = datasets.fetch_openml("mnist_784", version=1, as_frame=False)
    except (OSError, ValueError, HTTPException) as problem:
        raise ValueError(
            f"mnist: cannot be fetched from openml.org ({problem}); connect to a network, or leave it out for the "
            "digits that scikit-learn brings along"
        ) from problem
    return fetched.data.reshape(-1, 28, 28) / 255, fetched.target.astype(np.int64)


def split(size: int, held_out: float, seed: int) -> tuple[Int[np.ndarray, " A"], Int[np.ndarray, " B"]]:
    """Rows to train on and rows held out, each in order."""
    order = np.random.default_rng(seed).permutation(size)
    count = round(held_out * size)
    return np.sort(order[count:]), np.sort(order[:count])


# --- models ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Models:
    """The three trained models with the images they are for.

    Attributes:
        spec: what they were trained by.
        seed: of split and weights.
        autoencoder, flow, score_model: the models.
        images: (N, H, W), from 0 to 1.
        labels: (N,) digits.
    """

    spec: Spec
    seed: int
    autoencoder: Autoencoder
    flow: Flow
    score_model: ScoreModel
    images: Float[np.ndarray, "N H W"]
    labels: Int[np.ndarray, " N"]

    @cached_property
    def rows(self) -> tuple[Int[np.ndarray, " A"], Int[np.ndarray, " B"]]:
        """Rows of the images to train on, and of those held out."""
        return split(len(self.images), self.spec.held_out, self.seed)

    @cached_property
    def codes(self) -> Float[np.ndarray, "N D"]:
        """Codes of all images."""
        return self.autoencoder.encode(self.images.reshape(len(self.images), -1))

    @cached_property
    def scene(self) -> Scene:
        """Training codes, which are the nodes of the graph, with the models of their density."""
        return Scene.from_points(self.codes[self.rows[0]]).with_models(self.flow, self.score_model)

    @property
    def settings(self) -> MethodSettings:
        """Knobs of the graph."""
        return MethodSettings(neighbors=self.spec.neighbors, segments=self.spec.segments, steps=STEPS)


def train(spec: Spec, seed: int) -> Models:
    """Train autoencoder, flow and score model on the images that are not held out; takes a minute with `FULL`."""
    from core import autoencoders

    images, labels = load_images(spec.mnist)
    rows, _ = split(len(images), spec.held_out, seed)
    pixels = images[rows].reshape(len(rows), -1)
    autoencoder = autoencoders.train_autoencoder(pixels, spec.latent_dim, spec.epochs, spec.batch, seed)
    codes = autoencoder.encode(pixels)
    noise = 0.0 if spec.mnist else spec.noise
    flow = autoencoders.train_flow(codes, spec.epochs, spec.batch, noise, seed)
    score_model = autoencoders.train_score(codes, spec.epochs, spec.batch, seed)
    return Models(spec, seed, autoencoder, flow, score_model, images, labels)


def quality(models: Models) -> dict[str, float]:
    """How good the models are, on training and on held-out images.

    The reconstruction error is the root mean square over pixels, of which 1 is white and 0 black. The negative log
    likelihood is in nats per dimension of codes in units of their standard deviations: a standard normal has 1.42.
    """
    said = {}
    pixels = models.images.reshape(len(models.images), -1)
    error = ((models.autoencoder.decode(models.codes) - pixels) ** 2).mean(axis=1)
    log_density = models.flow.log_density(models.codes) + np.log(models.flow.scale).sum()
    for name, rows in zip(("training", "held_out"), models.rows):
        said[f"{name}_reconstruction_error"] = float(np.sqrt(error[rows].mean()))
        said[f"{name}_nll_per_dim"] = float(-log_density[rows].mean() / models.flow.dim)
    return said


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
    from core.training import _one_thread

    beta = paths.check_beta(beta)
    start, end = paths.check_endpoints(start, end, models.flow.dim)
    with _one_thread():  # a second thread makes it ten times slower as soon as anything else is at work
        return _between(models, start, end, beta)


def _between(models: Models, start: np.ndarray, end: np.ndarray, beta: float) -> LatentGeodesic:
    def length(path: np.ndarray) -> float:
        return paths.log_length(path, models.flow.log_density, beta, TOLERANCE)

    straight = paths.straight(start, end, STEPS)
    along, _ = RECIPES["flow"](models.scene, start, end, beta, models.settings)
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
    from core.training import _one_thread

    with _one_thread():
        models = train(spec, cell["seed"])
        distances, statuses = log_distances(models)
        said = quality(models)
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
    from core.training import _one_thread

    models = load()
    if models.spec != spec or models.seed != cell["seed"]:
        raise ValueError("the shipped models were made by another spec or seed")
    with _one_thread():
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


# --- the models of the page -----------------------------------------------------------------------------------------


def save(models: Models, path: Path = WEIGHTS) -> None:
    """Write the models as one safetensors file that says how they were made."""
    from safetensors.numpy import save as serialize

    from core import autoencoders

    arrays = autoencoders.weights(_nets(models.autoencoder, models.flow, models.score_model))
    arrays |= {"mean": models.flow.mean, "scale": models.flow.scale}
    about = {
        "spec": asdict(models.spec),
        "seed": models.seed,
        "shape": list(models.images.shape[1:]),
        "quality": quality(models),
        "command": COMMAND,
        "versions": model_files.versions(),
    }
    said = {"format": FORMAT, "version": FORMAT_VERSION, "sha256": model_files.digest(arrays, about), "about": about}
    path.parent.mkdir(parents=True, exist_ok=True)
    model_files.write_whole(path, serialize(arrays, {model_files.METADATA: json.dumps(said)}))


def load(path: Path = WEIGHTS) -> Models:
    """The models of a file that `save` wrote, with the images they are for.

    Raises:
        CheckpointError: if the file is missing, damaged or another.
        ValueError: if they are for MNIST, and it cannot be fetched.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load as deserialize

    from core import autoencoders

    advice = f"restore it from the repository, or make it again with `{COMMAND}`"
    try:
        data = path.read_bytes()
        arrays = deserialize(data)
        # The library checked the header that this reads again: it does not hand out the metadata of bytes.
        header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
        said = json.loads(header["__metadata__"][model_files.METADATA])
        if (said["format"], said["version"]) != (FORMAT, FORMAT_VERSION):
            raise ValueError(f"it holds {said['format']!r}, version {said['version']}")
        about = said["about"]
        if said["sha256"] != model_files.digest(arrays, about):
            raise ValueError("its sha256 does not fit")
        spec = Spec(**about["spec"])
        mean, scale = (arrays.pop(key).astype(np.float64) for key in ("mean", "scale"))
        autoencoder = autoencoders.Autoencoder(int(np.prod(about["shape"])), spec.latent_dim)
        flow = autoencoders.as_flow(autoencoders.affine_net(spec.latent_dim), mean, scale)
        score_model = autoencoders.as_score_model(autoencoders.TaperedScoreNet(spec.latent_dim), mean, scale)
        autoencoders.fill(_nets(autoencoder, flow, score_model), arrays)
    except OSError as problem:
        raise CheckpointError(f"{path} cannot be read ({problem.strerror}): {advice}") from None
    except (SafetensorError, KeyError, TypeError, ValueError, RuntimeError) as problem:
        raise CheckpointError(f"{path} cannot be used ({problem}): {advice}") from problem
    images, labels = load_images(spec.mnist)
    return Models(spec, about["seed"], autoencoder.eval().requires_grad_(False), flow, score_model, images, labels)


def _nets(autoencoder: Autoencoder, flow: Flow, score_model: ScoreModel) -> dict[str, Any]:
    return {"autoencoder": autoencoder, "flow": flow.net, "score_model": score_model.net}


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line of `python -m core.experiments.digits`."""
    parser = argparse.ArgumentParser(prog="python -m core.experiments.digits", description="Make the page's models.")
    parser.add_argument("what", choices=["weights"])
    parser.add_argument("--out", type=Path, default=WEIGHTS, help="the file (default assets/digits/models.safetensors)")
    options = parser.parse_args(arguments)
    models = train(FULL, seed=0)
    save(models, options.out)
    for name, value in quality(models).items():
        print(f"{name}: {value:.4f}")
    print(f"wrote {options.out}, {options.out.stat().st_size / 1024**2:.2f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
