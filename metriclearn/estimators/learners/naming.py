"""Names of segments whose boundaries are known, by a linear discriminant analysis of rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from metriclearn.datasets.segment_labels import name_classes, runs
from metriclearn.estimators.reading.labels import note_alike, sample_labels
from metriclearn.estimators.scores.name_weights import discriminant
from metriclearn.problem.partition import Partition
from metriclearn.views.neighbors import StandardWindows


@dataclass(frozen=True, eq=False)
class RowNames:
    """Scores of names that are linear in a row. A segment has the name of the largest mean score.

    Attributes
    ----------
    names : array (C,)
        The names as they were given, in the order of their texts.
    weights, intercepts : arrays (C, P) and (C,)
    """

    names: NDArray
    weights: NDArray[np.float64]
    intercepts: NDArray[np.float64]

    @classmethod
    def of_classes(
        cls,
        arrays: Sequence[NDArray],
        labelings: Sequence[Any],
        numbered: bool,
        names: bool | None = None,
    ) -> Self | None:
        """Learn to name segments, if the labels of recordings are classes.

        If ``numbered``, labels that are numbers may count the segments of a recording. With
        ``names``, labels are classes although none may recur.
        """
        labels = [sample_labels(one, len(X)) for one, X in zip(labelings, arrays)]
        given = [one for one in labels if one is not None]
        if len(given) < len(labels):
            return None
        known = [one[one != -1] for one in given]
        spelled = [runs(one) for one in known if len(one)]
        recur = any(len(set(one)) < len(one) for one in spelled)
        texts = all(one.dtype.kind in "SUO" for one in known)
        if not names and (not name_classes(spelled) or (numbered and not recur and not texts)):
            return None
        return cls.learn(arrays, given)

    @classmethod
    def learn(cls, arrays: Sequence[NDArray], labels: Sequence[NDArray]) -> Self:
        """Learn from all labeled rows, in O(T P²) time. The label −1 means unknown."""
        given = [np.asarray(one) for one in labels]
        known = [one != -1 for one in given]
        classes = np.concatenate([one[k] for one, k in zip(given, known)])
        written, first, texts = np.unique(
            classes.astype(str), return_index=True, return_inverse=True
        )
        note_alike(written)
        if len(written) == 1:  # every segment has this name
            return cls(classes[first], np.zeros((1, arrays[0].shape[1])), np.zeros(1))
        scaled = StandardWindows.of(0, arrays)
        rows = np.vstack([scaled.transform(X)[k] for X, k in zip(arrays, known)])
        weights, intercepts = discriminant(rows, written[texts])
        weights = weights / scaled.deviation
        return cls(classes[first], weights, intercepts - weights @ scaled.mean)

    def scores(self, X: NDArray) -> NDArray[np.float64]:
        """Compute the score of every name in every row, (T, C)."""
        return np.asarray(X, dtype=np.float64) @ self.weights.T + self.intercepts

    def of(self, X: NDArray, found: Partition) -> NDArray:
        """Return the name of every segment, as it was given."""
        means = found.pool(np.asarray(X, dtype=np.float64)) / found.sizes[:, None]
        return np.asarray(self.names)[np.argmax(self.scores(means), axis=1)]
