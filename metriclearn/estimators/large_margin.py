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
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from itertools import repeat
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from metriclearn.estimators.alternation import (
    Alternation,
    AlternationTrace,
    Piece,
    PrincipalStart,
    alternate,
)
from metriclearn.estimators.inputs import DataSets, check_range, read_data_sets, read_weights
from metriclearn.estimators.learned_metric import LearnedMetric, pooled_deviation
from metriclearn.problem.forms import LinearFeatures, Samples
from metriclearn.problem.knowledge import PartialPartition
from metriclearn.problem.losses import FrobeniusLoss
from metriclearn.problem.partition import Partition
from metriclearn.problem.risk import HingeTerms, Oracle, StructuredHinge
from metriclearn.running.callbacks import ProgressBar, WithEstimator
from metriclearn.running.executors import Executor, ThreadExecutor
from metriclearn.running.parameters import Needs, check_parameters, component, either, number
from metriclearn.running.stored import StoredArrays, StoredSamples
from metriclearn.solvers.base import Callback, Problem, Solution, Solver
from metriclearn.solvers.mahalanobis import Metric, MetricCone
from metriclearn.solvers.regularizers import ConvexExpression, Regularizer

__all__ = ["LargeMarginLearner", "LearningProblem"]

_LOGGER = logging.getLogger(__name__)


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
    """Learn B, and the price λ of a cluster, from labeled data sets (Lajugie, Arlot & Bach, Eq. 9).

    Here are scaling, the problem, its certificate and the fitted attributes; what is said of
    samples with linear features, in sequences or tables, other learners override.
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

    _CERTIFIED: ClassVar[bool] = True  # whether solvers have a lower bound of the objective
    # per round; with more, the master problem takes longer than it saves rounds
    _MOST_CUTS: ClassVar[int | None] = 100

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
    completions_: list[NDArray] | None
    scale_: NDArray

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
        y : sequence of (T_i,) labels (any hashables) or Partition, or one
        sample_weight : array (N,), optional
            Weight of every data set.

        Raises
        ------
        ValueError
            For data, labels or parameters that cannot be used, in one sentence.
        """
        self._learn(self._problem(X, y, sample_weight))
        self._report()
        return self

    def _problem(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> LearningProblem:
        """Check parameters and data, remember the features, and state the problem.

        Data sets of weight 0 are left out, as if they had not been passed.
        """
        check_parameters(self)
        data = self._read_training(X)
        truths = self._read_truths(y, data)
        weights = read_weights(type(self).__name__, sample_weight, len(truths))
        self._remember(data)
        if weights is not None:
            used = np.flatnonzero(weights)
            data = data.subset(used)
            truths, weights = [truths[i] for i in used], weights[used] / weights.max()
        if isinstance(truths[0], PartialPartition) or truths[0].known is not None:
            truths = self._complete(data, truths, weights)
        scale = self._feature_scale(data, weights, truths)
        priced = not self._count_known and self.penalty == "learned"
        cone = MetricCone(self.metric, data.n_features, priced)
        risk = self._hinge(cone, self._samples(data, truths, scale), truths, weights)
        start = self._start(cone, data, truths, weights, scale)
        return LearningProblem(risk, self.regularizer, cone, start, feature_scale=scale)

    def _hinge(
        self,
        cone: MetricCone,
        samples: Sequence[Any],
        truths: Sequence[Any],
        weights: NDArray | None,
    ) -> StructuredHinge:
        terms = HingeTerms(
            **self._terms(truths),
            cone=cone,
            loss_scale=self.loss_scale,
            price=0.0 if self._count_known or cone.priced else float(self.penalty),
            count_known=self._count_known,
        )
        # alternation moves the cuts of every data set to its new completion
        n_groups = self._MOST_CUTS if terms.completion is None else None
        return StructuredHinge(
            terms, samples, truths, weights, n_groups=n_groups, executor=self._executor
        )

    def _read_training(self, X: Any) -> Any:
        return read_data_sets(type(self).__name__, X).measured(self._executor)

    def _feature_scale(self, data: Any, weights: NDArray | None, truths: Sequence[Any]) -> NDArray:
        """Pooled standard deviations around the data sets' means, all positive; or ones."""
        who = type(self).__name__
        short = np.flatnonzero(data.lengths < 2)
        if len(short):
            raise ValueError(
                f"{who} needs at least 2 samples in every data set, got 1 sample in data set "
                f"{short[0]}; remove it."
            )
        scale = pooled_deviation(who, data.measures, weights, data.feature_names)
        if self.standardize:
            return scale
        check_range(who, "standardize=True or features with standard deviations", scale, 1e50)
        return np.ones(data.n_features)

    def _terms(self, truths: Sequence[Any]) -> dict[str, Any]:
        """Features, loss and oracles of the hinge."""
        features, loss = LinearFeatures(self.metric), FrobeniusLoss()
        return {"features": features, "loss": loss, "oracle": self._oracle()}

    @staticmethod
    def _sample(X: Any, truth: Partition, scale: NDArray) -> Samples:
        """One scaled data set, with what its oracles need from it once."""
        return Samples(X, scale)

    def _samples(self, data: Any, truths: list[Any], scale: NDArray) -> Sequence[Any]:
        """All data sets, or where they are stored."""
        if isinstance(data.arrays, StoredArrays):
            return StoredSamples(data.arrays, truths, scale, self._sample)
        return list(map(self._sample, data.arrays, truths, repeat(scale)))

    def _start(
        self,
        cone: MetricCone,
        data: Any,
        truths: Sequence[Any],
        weights: NDArray | None,
        scale: NDArray,
    ) -> NDArray:
        """No metric; or with K given, where that makes every answer a tie, a small identity.

        Small: the samples then score about as much as the loss. The price is just above the loss
        scale, where a single cluster is the answer, which limits the price.
        """
        price = self.loss_scale * self._greatest_gain(truths) * (1.0 + 1e-6)
        if not self._count_known:
            return cone.join(np.zeros(cone.n_metric), price)
        deviation = pooled_deviation(type(self).__name__, data.measures, weights)
        variance = float(np.sum((deviation / scale) ** 2))
        density = np.mean([truth.n_clusters / truth.n_samples for truth in truths])
        small = self.loss_scale * float(density) / variance
        return cone.join(small * cone.metric.identity(cone.n_features), price)

    def _greatest_gain(self, truths: Sequence[Any]) -> float:
        """Most loss, times T, that one more cluster can bring."""
        return 1.0

    def _check_partial(self, possible: bool, needed: str) -> None:
        """Raise unless the settings go with partial labels."""
        if not possible or getattr(self.solver, "checkpoint", None) is not None:
            raise ValueError(
                f"{type(self).__name__} needs {needed} and a solver without checkpoint for partial "
                "labels; alternation__checkpoint keeps the state instead."
            )

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
            learner = clone(self).set_params(
                alternation=Alternation(start=PrincipalStart()),
                callbacks=(),
                verbose=False,
                **changes,
            )
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)  # only a start
                return learner.fit(arrays, truths, weights).components_

        return self.alternation.start.components(data.arrays, knowns, fit, cut)

    @property
    def _executor(self) -> Executor:
        return ThreadExecutor(self.n_jobs) if self.executor is None else self.executor

    def _learn(self, problem: LearningProblem) -> Solution:
        """Minimize, with partial labels in turns with completing them; set what is fitted."""
        self.completions_, self.alternation_ = None, None
        if problem.risk.terms.completion is None:
            solution = self._solve(problem)
        else:
            solution, hinge, self.alternation_ = alternate(problem, self._solve, self.alternation)
            self.completions_ = [self._labels_of(truth) for truth in hinge.truths]
        self._accept(problem, solution)
        return solution

    @staticmethod
    def _labels_of(truth: Any) -> NDArray:
        """Labels of the samples in a completion."""
        return truth.labels

    def _solve(self, problem: LearningProblem) -> Solution:
        """Minimize with the learner's solver."""
        with self._watched(problem) as watched:
            return self.solver.minimize(watched)

    @contextmanager
    def _watched(self, problem: LearningProblem) -> Iterator[LearningProblem]:
        """The problem before the learner's callbacks and its bar, and with BLAS kept in bounds."""
        several = getattr(self._executor, "n_jobs", None) not in (None, 1)
        threads = 1 if problem.cone.n_features < 500 or several else None

        def snapshot(w: NDArray) -> LargeMarginLearner:
            learner = copy.copy(self)
            learner._accept_point(problem, w)
            return learner

        callbacks = map(WithEstimator, self.callbacks, repeat(snapshot))
        with (
            threadpool_limits(threads, user_api="blas"),
            closing(ProgressBar(type(self).__name__, self.verbose)) as bar,
        ):
            yield replace(problem, callbacks=(bar, *callbacks))

    def _accept(self, problem: LearningProblem, solution: Solution) -> None:
        """Set the fitted attributes from a solution; its cuts are not kept."""
        self.solution_ = replace(solution, cuts=None)
        self._accept_point(problem, solution.w)

    def _accept_point(self, problem: LearningProblem, w: NDArray) -> None:
        metric, price = problem.cone.split(w)
        self.scale_ = problem.feature_scale
        self.components_ = self.metric.components(metric) / self.scale_
        if self._count_known:
            self.penalty_ = None
        else:
            self.penalty_ = price if problem.cone.priced else float(self.penalty)

    def _report(self) -> None:
        solution, rounds = self.solution_, len(self.solution_.trace)
        gap = f" at a relative gap of {solution.relative_gap:.2g}" if self._CERTIFIED else ""
        _LOGGER.info(
            "%s after %d rounds%s: objective %.6g", solution.reason, rounds, gap, solution.objective
        )
        if not solution.converged and solution.reason != "callback":
            warnings.warn(
                f"{type(self).__name__} stopped ({solution.reason}){gap} after {rounds} rounds; "
                "the best metric so far is kept. Raise the solver's max_rounds or its tolerance.",
                ConvergenceWarning,
                stacklevel=3,
            )
