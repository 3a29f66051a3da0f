"""Windows, a classifier and Viterbi: thirty lines of scikit-learn that many people would write."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.model_selection import GroupKFold
from sklearn.preprocessing import StandardScaler

from experiments.harness.scoring import least_loss, truth_of
from metriclearn import Partition

Arrays = Sequence[NDArray]
LEAST = 1e-3  # smaller probabilities are raised to this
PENALTIES = np.geomspace(0.25, 1024.0, 25)  # of a change of name, in nats
_MANY = 40  # columns; with more of them, there is a single width


class RowNames(BaseEstimator):
    """Base of methods that predict a name for every row: a run of equal names is a segment."""

    predict: Callable[..., list[NDArray]]

    def predict_change_points(self, X: Arrays) -> list[NDArray]:
        """Return the ends of the runs of equal predicted names."""
        return [Partition.from_runs(labels).change_points for labels in self.predict(X)]


def median_length(y: Arrays) -> float:
    """Return the median length of a labeled segment, in rows."""
    truths: list[Any] = [truth_of(labels) for labels in y]
    return float(np.median(np.concatenate([truth.sizes for truth in truths])))


def window_widths(median: float, n_columns: int) -> list[int]:
    """Return the widths of windows, odd and at least 3: a sixteenth, a quarter and all of the
    median length of a segment. With more than 40 columns, only a quarter."""
    shares = (1 / 4,) if n_columns > _MANY else (1 / 16, 1 / 4, 1)
    return sorted({max(3, int(2 * round(median * share / 2)) + 1) for share in shares})


def sides(X: NDArray, widths: Sequence[int]) -> NDArray[np.float32]:
    """Compute the means and log-deviations of the windows around every row, and the means of the
    windows before and after it.

    The columns are X, then these four for each width, (T, (1 + 4·widths)·P). Windows are cut at the
    ends of the recording. Cost O(TP) for each width.
    """
    sums, squares = (np.vstack([np.zeros(X.shape[1]), np.cumsum(v, axis=0)]) for v in (X, X * X))
    t, T, parts = np.arange(len(X)), len(X), [X]

    def mean(of: NDArray, low: int, high: int) -> NDArray[np.float64]:
        """Average the rows t + low … t + high − 1, or one row where none of them exists."""
        a, b = np.clip(t + low, 0, T), np.clip(t + high, 0, T)
        b = np.minimum(np.maximum(b, a + 1), T)
        a = np.minimum(a, b - 1)
        return (of[b] - of[a]) / (b - a)[:, None]

    for width in widths:
        around = -(width // 2), width // 2 + 1
        means = mean(sums, *around)
        deviations = np.sqrt(np.maximum(mean(squares, *around) - means**2, 0.0))
        parts += [means, np.log(deviations + 0.01), mean(sums, -width, 0), mean(sums, 0, width)]
    return np.hstack(parts, dtype=np.float32)


@njit(nogil=True, cache=True)
def smoothed(logs: NDArray, penalty: float) -> NDArray[np.int64]:
    """Choose the codes c that maximize Σ_t logs[t, c_t] − penalty · (number of changes), (T,).

    Cost O(TC) for T rows and C codes.
    """
    T, C = logs.shape
    value, stays, best = logs[0].copy(), np.ones((T, C), dtype=np.bool_), np.zeros(T, np.int64)
    for t in range(1, T):
        best[t] = np.argmax(value)
        moved = value[best[t]] - penalty
        for c in range(C):
            stays[t, c] = value[c] >= moved
            value[c] = max(value[c], moved) + logs[t, c]
    codes = np.empty(T, dtype=np.int64)
    codes[T - 1] = np.argmax(value)
    for t in range(T - 1, 0, -1):
        codes[t - 1] = codes[t] if stays[t, codes[t]] else best[t]
    return codes


def tuned_penalty(logs: Arrays, y: Arrays) -> float:
    """Return the penalty of :func:`smoothed` with the least mean loss ‖M − N‖²_F."""

    def ends(x: NDArray, penalty: float) -> NDArray[np.int64]:
        return Partition.from_runs(smoothed(x, penalty)).change_points

    return least_loss(PENALTIES, ends, logs, y)


def group_parts(groups: ArrayLike | None, n: int, n_folds: int) -> Iterator[tuple[Any, Any]]:
    """Yield folds of n recordings by whole groups, as pairs of indices to fit to and left out.

    If there is a single group, folds consist of recordings. A single recording is in both parts.
    """
    units = np.arange(n) if groups is None else np.unique(groups, return_inverse=True)[1]
    if len(np.unique(units)) < 2:
        units = np.arange(n)
    if n < 2:
        yield [0], [0]
        return
    yield from GroupKFold(min(n_folds, len(np.unique(units)))).split(units, groups=units)


@dataclass(eq=False, repr=False)
class WindowClassifier(RowNames):
    """Classify every row by moving windows, then smooth the names by the Viterbi algorithm.

    The widths of the windows follow from the labeled segments, see :func:`window_widths`. The
    penalty of a change of name has the least mean loss ‖M − N‖²_F on the training recordings, whose
    names come from classifiers that were fitted without their group. Then the classifier is fitted
    to all recordings.

    Parameters
    ----------
    classifier : classifier of scikit-learn, optional
        Extra trees by default.
    n_folds : int
        Folds of whole groups, at most one for each group.
    thin : bool
        Fit the classifier to one row in each sixteenth of the median segment, which costs less.
        Neighboring windows overlap, so little is lost.
    features : RandomConvolutions, optional
        What the classifier sees of the windows. By default, their means and deviations, see
        :func:`sides`.

    Attributes
    ----------
    classes_ : array (C,)
        The labels, sorted.
    penalty_ : float
    widths_ : list of int
    classifier_ : fitted classifier
    """

    classifier: Any = None
    n_folds: int = 4
    thin: bool = False
    features: Any = None

    def fit(self, X: Arrays, y: Arrays, groups: ArrayLike | None = None) -> Self:
        """Tune the penalty on groups left out, then fit to all recordings."""
        trees = ExtraTreesClassifier(100, min_samples_leaf=3, random_state=0)
        classifier = trees if self.classifier is None else self.classifier
        self.scaler_, self.classes_ = StandardScaler().fit(np.vstack(X)), np.unique(np.hstack(y))
        median = median_length(y)
        self.widths_ = window_widths(median, X[0].shape[1])
        if self.features is not None:
            self.features_ = clone(self.features).fit(self.widths_, X[0].shape[1])
        every = max(1, int(median) // 16) if self.thin else 1
        rows = [self._rows(x) for x in X]

        def fitted(part: Sequence[int]) -> Any:
            """Fit to some recordings or, if they have a single name, to all."""
            names = np.hstack([y[i][::every] for i in part])
            if len(np.unique(names)) < 2 and len(part) < len(X):
                return fitted(range(len(X)))
            return clone(classifier).fit(np.vstack([rows[i][::every] for i in part]), names)

        logs: list[NDArray] = [np.empty(0)] * len(X)
        for train, left_out in group_parts(groups, len(X), self.n_folds):
            model = fitted(train)
            for i in left_out:
                logs[i] = self._logs(model, rows[i])
        self.penalty_ = tuned_penalty(logs, y)
        self.classifier_ = fitted(range(len(X)))
        return self

    def predict(self, X: Arrays) -> list[NDArray]:
        """Return the smoothed names of the rows, (T,) each."""
        logs = (self._logs(self.classifier_, self._rows(x)) for x in X)
        return [self.classes_[smoothed(one, self.penalty_)] for one in logs]

    def _rows(self, x: NDArray) -> NDArray[np.float32]:
        Z = self.scaler_.transform(x)
        return sides(Z, self.widths_) if self.features is None else self.features_.transform(Z)

    def _logs(self, model: Any, rows: NDArray) -> NDArray[np.float64]:
        """Compute the log-probabilities of all names, (T, C)."""
        chances = np.full((len(rows), len(self.classes_)), LEAST)
        places = np.searchsorted(self.classes_, model.classes_)
        chances[:, places] = np.maximum(model.predict_proba(rows), LEAST)
        return np.log(chances)
