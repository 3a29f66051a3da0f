"""Convex-concave procedure: a convex majorant at a time, the objective checked every time."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from numpy.typing import NDArray

from metriclearn.running.parameters import ComponentParameters
from metriclearn.solvers.base import Problem, Progress, Risk, Solution, Solver, Trace
from metriclearn.solvers.factor_descent import FactorDescent
from metriclearn.solvers.mahalanobis import MetricCone
from metriclearn.solvers.regularizers import Regularizer

__all__ = ["CCCP", "DifferenceRisk"]

_HALVINGS = 10


class DifferenceRisk(Risk, Protocol):
    """A risk that is a difference of convex functions, or nearly so."""

    def linearized(self, w: NDArray) -> Risk:
        """A majorant that equals the risk at w: the concave part replaced by its tangent."""
        ...


class CCCP(ComponentParameters):
    """Minimize a majorant of the risk at the current point, go there, repeat (section 5.1).

    The objective is evaluated after every outer step, and a step that would raise it is halved
    until it does not: the trace never increases, even where the majorant is not convex. A lower
    bound is not known; 0 bounds every hinge, so ``gap`` says nothing about the optimum.

    Parameters
    ----------
    solver : Solver
        For the majorants: :class:`FactorDescent`, or any other.
    tolerance : float
        Relative decrease of the objective below which to stop.
    max_rounds : int
        Outer steps.
    trial_rounds : int, optional
        With several starts, outer steps of each before only the one of least objective goes on;
        all go on to their end by default.

    References
    ----------
    Yuille & Rangarajan, The concave-convex procedure, 2003.
    """

    def __init__(
        self,
        solver: Solver = FactorDescent(),  # noqa: B008  # never changed, see set_params
        tolerance: float = 1e-3,
        max_rounds: int = 10,
        trial_rounds: int | None = None,
    ) -> None:
        self.solver = solver
        self.tolerance = tolerance
        self.max_rounds = max_rounds
        self.trial_rounds = trial_rounds

    def minimize(self, problem: Problem) -> Solution:
        """Minimize, see :class:`~metriclearn.solvers.base.Solver`."""
        if not self.tolerance >= 0 or self.max_rounds < 1:
            raise ValueError(
                "CCCP needs a tolerance of at least 0 and max_rounds of at least 1, got "
                f"{self.tolerance!r} and {self.max_rounds!r}."
            )
        warm, callbacks = problem.warm, problem.callbacks
        w = problem.start if warm is None else warm.w
        run = _Run(problem.risk, problem.regularizer, problem.cone, w)
        reason = "max_rounds"
        try:
            for _ in range(self.max_rounds):
                before = run.objective
                if run.step(self.solver) == "interrupted":
                    reason = "interrupted"
                    break
                if any([callback.on_round(run.progress()) for callback in callbacks]):
                    reason = "callback"
                    break
                if before - run.objective <= self.tolerance * abs(before):
                    reason = "converged"
                    break
        except KeyboardInterrupt:
            reason = "interrupted"
        solution = run.solution(reason, warm)
        for callback in callbacks:
            callback.on_end(solution)
        return solution

    def minimize_from(
        self, problem: Problem, starts: Sequence[NDArray]
    ) -> tuple[Solution, list[float]]:
        """Minimize from every start; an interrupt or a callback that stops ends them all.

        Returns
        -------
        solution : Solution
            The one of least objective, with the trace of its own start.
        objectives : list of float
            Objective reached from every start.
        """
        trial, tried = self, problem
        if self.trial_rounds is not None:
            trial = CCCP(self.solver, self.tolerance, self.trial_rounds)
            tried = replace(problem, callbacks=())
        found: list[Solution] = []
        for w in starts:
            found.append(trial.minimize(replace(tried, start=w)))
            if found[-1].reason in ("interrupted", "callback"):
                break
        best = min(found, key=lambda solution: solution.objective)
        objectives = [solution.objective for solution in found]
        if found[-1].reason in ("interrupted", "callback"):
            return replace(best, reason=found[-1].reason), objectives
        if self.trial_rounds is None:
            return best, objectives
        rest = self.minimize(replace(problem, warm=best))
        return _joined(best, rest), objectives


def _joined(first: Solution, rest: Solution) -> Solution:
    """The second solution with the rounds of the first one before its own."""
    trace = Trace()
    for name in Trace.__dataclass_fields__:
        begin, rows = getattr(first.trace, name), getattr(rest.trace, name)[1:]
        cumulative = begin[-1] if name in ("seconds", "oracle_calls") else 0
        setattr(trace, name, begin + [row + cumulative for row in rows])
    return replace(rest, trace=trace)


class _Run:
    """The current point, its objective, and the trace."""

    def __init__(
        self, risk: DifferenceRisk, regularizer: Regularizer, cone: MetricCone, w: NDArray
    ) -> None:
        self.risk, self.regularizer, self.cone, self.w = risk, regularizer, cone, w
        self.omega, self.trace, self.calls = regularizer.terms(cone), Trace(), 0
        self._begun = time.perf_counter()
        self.objective = self.scale = self._value(w)
        self._record()

    def step(self, solver: Solver) -> str:
        """Minimize the majorant, and go there or as far on the way as the objective falls.

        Returns why the inner solver stopped: it keeps a KeyboardInterrupt to itself.
        """
        majorant = self.risk.linearized(self.w)
        inner = solver.minimize(Problem(majorant, self.regularizer, self.cone, self.w))
        self.calls += inner.trace.oracle_calls[-1] if len(inner.trace) else 0
        for halving in range(_HALVINGS):
            point = self.w + 0.5**halving * (inner.w - self.w)
            value = self._value(point)
            if value < self.objective:
                self.w, self.objective = point, value
                break
        self._record()
        return inner.reason

    def _value(self, w: NDArray) -> float:
        cuts = self.risk(w)
        self.calls += len(cuts.values)
        return cuts.mean + self.omega(w)

    def _record(self) -> None:
        seconds = time.perf_counter() - self._begun
        self.trace.append(self.objective, 0.0, seconds, self.calls)

    def progress(self) -> Progress:
        gap = self.objective / max(abs(self.scale), 1e-300)
        return Progress(len(self.trace) - 1, self.objective, 0.0, gap, self.w, self.calls)

    def solution(self, reason: str, warm: Solution | None) -> Solution:
        scale = self.scale if warm is None else warm.scale
        rank = len(self.cone.metric.components(self.cone.split(self.w)[0]))
        return Solution(self.w, self.objective, 0.0, scale, reason, self.trace, rank)
