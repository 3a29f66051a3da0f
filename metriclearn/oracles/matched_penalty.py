"""The penalty at which a given number of changes is found where recordings are not labeled."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metriclearn.oracles.change_points import PenalizedSegmentation, slope

_STEP = 2.0  # in the logarithm of the penalty, until there are more and fewer changes
_WIDEST = 25.0  # in the logarithm: below, rounding errors cause the changes
_CLOSE = 1.005  # the search ends at this ratio of two penalties


def matched_penalty(
    forms: Sequence[Any],
    hidden: Sequence[NDArray[np.bool_]],
    changes: float,
    min_size: int = 1,
    units: NDArray | None = None,
) -> float | None:
    """Find the penalty at which about ``changes`` changes are found at hidden positions.

    Between penalties of neighboring segmentations nothing changes, so this is the geometric mean of
    the penalties at which the number of changes falls below ``changes + ½`` and ``changes − ½``.
    Both are found by bisection, since the number mostly falls as the penalty rises. If the number
    jumps past ``changes``, fewer are found. If no smaller penalty finds more, this is half the
    largest one that finds ``changes``.

    Parameters
    ----------
    forms : sequence of LowRankForm or ChargedForm
    hidden : sequence of bool arrays (T_i + 1,)
        For every position 0, …, T_i of each recording, whether a change there counts.
    changes : float
        The number of changes in all recordings together.
    min_size : int
        Smallest number of samples in a segment.
    units : array (N,), optional
        The unit of the penalty in each sequence, by default 1.

    Returns
    -------
    float > 0, or None if there are not that many changes at any penalty, as where rows are constant
    """
    problems = [PenalizedSegmentation(form, min_size) for form in forms]
    scale = np.ones(len(problems)) if units is None else units
    extremes = [(*problem.extremes, unit) for problem, unit in zip(problems, scale)]
    slopes = [
        slope(low, high) / unit for low, high, unit in extremes if len(high.ends) > len(low.ends)
    ]
    if not slopes or max(slopes) <= 0.0:  # all rows are equal
        return None

    @cache
    def found(penalty: float) -> int:
        each = zip(problems, np.exp(penalty) * scale)
        ends = [problem.solve(float(one)).ends[:-1] for problem, one in each]
        return sum(int(np.count_nonzero(some[at])) for some, at in zip(hidden, ends))

    def falls_below(threshold: float) -> float:
        low = high = float(np.log(max(slopes)))
        while found(low) < threshold and low > np.log(max(slopes)) - _WIDEST:
            low -= _STEP
        while found(high) >= threshold:
            high += _STEP
        while high - low > np.log(_CLOSE):
            middle = (low + high) / 2
            low, high = (middle, high) if found(middle) >= threshold else (low, middle)
        return high

    count, most = round(changes), found(float(np.log(max(slopes))) - _WIDEST)
    if most < count:
        return None
    if count == 0:
        return float(2.0**0.5 * np.exp(falls_below(0.5)))
    high = falls_below(count - 0.5)
    low = falls_below(count + 0.5) if count < most else high - 2 * np.log(2.0)
    return float(np.exp((low + high) / 2))
