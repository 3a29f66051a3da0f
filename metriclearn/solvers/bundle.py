"""Minimize by a bundle method that solves its master problem in the dual and certifies its gap."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from metriclearn.running.parameters import CheckpointPath, Real, Whole
from metriclearn.solvers.base import CutMemory, Cuts, Problem, Solution
from metriclearn.solvers.dual_master import (
    DualMaster,
    best_violated,
    combination,
    inactive,
    linear_master,
    move,
    table_of,
)
from metriclearn.solvers.iteration import Minimization
from metriclearn.solvers.mahalanobis import SKETCHED
from metriclearn.solvers.regularizers import Quadratic

# The first weight ν of the proximal term, and the factors by which ν changes, tuned for few rounds.
_PROXIMITY, _SHRINK, _GROW = 1e4, 0.5, 1.3
# If the descent is at least the first number times the predicted one, ν is multiplied by the
# second.
_TRUST, _LEAP = 0.7, 0.2
# The first stretch, and the largest one divided by the relative gap.
_STRETCH, _MOST_STRETCH = 0.08, 0.15
# The first rounds have no stretch; most fits need no more rounds.
_FIRST = 20
# Curvature of the proximal term at the penalty, in units of the start's objective.
_PENALTY_CURVATURE = 1e-3
# Factor of the first ν if the cuts of an earlier solution make the model good.
_WARM = 1e-2
# Least curvature at the penalty, as a fraction of the first one; below it rounding dominates.
_PENALTY_FLOOR = 1e-4
# The hinge at the center of Ω sets the unit of the penalty if it exceeds the objective at the start
# by this factor.
_FAR = 1e3
# Dropped cuts are added if they close at least this fraction of the gap. Otherwise the oracles are
# called.
_WORTHWHILE = 0.5
# At most so many times in one round, dropped cuts are added and the master is solved again.
_MOST_HITS = 5


@dataclass(eq=False, repr=False)
class BundleDual(BaseEstimator):
    """Bundle method with one cut per data set and round. Every result has a certified gap.

    Each round solves the master problem over the working set of cuts (:class:`DualMaster`). Then
    the round asks the oracles for new cuts at the solution, and compares the best objective with
    the lower bound from the dual. If there are few cuts, the solution of the master problem usually
    has too small a norm. So the solution is multiplied by a factor of up to 1.3, as long as the
    objective still falls along the ray from 0 through the solution. Before each call of the
    oracles, the solver checks the cuts that it has dropped from the working set. As long as these
    cuts exceed the cuts of the working set by a large part of the gap, the solver adds them and
    solves the master problem again. A proximal term keeps solutions near the best point. If a round
    lowers the objective enough, the weight of this term is reduced. If not, the weight is raised.

    The solver works with squared regularizers, with linear regularizers (L1, trace), and with the
    penalty of a cluster, which is not regularized. The reported bound holds for the original
    problem, without the proximal term. For a diagonal metric with a linear regularizer, the bound
    is at least the optimum of the linear program over the working set
    (:func:`~metriclearn.solvers.dual_master.linear_master`, HiGHS).

    Parameters
    ----------
    tolerance : float
        Stop at this gap, relative to the risk at a metric of zero.
    max_rounds : int
        Largest number of rounds. Each round is one pass over the data.
    keep_inactive : int
        If a cut has had no weight for more than this number of rounds, it leaves the working set.
    cache_size : int
        Number of dropped cuts that are stored for each data set.
    checkpoint : str or None
        File in which the state is saved after every round. If ``minimize`` is interrupted, the next
        call for the same problem resumes from this file, with the same result.

    Raises
    ------
    ValueError, OSError
        Raised by the learner's ``fit`` if parameters or the checkpoint file cannot be used.

    References
    ----------
    Teo, Vishwanathan, Smola & Le, Bundle methods for regularized risk minimization, Journal of
    Machine Learning Research 11, 2010.
    """

    tolerance: Annotated[float, Real()] = 1e-3
    max_rounds: Annotated[int, Whole()] = 500
    keep_inactive: Annotated[int, Whole()] = 5
    cache_size: Annotated[int, Whole()] = 20
    checkpoint: CheckpointPath = None

    def minimize(self, problem: Problem) -> Solution:
        """Minimize, see :class:`~metriclearn.solvers.base.Solver`."""
        return _Bundle(problem, self).run(self.max_rounds)


class _Bundle(Minimization):
    """One run, with its working set of cuts, dropped cuts, and center of the proximal term.

    In the tables of cuts, slopes are divided by ``units``. These units scale the coordinates so
    that the master problem has the same curvature in all coordinates. The unit of the metric's
    coordinates is 1. The penalty has another unit.
    """

    kept = (
        *Minimization.kept,
        *("cuts", "archive", "units", "center", "center_objective"),
        *("first_proximity", "proximity", "stretch"),
    )

    def __init__(self, problem: Problem, settings: BundleDual) -> None:
        super().__init__(problem, settings)
        if not isinstance(self.omega, Quadratic):
            raise ValueError(
                "BundleDual needs a regularizer whose terms are Quadratic, got "
                f"{problem.regularizer!r}; use the solver ProjectedSubgradient for other norms."
            )

    def prepare(self, start: NDArray, cuts: Cuts) -> None:
        """Begin with the cuts at the start and the cuts of an earlier solution, if there is one."""
        if not np.all(cuts.weights > 0):
            raise ValueError(
                "BundleDual needs functions of positive weight, got a data set (or a group of "
                "them) of weight 0; leave it out."
            )
        self.masses, warm = cuts.weights, self.problem.warm
        self.center, self.center_objective = start.copy(), self.objective
        # No optimum of a linear Ω has a trace above ``reach``. The first steps are small compared
        # with that trace.
        if self.omega.curvature > 0:
            self.first_proximity = 0.5 * _PROXIMITY * self.omega.curvature
        else:
            reach = self.scale / self.omega.growth
            self.first_proximity = _PROXIMITY * self.scale / reach**2
        self.proximity = self.first_proximity * (1.0 if warm is None else _WARM)
        # The master's solution is stretched by this fraction before the oracles are called.
        self.stretch = 0.0
        self.units = np.ones_like(start)
        # Low-rank factors of the cuts, for those that were computed.
        self._factors: NDArray | None = None
        self.cuts = table_of(cuts, start, self.cone)
        self.cuts["weight"] = cuts.weights
        self.archive = self.cuts[:0].copy()
        if warm is not None and warm.cuts is not None:
            self.cuts = np.concatenate([self.cuts, warm.cuts.table])
            remembered = self.cuts[len(cuts.values) :]
            remembered["weight"] = remembered["age"] = 0

    def step(self) -> None:
        """Solve the master problem, update the lower bound, call the oracles, and add cuts."""
        w, model = self._query()
        w *= 1.0 + self.stretch
        before = self.center_objective
        cuts, value = self.visit(w)
        # A model of few cuts has a solution that is too small. If the objective still falls along
        # the ray, the next solution is stretched further, but less and less as the gap closes.
        falls = self.round >= _FIRST and (cuts.slope + self.omega.gradient(w)) @ w < 0.0
        self.stretch = max(2.0 * self.stretch, _STRETCH) if falls else 0.3 * self.stretch
        # We use a power of 2 near the gap, because the gap's last bits depend on the unit of the
        # features.
        open_share = (self.objective - self.lower_bound) / max(self.objective, 1e-300)
        self.stretch = min(self.stretch, _MOST_STRETCH * 2.0 ** np.frexp(open_share)[1])
        # A step is serious if it brings a tenth of the descent that the model predicts. The center
        # then moves there. ν falls after a serious step, or if the model predicts little descent
        # compared with the gap.
        descent = before - model
        serious = before - value >= 0.1 * max(descent, 0.0) and value < before
        held_back = self.solved_well and descent < 0.25 * (self.objective - self.lower_bound)
        trusted = before - value >= _TRUST * descent > 0.0
        shrink = _LEAP if trusted else _SHRINK
        factor = shrink if serious or held_back else _GROW
        self.proximity = max(factor * self.proximity, 1e-10 * self.first_proximity)
        if serious:
            self.center, self.center_objective = self.best.copy(), self.objective
        # The age of an archived cut is a running number. If the archive has too many cuts, the
        # oldest are deleted.
        archive, room = self.archive, self.settings.cache_size * len(self.masses)
        number, n = np.max(archive["age"], initial=-1) + 1, len(archive)
        gone = inactive(self.cuts, self.settings.keep_inactive)
        if self._factors is not None:
            move(self._factors, gone)
        move(self.cuts, gone, archive)
        archive["age"][n:] = number + np.arange(len(archive) - n)
        move(archive, np.argsort(archive["age"])[: max(0, len(archive) - room)])
        new = table_of(cuts, w, self.cone, self.units)
        move(new, np.arange(len(new)), self.cuts)

    def _query(self) -> tuple[NDArray, float]:
        """Solve the master problem, and return its solution w, and model + Ω at w.

        Dropped cuts are added, and the problem is solved again, until dropped cuts barely raise the
        model.
        """
        for hits in range(_MOST_HITS + 1):
            w = self._solve_master()
            model = np.full(len(self.masses), -np.inf)
            x = w * self.units
            np.maximum.at(model, self.cuts["group"], self.cuts["offset"] + self.cuts["slope"] @ x)
            objective = float(self.masses @ model) + self.omega(w)
            if hits == _MOST_HITS or not len(self.archive):
                break
            places, excess = best_violated(self.archive, x, model)
            raised = float(self.masses[self.archive["group"][places]] @ excess)
            if raised < max(_WORTHWHILE * (self.objective - objective), 0.0):
                break
            self.cache_hits += len(places)
            n = len(self.cuts)
            move(self.archive, places, self.cuts)
            self.cuts["weight"][n:] = self.cuts["age"][n:] = 0
        return w, objective

    def _solve_master(self) -> NDArray:
        """Find the w that minimizes model + Ω + proximal term.

        Also raise the lower bound: the sum of the cuts, weighted by their multipliers, is a
        minorant.
        """
        cuts, cone, terms, units = self.cuts, self.cone, self.omega, self.units
        n = cone.n_metric
        curvature = terms.curvature + self.proximity
        if cone.learns_penalty:
            # The square of the unit is the curvature at the penalty, divided by that elsewhere. The
            # curvature at the penalty falls with ν, down to a floor.
            typical = abs(float(self.anchor_slope[-1]))
            if typical < 1e-12:  # at the start all answers have as many segments as the labels
                typical = units[-1] * float(np.max(np.abs(cuts["slope"][:, -1]))) or 1.0
            at_penalty = _PENALTY_CURVATURE * typical**2 / max(self.scale, 1e-12)
            if terms.curvature > 0 and terms.slope.any():
                # The optimal penalty grows with the metric at the center of Ω.
                height = float(np.max(np.abs(cuts["slope"][:, :n] @ terms.lowest[0])))
                at_penalty *= min(1.0, _FAR * self.scale / max(height, 1e-300)) ** 2
            unit = np.sqrt(at_penalty / (terms.curvature + self.first_proximity))
            unit = max(unit, np.sqrt(_PENALTY_FLOOR * at_penalty / curvature))
            for table in (cuts, self.archive):
                table["slope"][:, -1] *= units[-1] / unit
            units[-1] = unit
        # Ω + (ν/2)‖x − center‖² is (ρ/2)‖x‖² − ⟨h, x⟩ and a constant. Ω has no term for the
        # penalty, and the unit of the penalty makes up for its different curvature.
        shift = curvature * (units * self.center)
        shift[:n] = self.proximity * self.center[:n] - terms.slope
        rows, offsets, groups = cuts["slope"], cuts["offset"].copy(), cuts["group"].copy()
        known = 0 if self._factors is None else len(self._factors)
        wide = cone.n_features >= SKETCHED
        if known < len(cuts) and wide and hasattr(cone.metric, "factors"):
            factors = cone.metric.factors(rows[known:, :n])
            if self._factors is None:
                self._factors = factors
            else:
                move(factors, np.arange(len(factors)), self._factors)
        masses, factors = self.masses, self._factors
        master = DualMaster(rows, offsets, groups, masses, shift, curvature, cone, factors)
        gap = self.objective - self.lower_bound
        tolerance = max(0.02 * gap, 1e-2 * self.settings.tolerance * self.scale)
        cuts["weight"], x, left = master.solve(cuts["weight"].copy(), tolerance)
        # If this is false, ν is too small for the precision.
        self.solved_well = left <= max(gap, tolerance)
        offset, slope = combination(cuts, cuts["weight"], self.masses)
        self.raise_bound(offset, slope * units)
        # For a diagonal metric and a linear Ω, the master without proximal term is linear.
        if terms.curvature == 0 and cone.metric.polyhedral:
            cost = cone.join(terms.slope, 0.0)
            multipliers = linear_master(rows, offsets, groups, self.masses, cost)
            if multipliers is not None:
                offset, slope = combination(cuts, multipliers, self.masses)
                self.raise_bound(offset, slope * units)
        return x / units

    def memory(self) -> CutMemory | None:
        """Return the cuts of the working set, with which a later run from this solution begins."""
        if not hasattr(self, "cuts"):
            return None
        table = self.cuts.copy()
        table["slope"] *= self.units
        return CutMemory(table, self.anchor_offset, self.anchor_slope)
