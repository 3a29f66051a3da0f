"""Short methods of the league that are not in the package."""

from __future__ import annotations

import importlib.util
import inspect
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import multivariate_normal
from sklearn.base import BaseEstimator, clone
from sklearn.preprocessing import StandardScaler

from experiments.harness.comparison import fit_in_groups
from experiments.rivals.boundaries import TunedCut
from experiments.rivals.windows import Arrays, RowNames, coded, smoothed, tuned_penalty
from metriclearn import Partition, PenaltyLearner, Segmenter, WhitenedMetricLearner
from metriclearn.estimators import default_members
from metriclearn.estimators.reading.data_sets import DataSets, read_data_sets
from metriclearn.problem.named_segments import NamedPartition, NameScores
from metriclearn.views.posteriors import LEAST


@dataclass(eq=False, repr=False)
class HiddenMarkov(RowNames):
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
        self.classes_, codes = coded(y)
        self.scaler_, names = StandardScaler().fit(np.vstack(X)), np.concatenate(codes)
        rows, self.gaussians_ = self.scaler_.transform(np.vstack(X)), []
        for name in range(len(self.classes_)):
            Z = rows[names == name]
            covariance = np.cov(Z.T, bias=True) * (1 - self.shrinkage)
            covariance += self.shrinkage * np.eye(rows.shape[1])
            self.gaussians_.append(multivariate_normal(Z.mean(axis=0), covariance))
        self.first_ = np.log(np.bincount(names) / len(names))
        counts = np.ones((len(self.classes_),) * 2)
        for code in codes:
            np.add.at(counts, (code[:-1], code[1:]), 1.0)
        self.transitions_ = np.log(counts / counts.sum(axis=1, keepdims=True))
        return self

    def predict(self, X: Arrays) -> list[NDArray]:
        """Return the most probable names, in O(T C²) for T rows and C names."""
        return [self.classes_[self._viterbi(x)] for x in X]

    def _viterbi(self, x: NDArray) -> NDArray[np.int64]:
        Z = self.scaler_.transform(x)
        logs = np.column_stack([gaussian.logpdf(Z) for gaussian in self.gaussians_])
        logs[0] += self.first_
        scores = NameScores.of(logs, transitions=-self.transitions_)
        return scores.names_of(np.arange(1, len(logs) + 1))  # every row may change the name


@dataclass(eq=False, repr=False)
class TextTiling(TunedCut):
    """Set boundaries where the last feature has deep valleys.

    This feature is the similarity of the text before a row to the text after it.

    The depth of a valley is the sum of its distances from the peaks on both sides (Hearst,
    TextTiling, Computational Linguistics 23, 1997). How deep a valley must be to become a boundary
    is tuned on training data.
    """

    options = np.linspace(0.0, 0.6, 30)

    def curve(self, x: NDArray) -> NDArray[np.float64]:
        """Return the last feature."""
        return x[:, -1]

    def cut(self, v: NDArray, least: float) -> NDArray[np.int64]:
        """Take all valleys that are deeper than ``least``."""
        ends = []
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
class BinarySegmentation(TunedCut):
    """Split standardized features greedily, as long as a split gains more than a penalty (BinSeg).

    The penalty is a multiple of features · log(rows), tuned on training data.
    """

    options = np.geomspace(0.01, 300.0, 40)

    def prepare(self, X: Arrays, y: Arrays) -> None:
        """Learn the scale of the features."""
        self.scaler_ = StandardScaler().fit(np.vstack(X))

    def curve(self, x: NDArray) -> NDArray[np.float64]:
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

    def cut(self, splits: NDArray, factor: float) -> NDArray[np.int64]:
        """Take splits in their order, up to the first one whose gain does not exceed ``factor``."""
        stop = int(np.argmax(splits[:, 0] <= factor))
        return np.append(np.sort(splits[:stop, 1]), splits[-1, 1]).astype(np.int64)


@dataclass(eq=False, repr=False)
class Member(BaseEstimator):
    """Wraps a model, so that it can be a member of a consensus. The model only needs ``fit`` and
    ``predict_change_points``.

    Parameters
    ----------
    model : segmenter
        If the fitted model has ``classes_`` and ``predict``, its names are used, too.
    """

    model: Any

    def __post_init__(self) -> None:
        if getattr(self.model, "classes_", None) is not None:
            self.classes_ = self.model.classes_

    def fit(self, X: Arrays, y: Arrays, groups: ArrayLike | None = None) -> Self:
        """Fit the model."""
        fit_in_groups(self.model, X, list(map(np.asarray, y)), groups)
        self.__post_init__()
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
class Contestant(RowNames):
    """A method from outside this project: a class with ``fit(X, y)`` and ``predict(X)``.

    ``predict`` returns a label for every row of every recording. Runs of equal labels are segments.
    If the class also has ``predict_change_points(X)``, this method returns the segment ends
    instead. If ``fit`` has a parameter ``groups``, it gets the group of every recording.

    Parameters
    ----------
    file : str
        The Python file of the class, which is called without arguments. ``FILE:CLASS`` chooses one
        of several classes.

    Raises
    ------
    ValueError
        If the file does not exist, or has no such class.
    """

    file: str

    @property
    def kind(self) -> type:
        """The class. Its file is imported once."""
        file, _, wanted = self.file.partition(":")
        own = [
            kind
            for kind in vars(_imported(file)).values()
            if inspect.isclass(kind) and kind.__module__ == _module_of(file)
        ]
        found = [kind for kind in own if hasattr(kind, "fit") and hasattr(kind, "predict")]
        found = [kind for kind in found if kind.__name__ == wanted or not wanted]
        if len(found) != 1:
            raise ValueError(
                f"contestant={self.file} needs one class with fit and predict, got "
                f"{[kind.__name__ for kind in found]}; name it as contestant={file}:CLASS."
            )
        return found[0]

    def fit(self, X: Arrays, y: Arrays, groups: ArrayLike | None = None) -> Self:
        """Make a new instance and fit it."""
        self.model_, self.classes_ = self.kind(), np.unique(np.concatenate(y))
        fit_in_groups(self.model_, _copies(X), _copies(y), groups)
        return self

    def predict(self, X: Arrays) -> list[NDArray]:
        """Return the labels that the model predicts."""
        found = list(map(np.asarray, self.model_.predict(_copies(X))))
        counts = [len(one) if one.ndim == 1 else None for one in found]
        self._check("predict", "a label for each row", counts, X)
        return found

    def predict_change_points(self, X: Arrays) -> list[NDArray]:
        """Return the ends of the segments that the model predicts."""
        if not hasattr(self.model_, "predict_change_points"):
            return super().predict_change_points(X)
        found = list(map(np.asarray, self.model_.predict_change_points(_copies(X))))
        last = [int(one[-1]) if one.ndim == 1 and len(one) else None for one in found]
        self._check("predict_change_points", "ends up to the number of rows", last, X)
        return found

    def _check(self, method: str, what: str, found: list[int | None], X: Arrays) -> None:
        sizes = list(map(len, X))
        if found != sizes:
            raise ValueError(
                f"{type(self.model_).__name__}.{method} needs to return {what}, for each of "
                f"{len(X)} recordings, got {found[:3]} where there are {sizes[:3]} rows."
            )


def _copies(X: Arrays) -> list[NDArray]:
    """Copy rows or labels, which other fits and the score need unchanged."""
    return [np.array(x) for x in X]


def _module_of(file: str) -> str:
    """Return the name under which a file is imported, so that fitted models can be stored."""
    return f"contestant_{Path(file).stem}"


def _imported(file: str) -> Any:
    """Import a Python file. It may import its neighbors."""
    path, name = Path(file).resolve(), _module_of(file)
    if name in sys.modules and sys.modules[name].__file__ == str(path):
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path) if path.is_file() else None
    if spec is None or spec.loader is None:
        raise ValueError(f"contestant={file} needs a Python file, got no such file.")
    sys.path.append(str(path.parent))
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


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


@dataclass(eq=False, repr=False)
class MetricAlone(BaseEstimator):
    """A Segmenter whose members have one kind of metric, so that kinds can be compared.

    It uses the default views that need no classifier: rows in the scale of all recordings, rows in
    the scale of each recording, and windows around the latter. Penalties, weights and the
    compromise are computed as by the Segmenter.

    Parameters
    ----------
    learners : list of learners of a metric
        The members of every view, for example one for each strength of a regularizer.
    """

    learners: Sequence[Any]

    def fit(self, X: Arrays, y: Arrays, groups: ArrayLike | None = None) -> Self:
        """Fit the segmenter."""
        families = {
            member.family.rpartition(", ")[0]: [
                member._replace(learner=learner) for learner in self.learners
            ]
            for (member,) in default_members(n_features=X[0].shape[1]).values()
            if isinstance(member.learner, WhitenedMetricLearner)  # no classifier precedes it
        }
        self.segmenter_ = Segmenter(families, names=False, verbose=False).fit(X, y, groups)
        return self

    def predict_change_points(self, X: Arrays) -> list[NDArray]:
        """Return the ends of the predicted segments."""
        return self.segmenter_.predict_change_points(list(X))


@dataclass(eq=False, repr=False)
class SampleVote(RowNames):
    """The members and weights of a Segmenter, combined sample by sample instead of as partitions.

    Each member that predicts names votes for the name of every sample with its weight. The Viterbi
    algorithm smooths the logarithms of the shares of votes. Its penalty has the least mean loss
    ‖M − N‖²_F on the training recordings, for which only models vote that were fitted without them.

    Parameters
    ----------
    segmenter : Segmenter
    """

    segmenter: Any

    def fit(self, X: Arrays, y: Arrays, groups: ArrayLike | None = None) -> Self:
        """Fit the segmenter, then tune the penalty."""
        self.segmenter_ = clone(self.segmenter).fit(X, y, groups)
        self.classes_ = self.segmenter_.classes_
        if self.classes_ is None:
            raise ValueError("SampleVote needs members that predict names, got none; add one.")
        parts, logs = self.segmenter_.cross_fit_.parts, list[NDArray](X)
        for part, left_out in enumerate(parts.left_out):
            for i in left_out.tolist():
                logs[i] = self._logs(X[i], (part, len(parts)))
        self.penalty_ = tuned_penalty(logs, y)
        return self

    def predict(self, X: Arrays) -> list[NDArray]:
        """Return the smoothed names, (T,) each."""
        return [self.classes_[smoothed(self._logs(x), self.penalty_)] for x in X]

    def _logs(self, x: NDArray, fit: tuple[int, int] | None = None) -> NDArray[np.float64]:
        """Compute the logarithms of the shares of votes, (T, C). All models vote or, with ``fit`` =
        (k, n), the k-th of the n models of every member."""
        agreement = self.segmenter_.agreement_
        weights = getattr(agreement, "name_weights", None)
        weights = agreement.weights if weights is None else weights
        votes = np.zeros((len(x), len(self.classes_)))
        for j, (found, q) in enumerate(zip(agreement.form(x).members, weights)):
            mine = fit is None or agreement.fits[j] % fit[1] == fit[0]
            if mine and isinstance(found, NamedPartition):
                votes[np.arange(len(x)), found.sample_names] += q
        return np.log(np.maximum(votes / votes.sum(axis=1, keepdims=True), LEAST))
