"""The only place that caches: small frozen specs -> results of `core`.

Scenes are resources, shared by all sessions of the server; they only ever gain what is learned from their points.
Results are cached data, copied for each session. Keys are specs, never arrays.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
import streamlit as st

from core import fields, methods, paths
from core.methods import MethodSettings, PathReport, Scene
from dashboard.controls import Point, SceneSpec

BACKDROP_NODES = 200
FIELD_NODES = 192
# Methods whose models need torch: they join the picture when it is loaded.
LEARNED_WITH_TORCH = ("flow", "score")


@st.cache_resource(max_entries=24, show_spinner=False)
def scene(spec: SceneSpec) -> Scene:
    """The scene of a spec."""
    return Scene.load(spec.dataset, spec.size, spec.seed, spec.preset)


@st.cache_data(max_entries=24, show_spinner=False)
def backdrop(dataset: str) -> tuple[np.ndarray, fields.Box]:
    """The true log density on a grid (R, C), and the box it covers; the same for every sample of the dataset."""
    density = Scene.load(dataset).density
    box = fields.box_around(density.sample(4000, seed=1), margin=0.1)
    return fields.tabulate(density.log_density, box, BACKDROP_NODES), box


@st.cache_data(max_entries=24, show_spinner=False)
def _field_grid(dataset: str) -> tuple[np.ndarray, fields.Box]:
    """The true log density on the grid of the distance field: a little wider than the picture."""
    density = Scene.load(dataset).density
    box = fields.box_around(density.sample(4000, seed=1), margin=0.2)
    return fields.tabulate(density.log_density, box, FIELD_NODES), box


@st.cache_data(max_entries=64, show_spinner=False)
def field(dataset: str, start: Point, beta: float) -> fields.DistanceField | None:
    """Distances from the start, for the live geodesic; None where the start lies outside the field's box."""
    grid, box = _field_grid(dataset)
    if not box.contains(np.array([start])):
        return None
    return fields.distance_field(grid, box, np.array(start), beta)


@st.cache_data(max_entries=512, show_spinner=False)
def reports(
    spec: SceneSpec, start: Point, end: Point, beta: float, names: tuple[str, ...], settings: MethodSettings
) -> list[PathReport]:
    """`core.methods.compare` for a spec."""
    return methods.compare(scene(spec), start, end, beta, names, settings)


@st.cache_data(max_entries=64, show_spinner=False)
def profiles(
    spec: SceneSpec, start: Point, end: Point, beta: float, names: tuple[str, ...], settings: MethodSettings
) -> dict[str, paths.Profile]:
    """What each path meets on its way, by the scene's density."""
    density = scene(spec).density
    found = reports(spec, start, end, beta, names, settings)
    return {r.method: paths.profile(r.path, density.log_density, beta) for r in found if len(r.path)}


# --- models that need torch -----------------------------------------------------------------------------------------


@st.cache_resource(show_spinner=False)
def _loading() -> tuple[ThreadPoolExecutor, dict[tuple, Future]]:
    """One worker for all sessions, and what it was asked to load."""
    return ThreadPoolExecutor(max_workers=1, thread_name_prefix="models"), {}


def is_warm(spec: SceneSpec, settings: MethodSettings) -> bool:
    """Whether the scene's models are loaded; asks nobody to load them."""
    future = _loading()[1].get((spec, settings.neighbors, settings.segments))
    return future is not None and future.done()


def warm_up(spec: SceneSpec, settings: MethodSettings) -> Future:
    """Load torch, the scene's models and their densities along its graph, away from the page."""
    worker, asked = _loading()
    key = (spec, settings.neighbors, settings.segments)
    if key not in asked:
        asked[key] = worker.submit(_run_once, scene(spec), settings)
    return asked[key]


def _run_once(scene: Scene, settings: MethodSettings) -> None:
    import torch

    # One thread for each session's request: a pool of threads that wait for each other stalls on a busy machine.
    torch.set_num_threads(1)
    start, end = scene.points[0], scene.points[-1]
    methods.compare(scene, start, end, 1.0, LEARNED_WITH_TORCH, settings)
