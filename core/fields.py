"""The plane seen from one point: distance fields and their descent, and routes over a grid as global first guesses.

Both answer global questions that a local solver cannot: which way around is shortest. `RouteMap` compares ways in log
space, at any β, for `core.geodesics.solve`; `distance_field` is the smooth field behind the live path under the cursor.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import skfmm
from jaxtyping import Float
from scipy.ndimage import label, map_coordinates, minimum_filter
from scipy.spatial import cKDTree

from core import graphs
from core.paths import LogDensity, arc_length, resample, straight

# --- the box of the plane -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Box:
    """An axis-parallel rectangle: `low` and `high` are (x, y) in data units."""

    low: tuple[float, float]
    high: tuple[float, float]

    @property
    def size(self) -> Float[np.ndarray, " 2"]:
        """Width and height, data units."""
        return np.subtract(self.high, self.low)

    def contains(self, points: Float[np.ndarray, "N 2"], margin: float = 0.0) -> bool:
        """Whether all points lie inside, up to `margin` times the box's size."""
        slack = margin * self.size
        return bool(np.all((points >= self.low - slack) & (points <= self.high + slack)))

    def axes(self, nodes: int) -> tuple[np.ndarray, np.ndarray]:
        """Coordinates of an evenly spaced grid's columns (x) and rows (y)."""
        return np.linspace(self.low[0], self.high[0], nodes), np.linspace(self.low[1], self.high[1], nodes)

    def grid(self, nodes: int) -> Float[np.ndarray, "G 2"]:
        """Points of the evenly spaced grid, row after row (y outer, x inner)."""
        x, y = self.axes(nodes)
        return np.stack([a.ravel() for a in np.meshgrid(x, y)], axis=1)


def box_around(points: Float[np.ndarray, "N 2"], margin: float = 0.15) -> Box:
    """The smallest square box around the points, `margin` of the longer side wider on each side."""
    low, high = points.min(axis=0), points.max(axis=0)
    half = (0.5 + margin) * float((high - low).max())
    middle = (low + high) / 2
    return Box((float(middle[0] - half), float(middle[1] - half)), (float(middle[0] + half), float(middle[1] + half)))


def tabulate(log_density: LogDensity, box: Box, nodes: int) -> Float[np.ndarray, "R C"]:
    """Log density on the box's grid, rows along y."""
    return log_density(box.grid(nodes)).reshape(nodes, nodes)


# --- distance fields ------------------------------------------------------------------------------------------------

# scikit-fmm takes speeds below 1e-16 for walls. Slower regions than this are as good as walls to a shortest path.
SLOWEST_LOG_SPEED = -30.0


@dataclass(frozen=True, eq=False)
class DistanceField:
    """Distances from one point over a box, in units of the fastest speed: only their shape matters for descent.

    Attributes:
        values: (R, C) rows along y; 0 at the start.
        box: what the grid covers.
        start: (2,) the point.
        log_unit: nats to add to log values for the metric's log distance.
    """

    values: Float[np.ndarray, "R C"]
    box: Box
    start: Float[np.ndarray, " 2"]
    log_unit: float

    def log_distance(self, points: Float[np.ndarray, "N 2"]) -> Float[np.ndarray, " N"]:
        """Log distance from the start, bilinear between grid nodes, nats."""
        with np.errstate(divide="ignore"):
            return np.log(map_coordinates(self.values, self._cells(points), order=1, mode="nearest")) + self.log_unit

    def _cells(self, points: np.ndarray) -> np.ndarray:
        steps = np.array(self.values.shape[::-1]) - 1
        return ((points - self.box.low) / self.box.size * steps).T[::-1]


def distance_field(
    log_density: Float[np.ndarray, "R C"], box: Box, start: Float[np.ndarray, " 2"], beta: float
) -> DistanceField:
    """Fast marching distances from a point, ‖∇u‖ = p^(-β), on a tabulated log density.

    The front starts from a small circle around the point rather than from a node, which is ten times more exact.

    Raises:
        ValueError: if the start lies outside the box.
    """
    if not box.contains(start[None]):
        raise ValueError(f"start should lie in the box from {box.low} to {box.high}; got {start.tolist()}")
    rows, columns = log_density.shape
    spacing = box.size / [columns - 1, rows - 1]
    log_speed = beta * log_density
    fastest = float(log_speed.max())
    speed = np.exp(np.maximum(log_speed - fastest, SLOWEST_LOG_SPEED))
    x, y = np.linspace(box.low[0], box.high[0], columns), np.linspace(box.low[1], box.high[1], rows)
    euclidean = np.hypot(x[None, :] - start[0], y[:, None] - start[1])
    radius = 2.5 * float(spacing.max())
    nearest = np.unravel_index(euclidean.argmin(), euclidean.shape)
    time = skfmm.travel_time(euclidean - radius, speed, dx=spacing[::-1].tolist(), order=2)
    inside = euclidean <= radius
    local = 1 / speed[nearest]
    # Inside the circle the speed is nearly constant: distance is Euclidean there, and offsets the front outside.
    values = np.where(inside, euclidean * local, np.ma.filled(time, np.nan) + radius * local)
    values[np.isnan(values)] = np.nanmax(values)
    return DistanceField(values, box, np.asarray(start, dtype=np.float64), -fastest)


def descend(field: DistanceField, point: Float[np.ndarray, " 2"], max_steps: int = 4000) -> np.ndarray | None:
    """Steepest descent from a point to the field's start: the geodesic, as the grid knows it. (T + 1, 2) or None."""
    rows, columns = field.values.shape
    spacing = field.box.size / [columns - 1, rows - 1]
    down, across = np.gradient(field.values, spacing[1], spacing[0])
    step = 0.5 * float(spacing.min())
    here, path = np.asarray(point, dtype=np.float64), [np.asarray(point, dtype=np.float64)]
    for _ in range(max_steps):
        if np.linalg.norm(here - field.start) <= 3 * step:
            path.append(field.start)
            return np.array(path[::-1])
        cell = field._cells(here[None])
        slope = np.array([map_coordinates(g, cell, order=1, mode="nearest")[0] for g in (across, down)])
        norm = float(np.linalg.norm(slope))
        if norm == 0:
            return None
        here = here - step * slope / norm
        path.append(here)
    return None


# --- routes over a grid ---------------------------------------------------------------------------------------------

ROUTE_NODES = 96
# Two routes that stay this close (in grid cells) lie in one valley and relax to the same geodesic.
SAME_VALLEY_CELLS = 6.0
# Routes longer than the shortest by more than this many nats are not worth solving: the grid's own error is below 0.03.
ROUTE_MARGIN = 0.12
MAX_ROUTES = 3
STEPS_TO_NEIGHBORS = ((0, 1), (1, 0), (1, 1), (1, -1), (1, 2), (2, 1), (1, -2), (2, -1))


class RouteMap:
    """Shortest routes over a grid of the plane between any two points, in log space: one for each way around.

    Grid nodes are joined to 16 neighbors; an edge weighs its length times Simpson's mean of p^(-β). Nodes v with a
    locally smallest d(start, v) + d(v, end) lie on locally shortest routes: one in each valley is a first guess.
    """

    def __init__(self, log_density: LogDensity, box: Box, nodes: int = ROUTE_NODES):
        self.log_density, self.box, self.nodes = log_density, box, nodes
        self.points = box.grid(nodes)
        self.spacing = box.size / (nodes - 1)
        fine = tabulate(log_density, box, 2 * nodes - 1)  # nodes and half-way points
        number = np.arange(nodes * nodes).reshape(nodes, nodes)
        ends, values, lengths = [], [], []
        for rows, columns in STEPS_TO_NEIGHBORS:
            top, bottom = slice(0, nodes - rows), slice(rows, nodes)
            left = slice(max(0, -columns), nodes - max(0, columns))
            right = slice(max(0, columns), nodes - max(0, -columns))
            a, b = number[top, left].ravel(), number[bottom, right].ravel()
            ends.append(np.stack([a, b], axis=1))
            (ya, xa), (yb, xb) = np.divmod(a, nodes), np.divmod(b, nodes)
            values.append(np.stack([fine[2 * ya, 2 * xa], fine[ya + yb, xa + xb], fine[2 * yb, 2 * xb]], axis=1))
            lengths.append(np.full(len(a), np.hypot(columns * self.spacing[0], rows * self.spacing[1])))
        graph = graphs._from_edges(self.points, 16, np.concatenate(ends))
        self.indptr, self.indices, self.edge_of = graph.indptr, graph.indices, graph.edge_of
        self.log_lengths, self.values = np.log(np.concatenate(lengths)), np.concatenate(values)
        self._weights = lru_cache(maxsize=4)(self._log_weights)

    def _log_weights(self, beta: float) -> np.ndarray:
        cost = -beta * self.values
        top = cost.max(axis=1)
        mean = np.exp(cost - top[:, None]) @ np.array([1 / 6, 4 / 6, 1 / 6])
        return (self.log_lengths + top + np.log(mean))[self.edge_of]

    def routes(self, start: Float[np.ndarray, " 2"], end: Float[np.ndarray, " 2"], beta: float) -> list[np.ndarray]:
        """First guesses, shortest first: at most MAX_ROUTES paths (T + 1, 2) that differ by more than a detour."""
        if np.all(np.abs(end - start) < 1.5 * self.spacing):
            return [straight(start, end)]
        links = [self._links(point, beta) for point in (start, end)]
        trees = graphs.grow_trees(self.indptr, self.indices, self._weights(beta), *links)
        best = graphs.best_route(trees, links[1])
        if best is None:  # cannot happen on a grid whose weights are finite
            return [straight(start, end)]
        with np.errstate(over="ignore", divide="ignore"):
            through = np.log(trees.distances.sum(axis=0)) + trees.shift
        found = [np.concatenate([start[None], self.points[best.nodes], end[None]])]
        for node in self._valley_nodes(through.reshape(self.nodes, self.nodes)).tolist():
            if through[node] > best.log_length + ROUTE_MARGIN or len(found) == MAX_ROUTES:
                break
            nodes = trees.chain(0, node) + trees.chain(1, node)[-2::-1]
            route = np.concatenate([start[None], self.points[nodes], end[None]])
            if all(self._far_apart(route, other) for other in found):
                found.append(route)
        return found

    def _valley_nodes(self, through: np.ndarray) -> np.ndarray:
        """One node of each plateau on which the length of the route through a node is locally smallest."""
        lowest = through <= minimum_filter(through, size=5) + 1e-9
        plateaus, count = label(lowest, structure=np.ones((3, 3)))
        first = np.full(count + 1, -1)
        flat = plateaus.ravel()
        first[flat[::-1]] = np.arange(len(flat))[::-1]
        nodes = first[1:]
        return nodes[np.argsort(through.ravel()[nodes])]

    def _far_apart(self, route: np.ndarray, other: np.ndarray) -> bool:
        cells = [resample(path, 200) / self.spacing for path in (route, other)]
        return bool(np.max(cKDTree(cells[1]).query(cells[0])[0]) > SAME_VALLEY_CELLS)

    def _links(self, point: np.ndarray, beta: float) -> graphs.Links:
        """Edges from an endpoint: to the nodes around it, or to nodes all over the grid when it is outside."""
        cell = (point - self.box.low) / self.spacing
        if self.box.contains(point[None]):
            column, row = np.clip(np.floor(cell).astype(int), 0, self.nodes - 2)
            columns = np.clip(np.arange(column - 1, column + 3), 0, self.nodes - 1)
            rows = np.clip(np.arange(row - 1, row + 3), 0, self.nodes - 1)
        else:
            columns = rows = np.unique(np.linspace(0, self.nodes - 1, 24).astype(int))
        nodes = np.unique((rows[:, None] * self.nodes + columns[None, :]).ravel())
        distance = np.linalg.norm(self.points[nodes] - point, axis=1)
        nodes, distance = nodes[distance > 0], distance[distance > 0]
        segments = 4 if self.box.contains(point[None]) else 64
        left = np.broadcast_to(point, (len(nodes), 2))
        values = self.log_density(graphs.midpoints(left, self.points[nodes], segments)).reshape(-1, segments)
        return graphs.Links(nodes, graphs.density_log_weights(distance, values, beta))


@lru_cache(maxsize=16)
def route_map(density: Any) -> RouteMap:
    """The route map of a 2-D density, made once (densities are frozen and hash by identity)."""
    return RouteMap(density.log_density, box_around(density.sample(4000, seed=0), margin=0.05))


@lru_cache(maxsize=4)
def _sample_graph(density: Any) -> tuple[graphs.NeighborGraph, np.ndarray]:
    graph = graphs.neighbor_graph(density.sample(4000, seed=0), 15)
    return graph, graphs.midpoint_log_density(graph, density.log_density, 4)


def first_guesses(density: Any, start: np.ndarray, end: np.ndarray, beta: float) -> list[np.ndarray]:
    """First guesses for the globally shortest path: grid routes in the plane; otherwise the straight line and a
    shortest path over a graph of the density's own samples."""
    if density.dim == 2:
        return route_map(density).routes(start, end, beta)
    guesses = [straight(start, end)]
    if len(getattr(density, "weights", ())) > 1:  # a single Gaussian has only one valley
        graph, at_midpoints = _sample_graph(density)
        weights = graphs.density_weights(graph, density.log_density, at_midpoints, beta)
        found = graphs.shortest_path(graph, weights, start, end)
        if found is not None and arc_length(found[0])[-1] > 0:
            guesses.append(found[0])
    return guesses
