"""Define regularizers Ω(B), and what a solver asks of them: value, subgradient and lower bound.

See Lajugie, Arlot & Bach, Large-Margin Metric Learning for Partitioning Problems, section 4.3.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from metriclearn.running.parameters import Needs, Real, check_parameters
from metriclearn.solvers.mahalanobis import MetricCone


class Omega(Protocol):
    """A convex function Ω(w) ≥ 0 on a cone. The penalty of a cluster is not regularized.

    A solver needs no more than these three methods to certify its result. The last coordinate of w
    and g belongs to the penalty, if the cone has one. All methods ignore it.
    """

    def __call__(self, w: NDArray) -> float:
        """Return Ω(w)."""

    def gradient(self, w: NDArray) -> NDArray:
        """Return a subgradient of Ω at w, which is zero for the penalty, (n,) -> (n,)."""

    def minimum(self, g: NDArray, best: float) -> float:
        """Return the least ⟨g, w⟩ + Ω(w) over all w of penalty 0 with Ω(w) ≤ ``best``.

        Risks are nonnegative. So if ``best`` is the objective at any point, every optimum has
        Ω(w) ≤ ``best``. A lower number is also a valid answer.
        """


@dataclass(frozen=True)
class Quadratic:
    """Ω(w) = offset + ⟨slope, w_metric⟩ + (curvature/2)‖w_metric‖² ≥ 0 on the cone.

    Attributes
    ----------
    cone : MetricCone
    curvature : float
        The factor μ of the squared term.
    slope : array (n_metric,)
        The slope of the linear term. If μ = 0, the slope is a positive definite matrix, or positive
        weights.
    offset : float
        Ω(0).
    """

    cone: MetricCone
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

    @cached_property
    def growth(self) -> float:
        """The largest κ with ⟨slope, B⟩ ≥ κ Tr B for every B in the cone."""
        return self.cone.metric.least(self.slope)

    def gradient(self, w: NDArray) -> NDArray:
        """Return the gradient ∇Ω, which is zero for the penalty."""
        gradient = np.zeros_like(w)
        gradient[: len(self.slope)] = self.slope + self.curvature * w[: len(self.slope)]
        return gradient

    def minimum(self, g: NDArray, best: float) -> float:
        """Return the least ⟨g, w⟩ + Ω(w), see :meth:`Omega.minimum`.

        If μ > 0, the minimum over the whole cone has a closed form. Otherwise let F be ``best``, κ
        the growth of Ω, and ν the least eigenvalue of g + slope. The trace is at most F/κ, so the
        minimum is at least min(0, ν) F/κ. If the slope is κI, this is the minimum. For a diagonal
        metric, weights are measured in units of their slopes, which makes the slope κI.
        """
        g, metric = g[: len(self.slope)], self.cone.metric
        if self.curvature > 0:
            center, least = self.lowest
            point, _ = metric.linearize(center - g / self.curvature)
            away = point - center
            return least + float(g @ point + 0.5 * self.curvature * (away @ away))
        total = g + self.slope
        if metric.polyhedral:
            total = total * (self.growth / self.slope)
        return best / self.growth * min(0.0, metric.least(total))


@dataclass(frozen=True)
class Norm:
    """A convex Ω with Ω(tw) = tΩ(w) for t ≥ 0, and Ω(w) > 0 for all other w of the cone.

    The functions know only the coordinates of the metric.

    Attributes
    ----------
    cone : MetricCone
    value : callable (array (n_metric,)) -> float
        Returns Ω(w).
    subgradient : callable (array (n_metric,)) -> array (n_metric,)
        Returns a subgradient of Ω at w.
    polar : callable (array (n_metric,)) -> float
        Returns Ω°(v) = max ⟨v, w⟩ over all w in the cone with Ω(w) ≤ 1.

    References
    ----------
    Rockafellar, Convex Analysis, 1970, section 15.
    """

    cone: MetricCone
    value: Callable[[NDArray], float]
    subgradient: Callable[[NDArray], NDArray]
    polar: Callable[[NDArray], float]

    def __call__(self, w: NDArray) -> float:
        """Return Ω(w)."""
        return float(self.value(w[: self.cone.n_metric]))

    def gradient(self, w: NDArray) -> NDArray:
        """Return a subgradient, which is zero for the penalty."""
        gradient, n = np.zeros_like(w), self.cone.n_metric
        gradient[:n] = self.subgradient(w[:n])
        return gradient

    def minimum(self, g: NDArray, best: float) -> float:
        """Return the least ⟨g, w⟩ + Ω(w), see :meth:`Omega.minimum`.

        If Ω(w) = t, then ⟨g, w⟩ ≥ −t Ω°(−g), with equality for some w. So the least value is the
        minimum of t (1 − Ω°(−g)) over 0 ≤ t ≤ ``best``.
        """
        return best * min(0.0, 1.0 - float(self.polar(-g[: self.cone.n_metric])))


@dataclass(frozen=True)
class _Rescaled:
    """Ω(w / number), for an Ω of any kind."""

    omega: Omega
    number: float

    def __call__(self, w: NDArray) -> float:
        return self.omega(w / self.number)

    def gradient(self, w: NDArray) -> NDArray:
        return self.omega.gradient(w / self.number) / self.number

    def minimum(self, g: NDArray, best: float) -> float:
        # ⟨g, w⟩ + Ω(w / number) is ⟨number g, v⟩ + Ω(v) for v = w / number.
        return self.omega.minimum(g * self.number, best)


def in_unit(omega: Omega, cone: MetricCone) -> Omega:
    """Return Ω as a function of the metric of data that were divided by ``cone.unit``.

    Raises
    ------
    ValueError
        If the strength in this unit is too small or too large to be squared as a float.
    """
    number, squared, offset = cone.unit**2, False, 0.0
    rescaled: Omega
    if isinstance(omega, Quadratic):
        squared, offset = omega.curvature > 0, omega.offset
        size = np.sqrt(omega.curvature) if squared else omega.growth
        curvature, slope = omega.curvature / number / number, omega.slope / number
        rescaled = Quadratic(cone, curvature, slope, offset)
    else:
        size = omega(cone.join(cone.metric.identity(cone.n_features), 0.0))
        rescaled = _Rescaled(omega, number)
    size = size / number
    if not (1e-60 <= size <= 1e60 and offset <= 1e90):
        raise ValueError(
            "A regularizer needs a strength from 1e-60 to 1e60, or 1e-120 to 1e120 of squares, "
            f"in the unit of the data, got {size ** (1 + squared):.3g} in that of "
            f"{cone.unit:.3g}; change the strength, or standardize or rescale the data."
        )
    return rescaled


@runtime_checkable
class Regularizer(Protocol):
    """A regularizer, which gives its Ω on a cone."""

    def terms(self, cone: MetricCone) -> Omega:
        """Return Ω on ``cone``, for ``cone.unit`` = 1: a Quadratic, a Norm or another Omega."""


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

    def terms(self, cone: MetricCone) -> Quadratic:
        check_parameters(self)
        strength, identity = float(self.strength), cone.metric.coordinates(np.eye(cone.n_features))
        offset = 0.5 * (strength * self.center) * self.center * float(identity @ identity)
        return Quadratic(cone, strength, -strength * self.center * identity, offset)


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

    def terms(self, cone: MetricCone) -> Quadratic:
        check_parameters(self)
        if self.diagonal_only and not cone.metric.polyhedral:
            raise ValueError(
                f"{type(self).__name__} needs a DiagonalMetric, whose absolute values sum "
                f"linearly, got a {type(cone.metric).__name__}; use the Trace regularizer for a "
                "low rank."
            )
        identity = cone.metric.identity(cone.n_features)
        return Quadratic(cone, 0.0, float(self.strength) * identity)


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
