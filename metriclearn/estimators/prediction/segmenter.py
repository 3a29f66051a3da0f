"""The methods that all change-point estimators with a metric have."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone

from metriclearn.estimators.data_sets import DataSets, check_features, read_data_sets
from metriclearn.estimators.labelings import (
    list_labelings,
    read_counts,
    read_labelings,
    read_parts,
    read_weights,
    refuse_unlabeled,
)
from metriclearn.estimators.learned_metric import LearnedMetric, MetricEstimator
from metriclearn.estimators.prediction.calibration import Calibration
from metriclearn.estimators.prediction.states import States
from metriclearn.estimators.prediction.stream import Streaming, StreamSource
from metriclearn.oracles.change_points import (
    ChangePoints,
    segmentation_oracle,
)
from metriclearn.oracles.change_points.margins import BoundaryMargins, boundary_margins
from metriclearn.oracles.segmentation_path import best_penalty
from metriclearn.problem.forms import LowRankForm, center, cumulative_sums
from metriclearn.problem.losses import ChargedForm, FrobeniusLoss, KnownLoss
from metriclearn.problem.named_segments import NameScores
from metriclearn.problem.partition import Partition, label_array
from metriclearn.problem.risk import Oracle
from metriclearn.running.parameters import SWITCH, Of, OneOf

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from metriclearn.estimators.penalties.feature_penalty import FeaturePenalty

# Number of features shown in a picture.
_LANES = 3
# Sequences with at most this many segments cause no warning.
_FEW = 5
_METRIC = Of("fit", "ClusteringMetricLearner()", optional=True)
_UNIT = OneOf(None, "variance")
GivenSegments = Annotated[
    str | None, OneOf(None, "given", remedy="; a number of segments is passed to predict")
]


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
            :class:`~metriclearn.BoundaryMargins`.

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
        strips["prediction"] = ends = found
        if y is not None:
            loss = FrobeniusLoss().squared_norm(Partition(ends=ends), truth)
            losses["prediction"] = loss
        seen = np.zeros(array.shape[1])
        # If the numbers of features differ, the metric belongs to another representation.
        if self.components_.shape[1] == len(seen):
            seen = np.linalg.norm(self.components_, axis=0) * array.std(axis=0)
        leading = np.sort(np.argsort(-seen, kind="stable")[:_LANES])
        names = getattr(self, "feature_names_in_", None)
        signal: Any = array[:, leading]
        if names is not None:
            signal = {names[i]: array[:, i] for i in leading}
        return plot_segmentation(strips, signal, losses, ax=ax, bands=bands, title=title)


class MahalanobisSegmenter(PlottedSegmenter, Streaming, LearnedMetric):
    """Predict change-points with a fitted metric ``components_`` and a ``penalty_`` of a segment.

    Subclasses fit ``components_`` (r, P) and ``penalty_``. Their parameters are ``n_segments``
    (None or "given") and ``min_size``. :meth:`tune_penalty` sets ``penalty_unit_``.
    """

    penalty_: float | None
    penalty_unit_: str | None = None
    n_segments: str | None
    min_size: int
    oracle: Oracle | None = None
    feature_penalty_: FeaturePenalty | None = None
    name_weights_: Any = None

    def predict_change_points(
        self, X: Any, n_segments: Any = None, return_margins: bool = False
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

        Returns
        -------
        int array (K,), or a list of such arrays
            With ``return_margins``, a pair of the change-points and the margins.
        """
        SWITCH.check(type(self).__name__, "return_margins", return_margins)
        if return_margins:
            margins = self.boundary_margins(X, n_segments)
            several = isinstance(margins, list)
            return [m.change_points for m in margins] if several else margins.change_points, margins
        data = self.read_data(X)
        partitions = self.segmented(data, n_segments)
        return data.as_passed([partition.change_points for partition in partitions])

    def predict(self, X: Any, n_segments: Any = None) -> Any:
        """Return the name of every sample if names were learned, else the number of its segment.

        Parameters
        ----------
        X : (T, P) array or sequence of such arrays
        n_segments : int or sequence of int, optional
            Number of segments; by default it follows from ``penalty_``.

        Returns
        -------
        (T,) labels, or numbers 0 … K−1, for each data set
        """
        data, weights = self.read_data(X), self.name_weights_
        partitions = self.segmented(data, n_segments)
        if weights is None:
            return data.as_passed([partition.labels for partition in partitions])
        return data.as_passed([weights.classes[found.sample_names] for found in partitions])

    def boundary_margins(self, X: Any, n_segments: Any = None, tolerance: int | None = None) -> Any:
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

        Returns
        -------
        :class:`~metriclearn.BoundaryMargins`, or a list of them
            Margins have ``probabilities`` if :meth:`calibrate` was called with this tolerance for
            the current metric and penalty.
        """
        data = self.read_data(X)
        known: Calibration | None = getattr(self, "calibration_", None)
        if known is not None and not (
            known.penalty == self.penalty_ and np.array_equal(known.components, self.components_)
        ):
            # The metric has changed since the calibration.
            known = None
        if tolerance is None:
            tolerance = 0 if known is None else known.tolerance
        program = partial(boundary_margins, min_size=self.min_size, tolerance=tolerance)
        margins: list[BoundaryMargins] = []
        for result in self.segmented(data, n_segments, program):
            # The sequence is too short for the program.
            if isinstance(result, Partition):
                impossible = np.append(0.0, np.full(result.n_samples - 1, -np.inf))
                result = BoundaryMargins(result.change_points, np.zeros(0), impossible)
            if known is not None and tolerance == known.tolerance:
                result = replace(result, probabilities=known.of(result.losses))
            margins.append(result)
        return data.as_passed(margins)

    def calibrate(self, X: Any, y: Any, tolerance: int = 0) -> Self:
        """Calibrate probabilities of change-points on labeled data, ideally not the training data.

        A predicted change-point counts as true if a true change-point is within the tolerance. With
        ``n_segments="given"`` the numbers of segments are taken from y.

        Parameters
        ----------
        X : (T, P) array or sequence of such arrays
        y : (T,) labels, or change-points as in ruptures, for each sequence
        tolerance : int ≥ 0
            The largest distance, in samples, between a predicted change-point and a true one.

        Returns
        -------
        self, with ``calibration_``

        Raises
        ------
        ValueError
            If data or labels cannot be used, or if each data set is predicted to be one segment.
        """
        data = self.read_data(X)
        truths = read_labelings(type(self).__name__, y, data, segments=True)
        given = [truth.n_clusters for truth in truths] if self.n_segments == "given" else None
        margins = self.boundary_margins(data.arrays, given, tolerance)
        self.calibration_ = Calibration.learn(
            margins, truths, tolerance, self.components_, self.penalty_
        )
        return self

    def tune_penalty(self, X: Any, y: Any, unit: str | None = None) -> Self:
        """Set the penalty with the least mean loss on labeled data, ideally not the training data.

        The optimal segmentation of a sequence is piecewise constant in λ, and the segmentation path
        contains all pieces. The minimum is therefore exact, except in rare cases with partial
        labels, see :func:`~metriclearn.best_penalty`. This method changes neither the metric nor
        the penalties of positions that a ``FeaturePenalty`` has learned. A learner with
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
            unit. The next ``fit`` resets the unit to None.

        Returns
        -------
        self, with a new ``penalty_`` and ``penalty_unit_``

        Raises
        ------
        ValueError
            If all sequences are too short, or data or labels cannot be used.
        """
        self.tune_together([self], [(X, y)], unit)
        return self

    @staticmethod
    def tune_together(
        models: Sequence[MahalanobisSegmenter],
        parts: Sequence[tuple[Any, Any]],
        unit: str | None = None,
    ) -> None:
        """Give several models the same penalty.

        Each model predicts its own part of the data. The penalty with the least mean loss over all
        parts is chosen.

        Parameters
        ----------
        models : sequence of MahalanobisSegmenter
            Fitted learners with the same parameters, for example the learners of all folds.
        parts : sequence of (X, y)
            Recordings and labels, as for :meth:`MahalanobisSegmenter.tune_penalty`. The first pair
            is for the first model, and so on. There may be fewer pairs than models. All models get
            the same penalty.
        unit : None or "variance"
            As for :meth:`MahalanobisSegmenter.tune_penalty`.

        Raises
        ------
        ValueError
            If all sequences are too short, or data or labels cannot be used.
        """
        pairs = read_parts(MahalanobisSegmenter, models, parts)
        who, forms, known = type(models[0]).__name__, [], []
        _UNIT.check(who, "unit", unit)
        for model, (X, y) in pairs:
            data, tuned = model.read_data(X), copy.copy(model)
            truths = read_labelings(who, y, data, segments=True, partial=True)
            tuned.penalty_, tuned.penalty_unit_ = model.penalty_ or 0.0, unit
            for form, truth in zip(tuned.segmented(data, None, lambda form: form), truths):
                if not isinstance(form, Partition):
                    forms.append(form)
                    known.append(truth)
        if not forms:
            raise ValueError(
                f"{who} needs a sequence of at least min_size={models[0].min_size} samples to tune "
                "its penalty, but all are shorter; pass others."
            )
        refuse_unlabeled(who, known)
        penalty, _ = best_penalty(forms, known, min_size=models[0].min_size)
        for model in models:
            model.penalty_, model.penalty_unit_ = penalty, unit

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
        self, with ``states_``, a :class:`~metriclearn.estimators.prediction.states.States`

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
        arrays = [array[rows] for array, rows in zip(data.arrays, known) if len(rows)]
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
        for array, partition, count in zip(data.arrays, partitions, counts):
            penalty = states.penalty
            if self.penalty_unit_ is not None and not hasattr(self, "states_"):
                penalty *= (center(array) @ self.components_.T).var(axis=0).sum() or 1.0
            known = replace(states, penalty=penalty)
            results.append(known.of(array, partition, count, random_state))
        return data.as_passed(results)

    def score(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> float:
        """Return minus the mean loss ℓ = ‖M − N‖²_F / T. The best score is 0.

        N is the segmentation by the labels y. With ``n_segments="given"`` the numbers of segments
        come from y. With partial labels only the labeled parts count, see
        :class:`~metriclearn.problem.losses.KnownLoss`.
        """
        data = self.read_data(X)
        who = type(self).__name__
        given = self.n_segments == "given"
        truths = read_labelings(who, y, data, segments=True, partial=not given)
        partitions = self.segmented(data, [truth.n_clusters for truth in truths] if given else None)
        losses = np.array(list(map(KnownLoss(), partitions, truths)))
        weights = read_weights(who, sample_weight, len(losses))
        return -float(np.average(losses, weights=weights))

    def stream_source(self) -> StreamSource:
        """Return the parts of this segmenter that a stream needs, such as metric and penalty.

        Raises
        ------
        ValueError
            If there is no penalty, or if the penalty or its features need the whole sequence.
        """
        who, behind, ahead = type(self).__name__, 0, 0
        if self.penalty_ is None:
            raise ValueError(
                f"{who} needs a penalty for a stream, whose number of segments is unknown, got "
                "n_segments='given'; call tune_penalty, or fit with n_segments=None."
            )
        if self.penalty_unit_ is not None:
            raise ValueError(
                f"{who} needs a penalty in the unit of the data for a stream, as the variance of a "
                "sequence is not known before its end; call tune_penalty without unit."
            )
        if not isinstance(self.oracle, (ChangePoints, type(None))):
            raise ValueError(
                f"{who} needs ChangePoints() or None as oracle for a stream, got {self.oracle!r}."
            )
        weights, penalty = self.name_weights_, self.feature_penalty_
        if weights is not None and weights.transitions is not None:
            raise ValueError(
                f"{who} needs transitions=False and neighbors_differ=False for a stream, as its "
                "search has no state for each name."
            )
        if weights is not None:
            behind = ahead = getattr(weights.emissions, "context", -1)
            if behind < 0:
                raise ValueError(
                    f"{who} needs emissions that see a known number of neighbors for a stream, got "
                    f"{weights.emissions!r}; use NeighborFeatures or FramePosteriors."
                )
        if penalty is not None:
            back, after = penalty.reach()
            behind, ahead = max(behind, back), max(ahead, after)

        def read(X: NDArray) -> tuple[NDArray, NDArray | None, NDArray | None]:
            scores = None if weights is None else weights.scores(X)
            # Return the penalty of a change after each sample. Row t is for the position before
            # sample t, so the first row is left out.
            return X, scores, None if penalty is None else penalty.penalties(X)[1:]

        classes = None if weights is None else weights.classes
        terms = self.components_, self.penalty_, self.min_size, classes
        return StreamSource(read, *terms, behind, ahead)

    def read_data(self, X: Any) -> DataSets:
        """Read data. Single precision is kept, because sums are in double precision anyway."""
        return check_features(self, read_data_sets(type(self).__name__, X, single_precision=True))

    def segmented(self, data: DataSets, n_segments: Any, program: Any = None) -> list[Any]:
        """Segment every data set. Returns partitions, or the results of ``program`` if it is given.

        ``program`` is called in place of the oracle: as ``program(form)`` or, if the number of
        segments is given, as ``program(form, n_segments)``. A warning is given if the oracle
        returns segments of fewer than two samples on average.
        """
        if n_segments is None and self.penalty_ is None:
            raise ValueError(
                f"{type(self).__name__} was fitted with n_segments='given' and has no penalty; "
                "pass n_segments to predict, or fit with n_segments=None."
            )
        who, unknown = type(self).__name__, self.penalty_ is not None
        counts = read_counts(
            who, "n_segments", n_segments, data, optional=unknown, min_size=self.min_size
        )
        oracle = segmentation_oracle(self.oracle, self.min_size) if program is None else program
        partitions: list[Any] = []
        n_single = 0
        for X, count in zip(data.arrays, counts):
            form = self.form(X)
            if count is not None:
                partitions.append(oracle(form, int(count)))
            elif len(X) < self.min_size:  # the data set is one segment
                partitions.append(segmentation_oracle(None, 1)(form, 1))
            else:
                assert self.penalty_ is not None
                partitions.append(oracle(form.shifted(-self.penalty_)))
                if program is None and partitions[-1].n_clusters > max(len(X) / 2, _FEW):
                    n_single += 1
        if n_single:
            warnings.warn(
                f"{who} makes segments of fewer than two samples on average in {n_single} of "
                f"{len(partitions)} data sets, as a change costs less there than noise gains; call "
                "tune_penalty with labeled data like these, or pass n_segments.",
                stacklevel=3,
            )
        return partitions

    def segmented_at(
        self, data: DataSets, penalties: Sequence[float], n_segments: Any = None
    ) -> list[list[Partition]]:
        """Return the result of :meth:`segmented` for each of several values of ``penalty_``.

        The result for a penalty is a list of partitions. The form of a data set is computed only
        once. If numbers of segments are given, all penalties have the same result.
        """
        free, oracle = copy.copy(self), segmentation_oracle(self.oracle, self.min_size)
        free.penalty_ = 0.0

        def at_each(form: Any, count: int | None = None) -> list[Partition]:
            if count is not None:
                return [oracle(form, count)] * len(penalties)
            return [oracle(form.shifted(-penalty)) for penalty in penalties]

        found = free.segmented(data, n_segments, at_each)
        # A data set shorter than min_size is one segment at any penalty.
        rows = [[row] * len(penalties) if isinstance(row, Partition) else row for row in found]
        return [list(column) for column in zip(*rows)]

    def form(self, X: NDArray) -> LowRankForm | ChargedForm:
        """Return the form XBXᵀ of one sequence in the unit of the penalty.

        If penalties of positions or scores of names were learned, the form includes them.
        """
        sums, variance = cumulative_sums(X, self.components_), 1.0
        if self.penalty_unit_ is not None:
            # Squares may overflow.
            unit = np.ldexp(1.0, np.frexp(np.abs(sums).max())[1] - 1)
            sums /= unit
            variance = np.square(np.diff(sums, axis=0)).sum() / len(X) or 1.0
            sums /= variance**0.5
            # For huge units the penalties of positions vanish.
            with np.errstate(over="ignore"):
                variance *= unit**2
        form = LowRankForm(cumulative=sums)
        if self.feature_penalty_ is not None:
            return ChargedForm(form, penalties=self.feature_penalty_.penalties(X) / variance)
        if self.name_weights_ is not None:
            rows, costs = self.name_weights_.scores(X), self.name_weights_.transitions
            costs = None if costs is None else costs / variance
            return ChargedForm(form, names=NameScores.of(rows / variance, None, costs))
        return form
