"""Laws of the warnings: densities that agree are silent, and what is marked is what the path pays for."""

import cases
import numpy as np
import pytest
from scipy.special import logsumexp

from core import geodesics, methods, paths, trust
from core.geodesics import Status

START, END = np.array([0.35, -0.78]), np.array([-0.52, 0.68])


@pytest.fixture(scope="module")
def spirals():
    """The true density of two spirals, its geodesic, and the straight line through the gaps."""
    density = cases.density("two_spirals")
    return density, geodesics.solve(density, START, END, 1.0).path, paths.straight(START, END, 50)


def test_a_path_alone_is_never_regretted(spirals):
    density, geodesic, _ = spirals
    verdict = trust.judge({"only": geodesic}, {"a": density.log_density}, 1.0)["only"]
    assert verdict == trust.Verdict({"a": 0.0}, False, False, ())


def test_all_agree_that_the_straight_line_is_a_detour(spirals):
    density, geodesic, straight = spirals
    log_densities = {"a": density.log_density, "b": lambda x: 0.9 * density.log_density(x)}
    verdicts = trust.judge({"geodesic": geodesic, "straight": straight}, log_densities, 1.0)
    assert not verdicts["geodesic"].disputed
    assert not verdicts["geodesic"].detour
    assert verdicts["straight"].detour
    true_lpr = paths.log_length(straight, density.log_density, 1.0) - paths.log_length(geodesic, density.log_density, 1)
    assert verdicts["straight"].regrets["a"] == pytest.approx(true_lpr, abs=0.1)


def test_a_density_that_sees_no_gap_makes_a_dispute(spirals):
    density, geodesic, straight = spirals
    log_densities = {"true": density.log_density, "flat": lambda x: np.zeros(len(x))}
    verdicts = trust.judge({"geodesic": geodesic, "straight": straight}, log_densities, 1.0)
    assert verdicts["straight"].disputed
    assert verdicts["geodesic"].disputed  # the flat density knows a shorter one
    assert not verdicts["straight"].detour


@pytest.mark.parametrize("beta", [0.5, 1.0, 2.0])
def test_marks_are_where_the_path_pays(spirals, beta):
    density, geodesic, straight = spirals
    fine = paths.resample(straight, 1000)
    verdict = trust.judge({"geodesic": geodesic, "straight": fine}, {"a": density.log_density}, beta)["straight"]
    assert verdict.marks
    marked = np.zeros(len(fine), bool)
    for i, j in verdict.marks:
        assert 0 <= i < j < len(fine)
        marked[i : j + 1] = True
    assert 0 < marked.mean() < 0.9
    values = density.log_density(fine)
    assert values[marked].mean() < values[~marked].mean()


def test_what_is_left_unmarked_would_be_allowed():
    """With no step dearer than the cheapest marked one, the path is within REGRET of the best."""
    rng = np.random.default_rng(0)
    for _ in range(50):
        rates = rng.normal(scale=3, size=trust.STEPS)
        allowed = float(logsumexp(rates)) - rng.uniform(0.01, 5)
        dear = trust._dear_steps(rates, allowed)
        assert dear.any()
        capped = np.minimum(rates, rates[dear].min())
        without = np.minimum(rates, rates[~dear].max() if (~dear).any() else -np.inf)
        assert logsumexp(capped) >= allowed - 1e-9
        assert logsumexp(without) <= allowed + 1e-9 or not (~dear).any()


def test_a_constant_factor_changes_no_verdict(spirals):
    density, geodesic, straight = spirals
    candidates = {"geodesic": geodesic, "straight": straight}
    once = trust.judge(candidates, {"a": density.log_density}, 1.0)
    twice = trust.judge(candidates, {"a": lambda x: density.log_density(x) + 7.0}, 1.0)
    for name in candidates:
        assert twice[name].regrets["a"] == pytest.approx(once[name].regrets["a"], abs=1e-9)
        assert twice[name].marks == once[name].marks


# --- in the comparison ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def own():
    """A sample of two spirals whose truth is forgotten."""
    return methods.Scene.from_points(cases.density("two_spirals").sample(500, seed=7))


def test_endpoints_outside_the_sample_are_said_to_be(own):
    names = ["truth", "power", "mixture", "kde", "straight"]
    reports = {r.method: r for r in methods.compare(own, START, (2.5, 2.5), 1.0, names)}
    for name in ("truth", "power", "mixture", "kde"):
        assert reports[name].status is not Status.CONVERGED
    assert "outside" in str(reports["power"].status)


def test_the_truth_is_never_outside():
    scene = cases.scene("two_spirals")
    reports = methods.compare(scene, START, (1.05, 0.75), 1.0, ["truth", "power", "mixture"])
    assert [r.status for r in reports] == [Status.CONVERGED, Status.OUTSIDE_SAMPLE, Status.OUTSIDE_SAMPLE]


def test_the_straight_line_is_a_detour_and_marked(own):
    names = ["truth", "straight", "mixture"]
    reports = {r.method: r for r in methods.compare(own, START, END, 1.0, names)}
    assert reports["straight"].status is Status.DETOUR
    assert reports["straight"].marks
    assert reports["truth"].status is Status.CONVERGED
    assert reports["mixture"].marks == ()


def test_where_the_truth_is_known_nothing_is_disputed():
    reports = methods.compare(cases.scene("two_spirals"), START, END, 1.0, ["straight", "power", "kde"])
    assert all(r.status is Status.CONVERGED and r.marks == () for r in reports)


def test_beta_zero_has_nothing_to_dispute(own):
    reports = methods.compare(own, START, END, 0.0, ["straight", "mixture"])
    assert all(r.status is Status.CONVERGED for r in reports)
