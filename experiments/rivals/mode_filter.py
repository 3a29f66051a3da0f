"""A classifier of rows whose names are smoothed by the most frequent name in a moving window."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone

from metriclearn.estimators.reading.data_sets import DataSets
from metriclearn.estimators.reading.labels import read_groups, read_labeled, read_names
from metriclearn.estimators.scores.without_metric import SegmenterWithoutMetric
from metriclearn.problem import KnownLoss
from metriclearn.problem.named_segments import NamedPartition
from metriclearn.views import Labels, Posteriors
from metriclearn.views.posteriors import same_each_time

_WIDTHS = (1, 3, 5, 7, 11, 15, 21, 31, 45, 63, 91, 127)


@dataclass(eq=False, repr=False)
class ModeFilter(SegmenterWithoutMetric):
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
    classifier_ : fitted classifier
    width_ : int
        Width of the window, in rows.
    """

    view: Posteriors = Posteriors()  # noqa: RUF009

    def fit(self, X: Any, y: Any, groups: ArrayLike | None = None) -> Self:
        """Learn from labeled recordings. A label must mean the same in all recordings."""
        fitted, data, truths = read_labeled(self, X, y, segments=True, partial=True)
        arrays, who = list(data.arrays), type(self).__name__
        codes, fitted.classes_ = read_names(who, y, data, truths)
        units = None if groups is None else read_groups(who, groups, len(truths))
        view, labels = clone(self.view), Labels(truths, codes, fitted.classes_)
        found = [logs.argmax(axis=1) for logs in view.fit_transform(arrays, labels, units)]

        def loss(width: int) -> float:
            smooth = [NamedPartition.from_codes(most_frequent(row, width)) for row in found]
            return float(np.mean(list(map(KnownLoss().squared_norm, smooth, truths))))

        fitted.width_ = min(_WIDTHS, key=loss)
        rows, names = np.vstack(list(map(view.inputs, arrays))), np.concatenate(codes)
        classifier = view.default() if view.classifier is None else clone(view.classifier)
        fitted.classifier_ = classifier.fit(rows[names >= 0], names[names >= 0])
        fitted.windows_ = view.windows_
        self.__dict__ = fitted.__dict__
        return self

    def predict(self, X: Any) -> Any:
        """Return the label of every row, (T,) for each recording."""
        data = self.read_data(X)
        return data.as_passed([self.classes_[one.sample_names] for one in self.segmented(data)])

    def predict_change_points(self, X: Any) -> Any:
        """Return the ends of all segments of every recording, including T."""
        data = self.read_data(X)
        return data.as_passed([one.change_points for one in self.segmented(data)])

    def segmented(self, data: DataSets, n_segments: None = None) -> list[NamedPartition]:
        """Segment every recording. The names of the segments are codes of ``classes_``."""
        found = []
        for array in data.arrays:
            chances = same_each_time(self.classifier_, self.windows_.transform(array))
            codes = self.classifier_.classes_[chances.argmax(axis=1)]
            found.append(NamedPartition.from_codes(most_frequent(codes, self.width_)))
        return found


def most_frequent(codes: NDArray[np.int64], width: int) -> NDArray[np.int64]:
    """Return the most frequent code in a window around every row, the least one if several are.

    At the ends of a recording, the window has only the rows that exist.
    """
    votes = np.eye(codes.max() + 1)[codes]
    sums, t = np.vstack([np.zeros(votes.shape[1]), votes.cumsum(axis=0)]), np.arange(len(codes))
    half = width // 2
    window = sums[np.minimum(t + half + 1, len(codes))] - sums[np.maximum(t - half, 0)]
    return window.argmax(axis=1)
