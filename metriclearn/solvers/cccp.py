"""Minimize by the convex-concave procedure, which minimizes one convex majorant after another."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from metriclearn.running.components import ComponentParameters
from metriclearn.running.parameters import CheckpointPath, Of, OneOf, Real, Whole
from metriclearn.solvers.base import Cuts, Problem, Solution, Solver, Trace
from metriclearn.solvers.factor_descent import FactorDescent
from metriclearn.solvers.iteration import Minimization

_HALVINGS = 10


@dataclass(eq=False, repr=False)
class CCCP(ComponentParameters):
    """Minimize a majorant of the risk, move to the minimum of the majorant, and repeat.

    The risk is a difference of convex functions, or nearly so. The method ``linearized(w)`` of the
    risk replaces the concave part by the tangent at the current point w. The result is a majorant
    that equals the risk at w.

    The objective is evaluated after every outer step. If a step does not lower the objective, the
    step is halved, up to nine times. So the objective never increases, even if the majorant is not
    convex. The only lower bound is 0, which holds for every hinge, so ``gap`` does not measure the
    distance from the optimum.

    Parameters
    ----------
    solver : Solver
        Minimizes the majorants: :class:`FactorDescent`, or any other solver.
    tolerance : float
        Stop if an outer step lowers the objective by at most this fraction of the objective.
    max_rounds : int
        Largest number of outer steps.
    trial_rounds : int, optional
        If there are several starts, this number of outer steps is made from each start. Then only
        the run with the least objective continues. By default all runs continue to the end.
    checkpoint : str or None
        File in which the state is saved after every outer step. An interrupted run resumes from
        this file. If there are several starts, each start has a separate file: FILE.1, FILE.2, ….

    Raises
    ------
    ValueError, OSError
        Raised by the learner's ``fit`` if parameters or the checkpoint file cannot be used.

    References
    ----------
    Yuille & Rangarajan, The concave-convex procedure, Neural Computation 15, 2003; used for
    similarities by Lajugie, Arlot & Bach, section 5.1.

    Examples
    --------
    >>> from metriclearn import NormalizedCutMetricLearner
    >>> from metriclearn.solvers import CCCP
    >>> learner = NormalizedCutMetricLearner(solver=CCCP(max_rounds=5))
    """

    solver: Annotated[Solver, Of(Solver, "FactorDescent()")] = FactorDescent()  # noqa: RUF009  # never changed, see set_params
    tolerance: Annotated[float, Real()] = 1e-3
    max_rounds: Annotated[int, Whole()] = 10
    trial_rounds: Annotated[int | None, OneOf(None, Whole(1))] = None
    checkpoint: CheckpointPath = None

    def minimize(self, problem: Problem) -> Solution:
        """Minimize a risk that has a method ``linearized``; see
        :class:`~metriclearn.solvers.base.Solver`.
        """
        return _Majorized(problem, self).run(self.max_rounds)

    def minimize_from(
        self, problem: Problem, starts: Sequence[NDArray]
    ) -> tuple[Solution, list[float]]:
        """Minimize from every start. An interrupt or a callback that asks to stop ends all runs.

        Returns
        -------
        solution : Solution
            The solution with the least objective, with the trace of the run that found it.
        objectives : list of float
            The objective that was reached from every start.
        """
        trials = self.trial_rounds is not None
        tried = replace(problem, callbacks=()) if trials else problem
        solutions: list[Solution] = []
        objectives: list[float] = []
        for number_of_start, w in enumerate(starts, 1):
            settings = copy.copy(self)
            if self.checkpoint is not None:
                settings.checkpoint = f"{self.checkpoint}.{number_of_start}"
            run = _Majorized(replace(tried, start=w), settings)
            solutions.append(run.run(self.trial_rounds or self.max_rounds))
            objectives.append(solutions[-1].objective)
            if solutions[-1].reason in ("interrupted", "callback"):
                break
        best = solutions[objectives.index(min(objectives))]
        if solutions[-1].reason in ("interrupted", "callback"):
            return replace(best, reason=solutions[-1].reason), objectives
        if not trials:
            return best, objectives
        rest = _Majorized(replace(problem, warm=best), self).run(self.max_rounds)
        before = best.trace.rows
        # Seconds and oracle calls continue from the trial rounds.
        after = rest.trace.rows + [0.0, 0.0, 1.0, 1.0, 0.0] * before[-1]
        return replace(rest, trace=Trace.of(np.vstack([before, after]))), objectives


class _Majorized(Minimization):
    """One run from one start."""

    kept = (*Minimization.kept, "settled")
    settled = False

    def prepare(self, start: NDArray, cuts: Cuts) -> None:
        """Set the scale, so that gaps are relative to the objective at the start."""
        if self.problem.warm is None:
            self.scale = self.objective

    def step(self) -> None:
        """Minimize the majorant, and move to its minimum or a part of the way there.

        The step is halved until the objective falls.
        """
        w, before = self.best, self.objective
        majorant = Problem(self.risk.linearized(w), self.problem.regularizer, self.cone, w)
        inner = self.settings.solver.minimize(majorant)
        self.oracle_calls += sum(inner.trace.oracle_calls[-1:])
        for halving in range(_HALVINGS):
            _, value = self.visit(w + 0.5**halving * (inner.w - w))
            if value < before:
                break
        self.settled = before - self.objective <= self.settings.tolerance * abs(before)
        # The inner solver catches a KeyboardInterrupt, so we check its reason.
        if inner.reason == "interrupted":
            raise KeyboardInterrupt

    def solved(self) -> bool:
        """Return whether the last step lowered the objective by no more than the tolerance."""
        return self.settled
