"""Read single series as rows of features: TSSB, UTSA, and TCPD with one annotator."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import uniform_filter1d

from metriclearn import Partition
from metriclearn.datasets import LabeledSequences, load_dataset
from metriclearn.datasets.sequences import of_parts
from metriclearn.problem import FrobeniusLoss

FEATURES = ["mean", "log_deviation", "log_step", "log_bend", "trend"]
_SMALL = 1e-3  # added before logarithms; series have deviation 1


def load_series(name: str, rows: int = 400) -> LabeledSequences:
    """Load the series of ``tssb``, ``utsa`` or ``tcpd``, as at most ``rows`` rows of five features.

    A series is scaled to mean 0 and deviation 1, and divided into blocks of equal length. A block
    has five features: its mean, its mean change, and three logarithms, namely of its deviation, of
    its mean absolute first difference and of its mean absolute second difference. All these
    features are averages over the block and its two neighbors. Labels are segment numbers, after
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
    blocks = {key: block_features(values, ends, rows) for key, (values, ends) in parts.items()}
    return of_parts(name, blocks, FEATURES)


def medoid(annotations: Mapping[str, NDArray]) -> NDArray[np.int64]:
    """Return the change-points of the annotator with the least mean ‖M − N‖² against all
    annotators."""
    cuts = [Partition(ends=ends) for ends in annotations.values()]
    loss = FrobeniusLoss()
    means = [np.mean([loss.squared_norm(a, b) for b in cuts]) for a in cuts]
    return cuts[int(np.argmin(means))].change_points


def block_features(values: NDArray, ends: NDArray, rows: int) -> tuple[NDArray, NDArray]:
    """Compute the features (B, 5) and the segment numbers (B,) of B blocks, B ≤ ``rows``."""
    size = -(-len(values) // rows)
    count = len(values) // size
    v = (values - values.mean()) / (values.std() or 1.0)
    steps = np.diff(v, prepend=v[:1])
    bends = np.diff(steps, prepend=steps[:1])
    columns = [v, v * v, np.abs(steps), np.abs(bends), steps]
    means = [column[: count * size].reshape(count, size).mean(axis=1) for column in columns]
    mean, square, step, bend, trend = (uniform_filter1d(m, 3, mode="nearest") for m in means)
    deviation = np.sqrt(np.maximum(square - mean**2, 0.0))
    logs = [np.log(np.maximum(x, 0.0) + _SMALL) for x in (deviation, step, bend)]
    rounded = np.unique(np.clip(np.round(np.asarray(ends) / size).astype(int), 1, count))
    rounded[-1] = count
    return np.column_stack([mean, *logs, trend]), Partition(ends=rounded).labels
