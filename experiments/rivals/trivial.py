"""Trivial baselines: predictions that ignore the data, which a method must beat."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from metriclearn.baselines import Euclidean


class Ramp(BaseEstimator):
    """Replace every sample by its index. A search for change-points then cuts every sequence into
    segments of equal length."""

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn nothing."""
        return self

    def transform(self, X: NDArray) -> NDArray[np.float64]:
        """Return the column 0, 1, …, T − 1, divided by a hundred, (T, 1)."""
        return np.arange(len(X), dtype=float)[:, None] / 100


class OneCluster(Euclidean):
    """Put all samples into one cluster, whatever number of clusters is given."""


class OneRegion(BaseEstimator):
    """Make every image one region."""

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn nothing."""
        return self

    def predict(self, X: Sequence[Any], n_clusters: Any = None) -> list[NDArray]:
        """Return label maps of zeros."""
        return [np.zeros_like(nodes.segments) for nodes in X]
