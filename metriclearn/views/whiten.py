"""Linear views: whitening by labels (relevant component analysis), and any metric."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Self

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone

from metriclearn.problem.forms import center
from metriclearn.problem.partition import Partition
from metriclearn.running.parameters import Of, OneOf, Real, Whole
from metriclearn.views.columns import check_range, measure, spread
from metriclearn.views.gaps import Labels, labels_for
from metriclearn.views.plain import PlainView


class LinearView(PlainView):
    """Rows (X − mean) Wᵀ, with the mean of the recording and a matrix W that is learned.

    No metric sees the mean, so a learner on these rows has the components L Wᵀ in the units of the
    data. Constant columns get no weight.

    A subclass computes W in :meth:`learned`.
    """

    reach = None
    matrix_: NDArray[np.float64]

    @abstractmethod
    def learned(self, arrays: list[NDArray], labels: Labels) -> NDArray[np.float64]:
        """Compute W, (r, Q), of recordings whose Q columns vary and have no extreme unit."""

    def fit(self, X: Any, y: Any = None, groups: ArrayLike | None = None) -> Self:
        """Compute W from recordings and their labels."""
        who, arrays = type(self).__name__, self.begin(X)
        labels = labels_for(self, y, arrays)
        varies = measure(arrays).varying(self)
        arrays = [_columns(array, varies) for array in arrays]
        spreads = np.max([np.ptp(array, axis=0) for array in arrays], axis=0)
        # 1 between 1e-45 and 1e45; else a power of two, by which data are divided without rounding
        unit = float(2.0 ** (300 * np.round(np.log2(spreads.max()) / 300)))
        check_range(who, "features with spreads", spreads / unit, 1e50)
        self.map_ = self.learned([array / unit for array in arrays], labels)
        self.varies_, self.unit_ = varies, unit
        self.matrix_ = spread(self.map_ / unit, varies)
        return self

    def rows(self, X: NDArray) -> NDArray[np.float64]:
        """Compute the rows of one recording, (T, r)."""
        return self.scaled(X) @ self.map_.T

    def scaled(self, X: NDArray) -> NDArray[np.float64]:
        """Return the columns that vary, (T, Q), divided by the unit and without their means."""
        return center(_columns(X, self.varies_) / self.unit_)

    def composed(self, components: NDArray) -> NDArray[np.float64]:
        """Convert components of the rows, (k, r), to components of the recordings, (k, P)."""
        return spread(components @ self.map_ / self.unit_, self.varies_)


@dataclass(eq=False, repr=False)
class Whiten(LinearView):
    """Whiten the covariance within segments or clusters (relevant component analysis).

    The rows are directions in which segments differ most, relative to the variation within
    segments. If columns are correlated, as in sound and pictures, this removes variation that is
    unrelated to the labels. With partial labels, only stretches with known segments are used. A
    column's variance within n rows of segments is taken to be at least 1/n of its total variance:
    few labels do not show that a column never changes within a segment. O(TP² + P³).

    Parameters
    ----------
    shrinkage : float in [0, 1]
        Weight of the diagonal in the covariance. A larger weight helps if there are few rows.
    n_components : int, optional
        Number of directions to keep, starting with the first. By default all are kept.
    between : float in [0, 1]
        The covariance is that within clusters plus ``between`` times that between clusters. If
        ``between`` is 1, it is the total covariance.

    Attributes
    ----------
    matrix_ : array (r, P)
        W, in the units of the data.
    varies_ : bool array (P,)
        Which columns vary.
    unit_ : float
        A power of two by which data are divided; 1 unless their scale is extreme.
    map_ : array (r, Q)
        W for the Q columns that vary, divided by the unit.

    Raises
    ------
    ValueError
        If y is not Labels, no stretch is labeled, or all columns are constant.

    See Also
    --------
    Metric : the rows under any other metric.

    Examples
    --------
    >>> from metriclearn import Partition
    >>> from metriclearn.datasets import make_change_points
    >>> from metriclearn.views import Labels, Whiten
    >>> data = make_change_points(n_features=4, n_relevant=2, random_state=0)
    >>> labels = Labels([Partition.from_runs(one) for one in data.labels])
    >>> Whiten(n_components=2).fit_transform(data.sequences, labels)[0].shape
    (600, 2)
    """

    shrinkage: Annotated[float, Real(0, 1)] = 0.1
    n_components: Annotated[int | None, OneOf(None, Whole(1))] = None
    between: Annotated[float, Real(0, 1)] = 0.0

    def learned(self, arrays: list[NDArray], labels: Labels) -> NDArray[np.float64]:
        """Compute the whitening matrix."""
        weights = np.ones(len(arrays)) if labels.weights is None else labels.weights
        rows, of_rows = [], []
        for array, truth, weight in zip(arrays, labels.partitions, weights):
            if weight == 0:
                continue
            known: list[tuple[int, Any]] = [(0, truth)]
            if not isinstance(truth, Partition):
                known = [(s, Partition(ends=ends - s)) for s, ends in truth.pieces.stretches]
            for start, part in known:
                stretch = array[start : start + part.n_samples]
                rows.append(stretch - part.project(stretch))
                of_rows.append(weight)
        if not rows:
            raise ValueError(
                "Whiten needs stretches whose segments are known, got only regions; label some "
                "stretches, or take another view."
            )
        total = _pooled([center(array) for array in arrays], weights)
        within = _pooled(rows, np.array(of_rows))
        S = within + self.between * (total - within)
        return whitening(total, S, self.shrinkage, self.n_components, 1 / sum(map(len, rows)))


@dataclass(eq=False, repr=False)
class Metric(LinearView):
    """The rows under the metric of any estimator: (X − mean) Wᵀ with its components W.

    Parameters
    ----------
    estimator : estimator with ``fit(X, y)`` and ``components_``
        Such as ``PrincipalComponents(10)`` of :mod:`metriclearn.baselines`, or one of another
        package. A copy of it is fitted to the recordings and their partitions.

    Attributes
    ----------
    matrix_ : array (r, P)
        W, in the units of the data.
    varies_ : bool array (P,)
        Which columns vary.
    unit_ : float
        A power of two by which data are divided; 1 unless their scale is extreme.
    map_ : array (r, Q)
        W for the Q columns that vary, divided by the unit.

    Raises
    ------
    ValueError
        If y is not Labels, or the estimator cannot use data or labels.

    See Also
    --------
    Whiten : relevant component analysis.

    Examples
    --------
    >>> from metriclearn import Partition
    >>> from metriclearn.baselines import PrincipalComponents
    >>> from metriclearn.datasets import make_change_points
    >>> from metriclearn.views import Labels, Metric
    >>> data = make_change_points(n_features=4, n_relevant=2, random_state=0)
    >>> labels = Labels([Partition.from_runs(one) for one in data.labels])
    >>> Metric(PrincipalComponents(2)).fit_transform(data.sequences, labels)[0].shape
    (600, 2)
    """

    estimator: Annotated[Any, Of("fit", "PrincipalComponents(10)")]

    def learned(self, arrays: list[NDArray], labels: Labels) -> NDArray[np.float64]:
        """Fit the estimator, and return its components."""
        return clone(self.estimator).fit(arrays, list(labels.partitions)).components_


def _columns(X: NDArray, chosen: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return the chosen columns. All columns keep their order in memory, on which sums depend."""
    return X if chosen.all() else X[:, chosen]


def _pooled(rows: Sequence[NDArray], weights: NDArray) -> NDArray[np.float64]:
    """Compute Σ w ZᵀZ / Σ w T over arrays Z (T, P) of rows, (P, P)."""
    mass = sum(weight * len(Z) for weight, Z in zip(weights, rows))
    return sum(weight * Z.T @ Z for weight, Z in zip(weights, rows)) / mass


def covariances(arrays: Sequence[NDArray], truths: Sequence[Partition]) -> tuple[NDArray, NDArray]:
    """Compute the total covariance and the covariance within clusters, both (P, P).

    The total covariance is around the mean of each data set. Both matrices are pooled over all
    samples. O(TP²).
    """
    weights = np.ones(len(arrays))
    residuals = [array - truth.project(array) for array, truth in zip(arrays, truths)]
    return _pooled([center(array) for array in arrays], weights), _pooled(residuals, weights)


def principal_components(arrays: Sequence[NDArray], n_components: int) -> tuple[NDArray, NDArray]:
    """Compute the leading eigenvalues (r,) and components Lᵀ (r, P) of the correlation matrix.

    Correlations are pooled over all data sets. Each component is an eigenvector whose entries are
    divided by the standard deviations of the features, so components apply to unscaled data. The
    entries of constant features are not divided. O(TP² + P³).
    """
    rows = [center(array) for array in arrays]
    covariance = sum(Z.T @ Z for Z in rows) / sum(map(len, rows))
    scale = np.sqrt(np.diag(covariance))
    scale = np.where(scale > 0, scale, 1.0)
    values, vectors = np.linalg.eigh(covariance / np.outer(scale, scale))
    leading = np.argsort(-values)[:n_components]
    return values[leading], vectors[:, leading].T / scale


def whitening(
    total: NDArray,
    within: NDArray,
    shrinkage: float,
    n_components: int | None = None,
    least: float = 0.0,
) -> NDArray:
    """Compute W, (r, P), with W S Wᵀ = I; O(P³).

    The rows of W are directions, in the order of decreasing total variance. ``n_components`` is the
    number of directions to keep. S is (1 − ``shrinkage``) ``within`` + ``shrinkage`` times the
    diagonal of ``within``. Shrinkage helps if there are few samples. Features may be constant
    within clusters, so we add to the diagonal of S what it lacks to ``least`` of the total
    variances, or 1e-12 of them.
    """
    lacking = least * np.diag(total) - np.diag(within)
    floor = np.maximum(lacking, 1e-12 * np.diag(total))
    S = (1 - shrinkage) * within + np.diag(shrinkage * np.diag(within) + floor)
    ratios, directions = scipy.linalg.eigh(total, S)
    return directions[:, np.argsort(-ratios)[:n_components]].T
