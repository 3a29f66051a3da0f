"""Windows, a classifier and Viterbi: thirty lines of scikit-learn that many people would write."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.ensemble import ExtraTreesClassifier

from experiments.harness.scoring import least_loss
from metriclearn import Partition
from metriclearn.views import Labels, Windows
from metriclearn.views.posteriors import LEAST, held_out_models, probabilities
from metriclearn.views.windows import typical_length

Arrays = Sequence[NDArray]
PENALTIES = np.geomspace(0.25, 1024.0, 25)  # costs of a change of name, in nats


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
