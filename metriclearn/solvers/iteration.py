"""The loop around every solver: rounds, best point, bound, trace, callbacks, checkpoint."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from metriclearn.solvers.base import (
    Callback,
    CutMemory,
    Cuts,
    Progress,
    Risk,
    Solution,
    Trace,
    check_number,
)
from metriclearn.solvers.checkpoint import Checkpoint
from metriclearn.solvers.mahalanobis import MetricCone

__all__ = ["Iteration", "Stalled"]


class Stalled(Exception):
    """A step found no way on; the best point so far is the result."""


class Iteration(ABC):
    """One minimization of risk + omega over a cone; a solver adds how to begin and how to step.

    Parameters
    ----------
    risk : Risk
    omega : callable
        Ω(w).
    cone : MetricCone
    warm : Solution or None
        An earlier solution of the same risk under another regularizer, to begin from.
    identity : tuple
        Numbers and arrays that, with the first cuts, fix which problem a checkpoint belongs to.
    """

    SOLVER = ""
    LEAST = 0.0  # no hinge plus Ω is below
    NUMBERS = ("round", "objective", "lower_bound", "oracle_calls", "cache_hits")

    def __init__(
        self,
        risk: Risk,
        omega: Callable[[NDArray], float],
        cone: MetricCone,
        warm: Solution | None,
        identity: tuple = (),
    ) -> None:
        self.risk, self.omega, self.cone = risk, omega, cone
        self.warm, self.identity = warm, identity
        self.trace = Trace()
        self.round, self.oracle_calls, self.cache_hits = 0, 0, 0
        self.objective, self.lower_bound = np.inf, self.LEAST
        self._seconds_before, self._started = 0.0, time.perf_counter()

    @abstractmethod
    def begin(self, start: NDArray, cuts: Cuts) -> None:
        """Prepare for the first round, from the cuts at the start."""

    @abstractmethod
    def step(self) -> None:
        """One round: raise the bound, query the risk, keep what is better."""

    @abstractmethod
    def state(self) -> dict[str, NDArray]:
        """Arrays from which :meth:`restore` goes on."""

    @abstractmethod
    def restore(self, state: dict[str, NDArray]) -> None:
        """Take up the state of an earlier run of the same problem."""

    def run(
        self,
        start: NDArray,
        callbacks: Sequence[Callback],
        tolerance: float,
        max_rounds: int,
        checkpoint: str | None = None,
    ) -> Solution:
        """Step until the gap is small enough, a callback asks to stop, or rounds run out."""
        check_number(self.SOLVER, "tolerance", tolerance, 0)
        check_number(self.SOLVER, "max_rounds", max_rounds, 0, whole=True)
        file = Checkpoint(checkpoint, self.SOLVER)
        reason = "max_rounds"
        try:
            self._begin(start, file)
            while not self.solved(tolerance) and self.round < max_rounds:
                self.step()
                self.round += 1
                self._record()
                file.save(self._everything() if checkpoint else {})
                if any([callback.on_round(self.progress()) for callback in callbacks]):
                    reason = "callback"
                    break
            if self.solved(tolerance):
                reason = "converged"
        except Stalled:
            reason = "stalled"
        except KeyboardInterrupt:
            if not np.isfinite(self.objective):
                raise
            reason = "interrupted"
        solution = self.solution(reason)
        for callback in callbacks:
            callback.on_end(solution)
        return solution

    def evaluate(self, w: NDArray, chosen: NDArray | None = None) -> Cuts:
        """Ask the oracles, and count."""
        cuts = self.risk(w) if chosen is None else self.risk(w, chosen)
        self.oracle_calls += len(cuts.values)
        return cuts

    def keep(self, w: NDArray, value: float) -> bool:
        """Remember w if it is the best so far."""
        if value >= self.objective:
            return False
        self.objective, self.best = value, w
        return True

    def solved(self, tolerance: float) -> bool:
        """Whether the gap is within the tolerance; 0 is the least a hinge can be."""
        return self.objective <= self.LEAST or self.relative_gap() <= tolerance

    def relative_gap(self) -> float:
        """Gap over the objective with no metric."""
        return (self.objective - self.lower_bound) / max(self.scale, 1e-300)

    def progress(self) -> Progress:
        """What callbacks see."""
        return Progress(
            self.round,
            self.objective,
            self.lower_bound,
            self.relative_gap(),
            self.best,
            self.oracle_calls,
            self.cache_hits,
        )

    def solution(self, reason: str) -> Solution:
        """The best point with its certificate."""
        coordinates, _ = self.cone.split(self.best)
        rank = len(self.cone.metric.components(coordinates))
        return Solution(
            self.best,
            self.objective,
            self.lower_bound,
            self.scale,
            reason,
            self.trace,
            rank,
            self.memory(),
        )

    def memory(self) -> CutMemory | None:
        """Cuts for a later start from this solution, where the solver keeps any."""
        return None

    def _begin(self, start: NDArray, file: Checkpoint) -> None:
        start = start if self.warm is None else self.warm.w
        cuts = self.evaluate(start)
        value = cuts.mean + self.omega(start)
        self.scale = (cuts.mean or value) if self.warm is None else self.warm.scale
        if not np.isfinite(value):
            raise ValueError(
                f"{self.SOLVER} needs an objective that is finite at the start, with no or nearly "
                f"no metric, got {value}; change the regularizer, or scale the data."
            )
        self.keep(start.copy(), value)
        if self.objective <= self.LEAST:  # no data set asks for anything
            return
        remembered = None if self.warm is None else self.warm.cuts
        here = (cuts.mean - float(cuts.slope @ start), cuts.slope)
        self.anchor = here if remembered is None else remembered.anchor
        self.begin(start, cuts)
        if file.path is not None:
            self._identify(file, start, cuts)
        state = file.load()
        if state is not None:
            self._take_up(state)

    def _identify(self, file: Checkpoint, start: NDArray, cuts: Cuts) -> None:
        """Which problem, and which solver, a checkpoint belongs to."""
        texts = [self.SOLVER.encode(), getattr(self.risk, "fingerprint", b"")]
        exact = [np.frombuffer(text, dtype=np.uint8) for text in texts]
        settings = getattr(self.risk, "identity", ())
        numbers = (start, cuts.values, cuts.slopes, cuts.weights, self.scale, settings)
        file.identify(*exact, *numbers, *self.identity)

    def _record(self) -> None:
        seconds = self._seconds_before + time.perf_counter() - self._started
        self.trace.append(
            self.objective, self.lower_bound, seconds, self.oracle_calls, self.cache_hits
        )

    def _everything(self) -> dict[str, NDArray]:
        return {
            **self.state(),
            "best": self.best,
            "anchor": np.append(self.anchor[1], self.anchor[0]),
            "numbers": np.array([getattr(self, name) for name in Iteration.NUMBERS]),
            "trace": np.array([getattr(self.trace, name) for name in Trace.__dataclass_fields__]),
        }

    def _take_up(self, state: dict[str, NDArray]) -> None:
        for name, number in zip(Iteration.NUMBERS, state.pop("numbers")):
            setattr(self, name, type(getattr(self, name))(number))
        self.best = state.pop("best")
        anchor = state.pop("anchor")
        self.anchor = (float(anchor[-1]), anchor[:-1])
        rows = state.pop("trace").tolist()
        self.trace = Trace(*rows[:3], *([int(value) for value in row] for row in rows[3:]))
        self._seconds_before = self.trace.seconds[-1] if len(self.trace) else 0.0
        self.restore(state)
