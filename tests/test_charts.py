import json

import numpy as np
import pytest

from dashboard import charts


def profile(method: str, excess: float) -> charts.Profile:
    fraction = np.linspace(0, 1, 50)
    return charts.Profile(method, fraction, -(fraction**2), fraction * (1 + excess))


def test_each_method_has_a_color_a_dash_and_a_title_of_its_own():
    for table in (charts.PALETTE, charts.DASH, charts.TITLES):
        assert set(table) == set(charts.TITLES)
        assert len(set(table.values())) == len(table)


def test_an_unknown_method_is_refused():
    with pytest.raises(ValueError, match=r"expected one of straight, .*; got 'guess'"):
        charts.style("guess")


def test_the_profile_ends_at_how_much_longer_the_path_is():
    figure = charts.length_profile([profile("truth", 0.0), profile("power", 0.25)])
    paid = {trace["name"]: trace["y"] for trace in figure["data"] if trace["yaxis"] == "y"}
    assert paid["power graph"][-1] == pytest.approx(25)
    assert np.abs(paid["true geodesic"]).max() == pytest.approx(0, abs=1e-12)
    json.dumps(figure, default=np.ndarray.tolist)


def test_without_a_truth_the_profile_shows_the_cost_itself():
    figure = charts.length_profile([profile("power", 0.25)])
    assert figure["data"][1]["y"][-1] == pytest.approx(125)
    assert figure["layout"]["yaxis"]["title"]["text"] == "cost so far (%)"
