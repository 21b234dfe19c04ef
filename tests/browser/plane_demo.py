"""A page with the plane and toy data, without core: for the browser tests of the plane, and for a look at it."""

import json
import time

import numpy as np
import streamlit as st

from dashboard import charts, plane

BOX = (-1.5, 1.5, -1.5, 1.5)
METHODS = ["straight", "power", "flow", "score", "mixture", "kde", "true_graph", "truth"]


@st.cache_data
def ring(seed: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    """A toy ring: log density ``(150, 150)`` on the box and a sample ``(size, 2)``."""
    rng = np.random.default_rng(seed)
    angle, radius = rng.uniform(0, 2 * np.pi, size), rng.normal(1, 0.1, size)
    x, y = np.meshgrid(np.linspace(-1.5, 1.5, 150), np.linspace(-1.5, 1.5, 150))
    return -((np.hypot(x, y) - 1) ** 2) / 0.02, np.c_[radius * np.cos(angle), radius * np.sin(angle)]


def bent(start: tuple, end: tuple, bend: float) -> np.ndarray:
    """A toy path ``(401, 2)``: a parabola between the endpoints."""
    t = np.linspace(0, 1, 401)[:, None]
    a, b = np.array(start), np.array(end)
    side = np.array([a[1] - b[1], b[0] - a[0]])
    return a + t * (b - a) + bend * 4 * t * (1 - t) * side


def cone(start: tuple) -> plane.Field:
    """A toy field: plain Euclidean distance from the start."""
    x, y = np.meshgrid(np.linspace(-1.5, 1.5, 256), np.linspace(-1.5, 1.5, 256))
    return plane.Field(f"cone {start}", np.hypot(x - start[0], y - start[1]), BOX)


def remember(event: plane.Event) -> None:
    """Put the endpoints, or the sprayed points, where the next run finds them."""
    st.session_state.ends = event.endpoints
    st.session_state.drawn = [*st.session_state.get("drawn", []), *event.points]
    st.session_state.events = st.session_state.get("events", 0) + 1


st.set_page_config(layout="wide")
ends = st.session_state.setdefault("ends", ((-0.7, -0.7), (0.8, 0.6)))
with st.sidebar:
    if st.button("Swap"):
        ends = st.session_state.ends = ends[::-1]
    seed = st.number_input("Seed", 0, 9)
    loading = st.checkbox("Loading")
    drawing = st.checkbox("Draw")
    marked = st.checkbox("Marks")
    snap = st.checkbox("Snap")
    named = st.checkbox("Axis titles")
    page = st.radio("Page", ["plane", "elsewhere"])
    if st.button("Claim seed 7"):  # as if the picture of seed 7 had been sent, and lost on the way
        st.session_state["plane in the browser"]["holds"].append("base ring 7 False")
    delay = st.number_input("Delay (ms)", 0, 5000, 0)
time.sleep(delay / 1000)
# Above the plane, so that whoever sees the plane drawn anew sees these points, too.
st.html(f"<span id='drawn' data-points='{json.dumps(st.session_state.get('drawn', []))}'></span>")
if page == "plane":
    reports, paths = [], {}
    for k, method in enumerate(METHODS):
        if loading and method in ("flow", "score"):
            reports.append({"method": method, "lpr": None, "log_length": None, "seconds": None, "status": "LOADING"})
            continue
        bend = 0.04 * (len(METHODS) - k)
        lpr = bend if method != "truth" else 0.0
        reports.append({"method": method, "lpr": lpr, "log_length": 1.25 + lpr, "seconds": 0.004 * k, "status": "OK"})
        paths[method] = bent(*ends, bend)
    reports[5] |= {"status": "NOT_CONVERGED", "note": "Stopped early: try a smaller beta."}
    grid, points = ring(seed, 1000)
    axes = ("<b>length</b> & $\\alpha$ %{x}", "&lt; width <script>") if named else ("", "")
    base = plane.Base(f"ring {seed} {named}", grid, BOX, points, view="ring" if seed < 9 else "another", axes=axes)
    if drawing:
        drawn = st.session_state.get("drawn", [])
        base = plane.Base(f"drawn {len(drawn)} {named}", None, BOX, np.reshape(drawn, (-1, 2)), "ring", axes)
    if marked:
        reports[1]["warning"] = reports[5]["warning"] = True
    plane.draw(
        base,
        plane.Overlay(
            ends,
            tuple(reports[::-1]),
            paths,
            cone(ends[0]),
            sentence="Spray what you like." if drawing else "The ring bends every path that reads the data.",
            drawing=drawing,
            marks={"power": ((40, 120), (260, 300)), "kde": ((200, 200),)} if marked else {},
            snap=snap,
            titles={"truth": "<i>reference</i> geodesic"} if named else {},
        ),
        key="plane",
        on_event=remember,
    )
st.text(f"{st.session_state.get('events', 0)} events")
if st.query_params.get("chart"):
    share = np.linspace(0, 1, 200)
    waves = [
        charts.Profile(method, share, -(np.sin(3 * share + 0.3 * k) ** 2), share * (1 + 0.1 * k))
        for k, method in enumerate(METHODS[::-1])
    ]
    plane.figure(charts.length_profile(waves), key="waves")
