"""CuttingPlane: the algorithm of section 4.4 as it is written, its master problem in cvxpy."""

from __future__ import annotations

import numbers
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from metriclearn.solvers.base import (
    Cuts,
    DualBound,
    Problem,
    Risk,
    Solution,
    within_masses,
)
from metriclearn.solvers.iteration import Iteration, Stalled
from metriclearn.solvers.mahalanobis import MetricCone

__all__ = ["CuttingPlane"]

_ACCURACY = {"CLARABEL": 1e-7, "SCIPY": 1e-7, "HIGHS": 1e-7, "ECOS": 1e-7, "MOSEK": 1e-7}
_ROUGHLY = 1e-3  # accuracy of other solvers' optima, relative to the scale


class CuttingPlane(BaseEstimator):
    """Cutting planes (section 4.4): the readable reference, for any convex regularizer.

    Each round minimizes the largest of all cuts so far plus Ω over the cone, a linear program
    (L1, trace of a diagonal metric), a quadratic program (squared norm of a diagonal metric) or a
    semidefinite program (full metrics), then adds cuts near its solution. Its optimum is the
    lower bound. Slower than :class:`~metriclearn.solvers.bundle.BundleDual`, and needs cvxpy.

    Ω may be any object with ``expression(B)``, which makes a convex cvxpy expression of the
    (P, P) metric B, besides the regularizers of this package.

    Parameters
    ----------
    n_slack : bool
        One cut for every data set and round (n-slack), or one for their mean (one-slack).
    stabilization : float
        Share of the best point in the query, the rest is the master's solution: 0 is the plain
        method, which oscillates, above all with one slack.
    cvxpy_solver : str or None
        Name of a solver that cvxpy knows; by default scipy's HiGHS for linear programs, Clarabel
        for others.
    tolerance : float
        Relative gap at which to stop.
    max_rounds : int
    checkpoint : str or None
        File that keeps the state after every round, from which an interrupted run goes on.
    """

    def __init__(
        self,
        n_slack: bool = True,
        stabilization: float = 0.3,
        cvxpy_solver: str | None = None,
        tolerance: float = 1e-3,
        max_rounds: int = 500,
        checkpoint: str | None = None,
    ) -> None:
        self.n_slack = n_slack
        self.stabilization = stabilization
        self.cvxpy_solver = cvxpy_solver
        self.tolerance = tolerance
        self.max_rounds = max_rounds
        self.checkpoint = checkpoint

    def minimize(self, problem: Problem) -> Solution:
        """Minimize, see :class:`~metriclearn.solvers.base.Solver`."""
        number = isinstance(self.stabilization, numbers.Real)
        if not number or not 0.0 <= float(self.stabilization) < 1.0:
            raise ValueError(
                "CuttingPlane needs a stabilization of at least 0 and below 1, got "
                f"{self.stabilization!r}."
            )
        try:
            import cvxpy
        except ImportError as error:
            raise ImportError(
                "CuttingPlane needs cvxpy, which is not installed: pip install 'metriclearn"
                "[solvers]', or use BundleDual."
            ) from error
        if self.cvxpy_solver not in (None, *cvxpy.installed_solvers()):
            raise ValueError(
                "CuttingPlane needs a cvxpy_solver that is installed, one of "
                f"{', '.join(cvxpy.installed_solvers())}, got {self.cvxpy_solver!r}."
            )
        omega = _Omega(problem.regularizer, problem.cone)
        run = _Planes(problem.risk, omega, problem.cone, self, problem.warm)
        return run.run(
            problem.start, problem.callbacks, self.tolerance, self.max_rounds, self.checkpoint
        )


class _Omega:
    """Ω as a number, and as a cvxpy expression."""

    def __init__(self, regularizer: Any, cone: MetricCone) -> None:
        self.regularizer, self.cone = regularizer, cone
        own = hasattr(regularizer, "expression")
        self.terms = None if own else regularizer.terms(cone)

    def __call__(self, w: NDArray) -> float:
        if self.terms is not None:
            return self.terms(w)
        import cvxpy as cp

        coordinates, _ = self.cone.split(w)
        B = cp.Constant(self.cone.metric.matrix(coordinates))
        return float(self.regularizer.expression(B).value)

    def expression(self, B: Any) -> Any:
        if self.terms is None:
            return self.regularizer.expression(B)
        import cvxpy as cp

        identity = self.cone.metric.identity(self.cone.n_features)
        level = float(self.terms.slope @ identity) / float(identity @ identity)
        linear = self.terms.offset + level * cp.trace(B)
        if self.terms.curvature == 0.0:
            return linear
        return linear + 0.5 * self.terms.curvature * cp.sum_squares(B)


class _Planes(Iteration):
    """All cuts so far."""

    SOLVER = "CuttingPlane"

    def __init__(
        self,
        risk: Risk,
        omega: _Omega,
        cone: MetricCone,
        settings: CuttingPlane,
        warm: Solution | None,
    ) -> None:
        terms = omega.terms
        unit = cone.join(cone.metric.identity(cone.n_features), 0.0)
        identity: tuple = (omega(unit), omega(3.0 * unit))
        if terms is None:
            self.LEAST = -np.inf
        else:
            identity = (terms.slope, terms.curvature)
        super().__init__(risk, omega, cone, warm, (*identity, settings.n_slack))
        self.settings, self.regularization = settings, omega
        if terms is not None:
            self.dual = DualBound(terms, cone)

    def begin(self, start: NDArray, cuts: Cuts) -> None:
        """The first cuts."""
        self.masses = cuts.weights if self.settings.n_slack else np.ones(1)
        self.offsets, self.slopes = np.zeros(0), np.zeros((0, self.cone.size))
        self.groups = np.zeros(0, dtype=np.int64)
        self._add(cuts, start)

    def step(self) -> None:
        """Master problem, lower bound, query, new cuts."""
        x, bound = self._solve_master()
        self.lower_bound = max(self.lower_bound, bound)
        share = self.settings.stabilization
        w = self.cone.project((1.0 - share) * x + share * self.best)
        cuts = self.evaluate(w)
        self.keep(w, cuts.mean + self.omega(w))
        self._add(cuts, w)

    def _add(self, cuts: Cuts, w: NDArray) -> None:
        if not self.settings.n_slack:
            cuts = Cuts(np.array([cuts.mean]), cuts.slope[None, :], np.ones(1))
        self.offsets = np.append(self.offsets, cuts.values - cuts.slopes @ w)
        self.slopes = np.vstack([self.slopes, cuts.slopes])
        self.groups = np.append(self.groups, np.arange(len(cuts.values)))

    def _solve_master(self) -> tuple[NDArray, float]:
        """Solution and bound of min Σ s_i ξ_i + Ω(B), ξ_i ≥ 0 and above every cut of function i.

        In units of the scale, where solvers are accurate.
        """
        import cvxpy as cp

        n, P = self.cone.n_metric, self.cone.n_features
        B: Any
        if self.cone.metric.polyhedral:
            b = cp.Variable(n, nonneg=True)
            B, values = cp.diag(b), self.slopes[:, :n] @ b
        else:
            B = cp.Variable((P, P), PSD=True)
            matrices = [self.cone.metric.matrix(row[:n]).ravel() for row in self.slopes]
            values = np.array(matrices) @ cp.vec(B, order="C")
        slack, price = cp.Variable(len(self.masses), nonneg=True), cp.Variable(nonneg=True)
        if self.cone.priced:
            values = values + self.slopes[:, n] * price
        objective = self.masses @ slack + self.regularization.expression(B) / self.scale
        constraint = slack[self.groups] >= (self.offsets + values) / self.scale
        problem = cp.Problem(cp.Minimize(objective), [constraint])
        own = cp.SCIPY if problem.is_lp() else cp.CLARABEL  # SCIPY is HiGHS: exact vertices
        with warnings.catch_warnings():  # accurate or not, multipliers prove what they prove
            warnings.filterwarnings("ignore", "Solution may be inaccurate")
            try:
                problem.solve(solver=self.settings.cvxpy_solver or own)
            except cp.error.SolverError as error:
                raise Stalled("no solution") from error
        if problem.value is None or not np.isfinite(problem.value):
            raise Stalled(problem.status)
        polyhedral = self.cone.metric.polyhedral
        coordinates = np.diag(B.value) if polyhedral else self._coordinates(B.value)
        x = self.cone.join(coordinates, float(price.value or 0.0))
        return x, self._bound(problem, np.ravel(constraint.dual_value))

    def _bound(self, problem: Any, multipliers: NDArray) -> float:
        """What the multipliers prove, whatever their accuracy; for a Ω of the user's own, the
        optimum that cvxpy reports as accurate, less its accuracy.
        """
        if self.regularization.terms is None:
            if problem.status != "optimal":
                return -np.inf
            accuracy = _ACCURACY.get(problem.solver_stats.solver_name.upper(), _ROUGHLY)
            return (float(problem.value) - accuracy) * self.scale
        weights = within_masses(multipliers, self.groups, self.masses)
        offset, slope = float(weights @ self.offsets), weights @ self.slopes
        for share in (1.0, 0.1, 0.01, 0.001, 0.0) if self.cone.priced else ():
            self.dual.limit_price(
                (1 - share) * offset + share * self.anchor[0],
                (1 - share) * slope + share * self.anchor[1],
                self.objective,
            )
        return self.dual.value(offset, slope, self.objective)

    def _coordinates(self, B: NDArray) -> NDArray:
        values, vectors = np.linalg.eigh((B + B.T) / 2.0)
        return self.cone.metric.coordinates((vectors * np.sqrt(np.maximum(values, 0.0))).T)

    def state(self) -> dict[str, NDArray]:
        """The cuts, and the largest price that can be optimal."""
        limit = self.dual.price_limit if self.regularization.terms is not None else np.inf
        cuts = {"offsets": self.offsets, "slopes": self.slopes, "groups": self.groups}
        return {**cuts, "price_limit": np.array(limit)}

    def restore(self, state: dict[str, NDArray]) -> None:
        """Take up :meth:`state`."""
        self.offsets, self.slopes, self.groups = state["offsets"], state["slopes"], state["groups"]
        if self.regularization.terms is not None:
            self.dual.price_limit = float(state["price_limit"])
