"""Base of metrics that are learned from clusters of centered and standardized data sets."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Self

from numpy.typing import NDArray

from metriclearn.estimators.learned_metric import LearnedMetric
from metriclearn.estimators.reading.labels import read_labeled
from metriclearn.problem.forms import center
from metriclearn.problem.partition import Partition
from metriclearn.views.columns import spread


class StandardizedMetric(LearnedMetric, ABC):
    """A metric learned from the clusters of standardized data sets. Subclasses define how."""

    def fit(self, X: Any, y: Any) -> Self:
        """Learn the metric from the clusters in ``y``.

        Parameters
        ----------
        X : (T, P) array or sequence of them
        y : (T,) hashable labels or a Partition, for each array of X

        Raises
        ------
        ValueError
            For data, labels or parameters that cannot be used.
        """
        fitted, data, truths = read_labeled(self, X, y, segments=False)
        data, varies = data.varying(fitted)
        scale = data.measures.pooled_deviation(type(self).__name__)
        arrays = [center(array) / scale for array in data.arrays]
        fitted.components_ = spread(fitted._learn(arrays, truths) / scale, varies)
        self.__dict__ = fitted.__dict__
        return self

    @abstractmethod
    def _learn(self, arrays: list[NDArray], truths: list[Partition]) -> NDArray:
        """Learn components (r, P) for features of mean 0 and pooled standard deviation 1."""


def check_pairs(who: str, truths: Sequence[Partition]) -> None:
    """Raise an error unless some data set has two clusters, and some cluster has two samples."""
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
