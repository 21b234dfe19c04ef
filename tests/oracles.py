"""Slow, literal transcriptions of the paper's algorithms and of textbook definitions: what the fast ones must equal."""

import heapq
from itertools import count, pairwise

import mpmath
import numpy as np
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

# --- densities ------------------------------------------------------------------------------------------------------


def mixture_log_density(mixture, x):
    """log sum_k w_k N(x; m_k, C_k), one component at a time, by scipy."""
    kept = mixture.weights > 0
    terms = [
        np.log(w) + np.atleast_1d(multivariate_normal(m, c).logpdf(x))
        for w, m, c in zip(mixture.weights[kept], mixture.means[kept], mixture.covariances[kept])
    ]
    return logsumexp(terms, axis=0)


def central_difference(function, x, step):
    """Derivative of function (N, D) -> (N, ...) with respect to x, (N, ..., D), by differences of fourth order."""
    columns = []
    for axis in range(x.shape[1]):
        h = np.zeros(x.shape[1])
        h[axis] = step
        near = function(x + h) - function(x - h)
        far = function(x + 2 * h) - function(x - 2 * h)
        columns.append((8 * near - far) / (12 * step))
    return np.stack(columns, axis=-1)


# --- paths ----------------------------------------------------------------------------------------------------------


def polyline_log_length(path, log_density, beta, pieces=4000):
    """log ∫ p^(-β) ds: every segment cut into `pieces` equal pieces, eight Gauss-Legendre nodes on each."""
    nodes, weights = np.polynomial.legendre.leggauss(8)
    fraction = ((np.arange(pieces)[:, None] + (nodes + 1) / 2) / pieces).ravel()
    log_weights = np.log(np.tile(weights / 2, pieces) / pieces)
    logs = []
    for a, b in pairwise(path):
        length = np.linalg.norm(b - a)
        if length > 0:
            values = log_density(a + fraction[:, None] * (b - a))
            logs.append(np.log(length) + logsumexp(log_weights - beta * values))
    return float(logsumexp(logs))


def algorithm_1(path, score, beta, sweeps, seed=0):
    """Algorithm 1 of the paper: `sweeps` steps of relaxation."""
    phi = [np.array(point) for point in path]
    n = len(phi) - 1
    rng = np.random.default_rng(seed)
    index = np.arange(1, n)
    for _ in range(sweeps):
        rng.shuffle(index)
        for i in index:
            v = (phi[i + 1] - phi[i - 1]) / 2
            s = score(phi[i][None])[0]
            w = beta * (s * np.dot(v, v) - np.dot(s, v) * v) / 2
            phi[i] = (phi[i + 1] + phi[i - 1]) / 2 + w
    return np.array(phi)


# --- graphs ---------------------------------------------------------------------------------------------------------


def nearest_neighbor_edges(points, k):
    """Pairs of which one is among the k nearest others of the other; needs distinct distances to be unique."""
    edges = set()
    for i in range(len(points)):
        distance = np.sqrt(((points - points[i]) ** 2).sum(axis=1))
        distance[i] = np.inf
        edges |= {(min(i, int(j)), max(i, int(j))) for j in np.argsort(distance)[:k]}
    return edges


def algorithm_2(points, edges, log_density, beta, segments):
    """Algorithm 2 of the paper, its weights as logs: {(l, m): log G_lm}, in 30 digits."""
    weights = {}
    for l, m in edges:  # noqa: E741 - the paper's letters
        step = (points[m] - points[l]) / segments
        total = mpmath.mpf(0)
        for i in range(1, segments + 1):
            y = points[l] + (i - 0.5) * step
            total += 1 / mpmath.exp(float(log_density(y[None])[0])) ** mpmath.mpf(beta)
        weights[l, m] = float(mpmath.log(mpmath.mpf(float(np.linalg.norm(step))) * total))
    return weights


def shortest_log_length(log_weights, start, end):
    """Log length of the shortest path over {(l, m): log weight}; None if there is none.

    Dijkstra's algorithm in numbers of 30 digits with exponents of any size.
    """
    with mpmath.workdps(30):
        around = {}
        for (a, b), weight in log_weights.items():
            linear = mpmath.exp(mpmath.mpf(float(weight))) if np.isfinite(weight) else mpmath.mpf(0)
            around.setdefault(a, []).append((b, linear))
            around.setdefault(b, []).append((a, linear))
        best, queue, done = {start: mpmath.mpf(0)}, [(mpmath.mpf(0), 0, start)], set()
        pushed = count(1)  # settles ties between equal lengths
        while queue:
            length, _, node = heapq.heappop(queue)
            if node == end:
                return float(mpmath.log(length)) if length > 0 else -np.inf
            if node in done:
                continue
            done.add(node)
            for other, weight in around.get(node, ()):
                if other not in best or length + weight < best[other]:
                    best[other] = length + weight
                    heapq.heappush(queue, (best[other], next(pushed), other))
    return None
