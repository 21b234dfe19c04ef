"""The shipped models: files of weights, and a manifest that says what each of them is and how it was made.

The manifest is plain JSON and is read without torch; weights are checked against their sha256 before they are parsed.
`python -m core.training weights` makes every shipped model. How a model becomes a file is in `core.model_files`.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np

from core.model_files import KINDS, CheckpointError, arrays_of, kind_of, model_of, versions, write_whole

if TYPE_CHECKING:
    from core.flows import Flow
    from core.scores import ScoreModel
    from core.training import FitReport, FitSettings

FOLDER = Path(__file__).parent.parent / "assets" / "weights"
MANIFEST = "manifest.json"
COMMAND = "python -m core.training weights"
SHIPPED_SIZES = {"fast": (1000, 200, 500, 2000, 5000), "paper": (1000,)}
SHIPPED_EXTRA_SIZES = {"fast": (1000,), "paper": ()}  # of the datasets that are not the paper's
HELD_OUT_SIZE, HELD_OUT_SEED = 2000, 1_000_000  # points behind the manifest's held-out losses; added to the seed


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

    kind = kind_of(model)
    data = serialize(arrays_of(model))
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
        versions=versions(),
        command=command,
    )
    folder.mkdir(parents=True, exist_ok=True)
    entries = available(folder) if (folder / MANIFEST).exists() else {}
    ordered = sorted(
        (entries | {entry.name: entry}).values(), key=lambda e: (e.dataset, e.preset, e.size, e.seed, e.kind)
    )
    text = json.dumps({"models": [asdict(e) for e in ordered]}, indent=1)
    write_whole(folder / entry.file, data)
    write_whole(folder / MANIFEST, f"{text}\n".encode())
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
    return model_of(entry.kind, entry.spec, arrays, str(path), advice)


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
