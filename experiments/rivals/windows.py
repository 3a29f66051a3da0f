"""Classifiers of rows that see windows around them, and whose names are smoothed.

Windows, a classifier and Viterbi are thirty lines of scikit-learn that many people would write.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import numpy as np
from numba import njit
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.ensemble import ExtraTreesClassifier

from experiments.harness.scoring import least_loss, truth_of
from metriclearn import Partition
from metriclearn.views import Labels, Posteriors, Windows
from metriclearn.views.posteriors import LEAST, held_out_models, probabilities
from metriclearn.views.windows import typical_length

Arrays = Sequence[NDArray]
PENALTIES = np.geomspace(0.25, 1024.0, 25)  # costs of a change of name, in nats
_WIDTHS = (1, 3, 5, 7, 11, 15, 21, 31, 45, 63, 91, 127)  # of windows that smooth names
_LONGEST = 11  # rows of the authors' longest kernel; a window has as many at least


class RowNames(BaseEstimator):
    """Base of methods that predict a name for every row: a run of equal names is a segment."""

    predict: Callable[..., list[NDArray]]

    def predict_change_points(self, X: Arrays) -> list[NDArray]:
        """Return the ends of the runs of equal predicted names."""
        return [Partition.from_runs(labels).change_points for labels in self.predict(X)]


def coded(y: Arrays) -> tuple[NDArray, list[NDArray[np.int64]]]:
    """Return the sorted names (C,), and the name of every row as an index into them."""
    classes, codes = np.unique(np.concatenate(y), return_inverse=True)
    return classes, np.split(codes, np.cumsum(list(map(len, y)))[:-1])


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


def owners(groups: ArrayLike | None, n: int) -> NDArray[np.int64]:
    """Number the groups of n recordings, (n,). Without several groups, every recording is one."""
    numbers = np.arange(n) if groups is None else np.unique(groups, return_inverse=True)[1]
    return numbers if numbers.any() else np.arange(n)


@dataclass(eq=False, repr=False)
class WindowClassifier(RowNames):
    """Classify every row by moving windows, then smooth the names by the Viterbi algorithm.

    The penalty of a change of name has the least mean loss ‖M − N‖²_F on the training recordings,
    whose names come from classifiers that were fitted without their group. Then the classifier is
    fitted to all recordings.

    Parameters
    ----------
    classifier : classifier of scikit-learn, optional
        Extra trees by default.
    n_folds : int
        Folds of whole groups, at most one for each group.
    thin : bool
        Fit the classifier to one row in each sixteenth of the median segment, which costs less.
        Neighboring windows overlap, so little is lost.
    view : view
        What the classifier sees of the windows. By default, their means and deviations, and the
        means of the windows before and after a row.

    Attributes
    ----------
    classes_ : array (C,)
        The labels, sorted.
    penalty_ : float
    view_ : fitted view
    models_ : list of one fitted classifier
    """

    classifier: Any = None
    n_folds: int = 4
    thin: bool = False
    view: Any = Windows(sides=True)  # noqa: RUF009

    def fit(self, X: Arrays, y: Arrays, groups: ArrayLike | None = None) -> Self:
        """Tune the penalty on groups left out, then fit to all recordings."""
        trees = ExtraTreesClassifier(100, min_samples_leaf=3, random_state=0)
        classifier = trees if self.classifier is None else self.classifier
        labels = Labels([Partition.from_runs(one) for one in y])
        self.view_ = clone(self.view).fit(X, labels)
        every = max(1, int(typical_length(self, labels.partitions)) // 16) if self.thin else 1
        self.classes_, codes = coded(y)
        rows, who = list(map(self._rows, X)), owners(groups, len(X))
        fit = partial(held_out_models, classifier, rows, codes, who, every=every)
        self.models_, folds = fit(self.n_folds)
        self.penalty_ = tuned_penalty(list(map(self._logs, rows, folds)), y)
        self.models_, _ = fit(1)
        return self

    def predict(self, X: Arrays) -> list[NDArray]:
        """Return the smoothed names of the rows, (T,) each."""
        logs = (self._logs(self._rows(x)) for x in X)
        return [self.classes_[smoothed(one, self.penalty_)] for one in logs]

    def _rows(self, x: NDArray) -> NDArray[np.float32]:
        return self.view_.transform([x])[0].astype(np.float32)

    def _logs(self, rows: NDArray, folds: NDArray | None = None) -> NDArray[np.float64]:
        """Compute the log-probabilities of all names, (T, C)."""
        chances = probabilities(self.models_, rows, len(self.classes_), folds)
        return np.log(np.maximum(chances, LEAST))


@dataclass(eq=False, repr=False)
class ModeFilter(RowNames):
    """Classify every row, then replace its name by the most frequent name in a window around it.

    The width of the window is the one with the least mean loss ‖M − N‖²_F on the training
    recordings, whose names come from classifiers that were fitted without their group. Then the
    classifier is fitted to all recordings.

    Parameters
    ----------
    view : Posteriors
        The classifier, its neighbors in time, and the number of folds.

    Attributes
    ----------
    classes_ : array (C,)
        The labels, sorted.
    width_ : int
        Width of the window, in rows.
    """

    view: Posteriors = Posteriors()  # noqa: RUF009

    def fit(self, X: Arrays, y: Arrays, groups: ArrayLike | None = None) -> Self:
        """Tune the width on groups left out, then fit the classifier to all recordings."""
        self.classes_, codes = coded(y)
        labels = Labels(list(map(truth_of, y)), codes, self.classes_)
        found = clone(self.view).fit_transform(X, labels, groups)
        self.width_ = least_loss(_WIDTHS, self._ends, found, y)
        self.view_ = clone(self.view).set_params(n_folds=1).fit(X, labels)
        return self

    def predict(self, X: Arrays) -> list[NDArray]:
        """Return the smoothed names of the rows, (T,) each."""
        rows = self.view_.transform(list(X))
        return [self.classes_[most_frequent(logs.argmax(axis=1), self.width_)] for logs in rows]

    def _ends(self, logs: NDArray, width: int) -> NDArray[np.int64]:
        return Partition.from_runs(most_frequent(logs.argmax(axis=1), width)).change_points


def most_frequent(codes: NDArray[np.int64], width: int) -> NDArray[np.int64]:
    """Return the most frequent code in a window around every row, the least one if several are.

    At the ends of a recording, the window has only the rows that exist.
    """
    votes = np.eye(codes.max() + 1)[codes]
    sums, t = np.vstack([np.zeros(votes.shape[1]), votes.cumsum(axis=0)]), np.arange(len(codes))
    half = width // 2
    window = sums[np.minimum(t + half + 1, len(codes))] - sums[np.maximum(t - half, 0)]
    return window.argmax(axis=1)


@dataclass(eq=False, repr=False)
class RandomConvolutions(BaseEstimator):
    """Convolve the windows around every row with random kernels.

    Each kernel sees one column in windows of one width. It gives two features of a row: the largest
    value of the convolution in the window around this row, and the share of positive values.
    Kernels are as in the paper: 7, 9 or 11 random weights, a random bias and a random dilation. The
    authors use 10,000 kernels for a few hundred whole series. Here, every row is a sample.

    Parameters
    ----------
    n_kernels : int
        Number of kernels, about: all columns and widths have equally many, at least one.
    random_state : int

    References
    ----------
    Dempster, Petitjean & Webb, ROCKET: exceptionally fast and accurate time series classification
    using random convolutional kernels, Data Mining and Knowledge Discovery 34, 2020.
    """

    n_kernels: int = 500
    random_state: int = 0

    def fit(self, X: Arrays, y: Labels) -> Self:
        """Draw kernels for the windows of :class:`metriclearn.views.Windows`, of 11 rows or more
        each."""
        from pyts.transformation import ROCKET

        windows = Windows().fit(X, y)
        self.scale_, n_columns = windows.scale_, X[0].shape[1]
        self.widths_ = sorted({max(_LONGEST, 2 * size + 1) for size in windows.sizes_})
        count = max(1, self.n_kernels // (n_columns * len(self.widths_)))
        seed = np.random.default_rng(self.random_state)
        self.kernels_: list[list[Any]] = [
            [
                ROCKET(count, random_state=int(seed.integers(2**31))).fit(np.zeros((1, width)))
                for _ in range(n_columns)
            ]
            for width in self.widths_
        ]
        return self

    def transform(self, X: Arrays) -> list[NDArray]:
        """Return the standardized rows and their features, (T, P + 2 · kernels) each.

        At the ends of a recording, windows repeat its first or last row.
        """
        return [self._convolved(self.scale_.transform(x)) for x in X]

    def _convolved(self, Z: NDArray) -> NDArray[np.float64]:
        parts = [Z]
        for width, kernels in zip(self.widths_, self.kernels_):
            padded = np.pad(Z, ((width // 2, width // 2), (0, 0)), mode="edge")
            windows = sliding_window_view(padded, width, axis=0)  # (T, P, width)
            parts += [one.transform(windows[:, p].copy()) for p, one in enumerate(kernels)]
        return np.hstack(parts)
