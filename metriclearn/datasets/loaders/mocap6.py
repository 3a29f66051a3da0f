"""mocap6: motion capture of exercise routines, every time step labeled with its exercise."""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray

from metriclearn.datasets.registry import PathLike, read
from metriclearn.datasets.sequences import (
    LabeledSequences,
    covering_labels,
    moving_mean,
    of_parts,
    with_columns,
)

FLOOR = {"translation": 1e-2, "angle": 1e-1}  # keeps the logarithm of a still joint finite


def load_mocap6(
    root: PathLike | None = None, derived: bool = True, window: int = 15
) -> LabeledSequences:
    """Exercise routines at 10 time steps per second, one segment per exercise.

    Labels are the exercises, which may recur later in a sequence; names are ``SUBJECT_TRIAL``, and
    every sequence is a separate group (there are only two subjects).

    Data: CMU Graphics Lab Motion Capture Database; labels of Fox, Hughes, Sudderth & Jordan,
    Joint modeling of multiple time series via the beta process with application to motion
    capture segmentation, Annals of Applied Statistics 8(3), 2014. Files: ``sequences.npz`` and
    ``segments.csv``. Cost O(steps · window).

    Parameters
    ----------
    root : path, optional
        Folder with the two files; see :func:`metriclearn.datasets.data_folder`.
    derived : bool
        Add the moving mean of every channel and the natural logarithm of its moving standard
        deviation, because exercises differ in the joints that swing. 36 features in all.
    window : int
        Time steps of the moving statistics, odd; 15 are 1.5 s.

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
    >>> from metriclearn.datasets import load_mocap6
    >>> data = load_mocap6()  # doctest: +SKIP
    """
    arrays = read("mocap6", "sequences.npz", root)
    columns = {"sequence": str, "start": int, "end": int, "label": str}
    table = read("mocap6", "segments.csv", root, columns)
    if "channels" not in arrays:
        raise ValueError("mocap6 needs the array channels in sequences.npz; get the file again.")
    channels = [str(channel) for channel in arrays.pop("channels")]
    labels = covering_labels(table, {name: len(arrays[name]) for name in sorted(arrays)})
    data = of_parts("mocap6", {name: (arrays[name], labels[name]) for name in labels}, channels)
    if not derived:
        return data
    names = [f"{channel}_{statistic}" for statistic in ("mean", "log_sd") for channel in channels]
    return with_columns(data, names, partial(_derived, channels=channels), window)


def _derived(X: NDArray, window: int, channels: list[str]) -> NDArray[np.float64]:
    """Moving mean and log moving standard deviation of every column, (T, 2P)."""
    mean, square = (moving_mean(Z, window) for Z in (X, X * X))
    deviation = np.sqrt(np.maximum(square - mean * mean, 0.0))
    floor = [FLOOR["translation" if ".t" in channel else "angle"] for channel in channels]
    return np.hstack([mean, np.log(deviation + floor)])
