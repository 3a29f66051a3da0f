"""Methods that only find boundaries: a supervised classifier, and methods that use no names."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import eigh
from sklearn.base import BaseEstimator
from sklearn.decomposition import PCA
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from experiments.harness.scoring import least_loss, truth_of
from experiments.rivals.windows import Arrays, owners
from metriclearn import Partition
from metriclearn.indices import near
from metriclearn.views.posteriors import LEAST, held_out_models, probabilities
from metriclearn.views.windows import typical_length, widths_for

_NARROWEST = 10  # subsequences that claspy searches begin with this width
_NEAR = 1  # a position at most this many rows from a change counts as a boundary


class TunedCut(BaseEstimator, ABC):
    """Base of methods that cut a curve of every recording.

    One option of the cut, such as a threshold, has the least mean loss ‖M − N‖² on training data.
    """

    options: ClassVar[Sequence[Any] | NDArray]

    def prepare(self, X: Arrays, y: Arrays) -> None:
        """Learn what a curve depends on. By default there is nothing to learn."""

    @abstractmethod
    def curve(self, x: NDArray) -> NDArray[np.float64]:
        """Compute the curve of a recording."""

    @abstractmethod
    def cut(self, curve: NDArray, option: Any) -> NDArray[np.int64]:
        """Return the ends of the segments."""

    def fit(self, X: Arrays, y: Arrays) -> Self:
        """Try all options."""
        self.prepare(X, y)
        self.option_ = least_loss(self.options, self.cut, list(map(self.curve, X)), y)
        return self

    def predict_change_points(self, X: Arrays) -> list[NDArray]:
        """Return the ends of the predicted segments."""
        return [self.cut(self.curve(x), self.option_) for x in X]


@dataclass(eq=False, repr=False)
class BoundaryClassifier(BaseEstimator):
    """Classify every position as boundary or not, then take the best boundaries.

    The classifier sees the row at a position. For every width w, the mean of the w rows before the
    position is compared with the mean of the w rows from the position on. The classifier also sees
    the absolute differences of these two means, and their norm. The classifier gives the
    probability p_t that a boundary is near t. The boundaries S maximize Σ_{t in S} (logit p_t − θ),
    with at least d rows between them. The Viterbi algorithm finds these boundaries. θ and d are the
    pair with the least mean ‖M − N‖² on groups left out.

    Parameters
    ----------
    classifier : classifier of scikit-learn, optional
        Extra trees by default.
    widths : sequence of int, optional
        Numbers of rows on either side. A boundary at most one row away is near. By default both
        follow from the median length of a segment: widths are as by default in
        :class:`metriclearn.views.Windows`, and near is an eighth of this length.
    n_folds : int
    """

    classifier: Any = None
    widths: Sequence[int] | None = None
    n_folds: int = 2

    def fit(self, X: Arrays, y: Arrays, groups: ArrayLike | None = None) -> Self:
        """Tune θ and d on groups left out, then fit to all recordings."""
        trees = ExtraTreesClassifier(100, min_samples_leaf=5, random_state=0)
        classifier = trees if self.classifier is None else self.classifier
        self.scaler_ = StandardScaler().fit(np.vstack(X))
        truths: list[Any] = [truth_of(labels) for labels in y]
        typical, automatic = typical_length(self, truths), self.widths is None
        self.widths_ = self.widths or widths_for(typical, X[0].shape[1])
        tolerance = max(_NEAR, int(typical / 8)) if automatic else _NEAR
        rows, places = [self._rows(x) for x in X], [np.arange(1, len(x)) for x in X]
        changes = [truth.change_points[:-1] for truth in truths]
        marks = [near(*pair, tolerance).astype(int) for pair in zip(places, changes)]
        fit = partial(held_out_models, classifier, rows, marks, owners(groups, len(X)))
        self.models_, folds = fit(self.n_folds)
        logits = list(map(self._logits, rows, folds))
        distances = sorted({1, max(1, round(typical / 4)), max(1, round(typical / 2))})
        thresholds = np.quantile(np.concatenate(logits), np.linspace(0.3, 0.995, 24))
        pairs = list(product(thresholds.tolist(), distances))
        self.chosen_ = least_loss(pairs, _cut, logits, y)
        self.models_, _ = fit(1)
        return self

    def predict_change_points(self, X: Arrays) -> list[NDArray]:
        """Return the ends of the predicted segments."""
        return [_cut(self._logits(self._rows(x)), self.chosen_) for x in X]

    def _logits(self, rows: NDArray, folds: NDArray | None = None) -> NDArray[np.float64]:
        p = np.clip(probabilities(self.models_, rows, 2, folds)[:, 1], LEAST, 1 - LEAST)
        return np.log(p / (1 - p))

    def _rows(self, x: NDArray) -> NDArray[np.float64]:
        """Return one row of features for each position 1, …, T − 1."""
        Z = self.scaler_.transform(x)
        sums = np.vstack([np.zeros(Z.shape[1]), np.cumsum(Z, axis=0)])
        t, parts = np.arange(1, len(Z)), [Z[1:]]
        for width in self.widths_:
            a, b = np.maximum(t - width, 0), np.minimum(t + width, len(Z))
            before = (sums[t] - sums[a]) / (t - a)[:, None]
            gap = np.abs((sums[b] - sums[t]) / (b - t)[:, None] - before)
            parts += [gap, np.linalg.norm(gap, axis=1)[:, None]]
        return np.hstack(parts)


def _cut(logits: NDArray, pair: tuple[float, int]) -> NDArray[np.int64]:
    """Choose the best segment ends. ``pair`` has the threshold θ and the minimum distance d."""
    return best_boundaries(logits - pair[0], pair[1])


def best_boundaries(gains: NDArray, distance: int) -> NDArray[np.int64]:
    """Choose the positions with the largest total gain among positions that are at least
    ``distance`` apart.

    The chosen positions are returned as segment ends, followed by n + 1.
    """
    n, values = len(gains), gains.tolist()
    best, taken = [0.0] * (n + 1), [False] * (n + 1)
    for t in range(1, n + 1):
        with_t = best[max(t - distance, 0)] + values[t - 1]
        taken[t] = with_t > best[t - 1]
        best[t] = max(with_t, best[t - 1])
    ends, t = [n + 1], n
    while t > 0:
        if taken[t]:
            ends.append(t)
        t = max(t - distance, 0) if taken[t] else t - 1
    return np.array(ends[::-1])


@dataclass(eq=False, repr=False)
class OrdinalDiscriminants(BaseEstimator):
    """Ordinal linear discriminant analysis: separates neighboring segments and contracts each
    segment.

    ``components_`` are the leading generalized eigenvectors of two scatter matrices. The first
    matrix is the scatter of the means of two neighboring segments around their common mean. The
    second matrix is the scatter within segments.

    Parameters
    ----------
    n_components : int
    shrinkage : float
        Weight of the identity in the scatter within segments, for standardized features.

    References
    ----------
    McFee & Ellis, Learning to segment songs with ordinal linear discriminant analysis, ICASSP 2014.
    """

    n_components: int = 5
    shrinkage: float = 0.1

    def fit(self, X: Arrays, y: Sequence[Partition]) -> Self:
        """Fit ``components_``, in O(T P² + P³)."""
        scale = np.vstack(X).std(axis=0)
        scale[scale == 0] = np.inf
        P = len(scale)
        within, between = np.zeros((P, P)), np.zeros((P, P))
        for x, truth in zip(X, y):
            Z, sizes = x / scale, truth.sizes[:, None]
            means = np.array([part.mean(axis=0) for part in np.split(Z, truth.change_points[:-1])])
            rest = Z - np.repeat(means, truth.sizes, axis=0)
            within += rest.T @ rest
            steps = np.diff(means, axis=0)
            weights = sizes[:-1] * sizes[1:] / (sizes[:-1] + sizes[1:])
            between += steps.T @ (weights * steps)
        within /= sum(map(len, X))
        within = (1 - self.shrinkage) * within + self.shrinkage * np.eye(P)
        _, vectors = eigh(between, within)
        self.components_ = vectors[:, ::-1][:, : self.n_components].T / scale
        return self


@dataclass(eq=False, repr=False)
class ArcCurve(TunedCut):
    """FLUSS: arcs join subsequences to their nearest neighbors; few arcs cross a boundary.

    The curve of arcs, corrected for the edges, is averaged over the leading principal components.
    Valleys of this curve below a threshold are boundaries, which are at least ``width`` apart. The
    threshold is tuned on training data.

    Parameters
    ----------
    width : int
        Rows of a subsequence.
    n_components : int

    References
    ----------
    Gharghabi et al., Domain agnostic online semantic segmentation at superhuman performance levels,
    ICDM 2017.
    """

    width: int = 10
    n_components: int = 3

    options = np.linspace(0.0, 1.0, 40)

    def prepare(self, X: Arrays, y: Arrays) -> None:
        """Find the principal components."""
        self.columns_ = principal_components(X, self.n_components)

    def curve(self, x: NDArray) -> NDArray[np.float64]:
        """Compute the corrected curve of arcs at every row, (T,). The curve is 1 if there are too
        few rows."""
        m, T = self.width, len(x)
        if 4 * m > T:
            return np.ones(T)
        curves = [_arcs(column, m) for column in self.columns_.transform(x).T]
        return np.append(np.mean(curves, axis=0), np.ones(m - 1))

    def cut(self, curve: NDArray, threshold: float) -> NDArray[np.int64]:
        """Take the lowest valleys first."""
        free, ends = curve < threshold, []
        while free.any():
            t = int(np.argmin(np.where(free, curve, np.inf)))
            ends.append(t)
            free[max(t - self.width, 0) : t + self.width + 1] = False
        return np.array([*sorted(ends), len(curve)])


def principal_components(X: Arrays, n_components: int) -> Any:
    """Fit the leading principal components of standardized rows."""
    rows = np.vstack(X)
    count = min(n_components, rows.shape[1])
    return make_pipeline(StandardScaler(), PCA(count, random_state=0)).fit(rows)


def _arcs(values: NDArray, m: int) -> NDArray[np.float64]:
    """Count the arcs over each of n = T − m + 1 positions. The number is divided by its
    expectation, and is at most 1. Cost O(n²)."""
    windows = np.lib.stride_tricks.sliding_window_view(values, m)
    Z = windows - windows.mean(axis=1, keepdims=True)
    Z = Z / np.maximum(np.linalg.norm(Z, axis=1, keepdims=True), 1e-12)
    n = len(Z)
    t = np.arange(n)
    likeness = np.where(np.abs(t[:, None] - t) > m // 4, Z @ Z.T, -np.inf)
    nearest = likeness.argmax(axis=1)
    marks = np.zeros(n + 1)
    np.add.at(marks, np.minimum(t, nearest), 1)
    np.add.at(marks, np.maximum(t, nearest), -1)
    expected = np.maximum(2 * t * (n - t) / n, 1e-12)
    curve = np.minimum(np.cumsum(marks)[:n] / expected, 1.0)
    curve[:m] = curve[-m:] = 1.0
    return curve


@dataclass(eq=False, repr=False)
class ScoreProfile(TunedCut):
    """ClaSP: cut where a classifier by nearest neighbors tells subsequences on both sides apart.

    Both parts are divided again. By the authors' settings, the width of subsequences follows from
    each recording, and a test of significance decides when to stop. The other option is the number
    of segments of a recording whose segments are as long as labeled ones on average. The option
    with less loss on training data is taken. If there are several features, ClaSP sees their
    leading principal components.

    Parameters
    ----------
    n_components : int

    References
    ----------
    Ermshaus, Schäfer & Leser, ClaSP: parameter-free time series segmentation, Data Mining and
    Knowledge Discovery 37, 2023.
    """

    n_components: int = 3

    options = ("learned", "as long as labeled")

    def prepare(self, X: Arrays, y: Arrays) -> None:
        """Find the principal components, and the mean length of labeled segments."""
        self.columns_ = principal_components(X, self.n_components)
        truths: list[Any] = list(map(truth_of, y))
        self.length_ = sum(map(len, X)) / sum(truth.n_clusters for truth in truths)

    def curve(self, x: NDArray) -> NDArray[np.float64]:
        """Return the principal components of every row, (T, n_components)."""
        return self.columns_.transform(x)

    def cut(self, curve: NDArray, option: str) -> NDArray[np.int64]:
        """Segment the principal components."""
        from experiments.rivals.compiled_clasp import BinaryClaSPSegmentation

        given: dict[str, Any] = {}
        if option != "learned":
            count = max(1, round(len(curve) / self.length_))
            given = {"n_segments": count, "validation": None}
        try:
            changes = BinaryClaSPSegmentation(**given, n_jobs=1).fit_predict(curve)
        except OverflowError:  # the search for a width does not end, as on some short recordings
            given["window_size"] = _NARROWEST
            changes = BinaryClaSPSegmentation(**given, n_jobs=1).fit_predict(curve)
        return np.append(changes, len(curve)).astype(np.int64)
