"""Quasi-Newton descent on a factor of the metric, for risks that are smooth or nearly so."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from sklearn.base import BaseEstimator

from metriclearn.solvers.base import Callback, Problem, Progress, Risk, Solution, Trace
from metriclearn.solvers.mahalanobis import MetricCone
from metriclearn.solvers.regularizers import Regularizer

__all__ = ["FactorDescent"]

_FLOOR = 1e-6  # of the largest eigenvalue: 0 would be stationary for the factor
_MEMORY = 20


class FactorDescent(BaseEstimator):
    """L-BFGS over L in B = LLᵀ, and over √λ where there is a price.

    The factor keeps B positive semidefinite without projections, and makes steps relative to the
    size of B, which similarities need: their useful metrics span orders of magnitude. For a
    diagonal metric L is diagonal. It has no certificate: ``lower_bound`` is 0, which bounds every
    hinge, and ``converged`` means that the objective or its gradient has stopped changing.

    Parameters
    ----------
    max_rounds : int
        Evaluations of the risk.
    tolerance : float
        Relative decrease at which to stop.

    References
    ----------
    Burer & Monteiro, Mathematical Programming 95, 2003, for the factor.
    """

    def __init__(self, max_rounds: int = 40, tolerance: float = 1e-5) -> None:
        self.max_rounds = max_rounds
        self.tolerance = tolerance

    def minimize(self, problem: Problem) -> Solution:
        """Minimize, see :class:`~metriclearn.solvers.base.Solver`."""
        warm = problem.warm
        run = _Descent(problem.risk, problem.regularizer, problem.cone, problem.callbacks)
        reason = "max_rounds"
        try:
            result = minimize(
                run.value_and_gradient,
                run.factor(problem.start if warm is None else warm.w),
                jac=True,
                method="L-BFGS-B",
                options={
                    "maxfun": self.max_rounds,
                    "maxiter": self.max_rounds,
                    "maxcor": _MEMORY,
                    "ftol": self.tolerance,
                    "gtol": 1e-9,
                },
            )
            reason = "converged" if result.status == 0 else reason
        except StopIteration:
            reason = "callback"
        except KeyboardInterrupt:
            if not np.isfinite(run.objective):
                raise
            reason = "interrupted"
        return run.solution(reason, warm)


class _Descent:
    """Objective and gradient over the factor, and the best point met."""

    def __init__(
        self, risk: Risk, regularizer: Regularizer, cone: MetricCone, callbacks: Sequence[Callback]
    ) -> None:
        self.risk, self.omega, self.cone = risk, regularizer.terms(cone), cone
        self.callbacks, self.trace = callbacks, Trace()
        self.objective, self.scale, self.calls = np.inf, np.inf, 0
        self._begun = time.perf_counter()

    def factor(self, w: NDArray) -> NDArray:
        """L, of full rank, and √λ, as one vector in which the objective at w is of order 1."""
        coordinates, price = self.cone.split(w)
        values, vectors = np.linalg.eigh(self.cone.metric.matrix(coordinates))
        largest = max(float(values[-1]), 1e-12)
        floored = np.maximum(values, _FLOOR * largest)
        L = (vectors * np.sqrt(floored)) @ vectors.T  # diagonal where the metric is
        root = [np.sqrt(max(price, 1e-12))] if self.cone.priced else []
        self.unit = max(abs(self._value(w)[0]), 1e-300)
        return np.append(L.ravel(), root)

    def value_and_gradient(self, factor: NDArray) -> tuple[float, NDArray]:
        P, metric = self.cone.n_features, self.cone.metric
        L = factor[: P * P].reshape(P, P)
        price = float(factor[-1] ** 2) if self.cone.priced else float("nan")
        w = self.cone.join(metric.coordinates(L.T), price)
        value, slope = self._value(w)
        own, price_slope = self.cone.split(slope)
        gradient = (2.0 * metric.matrix(own) @ L).ravel()
        if self.cone.priced:
            gradient = np.append(gradient, 2.0 * price_slope * factor[-1])
        return value / self.unit, gradient / self.unit

    def _value(self, w: NDArray) -> tuple[float, NDArray]:
        cuts = self.risk(w)
        self.calls += len(cuts.values)
        value = cuts.mean + self.omega(w)
        self.scale = value if self.scale == np.inf else self.scale
        if value < self.objective:
            self.objective, self.best = value, w
        self.trace.append(self.objective, 0.0, time.perf_counter() - self._begun, self.calls)
        gap = self.objective / max(abs(self.scale), 1e-300)
        progress = Progress(len(self.trace), self.objective, 0.0, gap, self.best, self.calls)
        if any([callback.on_round(progress) for callback in self.callbacks]):
            raise StopIteration
        return value, cuts.slope + self.omega.gradient(w)

    def solution(self, reason: str, warm: Solution | None) -> Solution:
        scale = self.scale if warm is None else warm.scale
        rank = len(self.cone.metric.components(self.cone.split(self.best)[0]))
        solution = Solution(self.best, self.objective, 0.0, scale, reason, self.trace, rank)
        for callback in self.callbacks:
            callback.on_end(solution)
        return solution
