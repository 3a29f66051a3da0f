"""Values far from all others of their column: faults of a device, and codes of missing values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from metriclearn.estimators.reading.data_sets import DataSets
from metriclearn.running.notes import note

# A value is far if it is outside of the range of 98 % of the others by more than so many times this
# range. Of all recordings of the league and of the raw tables, one value is far.
_TIMES = 20.0
_SHARES = (0.01, 0.99)
_FEWEST = 20  # others that tell of a range
_SHOWN = 4


def note_far_values(who: str, data: DataSets) -> None:
    """Warn of values that are far from all others of their column in a recording; O(Σ T_i P)."""
    found: Counter[tuple[int, float]] = Counter()
    for X in data.arrays:
        for place, column in enumerate(X.T):
            found.update({(place, value): count for value, count in _far(column)})
    if not found:
        return
    names = data.feature_names
    told = [
        f"{value:.6g} in {count} row(s) of column {place if names is None else repr(names[place])}"
        for (place, value), count in found.most_common(_SHOWN)
    ]
    note(
        f"{who} was given values far from all others of their column in a recording: "
        f"{', '.join(told)}{', …' if len(found) > _SHOWN else ''}. If they are wrong or stand for "
        "missing ones, replace them by NaN, or leave their cells empty."
    )


def _far(column: NDArray) -> Iterator[tuple[float, int]]:
    """Yield the least and the greatest value (T,) if far from all others, and their rows.

    All rows with this value are compared with the others, so a code such as -9999 may be frequent.
    """
    known = column[~np.isnan(column)]
    if len(known) <= _FEWEST or (least := known.min()) == (most := known.max()):
        return
    for value in (least, most):
        others = known[known != value]
        if len(others) > max(_FEWEST, len(known) // 2):
            low, high = np.quantile(others, _SHARES)
            if 0 < _TIMES * (high - low) < max(low - value, value - high):
                yield float(value), len(known) - len(others)
