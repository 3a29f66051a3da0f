"""Checks of what users pass to clusterers, each failing in one sentence."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["check_penalty", "check_scale", "check_whole", "is_number"]


def is_number(value: Any) -> bool:
    """Whether value is a finite real number; True and False are none."""
    number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    return number and bool(np.isfinite(float(value)))


def check_whole(who: str, name: str, value: Any) -> None:
    """Raise unless value is a whole number of at least 1."""
    if not isinstance(value, numbers.Integral) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{who} needs a whole {name} >= 1, got {value!r}.")


def check_penalty(who: str, penalty: Any) -> None:
    """Raise unless the penalty is a finite number of at least 0."""
    if not is_number(penalty) or penalty < 0:
        raise ValueError(f"{who} needs a finite penalty >= 0, got {penalty!r}.")


def check_scale(who: str, X: NDArray) -> None:
    """Raise where squared distances could overflow: coordinates beyond 1e150/√d."""
    largest = np.abs(X).max(initial=0.0)
    if largest > 1e150 / np.sqrt(X.shape[1]):
        raise ValueError(
            f"{who} needs squared distances below 1e300, got coordinates up to {largest:.1e}; "
            "rescale X, and parameters in its units."
        )
