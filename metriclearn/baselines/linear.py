"""Metrics from covariances: estimators with ``fit(X, y)`` and ``components_`` = Lᵀ."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from metriclearn.forms import center
from metriclearn.inputs import DataSets, read_data_sets, read_segmentations

__all__ = ["Euclidean", "PrincipalComponents", "RelevantComponents"]


class Euclidean(BaseEstimator):
    """Features divided by their pooled within-sequence standard deviation.

    Parameters
    ----------
    standardize : bool
        False leaves the features as they are.
    """

    def __init__(self, standardize: bool = True) -> None:
        self.standardize = standardize

    def fit(self, X: Any, y: Any = None) -> Self:
        """Compute the standard deviations; y is not used."""
        data = read_data_sets(type(self).__name__, X)
        scale = _scale(_covariance(data)) if self.standardize else np.ones(data.n_features)
        self.components_ = np.diag(1.0 / scale)
        return self


class PrincipalComponents(BaseEstimator):
    """Leading principal components of the standardized, centered sequences, pooled.

    Parameters
    ----------
    n_components : int
        Capped at the number of features.
    whiten : bool
        Divide every component by its standard deviation.
    """

    def __init__(self, n_components: int = 10, whiten: bool = False) -> None:
        self.n_components = n_components
        self.whiten = whiten

    def fit(self, X: Any, y: Any = None) -> Self:
        """Diagonalize the pooled correlation matrix, O(P³); y is not used."""
        if self.n_components < 1:
            raise ValueError(
                f"PrincipalComponents needs n_components of at least 1, got {self.n_components}."
            )
        covariance = _covariance(read_data_sets(type(self).__name__, X))
        scale = _scale(covariance)
        values, vectors = np.linalg.eigh(covariance / np.outer(scale, scale))
        leading = np.argsort(-values)[: self.n_components]
        directions = vectors[:, leading]
        if self.whiten:
            directions = directions / np.sqrt(np.maximum(values[leading], 1e-12 * values.max()))
        self.components_ = directions.T / scale
        return self


class RelevantComponents(BaseEstimator):
    """Whiten the within-segment covariance (RCA, Bar-Hillel et al. 2003; segments as chunklets).

    Parameters
    ----------
    n_components : int, optional
        Keep the directions with the least within-segment share of the total variance (Fisher).
    diagonal : bool
        Use only variances: one weight per feature.
    shrinkage : float
        Share of the diagonal mixed into the covariance, for few samples.
    """

    def __init__(
        self, n_components: int | None = None, diagonal: bool = False, shrinkage: float = 1e-3
    ) -> None:
        self.n_components = n_components
        self.diagonal = diagonal
        self.shrinkage = shrinkage

    def fit(self, X: Any, y: Any) -> Self:
        """Whiten within the segments of y, O(P³)."""
        data = read_data_sets(type(self).__name__, X)
        truths = read_segmentations(type(self).__name__, y, data)
        within = sum(
            (array - truth.project(array)).T @ (array - truth.project(array))
            for array, truth in zip(data.arrays, truths)
        ) / sum(map(len, data.arrays))
        variances = np.diag(within)
        floor = 1e-12 * np.diag(_covariance(data))
        if self.diagonal:
            self.components_ = np.diag(1.0 / np.sqrt(np.maximum(variances, floor)))
            return self
        mixed = (1 - self.shrinkage) * within + np.diag(self.shrinkage * variances + floor)
        self.components_ = self._whitened(mixed, _covariance(data))
        return self

    def _whitened(self, within: NDArray, total: NDArray) -> NDArray:
        """Directions V with Vᵀ within V = I, those with the most total variance first."""
        ratios, directions = scipy.linalg.eigh(total, within)
        return directions[:, np.argsort(-ratios)[: self.n_components]].T


def _covariance(data: DataSets) -> NDArray:
    """Pooled covariance around the sequence means."""
    return sum(center(array).T @ center(array) for array in data.arrays) / sum(
        map(len, data.arrays)
    )


def _scale(covariance: NDArray) -> NDArray:
    scale = np.sqrt(np.diag(covariance))
    if np.any(scale == 0):
        raise ValueError(
            "A baseline metric needs features that vary, but feature(s) "
            f"{np.flatnonzero(scale == 0)[:5].tolist()} are constant; remove them."
        )
    return scale
