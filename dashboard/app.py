"""The entry script: page config and router, no logic. Start it with `streamlit run dashboard/app.py`."""

import pandas  # noqa: F401  # imported before any session: thirty cold ones at once would import it by halves
import streamlit as st

st.set_page_config(page_title="Geodesic explorer", page_icon=":material/conversion_path:", layout="wide")
# Streamlit leaves six rem empty above the page; the plane wants them.
st.html("<style>.stMainBlockContainer {padding: 2.5rem 3rem 3rem} .stSidebar h3 {padding-top: 0}</style>")
st.navigation([st.Page("views/explorer.py", title="Explorer", default=True)], position="hidden").run()
