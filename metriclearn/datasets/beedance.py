"""Bee waggle dance: tracked honey bees that turn left, turn right and waggle."""

from __future__ import annotations

import os

import numpy as np
from numpy.typing import NDArray

from metriclearn.datasets.registry import fetch, read_arrays, read_table
from metriclearn.datasets.sequences import LabeledSequences

__all__ = ["load_beedance"]

CHANNELS = ("x", "y", "heading")
FLOOR = 1e-4  # far below a frame's usual step: keeps logarithms finite


def load_beedance(
    root: str | os.PathLike[str] | None = None, derived: bool = True, window: int = 15
) -> LabeledSequences:
    """Dancing bees, frame by frame, one segment per regime of the dance.

    Labels are segment numbers 0 … K−1 in order of time, for the files do not name the regimes.
    Every bee is a group of its own. Positions and heading are scaled to [0, 1] per bee.

    Data: Oh, Rehg, Balch & Dellaert, Learning and inferring motion patterns using parametric
    segmental switching linear dynamic systems, IJCV 77, 2008. Files: ``sequences.npz`` and
    ``change_points.csv``. Cost O(frames · window).

    Parameters
    ----------
    root : path, optional
        Folder with the two files; see :func:`metriclearn.datasets.data_folder`.
    derived : bool
        Add what tells the regimes apart, over a centered window: of every channel the mean step
        from frame to frame (turning has a sign), the natural logarithm of the mean absolute step
        and of the root mean square of the change of the step (waggling shakes): 12 features.
    window : int
        Frames, odd.

    Raises
    ------
    ValueError
        If the window is not odd and positive, or the files are damaged or do not fit together.
    FileNotFoundError
        If the files are missing.
    """
    if window < 1 or window % 2 == 0:
        raise ValueError(f"load_beedance needs an odd window of 1 frame or more, got {window}.")
    tracks = read_arrays(fetch("beedance", "sequences.npz", root))
    path = fetch("beedance", "change_points.csv", root)
    table = read_table(path, {"sequence": str, "change_point": int})
    names = sorted(tracks)
    for name, track in tracks.items():
        if track.ndim != 2 or track.shape[1] != len(CHANNELS):
            raise ValueError(
                f"Bee {name!r} needs {len(CHANNELS)} columns, got shape {track.shape}; get the "
                "files again."
            )
    changes = {name: table.loc[table["sequence"] == name, "change_point"] for name in names}
    features = {name: np.asarray(tracks[name], dtype=np.float64) for name in names}
    labels = [_labels(name, changes[name].to_numpy(), len(tracks[name])) for name in names]
    if derived:
        features = {name: np.hstack([X, _derived(X, window)]) for name, X in features.items()}
    kinds = ("step", "log_speed", "log_shake") if derived else ()
    return LabeledSequences(
        name="beedance",
        sequences=[features[name] for name in names],
        labels=labels,
        groups=names,
        names=names,
        feature_names=[*CHANNELS, *(f"{c}_{kind}" for kind in kinds for c in CHANNELS)],
    )


def _labels(name: str, changes: NDArray, n_frames: int) -> NDArray[np.int64]:
    """Segment number of every frame from the first frames of new segments."""
    inside = np.all((changes > 0) & (changes < n_frames)) and np.all(np.diff(changes) > 0)
    if not len(changes) or not inside:
        raise ValueError(
            f"Bee {name!r} of {n_frames} frames needs increasing change-points inside it, got "
            f"{changes.tolist()[:5]}; get the files again."
        )
    starts = np.zeros(n_frames, dtype=np.int64)
    starts[changes] = 1
    return np.cumsum(starts)


def _derived(X: NDArray, window: int) -> NDArray[np.float64]:
    """Mean step, log speed and log shake of every column over a centered window, (T, 3P)."""
    from scipy.ndimage import uniform_filter1d

    steps = np.diff(X, axis=0, prepend=X[:1])
    shakes = np.diff(steps, axis=0, prepend=steps[:1])
    mean, speed, power = (
        uniform_filter1d(values, window, axis=0, mode="nearest")
        for values in (steps, np.abs(steps), shakes**2)
    )
    # rounding of the running sum may leave a tiny negative number
    shake = np.sqrt(np.maximum(power, 0.0))
    return np.hstack([mean, np.log(np.maximum(speed, 0.0) + FLOOR), np.log(shake + FLOOR)])
