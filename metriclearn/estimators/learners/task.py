"""The differences between change-points, clusterings and normalized cuts in large-margin learning.

A :class:`Task` is a small object that reads the parameters of a learner and changes nothing. It
reads data and labels, makes the samples and the terms of the hinge, chooses where solvers start,
and completes partial labels. Everything else is the same for all learners and is in
:mod:`metriclearn.estimators.learners.large_margin`. The methods here are for samples with linear
features; a task overrides those that differ.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from metriclearn.estimators.data_sets import check_range
from metriclearn.estimators.learners.alternation import FitComponents
from metriclearn.estimators.penalties.feature_penalty import FeaturePenalty
from metriclearn.problem.boundary_penalties import PenalizedFeatures, PenalizedSamples
from metriclearn.problem.forms import LinearFeatures, Samples
from metriclearn.running.stored import StoredArrays, StoredSamples
from metriclearn.solvers.base import Problem, Solution
from metriclearn.solvers.mahalanobis import MetricCone, PenalizedMetric

# The metric is divided by deviations; it would be infinite for deviations below about this one.
_LEAST_DEVIATION = 1e-300
# Data that are not standardized get a unit that is a power of 2^20.
_UNIT_BITS = 20


@dataclass(frozen=True)
class Training:
    """Labeled data sets as they were read.

    Attributes
    ----------
    data : DataSets
        Only the data sets with a positive weight.
    truths : list of Partition, PartialPartition or NodeLabels (N,)
    weights : array (N,) or None
        Positive weights; the largest is 1.
    groups : int array (N,) or None
        Group of every data set; cross-fitting does not divide groups. With None, every data set is
        a group.
    classes : array (C,) or None
        The labels that the codes of names stand for.
    """

    data: Any
    truths: list[Any]
    weights: NDArray | None = None
    groups: NDArray | None = None
    classes: NDArray | None = None


@dataclass(frozen=True)
class Task(ABC):
    """One kind of labels to learn from.

    Parameters
    ----------
    learner : LargeMarginLearner
        The task reads its parameters.
    count_is_given : bool
        Whether inference is given the number of clusters.
    completes : tuple (bool, str)
        The ``count_is_given`` that partial labels need, and the setting to name in messages.
    one_is_few : bool
        Whether the penalty may be undetermined if there is a single data set.
    starts : sequence of float or None
        Multiples of the start. An objective that is not convex is minimized from each of them,
        without a lower bound. None for convex objectives.
    """

    learner: Any
    count_is_given: bool
    completes: tuple[bool, str]
    one_is_few: bool = False
    starts: Sequence[float] | None = None

    @abstractmethod
    def read(self, X: Any, y: Any) -> Training:
        """Read and check data sets and labels; fully known labels become partitions."""

    @abstractmethod
    def complete(self, training: Training, fit: FitComponents) -> list[Any]:
        """First completions of partial labels, under a first metric that ``fit`` may learn."""

    def scale(self, training: Training, unit_bits: int = _UNIT_BITS) -> NDArray:
        """The divisors of features, (P,): pooled standard deviations, ∞ for constant features.

        Without ``standardize`` the divisor is the power of 2^``unit_bits`` nearest to the largest
        deviation. This is 1 for most data, and dividing by a power of 2 is exact.
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
    # Whether inference uses the basis of data and labels if all labels are known.
    spans_truths: ClassVar[bool] = False

    def extra_weights(self, training: Training, unit: float) -> Any:
        """A fitted copy of the further term that is learned with the metric, or None."""
        penalty = self.learner.penalty
        if not isinstance(penalty, FeaturePenalty):
            return None
        return clone(penalty).fit(training.data.arrays, training.truths, unit)

    def features_with_extra(self, metric: PenalizedMetric, extra: Any) -> LinearFeatures:
        """The joint features of the metric and of the extra weights."""
        return PenalizedFeatures(metric)

    def samples(self, training: Training, scale: NDArray, extra: Any) -> Sequence[Any]:
        """All data sets, in memory or where they are stored, with the sums that oracles need."""
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
    def terms(self, truths: Sequence[Any]) -> dict[str, Any]:
        """Features, loss and oracles of the hinge."""

    def start(self, cone: MetricCone, training: Training, scale: NDArray) -> NDArray:
        """A zero metric, or a small multiple of the identity if the count is given.

        With a given count all partitions would tie under a zero metric. The identity is scaled so
        that samples score about as much as the loss. If every sample is a cluster, there is only
        one possible partition, and the metric is 0. If the penalty is learned, it starts just
        above the loss scale times the largest loss that one more cluster can add. A single cluster
        is then optimal at the start, which gives a bound on the penalty.
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
        """Losses on training data of a fitted learner and of simple baselines, if that is cheap."""
        return {}

    def finish(self, fitted: Any, problem: Problem, solution: Solution) -> None:
        """Add the fitted attributes of this task to a learner that has its metric."""
        return
