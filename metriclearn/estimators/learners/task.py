"""Tasks: the part of large-margin learning that depends on the kind of labels.

The kinds are change-points, clusterings and normalized cuts. A :class:`Task` is a frozen value that
knows no learner. It reads data and labels, makes the samples and the terms of the hinge, chooses
where solvers start, completes partial labels, and makes the score of a solution. Everything else
is the same for all learners and is in :mod:`metriclearn.estimators.learners.large_margin`. The
methods of ``Task`` suit sequences and tables. The task of normalized cuts overrides the methods
that do not suit images.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from itertools import repeat
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from metriclearn.estimators.learners.alternation import FirstMetric, KnownStart, Piece
from metriclearn.estimators.reading.data_sets import DataSets, read_data_sets
from metriclearn.estimators.reading.labels import read_labelings
from metriclearn.problem.joint_features import PenalizedSamples, Samples
from metriclearn.problem.partial_labels import fewest_changes
from metriclearn.running.executors import Executor
from metriclearn.running.stored import StoredArrays, StoredSamples
from metriclearn.solvers.base import Problem, Solution, Solver
from metriclearn.solvers.mahalanobis import Metric, MetricCone, PenalizedMetric
from metriclearn.views.columns import check_range
from metriclearn.views.gaps import Labels
from metriclearn.views.plain import FittedViews, reads_missing

# The metric is divided by deviations; it would be infinite for deviations below about this one.
_LEAST_DEVIATION = 1e-300


@dataclass(frozen=True)
class Training:
    """Labeled data sets that have been read and checked.

    Attributes
    ----------
    data : DataSets
        Only the data sets with a positive weight.
    truths : list of Partition, PartialPartition or NodeLabels (N,)
        The labels of each data set.
    weights : array (N,) or None
        Positive weights of the data sets. The largest weight is 1.
    groups : int array (N,) or None
        The group of every data set. Cross-fitting never divides a group. If None, each data set is
        a separate group.
    classes : array (C,) or None
        The sorted names of segments, if names are learned. The code c stands for ``classes[c]``.
    view : fitted view or None
        The view that has computed the rows of ``data``.
    source : DataSets or None
        The data sets before the view.
    views : FittedViews
        The views that other learners have fitted to the same data sets.
    """

    data: Any
    truths: list[Any]
    weights: NDArray | None = None
    groups: NDArray | None = None
    classes: NDArray | None = None
    view: Any = None
    source: Any = None
    views: FittedViews = field(default_factory=FittedViews)


class LabeledParts(NamedTuple):
    """The labeled parts of partly labeled data, as a separate problem.

    Attributes
    ----------
    rows : sequence of arrays (T_i, P)
        All rows that the metric sees, not only rows of labeled parts.
    task : Task
        How a metric is learned from the labeled parts.
    training : Training or None
        Each part as a data set, with the features that vary in some part. None if no part contains
        a change.
    varies : bool array (P,)
        These features.
    """

    rows: Sequence[NDArray]
    task: Task
    training: Training | None
    varies: NDArray[np.bool_]

    @classmethod
    def of(
        cls,
        task: Task,
        arrays: Sequence[NDArray],
        knowns: Sequence[Any],
        cut: Callable[[NDArray, Any], list[Piece]],
        shares: NDArray | None = None,
    ) -> Self:
        """Cut the labeled parts out of data sets.

        The weight of a data set, by default 1, is divided among its parts in proportion to length.
        """
        pieces: list[Piece] = []
        weights: list[float] = []
        shares = np.ones(len(arrays)) if shares is None else shares
        for array, known, share in zip(arrays, knowns, shares.tolist()):
            parts = cut(array, known)
            lengths = np.array([len(part) for part, _ in parts])
            weights.extend(share * lengths / lengths.sum())
            pieces += parts
        labels = [known for _, known in pieces]
        varies = np.sum([np.ptp(piece, axis=0) for piece, _ in pieces], axis=0) > 0
        if not (any(map(fewest_changes, labels)) and varies.any()):
            return cls(arrays, task, None, varies)
        data = DataSets([piece[:, varies] for piece, _ in pieces], False, None)
        return cls(arrays, task, Training(data, labels, np.array(weights) / max(weights)), varies)


@dataclass(frozen=True, kw_only=True)
class Task(ABC):
    """The part of large-margin learning that is specific to one kind of labels.

    Parameters
    ----------
    who : str
        Name used in errors.
    metric : Metric
    count_is_given : bool
        Whether the number of clusters is known in training and prediction, so that clusters have no
        penalty.
    penalty : "learned", FeaturePenalty or float
        The penalty of a cluster.
    loss_scale : float
        α.
    standardize : bool
        Whether features are divided by their deviations.
    first : FirstMetric
        The metric under which partial labels are completed for the first time.
    missing : bool
        Whether data may contain NaN, which a view leaves out or fills.
    starts : sequence of float or None
        None for convex objectives. An objective that is not convex is minimized from several
        starts: the result of :meth:`start` times each of these factors. Such an objective has no
        lower bound.
    """

    # The value of ``count_is_given`` for which partial labels can be completed, and the setting
    # with this value in words.
    completes: ClassVar[tuple[bool, str]]
    # Whether to warn if a single data set does not determine the penalty.
    one_is_few: ClassVar[bool] = False
    # Whether every run of equal labels is a separate cluster.
    segments: ClassVar[bool] = True
    # Whether a view may leave rows out.
    may_leave_out: ClassVar[bool] = True
    # Whether oracles use the basis of data and labels if all labels are known.
    spans_truths: ClassVar[bool] = False
    # Data that are not standardized get a unit that is a power of 2 ** unit_bits.
    unit_bits: ClassVar[int] = 20

    who: str
    metric: Metric
    count_is_given: bool
    penalty: Any = 0.0
    loss_scale: float = 1.0
    standardize: bool = True
    first: FirstMetric = KnownStart()  # noqa: RUF009  # has no state
    starts: Sequence[float] | None = None
    missing: bool = False

    @classmethod
    def of(cls, learner: Any, count_is_given: bool) -> Self:
        """Make the task of a learner, whose parameters are most of the fields."""
        own: dict[str, Any] = {f.name: getattr(learner, f.name, f.default) for f in fields(cls)}
        own |= {"who": type(learner).__name__, "first": learner.alternation.start}
        own |= {"missing": reads_missing(learner.view), "count_is_given": count_is_given}
        return cls(**own)

    def read(self, X: Any, y: Any, executor: Executor | None = None) -> Training:
        """Read and check data sets and their labels. The executor reads stored data sets."""
        data = read_data_sets(self.who, X, executor=executor, missing=self.missing)
        truths = read_labelings(self.who, y, data, segments=self.segments, partial=True)
        return Training(data, truths)

    def truths(self, labels: Labels) -> list[Any]:
        """Return the labels that the hinge reads, from labels of the rows of a view."""
        return list(labels.partitions)

    @abstractmethod
    def labeled_parts(self, training: Training) -> LabeledParts | None:
        """Return the labeled parts of the data; None if no first metric is needed."""

    @abstractmethod
    def complete(self, training: Training, first: Any) -> list[Any]:
        """Complete partial labels under the components of a first metric, (r, P) or None."""

    def scale(self, training: Training) -> NDArray:
        """Return the number by which each feature is divided, (P,).

        With ``standardize`` it is the pooled standard deviation of the feature. A constant feature
        is divided by ∞. Without ``standardize`` all other features are divided by the same number,
        the power of 2^``unit_bits`` nearest to the largest deviation. With the default
        ``unit_bits`` this number is 1 for most data. Dividing by a power of 2 causes no rounding
        errors.
        """
        data, who = training.data, self.who
        short = np.flatnonzero(data.lengths < 2)
        if len(short):
            raise ValueError(
                f"{who} needs at least 2 samples in every data set, got 1 sample in data set "
                f"{short[0]}; remove it."
            )
        scale = data.measures.pooled_deviation(who, training.weights)
        if (least := scale.min()) < _LEAST_DEVIATION:
            raise ValueError(
                f"{who} needs features with standard deviations of at least "
                f"{_LEAST_DEVIATION:g}, got {least:.3g}; change the unit."
            )
        if self.standardize:
            return scale
        varies = np.isfinite(scale)
        needed = "standardize=True or features with standard deviations"
        check_range(who, needed, scale[varies], 1e100)
        exponent = self.unit_bits * np.round(np.log2(scale[varies].max()) / self.unit_bits)
        return np.where(varies, 2.0**exponent, scale)

    def samples(self, training: Training, scale: NDArray, extra: Any) -> Sequence[Any]:
        """Return the samples of all data sets, with the cumulative sums that oracles need.

        Stored data sets are not read yet. Each one is read when it is needed.
        """
        make: Callable[..., Samples] = Samples
        if extra is not None:
            make = partial(PenalizedSamples, more=extra.columns)
        data, truths = training.data, [None] * len(training.truths)
        if self.spans_truths and training.truths[0].partial_labels is None:
            truths = training.truths
        if isinstance(data.arrays, StoredArrays):
            return StoredSamples(data.arrays, data.lengths, scale, truths, make)
        return list(map(make, data.arrays, repeat(scale), truths))

    @abstractmethod
    def terms(self, training: Training, unit: float) -> tuple[dict[str, Any], Any]:
        """Return the joint features, loss and oracles of the hinge, as arguments of HingeTerms.

        Also returns the term of the score that is learned in addition to the metric, or None. The
        weights of this term are learned later, together with the metric. All other parts of the
        term have been fitted. Without ``standardize``, learning divides features by ``unit``. With
        ``standardize``, ``unit`` is 1.
        """

    def start(self, cone: MetricCone, training: Training, scale: NDArray) -> NDArray:
        """Return the point w at which solvers start: a zero metric or a multiple of the identity.

        If numbers of clusters are given, the metric is a multiple of the identity, because all
        partitions would have the same score under a zero metric. The multiple is chosen so that the
        scores of samples are about as large as the loss. If the given numbers are so large that
        every sample is a cluster, only one partition is possible, and the metric starts at 0.

        If numbers of clusters are not given, the metric starts at 0. A learned penalty starts just
        above α times the largest loss that one more cluster can add, where α is the loss scale. A
        single cluster is then optimal at the start, and the cut computed there bounds the penalty.
        """
        truths = training.truths
        if not self.count_is_given:
            gain = 1.0
            for truth in truths:
                if (known := truth.partial_labels) is not None:
                    gain = max(gain, known.charges.rise, float(known.charges.slack.max()))
            return cone.join(np.zeros(cone.n_metric), self.loss_scale * gain * (1.0 + 1e-6))
        deviation = training.data.measures.pooled_deviation(self.who, training.weights)
        varies = np.isfinite(deviation)
        variance = float(np.sum((deviation[varies] / (scale[varies] * cone.unit)) ** 2))
        density = np.mean([truth.n_clusters / truth.n_samples for truth in truths])
        small = self.loss_scale * float(density) / variance if density < 1 else 0.0
        return cone.join(small * cone.metric.coordinates(np.eye(cone.n_features)), 0.0)

    @abstractmethod
    def score(self, statement: Statement, w: NDArray) -> Any:
        """Return the score of a point ``w`` of the statement's cone, with which learners predict.

        The score is a SegmentScore, ClusterScore or CutScore.
        """

    def refusal_of(self, solver: Solver) -> str | None:
        """Return what the task needs in place of a solver that cannot learn it, else None."""
        return None

    def training_losses(self, score: Any, scale: NDArray, training: Training) -> dict[str, float]:
        """Compute the training losses of a score and of simple baselines, by name.

        The dictionary is empty if a task does not compute losses.
        """
        return {}

    def certified(self, problem: Problem, solution: Solution) -> dict[str, float]:
        """Return fitted attributes that certify a solution, besides its bound."""
        return {}


@dataclass(frozen=True)
class Statement:
    """A problem for a solver, and the numbers that convert the solution to units of the data.

    Attributes
    ----------
    problem : Problem
    training : Training
        The training data, whose partial labels have been completed.
    scale : array (P,)
        Features are divided by ``scale * problem.cone.unit``. ``scale`` holds standard deviations
        or, without ``standardize``, ones. The entry of a constant feature is ∞.
    extra : FeaturePenalty, NameWeights or None
        A further term of the score that is learned together with the metric. The term is linear in
        its weights, which are still unknown.
    """

    problem: Problem
    training: Training
    scale: NDArray
    extra: Any

    def parts(self, w: NDArray) -> tuple[NDArray, float, Any]:
        """Return the components Lᵀ, the penalty and the further term of a point of the cone."""
        cone, extra = self.problem.cone, self.extra
        metric, penalty = cone.split(w)
        components = cone.metric.components(metric) / (self.scale * cone.unit)
        if isinstance(cone.metric, PenalizedMetric):
            extra = extra.weighted(cone.metric.split(metric)[1])
        terms = self.problem.risk.terms
        if not cone.learns_penalty:
            return components, float(terms.penalty), extra
        # A penalty below this is only rounding.
        return components, penalty if penalty > 1e-12 * terms.loss_scale else 0.0, extra
