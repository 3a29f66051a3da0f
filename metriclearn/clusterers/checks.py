"""How all clusterers check their parameters and read their data."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import validate_data

from metriclearn.running.parameters import check_parameters


def read_rows(clusterer: Any, X: ArrayLike, *, reset: bool = True) -> NDArray[np.float64]:
    """Check parameters and X, (n, d); remember its features, or without ``reset`` compare them."""
    check_parameters(clusterer)
    rows = np.ascontiguousarray(validate_data(clusterer, X, dtype=np.float64, reset=reset))
    check_scale(type(clusterer).__name__, rows)
    return rows


def check_scale(who: str, X: NDArray) -> None:
    """Raise where squared distances of rows of X, (n, d), could overflow: beyond 1e150/√d."""
    largest = np.abs(X).max(initial=0.0)
    if largest > 1e150 / np.sqrt(X.shape[1]):
        raise ValueError(
            f"{who} needs squared distances below 1e300, got values up to {largest:.1e}; "
            "rescale X, and parameters in its units."
        )
