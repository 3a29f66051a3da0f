"""Penalties of changes that are linear in features of the sequence and of the boundary."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from operator import methodcaller
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metriclearn.problem.forms import LinearFeatures, LowRankForm, Samples
from metriclearn.problem.losses import ChargedForm
from metriclearn.problem.partition import Partition
from metriclearn.solvers.mahalanobis import PenalizedMetric


class PenalizedSamples(Samples):
    """One data set in order, with the features of a change at every position.

    Parameters
    ----------
    X, truth, scale
        As of :class:`~metriclearn.problem.forms.Samples`, which has no use for the truth here.
    columns : callable
        From X as it was given to ψ, (T+1, q).
    """

    def __init__(
        self,
        X: ArrayLike,
        truth: Partition,
        scale: NDArray | None = None,
        *,
        columns: Callable[[NDArray], NDArray],
    ) -> None:
        super().__init__(X, scale)
        self._columns = columns

    @cached_property
    def columns(self) -> NDArray:
        """ψ, (T+1, q)."""
        return self._columns(np.asarray(self.given, dtype=np.float64))

    def penalized(self, components: NDArray, weights: NDArray) -> ChargedForm:
        """XBXᵀ with the penalties ψv of changes; v (q,)."""
        return ChargedForm(self.form(components), penalties=self.columns @ weights)


@dataclass(frozen=True)
class PenalizedFeatures(LinearFeatures):
    """⟨B, XᵀMX⟩ − ⟨v, Σ_changes ψ(t)⟩, linear in (B, v); O(Kq) more than without penalties."""

    metric: PenalizedMetric

    def at(self, w: NDArray) -> Callable[[Samples], LowRankForm]:
        components = self.metric.components(w)
        if len(components) == 0:
            components = np.zeros((1, components.shape[1]))
        return methodcaller("penalized", components, self.metric.split(w)[1])

    def gradient(self, samples: Any, form: Any, partition: Any) -> NDArray:
        changes = samples.columns[partition.change_points[:-1]].sum(axis=0)
        of_metric = self.metric.metric.coordinates(samples.pooled(partition))
        return np.append(of_metric, -changes)
