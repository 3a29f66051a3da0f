"""What all large-margin learners share: parameters, scaling, the problem, its solution, the report.

A subclass says how data and labels are read, which forms, loss and oracles make its hinge, and
where solvers begin; it is data sets of samples in order (change-points), without one (clustering)
or of nodes (normalized cuts).
"""

from __future__ import annotations

import copy
import logging
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from functools import partial
from itertools import compress, repeat
from numbers import Real
from operator import attrgetter
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from metriclearn.estimators.inputs import (
    DataSets,
    check_range,
    keep_features,
    note_constant,
    read_data_sets,
    read_weights,
)
from metriclearn.estimators.learned_metric import LearnedMetric
from metriclearn.estimators.learners.alternation import (
    Alternation,
    AlternationTrace,
    Piece,
    PrincipalStart,
    Turns,
)
from metriclearn.estimators.penalties.feature_penalty import FeaturePenalty
from metriclearn.problem.forms import LinearFeatures, Samples
from metriclearn.problem.knowledge import PartialPartition
from metriclearn.problem.losses import FrobeniusLoss, charges
from metriclearn.problem.partition import Partition
from metriclearn.problem.boundary_penalties import PenalizedFeatures, PenalizedSamples
from metriclearn.problem.risk import HingeTerms, Oracle, StructuredHinge
from metriclearn.running.callbacks import ProgressBar
from metriclearn.running.executors import Executor, ThreadExecutor
from metriclearn.running.parameters import (
    Needs,
    check_parameters,
    component,
    either,
    number,
    several,
)
from metriclearn.running.stored import StoredArrays, StoredSamples
from metriclearn.solvers.base import Callback, Problem, Solution, Solver
from metriclearn.solvers.mahalanobis import Metric, MetricCone, PenalizedMetric
from metriclearn.solvers.regularizers import ConvexExpression, Regularizer

_LOGGER = logging.getLogger(__name__)
_LEAST_SIZE = 1e-4  # of the penalty: far below it, no boundary can pay
_SMALLER = 2 / 3  # of the penalty, where it is tried whether the labels bound it
_CONCERNS = {  # what leaves nothing to learn, or nothing learned, and the remedy
    "together": "was given labels that put all samples of a data set together, so that nothing "
    "parts them; pass data sets with two clusters or segments and more",
    "apart": "was given labels that differ for all samples, so that none belong together; give the "
    "samples of a cluster or segment one label",
    "metric": "learned a metric of 0, or nearly, which parts no samples: {regularizer!r} is too "
    "strong; lower the strength",
    "fixed": "learned a metric of 0, or nearly, as {regularizer!r} or penalty={penalty!r} leaves "
    'nothing to gain; lower the strength, or pass penalty="learned"',
    "penalty": "learned a penalty of 0, which makes a cluster of every sample, as the labels say of no "
    "samples that they belong together; add labels or spans (same) without a change, or end lists "
    "of all change-points with T",
    "one": "learned its penalty per segment from one sequence, whose labels two thirds of that penalty "
    "would explain as well: others may get too few segments; fit to several sequences, or set "
    "penalty, or call tune_penalty with others",
}


@dataclass(eq=False, repr=False, kw_only=True)
class LargeMarginLearner(LearnedMetric, ABC):
    """Learn B, and the penalty λ of a cluster, from labeled data sets (Lajugie, Arlot & Bach, Eq. 9).

    Here are scaling, the problem, its certificate and the fitted attributes; what is said of
    samples with linear features, in sequences or tables, other learners override.
    """

    PARAMETERS: ClassVar[Mapping[str, Needs]] = {
        "metric": component(Metric, "DiagonalMetric()"),
        "regularizer": component((Regularizer, ConvexExpression), "L1()"),
        "solver": component(Solver, "BundleDual()"),
        "callbacks": several(
            component(Callback, "EarlyStopping"), "callbacks with the methods on_round and on_end"
        ),
        "penalty": either("learned", number()),
        "loss_scale": number(1e-50),
        "alternation": component(Alternation, "Alternation()"),
    }

    _ONE_IS_FEW: ClassVar[bool] = False  # whether one data set may leave the penalty open
    _CERTIFIED: ClassVar[bool] = True  # whether solvers have a lower bound of the objective
    # per round; with more, the master problem takes longer than it saves rounds
    _MOST_CUTS: ClassVar[int | None] = 100
    _UNIT_BITS: ClassVar[int] = 20  # units of data that are not standardized are powers of 2^this

    # the value of _count_known that goes with partial labels, and in words the setting for it
    _COMPLETABLE: ClassVar[tuple[bool, str]]

    metric: Metric
    regularizer: Regularizer
    solver: Solver
    penalty: str | float | FeaturePenalty = "learned"
    loss_scale: float = 1.0
    standardize: bool = True
    alternation: Alternation = Alternation()  # noqa: RUF009
    callbacks: Sequence[Callback] = ()
    n_jobs: int | None = None
    executor: Executor | None = None
    verbose: bool | None = None

    @property
    @abstractmethod
    def _count_known(self) -> bool:
        """Whether inference knows the number of clusters."""

    @abstractmethod
    def _read_truths(self, y: Any, data: Any) -> list[Any]:
        """Check labels and read them, as partitions where all is known."""

    @abstractmethod
    def _oracle(self) -> Oracle:
        """Loss-augmented inference where all is known."""

    @abstractmethod
    def _complete(self, data: Any, knowns: list[Any], weights: NDArray | None) -> list[Any]:
        """First completions of labels that are partly known."""

    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Learn from data sets and their labels.

        Parameters
        ----------
        X : sequence of (T_i, P) arrays or data frames, or one (T, P) array
            An object that is no list or tuple but has ``__len__`` and ``__getitem__`` is asked
            for data sets one at a time, in every round; workers of Dask keep theirs.
            A (T,) array is a signal with one feature.
        y : sequence of (T_i,) labels (any hashables) or Partition, or one
            Of sequences also change-points as in ruptures, that is integers that rise to T_i.
        sample_weight : array (N,), optional
            Weight of every data set.

        Raises
        ------
        ValueError
            For data, labels or parameters that cannot be used, in one sentence.

        Warns
        -----
        UserWarning
            If labels or the strength leave nothing to learn, or features are constant.
        ConvergenceWarning
            If the solver stops before its tolerance is reached.
        """
        problem = self._problem(X, y, sample_weight)
        self._learn(problem)
        self._report(problem)
        return self

    def _problem(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Problem:
        """Check parameters and data, remember the features, and state the problem.

        Data sets of weight 0 are left out, as if they had not been passed.
        """
        check_parameters(self)
        data = self._read_training(X)
        truths = self._read_truths(y, data)
        weights = read_weights(type(self).__name__, sample_weight, len(truths))
        keep_features(self, data)
        if weights is not None:
            used = np.flatnonzero(weights)
            data = data.subset(used)
            truths, weights = list(compress(truths, weights)), weights[used] / weights.max()
        if isinstance(truths[0], PartialPartition) or truths[0].known is not None:
            count_known, needed = self._COMPLETABLE
            if self._count_known != count_known or getattr(self.solver, "checkpoint", None):
                raise ValueError(
                    f"{type(self).__name__} needs {needed} and a solver without checkpoint for "
                    "partial labels; alternation__checkpoint keeps the state instead."
                )
            truths = self._complete(data, truths, weights)
        scale = self._feature_scale(data, weights, truths)
        unit = 1.0 if self.standardize else float(scale.min())
        self.scale_ = scale / unit
        learns_penalty = not self._count_known and not isinstance(self.penalty, Real)
        metric: Metric = self.metric
        self.feature_penalty_: FeaturePenalty | None = None
        if isinstance(self.penalty, FeaturePenalty):
            self.feature_penalty_ = clone(self.penalty).fit(data.arrays, truths, unit)
            metric = PenalizedMetric(metric, self.feature_penalty_.n_columns)
        cone = MetricCone(metric, data.n_features, learns_penalty, unit)
        risk = self._hinge(cone, self._samples(data, truths, scale), truths, weights)
        start = self._start(cone, data, truths, weights)
        return Problem(risk, self.regularizer, cone, start)

    def _hinge(
        self,
        cone: MetricCone,
        samples: Sequence[Any],
        truths: Sequence[Any],
        weights: NDArray | None,
    ) -> StructuredHinge:
        """The risk of samples (N,) with their truths, of which each is weighed by weights (N,)."""
        parts = self._terms(truths)
        if isinstance(cone.metric, PenalizedMetric):
            parts["features"] = PenalizedFeatures(cone.metric)
        terms = HingeTerms(
            **parts,
            cone=cone,
            loss_scale=self.loss_scale,
            penalty=0.0 if self._count_known or cone.learns_penalty else float(self.penalty),
            count_known=self._count_known,
        )
        # alternation moves the cuts of every data set to its new completion
        n_groups = self._MOST_CUTS if terms.completion is None else None
        return StructuredHinge(
            terms, samples, truths, weights, n_groups=n_groups, executor=self._executor
        )

    def _read_training(self, X: Any) -> Any:
        return read_data_sets(type(self).__name__, X, executor=self._executor)

    def _feature_scale(self, data: Any, weights: NDArray | None, truths: Sequence[Any]) -> NDArray:
        """Pooled standard deviations around the data sets' means, ∞ for constant features.

        Or the power of 2²⁰ nearest to the largest, 1 for most data, which changes no digit; of 2
        where training starts at multiples of it.
        """
        who = type(self).__name__
        short = np.flatnonzero(data.lengths < 2)
        if len(short):
            raise ValueError(
                f"{who} needs at least 2 samples in every data set, got 1 sample in data set "
                f"{short[0]}; remove it."
            )
        scale = data.pooled_deviation(who, weights)
        if self.standardize:
            return scale
        varies = np.isfinite(scale)
        needed = "standardize=True or features with standard deviations"
        check_range(who, needed, scale[varies], 1e100)
        bits = self._UNIT_BITS
        exponent = bits * np.round(np.log2(scale[varies].max()) / bits)
        return np.where(varies, 2.0**exponent, scale)

    def _terms(self, truths: Sequence[Any]) -> dict[str, Any]:
        """Features, loss and oracles of the hinge."""
        features = LinearFeatures(self.metric)
        return {"features": features, "loss": FrobeniusLoss(), "oracle": self._oracle()}

    @staticmethod
    def _sample(X: Any, truth: Partition, scale: NDArray) -> Samples:
        """One scaled data set, with what its oracles need from it once."""
        return Samples(X, scale)

    def _samples(self, data: Any, truths: list[Any], scale: NDArray) -> Sequence[Any]:
        """All data sets, or where they are stored."""
        make: Callable[..., Samples] = self._sample
        if self.feature_penalty_ is not None:
            make = partial(PenalizedSamples, columns=self.feature_penalty_.columns)
        if isinstance(data.arrays, StoredArrays):
            return StoredSamples(data.arrays, truths, scale, make)
        return list(map(make, data.arrays, truths, repeat(scale)))

    def _start(
        self, cone: MetricCone, data: Any, truths: Sequence[Any], weights: NDArray | None
    ) -> NDArray:
        """No metric; or with K given, where that makes every answer a tie, a small identity.

        Small: the samples then score about as much as the loss. Where every sample is a cluster
        there is one answer, and no metric is asked for. The penalty is just above the loss
        scale times the most loss that one more cluster can bring, where a single cluster is the
        answer, which limits the penalty.
        """
        if not self._count_known:
            gain = 1.0
            for truth in truths:
                if truth.known is not None:
                    gain = max(gain, float(charges(truth.known).slack.max()))
            return cone.join(np.zeros(cone.n_metric), self.loss_scale * gain * (1.0 + 1e-6))
        deviation = data.pooled_deviation(type(self).__name__, weights)
        varies = np.isfinite(deviation)
        unit = self.scale_[varies] * cone.unit
        variance = float(np.sum((deviation[varies] / unit) ** 2))
        density = np.mean([truth.n_clusters / truth.n_samples for truth in truths])
        small = self.loss_scale * float(density) / variance if density < 1 else 0.0
        return cone.join(small * cone.metric.coordinates(np.eye(cone.n_features)), 0.0)

    def _first_components(
        self,
        data: DataSets,
        knowns: Sequence[PartialPartition],
        cut: Callable[[NDArray, PartialPartition], list[Piece]],
        **changes: Any,
    ) -> NDArray:
        """Lᵀ of the first completion, for which the learner learns from what is known alone."""

        def fit(arrays: list[NDArray], truths: list[PartialPartition], weights: NDArray) -> NDArray:
            """Components from other data sets, with the same parameters but for ``changes``."""
            start = Alternation(start=PrincipalStart())
            learner = replace(self, alternation=start, callbacks=(), verbose=False, **changes)
            learner._learn(learner._problem(arrays, truths, weights))
            return learner.components_

        return self.alternation.start.components(data.arrays, knowns, fit, cut)

    @property
    def _executor(self) -> Executor:
        return ThreadExecutor(self.n_jobs) if self.executor is None else self.executor

    def _learn(self, problem: Problem) -> Solution:
        """Minimize, with partial labels in turns with completing them; set what is fitted."""
        self.completions_: list[NDArray] | None = None
        self.alternation_: AlternationTrace | None = None
        if problem.risk.terms.completion is None:
            solution = self._solve(problem)
        else:
            turns = Turns(problem, self._solve, self.alternation)
            solution = turns.run(self.alternation.max_alternations)
            self.alternation_ = turns.trace
            # labels of nodes know the labels of their samples
            self.completions_ = [getattr(t, "completion", t.labels) for t in turns.hinge.truths]
        self.solution_ = replace(solution, cuts=None)
        self._set_metric(problem.cone, solution.w)
        return solution

    def _solve(
        self, problem: Problem, minimize: Callable[[Problem], Solution] | None = None
    ) -> Solution:
        """Minimize with the learner's solver, before its callbacks and its bar.

        BLAS is kept within bounds: below 500 features more threads would wait for each other.
        """
        several = getattr(self._executor, "n_jobs", None) not in (None, 1)
        threads = 1 if problem.cone.n_features < 500 or several else None

        def snapshot(w: NDArray) -> LargeMarginLearner:
            learner = copy.copy(self)
            learner._set_metric(problem.cone, w)
            return learner

        watchers = list(self.callbacks)
        with ExitStack() as stack:
            stack.enter_context(threadpool_limits(threads, user_api="blas"))
            if self.verbose is not False:
                bar = ProgressBar(type(self).__name__, self.verbose)
                watchers.insert(0, stack.enter_context(closing(bar)))
            watched = replace(problem, callbacks=watchers, estimator=snapshot)
            return (minimize or self.solver.minimize)(watched)

    def _set_metric(self, cone: MetricCone, w: NDArray) -> None:
        """Set metric and penalty to a point of the cone."""
        metric, penalty = cone.split(w)
        self.components_ = cone.metric.components(metric) / (self.scale_ * cone.unit)
        if isinstance(cone.metric, PenalizedMetric) and self.feature_penalty_ is not None:
            self.feature_penalty_ = self.feature_penalty_.weighted(cone.metric.split(metric)[1])
        self.penalty_: float | None = None
        self.__dict__.pop("penalty_unit_", None)  # of tune_penalty, for another penalty
        if not self._count_known:
            learned = penalty if penalty > 1e-12 * self.loss_scale else 0.0  # less is rounding
            self.penalty_ = learned if cone.learns_penalty else float(self.penalty)

    def _report(self, problem: Problem) -> None:
        """Log how fitting ended, and warn of what makes its result less than was asked for."""
        solution, who, truths = self.solution_, type(self).__name__, problem.risk.truths
        rounds = len(solution.trace.objective)
        gap = f" at a relative gap of {solution.relative_gap:.2g}" if self._CERTIFIED else ""
        _LOGGER.info(
            "%s after %d rounds%s: objective %.6g", solution.reason, rounds, gap, solution.objective
        )
        varies = np.isfinite(self.scale_)
        if not varies.all():
            note_constant(self, varies)
        counts = np.array(list(map(attrgetter("n_clusters"), truths)))
        lengths = np.array(list(map(attrgetter("n_samples"), truths)))
        scaled = self.components_[:, varies] * self.scale_[varies]
        ended = solution.converged or solution.reason == "callback"
        concern = None
        if np.all(counts == 1):
            concern = "together"
        elif np.all(counts == lengths) and self.completions_ is None:
            concern = "apart"
        elif not ended:  # which says enough of the metric
            pass
        elif not scaled.any() or (
            self.standardize  # else the features have any unit
            and lengths.max() * np.sum(scaled**2) < _LEAST_SIZE * (self.penalty_ or 0.0)
        ):
            fixed = not self._count_known and isinstance(self.penalty, Real)
            concern = "fixed" if fixed else "metric"
        elif self.penalty == "learned" and self.penalty_ == 0.0:
            concern = "penalty"
        elif self._ONE_IS_FEW and len(truths) == 1 and self._leaves_penalty_open(problem):
            concern = "one"
        if concern is not None:
            sentence = _CONCERNS[concern].format(**vars(self))
            warnings.warn(f"{who} {sentence}.", stacklevel=3)
        if ended:
            return
        remedy = "raise the solver's max_rounds or its tolerance"
        if solution.reason == "interrupted":
            part = "solver" if self.alternation_ is None else "alternation"
            file = getattr(getattr(self, part), "checkpoint", None)
            remedy = f"fit again to go on from {file}"
            if file is None:
                remedy = f"fit again; with {part}__checkpoint=FILE it would go on from here"
        warnings.warn(
            f"{who} stopped ({solution.reason}){gap} after {rounds} rounds; the best metric so far "
            f"is kept, {remedy}.",
            ConvergenceWarning,
            stacklevel=3,
        )

    def _leaves_penalty_open(self, problem: Problem) -> bool:
        """Whether a smaller penalty than that learned has the same risk, but for the gap."""
        solution, cone = self.solution_, problem.cone
        if not (cone.learns_penalty and solution.converged and self.completions_ is None):
            return False
        metric, penalty = cone.split(solution.w)
        points = [cone.join(metric, share * penalty) for share in (_SMALLER, 1.0)]
        smaller, learned = (problem.risk(point).mean for point in points)
        return smaller <= learned + solution.gap
