"""Learners of a metric B = WᵀCW: a linear view W first, then C with large margin.

W whitens the covariance within segments or clusters (relevant component analysis), or contains the
components of a given metric.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any

import numpy as np

from metriclearn.estimators.learners.change_points import ChangePointMetricLearner
from metriclearn.estimators.learners.clustering import ClusteringMetricLearner, RelaxableOracle
from metriclearn.estimators.learners.large_margin import REGULARIZER
from metriclearn.estimators.learners.task import Training
from metriclearn.estimators.scores.segment_score import SegmentScore
from metriclearn.oracles.averaged import Averaged
from metriclearn.oracles.penalty_search import best_penalty
from metriclearn.problem.forms import LowRankForm
from metriclearn.problem.partition import Partition
from metriclearn.running.parameters import Of, OneOf, Real
from metriclearn.solvers.regularizers import Regularizer, SquaredFrobenius
from metriclearn.views.whiten import LinearView, Whiten

Linear = Annotated[Any, Of(LinearView, "Whiten()")]
Toward = Annotated[float | None, OneOf(None, Real(1e-12))]


@dataclass(eq=False, repr=False)
class WhitenedMetricLearner(ChangePointMetricLearner):
    """Learn a metric after relevant component analysis, for few sequences with many features.

    The metric is B = WᵀCW, where W whitens the covariance within segments (RCA). The whitened
    directions are ordered by their variance between segments, relative to the variance within
    segments. C is learned with large margin: it solves Eq. (9) of Lajugie, Arlot & Bach. If
    features are correlated, as in sound and pictures, regularizing C is far better than
    regularizing B, because W removes variation that is unrelated to the labels. The cost is
    O(TP² + P³) in addition to :class:`~metriclearn.ChangePointMetricLearner`.

    With ``toward`` = μ, C minimizes

        Σ_i s_i L_i(C, λ) + (μ/2) ‖C/c − I‖²_F / r,   C ⪰ 0 (r × r), λ ≥ 0.

    Here s_i are the weights of the sequences, and c = α/λ₀ sets the scale of C. α is the scale of
    the loss. λ₀ is the penalty with the least training loss under C = I. An exact search finds it.
    A large μ gives the metric of the view up to a factor, for data in any unit. A small μ gives the
    metric that fits the labels best within the span of W. If the strength is chosen on held-out
    sequences, the result is therefore usually at least as good as the metric of the view, such as
    ``Metric(PrincipalComponents(20))``.

    Parameters
    ----------
    view : linear view
        ``Whiten()``, or ``Metric(estimator)`` with any estimator of a metric, such as PCA.
    toward : float, optional
        μ > 0 in the formula above. By default ``regularizer`` draws C toward 0.
    metric, regularizer, solver, penalty, loss_scale, n_segments, min_size, standardize, \
oracle, retune, alternation, callbacks, n_jobs, executor, verbose
        As for :class:`~metriclearn.ChangePointMetricLearner`, for C. Whitened features need no
        scaling, so ``standardize`` is False.

    Attributes
    ----------
    components_ : array (r, P)
        Lᵀ with B = LLᵀ, in the units of the data.
    penalty_, solution_, ...
        As for :class:`~metriclearn.ChangePointMetricLearner`; the solution is that for C.

    Raises
    ------
    ValueError
        For parameters, data or labels that cannot be used, and for predictions before ``fit``.
    """

    regularizer: Annotated[Regularizer, REGULARIZER] = SquaredFrobenius(1.0)  # noqa: RUF009
    _: KW_ONLY
    standardize: bool = False
    view: Linear = Whiten()  # noqa: RUF009
    toward: Toward = None

    def regularizer_of(self, training: Training) -> Regularizer:
        """Return the regularizer of C."""
        if self.toward is None:
            return self.regularizer
        rows, truths = training.data.arrays, training.truths
        forms = list(map(LowRankForm, rows))
        penalty, _ = best_penalty(forms, truths, training.weights, self.min_size)
        scale = self.loss_scale / penalty
        strength = self.toward / (scale**2 * rows[0].shape[1])
        if not np.isfinite(strength):
            raise ValueError(
                f"{type(self).__name__} needs a view in which segments differ, got one whose best "
                f"penalty is {penalty:.3g}; pass another view."
            )
        return SquaredFrobenius(strength, scale)

    def training_forms(self, score: SegmentScore, training: Training) -> list[Any]:
        """Return the forms of the training rows, with the rounding of a linear view."""
        if score.boundaries is not None:
            return super().training_forms(score, training)
        components = score.components @ training.view.map_
        return [LowRankForm(training.view.scaled(X) @ components.T) for X in training.source.arrays]


@dataclass(eq=False, repr=False)
class WhitenedClusteringLearner(ClusteringMetricLearner):
    """Learn a full metric after relevant component analysis, for few samples.

    The metric is B = WᵀCW. W whitens a covariance S. C is learned with large margin: it solves
    Eq. (9) of Lajugie, Arlot & Bach. K-means looks for round clusters of similar extent. Whitening
    by the covariance within clusters (RCA, ``Whiten()``) makes clusters round. If C is then
    regularized strongly, the weight of a direction is proportional to how much clusters differ
    along it. After whitening by the total covariance (``Whiten(between=1.0)``), a strongly
    regularized C gives the same weight to all directions along which clusters differ. The result is
    then nearly the same as from :class:`~metriclearn.baselines.ClosedFormMetric`. With
    ``Whiten(shrinkage=1.0)`` and the same oracle, :class:`~metriclearn.ClusteringMetricLearner`
    gives the same result.

    The defaults had nearly the least loss on 60 small tables (docs/results/clustering_defaults.md).
    The default oracle includes a local search, so the result depends slightly on the order of the
    samples. The cost is O(TP² + P³) in addition to :class:`~metriclearn.ClusteringMetricLearner`.

    With ``toward`` = μ, C minimizes

        Σ_i s_i L_i(C) + (μ/2) h ‖C/c − I‖²_F / r,   C ⪰ 0 (r × r).

    Z_i = X_i Wᵀ are the mapped data sets, and the scale is c = 2α Σ_i s_i K_i / Σ_i s_i ⟨Z_i Z_iᵀ,
    N_i⟩. Under C = cI, the scores c⟨Z_i Z_iᵀ, N_i⟩ of the labels then have the mean 2α Σ_i s_i K_i.
    The losses have a smaller mean, because α‖M − N_i‖² ≤ 2α(K_i − 1) for all partitions M into K_i
    clusters. The factor h = α Σ_i s_i K_i/T_i has the order of magnitude of the hinge. A large μ
    gives the metric of the view, up to a factor, for any units and any number of samples. A large μ
    also keeps directions in which the training clusters do not differ: clusters in other data may
    differ there.

    Parameters
    ----------
    view : linear view
        ``Whiten()``, or ``Metric(estimator)`` with any estimator of a metric, for example
        ``Metric(ClosedFormMetric(0.1))``.
    toward : float, optional
        μ > 0 in the formula above. By default ``regularizer`` draws C toward 0.
    metric, regularizer, solver, penalty, loss_scale, n_clusters, oracle, standardize, \
alternation, callbacks, n_init, random_state, n_jobs, executor, verbose
        As for :class:`~metriclearn.ClusteringMetricLearner`, for C. Whitened features need no
        scaling, so ``standardize`` is False.

    Attributes
    ----------
    components_ : array (r, P)
        Lᵀ with B = LLᵀ, in the units of the data.
    penalty_, n_clusters_, solution_, certificate_, ...
        As for :class:`~metriclearn.ClusteringMetricLearner`; the solution is that for C.

    Raises
    ------
    ValueError
        For parameters, data or labels that cannot be used, and for predictions before ``fit``.
    """

    _: KW_ONLY
    standardize: bool = False
    oracle: Annotated[RelaxableOracle, Of(RelaxableOracle, "SpectralRelaxation()")] = Averaged()  # noqa: RUF009
    view: Linear = Whiten()  # noqa: RUF009
    toward: Toward = None

    def regularizer_of(self, training: Training) -> Regularizer:
        """Return the regularizer of C."""
        if self.toward is None:
            return self.regularizer
        rows, truths = training.data.arrays, training.truths
        if not all(isinstance(truth, Partition) for truth in truths):
            raise ValueError(
                "WhitenedClusteringLearner needs a label of every sample to learn toward its view, "
                "got unknown labels (−1); leave such samples out, or pass toward=None."
            )
        weights = np.ones(len(rows)) if training.weights is None else training.weights
        between = weights @ [np.sum(truth.root(Z) ** 2) for Z, truth in zip(rows, truths)]
        # Equal means differ only by rounding.
        if between <= 1e-20 * (weights @ [np.sum(Z**2) for Z in rows]):
            raise ValueError(
                "WhitenedClusteringLearner needs clusters whose means differ in its view to learn "
                "toward it, got none; pass another view, or toward=None."
            )
        counts = np.array([truth.n_clusters for truth in truths])
        scale = 2 * self.loss_scale * (weights @ counts) / between
        shares = counts / [truth.n_samples for truth in truths]
        unit = self.loss_scale * np.average(shares, weights=weights)
        strength = self.toward * unit / (scale**2 * rows[0].shape[1])
        return SquaredFrobenius(float(strength), float(scale))
