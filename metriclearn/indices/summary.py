"""All external indices of two partitions at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from metriclearn.indices import information, matching, pairs
from metriclearn.indices.contingency import ContingencyTable, of_partitions

_BETTER: dict[Callable[..., float], str] = {
    pairs.rand_score: "higher",
    pairs.adjusted_rand_score: "higher",
    pairs.jaccard_score: "higher",
    pairs.fowlkes_mallows_score: "higher",
    information.mutual_info_score: "higher",
    information.normalized_mutual_info_score: "higher",
    information.adjusted_mutual_info_score: "higher",
    information.variation_of_information: "lower",
    information.normalized_variation_of_information: "lower",
    matching.misclassification_error: "lower",
    pairs.partition_loss: "lower",
}


@of_partitions
def compare(table: ContingencyTable, *, as_frame: bool = False) -> Any:
    """Every external index of two partitions, from one pass over the samples, O(n) and the indices.

    Parameters
    ----------
    labels_true, labels_pred, contingency, ignore_label : see :func:`contingency_table`
    as_frame : bool
        False: dict from the function's name to its value, in the order of the documentation.
        True: pandas DataFrame with columns index, value and better ("higher" or "lower").
    """
    values = {index.__name__: float(index(contingency=table)) for index in _BETTER}
    if not as_frame:
        return values
    import pandas as pd

    rows = zip(values, values.values(), _BETTER.values())
    return pd.DataFrame(rows, columns=["index", "value", "better"])
