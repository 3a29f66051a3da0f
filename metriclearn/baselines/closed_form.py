"""The closed-form metric for supervised clustering of Law, Yu, Cord & Xing (CVPR 2016)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from metriclearn.baselines.standardized import StandardizedMetric
from metriclearn.problem.partition import Partition
from metriclearn.running.parameters import Real


@dataclass(eq=False, repr=False)
class ClosedFormMetric(StandardizedMetric):
    """The metric L = X†J, which regresses J = Y(YᵀY)^(-1/2) on the features X (MLCA).

    Column k of Y is 1 for the samples of cluster k and 0 for others, so the columns of J are scaled
    indicators of the clusters. The metric minimizes
    ‖XBXᵀ − N‖²_F over B ⪰ 0, so the similarities XBXᵀ come as close as possible to the truth N =
    JJᵀ. Data are centered per data set and standardized, as in a regression with intercepts.
    Several data sets are stacked, and each has separate clusters. The cost is O(TP² + P³), which is
    linear in T.

    Parameters
    ----------
    ridge : float ≥ 0
        Added to the diagonal of the correlations (P, P), as in ridge regression. With 0, the
        pseudo-inverse is used, as in the paper.

    Attributes
    ----------
    components_ : array (r, P)
        Lᵀ with B = LLᵀ.

    Raises
    ------
    ValueError
        If parameters, data or labels are unusable, or the metric is used before ``fit``.

    References
    ----------
    Law, Yu, Cord & Xing, Closed-form training of Mahalanobis distance for supervised clustering,
    CVPR 2016.
    """

    ridge: Annotated[float, Real()] = 0.0

    def _learn(self, arrays: list[NDArray], truths: list[Partition]) -> NDArray:
        ridge = self.ridge * sum(map(len, arrays)) * np.eye(arrays[0].shape[1])
        squares = sum(array.T @ array for array in arrays) + ridge
        targets = np.vstack([truth.root(array) for array, truth in zip(arrays, truths)])  # JᵀX
        return targets @ scipy.linalg.pinvh(squares)
