"""K-means with a baseline metric."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, clone

from metriclearn.baselines.linear import Euclidean
from metriclearn.estimators.clusterer import MahalanobisClusterer
from metriclearn.estimators.inputs import read_clusterings, read_data_sets
from metriclearn.solvers.base import check_number

__all__ = ["MetricKMeans"]


class MetricKMeans(MahalanobisClusterer):
    """K-means on data transformed by a metric that ``baseline`` fits to labeled data.

    Parameters
    ----------
    baseline : estimator with ``fit(X, y)`` and ``components_``
    n_init : int
        K-means runs, of which the best is kept.
    random_state : int, RandomState or None

    Attributes
    ----------
    baseline_ : the fitted metric
    components_ : array (r, P)
    n_clusters_ : int or None
        K of the training sets, where they agree: what ``predict`` uses by default.
    """

    n_clusters = "given"

    def __init__(
        self,
        baseline: BaseEstimator = Euclidean(),  # noqa: B008  # cloned before use
        *,
        n_init: int = 10,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.baseline = baseline
        self.n_init = n_init
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Fit the metric; y holds the labels of one data set or of each of several.

        Raises
        ------
        ValueError
            For data, labels or parameters that cannot be used, in one sentence.
        """
        who = type(self).__name__
        check_number(who, "n_init", self.n_init, 1, whole=True)
        if isinstance(self.baseline, type) or not hasattr(self.baseline, "fit"):
            raise ValueError(f"{who} needs a baseline such as Euclidean(), got {self.baseline!r}.")
        data = read_data_sets(who, X)
        truths = read_clusterings(who, y, data)
        self._remember(data)
        self.baseline_ = clone(self.baseline).fit(data.arrays, truths)
        self.components_ = self.baseline_.components_
        self.penalty_ = None
        counts = {truth.n_clusters for truth in truths}
        self.n_clusters_ = counts.pop() if len(counts) == 1 else None
        return self
