"""Labels of segments: those of sequences, those in tables, and whether they name classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metriclearn.problem.partition import Partition

if TYPE_CHECKING:
    import pandas as pd


def runs(labels: ArrayLike) -> list[str]:
    """Return the label of every segment, that is, of every run of equal labels, in order.

    Parameters
    ----------
    labels : array-like of shape (T,)

    Returns
    -------
    list of str

    Raises
    ------
    ValueError
        If labels are not one-dimensional, empty or NaN.

    See Also
    --------
    name_classes : tells classes from numbers.

    Examples
    --------
    >>> from metriclearn.datasets import runs
    >>> runs(["a", "a", "b", "a"])
    ['a', 'b', 'a']
    """
    values = np.asarray(labels)
    return [str(value) for value in values[Partition.from_runs(values).change_points - 1]]


def name_classes(labelings: Sequence[Sequence[str]]) -> bool:
    """Return whether labels are names of classes, rather than of single segments.

    The result is False if all labels are equal, or no label recurs. The result is True if a label
    recurs within a sequence. If labels recur only in different sequences, the result is True, with
    two exceptions. In both exceptions, all labels end with a number. In the first exception, there
    are more than eight different labels. In the second exception, the labels of every sequence
    count its segments, such as shot 1, shot 2, … (not bare numbers), and sequences have different
    numbers of segments. If all sequences have the same number of segments, such labels are taken
    for phases, that is, classes.

    Parameters
    ----------
    labelings : sequence of sequences of str
        Labels of the segments of every sequence, in order.

    Returns
    -------
    bool

    Raises
    ------
    TypeError
        If labels are not texts.

    See Also
    --------
    runs : the labels of the segments of a sequence.

    Examples
    --------
    >>> from metriclearn.datasets import name_classes
    >>> name_classes([["walk", "run", "walk"]]), name_classes([["1", "2"], ["3", "4"]])
    (True, False)
    """
    every = [label for labels in labelings for label in labels]
    names = set(every)
    if len(names) == 1 or len(names) == len(every):
        return False
    if any(len(set(labels)) < len(labels) for labels in labelings):
        return True
    numbers = [[name[len(name.rstrip("0123456789")) :] for name in part] for part in labelings]
    counted = all(part == [str(i + 1) for i in range(len(part))] for part in numbers)
    uneven = len({len(labels) for labels in labelings}) > 1
    worded = not any(name.isdigit() for name in names)  # bare numbers are often classes
    return not (all(map(all, numbers)) and (len(names) > 8 or (counted and uneven and worded)))


def covering_labels(table: pd.DataFrame, lengths: Mapping[str, int]) -> dict[str, NDArray]:
    """Convert a table of segments to the label of every sample, for each sequence.

    Parameters
    ----------
    table : table
        Has the columns ``sequence``, ``start`` (first sample), ``end`` (the one after the last
        sample) and ``label``. The segments of a sequence are in order and cover all its samples.
    lengths : mapping
        Number of samples, T, of every sequence, by its name.

    Raises
    ------
    ValueError
        If a segment is empty, or the segments leave a gap, overlap or do not end at T.
    """
    labels = {}
    for name, n_samples in lengths.items():
        rows = table[table["sequence"] == name]
        start, end = rows["start"].to_numpy(), rows["end"].to_numpy()
        edges, sizes = np.append(start, n_samples), end - start
        if not len(rows) or edges[0] != 0 or np.any(edges[1:] != end) or sizes.min() < 1:
            raise ValueError(
                f"Sequence {name!r} needs non-empty segments that cover its {n_samples} samples in "
                f"order, got {len(rows)} segments up to {end.max(initial=0)}; get the files again."
            )
        labels[name] = np.repeat(rows["label"].to_numpy(dtype=str), sizes)
    return labels
