"""Read data sets in other rows than their loaders: single series as features, tables as measured.

Single series are TSSB, UTSA, and TCPD with one annotator.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import uniform_filter1d

from metriclearn import Partition
from metriclearn.datasets import LabeledSequences, data_folder, load_dataset
from metriclearn.datasets.sequences import of_parts
from metriclearn.problem import FrobeniusLoss

FEATURES = ["mean", "log_deviation", "log_step", "log_bend", "trend"]
_SMALL = 1e-3  # added before logarithms; series have deviation 1
# the file of a set that is stored as arrays, and the unit of a stored number
_STORED = {
    "hapt": ("sequences_int16.npz", np.repeat([1 / 720, 0.0175 * np.pi / 180], 3)),  # g, rad/s
    "gazecom": ("sequences_int16.npz", np.array([0.1, 0.1, 1.0])),  # pixels, percent
    "birdsong": ("sequences_int8.npz", 0.5),  # decibels
    "billboard": ("sequences_uint8.npz", 0.02),
    "piano_keys": ("sequences.npz", 1.0),  # quarters
}


def load_measured(name: str, step: int = 1, **options: Any) -> LabeledSequences:
    """Load the rows of a set as they were measured, without the features that its loader computes.

    The sets are ``hapt``, ``gazecom``, ``birdsong``, ``billboard`` and ``piano_keys``. ``step``
    rows are averaged to one. The loader gives the labels, and gets the ``options``.
    """
    file, unit = _STORED[name]
    options["window" if name == "hapt" else "step"] = step
    data = load_dataset(name, **options)
    with np.load(data_folder(name) / file) as arrays:
        stored = {one: arrays[one] * unit for one in data.names}
    sequences = [
        stored[one][: len(labels) * step].reshape(len(labels), step, -1).mean(axis=1)
        for one, labels in zip(data.names, data.labels)
    ]
    columns = [f"column {i}" for i in range(sequences[0].shape[1])]
    return replace(data, sequences=sequences, feature_names=columns)


def load_series(name: str, rows: int = 400, measured: bool = False) -> LabeledSequences:
    """Load the series of ``tssb``, ``utsa`` or ``tcpd``, as at most ``rows`` rows of five features.

    A series is scaled to mean 0 and deviation 1, and divided into blocks of equal length. A block
    has five features: its mean, its mean change, and three logarithms, namely of its deviation, of
    its mean absolute first difference and of its mean absolute second difference. All these
    features are averages over the block and its two neighbors. If ``measured`` is true, the only
    feature is the mean of the block in the unit of the series. Labels are segment numbers, after
    boundaries are rounded to blocks. From TCPD we take the series of one channel, with the
    annotator whose boundaries have the least mean loss against all others.
    """
    parts: dict[str, tuple[NDArray, NDArray]] = {}
    if name == "tcpd":
        for one in load_dataset("tcpd"):
            if one.values.shape[1] == 1:
                parts[one.name] = one.values[:, 0], medoid(one.annotations)
    else:
        data = load_dataset(name)
        for key, X, ends in zip(data.names, data.sequences, data.change_points):
            parts[key] = X[:, 0], ends
    features = block_means if measured else block_features
    blocks = {key: features(values, ends, rows) for key, (values, ends) in parts.items()}
    return of_parts(name, blocks, ["mean"] if measured else FEATURES)


def medoid(annotations: Mapping[str, NDArray]) -> NDArray[np.int64]:
    """Return the change-points of the annotator with the least mean ‖M − N‖² against all
    annotators."""
    cuts = [Partition(ends=ends) for ends in annotations.values()]
    loss = FrobeniusLoss()
    means = [np.mean([loss.squared_norm(a, b) for b in cuts]) for a in cuts]
    return cuts[int(np.argmin(means))].change_points


def block_features(values: NDArray, ends: NDArray, rows: int) -> tuple[NDArray, NDArray]:
    """Compute the features (B, 5) and the segment numbers (B,) of B blocks, B ≤ ``rows``."""
    v = (values - values.mean()) / (values.std() or 1.0)
    steps = np.diff(v, prepend=v[:1])
    bends = np.diff(steps, prepend=steps[:1])
    columns = np.column_stack([v, v * v, np.abs(steps), np.abs(bends), steps])
    means, labels = block_means(columns, ends, rows)
    mean, square, step, bend, trend = uniform_filter1d(means, 3, axis=0, mode="nearest").T
    deviation = np.sqrt(np.maximum(square - mean**2, 0.0))
    logs = [np.log(np.maximum(x, 0.0) + _SMALL) for x in (deviation, step, bend)]
    return np.column_stack([mean, *logs, trend]), labels


def block_means(values: NDArray, ends: NDArray, rows: int) -> tuple[NDArray, NDArray]:
    """Average the rows of B ≤ ``rows`` blocks of equal length, and number their segments, (B,)."""
    size = -(-len(values) // rows)
    count = len(values) // size
    means = values[: count * size].reshape(count, size, -1).mean(axis=1)
    rounded = np.unique(np.clip(np.round(np.asarray(ends) / size).astype(int), 1, count))
    rounded[-1] = count
    return means, Partition(ends=rounded).labels
