"""Minimize smooth or nearly smooth risks by quasi-Newton descent over a factor of the metric."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from sklearn.base import BaseEstimator

from metriclearn.running.parameters import Real, Whole
from metriclearn.solvers.base import Cuts, Problem, Solution
from metriclearn.solvers.iteration import Minimization, Stop

# Least eigenvalue at the start, relative to the largest. An eigenvalue of 0 would stay 0.
_FLOOR = 1e-6
_MEMORY = 20


@dataclass(eq=False, repr=False)
class FactorDescent(BaseEstimator):
    """Minimize by L-BFGS over a factor L of B = LLᵀ, and over √λ if the penalty λ is learned.

    With a factor, B stays positive semidefinite without projections, and steps are relative to the
    size of B. Similarities need such steps, because their useful metrics span orders of magnitude.
    If the metric is diagonal, L is diagonal, too. The result has no certificate. The
    ``lower_bound`` is 0, which bounds every hinge. ``converged`` means that the objective has
    stopped changing or that its gradient vanishes.

    Parameters
    ----------
    max_rounds : int
        Largest number of evaluations of the risk.
    tolerance : float
        Stop if an iteration lowers the objective by at most this fraction of the objective at the
        start.

    Raises
    ------
    ValueError
        Raised by the learner's ``fit`` if parameters cannot be used.

    References
    ----------
    Burer & Monteiro, A nonlinear programming algorithm for solving semidefinite programs via
    low-rank factorization, Mathematical Programming 95, 2003.

    Examples
    --------
    >>> from metriclearn.solvers import CCCP, FactorDescent
    >>> solver = CCCP(FactorDescent(max_rounds=20))
    """

    max_rounds: Annotated[int, Whole()] = 40
    tolerance: Annotated[float, Real()] = 1e-5

    def minimize(self, problem: Problem) -> Solution:
        """Minimize, see :class:`~metriclearn.solvers.base.Solver`."""
        return _Descent(problem, self).run(self.max_rounds)


class _Descent(Minimization):
    """One run. Every evaluation of the objective by L-BFGS is a round."""

    def prepare(self, start: NDArray, cuts: Cuts) -> None:
        """Prepare the variable, which is L (of full rank) with √λ, and scale the objective."""
        if self.problem.warm is None:
            self.scale = self.objective
        # The gradient 2GL is zero at a zero column of L, so eigenvalues get a floor.
        self.unit = max(abs(self.objective), 1e-300)
        w_metric, penalty = self.cone.split(start)
        values, vectors = np.linalg.eigh(self.cone.metric.matrix(w_metric))
        largest = max(float(values[-1]), 1e-12)
        floored = np.maximum(values, _FLOOR * largest)
        # The start is diagonal if the metric is.
        L = (vectors * np.sqrt(floored)) @ vectors.T
        root = [np.sqrt(max(penalty, 1e-12))] if self.cone.learns_penalty else []
        self.factor = np.append(L.ravel(), root)

    def step(self) -> None:
        """Run all rounds by scipy's L-BFGS-B."""
        options = {
            "maxfun": self.settings.max_rounds,
            "maxiter": self.settings.max_rounds,
            "maxcor": _MEMORY,
            "ftol": self.settings.tolerance,
            "gtol": 1e-9,
        }
        result = minimize(self._round, self.factor, jac=True, method="L-BFGS-B", options=options)
        raise Stop("converged" if result.status == 0 else "max_rounds")

    def _round(self, factor: NDArray) -> tuple[float, NDArray]:
        """Return the scaled objective and its scaled gradient at a factor, for L-BFGS."""
        P, metric = self.cone.n_features, self.cone.metric
        L = factor[: P * P].reshape(P, P)
        penalty = float(factor[-1] ** 2) if self.cone.learns_penalty else float("nan")
        w = self.cone.join(metric.coordinates(L.T), penalty)
        cuts, value = self.visit(w)
        self.close_round()
        slope, penalty_slope = self.cone.split(cuts.slope + self.omega.gradient(w))
        # d⟨G, LLᵀ⟩/dL = 2GL.
        gradient = (2.0 * metric.matrix(slope) @ L).ravel()
        if self.cone.learns_penalty:
            gradient = np.append(gradient, 2.0 * penalty_slope * factor[-1])
        return value / self.unit, gradient / self.unit
