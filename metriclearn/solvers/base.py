"""What solvers share: cuts, the trace, the solution and the lower bound behind its gap."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from metriclearn.solvers.mahalanobis import MetricCone
from metriclearn.solvers.regularizers import RegularizationTerms

__all__ = [
    "Callback",
    "CutMemory",
    "Cuts",
    "DualBound",
    "Problem",
    "Progress",
    "Risk",
    "Solution",
    "Solver",
    "Trace",
    "check_number",
    "within_masses",
]


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


class CutMemory(NamedTuple):
    """Minorants offsets_j + ⟨slopes_j, w⟩ of the functions groups_j; valid for any regularizer.

    ``anchor`` is the affine minorant of the whole risk at the start, (offset, slope).
    """

    offsets: NDArray
    slopes: NDArray
    groups: NDArray
    rounding: NDArray
    anchor: tuple[float, NDArray]


class Risk(Protocol):
    """Σ weights_i R_i(w); every R_i is convex and nonnegative (a hinge)."""

    weights: NDArray

    def __call__(self, w: NDArray, chosen: NDArray | None = None) -> Cuts:
        """Cuts of the functions ``chosen`` (all by default) at w, with their weights."""
        ...


@dataclass
class Trace:
    """One entry per round.

    Attributes
    ----------
    objective, lower_bound : list of float
        Best objective so far, and the best bound that no point can beat.
    seconds : list of float
        Since the start.
    oracle_calls : list of int
        Loss-augmented inferences so far, over all data sets or groups of them.
    cache_hits : list of int
        Inferences so far that a remembered cut made unnecessary.
    """

    objective: list[float] = field(default_factory=list)
    lower_bound: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    oracle_calls: list[int] = field(default_factory=list)
    cache_hits: list[int] = field(default_factory=list)

    def append(
        self,
        objective: float,
        lower_bound: float,
        seconds: float,
        oracle_calls: int = 0,
        cache_hits: int = 0,
    ) -> None:
        """Add a round."""
        self.objective.append(objective)
        self.lower_bound.append(lower_bound)
        self.seconds.append(seconds)
        self.oracle_calls.append(oracle_calls)
        self.cache_hits.append(cache_hits)

    @property
    def gap(self) -> list[float]:
        """objective − lower_bound, per round."""
        return [high - low for high, low in zip(self.objective, self.lower_bound)]

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
        Objective with no metric: ``relative_gap`` is the gap over it.
    reason : str
        Why the solver stopped: "converged", "max_rounds", "callback", "interrupted" or "stalled".
    trace : Trace
    rank : int
        Rank of B at w; for a diagonal metric the number of non-zero weights.
    cuts : CutMemory or None
        What a later start from here may use again.
    """

    w: NDArray
    objective: float
    lower_bound: float
    scale: float
    reason: str
    trace: Trace
    rank: int
    cuts: CutMemory | None = field(default=None, repr=False, compare=False)

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
        """gap over the objective with no metric."""
        return self.gap / self.scale if self.scale > 0 else self.gap


@dataclass(frozen=True)
class Progress:
    """What a callback sees after each round; ``estimator()`` is there when a learner solves."""

    round: int
    objective: float
    lower_bound: float
    relative_gap: float
    w: NDArray
    oracle_calls: int = 0
    cache_hits: int = 0
    estimator: Callable[[], Any] | None = None


@runtime_checkable
class Callback(Protocol):
    """Watches a solver."""

    def on_round(self, progress: Progress) -> bool | None:
        """Called after every round; True asks the solver to stop."""
        ...

    def on_end(self, solution: Solution) -> None:
        """Called once, with the result."""
        ...


@dataclass(frozen=True)
class Problem:
    """Minimize risk + regularizer over a cone: all that a solver is asked.

    Attributes
    ----------
    risk : Risk
    regularizer : Regularizer
        Ω.
    cone : MetricCone
        Where w may be.
    start : array (n,)
        No metric, or nearly none: where solvers begin, and over whose objective gaps are relative.
    callbacks : sequence of Callback
        Shown every round, and the solution.
    warm : Solution or None
        An earlier solution for the same risk under another regularizer: its point, its scale and
        its cuts are used again.
    """

    risk: Any
    regularizer: Any
    cone: MetricCone
    start: NDArray
    callbacks: Sequence[Callback] = ()
    warm: Solution | None = None


@runtime_checkable
class Solver(Protocol):
    """Minimizes risk + regularizer over a cone."""

    def minimize(self, problem: Problem) -> Solution:
        """Minimize the problem; a KeyboardInterrupt ends the run and keeps the best point."""
        ...


def within_masses(weights: NDArray, groups: NDArray, masses: NDArray) -> NDArray:
    """Multipliers of cuts made nonnegative, and scaled down where a group's exceed its mass.

    Such a combination of cuts of hinges is a minorant of Σ masses_i R_i, however they were found.
    """
    weights = np.maximum(weights, 0.0)
    totals = np.bincount(groups, weights=weights, minlength=len(masses))
    return weights * np.minimum(1.0, masses / np.maximum(totals, 1e-300))[groups]


def check_number(who: str, name: str, value: Any, least: float, whole: bool = False) -> None:
    """Raise unless value is a (whole) number of at least ``least``."""
    kind = numbers.Integral if whole else numbers.Real
    if isinstance(value, bool) or not isinstance(value, kind) or not float(value) >= least:
        what = f"whole {name}" if whole else name
        raise ValueError(f"{who} needs a {what} of at least {least}, got {value!r}.")


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
            return offset + terms.offset - float(point @ point) / (2.0 * terms.curvature)
        weight = float(np.max(terms.slope))
        return offset + best / weight * min(0.0, metric.least(total))
