"""WhitenedMetricLearner: large-margin learning in coordinates whitened within segments."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metriclearn.baselines.linear import RelevantComponents
from metriclearn.forms import LowRankForm, center
from metriclearn.inputs import read_data_sets, read_segmentations
from metriclearn.learners.change_points import ChangePointMetricLearner
from metriclearn.penalties import best_penalty
from metriclearn.regularizers import SquaredFrobenius
from metriclearn.segmentation import MahalanobisSegmenter
from metriclearn.solvers.base import Solution

__all__ = ["WhitenedMetricLearner"]

_DEFAULT = ChangePointMetricLearner(regularizer=SquaredFrobenius(1.0), standardize=False)  # cloned


class WhitenedMetricLearner(MahalanobisSegmenter):
    """Eq. (9) in the coordinates of relevant component analysis: few sequences, many features.

    With W the whitening of the covariance within segments (RCA, directions ordered by how much
    they vary between segments), the metric is B = WᵀCW and C is learned with large margin. On
    correlated features, such as those of sound and pictures, a regularized C near a multiple of
    the identity is a far better start than a regularized B: W takes off what varies for reasons
    that do not concern the labels. Cost: O(P³) and that of the inner learner.

    Parameters
    ----------
    learner : ChangePointMetricLearner
        Learns C; ``standardize=False`` keeps the whitened units.
    shrinkage : float
        Share of the diagonal in the covariance within segments, see :class:`RelevantComponents`.
    n_components : int, optional
        Keep only the directions that vary most between segments, relative to within.
    retune : bool
        After learning, set the penalty to that of least training loss (exactly).

    Attributes
    ----------
    components_ : array (r, P)
    penalty_ : float or None
    learner_ : ChangePointMetricLearner
        Fitted in whitened coordinates.
    solution_ : Solution
        Its certificate.
    """

    def __init__(
        self,
        learner: ChangePointMetricLearner = _DEFAULT,
        *,
        shrinkage: float = 0.1,
        n_components: int | None = None,
        retune: bool = False,
    ) -> None:
        self.learner = learner
        self.shrinkage = shrinkage
        self.n_components = n_components
        self.retune = retune

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

    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Whiten, then learn; parameters as in :class:`ChangePointMetricLearner`.

        Columns that are constant in every sequence get no weight.

        Raises
        ------
        ValueError
            For data, labels or parameters that cannot be used, in one sentence.
        """
        from sklearn.base import clone

        who = type(self).__name__
        data = read_data_sets(who, X)
        truths = read_segmentations(who, y, data)
        self._remember(data)
        varies = np.any([np.ptp(array, axis=0) > 0 for array in data.arrays], axis=0)
        if not varies.any():
            raise ValueError(
                f"{who} needs features that vary within some sequence, but all "
                f"{data.n_features} are constant; pass other features."
            )
        arrays = [array[:, varies] for array in data.arrays]
        whitening = RelevantComponents(self.n_components, shrinkage=self.shrinkage)
        W = whitening.fit(arrays, truths).components_
        whitened = [center(array) @ W.T for array in arrays]
        self.learner_ = clone(self.learner).fit(whitened, truths, sample_weight)
        self.components_: NDArray = np.zeros((len(self.learner_.components_), data.n_features))
        self.components_[:, varies] = self.learner_.components_ @ W
        self.penalty_ = self.learner_.penalty_
        if self.retune and self.penalty_ is not None and len(self.components_):
            forms = [LowRankForm(center(array) @ self.components_.T) for array in data.arrays]
            self.penalty_, _ = best_penalty(forms, truths, min_size=self.min_size)
        return self
