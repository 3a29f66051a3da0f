"""Cases in which test recordings have names that training never saw, and a metric for such cases.

A classifier knows only the names of training, so it always names a segment with a new name wrongly.
But for a segment with a new name, the classifier gives the known names a new mixture of
probabilities. So these probabilities are good features for a metric.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.utils import check_random_state

from experiments.harness.comparison import cut, group_folds
from metriclearn import Partition
from metriclearn.datasets import LabeledSequences
from metriclearn.estimators.data_sets import DataSets, read_data_sets
from metriclearn.estimators.labelings import read_labelings
from metriclearn.estimators.scores.segment_score import tuned_penalty
from metriclearn.views import Labels, Posteriors

Arrays = Sequence[NDArray]


def name_parts(
    data: LabeledSequences, n_parts: int, always: Sequence[str], seed: int
) -> list[list[str]]:
    """Divide the names at random into parts. Names in ``always`` are in no part, because they are
    never removed."""
    names = {str(name) for labels in data.labels for name in np.unique(labels.astype(str))}
    order = check_random_state(seed).permutation(sorted(names - set(always)))
    return [sorted(map(str, order[i::n_parts])) for i in range(n_parts)]


def cut_out(data: LabeledSequences, names: Sequence[str]) -> LabeledSequences | None:
    """Remove the samples of some names from recordings, and join the stretches that remain.

    Recordings without a boundary are left out. Returns None if fewer than two recordings are left.
    """
    kept = [~np.isin(labels.astype(str), list(names)) for labels in data.labels]
    some = [
        i for i, (labels, mask) in enumerate(zip(data.labels, kept)) if len(set(labels[mask])) > 1
    ]
    if len(some) < 2:
        return None
    return cut(data, {i: kept[i] for i in some})


def without_parts(
    train: LabeledSequences, unseen: Mapping[str, Any], n_folds: int, seed: int
) -> Iterator[tuple[str, LabeledSequences, list[tuple[Any, Any]]]]:
    """Cut each part of the names out of the training recordings in turn, and yield what remains.

    The data to fit to in a fold also lose one part of the remaining names, if this leaves two
    recordings. So the held-out data have names that are new to the models, like the test data.

    Parameters
    ----------
    train : LabeledSequences
    unseen : mapping
        ``parts`` is the number of parts of the names. ``turns`` is the number of parts that are
        left out, one after another. ``always`` lists the names that are never left out.
    n_folds : int
    seed : int

    Yields
    ------
    For each part, three things: a text that lists the names that are left out, the training data
    without these names, and the folds of these data.
    """
    always = unseen["always"]
    for names in name_parts(train, unseen["parts"], always, seed)[: unseen["turns"]]:
        known = cut_out(train, names)
        if known is None:
            continue
        more = name_parts(known, unseen["parts"], always, seed + 1)
        folds = []
        for part, (rest, held_out) in zip(cycle(more), group_folds(known, n_folds)):
            fitted = known.select(rest)
            folds.append((cut_out(fitted, part) or fitted, known.select(held_out)))
        yield f"without {', '.join(names)}", known, folds


@dataclass(eq=False, repr=False)
class OverProbabilities(BaseEstimator):
    """A metric over the probabilities of names that a classifier gives to each sample.

    The features are √p, so the Euclidean metric gives Hellinger distances. The features of a
    training recording come from classifiers that have not seen this recording.

    Parameters
    ----------
    segmenter : segmenter with a metric
    emissions : Posteriors
    with_features : bool
        Whether the metric also uses the features of the data.
    """

    segmenter: Any
    emissions: Any = Posteriors()  # noqa: RUF009
    with_features: bool = False

    def fit(self, X: Arrays, y: Arrays, groups: ArrayLike | None = None) -> Self:
        """Fit the classifiers, then the metric."""
        names, codes = np.unique(np.concatenate(y), return_inverse=True)
        stops = np.cumsum([len(x) for x in X])[:-1]
        labels = Labels(list(map(Partition.from_runs, y)), np.split(codes, stops), names)
        self.emissions_, self.names_ = clone(self.emissions), names
        logs = self.emissions_.fit_transform(X, labels, groups)
        self.segmenter_ = clone(self.segmenter).fit(list(map(self._features, X, logs)), y)
        return self

    def transform(self, X: Arrays) -> list[NDArray[np.float64]]:
        """Compute the features of new recordings."""
        return [self._features(x, rows) for x, rows in zip(X, self.emissions_.transform(X))]

    def _features(self, x: NDArray, logs: NDArray) -> NDArray[np.float64]:
        roots = np.exp(logs / 2.0)
        return np.hstack([x, roots]) if self.with_features else roots

    def predict_change_points(self, X: Arrays) -> list[NDArray]:
        """Return the ends of the predicted segments."""
        return self.segmenter_.predict_change_points(self.transform(X))

    def read_data(self, X: Any) -> DataSets:
        """Return the data sets unchanged."""
        return read_data_sets(type(self).__name__, X)

    def segmented(self, data: DataSets, n_segments: Any = None) -> list[Partition]:
        """Return the segmentations that the model predicts for data sets."""
        mapped = self.segmenter_.read_data(self.transform(data.arrays))
        return self.segmenter_.segmented(mapped, n_segments)

    @staticmethod
    def tune_together(
        models: Sequence[OverProbabilities], parts: Sequence[tuple[Any, Any]]
    ) -> None:
        """Set one penalty for all models, the best for all parts together."""
        for model in models:
            model.segmenter_ = copy.copy(model.segmenter_)
        mapped = []
        for model, (X, y) in zip(models, parts):
            data = model.segmenter_.read_data(model.transform(X))
            truths = read_labelings(type(model).__name__, y, data, segments=True, partial=True)
            mapped.append((data.arrays, truths))
        scores = [model.segmenter_.present_score for model in models]
        penalty, _ = tuned_penalty("OverProbabilities", scores, mapped)
        for model, score in zip(models, scores):
            model.segmenter_.score_ = score.at(penalty)
