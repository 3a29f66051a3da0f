"""The methods of all segmenters without a metric: reading data and computing the score."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from metriclearn.estimators.reading.data_sets import DataSets, read_new
from metriclearn.estimators.reading.labels import read_labelings
from metriclearn.problem.losses import KnownLoss
from metriclearn.running.components import ComponentParameters


class SegmenterWithoutMetric(ComponentParameters):
    """Reads data and computes the score for a segmenter without a metric.

    Subclasses define ``segmented``, which returns a partition for every data set.
    """

    segmented: Callable[..., list[Any]]

    def read_data(self, X: Any) -> DataSets:
        """Read data sets, and check that they have the features of the training data."""
        return read_new(self, X)

    def score(self, X: Any, y: Any) -> float:
        """Return minus the mean loss ℓ = ‖M − N‖²_F / T of the segmentations. The best is 0."""
        data = self.read_data(X)
        truths = read_labelings(type(self).__name__, y, data, segments=True, partial=True)
        return -float(np.mean(list(map(KnownLoss(), self.segmented(data), truths))))
