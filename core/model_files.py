"""Models as files: weights as safetensors, with a description that is checked before a network is built of it.

Models that a user trained travel as one file, made by `pack` and read by `unpack`. Such a file may come from anywhere:
nothing in it is unpickled or run. The models that are shipped are in `core.checkpoints`.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints

import numpy as np

if TYPE_CHECKING:
    from core.flows import Flow, FlowSpec
    from core.scores import ScoreModel, ScoreSpec

KINDS = ("flow", "score_model")
METADATA = "geodesic_explorer"  # key of the description in a file's metadata
FORMAT, FORMAT_VERSION = "geodesic explorer models", 1  # of the files that `pack` makes
MAX_FILE = 20 * 1024**2  # bytes; the largest pair of a preset has 4 MB
MAX_DIM = 50
# Beyond these no network is built, whatever a file says; the presets stay far below.
SPEC_LIMITS = {"dim": MAX_DIM, "blocks": 64, "hidden_layers": 32, "width": 1024, "bins": 100}
SPEC_LIMIT = 1000.0  # for the numbers of a spec that are no counts
FILE_ADVICE = "bring a file that was downloaded from the explorer, as it was, or train the models again"


class CheckpointError(ValueError):
    """A model file or the manifest is missing, damaged or of another kind; the message says which and what to do."""


@dataclass(frozen=True)
class Models:
    """What a file of models holds; either model may be missing, not both.

    Args:
        flow: the flow, or None.
        score_model: the score model, or None.
        about: how they were made, as JSON has it: "preset", "seed", "size" and so on for both, and under "models" for
            each of "flow" and "score_model" its "spec", "steps", "losses" and so on.
    """

    flow: Flow | None
    score_model: ScoreModel | None
    about: dict[str, Any]


def fingerprint(points: np.ndarray) -> str:
    """sha256 of points in float64, the same for the same numbers in the same order."""
    points = np.ascontiguousarray(points, dtype="<f8")
    return hashlib.sha256(repr(points.shape).encode() + points.tobytes()).hexdigest()


def pack(flow: Flow | None, score_model: ScoreModel | None, about: dict[str, Any]) -> bytes:
    """One safetensors file of a flow, a score model or both, with their specs and what else is to be known.

    Args:
        flow: a flow, or None.
        score_model: a score model, or None.
        about: what JSON can hold, as in `Models`; specs, dimension and versions are added.

    Raises:
        ValueError: if there is no model, or the two have different dimensions.
    """
    models = [model for model in (flow, score_model) if model is not None]
    if len({model.dim for model in models}) != 1:
        raise ValueError(f"pack: wanted a flow, a score model or both of one dimension, got {[m.dim for m in models]}")
    given = about.get("models", {})
    described = {kind_of(model): given.get(kind_of(model), {}) | {"spec": asdict(model.spec)} for model in models}
    about = about | {"dim": models[0].dim, "versions": versions(), "models": described}
    return _file({f"{kind_of(model)}.{key}": x for model in models for key, x in arrays_of(model).items()}, about)


def unpack(data: bytes) -> Models:
    """The models of a file that `pack` made.

    Raises:
        CheckpointError: for anything else; nothing of the file is run, and no network is built that is larger than the
            file itself.
    """
    arrays, about = _parse(data)
    parts = {
        kind: {key.removeprefix(f"{kind}."): value for key, value in arrays.items() if key.startswith(f"{kind}.")}
        for kind in KINDS
    }
    models = {
        kind: model_of(kind, about["models"][kind]["spec"], part, "The file", FILE_ADVICE)
        for kind, part in parts.items()
        if kind in about["models"]
    }
    if sum(len(parts[kind]) for kind in models) != len(arrays) or {m.dim for m in models.values()} != {about["dim"]}:
        raise CheckpointError(f"The file's models do not fit what it says about them: {FILE_ADVICE}")
    return Models(models.get("flow"), models.get("score_model"), about)  # type: ignore[arg-type]


def describe(data: bytes) -> dict[str, Any]:
    """`about` of a file that `pack` made, without importing torch; raises as `unpack`."""
    return _parse(data)[1]


def merge(flow: bytes, score_model: bytes) -> bytes:
    """The file of a flow and that of a score model, which were trained on the same points, as one; needs no torch.

    Raises:
        CheckpointError: if one of them is no such file, or they differ in more than the models.
    """
    (arrays, about), (more, other) = _parse(flow), _parse(score_model)
    if about | {"models": {}} != other | {"models": {}} or set(arrays) & set(more):
        raise CheckpointError("the files are not the flow and the score model of one training")
    return _file(arrays | more, about | {"models": about["models"] | other["models"]})


def _file(arrays: dict[str, np.ndarray], about: dict[str, Any]) -> bytes:
    from safetensors.numpy import save as serialize

    said = {"format": FORMAT, "version": FORMAT_VERSION, "sha256": digest(arrays, about), "about": about}
    # One entry: the library writes several in any order, and the same models should make the same file.
    return serialize(arrays, {METADATA: json.dumps(said)})


def _parse(data: bytes) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Tensors and description of a file that `pack` made; the models' specs are still to be checked.

    Raises:
        CheckpointError: if it is none.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load as deserialize

    if len(data) > MAX_FILE:
        raise CheckpointError(
            f"The file has {len(data) / 1024**2:.0f} MB, more than models need ({MAX_FILE // 1024**2}): {FILE_ADVICE}"
        )
    try:
        arrays = deserialize(data)
        # The library checked the header that this reads again: it does not hand out the metadata of bytes.
        metadata = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")]).get("__metadata__", {})
    except (SafetensorError, KeyError, ValueError, OverflowError, RecursionError):
        raise CheckpointError(f"The file is damaged, or not a safetensors file: {FILE_ADVICE}") from None
    try:
        said = json.loads(metadata.get(METADATA, ""))
        found = digest(arrays, said["about"])
    except (ValueError, TypeError, KeyError, RecursionError):
        said, found = None, ""
    if not isinstance(said, dict) or said.get("format") != FORMAT:
        raise CheckpointError(f"The file is not one of the explorer's models: {FILE_ADVICE}")
    if said.get("version") != FORMAT_VERSION:
        raise CheckpointError(
            f"The file has version {said.get('version')} of the format, this explorer reads {FORMAT_VERSION}: "
            "train the models again"
        )
    about = said["about"]
    if said.get("sha256") != found:
        raise CheckpointError(f"The file is damaged, its sha256 does not fit: {FILE_ADVICE}")
    models = about.get("models") if isinstance(about, dict) else None
    if (
        not isinstance(about, dict)
        or not isinstance(about.get("dim"), int)
        or not isinstance(models, dict)
        or not models
        or not set(models) <= set(KINDS)
        or not all(isinstance(model, dict) and "spec" in model for model in models.values())
    ):
        raise CheckpointError(f"The file does not say which models it holds: {FILE_ADVICE}")
    return arrays, about


def digest(arrays: dict[str, np.ndarray], about: Any) -> str:
    """sha256 of all that a file says."""
    found = hashlib.sha256(json.dumps(about).encode())
    for name in sorted(arrays):
        found.update(f"{name} {arrays[name].dtype} {arrays[name].shape}".encode())
        found.update(arrays[name].tobytes())
    return found.hexdigest()


# --- from a model to arrays and back --------------------------------------------------------------------------------


def kind_of(model: Flow | ScoreModel) -> str:
    """One of KINDS."""
    from core.flows import Flow

    return "flow" if isinstance(model, Flow) else "score_model"


def arrays_of(model: Flow | ScoreModel) -> dict[str, np.ndarray]:
    """Weights in float32 as "net.…", and "mean" and "scale" of the points."""
    arrays = {f"net.{key}": value.float().numpy() for key, value in model.net.state_dict().items()}
    return arrays | {"mean": model.mean, "scale": model.scale}


def versions() -> dict[str, str]:
    """Of what a model is made with."""
    return {name: version(name) for name in ("torch", "FrEIA", "numpy")} | {"python": platform.python_version()}


def model_of(kind: str, raw: Any, arrays: dict[str, np.ndarray], name: str, advice: str) -> Flow | ScoreModel:
    """The model of that kind with the weights "net.…", "mean" and "scale".

    Raises:
        CheckpointError: if they do not fit the spec, or are not all finite; said of the file `name`.
    """
    import torch

    from core.flows import Flow, FlowSpec, build, folded
    from core.scores import ScoreModel, ScoreNet, ScoreSpec

    try:
        mean, scale = (np.array(arrays[key], dtype=np.float64) for key in ("mean", "scale"))
        weights = {key.removeprefix("net."): value for key, value in arrays.items() if key.startswith("net.")}
        spec = _spec(FlowSpec if kind == "flow" else ScoreSpec, raw)
        held = sum(value.size for value in weights.values())
        if _weights_of(spec) > held or len(weights) + 2 != len(arrays):
            raise ValueError(f"the spec asks for {_weights_of(spec)} weights, the file has {held}")
        if mean.shape != (spec.dim,) or scale.shape != (spec.dim,) or not (scale > 0).all():
            raise ValueError("mean and scale do not belong to its dimension")
        if any(value.dtype != np.float32 for value in weights.values()):
            raise ValueError("some weights are not in float32")
        if not all(np.isfinite(value).all() for value in (mean, scale, *weights.values())):
            raise ValueError("some of its numbers are not finite")
        state = {key: torch.tensor(value) for key, value in weights.items()}
        model: Flow | ScoreModel
        if isinstance(spec, FlowSpec):
            flow_net = folded(build(spec))
            flow_net.load_state_dict(state)
            model = Flow(spec, flow_net, mean, scale)
        else:
            score_net = ScoreNet(spec)
            score_net.load_state_dict(state)
            model = ScoreModel(spec, score_net.double().eval().requires_grad_(False), mean, scale)
        center = model.mean[None]
        if not np.isfinite(model.log_density(center) if isinstance(model, Flow) else model.score(center)).all():
            raise ValueError("it gives no finite number even at the center of its points")
        return model
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        raise CheckpointError(f"{name} does not fit its spec ({error}): {advice}") from error


def _spec(of: type[FlowSpec] | type[ScoreSpec], raw: Any) -> FlowSpec | ScoreSpec:
    """A spec from JSON, with every number in bounds.

    Raises:
        TypeError: for keys that are unknown or missing, or values of another type.
        ValueError: for values out of bounds.
    """
    if not isinstance(raw, dict):
        raise TypeError(f"a spec should be named values, not {type(raw).__name__}")
    spec = of(**raw)
    for name, wanted in get_type_hints(of).items():
        value = getattr(spec, name)
        if wanted is float and type(value) is int:
            spec = replace(spec, **{name: float(value)})  # type: ignore[arg-type]
        elif type(value) is not wanted:
            raise TypeError(f"{name} should be of type {wanted.__name__}")
        if wanted in (int, float) and not 0 < value <= SPEC_LIMITS.get(name, SPEC_LIMIT):
            raise ValueError(f"{name} should be positive and at most {SPEC_LIMITS.get(name, SPEC_LIMIT):g}, is {value}")
    return spec


def _weights_of(spec: FlowSpec | ScoreSpec) -> int:
    """Numbers that the linear layers of a model of that spec hold, known before any is built."""
    from core.flows import FlowSpec

    def dense(seen: int, made: int) -> int:
        width = spec.width
        return (seen + 1) * width + (spec.hidden_layers - 1) * (width + 1) * width + (width + 1) * made

    if not isinstance(spec, FlowSpec):
        return dense(spec.dim, spec.dim)
    second = spec.dim // 2
    first, count = spec.dim - second, 3 * spec.bins - 1
    sides = [(first, second), (second, first)] if spec.two_sided else [(first, second)]
    return spec.blocks * sum(dense(seen, count * changed) for seen, changed in sides)


def write_whole(path: Path, data: bytes) -> None:
    """Write a file in one piece, so that a reader or a killed run never sees half of it."""
    temporary = path.with_name(f".{path.name}.partial")
    temporary.write_bytes(data)
    os.replace(temporary, path)
