"""What a Clusterer is given: tables or images, and the labels of their samples."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from metriclearn.estimators.reading.data_sets import NamedColumns
from metriclearn.problem.partition import Partition, codes_of_known, label_values
from metriclearn.running.parameters import check_scale, real_array, shown
from metriclearn.views.plain import read_groups


class Clustered(NamedTuple):
    """Tables or images with labels, or a single table, whose rows can be divided.

    Attributes
    ----------
    X, y : lists, or arrays (T, P) and (T,) of a single table
    groups : int array (N,), or None for a single table
    columns : names of the columns of a single table, or None
    """

    X: Any
    y: Any
    groups: NDArray | None
    columns: Any = None

    def subset(self, places: NDArray) -> tuple[list[Any], list[Any]]:
        """Return the data sets at some places and their labels, or a table of some rows."""
        if self.groups is not None:
            return [self.X[i] for i in places], [self.y[i] for i in places]
        rows = self.X[places]
        return [rows if self.columns is None else NamedColumns.of(rows, self.columns)], [
            self.y[places]
        ]


def read_clustered(who: str, X: Any, y: Any, groups: Any) -> Clustered:
    """Read tables or images and their labels; lists must have at least two groups."""
    if not is_single(X):
        if len(X) != len(y):
            raise ValueError(
                f"{who} needs labels for each of the {len(X)} data sets, got {len(y)} labelings."
            )
        return Clustered(X, y, read_groups(who, groups, len(X)))
    if groups is not None:
        raise ValueError(
            f"{who} needs a list of data sets for groups, got one table; pass a table for each "
            "group of samples."
        )
    table, labels = real_array(who, "X", X, None), label_values(y)
    check_scale(who, table.reshape(len(table), -1))
    if len(table) != len(labels):
        raise ValueError(
            f"{who} needs one label for each of the {len(table)} samples, got {len(labels)}."
        )
    return Clustered(table, labels, None, getattr(X, "columns", None))


def is_single(X: Any) -> bool:
    """Tell whether X is one table or image, and not a list of tables or images."""
    if isinstance(X, (list, tuple)):
        return False
    # Tables have a shape. Turning anything else into an array may raise any error.
    shape = getattr(X, "shape", ())
    if not isinstance(shape, tuple) or len(shape) not in (2, 3) or hasattr(X, "toarray"):
        raise ValueError(
            f"Clusterer needs a table, an image or a list of them as X, got {shown(X)}."
        )
    return True


def cluster_codes(labels: Any) -> NDArray[np.int64]:
    """Convert the label of every sample to a code. −1 means that the label is unknown."""
    if isinstance(labels, Partition):
        return labels.labels
    # Only label maps have several dimensions.
    return codes_of_known(labels.ravel() if isinstance(labels, np.ndarray) else labels)
