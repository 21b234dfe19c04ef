"""Every widget of the page, driven without a browser: no exception box, and the choice arrives in the URL."""

from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from core import checkpoints, methods
from dashboard import compute, controls

APP = str(Path(__file__).parents[1] / "dashboard" / "app.py")


@pytest.fixture
def app():
    """The page on a small dataset, without the methods that load torch."""
    test = AppTest.from_file(APP, default_timeout=120)
    test.query_params["dataset"] = "standard_normal"
    test.query_params["size"] = "200"
    test.query_params["methods"] = "truth,power"
    return healthy(test.run())


def healthy(test):
    assert not test.exception, test.exception[0].value
    return test


def url(test):
    found = test.query_params
    return {name: value[0] if isinstance(value, list) else value for name, value in found.items()}


def by_label(elements, label):
    return next(element for element in elements if element.label.startswith(label))


def test_opens_and_says_what_is_shown(app):
    assert any("standard normal · n = 200 · β = 1" in text.value for text in app.markdown)


@pytest.mark.parametrize("name", ["gaussian_mixture", "circle", "spiral", "two_spirals"])
def test_dataset(app, name):
    healthy(app.selectbox(key="dataset").set_value(name).run())
    assert app.session_state["start"] == controls.ENDPOINTS[name][0]
    assert url(app).get("dataset", "two_spirals") == name


def test_sliders(app):
    healthy(app.select_slider(key="size").set_value(500).run())
    healthy(app.select_slider(key="beta").set_value(0.5).run())
    assert url(app)["size"] == "500"
    assert url(app)["beta"] == "0.5"


def test_methods(app):
    healthy(app.pills(key="methods").set_value(["truth", "straight"]).run())
    assert url(app)["methods"] == "truth,straight"
    healthy(app.pills(key="methods").set_value([]).run())


def test_models(app):
    healthy(app.radio(key="models").set_value("paper").run())
    assert url(app)["models"] == "paper"


@pytest.mark.parametrize(("key", "value"), [("seed", 3), ("k", 8), ("S", 4), ("d", 1.0), ("T", 100)])
def test_advanced(app, key, value):
    healthy(app.number_input(key=key).set_value(value).run())
    assert float(url(app)[key]) == value


@pytest.mark.parametrize("preset", controls.PRESETS, ids=lambda p: p.title)
def test_presets_set_what_they_say(app, preset):
    by_label(app.button, preset.title).click()
    healthy(app.run())
    wanted, _ = controls.read_url(preset.query)
    assert {name: app.session_state[name] for name in wanted} == wanted


def test_swap_random_reset(app):
    start, end = app.session_state["start"], app.session_state["end"]
    healthy(by_label(app.button, "Swap").click().run())
    assert (app.session_state["start"], app.session_state["end"]) == (end, start)
    healthy(by_label(app.button, "Random").click().run())
    first = app.session_state["start"]
    healthy(by_label(app.button, "Random").click().run())
    assert app.session_state["start"] != first
    healthy(by_label(app.button, "Reset").click().run())
    assert app.session_state["start"] == start
    assert url(app) == {"dataset": "standard_normal"}


@pytest.mark.parametrize("tab", ["Where the length goes", "Data"])
def test_tabs(app, tab):
    app.session_state["tab"] = tab
    healthy(app.run())


def test_nonsense_in_every_parameter_is_answered_and_the_page_goes_on():
    test = AppTest.from_file(APP, default_timeout=120)
    for parameter in controls.PARAMETERS:
        test.query_params[parameter.name] = "nonsense"
    test.query_params["what"] = "ever"
    healthy(test.run())
    said = test.warning[0].value
    assert all(f"`{parameter.name}`" in said for parameter in controls.PARAMETERS)
    assert "`what`" in said
    healthy(test.run())
    assert len(test.warning) == 0  # said once
    assert url(test) == {}


def test_identical_endpoints_are_a_sentence():
    test = AppTest.from_file(APP, default_timeout=120)
    test.query_params["dataset"] = "standard_normal"
    test.query_params["methods"] = "truth"
    test.query_params["start"] = test.query_params["end"] = "0.5,0.5"
    healthy(test.run())
    assert "start and end should be different points" in test.warning[0].value


def test_endpoints_far_outside():
    test = AppTest.from_file(APP, default_timeout=120)
    test.query_params["dataset"] = "standard_normal"
    test.query_params["methods"] = "truth,power,mixture,straight"
    test.query_params["start"] = "40,20"
    healthy(test.run())


def test_a_damaged_model_leaves_the_page_whole(monkeypatch):
    def damaged(*_):
        raise checkpoints.CheckpointError("the file does not match its hash")

    monkeypatch.setattr(checkpoints, "shipped", damaged)
    test = AppTest.from_file(APP, default_timeout=120)
    test.query_params["dataset"] = "circle"
    test.query_params["size"] = "321"  # a scene that no other test has warmed
    test.query_params["methods"] = "truth,flow"
    healthy(test.run())
    spec = controls.SceneSpec("circle", 321, 0, "fast")
    settings = methods.MethodSettings(intrinsic_dim=2.0)
    compute.warm_up(spec, settings).result(timeout=60)
    healthy(test.run())
    reports = compute.reports(spec, (0.0, 1.0), (1.0, 0.0), 1.0, ("truth", "flow"), settings)
    assert [r.status.name for r in reports] == ["CONVERGED", "UNREADABLE"]
