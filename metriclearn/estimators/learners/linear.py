"""Estimators that compute a metric from covariances, and store it as ``components_`` = Lᵀ."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import Tags

from metriclearn.estimators.learned_metric import LearnedMetric
from metriclearn.estimators.reading.data_sets import DataSets
from metriclearn.estimators.reading.labels import read_labeled
from metriclearn.oracles.completion import groups_of
from metriclearn.problem.partial_labels import PartialPartition
from metriclearn.problem.partition import Partition
from metriclearn.running.parameters import OneOf, Real, Whole
from metriclearn.views.columns import spread
from metriclearn.views.whiten import covariances, principal_components, whitening


class MetricOfData(LearnedMetric, ABC):
    """Learn a metric without labels. Subclasses define ``_components(data)``, (r, P)."""

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn from one or several (T, P) arrays in at most O(TP² + P³); y is not used."""
        fitted, data, _ = read_labeled(self, X)
        data, varies = data.varying(fitted)
        fitted.components_ = spread(self._components(data), varies)
        self.__dict__ = fitted.__dict__
        return self

    @abstractmethod
    def _components(self, data: DataSets) -> NDArray:
        """Compute Lᵀ of the metric B = LLᵀ."""

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = False
        return tags


@dataclass(eq=False, repr=False)
class Euclidean(MetricOfData):
    """Divide features by their standard deviations within data sets.

    Each data set has a separate mean, and squared deviations are pooled over all data sets.

    Parameters
    ----------
    standardize : bool
        Whether features are divided. If False, they stay unchanged.

    Attributes
    ----------
    components_ : array (P, P)
        A diagonal matrix with the inverse standard deviations of the features. The entry is 0 for a
        feature that is constant in every data set.

    Raises
    ------
    ValueError
        For parameters, data or labels that cannot be used, and for predictions before ``fit``.

    References
    ----------
    Mahalanobis, On the generalised distance in statistics, 1936. ``Euclidean`` is the diagonal case
    of this distance.
    """

    standardize: bool = True

    def _components(self, data: DataSets) -> NDArray:
        if not self.standardize:
            return np.eye(data.n_features)
        return np.diag(1.0 / data.measures.pooled_deviation(type(self).__name__))


@dataclass(eq=False, repr=False)
class PrincipalComponents(MetricOfData):
    """Project on the leading principal components of all data sets together.

    Features are standardized, and each data set is centered.

    Parameters
    ----------
    n_components : int
        Number of components; all of them if there are fewer features.
    whiten : bool
        Divide every component by its standard deviation.

    Attributes
    ----------
    components_ : array (n_components, P)

    Raises
    ------
    ValueError
        For parameters, data or labels that cannot be used, and for predictions before ``fit``.

    References
    ----------
    Hotelling, Analysis of a complex of statistical variables into principal components, Journal of
    Educational Psychology 24, 1933.
    """

    n_components: Annotated[int, Whole(1)] = 10
    whiten: bool = False

    def _components(self, data: DataSets) -> NDArray:
        """Compute principal components of the standardized features, in the units of the data."""
        variances, components = principal_components(data.arrays, self.n_components)
        if not self.whiten:
            return components
        return components / np.sqrt(np.maximum(variances, 1e-12 * variances.max()))[:, None]


@dataclass(eq=False, repr=False)
class RelevantComponents(LearnedMetric):
    """Whiten the covariance within segments, clusters or chunklets (RCA, Bar-Hillel et al. 2003).

    The metric is B = Ĉ⁻¹ with the covariance Ĉ = Σ_k Σ_{x∈C_k} (x − μ_k)(x − μ_k)ᵀ / N. A chunklet
    C_k is a group of samples that are known to belong together, and μ_k is its mean. With full
    labels every cluster is a chunklet. N is the number of samples in chunklets.

    Parameters
    ----------
    n_components : int, optional
        Number of directions to keep. The directions with the smallest ratios of variance within
        chunklets to total variance (Fisher) are kept. By default all directions are kept.
    diagonal : bool
        Use only variances, so that the metric has one weight per feature. ``shrinkage`` and
        ``n_components`` are then ignored.
    shrinkage : float in [0, 1]
        s: Ĉ is replaced by (1 − s)Ĉ + s·(diagonal of Ĉ). Shrinkage is useful if there are few
        samples.
    contiguous : bool
        How labels that are not a Partition are read. True is for sequences: each run of equal
        labels is a chunklet, and each known segment of a PartialPartition is a chunklet. False is
        for tables: all samples with the same label form a chunklet, and the samples in a ``same``
        span of a PartialPartition belong together. All other samples are in no chunklet.

    Attributes
    ----------
    components_ : array (r, P)
        Lᵀ with B = LLᵀ.

    Raises
    ------
    ValueError
        For parameters, data or labels that cannot be used, and for predictions before ``fit``.

    References
    ----------
    Bar-Hillel, Hertz, Shental & Weinshall, Learning distance functions using equivalence
    relations, ICML 2003.
    """

    n_components: Annotated[int | None, OneOf(None, Whole(1))] = None
    diagonal: bool = False
    shrinkage: Annotated[float, Real(0, 1)] = 1e-3
    contiguous: bool = True

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the metric that whitens the covariance within the chunklets of y; O(TP² + P³).

        Raises
        ------
        ValueError
            For data, labels or parameters that cannot be used, or if no chunklet has two samples.
        """
        who = type(self).__name__
        fitted, data, knowns = read_labeled(self, X, y, segments=self.contiguous, partial=True)
        truths, counts = zip(*(_chunklets(known, self.contiguous) for known in knowns))
        if all(truth.n_clusters == truth.n_samples for truth in truths):
            runs, remedy = "", "label some"
            if self.contiguous:
                runs, remedy = " neighbors", "label some, or pass contiguous=False for a table"
            raise ValueError(
                f"{who} needs two samples or more in some chunklet, but no two{runs} of the "
                f"{sum(data.lengths)} samples are labeled as belonging together; {remedy}."
            )
        data, varies = data.varying(fitted)
        total, within = covariances(data.arrays, truths)
        # The covariance is a mean over the samples in chunklets.
        within *= sum(data.lengths) / sum(counts)
        if self.diagonal:
            variances = np.maximum(np.diag(within), 1e-12 * np.diag(total))
            components = np.diag(1.0 / np.sqrt(variances))
        else:
            components = whitening(total, within, self.shrinkage, self.n_components)
        fitted.components_ = spread(components, varies)
        self.__dict__ = fitted.__dict__
        return self


def _chunklets(known: Partition | PartialPartition, contiguous: bool) -> tuple[Partition, int]:
    """Return a partition into chunklets, and the number of samples in chunklets.

    Each sample that is in no chunklet forms a separate group of the partition.
    """
    if isinstance(known, Partition):
        return known, known.n_samples
    if contiguous:
        groups, count = np.arange(known.n_samples), 0
        for start, ends in known.pieces.stretches:
            sizes = np.diff(ends, prepend=start)
            groups[start : ends[-1]] = np.repeat(ends - 1, sizes)
            count += int(ends[-1]) - start
        return Partition.from_labels(groups), count
    # Samples in chunklets have a label, or lie in a span of equal samples.
    inside = known.labels >= 0
    for start, stop in known.same:
        inside[start:stop] = True
    return Partition.from_labels(groups_of(known)[0]), int(inside.sum())
