"""The explorer: the plane with every path and its error, and tabs that say why."""

from __future__ import annotations

import json

import numpy as np
import streamlit as st

from core.methods import PathReport
from dashboard import charts, compute, controls, export, plane
from dashboard.controls import ExplorerSpec
from dashboard.texts import sentences

POLL_SECONDS = 0.3


def explorer() -> None:
    """The whole page, top to bottom."""
    complaints = controls.sync_with_url()
    if complaints:
        said = "\n".join(f"- {complaint}" for complaint in complaints)
        st.warning(f"Parts of the link could not be used; defaults stand in.\n{said}", icon=":material/link_off:")
    controls.sidebar()
    spec = controls.current()
    header(spec)
    waiting = not models_ready(spec)
    reports = shown_reports(spec, waiting)
    draw_plane(spec, reports, waiting)
    tabs(spec, reports)
    if waiting:
        wait_for_models(spec)


def header(spec: ExplorerSpec) -> None:
    """What is shown, and the four things that one does most."""
    left, right = st.columns([2, 3], vertical_alignment="center")
    left.markdown(f"##### {spec.scene.title} · n = {spec.scene.size} · β = {spec.beta:.4g}")
    with right.container(horizontal=True, horizontal_alignment="right", gap="small"):
        st.button("Reset", icon=":material/restart_alt:", on_click=controls.reset, help="Defaults for this dataset")
        st.button("Swap", icon=":material/swap_horiz:", on_click=controls.swap, help="Exchange A and B")
        st.button(
            "Random",
            icon=":material/casino:",
            on_click=controls.random_pair,
            args=(compute.scene(spec.scene).points,),
            help="A random pair of the sample",
        )
        with st.popover("Link", icon=":material/link:", help="A link that opens this picture"):
            st.caption("This link opens the picture that you see.")
            st.code(export.link(st.context.url, st.session_state["url"]), language=None, wrap_lines=True)


def models_ready(spec: ExplorerSpec) -> bool:
    """Whether every chosen method can be computed without waiting for torch."""
    if not set(spec.methods) & set(compute.LEARNED_WITH_TORCH):
        return True
    return compute.is_warm(spec.scene, spec.settings)


def shown_reports(spec: ExplorerSpec, waiting: bool) -> list[PathReport]:
    """Reports of the chosen methods, without those that wait for torch; none when the input cannot be used."""
    names = tuple(name for name in spec.methods if not (waiting and name in compute.LEARNED_WITH_TORCH))
    try:
        return compute.reports(spec.scene, spec.start, spec.end, spec.beta, names, spec.settings)
    except ValueError as problem:
        st.warning(f"{problem}. Move A or B, or change the settings on the left.", icon=":material/error:")
        return []


def draw_plane(spec: ExplorerSpec, reports: list[PathReport], waiting: bool) -> None:
    """The plane with its rows."""
    log_density, box = compute.backdrop(spec.scene.dataset)
    (x0, y0), (x1, y1) = box.low, box.high
    points = compute.scene(spec.scene).points
    key = f"{spec.scene.dataset} {spec.scene.size} {spec.scene.seed}"
    base = plane.Base(key, log_density, (x0, x1, y0, y1), points, view=spec.scene.dataset)
    ends = (("A", spec.start), ("B", spec.end))
    outside = [letter for letter, end in ends if not box.contains(np.array([end]))]
    overlay = plane.Overlay(
        (spec.start, spec.end),
        rows(spec, reports, waiting),
        {r.method: r.path for r in reversed(reports) if len(r.path)},
        hover_field(spec),
        sentence=sentences.picture(reports, controls.lesson(), outside),
        file_name=export.file_name(spec),
    )
    plane.draw(base, overlay, key="plane", on_event=lambda event: controls.set_endpoints(*event.endpoints))


def hover_field(spec: ExplorerSpec) -> plane.Field | None:
    """Distances from A for the live geodesic under the cursor."""
    field = compute.field(spec.scene.dataset, spec.start, spec.beta)
    if field is None:
        return None
    (x0, y0), (x1, y1) = field.box.low, field.box.high
    return plane.Field(f"{spec.scene.dataset} {spec.start} {spec.beta}", field.values, (x0, x1, y0, y1))


def rows(spec: ExplorerSpec, reports: list[PathReport], waiting: bool) -> tuple[dict, ...]:
    """One row a chosen method, in the page's order; those that wait for torch say so."""
    found = {
        r.method: {
            "method": r.method,
            "lpr": r.lpr,
            "log_length": r.log_length,
            "seconds": r.seconds,
            "status": r.status.name,
            "note": str(r.status),
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
    where, data = st.tabs(["Where the length goes", "Data"], key="tab", on_change="rerun")
    if where.open:
        with where:
            where_the_length_goes(spec, reports)
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
    profiles = compute.profiles(spec.scene, spec.start, spec.end, spec.beta, names, spec.settings)
    seen = []
    for report in drawn:
        profile = profiles[report.method]
        cost = export.share(profile, report)
        seen.append(charts.Profile(report.method, profile.fraction, profile.log_density, cost))
    st.caption(
        "Above: the log density that each path meets on its way from A to B; dips are gaps that it crosses. "
        "Below: how much more it has paid so far than the true geodesic, in percent of the geodesic's whole length. "
        "Where a line climbs, the path loses."
    )
    plane.figure(charts.length_profile(seen), key="length profile")


def data_tab(spec: ExplorerSpec, reports: list[PathReport]) -> None:
    """Paths and settings to take away, and the code that makes them."""
    name, text = export.file_name(spec), json.dumps(export.as_json(spec, reports), indent=1)
    with st.container(horizontal=True):
        st.download_button("Paths as CSV", export.csv(reports), f"{name}.csv", "text/csv", on_click="ignore")
        st.download_button("Everything as JSON", text, f"{name}.json", "application/json", on_click="ignore")
    st.caption("The picture itself: the two camera buttons at the plane's upper right save it as PNG or SVG.")
    st.markdown("**The code that makes this picture**")
    st.code(export.code(spec), language="python")


@st.fragment(run_every=POLL_SECONDS)
def wait_for_models(spec: ExplorerSpec) -> None:
    """Look whether the models have come, and draw again when they have."""
    if compute.warm_up(spec.scene, spec.settings).done():
        st.rerun()


explorer()
