"""What goes into a solver and what comes out: the problem, its cuts, the trace, the solution.

Cuts that a solver works with, or has dropped, are kept in tables, see :func:`table_of`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from metriclearn.running.callbacks import Callback, Progress
from metriclearn.solvers.mahalanobis import MetricCone

__all__ = [
    "Callback",
    "CutMemory",
    "Cuts",
    "Problem",
    "Progress",
    "Risk",
    "Solution",
    "Solver",
    "Trace",
    "best_violated",
    "combination",
    "pruned",
    "table_of",
    "values",
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
    """Minorants of the functions of a risk, valid for any regularizer.

    Attributes
    ----------
    table : structured array (J,)
        One record for every cut, see :func:`table_of`.
    anchor_offset : float
    anchor_slope : array (n,)
        The minorant anchor_offset + ⟨anchor_slope, w⟩ of the whole risk that was met at the start.
    """

    table: NDArray
    anchor_offset: float
    anchor_slope: NDArray


class Risk(Protocol):
    """Σ weights_i R_i(w); every R_i is convex and nonnegative (a hinge)."""

    weights: NDArray

    def __call__(self, w: NDArray, chosen: NDArray | None = None) -> Cuts:
        """Cuts of the functions ``chosen`` (all by default) at w, with their weights."""


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

    @property
    def gap(self) -> list[float]:
        """objective − lower_bound, per round."""
        return [high - low for high, low in zip(self.objective, self.lower_bound)]

    @classmethod
    def of(cls, rows: NDArray) -> Self:
        """The trace of an array (rounds, 5), whose columns are the five lists."""
        return cls(*rows[:, :3].T.tolist(), *rows[:, 3:].astype(int).T.tolist())

    @property
    def rows(self) -> NDArray:
        """The five lists as the columns of one array, for checkpoints."""
        return np.column_stack(list(vars(self).values()))

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


_FIELDS = [("offset", float), ("rounding", float), ("weight", float), ("group", int), ("age", int)]


def table_of(cuts: Cuts, w: NDArray, units: NDArray | float = 1.0) -> NDArray:
    """One record for every function: the minorant offset + ⟨slope, ·⟩ of it that was met at w.

    Parameters
    ----------
    cuts : Cuts
    w : array (n,)
    units : array (n,), optional
        By which the coordinates of w are multiplied, and slopes therefore divided, in the table.

    Returns
    -------
    structured array (number of functions,) with the fields
        ``slope`` (n,); ``offset``; ``rounding``, which bounds the error of the offset; ``weight``
        in the master problem's solution, here 0; ``group``, the function that the cut is of; and
        ``age``, the number of rounds for which it has had no weight.
    """
    linear = cuts.slopes @ w
    table = np.zeros(len(linear), dtype=[("slope", float, w.shape), *_FIELDS])
    table["slope"], table["offset"] = cuts.slopes / units, cuts.values - linear
    table["rounding"] = 1e-14 * (np.abs(cuts.values) + np.abs(linear))
    table["group"] = np.arange(len(table))
    return table


def values(table: NDArray, w: NDArray) -> NDArray:
    """Value of every cut at w, (J,)."""
    return table["offset"] + table["slope"] @ w


def combination(table: NDArray, weights: NDArray) -> tuple[float, NDArray]:
    """Σ weights_j (cut j), a minorant of the risk: its offset (less rounding) and slope."""
    active = np.flatnonzero(weights)
    weights, used = weights[active], table[active]
    return float(weights @ (used["offset"] - used["rounding"])), weights @ used["slope"]


def within_masses(weights: NDArray, groups: NDArray, masses: NDArray) -> NDArray:
    """Multipliers of cuts made nonnegative, and scaled down where a group's exceed its mass.

    Such a combination of cuts of hinges is a minorant of Σ masses_i R_i, however they were found.
    """
    weights = np.maximum(weights, 0.0)
    totals = np.bincount(groups, weights=weights, minlength=len(masses))
    return weights * np.minimum(1.0, masses / np.maximum(totals, 1e-300))[groups]


def pruned(table: NDArray, keep_inactive: int) -> tuple[NDArray, NDArray]:
    """Cuts with a weight now or ``keep_inactive`` rounds ago, and the others.

    A negligible weight becomes 0, and the others of its function make up for it.
    """
    groups, weights = table["group"], table["weight"].copy()
    totals = np.bincount(groups, weights=weights)
    weights[weights < 1e-9 * totals[groups]] = 0.0
    weights *= (totals / np.bincount(groups, weights=weights))[groups]
    table["weight"], table["age"] = weights, np.where(weights > 0, 0, table["age"] + 1)
    kept = table["age"] <= keep_inactive
    # those at the end take the places of the dropped ones: the others stay where they are
    n, gone = np.count_nonzero(kept), np.flatnonzero(~kept)
    order = np.arange(n)
    order[gone[gone < n]] = n + np.flatnonzero(kept[n:])
    return table[order] if len(gone) else table, table[gone]


def best_violated(table: NDArray, w: NDArray, model: NDArray) -> tuple[NDArray, NDArray]:
    """The cut of every function that is highest at w, where it exceeds the function's ``model``.

    Returns
    -------
    places in the table, and by how much each cut exceeds the model
    """
    heights = values(table, w)
    # by function and, within one, from the highest down: the first of each function is its best
    order = np.lexsort((-heights, table["group"]))
    _, first = np.unique(table["group"][order], return_index=True)
    best = order[first]
    excess = heights[best] - model[table["group"][best]]
    return best[excess > 0], excess[excess > 0]
