"""Regularizers Ω(B) of section 4.3. On its cone each is linear plus a squared norm."""

from __future__ import annotations

import numbers
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from metriclearn.mahalanobis import MetricCone

__all__ = [
    "L1",
    "RegularizationTerms",
    "Regularizer",
    "SquaredFrobenius",
    "Trace",
    "terms_of",
]


@dataclass(frozen=True)
class RegularizationTerms:
    """Ω(w) = ⟨slope, w⟩ + (curvature/2)‖w_metric‖² on the cone; the price is free.

    Attributes
    ----------
    curvature : float
        μ of the squared part.
    slope : array (n_metric,)
        Of the linear part, a multiple of the identity.
    """

    curvature: float
    slope: NDArray

    def __call__(self, w: NDArray) -> float:
        """Ω(w)."""
        metric = w[: len(self.slope)]
        return float(self.slope @ metric + 0.5 * self.curvature * (metric @ metric))

    def gradient(self, w: NDArray) -> NDArray:
        """∇Ω, zero at the price."""
        gradient = np.zeros_like(w)
        gradient[: len(self.slope)] = self.slope + self.curvature * w[: len(self.slope)]
        return gradient


class Regularizer(Protocol):
    """Ω, by its terms on a cone."""

    strength: float

    def terms(self, cone: MetricCone) -> RegularizationTerms:
        """The linear and squared parts of Ω on ``cone``."""
        ...


class SquaredFrobenius(BaseEstimator):
    """Ω(B) = (μ/2)‖B‖²_F, with ``strength`` μ > 0; for a diagonal metric (μ/2)‖b‖²."""

    def __init__(self, strength: float = 0.1) -> None:
        self.strength = strength

    def terms(self, cone: MetricCone) -> RegularizationTerms:
        return RegularizationTerms(_positive(self), np.zeros(cone.n_metric))


class L1(BaseEstimator):
    """Ω(b) = μ‖b‖₁, with ``strength`` μ > 0: feature selection, diagonal metrics only."""

    def __init__(self, strength: float = 1e-3) -> None:
        self.strength = strength

    def terms(self, cone: MetricCone) -> RegularizationTerms:
        absolute_sum = cone.metric.absolute_sum(cone.n_features)
        return RegularizationTerms(0.0, _positive(self) * absolute_sum)


class Trace(BaseEstimator):
    """Ω(B) = μ Tr B, with ``strength`` μ > 0: low rank."""

    def __init__(self, strength: float = 1e-2) -> None:
        self.strength = strength

    def terms(self, cone: MetricCone) -> RegularizationTerms:
        return RegularizationTerms(0.0, _positive(self) * cone.metric.identity(cone.n_features))


def terms_of(who: str, regularizer: object, cone: MetricCone) -> RegularizationTerms:
    """The regularizer's terms, or a sentence that says which solver can do without."""
    if not hasattr(regularizer, "terms"):
        raise ValueError(
            f"{who} needs a regularizer with terms, linear plus squared, got {regularizer!r}; use "
            "the solver CuttingPlane for others."
        )
    return regularizer.terms(cone)


def _positive(regularizer: Regularizer) -> float:
    strength = regularizer.strength
    if not isinstance(strength, numbers.Real) or not 1e-20 <= float(strength) <= 1e20:
        raise ValueError(
            f"{type(regularizer).__name__} needs a positive strength, got {strength!r}; "
            "choose one from 1e-20 to 1e20."
        )
    return float(strength)
