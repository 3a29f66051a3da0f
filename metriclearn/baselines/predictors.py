"""K-means and change-point detection with a metric that a baseline has learned."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any, Self

from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, clone

from metriclearn.estimators.learned_metric import MetricEstimator
from metriclearn.estimators.learners.linear import Euclidean
from metriclearn.estimators.reading.labels import (
    labels_of,
    read_labeled,
    refuse_unlabeled,
)
from metriclearn.estimators.scores.cluster_score import ClusterScore, MahalanobisClusterer
from metriclearn.estimators.scores.segment_score import SegmentScore
from metriclearn.estimators.scores.segmenting import GivenSegments, MahalanobisSegmenter
from metriclearn.oracles.penalty_search import best_penalty
from metriclearn.problem.forms import LowRankForm, center
from metriclearn.running.parameters import Of, OneOf, RandomState, Real, Whole, refuse_unknown
from metriclearn.views.gaps import labels_behind
from metriclearn.views.plain import fit_view, read_groups, reads_missing


@dataclass(eq=False, repr=False)
class MetricKMeans(MahalanobisClusterer):
    """K-means on data transformed by a metric that ``baseline`` fits to labeled data.

    Parameters
    ----------
    baseline : estimator with ``fit(X, y)`` and ``components_``
    n_init : int
        Number of runs of K-means. The best result is kept.
    random_state : int, RandomState or None

    Attributes
    ----------
    baseline_ : the fitted metric
    components_ : array (r, P)
    n_clusters_ : int or None
        The number of clusters K if all training sets have the same number, otherwise None. By
        default ``predict`` finds K clusters.

    Raises
    ------
    ValueError
        If parameters, data or labels are unusable, or a prediction is made before ``fit``.

    References
    ----------
    Lloyd, Least squares quantization in PCM, IEEE Transactions on Information Theory 28, 1982.
    """

    n_clusters = "given"
    baseline: Annotated[BaseEstimator, Of(MetricEstimator, "Euclidean()")] = Euclidean()  # noqa: RUF009
    _: KW_ONLY
    n_init: Annotated[int, Whole(1)] = 10
    random_state: RandomState = None

    def fit(self, X: Any, y: Any, **unknown: Any) -> Self:
        """Fit the metric.

        ``y`` holds the labels of one data set, or a list with the labels of several data sets.

        Raises
        ------
        ValueError
            For data, labels or parameters that cannot be used.
        """
        if unknown:
            refuse_unknown(self, unknown)
        fitted, data, truths = read_labeled(self, X, y, segments=False)
        fitted.baseline_ = clone(self.baseline).fit(data.arrays, truths)
        counts = {truth.n_clusters for truth in truths}
        n_clusters = counts.pop() if len(counts) == 1 else None
        fitted.score_ = ClusterScore(fitted.baseline_.components_, None, n_clusters)
        self.__dict__ = fitted.__dict__
        return self


@dataclass(eq=False, repr=False)
class TunedSegmenter(MahalanobisSegmenter):
    """Change-point detection with a metric that ``baseline`` learns, and with a tuned penalty.

    The penalty minimizes the training loss. The minimum is found exactly.

    Parameters
    ----------
    baseline : estimator with ``fit(X, y)`` and ``components_``
    n_segments : None or "given"
        With "given", there is no penalty, and ``predict`` needs the numbers of segments.
    min_size : int
        Smallest number of samples in a segment.
    penalty : "tuned" or float ≥ 0
        With "tuned", the penalty with the least training loss is chosen. With a number as penalty,
        labels are needed only if the baseline needs them.
    view : view, optional
        Turns rows into the rows that the baseline sees, see :mod:`metriclearn.views`.

    Attributes
    ----------
    baseline_ : the fitted metric
    components_ : array (r, P)
    penalty_ : float or None
        Penalty of a segment, or None if the number of segments is given.
    training_loss_ : float
        Mean loss ‖M − N‖²_F / T on the training sequences with the tuned penalty.

    Raises
    ------
    ValueError
        If parameters, data or labels are unusable, or a prediction is made before ``fit``.

    See Also
    --------
    metriclearn.oracles.best_penalty : finds the penalty.
    """

    baseline: Annotated[BaseEstimator, Of(MetricEstimator, "Euclidean()")] = Euclidean()  # noqa: RUF009
    _: KW_ONLY
    n_segments: GivenSegments = None
    min_size: Annotated[int, Whole(1)] = 1
    penalty: Annotated[str | float, OneOf("tuned", Real())] = "tuned"
    view: Annotated[Any, Of("fit_transform", "Columns(0, 3)", optional=True)] = None

    def fit(self, X: Any, y: Any = None, groups: ArrayLike | None = None, **unknown: Any) -> Self:
        """Fit the view and the metric, then choose the penalty on the same labeled sequences.

        With partial labels, only the labeled parts count in the loss, as in :meth:`tune_penalty`.
        The baseline must also accept partial labels. A view that is fitted to labels leaves out all
        recordings of one of the ``groups`` together.
        """
        if unknown:
            refuse_unknown(self, unknown)
        who, view = type(self).__name__, self.view
        segments = True if y is not None or self.penalty == "tuned" else None
        fitted, data, truths = read_labeled(
            self, X, y, segments=segments, partial=True, missing=reads_missing(view)
        )
        arrays: Any = data.arrays
        units = None if groups is None else read_groups(who, groups, len(arrays))
        if view is not None:
            labels, seen = labels_of(who, y, data, truths), list(arrays)
            view, arrays = fit_view(view, seen, labels, units)
            truths = list(labels_behind(view, seen, labels).partitions)
        fitted.baseline_ = clone(self.baseline).fit(arrays, truths or None)
        components, penalty = fitted.baseline_.components_, None
        vars(fitted).pop("training_loss_", None)  # remains from an earlier fit
        if self.n_segments is None and self.penalty != "tuned":
            penalty = float(self.penalty)
        elif self.n_segments is None:
            forms = [LowRankForm(center(array) @ components.T) for array in arrays]
            refuse_unlabeled(who, truths)
            penalty, fitted.training_loss_ = best_penalty(forms, truths, min_size=self.min_size)
        score = SegmentScore(components, penalty, min_size=self.min_size)
        fitted.score_ = score if view is None else score.through(view)
        self.__dict__ = fitted.__dict__
        return self
