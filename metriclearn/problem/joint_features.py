"""Make the form XBXᵀ of a data set X and a metric B, and compute derivatives of its value.

The value of a form with penalties falls by a linear function of features of every change-point.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from operator import methodcaller
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metriclearn.problem.forms import LowRankForm, center, cumulative_sums
from metriclearn.problem.losses import ChargedForm
from metriclearn.problem.partition import Partition
from metriclearn.problem.projector import Projector, Subspace
from metriclearn.solvers.mahalanobis import Metric, PenalizedMetric


class Samples:
    """One data set, with cached sums.

    If samples have no order and their labels are passed, forms use the subspace that X and the
    cluster indicators span. Then spectral inference takes O((P+K)³) time, whatever the number of
    samples.

    Parameters
    ----------
    X : array (T, P), or anything that numpy turns into such an array when it is needed
        Observations, which are centered. Centering changes no objective and keeps sums accurate.
    scale : array (P,), optional
        Divisors of the features. X is stored as it is, and is divided each time it is used.
    truth : Partition, optional
        The labels N, if samples have no order.
    more : object, optional
        What a subclass knows of the samples beside X.

    Attributes
    ----------
    unit : float
        The number T. Scores are divided by T, so that long data sets count as much as short ones.
    """

    def __init__(
        self, X: ArrayLike, scale: NDArray | None = None, truth: Any = None, more: Any = None
    ) -> None:
        self.n_samples, self.n_features = np.shape(X)
        self.given, self._scale = X, scale
        self.truth, self.more = truth, more
        self.unit = float(self.n_samples)

    @property
    def scaled(self) -> NDArray:
        """The observations, divided by the scale, (T, P)."""
        X = np.asarray(self.given, dtype=np.float64)
        return np.ascontiguousarray(X if self._scale is None else X / self._scale)

    @cached_property
    def cumulative(self) -> NDArray:
        """Cumulative sums of the centered observations, (T+1, P)."""
        return cumulative_sums(self.scaled)

    @cached_property
    def centered(self) -> NDArray:
        """The centered observations, (T, P)."""
        return center(self.scaled)

    @cached_property
    def subspace(self) -> Subspace:
        """The span of [Y, X], where Y is the assignment matrix of the truth.

        The subspace is computed by one QR decomposition, in O(TP²).
        """
        return Subspace(self.centered, self.truth)

    def form(self, components: NDArray) -> LowRankForm:
        """Return the form XBXᵀ with B = componentsᵀcomponents, where ``components`` is (r, P)."""
        if len(components) == 0:
            components = np.zeros((1, components.shape[1]))
        # No array with T rows is made before someone reads the factors.
        if self.truth is not None:
            subspace = self.subspace
            return LowRankForm(truth=self.truth, subspace=subspace, components=components)
        if (single := single_features(components)) is not None:
            features, weights = single
            return LowRankForm(cumulative=self.cumulative[:, features] * weights)
        return LowRankForm(cumulative=self.cumulative @ components.T)

    def pooled(self, partition: Partition | Projector) -> NDArray:
        """Return the matrix R = (YᵀY)^(-1/2) YᵀX, (K, P), for which RᵀR = XᵀMX.

        The time is O(KP) for segments, O(TP) for other partitions, and O(kqP) for a projector with
        k directions in the subspace.
        """
        if self.truth is None and isinstance(partition, Partition) and partition.contiguous:
            # The rows of (YᵀY)^(-1/2) YᵀX are sums over segments, divided by √|C_k|.
            sums = np.diff(self.cumulative[partition.ends], axis=0, prepend=0.0)
            return sums / np.sqrt(partition.sizes)[:, None]
        return partition.root(self.centered)


class PenalizedSamples(Samples):
    """One sequence, with features of every position that decide the penalty of a change there.

    Parameters
    ----------
    X, scale, truth
        As for :class:`Samples`.
    more : callable
        Computes the features ψ (T+1, q) from X as the user passed it.
    """

    @cached_property
    def columns(self) -> NDArray:
        """The features ψ(t) of a change at t, for every position t, (T+1, q)."""
        return self.more(np.asarray(self.given, dtype=np.float64))

    def penalized(self, components: NDArray, weights: NDArray) -> ChargedForm:
        """Return the form XBXᵀ with the penalty ⟨v, ψ(t)⟩ of a change at t, for weights v (q,)."""
        return ChargedForm(self.form(components), penalties=self.columns @ weights)


class JointFeatures(Protocol):
    """Makes forms from data sets and a metric, and computes the derivatives of their values.

    Attributes
    ----------
    linear : bool
        Whether forms are linear in w, so that gradients are the same at every w.
    warm_starts : bool
        Whether the oracle gets its result for an earlier w as ``start``.
    """

    metric: Metric
    linear: bool
    warm_starts: bool

    def at(self, w: NDArray) -> Callable[[Any], Any]:
        """Return a function that makes the form A of a data set under the metric coordinates w.

        If forms are not linear in w, ``at`` has a second parameter ``tangent``: the metric at which
        a majorant of the hinge touches the hinge, or None.
        """

    def gradient(self, samples: Any, form: Any, partition: Any) -> NDArray:
        """Return the exact derivative d⟨A, M⟩/dw at the w from which the form A was made."""


@dataclass(frozen=True)
class LinearFeatures:
    """Makes forms A = XBXᵀ, so that ⟨A, M⟩ = ⟨B, XᵀMX⟩ (Lajugie, Arlot & Bach, Eq. (5) to (7)).

    ``at`` factors B once. After that, every form takes one product (T, P)×(P, r). ``gradient``
    takes O(KP) time for a diagonal metric and O(KP²) time for a full metric.

    Parameters
    ----------
    metric : DiagonalMetric or FullMetric
        The family of B.

    Examples
    --------
    >>> from metriclearn import DiagonalMetric
    >>> from metriclearn.problem import LinearFeatures
    >>> LinearFeatures(DiagonalMetric()).linear
    True
    """

    linear: ClassVar[bool] = True
    warm_starts: ClassVar[bool] = False

    metric: Metric

    def at(self, w: NDArray) -> Callable[[Samples], LowRankForm]:
        return methodcaller("form", self.metric.components(w))

    def gradient(self, samples: Samples, form: Any, partition: Partition | Projector) -> NDArray:
        return self.metric.coordinates(samples.pooled(partition))


@dataclass(frozen=True)
class PenalizedFeatures(LinearFeatures):
    """The score ⟨B, XᵀMX⟩ − ⟨v, Σ_changes ψ(t)⟩, linear in (B, v).

    The penalties add O(Kq) to the time of a gradient.
    """

    metric: PenalizedMetric

    def at(self, w: NDArray) -> Callable[[Samples], LowRankForm]:
        return methodcaller("penalized", self.metric.components(w), self.metric.split(w)[1])

    def gradient(self, samples: Any, form: Any, partition: Any) -> NDArray:
        changes = samples.columns[partition.change_points[:-1]].sum(axis=0)
        # a penalty lowers the value by Σ ψ(t)ᵀv, hence the minus sign
        of_metric = self.metric.metric.coordinates(samples.pooled(partition))
        return np.append(of_metric, -changes)


def single_features(components: NDArray) -> tuple[NDArray[np.int64], NDArray] | None:
    """Return the feature and the weight of each component, (r,), if each weighs one feature only.

    Scaling columns then replaces a matrix product.
    """
    if not np.all(np.count_nonzero(components, axis=1) == 1):
        return None
    features = np.argmax(components != 0, axis=1)
    return features, components[np.arange(len(components)), features]
