"""The loop of all solvers: rounds, best point, bound, trace, callbacks, checkpoint."""

from __future__ import annotations

import hashlib
import logging
import numbers
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from metriclearn.running.atomic import replacing
from metriclearn.running.parameters import check_parameters
from metriclearn.solvers.base import Callback, CutMemory, Cuts, Problem, Progress, Solution, Trace
from metriclearn.solvers.mahalanobis import MetricCone
from metriclearn.solvers.regularizers import RegularizationTerms

__all__ = ["Checkpoint", "DualBound", "Iteration", "Minimization", "Stop"]

_LOGGER = logging.getLogger(__name__)
# shares of the cut at the start in the mixtures that limit the price
_SHARES = (1.0, 0.1, 0.01, 0.001, 0.0)


class Checkpoint:
    """Saves and loads dictionaries of arrays.

    Parameters
    ----------
    path : str
        A ``.npz`` file in an existing folder.
    who : str
        Name used in errors.
    *identity : numbers and arrays
        Which problem the state belongs to: a digest of them is kept with it, rounded to nine
        digits of the largest number of each, because the last bits may differ between machines.
    """

    def __init__(self, path: str, who: str, *identity: Any) -> None:
        self.path, self.who = path, who
        digest = hashlib.sha256()
        for value in identity:
            array = np.asarray(value, dtype=np.float64)
            scale = float(np.max(np.abs(array), initial=0.0)) or 1.0
            digest.update(f"{scale:.9e}".encode())
            digest.update((np.round(array / scale, 9) + 0.0).tobytes())  # + 0.0: no -0.0
        self.identity = digest.hexdigest()

    def save(self, state: dict[str, Any]) -> None:
        """Write the state beside the file, then put it in its place."""
        with replacing(self.path) as stream:
            np.savez(stream, **state, identity=self.identity)

    def load(self) -> dict[str, NDArray]:
        """The saved state; an empty one where there is no file.

        Raises
        ------
        ValueError
            If the file is not a checkpoint, or belongs to another problem.
        """
        if not os.path.exists(self.path):
            return {}
        try:
            with np.load(self.path, allow_pickle=False) as file:
                state = dict(file)
            identity = str(state.pop("identity"))
        except (OSError, ValueError, KeyError, BadZipFile, EOFError) as error:
            raise ValueError(
                f"{self.who} needs a checkpoint it wrote, got an unreadable file {self.path!r}; "
                "remove it to start afresh."
            ) from error
        if identity != self.identity:
            raise ValueError(
                f"{self.who} needs a checkpoint of this problem, but {self.path!r} belongs to "
                "other data or settings; remove it or choose another checkpoint file."
            )
        _LOGGER.info("resuming from %s", self.path)
        return state


class Stop(Exception):
    """Ends the rounds, for the reason that it is given."""


class Iteration(ABC):
    """Rounds until there is a reason to stop; a subclass says how to begin and what a round does.

    The attributes that are numbers or arrays, and do not begin with an underscore, are the state:
    a checkpoint keeps them after every round, and a later run of the same problem takes them up
    and goes on bit for bit.

    Parameters
    ----------
    settings : estimator
        Whose table of parameters is checked, and whose ``checkpoint`` may name a file.
    callbacks : sequence of Callback
    """

    def __init__(self, settings: Any, callbacks: Sequence[Callback] = ()) -> None:
        self.settings, self.callbacks = settings, callbacks
        self.round, self.objective = 0, np.inf
        self._file: Checkpoint | None = None

    @abstractmethod
    def begin(self) -> None:
        """Prepare for the first round."""

    @abstractmethod
    def step(self) -> None:
        """One round; raises :class:`Stop` where there is no way on."""

    @abstractmethod
    def record(self) -> Any:
        """Add a row to the trace; returns what callbacks, where there are any, see of it."""

    @abstractmethod
    def solved(self) -> bool:
        """Whether the result is as good as asked for."""

    @abstractmethod
    def solution(self, reason: str) -> Solution:
        """The result."""

    @abstractmethod
    def identity(self) -> Sequence[Any]:
        """Numbers and arrays that say which problem a checkpoint belongs to."""

    def state(self) -> dict[str, Any]:
        """All that changes from round to round."""
        public = {name: value for name, value in vars(self).items() if name[0] != "_"}
        return {k: v for k, v in public.items() if isinstance(v, (numbers.Number, np.ndarray))}

    def restore(self, state: dict[str, NDArray]) -> None:
        """Take up the state of an earlier run."""
        for name, value in state.items():
            setattr(self, name, value if value.ndim else value.item())

    def run(self, max_rounds: int) -> Solution:
        """Step until the problem is solved, a callback asks to stop, or rounds run out."""
        check_parameters(self.settings)
        reason, path = "max_rounds", getattr(self.settings, "checkpoint", None)
        try:
            self.begin()
            if path is not None:
                self._file = Checkpoint(path, type(self.settings).__name__, *self.identity())
                self.restore(self._file.load())
            while not self.solved() and self.round < max_rounds:
                self.step()
                self.close_round()
        except Stop as stop:
            reason = str(stop)
        except KeyboardInterrupt:
            if not np.isfinite(self.objective):
                raise
            reason = "interrupted"
        if reason != "interrupted" and self.solved():
            reason = "converged"
        solution = self.solution(reason)
        for callback in self.callbacks:
            callback.on_end(solution)
        return solution

    def close_round(self) -> None:
        """Trace, checkpoint and callbacks; for steps of many rounds, too."""
        self.round += 1
        progress = self.record()
        if self._file is not None:
            self._file.save(self.state())
        stop = False
        for callback in self.callbacks:  # all of them see the round
            stop = bool(callback.on_round(progress)) or stop
        if stop:
            raise Stop("callback")


@dataclass(frozen=True)
class DualBound:
    """Lower bounds on min risk + Ω from one affine minorant b + ⟨g, w⟩ of the risk.

    Over the metric's cone the minimum of ⟨g + slope, w⟩ + (μ/2)‖w‖² is closed when μ > 0. When
    μ = 0 any optimum has ⟨slope, w⟩ ≤ F, the best objective known, because the risk is
    nonnegative, and slope = κI gives F/κ times the least eigenvalue (or weight). The price has no
    regularizer: where g falls with it, the bound needs a limit of the prices that can be optimal.

    Parameters
    ----------
    terms : RegularizationTerms
    cone : MetricCone
    """

    terms: RegularizationTerms
    cone: MetricCone

    def value(self, offset: float, slope: NDArray, best: float, price_limit: float) -> float:
        """Bound from one minorant; never below 0, which bounds every hinge."""
        bound = self.without_price(offset, slope, best)
        unlimited = np.isinf(price_limit) and slope[-1] > -1e-14  # rounding of (K − Tr M)/T
        if self.cone.priced and slope[-1] < 0 and not unlimited:
            bound += slope[-1] * price_limit
        return max(0.0, bound)

    def without_price(self, offset: float, slope: NDArray, best: float) -> float:
        """Bound at a price of 0, which may be negative."""
        terms, metric = self.terms, self.cone.metric
        total = slope[: self.cone.n_metric] + terms.slope
        if terms.curvature > 0:
            point, _ = metric.linearize(-total)
            return offset + terms.offset - float(point @ point) / (2.0 * terms.curvature)
        weight = float(np.max(terms.slope))
        return offset + best / weight * min(0.0, metric.least(total))


class Minimization(Iteration):
    """Rounds that lower risk + Ω over a cone, with the best point met and a lower bound.

    Parameters
    ----------
    problem : Problem
    settings : Solver
    omega : callable (array) -> float, optional
        Ω(w) for a regularizer without terms, of which there is no bound.
    """

    least = 0.0  # no hinge plus Ω is below

    def __init__(
        self, problem: Problem, settings: Any, omega: Callable[[NDArray], float] | None = None
    ) -> None:
        super().__init__(settings, problem.callbacks)
        self.problem, self.risk, self.cone = problem, problem.risk, problem.cone
        if omega is None:
            if not hasattr(problem.regularizer, "terms"):
                raise ValueError(
                    f"{type(settings).__name__} needs a regularizer with terms, linear plus "
                    f"squared, got {problem.regularizer!r}; use the solver CuttingPlane for others."
                )
            omega = self.terms = problem.regularizer.terms(problem.cone)
            self.dual = DualBound(self.terms, self.cone)
        self.omega, self.lower_bound, self.price_limit = omega, self.least, np.inf
        self.oracle_calls, self.cache_hits, self.rows = 0, 0, np.empty((0, 5))
        self.seconds, self._clock = 0.0, time.perf_counter()

    @abstractmethod
    def prepare(self, start: NDArray, cuts: Cuts) -> None:
        """Prepare for the first round, from the cuts at the start."""

    def begin(self) -> None:
        """Evaluate the start, or the point of the earlier solution that there is."""
        warm, who = self.problem.warm, type(self.settings).__name__
        start = (self.problem.start if warm is None else warm.w).copy()
        cuts, value = self.visit(start)
        if not np.isfinite(value):
            raise ValueError(
                f"{who} needs an objective that is finite at the start, with no or nearly no "
                f"metric, got {value}; change the regularizer, or scale the data."
            )
        # gaps are relative to the risk with no metric, or to Ω where that is 0
        self.scale = (cuts.mean or value) if warm is None else warm.scale
        self.anchor_offset, self.anchor_slope = cuts.mean - float(cuts.slope @ start), cuts.slope
        if warm is not None and warm.cuts is not None:
            _, self.anchor_offset, self.anchor_slope = warm.cuts
        self._first = start, cuts
        if value > self.least:  # else no data set asks for anything
            self.prepare(start, cuts)

    def identity(self) -> Sequence[Any]:
        """The solver, what the risk knows of its data, the first cuts, and Ω at three points."""
        start, cuts = self._first
        texts = [type(self.settings).__name__.encode(), getattr(self.risk, "fingerprint", b"")]
        unit = self.cone.join(self.cone.metric.identity(self.cone.n_features), 0.0)
        return (
            *(np.frombuffer(text, dtype=np.uint8) for text in texts),
            *(start, *cuts, self.scale, getattr(self.risk, "identity", ())),
            [self.omega(size * unit) for size in (1.0, 2.0, 3.0)],
        )

    def visit(self, w: NDArray) -> tuple[Cuts, float]:
        """Cuts and objective at w, which is remembered if it is the best so far."""
        cuts = self.risk(w)
        self.oracle_calls += len(cuts.values)
        value = cuts.mean + self.omega(w)
        if value < self.objective:
            self.objective, self.best = value, w
        return cuts, value

    def raise_bound(self, offset: float, slope: NDArray) -> None:
        """Use a minorant b + ⟨g, w⟩ of the risk for the lower bound.

        b + ⟨g, w⟩ + Ω(w) ≤ F at any optimum, which limits the price where g grows with it. The
        minorant may not, but the one that was met at the start, of few clusters, does, and so do
        mixtures of the two.
        """
        for share in _SHARES if self.cone.priced else ():
            mixed = (1 - share) * offset + share * self.anchor_offset
            mixed_slope = (1 - share) * slope + share * self.anchor_slope
            if mixed_slope[-1] > 0:
                left = self.objective - self.dual.without_price(mixed, mixed_slope, self.objective)
                self.price_limit = min(self.price_limit, left / float(mixed_slope[-1]))
        bound = self.dual.value(offset, slope, self.objective, self.price_limit)
        self.lower_bound = max(self.lower_bound, bound)

    def relative_gap(self) -> float:
        """Gap over the objective with no metric."""
        return (self.objective - self.lower_bound) / max(self.scale, 1e-300)

    def solved(self) -> bool:
        """Whether the gap is within the tolerance; 0 is the least that a hinge can be."""
        return self.objective <= self.least or self.relative_gap() <= self.settings.tolerance

    def record(self) -> Progress:
        """Add a row to the trace."""
        now = time.perf_counter()
        self.seconds, self._clock = self.seconds + now - self._clock, now
        state, counts = (self.objective, self.lower_bound), (self.oracle_calls, self.cache_hits)
        self.rows = np.vstack([self.rows, [*state, self.seconds, *counts]])
        return Progress(self.round, *state, self.relative_gap(), self.best, *counts)

    def solution(self, reason: str) -> Solution:
        """The best point with its certificate."""
        return Solution(
            w=self.best,
            objective=self.objective,
            lower_bound=self.lower_bound,
            scale=self.scale,
            reason=reason,
            trace=Trace.of(self.rows),
            rank=len(self.cone.metric.components(self.cone.split(self.best)[0])),
            cuts=self.memory(),
        )

    def memory(self) -> CutMemory | None:
        """Cuts for a later start from this solution, where the solver keeps any."""
        return None
