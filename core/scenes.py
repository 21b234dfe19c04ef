"""A scene: points, the density that judges their paths, and what was learned from them.

Whatever is learned is made when it is first asked for, so a scene costs nothing until it is used, and torch is loaded
only where a flow or a score model is wanted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Bool, Float, Int

from core import datasets, graphs, mixtures
from core.densities import ExactDensity, GaussianMixture

if TYPE_CHECKING:
    from core.flows import Flow
    from core.scores import ScoreModel
    from core.training import Cancel, Progress

PRESETS = ("fast", "paper")
# Relaxed paths may not go farther from both the sample and their start than this share of the widest gap that is
# usual in the sample (the quantile of nearest-neighbor distances below).
SUPPORT_SHARE, SUPPORT_QUANTILE = 0.7, 0.995
# An endpoint farther from the sample than so many of those gaps lies outside it.
OUTSIDE_GAPS = 1.5


@dataclass(frozen=True, eq=False)
class Scene:
    """Points, the density that judges, and what was learned from the points.

    Build one with `Scene.load` (a named dataset) or `Scene.from_points`.
    """

    name: str
    title: str
    points: Float[np.ndarray, "N D"]
    true_density: ExactDensity | None
    size: int
    seed: int = 0
    preset: str = "fast"
    models: tuple[Flow | None, ScoreModel | None] | None = None

    @classmethod
    def load(cls, name: str, size: int = 1000, seed: int = 0, preset: str = "fast") -> Scene:
        """A named dataset with its true density; models of that preset are those shipped for the size and seed."""
        dataset = datasets.load(name)
        if preset not in PRESETS:
            raise ValueError(f"preset should be one of {', '.join(PRESETS)}; got {preset!r}")
        if size < mixtures.MIN_POINTS:
            raise ValueError(f"size should be at least {mixtures.MIN_POINTS}; got {size}")
        return cls(name, dataset.title, dataset.density.sample(size, seed), dataset.density, size, seed, preset)

    @classmethod
    def from_points(cls, points: Float[np.ndarray, "N D"], title: str = "your points") -> Scene:
        """Points without a known density: the mixture pool fitted to them is the reference."""
        points = mixtures.check_sample(points)
        return cls("points", title, points, None, len(points))

    def train(
        self, preset: str = "fast", seed: int = 0, progress: Progress | None = None, cancel: Cancel | None = None
    ) -> Scene:
        """A new scene with a flow and a score model trained on the points; see `core.training.train`."""
        from core import training

        trained = training.train(self.points, preset, seed, progress, cancel)
        return self.with_models(trained.flow, trained.score_model, preset)

    def with_models(self, flow: Flow | None, score_model: ScoreModel | None, preset: str = "fast") -> Scene:
        """A new scene with these models, which keeps what was learned from the points without them."""
        for model in (flow, score_model):
            if model is not None and model.dim != self.dim:
                raise ValueError(f"the model should be of dimension {self.dim}; got one of dimension {model.dim}")
        scene = replace(self, models=(flow, score_model), preset=preset)
        for name in ("mixture", "kde", "_graphs", "widest_gap"):
            if name in self.__dict__:
                scene.__dict__[name] = self.__dict__[name]
        return scene

    @property
    def dim(self) -> int:
        """Ambient dimension D."""
        return self.points.shape[1]

    @property
    def has_truth(self) -> bool:
        """Whether `density` is the true one."""
        return self.true_density is not None

    @property
    def density(self) -> ExactDensity:
        """The density that judges paths: the truth, or the mixture pool as the reference."""
        return self.true_density if self.true_density is not None else self.mixture

    @cached_property
    def mixture(self) -> mixtures.MixturePool:
        """The mixture pool learned from the points."""
        return mixtures.fit_pool(self.points)

    @cached_property
    def kde(self) -> GaussianMixture:
        """The kernel density estimate."""
        return mixtures.fit_kernel_density(self.points)

    @cached_property
    def _models(self) -> tuple[Flow | None, ScoreModel | None]:
        if self.models is not None:
            return self.models
        if not self.has_truth:
            return None, None
        from core import checkpoints

        return checkpoints.shipped(self.name, self.size, self.seed, self.preset) or (None, None)

    @property
    def flow(self) -> Flow | None:
        """The normalizing flow, trained or shipped; None where there is none."""
        return self._models[0]

    @property
    def score_model(self) -> ScoreModel | None:
        """The score model, trained or shipped; None where there is none."""
        return self._models[1]

    @cached_property
    def widest_gap(self) -> float:
        """The widest distance to a nearest neighbor that is usual in the sample, data units."""
        return float(np.quantile(self.graph(graphs.DEFAULT_NEIGHBORS).nearest, SUPPORT_QUANTILE))

    @property
    def support_radius(self) -> float:
        """How far a relaxed path may leave both the sample and its start, data units."""
        return SUPPORT_SHARE * self.widest_gap

    def outside(self, points: Float[np.ndarray, "N D"]) -> Bool[np.ndarray, " N"]:
        """Whether each point lies outside the sample, farther from it than its own points are from each other."""
        graph = self.graph(graphs.DEFAULT_NEIGHBORS)
        return graph.nodes_near(points)[0][:, 0] > OUTSIDE_GAPS * self.widest_gap

    def graph(self, neighbors: int) -> graphs.NeighborGraph:
        """The neighbor graph of the points, its parts joined where they are nearest; made once for each k."""
        return self._graphs(neighbors)[1]

    def parts(self, neighbors: int) -> Int[np.ndarray, " N"]:
        """Which part of the neighbor graph each point belongs to, as long as nothing joins them."""
        return self._graphs(neighbors)[0].parts

    def weights(
        self,
        model: str,
        beta: float,
        neighbors: int = graphs.DEFAULT_NEIGHBORS,
        segments: int = graphs.DEFAULT_SEGMENTS,
    ) -> graphs.EdgeWeights:
        """Density weights of the graph's edges by a model; midpoint densities are computed once for each k and S."""
        return self._weights(model, beta, neighbors, segments)

    # What is made once, in caches of bounded size: a server runs for long.

    @cached_property
    def _graphs(self) -> Callable[[int], tuple[graphs.NeighborGraph, graphs.NeighborGraph]]:
        def make(neighbors: int) -> tuple[graphs.NeighborGraph, graphs.NeighborGraph]:
            graph = graphs.neighbor_graph(self.points, neighbors)
            return graph, graphs.bridged(graph)

        return lru_cache(maxsize=4)(make)

    @cached_property
    def _midpoints(self) -> Callable[[str, int, int], np.ndarray]:
        def make(model: str, neighbors: int, segments: int) -> np.ndarray:
            return graphs.midpoint_log_density(self.graph(neighbors), getattr(self, model).log_density, segments)

        return lru_cache(maxsize=8)(make)

    @cached_property
    def _weights(self) -> Callable[[str, float, int, int], graphs.EdgeWeights]:
        def make(model: str, beta: float, neighbors: int, segments: int) -> graphs.EdgeWeights:
            at_midpoints = self._midpoints(model, neighbors, segments)
            return graphs.density_weights(self.graph(neighbors), getattr(self, model).log_density, at_midpoints, beta)

        return lru_cache(maxsize=32)(make)
