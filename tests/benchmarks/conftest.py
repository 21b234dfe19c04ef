"""Benchmarks run `core` as users do: without the checks of annotations."""

import jaxtyping
import pytest


@pytest.fixture(autouse=True)
def as_users_run(unchecked):
    assert jaxtyping.config.jaxtyping_disable
