"""Projected subgradient descent, the method of section 4.4 for many features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from metriclearn.running.parameters import ComponentParameters
from metriclearn.solvers.base import Cuts, DualBound, Problem, Risk, Solution, check_number
from metriclearn.solvers.iteration import Iteration
from metriclearn.solvers.mahalanobis import MetricCone
from metriclearn.solvers.regularizers import RegularizationTerms, terms_of

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
    keeps the steps square-summable enough to converge when the lower bound is loose. A tight
    bound from elsewhere, such as :class:`~metriclearn.solvers.bundle.BundleDual`'s, is a better
    target.

    Parameters
    ----------
    relaxation : float
    target : float or None
        Known lower bound of the optimum, taken as the target throughout.
    """

    def __init__(self, relaxation: float = 1.0, target: float | None = None) -> None:
        self.relaxation = relaxation
        self.target = target

    def __call__(self, now: Situation) -> float:
        target = self.target
        if target is None:
            share = 1.0 / np.sqrt(now.round)
            target = now.best - share * 0.5 * (now.best - now.lower_bound)
        return self.relaxation * max(now.value - target, 0.0) / now.norm**2


class ProjectedSubgradient(ComponentParameters):
    """w ← Π(w − γ(g + ∇Ω)), with the best iterate, an average, and an honest lower bound.

    With ``batch_size`` every step uses the subgradient of a random batch of data sets, and a
    round is one epoch of steps followed by one pass that evaluates the average of the epoch. The
    bound is that of the average of all whole cuts met (weighted by step lengths); it is valid but
    slow, so prefer :class:`~metriclearn.solvers.bundle.BundleDual` for a small certified gap.

    Parameters
    ----------
    step_rule : StepRule
        ``PolyakStep()``, ``DecreasingStep()`` or ``ConstantStep()``.
    average : bool
        Also evaluate the weighted average of the second half of the iterates, every tenth round.
    batch_size : int or None
        Data sets per step; None uses all. With batches, ``DecreasingStep()`` is advisable.
    tolerance : float
        Relative gap at which to stop.
    max_rounds : int
        Passes over the data, or epochs.
    checkpoint : str or None
        File that keeps the state after every round, from which an interrupted run goes on.
    random_state : int
        Seed of the batches.
    """

    def __init__(
        self,
        step_rule: StepRule = PolyakStep(),  # noqa: B008  # never changed
        average: bool = True,
        batch_size: int | None = None,
        tolerance: float = 1e-3,
        max_rounds: int = 1000,
        checkpoint: str | None = None,
        random_state: int = 0,
    ) -> None:
        self.step_rule = step_rule
        self.average = average
        self.batch_size = batch_size
        self.tolerance = tolerance
        self.max_rounds = max_rounds
        self.checkpoint = checkpoint
        self.random_state = random_state

    def minimize(self, problem: Problem) -> Solution:
        """Minimize, see :class:`~metriclearn.solvers.base.Solver`."""
        who = "ProjectedSubgradient"
        if self.batch_size is not None:
            check_number(who, "batch_size", self.batch_size, 1, whole=True)
        check_number(who, "random_state", self.random_state, 0, whole=True)
        if isinstance(self.step_rule, type) or not callable(self.step_rule):
            raise ValueError(
                f"{who} needs a step_rule such as PolyakStep(), got {self.step_rule!r}."
            )
        kind = _Descent if self.batch_size is None else _StochasticDescent
        terms = terms_of("ProjectedSubgradient", problem.regularizer, problem.cone)
        run = kind(problem.risk, terms, problem.cone, self, problem.warm)
        return run.run(
            problem.start, problem.callbacks, self.tolerance, self.max_rounds, self.checkpoint
        )


class _Descent(Iteration):
    """Iterate, best point, average, and the aggregated cut behind the lower bound."""

    SOLVER = "ProjectedSubgradient"

    def __init__(
        self,
        risk: Risk,
        terms: RegularizationTerms,
        cone: MetricCone,
        settings: ProjectedSubgradient,
        warm: Solution | None,
    ) -> None:
        rule = [v for v in vars(settings.step_rule).values() if isinstance(v, (int, float))]
        batches = (settings.batch_size or 0, settings.random_state, settings.average)
        super().__init__(risk, terms, cone, warm, (terms.slope, terms.curvature, rule, batches))
        self.terms, self.settings = terms, settings
        self.bound = DualBound(terms, cone)

    def begin(self, start: NDArray, cuts: Cuts) -> None:
        """No step has been made."""
        self.w, self.value, self.slope = start, cuts.mean, cuts.slope
        n = self.cone.size
        self.minorant, self.total = (0.0, np.zeros(n)), 0.0
        self.sum, self.sum_weight, self.restart = np.zeros(n), 0.0, 2

    def step(self) -> None:
        """Move from the current point and evaluate the next one, now and then the average."""
        count = self.round + 1
        gamma = self._move(count)
        if gamma is None:
            return
        if count == self.restart:
            self.sum, self.sum_weight, self.restart = np.zeros_like(self.w), 0.0, 2 * count
        self.sum, self.sum_weight = self.sum + gamma * self.w, self.sum_weight + gamma
        if self.settings.average and count % 10 == 0 and self.sum_weight > 0:
            average = self.sum / self.sum_weight
            self.keep(average, self.evaluate(average).mean + self.terms(average))

    def _move(self, count: int) -> float | None:
        """One step along the whole subgradient; its length, or None at an optimum."""
        gradient = self.slope + self.terms.gradient(self.w)
        norm = float(np.linalg.norm(gradient))
        if norm == 0.0:  # this point is optimal
            self.lower_bound = self.objective
            return None
        value = self.value + self.terms(self.w)
        now = Situation(count, value, self.objective, self.lower_bound, norm, self.scale)
        gamma = self._length(now)
        self._aggregate(gamma)
        self._visit(self.cone.project(self.w - gamma * gradient))
        return gamma

    def _length(self, now: Situation) -> float:
        gamma = float(self.settings.step_rule(now))
        if not 0.0 <= gamma < np.inf:
            raise ValueError(
                f"ProjectedSubgradient needs steps of finite nonnegative length, got {gamma} from "
                f"{self.settings.step_rule!r}; give it a positive step."
            )
        return gamma

    def _visit(self, w: NDArray) -> None:
        cuts = self.evaluate(w)
        self.w, self.value, self.slope = w, cuts.mean, cuts.slope
        self.keep(w, self.value + self.terms(w))

    def _minorant(self) -> tuple[float, NDArray]:
        return self.value - float(self.slope @ self.w), self.slope

    def _aggregate(self, gamma: float) -> None:
        """Average the cuts met; bound from the result."""
        offset, slope = self._minorant()
        self.total += gamma
        share = gamma / self.total if self.total > 0 else 1.0
        mean_offset, mean_slope = self.minorant
        mean_offset += share * (offset - mean_offset)
        mean_slope = mean_slope + share * (slope - mean_slope)
        self.minorant = (mean_offset, mean_slope)
        for weight in (1.0, 0.1, 0.01, 0.0) if self.cone.priced else ():
            self.bound.limit_price(
                (1 - weight) * mean_offset + weight * self.anchor[0],
                (1 - weight) * mean_slope + weight * self.anchor[1],
                self.objective,
            )
        value = self.bound.value(mean_offset, mean_slope, self.objective)
        self.lower_bound = max(self.lower_bound, value)

    def state(self) -> dict[str, NDArray]:
        """The iterate, the average and the aggregated cut."""
        numbers = [self.value, self.minorant[0], self.total, self.sum_weight, self.restart]
        return {
            "numbers_of_descent": np.array([*numbers, self.bound.price_limit]),
            "w": self.w,
            "slope": self.slope,
            "minorant": self.minorant[1],
            "sum": self.sum,
        }

    def restore(self, state: dict[str, NDArray]) -> None:
        """Take up :meth:`state`."""
        self.value, offset, self.total, self.sum_weight, restart, self.bound.price_limit = state[
            "numbers_of_descent"
        ].tolist()
        self.restart = int(restart)
        self.w, self.slope, self.sum = state["w"], state["slope"], state["sum"]
        self.minorant = (offset, state["minorant"])


class _StochasticDescent(_Descent):
    """One round is an epoch of steps on batches, then one pass at the average of the epoch."""

    def _move(self, count: int) -> float | None:
        weights = self.risk.weights
        size = self.settings.batch_size or len(weights)
        order = np.random.default_rng([self.settings.random_state, count]).permutation(len(weights))
        batches = [order[i : i + size] for i in range(0, len(order), size)]
        w, mean, total = self.w, np.zeros_like(self.w), 0.0
        for i, batch in enumerate(batches):
            cuts = self.evaluate(w, np.sort(batch))
            share = float(np.sum(cuts.weights))
            gradient = cuts.slope / share + self.terms.gradient(w)
            norm = float(np.linalg.norm(gradient))
            if norm == 0.0 or share == 0.0:
                continue
            value = cuts.mean / share + self.terms(w)
            steps = (count - 1) * len(batches) + i + 1
            gamma = self._length(
                Situation(steps, value, min(value, self.objective), 0.0, norm, self.scale)
            )
            w = self.cone.project(w - gamma * gradient)
            mean, total = mean + gamma * w, total + gamma
        self._visit(w if total == 0.0 else mean / total)
        self._aggregate(total)
        self.w = w
        return total
