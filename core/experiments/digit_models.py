"""Images of digits, and the models of their latent space: an autoencoder, a flow and a score model of its codes.

Readings of the paper's appendix on MNIST, where it says nothing:

* The bundled 8x8 digits are 1797 images. The recipe as printed, 400 epochs, overfits them: the flow's held-out negative
  log likelihood (seed 0, whitened codes) is 10.4 nats at its best and 12.1 at the end. Noise of 0.1 added to whitened
  codes while the flow trains, chosen on these images from 0.1, 0.2 and 0.3, makes that 9.5. MNIST, which the recipe is
  for, gets none.
* A batch has 256 images; the last weights are kept.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from functools import cached_property
from http.client import HTTPException
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float, Int

from core import model_files
from core.experiments import running
from core.methods import Scene
from core.model_files import CheckpointError

if TYPE_CHECKING:
    from core.autoencoders import Autoencoder
    from core.flows import Flow
    from core.scores import ScoreModel

WEIGHTS = running.RESULTS.parent / "digits" / "models.safetensors"
COMMAND = "python -m core.experiments.digits weights"
FORMAT, FORMAT_VERSION = "geodesic explorer digits", 1


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


def train(spec: Spec, seed: int) -> Models:
    """Train autoencoder, flow and score model on the images that are not held out; a minute with `digits.FULL`."""
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


# --- the file that the page loads ------------------------------------------------------------------------------------


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
