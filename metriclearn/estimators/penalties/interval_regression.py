"""Max-margin interval regression, and the intervals of penalties that fit annotations best.

References: Hocking, Rigaill, Vert & Bach, Learning sparse penalties for change-point detection
using max margin interval regression, ICML 2013; Hocking et al., BMC Bioinformatics 14:164, 2013.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from metriclearn.estimators.reading.labels import read_weights
from metriclearn.oracles.penalty_search import widest_run
from metriclearn.oracles.segmentation_path import SegmentationPath
from metriclearn.problem.losses import FrobeniusLoss
from metriclearn.problem.partial_labels import PartialPartition
from metriclearn.problem.partition import Partition
from metriclearn.running.parameters import Real, check_parameters
from metriclearn.running.values import real_array

Truth = Partition | PartialPartition


@dataclass(eq=False, repr=False)
class IntervalRegression(RegressorMixin, BaseEstimator):
    """Fit a linear or quadratic function whose values lie well inside given intervals.

    Each of n rows has standardized features x and an interval [l, h]. The regression minimizes

        (1/n) Σ {[m − (z − l)]₊² + [m − (h − z)]₊²} + μ(r‖w‖₁ + (1 − r)/2 ‖w‖²),   z = ⟨w, x⟩ + b.

    over w and b. This is the convex squared hinge of max-margin interval regression, with an
    elastic net. An infinite end of an interval adds nothing to the sum. Constant features are
    ignored. If p > 0, the products p·x_i x_j, i ≤ j, are added to the features x. A smaller p
    penalizes the weights of products more strongly.

    Parameters
    ----------
    strength : float ≥ 0
        μ.
    l1_ratio : float
        r in [0, 1].
    margin : float ≥ 0
        m, in the unit of the intervals.
    products : float ≥ 0
        p.

    Attributes
    ----------
    mean_ : array (P,)
        Mean of every feature in the training data.
    coef_ : array (P,)
        The slope of the function at the mean, for features that are not standardized.
    product_coef_ : array (P, P)
        The symmetric matrix C in z = b + ⟨w, x⟩ + (x − x̄)ᵀ C (x − x̄), for features that are not
        standardized. Here w is ``coef_``, x̄ is ``mean_`` and b is ``intercept_``.
    intercept_ : float
    objective_ : float
        The minimum of the objective.

    Raises
    ------
    ValueError
        For parameters, data or labels that cannot be used, and for predictions before ``fit``.

    References
    ----------
    Hocking, Rigaill, Vert & Bach, Learning sparse penalties for change-point detection using max
    margin interval regression, ICML 2013.

    Examples
    --------
    >>> import numpy as np
    >>> from metriclearn.baselines import IntervalRegression
    >>> features, intervals = np.array([[0.0], [1.0], [2.0]]), np.array([[0.0, 2], [1, 3], [2, 4]])
    >>> line = IntervalRegression().fit(features, intervals)
    >>> line.predict(features).round(1)
    array([1., 2., 3.])
    """

    strength: Annotated[float, Real()] = 1e-2
    l1_ratio: Annotated[float, Real(0, 1)] = 0.0
    margin: Annotated[float, Real()] = 1.0
    products: Annotated[float, Real()] = 0.0

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the function to n intervals.

        Parameters
        ----------
        X : array (n, P)
            If P = 0, a constant is fitted.
        y : array (n, 2)
            Lower and upper end of every interval; −∞ and +∞ are allowed.
        sample_weight : array (n,), optional
            Weights of the intervals; equal by default.

        Raises
        ------
        ValueError
            If an interval is empty or NaN, if no interval has a finite end, or if a parameter is
            out of range.
        """
        check_parameters(self)
        rows = self._rows(X, reset=True)
        ends = _read_intervals(y, len(rows))
        finite = np.isfinite(ends)
        if not finite.any():
            raise ValueError("IntervalRegression needs at least one interval with a finite end.")
        weights = read_weights("IntervalRegression", sample_weight, len(rows))
        weights = np.ones(len(rows)) if weights is None else weights
        mean, deviation = rows.mean(axis=0), rows.std(axis=0)
        varies = deviation > 1e-12 * np.maximum(1.0, np.abs(mean))
        deviation = np.where(varies, deviation, np.inf)
        Z, P = (rows - mean) / deviation, len(mean)
        pairs = np.triu_indices(P if self.products else 0)
        columns = np.hstack([Z, self.products * Z[:, pairs[0]] * Z[:, pairs[1]]])
        middle = float(np.median(ends[finite]))
        weights = weights / weights.sum()
        n = columns.shape[1]
        l1, l2 = self.strength * self.l1_ratio, self.strength * (1.0 - self.l1_ratio)

        def objective(v: NDArray) -> tuple[float, NDArray]:
            # v holds both parts of w, and b as its last entry.
            w = v[:n] - v[n : 2 * n]
            z = columns @ w + v[-1]
            below = np.maximum(0.0, self.margin - (z - ends[:, 0]))
            above = np.maximum(0.0, self.margin - (ends[:, 1] - z))
            value = weights @ (below**2 + above**2) + l1 * v[:-1].sum() + 0.5 * l2 * (w @ w)
            slope = 2.0 * weights * (above - below)
            gradient = columns.T @ slope + l2 * w
            return value, np.concatenate([gradient + l1, l1 - gradient, [slope.sum()]])

        bounds = [(0, None)] * (2 * n) + [(None, None)]
        minimum = minimize(
            objective,
            np.append(np.zeros(2 * n), middle),
            jac=True,
            method="L-BFGS-B",
            bounds=bounds,
            options={"maxiter": 10_000, "maxfun": 100_000, "ftol": 1e-14, "gtol": 1e-10},
        )
        self.objective_ = float(minimum.fun)
        solution = np.append(minimum.x[:n] - minimum.x[n : 2 * n], minimum.x[-1])
        self.mean_, self.coef_ = mean, solution[:P] / deviation
        self.intercept_ = float(solution[-1] - self.coef_ @ mean)
        curvature = np.zeros((P, P))
        curvature[pairs] = self.products * solution[P:-1]
        curvature = curvature / deviation / deviation[:, None]
        self.product_coef_ = (curvature + curvature.T) / 2
        return self

    def predict(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return the value z of the fitted function for every row, (n,)."""
        check_is_fitted(self)
        rows = self._rows(X, reset=False)
        values = rows @ self.coef_ + self.intercept_
        if np.any(self.product_coef_):
            centered = rows - self.mean_
            with np.errstate(over="ignore", invalid="ignore"):
                values += np.sum(centered @ self.product_coef_ * centered, axis=1)
            if not np.isfinite(values).all():
                raise ValueError(
                    "IntervalRegression with products needs features whose products are finite, "
                    f"got up to {np.max(np.abs(rows)):.1e}; rescale them as in training."
                )
        return values

    def score(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return the fraction of rows whose predicted value lies inside the interval."""
        z = self.predict(X)
        ends = _read_intervals(y, len(z))
        inside = (ends[:, 0] <= z) & (z <= ends[:, 1])
        weights: Any = read_weights("IntervalRegression", sample_weight, len(z))
        return float(np.average(inside, weights=weights))

    def _rows(self, X: ArrayLike, reset: bool) -> NDArray[np.float64]:
        """Check X, and return it as floats, (n, P); P may be 0."""
        rows = real_array("IntervalRegression", "X", X, allow=("empty",))
        if len(rows) == 0:
            raise ValueError("IntervalRegression needs at least one row in X, got 0 sample(s).")
        validate_data(self, X, reset=reset, skip_check_array=True)
        return rows


def label_error(ends: NDArray, truth: Truth) -> float:
    """Compute the error of a segmentation against full or partial labels.

    For a PartialPartition, the error is the usual label error: the number of constraints that the
    segmentation violates. For a Partition, the error is ‖M − N‖²_F, that is, T times the loss ℓ.
    """
    if isinstance(truth, Partition):
        return FrobeniusLoss().squared_norm(Partition(ends=ends), truth)
    return float(sum(not region.allows(ends[:-1]) for region in truth.constraints))


def path_errors(path: SegmentationPath, truth: Truth) -> NDArray[np.float64]:
    """Compute the :func:`label_error` of every segmentation of a path, (m,)."""
    return np.array([label_error(ends, truth) for ends in path.change_points])


def target_interval(path: SegmentationPath, errors: ArrayLike) -> tuple[float, float]:
    """Find the widest interval of penalties with the least error, and return the logs of its ends.

    The widest interval has the largest ratio of its ends. The result is exact, because the optimal
    segmentation is piecewise constant in the penalty, and the path contains all pieces. The lower
    end is −∞ if all small penalties have the least error. The upper end is +∞ if all large
    penalties have the least error.
    """
    wrong = np.asarray(errors, dtype=np.float64)
    with np.errstate(divide="ignore"):
        logs = np.log(np.maximum(path.penalties, 0.0))
    logs[-1, 0], logs[0, 1] = -np.inf, np.inf
    first, last = widest_run(wrong <= wrong.min() + 1e-12, *logs.T)
    return float(logs[last, 0]), float(logs[first, 1])


def moved_penalty(z: float, interval: tuple[float, float], margin: float, weight: float) -> float:
    """Move the log penalty z toward an interval (low, high).

    The result is exactly argmin_x (x − z)² + weight ([margin − (x − low)]₊² +
    [margin − (high − x)]₊²).
    """
    # Beyond these points the hinges are active.
    a, b = interval[0] + margin, interval[1] - margin
    if a > b and (z - a) + weight * (b - a) <= 0 <= (z - b) + weight * (a - b):
        # Both hinges are active.
        return (z + weight * (a + b)) / (1.0 + 2.0 * weight)
    if z < a:
        return (z + weight * a) / (1.0 + weight)
    if z > b:
        return (z + weight * b) / (1.0 + weight)
    return z


def _read_intervals(y: ArrayLike, n: int) -> NDArray[np.float64]:
    """Check that y holds n intervals, and return them as an array (n, 2)."""
    ends = real_array("IntervalRegression", "y", y, allow=("infinite",))
    if ends.shape != (n, 2) or not np.all(ends[:, 0] <= ends[:, 1]):
        raise ValueError(
            f"IntervalRegression needs one interval (low, high) with low <= high for each of "
            f"the {n} rows, got an array of shape {ends.shape}."
        )
    return ends
