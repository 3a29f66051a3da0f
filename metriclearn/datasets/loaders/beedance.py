"""Bee waggle dance: tracked honey bees that turn left, turn right and waggle."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from metriclearn.datasets.registry import PathLike, read
from metriclearn.datasets.sequences import (
    LabeledSequences,
    moving_mean,
    of_change_points,
    with_columns,
)

CHANNELS = ("x", "y", "heading")
FLOOR = 1e-4  # far below a frame's usual step: keeps logarithms finite


def load_beedance(
    root: PathLike | None = None, derived: bool = True, window: int = 15
) -> LabeledSequences:
    """Dancing bees, frame by frame, one segment per regime of the dance.

    Labels are segment numbers 0 … K−1 in order of time, because the files do not name the regimes.
    Every bee is a separate group. Positions and heading are scaled to [0, 1] per bee.

    Data: Oh, Rehg, Balch & Dellaert, Learning and inferring motion patterns using parametric
    segmental switching linear dynamic systems, IJCV 77, 2008. Files: ``sequences.npz`` and
    ``change_points.csv``. Cost O(frames · window).

    Parameters
    ----------
    root : path, optional
        Folder with the two files; see :func:`metriclearn.datasets.data_folder`.
    derived : bool
        Add ten features that separate the regimes, each over a centered window. Every channel gets
        two natural logarithms: of the mean absolute step between frames, and of the root mean
        square change of the step, because waggling shakes. The heading, which stays near one
        value, gets its mean and the logarithm of its size. The smoothed path gets its mean turn
        in radians per frame (left and right differ in sign) and the logarithm of its mean speed.
        Directions are no features: a bee may turn left from any direction.
    window : int
        Frames, odd.

    Returns
    -------
    LabeledSequences
        ``sequences`` of shape (T_i, P), ``labels`` (T_i,), ``groups``, ``names``.

    Raises
    ------
    ValueError
        If the window is not odd and positive, or the files are damaged or do not fit together.
    FileNotFoundError
        If the files are missing.

    Examples
    --------
    >>> from metriclearn.datasets import load_beedance
    >>> data = load_beedance()  # doctest: +SKIP
    """
    tracks = read("beedance", "sequences.npz", root)
    table = read("beedance", "change_points.csv", root, {"sequence": str, "change_point": int})
    changes = {bee: table.loc[table["sequence"] == bee, "change_point"] for bee in sorted(tracks)}
    data = of_change_points("beedance", tracks, changes, CHANNELS)
    if not derived:
        return data
    names = [f"{channel}_{kind}" for kind in ("log_speed", "log_shake") for channel in CHANNELS]
    names += ["heading_mean", "heading_log_size", "path_turn", "path_log_speed"]
    return with_columns(data, names, _derived, window)


def _derived(X: NDArray, window: int) -> NDArray[np.float64]:
    """Log speed and shake of columns, mean and size of the heading, turn and speed, (T, 10)."""
    steps = np.diff(X, axis=0, prepend=X[:1])
    shakes = np.diff(steps, axis=0, prepend=steps[:1])
    heading = X[:, 2:] - np.median(X[:, 2])
    speed, power, size = (moving_mean(v, window) for v in (np.abs(steps), shakes**2, heading**2))
    # rounding in the running sum may leave a tiny negative number
    roots = (np.sqrt(np.maximum(values, 0.0)) for values in (power, size))
    logs = [np.log(v + FLOOR) for v in (np.maximum(speed, 0.0), *roots)]
    return np.hstack([*logs[:2], moving_mean(heading, window), logs[2], _path(X[:, :2], window)])


def _path(positions: NDArray, window: int) -> NDArray[np.float64]:
    """Mean turn and log mean speed of the smoothed path, (T, 2)."""
    velocity = np.gradient(moving_mean(positions, window), axis=0)
    direction = np.unwrap(np.arctan2(velocity[:, 1], velocity[:, 0]))
    values = np.column_stack([np.gradient(direction), np.hypot(*velocity.T)])
    turn, speed = moving_mean(values, window).T
    return np.column_stack([turn, np.log(np.maximum(speed, 0.0) + FLOOR)])
