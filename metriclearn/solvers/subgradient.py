"""Minimize by projected subgradient descent (Lajugie, Arlot & Bach, section 4.4)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Protocol

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from metriclearn.running.components import ComponentParameters
from metriclearn.running.parameters import CheckpointPath, Of, OneOf, Real, Whole
from metriclearn.solvers.base import Cuts, Problem, Solution
from metriclearn.solvers.iteration import Minimization


@dataclass(frozen=True)
class Situation:
    """The quantities that a step rule may use.

    ``value`` is the objective at the current point, and ``best`` is the best objective so far.
    ``norm`` is ‖g‖ for the subgradient g of the objective. Gaps are relative to ``scale``.
    """

    round: int
    value: float
    best: float
    lower_bound: float
    norm: float
    scale: float


class StepRule(Protocol):
    """Chooses the length of the step along −g."""

    def __call__(self, now: Situation) -> float:
        """Choose the number γ for the step from w to the projection of w − γ g onto the cone."""


@dataclass(eq=False, repr=False)
class ConstantStep(BaseEstimator):
    """Use γ = step in every round. Such steps reach only a neighborhood of an optimum."""

    step: float = 1e-2

    def __call__(self, now: Situation) -> float:
        return self.step


@dataclass(eq=False, repr=False)
class DecreasingStep(BaseEstimator):
    """Use γ = step · scale / (‖g‖² √round). Relative gaps are divided by the same scale."""

    step: float = 1.0

    def __call__(self, now: Situation) -> float:
        return self.step * now.scale / (now.norm**2 * np.sqrt(now.round))


@dataclass(eq=False, repr=False)
class PolyakStep(BaseEstimator):
    """Use γ = relaxation · (F(w) − target) / ‖g‖², where F is the objective.

    The ideal target is the optimal value, which is not known. So the target lies between the lower
    bound and the best value, and its distance from the best value falls like 1/√round. Therefore
    steps become short enough to converge even if the lower bound is loose. A tight bound from
    another solver, such as :class:`~metriclearn.solvers.bundle.BundleDual`, is a better target.

    Parameters
    ----------
    relaxation : float
        The factor ``relaxation`` of all steps.
    target : float or None
        A known lower bound of the optimum, used as the target in every round.
    """

    relaxation: float = 1.0
    target: float | None = None

    def __call__(self, now: Situation) -> float:
        target = self.target
        if target is None:
            share = 1.0 / np.sqrt(now.round)
            target = now.best - share * 0.5 * (now.best - now.lower_bound)
        return self.relaxation * max(now.value - target, 0.0) / now.norm**2


@dataclass(eq=False, repr=False)
class ProjectedSubgradient(ComponentParameters):
    """Minimize by projected subgradient descent, w ← Π(w − γ(g + ∇Ω)).

    Here Π is the projection onto the cone, and g is a subgradient of the risk. The result is the
    best iterate, or an average of iterates if the average is better. With ``batch_size``, every
    step uses the subgradient of a random batch of data sets. With batches, a round is one epoch of
    steps, followed by one pass that evaluates the average point of the epoch. Each pass over all
    data sets gives a cut of the whole risk. The mean of these cuts, weighted by step lengths, gives
    the lower bound. This bound is valid but rises slowly, so prefer
    :class:`~metriclearn.solvers.bundle.BundleDual` for a small certified gap.

    Parameters
    ----------
    step_rule : StepRule
        ``PolyakStep()``, ``DecreasingStep()`` or ``ConstantStep()``.
    average : bool
        Whether every tenth round also evaluates a weighted average of the latest iterates. The
        latest iterates begin at the last round whose number is a power of 2.
    batch_size : int or None
        Number of data sets per step. None uses all data sets. With batches, use
        ``DecreasingStep()``.
    tolerance : float
        Relative gap at which to stop.
    max_rounds : int
        Largest number of rounds. A round is one pass over the data. With batches, a round is one
        epoch.
    checkpoint : str or None
        File in which the state is saved after every round. An interrupted run resumes from this
        file.
    random_state : int
        Seed of the batches.

    Raises
    ------
    ValueError, OSError
        Raised by the learner's ``fit`` if parameters or the checkpoint file cannot be used.

    References
    ----------
    Lajugie, Arlot & Bach, Large-Margin Metric Learning for Partitioning Problems,
    arXiv:1303.1280, section 4.4;
    Polyak, Minimization of unsmooth functionals, USSR Computational Mathematics and Mathematical
    Physics 9, 1969.
    """

    step_rule: Annotated[StepRule, Of(Callable, "PolyakStep()")] = PolyakStep()  # noqa: RUF009  # never changed
    average: bool = True
    batch_size: Annotated[int | None, OneOf(None, Whole(1))] = None
    tolerance: Annotated[float, Real()] = 1e-3
    max_rounds: Annotated[int, Whole()] = 1000
    checkpoint: CheckpointPath = None
    random_state: Annotated[int, Whole()] = 0

    def minimize(self, problem: Problem) -> Solution:
        """Minimize, see :class:`~metriclearn.solvers.base.Solver`."""
        return _Descent(problem, self).run(self.max_rounds)


class _Descent(Minimization):
    """One run, with the current point, an average, and the mean cut that proves the bound."""

    kept = (
        *Minimization.kept,
        *("w", "value", "slope", "mean_offset", "mean_slope", "total"),
        *("sum", "sum_weight", "restart"),
    )

    def identity(self) -> Sequence[Any]:
        """Return the numbers that identify a run of any solver, of the step rule and of batches."""
        settings = self.settings
        rule = [v for v in vars(settings.step_rule).values() if isinstance(v, (int, float))]
        batches = (settings.batch_size or 0, settings.random_state, settings.average)
        return (*super().identity(), rule, batches)

    def prepare(self, start: NDArray, cuts: Cuts) -> None:
        """Prepare for the first step."""
        self.w = start
        self.value, self.slope = cuts.mean, cuts.slope
        # the weighted mean of all cuts so far, and the sum of their weights, the step lengths
        self.mean_offset, self.mean_slope = 0.0, np.zeros(len(start))
        self.total = 0.0
        # the weighted sum of the latest iterates, see step
        self.sum, self.sum_weight = np.zeros(len(start)), 0.0
        self.restart = 2

    def step(self) -> None:
        """Move to the next point and evaluate it. Every tenth round also evaluates the average."""
        count = self.round + 1
        if self.settings.batch_size is None:
            w, gamma = self._descend(count, self.w, self.value, self.slope, self.lower_bound)
            if w is self.w:  # a step of length 0 means that this point is optimal
                self.lower_bound, gamma = self.objective, 0.0
            else:
                self._average_cuts(gamma)
                self._go(w)
        else:
            gamma = self._epoch(count)
        # The average starts afresh at rounds 2, 4, 8, …, so it covers at most the last half of all
        # rounds.
        if count == self.restart:
            self.sum, self.sum_weight = np.zeros_like(self.w), 0.0
            self.restart = 2 * count
        self.sum, self.sum_weight = self.sum + gamma * self.w, self.sum_weight + gamma
        if self.settings.average and count % 10 == 0 and self.sum_weight > 0:
            self.visit(self.sum / self.sum_weight)

    def _epoch(self, count: int) -> float:
        """Make steps along the subgradients of batches, and evaluate the average of the new points.

        Returns the sum of the numbers γ of all steps.
        """
        weights, size = self.risk.weights, self.settings.batch_size
        order = np.random.default_rng([self.settings.random_state, count]).permutation(len(weights))
        batches = [order[i : i + size] for i in range(0, len(order), size)]
        w, mean, total = self.w, np.zeros_like(self.w), 0.0
        for i, batch in enumerate(batches, (count - 1) * len(batches) + 1):
            cuts = self.risk(w, np.sort(batch))
            self.oracle_calls += len(batch)
            share = float(np.sum(cuts.weights))
            if share > 0.0:
                w, gamma = self._descend(i, w, cuts.mean / share, cuts.slope / share, 0.0)
                mean, total = mean + gamma * w, total + gamma
        self._go(w if total == 0.0 else mean / total)
        self._average_cuts(total)
        self.w = w
        return total

    def _descend(
        self, count: int, w: NDArray, value: float, slope: NDArray, lower_bound: float
    ) -> tuple[NDArray, float]:
        """Make one step from w along the subgradient of risk + Ω. Return the new point and γ."""
        gradient, value = slope + self.omega.gradient(w), value + self.omega(w)
        norm = float(np.linalg.norm(gradient))
        if norm == 0.0:
            return w, 0.0
        best = min(value, self.objective)
        now = Situation(count, value, best, lower_bound, norm, self.scale)
        gamma = float(self.settings.step_rule(now))
        if not 0.0 <= gamma < np.inf:
            raise ValueError(
                f"ProjectedSubgradient needs steps of finite nonnegative length, got {gamma} from "
                f"{self.settings.step_rule!r}; give it a positive step."
            )
        return self.cone.project(w - gamma * gradient), gamma

    def _go(self, w: NDArray) -> None:
        cuts, _ = self.visit(w)
        self.w = w
        self.value, self.slope = cuts.mean, cuts.slope

    def _average_cuts(self, gamma: float) -> None:
        """Add the cut at the current point to the mean cut, and update the lower bound."""
        self.total += gamma
        share = gamma / self.total if self.total > 0 else 1.0
        offset = self.value - float(self.slope @ self.w)
        self.mean_offset += share * (offset - self.mean_offset)
        self.mean_slope = self.mean_slope + share * (self.slope - self.mean_slope)
        self.raise_bound(self.mean_offset, self.mean_slope)
