"""Experiments on dimension, parameterization, bandwidth and scaling: their rows, and the laws they rest on."""

import json
from dataclasses import replace

import numpy as np
import oracles
import pytest
from cases import density, pairs

from core import densities, geodesics, paths
from core.experiments import alpha_scaling, dimensions, kde_tradeoff, parameterization, running

# Smaller than the quick specs: every cell is computed twice here.
TINY = {
    "dimensions": replace(
        dimensions.EXPERIMENT.quick, size=120, dims=(3,), pairs=2, paper_steps=4, fast_steps=4, shape_dims=(2, 25)
    ),
    "parameterization": replace(
        parameterization.EXPERIMENT.quick, pairs=2, steps=8, size=200, most_sweeps=150, compared_steps=(20,)
    ),
    "kde_tradeoff": replace(kde_tradeoff.EXPERIMENT.quick, sizes=(200,), draws=3, bandwidths=8),
    "alpha_scaling": replace(alpha_scaling.EXPERIMENT.quick, alphas=(2.0,), freedoms=(5.0,), dims=(2, 10)),
}
COLUMNS = {
    ("dimensions", "shape"): {"dim", "scaling", "beta", "x", "y"},
    ("dimensions", "length"): {"dim", "scaling", "beta", "log_length", "error", "closest"},
    ("dimensions", "lpr"): {"method", "scaling", "lpr", "lpr_error", "lpr_median", "converged"},
    ("parameterization", "shape"): {"form", "x", "y"},
    ("parameterization", "length"): {"form", "steps", "converged", "solved", "placed", "spacing"},
    ("parameterization", "solver"): {"form", "guess", "converged", "geodesic", "iterations", "nodes"},
    ("parameterization", "order"): {"converged", "geodesic", "lost", "iterations"},
    ("kde_tradeoff", "mise"): {"weight", "target", "bandwidth", "mise", "mise_error"},
    ("kde_tradeoff", "optimum"): {"weight", "log_density", "log_density_error", "score", "score_error", "ordered"},
    ("kde_tradeoff", "estimate"): {"best_for", "bandwidth", "x", "log_density", "score", "true_score"},
    ("alpha_scaling", "shape"): {"dim", "scaling", "beta", "x", "y"},
    ("alpha_scaling", "collapse"): {"dim", "scaling", "beta", "gap", "closest", "longer", "converged"},
}
CELLS = {
    "-".join(map(str, [name, *cell.values()])): (name, cell)
    for name, spec in TINY.items()
    for cell in running.load(name).cells(spec)
}


def measured(name: str, cell: running.Cell) -> list[running.Row]:
    """Rows without their timings, as JSON gives them back."""
    rows = running.load(name).measure(TINY[name], cell)
    plain = json.loads(json.dumps(rows, default=lambda number: number.item()))
    return [{key: value for key, value in row.items() if not key.startswith(running.SECONDS)} for row in plain]


@pytest.mark.parametrize(("name", "cell"), CELLS.values(), ids=CELLS)
def test_every_cell_gives_finite_numbers_and_gives_them_again(name, cell):
    rows = measured(name, cell)
    assert rows
    for row in rows:
        assert COLUMNS[name, cell["part"]] <= row.keys()
        for column, value in row.items():
            # Where no pair converged there is no median to tell.
            assert isinstance(value, str) or np.isfinite(value) or row["converged"] == 0, column
    assert measured(name, cell) == rows


@pytest.mark.parametrize("name", TINY)
def test_full_and_quick_name_their_cells_once(name):
    experiment = running.load(name)
    for spec in (experiment.full, experiment.quick):
        keys = [json.dumps(cell) for cell in experiment.cells(spec)]
        assert len(set(keys)) == len(keys)


# --- dimensions -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scaling", dimensions.SCALINGS)
@pytest.mark.parametrize("dim", [2, 5, 25])
def test_planar_geodesics_have_the_length_of_the_space(dim, scaling):
    """By the closed form, and by the solver that knows nothing of the plane."""
    beta = dimensions.SCALINGS[scaling](dim)
    start, end = np.sqrt(dim) * np.eye(dim)[:2]
    planar = dimensions.planar_geodesic(dim, beta).log_length
    assert planar == pytest.approx(geodesics.normal_log_distance(start, end, beta), abs=1e-5)
    solved = geodesics.solve(densities.standard_normal(dim), start, end, beta)
    assert planar == pytest.approx(solved.log_length, abs=1e-5)


def test_shapes_overlap_when_beta_falls_with_dim_and_dive_inwards_when_it_does_not():
    spec = replace(TINY["dimensions"], shape_dims=(2, 5, 25))
    rows = dimensions.measure(spec, {"part": "shape"})
    drawn = {
        (dim, scaling): np.array([[r["x"], r["y"]] for r in rows if (r["dim"], r["scaling"]) == (dim, scaling)])
        for dim in spec.shape_dims
        for scaling in dimensions.SCALINGS
    }
    np.testing.assert_allclose(drawn[5, "1/D"], drawn[2, "1/D"], atol=1e-6)
    np.testing.assert_allclose(drawn[25, "1/D"], drawn[2, "1/D"], atol=1e-6)
    closest = [np.linalg.norm(drawn[dim, "1"], axis=1).min() for dim in spec.shape_dims]
    assert closest == sorted(closest, reverse=True)
    assert closest[0] > 2 * closest[-1]


# --- parameterization -----------------------------------------------------------------------------------------------


def first_guess(steps: int = 24, name: str = "gaussian_mixture") -> np.ndarray:
    (start, end), *_ = pairs(name, 1)
    solved = geodesics.solve(density(name), start, end, 0.7)
    return paths.resample(solved.path, steps)


SPEC = parameterization.Spec(tolerance=1e-9)


@pytest.mark.parametrize("factor", parameterization.FORMS.values())
def test_the_system_is_the_derivative_of_the_residual(factor):
    mixture, path, beta = density("gaussian_mixture"), first_guess(8), 0.7

    def force(x):
        moved = path.copy()
        moved[1:-1] = x.reshape(-1, 2)
        return parameterization.residual(moved, mixture.score(moved[1:-1]), beta, factor).ravel()

    numeric = oracles.central_difference(
        lambda rows: np.stack([force(row) for row in rows]), path[1:-1].reshape(1, -1), 1e-4
    )[0]
    system = parameterization._system(path, *mixture.evaluate(path[1:-1])[1:], beta, factor)
    np.testing.assert_allclose(-system, numeric, atol=1e-5 * np.abs(numeric).max())


def test_the_euclidean_form_is_the_one_that_the_app_solves():
    guess, mixture = first_guess(), density("gaussian_mixture")
    settings = geodesics.RelaxSettings(tolerance=SPEC.tolerance, max_steps=SPEC.most_steps)
    wanted = geodesics.relax(guess, geodesics.exact_slope(mixture), SPEC.beta, settings)
    found = parameterization.newton(SPEC, mixture, guess, parameterization.FORMS["euclidean"])
    assert (found.converged, found.iterations) == (wanted.converged, wanted.steps)
    np.testing.assert_allclose(found.path, wanted.path, atol=1e-9)


@pytest.mark.parametrize("form", parameterization.FORMS)
def test_every_solver_ends_at_the_same_path(form):
    normal, factor = density("standard_normal"), parameterization.FORMS[form]
    spec, guess = replace(SPEC, beta=0.5, steps=16, tolerance=1e-7), first_guess(16, "standard_normal")
    newton = parameterization.newton(spec, normal, guess, factor)
    (swept,) = parameterization.sweeps(spec, normal, [guess], factor)
    (collocated,) = parameterization.collocation(spec, normal, [guess], factor)
    assert newton.converged
    assert swept.converged
    assert collocated.converged
    extent = paths.arc_length(guess)[-1]
    np.testing.assert_allclose(swept.path, newton.path, atol=1e-5 * extent)
    # It solves the equation itself, not the one of 16 steps.
    np.testing.assert_allclose(collocated.path, newton.path, atol=0.02 * extent)


@pytest.mark.parametrize("order", parameterization.ORDERS)
def test_whatever_the_order_of_the_sweeps_they_end_at_the_same_path(order):
    normal, factor = density("standard_normal"), parameterization.FORMS["euclidean"]
    spec, guess = replace(SPEC, beta=0.5, steps=16, tolerance=1e-7), first_guess(16, "standard_normal")
    (swept,) = parameterization.sweeps(spec, normal, [guess], factor, order)
    assert swept.converged
    extent = paths.arc_length(guess)[-1]
    newton = parameterization.newton(spec, normal, guess, factor)
    np.testing.assert_allclose(swept.path, newton.path, atol=1e-5 * extent)


def test_points_moved_at_once_see_the_old_places_and_in_turn_the_new():
    normal, factor = density("standard_normal"), parameterization.FORMS["euclidean"]
    spec, guess = replace(SPEC, steps=8, most_sweeps=1), first_guess(8, "standard_normal")
    added = parameterization.residual(guess, normal.score(guess[1:-1]), spec.beta, factor)
    (at_once,) = parameterization.sweeps(spec, normal, [guess], factor, "at once")
    np.testing.assert_allclose(at_once.path[1:-1], guess[1:-1] + added, atol=1e-14)
    (in_turn,) = parameterization.sweeps(spec, normal, [guess], factor, "in turn")
    np.testing.assert_allclose(in_turn.path[1], guess[1] + added[0], atol=1e-14)
    assert not np.allclose(in_turn.path[2], guess[2] + added[1], atol=1e-14)


@pytest.mark.parametrize(("form", "exponent"), [("euclidean", 0.0), ("metric", 1.0)])
def test_speed_is_the_density_to_the_power_of_beta_or_constant(form, exponent):
    """The metric form takes its longest steps where the density is high."""
    mixture, steps = density("gaussian_mixture"), 200
    start = parameterization.placed(first_guess(steps), mixture.log_density, SPEC.beta, steps, form)
    solved = parameterization.newton(SPEC, mixture, start, parameterization.FORMS[form])
    assert solved.converged
    lengths = np.linalg.norm(np.diff(solved.path, axis=0), axis=1)
    middle = mixture.log_density((solved.path[1:] + solved.path[:-1]) / 2)
    slope = np.polyfit(SPEC.beta * middle, np.log(lengths), 1)[0]
    assert slope == pytest.approx(exponent, abs=0.02)


# --- bandwidths -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bandwidth", [0.02, 0.3, 2.0])
def test_kernel_estimates_are_those_of_a_mixture_of_kernels(bandwidth):
    sample = densities.standard_normal(1).sample(50, seed=3)
    x = np.linspace(-5, 5, 41)[:, None]
    mixture = densities.GaussianMixture(np.ones(50), sample, np.full((50, 1, 1), bandwidth**2))
    log_density, score = kde_tradeoff.kernel_estimates(sample[:, 0], x[:, 0], bandwidth)
    np.testing.assert_allclose(log_density, mixture.log_density(x), rtol=1e-9)
    np.testing.assert_allclose(score, mixture.score(x)[:, 0], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("weight", kde_tradeoff.WEIGHTS)
def test_the_log_density_wants_less_smoothing_than_the_score(weight):
    spec = replace(kde_tradeoff.EXPERIMENT.quick, draws=8)
    rows = {row["weight"]: row for row in kde_tradeoff.measure(spec, {"part": "optimum", "size": 1000})}
    assert rows[weight]["log_density"] < rows[weight]["score"]


# --- scaling --------------------------------------------------------------------------------------------------------

RADIAL = [("generalized_gaussian", 1.0), ("generalized_gaussian", 4.0), ("student_t", 5.0)]


@pytest.mark.parametrize(("family", "parameter"), RADIAL)
def test_radial_densities_have_the_derivatives_they_claim(family, parameter):
    radial = alpha_scaling.FAMILIES[family](parameter, 7)
    x = np.random.default_rng(0).normal(size=(6, 2))
    value, score, jacobian = radial.evaluate(x)
    np.testing.assert_array_equal(value, radial.log_density(x))
    np.testing.assert_allclose(score, oracles.central_difference(radial.log_density, x, 1e-4), rtol=1e-6)
    slopes = oracles.central_difference(lambda y: radial.evaluate(y)[1], x, 1e-4)
    np.testing.assert_allclose(jacobian, slopes, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("scaling", alpha_scaling.SCALINGS)
@pytest.mark.parametrize(("family", "parameter"), RADIAL)
def test_clairauts_constant_is_constant(family, parameter, scaling):
    """p^(-β) r sin ψ, with ψ between the curve and the radius."""
    dim = 25
    beta, radial = alpha_scaling.SCALINGS[scaling](dim), alpha_scaling.FAMILIES[family](parameter, dim)
    solved = alpha_scaling.scaled_geodesic(radial, beta, 60.0)
    assert solved.status is geodesics.Status.CONVERGED
    path = radial.typical * solved.path
    middle, step = (path[1:] + path[:-1]) / 2, np.diff(path, axis=0)
    turned = (middle[:, 0] * step[:, 1] - middle[:, 1] * step[:, 0]) / np.linalg.norm(step, axis=1)
    across = turned > 0.2 * np.linalg.norm(middle, axis=1)  # elsewhere sin ψ is a small difference of large numbers
    assert across.sum() > 10
    log_constant = np.log(turned[across]) - beta * radial.log_density(middle[across])
    assert np.ptp(log_constant) < 0.02


def test_generalized_gaussians_collapse_under_one_over_d_and_under_nothing_else():
    spec = alpha_scaling.Spec(dims=(2, 10, 50))
    for alpha in (2.0, 4.0):
        rows = alpha_scaling.measure(spec, {"part": "collapse", "family": "generalized_gaussian", "parameter": alpha})
        for row in rows:
            if row["scaling"] == "1/D":
                assert row["gap"] < 1e-6
            elif row["dim"] == 2:
                assert row["gap"] > 0.02


def test_student_t_collapses_as_dim_grows():
    spec = alpha_scaling.Spec(dims=(5, 20, 80, 320))
    rows = alpha_scaling.measure(spec, {"part": "collapse", "family": "student_t", "parameter": 5.0})
    gaps = [row["gap"] for row in rows if row["scaling"] == "1/D"]
    assert gaps == sorted(gaps, reverse=True)
    assert gaps[2] < 0.3 * gaps[0]
