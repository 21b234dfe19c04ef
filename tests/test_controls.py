"""URL parameters and specs: whatever a link says, the page gets usable values and a sentence for the rest."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core import datasets, methods
from dashboard import charts, controls

NONSENSE = ["", "abc", "-1", "nan", "inf", "1e400", "<script>", "0x10", "1,2,3", ",", "two_spirals;", "9" * 50]


@pytest.mark.parametrize("parameter", controls.PARAMETERS, ids=lambda p: p.name)
@pytest.mark.parametrize("text", NONSENSE)
def test_nonsense_becomes_the_default_and_a_sentence(parameter, text):
    values, complaints = controls.read_url({parameter.name: text})
    expected, _ = controls.read_url({})
    if complaints:
        assert values == expected
        assert parameter.name in complaints[0]
        assert parameter.wanted in complaints[0]
    else:  # it meant something to this parameter: then it is written back as the same
        again, _ = controls.read_url(controls.write_url(values))
        assert again == values


@given(st.dictionaries(st.text(max_size=8), st.text(max_size=30), max_size=4))
def test_any_link_gives_usable_values(params):
    values, complaints = controls.read_url(params)
    assert values["dataset"] in datasets.NAMES
    assert 0 <= values["beta"] <= 10
    assert len(complaints) >= sum(name not in {p.name for p in controls.PARAMETERS} for name in params)


@given(
    st.sampled_from(datasets.NAMES),
    st.integers(20, 10_000),
    st.floats(0, 10).map(lambda b: float(f"{b:.6g}")),
    st.lists(st.sampled_from(methods.NAMES), unique=True),
    st.tuples(*[st.floats(-1e3, 1e3).map(lambda x: float(f"{x:.6g}"))] * 2),
)
def test_a_link_round_trips(dataset, size, beta, names, start):
    values, _ = controls.read_url({"dataset": dataset})
    ordered = [name for name in controls.METHOD_ORDER if name in names]
    values |= {"size": size, "beta": beta, "methods": ordered, "start": start}
    again, complaints = controls.read_url(controls.write_url(values))
    assert complaints == []
    assert again == values


def test_defaults_need_no_parameters():
    values, complaints = controls.read_url({})
    assert complaints == []
    assert controls.write_url(values) == {}


def test_beta_by_its_name():
    assert controls.read_url({"beta": "1/D"})[0]["beta"] == 0.5


@pytest.mark.parametrize("preset", controls.PRESETS, ids=lambda p: p.title)
def test_presets_are_links_without_complaints(preset):
    values, complaints = controls.read_url(preset.query)
    assert complaints == []
    assert "truth" in values["methods"]


def test_every_method_has_an_order_a_title_and_a_color():
    assert set(controls.METHOD_ORDER) == set(methods.NAMES) == set(charts.TITLES)


def test_every_dataset_has_endpoints_on_its_data():
    for name in datasets.NAMES:
        density = datasets.load(name).density
        typical = density.log_density(density.sample(1000, 0))
        import numpy as np

        ends = density.log_density(np.array(controls.ENDPOINTS[name]))
        assert (ends > np.quantile(typical, 0.01)).all()
