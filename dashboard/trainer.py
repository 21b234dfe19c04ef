"""Training in sight: the button, progress with time left, the live loss curve, cancel; and models as files."""

from __future__ import annotations

from dataclasses import replace

import streamlit as st

from core import model_files
from core.jobs import Job, Snapshot, State
from core.methods import PRESETS
from dashboard import charts, compute, export, plane
from dashboard.library import LIBRARY
from dashboard.specs import ExplorerSpec, SceneSpec

POLL_SECONDS = 0.4
EARLIER_STAY = "Training was cancelled; the models from before stay."


# --- which models a scene has ---------------------------------------------------------------------------------------


def with_models(spec: ExplorerSpec) -> ExplorerSpec:
    """The spec with the models that this session chose, or that the server has for the same points and settings."""
    chosen = _chosen().get(spec.scene.bare, "")
    if not (chosen and LIBRARY.has_models(chosen)):
        chosen = "" if _shipped(spec.scene) else LIBRARY.trained(spec.scene)
    return replace(spec, scene=replace(spec.scene, models=chosen))


def _chosen() -> dict[SceneSpec, str]:
    """Scenes without models -> key of the models that this session trained or loaded for them."""
    return st.session_state.setdefault("chosen models", {})


def _shipped(spec: SceneSpec) -> bool:
    """Whether models are shipped for a scene."""
    return not spec.own and compute.has_shipped_models(spec.dataset, spec.size, spec.seed, spec.preset)


# --- the panel ------------------------------------------------------------------------------------------------------


def panel(spec: ExplorerSpec) -> None:
    """The training of this scene's models, in the sidebar."""
    with st.sidebar:
        if is_active(spec.scene):
            _watch(spec.scene)
        else:
            _offer(spec, LIBRARY.job(spec.scene))


def _offer(spec: ExplorerSpec, job: Job | None) -> None:
    """The button, with what it costs; and how the last training ended, where it left something to say."""
    scene = spec.scene
    have = bool(scene.models) or _shipped(scene)
    if job is not None and job.snapshot().state is State.FAILED:
        st.error(job.snapshot().message, icon=":material/error:")
    elif job is not None and job.snapshot().state is State.CANCELLED:
        kept_before = have and LIBRARY.collect(scene) != scene.models
        st.caption(EARLIER_STAY if kept_before else job.snapshot().message)
    elif not have:
        st.caption("No models for these points yet.")
    other = st.session_state.get("training")
    busy = other is not None and other != scene.bare and is_active(other)
    st.button(
        "Train again" if have else "Train flow and score",
        icon=":material/model_training:",
        width="stretch",
        type="secondary" if have else "primary",
        on_click=_start,
        args=(scene,),
        disabled=busy,
        help=f"{scene.preset.capitalize()} preset: {estimate(scene)}. The page stays usable meanwhile.",
    )
    if busy:
        st.caption("Another training of yours is under way; one at a time, so that others get their turn.")
    if scene.preset == "paper" or not have:
        st.caption(f"{scene.preset.capitalize()} preset: {estimate(scene)}.")


def estimate(spec: SceneSpec) -> str:
    """How long a training takes, in words."""
    points = compute.scene(spec.bare).points
    seconds = compute.training_seconds(spec.preset, *points.shape)
    if seconds is None:
        return "it is not known how long it takes"
    return f"about {seconds:.0f} seconds" if seconds < 100 else f"about {seconds / 60:.0f} minutes"


def is_active(spec: SceneSpec) -> bool:
    """Whether models of this scene are being trained, or wait for it."""
    job = LIBRARY.job(spec)
    return job is not None and job.snapshot().state.active


def _start(spec: SceneSpec) -> None:
    st.session_state["training"] = spec.bare
    scene = compute.scene(spec.bare)
    # Where the truth is known, the curve is judged on fresh points; one's own points are split by the job.
    held_out = scene.true_density.sample(1000, seed=10**6 + spec.seed) if scene.true_density is not None else None
    LIBRARY.train(spec, scene.points, held_out)


def _cancel(spec: SceneSpec) -> None:
    job = LIBRARY.job(spec)
    if job is not None:
        job.cancel()


@st.fragment(run_every=POLL_SECONDS)
def _watch(spec: SceneSpec) -> None:
    """Progress, time left and the loss curve; when it ends, the whole page is drawn again with the new models."""
    job = LIBRARY.job(spec)
    if job is None:
        st.rerun()
        return
    now = job.snapshot()
    if not now.state.active:
        key = LIBRARY.collect(spec)
        # What a cancelled training leaves is better than nothing, and worse than models that ran to their end.
        if key and (now.state is State.FINISHED or not (spec.models or _shipped(spec))):
            _chosen()[spec.bare] = key
        st.rerun()
    st.progress(now.fraction, text=in_words(now))
    if any(curve.steps for curve in now.curves.values()):
        plane.figure(charts.loss_curves(now.curves, height=210), key="live losses")
    st.button("Cancel", icon=":material/stop_circle:", on_click=_cancel, args=(spec,), width="stretch")


def in_words(now: Snapshot) -> str:
    """One line on how far a training is."""
    if now.state is State.QUEUED:
        return "Next in the queue" if now.ahead <= 1 else f"{now.ahead} trainings ahead in the queue"
    if now.seconds_left is None:
        return "Starting…"
    return f"Training: {now.seconds_left:.0f} s left" if now.seconds_left >= 1 else "Training: nearly done"


# --- the tab --------------------------------------------------------------------------------------------------------


def tab(spec: ExplorerSpec) -> None:
    """Models of this scene: what they are, their loss curves, download and load."""
    left, right = st.columns([3, 2], gap="large")
    with left:
        _about(spec.scene)
    with right:
        st.markdown("**Load models**")
        st.file_uploader(
            "A file that was downloaded here",
            key="models file",
            on_change=_load,
            args=(spec.scene,),
            help="One safetensors file with flow, score model and their specs.",
        )
        if "models refused" in st.session_state:
            st.error(st.session_state["models refused"], icon=":material/error:")


def _about(spec: SceneSpec) -> None:
    if not spec.models:
        shipped = _shipped(spec)
        st.markdown(
            "These models are shipped with the explorer; `assets/weights/manifest.json` says how they were made."
            if shipped
            else "There are no models for these points yet. Train them with the button on the left, or load a file."
        )
        return
    data = LIBRARY.packed_models(spec.models)
    about = model_files.describe(data)
    st.markdown(f"**{about_in_words(about)}**")
    curves = charts.curves_of(about)
    if curves:
        plane.figure(charts.loss_curves(curves, height=280), key="losses")
        st.caption(
            "Thin: loss on the points trained on, with noise added. Thick: on points that no step saw. "
            "Where they part, the model learns its sample by heart."
        )
    st.download_button(
        "Download the models",
        data,
        export.models_file(spec),
        "application/octet-stream",
        icon=":material/download:",
        on_click="ignore",
    )


def about_in_words(about: dict) -> str:
    """What a file of models says about itself."""
    preset = about.get("preset") if about.get("preset") in PRESETS else "unknown"
    size, dim = (charts.plain(str(about.get(name, "?"))) for name in ("trained_on", "dim"))
    said = f"Trained with the {preset} preset on {size} points in {dim} dimensions"
    judged = about.get("held_out")
    return f"{said}; {judged} others judged the losses." if isinstance(judged, int) and judged else f"{said}."


def _load(spec: SceneSpec) -> None:
    """Take a file of models for this scene; where it cannot be used, all stays as it was."""
    file = st.session_state["models file"]
    if file is None:
        return
    data = file.getvalue()
    try:
        loaded = model_files.unpack(data)
        compute.scene(spec.bare).with_models(loaded.flow, loaded.score_model, spec.preset)
    except ValueError as problem:
        st.session_state["models refused"] = f"{file.name}: {problem}"
        return
    st.session_state.pop("models refused", None)
    _chosen()[spec.bare] = LIBRARY.keep_models(data, file.name)
