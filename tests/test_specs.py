"""URL parameters and specs: whatever a link says, the page gets usable values and a sentence for the rest."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core import datasets, methods
from dashboard import charts, specs

NONSENSE = ["", "abc", "-1", "nan", "inf", "1e400", "<script>", "0x10", "1,2,3", ",", "two_spirals;", "9" * 50]


@pytest.mark.parametrize("parameter", specs.PARAMETERS, ids=lambda p: p.name)
@pytest.mark.parametrize("text", NONSENSE)
def test_nonsense_becomes_the_default_and_a_sentence(parameter, text):
    values, complaints = specs.read_url({parameter.name: text})
    expected, _ = specs.read_url({})
    if complaints:
        assert values == expected
        assert parameter.name in complaints[0]
        assert parameter.wanted in complaints[0]
    else:  # it meant something to this parameter: then it is written back as the same
        again, _ = specs.read_url(specs.write_url(values))
        assert again == values


@given(st.dictionaries(st.text(max_size=8), st.text(max_size=30), max_size=4))
def test_any_link_gives_usable_values(params):
    values, complaints = specs.read_url(params)
    assert values["dataset"] in specs.DATASETS or specs.is_own(values["dataset"])
    assert 0 <= values["beta"] <= 10
    assert len(complaints) >= sum(name not in {p.name for p in specs.PARAMETERS} for name in params)


@given(
    st.sampled_from(datasets.NAMES),
    st.integers(20, 10_000),
    st.floats(0, 10).map(lambda b: float(f"{b:.6g}")),
    st.lists(st.sampled_from(methods.NAMES), unique=True),
    st.tuples(*[st.floats(-1e3, 1e3).map(lambda x: float(f"{x:.6g}"))] * 2),
)
def test_a_link_round_trips(dataset, size, beta, names, start):
    values, _ = specs.read_url({"dataset": dataset})
    ordered = [name for name in specs.METHOD_ORDER if name in names]
    values |= {"size": size, "beta": beta, "methods": ordered, "start": start}
    again, complaints = specs.read_url(specs.write_url(values))
    assert complaints == []
    assert again == values


def test_defaults_need_no_parameters():
    values, complaints = specs.read_url({})
    assert complaints == []
    assert specs.write_url(values) == {}


def test_beta_by_its_name():
    assert specs.read_url({"beta": "1/D"})[0]["beta"] == 0.5


@pytest.mark.parametrize("preset", specs.PRESETS, ids=lambda p: p.title)
def test_presets_are_links_without_complaints(preset):
    values, complaints = specs.read_url(preset.query)
    assert complaints == []
    assert "truth" in values["methods"]


def test_every_method_has_an_order_a_title_and_a_color():
    assert set(specs.METHOD_ORDER) == set(methods.NAMES) == set(charts.TITLES)


def test_every_dataset_has_endpoints_on_its_data():
    for name in specs.DATASETS:
        density = datasets.load(name).density
        typical = density.log_density(density.sample(1000, 0))
        import numpy as np

        ends = density.log_density(np.array(specs.ENDPOINTS[name]))
        assert (ends > np.quantile(typical, 0.01)).all()
