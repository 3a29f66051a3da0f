"""What all large-margin learners share: parameters, scaling, the convex problem, the report."""

from __future__ import annotations

import logging
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from metriclearn.estimators.alternation import Alternation, AlternationTrace, alternate
from metriclearn.estimators.inputs import DataSets, read_data_sets, read_weights
from metriclearn.estimators.learned_metric import LearnedMetric, pooled_deviation
from metriclearn.problem.joint_features import LinearFeatures, Samples
from metriclearn.problem.losses import FrobeniusLoss
from metriclearn.problem.oracle import Oracle
from metriclearn.problem.partition import Partition
from metriclearn.problem.risk import StructuredHinge
from metriclearn.running.callbacks import ProgressBar, WithEstimator
from metriclearn.running.executors import Executor, ThreadExecutor
from metriclearn.running.parameters import Needs, check_parameters, component, either, number
from metriclearn.running.stored import StoredArrays, StoredSamples
from metriclearn.solvers.base import Callback, Problem, Solution, Solver
from metriclearn.solvers.mahalanobis import Metric, MetricCone
from metriclearn.solvers.regularizers import ConvexExpression, Regularizer

__all__ = ["LargeMarginLearner", "LearningProblem"]

_LOGGER = logging.getLogger(__name__)
_MOST_CUTS = 100  # per round; with more, the master problem takes longer than it saves rounds


@dataclass(frozen=True, kw_only=True)
class LearningProblem(Problem):
    """Eq. (9) for one training set: what a solver is asked, and the scale of the features.

    Attributes
    ----------
    feature_scale : array (P,)
        What features were divided by.
    """

    feature_scale: NDArray


class LargeMarginLearner(LearnedMetric, ABC):
    """Learn B, and the price λ of a cluster, from labeled data sets: Eq. (9), linear features.

    A subclass says how labels are read, which oracle answers and whether the number of clusters
    is known; scaling, the convex problem, its certificate and the fitted attributes are here.
    """

    PARAMETERS: ClassVar[Mapping[str, Needs]] = {
        "metric": component(Metric, "DiagonalMetric()"),
        "regularizer": component((Regularizer, ConvexExpression), "L1()"),
        "solver": component(Solver, "BundleDual()"),
        "callbacks": Needs(
            "callbacks with the methods on_round and on_end",
            lambda callbacks: all(isinstance(callback, Callback) for callback in callbacks),
        ),
        "penalty": either("learned", number()),
        "loss_scale": number(positive=True),
        "alternation": component(Alternation, "Alternation()"),
    }

    metric: Metric
    regularizer: Regularizer
    solver: Solver
    penalty: str | float
    loss_scale: float
    standardize: bool
    alternation: Alternation
    callbacks: Sequence[Callback]
    n_jobs: int | None
    executor: Executor | None
    verbose: bool | None
    penalty_: float | None
    solution_: Solution
    alternation_: AlternationTrace | None
    completions_: list[NDArray[np.int64]] | None
    scale_: NDArray

    @property
    @abstractmethod
    def _count_known(self) -> bool:
        """Whether inference knows the number of clusters."""

    @abstractmethod
    def _read_truths(self, y: Any, data: DataSets) -> list[Partition]:
        """Check labels and read them as partitions."""

    @abstractmethod
    def _oracle(self) -> Oracle:
        """Loss-augmented inference."""

    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Learn from data sets and their labels.

        Parameters
        ----------
        X : sequence of (T_i, P) arrays or data frames, or one (T, P) array
            An object that is no list or tuple but has ``__len__`` and ``__getitem__`` is asked
            for data sets one at a time, in every round; workers of Dask keep theirs.
        y : sequence of (T_i,) labels (any hashables) or Partition, or one
        sample_weight : array (N,), optional
            Weight of every data set.

        Raises
        ------
        ValueError
            For data, labels or parameters that cannot be used, in one sentence.
        """
        problem = self._problem(X, y, sample_weight)
        self._accept(problem, self._learn(problem))
        self._report()
        return self

    def _learn(self, problem: LearningProblem) -> Solution:
        """Minimize; with partial labels, in turns with completing them."""
        self.completions_, self.alternation_ = None, None
        if not problem.risk.partial:
            return self._solve(problem)
        solution, hinge, self.alternation_ = alternate(problem, self._solve, self.alternation)
        self.completions_ = [truth.labels for truth in hinge.truths]
        return solution

    def _hinge(self, truths: Sequence[Partition]) -> Callable[..., StructuredHinge]:
        """What makes the risk, given all that does not depend on how truths are read."""
        oracle = self._oracle()
        return partial(StructuredHinge, loss=FrobeniusLoss(), oracle=oracle, n_groups=_MOST_CUTS)

    @staticmethod
    def _sample(X: Any, truth: Partition, scale: NDArray) -> Samples:
        """One scaled data set, with what its oracles need from it once."""
        return Samples(X, scale)

    def _samples(
        self, data: DataSets, truths: list[Partition], scale: NDArray
    ) -> Sequence[Samples]:
        """All of them, or where they are stored."""
        if isinstance(data.arrays, StoredArrays):
            return StoredSamples(data.arrays, truths, scale, self._sample)
        return [self._sample(array, truth, scale) for array, truth in zip(data.arrays, truths)]

    @property
    def _executor(self) -> Executor:
        return ThreadExecutor(self.n_jobs) if self.executor is None else self.executor

    def _dearest(self, truths: Sequence[Partition]) -> float:
        """Most loss, times T, that one more cluster can bring."""
        return 1.0

    def _problem(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> LearningProblem:
        """Check parameters and data, remember the features, and state the convex problem."""
        check_parameters(self)
        who = type(self).__name__
        data = read_data_sets(who, X).measured(self._executor)
        truths = self._read_truths(y, data)
        weights = read_weights(who, sample_weight, len(truths))
        self._remember(data)
        if weights is not None:
            used = np.flatnonzero(weights)
            data = data.subset(used)
            truths, weights = [truths[i] for i in used], weights[used] / weights.max()
        scale = self._feature_scale(data, weights, truths)
        cone = self._cone(data.n_features)
        risk = self._hinge(truths)(
            features=LinearFeatures(self.metric),
            cone=cone,
            samples=self._samples(data, truths, scale),
            truths=truths,
            weights=weights,
            loss_scale=self.loss_scale,
            price=0.0 if self.penalty == "learned" else float(self.penalty),
            count_known=self._count_known,
            executor=self._executor,
        )
        # just above the loss scale a single cluster is the answer, which limits the price
        dearest = self.loss_scale * self._dearest(truths) * (1.0 + 1e-6)
        variance = float(np.sum((pooled_deviation(who, data.measures, weights) / scale) ** 2))
        start = cone.join(self._start(cone, truths, variance), dearest)
        return LearningProblem(risk, self.regularizer, cone, start, feature_scale=scale)

    def _solve(self, problem: LearningProblem) -> Solution:
        """Minimize with the learner's solver, before its callbacks."""
        P = problem.cone.n_features
        several = getattr(self._executor, "n_jobs", None) not in (None, 1)
        threads = 1 if P < 500 or several else None

        def snapshot(w: NDArray) -> LargeMarginLearner:
            copy = type(self)(**self.get_params(deep=False))
            copy.__dict__.update({k: v for k, v in self.__dict__.items() if k.endswith("in_")})
            copy._accept_point(problem, w)
            return copy

        with (
            threadpool_limits(threads, user_api="blas"),
            ProgressBar(type(self).__name__, self.verbose) as bar,
        ):
            watching: list[Callback] = [bar]
            watching += [WithEstimator(callback, snapshot) for callback in self.callbacks]
            return self.solver.minimize(replace(problem, callbacks=watching))

    def _accept(self, problem: LearningProblem, solution: Solution) -> None:
        """Set the fitted attributes from a solution; its cuts are not kept."""
        self.solution_ = replace(solution, cuts=None)
        self._accept_point(problem, solution.w)

    def _accept_point(self, problem: LearningProblem, w: NDArray) -> None:
        coordinates, price = problem.cone.split(w)
        self.scale_ = problem.feature_scale
        self.components_ = self.metric.components(coordinates) / self.scale_
        if self._count_known:
            self.penalty_ = None
        else:
            self.penalty_ = price if problem.cone.priced else float(self.penalty)

    def _feature_scale(
        self, data: DataSets, weights: NDArray | None, truths: Sequence[Partition]
    ) -> NDArray:
        """Pooled standard deviations around the data sets' means, all positive; or ones."""
        short = np.flatnonzero(data.lengths < 2)
        if len(short):
            raise ValueError(
                f"{type(self).__name__} needs at least 2 samples in every data set, got 1 "
                f"sample in data set {short[0]}; remove it."
            )
        who, names = type(self).__name__, data.feature_names
        scale = pooled_deviation(who, data.measures, weights, names)
        if not self.standardize and (scale.min() < 1e-50 or scale.max() > 1e50):
            raise ValueError(
                f"{type(self).__name__} needs features with standard deviations between 1e-50 and "
                f"1e50 without standardize, got {scale.min():.3g} to {scale.max():.3g}; rescale."
            )
        return scale if self.standardize else np.ones(data.n_features)

    def _cone(self, n_features: int) -> MetricCone:
        priced = not self._count_known and self.penalty == "learned"
        return MetricCone(self.metric, n_features, priced)

    def _start(self, cone: MetricCone, truths: list[Partition], variance: float) -> NDArray:
        """No metric; or with K given, where that makes every answer a tie, a small identity.

        Small: the samples, of that total ``variance``, then score about as much as the loss.
        """
        if not self._count_known:
            return np.zeros(cone.n_metric)
        density = np.mean([truth.n_clusters / truth.n_samples for truth in truths])
        identity = cone.metric.identity(cone.n_features)
        return self.loss_scale * float(density) / variance * identity

    def _report(self) -> None:
        solution = self.solution_
        _LOGGER.info(
            "%s after %d rounds: objective %.6g, gap %.2g",
            solution.reason,
            len(solution.trace),
            solution.objective,
            solution.relative_gap,
        )
        if not solution.converged and solution.reason != "callback":
            warnings.warn(
                f"{type(self).__name__} stopped ({solution.reason}) at a relative gap of "
                f"{solution.relative_gap:.2g}; the best metric so far is kept. Raise the solver's "
                "max_rounds or its tolerance.",
                ConvergenceWarning,
                stacklevel=3,
            )
