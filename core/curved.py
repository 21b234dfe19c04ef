"""Densities that are not mixtures, exact in all that is asked of them: what no learned mixture has as its own form.

Each lives in the plane, is smooth everywhere and positive, and has a log density, score and Hessian in closed form, a
known normalizer and a sampler without approximation, so that it stands wherever `core.densities.GaussianMixture` does.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np
from jaxtyping import Float
from scipy.optimize import brentq
from scipy.special import expit, gammaln, ive, logsumexp, stdtr, stdtrit

from core.densities import as_points

# Nodes of the quadrature of a crescent's normalizer, over so many widths: Gauss's rule is exact to rounding there.
QUADRATURE_NODES, QUADRATURE_WIDTHS = 200, 12.0

# A function of (x, y) with its derivatives f, f_x, f_y, f_xx, f_xy, f_yy, (N,) each.
Derivatives = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]


class CurvedDensity(ABC):
    """What the densities of this file share: a subclass, a frozen dataclass of numbers, brings three formulas."""

    def __post_init__(self):
        for parameter in fields(self):  # type: ignore[arg-type]  # every subclass is a dataclass
            value = getattr(self, parameter.name)
            if not 0 < value < np.inf:
                raise ValueError(f"{parameter.name} should be positive and finite; got {value}")

    @abstractmethod
    def _value(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Log density at N points given by their coordinates (N,), (N,)."""

    @abstractmethod
    def _derivatives(self, x: np.ndarray, y: np.ndarray) -> Derivatives:
        """The same with its derivatives."""

    @abstractmethod
    def _draw(self, size: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Coordinates of `size` independent points, (size,) each."""

    @property
    def dim(self) -> int:
        """Ambient dimension D."""
        return 2

    def log_density(self, x: Float[np.ndarray, "N 2"]) -> Float[np.ndarray, " N"]:
        """Log density in nats."""
        return self._value(*as_points(x, 2, "x").T)

    def score(self, x: Float[np.ndarray, "N 2"]) -> Float[np.ndarray, "N 2"]:
        """Gradient of the log density, in nats per data unit."""
        return self.evaluate(x)[1]

    def score_jacobian(self, x: Float[np.ndarray, "N 2"]) -> Float[np.ndarray, "N 2 2"]:
        """Hessian of the log density, in nats per squared data unit."""
        return self.evaluate(x)[2]

    def evaluate(self, x: Float[np.ndarray, "N 2"]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Log density (N,), score (N, 2) and score Jacobian (N, 2, 2) together."""
        value, f_x, f_y, f_xx, f_xy, f_yy = self._derivatives(*as_points(x, 2, "x").T)
        return value, np.stack([f_x, f_y], axis=1), np.stack([f_xx, f_xy, f_xy, f_yy], axis=1).reshape(-1, 2, 2)

    def sample(self, size: int, seed: int) -> Float[np.ndarray, "N 2"]:
        """Draw `size` independent points; the same seed gives the same points."""
        if size < 1:
            raise ValueError(f"size should be at least 1; got {size}")
        return np.stack(self._draw(size, np.random.default_rng(seed)), axis=1)


# --- graphs of functions --------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Banana(CurvedDensity):
    """A normal bent along a parabola, x ~ N(0, a²) and y = b (x² − a²) + N(0, s²); y has mean zero.

    log p = −x² / 2a² − (y − b (x² − a²))² / 2s² − log 2π a s, a polynomial of degree four (the banana of Haario,
    Saksman and Tamminen, "Adaptive proposal distribution for random walk Metropolis algorithm", 1999).

    Args:
        length: a, standard deviation of x.
        bend: b, in 1 / data units.
        width: s, standard deviation of y about the parabola.
    """

    length: float = 0.8
    bend: float = 0.6
    width: float = 0.15

    def _value(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        across = (y - self.bend * (x**2 - self.length**2)) / self.width
        return -0.5 * (x / self.length) ** 2 - 0.5 * across**2 - np.log(2 * np.pi * self.length * self.width)

    def _derivatives(self, x: np.ndarray, y: np.ndarray) -> Derivatives:
        along, across = 1 / self.length**2, 1 / self.width**2
        off, slope = y - self.bend * (x**2 - self.length**2), 2 * self.bend * x
        f_x = across * off * slope - along * x
        f_xx = across * (2 * self.bend * off - slope**2) - along
        return self._value(x, y), f_x, -across * off, f_xx, across * slope, np.full(len(x), -across)

    def _draw(self, size: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        x, noise = self.length * rng.standard_normal(size), self.width * rng.standard_normal(size)
        return x, self.bend * (x**2 - self.length**2) + noise


@dataclass(frozen=True, eq=False)
class SineWave(CurvedDensity):
    """A thin wave, x of density ∝ exp(−(x/a)⁴), nearly even and with short ends, and y = A sin(ω x) + N(0, s²).

    log p = −(x/a)⁴ − (y − A sin ω x)² / 2s² − log (2 a Γ(5/4)) − log (s sqrt(2π)). Sampled by (x/a)⁴ ~ Gamma(1/4).

    Args:
        length: a, about half the wave's length.
        amplitude: A in data units.
        frequency: ω in radians per data unit.
        width: s, standard deviation of y about the wave.
    """

    length: float = 1.6
    amplitude: float = 1.0
    frequency: float = 2.5
    width: float = 0.12

    @cached_property
    def _log_normalizer(self) -> float:
        return float(np.log(2 * self.length) + gammaln(1.25) + np.log(self.width) + 0.5 * np.log(2 * np.pi))

    def _value(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        off = (y - self.amplitude * np.sin(self.frequency * x)) / self.width
        return -((x / self.length) ** 4) - 0.5 * off**2 - self._log_normalizer

    def _derivatives(self, x: np.ndarray, y: np.ndarray) -> Derivatives:
        across, phase, t = 1 / self.width**2, self.frequency * x, x / self.length
        wave = self.amplitude * np.sin(phase)
        off, slope = y - wave, self.amplitude * self.frequency * np.cos(phase)
        value = -(t**4) - 0.5 * across * off**2 - self._log_normalizer
        f_x = across * off * slope - 4 * t**3 / self.length
        f_xx = -across * (off * self.frequency**2 * wave + slope**2) - 12 * (t / self.length) ** 2
        return value, f_x, -across * off, f_xx, across * slope, np.full(len(x), -across)

    def _draw(self, size: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        sign = 1 - 2 * rng.integers(0, 2, size)
        x = sign * self.length * rng.standard_gamma(0.25, size) ** 0.25
        return x, self.amplitude * np.sin(self.frequency * x) + self.width * rng.standard_normal(size)


# --- rings, by their squared radius ---------------------------------------------------------------------------------
#
# With u = (r² − R²) / 2Rs, about (r − R) / s near the ring, functions of u are smooth at the origin too. The element of
# area is dx dy = ½ d(r²) dθ = R s du dθ with u > u₀ = −R / 2s.


@dataclass(frozen=True, eq=False)
class StudentTRing(CurvedDensity):
    """A ring with heavy tails, whose squared radius is Student-t: p ∝ (1 + u²/ν)^(−(ν+1)/2), u = (r² − R²) / 2Rs.

    The normalizer is 2π R s (1 − F(u₀)) / c, with F the distribution function of Student's t, c its density at zero and
    u₀ = −R / 2s. Sampled by inversion: u = F⁻¹(q) for q uniform on (F(u₀), 1), and a uniform angle.

    Args:
        radius: R in data units.
        width: s, about the ring's width, in data units.
        freedom: ν, degrees of freedom; far away p falls like r^(−2(ν+1)).
    """

    radius: float = 1.0
    width: float = 0.08
    freedom: float = 3.0

    @cached_property
    def _below(self) -> float:
        """F(u₀), the share of Student's t that would have a negative squared radius."""
        return float(stdtr(self.freedom, -self.radius / (2 * self.width)))

    @cached_property
    def _log_normalizer(self) -> float:
        nu = self.freedom
        log_peak = gammaln((nu + 1) / 2) - gammaln(nu / 2) - 0.5 * np.log(nu * np.pi)
        return float(np.log(2 * np.pi * self.radius * self.width) + np.log1p(-self._below) - log_peak)

    def _value(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        u = (x**2 + y**2 - self.radius**2) / (2 * self.radius * self.width)
        return -0.5 * (self.freedom + 1) * np.log1p(u**2 / self.freedom) - self._log_normalizer

    def _derivatives(self, x: np.ndarray, y: np.ndarray) -> Derivatives:
        nu, rate = self.freedom, 1 / (2 * self.radius * self.width)
        u = rate * (x**2 + y**2 - self.radius**2)
        pull = (nu + 1) / (nu + u**2)
        first = -pull * u * rate  # by r², as the second
        second = -pull * (nu - u**2) / (nu + u**2) * rate**2
        value = -0.5 * (nu + 1) * np.log1p(u**2 / nu) - self._log_normalizer
        return _by_squared_radius(value, first, second, x, y)

    def _draw(self, size: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        u = stdtrit(self.freedom, rng.uniform(self._below, 1, size))
        r = np.sqrt(np.maximum(self.radius**2 + 2 * self.radius * self.width * u, 0))
        angle = rng.uniform(0, 2 * np.pi, size)
        return r * np.cos(angle), r * np.sin(angle)


def _by_squared_radius(
    value: np.ndarray, first: np.ndarray, second: np.ndarray, x: np.ndarray, y: np.ndarray
) -> Derivatives:
    """Derivatives by (x, y) of a function of r² = x² + y², from its two derivatives by r²."""
    across = 4 * second
    return value, 2 * first * x, 2 * first * y, 2 * first + across * x**2, across * x * y, 2 * first + across * y**2


@dataclass(frozen=True, eq=False)
class Moons(CurvedDensity):
    """Two crescents that reach into each other, p = ½ p₁ + ½ p₂, placed like scikit-learn's: one up, one down.

    Each is a ring of Gaussian width around its center c, tilted in a direction d, with u = (‖x − c‖² − R²) / 2Rs:

        log p_c = −½ u² + κ d·(x − c) / R − log Z,    Z = 2π R s ∫ I₀(κ r / R) exp(−½ u²) du  over u > −R / 2s

    by quadrature. The centers are (0, 0) with d = (0, 1), and (R, R/2) with d = (0, −1). Sampled exactly: the angle to
    d given r is von Mises(κ r / R). Since log I₀(κ r / R) is concave in u, its tangent at the mode u* turns the law of
    u into a multiple of N(u*, 1) that lies above it: u is drawn by rejection, and hardly ever rejected.

    Args:
        radius: R in data units.
        width: s in data units.
        tilt: κ; the density at a crescent's back is e^(−2κ) of that at its middle.
    """

    radius: float = 1.0
    width: float = 0.08
    tilt: float = 3.0

    @cached_property
    def _mode(self) -> float:
        """Where I₀(κ r / R) exp(−½ u²) is largest: there u is the slope of log I₀, between zero and the one at R."""

        def slope(u: float) -> float:
            stretch = np.sqrt(1 + 2 * self.width / self.radius * u)  # r / R
            bessel = ive(1, self.tilt * stretch) / ive(0, self.tilt * stretch)
            return float(self.tilt * self.width / self.radius * bessel / stretch)

        return float(brentq(lambda u: slope(u) - u, 0.0, slope(0.0)))

    def _log_bessel(self, u: np.ndarray) -> np.ndarray:
        """log I₀(κ r / R) at u."""
        z = self.tilt * np.sqrt(np.maximum(1 + 2 * self.width / self.radius * u, 0))
        return np.log(ive(0, z)) + z

    @cached_property
    def _log_normalizer(self) -> float:
        low = max(-self.radius / (2 * self.width), self._mode - QUADRATURE_WIDTHS)
        nodes, weights = np.polynomial.legendre.leggauss(QUADRATURE_NODES)
        half = (self._mode + QUADRATURE_WIDTHS - low) / 2
        u = low + half * (nodes + 1)
        terms = self._log_bessel(u) - 0.5 * u**2 + np.log(half * weights)
        return float(np.log(2 * np.pi * self.radius * self.width) + logsumexp(terms))

    def _crescents(self, x: np.ndarray, y: np.ndarray) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
        """Points relative to each crescent's center, the second one turned over: then both are the same, tilted up."""
        return (x, y), (x - self.radius, 0.5 * self.radius - y)

    def _crescent_value(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        u = (x**2 + y**2 - self.radius**2) / (2 * self.radius * self.width)
        return self.tilt / self.radius * y - 0.5 * u**2 - self._log_normalizer

    def _crescent_derivatives(self, x: np.ndarray, y: np.ndarray) -> Derivatives:
        rate = 1 / (2 * self.radius * self.width)
        u = rate * (x**2 + y**2 - self.radius**2)
        lift = self.tilt / self.radius
        value = lift * y - 0.5 * u**2 - self._log_normalizer
        value, f_x, f_y, f_xx, f_xy, f_yy = _by_squared_radius(value, -rate * u, np.full(len(x), -(rate**2)), x, y)
        return value, f_x, f_y + lift, f_xx, f_xy, f_yy

    def _value(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        up, down = (self._crescent_value(*point) for point in self._crescents(x, y))
        return np.logaddexp(up, down) - np.log(2)

    def _derivatives(self, x: np.ndarray, y: np.ndarray) -> Derivatives:
        up, down = (self._crescent_derivatives(*point) for point in self._crescents(x, y))
        value, f_x, f_y, f_xx, f_xy, f_yy = down
        down = value, f_x, -f_y, f_xx, -f_xy, f_yy  # turned back
        share = expit(up[0] - down[0])
        rest = expit(down[0] - up[0])
        f_x, f_y, f_xx, f_xy, f_yy = (share * a + rest * b for a, b in zip(up[1:], down[1:]))
        # The covariance of the two scores under the shares; as a product of differences nothing cancels.
        both, by_x, by_y = share * rest, up[1] - down[1], up[2] - down[2]
        f_xx, f_xy, f_yy = f_xx + both * by_x**2, f_xy + both * by_x * by_y, f_yy + both * by_y**2
        return np.logaddexp(up[0], down[0]) - np.log(2), f_x, f_y, f_xx, f_xy, f_yy

    def _draw(self, size: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        is_down = rng.integers(0, 2, size).astype(bool)
        u = np.empty(0)
        at_mode = self._log_bessel(np.array([self._mode]))
        while len(u) < size:
            noise = rng.standard_normal(size)
            proposed = self._mode + noise
            deficit = at_mode + self._mode * noise - self._log_bessel(proposed)  # of log I₀ below its tangent
            kept = (rng.standard_exponential(size) > deficit) & (proposed > -self.radius / (2 * self.width))
            u = np.concatenate([u, proposed[kept]])
        r = self.radius * np.sqrt(1 + 2 * self.width / self.radius * u[:size])
        angle = rng.vonmises(0, self.tilt * r / self.radius)
        x, y = r * np.sin(angle), r * np.cos(angle)
        return np.where(is_down, self.radius + x, x), np.where(is_down, 0.5 * self.radius - y, y)
