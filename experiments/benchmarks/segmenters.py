"""Find change-points for the test users of HAPT with unsupervised segmenters of aeon and claspy.

    python -m experiments.benchmarks.segmenters [--out FILE] [--recordings 1]

claspy needs other versions of packages than the tests of metriclearn. So run the command in a
separate environment, made by ``pip install claspy aeon ruptures stumpy -e .``. The output is
committed, and ``python -m experiments.benchmarks.segmentation`` compares it with learned metrics.
GreedyGaussian, InformationGain and EAgglo get the same half-second features as learners,
standardized. The other methods get the signals at 12.5 Hz, one channel at a time. ClaSP also gets
all channels at once. Methods with "K given" get the true number of change-points. The learned
metrics estimate this number.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metriclearn.datasets import load_dataset, registry

PEERS = Path(__file__).parent / "hapt_segmenters.json"
USERS = ["user03", "user07", "user11", "user13", "user19", "user26"]  # experiment=hapt tests on
WINDOW, STEP, PERIOD = 25, 4, 12  # raw samples of a window and of a 12.5 Hz row; rows of a second
Segmenter = Callable[[NDArray, int], Any]


def aeon_segmenter(name: str, **options: Any) -> Segmenter:
    """Return a function that finds change-points with a segmenter of aeon. Options that are
    functions are called with the true number of change-points."""

    def segment(X: NDArray, count: int) -> Any:
        from aeon import segmentation

        told = {key: value(count) if callable(value) else value for key, value in options.items()}
        segmenter = getattr(segmentation, name)(**told)
        found = np.asarray(segmenter.fit_predict(X, axis=0))
        return found if segmenter.get_tag("returns_dense") else np.flatnonzero(np.diff(found)) + 1

    return segment


def claspy_segmenter(X: NDArray, count: int) -> Any:
    """Find change-points in one or several channels with ClaSP, which chooses the number of
    changes."""
    from claspy.segmentation import BinaryClaSPSegmentation

    return BinaryClaSPSegmentation(n_jobs=1).fit_predict(X)


def information_gain(X: NDArray, count: int) -> Any:
    """Find change-points with aeon's InformationGainSegmenter, which needs values in [0, 1]."""
    values = (X - X.min(axis=0)) / np.ptp(X, axis=0)
    return aeon_segmenter("InformationGainSegmenter", k_max=same, step=1)(values, count)


def same(count: int) -> int:
    """Return an option of a segmenter: the true number of change-points."""
    return count


def regimes(count: int) -> int:
    """Return an option of a segmenter: the true number of segments."""
    return count + 1


FEATURES: dict[str, Segmenter] = {
    "GreedyGaussian (aeon), K given": aeon_segmenter(
        "GreedyGaussianSegmenter", k_max=same, random_state=0
    ),
    "InformationGain (aeon), K given": information_gain,
    "EAgglo (aeon)": aeon_segmenter("EAggloSegmenter"),
}
CHANNELS: dict[str, Segmenter] = {
    "BinSeg (aeon), K given": aeon_segmenter("BinSegmenter", n_cps=same),
    "FLUSS (aeon), K given": aeon_segmenter(
        "FLUSSSegmenter", period_length=PERIOD, n_regimes=regimes
    ),
    "ClaSP (aeon), K given": aeon_segmenter("ClaSPSegmenter", period_length=PERIOD, n_cps=same),
    "ClaSP (claspy)": claspy_segmenter,
}


def segmenters_of(X: NDArray, raw: NDArray) -> Iterator[tuple[str, Segmenter, NDArray, float]]:
    """Yield for one recording and every method the title, the segmenter, its input, and the length
    of one sample of this input in windows of half a second."""
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    signals = raw[: len(raw) // STEP * STEP].reshape(-1, STEP, 6).mean(axis=1)
    for method, segmenter in FEATURES.items():
        yield method, segmenter, Z, 1.0
    for method, segmenter in CHANNELS.items():
        for channel in range(6):
            yield f"{method}/{channel}", segmenter, signals[:, channel], STEP / WINDOW
    yield "ClaSP (claspy), all channels", claspy_segmenter, signals, STEP / WINDOW


def main() -> None:
    """Segment every test recording, and write change-points in windows of half a second."""
    parser = argparse.ArgumentParser(description="Segmenters of aeon and claspy on HAPT.")
    parser.add_argument("--out", type=Path, default=PEERS)
    parser.add_argument("--recordings", type=int, help="only the first ones")
    options = parser.parse_args()
    if find_spec("claspy") is None:
        print("claspy is not installed; the head of this file says how to make its environment.")
        return
    warnings.simplefilter("ignore")
    (test,) = load_dataset("hapt", unlabeled="keep").split_by_group(groups=[USERS])
    recordings = registry.read("hapt", "sequences_int16.npz", None)
    results: dict[str, dict[str, list[int]]] = {}
    for i in list(range(len(test)))[: options.recordings]:
        name, X, count = test.names[i], test.sequences[i], len(test.change_points[i]) - 1
        for title, segmenter, values, unit in segmenters_of(X, recordings[name]):
            ends = np.unique(np.round(np.asarray(segmenter(values, count)) * unit).astype(int))
            kept = [int(end) for end in ends if 0 < end < len(X)]
            results.setdefault(title, {})[name] = kept
            print(name, title, f"{len(kept)} change-points of {count}", flush=True)
        options.out.write_text(json.dumps(results, separators=(",", ":")) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
