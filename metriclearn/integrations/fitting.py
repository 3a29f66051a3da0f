"""What adapters share: a segmenter from labeled data sets, or from ones without labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from metriclearn.baselines.predictors import TunedSegmenter
from metriclearn.estimators.change_points import ChangePointMetricLearner
from metriclearn.estimators.linear import Euclidean
from metriclearn.estimators.penalty import BayesianCriterion


def fit_segmenter(
    learner: Any, penalty: float | None, arrays: Sequence[NDArray], labels: Sequence[Any] | None
) -> Any:
    """A fitted segmenter with ``predict`` and ``predict_change_points``.

    With labels, a clone of the learner is fitted. Without, a learner that is fitted already is
    taken as it is; any other gives way to the Euclidean metric of standardized features, whose
    price of a segment is ``penalty`` or, by default, that of the BIC.

    Parameters
    ----------
    learner : estimator or None
        A :class:`~metriclearn.ChangePointMetricLearner` with its defaults for None.
    penalty : float ≥ 0, optional
        In units of squared standard deviations.
    arrays : sequence of (T_i, P) arrays
    labels : sequence of (T_i,) labels, optional
        −1 where unknown.
    """
    if labels is not None:
        return clone(ChangePointMetricLearner() if learner is None else learner).fit(arrays, labels)
    if learner is not None:
        try:
            check_is_fitted(learner)
        except NotFittedError:
            pass
        else:
            return learner
    if penalty is None:
        return BayesianCriterion(representation=Euclidean()).fit(arrays)
    return TunedSegmenter(penalty=penalty).fit(arrays)
