"""Define regularizers Ω(B), each of which is a linear plus a squared term on a metric's cone.

See Lajugie, Arlot & Bach, Large-Margin Metric Learning for Partitioning Problems, section 4.3.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from metriclearn.running.parameters import Needs, Real, check_parameters
from metriclearn.solvers.mahalanobis import MetricCone


@dataclass(frozen=True)
class RegularizationTerms:
    """The terms of Ω(w) = offset + ⟨slope, w_metric⟩ + (curvature/2)‖w_metric‖² ≥ 0 on the cone.

    The penalty of a cluster is not regularized.

    Attributes
    ----------
    curvature : float
        The factor μ of the squared term.
    slope : array (n_metric,)
        The slope of the linear term, a multiple of the identity.
    offset : float
        Ω(0).
    """

    curvature: float
    slope: NDArray
    offset: float = 0.0

    def __call__(self, w: NDArray) -> float:
        """Return Ω(w)."""
        metric = w[: len(self.slope)]
        if self.curvature == 0.0:
            return float(self.offset + self.slope @ metric)
        center, least = self.lowest
        away = metric - center
        return float(least + 0.5 * self.curvature * (away @ away))

    @cached_property
    def lowest(self) -> tuple[NDArray, float]:
        """The point at which Ω without constraints is least, for μ > 0, and the value of Ω there.

        Ω(w) is this value plus (μ/2) times the squared distance of w from the point. If Ω is
        computed in this way, it loses no digits by cancellation.
        """
        center = -self.slope / self.curvature
        lowered = 0.5 * self.curvature * float(center @ center)
        rest = self.offset - lowered
        return center, rest if abs(rest) > 1e-12 * lowered else 0.0

    def gradient(self, w: NDArray) -> NDArray:
        """Return the gradient ∇Ω, which is zero for the penalty."""
        gradient = np.zeros_like(w)
        gradient[: len(self.slope)] = self.slope + self.curvature * w[: len(self.slope)]
        return gradient

    def minimum(self, slope: NDArray, cone: MetricCone, best: float) -> float:
        """Return the least ⟨g, w⟩ + Ω(w) with penalty 0, over all metrics that may be optimal.

        If μ > 0, the minimum over the whole cone has a closed form. If μ = 0, Ω(w) = κ Tr B. Let F
        be the best known objective. As risks are nonnegative, any optimum has Ω(w) ≤ F. Let ν be
        the least eigenvalue (or weight) of g + κI. For μ = 0, the minimum is min(0, ν) F/κ.

        Parameters
        ----------
        slope : array (n,)
            g.
        cone : MetricCone
        best : float
            F.
        """
        if self.curvature > 0:
            slope, (center, least) = slope[: cone.n_metric], self.lowest
            point, _ = cone.metric.linearize(center - slope / self.curvature)
            away = point - center
            return least + float(slope @ point + 0.5 * self.curvature * (away @ away))
        total = slope[: cone.n_metric] + self.slope
        return best / float(np.max(self.slope)) * min(0.0, cone.metric.least(total))


@runtime_checkable
class Regularizer(Protocol):
    """A regularizer Ω, given by its terms on a cone."""

    def terms(self, cone: MetricCone) -> RegularizationTerms:
        """Return the linear and squared parts of Ω on ``cone``."""


@runtime_checkable
class ConvexExpression(Protocol):
    """Any convex Ω, given as an expression of cvxpy. Only CuttingPlane can use it."""

    def expression(self, B: Any) -> Any:
        """Return Ω(B), where B (P, P) is a variable or a constant of cvxpy."""


_STRENGTH = Needs(
    "a positive {name}", Real(1e-250, 1e250).accepts, "; choose one from 1e-250 to 1e250"
)


@dataclass(eq=False, repr=False)
class SquaredFrobenius(BaseEstimator):
    """The squared regularizer Ω(B) = (μ/2)‖B − cI‖²_F, with ``strength`` μ > 0.

    For a diagonal metric, Ω is (μ/2)‖b − c‖². With ``center`` c = 0, Ω is the paper's regularizer,
    which draws the metric to 0. With c > 0, Ω draws the metric to cI, which is c times the
    Euclidean metric of the features.

    Parameters
    ----------
    strength : float > 0
        μ.
    center : float ≥ 0
        The number c in Ω, which draws the metric to cI.

    Raises
    ------
    ValueError
        Raised by the learner's ``fit`` if parameters cannot be used.

    References
    ----------
    Lajugie, Arlot & Bach, Large-Margin Metric Learning for Partitioning Problems,
    arXiv:1303.1280, section 4.3.
    """

    strength: Annotated[float, _STRENGTH] = 0.1
    center: Annotated[float, Real(0.0, 1e125)] = 0.0

    def terms(self, cone: MetricCone) -> RegularizationTerms:
        check_parameters(self)
        strength, identity = float(self.strength), cone.metric.coordinates(np.eye(cone.n_features))
        offset = 0.5 * (strength * self.center) * self.center * float(identity @ identity)
        return RegularizationTerms(strength, -strength * self.center * identity, offset)


@dataclass(eq=False, repr=False)
class Trace(BaseEstimator):
    """The linear regularizer Ω(B) = μ Tr B, with ``strength`` μ > 0, which favors a low rank.

    Parameters
    ----------
    strength : float > 0
        μ.

    Raises
    ------
    ValueError
        Raised by the learner's ``fit`` if parameters cannot be used.

    References
    ----------
    Lajugie, Arlot & Bach, Large-Margin Metric Learning for Partitioning Problems,
    arXiv:1303.1280, section 4.3.
    """

    strength: Annotated[float, _STRENGTH] = 1e-2
    diagonal_only: ClassVar[bool] = False

    def terms(self, cone: MetricCone) -> RegularizationTerms:
        check_parameters(self)
        if self.diagonal_only and not cone.metric.polyhedral:
            raise ValueError(
                f"{type(self).__name__} needs a DiagonalMetric, whose absolute values sum "
                f"linearly, got a {type(cone.metric).__name__}; use the Trace regularizer for a "
                "low rank."
            )
        identity = cone.metric.identity(cone.n_features)
        return RegularizationTerms(0.0, float(self.strength) * identity)


@dataclass(eq=False, repr=False)
class L1(Trace):
    """The regularizer Ω(b) = μ‖b‖₁ of diagonal metrics, with ``strength`` μ > 0.

    This regularizer selects features. Weights are not negative, so the sum of their absolute values
    is the trace.

    Parameters
    ----------
    strength : float > 0
        μ.

    Raises
    ------
    ValueError
        Raised by the learner's ``fit`` if parameters cannot be used.

    References
    ----------
    Lajugie, Arlot & Bach, Large-Margin Metric Learning for Partitioning Problems,
    arXiv:1303.1280, section 4.3.
    """

    strength: Annotated[float, _STRENGTH] = 1e-3
    diagonal_only: ClassVar[bool] = True
