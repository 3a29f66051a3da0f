"""BundleDual: cuts for every data set, the master problem in its dual, a certified gap."""

from __future__ import annotations

import time

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from metriclearn.mahalanobis import MetricCone
from metriclearn.regularizers import RegularizationTerms, Regularizer
from metriclearn.solvers.base import Cuts, DualBound, Monitor, Progress, Risk, Solution, Trace
from metriclearn.solvers.checkpoint import Checkpoint
from metriclearn.solvers.dual_master import DualMaster

__all__ = ["BundleDual"]

_PROXIMITY, _SHRINK, _GROW = 1e4, 0.5, 1.3  # first ν, and its factors, chosen for few rounds
_PRICE_CURVATURE = 1e-3  # of the proximal term at the price, in units of the start's objective


class BundleDual(BaseEstimator):
    """Bundle method with one cut per data set and round; every result carries its gap.

    Each round solves the master problem over all cuts so far (:class:`DualMaster`), asks the
    oracles for new cuts at its solution, and compares the best objective with the dual's lower
    bound. A proximal term keeps the query near the best point: halved when a round pays off,
    raised when it does not. It serves every regularizer, squared or linear (L1, trace), and the
    price of a cluster, which no regularizer touches. It does not enter the reported bound, which
    is that of the original problem.

    Parameters
    ----------
    tolerance : float
        Relative gap, over the objective at the start, at which to stop.
    max_rounds : int
        Passes over the data.
    keep_inactive : int
        Rounds after which a cut without weight is dropped.
    checkpoint : str or None
        File that keeps the state after every round; an interrupted ``minimize`` of the same
        problem goes on from there.
    """

    def __init__(
        self,
        tolerance: float = 1e-3,
        max_rounds: int = 500,
        keep_inactive: int = 15,
        checkpoint: str | None = None,
    ) -> None:
        self.tolerance = tolerance
        self.max_rounds = max_rounds
        self.keep_inactive = keep_inactive
        self.checkpoint = checkpoint

    def minimize(
        self,
        risk: Risk,
        regularizer: Regularizer,
        cone: MetricCone,
        start: NDArray,
        monitor: Monitor | None = None,
    ) -> Solution:
        """Minimize risk + regularizer over ``cone`` from ``start`` (no metric)."""
        if not self.tolerance >= 0:
            raise ValueError(f"BundleDual needs a tolerance of at least 0, got {self.tolerance!r}.")
        run = _Run(risk, regularizer.terms(cone), cone, self)
        reason = "max_rounds"
        try:
            run.begin(start)
            if run.objective <= 0.0:  # nothing can be better: no data set asks for anything
                return run.solution("converged")
            while run.relative_gap() > self.tolerance and run.round < self.max_rounds:
                run.step()
                if monitor is not None:
                    monitor(run.progress())
            if run.relative_gap() <= self.tolerance:
                reason = "converged"
        except KeyboardInterrupt:
            if not len(run.trace):
                raise
            reason = "interrupted"
        return run.solution(reason)


class _Bundle:
    """The cuts: value at w of cut j is offsets_j + ⟨rows_j, w⟩.

    Rows live in a buffer that grows by doubling, and hold the price's slope divided by
    ``price_unit``, so that one curvature serves all coordinates of the master problem.
    """

    ARRAYS = ("offsets", "rounding", "groups", "weights", "age")

    def __init__(self, size: int, price_unit: float) -> None:
        self._buffer = np.empty((16, size))
        self.price_unit = price_unit
        self.offsets, self.weights, self.rounding = np.zeros(0), np.zeros(0), np.zeros(0)
        self.groups, self.age = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)

    @property
    def rows(self) -> NDArray:
        return self._buffer[: len(self.offsets)]

    def units(self, w: NDArray, priced: bool) -> NDArray:
        """w with its price in the rows' unit."""
        return np.append(w[:-1], w[-1] * self.price_unit) if priced else w

    def add(self, cuts: Cuts, w: NDArray, priced: bool) -> None:
        n, used = len(cuts.values), len(self.offsets)
        if used + n > len(self._buffer):
            grown = np.empty((2 * (used + n), self._buffer.shape[1]))
            grown[:used] = self.rows
            self._buffer = grown
        self._buffer[used : used + n] = cuts.slopes
        if priced:
            self._buffer[used : used + n, -1] /= self.price_unit
        linear = cuts.slopes @ w
        self.offsets = np.append(self.offsets, cuts.values - linear)
        rounding = 1e-14 * (np.abs(cuts.values) + np.abs(linear))
        self.rounding = np.append(self.rounding, rounding)
        self.groups = np.append(self.groups, np.arange(n))
        self.weights = np.append(self.weights, np.zeros(n) if used else cuts.weights)
        self.age = np.append(self.age, np.zeros(n, dtype=np.int64))

    def combination(self, priced: bool) -> tuple[float, NDArray]:
        """The minorant of the risk that the weights make: offset (less rounding) and slope."""
        slope = self.weights @ self.rows
        if priced:
            slope[-1] *= self.price_unit
        return float(self.weights @ (self.offsets - self.rounding)), slope

    def prune(self, keep_inactive: int) -> None:
        """Forget cuts that have had no weight for a while."""
        totals = np.bincount(self.groups, weights=self.weights)
        self.weights[self.weights < 1e-9 * totals[self.groups]] = 0.0
        share = np.bincount(self.groups, weights=self.weights)
        self.weights *= (totals / share)[self.groups]
        self.age = np.where(self.weights > 0, 0, self.age + 1)
        kept = self.age <= keep_inactive
        if not kept.all():
            self._buffer[: np.sum(kept)] = self.rows[kept]
            for name in _Bundle.ARRAYS:
                setattr(self, name, getattr(self, name)[kept])

    def state(self) -> dict[str, NDArray]:
        return {"rows": self.rows, **{name: getattr(self, name) for name in _Bundle.ARRAYS}}

    def restore(self, state: dict[str, NDArray]) -> None:
        self._buffer = state["rows"]
        for name in _Bundle.ARRAYS:
            setattr(self, name, state[name])


class _Run:
    """The state of one minimization."""

    def __init__(
        self, risk: Risk, terms: RegularizationTerms, cone: MetricCone, settings: BundleDual
    ) -> None:
        self.risk, self.terms, self.cone, self.settings = risk, terms, cone, settings
        self.bound = DualBound(terms, cone)
        self.trace = Trace()
        self.round, self.lower_bound = 0, 0.0
        self.checkpoint = Checkpoint(settings.checkpoint)
        self.seconds_before, self.started = 0.0, time.perf_counter()

    def begin(self, start: NDArray) -> None:
        """First cuts, at the start; or the state of an earlier run."""
        cuts = self.risk(start)
        self.masses = cuts.weights
        self.scale = cuts.mean + self.terms(start)
        self.center, self.best = start.copy(), start.copy()
        self.center_objective = self.objective = self.scale
        self.anchor = (cuts.mean - float(cuts.slope @ start), cuts.slope)
        if self.objective <= 0.0:
            return
        self.proximity = self._first_proximity()
        self.bundle = _Bundle(self.cone.size, self._price_unit())
        self.bundle.add(cuts, start, self.cone.priced)
        settings = getattr(self.risk, "identity", ())
        identity = (start, cuts.values, cuts.slopes, self.terms.slope, self.terms.curvature)
        self.checkpoint.identify(*identity, settings)
        self._restore(self.checkpoint.load())

    def _first_proximity(self) -> float:
        """ν of the proximal term: large enough to start with small steps, from the scales."""
        if self.terms.curvature > 0:
            return 0.5 * _PROXIMITY * self.terms.curvature
        reach = self.scale / float(np.max(self.terms.slope))  # no optimum has a larger trace
        return _PROXIMITY * self.scale / reach**2

    def _price_unit(self) -> float:
        """√(curvature at the price / curvature elsewhere)."""
        typical = max(abs(float(self.anchor[1][-1])), 1e-12)
        curvature = _PRICE_CURVATURE * typical**2 / max(self.scale, 1e-12)
        return float(np.sqrt(curvature / (self.terms.curvature + self.proximity)))

    def step(self) -> None:
        """One round: master, lower bound, oracles, new cuts."""
        w = self._solve_master()
        cuts = self.risk(w)
        value = cuts.mean + self.terms(w)
        descent = self.center_objective - self._model(w)
        serious = self.center_objective - value >= 0.1 * max(descent, 0.0)
        serious &= value < self.center_objective
        if value < self.objective:
            self.objective, self.best = value, w
        held_back = descent < 0.25 * (self.objective - self.lower_bound)
        factor = _SHRINK if serious or held_back else _GROW
        self.proximity = max(factor * self.proximity, 1e-10 * self._first_proximity())
        if serious:
            self.center, self.center_objective = self.best.copy(), self.objective
        self.bundle.prune(self.settings.keep_inactive)
        self.bundle.add(cuts, w, self.cone.priced)
        self.round += 1
        self.trace.append(self.objective, self.lower_bound, self._seconds())
        self.checkpoint.save(self._state())

    def _solve_master(self) -> NDArray:
        bundle, priced, n = self.bundle, self.cone.priced, self.cone.n_metric
        curvature = self.terms.curvature + self.proximity
        shift = np.zeros(self.cone.size)
        shift[:n] = self.proximity * self.center[:n] - self.terms.slope
        if priced:
            shift[-1] = curvature * bundle.units(self.center, priced)[-1]
        master = DualMaster(
            bundle.rows, bundle.offsets, bundle.groups, self.masses, shift, curvature, self.cone
        )
        gap = self.objective - self.lower_bound
        tolerance = max(0.02 * gap, 1e-2 * self.settings.tolerance * self.scale)
        bundle.weights, x, _ = master.solve(bundle.weights, tolerance)
        self._raise_bound()
        return np.append(x[:-1], x[-1] / bundle.price_unit) if priced else x

    def _raise_bound(self) -> None:
        """Lower bound from the cuts' combination; combinations with the first cuts limit λ."""
        offset, slope = self.bundle.combination(self.cone.priced)
        if self.cone.priced:
            for share in (1.0, 0.1, 0.01, 0.001, 0.0):
                self.bound.limit_price(
                    (1 - share) * offset + share * self.anchor[0],
                    (1 - share) * slope + share * self.anchor[1],
                    self.objective,
                )
        bound = self.bound.value(offset, slope, self.objective)
        self.lower_bound = max(self.lower_bound, bound)

    def _model(self, w: NDArray) -> float:
        values = self.bundle.offsets + self.bundle.rows @ self.bundle.units(w, self.cone.priced)
        best = np.full(len(self.masses), -np.inf)
        np.maximum.at(best, self.bundle.groups, values)
        return float(self.masses @ best) + self.terms(w)

    def relative_gap(self) -> float:
        return (self.objective - self.lower_bound) / max(self.scale, 1e-300)

    def progress(self) -> Progress:
        return Progress(
            self.round, self.objective, self.lower_bound, self.relative_gap(), self.best
        )

    def solution(self, reason: str) -> Solution:
        return Solution(self.best, self.objective, self.lower_bound, self.scale, reason, self.trace)

    def _seconds(self) -> float:
        return self.seconds_before + time.perf_counter() - self.started

    def _state(self) -> dict[str, NDArray]:
        numbers = [self.round, self.lower_bound, self.objective, self.proximity]
        numbers += [self.bound.price_limit, self._seconds(), self.center_objective]
        return {
            **self.bundle.state(),
            "numbers": np.array(numbers),
            "center": self.center,
            "best": self.best,
            "trace": np.array([self.trace.objective, self.trace.lower_bound, self.trace.seconds]),
        }

    def _restore(self, state: dict[str, NDArray] | None) -> None:
        if state is None:
            return
        numbers = state.pop("numbers")
        self.round, self.lower_bound, self.objective, self.proximity = (
            int(numbers[0]),
            *numbers[1:4],
        )
        self.bound.price_limit, self.seconds_before, self.center_objective = numbers[4:7]
        self.center, self.best = state.pop("center"), state.pop("best")
        self.trace = Trace(*(column.tolist() for column in state.pop("trace")))
        self.bundle.restore(state)
