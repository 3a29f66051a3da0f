"""Joint features of data and partition: what makes the score linear in w."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from metriclearn.forms import Form, LowRankForm, cumulative_sums
from metriclearn.mahalanobis import Metric
from metriclearn.partition import Partition

__all__ = ["JointFeatures", "LinearFeatures", "Samples"]


class Samples:
    """One data set, with what is computed from it only once.

    Parameters
    ----------
    X : array (T, P)
        Observations; used centered, which changes no objective and keeps sums accurate.
    """

    def __init__(self, X: NDArray) -> None:
        self.n_samples, self.n_features = X.shape
        self._X = X

    @cached_property
    def cumulative(self) -> NDArray:
        """Cumulative sums of the centered observations, (T+1, P)."""
        return cumulative_sums(self._X)

    def pooled(self, partition: Partition) -> NDArray:
        """(YᵀY)^(-1/2) YᵀX, (K, P): its Gram matrix is XᵀMX. O(KP) for segments."""
        if partition.contiguous:
            sums = np.diff(self.cumulative[partition.change_points], axis=0, prepend=0.0)
        else:
            sums = partition.pool(np.diff(self.cumulative, axis=0))
        return sums / np.sqrt(partition.sizes)[:, None]


class JointFeatures(Protocol):
    """A form that is linear in w, and its gradient."""

    metric: Metric

    def at(self, w: NDArray) -> Callable[[Samples], Form]:
        """The forms A of data sets under the metric coordinates w."""
        ...

    def gradient(self, samples: Samples, w: NDArray, partition: Partition) -> NDArray:
        """d⟨A, M⟩/dw, exact."""
        ...


class LinearFeatures:
    """A = XBXᵀ, so that ⟨A, M⟩ = ⟨B, XᵀMX⟩ (Eq. 5 to 7).

    ``at`` factors B once, and every form costs one product (T, P)×(P, r); ``gradient`` O(KP) for
    a diagonal metric and O(KP²) for a full one.
    """

    def __init__(self, metric: Metric) -> None:
        self.metric = metric

    def at(self, w: NDArray) -> Callable[[Samples], LowRankForm]:
        components = self.metric.components(w)
        if len(components) == 0:
            components = np.zeros((1, components.shape[1]))

        def form(samples: Samples) -> LowRankForm:
            return LowRankForm.from_cumulative(_times_transpose(samples.cumulative, components))

        return form

    def form(self, samples: Samples, w: NDArray) -> LowRankForm:
        """The form of one data set."""
        return self.at(w)(samples)

    def gradient(self, samples: Samples, w: NDArray, partition: Partition) -> NDArray:
        return self.metric.coordinates(samples.pooled(partition))


def _times_transpose(cumulative: NDArray, components: NDArray) -> NDArray:
    """cumulative @ components.T, by columns where every component weighs a single feature."""
    if np.count_nonzero(components) == len(components):
        features = np.argmax(components != 0, axis=1)
        return cumulative[:, features] * components[np.arange(len(components)), features]
    return cumulative @ components.T
