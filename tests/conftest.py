"""Shapes and types in the annotations of `core` are checked while tests run; users never pay for it."""

import jaxtyping
import pytest

jaxtyping.install_import_hook("core", "typecheck.check")


@pytest.fixture
def unchecked():
    """`core` as users run it: what is said about bad input must come from its own doors, not from the checker."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)
