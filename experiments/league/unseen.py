"""Cases in which test recordings have names that training never saw, and a view for such cases.

A classifier knows only the names of training, so it always names a segment with a new name wrongly.
But for a segment with a new name, the classifier gives the known names a new mixture of
probabilities. So these probabilities are good features for a metric.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import cycle
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from experiments.harness.cases import cut, group_folds
from metriclearn.datasets import LabeledSequences
from metriclearn.views import PlainView


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


class Roots(PlainView):
    """The square roots of probabilities whose logarithms are given.

    Behind ``Posteriors``, the Euclidean metric of these rows gives Hellinger distances.
    """

    def rows(self, X: NDArray) -> NDArray[np.float64]:
        """Compute √p for every log p."""
        return np.exp(X / 2.0)
