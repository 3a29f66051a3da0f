"""ClusteringMetricLearner: a metric, and a penalty per cluster, from labeled tables."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from typing import Annotated, Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from metriclearn.estimators.learners.alternation import labeled_samples
from metriclearn.estimators.learners.large_margin import LargeMarginLearner
from metriclearn.estimators.learners.task import LabeledParts, Statement, Task, Training
from metriclearn.estimators.reading.labels import refuse_sets_without_labels
from metriclearn.estimators.scores.cluster_score import ClusterScore, MahalanobisClusterer
from metriclearn.oracles.completion import ConstrainedKMeans
from metriclearn.oracles.spectral import SpectralRelaxation, TopEigenvectors
from metriclearn.problem.forms import LowRankForm
from metriclearn.problem.joint_features import LinearFeatures
from metriclearn.problem.losses import FrobeniusLoss
from metriclearn.problem.risk import Oracle
from metriclearn.running.parameters import Of, OneOf, RandomState, Whole
from metriclearn.solvers.base import Problem, Solution, Solver
from metriclearn.solvers.bundle import BundleDual
from metriclearn.solvers.mahalanobis import FullMetric, Metric
from metriclearn.solvers.regularizers import Regularizer, SquaredFrobenius

# A feature that is constant in every cluster must not get an infinite weight.
_LEAST_WITHIN = 1e-2


@runtime_checkable
class RelaxableOracle(Oracle, Protocol):
    """An oracle for the maximum in the hinge of clusterings, with a ``relaxation``.

    The oracle finds this maximum exactly or approximately. ``over_partitions`` is true if the
    oracle always returns partitions. ``relaxation`` is an oracle whose values are upper bounds on
    the maximum over partitions. ``relaxation`` may be the oracle itself.
    """

    over_partitions: bool

    @property
    def relaxation(self) -> Oracle:
        """An oracle whose values are upper bounds on the maximum over partitions."""
        ...


@dataclass(frozen=True)
class Certificate:
    """An upper bound on the objective of the fitted metric, and a lower bound for all metrics.

    The objective F contains the exact hinge, which is a maximum over partitions. F can be computed
    for small data only, because this maximum takes too long to find. The relaxed objective F̄ ≥ F
    contains the maximum over projections instead.

    Attributes
    ----------
    upper : float
        The relaxed objective F̄ of the fitted metric, an upper bound on its objective F.
    lower_bound : float
        A lower bound on the objective of every metric. The objective is F if ``over_partitions``,
        else F̄. With partial labels, the bound holds for the final completions.
    over_partitions : bool
        Whether all cuts of the solver came from partitions, as with a local search. A local search
        may miss the maximum, so the gap in the learner's ``solution_`` does not bound F.
    """

    upper: float
    lower_bound: float
    over_partitions: bool

    @property
    def gap(self) -> float:
        """An upper bound on how far the objective of the metric is above the optimum.

        The bound is ``upper`` − ``lower_bound``. The objective is F if ``over_partitions``, else
        F̄.
        """
        return self.upper - self.lower_bound


@dataclass(eq=False, repr=False)
class ClusteringMetricLearner(MahalanobisClusterer, LargeMarginLearner):
    """Learn a Mahalanobis metric, and the penalty of a cluster, from tables with class labels.

    Minimizes the convex objective of Lajugie, Arlot & Bach, Eq. (9),

        Σ_i s_i L_i(B, λ) + Ω(B),   B ⪰ 0, λ ≥ 0,

    where s_i are the weights of the data sets. A table X of T samples is clustered by maximizing
    (1/T)[Tr(XBXᵀM) − λ Tr M] over the matrices M of partitions. L_i is the margin-rescaled hinge of
    this maximization, for the loss ℓ = ‖M − N‖²_F / T against the labels N. The loss-augmented
    problem is relaxed: M may be any projection. An eigendecomposition in the span of the data and
    the labels solves the relaxed problem exactly (section 4.2). After one pass over the data, a
    round takes O((P+K)³) time for any number of samples. New data are clustered under the learned
    metric, by K-means if K is known and otherwise by DP-means.

    Parameters
    ----------
    metric : Metric
        ``FullMetric()`` or ``DiagonalMetric()`` (one weight per feature).
    regularizer : Regularizer
        ``SquaredFrobenius``, ``Trace`` or ``L1`` (diagonal metrics), each with ``strength``. With
        ``Trace``, the effect of the strength does not depend on the number of samples T; with
        ``SquaredFrobenius`` it decreases like 1/T.
    solver : Solver
        ``BundleDual`` (certified) or ``ProjectedSubgradient``.
    penalty : "learned" or float
        Penalty λ ≥ 0 of a cluster, if K is unknown. With "learned", λ is a variable of the convex
        problem. The penalty of a cluster does not depend on its size (Eq. 7). The training data
        sets should therefore be about as large as the data sets that will be clustered.
    loss_scale : float
        α > 0, the scale of ℓ inside the margin. Unless ``penalty`` is a number, B/α and λ/α solve
        the problem with α = 1. The strength of this problem is α · ``strength`` for squared norms,
        and ``strength`` for L1 and trace.
    n_clusters : "given", int or None
        With "given", K is known: in training it comes from the labels, and :meth:`predict` has a
        parameter for it. With a number, training is the same as with "given", and the number is the
        default K of :meth:`predict`. With None, K is unknown, and each cluster has a penalty.
    oracle : Oracle
        Computes the maximum in the hinge: ``SpectralRelaxation`` (an upper bound, the default),
        ``LocalSearch`` (a lower bound) or ``Averaged`` (a weighted mean of the two). The notes
        compare these oracles.
    standardize : bool
        Divide features by their pooled standard deviation within the clusters before learning;
        ``components_`` includes this scaling and applies to unscaled data.
    alternation : Alternation
        How to alternate between learning and completing partial labels (−1 where unknown). K-means
        completes the labels and keeps those that are given. The loss is then a sum over only those
        rows of M − N that belong to labeled samples
        (:class:`~metriclearn.problem.losses.FrobeniusLoss`). K is the number of different labels in
        each data set. With partial labels, ``oracle`` is not used: the hinge is relaxed to
        projections, and leading eigenvectors solve the relaxed problem. With full labels,
        ``alternation`` is not used.
    callbacks : sequence of callbacks
        See :mod:`metriclearn.running.callbacks`.
    n_init : int
        Number of starts of K-means or DP-means in :meth:`predict`.
    random_state : int, RandomState or None
        Seed of these starts; fitting is deterministic.
    n_jobs : int, optional
        Number of threads that evaluate data sets in parallel, as in joblib.
    executor : Executor, optional
        Determines where data sets are kept and where oracles run, for example
        ``DaskExecutor(client)``; replaces ``n_jobs``. See :mod:`metriclearn.running.executors`.
    verbose : bool, optional
        Show a progress bar at once (True), never (False), or in a terminal if fitting takes longer
        than a few seconds (None).
    view : view, optional
        Turns rows into the rows that the learner sees, see :mod:`metriclearn.views`.

    Attributes
    ----------
    components_ : array (r, P)
        Lᵀ with B = LLᵀ; r is the rank of B.
    penalty_ : float or None
        λ; None after fitting with ``n_clusters="given"``.
    n_clusters_ : int or None
        K of the training data sets if it is the same for all of them, else None.
    solution_ : Solution
        The result of the solver: objective, lower bound, gap, trace and reason for stopping. The
        ``oracle`` may compute only bounds on the hinge. The objectives are then bounds, too.
    completions_ : list of int arrays (T_i,), or None
        The completed labels; None if no label was unknown.
    alternation_ : AlternationTrace or None
        Objective F after every completion and every metric step; None if no label was unknown.
    relaxed_objective_ : float
        The objective of the metric with the relaxed hinge. This objective is an upper bound on the
        exact objective.
    certificate_ : Certificate
        Bounds on both objectives. With a local search, the gap of the certificate is valid, but the
        gap of ``solution_`` does not bound the exact objective.
    scale_ : array (P,)
        The standard deviations by which features were divided (all 1 without ``standardize``).
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Raises
    ------
    ValueError
        For parameters, data or labels that cannot be used, and for predictions before ``fit``.

    Notes
    -----
    The strength was chosen on 60 small tables: 3 classes drawn from Letters, Digits or Libras, or
    the two classes of Breast cancer, with a few dozen samples of each class for training and as
    many held out. The loss of this strength is within one standard error of the least loss, and no
    larger strength comes as close (docs/results/clustering_defaults.md). On the 60 tables,
    relaxation, local search and their average do equally well, and the relaxation is the fastest by
    far. On the whole data set Digits the average is better than the relaxation. The average is also
    better in :class:`~metriclearn.estimators.learners.whitened.WhitenedClusteringLearner`. We
    divide features by deviations within clusters instead of total deviations, because this was
    better on held-out quarters of Iris and of Wine.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from metriclearn import ClusteringMetricLearner
    >>> X, y = load_wine(return_X_y=True)
    >>> learner = ClusteringMetricLearner(random_state=0).fit(X, y)
    >>> learner.score(X, y)
    -0.0
    """

    # components are never changed in place, see ComponentParameters.set_params
    metric: Annotated[Metric, Of(Metric, "FullMetric()")] = FullMetric()  # noqa: RUF009
    regularizer: Annotated[Regularizer, Of(Regularizer, "SquaredFrobenius()")] = SquaredFrobenius(  # noqa: RUF009
        10.0
    )
    solver: Annotated[Solver, Of(Solver, "BundleDual()")] = BundleDual()  # noqa: RUF009
    _: KW_ONLY
    n_clusters: Annotated[str | int | None, OneOf("given", None, Whole(1))] = "given"
    oracle: Annotated[RelaxableOracle, Of(RelaxableOracle, "SpectralRelaxation()")] = (
        SpectralRelaxation()  # noqa: RUF009
    )
    n_init: Annotated[int, Whole(1)] = 10
    random_state: RandomState = None

    @property
    def certificate_(self) -> Certificate:
        """Bounds on the objective of the fitted metric and on the optimum."""
        check_is_fitted(self)
        lower_bound = float(self.solution_.lower_bound)
        over_partitions = self.oracle.over_partitions and self.completions_ is None
        return Certificate(self.relaxed_objective_, lower_bound, over_partitions)

    @property
    def task(self) -> Clusterings:
        """The task for samples without order, in which samples with equal labels form a cluster."""
        return Clusterings.of(self, count_is_given=self.n_clusters is not None)


@dataclass(frozen=True, kw_only=True)
class Clusterings(Task):
    """The task of clustering the rows of tables."""

    oracle: RelaxableOracle
    n_init: int = 10
    random_state: Any = None
    spans_truths: ClassVar[bool] = True
    may_leave_out: ClassVar[bool] = False
    segments: ClassVar[bool] = False
    completes: ClassVar[tuple[bool, str]] = True, 'n_clusters="given"'

    @property
    def completion(self) -> ConstrainedKMeans:
        """An oracle that completes labels: K-means over partitions that agree with the labels."""
        return ConstrainedKMeans(self.n_init, random_state=self.random_state)

    def terms(self, training: Training, unit: float) -> tuple[dict[str, Any], None]:
        """Return the features, loss and oracles of the hinge.

        With partial labels, the loss is on the labeled samples only, and leading eigenvectors solve
        the relaxed problem exactly.
        """
        terms = {"features": LinearFeatures(self.metric), "loss": FrobeniusLoss()}
        if training.truths[0].partial_labels is None:
            return {**terms, "oracle": self.oracle}, None
        return {**terms, "oracle": TopEigenvectors(), "completion": self.completion}, None

    def scale(self, training: Training) -> NDArray:
        """Return the deviations within clusters, but at least 1 % of the total deviations."""
        scale = super().scale(training)
        if not self.standardize:
            return scale
        data, weights = training.data, training.weights
        sizes = data.lengths * (1.0 if weights is None else weights)
        pairs = zip(data.arrays, training.truths)
        within = [np.var((a - N.project(a)) / scale, axis=0) for a, N in pairs]
        return scale * np.maximum(np.sqrt(np.average(within, axis=0, weights=sizes)), _LEAST_WITHIN)

    def labeled_parts(self, training: Training) -> LabeledParts:
        """Take the labeled samples of each table."""
        refuse_sets_without_labels(self.who, _counts(training))
        rows, truths = training.data.arrays, training.truths
        return LabeledParts.of(self, rows, truths, labeled_samples, training.weights)

    def complete(self, training: Training, first: Any) -> list[Any]:
        """Fill in unknown labels by K-means under the first metric; given labels are kept."""
        return [
            truth.with_completion(self.completion(LowRankForm(array @ first.T), count, truth))
            for array, count, truth in zip(training.data.arrays, _counts(training), training.truths)
        ]

    def score(self, statement: Statement, w: NDArray) -> ClusterScore:
        """Return the score of a point ``w``."""
        components, penalty, _ = statement.parts(w)
        counts = {truth.n_clusters for truth in statement.training.truths}
        n_clusters = counts.pop() if len(counts) == 1 else None
        given = None if self.count_is_given else penalty
        return ClusterScore(components, given, n_clusters)

    def certified(self, problem: Problem, solution: Solution) -> dict[str, float]:
        """Return the objective of the relaxed hinge."""
        upper, relaxation = solution.objective, self.oracle.relaxation
        if problem.risk.terms.completion is None and relaxation is not self.oracle:
            terms = replace(problem.risk.terms, oracle=relaxation)
            relaxed = replace(problem.risk, terms=terms)
            upper = relaxed(solution.w).mean + problem.terms(solution.w)
        return {"relaxed_objective_": float(upper)}


def _counts(training: Training) -> list[int]:
    """Return the number of labels in each table."""
    return [int(truth.labels.max()) + 1 for truth in training.truths]
