"""What costs nothing: predictions that do not look at the data, which a method must beat."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from experiments.harness.comparison import squared_norm, truth_of
from metriclearn import Partition
from metriclearn.baselines import Euclidean

_MOST_LENGTHS = 100


@dataclass(eq=False, repr=False)
class EqualCuts(BaseEstimator):
    """Segments of equal length, chosen for the least mean ‖M − N‖² on the training sequences.

    For labels −1, only the labeled parts count.

    Parameters
    ----------
    n_segments : int, optional
        In every sequence, instead: 1 is a single segment.
    """

    n_segments: int | None = None

    def fit(self, X: Sequence[NDArray], y: Sequence[NDArray]) -> Self:
        """Try up to a hundred lengths; O(lengths · samples)."""
        truths = [truth_of(labels) for labels in y]
        longest = max(truth.n_samples for truth in truths)
        lengths = np.unique(np.geomspace(2, longest, _MOST_LENGTHS).round())
        losses = []
        for length in lengths:
            cuts = [_equal(truth.n_samples, round(truth.n_samples / length)) for truth in truths]
            losses.append(sum(map(squared_norm, cuts, truths)))
        self.length_ = float(lengths[np.argmin(losses)])
        return self

    def predict_change_points(self, X: Sequence[NDArray], n_segments: Any = None) -> list[NDArray]:
        """Ends of segments of the learned length, or of so many."""
        if n_segments is None:
            n_segments = [self.n_segments or round(len(x) / self.length_) for x in X]
        return [_equal(len(x), count).change_points for x, count in zip(X, n_segments)]


def _equal(n_samples: int, count: int) -> Partition:
    """So many segments, one at least, whose lengths differ by one sample at most."""
    count = min(max(count, 1), n_samples)
    return Partition(ends=np.linspace(0, n_samples, count + 1).round().astype(int)[1:])


class Ramp(BaseEstimator):
    """Sample numbers in place of the samples; their best segmentations are equal cuts."""

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learns nothing."""
        return self

    def transform(self, X: NDArray) -> NDArray[np.float64]:
        """0, 1, …, T − 1 over a hundred, (T, 1)."""
        return np.arange(len(X), dtype=float)[:, None] / 100


class OneCluster(Euclidean):
    """All samples are to be in one cluster, however many there are."""


class OneRegion(BaseEstimator):
    """Every image is one region."""

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learns nothing."""
        return self

    def predict(self, X: Sequence[Any], n_clusters: Any = None) -> list[NDArray]:
        """Label maps of zeros."""
        return [np.zeros_like(nodes.segments) for nodes in X]
