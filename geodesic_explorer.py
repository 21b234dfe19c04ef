"""The name of the distribution as a module, and nothing else.

Streamlit finds the plane's files through pyproject.toml, which it looks for beside the module that is called like the
installed distribution (``geodesic-explorer`` -> ``geodesic_explorer``). Without this file the page has no plane.
"""
