"""Every widget of the page, driven without a browser: no exception box, and the choice arrives in the URL."""

import sys
from pathlib import Path

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from core import checkpoints, datasets, methods, model_files
from dashboard import compute, specs
from dashboard.library import LIBRARY

APP = str(Path(__file__).parents[1] / "dashboard" / "app.py")


@pytest.fixture(autouse=True)
def _main_stays():
    """Streamlit makes the page the main module, and processes that other tests spawn later would run it again."""
    main = sys.modules["__main__"]
    yield
    sys.modules["__main__"] = main


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
    assert app.session_state["start"] == specs.ENDPOINTS[name][0]
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


@pytest.mark.parametrize("preset", specs.PRESETS, ids=lambda p: p.title)
def test_presets_set_what_they_say(app, preset):
    by_label(app.button, preset.title).click()
    healthy(app.run())
    wanted, _ = specs.read_url(preset.query)
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


def test_an_old_link_undoes_nothing(app):
    """A browser that has not read of the last change sends the link from before it."""
    old = dict(app.query_params)
    healthy(by_label(app.button, "Swap").click().run())
    swapped = app.session_state["start"], app.session_state["end"]
    link = url(app)
    app.query_params = old
    healthy(app.select_slider(key="beta").set_value(0.5).run())
    assert (app.session_state["start"], app.session_state["end"]) == swapped
    assert url(app) == link | {"beta": "0.5"}


@pytest.mark.parametrize("tab", ["Where the length goes", "Data"])
def test_tabs(app, tab):
    app.session_state["tab"] = tab
    healthy(app.run())


def test_nonsense_in_every_parameter_is_answered_and_the_page_goes_on():
    test = AppTest.from_file(APP, default_timeout=120)
    for parameter in specs.PARAMETERS:
        test.query_params[parameter.name] = "nonsense"
    test.query_params["what"] = "ever"
    healthy(test.run())
    said = test.warning[0].value
    assert all(f"`{parameter.name}`" in said for parameter in specs.PARAMETERS)
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
        raise model_files.CheckpointError("the file does not match its hash")

    monkeypatch.setattr(checkpoints, "shipped", damaged)
    test = AppTest.from_file(APP, default_timeout=120)
    test.query_params["dataset"] = "circle"
    test.query_params["size"] = "321"  # a scene that no other test has warmed
    test.query_params["methods"] = "truth,flow"
    healthy(test.run())
    spec = specs.SceneSpec("circle", 321, 0, "fast")
    settings = methods.MethodSettings(intrinsic_dim=2.0)
    compute.warm_up(spec, settings).result(timeout=60)
    healthy(test.run())
    shown = specs.ExplorerSpec(spec, 1.0, ("truth", "flow"), settings, (0.0, 1.0), (1.0, 0.0))
    reports = compute.reports(shown, ("truth", "flow"))
    assert [r.status.name for r in reports] == ["CONVERGED", "UNREADABLE"]


# --- one's own points ------------------------------------------------------------------------------------------------


@pytest.fixture
def own():
    """A file of four columns on the server, one of them mostly empty; its dataset name."""
    table = np.random.default_rng(0).normal(size=(80, 4)) * [1, 2, 3, 4]
    lines = [
        ",".join(f"{x:.4f}" for x in row[:3]) + (f",{row[3]:.4f}" if i < 5 else ",") for i, row in enumerate(table)
    ]
    return LIBRARY.keep("\n".join(["a,b,c,d", *lines]).encode(), "mine.csv")


def open_own(dataset, **query):
    test = AppTest.from_file(APP, default_timeout=120)
    for name, value in {"dataset": dataset, "methods": "truth,power", **query}.items():
        test.query_params[name] = value
    return healthy(test.run())


def test_a_link_to_own_points_opens_them(own):
    test = open_own(own)
    assert len(test.warning) == 0
    assert url(test)["columns"] == "0,1"
    assert test.session_state["size"] == 80
    assert any("mine" in text.value for text in test.markdown)


@pytest.mark.parametrize("columns", ["0,99", "3,0", "0"])
def test_columns_that_cannot_be_used_are_a_sentence(own, columns):
    test = open_own(own, columns=columns)
    assert len(test.warning) == 1
    assert url(test)["columns"] == "0,1"


def test_columns_are_chosen_and_the_last_good_choice_stays(own):
    test = open_own(own)
    columns = test.multiselect(key="columns")
    healthy(columns.set_value([0, 1, 2]).run())
    assert test.session_state["beta"] == pytest.approx(1 / 3, abs=1e-6)
    assert test.session_state["scale"] == "standard"
    healthy(test.selectbox(key="axes").set_value((0, 2)).run())
    healthy(by_label(test.button, "Random").click().run())
    assert url(test)["start"].startswith("#")
    for unusable in ([1], [0, 3], []):  # column 3 leaves five rows
        healthy(test.multiselect(key="columns").set_value(unusable).run())
        assert any("Until then the last choice is shown" in text.value for text in test.warning)
        assert any("D = 3" in text.value for text in test.markdown)
    healthy(test.multiselect(key="columns").set_value([0, 2]).run())
    assert not any("D = " in text.value for text in test.markdown)
    healthy(by_label(test.button, "Reset").click().run())
    assert url(test)["columns"] == "0,1"


@pytest.mark.parametrize("tab", ["Where the length goes", "Models", "Data"])
@pytest.mark.parametrize("columns", ["0,1", "0,1,2"])
def test_tabs_of_own_points(own, tab, columns):
    test = open_own(own, columns=columns)
    test.session_state["tab"] = tab
    healthy(test.run())


def test_points_that_have_gone_are_a_sentence(own, monkeypatch):
    monkeypatch.setattr(LIBRARY, "has", lambda dataset: False)
    test = open_own(own, beta="0.5")
    assert "no longer on this server" in test.warning[0].value
    assert test.session_state["dataset"] == "two_spirals"
    assert url(test)["beta"] == "0.5"


def test_a_bad_paste_leaves_all_as_it_was(app):
    app.text_area(key="text").set_value("nothing, here\n1,2").run()
    healthy(by_label(app.button, "Use the text").click().run())
    assert "pasted text" in app.error[0].value
    assert app.session_state["dataset"] == "standard_normal"


def test_a_paste_is_shown(app):
    rows = np.random.default_rng(1).normal(size=(40, 2))
    app.text_area(key="text").set_value("\n".join(f"{x:.3f}; {y:.3f}" for x, y in rows)).run()
    healthy(by_label(app.button, "Use the text").click().run())
    assert specs.is_own(app.session_state["dataset"])


@pytest.mark.parametrize("name", datasets.EXTRA)
def test_datasets_that_are_not_mixtures_say_so(app, name):
    healthy(app.selectbox(key="dataset").set_value(name).run())
    assert "not a mixture" in app.selectbox(key="dataset").options[list(specs.DATASETS).index(name)]


def test_the_canvas(app):
    healthy(by_label(app.button, "Or draw points").click().run())
    assert any("Draw points · 0" in text.value for text in app.markdown)
    app.session_state["strokes"] = [tuple(map(tuple, np.random.default_rng(2).normal(size=(30, 2)).tolist()))]
    healthy(app.run())
    healthy(by_label(app.button, "Use these points").click().run())
    assert app.session_state["size"] == 30
