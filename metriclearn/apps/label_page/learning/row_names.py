"""Learn the names of segments on the label page within a moment.

For every row, a linear discriminant analysis of the row and its neighbors gives the probability of
each name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import attrgetter
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from metriclearn.apps.label_page.annotation import Annotation, row_at
from metriclearn.apps.label_page.signals import Recording
from metriclearn.estimators import discriminant
from metriclearn.views import Neighbors

_CONTEXT = 4  # neighbors on each side
_WIDEST = 600  # most features of a row with its neighbors: the covariance costs their square
_MOST_ROWS = 20_000
_LEAST = 1e-3  # least probability: few labels cannot justify less


def names_of_rows(
    recordings: Sequence[Recording], annotations: Mapping[str, Sequence[Annotation]]
) -> tuple[list[str], list[NDArray[np.int64]]]:
    """Return the sorted labels of all rows, and the index of each row's label.

    A row without a label has the index −1.
    """
    labels = sorted(set(map(attrgetter("label"), chain(*annotations.values()))))
    codes = []
    for one in recordings:
        row = np.full(len(one.features), -1)
        for given in annotations.get(one.name, ()):
            if given.kind == "segment":
                rows = slice(row_at(given.start, one.rate), row_at(given.end, one.rate))
                row[rows] = labels.index(given.label)
        codes.append(row)
    # Labels of stretches without a row are left out.
    covering = np.setdiff1d(np.concatenate(codes), [-1])
    places = np.full(len(labels) + 1, -1)
    places[covering] = np.arange(len(covering))
    return [labels[code] for code in covering], [places[row] for row in codes]


@dataclass(frozen=True)
class Names:
    """A learned classifier of rows, with logits that are linear in a row and its neighbors.

    Attributes
    ----------
    names : list of str (C,)
        The names that the classifier can predict.
    windows : windows_ of a fitted view Neighbors
        Joins every row with its neighbors on each side, and standardizes the features.
    weights : array (C, (2·context + 1)·P)
        Weights of the features for every name.
    offsets : array (C,)
        The constant term for every name.
    """

    names: list[str]
    windows: Any
    weights: NDArray
    offsets: NDArray

    @classmethod
    def learn(
        cls, names: Sequence[str], recordings: Sequence[Recording], codes: Sequence[NDArray]
    ) -> Self | None:
        """Learn from labeled rows. Each row is joined with up to four neighbors on each side.

        With four neighbors on each side, learning takes O(n (9 P)²) time for n labeled rows of P
        features. Returns None if fewer than two different names occur.

        Parameters
        ----------
        names : list of str (C,)
            The names to which ``codes`` refers.
        recordings : sequence of Recording
            The recordings.
        codes : sequence of int arrays (T,)
            For every row, the index of its name in ``names``, or −1 if it has no name.
        """
        n_features = recordings[0].features.shape[1]
        context = max(0, min(_CONTEXT, (_WIDEST // n_features - 1) // 2))
        arrays = [one.features[code >= 0] for one, code in zip(recordings, codes)]
        labels = np.concatenate([code[code >= 0] for code in codes])
        present, labels = np.unique(labels, return_inverse=True)
        if len(present) < 2:
            return None
        names = [names[place] for place in present]
        windows = Neighbors(context).fit([array for array in arrays if len(array)]).windows_
        rows = np.vstack([_rows(windows, one, code) for one, code in zip(recordings, codes)])
        # A sample of the rows, the same at every call, and all rows whose names are not in it.
        some = np.random.default_rng(0).permutation(len(rows))[:_MOST_ROWS]
        rare = np.setdiff1d(labels, labels[some])
        some = np.append(some, np.flatnonzero(np.isin(labels, rare)))
        return cls(names, windows, *discriminant(rows[some], labels[some]))

    def probabilities(self, X: NDArray) -> NDArray[np.float64]:
        """Compute a (T, C) array with the probability of every name in every row.

        With four neighbors on each side, this takes O(T · 9 P · C) time. Only O(T · (P + C)) memory
        is needed, because the joined rows are not stored.
        """
        logits = self.windows.scores(X, self.weights) + self.offsets
        return np.maximum(softmax(logits, axis=1), _LEAST)


def _rows(windows: Any, one: Recording, codes: NDArray) -> NDArray:
    """Join every labeled row with its neighbors. The neighbors may be unlabeled."""
    labeled = np.flatnonzero(codes >= 0)
    runs = np.split(labeled, np.flatnonzero(np.diff(labeled) > 1) + 1) if len(labeled) else []
    parts = [np.zeros((0, (2 * windows.context + 1) * one.features.shape[1]))]
    for run in runs:
        first, stop = max(run[0] - windows.context, 0), run[-1] + 1 + windows.context
        parts.append(windows.transform(one.features[first:stop])[run - first])
    return np.vstack(parts)
