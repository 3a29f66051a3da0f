"""The steps that are the same for all large-margin learners.

A learner reads data, completes labels, states the problem, solves it, stores the result and reports
it.

Everything that differs between change-points (ordered samples), clustering (unordered samples) and
normalized cuts (nodes) is in the learner's :class:`~metriclearn.estimators.learners.task.Task`.
"""

from __future__ import annotations

import copy
import numbers
from abc import ABC, abstractmethod
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from itertools import compress
from typing import Annotated, Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metriclearn.estimators.learned_metric import LearnedMetric
from metriclearn.estimators.learners.alternation import (
    Alternation,
    AlternationTrace,
    PrincipalStart,
    Turns,
)
from metriclearn.estimators.learners.concerns import report
from metriclearn.estimators.learners.task import Statement, Task, Training
from metriclearn.estimators.penalties.feature_penalty import FeaturePenalty
from metriclearn.estimators.reading.data_sets import DataSets, keep_features
from metriclearn.estimators.reading.labels import alike, labels_of, read_weights
from metriclearn.problem.risk import HingeTerms, StructuredHinge
from metriclearn.running.callbacks import Callbacks, ProgressBar
from metriclearn.running.executors import Executor, ThreadExecutor, one_blas_thread
from metriclearn.running.parameters import (
    Jobs,
    Of,
    OneOf,
    Real,
    Verbose,
    check_parameters,
    refuse_unknown,
)
from metriclearn.solvers.base import Problem, Solution, Solver
from metriclearn.solvers.mahalanobis import Metric, MetricCone
from metriclearn.solvers.regularizers import ConvexExpression, Regularizer, in_unit
from metriclearn.views.columns import spread
from metriclearn.views.gaps import labels_behind
from metriclearn.views.plain import FittedViews, leaves_out, read_groups

# Cuts per round. With more, the master problem costs more time than it saves.
_MOST_CUTS = 100
REGULARIZER = Of((Regularizer, ConvexExpression), "L1()")


@dataclass(eq=False, repr=False, kw_only=True)
class LargeMarginLearner(LearnedMetric, ABC):
    """Learn a metric B and the penalty λ of a cluster from labeled data sets.

    The learner solves the problem of Lajugie, Arlot & Bach, Eq. (9). Except for normalized cuts,
    this problem is convex. Every subclass defines the property ``task``.
    """

    metric: Annotated[Metric, Of(Metric, "DiagonalMetric()")]
    regularizer: Annotated[Regularizer, REGULARIZER]
    solver: Annotated[Solver, Of(Solver, "BundleDual()")]
    penalty: Annotated[str | float | FeaturePenalty, OneOf("learned", Real())] = "learned"
    loss_scale: Annotated[float, Real(1e-50)] = 1.0
    standardize: bool = True
    view: Annotated[Any, Of("reach", "views.Each(PCA(2))", optional=True)] = None
    alternation: Annotated[Alternation, Of(Alternation, "Alternation()")] = Alternation()  # noqa: RUF009
    callbacks: Callbacks = ()
    n_jobs: Jobs = None
    executor: Annotated[Executor | None, Of("each", "DaskExecutor()", optional=True)] = None
    verbose: Verbose = None

    scale_: NDArray = field(init=False)
    solution_: Solution = field(init=False)
    completions_: list[NDArray] | None = field(init=False)
    alternation_: AlternationTrace | None = field(init=False)

    @property
    @abstractmethod
    def task(self) -> Task:
        """The :class:`Task` of this learner, with its parameters."""

    def fit(
        self,
        X: Any = None,  # or Python says that "LargeMarginLearner.fit()" needs it
        y: Any = None,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        **unknown: Any,
    ) -> Self:
        """Learn from data sets and their labels.

        Parameters
        ----------
        X : sequence of (T_i, P) arrays or data frames, or one (T, P) array
            A (T,) array is a signal with one feature. Any other object with ``__len__`` and
            ``__getitem__`` is read lazily, one data set at a time, and again in every round. Dask
            workers, however, read their data sets once and keep them in memory.
        y : sequence of (T_i,) labels, Partition or PartialPartition, or a single one
            Labels are any hashable values; −1 means that the label is unknown. The labels of a
            sequence can also be change-points as in ruptures: increasing integers up to T_i.
        sample_weight : array (N,), optional
            Weight of every data set. Data sets of weight 0 are left out.
        groups : array (N,), optional
            Group of every data set, such as the user who recorded it. Cross-fitting never divides a
            group. Learners that also learn the names of segments use cross-fitting. All other
            learners only check that there are at least two groups.

        Raises
        ------
        ValueError
            For data, labels or parameters that cannot be used.
        TypeError
            For arguments that ``fit`` does not have.

        Warns
        -----
        UserWarning
            If nothing can be learned from these labels or at this strength, if features are
            constant, if a single sequence does not determine the penalty, or if the training loss
            is not clearly lower than the loss of simple baselines.
        ConvergenceWarning
            If the solver stops before its tolerance is reached.
        """
        if unknown:
            refuse_unknown(self, unknown)
        return self.fit_among(X, y, sample_weight=sample_weight, groups=groups)

    def fit_among(self, X: Any, y: Any, **given: Any) -> Self:
        """Do what :meth:`fit` does. Views that other learners have fitted to X are used again."""
        training = self.read(X, y, **given)
        statement = self.stated(training)
        fitted, learned = self.solved(statement)
        fitted.training_losses_ = {}
        alone = "views" not in given  # a Segmenter compares its members on recordings left out
        # With an executor, the data are elsewhere.
        if alone and fitted.completions_ is None and self.executor is None:
            losses = self.task.training_losses(learned.score, fitted.scale_, training)
            fitted.training_losses_ = losses
        report(fitted, statement.problem)
        # Attributes are set all at once, so a fit that fails or is interrupted changes nothing.
        self.__dict__ = fitted.__dict__
        return self

    def read(
        self,
        X: Any,
        y: Any,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        views: FittedViews | None = None,
    ) -> Training:
        """Check and read all that :meth:`fit` gets, drop data sets of weight 0, apply the view."""
        check_parameters(self)
        task = self.task
        if (lacking := task.refusal_of(self.solver)) is not None:
            raise ValueError(f"{task.who} needs {lacking}")
        if leaves_out(self.view):
            if not task.may_leave_out:
                needed = f"{task.who} needs a view that keeps all rows"
                raise ValueError(f"{needed}, got {self.view!r}; take Fill instead.")
            for name in ("emissions", "penalty"):
                part = getattr(self, name, None)
                if getattr(part, "reach", (0, 0)) != (0, 0):
                    raise ValueError(
                        f"{task.who} needs {name} without neighbors in time behind "
                        f"{self.view!r}, which leaves rows out, got {part!r}, which would "
                        "read across gaps; take Fill instead."
                    )
        training = task.read(X, y, self.executor or ThreadExecutor(self.n_jobs))
        labels = (
            None if self.view is None else labels_of(task.who, y, training.data, training.truths)
        )
        data, truths = training.data, training.truths
        numbered = None if groups is None else read_groups(task.who, groups, len(truths))
        training = replace(training, groups=numbered, views=views or FittedViews())
        if sample_weight is not None:
            weights: Any = read_weights(task.who, sample_weight, len(truths))
            used = np.flatnonzero(weights)
            training = replace(
                training,
                data=data.subset(used),
                truths=list(compress(truths, weights)),
                weights=weights[used] / weights.max(),
                groups=None if numbered is None else numbered[used],
            )
            labels = labels and replace(labels.subset(used), weights=training.weights)
        if labels is None:
            return training
        arrays = list(training.data.arrays)
        view, rows = training.views.fit(self.view, arrays, labels, training.groups)
        truths = task.truths(labels_behind(view, arrays, labels))
        seen, source = DataSets(rows, training.data.single, None), training.data
        return replace(training, data=seen, truths=truths, view=view, source=source)

    def stated(self, training: Training) -> Statement:
        """Complete the labels, and formulate the problem, without solving it."""
        runner = self.executor or ThreadExecutor(self.n_jobs)
        return state(self.task, training, self.regularizer_of(training), self.solver, runner)

    def regularizer_of(self, training: Training) -> Regularizer:
        """Return the regularizer. A subclass may scale it by training data."""
        return self.regularizer

    def final(self, score: Any, training: Training) -> Any:
        """Return the score with which to predict. A subclass may tune its penalty."""
        return score

    def solved(self, statement: Statement) -> tuple[Self, Learned]:
        """Solve a problem. Returns a fitted copy, and the result with the cuts of the solver."""
        fitted = copy.copy(self)
        training = statement.training
        keep_features(fitted, training.source or training.data)

        def estimator(score: Any) -> Any:
            view = training.view
            return fitted.with_score(score if view is None else score.through(view))

        task, watchers = self.task, list(self.callbacks)
        with ExitStack() as stack:
            if self.verbose is not False:
                bar = ProgressBar(task.who, self.verbose)
                watchers.insert(0, stack.enter_context(closing(bar)))
            problem = replace(
                statement.problem,
                callbacks=watchers,
                estimator=lambda w: estimator(task.score(statement, w)),
            )
            watched = replace(statement, problem=problem)
            learned = solve(task, watched, self.solver, self.alternation)
        learned = learned._replace(score=self.final(learned.score, training))
        fitted = estimator(learned.score)
        fitted.__dict__.update(learned.attributes)
        return fitted, learned


class Learned(NamedTuple):
    """The result of :func:`solve`: a score, the solution with its cuts, and fitted attributes."""

    score: Any
    solution: Solution
    attributes: dict[str, Any]


def solve(
    task: Task,
    statement: Statement,
    solver: Any,
    alternation: Alternation = Alternation(),  # noqa: B008  # is not changed
) -> Learned:
    """Solve a problem.

    With partial labels, steps that complete the labels alternate with steps that learn the metric.
    If there are several starts, their objectives are among the fitted attributes.
    """
    found: dict[str, Any] = {"scale_": statement.scale}
    found |= {"completions_": None, "alternation_": None}

    def minimized(problem: Problem) -> Solution:
        several = getattr(problem.risk.executor, "n_jobs", None) not in (None, 1)
        with one_blas_thread(0 if several else problem.cone.n_features):
            if task.starts is None or problem.warm is not None:
                return solver.minimize(problem)
            points = list(np.outer(task.starts, problem.start))
            solution, objectives = solver.minimize_from(problem, points)
        found["start_objectives_"] = list(zip(map(float, task.starts), objectives))
        return solution

    problem = statement.problem
    if problem.risk.terms.completion is None:
        solution = minimized(problem)
    else:
        turns = Turns(problem, minimized, alternation)
        solution = turns.run(alternation.max_alternations)
        found["alternation_"] = turns.trace
        # labels of nodes have the labels of their samples
        truths = turns.problem.risk.truths
        found["completions_"] = [getattr(t, "completion", t.labels) for t in truths]
    found |= task.certified(problem, solution)
    found["solution_"] = replace(solution, cuts=None)
    return Learned(task.score(statement, solution.w), solution, found)


def complete_labels(
    task: Task, training: Training, regularizer: Regularizer, solver: Solver, executor: Executor
) -> Training:
    """Complete partial labels under a first metric, and return training data with these labels.

    If one data set has partial labels, full labels of other data sets are also converted to partial
    labels. The converted labels have no unknown parts.

    Raises
    ------
    ValueError
        If the settings do not allow partial labels.
    """
    if not any(truth.partial_labels for truth in training.truths):
        return training
    training = replace(training, truths=alike(training.truths))
    count_is_given, needed = task.completes
    if task.count_is_given != count_is_given or getattr(solver, "checkpoint", None):
        raise ValueError(
            f"{task.who} needs {needed} and a solver without checkpoint for partial labels; "
            "alternation__checkpoint keeps the state instead."
        )

    parts = task.labeled_parts(training)
    if parts is None:
        return replace(training, truths=task.complete(training, None))

    def learned() -> NDArray:
        """Learn components from the labeled parts, whose gaps are first completed under PCA."""
        if parts.training is None:
            return np.zeros((0, 0))
        quiet = replace(parts.task, first=PrincipalStart())
        statement = state(quiet, parts.training, regularizer, solver, executor)
        found = solve(quiet, statement, solver)
        if found.solution.reason == "interrupted":
            raise KeyboardInterrupt
        return spread(found.score.components, parts.varies)

    first = task.first.components(parts.rows, learned)
    return replace(training, truths=task.complete(training, first))


def state(
    task: Task, training: Training, regularizer: Regularizer, solver: Solver, executor: Executor
) -> Statement:
    """Complete partial labels, and formulate the problem, without solving it."""
    training = complete_labels(task, training, regularizer, solver, executor)
    scale = task.scale(training)
    unit = 1.0 if task.standardize else float(scale.min())
    parts, extra = task.terms(training, unit)
    penalty = 0.0 if task.count_is_given else task.penalty
    learns_penalty = not isinstance(penalty, numbers.Real)
    cone = MetricCone(parts["features"].metric, training.data.n_features, learns_penalty, unit)
    if isinstance(extra, FeaturePenalty) and isinstance(regularizer, Regularizer):
        extra = extra.within_reach(in_unit(regularizer.terms(cone), cone), cone)
    terms = HingeTerms(
        **parts,
        cone=cone,
        loss_scale=task.loss_scale,
        penalty=0.0 if learns_penalty else float(penalty),
        count_known=task.count_is_given,
    )
    risk = StructuredHinge(
        terms,
        task.samples(training, scale, extra),
        training.truths,
        training.weights,
        # alternation moves the cuts of every data set to its new completion
        n_groups=_MOST_CUTS if terms.completion is None and task.starts is None else None,
        executor=executor,
    )
    start = task.start(cone, training, scale / unit)
    return Statement(Problem(risk, regularizer, cone, start), training, scale / unit, extra)
