"""Shapes and types in the annotations of `core` are checked while tests run; users never pay for it."""

import os

# One thread each for numpy and torch, set before they are loaded: pools of threads stall when tests run side by side.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import hypothesis
import jaxtyping
import pytest

jaxtyping.install_import_hook("core", "typecheck.check")
# The same examples at every run; `pytest --hypothesis-profile=search` looks for new ones.
hypothesis.settings.register_profile("same", derandomize=True)
hypothesis.settings.register_profile("search", derandomize=False)
hypothesis.settings.load_profile("same")


@pytest.fixture
def unchecked():
    """`core` as users run it: what is said about bad input must come from its own doors, not from the checker."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)
