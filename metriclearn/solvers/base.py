"""The input of solvers, a :class:`Problem`, and their output, a :class:`Solution`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from metriclearn.running.callbacks import Callback
from metriclearn.solvers.mahalanobis import MetricCone
from metriclearn.solvers.regularizers import Omega, in_unit


class Cuts(NamedTuple):
    """Values and slopes of the convex functions R_1 … R_n at one point, with their weights.

    The risk is Σ weights_i R_i. The weights of all functions sum to one.
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
    """Minorants of the functions R_i of a risk Σ weights_i R_i; no regularizer changes them.

    Attributes
    ----------
    table : structured array (J,)
        One record for every cut, see :func:`~metriclearn.solvers.dual_master.table_of`.
    anchor_offset : float
        The cut of the whole risk at the solver's start is anchor_offset + ⟨anchor_slope, w⟩. This
        cut is also a minorant.
    anchor_slope : array (n,)
        The slope of the cut at the solver's start.
    """

    table: NDArray
    anchor_offset: float
    anchor_slope: NDArray


@dataclass
class Trace:
    """The progress of a run, with one entry per round.

    Attributes
    ----------
    objective, lower_bound : list of float
        The best objective so far, and the best lower bound so far. No point has an objective below
        the lower bound.
    seconds : list of float
        Seconds since the start.
    oracle_calls : list of int
        Number of loss-augmented inferences so far. If each cut belongs to a group of data sets, all
        inferences for one group count as one.
    cache_hits : list of int
        Number of inferences saved so far, because a stored cut was good enough.
    """

    objective: list[float] = field(default_factory=list)
    lower_bound: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    oracle_calls: list[int] = field(default_factory=list)
    cache_hits: list[int] = field(default_factory=list)

    @property
    def gap(self) -> list[float]:
        """The numbers objective − lower_bound after every round."""
        return [high - low for high, low in zip(self.objective, self.lower_bound)]

    @classmethod
    def of(cls, rows: NDArray) -> Self:
        """Make a trace from an array (rounds, 5), whose columns are the five lists of a trace."""
        objective, lower_bound, seconds = rows[:, :3].T.tolist()
        oracle_calls, cache_hits = rows[:, 3:].astype(int).T.tolist()
        return cls(objective, lower_bound, seconds, oracle_calls, cache_hits)

    @property
    def rows(self) -> NDArray:
        """The five lists of the trace as the columns of one array, for checkpoints."""
        return np.column_stack(list(vars(self).values()))

    def __len__(self) -> int:
        return len(self.objective)


@dataclass(frozen=True, repr=False)
class Solution:
    """The result of a solver, with its certificate.

    Attributes
    ----------
    w : array (n,)
        The best point found.
    objective, lower_bound : float
        The objective at w, and a lower bound on the objective at every point.
    scale : float
        The number that divides the gap in ``relative_gap``. By default the scale is the risk at a
        metric of zero. If this risk is 0, the scale is Ω at a metric of zero. For CCCP and
        FactorDescent, the scale is the objective at the start.
    reason : str
        Why the solver stopped: "converged", "max_rounds", "callback", "interrupted" or "stalled".
    trace : Trace
    rank : int
        Rank of B at w. For a diagonal metric this is the number of non-zero weights.
    cuts : CutMemory or None
        Cuts that a later run can reuse when it starts from this solution.
    """

    w: NDArray
    objective: float
    lower_bound: float
    scale: float
    reason: str
    trace: Trace
    rank: int
    cuts: CutMemory | None = field(default=None, repr=False, compare=False)

    def __repr__(self) -> str:
        return (
            f"Solution({self.reason} after {len(self.trace)} rounds, objective "
            f"{self.objective:.6g}, relative gap {self.relative_gap:.2g}, rank {self.rank})"
        )

    @property
    def converged(self) -> bool:
        """Whether the gap reached the tolerance."""
        return self.reason == "converged"

    @property
    def gap(self) -> float:
        """The number objective − lower_bound."""
        return self.objective - self.lower_bound

    @property
    def relative_gap(self) -> float:
        """The gap divided by ``scale``."""
        gap = self.objective - self.lower_bound
        return gap / self.scale if self.scale > 0 else gap


@dataclass(frozen=True)
class Problem:
    """The complete input of a solver, which minimizes risk + regularizer over a cone.

    Attributes
    ----------
    risk : callable (w, chosen=None) -> Cuts
        A risk Σ weights_i R_i(w), in which every R_i is convex and nonnegative (a hinge). It
        computes the cuts at w of the functions ``chosen``, by default of all, and has ``weights``.
    regularizer : Regularizer
        Ω.
    cone : MetricCone
        The feasible set of w.
    start : array (n,)
        A point whose metric is zero, or nearly zero. Solvers begin at this point, and gaps are
        relative to the risk at this point.
    callbacks : sequence of Callback
        Called after every round, and with the solution at the end.
    warm : Solution or None
        An earlier solution for the same risk under another regularizer. The solver reuses the
        point, the scale and the cuts of this solution.
    estimator : callable (array (n,)) -> estimator, optional
        Returns the learner fitted at a point, for callbacks that need a learner.
    """

    risk: Any
    regularizer: Any
    cone: MetricCone
    start: NDArray
    callbacks: Sequence[Callback] = ()
    warm: Solution | None = None
    estimator: Callable[[NDArray], Any] | None = None

    @property
    def terms(self) -> Omega:
        """Ω for data that were divided by ``cone.unit``."""
        return in_unit(self.regularizer.terms(self.cone), self.cone)


@runtime_checkable
class Solver(Protocol):
    """Minimizes risk + regularizer over a cone."""

    def minimize(self, problem: Problem) -> Solution:
        """Minimize the problem. After a KeyboardInterrupt, return the best point so far."""
