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


@pytest.fixture(scope="session")
def models():
    """A small flow and score model with their reports and settings."""
    from dataclasses import replace

    from core import densities, training
    from core.flows import FlowSpec
    from core.scores import ScoreSpec

    points = densities.standard_normal(2).sample(100, 0)
    settings = [replace(s, steps=((50, 5), (1000, 5))) for s in (training.PRESETS["paper"].flow,
                                                                  training.PRESETS["fast"].score)]  # fmt: skip
    flow, flow_report = training.train_flow(
        points, spec=FlowSpec(2, blocks=2, width=8, batch_norm=True), settings=settings[0]
    )
    model, report = training.train_score(points, spec=ScoreSpec(2, 2, 8), settings=settings[1], held_out=points)
    return (flow, flow_report, settings[0]), (model, report, settings[1])
