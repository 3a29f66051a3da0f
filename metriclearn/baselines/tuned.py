"""Change-point detection with a baseline metric and the penalty that suits the training data."""

from __future__ import annotations

from typing import Any, Self

from sklearn.base import BaseEstimator, clone

from metriclearn.baselines.linear import Euclidean
from metriclearn.estimators.inputs import read_data_sets, read_segmentations
from metriclearn.estimators.segmenter import MahalanobisSegmenter
from metriclearn.oracles.best_penalty import best_penalty
from metriclearn.problem.forms import LowRankForm, center

__all__ = ["TunedSegmenter"]


class TunedSegmenter(MahalanobisSegmenter):
    """A metric fitted by ``baseline``, with the penalty of least training loss, found exactly.

    Parameters
    ----------
    baseline : estimator with ``fit(X, y)`` and ``components_``
    n_segments : None or "given"
    min_size : int
    """

    def __init__(
        self,
        baseline: BaseEstimator = Euclidean(),  # noqa: B008  # cloned before use
        *,
        n_segments: str | None = None,
        min_size: int = 1,
    ) -> None:
        self.baseline = baseline
        self.n_segments = n_segments
        self.min_size = min_size

    def fit(self, X: Any, y: Any) -> Self:
        """Fit the metric, then choose the penalty on the same labeled sequences."""
        data = read_data_sets(type(self).__name__, X)
        truths = read_segmentations(type(self).__name__, y, data)
        self._remember(data)
        self.baseline_ = clone(self.baseline).fit(data.arrays, truths)
        self.components_ = self.baseline_.components_
        self.penalty_ = None
        if self.n_segments is None:
            forms = [LowRankForm(center(array) @ self.components_.T) for array in data.arrays]
            self.penalty_, self.training_loss_ = best_penalty(forms, truths, min_size=self.min_size)
        return self
