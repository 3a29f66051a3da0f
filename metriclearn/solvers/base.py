"""What solvers share: cuts, the trace, the solution and the lower bound behind its gap."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from metriclearn.mahalanobis import MetricCone
from metriclearn.regularizers import RegularizationTerms, Regularizer

__all__ = ["Cuts", "Monitor", "Progress", "Risk", "Solution", "Solver", "Trace"]


class Cuts(NamedTuple):
    """Values and slopes of the convex functions R_1 … R_n at one point, with their weights.

    The risk is Σ weights_i R_i; weights sum to one.
    """

    values: NDArray
    slopes: NDArray
    weights: NDArray

    @property
    def mean(self) -> float:
        """The risk."""
        return float(self.weights @ self.values)

    @property
    def slope(self) -> NDArray:
        """A subgradient of the risk."""
        return self.weights @ self.slopes


Risk = Callable[[NDArray], Cuts]
"""w -> Cuts. Every function is convex and nonnegative (a hinge)."""


@dataclass
class Trace:
    """One entry per round: best objective so far, lower bound, seconds since the start."""

    objective: list[float] = field(default_factory=list)
    lower_bound: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    def append(self, objective: float, lower_bound: float, seconds: float) -> None:
        """Add a round."""
        self.objective.append(objective)
        self.lower_bound.append(lower_bound)
        self.seconds.append(seconds)

    def __len__(self) -> int:
        return len(self.objective)


@dataclass(frozen=True)
class Solution:
    """What a solver returns, with its certificate.

    Attributes
    ----------
    w : array (n,)
        Best point met.
    objective, lower_bound : float
        Objective at w, and a bound that no point can beat.
    scale : float
        Objective at the start (no metric): ``relative_gap`` is the gap over it.
    converged : bool
        Whether the gap reached the tolerance.
    reason : str
        Why the solver stopped: "converged", "max_rounds", "interrupted" or "stalled".
    trace : Trace
    """

    w: NDArray
    objective: float
    lower_bound: float
    scale: float
    reason: str
    trace: Trace

    @property
    def converged(self) -> bool:
        """Whether the gap reached the tolerance."""
        return self.reason == "converged"

    @property
    def gap(self) -> float:
        """objective − lower_bound."""
        return self.objective - self.lower_bound

    @property
    def relative_gap(self) -> float:
        """gap over the objective at the start."""
        return self.gap / self.scale if self.scale > 0 else self.gap


@dataclass(frozen=True)
class Progress:
    """What a monitor sees after each round."""

    round: int
    objective: float
    lower_bound: float
    relative_gap: float
    w: NDArray


Monitor = Callable[[Progress], None]


class Solver(Protocol):
    """Minimizes risk + regularizer over a cone."""

    def minimize(
        self,
        risk: Risk,
        regularizer: Regularizer,
        cone: MetricCone,
        start: NDArray,
        monitor: Monitor | None = None,
    ) -> Solution:
        """Minimize from ``start``; ``monitor`` is called after every round."""
        ...


class DualBound:
    """Lower bounds on min risk + Ω from one affine minorant b + ⟨g, w⟩ of the risk.

    Over the metric coordinates the minimum of ⟨g + slope, w⟩ + (μ/2)‖w‖² is closed when μ > 0.
    When μ = 0 any optimum has ⟨slope, w⟩ ≤ F, the best objective known, because the risk is
    nonnegative, and slope = κI gives F/κ times the least eigenvalue (or coordinate). The price
    has no regularizer; an optimal one is at most ``price_limit``, which :meth:`limit_price`
    lowers with minorants that grow with the price.
    """

    def __init__(self, terms: RegularizationTerms, cone: MetricCone) -> None:
        self.terms, self.cone = terms, cone
        self.price_limit = np.inf

    def value(self, offset: float, slope: NDArray, best: float) -> float:
        """Bound from one minorant; never below 0, which bounds every hinge."""
        bound = self._priceless(offset, slope, best)
        unlimited = np.isinf(self.price_limit) and slope[-1] > -1e-14  # rounding of (K − Tr M)/T
        if self.cone.priced and slope[-1] < 0 and not unlimited:
            bound += slope[-1] * self.price_limit
        return max(0.0, bound)

    def limit_price(self, offset: float, slope: NDArray, best: float) -> None:
        """Use that b + ⟨g, w⟩ + Ω(w) ≤ F at any optimum, where g grows with the price."""
        if self.cone.priced and slope[-1] > 0:
            limit = (best - self._priceless(offset, slope, best)) / slope[-1]
            self.price_limit = min(self.price_limit, limit)

    def _priceless(self, offset: float, slope: NDArray, best: float) -> float:
        terms, metric = self.terms, self.cone.metric
        total = slope[: self.cone.n_metric] + terms.slope
        if terms.curvature > 0:
            point, _ = metric.linearize(-total)
            return offset - float(point @ point) / (2.0 * terms.curvature)
        weight = float(np.max(terms.slope))
        return offset + best / weight * min(0.0, metric.least(total))
