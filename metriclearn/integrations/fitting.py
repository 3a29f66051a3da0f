"""Fit a segmenter to data sets with or without labels. The adapters share this function."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from metriclearn import Segmenter
from metriclearn.baselines import BayesianCriterion, Euclidean, TunedSegmenter
from metriclearn.running import Of, OneOf, Real

_LEARNER = Of("predict", "Segmenter()", optional=True)
_PENALTY = OneOf(None, Real())


def fit_segmenter(adapter: Any, arrays: Sequence[NDArray], labels: Sequence[Any] | None) -> Any:
    """Return a fitted segmenter with ``predict`` and ``predict_change_points``.

    With labels, a clone of the learner is fitted. Without labels, a fitted learner is used as it
    is. A learner that is not fitted is replaced by the Euclidean metric of standardized features.

    Parameters
    ----------
    adapter : object with the attributes ``learner`` and ``penalty``
        ``learner`` is a segmenter of metriclearn, by default a :class:`~metriclearn.Segmenter` that
        can follow streams. ``penalty`` ≥ 0 is used if there are neither labels nor a fitted
        learner. This is the penalty of a segment in
        units of squared standard deviations, by default the penalty of the BIC.
    arrays : sequence of (T_i, P) arrays
    labels : sequence of (T_i,) labels, optional
        Labels of the samples, −1 where they are unknown.

    Raises
    ------
    ValueError
        If a parameter has a wrong type or value, or data or labels cannot be used.
    """
    learner, penalty = adapter.learner, adapter.penalty
    _LEARNER.check(type(adapter).__name__, "learner", learner)
    _PENALTY.check(type(adapter).__name__, "penalty", penalty)
    if labels is not None:
        wanted = Segmenter(for_streams=True) if learner is None else clone(learner)
        return wanted.fit(arrays, labels)
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
