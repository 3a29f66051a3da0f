"""Penalize each change-point by a linear function of features of its position."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from operator import methodcaller
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metriclearn.problem.forms import LowRankForm
from metriclearn.problem.joint_features import LinearFeatures, Samples
from metriclearn.problem.losses import ChargedForm
from metriclearn.solvers.mahalanobis import PenalizedMetric


class PenalizedSamples(Samples):
    """One sequence, with features of every position that decide the penalty of a change there.

    Parameters
    ----------
    X, scale, truth
        As for :class:`~metriclearn.problem.joint_features.Samples`.
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
