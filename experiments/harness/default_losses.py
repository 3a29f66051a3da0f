"""What ``Segmenter()`` does on small data sets: results of another default are older."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np

from metriclearn import Segmenter
from metriclearn.datasets import load_example, make_change_points

KEY = "default"  # field of results.json
FEW = "few labels"  # the data set that concerns only experiments with few labels
_TOLERANCE = 0.02  # rounding differs between machines, and with it some boundary


@cache
def default_losses() -> dict[str, float]:
    """Compute the mean loss ‖M − N‖² of ``Segmenter()`` on recordings left out of small data sets.

    The data sets have names, boundaries only, so many rows that not all are used, and few labels.
    """
    exercise, bees = load_example("exercise"), load_example("bees")
    long = make_change_points(3, 3500, 2, 1, (8, 12), random_state=0)
    few = [
        np.array([*y[: len(y) // 2], *[-1] * (len(y) - len(y) // 2)], object)
        for y in exercise.labels
    ]
    cases: dict[str, tuple[Any, Any, bool | None]] = {
        "names": (exercise.sequences, exercise.labels, None),
        "boundaries": (bees.sequences, bees.labels, False),
        "many rows": (long.sequences, long.labels, False),
        FEW: (exercise.sequences, few, None),
    }
    losses = {}
    with warnings.catch_warnings(action="ignore", category=UserWarning):
        for name, (X, y, names) in cases.items():
            found = Segmenter(names=names, verbose=False).fit(X, y).validation_
            assert found is not None
            losses[name] = found.loss
    return losses


def is_older(results: Mapping[str, Any]) -> bool:
    """Return whether results were made by another default than that of today."""
    then, now = results.get(KEY), default_losses()
    if not isinstance(then, Mapping) or not then or not then.keys() <= now.keys():
        return True
    return any(abs(then[name] - now[name]) > _TOLERANCE * max(now[name], 0.1) for name in then)
