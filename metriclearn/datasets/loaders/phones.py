"""HAPT: activities and postural transitions recorded by a phone at the waist."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray

from metriclearn.datasets.registry import PathLike, lay_out, read
from metriclearn.datasets.sequences import LabeledSequences, of_parts
from metriclearn.running.extras import optional
from metriclearn.running.parameters import Whole, needs

_FILES = ("sequences_int16.npz", "segments.csv")
_RATE, _BAND_EDGE = 50.0, 5.0  # Hz
_CHANNELS = ("acc_x", "acc_y", "acc_z", "gyro_x", "gyro_y", "gyro_z")
UNITS = np.repeat([1.0 / 720.0, 0.0175 * np.pi / 180.0], 3)  # g and rad/s per stored integer
_FLOOR = 1e-3  # about the sensors' resolution; keeps the logarithm of a still phone finite

Signals = NDArray[np.float64]


def _log_band(windows: Signals, low: float = 0.0, high: float = np.inf) -> Signals:
    """Log of the root mean square at frequencies f with low < f ≤ high Hz, (n, channels)."""
    from scipy.signal import periodogram

    options = {"detrend": False, "scaling": "spectrum", "axis": 1}
    frequencies, power = periodogram(windows, _RATE, **options)
    chosen = (frequencies > low) & (frequencies <= high)
    return np.log(np.sqrt(power[:, chosen].sum(axis=1)) + _FLOOR)


_BASIC: dict[str, Callable[[Signals], Signals]] = {
    "mean": lambda windows: windows.mean(axis=1),
    "sd": lambda windows: windows.std(axis=1),
    "log_sd": lambda windows: np.log(windows.std(axis=1) + _FLOOR),
    "mean_abs_diff": lambda windows: np.abs(np.diff(windows, axis=1)).mean(axis=1),
    "log_low_band": partial(_log_band, high=_BAND_EDGE),
    "log_high_band": partial(_log_band, low=_BAND_EDGE),
}
_EXTENDED = _BASIC | {
    "min": lambda windows: windows.min(axis=1),
    "max": lambda windows: windows.max(axis=1),
    "median": lambda windows: np.median(windows, axis=1),
    "slope": lambda windows: (windows[:, -1] - windows[:, 0]) / (windows.shape[1] - 1),
}


@needs
def hapt(
    name: str,
    root: PathLike | None,
    *,
    window: Annotated[int, Whole(2)] = 25,
    features: Literal["basic", "extended", "raw", "both"] = "basic",
    unlabeled: Literal["drop", "keep", "unknown"] = "drop",
    labels: Literal["segments", "activities"] = "segments",
) -> LabeledSequences:
    """Read recordings, and cut them into windows with a row of features each; see load_dataset."""
    lay_out(name, root, _FILES, "RawData/labels.txt", _convert)
    recordings = read(name, _FILES[0], root)
    columns = {"sequence": str, "start": int, "end": int, "label": int}
    segments = read(name, _FILES[1], root, columns).sort_values("start", kind="stable")
    parts, feature_names = {}, list[str]()
    for one in sorted(recordings):
        table = segments[segments["sequence"] == one]
        owner = _owners(one, table[["start", "end"]].to_numpy(), len(recordings[one]), window)
        named = (owner % 2 == 1) | (unlabeled == "keep")  # segments are odd, gaps are even
        if recordings[one].shape[1:] != (len(_CHANNELS),):
            raise ValueError(
                f"HAPT recording {one!r} needs the columns {', '.join(_CHANNELS)}, got an array of "
                f"shape {recordings[one].shape}; get the file again."
            )
        X, feature_names = _features(recordings[one] * UNITS, window, features)
        if labels == "segments":
            numbers = np.searchsorted(np.unique(owner[named]), owner)
        else:
            gaps = np.zeros(len(table), int)  # one before each segment; one more after the last
            numbers = np.append(np.column_stack([gaps, table["label"]]), 0)[owner]
        kept = named | (unlabeled == "unknown")
        if not kept.any():
            raise ValueError(
                f"HAPT recording {one!r} has no window of {window} samples that is mostly labeled; "
                "choose a smaller window or unlabeled='keep', or leave this recording out."
            )
        parts[one] = X[kept], np.where(named, numbers, -1)[kept]
    return of_parts(name, parts, feature_names, [one.rpartition("_")[2] for one in parts])


def _features(signals: Signals, window: int, features: str) -> tuple[Signals, list[str]]:
    """Compute the features of all complete windows, (T // window, P), and their names."""
    count, channels = len(signals) // window, list(_CHANNELS)
    columns, names = list[Signals](), list[str]()
    if features == "extended":
        norms = [np.linalg.norm(signals[:, part], axis=1) for part in (slice(0, 3), slice(3, 6))]
        signals, channels = np.column_stack([signals, *norms]), [*channels, "acc_norm", "gyro_norm"]
    windows = signals[: count * window].reshape(count, window, -1)
    if features in ("raw", "both"):
        columns.append(windows.reshape(count, -1))
        names += [f"{channel}_{i}" for i in range(window) for channel in channels]
    if features != "raw":
        functions = _EXTENDED if features == "extended" else _BASIC
        columns += [function(windows) for function in functions.values()]
        names += [f"{channel}_{function}" for function in functions for channel in channels]
    return np.hstack(columns), names


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
    names = ["experiment", "user", "label", "start", "end"]
    table = pd.read_csv(raw / "labels.txt", names=names, **spaced)
    activities = pd.read_csv(raw.parent / "activity_labels.txt", index_col=0, **spaced)[1]
    table = table.assign(
        sequence=[f"exp{e:02d}_user{u:02d}" for e, u in table[names[:2]].to_numpy()],
        start=table["start"] - 1,
        name=activities[table["label"]].to_numpy(),
    ).sort_values(["sequence", "start"])
    np.savez_compressed(folder / _FILES[0], **recordings)
    columns = ["sequence", "start", "end", "label", "name"]
    table.to_csv(folder / _FILES[1], index=False, columns=columns)
