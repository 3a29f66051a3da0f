"""Metrics from covariances: estimators with ``fit(X, y)`` and ``components_`` = Lᵀ."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from sklearn.utils import Tags

from metriclearn.estimators.inputs import (
    DataSets,
    read_data_sets,
    read_partial_clusterings,
    read_segmentations,
)
from metriclearn.estimators.learned_metric import LearnedMetric
from metriclearn.problem.forms import center
from metriclearn.problem.knowledge import PartialPartition
from metriclearn.problem.partition import Partition
from metriclearn.solvers.base import check_number

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
        who = type(self).__name__
        check_number(who, "n_components", self.n_components, 1, whole=True)
        data = read_data_sets(who, X)
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

    Ĉ = Σ_k Σ_{x∈C_k} (x − μ_k)(x − μ_k)ᵀ / N and B = Ĉ⁻¹. A chunklet is a group of samples known to
    belong together, with all labels a cluster; N samples are in chunklets.

    Parameters
    ----------
    n_components : int, optional
        Keep the directions with the least within-segment share of the total variance (Fisher).
    diagonal : bool
        Use only variances: one weight per feature.
    shrinkage : float in [0, 1]
        Share of the diagonal mixed into the covariance, for few samples.
    contiguous : bool
        How labels that are no Partition are read: each run of equal labels is a chunklet, as in
        sequences, or, with False, all samples of a label, as in tables, −1 being in no chunklet;
        a PartialPartition then gives chunklets by its labels and its same spans.

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
        """Whiten within the chunklets of y, O(TP² + P³).

        Raises
        ------
        ValueError
            For data, labels or parameters that cannot be used, or if no chunklet has two samples.
        """
        who = type(self).__name__
        self._check_parameters(who)
        data = read_data_sets(who, X)
        if self.contiguous:
            truths, n_known = read_segmentations(who, y, data), int(sum(data.lengths))
        else:
            truths, n_known = read_chunklets(who, y, data)
        if all(truth.n_clusters == truth.n_samples for truth in truths):
            raise ValueError(
                f"{who} needs two samples or more in some chunklet, but no two of the "
                f"{sum(data.lengths)} samples are labeled as belonging together; label some."
            )
        self._remember(data)
        within = within_covariance(data, truths, n_known)
        variances = np.diag(within)
        floor = 1e-12 * feature_scale(data) ** 2
        if self.diagonal:
            self.components_ = np.diag(1.0 / np.sqrt(np.maximum(variances, floor)))
            return self
        mixed = (1 - self.shrinkage) * within + np.diag(self.shrinkage * variances + floor)
        self.components_ = self._whitened(mixed, pooled_covariance(data))
        return self

    def _check_parameters(self, who: str) -> None:
        if self.n_components is not None:
            check_number(who, "n_components", self.n_components, 1, whole=True)
        share = self.shrinkage
        number = isinstance(share, numbers.Real) and not isinstance(share, bool)
        if not number or not 0.0 <= float(share) <= 1.0:
            raise ValueError(f"{who} needs a shrinkage between 0 and 1, got {share!r}.")

    def _whitened(self, within: NDArray, total: NDArray) -> NDArray:
        """Directions V with Vᵀ within V = I, those with the most total variance first."""
        ratios, directions = scipy.linalg.eigh(total, within)
        return directions[:, np.argsort(-ratios)[: self.n_components]].T


def pooled_covariance(data: DataSets) -> NDArray:
    """Covariance around the means of the data sets, pooled, (P, P)."""
    return sum(center(array).T @ center(array) for array in data.arrays) / sum(
        map(len, data.arrays)
    )


def within_covariance(data: DataSets, truths: list[Partition], n_samples: int) -> NDArray:
    """Covariance around the means of the clusters, of ``n_samples`` in all, pooled, (P, P)."""
    residuals = [array - truth.project(array) for array, truth in zip(data.arrays, truths)]
    return sum(rows.T @ rows for rows in residuals) / n_samples


def check_pairs(who: str, truths: Sequence[Partition]) -> None:
    """Raise unless two samples of a data set are in different clusters, and two in the same."""
    if all(truth.n_clusters < 2 for truth in truths):
        raise ValueError(
            f"{who} needs a data set with two clusters or more, got 1 class in each of the "
            f"{len(truths)} data set(s)."
        )
    if all(truth.n_clusters == truth.n_samples for truth in truths):
        raise ValueError(
            f"{who} needs a pair of samples with the same label, but in each of the "
            f"{len(truths)} data set(s) all labels differ; label more samples."
        )


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


def read_chunklets(who: str, y: Any, data: DataSets) -> tuple[list[Partition], int]:
    """Chunklets of equal labels, a sample labeled −1 alone, and how many samples are in chunklets.

    Raises
    ------
    ValueError
        As :func:`metriclearn.estimators.inputs.read_partial_clusterings`.
    """
    chunklets = [_chunklets(known) for known in read_partial_clusterings(who, y, data)]
    n_known = sum(int(np.count_nonzero(codes >= 0)) for codes in chunklets)
    return [_alone(codes) for codes in chunklets], n_known


def _chunklets(known: Partition | PartialPartition) -> NDArray[np.int64]:
    """A code for every chunklet, −1 outside: labels, joined by spans that are the same."""
    codes = known.labels.copy()
    for start, stop in known.same if isinstance(known, PartialPartition) else ():
        joined = np.unique(codes[start:stop])
        joined = joined[joined >= 0]
        code = joined[0] if len(joined) else codes.max() + 1
        codes[np.isin(codes, joined)] = code
        codes[start:stop] = code
    return codes


def _alone(codes: NDArray[np.int64]) -> Partition:
    """The clusters of equal codes, each sample of −1 being its own."""
    outside = np.flatnonzero(codes < 0)
    codes[outside] = codes.max() + 1 + np.arange(len(outside))
    return Partition.from_labels(codes)


def _without_labels(tags: Tags) -> Tags:
    tags.target_tags.required = False
    return tags
