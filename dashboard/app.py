"""The entry script: page config and router, no logic. Start it with `streamlit run dashboard/app.py`."""

from pathlib import Path

import pandas  # noqa: F401  # imported before any session: thirty cold ones at once would import it by halves
import streamlit as st

from dashboard import plane

ICON = Path(__file__).parent.parent / "assets" / "icon.png"

st.set_page_config(page_title="Geodesic explorer", page_icon=str(ICON), layout="wide")
# Streamlit leaves six rem empty above the page; the plane wants them.
st.html(
    "<style>.stMainBlockContainer {padding: 3.5rem 3rem 3rem} .stAppHeader {height: 3rem; min-height: 3rem}"
    " .stSidebar h3 {padding-top: 0}</style>"
)
plane.preload()  # the browser reads plotly.js while the page's own imports run
pages = [
    st.Page("views/explorer.py", title="Explorer", default=True),
    st.Page("views/convergence.py", title="Convergence"),
    st.Page("views/dimensions.py", title="Dimensions"),
    st.Page("views/estimators.py", title="Estimators"),
    st.Page("views/digits.py", title="Digits"),
    st.Page("views/parameterization.py", title="Parameterization"),
]
st.navigation(pages, position="top").run()
