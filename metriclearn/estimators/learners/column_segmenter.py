"""ColumnSegmenter: a learner of change-points that reads only some of the features."""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter
from typing import Annotated, Any, Self

import numpy as np
from sklearn.base import clone

from metriclearn.estimators.labelings import read_labeled
from metriclearn.estimators.scores.segment_score import SegmentScore
from metriclearn.estimators.scores.segmenting import MahalanobisSegmenter
from metriclearn.running.parameters import Of, Whole


@dataclass(eq=False, repr=False)
class ColumnSegmenter(MahalanobisSegmenter):
    """Learn from the features X[:, start:stop] only. All other features get the weight 0.

    This class is useful if different learners must read different columns of a data set. For
    example, one learner reads raw signals, and another one features that were computed from these
    signals.

    Parameters
    ----------
    learner : segmenter with a metric
    start, stop : int
        The learner reads the features with the indices start … stop − 1.

    Attributes
    ----------
    learner_ : fitted learner
    components_ : array (r, P)
        The metric of the learner, with zeros for the features that it does not read.
    penalty_ : float or None
        The penalty of the learner.

    Raises
    ------
    ValueError
        For parameters, data or labels that cannot be used, and for predictions before ``fit``.

    See Also
    --------
    metriclearn.encoders.Columns : selects columns for encoders.

    Examples
    --------
    >>> from metriclearn import ChangePointMetricLearner, ColumnSegmenter
    >>> from metriclearn.datasets import make_change_points
    >>> data = make_change_points(3, 100, 6, 2, (3, 4), random_state=0)
    >>> first = ColumnSegmenter(ChangePointMetricLearner(), 0, 2).fit(data.sequences, data.labels)
    >>> first.components_.shape[1]
    6
    """

    learner: Annotated[MahalanobisSegmenter, Of(MahalanobisSegmenter, "ChangePointMetricLearner()")]
    start: Annotated[int, Whole(0)]
    stop: Annotated[int, Whole(1)]

    # Besides the metric, prediction uses these parameters of the inner learner.
    min_size = property(attrgetter("learner.min_size"))  # type: ignore[assignment]
    n_segments = property(attrgetter("learner.n_segments"))  # type: ignore[assignment]

    @property
    def solution_(self) -> Any:
        """The solution of the inner learner, if it has a solver."""
        return self.learner_.solution_

    def fit(self, X: Any, y: Any) -> Self:
        """Fit the learner to its features. X and y are the same as for the ``fit`` of the learner.

        Raises
        ------
        ValueError
            If there are fewer features than ``stop``, or if the learner cannot use data or labels.
        """
        fitted, data, truths = read_labeled(self, X, y, segments=True, partial=True)
        if not self.start < self.stop <= data.n_features:
            raise ValueError(
                f"ColumnSegmenter needs start < stop ≤ {data.n_features} features, got "
                f"{self.start} and {self.stop}."
            )
        arrays = [array[:, self.start : self.stop] for array in data.arrays]
        fitted.learner_ = clone(self.learner).fit(arrays, truths)
        inner = fitted.learner_.components_
        components = np.zeros((len(inner), data.n_features))
        components[:, self.start : self.stop] = inner
        fitted.score_ = SegmentScore(components, fitted.learner_.penalty_, min_size=self.min_size)
        self.__dict__ = fitted.__dict__
        return self
