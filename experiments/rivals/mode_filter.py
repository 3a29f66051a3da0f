"""A classifier of rows whose names are smoothed by the most frequent name in a moving window."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone

from experiments.harness.scoring import least_loss, truth_of
from experiments.rivals.windows import Arrays, RowNames, coded
from metriclearn import Partition
from metriclearn.views import Labels, Posteriors

_WIDTHS = (1, 3, 5, 7, 11, 15, 21, 31, 45, 63, 91, 127)


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
