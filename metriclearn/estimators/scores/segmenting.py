"""The methods that all change-point estimators with a metric have."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from operator import attrgetter
from typing import TYPE_CHECKING, Annotated, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from metriclearn.estimators.learned_metric import LearnedMetric, MetricEstimator
from metriclearn.estimators.reading.data_sets import DataSets, read_new
from metriclearn.estimators.reading.labels import (
    list_labelings,
    note_empty_score,
    read_counts,
    read_known,
    read_labelings,
    read_weights,
)
from metriclearn.estimators.scores.confidence import Calibration
from metriclearn.estimators.scores.segment_score import SegmentScore, tuned_penalty
from metriclearn.estimators.scores.states import States
from metriclearn.estimators.scores.stream import Streaming
from metriclearn.oracles.change_points.margins import BoundaryMargins
from metriclearn.problem.forms import center
from metriclearn.problem.losses import FrobeniusLoss, KnownLoss
from metriclearn.problem.partition import Partition, label_array
from metriclearn.problem.risk import Oracle
from metriclearn.running.notes import note
from metriclearn.running.parameters import SWITCH, Of, OneOf, check_parameters
from metriclearn.views.plain import leaves_out

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Number of features shown in a picture.
_LANES = 3
# Sequences with at most this many segments cause no warning.
_FEW = 5
_METRIC = Of("fit", "ClusteringMetricLearner()", optional=True)
_UNIT = OneOf(None, "variance")
_SEGMENTS = OneOf(None, "given", remedy="; a number of segments is passed to predict")
GivenSegments = Annotated[str | None, _SEGMENTS]


class ScoredByLoss:
    """Gives a segmenter the method ``score``.

    Subclasses define ``segmented``, which returns a partition for every data set. With
    ``n_segments="given"``, it gets their numbers of segments.
    """

    n_segments: str | int | None = None
    segmented: Callable[..., list[Any]]

    def read_data(self, X: Any) -> DataSets:
        """Read data sets, and check that they have the features of the training data."""
        return read_new(self, X)

    def score(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> float:
        """Return minus the mean loss ℓ = ‖M − N‖²_F / T. The best score is 0.

        N is the segmentation by the labels y. With ``n_segments="given"`` the numbers of segments
        come from y. With partial labels only the labeled parts count, see
        :class:`~metriclearn.problem.losses.KnownLoss`.
        """
        data, who, given = self.read_data(X), type(self).__name__, self.n_segments == "given"
        truths = read_labelings(who, y, data, segments=True, partial=not given)
        note_empty_score(who, truths)
        found = self.segmented(data, [truth.n_clusters for truth in truths] if given else None)
        losses = np.array(list(map(KnownLoss(), found, truths)))
        weights = read_weights(who, sample_weight, len(losses))
        return -float(np.average(losses, weights=weights))


class PlottedSegmenter:
    """Gives an estimator that predicts change-points the method ``plot``."""

    components_: NDArray
    read_data: Callable[[Any], DataSets]
    predict_change_points: Callable[..., Any]

    def plot(
        self, X: Any, y: Any = None, *, ax: Any = None, title: str | None = None, **options: Any
    ) -> Figure:
        """Plot a sequence with its predicted segments and, if they are known, its true segments.

        Parameters
        ----------
        X : (T, P) or (T,) array or data frame
            The three features that vary most under the metric are drawn.
        y : labels, change-points or Partition, optional
            The true segments. An estimator that needs the number of segments takes it from y.
        ax : matplotlib Axes, optional
            Where to draw. By default a new figure is made.
        title : str, optional
            Replaces the default title.
        **options
            Parameters of ``predict_change_points``, such as ``n_segments``. With
            ``return_margins=True``, a pale band shows how far each boundary can move while the
            score falls by at most a tenth of the median of ``losses``, see
            :class:`~metriclearn.oracles.BoundaryMargins`.

        See Also
        --------
        metriclearn.plots.plot_segmentation : draws the picture.
        """
        from metriclearn.plots import plot_segmentation

        who, data = type(self).__name__, self.read_data(X)
        if len(data.arrays) != 1:
            raise ValueError(
                f"{who} needs one sequence to plot, got {len(data.arrays)}; pass one of them, and "
                "its labels."
            )
        array, strips, losses = np.asarray(data.arrays[0]), {}, {}
        if y is not None:
            (truth,) = read_labelings(who, y, data, segments=True)
            strips["truth"] = truth.change_points
            if getattr(self, "n_segments", None) == "given":
                options.setdefault("n_segments", truth.n_clusters)
        found, bands = self.predict_change_points(array, **options), {}
        if isinstance(found, tuple):
            found, margins = found
            bands["prediction"] = margins.intervals(margins.typical_score)
        strips["prediction"] = found
        if y is not None:
            losses["prediction"] = FrobeniusLoss().squared_norm(Partition(ends=found), truth)
        seen = np.zeros(array.shape[1])
        # If the numbers of features differ, the metric belongs to another representation.
        if self.components_.shape[1] == len(seen):
            seen = np.linalg.norm(self.components_, axis=0) * np.nanstd(array, axis=0)
        leading = np.sort(np.argsort(-seen, kind="stable")[:_LANES])
        names = getattr(self, "feature_names_in_", None)
        signal: Any = array[:, leading]
        if names is not None:
            signal = {names[i]: array[:, i] for i in leading}
        return plot_segmentation(strips, signal, losses, ax=ax, bands=bands, title=title)


class MahalanobisSegmenter(ScoredByLoss, PlottedSegmenter, Streaming, LearnedMetric):
    """Predict change-points with a fitted ``score_``, a :class:`SegmentScore`.

    Subclasses fit ``score_``. Their parameters are ``n_segments`` (None or "given") and
    ``min_size``, which may be raised after fitting.
    """

    score_: SegmentScore
    min_size: int
    oracle: Oracle | None = None

    # The score holds the learned values.
    components_ = property(attrgetter("score_.components"))  # type: ignore[assignment]
    penalty_ = property(attrgetter("score_.penalty"))
    feature_penalty_ = property(attrgetter("score_.boundaries"))
    name_weights_ = property(attrgetter("score_.names"))

    @property
    def present_score(self) -> SegmentScore:  # type: ignore[override]
        """The fitted score with the present parameters ``min_size`` and ``oracle``."""
        if not hasattr(self, "score_"):
            check_is_fitted(self)
        score, size = self.score_, self.min_size
        if type(size) is int and size == score.min_size and self.oracle is score.oracle:
            return score  # nothing has changed since the fit, which has checked all parameters
        check_parameters(self)
        return replace(score, min_size=size, oracle=self.oracle)

    def predict_change_points(
        self, X: Any, n_segments: Any = None, return_margins: bool = False, known: Any = None
    ) -> Any:
        """Return the ends of all segments of every data set, including T, as in ruptures.

        A metric of rank r needs 8(r+2)T bytes of memory in addition to X. The same memory is needed
        for single and double precision, and for an X that is mapped from a file
        (``np.load(file, mmap_mode="r")``).

        Parameters
        ----------
        X : (T, P) array or sequence of such arrays
        n_segments : int or sequence of int, optional
            Number of segments; by default it follows from ``penalty_``.
        return_margins : bool
            Whether to return the :meth:`boundary_margins`, too.
        known : partial labels of each array, optional
            Partial labels of the new recordings: labels in which −1 means unknown, or
            :class:`~metriclearn.PartialPartition`. The result is the best segmentation that agrees
            with these labels. If the view leaves rows out, it agrees with them on the other rows: a
            change in a gap is placed in the middle of the gap.

        Returns
        -------
        int array (K,), or a list of such arrays
            With ``return_margins``, a pair of the change-points and the margins.
        """
        SWITCH.check(type(self).__name__, "return_margins", return_margins)
        if return_margins:
            margins = self.boundary_margins(X, n_segments, known=known)
            several = isinstance(margins, list)
            return [m.change_points for m in margins] if several else margins.change_points, margins
        data = self.read_data(X)
        partitions = self.segmented(data, n_segments, known)
        return data.as_passed([partition.change_points for partition in partitions])

    def predict(self, X: Any, n_segments: Any = None, known: Any = None) -> Any:
        """Return the name of every sample if names were learned, else the number of its segment.

        Parameters
        ----------
        X : (T, P) array or sequence of such arrays
        n_segments : int or sequence of int, optional
            Number of segments; by default it follows from ``penalty_``.
        known : partial labels of each array, optional
            As for :meth:`predict_change_points`.

        Returns
        -------
        (T,) labels, or numbers 0 … K−1, for each data set
        """
        data, weights = self.read_data(X), self.name_weights_
        partitions = self.segmented(data, n_segments, known)
        if weights is None:
            return data.as_passed([partition.labels for partition in partitions])
        return data.as_passed([weights.classes[found.sample_names] for found in partitions])

    def boundary_margins(
        self, X: Any, n_segments: Any = None, tolerance: int | None = None, known: Any = None
    ) -> Any:
        """Compute exactly how certain every predicted change-point is, in the unit of the penalty.

        At the learned penalty, this method takes little more time than two pruned dynamic programs.
        If numbers of segments are given, two more programs run. The additional programs skip a
        segmentation if its value is too far below an upper bound. The largest distance allowed is
        called the window. If the window turns out to be too narrow, these programs run again with
        wider windows. The margins come from exact dynamic programs, even if the estimator has
        another ``oracle``.

        Parameters
        ----------
        X : (T, P) array or sequence of such arrays
        n_segments : int or sequence of int, optional
            Number of segments; by default it follows from ``penalty_``.
        tolerance : int, optional
            Change-points at most this many samples apart count as the same. The default is the
            tolerance of the last :meth:`calibrate`, or 0.
        known : partial labels of each array, optional
            Only segmentations that agree with these labels are compared, as in
            :meth:`predict_change_points`.

        Returns
        -------
        :class:`~metriclearn.oracles.BoundaryMargins`, or a list of them
            Margins have ``probabilities`` if :meth:`calibrate` was called with this tolerance for
            the current metric and penalty.
        """
        data, score = self.read_data(X), self.present_score
        learned: Calibration | None = getattr(self, "calibration_", None)
        if learned is not None and not (learned.score and score.agrees_with(learned.score)):
            # The metric has changed since the calibration.
            learned = None
        if tolerance is None:
            tolerance = 0 if learned is None else learned.tolerance
        margins: list[BoundaryMargins] = []
        for case in zip(data.arrays, *self.given(data, n_segments, known)):
            result = score.margins(*case, tolerance)
            if learned is not None and tolerance == learned.tolerance:
                result = replace(result, probabilities=learned.of(result.losses))
            margins.append(result)
        return data.as_passed(margins)

    def calibrate(self, X: Any, y: Any, tolerance: int = 0) -> Self:
        """Calibrate probabilities of change-points on labeled data, ideally not the training data.

        A predicted change-point counts as true if a true change-point is within the tolerance. With
        ``n_segments="given"`` the numbers of segments are taken from y.

        Parameters
        ----------
        X : (T, P) array or sequence of such arrays
        y : labels, change-points or partial labels, for each sequence
            With partial labels, only predicted change-points in labeled stretches count, further
            than the tolerance from their ends.
        tolerance : int ≥ 0
            The largest distance, in samples, between a predicted change-point and a true one.

        Returns
        -------
        self, with ``calibration_``

        Raises
        ------
        ValueError
            If data or labels cannot be used, or if no change-point is predicted where labels are.
        """
        data, given = self.read_data(X), self.n_segments == "given"
        truths = read_labelings(type(self).__name__, y, data, segments=True, partial=not given)
        counts = [truth.n_clusters for truth in truths] if given else None
        margins = self.boundary_margins(data.arrays, counts, tolerance)
        self.calibration_ = Calibration.learn(margins, truths, tolerance, self.score_)
        return self

    def tune_penalty(self, X: Any, y: Any, unit: str | None = None) -> Self:
        """Set the penalty with the least mean loss on labeled data, ideally not the training data.

        The optimal segmentation of a sequence is piecewise constant in λ, and the segmentation path
        contains all pieces. The minimum is therefore exact, except in rare cases with partial
        labels, see :func:`~metriclearn.oracles.best_penalty`. This method changes neither the
        metric nor the penalties of positions that a ``FeaturePenalty`` has learned. A learner with
        ``n_segments="given"`` has no penalty after ``fit``, but gets one by this method.

        Parameters
        ----------
        X : (T, P) array or sequence of such arrays
            Sequences shorter than ``min_size`` are ignored, because each is a single segment at any
            penalty.
        y : labels, change-points or partial labels, for each sequence
            With partial labels only the labeled parts count, see
            :class:`~metriclearn.problem.losses.KnownLoss`.
        unit : None or "variance"
            The unit of the penalty. With None, the penalty is a squared distance. With "variance",
            the penalty is multiplied by the variance of each sequence under the metric, which helps
            if sequences differ in contrast. Scores of :meth:`boundary_margins` are in the same
            unit. The next ``fit`` resets the unit to None. Scores of names, and penalties of
            positions, are in the unit of the data, so with them the unit is None.

        Returns
        -------
        self, whose ``score_`` has a new penalty in this unit

        Raises
        ------
        ValueError
            If all sequences are too short, or data, labels or the unit cannot be used.
        """
        who, data = type(self).__name__, self.read_data(X)
        _UNIT.check(who, "unit", unit)
        truths = read_labelings(who, y, data, segments=True, partial=True)
        penalty, _ = tuned_penalty(who, self.present_score, data.arrays, truths, unit)
        self.score_ = self.score_.at(penalty, unit)
        return self

    def fit_states(
        self, X: Any, y: Any, metric: MetricEstimator | None = None, named: bool = True
    ) -> Self:
        """Learn states from recurring labels. :meth:`predict_states` assigns states to segments.

        In ``fit`` every run of equal labels is a separate segment, because the search for
        change-points returns only contiguous segments. For states, all samples with equal labels
        form one cluster.

        Parameters
        ----------
        X : (T, P) array or sequence of such arrays
        y : (T,) labels for each sequence, −1 where unknown
        metric : estimator with ``components_``, optional
            Learns the metric in which states are compared. For example,
            ``ClusteringMetricLearner()`` minimizes a hinge for the same loss ‖M − N‖² as for
            segments, but its clusters need not be contiguous. By default the metric of the segments
            is used.
        named : bool
            Whether a label means the same in all data sets. If not, the penalty of a state is
            learned in place of names. The labeled segments of each data set are clustered, and the
            penalty with the least mean loss is chosen.

        Returns
        -------
        self, with ``states_``, a :class:`~metriclearn.estimators.scores.states.States`

        Raises
        ------
        ValueError
            If data or labels cannot be used, if no label is known, or if ``named=False`` and no
            data set has two labeled segments.
        """
        who, data = type(self).__name__, self.read_data(X)
        SWITCH.check(who, "named", named)
        _METRIC.check(who, "metric", metric)
        truths = read_labelings(who, y, data, segments=False, partial=True)
        known = [np.flatnonzero(truth.labels >= 0) for truth in truths]
        if not sum(map(len, known)):
            raise ValueError(f"{who} needs labels of states, but all labels are unknown (−1).")
        given = [label_array(getattr(one, "labels", one)) for one in list_labelings(who, y, data)]
        arrays = [Z[rows] for Z, rows in zip(self.rows_of(data), known) if len(rows)]
        labels = [label[rows] for label, rows in zip(given, known) if len(rows)]
        learned: Any = self if metric is None else clone(metric).fit(arrays, labels)
        self.states_ = States.learn(learned.components_, arrays, labels, named)
        return self

    def predict_states(self, X: Any, n_states: Any = None, random_state: int | None = 0) -> Any:
        """Return the state of every sample. Similar segments of :meth:`predict` get the same name.

        With ``n_states``, K-means clusters the segments of each data set, weighted by their
        lengths. Without ``n_states``, a segment gets the name of the nearest state if
        :meth:`fit_states` has learned names; otherwise DP-means clusters the segments. DP-means
        uses the penalty of a state that :meth:`fit_states` has learned. Without such a penalty,
        DP-means uses the penalty of a segment, so an additional state costs as much as an
        additional change-point.

        Parameters
        ----------
        X : (T, P) array or sequence of such arrays
        n_states : int or sequence of int, optional
            Number of states in each data set.
        random_state : int or None
            Seed of the starts of K-means.

        Returns
        -------
        (T,) names or numbers 0, 1, … for each data set
        """
        who, data = type(self).__name__, self.read_data(X)
        counts = read_counts(who, "n_states", n_states, data, optional=True)
        partitions = self.segmented(data, None)
        states = getattr(self, "states_", None) or States(
            self.components_, penalty=float(self.penalty_ or 0.0)
        )
        results = []
        for array, partition, count in zip(self.rows_of(data), partitions, counts):
            penalty = states.penalty
            if self.score_.unit is not None and not hasattr(self, "states_"):
                penalty *= (center(array) @ self.components_.T).var(axis=0).sum() or 1.0
            known = replace(states, penalty=penalty)
            results.append(known.of(array, partition, count, random_state))
        return data.as_passed(results)

    def read_data(self, X: Any) -> DataSets:
        """Read data. Single precision is kept, because sums are in double precision anyway."""
        return read_new(self, X, self.present_score.view, single_precision=True)

    def rows_of(self, data: DataSets) -> list[NDArray]:
        """Return the rows that the metric sees, one for every sample."""
        score = self.present_score
        if leaves_out(score.view):
            raise ValueError(
                f"{type(self).__name__} needs a view that keeps all rows for features and states, "
                f"got {score.view!r}; take Fill instead."
            )
        return list(map(score.rows, data.arrays))

    def segmented(self, data: DataSets, n_segments: Any = None, known: Any = None) -> list[Any]:
        """Segment every data set, as a list of partitions.

        A warning is given if the segments have fewer than two samples on average.
        """
        score, who = self.present_score, type(self).__name__
        partitions: list[Partition] = []
        n_single = 0
        for X, count, fact in zip(data.arrays, *self.given(data, n_segments, known)):
            partitions.append(score.segment(X, count, fact))
            many = partitions[-1].n_clusters > max(len(X) / 2, _FEW)
            n_single += count is None and len(X) >= self.min_size and many
        if n_single:
            note(
                f"{who} makes segments of fewer than two samples on average in {n_single} of "
                f"{len(partitions)} data sets, as a change costs less there than noise gains; call "
                "tune_penalty with labeled data like these, or pass n_segments."
            )
        return partitions

    def given(self, data: DataSets, n_segments: Any, known: Any = None) -> tuple[Any, Any]:
        """Read the numbers of segments and the labels that a user gives for a prediction."""
        who, unknown = type(self).__name__, self.penalty_ is not None
        _SEGMENTS.check(who, "n_segments", self.n_segments)  # may have changed since the fit
        if n_segments is None and not unknown:
            raise ValueError(
                f"{who} needs a penalty or a number of segments, got neither; pass n_segments to "
                "predict, call tune_penalty, or fit with a penalty."
            )
        counts = read_counts(
            who, "n_segments", n_segments, data, optional=unknown, min_size=self.min_size
        )
        classes = None if self.name_weights_ is None else self.name_weights_.classes
        return counts, read_known(who, known, data, classes)
