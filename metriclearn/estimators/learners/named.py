"""NamedSegmentLearner: boundaries and names of segments, learned together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, fields, replace
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from metriclearn.estimators.learners.change_points import ChangePointMetricLearner, Segmentations
from metriclearn.estimators.learners.large_margin import REGULARIZER
from metriclearn.estimators.learners.task import LabeledParts, Training
from metriclearn.estimators.reading.data_sets import DataSets
from metriclearn.estimators.reading.labels import (
    list_labelings,
    read_labelings,
    read_names,
    sample_labels,
)
from metriclearn.estimators.scores.confidence import NameCalibration
from metriclearn.estimators.scores.name_weights import NameWeights, with_constant
from metriclearn.oracles.change_points import ConstrainedChangePoints
from metriclearn.problem.named_segments import (
    NamedFeatures,
    NamedLoss,
    NamedPartition,
    NamedSamples,
    named_truths,
)
from metriclearn.running.executors import Executor
from metriclearn.running.parameters import Of, OneOf, Real
from metriclearn.solvers.mahalanobis import FullMetric, Metric, MetricCone, PenalizedMetric
from metriclearn.solvers.regularizers import Regularizer, SquaredFrobenius
from metriclearn.views.gaps import Labels
from metriclearn.views.neighbors import Neighbors

# τ for a weight of 1. Transitions are rarer than samples, so regularizers weigh τ less. The value
# was chosen on left-out groups of training data of gaze, notes of a finch and activities.
_TRANSITION = 30.0


@dataclass(eq=False, repr=False)
class NamedSegmentLearner(ChangePointMetricLearner):
    """Learn a metric, scores of names and a penalty from recordings in which labels recur.

    Use it for labels that mean the same in all recordings, such as *walking* and *sitting*. Let S
    be the cumulative sums of the samples, and φ_t the emission features of sample t. The score of a
    segmentation into segments (s, u] with names c,

        (1/T) Σ_{(s,u], c} [ ‖S_u − S_s‖²_B / (u−s) + Σ_{t in (s,u]} ⟨W_c, φ_t⟩ − λ ],

    is linear in (B, W, λ). B, W and λ are learned together in one certified convex problem. The
    hinge is the same as in :class:`~metriclearn.ChangePointMetricLearner`, but the loss is ‖M − N‖²
    plus β for every sample with a wrong name. An exact search predicts boundaries and names
    together. The regularizer applies to W as well as to B. With ``transitions``, the sum Σ τ(c, c′)
    over all pairs of neighboring segments with names c and c′ is subtracted from the score. The
    costs τ are learned in the same problem.

    Parameters
    ----------
    metric, regularizer, solver, penalty, loss_scale, n_segments, min_size, standardize, \
oracle, retune, alternation, callbacks, n_jobs, executor, verbose, view
        As for :class:`~metriclearn.ChangePointMetricLearner`; the penalty cannot be a
        ``FeaturePenalty``.
    emissions : view
        Computes φ of every sample; a constant is added. The probabilities of a classifier,
        ``Posteriors`` of :mod:`metriclearn.views`, are often better than the features themselves
        (``Neighbors``).
    name_loss : float or None
        β. By default it is the number of segments in the training data, divided by the number of
        samples.
    transitions : bool
        Whether to learn the cost of a segment named c′ after a segment named c, in addition to λ.
        This makes the exact search slower: each sample takes O(C²), plus O(r + C) for every
        position that has not been pruned as a start of the current segment. Computing margins takes
        one search for each boundary.

    Attributes
    ----------
    classes_ : array (C,)
        The labels, sorted.
    name_weights_ : NameWeights
        The fitted emissions, the learned scores W of names, and the costs τ of transitions.
    components_, penalty_, solution_, ...
        As for :class:`~metriclearn.ChangePointMetricLearner`.

    Raises
    ------
    ValueError
        For parameters, data or labels that cannot be used, and for predictions before ``fit``.

    See Also
    --------
    ChangePointMetricLearner : for labels that only mark where segments begin.

    Examples
    --------
    >>> from metriclearn import NamedSegmentLearner
    >>> from metriclearn.datasets import load_example
    >>> bees = load_example("bees")
    >>> from metriclearn.views import Neighbors
    >>> learner = NamedSegmentLearner(emissions=Neighbors(2))
    >>> learner.fit(bees.sequences, bees.labels).classes_.tolist()  # doctest: +SKIP
    ['left', 'right', 'waggle']
    """

    metric: Annotated[Metric, Of(Metric, "DiagonalMetric()")] = FullMetric()  # noqa: RUF009
    regularizer: Annotated[Regularizer, REGULARIZER] = SquaredFrobenius(1e-2)  # noqa: RUF009
    emissions: Annotated[Any, Of("fit_transform", "Neighbors()")] = Neighbors()  # noqa: RUF009
    name_loss: Annotated[float | None, OneOf(None, Real())] = None
    transitions: bool = False
    _: KW_ONLY
    penalty: Annotated[str | float, OneOf("learned", Real())] = "learned"

    @property
    def classes_(self) -> NDArray:
        """The labels, sorted."""
        return self.name_weights_.classes

    @property
    def task(self) -> NamedSegmentations:
        """The task for names: a run of equal labels is a segment with this label as name."""
        return NamedSegmentations.of(self, count_is_given=self.n_segments == "given")

    def calibrate(self, X: Any, y: Any, tolerance: int = 0) -> Self:
        """Calibrate probabilities of change-points and names on labeled data.

        The data should not have been used for training.

        Change-points are calibrated as in :meth:`ChangePointMetricLearner.calibrate`. For names,
        the two parameters of
        :class:`~metriclearn.estimators.scores.confidence.NameCalibration` are fitted by
        maximum likelihood.

        Parameters
        ----------
        X : (T, P) array or sequence of such arrays
        y : labels or partial labels of samples, for each sequence
        tolerance : int ≥ 0
            A predicted change-point is true if there is a true one at most this many samples away.

        Returns
        -------
        self, with ``calibration_`` and ``name_calibration_``

        Raises
        ------
        ValueError
            If no sample has a label that occurred in training, or if
            :meth:`ChangePointMetricLearner.calibrate` raises an error.
        """
        super().calibrate(X, y, tolerance)
        who, data, counts = type(self).__name__, self.read_data(X), None
        if self.n_segments == "given":
            truths = read_labelings(who, y, data, segments=True)
            counts = [truth.n_clusters for truth in truths]
        pairs = zip(list_labelings(who, y, data), data.lengths)
        known = [sample_labels(*pair) for pair in pairs]
        scored = self._scored(data, counts)
        self.name_calibration_ = NameCalibration.learn(scored, known, self.name_weights_)
        return self

    def predict_proba(self, X: Any, n_segments: Any = None) -> Any:
        """Return probabilities of the names in ``classes_``, (T, C) for each data set.

        All samples of a predicted segment have the same probabilities, which are computed from the
        scores of the names for the whole segment.

        Parameters
        ----------
        X : (T, P) array or sequence of such arrays
        n_segments : int or sequence of int, optional
            Number of segments; by default it follows from ``penalty_``.

        Raises
        ------
        ValueError
            If :meth:`calibrate` has not been called since the learner was fitted.
        """
        data = self.read_data(X)
        known: NameCalibration | None = getattr(self, "name_calibration_", None)
        if known is None or not np.array_equal(known.weights.coef, self.name_weights_.coef):
            raise ValueError(
                f"{type(self).__name__} needs calibrate(X, y) after fit, with labeled data left "
                "out of training, for probabilities of names."
            )
        scored = self._scored(data, n_segments)
        return data.as_passed([np.repeat(known.of(*one), one[1], axis=0) for one in scored])

    def _scored(self, data: DataSets, n_segments: Any) -> list[tuple[NDArray, NDArray]]:
        """Return the scores of names (K, C) and the lengths (K,) of each data set's segments."""
        score, scored = self.present_score, []
        for array, count, _ in zip(data.arrays, *self.given(data, n_segments)):
            form: Any = score.form(array)
            found = score.best(form, count)
            scored.append((form.names.by_name(found.change_points), found.sizes))
        return scored


@dataclass(frozen=True, kw_only=True)
class NamedSegmentations(Segmentations):
    """The task of dividing sequences into named segments. A name means the same everywhere."""

    emissions: Any
    name_loss: float | None = None
    transitions: bool = False
    extra: ClassVar[str] = "names"
    further: ClassVar[str] = "scores of names"

    def read(self, X: Any, y: Any, executor: Executor | None = None) -> Training:
        """Read sequences and names. Every run of equal labels is a segment.

        Samples with the label −1 have no names. Change-points and regions have no names either.
        """
        training = super().read(X, y, executor)
        codes, classes = read_names(self.who, y, training.data, training.truths)
        truths = named_truths(codes, training.truths)
        return replace(training, truths=truths, classes=classes)

    def truths(self, labels: Labels) -> list[Any]:
        """Return the labels with the names of segments."""
        return named_truths(labels.codes or [], super().truths(labels))

    def labeled_parts(self, training: Training) -> LabeledParts:
        """Cut out the stretches that labels cover. The first metric is learned without names."""
        unnamed = {one.name: getattr(self, one.name) for one in fields(Segmentations)}
        return Segmentations(**unnamed).labeled_parts(training)

    def complete(self, training: Training, first: Any) -> list[Any]:
        """Complete partial labels by segmentations with a name for every segment.

        Boundaries are found under a first metric. A segment without
        a given name gets the name whose labeled samples have the nearest mean. Distances between
        means are computed after features have been divided by their standard deviations.
        """
        data = training.data
        completed = self.completions(training, first)
        weights = training.weights
        deviation = data.measures.pooled_deviation(self.who, weights)
        arrays = [array / deviation for array in data.arrays]
        codes = np.concatenate([truth.names for truth in training.truths])
        rows, classes = np.vstack(arrays), range(codes.max() + 1)
        shares = None if weights is None else np.repeat(weights, data.lengths)
        absent = np.array([not np.any(codes == c) for c in classes])  # no sample remains
        means = []
        for c in classes:
            chosen = (codes == c) | absent[c]
            own = None if shares is None else shares[chosen]
            means.append(np.average(rows[chosen], axis=0, weights=own))
        truths: list[Any] = []
        for array, partition, known in zip(arrays, completed, training.truths):
            centers = partition.pool(array) / partition.sizes[:, None]
            names = np.argmin(np.where(absent, np.inf, cdist(centers, means)), axis=1)
            given = known.names >= 0
            names[partition.labels[given]] = known.names[given]
            truths.append(known.with_completion(NamedPartition(partition.change_points, names)))
        return truths

    def samples(self, training: Training, scale: NDArray, extra: Any) -> Sequence[Any]:
        pairs = zip(training.data.arrays, extra.rows)
        return [NamedSamples(array, scale, more=rows) for array, rows in pairs]

    def loss(self, training: Training) -> NamedLoss:
        """Return the loss: ‖M − N‖² plus β for every sample with a wrong name."""
        weight, shares = self.name_loss, training.weights
        if weight is None:
            counts = np.array([[one.n_clusters, one.n_samples] for one in training.truths])
            segments, samples = counts.sum(axis=0) if shares is None else shares @ counts
            weight = segments / samples
        return NamedLoss(float(weight))

    def terms(self, training: Training, unit: float) -> tuple[dict[str, Any], Any]:
        """Return the terms of the hinge, with scores of names in addition to the metric."""
        terms, _ = super().terms(training, unit)
        arrays, truths, classes = training.data.arrays, training.truths, training.classes
        assert classes is not None
        loss = self.loss(training)
        labels = Labels(truths, list(map(loss.codes, truths)), classes, training.weights)
        groups = np.arange(len(truths)) if training.groups is None else training.groups
        fit, behind = training.views.fit, training.view
        emissions, seen = fit(self.emissions, arrays, labels, groups, behind)
        rows = list(map(with_constant, seen))
        n_names, n_features = len(classes), rows[0].shape[1]
        nothing = np.zeros((n_names, n_features))  # W and τ are still 0
        extra: Any = NameWeights(emissions, classes, n_features, nothing, rows=rows)
        if self.transitions:
            extra = replace(extra, transitions=np.zeros((n_names, n_names)), unit=_TRANSITION)
        metric = PenalizedMetric(self.metric, extra.n_columns)
        # Fitted classifiers stay in this process, because others need only their features.
        terms["features"] = NamedFeatures(metric, replace(extra, emissions=None, rows=None))
        terms["oracle"] = ConstrainedChangePoints(self.min_size)
        return {**terms, "loss": loss}, extra

    def start(self, cone: MetricCone, training: Training, scale: NDArray) -> NDArray:
        """Return the start for segments without names, but with a larger penalty.

        At the start, a single segment has to be optimal in the loss-augmented problem. Further
        segments can have wrong names, which increase the loss. Suppose that the single segment has
        the rarest name of a data set. The samples of all other names are then wrong. Further
        segments can only make the samples of the rarest name wrong, too. The loss then increases by
        at most β for each of these samples. The largest such sum over the data sets is added to the
        penalty.
        """
        start = super().start(cone, training, scale)
        if not self.count_is_given:
            assert training.classes is not None
            loss, n_names = self.loss(training), len(training.classes)
            codes = map(loss.codes, training.truths)
            rarest = max(np.bincount(c[c >= 0], minlength=n_names).min() for c in codes)
            start[-1] += self.loss_scale * loss.weight * rarest * (1.0 + 1e-6)
        return start
