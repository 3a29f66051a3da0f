"""HAPT: activities and postural transitions recorded by a phone at the waist."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from metriclearn.datasets.archives import lay_out
from metriclearn.datasets.registry import PathLike, read
from metriclearn.datasets.sequences import LabeledSequences, of_parts
from metriclearn.running.extras import optional
from metriclearn.running.parameters import OneOf, Whole, needs

FILES = ("sequences_int16.npz", "segments.csv")
SAMPLING_RATE = 50.0
BAND_EDGE = 5.0
CHANNELS = ("acc_x", "acc_y", "acc_z", "gyro_x", "gyro_y", "gyro_z")
UNITS = np.repeat([1.0 / 720.0, 0.0175 * np.pi / 180.0], 3)  # g and rad/s per stored integer
FLOOR = 1e-3  # about the sensors' resolution; keeps the logarithm of a still phone finite

Signals = NDArray[np.float64]


def _band_energy(windows: Signals, low: float, high: float) -> Signals:
    """Sum the power at frequencies f with low < f ≤ high Hz in every window, (n, channels)."""
    from scipy.signal import periodogram

    options = {"detrend": False, "scaling": "spectrum", "axis": 1}
    frequencies, power = periodogram(windows, SAMPLING_RATE, **options)
    return power[:, (frequencies > low) & (frequencies <= high)].sum(axis=1)


def _log(values: Signals) -> Signals:
    return np.log(values + FLOOR)


FEATURES: dict[str, Callable[[Signals], Signals]] = {
    "mean": lambda windows: windows.mean(axis=1),
    "sd": lambda windows: windows.std(axis=1),
    "log_sd": lambda windows: _log(windows.std(axis=1)),
    "mean_abs_diff": lambda windows: np.abs(np.diff(windows, axis=1)).mean(axis=1),
    "log_low_band": lambda windows: _log(np.sqrt(_band_energy(windows, 0.0, BAND_EDGE))),
    "log_high_band": lambda windows: _log(np.sqrt(_band_energy(windows, BAND_EDGE, np.inf))),
    "min": lambda windows: windows.min(axis=1),
    "max": lambda windows: windows.max(axis=1),
    "median": lambda windows: np.median(windows, axis=1),
    "slope": lambda windows: (windows[:, -1] - windows[:, 0]) / (windows.shape[1] - 1),
}
BASIC = ("mean", "sd", "log_sd", "mean_abs_diff", "log_low_band", "log_high_band")
FEATURE_SETS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "basic": (CHANNELS, BASIC),
    "extended": ((*CHANNELS, "acc_norm", "gyro_norm"), tuple(FEATURES)),
    "raw": (CHANNELS, ()),
    "both": (CHANNELS, BASIC),
}


@needs
def load_hapt(
    root: PathLike | None = None,
    window: Annotated[int, Whole(2)] = 25,
    features: Annotated[str, OneOf(*FEATURE_SETS)] = "basic",
    unlabeled: Annotated[str, OneOf("drop", "keep", "unknown")] = "drop",
    labels: Annotated[str, OneOf("segments", "activities")] = "segments",
) -> LabeledSequences:
    """Recordings of everyday activities, divided into windows with a row of features each.

    A recording (50 Hz; acceleration in g, angular velocity in rad/s) is cut into windows of
    ``window`` samples that do not overlap. Each window becomes a row; an incomplete last window is
    dropped. A window belongs to the segment, or to the unlabelled gap, that contains most of its
    samples. Each user is a group (``user01``). ``names`` holds the name of each recording
    (``exp01_user01``).

    Data: Reyes-Ortiz, Oneto, Sama, Parra & Anguita, Transition-Aware Human Activity Recognition
    Using Smartphones, Neurocomputing 171, 2016 (UCI 341). Files: ``sequences_int16.npz`` and
    ``segments.csv``, which are made from the publisher's archive if they are missing.
    Cost O(samples).

    Parameters
    ----------
    root : path, optional
        Folder with the two files; see :func:`metriclearn.datasets.data_folder`.
    window : int
        Samples per window, at least 2. 25 samples are 0.5 s.
    features : {"basic", "extended", "raw", "both"}
        ``"basic"`` computes six features of each of the six channels, with names such as
        ``acc_x_mean``. The first three are the mean, the sd and the mean absolute difference of
        neighboring samples (g or rad/s). The other three are natural logarithms of a value plus
        0.001. The values are the sd (``log_sd``), the root mean square of the frequencies up to 5
        Hz (``log_low_band``), and the root mean square of the frequencies above 5 Hz
        (``log_high_band``). ``"extended"`` adds four features: minimum, maximum, median (g or
        rad/s) and slope (per sample). ``"extended"`` also treats the norms of acceleration and of
        angular velocity as two further channels, so there are 80 features. ``"raw"`` gives the
        samples of the window (g and rad/s) in all six channels, with names such as ``acc_x_0``.
        ``"both"`` gives the raw features, then the basic ones.
    unlabeled : {"drop", "keep", "unknown"}
        What to do with windows that belong to a gap. ``"drop"`` removes these windows and joins the
        remaining ones. ``"keep"`` makes every gap a separate segment. ``"unknown"`` labels these
        windows −1, so the labels are partial.
    labels : {"segments", "activities"}
        ``"segments"`` numbers the segments 0 … K−1 in order of time; two neighbors with the same
        activity are two segments. ``"activities"`` uses the numbers of the activities, which recur:
        1 walking, 2 upstairs, 3 downstairs, 4 sitting, 5 standing, 6 laying, and 7 to 12 for the
        transitions between sitting, standing and laying. With ``"activities"``, gaps are labeled 0
        if they are kept, and −1 if they are unknown.

    Returns
    -------
    LabeledSequences
        ``sequences`` of shape (T_i, P), ``labels`` (T_i,), ``groups``, ``names``.

    Raises
    ------
    ValueError
        If an option is unknown, or the files are damaged or do not fit together.
    FileNotFoundError
        If the files are missing.

    Examples
    --------
    >>> from metriclearn.datasets import load_hapt
    >>> data = load_hapt()  # doctest: +SKIP
    >>> train, test = data.split_by_group(n_test=6, random_state=0)  # doctest: +SKIP
    """
    lay_out("hapt", root, FILES, "RawData/labels.txt", _convert)
    recordings = read("hapt", "sequences_int16.npz", root)
    columns = {"sequence": str, "start": int, "end": int, "label": int}
    segments = read("hapt", "segments.csv", root, columns).sort_values("start", kind="stable")
    channels, functions = FEATURE_SETS[features]
    parts = {}
    for name in sorted(recordings):
        table = segments[segments["sequence"] == name]
        owner = _owners(name, table[["start", "end"]].to_numpy(), len(recordings[name]), window)
        inside = owner % 2 == 1  # spans have odd numbers, gaps even ones
        kept = inside | (unlabeled != "drop")
        X = _window_features(recordings[name] * UNITS, window, features)
        numbers = np.searchsorted(np.unique(owner[kept]), owner[kept])
        if unlabeled == "unknown":
            numbers = np.where(inside, np.searchsorted(np.unique(owner[inside]), owner), -1)
        if labels == "activities":
            gap = 0 if unlabeled == "keep" else -1
            gaps = np.full(len(table), gap)  # one before each span; one more after the last
            numbers = np.append(np.column_stack([gaps, table["label"]]), gap)[owner[kept]]
        parts[name] = X[kept], numbers
    feature_names = [f"{channel}_{function}" for function in functions for channel in channels]
    if features in ("raw", "both"):
        samples = [f"{channel}_{i}" for i in range(window) for channel in channels]
        feature_names = samples + feature_names
    return of_parts("hapt", parts, feature_names, [name.rpartition("_")[2] for name in parts])


def _convert(raw: Path, folder: Path) -> None:
    """Make the two files from the folder RawData of the publisher's archive.

    ``acc_expEE_userUU.txt`` is in g, and ``gyro_expEE_userUU.txt`` is in rad/s; each has three
    columns. The columns of ``labels.txt`` are the numbers of experiment, user and activity, and the
    first and last sample of a segment, counted from 1.
    """
    pd = optional("pandas", "tables")
    spaced: dict[str, Any] = {"sep": r"\s+", "header": None}
    recordings = {}
    for file in sorted(raw.glob("acc_exp*_user*.txt")):
        name = file.stem.removeprefix("acc_")
        signals = [pd.read_csv(raw / f"{kind}_{name}.txt", **spaced) for kind in ("acc", "gyro")]
        values = np.hstack([signal.to_numpy(dtype=np.float64) for signal in signals]) / UNITS
        recordings[name] = np.rint(values).astype(np.int16)
        if recordings[name].shape[1:] != (6,) or np.abs(values - recordings[name]).max() > 0.05:
            raise ValueError(f"{name} needs multiples of 1/720 g and of 0.0175 degrees per second")
    names = ["experiment", "user", "activity", "start", "end"]
    table = pd.read_csv(raw / "labels.txt", names=names, **spaced)
    activities = pd.read_csv(raw.parent / "activity_labels.txt", index_col=0, **spaced)[1]
    made = pd.DataFrame(
        {
            "sequence": [f"exp{e:02d}_user{u:02d}" for e, u in table[names[:2]].to_numpy()],
            "start": table["start"] - 1,
            "end": table["end"],
            "label": table["activity"],
            "name": activities[table["activity"]].to_numpy(),
        }
    ).sort_values(["sequence", "start"])
    np.savez_compressed(folder / FILES[0], **recordings)
    made.to_csv(folder / FILES[1], index=False)


def _window_features(signals: Signals, window: int, features: str) -> Signals:
    """Compute the features of all complete windows, (T // window, P)."""
    channels, functions = FEATURE_SETS[features]
    norms = [np.linalg.norm(signals[:, part], axis=1) for part in (slice(0, 3), slice(3, 6))]
    signals = np.column_stack([signals, *norms])[:, : len(channels)]
    count = len(signals) // window
    windows = signals[: count * window].reshape(count, window, -1)
    raw = [windows.reshape(count, -1)] if features in ("raw", "both") else []
    return np.hstack(raw + [FEATURES[function](windows) for function in functions])


def _owners(name: str, spans: NDArray, n_samples: int, window: int) -> NDArray[np.int64]:
    """Return the number of the segment or gap that contains most samples of each window.

    Segments (``spans``) and gaps are numbered together in order of time: the gap before the first
    segment is 0, the first segment 1, the gap after it 2, and so on.
    """
    edges = spans.ravel()
    inside = len(spans) and n_samples >= window and edges[0] >= 0 and edges[-1] <= n_samples
    if not inside or np.any(np.diff(edges) < 0) or np.any(spans[:, 0] == spans[:, 1]):
        raise ValueError(
            f"HAPT recording {name!r} of {n_samples} samples needs {window} samples or more and "
            f"non-empty, disjoint segments inside, got {spans.tolist()[:5]}; get the files again."
        )
    pieces = np.searchsorted(edges, np.arange(n_samples), side="right")
    rows = pieces[: n_samples // window * window].reshape(-1, window)
    return np.array([row[0] + np.bincount(row - row[0]).argmax() for row in rows])
