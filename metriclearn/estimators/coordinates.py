"""What learners in other coordinates share: B = WᵀCW, where a first metric WᵀW is known."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metriclearn.estimators.change_points import ChangePointMetricLearner
from metriclearn.estimators.inputs import read_data_sets, read_segmentations, read_weights
from metriclearn.estimators.segmenter import MahalanobisSegmenter
from metriclearn.oracles.best_penalty import best_penalty
from metriclearn.problem.forms import LowRankForm, center
from metriclearn.problem.partition import Partition
from metriclearn.running.parameters import check_parameters
from metriclearn.solvers.base import Solution

__all__ = ["LearnerInCoordinates"]


class LearnerInCoordinates(MahalanobisSegmenter, ABC):
    """Learn C of B = WᵀCW with large margin from the coordinates X Wᵀ.

    A subclass has the parameters ``learner``, of C, and ``retune``, and computes W in
    :meth:`_coordinates`; it may change the learner in :meth:`_inner`.
    """

    learner: ChangePointMetricLearner
    retune: bool
    learner_: ChangePointMetricLearner

    @property
    def min_size(self) -> int:  # type: ignore[override]
        """Smallest number of samples in a segment: the inner learner's."""
        return self.learner.min_size

    @property
    def n_segments(self) -> str | None:  # type: ignore[override]
        """Whether the number of segments is given: the inner learner's."""
        return self.learner.n_segments

    @property
    def solution_(self) -> Solution:
        """What the inner learner's solver found."""
        return self.learner_.solution_

    @abstractmethod
    def _coordinates(self, arrays: list[NDArray], truths: list[Partition]) -> NDArray:
        """W, (r, P)."""

    def _inner(self, coordinates: list[NDArray], truths: list[Partition]) -> Any:
        """The learner of C, not fitted."""
        from sklearn.base import clone

        return clone(self.learner)

    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Find W, then learn C; parameters as in :class:`ChangePointMetricLearner`.

        All sequences of positive weight count alike in W, and by their weights in C. Columns that
        are constant in every sequence get no weight.

        Raises
        ------
        ValueError
            For data, labels or parameters that cannot be used, in one sentence.
        """
        check_parameters(self)
        who = type(self).__name__
        data = read_data_sets(who, X)
        truths = read_segmentations(who, y, data)
        self._remember(data)
        weights = read_weights(who, sample_weight, len(truths))
        used = range(len(truths)) if weights is None else np.flatnonzero(weights).tolist()
        varies = np.any([np.ptp(data.arrays[i], axis=0) > 0 for i in used], axis=0)
        if not varies.any():
            raise ValueError(
                f"{who} needs features that vary within some sequence, but all "
                f"{data.n_features} are constant; pass other features."
            )
        spread = np.max([np.ptp(array, axis=0) for array in data.arrays], axis=0)[varies]
        if spread.min() < 1e-50 or spread.max() > 1e50:
            raise ValueError(
                f"{who} needs features that spread over 1e-50 to 1e50, got {spread.min():.3g} to "
                f"{spread.max():.3g}; rescale them."
            )
        arrays = [array[:, varies] for array in data.arrays]
        W = self._coordinates([arrays[i] for i in used], [truths[i] for i in used])
        coordinates = [center(array) @ W.T for array in arrays]
        self.learner_ = self._inner(coordinates, truths).fit(coordinates, truths, sample_weight)
        self.components_: NDArray = np.zeros((len(self.learner_.components_), data.n_features))
        self.components_[:, varies] = self.learner_.components_ @ W
        self.penalty_ = self.learner_.penalty_
        if self.retune and self.penalty_ is not None and len(self.components_):
            pairs = [(data.arrays[i], truths[i]) for i in used]
            forms = [LowRankForm(center(array) @ self.components_.T) for array, _ in pairs]
            self.penalty_, _ = best_penalty(
                forms, [truth for _, truth in pairs], min_size=self.min_size
            )
        return self
