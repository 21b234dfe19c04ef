"""The only place that caches: small frozen specs -> results of `core`.

Scenes are resources, shared by all sessions of the server; they only ever gain what is learned from their points.
Results are cached data, copied for each session. Keys are specs, never arrays.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import streamlit as st

from core import checkpoints, fields, methods, mixtures, model_files, paths
from core.children import Queue
from core.densities import standard_normal
from core.experiments import digit_models, digits, judges, kde_tradeoff, report, running
from core.experiments.live import LiveCell
from core.experiments.running import Result
from core.methods import MethodSettings, PathReport, Scene
from core.model_files import CheckpointError
from core.projections import Projection, Scaling, nearest
from dashboard import pictures
from dashboard.export import Frame
from dashboard.library import LIBRARY
from dashboard.specs import Axes, ExplorerSpec, Place, Point, SceneSpec

BACKDROP_NODES = 200
FIELD_NODES = 192
# Methods whose models need torch: they join the picture when it is loaded.
LEARNED_WITH_TORCH = ("flow", "score")
# Default endpoints of the user's own points lie at these quantiles of the longest axis.
NEAR_THE_ENDS = (0.1, 0.9)


# --- scenes ---------------------------------------------------------------------------------------------------------


@st.cache_resource(max_entries=24, show_spinner=False)
def _scene_without_models(spec: SceneSpec) -> Scene:
    """The scene of a spec whose `models` is empty."""
    if not spec.own:
        return Scene.load(spec.dataset, spec.size, spec.seed, spec.preset)
    upload = LIBRARY.upload(spec.dataset, spec.columns)
    points = scaling(spec).apply(upload.points)
    if spec.size < len(points):
        rows = np.random.default_rng(spec.seed).choice(len(points), spec.size, replace=False)
        points = points[np.sort(rows)]
    return Scene.from_points(points, LIBRARY.title(spec.dataset))


@st.cache_resource(max_entries=24, show_spinner=False)
def scene(spec: SceneSpec) -> Scene:
    """The scene of a spec, with the models that were trained or loaded for it here.

    Raises:
        ValueError: where the user's points, or the columns chosen of them, cannot be used.
    """
    plain = _scene_without_models(spec.bare)
    if not spec.models:
        return plain
    models = LIBRARY.models(spec.models)
    return plain.with_models(models.flow, models.score_model, spec.preset)


@st.cache_data(max_entries=24, show_spinner=False)
def _scaling(dataset: str, columns: tuple[int, ...], scale: str) -> Scaling:
    points = LIBRARY.upload(dataset, columns).points
    return Scaling.standard(points) if scale == "standard" else Scaling.none(points.shape[1])


def scaling(spec: SceneSpec) -> Scaling:
    """How the columns of the user's file were scaled; nothing for named datasets."""
    return _scaling(spec.dataset, spec.columns, spec.scale) if spec.own else Scaling.none(2)


def fit_reference(spec: SceneSpec) -> None:
    """Learn the reference density of the user's own points, before it is asked for."""
    _ = scene(spec).density


# --- the plane ------------------------------------------------------------------------------------------------------


@st.cache_data(max_entries=24, show_spinner=False)
def _projection(spec: SceneSpec, axes: Axes) -> Projection:
    points = scene(spec).points
    names = LIBRARY.upload(spec.dataset, spec.columns).columns if spec.own else ("", "")
    if points.shape[1] == 2:
        return Projection.columns(0, 1, names)
    return Projection.principal(points) if not axes else Projection.columns(*axes, names)


def projection(spec: ExplorerSpec) -> Projection:
    """From data space to the plane; the identity for two columns."""
    return _projection(spec.scene.points, spec.axes)


@st.cache_data(max_entries=24, show_spinner=False)
def _backdrop(spec: SceneSpec, axes: Axes) -> tuple[np.ndarray, fields.Box]:
    density = scene(spec).density
    if density.dim > 2:
        shown = _projection(spec, axes).apply(scene(spec).points)
        density = mixtures.fit_kernel_density(shown)
        sample = shown
    else:
        sample = scene(spec).points if spec.own else density.sample(4000, seed=1)
    box = fields.box_around(sample, margin=0.1)
    return fields.tabulate(density.log_density, box, BACKDROP_NODES), box


def backdrop(spec: ExplorerSpec) -> tuple[np.ndarray, fields.Box]:
    """The log density on a grid (R, C), and the box it covers.

    The truth for named datasets (the same for every sample), the fitted reference for the user's own points; of more
    than two columns, a kernel density of the projected points.
    """
    return _backdrop(spec.scene.ground, spec.axes)


@st.cache_data(max_entries=24, show_spinner=False)
def _field_grid(spec: SceneSpec) -> tuple[np.ndarray, fields.Box]:
    """The log density on the grid of the distance field: a little wider than the picture."""
    density = scene(spec).density
    box = fields.box_around(scene(spec).points if spec.own else density.sample(4000, seed=1), margin=0.2)
    return fields.tabulate(density.log_density, box, FIELD_NODES), box


@st.cache_data(max_entries=64, show_spinner=False)
def _field(spec: SceneSpec, start: Point, beta: float) -> fields.DistanceField | None:
    grid, box = _field_grid(spec)
    if not box.contains(np.array([start])):
        return None
    return fields.distance_field(grid, box, np.array(start), beta)


def field(spec: SceneSpec, start: Point, beta: float) -> fields.DistanceField | None:
    """Distances from the start, for the live geodesic; None where the start lies outside the field's box."""
    return _field(spec.ground, start, beta)


# --- endpoints ------------------------------------------------------------------------------------------------------


def settle(spec: ExplorerSpec) -> ExplorerSpec:
    """The spec with endpoints and columns to show that fit the scene: default ones where they are missing."""
    points = scene(spec.scene).points
    size, dim = points.shape
    axes = spec.axes if dim > 2 and spec.axes and max(spec.axes) < dim else ()

    def fits(place: Place | None) -> bool:
        return (0 <= place < size) if isinstance(place, int) else (place is not None and dim == 2)

    start, end = spec.start, spec.end
    if not (fits(start) and fits(end)):
        first, last = _default_places(spec.scene.points)
        start, end = start if fits(start) else first, end if fits(end) else last
    return replace(spec, start=start, end=end, axes=axes)


@st.cache_data(max_entries=24, show_spinner=False)
def _default_places(spec: SceneSpec) -> tuple[Place, Place]:
    """Two data points near the ends of the longest axis."""
    points = scene(spec).points
    along = Projection.principal(points).apply(points)[:, 0]
    first, last = (int(np.abs(along - np.quantile(along, q)).argmin()) for q in NEAR_THE_ENDS)
    if first == last:
        last = (first + 1) % len(points)
    if points.shape[1] > 2:
        return first, last
    (x0, y0), (x1, y1) = points[[first, last]].tolist()
    return (float(f"{x0:.6g}"), float(f"{y0:.6g}")), (float(f"{x1:.6g}"), float(f"{y1:.6g}"))


def positions(spec: ExplorerSpec) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Where the endpoints of a settled spec are, in the space of the data.

    Raises:
        ValueError: if the spec is not settled.
    """
    return _position(spec.scene, spec.start), _position(spec.scene, spec.end)


def _position(spec: SceneSpec, place: Place | None) -> tuple[float, ...]:
    if place is None:
        raise ValueError("endpoints should be settled first")
    if isinstance(place, int):
        return tuple(float(f"{x:.9g}") for x in scene(spec).points[place].tolist())
    return tuple(place)


def on_plane(spec: ExplorerSpec) -> tuple[Point, Point]:
    """Where the endpoints are on the plane."""
    at = np.array(positions(spec))
    (x0, y0), (x1, y1) = projection(spec).apply(at).tolist()
    return (x0, y0), (x1, y1)


def place_at(spec: ExplorerSpec, point: Point) -> Place:
    """The endpoint that a position on the plane stands for: itself, or the nearest point of many columns."""
    points = scene(spec.scene).points
    if points.shape[1] == 2:
        return point
    return nearest(projection(spec).apply(points), np.array(point))


# --- paths ----------------------------------------------------------------------------------------------------------


@st.cache_data(max_entries=512, show_spinner=False)
def _reports(
    spec: SceneSpec,
    start: tuple[float, ...],
    end: tuple[float, ...],
    beta: float,
    names: tuple[str, ...],
    settings: MethodSettings,
) -> list[PathReport]:
    return methods.compare(scene(spec), start, end, beta, names, settings)


def reports(spec: ExplorerSpec, names: tuple[str, ...]) -> list[PathReport]:
    """`core.methods.compare` for a settled spec."""
    start, end = positions(spec)
    return _reports(spec.scene, start, end, spec.beta, names, spec.settings)


@st.cache_data(max_entries=64, show_spinner=False)
def _profiles(
    spec: SceneSpec,
    start: tuple[float, ...],
    end: tuple[float, ...],
    beta: float,
    names: tuple[str, ...],
    settings: MethodSettings,
) -> dict[str, paths.Profile]:
    log_density = scene(spec).density.log_density
    found = _reports(spec, start, end, beta, names, settings)
    return {r.method: paths.profile(r.path, log_density, beta) for r in found if len(r.path)}


def profiles(spec: ExplorerSpec, names: tuple[str, ...]) -> dict[str, paths.Profile]:
    """What each path meets on its way, by the scene's density; for a settled spec."""
    start, end = positions(spec)
    return _profiles(spec.scene, start, end, spec.beta, names, spec.settings)


def frame(spec: ExplorerSpec) -> Frame:
    """The space that a settled spec's paths live in."""
    own = spec.scene.own
    columns = LIBRARY.upload(spec.scene.dataset, spec.scene.columns).columns if own else ("x", "y")
    source = LIBRARY.title(spec.scene.dataset) if own else ""
    start, end = positions(spec)
    return Frame(columns, scaling(spec.scene), source, start, end)


# --- models that are shipped, and those that could be trained --------------------------------------------------------


@st.cache_data(max_entries=64, show_spinner=False)
def has_shipped_models(dataset: str, size: int, seed: int, preset: str) -> bool:
    """Whether flow and score model of a named dataset's sample are shipped."""
    names = {checkpoints.name_of(dataset, size, seed, preset, kind) for kind in model_files.KINDS}
    try:
        return names <= set(checkpoints.available())
    except CheckpointError:
        return False


@st.cache_data(max_entries=64, show_spinner=False)
def training_seconds(preset: str, size: int, dim: int) -> float | None:
    """How long a training takes on a usual machine; None where that is not known."""
    return checkpoints.estimated_seconds(preset, size, dim)


# --- models that need torch -----------------------------------------------------------------------------------------


@st.cache_resource(show_spinner=False)
def _loading() -> tuple[ThreadPoolExecutor, dict[tuple, Future]]:
    """One worker for all sessions, and what it was asked to load."""
    return ThreadPoolExecutor(max_workers=1, thread_name_prefix="models"), {}


def is_warm(spec: SceneSpec, settings: MethodSettings) -> bool:
    """Whether the scene's models are loaded, or there are none; asks nobody to load them."""
    if spec.own and not spec.models:
        return True
    future = _loading()[1].get((spec, settings.neighbors, settings.segments))
    return future is not None and future.done()


def warm_up(spec: SceneSpec, settings: MethodSettings) -> Future:
    """Load torch, the scene's models and their densities along its graph, away from the page."""
    worker, asked = _loading()
    key = (spec, settings.neighbors, settings.segments)
    if key not in asked:
        asked[key] = worker.submit(_run_once, spec, settings)
    return asked[key]


def _run_once(spec: SceneSpec, settings: MethodSettings) -> None:
    import torch

    # One thread for each session's request: a pool of threads that wait for each other stalls on a busy machine.
    torch.set_num_threads(1)
    points = scene(spec).points
    methods.compare(scene(spec), points[0], points[-1], 1.0, LEARNED_WITH_TORCH, settings)


# --- experiments of the paper ---------------------------------------------------------------------------------------


@st.cache_data(max_entries=16, show_spinner=False)
def _result(name: str, folder: Path, changed: float) -> Result:
    return running.read(name, folder)


def result(name: str) -> Result:
    """The shipped table of an experiment; read again when its file has changed.

    Raises:
        ValueError: if there is none, or it is damaged.
    """
    path = running.RESULTS / f"{name}.csv"
    return _result(name, running.RESULTS, path.stat().st_mtime if path.exists() else 0.0)


def table_file(name: str) -> bytes:
    """The file of a table."""
    return (running.RESULTS / f"{name}.csv").read_bytes()


def verdicts(names: tuple[str, ...]) -> list[tuple[report.Claim, judges.Verdict, str]]:
    """The paper's claims about these experiments, each with its verdict and the number behind it."""
    results = {}
    for name in names:
        with suppress(ValueError):  # without a table its claims are "not run yet"
            results[name] = result(name)
    return [(claim, *report.judged(claim, results)) for claim in report.CLAIMS if claim.experiment in names]


@st.cache_resource(show_spinner=False)
def _live_queue() -> Queue:
    """One for all sessions: a live cell keeps one core busy."""
    return Queue()


def live_cell(name: str, spec: Any, cell: running.Cell) -> LiveCell:
    """Begin to compute a cell of an experiment, in a process of its own."""
    return LiveCell(_live_queue(), name, spec, cell)


# --- estimators -----------------------------------------------------------------------------------------------------

DRAWN = np.linspace(-4, 4, 241)


@st.cache_data(max_entries=256, show_spinner=False)
def kernel_estimate(size: int, draw: int, bandwidth: float) -> dict[str, np.ndarray]:
    """Log density and score of a sample's kernel density beside the truth, at the points "x"."""
    truth = standard_normal(1)
    sample = truth.sample(size, draw)[:, 0]
    log_density, score = kde_tradeoff.kernel_estimates(sample, DRAWN, bandwidth)
    return {
        "x": DRAWN,
        "log_density": log_density,
        "score": score,
        "true_log_density": truth.log_density(DRAWN[:, None]),
        "true_score": truth.score(DRAWN[:, None])[:, 0],
    }


@st.cache_data(max_entries=256, show_spinner=False)
def kernel_errors(size: int, draw: int, bandwidth: float) -> dict[tuple[str, str], float]:
    """Integrated squared errors of the same estimate by weight and target, as the table of the experiment has them."""
    alone = kde_tradeoff.Spec((size,), draws=1, narrowest=bandwidth, widest=bandwidth, bandwidths=1, seed=draw)
    return {which: float(each[0, 0]) for which, each in kde_tradeoff.integrated_errors(alone, size).items()}


# --- digits ---------------------------------------------------------------------------------------------------------

DIGITS_SEED = 0  # of the split and the weights that are shipped


@st.cache_resource(show_spinner=False)
def _digit_models() -> digit_models.Models:
    """The shipped models of the digits; loads torch."""
    import torch

    torch.set_num_threads(1)  # as for the explorer's models
    models = digit_models.load()
    if models.spec != digits.FULL or models.seed != DIGITS_SEED:
        raise ValueError("the shipped models were made by another spec or seed")
    return models


@st.cache_data(show_spinner=False)
def digit_images() -> tuple[np.ndarray, list[list[int]]]:
    """Images (N, H, W) from 0 to 255, and for each digit the rows that the shipped models never saw; without torch."""
    images, labels = digit_models.load_images(digits.FULL.mnist)
    _, held_out = digit_models.split(len(images), digits.FULL.held_out, DIGITS_SEED)
    return pictures.gray(images), [held_out[labels[held_out] == digit].tolist() for digit in range(digits.CLASSES)]


@st.cache_data(max_entries=1024, show_spinner=False)
def digit_sheet(digit: int, marked: int) -> np.ndarray:
    """All held-out images of a digit as RGBA thumbnails, one of them marked."""
    images, held_out = digit_images()
    return pictures.sheet(images[held_out[digit]], marked)


@st.cache_data(max_entries=256, show_spinner=False)
def digit_geodesic(i: int, j: int, beta: float) -> digits.LatentGeodesic:
    """`core.experiments.digits.geodesic` between two rows of the images, by the shipped models.

    Raises:
        ValueError: if the models cannot be used (then it is a CheckpointError), or the rows cannot.
    """
    return digits.geodesic(_digit_models(), i, j, beta)


@st.cache_data(max_entries=256, show_spinner=False)
def digit_frames(i: int, j: int, beta: float, every: int) -> tuple[np.ndarray, np.ndarray]:
    """Every so many points of a path and of the straight line, decoded: images (F, H, W) from 0 to 255 of each."""
    found = digit_geodesic(i, j, beta)
    path, straight = (digits.decode_path(_digit_models(), points[::every]) for points in (found.path, found.straight))
    return pictures.gray(path), pictures.gray(straight)
