"""The loop that all solvers share.

The class :class:`Iteration` has the loop over rounds. It also updates the trace and the checkpoint,
and calls the callbacks. The class :class:`Minimization` adds the best point so far and the lower
bound.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from metriclearn.running.atomic import Checkpoint
from metriclearn.running.callbacks import Callback, Progress
from metriclearn.running.command_line import is_interrupt
from metriclearn.running.parameters import check_parameters
from metriclearn.solvers.base import CutMemory, Cuts, Problem, Solution, Trace
from metriclearn.solvers.mahalanobis import MetricCone

# Rounding error of a dot product, divided by the product of the two lengths.
_ROUNDING = 1e-15
# To limit the penalty, a cut is mixed with the cut at the start. These are weights of the latter.
_SHARES = (1.0, 0.1, 0.01, 0.001)


def product_rounding(slopes: NDArray, w: NDArray, cone: MetricCone) -> NDArray:
    """Return a bound on the rounding error of ⟨slope, w⟩ for every slope, (…, n) → (…).

    A metric may be large along directions in which the data do not vary. The slope along such
    directions consists of rounding errors only. So for the coordinates of the metric, the bound is
    proportional to the product of the norms of slope and w. The coordinate of the penalty has
    another unit, so it adds a separate term.
    """
    n = cone.n_metric
    lengths = np.linalg.norm(slopes[..., :n], axis=-1) * np.linalg.norm(w[:n])
    return _ROUNDING * (lengths + np.abs(slopes[..., n:]) @ np.abs(w[n:]))


class Stop(Exception):
    """An exception that ends the rounds, with the reason as its argument."""


class Iteration(ABC):
    """Run rounds until there is a reason to stop. A subclass defines the start and one round.

    A checkpoint saves the state after every round. A later run of the same problem resumes from the
    checkpoint, and its results are the same to the last bit.

    Attributes
    ----------
    kept : tuple of str
        Names of the attributes that a checkpoint keeps, each of which is a number or an array. A
        subclass adds all that changes from round to round, and all that a warm start changes.
    settings : estimator
        The solver, whose parameters are checked before a run. If ``checkpoint`` is one of the
        parameters, its value is the name of a file.
    callbacks : sequence of Callback
    """

    kept: ClassVar[tuple[str, ...]] = ("round", "objective")
    settings: Any
    callbacks: Sequence[Callback] = ()
    _file: Checkpoint | None = None

    @abstractmethod
    def begin(self) -> None:
        """Prepare for the first round."""

    @abstractmethod
    def step(self) -> None:
        """Do one round. Raise :class:`Stop` if no further step is possible."""

    @abstractmethod
    def record(self) -> Any:
        """Add a row to the trace, and return the progress that is passed to callbacks."""

    @abstractmethod
    def solved(self) -> bool:
        """Return whether the result meets the tolerance."""

    @abstractmethod
    def solution(self, reason: str) -> Solution:
        """Return the result of the rounds so far, with the reason why the rounds ended."""

    @abstractmethod
    def identity(self) -> Sequence[Any]:
        """Return numbers and arrays that identify the problem of a checkpoint."""

    def state(self) -> dict[str, Any]:
        """Return the values of all that is kept."""
        return {name: getattr(self, name) for name in self.kept}

    def restore(self, state: Mapping[str, NDArray]) -> None:
        """Restore the state of an earlier run."""
        # We copy arrays, because only arrays that own their memory can grow in place.
        for name in self.kept:
            value = state[name]
            setattr(self, name, value.copy() if value.ndim else value.item())

    def run(self, max_rounds: int) -> Solution:
        """Do steps until the problem is solved, a callback asks to stop, or no rounds remain."""
        check_parameters(self.settings)
        self.round, self.objective = 0, np.inf
        reason, path = "max_rounds", getattr(self.settings, "checkpoint", None)
        try:
            self.begin()
            if path is not None:
                self._file = Checkpoint(path, type(self.settings).__name__, *self.identity())
                if state := self._file.load():
                    self.restore(state)
            while not self.solved() and self.round < max_rounds:
                self.step()
                self.close_round()
        except Stop as stop:
            reason = str(stop)
        except (KeyboardInterrupt, SystemError) as error:
            if not is_interrupt(error):
                raise
            if not np.isfinite(self.objective):
                raise KeyboardInterrupt from None
            reason = "interrupted"
        if reason != "interrupted" and self.solved():
            reason = "converged"
        solution = self.solution(reason)
        for callback in self.callbacks:
            callback.on_end(solution)
        return solution

    def close_round(self) -> None:
        """Update the trace and the checkpoint, and call the callbacks.

        If one step consists of many rounds, the step calls this method after each round.
        """
        self.round += 1
        progress = self.record()
        if self._file is not None:
            self._file.save(self.state())
        stop = False
        # Call all callbacks, even after one has asked to stop.
        for callback in self.callbacks:
            stop = bool(callback.on_round(progress)) or stop
        if stop:
            raise Stop("callback")


class Minimization(Iteration):
    """Run rounds that lower risk + Ω over a cone, and keep the best point and a lower bound.

    Parameters
    ----------
    problem : Problem
    settings : Solver
    omega : callable (array) -> float, optional
        Computes Ω(w). Pass ``omega`` if the regularizer has no terms. Then :meth:`raise_bound`
        cannot be used.
    """

    kept = (
        *Iteration.kept,
        *("best", "lower_bound", "penalty_limit", "scale", "anchor_offset", "anchor_slope"),
        *("oracle_calls", "cache_hits", "seconds"),
    )
    # A hinge plus Ω is never below this value.
    least = 0.0

    def __init__(
        self, problem: Problem, settings: Any, omega: Callable[[NDArray], float] | None = None
    ) -> None:
        self.settings, self.problem = settings, problem
        self.callbacks = problem.callbacks
        self.risk = problem.risk
        self.cone = problem.cone
        if omega is None and not hasattr(problem.regularizer, "terms"):
            raise ValueError(
                f"{type(settings).__name__} needs a regularizer with terms, got "
                f"{problem.regularizer!r}; use the solver CuttingPlane for an expression of cvxpy."
            )
        self.omega: Any = omega or problem.terms
        self.lower_bound = self.least
        self.penalty_limit = np.inf
        self.oracle_calls, self.cache_hits = 0, 0
        self.trace = Trace()
        self.scale = np.inf
        self.seconds = 0.0
        self._clock = time.perf_counter()

    def state(self) -> dict[str, Any]:
        """Return the values of all that is kept, and the rows of the trace."""
        return super().state() | {"rows": self.trace.rows}

    def restore(self, state: Mapping[str, NDArray]) -> None:
        """Restore the state of an earlier run, with its trace."""
        super().restore(state)
        self.trace = Trace.of(state["rows"])

    @abstractmethod
    def prepare(self, start: NDArray, cuts: Cuts) -> None:
        """Prepare the first round with the cuts at the start."""

    def begin(self) -> None:
        """Evaluate the start, or the point of the earlier solution if there is one."""
        warm, who = self.problem.warm, type(self.settings).__name__
        start = (self.problem.start if warm is None else warm.w).copy()
        cuts, value = self.visit(start)
        if not np.isfinite(value):
            raise ValueError(
                f"{who} needs an objective that is finite at the start, with no or nearly no "
                f"metric, got {value}; change the regularizer, or scale the data."
            )
        # gaps are relative to the risk with no metric, or to Ω if that risk is 0
        self.scale = (cuts.mean or value) if warm is None else warm.scale
        self.anchor_offset, self.anchor_slope = cuts.mean - float(cuts.slope @ start), cuts.slope
        if warm is not None and warm.cuts is not None:
            _, self.anchor_offset, self.anchor_slope = warm.cuts
        self._first = start, cuts
        # If the value is not above the least possible one, the start is optimal.
        if value > self.least:
            self.prepare(start, cuts)

    def identity(self) -> Sequence[Any]:
        """Return the solver, the fingerprint of the data, the first cuts, and values of Ω.

        Three values at multiples of I tell linear from squared. A value at a matrix without any
        symmetry tells weights and groups apart.
        """
        start, cuts = self._first
        solver = type(self.settings).__name__.encode()
        fingerprint = getattr(self.risk, "fingerprint", b"")
        parts: list[Any] = [np.frombuffer(text, dtype=np.uint8) for text in (solver, fingerprint)]
        parts += [start, *cuts, self.scale]
        parts.append(getattr(self.risk, "identity", ()))
        metric, P = self.cone.metric, self.cone.n_features
        unit, uneven = metric.identity(P), metric.coordinates(np.tri(P))
        for points in ([unit, 2.0 * unit, 3.0 * unit], [uneven]):
            parts.append([self.omega(self.cone.join(point, 0.0)) for point in points])
        return parts

    def visit(self, w: NDArray) -> tuple[Cuts, float]:
        """Compute the cuts and the objective at w, and store w if it is the best point so far."""
        cuts = self.risk(w)
        self.oracle_calls += len(cuts.values)
        value = cuts.mean + self.omega(w)
        # Ignore a point whose metric is so large that ⟨slope, w⟩ may be mostly rounding.
        rounding = float(product_rounding(cuts.slope, w, self.cone))
        known = max(self.settings.tolerance, 1e-9) * self.scale
        if value < self.objective and rounding <= known:
            self.objective, self.best = value, w
        return cuts, value

    def raise_bound(self, offset: float, slope: NDArray) -> None:
        """Raise the lower bound, if possible, with a minorant b + ⟨g, w⟩ of the risk.

        No regularizer applies to the penalty. So if the minorant falls as the penalty grows, it
        proves a bound only if the penalty has an upper limit. A minorant that grows with the
        penalty gives such a limit. Let F be the best objective so far. At any optimum b + ⟨g, w⟩ +
        Ω(w) ≤ F, which limits the penalty. The minorant computed at the solver's start, where
        partitions have few clusters, grows with the penalty. A mixture of this minorant and the
        given minorant also grows with the penalty, if the weight of the start's minorant is large
        enough.
        """
        best, grows = self.objective, slope[-1] if self.cone.learns_penalty else 0.0
        bound = offset + self.omega.minimum(slope, best)
        if grows > 0:
            self.penalty_limit = min(self.penalty_limit, (best - bound) / grows)
        for share in _SHARES if grows < 0 and bound > self.lower_bound else ():
            mixed = (1 - share) * offset + share * self.anchor_offset
            mixed_slope = (1 - share) * slope + share * self.anchor_slope
            metric, rise = self.cone.split(mixed_slope)
            # The minimum is at most the value at the best metric. So it often need not be computed.
            met = float(metric @ self.best[: len(metric)]) + self.omega(self.best)
            if rise > 0 and best - mixed - met < rise * self.penalty_limit:
                left = best - mixed - self.omega.minimum(mixed_slope, best)
                self.penalty_limit = min(self.penalty_limit, left / rise)
        # (K − Tr M)/T may be negative by rounding.
        unlimited = np.isinf(self.penalty_limit) and grows > -1e-14
        if grows < 0 and bound > self.lower_bound and not unlimited:
            bound += grows * self.penalty_limit
        self.lower_bound = max(self.lower_bound, bound)

    def solved(self) -> bool:
        """Return whether the relative gap is within the tolerance."""
        gap = self.objective - self.lower_bound
        return self.objective <= self.least or gap <= self.settings.tolerance * self.scale

    def record(self) -> Progress:
        """Add a row to the trace."""
        now = time.perf_counter()
        self.seconds += now - self._clock
        self._clock = now
        self.trace.objective.append(float(self.objective))
        self.trace.lower_bound.append(float(self.lower_bound))
        self.trace.seconds.append(self.seconds)
        self.trace.oracle_calls.append(self.oracle_calls)
        self.trace.cache_hits.append(self.cache_hits)
        estimator_at = self.problem.estimator
        return Progress(
            round=self.round,
            objective=self.objective,
            lower_bound=self.lower_bound,
            scale=self.scale,
            w=self.best,
            oracle_calls=self.oracle_calls,
            cache_hits=self.cache_hits,
            estimator=None if estimator_at is None else partial(estimator_at, self.best),
        )

    def solution(self, reason: str) -> Solution:
        """Return the best point so far, with its certificate."""
        return Solution(
            w=self.best,
            objective=self.objective,
            lower_bound=self.lower_bound,
            scale=self.scale,
            reason=reason,
            trace=self.trace,
            rank=len(self.cone.metric.components(self.cone.split(self.best)[0])),
            cuts=self.memory(),
        )

    def memory(self) -> CutMemory | None:
        """Return cuts for a later run from this solution, or None if the solver stores no cuts."""
        return None
