"""Metrics from covariances: estimators with ``fit(X, y)`` and ``components_`` = Lᵀ."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from sklearn.utils import Tags

from metriclearn.forms import center
from metriclearn.inputs import DataSets, read_clusterings, read_data_sets, read_segmentations
from metriclearn.learned_metric import LearnedMetric
from metriclearn.partition import Partition

__all__ = ["Euclidean", "PrincipalComponents", "RelevantComponents"]


class Euclidean(LearnedMetric):
    """Features divided by their standard deviation around the data sets' means, pooled.

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
        self._remember(data)
        scale = feature_scale(data) if self.standardize else np.ones(data.n_features)
        self.components_ = np.diag(1.0 / scale)
        return self

    def __sklearn_tags__(self) -> Tags:
        return _without_labels(super().__sklearn_tags__())


class PrincipalComponents(LearnedMetric):
    """Leading principal components of the standardized, centered data sets, pooled.

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
        data = read_data_sets(type(self).__name__, X)
        self._remember(data)
        scale = feature_scale(data)
        covariance = pooled_covariance(data)
        values, vectors = np.linalg.eigh(covariance / np.outer(scale, scale))
        leading = np.argsort(-values)[: self.n_components]
        directions = vectors[:, leading]
        if self.whiten:
            directions = directions / np.sqrt(np.maximum(values[leading], 1e-12 * values.max()))
        self.components_ = directions.T / scale
        return self

    def __sklearn_tags__(self) -> Tags:
        return _without_labels(super().__sklearn_tags__())


class RelevantComponents(LearnedMetric):
    """Whiten the covariance within segments, clusters or chunklets (RCA, Bar-Hillel et al. 2003).

    Ĉ = Σ_k Σ_{x∈C_k} (x − μ_k)(x − μ_k)ᵀ / T and B = Ĉ⁻¹. A chunklet is a group of samples known to
    belong together; with all labels it is a cluster.

    Parameters
    ----------
    n_components : int, optional
        Keep the directions with the least within-segment share of the total variance (Fisher).
    diagonal : bool
        Use only variances: one weight per feature.
    shrinkage : float
        Share of the diagonal mixed into the covariance, for few samples.
    contiguous : bool
        How labels that are no Partition are read: each run of equal labels is a chunklet, as in
        sequences, or, with False, all samples of a label, as in tables, −1 being in no chunklet.

    References
    ----------
    Bar-Hillel, Hertz, Shental & Weinshall, Learning distance functions using equivalence
    relations, ICML 2003.
    """

    def __init__(
        self,
        n_components: int | None = None,
        diagonal: bool = False,
        shrinkage: float = 1e-3,
        contiguous: bool = True,
    ) -> None:
        self.n_components = n_components
        self.diagonal = diagonal
        self.shrinkage = shrinkage
        self.contiguous = contiguous

    def fit(self, X: Any, y: Any) -> Self:
        """Whiten within the chunklets of y, O(TP² + P³)."""
        who = type(self).__name__
        data = read_data_sets(who, X)
        truths = (
            read_segmentations(who, y, data) if self.contiguous else read_chunklets(who, y, data)
        )
        self._remember(data)
        within = within_covariance(data, truths)
        variances = np.diag(within)
        floor = 1e-12 * feature_scale(data) ** 2
        if self.diagonal:
            self.components_ = np.diag(1.0 / np.sqrt(np.maximum(variances, floor)))
            return self
        mixed = (1 - self.shrinkage) * within + np.diag(self.shrinkage * variances + floor)
        self.components_ = self._whitened(mixed, pooled_covariance(data))
        return self

    def _whitened(self, within: NDArray, total: NDArray) -> NDArray:
        """Directions V with Vᵀ within V = I, those with the most total variance first."""
        ratios, directions = scipy.linalg.eigh(total, within)
        return directions[:, np.argsort(-ratios)[: self.n_components]].T


def pooled_covariance(data: DataSets) -> NDArray:
    """Covariance around the means of the data sets, pooled, (P, P)."""
    return sum(center(array).T @ center(array) for array in data.arrays) / sum(
        map(len, data.arrays)
    )


def within_covariance(data: DataSets, truths: list[Partition]) -> NDArray:
    """Covariance around the means of the clusters, pooled, (P, P)."""
    residuals = [array - truth.project(array) for array, truth in zip(data.arrays, truths)]
    return sum(rows.T @ rows for rows in residuals) / sum(map(len, residuals))


def feature_scale(data: DataSets) -> NDArray:
    """Standard deviations around the means of the data sets, pooled, (P,).

    Raises
    ------
    ValueError
        If a feature is constant in every data set.
    """
    n_samples = sum(map(len, data.arrays))
    magnitude = np.max([np.max(np.abs(array), axis=0) for array in data.arrays], axis=0)
    unit = np.where(magnitude > 0, magnitude, 1.0)  # keeps squares within range
    squares = sum(len(array) * np.var(array / unit, axis=0) for array in data.arrays)
    scale = np.sqrt(squares / n_samples)
    if n_samples == len(data.arrays) or np.any(scale <= 1e-13):
        raise ValueError(
            f"A baseline metric needs features that vary, got {n_samples} sample(s) in "
            f"{len(data.arrays)} data set(s), of which feature(s) "
            f"{np.flatnonzero(scale <= 1e-13)[:5].tolist()} are constant; remove them."
        )
    return scale * unit


def read_chunklets(who: str, y: Any, data: DataSets) -> list[Partition]:
    """Clusters of equal labels; a sample labeled −1 is a cluster of its own.

    Raises
    ------
    ValueError
        As :func:`metriclearn.inputs.read_clusterings`.
    """
    if y is None or not hasattr(y, "__len__"):
        return read_clusterings(who, y, data)
    labelings = [y] if data.single else list(y)
    separate = [
        labels if isinstance(labels, Partition) else _singled(labels) for labels in labelings
    ]
    return read_clusterings(who, separate[0] if data.single else separate, data)


def _singled(labels: Any) -> Any:
    if isinstance(labels, Partition):
        return labels
    array = np.asarray(labels)
    if array.ndim != 1 or array.dtype.kind not in "if" or not np.any(array == -1):
        return labels
    alone = array == -1
    codes = np.unique(array, return_inverse=True)[1]
    codes[alone] = len(codes) + np.arange(np.count_nonzero(alone))
    return codes


def _without_labels(tags: Tags) -> Tags:
    tags.target_tags.required = False
    return tags
