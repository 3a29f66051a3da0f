"""scikit-learn's neighborhood components analysis with the contract of this package's metrics."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from metriclearn.baselines.linear import check_pairs, feature_scale
from metriclearn.estimators.inputs import read_clusterings, read_data_sets
from metriclearn.estimators.learned_metric import LearnedMetric
from metriclearn.problem.forms import center
from metriclearn.solvers.base import check_number

__all__ = ["NeighborhoodComponents"]


class NeighborhoodComponents(LearnedMetric):
    """Neighborhood components analysis (Goldberger et al., NIPS 2004), by scikit-learn.

    Learns L by gradient ascent on the expected accuracy of stochastic nearest neighbors, which is
    not convex. Data are centered per data set and standardized; clusters of different data sets
    are different classes. A step costs O(n²P) time and O(n²) memory, n ≤ ``max_samples``.

    Parameters
    ----------
    n_components : int, optional
        Rank of the metric, capped at P; P by default.
    init : str or array (r, P)
        Where the ascent begins, see scikit-learn's NeighborhoodComponentsAnalysis.
    max_samples : int
        A larger training set is thinned at random to so many samples, every class by the same
        share and to one sample at least.
    max_iter : int
    tol : float
    random_state : int, RandomState or None

    Attributes
    ----------
    n_iter_ : int
    """

    def __init__(
        self,
        n_components: int | None = None,
        *,
        init: str | NDArray = "auto",
        max_samples: int = 2000,
        max_iter: int = 50,
        tol: float = 1e-5,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_components = n_components
        self.init = init
        self.max_samples = max_samples
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Learn from the clusters of y.

        Parameters
        ----------
        X : (T, P) array or sequence of them
        y : (T,) labels, any hashables, or Partition, for each of them

        Raises
        ------
        ValueError
            For data, labels or parameters that cannot be used, or if no data set has two clusters,
            or no cluster two samples.
        """
        from sklearn.neighbors import NeighborhoodComponentsAnalysis
        from sklearn.utils import check_random_state

        who = type(self).__name__
        self._check_parameters(who)
        data = read_data_sets(who, X)
        truths = read_clusterings(who, y, data)
        self._remember(data)
        scale = feature_scale(data)
        check_pairs(who, truths)
        random = check_random_state(self.random_state)
        first = np.cumsum([0, *(truth.n_clusters for truth in truths)])
        labels = np.concatenate([truth.labels + k for truth, k in zip(truths, first)])
        rows = np.vstack([center(array) / scale for array in data.arrays])
        kept = _thinned(labels, self.max_samples, random)
        rank = None if self.n_components is None else min(self.n_components, data.n_features)
        inner = NeighborhoodComponentsAnalysis(
            rank,
            init=self.init,
            max_iter=self.max_iter,
            tol=self.tol,
            random_state=random,
        ).fit(rows[kept], labels[kept])
        self.n_iter_ = int(inner.n_iter_)
        self.components_ = inner.components_ / scale
        return self

    def _check_parameters(self, who: str) -> None:
        check_number(who, "max_samples", self.max_samples, 2, whole=True)
        check_number(who, "max_iter", self.max_iter, 1, whole=True)
        check_number(who, "tol", self.tol, 0)
        if self.n_components is not None:
            check_number(who, "n_components", self.n_components, 1, whole=True)


def _thinned(labels: NDArray, most: int, random: np.random.RandomState) -> NDArray[np.int64]:
    """Indices of at most about ``most`` samples, the same share of every class."""
    if len(labels) <= most:
        return np.arange(len(labels))
    share = most / len(labels)
    parts = [np.flatnonzero(labels == label) for label in range(labels.max() + 1)]
    chosen = [random.choice(p, max(1, round(share * len(p))), replace=False) for p in parts]
    return np.sort(np.concatenate(chosen))
