"""Check parameters and data for all clusterers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import validate_data

from metriclearn.running.parameters import check_parameters
from metriclearn.running.values import check_scale, real_array


def read_rows(clusterer: Any, X: ArrayLike, *, reset: bool = True) -> NDArray[np.float64]:
    """Check the parameters and X, (n, d), and return X as an array.

    With ``reset``, the feature names of X are stored. Without ``reset``, the feature names are
    compared with the stored names.
    """
    check_parameters(clusterer)
    who = type(clusterer).__name__
    rows = np.ascontiguousarray(real_array(who, "X", X))
    validate_data(clusterer, X, reset=reset, skip_check_array=True)
    check_scale(who, rows)
    return rows
