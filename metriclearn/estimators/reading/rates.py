"""Whether rows come at the rate at which seconds are counted."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from metriclearn.running.notes import note
from metriclearn.running.times import index_times, read_times


def note_other_rate(who: str, X: Any, rate: float) -> None:
    """Warn if the index of a data frame has another rate, by more than a tenth, than ``rate``.

    ``X`` is a recording or a list of them, and ``rate`` is the number of rows per second. Only the
    first such data frame is named.
    """
    for i, frame in enumerate(X if isinstance(X, (list, tuple)) else [X]):
        index = index_times(getattr(frame, "index", None))
        if index is None or len(frame) < 2:
            continue
        with suppress(ValueError):  # segments refuses times that do not increase
            found = read_times(who, index).nearer_rate(rate)
            if not 1 / 1.1 <= found / rate <= 1.1:
                note(
                    f"{who} counts {rate:.6g} row(s) per second, but by its index data set {i} has "
                    f"{found:.6g}; pass rate={found:.6g}."
                )
                return
