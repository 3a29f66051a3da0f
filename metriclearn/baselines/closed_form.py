"""The closed-form metric for supervised clustering of Law, Yu, Cord & Xing (CVPR 2016)."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import scipy.linalg

from metriclearn.baselines.linear import feature_scale
from metriclearn.estimators.inputs import read_clusterings, read_data_sets
from metriclearn.estimators.learned_metric import LearnedMetric
from metriclearn.problem.forms import center

__all__ = ["ClosedFormMetric"]


class ClosedFormMetric(LearnedMetric):
    """L = X†J with J = Y(YᵀY)^(-1/2): multivariate regression on the scaled assignments (MLCA).

    It minimizes ‖XBXᵀ − N‖²_F over B ⪰ 0, that is, it makes the truth N = JJᵀ the projection on the
    partitions of the similarities XBXᵀ (Theorem 3.2). Data are centered per data set and
    standardized, which is a regression with intercepts; several data sets are stacked, their
    clusters being different ones. O(TP² + P³), linear in T.

    Parameters
    ----------
    ridge : float ≥ 0
        Added to the correlations, as in ridge regression; 0 is the paper's pseudo-inverse.

    References
    ----------
    Law, Yu, Cord & Xing, Closed-form training of Mahalanobis distance for supervised clustering,
    CVPR 2016.
    """

    def __init__(self, ridge: float = 0.0) -> None:
        self.ridge = ridge

    def fit(self, X: Any, y: Any) -> Self:
        """Regress on the clusters of y.

        Parameters
        ----------
        X : (T, P) array or sequence of them
        y : (T,) labels, any hashables, or Partition, for each of them

        Raises
        ------
        ValueError
            For data, labels or a ridge that cannot be used, in one sentence.
        """
        who = type(self).__name__
        if not 0.0 <= self.ridge < np.inf:
            raise ValueError(f"{who} needs a finite ridge of at least 0, got {self.ridge!r}.")
        data = read_data_sets(who, X)
        truths = read_clusterings(who, y, data)
        self._remember(data)
        scale = feature_scale(data)
        arrays = [center(array) / scale for array in data.arrays]
        squares = sum(array.T @ array for array in arrays)
        targets = np.vstack([truth.root(array) for array, truth in zip(arrays, truths)])  # JᵀX
        if self.ridge == 0.0:
            inverse = scipy.linalg.pinvh(squares)
        else:
            n_samples = sum(map(len, arrays))
            inverse = np.linalg.inv(squares + self.ridge * n_samples * np.eye(len(squares)))
        self.components_ = targets @ inverse / scale
        return self
