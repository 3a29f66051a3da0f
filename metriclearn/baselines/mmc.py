"""MMC: keep similar samples close and the others apart (Xing, Ng, Jordan & Russell, NIPS 2002)."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from sklearn.utils import check_random_state

from metriclearn.baselines.standardized import StandardizedMetric, check_pairs
from metriclearn.problem.partition import Partition
from metriclearn.running.parameters import RandomState, Real, Whole

_RIDGE = 1e-9  # share of the mean variance that keeps the problem bounded if clusters are flat
_SMOOTHING = 1e-10  # added to squared distances of order 1: their roots are then differentiable


@dataclass(eq=False, repr=False)
class MMC(StandardizedMetric):
    """The metric that separates different clusters the most, while similar pairs stay close.

    MMC solves max_{B⪰0} Σ_D ‖x−x′‖_B such that Σ_S ‖x−x′‖²_B ≤ 1. S holds all pairs of samples in
    the same cluster, and D holds pairs of samples of the same data set in different clusters. Up to
    the scale of B this problem is min_{B⪰0} Σ_S ‖x−x′‖²_B − log Σ_D ‖x−x′‖_B, as in the paper for
    diagonal B (section 2.1). This problem is convex. We solve the problem in a basis where Σ_S
    (x−x′)(x−x′)ᵀ is the identity or, for diagonal B, has a unit diagonal. The basis does not change
    the solution, but scales the steps.

    A step costs O(dP²) for d pairs in D.

    Parameters
    ----------
    diagonal : bool
        Learn one weight per feature, that is, a diagonal B.
    max_pairs : int
        Largest number of pairs in D. If there are more pairs, ``max_pairs`` of them are drawn at
        random.
    max_iter : int
        Largest number of steps.
    tol : float
        Stop when no partial derivative of the objective is above ``tol``. Eigenvalues of B (in the
        basis that is described above) are set to zero if they are below ``tol`` times the largest
        one.
    random_state : int, RandomState or None
        Determines which pairs are drawn.

    Attributes
    ----------
    objective_ : float
        Mean distance ‖x−x′‖_B of the pairs in D, with B scaled so that the mean of ‖x−x′‖²_B over S
        is 1.
    n_iter_ : int

    Raises
    ------
    ValueError
        If parameters, data or labels are unusable, or the metric is used before ``fit``.

    References
    ----------
    Xing, Ng, Jordan & Russell, Distance metric learning with application to clustering with
    side-information, NIPS 2002.
    """

    diagonal: bool = False
    _: KW_ONLY
    max_pairs: Annotated[int, Whole(1)] = 20_000
    max_iter: Annotated[int, Whole(1)] = 300
    # A share of the largest eigenvalue: with 1, none would be kept.
    tol: Annotated[float, Real(0, 0.5)] = 1e-6
    random_state: RandomState = None

    def _learn(self, arrays: list[NDArray], truths: list[Partition]) -> NDArray:
        check_pairs(type(self).__name__, truths)
        apart = different_pairs(arrays, truths, self.max_pairs, self.random_state)
        P = arrays[0].shape[1]
        total, n_pairs = np.zeros((P, P)), 0.0
        for array, truth in zip(arrays, truths):
            # over the pairs of a cluster of n samples the squares add up to n times the scatter
            rows = (array - truth.project(array)) * np.sqrt(truth.sizes[truth.labels])[:, None]
            total += rows.T @ rows
            n_pairs += float(np.sum(truth.sizes * (truth.sizes - 1.0))) / 2.0
        mean = total / n_pairs
        together = mean + (_RIDGE * max(float(np.trace(mean)) / P, 1e-12)) * np.eye(P)
        if self.diagonal:
            basis = np.diag(1.0 / np.sqrt(np.diag(together)))
        else:
            values, vectors = np.linalg.eigh(together)
            basis = vectors / np.sqrt(values)
        factor, self.n_iter_ = spread_apart(apart @ basis, self.diagonal, self.max_iter, self.tol)
        vectors, roots, _ = np.linalg.svd(factor)
        # A root that should be 0 is about tol if slopes are within tol, and more where B is flat.
        kept = roots**2 > max(self.tol, 1e-12) * roots[0] ** 2
        components = (roots[kept] * vectors[:, kept]).T @ basis.T
        spread = np.sqrt(np.sum(components @ together * components))
        self.objective_ = float(np.linalg.norm(apart @ components.T, axis=1).mean() / spread)
        return components / spread


def spread_apart(pairs: NDArray, diagonal: bool, max_iter: int, tol: float) -> tuple[NDArray, int]:
    """Find L, (P, P), for which B = LLᵀ minimizes Tr B − log mean √(xᵀBx) over the rows x of pairs.

    Returns L and the number of steps. L-BFGS minimizes over all entries of L or, if ``diagonal``,
    over those on its diagonal. No projection is needed because every B ⪰ 0 is some LLᵀ. L is
    square, so every local minimum is a global one (Burer & Monteiro, Local minima and convergence
    in low-rank semidefinite programming, Mathematical Programming 103, 2005). A step costs O(dP²).
    """
    P = pairs.shape[1]
    free = np.eye(P, dtype=bool) if diagonal else np.ones((P, P), dtype=bool)

    def factor(entries: NDArray) -> NDArray:
        L = np.zeros((P, P))
        L[free] = entries
        return L

    def objective(entries: NDArray) -> tuple[float, NDArray]:
        L = factor(entries)
        mapped = pairs @ L
        distances = np.sqrt(np.sum(mapped**2, axis=1) + _SMOOTHING)
        mean = distances.mean()
        pull = pairs.T @ (mapped / distances[:, None]) / (len(pairs) * mean)
        return np.sum(L**2) - np.log(mean), (2.0 * L - pull)[free]

    minimum = minimize(
        objective,
        np.eye(P)[free] / np.sqrt(2 * P),  # Tr B = 1/2, as at the minimum
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": max_iter, "gtol": tol, "ftol": 1e-15},
    )
    return factor(minimum.x), int(minimum.nit)


def different_pairs(
    arrays: list[NDArray],
    truths: list[Partition],
    most: int,
    random_state: RandomState,
) -> NDArray:
    """Return differences x − x′ between samples in different clusters of the same data set, (d, P).

    All such pairs are used. If there are more than ``most``, this number of pairs is drawn at
    random.
    """
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
    """Draw n differences of pairs uniformly.

    First i is drawn in proportion to the number of samples outside its cluster. Then j is drawn
    from these samples.
    """
    order = np.argsort(truth.labels, kind="stable")  # the samples of a cluster are neighbors
    sizes = truth.sizes[truth.labels[order]]
    starts = (np.cumsum(truth.sizes) - truth.sizes)[truth.labels[order]]
    others = truth.n_samples - sizes
    i = random.choice(truth.n_samples, n, p=others / others.sum())
    j = random.randint(0, others[i])  # counts the samples outside: steps over the cluster of i
    j = np.where(j >= starts[i], j + sizes[i], j)
    return array[order[i]] - array[order[j]]
