"""Regularizers Ω(B) of section 4.3. On its cone each is linear plus a squared norm."""

from __future__ import annotations

import numbers
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from metriclearn.solvers.mahalanobis import MetricCone

__all__ = [
    "L1",
    "ConvexExpression",
    "RegularizationTerms",
    "Regularizer",
    "SquaredFrobenius",
    "Trace",
    "terms_of",
]


@dataclass(frozen=True)
class RegularizationTerms:
    """Ω(w) = offset + ⟨slope, w⟩ + (curvature/2)‖w_metric‖² ≥ 0 on the cone; the price is free.

    Attributes
    ----------
    curvature : float
        μ of the squared part.
    slope : array (n_metric,)
        Of the linear part, a multiple of the identity.
    offset : float
        Ω(0).
    """

    curvature: float
    slope: NDArray
    offset: float = 0.0

    def __call__(self, w: NDArray) -> float:
        """Ω(w)."""
        metric = w[: len(self.slope)]
        quadratic = 0.5 * self.curvature * (metric @ metric)
        return float(self.offset + self.slope @ metric + quadratic)

    def gradient(self, w: NDArray) -> NDArray:
        """∇Ω, zero at the price."""
        gradient = np.zeros_like(w)
        gradient[: len(self.slope)] = self.slope + self.curvature * w[: len(self.slope)]
        return gradient


@runtime_checkable
class Regularizer(Protocol):
    """Ω, by its terms on a cone."""

    def terms(self, cone: MetricCone) -> RegularizationTerms:
        """The linear and squared parts of Ω on ``cone``."""


@runtime_checkable
class ConvexExpression(Protocol):
    """Any convex Ω, as an expression of cvxpy; only the cutting plane can use it."""

    def expression(self, B: Any) -> Any:
        """Ω(B) for a cvxpy variable, or a constant, B (P, P)."""


@dataclass(eq=False, repr=False)
class SquaredFrobenius(BaseEstimator):
    """Ω(B) = (μ/2)‖B − cI‖²_F, with ``strength`` μ > 0; for a diagonal metric (μ/2)‖b − c‖².

    With ``center`` c = 0 that of section 4.3. With c > 0 the metric is drawn to a multiple of the
    identity, that is to the metric whose coordinates the features are in, instead of to none.
    """

    strength: float = 0.1
    center: float = 0.0

    def terms(self, cone: MetricCone) -> RegularizationTerms:
        strength, center = _positive(self), self.center
        if not isinstance(center, numbers.Real) or not 0.0 <= float(center) <= 1e20:
            raise ValueError(
                f"SquaredFrobenius needs a center from 0 to 1e20, got {center!r}; choose one."
            )
        identity = cone.metric.identity(cone.n_features)
        offset = 0.5 * strength * center**2 * float(identity @ identity)
        return RegularizationTerms(strength, -strength * center * identity, offset)


@dataclass(eq=False, repr=False)
class L1(BaseEstimator):
    """Ω(b) = μ‖b‖₁, with ``strength`` μ > 0: feature selection, diagonal metrics only."""

    strength: float = 1e-3

    def terms(self, cone: MetricCone) -> RegularizationTerms:
        absolute_sum = cone.metric.absolute_sum(cone.n_features)
        return RegularizationTerms(0.0, _positive(self) * absolute_sum)


@dataclass(eq=False, repr=False)
class Trace(BaseEstimator):
    """Ω(B) = μ Tr B, with ``strength`` μ > 0: low rank."""

    strength: float = 1e-2

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


def _positive(regularizer: Any) -> float:
    strength = regularizer.strength
    if not isinstance(strength, numbers.Real) or not 1e-20 <= float(strength) <= 1e20:
        raise ValueError(
            f"{type(regularizer).__name__} needs a positive strength, got {strength!r}; "
            "choose one from 1e-20 to 1e20."
        )
    return float(strength)
