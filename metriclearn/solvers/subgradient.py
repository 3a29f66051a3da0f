"""Projected subgradient descent, the method of section 4.4 for many features."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from metriclearn.mahalanobis import MetricCone
from metriclearn.parameters import ComponentParameters
from metriclearn.regularizers import Regularizer
from metriclearn.solvers.base import DualBound, Monitor, Progress, Risk, Solution, Trace

__all__ = ["ConstantStep", "DecreasingStep", "PolyakStep", "ProjectedSubgradient", "StepRule"]


@dataclass(frozen=True)
class Situation:
    """What a step rule may use."""

    round: int
    value: float
    best: float
    lower_bound: float
    norm: float
    scale: float


class StepRule(Protocol):
    """Length of the step along −g."""

    def __call__(self, now: Situation) -> float:
        """γ in w ← Π(w − γ g)."""
        ...


class ConstantStep(BaseEstimator):
    """γ = step."""

    def __init__(self, step: float = 1e-2) -> None:
        self.step = step

    def __call__(self, now: Situation) -> float:
        return self.step


class DecreasingStep(BaseEstimator):
    """γ = step · scale / (‖g‖² √round), with the objective at the start as scale."""

    def __init__(self, step: float = 1.0) -> None:
        self.step = step

    def __call__(self, now: Situation) -> float:
        return self.step * now.scale / (now.norm**2 * np.sqrt(now.round))


class PolyakStep(BaseEstimator):
    """γ = relaxation · (F(w) − target) / ‖g‖², the target between lower bound and best value.

    The optimal value is not known; the target moves up to the best value like 1/√round, which
    keeps the steps square-summable enough to converge when the lower bound is loose.
    """

    def __init__(self, relaxation: float = 1.0) -> None:
        self.relaxation = relaxation

    def __call__(self, now: Situation) -> float:
        share = 1.0 / np.sqrt(now.round)
        target = now.best - share * 0.5 * (now.best - now.lower_bound)
        return self.relaxation * (now.value - target) / now.norm**2


class ProjectedSubgradient(ComponentParameters):
    """w ← Π(w − γ(g + ∇Ω)), with the best iterate, an average, and an honest lower bound.

    The bound is that of the average of all cuts met (weighted by step lengths); it is valid but
    slow, so prefer :class:`~metriclearn.solvers.bundle.BundleDual` for a small certified gap.

    Parameters
    ----------
    step_rule : StepRule
        ``PolyakStep()``, ``DecreasingStep()`` or ``ConstantStep()``.
    average : bool
        Also evaluate the weighted average of the second half of the iterates, every tenth round.
    tolerance : float
        Relative gap at which to stop.
    max_rounds : int
        Passes over the data.
    """

    def __init__(
        self,
        step_rule: StepRule = PolyakStep(),  # noqa: B008  # never changed
        average: bool = True,
        tolerance: float = 1e-3,
        max_rounds: int = 1000,
    ) -> None:
        self.step_rule = step_rule
        self.average = average
        self.tolerance = tolerance
        self.max_rounds = max_rounds

    def minimize(
        self,
        risk: Risk,
        regularizer: Regularizer,
        cone: MetricCone,
        start: NDArray,
        monitor: Monitor | None = None,
    ) -> Solution:
        """Minimize risk + regularizer over ``cone`` from ``start`` (no metric)."""
        descent = _Descent(risk, regularizer, cone, start)
        reason = "max_rounds"
        try:
            for round_ in range(1, self.max_rounds + 1):
                descent.step(self.step_rule, round_)
                if self.average and round_ % 10 == 0:
                    descent.try_average()
                progress = descent.record(round_)
                if monitor is not None:
                    monitor(progress)
                if progress.relative_gap <= self.tolerance:
                    reason = "converged"
                    break
        except KeyboardInterrupt:
            reason = "interrupted"
        return descent.solution(reason)


class _Descent:
    """Iterate, best point, average, and the aggregated cut behind the lower bound."""

    def __init__(
        self, risk: Risk, regularizer: Regularizer, cone: MetricCone, start: NDArray
    ) -> None:
        self.risk, self.cone, self.terms = risk, cone, regularizer.terms(cone)
        self.bound = DualBound(self.terms, cone)
        self.w, self.trace, self.started = start, Trace(), time.perf_counter()
        self.cuts = risk(start)
        self.scale = self.objective = self.cuts.mean + self.terms(start)
        self.best, self.lower_bound = start, 0.0
        self.anchor = self._minorant()
        self.offset, self.slope, self.total = 0.0, np.zeros(cone.size), 0.0
        self.sum, self.sum_weight, self.restart = np.zeros(cone.size), 0.0, 2

    def step(self, rule: StepRule, round_: int) -> None:
        """Move from the current point and evaluate the next one."""
        gradient = self.cuts.slope + self.terms.gradient(self.w)
        norm = float(np.linalg.norm(gradient))
        if norm == 0.0 or self.objective <= 0.0:  # this point is optimal
            self.lower_bound = self.objective
            return
        value = self.cuts.mean + self.terms(self.w)
        now = Situation(round_, value, self.objective, self.lower_bound, norm, self.scale)
        gamma = rule(now)
        self._aggregate(gamma)
        self.w = self.cone.project(self.w - gamma * gradient)
        self.cuts = self.risk(self.w)
        self._keep(self.w, self.cuts.mean + self.terms(self.w))
        if round_ == self.restart:
            self.sum, self.sum_weight, self.restart = np.zeros_like(self.w), 0.0, 2 * round_
        self.sum, self.sum_weight = self.sum + gamma * self.w, self.sum_weight + gamma

    def try_average(self) -> None:
        """Evaluate the average of the recent iterates."""
        if self.sum_weight > 0:
            average = self.sum / self.sum_weight
            self._keep(average, self.risk(average).mean + self.terms(average))

    def record(self, round_: int) -> Progress:
        self.trace.append(self.objective, self.lower_bound, time.perf_counter() - self.started)
        gap = (self.objective - self.lower_bound) / max(self.scale, 1e-300)
        return Progress(round_, self.objective, self.lower_bound, gap, self.best)

    def solution(self, reason: str) -> Solution:
        return Solution(self.best, self.objective, self.lower_bound, self.scale, reason, self.trace)

    def _minorant(self) -> tuple[float, NDArray]:
        return self.cuts.mean - float(self.cuts.slope @ self.w), self.cuts.slope

    def _keep(self, w: NDArray, value: float) -> None:
        if value < self.objective:
            self.objective, self.best = value, w

    def _aggregate(self, gamma: float) -> None:
        """Average the cuts met, forgetting the first half now and then; bound from the result."""
        offset, slope = self._minorant()
        self.total += gamma
        share = gamma / self.total
        self.offset += share * (offset - self.offset)
        self.slope = self.slope + share * (slope - self.slope)
        for weight in (1.0, 0.1, 0.01, 0.0) if self.cone.priced else ():
            self.bound.limit_price(
                (1 - weight) * self.offset + weight * self.anchor[0],
                (1 - weight) * self.slope + weight * self.anchor[1],
                self.objective,
            )
        value = self.bound.value(self.offset, self.slope, self.objective)
        self.lower_bound = max(self.lower_bound, value)
