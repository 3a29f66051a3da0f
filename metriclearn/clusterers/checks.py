"""The one check of data that all clusterers share; parameters are checked by their tables."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["check_scale"]


def check_scale(who: str, X: NDArray) -> None:
    """Raise where squared distances of rows of X, (n, d), could overflow: beyond 1e150/√d."""
    largest = np.abs(X).max(initial=0.0)
    if largest > 1e150 / np.sqrt(X.shape[1]):
        raise ValueError(
            f"{who} needs squared distances below 1e300, got values up to {largest:.1e}; "
            "rescale X, and parameters in its units."
        )
