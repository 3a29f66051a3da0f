"""Public sequences stored in an npz file and a table: bee dances, exercises, TSSB and UTSA."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metriclearn.datasets.registry import PathLike, fetch, read
from metriclearn.datasets.sequences import LabeledSequences, covering_labels, of_parts
from metriclearn.problem.partition import Partition
from metriclearn.running.atomic import reading
from metriclearn.running.extras import optional

_BEE_CHANNELS = ("x", "y", "heading")
# added before logarithms, so that they are finite: far below the usual values
_STILL_BEE = 1e-4
_STILL_JOINT = {"translation": 1e-2, "angle": 1e-1}


def load_beedance(
    root: PathLike | None = None, derived: bool = True, window: int = 15
) -> LabeledSequences:
    """Tracks of dancing bees, with a row per video frame and a segment per regime of the dance.

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
        Add ten features that separate the regimes. All ten are computed over a centered window, and
        all logarithms are natural. Each of the three channels has two features: the logarithm of
        the mean absolute step between frames, and the logarithm of the root mean square change of
        this step. The second feature of a channel is large while a bee waggles. Two more features
        describe how far the heading deviates from its median over the whole track: the mean
        deviation, and the logarithm of the root mean square deviation. The last two features
        describe the smoothed path: the mean turn in radians per frame (left and right differ in
        sign), and the logarithm of the mean speed. The direction of the path is not a feature,
        because a bee that turns left may face any direction.
    window : int
        Odd number of frames in the window.

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
    data = _of_change_points("beedance", tracks, changes, _BEE_CHANNELS)
    if not derived:
        return data
    names = [
        f"{channel}_{kind}" for kind in ("log_speed", "log_shake") for channel in _BEE_CHANNELS
    ]
    names += ["heading_mean", "heading_log_size", "path_turn", "path_log_speed"]
    return _with_columns(data, names, _dance, window)


def _dance(X: NDArray, window: int) -> NDArray[np.float64]:
    """Compute the ten derived features of :func:`load_beedance`, (T, 10)."""
    steps = np.diff(X, axis=0, prepend=X[:1])
    shakes = np.diff(steps, axis=0, prepend=steps[:1])
    heading = X[:, 2:] - np.median(X[:, 2])
    speed, power, size = (_moving_mean(v, window) for v in (np.abs(steps), shakes**2, heading**2))
    # rounding in the running sum may leave a tiny negative number
    roots = (np.sqrt(np.maximum(values, 0.0)) for values in (power, size))
    logs = [np.log(v + _STILL_BEE) for v in (np.maximum(speed, 0.0), *roots)]
    return np.hstack([*logs[:2], _moving_mean(heading, window), logs[2], _path(X[:, :2], window)])


def _path(positions: NDArray, window: int) -> NDArray[np.float64]:
    """Compute the mean turn and the logarithm of the mean speed of the smoothed path, (T, 2)."""
    velocity = np.gradient(_moving_mean(positions, window), axis=0)
    direction = np.unwrap(np.arctan2(velocity[:, 1], velocity[:, 0]))
    values = np.column_stack([np.gradient(direction), np.hypot(*velocity.T)])
    turn, speed = _moving_mean(values, window).T
    return np.column_stack([turn, np.log(np.maximum(speed, 0.0) + _STILL_BEE)])


def load_mocap6(
    root: PathLike | None = None, derived: bool = True, window: int = 15
) -> LabeledSequences:
    """Exercise routines recorded by motion capture, with 10 rows per second.

    Labels are the exercises, which may recur later in a sequence. Names of sequences are
    ``SUBJECT_TRIAL``. Every sequence is a separate group, because two subjects are too few to group
    by.

    Data: CMU Graphics Lab Motion Capture Database; labels of Fox, Hughes, Sudderth & Jordan,
    Joint modeling of multiple time series via the beta process with application to motion
    capture segmentation, Annals of Applied Statistics 8(3), 2014. Files: ``sequences.npz`` and
    ``segments.csv``. Cost O(rows · window).

    Parameters
    ----------
    root : path, optional
        Folder with the two files; see :func:`metriclearn.datasets.data_folder`.
    derived : bool
        Add the moving mean of every channel and the natural logarithm of its moving standard
        deviation, because exercises differ in the joints that swing. Then there are 36 features.
    window : int
        Odd number of rows over which moving statistics are computed. 15 rows are 1.5 s.

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
    return _with_columns(data, names, partial(_motion, channels=channels), window)


def _motion(X: NDArray, window: int, channels: list[str]) -> NDArray[np.float64]:
    """Compute the moving mean and the log of the moving sd of every column, (T, 2P)."""
    mean, square = (_moving_mean(Z, window) for Z in (X, X * X))
    deviation = np.sqrt(np.maximum(square - mean * mean, 0.0))
    floor = [_STILL_JOINT["translation" if ".t" in channel else "angle"] for channel in channels]
    return np.hstack([mean, np.log(deviation + floor)])


def load_tssb(root: PathLike | None = None) -> LabeledSequences:
    """Series with 0 to 8 change-points. A series is joined from recordings of several classes.

    Data: Schäfer, Ermshaus & Leser, ClaSP: time series segmentation, CIKM 2021. Files:
    ``series.npz`` and ``change_points.csv``. Labels are segment numbers, and every series is a
    group.

    Parameters
    ----------
    root : path, optional
        Folder with the two files; see :func:`metriclearn.datasets.data_folder`.

    Returns
    -------
    LabeledSequences
        ``sequences`` of shape (T_i, P), ``labels`` (T_i,), ``groups``, ``names``.

    Raises
    ------
    ValueError
        If the files are damaged or do not fit together.
    FileNotFoundError
        If the files are missing.

    Examples
    --------
    >>> from metriclearn.datasets import load_tssb
    >>> data = load_tssb()  # doctest: +SKIP
    """
    return _archive("tssb", root)


def load_utsa(root: PathLike | None = None) -> LabeledSequences:
    """Recordings such as ECG, motion and insect feeding, with one to three change-points each.

    Data: Gharghabi et al., Domain agnostic online semantic segmentation for multi-dimensional time
    series, Data Mining and Knowledge Discovery 33, 2019. Files and labels are as in
    :func:`load_tssb`.

    Parameters
    ----------
    root : path, optional
        Folder with the two files; see :func:`metriclearn.datasets.data_folder`.

    Returns
    -------
    LabeledSequences
        ``sequences`` of shape (T_i, P), ``labels`` (T_i,), ``groups``, ``names``.

    Raises
    ------
    FileNotFoundError
        If the files are missing; the message explains how to get them.
    ValueError
        If the files are damaged.

    Examples
    --------
    >>> from metriclearn.datasets import load_utsa
    >>> data = load_utsa()  # doctest: +SKIP
    """
    return _archive("utsa", root)


def _archive(name: str, root: PathLike | None) -> LabeledSequences:
    pd = optional("pandas", "tables")
    arrays, path = read(name, "series.npz", root), fetch(name, "change_points.csv", root)
    with reading(path, "a CSV file with columns series and change_points"):
        table = pd.read_csv(path, dtype=str, keep_default_na=False)  # a series may have none
        changes = dict(zip(table["series"], table["change_points"].str.split()))
    return _of_change_points(name, arrays, changes, ["value"])


def _of_change_points(
    name: str,
    arrays: Mapping[str, NDArray],
    changes: Mapping[str, ArrayLike],
    feature_names: Sequence[str],
) -> LabeledSequences:
    """Make a data set from sequences and their change-points. Labels are segment numbers.

    A change-point is the first sample of a new segment, counted from 0.

    Raises
    ------
    ValueError
        If a sequence is missing, or change-points are not inside it.
    """
    parts = {}
    for key, starts in changes.items():
        try:
            X = arrays[key].reshape(len(arrays[key]), -1)
            ends = np.asarray(starts, dtype=np.int64)
            parts[key] = X, Partition.from_change_points(ends, len(X)).labels
        except (KeyError, ValueError) as error:
            raise ValueError(
                f"Data set {name!r} needs a sequence {key!r} with its change-points: {error}; get "
                "the files again."
            ) from error
    return of_parts(name, parts, feature_names)


def _with_columns(
    data: LabeledSequences, names: Sequence[str], derive: Callable[..., NDArray], window: int
) -> LabeledSequences:
    """Add the columns ``derive(X, window)`` to the features X of every sequence.

    Raises
    ------
    ValueError
        If the window is not odd and positive.
    """
    if window < 1 or window % 2 == 0:
        raise ValueError(f"load_{data.name} needs an odd window of 1 sample or more, got {window}.")
    sequences = [np.hstack([X, derive(X, window)]) for X in data.sequences]
    return replace(data, sequences=sequences, feature_names=[*data.feature_names, *names])


def _moving_mean(X: NDArray, window: int) -> NDArray[np.float64]:
    """Compute the mean of every column over a centered window, O(TP).

    The first and the last row are repeated beyond the ends.
    """
    from scipy.ndimage import uniform_filter1d

    return np.asarray(uniform_filter1d(X, window, axis=0, mode="nearest"))
