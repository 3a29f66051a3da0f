"""Features of the recordings that are stored as arrays: a function for each data set.

A function gets the stored rows (T, Q) and the names of their columns. It returns the features
(T, P) and their names. Logarithms are natural.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import uniform_filter1d

# added before logarithms, so that they are finite: far below the usual values
_STILL_EYE, _STILL_BEE = 1e-2, 1e-4  # degrees; widths of the image
_STILL_JOINT = {"translation": 1e-2, "angle": 1e-1}
_DEGREE = 26.7  # pixels

Features = tuple[NDArray[np.float64], list[str]]
Mean = Callable[[NDArray], NDArray]
Derivation = Callable[[NDArray, list[str], Mean], Features]
moving_mean = partial(uniform_filter1d, axis=0, mode="nearest")  # centered; ends are repeated


def gazecom(track: NDArray, names: list[str]) -> Features:
    """Displacement, straightness and deviation of the gaze over 16, 48 and 160 ms, (T, 10).

    The last feature is the confidence of the tracker.
    """
    place = track[:, :2].astype(np.float64) / 10.0 / _DEGREE
    steps = np.linalg.norm(np.diff(place, axis=0, prepend=place[:1]), axis=1)
    columns = []
    for scale in (4, 12, 40):
        padded = np.pad(place, ((scale // 2, scale // 2), (0, 0)), mode="edge")
        moved = np.linalg.norm(padded[scale:] - padded[:-scale], axis=1)
        path = scale * moving_mean(steps, scale + 1)
        mean, squares = (uniform_filter1d(v, scale, axis=0) for v in (place, place**2))
        deviation = np.sqrt(np.maximum(squares - mean**2, 0.0).sum(axis=1))
        columns += [np.log(moved + _STILL_EYE), moved / (path + _STILL_EYE)]
        columns += [np.log(deviation + _STILL_EYE)]
    kinds = ("log_displacement", "straightness", "log_deviation")
    names = [f"{kind}_{4 * scale}ms" for scale in (4, 12, 40) for kind in kinds]
    return np.column_stack([*columns, track[:, 2] / 100.0]), [*names, "confidence"]


def birdsong(powers: NDArray, names: list[str]) -> Features:
    """Decibels in 32 mel bands, and their changes over four rows, (T, 64)."""
    decibels = powers / 2.0 - 60.0
    padded = np.pad(decibels, ((2, 2), (0, 0)), mode="edge")
    changes = [name.replace("mel", "delta") for name in names]
    return np.hstack([decibels, padded[4:] - padded[:-4]]), [*names, *changes]


def billboard(chroma: NDArray, names: list[str]) -> Features:
    """Chroma that is smoothed at two scales, and its similarity to earlier rows, (T, 50)."""
    roots = np.sqrt(chroma / 50.0)
    smooth = [moving_mean(roots, scale) for scale in (4, 32)]
    before = []
    for rows in smooth:
        unit = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)
        before.append(np.tril(unit @ unit.T, -16).max(axis=1))
    names = [f"{name}_{scale}" for scale in (4, 32) for name in names]
    return np.column_stack([*smooth, *before]), [*names, "heard_before_4", "heard_before_32"]


def piano_keys(notes: NDArray, names: list[str]) -> Features:
    """Square roots of the fractions of time of the pitch classes at three scales, (T, 36)."""
    columns = []
    for scale in (2, 8, 32):
        sums = np.maximum(moving_mean(notes[:, :12].astype(np.float64), scale), 0.0)
        columns.append(np.sqrt(sums / np.maximum(sums.sum(axis=1, keepdims=True), 1e-9)))
    return np.hstack(columns), [f"{name}_{scale}" for scale in (2, 8, 32) for name in names[:12]]


def windowed(derive: Derivation) -> Callable[..., Features]:
    """Make a reader of rows that appends features with moving means, over an odd window."""

    def joined(X: NDArray, names: list[str], derived: bool = True, window: int = 15) -> Features:
        if window < 1 or window % 2 == 0:
            raise ValueError(
                f"load_dataset({derive.__name__!r}) needs an odd window of 1 row or more, got "
                f"{window}."
            )
        if not derived:
            return X, names
        X = X.astype(np.float64)
        added, kinds = derive(X, names, partial(moving_mean, size=window))
        return np.hstack([X, added]), [*names, *kinds]

    return joined


@windowed
def beedance(X: NDArray, names: list[str], mean: Mean) -> Features:
    """Position and heading of a bee, and ten features that separate the regimes, (T, 13)."""
    steps = np.diff(X, axis=0, prepend=X[:1])
    shakes = np.diff(steps, axis=0, prepend=steps[:1])
    heading = X[:, 2:] - np.median(X[:, 2])
    # rounding in the running sum may leave a tiny negative number
    means = (np.maximum(mean(v), 0.0) for v in (np.abs(steps), shakes**2, heading**2))
    speed, power, size = means
    speed, power, size = (np.log(v + _STILL_BEE) for v in (speed, np.sqrt(power), np.sqrt(size)))
    velocity = np.gradient(mean(X[:, :2]), axis=0)
    direction = np.unwrap(np.arctan2(velocity[:, 1], velocity[:, 0]))
    turn, pace = mean(np.column_stack([np.gradient(direction), np.hypot(*velocity.T)])).T
    path = np.column_stack([turn, np.log(np.maximum(pace, 0.0) + _STILL_BEE)])
    kinds = [f"{name}_{kind}" for kind in ("log_speed", "log_shake") for name in names]
    kinds += ["heading_mean", "heading_log_size", "path_turn", "path_log_speed"]
    return np.hstack([speed, power, mean(heading), size, path]), kinds


@windowed
def mocap6(X: NDArray, names: list[str], mean: Mean) -> Features:
    """Channels of a skeleton, their moving means, and logs of their moving deviations, (T, 3Q)."""
    floor = [_STILL_JOINT["translation" if ".t" in name else "angle"] for name in names]
    deviation = np.sqrt(np.maximum(mean(X * X) - mean(X) * mean(X), 0.0))
    kinds = [f"{name}_{statistic}" for statistic in ("mean", "log_sd") for name in names]
    return np.hstack([mean(X), np.log(deviation + floor)]), kinds
