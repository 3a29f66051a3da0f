"""Max-margin interval regression: a linear function whose values lie inside given intervals.

Rigaill, Hocking, Bach & Vert, Learning sparse penalties for change-point detection using max margin
interval regression, ICML 2013.
"""

from __future__ import annotations

import numbers
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_array, check_is_fitted

__all__ = ["IntervalRegression"]


class IntervalRegression(RegressorMixin, BaseEstimator):
    """A linear function whose values should lie well inside given intervals.

    Minimizes, over w and a free intercept b, for standardized features x and intervals [l, h],

        (1/n) Σ [m − (z − l)]₊² + [m − (h − z)]₊² + μ(r‖w‖₁ + (1 − r)/2 ‖w‖²),   z = ⟨w, x⟩ + b:

    the squared hinge of max-margin interval regression with an elastic net, convex. Ends of −∞
    and +∞ cost nothing; features that do not vary are not used.

    Parameters
    ----------
    strength : float ≥ 0
        μ.
    l1_ratio : float
        r in [0, 1].
    margin : float ≥ 0
        m, in the units of the intervals.

    Attributes
    ----------
    coef_ : array (P,), intercept_ : float
        For features in their own units.
    objective_ : float
    """

    def __init__(self, strength: float = 1e-2, l1_ratio: float = 0.0, margin: float = 1.0) -> None:
        self.strength = strength
        self.l1_ratio = l1_ratio
        self.margin = margin

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit to n intervals.

        Parameters
        ----------
        X : array (n, P), P may be 0: a constant
        y : array (n, 2)
            Lower and upper ends, −∞ and +∞ allowed.
        sample_weight : array (n,), optional

        Raises
        ------
        ValueError
            If an interval is empty or NaN, none has a finite end, or a parameter is out of range.
        """
        self._check()
        rows = _rows(X)
        ends = np.asarray(y, dtype=np.float64)
        if ends.shape != (len(rows), 2) or not np.all(ends[:, 0] <= ends[:, 1]):
            raise ValueError(
                f"IntervalRegression needs one interval (low, high) with low <= high for each of "
                f"the {len(rows)} rows, got an array of shape {ends.shape}."
            )
        finite = np.isfinite(ends)
        if not finite.any():
            raise ValueError("IntervalRegression needs at least one interval with a finite end.")
        weights = np.ones(len(rows)) if sample_weight is None else np.asarray(sample_weight, float)
        fine = weights.shape == (len(rows),) and bool(np.all(weights >= 0))
        if not fine or not 0 < weights.sum() < np.inf:
            raise ValueError(
                f"IntervalRegression needs a weight of at least 0 for each of the {len(rows)} "
                "rows, not all of them 0; change sample_weight."
            )
        mean, deviation = rows.mean(axis=0), rows.std(axis=0)
        varies = deviation > 1e-12 * np.maximum(1.0, np.abs(mean))
        Z = (rows[:, varies] - mean[varies]) / deviation[varies]
        solution = self._minimize(Z, ends, weights / weights.sum(), float(np.median(ends[finite])))
        self.n_features_in_ = rows.shape[1]
        self.coef_ = np.zeros(rows.shape[1])
        self.coef_[varies] = solution[:-1] / deviation[varies]
        self.intercept_ = float(solution[-1] - self.coef_ @ mean)
        return self

    def predict(self, X: ArrayLike) -> NDArray[np.float64]:
        """z of every row, (n,)."""
        check_is_fitted(self)
        rows = _rows(X)
        if rows.shape[1] != self.n_features_in_:
            raise ValueError(
                f"X has {rows.shape[1]} features, but IntervalRegression is expecting "
                f"{self.n_features_in_} features as input."
            )
        return rows @ self.coef_ + self.intercept_

    def score(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Share of values inside their intervals."""
        z, ends = self.predict(X), np.asarray(y, dtype=np.float64)
        inside = ((ends[:, 0] <= z) & (z <= ends[:, 1])).astype(np.float64)
        weights = None if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        return float(np.average(inside, weights=weights))

    def _minimize(self, Z: NDArray, ends: NDArray, weights: NDArray, start: float) -> NDArray:
        """(w, b), with w split in two nonnegative parts so that ‖w‖₁ is smooth."""
        from scipy.optimize import minimize

        P = Z.shape[1]
        l1, l2 = self.strength * self.l1_ratio, self.strength * (1.0 - self.l1_ratio)

        def objective(v: NDArray) -> tuple[float, NDArray]:
            w = v[:P] - v[P : 2 * P]
            z = Z @ w + v[-1]
            below = np.maximum(0.0, self.margin - (z - ends[:, 0]))
            above = np.maximum(0.0, self.margin - (ends[:, 1] - z))
            value = weights @ (below**2 + above**2) + l1 * v[:-1].sum() + 0.5 * l2 * (w @ w)
            slope = 2.0 * weights * (above - below)
            gradient = Z.T @ slope + l2 * w
            return value, np.concatenate([gradient + l1, l1 - gradient, [slope.sum()]])

        bounds = [(0, None)] * (2 * P) + [(None, None)]
        found = minimize(
            objective,
            np.append(np.zeros(2 * P), start),
            jac=True,
            method="L-BFGS-B",
            bounds=bounds,
            options={"maxiter": 10_000, "maxfun": 100_000, "ftol": 1e-14, "gtol": 1e-10},
        )
        self.objective_ = float(found.fun)
        return np.append(found.x[:P] - found.x[P : 2 * P], found.x[-1])

    def _check(self) -> None:
        for name, most in (("strength", np.inf), ("l1_ratio", 1.0), ("margin", np.inf)):
            value = getattr(self, name)
            if not isinstance(value, numbers.Real) or not 0 <= float(value) <= most:
                raise ValueError(
                    f"IntervalRegression needs {name} from 0 to {most:g}, got {value!r}."
                )


def _rows(X: ArrayLike) -> NDArray[np.float64]:
    return np.asarray(check_array(X, ensure_min_features=0, dtype=np.float64))
