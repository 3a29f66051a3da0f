"""Cluster by DP-means, a K-means that opens a new cluster when the nearest mean is too far.

DP-means is the small-variance limit of the Gibbs sampler for Dirichlet process mixtures (Kulis &
Jordan, Revisiting k-means: new algorithms via Bayesian nonparametrics, ICML 2012).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial.distance import cdist
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from metriclearn.clusterers.checks import read_rows
from metriclearn.problem.partition import Partition
from metriclearn.running.notes import note
from metriclearn.running.parameters import RandomState, Real, Whole
from metriclearn.running.values import check_each, real_array

Order = Literal["given", "random", "farthest-first"]
_BLOCK = 1 << 18  # distances of one block of points to clusters: 2 MiB
_MIN_ROWS, _MAX_ROWS = 64, 2048  # size of a block, for any number of clusters


def penalized_kmeans_objective(X: ArrayLike, labels: Iterable[Hashable], penalty: float) -> float:
    """Return the objective of DP-means, Σ_c Σ_{x∈c} ‖x − μ_c‖² + λK (Kulis & Jordan 2012, Eq. 1).

    The objective is Eq. (7) of Lajugie, Arlot & Bach, Tr[XBXᵀ(I−M)], plus the penalty λ Tr M. Here
    ``X`` is the data after the metric's ``transform``. The time is O(nd).

    Parameters
    ----------
    X : array of shape (n, d)
    labels : n hashables
    penalty : float ≥ 0, in units of squared distance
        The penalty λ of a cluster.

    Returns
    -------
    float ≥ 0

    Raises
    ------
    ValueError
        If the penalty is not a number of at least 0, or if X and ``labels`` differ in length.
    """
    X = real_array("penalized_kmeans_objective", "X", X)
    partition = Partition.from_labels(labels)
    check_each("penalized_kmeans_objective", "label", partition.n_samples, "rows of X", len(X))
    Real().check("penalized_kmeans_objective", "penalty", penalty)
    residual = X - X.mean(axis=0)  # a common shift changes nothing but the rounding
    residual -= partition.project(residual)
    return float(np.sum(residual**2) + penalty * partition.n_clusters)


@dataclass(eq=False, repr=False)
class DPMeans(ClusterMixin, BaseEstimator):
    """K-means with a penalty for every cluster instead of a given K (Kulis & Jordan, Algorithm 1).

    The algorithm starts from one cluster at the global mean. Every pass visits the samples in
    order. A sample whose *squared* distance to every mean exceeds λ becomes the mean of a new
    cluster. Any other sample joins the nearest cluster (the older cluster on ties). After each pass
    empty clusters are dropped and the means are updated. Each pass lowers the objective of
    :func:`penalized_kmeans_objective`, until the result is a local minimum.

    Distances are computed for blocks of points at once, as sums of squared differences. The labels
    are exactly the same as from the point-by-point algorithm. A pass takes O(nKd) time. In addition
    to X, a pass needs memory for the distances of one block.

    Parameters
    ----------
    penalty : float ≥ 0, in units of squared distance
        The penalty λ. If λ = 0, every distinct sample is a cluster.
    order : "given", "random" or "farthest-first"
        Order in which samples are visited. The result depends on this order. "farthest-first"
        begins with the sample that is farthest from the global mean. The next sample is always the
        sample with the largest distance to the nearest earlier point. The global mean counts as an
        earlier point. Once all remaining samples are within √λ of an earlier point, they follow in
        the given order. So the order of the rows matters only if a later pass opens a cluster,
        which is rare.
    n_init : int
        Number of runs. The run with the lowest objective is kept. The first run uses ``order``. All
        other runs visit the samples in random order.
    max_iter : int
        Largest number of passes in a run. If the run has not converged by then, there is a
        ConvergenceWarning.
    random_state : int, RandomState or None

    Attributes
    ----------
    labels_ : (n,) cluster of every sample
    cluster_centers_ : (K, d) means
    n_clusters_ : K
    objective_ : float
    n_iter_ : number of passes of the kept run; if it converged, the last pass changed no label

    Raises
    ------
    ValueError
        If parameters, data or labels cannot be used, or if ``predict`` is called before ``fit``.

    Examples
    --------
    >>> DPMeans(penalty=1.0).fit_predict([[0.0], [0.5], [6.0], [5.5]]).tolist()
    [0, 0, 1, 1]
    """

    penalty: Annotated[float, Real(0.0, 1e250)] = 1.0
    _: KW_ONLY
    order: Order = "given"
    n_init: Annotated[int, Whole(1)] = 1
    max_iter: Annotated[int, Whole(1)] = 300
    random_state: RandomState = None

    def fit(self, X: ArrayLike, y: Any = None, sample_weight: ArrayLike | None = None) -> DPMeans:
        """Cluster the rows of X, shape (n, d).

        Parameters
        ----------
        sample_weight : array (n,), optional
            Positive weights. A sample of weight w counts as w samples that stay together. A sample
            of weight w opens a cluster if w times its squared distance to every mean exceeds λ.

        Raises
        ------
        ValueError
            If a parameter or weight is out of range, or squared distances overflow.
        """
        X = read_rows(self, X)
        weights = np.ones(len(X))
        if sample_weight is not None:
            weights = real_array("DPMeans", "sample_weight", sample_weight, 1)
        check_each("DPMeans", "sample_weight", len(weights), "samples", len(X))
        if weights.min() <= 0:
            raise ValueError(f"DPMeans needs sample_weight above zero, got {weights.min():g}.")
        random = check_random_state(self.random_state)
        orders = (
            _visits(X, weights, self.order if run == 0 else "random", self.penalty, random)
            for run in range(self.n_init)
        )
        best = min((self._run(X, weights, order) for order in orders), key=lambda run: run[0])
        self.objective_, self.labels_, self.cluster_centers_, self.n_iter_, settled = best
        self.n_clusters_ = len(self.cluster_centers_)
        if not settled:
            note(
                f"DPMeans needs more than max_iter={self.max_iter} passes to settle; "
                "raise max_iter, or keep this valid but improvable partition.",
                ConvergenceWarning,
            )
        return self

    def predict(self, X: ArrayLike) -> NDArray[np.int64]:
        """Return the cluster with the nearest mean for every row of X, or the older one on ties.

        No cluster is opened. The time is O(nKd).
        """
        check_is_fitted(self)
        rows = read_rows(self, X, reset=False)
        return _assign(rows, np.ones(len(rows)), self.cluster_centers_, np.inf)[0]

    def _run(
        self, X: NDArray, weights: NDArray, order: NDArray[np.intp] | slice
    ) -> tuple[float, NDArray[np.int64], NDArray[np.float64], int, bool]:
        """Run DP-means once.

        Returns the objective, the labels, the means, the number of passes, and whether the last
        pass changed nothing.
        """
        visited, mass = X[order], weights[order]
        labels = np.zeros(len(X), dtype=np.int64)
        means = np.average(visited, axis=0, weights=mass)[None]
        settled, n_iter = False, 0
        while not settled and n_iter < self.max_iter:
            before = labels
            labels, count = _assign(visited, mass, means, self.penalty)
            sizes = np.bincount(labels, weights=mass, minlength=count)
            kept = sizes > 0  # renumber without the emptied clusters
            labels = (np.cumsum(kept) - 1)[labels]
            sums = [np.bincount(labels, weights=mass * column) for column in visited.T]
            means = np.column_stack(sums) / sizes[kept, None]
            settled, n_iter = np.array_equal(labels, before), n_iter + 1
        in_order = np.empty_like(labels)
        in_order[order] = labels
        residual = np.sum((X - means[in_order]) ** 2, axis=1)
        objective = float(weights @ residual + self.penalty * len(means))
        return objective, in_order, means, n_iter, settled


def _assign(
    X: NDArray, weights: NDArray, means: NDArray, penalty: float
) -> tuple[NDArray[np.int64], int]:
    """Make one pass over the samples, and return their labels and the number of clusters.

    Labels from ``len(means)`` on belong to new clusters. A block of samples is compared with all
    means at once. The first sample that is too far from all means opens a cluster, and later
    samples may join this cluster.
    """
    labels, start = np.empty(len(X), dtype=np.int64), 0
    while start < len(X):
        n_rows = int(np.clip(_BLOCK // len(means), _MIN_ROWS, _MAX_ROWS))
        rows = X[start : start + n_rows]
        distances = cdist(rows, means, "sqeuclidean")
        nearest = np.argmin(distances, axis=1)
        mass = weights[start : start + n_rows]
        least = mass * np.min(distances, axis=1)
        while least.max() > penalty:
            first = int(np.argmax(least > penalty))
            opened = mass[first:] * cdist(rows[first:], rows[first, None], "sqeuclidean")[:, 0]
            nearest[first:][opened < least[first:]] = len(means)
            least[first:] = np.minimum(opened, least[first:])
            means = np.vstack([means, rows[first]])
        labels[start : start + n_rows] = nearest
        start += n_rows
    return labels, len(means)


def _visits(
    X: NDArray, weights: NDArray, order: Order, penalty: float, random: np.random.RandomState
) -> NDArray[np.intp] | slice:
    """Return the order in which rows are visited. For "farthest-first", the time is O(nKd)."""
    if order == "given":
        return slice(None)
    if order == "random":
        return random.permutation(len(X))
    first: list[np.intp] = []
    mass = weights[:, None]
    center = np.average(X, axis=0, weights=weights)[None]
    nearest = mass * cdist(X, center, "sqeuclidean")
    while nearest.max() > penalty:
        first.append(np.argmax(nearest))
        nearest = np.minimum(nearest, mass * cdist(X, X[first[-1:]], "sqeuclidean"))
    rest = np.ones(len(X), dtype=bool)
    rest[first] = False
    return np.concatenate([np.array(first, dtype=np.intp), np.flatnonzero(rest)])
