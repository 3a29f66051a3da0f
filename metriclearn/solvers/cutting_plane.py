"""Minimize by the textbook cutting-plane method, which solves its master problem by cvxpy."""

from __future__ import annotations

import numbers
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from metriclearn.running.extras import install
from metriclearn.running.parameters import CheckpointPath, Needs, Of, Real, Whole
from metriclearn.solvers.base import Cuts, Problem, Solution
from metriclearn.solvers.dual_master import combination, table_of
from metriclearn.solvers.iteration import Minimization, Stop
from metriclearn.solvers.regularizers import Quadratic

_ACCURACY = {"CLARABEL": 1e-7, "SCIPY": 1e-7, "HIGHS": 1e-7, "ECOS": 1e-7, "MOSEK": 1e-7}
# Accuracy of the optima of cvxpy's solvers, relative to the scale.
_ROUGHLY = 1e-3


@dataclass(eq=False, repr=False)
class CuttingPlane(BaseEstimator):
    """Cutting-plane method: a readable reference solver for any convex regularizer.

    Each round minimizes the maximum of all cuts so far, plus Ω, over the cone. This master problem
    is a linear program for a diagonal metric with L1 or trace, and a quadratic program for a
    diagonal metric with a squared norm. For full metrics, the master problem is a semidefinite
    program. The optimum of the master problem is a lower bound. Then the round adds cuts near the
    solution of the master problem. The solver is slower than
    :class:`~metriclearn.solvers.bundle.BundleDual`, and needs cvxpy.

    Besides the regularizers of this package, Ω may be any object with a method ``expression(B)``
    that returns a convex cvxpy expression of the (P, P) metric B. If the object also has terms,
    these prove the lower bound.

    Parameters
    ----------
    n_slack : bool
        If true, each round adds a cut for every data set (n-slack). If false, each round adds one
        cut for the mean over the data sets (one-slack).
    stabilization : float
        New cuts are computed at a weighted mean of the best point so far and the solution of the
        master problem. ``stabilization`` is the weight of the best point, at least 0 and below 1.
        With 0, the method oscillates, above all with one slack.
    cvxpy_solver : str or None
        Name of a solver that cvxpy knows. The default is scipy's HiGHS for linear programs, and
        Clarabel for other programs.
    tolerance : float
        Relative gap at which to stop.
    max_rounds : int
        Largest number of rounds.
    checkpoint : str or None
        File in which the state is saved after every round. An interrupted run resumes from this
        file.

    Raises
    ------
    ImportError
        If cvxpy is not installed.
    ValueError, OSError
        Raised by the learner's ``fit`` if parameters or the checkpoint file cannot be used.

    References
    ----------
    Lajugie, Arlot & Bach, Large-Margin Metric Learning for Partitioning Problems, section 4.4;
    Joachims, Finley & Yu, Cutting-plane training of structural SVMs, Machine Learning 77, 2009.

    Examples
    --------
    >>> from metriclearn import ChangePointMetricLearner
    >>> from metriclearn.solvers import CuttingPlane
    >>> learner = ChangePointMetricLearner(solver=CuttingPlane(n_slack=False))
    """

    n_slack: bool = True
    stabilization: Annotated[
        float,
        Needs(
            "a {name} of at least 0 and below 1",
            lambda share: isinstance(share, numbers.Real) and 0.0 <= float(share) < 1.0,
        ),
    ] = 0.3
    cvxpy_solver: Annotated[str | None, Of(str, '"CLARABEL"', optional=True)] = None
    tolerance: Annotated[float, Real()] = 1e-3
    max_rounds: Annotated[int, Whole()] = 500
    checkpoint: CheckpointPath = None

    def minimize(self, problem: Problem) -> Solution:
        """Minimize, see :class:`~metriclearn.solvers.base.Solver`."""
        try:
            import cvxpy
        except ImportError as error:
            raise ImportError(
                f"CuttingPlane needs cvxpy, which is not installed: {install('solvers')}, or use "
                "BundleDual."
            ) from error
        if self.cvxpy_solver not in (None, *cvxpy.installed_solvers()):
            raise ValueError(
                "CuttingPlane needs a cvxpy_solver that is installed, one of "
                f"{', '.join(cvxpy.installed_solvers())}, got {self.cvxpy_solver!r}."
            )
        return _Planes(problem, self).run(self.max_rounds)


class _Planes(Minimization):
    """One run, which keeps all cuts so far."""

    kept = (*Minimization.kept, "cuts")

    def __init__(self, problem: Problem, settings: CuttingPlane) -> None:
        expressed = hasattr(problem.regularizer, "expression")
        self.proves = hasattr(problem.regularizer, "terms") or not expressed
        # An expression may be negative.
        self.least = 0.0 if self.proves else -np.inf
        super().__init__(problem, settings, None if self.proves else self._value)
        if not (expressed or isinstance(self.omega, Quadratic)):
            raise ValueError(
                "CuttingPlane needs a regularizer with a method expression(B), or one whose terms "
                f"are Quadratic, got {problem.regularizer!r}; add the method, or use the solver "
                "ProjectedSubgradient."
            )

    def identity(self) -> Sequence[Any]:
        """Return the numbers that identify a run of any solver, followed by ``n_slack``."""
        return (*super().identity(), self.settings.n_slack)

    def prepare(self, start: NDArray, cuts: Cuts) -> None:
        """Begin the model with the cuts at the start."""
        self.masses = cuts.weights if self.settings.n_slack else np.ones(1)
        self.cuts = self._table(cuts, start)

    def step(self) -> None:
        """Solve the master problem, raise the lower bound, and add cuts near the solution."""
        x, share = self._solve_master(), float(self.settings.stabilization)
        w = self.cone.project((1.0 - share) * x + share * self.best)
        cuts, _ = self.visit(w)
        self.cuts = np.concatenate([self.cuts, self._table(cuts, w)])

    def _table(self, cuts: Cuts, w: NDArray) -> NDArray:
        """Make a table with one cut for every function (``n_slack``) or one for their mean."""
        mean = Cuts(np.array([cuts.mean]), cuts.slope[None, :], np.ones(1))
        return table_of(cuts if self.settings.n_slack else mean, w, self.cone)

    def _value(self, w: NDArray) -> float:
        """Return Ω(w) for a regularizer that is only an expression."""
        import cvxpy as cp

        B = cp.Constant(self.cone.metric.matrix(self.cone.split(w)[0]) / self.cone.unit**2)
        return float(self.problem.regularizer.expression(B).value)

    def _expression(self, B: Any) -> Any:
        """Return Ω(B) as an expression of cvxpy."""
        import cvxpy as cp

        regularizer, omega = self.problem.regularizer, self.omega
        if hasattr(regularizer, "expression"):
            return regularizer.expression(B / self.cone.unit**2)
        weights = self.cone.metric.matrix(omega.slope)
        linear = omega.offset + cp.sum(cp.multiply(weights, B))
        return linear + 0.5 * omega.curvature * cp.sum_squares(B) if omega.curvature > 0 else linear

    def _solve_master(self) -> NDArray:
        """Find the w that minimizes Σ s_i ξ_i + Ω(B), with ξ_i ≥ 0 and ξ_i ≥ every cut of R_i.

        Also raise the lower bound. All values are divided by the scale, because solvers are
        accurate for numbers around 1.
        """
        import cvxpy as cp

        cone, metric, slopes = self.cone, self.cone.metric, self.cuts["slope"]
        n, P = cone.n_metric, cone.n_features
        B: Any
        if metric.polyhedral:
            b = cp.Variable(n, nonneg=True)
            B, values = cp.diag(b), slopes[:, :n] @ b
        else:
            B = cp.Variable((P, P), PSD=True)
            matrices = [metric.matrix(row[:n]).ravel() for row in slopes]
            values = np.array(matrices) @ cp.vec(B, order="C")
        slack, penalty = cp.Variable(len(self.masses), nonneg=True), cp.Variable(nonneg=True)
        if cone.learns_penalty:
            values = values + slopes[:, n] * penalty
        objective = self.masses @ slack + self._expression(B) / self.scale
        constraint = slack[self.cuts["group"]] >= (self.cuts["offset"] + values) / self.scale
        program = cp.Problem(cp.Minimize(objective), [constraint])
        # cvxpy's SCIPY is HiGHS, which returns exact vertices.
        usual = cp.SCIPY if program.is_lp() else cp.CLARABEL
        # Any multipliers prove a valid bound, however inaccurate they are.
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Solution may be inaccurate")
            try:
                program.solve(solver=self.settings.cvxpy_solver or usual)
            except cp.error.SolverError as error:
                raise Stop("stalled") from error
        if program.value is None or not np.isfinite(program.value):
            raise Stop("stalled")
        # Even inaccurate multipliers prove a valid bound, unless Ω is only an expression. Then the
        # bound is the optimum minus the accuracy of the solver, if cvxpy reports "optimal" (and not
        # "optimal_inaccurate").
        if self.proves:
            multipliers = np.ravel(constraint.dual_value)
            self.raise_bound(*combination(self.cuts, multipliers, self.masses))
        elif program.status == "optimal":
            accuracy = _ACCURACY.get(program.solver_stats.solver_name.upper(), _ROUGHLY)
            bound = (float(program.value) - accuracy) * self.scale
            self.lower_bound = max(self.lower_bound, bound)
        values, vectors = np.linalg.eigh((B.value + B.value.T) / 2.0)
        root = (vectors * np.sqrt(np.maximum(values, 0.0))).T
        return cone.join(metric.coordinates(root), float(penalty.value or 0.0))
