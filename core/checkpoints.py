"""Trained models on disk: weights as safetensors, and a manifest that says what each file is and how it was made.

The manifest is plain JSON and is read without torch; weights are checked against their sha256 before they are parsed,
and nothing is ever unpickled.  `python -m core.training weights` makes every shipped model.

Models that a user trained travel as one file: `pack` and `unpack`. Such a file may come from anywhere, so all that it
says is checked before a network is built of it.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, get_type_hints

import numpy as np

if TYPE_CHECKING:
    from core.flows import Flow, FlowSpec
    from core.scores import ScoreModel, ScoreSpec
    from core.training import FitReport, FitSettings

FOLDER = Path(__file__).parent.parent / "assets" / "weights"
MANIFEST = "manifest.json"
COMMAND = "python -m core.training weights"
KINDS = ("flow", "score_model")
SHIPPED_SIZES = {"fast": (1000, 200, 500, 2000, 5000), "paper": (1000,)}
SHIPPED_EXTRA_SIZES = {"fast": (1000,), "paper": ()}  # of the datasets that are not the paper's
HELD_OUT_SIZE, HELD_OUT_SEED = 2000, 1_000_000  # points behind the manifest's held-out losses; added to the seed

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
class Entry:
    """One model of the manifest: what it is, how it was made, and the hash of its file."""

    name: str
    kind: str
    preset: str
    dataset: str
    size: int
    seed: int
    spec: dict[str, Any]
    settings: dict[str, Any]
    status: str
    steps: int
    seconds: float
    noise: float
    loss: float
    held_out_loss: float | None
    sha256: str
    versions: dict[str, str]
    command: str

    @property
    def file(self) -> str:
        """Name of the weight file, beside the manifest."""
        return f"{self.name}.safetensors"


def steps_for(pairs: Sequence[Sequence[int]], size: int) -> int:
    """Steps for `size` points: pairs (size, steps), interpolated in the logarithm of the size."""
    sizes, steps = np.array(pairs, dtype=float).T
    return round(np.interp(np.log(size), np.log(sizes), steps))


def name_of(dataset: str, size: int, seed: int, preset: str, kind: str) -> str:
    """Name of a shipped model, for instance two_spirals-1000-0-fast-flow."""
    return f"{dataset}-{size}-{seed}-{preset}-{kind}"


def available(folder: Path = FOLDER) -> dict[str, Entry]:
    """Every model of the manifest by name, without importing torch.

    Raises:
        CheckpointError: if the manifest is missing or malformed.
    """
    path = folder / MANIFEST
    try:
        listed = json.loads(path.read_text(encoding="utf-8"))["models"]
    except FileNotFoundError:
        raise CheckpointError(f"{path} is missing: restore it, or make the models again with `{COMMAND}`") from None
    except (json.JSONDecodeError, UnicodeDecodeError, KeyError, TypeError) as error:
        raise CheckpointError(
            f"{path} is not a manifest ({error!r}): restore it, or delete it and its models"
        ) from None
    return {entry.name: entry for entry in (_entry(raw, path) for raw in listed)}


def save(
    model: Flow | ScoreModel,
    report: FitReport,
    settings: FitSettings,
    *,
    dataset: str,
    size: int,
    seed: int,
    preset: str,
    command: str = COMMAND,
    folder: Path = FOLDER,
) -> Entry:
    """Write a model's weights and its entry in the manifest, which replaces an entry of the same name."""
    from safetensors.numpy import save as serialize

    kind = _kind(model)
    data = serialize(_arrays(model))
    entry = Entry(
        name=name_of(dataset, size, seed, preset, kind),
        kind=kind,
        preset=preset,
        dataset=dataset,
        size=size,
        seed=seed,
        spec=asdict(model.spec),
        settings=_plain(asdict(settings)),
        status=report.status.name,
        steps=report.steps,
        seconds=round(report.seconds, 1),
        noise=report.noise,
        loss=report.losses[-1][1],
        held_out_loss=report.held_out_losses[-1][1] if report.held_out_losses else None,
        sha256=hashlib.sha256(data).hexdigest(),
        versions=_versions(),
        command=command,
    )
    folder.mkdir(parents=True, exist_ok=True)
    entries = available(folder) if (folder / MANIFEST).exists() else {}
    ordered = sorted(
        (entries | {entry.name: entry}).values(), key=lambda e: (e.dataset, e.preset, e.size, e.seed, e.kind)
    )
    text = json.dumps({"models": [asdict(e) for e in ordered]}, indent=1)
    _replace(folder / entry.file, data)
    _replace(folder / MANIFEST, f"{text}\n".encode())
    return entry


def load(name: str, folder: Path = FOLDER) -> Flow | ScoreModel:
    """The model of that name in the manifest.

    Raises:
        CheckpointError: if there is none, or its file is missing, does not match its hash or does not fit its spec.
    """
    entries = available(folder)
    if name not in entries:
        raise CheckpointError(f"name: {folder / MANIFEST} has no model {name!r}; it has {', '.join(entries) or 'none'}")
    return _load(entries[name], folder)


def load_flow(name: str, folder: Path = FOLDER) -> Flow:
    """As `load`, for a name that should be a flow."""
    from core.flows import Flow

    model = load(name, folder)
    if not isinstance(model, Flow):
        raise CheckpointError(f"name: wanted a flow, but {name!r} is a score model")
    return model


def load_score_model(name: str, folder: Path = FOLDER) -> ScoreModel:
    """As `load`, for a name that should be a score model."""
    from core.scores import ScoreModel

    model = load(name, folder)
    if not isinstance(model, ScoreModel):
        raise CheckpointError(f"name: wanted a score model, but {name!r} is a flow")
    return model


def shipped(
    dataset: str, size: int, seed: int, preset: str = "fast", folder: Path = FOLDER
) -> tuple[Flow, ScoreModel] | None:
    """The shipped pair for a named dataset, or None where none was shipped.

    Raises:
        CheckpointError: if the manifest or a file that it names cannot be used.
    """
    entries = available(folder)
    names = [name_of(dataset, size, seed, preset, kind) for kind in KINDS]
    if not all(name in entries for name in names):
        return None
    return load_flow(names[0], folder), load_score_model(names[1], folder)


# --- models as one file ---------------------------------------------------------------------------------------------


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
    described = {_kind(model): given.get(_kind(model), {}) | {"spec": asdict(model.spec)} for model in models}
    about = about | {"dim": models[0].dim, "versions": _versions(), "models": described}
    return _file({f"{_kind(model)}.{key}": x for model in models for key, x in _arrays(model).items()}, about)


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
        kind: _model(kind, about["models"][kind]["spec"], part, "The file", FILE_ADVICE)
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


def estimated_seconds(preset: str, size: int, dim: int = 2) -> float | None:
    """How long the preset takes on `size` points, by the shipped models nearest in size: the slower of the two nets,
    which are trained side by side.

    That is the time on the machine that made the shipped models, without loading torch. In more dimensions it is
    rougher: they shipped none, and the flow's time was measured to grow like 1 + (D - 2) / 16.

    Returns:
        Seconds, or None where nothing of that preset was shipped.
    """
    try:
        entries = [entry for entry in available().values() if entry.preset == preset and entry.steps]
    except CheckpointError:
        return None
    times = []
    for kind in KINDS:
        near = [(abs(np.log(size / entry.size)), entry) for entry in entries if entry.kind == kind]
        closest = min((distance for distance, _ in near), default=None)
        paces = [e.seconds / e.steps * steps_for(e.settings["steps"], size) for d, e in near if d == closest]
        times += [median(paces) * (_flow_growth(preset, dim) if kind == "flow" else 1)] if paces else []
    return float(max(times)) if times else None


def _flow_growth(preset: str, dim: int) -> float:
    """Time of a flow's step in D dimensions over that in two; the paper's has 12 blocks for D = 2, otherwise 5."""
    return (5 / 12 if preset == "paper" and dim > 2 else 1) * (1 + (dim - 2) / 16)


def _file(arrays: dict[str, np.ndarray], about: dict[str, Any]) -> bytes:
    from safetensors.numpy import save as serialize

    said = {"format": FORMAT, "version": FORMAT_VERSION, "sha256": _digest(arrays, about), "about": about}
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
        digest = _digest(arrays, said["about"])
    except (ValueError, TypeError, KeyError, RecursionError):
        said, digest = None, ""
    if not isinstance(said, dict) or said.get("format") != FORMAT:
        raise CheckpointError(f"The file is not one of the explorer's models: {FILE_ADVICE}")
    if said.get("version") != FORMAT_VERSION:
        raise CheckpointError(
            f"The file has version {said.get('version')} of the format, this explorer reads {FORMAT_VERSION}: "
            "train the models again"
        )
    about = said["about"]
    if said.get("sha256") != digest:
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


def _digest(arrays: dict[str, np.ndarray], about: Any) -> str:
    """sha256 of all that a file says."""
    found = hashlib.sha256(json.dumps(about).encode())
    for name in sorted(arrays):
        found.update(f"{name} {arrays[name].dtype} {arrays[name].shape}".encode())
        found.update(arrays[name].tobytes())
    return found.hexdigest()


# --- from a model to arrays and back --------------------------------------------------------------------------------


def _kind(model: Flow | ScoreModel) -> str:
    from core.flows import Flow

    return "flow" if isinstance(model, Flow) else "score_model"


def _arrays(model: Flow | ScoreModel) -> dict[str, np.ndarray]:
    """Weights in float32 as "net.…", and "mean" and "scale" of the points."""
    arrays = {f"net.{key}": value.float().numpy() for key, value in model.net.state_dict().items()}
    return arrays | {"mean": model.mean, "scale": model.scale}


def _versions() -> dict[str, str]:
    return {name: version(name) for name in ("torch", "FrEIA", "numpy")} | {"python": platform.python_version()}


def _load(entry: Entry, folder: Path) -> Flow | ScoreModel:
    from safetensors import SafetensorError
    from safetensors.numpy import load as deserialize

    path = folder / entry.file
    advice = f"restore it from the repository, or delete it and run `{COMMAND}`"
    try:
        data = path.read_bytes()
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read ({error.strerror}): {advice}") from None
    found = hashlib.sha256(data).hexdigest()
    if found != entry.sha256:
        raise CheckpointError(
            f"{path} is damaged: its sha256 is {found[:12]}…, the manifest says {entry.sha256[:12]}…; {advice}"
        )
    try:
        arrays = deserialize(data)
    except (SafetensorError, KeyError, ValueError, OverflowError) as error:
        raise CheckpointError(f"{path} does not fit its spec in the manifest ({error}): {advice}") from error
    return _model(entry.kind, entry.spec, arrays, str(path), advice)


def _model(kind: str, raw: Any, arrays: dict[str, np.ndarray], name: str, advice: str) -> Flow | ScoreModel:
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


# --- the manifest ---------------------------------------------------------------------------------------------------


def _entry(raw: Any, path: Path) -> Entry:
    known = {field.name for field in fields(Entry)}
    if not isinstance(raw, dict) or set(raw) != known:
        odd = sorted(known ^ set(raw)) if isinstance(raw, dict) else raw
        raise CheckpointError(
            f"{path} has a malformed entry (missing or unknown: {odd}): restore it from the repository"
        )
    if raw["kind"] not in KINDS:
        raise CheckpointError(f"{path} has an entry of unknown kind {raw['kind']!r}: wanted one of {', '.join(KINDS)}")
    return Entry(**raw)


def _plain(value: Any) -> Any:
    """As JSON will give it back: tuples become lists."""
    return json.loads(json.dumps(value))


def _replace(path: Path, data: bytes) -> None:
    """Write a file in one piece, so that a reader or a killed run never sees half of it."""
    temporary = path.with_name(f".{path.name}.partial")
    temporary.write_bytes(data)
    os.replace(temporary, path)


def ship(dataset: str, preset: str, size: int, seed: int = 0, folder: Path = FOLDER) -> list[Entry]:
    """Train and save what the manifest does not have yet with today's spec and settings; returns the new entries."""
    from core import datasets
    from core.flows import FlowSpec
    from core.scores import ScoreSpec
    from core.training import PRESETS, train_flow, train_score

    density = datasets.load(dataset).density
    points, held_out = density.sample(size, seed), density.sample(HELD_OUT_SIZE, HELD_OUT_SEED + seed)
    have = available(folder) if (folder / MANIFEST).exists() else {}
    made = []
    jobs: list[tuple[str, Any, Any, Any]] = [
        ("flow", train_flow, getattr(FlowSpec, preset)(density.dim), PRESETS[preset].flow),
        ("score_model", train_score, getattr(ScoreSpec, preset)(density.dim), PRESETS[preset].score),
    ]
    for kind, fit, spec, settings in jobs:
        old = have.get(name_of(dataset, size, seed, preset, kind))
        if (
            old
            and (old.spec, old.settings) == (asdict(spec), _plain(asdict(settings)))
            and (folder / old.file).exists()
        ):
            continue
        model, report = fit(points, preset, seed, held_out=held_out)
        made.append(save(model, report, settings, dataset=dataset, size=size, seed=seed, preset=preset, folder=folder))
    return made


def main(arguments: list[str] | None = None) -> None:
    """The command line of `python -m core.training`."""
    from core import datasets

    parser = argparse.ArgumentParser(prog="python -m core.training", description="Make the models that are shipped.")
    parser.add_argument("what", choices=["weights"])
    names = (*datasets.NAMES, *datasets.EXTRA)
    parser.add_argument("--datasets", nargs="+", choices=names, default=names)
    parser.add_argument("--presets", nargs="+", choices=tuple(SHIPPED_SIZES), default=tuple(SHIPPED_SIZES))
    parser.add_argument("--sizes", nargs="+", type=int, help="default: the shipped sizes of each preset")
    options = parser.parse_args(arguments)
    for preset in options.presets:
        for dataset in options.datasets:
            shipped_sizes = SHIPPED_SIZES if dataset in datasets.NAMES else SHIPPED_EXTRA_SIZES
            for size in options.sizes or shipped_sizes[preset]:
                for entry in ship(dataset, preset, size):
                    held_out = f"{entry.held_out_loss:.4f}"
                    print(f"{entry.name}: held-out loss {held_out}, {entry.seconds:.0f} s", flush=True)
