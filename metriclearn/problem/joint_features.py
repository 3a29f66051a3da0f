"""Joint features of data and partition: what makes the score linear in w."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from operator import methodcaller
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metriclearn.problem.forms import LowRankForm, center, cumulative_sums
from metriclearn.problem.partition import Partition
from metriclearn.problem.projector import Projector, Subspace
from metriclearn.solvers.mahalanobis import Metric

__all__ = ["JointFeatures", "LinearFeatures", "Samples", "TableSamples"]


class Samples:
    """One data set, with what is computed from it only once.

    Parameters
    ----------
    X : array (T, P), or what numpy makes one of when it is needed
        Observations; used centered, which changes no objective and keeps sums accurate.
    scale : array (P,), optional
        What features are divided by. Of X and the divided X, none but X is kept.

    Attributes
    ----------
    unit : float
        What scores are divided by: T, so that long data sets count as much as short ones.
    """

    def __init__(self, X: ArrayLike, scale: NDArray | None = None) -> None:
        self.n_samples, self.n_features = np.shape(X)
        self._X, self._scale = X, scale
        self.unit = float(self.n_samples)

    @property
    def scaled(self) -> NDArray:
        """The observations, divided by the scale, (T, P)."""
        X = np.asarray(self._X, dtype=np.float64)
        return np.ascontiguousarray(X if self._scale is None else X / self._scale)

    @cached_property
    def cumulative(self) -> NDArray:
        """Cumulative sums of the centered observations, (T+1, P)."""
        return cumulative_sums(self.scaled)

    @cached_property
    def centered(self) -> NDArray:
        """The centered observations, (T, P)."""
        return center(self.scaled)

    def form(self, components: NDArray) -> LowRankForm:
        """XBXᵀ with B = componentsᵀcomponents; components (r, P)."""
        return LowRankForm.from_cumulative(self.cumulative, components)

    def pooled(self, partition: Partition | Projector) -> NDArray:
        """(YᵀY)^(-1/2) YᵀX, (K, P): its Gram matrix is XᵀMX. O(KP) for segments."""
        if isinstance(partition, Partition) and partition.contiguous:
            sums = np.diff(self.cumulative[partition.change_points], axis=0, prepend=0.0)
            return sums / np.sqrt(partition.sizes)[:, None]
        return partition.root(self.centered)


class TableSamples(Samples):
    """One data set whose samples have no order, with the subspace of X and of its labels.

    Spectral inference then costs O((P+K)³) however many samples there are.

    Parameters
    ----------
    X, scale
        As for :class:`Samples`.
    truth : Partition
        The labels N.
    """

    def __init__(self, X: ArrayLike, truth: Partition, scale: NDArray | None = None) -> None:
        super().__init__(X, scale)
        self.truth = truth

    @cached_property
    def subspace(self) -> Subspace:
        """The span of [Y, X], by one QR decomposition of O(TP²)."""
        return Subspace(self.centered, self.truth)

    def form(self, components: NDArray) -> LowRankForm:
        """XBXᵀ without anything of the size of T, until its factors are asked for."""
        return LowRankForm.from_subspace(self.subspace, components)

    def pooled(self, partition: Partition | Projector) -> NDArray:
        """(YᵀY)^(-1/2) YᵀX, (K, P); O(qP) for a projector of the subspace, else O(TP)."""
        return partition.root(self.centered)


class JointFeatures(Protocol):
    """What makes a form of a data set and a metric, and the form's derivative.

    Attributes
    ----------
    linear : bool
        Whether forms are linear in w, so that gradients are the same at every w.
    warm_starts : bool
        Whether oracles take the answer for an earlier w as their ``start``.
    """

    metric: Metric
    linear: bool
    warm_starts: bool

    def at(self, w: NDArray) -> Callable[[Any], Any]:
        """From data sets to their forms A under the metric coordinates w.

        Where forms are not linear there is a second parameter ``tangent``, the metric at
        which a majorant of the hinge touches it, or None.
        """
        ...

    def gradient(self, samples: Any, form: Any, partition: Any) -> NDArray:
        """d⟨A, M⟩/dw, exact, at the w of the data set's form A."""
        ...


class LinearFeatures:
    """A = XBXᵀ, so that ⟨A, M⟩ = ⟨B, XᵀMX⟩ (Lajugie, Arlot & Bach, Eq. (5) to (7)).

    ``at`` factors B once, and every form costs one product (T, P)×(P, r); ``gradient`` O(KP) for
    a diagonal metric and O(KP²) for a full one.
    """

    linear, warm_starts = True, False

    def __init__(self, metric: Metric) -> None:
        self.metric = metric

    def at(self, w: NDArray) -> Callable[[Samples], LowRankForm]:
        components = self.metric.components(w)
        if len(components) == 0:
            components = np.zeros((1, components.shape[1]))
        return methodcaller("form", components)

    def gradient(self, samples: Samples, form: Any, partition: Partition | Projector) -> NDArray:
        return self.metric.coordinates(samples.pooled(partition))
