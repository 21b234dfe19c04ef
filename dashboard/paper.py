"""The parts that every page about an experiment has: its question, the paper's claims beside what we found, a cell that
a reader can compute again, and something to try. A page puts its figures between them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pandas as pd
import streamlit as st

from core.children import State
from core.experiments import running
from core.experiments.judges import Verdict
from core.experiments.live import LiveCell, LiveSnapshot
from core.experiments.report import is_rehearsal
from core.experiments.running import Cell, Result
from dashboard import compute, controls

POLL_SECONDS = 0.3
WIDEST = 1280  # pixels: longer lines are hard to read
BADGES = {
    Verdict.CONFIRMED: "green",
    Verdict.IN_PART: "orange",
    Verdict.NOT_CONFIRMED: "red",
    Verdict.NOT_TESTABLE: "gray",
    Verdict.NOT_RUN: "gray",
}
COLUMNS = [5, 6]  # the paper's words, and ours


def head(title: str, question: str, lead: str) -> None:
    """Title, the page's question in one sentence, and what one looks at."""
    controls.leave_explorer()
    st.html(f"<style>.stMainBlockContainer {{max-width: {WIDEST}px}}</style>")
    st.markdown(f"### {title}")
    st.markdown(f"**{question}**")
    st.markdown(lead)


def result(name: str) -> Result | None:
    """A shipped result; where it cannot be read, a sentence says so and the page goes on without it."""
    try:
        return compute.result(name)
    except ValueError as problem:
        said = str(problem)
        st.info(f"{said[:1].upper()}{said[1:]}.", icon=":material/table:")
        return None


def made(name: str, found: Result) -> None:
    """Where a figure comes from, and its table to take away."""
    about = found.about
    with st.container(horizontal=True, vertical_alignment="center"):
        st.caption(
            f"{'A rehearsal: its numbers mean little. ' if is_rehearsal(found) else ''}`{about['command']}` · "
            f"{about['date']} · {running.duration(about['seconds'])} of computing"
        )
        st.download_button(
            "The table",
            compute.table_file(name),
            f"{name}.csv",
            "text/csv",
            icon=":material/download:",
            type="tertiary",
            on_click="ignore",
            key=f"table of {name}",
        )


def claims(names: Sequence[str]) -> None:
    """The paper's claims about these experiments, each with a verdict and the number behind it."""
    st.markdown("#### What the paper says, and what we found")
    for claim, verdict, number in compute.verdicts(tuple(names)):
        left, right = st.columns(COLUMNS, gap="medium")
        left.markdown(f"{claim.said}  \n:small[:gray[{claim.where}]]")
        right.markdown(f":{BADGES[verdict]}-badge[{verdict}] {number}")
        if claim.differs and verdict is not Verdict.NOT_TESTABLE:
            right.caption(f"Where we differ: {claim.differs}")
    st.caption(
        "Verdicts are made by thresholds that were fixed before the tables were; they are listed in "
        "`core/experiments/judges.py`, and all claims stand in `assets/results/REPORT.md`."
    )


def to_try(text: str, query: Mapping[str, str] | None = None) -> None:
    """Something to do with what one has seen; the button opens the explorer on it."""
    st.markdown("#### Try it")
    st.markdown(text)
    if query is not None and st.button("Open it in the explorer", icon=":material/explore:"):
        st.switch_page("views/explorer.py", query_params=dict(query))


# --- a cell, computed again -----------------------------------------------------------------------------------------


def live(name: str, spec: Any, cell: Cell, show: Callable[[pd.DataFrame], None]) -> None:
    """A button that computes a cell here and now; progress and cancel while it runs, then what came out.

    Args:
        name: of the experiment.
        spec: its settings.
        cell: what to compute.
        show: draws the rows that came out, beside the shipped ones.
    """
    running_now: LiveCell | None = st.session_state.get(f"live {name}")
    same = running_now is not None and (running_now.spec, running_now.cell) == (spec, dict(cell))
    if running_now is not None and running_now.snapshot().state.active:
        _watch(name)
        return
    st.button(
        "Compute it again" if same else "Compute it here",
        icon=":material/play_arrow:",
        on_click=_start,
        args=(name, spec, cell),
        type="secondary" if same else "primary",
        key=f"start {name}",
    )
    if running_now is None or not same:
        return
    now = running_now.snapshot()
    if now.state is State.FINISHED:
        st.caption(f"Computed here in {now.seconds:.0f} seconds, by a process of its own on one core.")
        show(pd.DataFrame([dict(cell) | dict(row) for row in now.rows]))
    elif now.state is State.CANCELLED:
        st.caption("Cancelled.")
    else:
        st.error(now.message, icon=":material/error:")


def _start(name: str, spec: Any, cell: Cell) -> None:
    st.session_state[f"live {name}"] = compute.live_cell(name, spec, cell)


def _cancel(name: str) -> None:
    st.session_state[f"live {name}"].cancel()


@st.fragment(run_every=POLL_SECONDS)
def _watch(name: str) -> None:
    """Progress of the cell that runs now; when it has ended, the whole page is drawn again."""
    now = st.session_state[f"live {name}"].snapshot()
    if not now.state.active:
        st.rerun()
    st.progress(now.done / now.of if now.of else 0.0, text=in_words(now))
    st.button("Cancel", icon=":material/stop_circle:", on_click=_cancel, args=(name,), key=f"cancel {name}")


def in_words(now: LiveSnapshot) -> str:
    """One line on how far a live cell is."""
    if now.state is State.QUEUED:
        return f"{now.ahead} ahead in the queue" if now.ahead else "About to begin"
    if not now.of:
        return f"Starting… {now.seconds:.0f} s"
    return f"{now.what[:1].upper()}{now.what[1:]}: {now.done} of {now.of} · {now.seconds:.0f} s"
