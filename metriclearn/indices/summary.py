"""All external indices of two partitions at once."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from metriclearn.indices.contingency import Labels, contingency_table
from metriclearn.indices.information import (
    adjusted_mutual_info_score,
    mutual_info_score,
    normalized_mutual_info_score,
    normalized_variation_of_information,
    variation_of_information,
)
from metriclearn.indices.matching import misclassification_error
from metriclearn.indices.pairs import (
    adjusted_rand_score,
    fowlkes_mallows_score,
    jaccard_score,
    partition_loss,
    rand_score,
)

__all__ = ["compare"]

_INDICES: tuple[Callable[..., float], ...] = (
    rand_score,
    adjusted_rand_score,
    jaccard_score,
    fowlkes_mallows_score,
    mutual_info_score,
    normalized_mutual_info_score,
    adjusted_mutual_info_score,
    variation_of_information,
    normalized_variation_of_information,
    misclassification_error,
    partition_loss,
)


def compare(
    labels_true: Labels | None = None,
    labels_pred: Labels | None = None,
    *,
    contingency: Any = None,
    ignore_label: Hashable = None,
    as_frame: bool = False,
) -> Any:
    """Every external index of two partitions, from one pass over the samples, O(n) and the indices.

    Parameters
    ----------
    labels_true, labels_pred, contingency, ignore_label : see :func:`contingency_table`
    as_frame : bool
        False: dict from the function's name to its value, in the order of the documentation.
        True: pandas DataFrame with columns index, value and better ("higher" or "lower").
    """
    table = contingency_table(
        labels_true, labels_pred, contingency=contingency, ignore_label=ignore_label
    )
    values = {index.__name__: float(index(contingency=table)) for index in _INDICES}
    if not as_frame:
        return values
    import pandas as pd

    lower = {
        variation_of_information.__name__,
        normalized_variation_of_information.__name__,
        misclassification_error.__name__,
        partition_loss.__name__,
    }
    rows = [(name, value, "lower" if name in lower else "higher") for name, value in values.items()]
    return pd.DataFrame(rows, columns=["index", "value", "better"])
