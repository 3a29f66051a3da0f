"""Large-margin learning of a metric B = WᵀCW for features that are first mapped by W.

W whitens the covariance within segments or clusters (relevant component analysis), or contains the
components of a given metric. C is learned with large margin.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import KW_ONLY, dataclass, replace
from operator import attrgetter
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone

from metriclearn.estimators.labelings import read_labeled, read_weights
from metriclearn.estimators.learned_metric import LearnedMetric, MetricEstimator
from metriclearn.estimators.learners.change_points import (
    WITHOUT_FEATURE_PENALTY,
    ChangePointMetricLearner,
)
from metriclearn.estimators.learners.clustering import ClusteringMetricLearner
from metriclearn.estimators.learners.linear import PrincipalComponents
from metriclearn.estimators.scores.cluster_score import MahalanobisClusterer
from metriclearn.estimators.scores.segmenting import MahalanobisSegmenter
from metriclearn.oracles.averaged import Averaged
from metriclearn.oracles.segmentation_path import best_penalty
from metriclearn.problem.forms import LowRankForm, center
from metriclearn.problem.partition import Partition
from metriclearn.running.parameters import Of, OneOf, Real, Whole, refuse_unknown
from metriclearn.solvers.base import Solution
from metriclearn.solvers.bundle import BundleDual
from metriclearn.solvers.mahalanobis import FullMetric
from metriclearn.solvers.regularizers import SquaredFrobenius
from metriclearn.views.columns import check_range, spread
from metriclearn.views.whiten import covariances, whitening

# The default is cloned before use.
_WHITENED = ChangePointMetricLearner(regularizer=SquaredFrobenius(1.0), standardize=False)
# The default is cloned before use.
_REFERRED = ChangePointMetricLearner(
    FullMetric(), solver=BundleDual(tolerance=1e-3, max_rounds=200), standardize=False
)


class MappedLearner(LearnedMetric, ABC):
    """Learn a metric B = WᵀCW: map features to X Wᵀ, then learn C from these with large margin.

    A subclass has a parameter ``learner``, which learns C. The subclass defines how labels are
    read, computes W, and may change the parameters of ``learner`` before the fit.
    """

    # Whether every run of equal labels is a segment; if not, all equal labels are one cluster.
    _segments: ClassVar[bool]
    learner: Any

    @property
    def solution_(self) -> Solution:
        """The solution of the inner learner."""
        return self.learner_.solution_

    @abstractmethod
    def _map(self, arrays: list[NDArray], truths: list[Partition], weights: NDArray) -> NDArray:
        """Compute W, (r, P), from the data sets of positive weight."""

    def _inner(self, mapped: list[NDArray], truths: list[Partition]) -> Any:
        """Return a learner of C that is not fitted yet."""
        return clone(self.learner)

    def fit(
        self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None, **unknown: Any
    ) -> Self:
        """Compute W, then learn C. The arguments are the same as for the learner of C.

        Features that are constant in every data set get no weight. Data sets of weight 0 are left
        out. The weights of the other data sets are used in learning C.
        :class:`WhitenedClusteringLearner` also uses them to compute W.

        Raises
        ------
        ValueError
            For data, labels or parameters that cannot be used.
        TypeError
            For arguments that ``fit`` does not have.
        """
        if unknown:
            refuse_unknown(self, unknown)
        who = type(self).__name__
        fitted, data, truths = read_labeled(self, X, y, segments=self._segments)
        weights = read_weights(who, sample_weight, len(truths))
        weights = np.ones(len(truths)) if weights is None else weights
        used = np.flatnonzero(weights)
        used_truths = [truths[i] for i in used]
        data, varies = data.subset(used).varying(fitted)
        spreads = np.max([np.ptp(array, axis=0) for array in data.arrays], axis=0)
        # 1 between 1e-45 and 1e45; else a power of two, by which data are divided without rounding
        unit = 2.0 ** (300 * np.round(np.log2(spreads.max()) / 300))
        check_range(who, "features with spreads", spreads / unit, 1e50)
        arrays = [array / unit for array in data.arrays]
        W = self._map(arrays, used_truths, weights[used])
        mapped = [center(array) @ W.T for array in arrays]
        weights = None if sample_weight is None else weights[used]
        fitted.learner_ = self._inner(mapped, used_truths).fit(mapped, used_truths, weights)
        components = fitted.learner_.components_ @ W
        whole = spread(components / unit, varies)
        score = replace(fitted.learner_.score_, components=whole)
        fitted.score_ = score.at(self._penalty(score.penalty, arrays, used_truths, components))
        self.__dict__ = fitted.__dict__
        return self

    def _penalty(
        self,
        learned: float | None,
        arrays: list[NDArray],
        truths: list[Partition],
        components: NDArray,
    ) -> float | None:
        """Return the penalty of a cluster, which by default stays as it was learned."""
        return learned


class MappedSegmenter(MappedLearner, MahalanobisSegmenter):
    """A mapped learner for change-points.

    A subclass has a parameter ``retune``. If it is true, the penalty is chosen again after
    learning.
    """

    _segments = True
    retune: bool

    # Besides the metric, prediction uses these parameters of the inner learner.
    min_size = property(attrgetter("learner.min_size"))  # type: ignore[assignment]
    n_segments = property(attrgetter("learner.n_segments"))  # type: ignore[assignment]

    def _penalty(
        self,
        learned: float | None,
        arrays: list[NDArray],
        truths: list[Partition],
        components: NDArray,
    ) -> float | None:
        if not self.retune or learned is None or not len(components):
            return learned
        forms = [LowRankForm(center(array) @ components.T) for array in arrays]
        return best_penalty(forms, truths, min_size=self.min_size)[0]


@dataclass(eq=False, repr=False)
class WhitenedMetricLearner(MappedSegmenter):
    """Learn a metric after relevant component analysis, for few sequences with many features.

    The metric is B = WᵀCW, where W whitens the covariance within segments (RCA). The whitened
    directions are ordered by their variance between segments, relative to the variance within
    segments. C is learned with large margin: it solves Eq. (9) of Lajugie, Arlot & Bach. If
    features are correlated, as in sound and pictures, regularizing C is far better than
    regularizing B, because W removes variation that is unrelated to the labels. The cost is
    O(TP² + P³) in addition to the inner learner.

    Parameters
    ----------
    learner : ChangePointMetricLearner
        Learns C. Set ``standardize=False`` in the learner, because whitened features need no
        scaling.
    shrinkage : float in [0, 1]
        Weight of the diagonal in the covariance within segments, as in
        :class:`~metriclearn.baselines.RelevantComponents`.
    n_components : int, optional
        Number of whitened directions to keep, starting with the first. By default all are kept.
    retune : bool
        Whether to replace the learned penalty by the one with the least training loss. An exact
        search finds it.

    Attributes
    ----------
    components_ : array (r, P)
        Lᵀ with B = LLᵀ.
    penalty_ : float or None
        λ; None if the learner has ``n_segments="given"``.
    learner_ : ChangePointMetricLearner
        The inner learner, fitted to whitened features.
    solution_ : Solution
        The solution of the inner learner, with its certificate.

    Raises
    ------
    ValueError
        For parameters, data or labels that cannot be used, and for predictions before ``fit``.
    """

    learner: Annotated[ChangePointMetricLearner, WITHOUT_FEATURE_PENALTY] = _WHITENED
    _: KW_ONLY
    shrinkage: Annotated[float, Real(0, 1)] = 0.1
    n_components: Annotated[int | None, OneOf(None, Whole(1))] = None
    retune: bool = False

    def _map(self, arrays: list[NDArray], truths: list[Partition], weights: NDArray) -> NDArray:
        total, within = covariances(arrays, truths)
        return whitening(total, within, self.shrinkage, self.n_components)


@dataclass(eq=False, repr=False)
class ReferenceMetricLearner(MappedSegmenter):
    """Learn a metric near a reference metric, such as PCA, RCA or the Euclidean metric.

    The objective is Eq. (9) of Lajugie, Arlot & Bach, but with another regularizer. Let W be the
    components of the reference. The metric is B = WᵀCW, and C minimizes

        Σ_i s_i L_i(C, λ) + (μ/2) ‖C/c − I‖²_F / r,   C ⪰ 0 (r × r), λ ≥ 0.

    Here s_i are the weights of the sequences, and c = α/λ₀ sets the scale of C. α is the scale of
    the loss. λ₀ is the penalty with the least training loss under the reference metric. An exact
    search finds it. A large μ gives the reference metric up to a factor, for data in any unit. A
    small μ gives the metric that fits the labels best within the span of W. If the strength is
    chosen on held-out sequences, the result is therefore usually at least as good as the reference.
    The cost is one fit of the reference, and one fit of the inner learner in r dimensions.

    Parameters
    ----------
    reference : estimator with ``fit(X, y)`` and ``components_``
        For example ``PrincipalComponents()``, ``RelevantComponents()`` or ``Euclidean()`` of
        :mod:`metriclearn.baselines`.
    learner : ChangePointMetricLearner
        Learns C. The second term of the formula replaces the regularizer of ``learner``.
    strength : float
        μ > 0.
    retune : bool
        Whether to replace the learned penalty by the one with the least training loss. An exact
        search finds it.

    Attributes
    ----------
    components_ : array (k, P)
        Lᵀ with B = LLᵀ.
    penalty_ : float or None
        λ; None if the learner has ``n_segments="given"``.
    learner_ : ChangePointMetricLearner
        The inner learner, fitted to the components of the reference.
    solution_ : Solution
        The solution of the inner learner, with its certificate.

    Raises
    ------
    ValueError
        For parameters, data or labels that cannot be used, and for predictions before ``fit``.
    """

    reference: Annotated[MetricEstimator, Of(MetricEstimator, "PrincipalComponents(10)")] = (
        PrincipalComponents(10)  # noqa: RUF009
    )
    learner: Annotated[ChangePointMetricLearner, WITHOUT_FEATURE_PENALTY] = _REFERRED
    _: KW_ONLY
    strength: Annotated[float, Real(1e-12)] = 1e-2
    retune: bool = True

    def _map(self, arrays: list[NDArray], truths: list[Partition], weights: NDArray) -> NDArray:
        return clone(self.reference).fit(arrays, truths).components_

    def _inner(self, mapped: list[NDArray], truths: list[Partition]) -> Any:
        forms = [LowRankForm(Z) for Z in mapped]
        penalty, _ = best_penalty(forms, truths, min_size=self.min_size)
        scale = self.learner.loss_scale / penalty
        strength = self.strength / (scale**2 * mapped[0].shape[1])
        if not np.isfinite(strength):
            raise ValueError(
                "ReferenceMetricLearner needs a reference in which segments differ, got one "
                f"whose best penalty is {penalty:.3g}; pass another reference."
            )
        return clone(self.learner).set_params(regularizer=SquaredFrobenius(strength, scale))


@dataclass(eq=False, repr=False)
class WhitenedClusteringLearner(MappedLearner, MahalanobisClusterer):
    """Learn a full metric after relevant component analysis, for few samples.

    The metric is B = WᵀCW. W whitens a covariance S. C is learned with large margin: it solves
    Eq. (9) of Lajugie, Arlot & Bach. K-means looks for round clusters of similar extent. Whitening
    by the covariance within clusters (RCA, ``between=0``) makes clusters round. If C is then
    regularized strongly, the weight of a direction is proportional to how much clusters differ
    along it. After whitening by the total covariance (``between=1``), a strongly regularized C
    gives the same weight to all directions along which clusters differ. The result is then nearly
    the same as that of :class:`~metriclearn.baselines.ClosedFormMetric`. With ``shrinkage=1`` and
    the same oracle, :class:`ClusteringMetricLearner` gives the same result.

    The defaults had nearly the least loss on 60 small tables (docs/results/clustering_defaults.md).
    The default oracle includes a local search, so the result depends slightly on the order of the
    samples. The cost is O(TP² + P³) in addition to the inner learner.

    With ``toward`` = μ, C minimizes

        Σ_i s_i L_i(C) + (μ/2) h ‖C/c − I‖²_F / r,   C ⪰ 0 (r × r).

    Z_i = X_i Wᵀ are the mapped data sets, and the scale is c = 2α Σ_i K_i / Σ_i ⟨Z_i Z_iᵀ, N_i⟩.
    Under C = cI, the scores c⟨Z_i Z_iᵀ, N_i⟩ of the labels then have the sum 2α Σ_i K_i. The losses
    have a smaller sum, because α‖M − N_i‖² ≤ 2α(K_i − 1) for all partitions M into K_i clusters.
    The factor h is α times the mean of K_i/T_i. This product has the order of magnitude of the
    hinge. A large μ gives the metric of RCA or of a ``reference``, up to a factor, for any units
    and any number of samples. A large μ also keeps directions in which the training clusters do not
    differ: clusters in other data may differ there.

    Parameters
    ----------
    learner : ClusteringMetricLearner
        Learns C. Set ``standardize=False`` in the learner, because whitened features need no
        scaling. :meth:`predict` uses ``n_init`` and ``random_state`` of ``learner``.
    n_clusters : "given", int or None
        As in :class:`ClusteringMetricLearner`; replaces the ``n_clusters`` of the learner.
    shrinkage : float in [0, 1]
        Weight of the diagonal in S, as in :class:`~metriclearn.baselines.RelevantComponents`. A
        larger weight helps if there are few samples.
    between : float in [0, 1]
        S is the covariance within clusters plus ``between`` times the covariance between clusters.
        If ``between`` is 0, S is the covariance within clusters. If it is 1, S is the total
        covariance.
    reference : estimator with ``fit(X, y)`` and ``components_``, optional
        An estimator whose components replace the whitening W, for example ``ClosedFormMetric(0.1)``
        of :mod:`metriclearn.baselines`. ``shrinkage`` and ``between`` are then ignored.
    toward : float, optional
        μ > 0 in the formula above. By default the regularizer of ``learner`` is used instead, which
        draws C toward 0.

    Attributes
    ----------
    components_ : array (r, P)
        Lᵀ with B = LLᵀ.
    penalty_ : float or None
        λ; None unless ``n_clusters`` is None.
    n_clusters_ : int or None
        K of the training data sets if it is the same for all of them, else None.
    learner_ : ClusteringMetricLearner
        The inner learner, fitted to whitened features.
    solution_ : Solution
        The result of the solver for C. The bounds in ``learner_.certificate_`` are always valid.

    Raises
    ------
    ValueError
        For parameters, data or labels that cannot be used, and for predictions before ``fit``.
    """

    _segments = False

    learner: Annotated[
        ClusteringMetricLearner, Of(ClusteringMetricLearner, "ClusteringMetricLearner()")
    ] = ClusteringMetricLearner(  # noqa: RUF009
        regularizer=SquaredFrobenius(10.0),
        oracle=Averaged(),
        standardize=False,
    )
    _: KW_ONLY
    n_clusters: str | int | None = "given"
    shrinkage: Annotated[float, Real(0, 1)] = 0.1
    between: Annotated[float, Real(0, 1)] = 0.0
    reference: Annotated[
        MetricEstimator | None, Of(MetricEstimator, "ClosedFormMetric(0.1)", optional=True)
    ] = None
    toward: Annotated[float | None, OneOf(None, Real(1e-12))] = None

    n_init = property(attrgetter("learner.n_init"))  # type: ignore[assignment]
    random_state = property(attrgetter("learner.random_state"))  # type: ignore[assignment]

    def _map(self, arrays: list[NDArray], truths: list[Partition], weights: NDArray) -> NDArray:
        if self.reference is not None:
            return clone(self.reference).fit(arrays, truths).components_
        total, within = covariances(arrays, truths, weights)
        return whitening(total, within + self.between * (total - within), self.shrinkage)

    def _inner(self, mapped: list[NDArray], truths: list[Partition]) -> Any:
        learner = clone(self.learner).set_params(n_clusters=self.n_clusters)
        if self.toward is None:
            return learner
        score = sum(np.sum(truth.root(Z) ** 2) for Z, truth in zip(mapped, truths))
        # Equal means differ only by rounding.
        if score <= 1e-20 * sum(np.sum(Z**2) for Z in mapped):
            raise ValueError(
                "WhitenedClusteringLearner needs clusters whose means differ under the reference "
                "to learn toward it, got none; pass another reference, or toward=None."
            )
        counts = np.array([truth.n_clusters for truth in truths])
        scale = 2 * learner.loss_scale * counts.sum() / score
        unit = learner.loss_scale * np.mean(counts / [truth.n_samples for truth in truths])
        strength = self.toward * unit / (scale**2 * mapped[0].shape[1])
        return learner.set_params(regularizer=SquaredFrobenius(float(strength), float(scale)))
