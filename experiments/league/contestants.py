"""Short methods of the league that are not in the package."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Any, Self

import numpy as np
from hydra.utils import get_class
from numpy.typing import ArrayLike, NDArray
from scipy.stats import multivariate_normal
from sklearn.base import BaseEstimator, clone
from sklearn.preprocessing import StandardScaler

from experiments.harness.scoring import least_loss
from metriclearn import Partition, PenaltyLearner
from metriclearn.estimators.data_sets import DataSets, read_data_sets
from metriclearn.problem.named_segments import NamedPartition

Arrays = Sequence[NDArray]


@dataclass(eq=False, repr=False)
class HiddenMarkov(BaseEstimator):
    """A hidden Markov model fitted to labels, with Gaussian classes, counted transitions and
    Viterbi.

    Parameters
    ----------
    shrinkage : float
        Shrinkage of each class's covariance towards the identity, for standardized features.
    """

    shrinkage: float = 0.1

    def fit(self, X: Arrays, y: Arrays) -> Self:
        """Estimate means and covariances of the classes, and transitions from counts plus one."""
        names = np.concatenate(y)
        self.scaler_ = StandardScaler().fit(np.vstack(X))
        rows, self.gaussians_ = self.scaler_.transform(np.vstack(X)), []
        self.classes_ = np.unique(names)
        for name in self.classes_:
            Z = rows[names == name]
            covariance = np.cov(Z.T, bias=True) * (1 - self.shrinkage)
            covariance += self.shrinkage * np.eye(rows.shape[1])
            self.gaussians_.append(multivariate_normal(Z.mean(axis=0), covariance))
        codes = [np.searchsorted(self.classes_, labels) for labels in y]
        self.first_ = np.log(np.bincount(np.concatenate(codes)) / len(names))
        counts = np.ones((len(self.classes_),) * 2)
        for code in codes:
            np.add.at(counts, (code[:-1], code[1:]), 1.0)
        self.transitions_ = np.log(counts / counts.sum(axis=1, keepdims=True))
        return self

    def predict(self, X: Arrays) -> list[NDArray]:
        """Return the most probable names, in O(T C²) for T rows and C names."""
        return [self.classes_[self._viterbi(x)] for x in X]

    def predict_change_points(self, X: Arrays) -> list[NDArray]:
        """Return the ends of the runs of equal predicted names."""
        return [Partition.from_runs(labels).change_points for labels in self.predict(X)]

    def _viterbi(self, x: NDArray) -> NDArray[np.int64]:
        Z = self.scaler_.transform(x)
        logs = np.column_stack([gaussian.logpdf(Z) for gaussian in self.gaussians_])
        best, back = logs[0] + self.first_, np.zeros(logs.shape, dtype=int)
        for t in range(1, len(logs)):
            paths = best[:, None] + self.transitions_
            back[t] = np.argmax(paths, axis=0)
            best = np.max(paths, axis=0) + logs[t]
        codes = [int(np.argmax(best))]
        for t in range(len(logs) - 1, 0, -1):
            codes.append(back[t, codes[-1]])
        return np.array(codes[::-1])


@dataclass(eq=False, repr=False)
class TextTiling(BaseEstimator):
    """Set boundaries where the last feature has deep valleys.

    This feature is the similarity of the text before a row to the text after it.

    The depth of a valley is the sum of its distances from the peaks on both sides (Hearst,
    TextTiling, Computational Linguistics 23, 1997). How deep a valley must be to become a boundary
    is tuned on training data.
    """

    def fit(self, X: Arrays, y: Arrays) -> Self:
        """Try thirty depths."""
        self.depth_ = least_loss(np.linspace(0.0, 0.6, 30), self._cut, X, y)
        return self

    def predict_change_points(self, X: Arrays) -> list[NDArray]:
        """Return the ends of the predicted segments."""
        return [self._cut(x, self.depth_) for x in X]

    def _cut(self, x: NDArray, least: float) -> NDArray[np.int64]:
        v, ends = x[:, -1], []
        for t in range(1, len(v)):
            left, right = t, t
            while left > 1 and v[left - 1] >= v[left]:
                left -= 1
            while right < len(v) - 1 and v[right + 1] >= v[right]:
                right += 1
            lowest = v[t] <= v[max(t - 1, 1)] and v[t] <= v[min(t + 1, len(v) - 1)]
            if lowest and v[left] + v[right] - 2 * v[t] > least:
                ends.append(t)
        return np.array([*ends, len(v)])


@dataclass(eq=False, repr=False)
class BinarySegmentation(BaseEstimator):
    """Split standardized features greedily, as long as a split gains more than a penalty (BinSeg).

    The penalty is a multiple of features · log(rows), tuned on training data.
    """

    def fit(self, X: Arrays, y: Arrays) -> Self:
        """Try forty penalties, and keep the one with the least loss on the training data."""
        self.scaler_ = StandardScaler().fit(np.vstack(X))
        splits = [self._splits(x) for x in X]
        self.factor_ = least_loss(np.geomspace(0.01, 300.0, 40), _taken, splits, y)
        return self

    def predict_change_points(self, X: Arrays) -> list[NDArray]:
        """Return the ends of the predicted segments."""
        return [_taken(self._splits(x), self.factor_) for x in X]

    def _splits(self, x: NDArray) -> NDArray[np.float64]:
        """Return up to 300 splits, (n, 2): the gain / (features · log(rows + 1)) of each split, and
        its position. The last row is the end of the series, with gain 0."""
        Z = self.scaler_.transform(x)
        sums = np.vstack([np.zeros(Z.shape[1]), np.cumsum(Z, axis=0)])
        unit = Z.shape[1] * np.log(len(Z) + 1)

        def best(a: int, b: int) -> tuple[float, int, int, int]:
            t = np.arange(a + 1, b)
            if not len(t):
                return (np.inf, a, a, b)
            n, m = (t - a)[:, None], (b - t)[:, None]
            gap = (sums[t] - sums[a]) / n - (sums[b] - sums[t]) / m
            gains = np.sum(gap**2, axis=1) * (t - a) * (b - t) / (b - a)
            return (-float(gains.max()) / unit, int(t[gains.argmax()]), a, b)

        found: list[tuple[float, int]] = []
        heap = [best(0, len(Z))]
        while heap and heap[0][0] < 0 and len(found) < 300:
            gain, t, a, b = heappop(heap)
            found.append((-gain, t))
            heappush(heap, best(a, t))
            heappush(heap, best(t, b))
        return np.array([*found, (0.0, len(Z))])


def _taken(splits: NDArray, factor: float) -> NDArray[np.int64]:
    """Take splits in their order, up to the first one whose gain does not exceed ``factor``.
    Returns the ends of the segments between these splits."""
    stop = int(np.argmax(splits[:, 0] <= factor))
    return np.append(np.sort(splits[:stop, 1]), splits[-1, 1]).astype(np.int64)


@dataclass(eq=False, repr=False)
class Member(BaseEstimator):
    """Wraps a fitted model, so that it can be a member of a consensus. The model only needs
    ``predict_change_points``.

    Parameters
    ----------
    model : fitted segmenter
        If the model has ``classes_`` and ``predict``, its names are used, too.
    """

    model: Any

    def __post_init__(self) -> None:
        if getattr(self.model, "classes_", None) is not None:
            self.classes_ = self.model.classes_

    def fit(self, X: Arrays, y: Arrays) -> Self:
        """Fit the model again."""
        self.model.fit(X, y)
        return self

    def read_data(self, X: Any) -> DataSets:
        """Return the data sets unchanged."""
        return read_data_sets(type(self).__name__, X)

    def segmented(self, data: DataSets, n_segments: Any = None) -> list[Partition]:
        """Return the segmentations that the model predicts. ``n_segments`` is ignored."""
        if not hasattr(self, "classes_"):
            return [Partition(ends=ends) for ends in self.model.predict_change_points(data.arrays)]
        found: list[Partition] = []
        for labels in self.model.predict(data.arrays):
            ends = Partition.from_runs(labels).change_points
            found.append(NamedPartition(ends, np.searchsorted(self.classes_, labels[ends - 1])))
        return found


@dataclass(eq=False, repr=False)
class Stranger(BaseEstimator):
    """A method from outside this project: a class with ``fit(X, y)`` and
    ``predict_change_points(X)``.

    If the class also has ``classes_`` and ``predict(X)``, the names that it predicts are scored,
    too.

    Parameters
    ----------
    path : str
        Path of the class, such as ``module.Class``, which is called without arguments.
    """

    path: str

    def fit(self, X: Arrays, y: Arrays) -> Self:
        """Make a new instance and fit it."""
        self.model_ = get_class(self.path)()
        self.model_.fit(X, y)
        self.classes_ = getattr(self.model_, "classes_", None)
        return self

    def predict(self, X: Arrays) -> list[NDArray]:
        """Return the names that the model predicts."""
        return self.model_.predict(X)

    def predict_change_points(self, X: Arrays) -> list[NDArray]:
        """Return the ends of the segments that the model predicts."""
        return self.model_.predict_change_points(X)


@dataclass(eq=False, repr=False)
class LearnedPenalty(BaseEstimator):
    """Learns a metric, then a penalty for each sequence. The penalty is predicted from the sequence
    transformed by the metric.

    Parameters
    ----------
    segmenter : segmenter with a metric
    penalty : PenaltyLearner
        The ``max_segments`` of this learner is set to three times the largest number of segments in
        training.
    """

    segmenter: Any
    penalty: Any = PenaltyLearner()  # noqa: RUF009

    def fit(self, X: Arrays, y: Arrays, groups: ArrayLike | None = None) -> Self:
        """Fit the metric, then the penalty."""
        self.segmenter_ = clone(self.segmenter).fit(X, y)
        self.components_ = self.segmenter_.components_
        truths = [Partition.from_runs(labels) for labels in y]
        most = 3 * max(truth.n_clusters for truth in truths)
        self.penalty_learner_ = clone(self.penalty).set_params(max_segments=most)
        if len(self.components_):
            self.penalty_learner_.fit([self.segmenter_.transform(x) for x in X], truths)
        return self

    def predict_change_points(self, X: Arrays) -> list[NDArray]:
        """Return the ends of the predicted segments. A zero metric gives a single segment."""
        if not len(self.components_):
            return [np.array([len(x)]) for x in X]
        return self.penalty_learner_.predict_change_points(
            [self.segmenter_.transform(x) for x in X]
        )
