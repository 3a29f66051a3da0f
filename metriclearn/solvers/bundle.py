"""BundleDual: cuts for every data set, the master problem in its dual, a certified gap."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from metriclearn.solvers.base import (
    CutMemory,
    Cuts,
    DualBound,
    Problem,
    Risk,
    Solution,
    check_number,
    within_masses,
)
from metriclearn.solvers.dual_master import DualMaster
from metriclearn.solvers.iteration import Iteration
from metriclearn.solvers.linear_master import linear_master
from metriclearn.solvers.mahalanobis import MetricCone
from metriclearn.solvers.regularizers import RegularizationTerms, terms_of
from metriclearn.solvers.working_set import CutArchive, WorkingSet

__all__ = ["BundleDual"]

_PROXIMITY, _SHRINK, _GROW = 1e4, 0.5, 1.3  # first ν, and its factors, chosen for few rounds
_TRUST, _LEAP = 0.7, 0.2  # the factor when that share of the predicted descent came true
_PRICE_CURVATURE = 1e-3  # of the proximal term at the price, in units of the start's objective
_WARM = 1e-2  # of the first ν, where an earlier solution's cuts make the model good
_PRICE_FLOOR = 1e-4  # of the first curvature at the price, below which rounding would rule
_WORTHWHILE = 0.5  # share of the gap that remembered cuts must close to spare the oracles
_MOST_HITS = 5  # solutions of the master in one round that only remembered cuts answered


class BundleDual(BaseEstimator):
    """Bundle method with one cut per data set and round; every result carries its gap.

    Each round solves the master problem over the working set of cuts (:class:`DualMaster`), asks
    the oracles for new cuts at its solution, and compares the best objective with the dual's
    lower bound. Before any oracle is asked, dropped cuts are: while they raise the model by much
    of the gap, the master is solved again with them instead. A proximal term keeps the query
    near the best point: halved when a round pays off, raised when it does not. It serves every
    regularizer, squared or linear (L1, trace), and the price of a cluster, which no regularizer
    touches. It does not enter the reported bound, which is that of the original problem; for a
    diagonal metric with a linear regularizer that is the linear program over the working set
    (:func:`linear_master`, HiGHS).

    Parameters
    ----------
    tolerance : float
        Relative gap, over the objective with no metric, at which to stop.
    max_rounds : int
        Passes over the data.
    keep_inactive : int
        Rounds after which a cut without weight leaves the working set.
    cache_size : int
        Cuts per data set that are remembered after that.
    checkpoint : str or None
        File that keeps the state after every round; an interrupted ``minimize`` of the same
        problem goes on from there, with the same result.
    """

    def __init__(
        self,
        tolerance: float = 1e-3,
        max_rounds: int = 500,
        keep_inactive: int = 5,
        cache_size: int = 20,
        checkpoint: str | None = None,
    ) -> None:
        self.tolerance = tolerance
        self.max_rounds = max_rounds
        self.keep_inactive = keep_inactive
        self.cache_size = cache_size
        self.checkpoint = checkpoint

    def minimize(self, problem: Problem) -> Solution:
        """Minimize, see :class:`~metriclearn.solvers.base.Solver`."""
        check_number("BundleDual", "keep_inactive", self.keep_inactive, 0, whole=True)
        check_number("BundleDual", "cache_size", self.cache_size, 0, whole=True)
        terms = terms_of("BundleDual", problem.regularizer, problem.cone)
        run = _Bundle(problem.risk, terms, problem.cone, self, problem.warm)
        return run.run(
            problem.start, problem.callbacks, self.tolerance, self.max_rounds, self.checkpoint
        )


class _Bundle(Iteration):
    """The state of one minimization."""

    SOLVER = "BundleDual"

    def __init__(
        self,
        risk: Risk,
        terms: RegularizationTerms,
        cone: MetricCone,
        settings: BundleDual,
        warm: Solution | None,
    ) -> None:
        super().__init__(risk, terms, cone, warm, (terms.slope, terms.curvature))
        self.terms, self.settings = terms, settings
        self.bound = DualBound(terms, cone)

    def begin(self, start: NDArray, cuts: Cuts) -> None:
        """First cuts, at the start; and those of an earlier solution."""
        if not np.all(cuts.weights > 0):
            raise ValueError(
                "BundleDual needs functions of positive weight, got a data set (or a group of "
                "them) of weight 0; leave it out."
            )
        self.masses = cuts.weights
        self.center, self.center_objective = start.copy(), self.objective
        self.proximity = self._first_proximity() * (1.0 if self.warm is None else _WARM)
        self.bundle = WorkingSet(self.cone.size, self._price_unit(), self.cone.priced)
        self.archive = CutArchive(self.settings.cache_size * len(cuts.values), self.cone.size)
        self.bundle.add(cuts, start)
        self.bundle.weights = cuts.weights.copy()
        if self.warm is not None and self.warm.cuts is not None:
            self._recall(self.warm.cuts)

    def _recall(self, cuts: CutMemory) -> None:
        rows = cuts.slopes.copy()
        if self.cone.priced:
            rows[:, -1] /= self.bundle.price_unit
        self.bundle.extend(rows, cuts.offsets, cuts.groups, cuts.rounding, np.zeros(len(rows)))

    def _first_proximity(self) -> float:
        """ν of the proximal term: large enough to start with small steps, from the scales."""
        if self.terms.curvature > 0:
            return 0.5 * _PROXIMITY * self.terms.curvature
        reach = self.scale / float(np.max(self.terms.slope))  # no optimum has a larger trace
        return _PROXIMITY * self.scale / reach**2

    def _price_unit(self) -> float:
        """√(curvature at the price / curvature elsewhere); the former falls with ν to a floor."""
        typical = max(abs(float(self.anchor[1][-1])), 1e-12)
        curvature = _PRICE_CURVATURE * typical**2 / max(self.scale, 1e-12)
        unit = np.sqrt(curvature / (self.terms.curvature + self._first_proximity()))
        floor = np.sqrt(_PRICE_FLOOR * curvature / (self.terms.curvature + self.proximity))
        return float(max(unit, floor))

    def step(self) -> None:
        """One round: master and remembered cuts, lower bound, oracles, new cuts."""
        w = self._query()
        cuts = self.evaluate(w)
        value = cuts.mean + self.terms(w)
        descent = self.center_objective - self._model(w)
        serious = self.center_objective - value >= 0.1 * max(descent, 0.0)
        serious &= value < self.center_objective
        self.keep(w, value)
        held_back = self.solved_well and descent < 0.25 * (self.objective - self.lower_bound)
        trusted = self.center_objective - value >= _TRUST * descent > 0.0
        shrink = _LEAP if trusted else _SHRINK
        factor = shrink if serious or held_back else _GROW
        self.proximity = max(factor * self.proximity, 1e-10 * self._first_proximity())
        if serious:
            self.center, self.center_objective = self.best.copy(), self.objective
        self.bundle.prune(self.settings.keep_inactive, self.archive)
        self.bundle.add(cuts, w)

    def _query(self) -> NDArray:
        """The master's solution, once remembered cuts have little to say about it."""
        for _ in range(_MOST_HITS):
            w = self._solve_master()
            model = self._levels(w)
            gap = self.objective - float(self.masses @ model) - self.terms(w)
            taken = self.archive.take_violated(
                self.bundle.units(w), model, self.masses, max(_WORTHWHILE * gap, 0.0)
            )
            if taken is None:
                return w
            self.cache_hits += len(taken[1])
            self.bundle.extend(*taken, np.zeros(len(taken[1])))
        return self._solve_master()

    def _solve_master(self) -> NDArray:
        bundle, priced, n = self.bundle, self.cone.priced, self.cone.n_metric
        self.archive.rescale(bundle.rescale(self._price_unit()))
        curvature = self.terms.curvature + self.proximity
        shift = np.zeros(self.cone.size)
        shift[:n] = self.proximity * self.center[:n] - self.terms.slope
        if priced:
            shift[-1] = curvature * bundle.units(self.center)[-1]
        master = DualMaster(
            bundle.rows, bundle.offsets, bundle.groups, self.masses, shift, curvature, self.cone
        )
        gap = self.objective - self.lower_bound
        tolerance = max(0.02 * gap, 1e-2 * self.settings.tolerance * self.scale)
        bundle.weights, x, left = master.solve(bundle.weights, tolerance)
        self.solved_well = left <= max(gap, tolerance)  # else ν is too small for the precision
        self._raise_bound()
        return np.append(x[:-1], x[-1] / bundle.price_unit) if priced else x

    def _raise_bound(self) -> None:
        """Lower bound from the cuts' combination; combinations with the first cuts limit λ."""
        offset, slope = self.bundle.combination(self.bundle.weights)
        if self.cone.priced:
            for share in (1.0, 0.1, 0.01, 0.001, 0.0):
                self.bound.limit_price(
                    (1 - share) * offset + share * self.anchor[0],
                    (1 - share) * slope + share * self.anchor[1],
                    self.objective,
                )
        bound = self.bound.value(offset, slope, self.objective)
        self.lower_bound = max(self.lower_bound, bound, self._linear_bound())

    def _linear_bound(self) -> float:
        """The best bound that the cuts have, where the program without proximity is linear."""
        if self.terms.curvature > 0 or not self.cone.metric.polyhedral:
            return 0.0
        bundle, cost = self.bundle, np.zeros(self.cone.size)
        cost[: self.cone.n_metric] = self.terms.slope
        weights = linear_master(bundle.rows, bundle.offsets, bundle.groups, self.masses, cost)
        if weights is None:
            return 0.0
        weights = within_masses(weights, bundle.groups, self.masses)
        return self.bound.value(*bundle.combination(weights), self.objective)

    def _levels(self, w: NDArray) -> NDArray:
        """The model of every function at w."""
        best = np.full(len(self.masses), -np.inf)
        np.maximum.at(best, self.bundle.groups, self.bundle.values(w))
        return best

    def _model(self, w: NDArray) -> float:
        return float(self.masses @ self._levels(w)) + self.terms(w)

    def memory(self) -> CutMemory | None:
        """The working set."""
        return self.bundle.memory(self.anchor) if hasattr(self, "bundle") else None

    def state(self) -> dict[str, NDArray]:
        """Working set, archive, center and the numbers of the proximal term."""
        numbers = [self.proximity, self.bound.price_limit, self.center_objective]
        numbers.append(self.bundle.price_unit)
        return {
            **self.bundle.state(),
            **self.archive.state(),
            "center": self.center,
            "proximal": np.array(numbers),
        }

    def restore(self, state: dict[str, NDArray]) -> None:
        """Take up :meth:`state`."""
        self.proximity, self.bound.price_limit, self.center_objective, unit = state["proximal"]
        self.bundle.price_unit = float(unit)
        self.center = state["center"]
        self.bundle.restore(state)
        self.archive.restore(state)
