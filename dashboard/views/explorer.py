"""The explorer: the plane with every path and its error, and tabs that say why."""

from __future__ import annotations

import json
from concurrent.futures import wait

import numpy as np
import streamlit as st

from core.methods import WARNINGS, PathReport
from dashboard import charts, compute, controls, export, plane, trainer
from dashboard.library import LIBRARY
from dashboard.specs import ExplorerSpec, Point
from dashboard.texts import sentences

POLL_SECONDS = 0.3
CANVAS_SIDE = 1.0  # half the width of the plane that one draws on


def explorer() -> None:
    """The whole page, top to bottom."""
    complaints = st.session_state.pop("said before the models came", []) + controls.sync_with_url()
    if complaints:
        said = "\n".join(f"- {complaint}" for complaint in complaints)
        st.warning(f"Parts of the link could not be used; defaults stand in.\n{said}", icon=":material/link_off:")
    controls.sidebar()
    spec = controls.current()
    if controls.is_drawing():
        controls.sidebar_end()
        canvas()
        return
    spec = settled(spec)
    trainer.panel(spec)
    controls.sidebar_end()
    header(spec)
    waiting = not models_ready(spec)
    reports = shown_reports(spec, waiting)
    draw_plane(spec, reports, waiting)
    tabs(spec, reports)
    if waiting:
        wait_for_models(spec)
        st.session_state["said before the models came"] = complaints  # nobody has read them yet
        st.rerun()


def settled(spec: ExplorerSpec) -> ExplorerSpec:
    """The spec with its models and endpoints; what must be learned first is learned here, in sight."""
    try:
        if spec.scene.own:
            with st.spinner(f"Fitting the reference density to {spec.scene.size} points…", show_time=True):
                compute.fit_reference(spec.scene)
        return trainer.with_models(compute.settle(spec))
    except ValueError as problem:
        controls.sidebar_end()
        said = str(problem).rstrip(".")
        st.error(f"{said}. Choose other columns or other data on the left.", icon=":material/error:")
        st.stop()


def canvas() -> None:
    """The plane as a canvas for the spray."""
    controls.drawing_bar()
    points = controls.drawn_points()
    side = CANVAS_SIDE
    base = plane.Base(f"canvas {hash(points.tobytes())}", None, (-side, side, -side, side), points, view="canvas")
    overlay = plane.Overlay(((0.0, 0.0), (1.0, 0.0)), drawing=True, sentence=sentences.DRAWING)
    plane.draw(base, overlay, key="plane", on_event=spray)


def spray(event: plane.Event) -> None:
    """A stroke was sprayed on the canvas."""
    if event.kind == "draw":
        controls.add_stroke(event.points)


def header(spec: ExplorerSpec) -> None:
    """What is shown, and the four things that one does most."""
    left, right = st.columns([5, 6], vertical_alignment="center")
    scene = compute.scene(spec.scene)
    dim = f" · D = {scene.dim}" if scene.dim > 2 else ""
    left.markdown(f"##### {charts.plain(scene.title)} · n = {scene.size}{dim} · β = {spec.beta:.4g}")
    with right.container(horizontal=True, horizontal_alignment="right", gap="small"):
        st.button("Reset", icon=":material/restart_alt:", on_click=controls.reset, help="Defaults for this dataset")
        st.button(
            "Swap",
            icon=":material/swap_horiz:",
            on_click=controls.set_endpoints,
            args=(spec.end, spec.start),
            help="Exchange A and B",
        )
        st.button(
            "Random",
            icon=":material/casino:",
            on_click=controls.random_pair,
            args=(scene.points,),
            help="A random pair of the sample",
        )
        with st.popover("Link", icon=":material/link:", help="A link that opens this picture"):
            st.caption("This link opens the picture that you see.")
            st.code(export.link(st.context.url, st.session_state["url"]), language=None, wrap_lines=True)
            if spec.scene.own:
                st.caption(
                    "Your points stay on this server, until it is stopped. Bring the same file again after that."
                )


def models_ready(spec: ExplorerSpec) -> bool:
    """Whether every chosen method can be computed without waiting for torch."""
    if not set(spec.methods) & set(compute.LEARNED_WITH_TORCH):
        return True
    return compute.is_warm(spec.scene, spec.settings)


def shown_reports(spec: ExplorerSpec, waiting: bool) -> list[PathReport]:
    """Reports of the chosen methods, without those that wait for torch; none when the input cannot be used."""
    names = tuple(name for name in spec.methods if not (waiting and name in compute.LEARNED_WITH_TORCH))
    try:
        return compute.reports(spec, names)
    except ValueError as problem:
        st.warning(f"{problem}. Move A or B, or change the settings on the left.", icon=":material/error:")
        return []


def draw_plane(spec: ExplorerSpec, reports: list[PathReport], waiting: bool) -> None:
    """The plane with its rows."""
    scene, projection = compute.scene(spec.scene), compute.projection(spec)
    log_density, box = compute.backdrop(spec)
    (x0, y0), (x1, y1) = box.low, box.high
    view = f"{spec.scene.dataset} {spec.scene.columns} {spec.scene.scale} {spec.axes}"
    key = f"{view} {spec.scene.size} {spec.scene.seed}"
    base = plane.Base(
        key, log_density, (x0, x1, y0, y1), projection.apply(scene.points), view=view, axes=projection.titles
    )
    start, end = compute.on_plane(spec)
    outside = [letter for letter, at in (("A", start), ("B", end)) if not box.contains(np.array([at]))]
    own = spec.scene.own
    overlay = plane.Overlay(
        (start, end),
        rows(spec, reports, waiting),
        {r.method: projection.apply(r.path) for r in reversed(reports) if len(r.path)},
        hover_field(spec, start) if scene.dim == 2 else None,
        lpr_title="LPR against the fitted reference" if own else "LPR",
        titles=charts.OWN_TITLES if own else {},
        sentence=sentences.picture(reports, controls.lesson(), outside, scene.dim, own),
        file_name=export.file_name(spec),
        marks={r.method: r.marks for r in reports if r.marks},
        snap=scene.dim > 2,
    )
    plane.draw(base, overlay, key="plane", on_event=lambda event: take(event, spec))


def take(event: plane.Event, spec: ExplorerSpec) -> None:
    """An endpoint was set on the plane."""
    if event.kind == "draw":  # sprayed before the canvas was left
        return
    places = [compute.place_at(spec, point) for point in event.endpoints]
    controls.set_endpoints(places[0], places[1])


def hover_field(spec: ExplorerSpec, start: Point) -> plane.Field | None:
    """Distances from A for the live geodesic under the cursor."""
    field = compute.field(spec.scene, start, spec.beta)
    if field is None:
        return None
    (x0, y0), (x1, y1) = field.box.low, field.box.high
    return plane.Field(f"{spec.scene.ground} {start} {spec.beta}", field.values, (x0, x1, y0, y1))


def rows(spec: ExplorerSpec, reports: list[PathReport], waiting: bool) -> tuple[dict, ...]:
    """One row a chosen method, in the page's order; those that wait for torch say so."""
    found = {
        r.method: {
            "method": r.method,
            "lpr": r.lpr,
            "log_length": r.log_length,
            "seconds": r.seconds,
            "status": r.status.name,
            "note": sentences.note(r.status),
            "warning": r.status in WARNINGS,
        }
        for r in reports
    }
    loading = {"lpr": None, "log_length": None, "seconds": None, "status": "LOADING"}
    pending = compute.LEARNED_WITH_TORCH if waiting else ()
    return tuple(
        found.get(name, {"method": name} | loading) for name in spec.methods if name in found or name in pending
    )


def tabs(spec: ExplorerSpec, reports: list[PathReport]) -> None:
    """What lies behind the picture; only the open tab is computed."""
    where, models, data = st.tabs(["Where the length goes", "Models", "Data"], key="tab", on_change="rerun")
    if where.open:
        with where:
            where_the_length_goes(spec, reports)
    if models.open:
        with models:
            trainer.tab(spec)
    if data.open:
        with data:
            data_tab(spec, reports)


def where_the_length_goes(spec: ExplorerSpec, reports: list[PathReport]) -> None:
    """Log density and cost along each path."""
    drawn = [r for r in reports if len(r.path)]
    if not drawn:
        st.info("No path to look at. Choose a method on the left.")
        return
    names = tuple(r.method for r in drawn)
    profiles = compute.profiles(spec, names)
    seen = []
    for report in drawn:
        profile = profiles[report.method]
        cost = export.share(profile, report)
        seen.append(charts.Profile(report.method, profile.fraction, profile.log_density, cost))
    own = spec.scene.own
    st.caption(
        f"Above: the {'reference log density (an estimate)' if own else 'log density'} that each path meets on its way "
        "from A to B; dips are gaps that it crosses. Below: how much more it has paid so far than the "
        f"{'reference' if own else 'true'} geodesic, in percent of the geodesic's whole length. "
        "Where a line climbs, the path loses."
    )
    plane.figure(charts.length_profile(seen, own), key="length profile")


def data_tab(spec: ExplorerSpec, reports: list[PathReport]) -> None:
    """Paths and settings to take away, and the code that makes them."""
    name, frame = export.file_name(spec), compute.frame(spec)
    text = json.dumps(export.as_json(spec, reports, frame), indent=1)
    with st.container(horizontal=True):
        st.download_button("Paths as CSV", export.csv(reports, frame), f"{name}.csv", "text/csv", on_click="ignore")
        st.download_button("Everything as JSON", text, f"{name}.json", "application/json", on_click="ignore")
        if spec.scene.own:
            st.download_button(
                "The points", LIBRARY.contents(spec.scene.dataset), frame.source, "text/plain", on_click="ignore"
            )
    st.caption("The picture itself: the two camera buttons at the plane's upper right save it as PNG or SVG.")
    st.markdown("**The code that makes this picture**")
    st.code(export.code(spec, frame), language="python")


def wait_for_models(spec: ExplorerSpec) -> None:
    """Stay until the models have come; whatever is chosen meanwhile ends this run and begins its own.

    No fragment with a timer: each of its requests carries all widgets as the browser knew them when it asked, and on a
    busy server one may be taken up after the upload that it preceded.
    """
    models, slot = compute.warm_up(spec.scene, spec.settings), st.empty()
    while not models.done():
        wait([models], timeout=POLL_SECONDS)
        slot.empty()  # here Streamlit ends the run where another has been asked for


explorer()
