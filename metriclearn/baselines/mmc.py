"""MMC: keep similar samples close and the others apart (Xing, Ng, Jordan & Russell, NIPS 2002)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from metriclearn.baselines.standardized import StandardizedMetric, check_pairs
from metriclearn.problem.partition import Partition
from metriclearn.running.parameters import Needs, number

__all__ = ["MMC"]

_RIDGE = 1e-9  # of the mean variance: keeps the problem bounded where clusters are flat
_ARMIJO = 1e-4
_SMOOTHING = 1e-10  # of squared distances of order 1: their roots have slopes everywhere


@dataclass(eq=False, repr=False)
class MMC(StandardizedMetric):
    """The metric that spreads different clusters the most, similar pairs being close.

    Full: max_{B⪰0} Σ_D ‖x−x′‖_B such that Σ_S ‖x−x′‖²_B ≤ 1, by gradient ascent with iterated
    projections (Fig. 1 of the paper). Diagonal: min_{b≥0} Σ_S ‖x−x′‖²_b − log Σ_D ‖x−x′‖_b, by
    Newton's method (section 2.1). S are all pairs of samples of one cluster; D pairs of different
    clusters of one data set. Both problems are convex; both are solved in a basis where
    Σ_S (x−x′)(x−x′)ᵀ = I or has a unit diagonal, which changes no solution and scales the steps.

    A step costs O(dP² + P³) for d pairs in D.

    Parameters
    ----------
    diagonal : bool
        One weight per feature.
    max_pairs : int
        Pairs in D: all of them, or so many drawn at random.
    max_iter : int
        Steps at most.
    tol : float
        Stop when a step gains less than this share of the objective.
    random_state : int, RandomState or None
        Draws the pairs.

    Attributes
    ----------
    objective_ : float
        Mean distance ‖x−x′‖_B of the pairs in D, when the mean of ‖x−x′‖²_B over S is 1.
    n_iter_ : int

    References
    ----------
    Xing, Ng, Jordan & Russell, Distance metric learning with application to clustering with
    side-information, NIPS 2002.
    """

    PARAMETERS: ClassVar[Mapping[str, Needs]] = {
        "max_pairs": number(1, whole=True),
        "max_iter": number(1, whole=True),
        "tol": number(),
    }

    diagonal: bool = False
    _: KW_ONLY
    max_pairs: int = 20_000
    max_iter: int = 300
    tol: float = 1e-6
    random_state: int | np.random.RandomState | None = None

    def _learn(self, arrays: list[NDArray], truths: list[Partition]) -> NDArray:
        check_pairs(type(self).__name__, truths)
        apart = different_pairs(arrays, truths, self.max_pairs, self.random_state)
        together = similar_covariance(arrays, truths)
        if self.diagonal:
            units = np.sqrt(np.diag(together))
            weights, self.n_iter_ = weigh_apart((apart / units) ** 2, self.max_iter, self.tol)
            kept = np.flatnonzero(weights > 1e-12 * weights.max())
            components = np.diag(np.sqrt(weights) / units)[kept]
        else:
            values, vectors = np.linalg.eigh(together)
            whitening = vectors / np.sqrt(values)
            B, self.n_iter_ = spread_apart(apart @ whitening, self.max_iter, self.tol)
            values, vectors = np.linalg.eigh(B)
            kept = values > 1e-12 * values[-1]
            components = (np.sqrt(values[kept]) * vectors[:, kept]).T @ whitening.T
        spread = np.sqrt(np.sum(components @ together * components))
        self.objective_ = float(np.linalg.norm(apart @ components.T, axis=1).mean() / spread)
        return components / spread


def spread_apart(pairs: NDArray, max_iter: int, tol: float) -> tuple[NDArray, int]:
    """max Σ √(xᵀBx) over the rows x of ``pairs`` such that B ⪰ 0 and Tr B ≤ 1: Fig. 1 of the paper.

    Steps go along the gradient's part orthogonal to that of the constraint, the identity; then
    the half-space and the cone are projected on in turns. A step that does not gain is halved.
    O(dP² + P³) a step.
    """
    P = pairs.shape[1]
    B, identity = np.eye(P) / P, np.eye(P)
    value, slope = spread(pairs, B)
    step = 1.0 / max(float(np.linalg.norm(slope)), 1e-300)
    for n_iter in range(1, max_iter + 1):
        direction = slope - np.trace(slope) / P * identity
        gained = False
        while not gained and step * np.linalg.norm(direction) > 1e-14:
            trial = _feasible(B + step * direction)
            higher, steeper = spread(pairs, trial)
            gained = higher > value
            step *= 1.3 if gained else 0.5
        if not gained:
            return B, n_iter
        gain, B, value, slope = higher - value, trial, higher, steeper
        if gain <= tol * value:
            return B, n_iter
    return B, max_iter


def spread(pairs: NDArray, B: NDArray) -> tuple[float, NDArray]:
    """Mean distance of the pairs, and its gradient ½ mean xxᵀ/√(xᵀBx)."""
    distances = np.sqrt(np.maximum(np.einsum("ip,ip->i", pairs @ B, pairs), 0.0) + _SMOOTHING)
    weighed = pairs / distances[:, None]
    return float(distances.mean()), 0.5 * weighed.T @ pairs / len(pairs)


def _feasible(B: NDArray, rounds: int = 100) -> NDArray:
    """Project in turns on Tr B ≤ 1 and on B ⪰ 0; scaled at last to Tr B = 1."""
    for _ in range(rounds):
        excess = np.trace(B) - 1.0
        if excess > 0:
            B = B - excess / len(B) * np.eye(len(B))
        values, vectors = np.linalg.eigh(B)
        if values[0] >= 0.0:
            break
        values = np.maximum(values, 0.0)
        B = (vectors * values) @ vectors.T
        if values.sum() <= 1.0 + 1e-9:
            break
    return B / np.trace(B)


def weigh_apart(squares: NDArray, max_iter: int, tol: float) -> tuple[NDArray, int]:
    """min Σ_p b_p − log mean √(b·q) over b ≥ 0 and the rows q of ``squares``: projected Newton.

    Weights at 0 with a positive slope stay there; the others take Newton's step, shortened until
    the objective falls. O(dP² + P³) a step.
    """
    weights = np.full(squares.shape[1], 0.5 / squares.shape[1])
    value, slope, curvature = log_spread(squares, weights)
    for n_iter in range(1, max_iter + 1):
        free = (weights > 0) | (slope < 0)
        direction = np.zeros_like(weights)
        inside = curvature[np.ix_(free, free)]
        ridge = 1e-12 * np.trace(inside) * np.eye(len(inside))
        direction[free] = -np.linalg.solve(inside + ridge, slope[free])
        step, lowered = 1.0, False
        while not lowered and step > 1e-12:
            trial = np.maximum(weights + step * direction, 0.0)
            lower, *others = log_spread(squares, trial) if trial.any() else (np.inf, slope, inside)
            lowered = lower <= value + _ARMIJO * float(slope @ (trial - weights))
            step *= 0.5
        if not lowered:
            return weights, n_iter
        drop, weights, value = value - lower, trial, lower
        slope, curvature = others
        if drop <= tol**2:
            return weights, n_iter
    return weights, max_iter


def log_spread(squares: NDArray, weights: NDArray) -> tuple[float, NDArray, NDArray]:
    """Σ b − log mean √(b·q), its gradient and its Hessian."""
    distances = np.sqrt(squares @ weights + _SMOOTHING)
    mean = distances.mean()
    pull = 0.5 * (squares / distances[:, None]).mean(axis=0) / mean
    cubes = squares / distances[:, None] ** 3
    curvature = 0.25 * cubes.T @ squares / len(squares) / mean + np.outer(pull, pull)
    return float(weights.sum() - np.log(mean)), 1.0 - pull, curvature


def similar_covariance(arrays: list[NDArray], truths: list[Partition]) -> NDArray:
    """Mean of (x−x′)(x−x′)ᵀ over all pairs of S, with a small ridge, in O(TP²)."""
    P = arrays[0].shape[1]
    total, n_pairs = np.zeros((P, P)), 0.0
    for array, truth in zip(arrays, truths):
        # over the pairs of a cluster of n samples the squares add up to n times the scatter
        rows = (array - truth.project(array)) * np.sqrt(truth.sizes[truth.labels])[:, None]
        total += rows.T @ rows
        n_pairs += float(np.sum(truth.sizes * (truth.sizes - 1.0))) / 2.0
    mean = total / n_pairs
    return mean + (_RIDGE * max(float(np.trace(mean)) / P, 1e-12)) * np.eye(P)


def different_pairs(
    arrays: list[NDArray],
    truths: list[Partition],
    most: int,
    random_state: int | np.random.RandomState | None,
) -> NDArray:
    """Differences of pairs of different clusters of one data set, (d, P): all or ``most``."""
    counts = [(t.n_samples**2 - int(np.sum(t.sizes**2))) // 2 for t in truths]
    if sum(counts) <= most:
        return np.vstack([_all_pairs(array, t) for array, t in zip(arrays, truths)])
    random = check_random_state(random_state)
    shares = random.multinomial(most, np.array(counts) / sum(counts))
    return np.vstack([_drawn(*case, random) for case in zip(arrays, truths, shares) if case[2]])


def _all_pairs(array: NDArray, truth: Partition) -> NDArray:
    i, j = np.triu_indices(len(array), 1)
    apart = truth.labels[i] != truth.labels[j]
    return array[i[apart]] - array[j[apart]]


def _drawn(array: NDArray, truth: Partition, n: int, random: np.random.RandomState) -> NDArray:
    """Uniform draws: i by how many samples its cluster lacks, j anywhere outside it."""
    order = np.argsort(truth.labels, kind="stable")  # the samples of a cluster are neighbors
    sizes = truth.sizes[truth.labels[order]]
    starts = (np.cumsum(truth.sizes) - truth.sizes)[truth.labels[order]]
    others = truth.n_samples - sizes
    i = random.choice(truth.n_samples, n, p=others / others.sum())
    j = random.randint(0, others[i])  # counts the samples outside: steps over the cluster of i
    j = np.where(j >= starts[i], j + sizes[i], j)
    return array[order[i]] - array[order[j]]
