"""Tasks: the part of large-margin learning that depends on the kind of labels.

The kinds are change-points, clusterings and normalized cuts. A :class:`Task` is a small object that
knows the parameters of a learner and does not change them. It reads data and labels, makes the
samples and the terms of the hinge, chooses where solvers start, completes partial labels, and makes
fitted copies of the learner. Everything else is the same for all learners and is in
:mod:`metriclearn.estimators.learners.large_margin`. The methods of ``Task`` suit sequences and
tables. The task of normalized cuts overrides the methods that do not suit images.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from metriclearn.estimators.data_sets import check_range
from metriclearn.estimators.learners.alternation import FitComponents
from metriclearn.problem.boundary_penalties import PenalizedSamples
from metriclearn.problem.forms import Samples
from metriclearn.running.stored import StoredArrays, StoredSamples
from metriclearn.solvers.base import Solution
from metriclearn.solvers.mahalanobis import MetricCone, PenalizedMetric

# The metric is divided by deviations; it would be infinite for deviations below about this one.
_LEAST_DEVIATION = 1e-300
# Data that are not standardized get a unit that is a power of 2^20.
_UNIT_BITS = 20


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
    """

    data: Any
    truths: list[Any]
    weights: NDArray | None = None
    groups: NDArray | None = None
    classes: NDArray | None = None


@dataclass(frozen=True)
class Task(ABC):
    """The part of large-margin learning that is specific to one kind of labels.

    Parameters
    ----------
    learner : LargeMarginLearner
        The learner whose parameters the task reads.
    count_is_given : bool
        Whether the number of clusters is known in training and prediction, so that clusters have no
        penalty.
    completes : tuple (bool, str)
        The first item is the value of ``count_is_given`` for which partial labels can be completed.
        The second item names the setting with this value, such as ``"n_segments=None"``, in error
        messages.
    one_is_few : bool
        Whether to warn if a single data set does not determine the penalty.
    starts : sequence of float or None
        None for convex objectives. An objective that is not convex is minimized from several
        starts: the result of :meth:`start` times each of these factors. Such an objective has no
        lower bound.
    """

    learner: Any
    count_is_given: bool
    completes: tuple[bool, str]
    one_is_few: bool = False
    starts: Sequence[float] | None = None

    @abstractmethod
    def read(self, X: Any, y: Any) -> Training:
        """Read and check data sets and their labels."""

    @abstractmethod
    def complete(self, training: Training, fit: FitComponents) -> list[Any]:
        """Complete partial labels before the first metric step.

        ``fit`` can learn the metric for this completion.
        """

    def scale(self, training: Training, unit_bits: int = _UNIT_BITS) -> NDArray:
        """Return the number by which each feature is divided, (P,).

        With ``standardize`` it is the pooled standard deviation of the feature. A constant feature
        is divided by ∞. Without ``standardize`` all other features are divided by the same number,
        the power of 2^``unit_bits`` nearest to the largest deviation. With the default
        ``unit_bits`` this number is 1 for most data. Dividing by a power of 2 causes no rounding
        errors.
        """
        data, who = training.data, type(self.learner).__name__
        short = np.flatnonzero(data.lengths < 2)
        if len(short):
            raise ValueError(
                f"{who} needs at least 2 samples in every data set, got 1 sample in data set "
                f"{short[0]}; remove it."
            )
        scale = data.pooled_deviation(who, training.weights)
        if (least := scale.min()) < _LEAST_DEVIATION:
            raise ValueError(
                f"{who} needs features with standard deviations of at least "
                f"{_LEAST_DEVIATION:g}, got {least:.3g}; change the unit."
            )
        if self.learner.standardize:
            return scale
        varies = np.isfinite(scale)
        needed = "standardize=True or features with standard deviations"
        check_range(who, needed, scale[varies], 1e100)
        exponent = unit_bits * np.round(np.log2(scale[varies].max()) / unit_bits)
        return np.where(varies, 2.0**exponent, scale)

    extra_name: ClassVar[str] = "feature_penalty_"  # fitted attribute
    # Whether oracles use the basis of data and labels if all labels are known.
    spans_truths: ClassVar[bool] = False

    def samples(self, training: Training, scale: NDArray, extra: Any) -> Sequence[Any]:
        """Return the samples of all data sets, with the cumulative sums that oracles need.

        Stored data sets are not read yet. Each one is read when it is needed.
        """
        make: Callable[..., Samples] = Samples
        if extra is not None:
            make = partial(PenalizedSamples, columns=extra.columns)
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
        learner, truths = self.learner, training.truths
        if not self.count_is_given:
            gain = 1.0
            for truth in truths:
                if truth.partial_labels is not None:
                    gain = max(gain, float(truth.partial_labels.charges.slack.max()))
            return cone.join(np.zeros(cone.n_metric), learner.loss_scale * gain * (1.0 + 1e-6))
        deviation = training.data.pooled_deviation(type(learner).__name__, training.weights)
        varies = np.isfinite(deviation)
        variance = float(np.sum((deviation[varies] / (scale[varies] * cone.unit)) ** 2))
        density = np.mean([truth.n_clusters / truth.n_samples for truth in truths])
        small = learner.loss_scale * float(density) / variance if density < 1 else 0.0
        return cone.join(small * cone.metric.coordinates(np.eye(cone.n_features)), 0.0)

    def training_losses(self, fitted: Any, training: Training) -> dict[str, float]:
        """Compute the training losses of a fitted learner and of simple baselines, by name.

        The dictionary is empty if a task does not compute losses.
        """
        return {}

    def with_metric(self, statement: Any, w: NDArray, solution: Solution | None = None) -> Any:
        """Copy the learner, and give the copy the metric and the penalty of a point ``w``.

        Parameters
        ----------
        statement : Statement
        w : array (n,)
            A point of the cone of the statement's problem.
        solution : Solution, optional
            The solution with this point. During training it is None, and callbacks get the copy.
        """
        fitted, cone = copy.copy(self.learner), statement.problem.cone
        metric, penalty = cone.split(w)
        fitted.scale_ = statement.scale
        fitted.components_ = cone.metric.components(metric) / (statement.scale * cone.unit)
        fitted.feature_penalty_ = None
        if isinstance(cone.metric, PenalizedMetric):
            learned = statement.extra.weighted(cone.metric.split(metric)[1])
            setattr(fitted, self.extra_name, learned)
        fitted.penalty_ = None
        # tune_penalty has set this for an earlier penalty.
        fitted.__dict__.pop("penalty_unit_", None)
        if not self.count_is_given:
            # A penalty below this is only rounding.
            positive = penalty if penalty > 1e-12 * fitted.loss_scale else 0.0
            fitted.penalty_ = positive if cone.learns_penalty else float(fitted.penalty)
        return fitted
