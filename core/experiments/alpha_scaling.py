"""How geodesics change with D (paper, appendix "Justification of Scaling Fermat Distances with Dimension").

Two families of rotationally symmetric densities, each with the distance from the origin that is typical of its points:

    generalized Gaussian  p ∝ exp(−‖x‖^α / α),                typical ‖x‖ = D^(1/α);
    Student's t           p ∝ (1 + ‖x‖²/ν)^(−(ν + D)/2),      typical ‖x‖ = sqrt(ν D / (ν − 2)).

Their geodesics lie in the plane of the ends and the origin, so D only enters through β, the exponent and the typical
distance, by which every curve is divided. With u for the distance so scaled, the metric p^(-β) of the first family is
exp(β D u^α / α): the same for all D if, and only if, β D is. That of the second tends to u^(β D) for D >> ν: the same
rule again, but another limit than the normal's, whatever ν.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from scipy.spatial.distance import directed_hausdorff

from core import geodesics, paths
from core.experiments.running import Cell, Experiment, Row

# Inverse temperatures by their names in the table.
SCALINGS: Mapping[str, Callable[[int], float]] = {
    "1": lambda dim: 1.0,
    "1/sqrt(D)": lambda dim: dim**-0.5,
    "1/D": lambda dim: 1 / dim,
    "1/D^2": lambda dim: dim**-2.0,
}
# Shares of β that are solved one after the other, each from the path of the one before: at D = 100 and β = 1 a straight
# line is too far from the curve to start from.
SHARES = (0.1, 0.3, 1.0)
FIRST_STEPS = 200
# Of the curves whose distance is taken.
COMPARED_STEPS = 2000


@dataclass(frozen=True)
class Spec:
    """Settings.

    Attributes:
        alphas: α of the generalized Gaussians; 2 is the normal.
        freedoms: ν of Student's t, above 2.
        dims: D; the last is what the others are compared with.
        angle: between the ends as seen from the origin, degrees. Not 90: in the limit metric u of Student's t a right
            angle is already a half-turn (z → z² makes that metric flat), and its geodesic goes through the origin.
        points: of each drawn curve.
    """

    alphas: tuple[float, ...] = (1.0, 2.0, 4.0)
    freedoms: tuple[float, ...] = (5.0, 30.0)
    dims: tuple[int, ...] = (2, 5, 10, 25, 50, 100)
    angle: float = 60.0
    points: int = 41


def cells(spec: Spec) -> list[Cell]:
    """Curves and numbers for each density."""
    densities = [("generalized_gaussian", alpha) for alpha in spec.alphas]
    densities += [("student_t", freedom) for freedom in spec.freedoms]
    return [
        {"part": part, "family": family, "parameter": parameter}
        for part in ("shape", "collapse")
        for family, parameter in densities
    ]


def measure(spec: Spec, cell: Cell) -> list[Row]:
    """Rows of one cell, by its part.

    shape: points (x, y) of the geodesic between two typical points, in units of their distance from the origin.
    collapse: for each D, the largest distance between its curve and that of the last D, as a share of the distance
        between the ends (`gap`), how close the curve comes to the origin, how much longer than a straight line it is,
        and whether the solver converged.
    """
    rows: list[Row] = []
    for scaling, rule in SCALINGS.items():
        solved = {
            dim: scaled_geodesic(FAMILIES[cell["family"]](cell["parameter"], dim), rule(dim), spec.angle)
            for dim in spec.dims
        }
        for dim, geodesic in solved.items():
            about = {"dim": dim, "scaling": scaling, "beta": rule(dim)}
            if cell["part"] == "shape":
                drawn = paths.resample(geodesic.path, spec.points - 1)
                rows += [about | {"x": x, "y": y} for x, y in drawn.tolist()]
                continue
            chord = np.linalg.norm(geodesic.path[-1] - geodesic.path[0])
            numbers = {
                "gap": distance_between(geodesic.path, solved[spec.dims[-1]].path) / chord,
                "closest": np.linalg.norm(geodesic.path, axis=1).min(),
                "longer": paths.arc_length(geodesic.path)[-1] / chord - 1,
                "converged": geodesic.status is geodesics.Status.CONVERGED,
            }
            rows.append(about | numbers)
    return rows


@dataclass(frozen=True)
class Radial:
    """A rotationally symmetric density on a plane through the origin, log p(x) = g(‖x‖²) up to a constant.

    Attributes:
        derivatives: q (N,) -> g, g' and g'' at q, (N,) each.
        typical: distance of a typical point from the origin.
    """

    derivatives: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray, np.ndarray]]
    typical: float

    dim = 2

    def log_density(self, x: np.ndarray) -> np.ndarray:
        """Log density in nats but for a constant, (N, 2) -> (N,)."""
        return self.derivatives((x * x).sum(axis=1))[0]

    def evaluate(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Log density (N,), score 2 g' x (N, 2) and its Jacobian 2 g' I + 4 g'' x xᵀ (N, 2, 2)."""
        value, first, second = self.derivatives((x * x).sum(axis=1))
        outer = x[:, :, None] * x[:, None, :]
        jacobian = 2 * first[:, None, None] * np.eye(2) + 4 * second[:, None, None] * outer
        return value, 2 * first[:, None] * x, jacobian


def generalized_gaussian(alpha: float, dim: int) -> Radial:
    """p ∝ exp(−‖x‖^α / α); E ‖x‖^α = D."""

    def derivatives(q: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        half = alpha / 2
        return -(q**half) / alpha, -0.5 * q ** (half - 1), -0.5 * (half - 1) * q ** (half - 2)

    return Radial(derivatives, dim ** (1 / alpha))


def student_t(freedom: float, dim: int) -> Radial:
    """p ∝ (1 + ‖x‖²/ν)^(−(ν + D)/2); E ‖x‖² = ν D / (ν − 2)."""

    def derivatives(q: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        half = (freedom + dim) / 2
        return -half * np.log1p(q / freedom), -half / (freedom + q), half / (freedom + q) ** 2

    return Radial(derivatives, (freedom * dim / (freedom - 2)) ** 0.5)


FAMILIES: Mapping[str, Callable[[float, int], Radial]] = {
    "generalized_gaussian": generalized_gaussian,
    "student_t": student_t,
}


def scaled_geodesic(density: Radial, beta: float, angle: float) -> geodesics.Geodesic:
    """The geodesic between two typical points at that angle (degrees), with its path, and only that, divided by their
    distance from the origin."""
    half = np.radians(angle) / 2
    start, end = density.typical * np.array([[np.cos(half), -np.sin(half)], [np.cos(half), np.sin(half)]])
    guess = paths.straight(start, end, FIRST_STEPS)
    for share in SHARES:
        solved = geodesics.solve(density, start, end, share * beta, guess=guess)
        guess = solved.path
    return replace(solved, path=solved.path / density.typical)


def distance_between(path: np.ndarray, other: np.ndarray) -> float:
    """The largest distance from a point of either curve to the other curve (Hausdorff's)."""
    a, b = paths.resample(path, COMPARED_STEPS), paths.resample(other, COMPARED_STEPS)
    return max(directed_hausdorff(a, b)[0], directed_hausdorff(b, a)[0])


EXPERIMENT = Experiment(
    name="alpha_scaling",
    paper="Appendix, scaling with D",
    question="Does β = 1/D keep the shape of geodesics for other densities than the normal, and no other rule?",
    full=Spec(),
    quick=Spec(alphas=(2.0, 4.0), freedoms=(5.0,), dims=(2, 10, 50)),
    cells=cells,
    measure=measure,
)
