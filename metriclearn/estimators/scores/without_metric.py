"""What all segmenters have: they read data, and are scored by their loss."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from metriclearn.estimators.reading.data_sets import DataSets, read_new
from metriclearn.estimators.reading.labels import read_labelings, read_weights
from metriclearn.problem.losses import KnownLoss
from metriclearn.running.components import ComponentParameters


class ScoredByLoss:
    """Gives a segmenter the method ``score``.

    Subclasses define ``read_data``, and ``segmented``, which returns a partition for every data
    set. With ``n_segments="given"``, it gets their numbers of segments.
    """

    n_segments: str | int | None = None
    read_data: Callable[[Any], DataSets]
    segmented: Callable[..., list[Any]]

    def score(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> float:
        """Return minus the mean loss ℓ = ‖M − N‖²_F / T. The best score is 0.

        N is the segmentation by the labels y. With ``n_segments="given"`` the numbers of segments
        come from y. With partial labels only the labeled parts count, see
        :class:`~metriclearn.problem.losses.KnownLoss`.
        """
        data, who, given = self.read_data(X), type(self).__name__, self.n_segments == "given"
        truths = read_labelings(who, y, data, segments=True, partial=not given)
        found = self.segmented(data, [truth.n_clusters for truth in truths] if given else None)
        losses = np.array(list(map(KnownLoss(), found, truths)))
        weights = read_weights(who, sample_weight, len(losses))
        return -float(np.average(losses, weights=weights))


class SegmenterWithoutMetric(ScoredByLoss, ComponentParameters):
    """A segmenter without a metric."""

    def read_data(self, X: Any) -> DataSets:
        """Read data sets, and check that they have the features of the training data."""
        return read_new(self, X)
