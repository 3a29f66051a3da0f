"""Run detectors of other packages on our data. Their answers are committed, and benchmarks read
them.

    python -m experiments.benchmarks.detectors segmenters                  # aeon and claspy on HAPT
    python -m experiments.benchmarks.detectors shots outputs/data/videos   # PySceneDetect
    python -m experiments.benchmarks.streaming --write streams.npz
    python -m experiments.benchmarks.detectors streams streams.npz         # claspy and river

These packages need other versions of libraries than the tests of metriclearn. So run each command
in a separate environment: ``pip install claspy aeon ruptures stumpy -e .``, ``pip install
scenedetect-headless==0.7.2``, or ``pip install claspy==0.2.8 river==0.26.1``. Only the first
command imports this project.

* segmenters: GreedyGaussian, InformationGain and EAgglo get the same half-second features as
  learners, standardized. The other methods get the signals at 12.5 Hz, one channel at a time. ClaSP
  also gets all channels at once. Methods with "K given" get the true number of change-points.
* shots: by default the detectors find no shot of less than 15 frames. At 25 frames per second, 15
  frames last 0.6 s. The videos here have only 5 frames per second. So when we try thresholds, we
  let the shortest shot last 0.6 s.
* streams: all these detectors read one number at a time. The signal is either the leading principal
  component of the features, or the leading direction of the learned metric. Each detector gets the
  signal and the parameters with the largest F1 on the first six training recordings.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

Found = list[tuple[int, int]]  # position of a change, and samples read until its report

USERS = ["user03", "user07", "user11", "user13", "user19", "user26"]  # experiment=hapt tests on
WINDOW, STEP, PERIOD = 25, 4, 12  # raw samples of a window and of a 12.5 Hz row; rows of a second
SHOTS = {  # thresholds of detectors, the installed one first
    "ContentDetector": ("threshold", (27.0, 10.0, 15.0, 20.0, 35.0, 45.0, 60.0)),
    "AdaptiveDetector": ("adaptive_threshold", (3.0, 1.5, 2.0, 2.5, 4.0, 6.0, 10.0)),
}
GRIDS: dict[str, dict[str, Sequence[Any]]] = {
    "ADWIN": {"delta": (0.9, 0.3, 2e-3), "clock": (1, 8), "grace_period": (5, 10)},
    "PageHinkley": {"min_instances": (2, 5), "delta": (0.005, 0.5), "threshold": (0.3, 1, 3, 10)},
    "KSWIN": {"alpha": (0.05, 0.01), "window_size": (25,), "stat_size": (5, 10)},
    "ClaSP": {
        "n_timepoints": (150, 400),
        "window_size": (3, 5),
        "validation": ("significance_test", "score_threshold"),
        "threshold": (0.01, 0.6, 0.75),
    },
}
_TUNED = 6  # training recordings that parameters are chosen on


def aeon(name: str, X: Any, **options: Any) -> Any:
    """Find change-points with a segmenter of aeon."""
    from aeon import segmentation

    segmenter = getattr(segmentation, name)(**options)
    found = np.asarray(segmenter.fit_predict(X, axis=0))
    return found if segmenter.get_tag("returns_dense") else np.flatnonzero(np.diff(found)) + 1


def clasp(X: Any) -> Any:
    """Find change-points in one or several channels with ClaSP of claspy, which chooses the number
    of changes."""
    from claspy.segmentation import BinaryClaSPSegmentation

    return BinaryClaSPSegmentation(n_jobs=1).fit_predict(X)


def segmenters_of(X: Any, raw: Any, K: int) -> Iterator[tuple[str, Any, float]]:
    """Yield for one recording with K change-points the title of every method, a call that finds
    them, and the length of one sample of its input in windows of half a second."""
    Z, unit = (X - X.mean(axis=0)) / X.std(axis=0), (X - X.min(axis=0)) / np.ptp(X, axis=0)
    signals = raw[: len(raw) // STEP * STEP].reshape(-1, STEP, 6).mean(axis=1)
    greedy = partial(aeon, "GreedyGaussianSegmenter", Z, k_max=K, random_state=0)
    gain = partial(aeon, "InformationGainSegmenter", unit, k_max=K, step=1)
    yield "GreedyGaussian (aeon), K given", greedy, 1.0
    yield "InformationGain (aeon), K given", gain, 1.0
    yield "EAgglo (aeon)", partial(aeon, "EAggloSegmenter", Z), 1.0
    of_aeon: dict[str, tuple[str, dict[str, int]]] = {
        "BinSeg": ("BinSegmenter", {"n_cps": K}),
        "FLUSS": ("FLUSSSegmenter", {"period_length": PERIOD, "n_regimes": K + 1}),
        "ClaSP": ("ClaSPSegmenter", {"period_length": PERIOD, "n_cps": K}),
    }
    for channel, x in enumerate(signals.T):
        for title, (name, options) in of_aeon.items():
            call = partial(aeon, name, x, **options)
            yield f"{title} (aeon), K given/{channel}", call, STEP / WINDOW
        yield f"ClaSP (claspy)/{channel}", partial(clasp, x), STEP / WINDOW
    yield "ClaSP (claspy), all channels", partial(clasp, signals), STEP / WINDOW


def segmenters(_: Path | None) -> Any:
    """Segment the recordings of the test users of HAPT. Returns change-points in windows of half a
    second by method and recording."""
    from metriclearn.datasets import load_dataset, registry

    (test,) = load_dataset("hapt", unlabeled="keep").split_by_group(groups=[USERS])
    recordings = registry.read("hapt", "sequences_int16.npz", None)
    results: dict[str, dict[str, list[int]]] = {}
    for name, X, ends in zip(test.names, test.sequences, test.change_points):
        for title, call, unit in segmenters_of(X, recordings[name], len(ends) - 1):
            found = np.unique(np.round(np.asarray(call()) * unit).astype(int)).tolist()
            results.setdefault(title, {})[name] = [end for end in found if 0 < end < len(X)]
    return results


def shots(folder: Path) -> Any:
    """Find cuts in the MP4 files of the folders in a folder. Returns the number of the first frame
    of each shot but the first, by detector, setting and video."""
    import scenedetect

    found: dict[str, dict[str, dict[str, list[int]]]] = {}
    for name, (parameter, thresholds) in SHOTS.items():
        settings: dict[str, dict] = {"as installed": {}}
        settings |= {f"{t:g}": {parameter: t, "min_scene_len": "0.6s"} for t in thresholds}
        found[name] = {setting: {} for setting in settings}
        for video, (setting, values) in product(sorted(folder.glob("*/*.mp4")), settings.items()):
            detector = getattr(scenedetect, name)(**values)
            cuts = scenedetect.detect(str(video), detector, start_in_scene=True)
            found[name][setting][video.stem] = [int(start.frame_num) for start, _ in cuts[1:]]
    return found


def scores(found: Sequence[Found], truths: Sequence[Any], margin: int) -> dict[str, float]:
    """Compute the F1 of boundaries, which must be found within the margin, and the median delay of
    their reports in samples. A report matches at most one boundary."""
    hits, delays = 0, []
    for changes, truth in zip(found, truths):
        left = list(changes)
        for t in truth:
            near = [one for one in left if abs(one[0] - t) <= margin]
            if near:
                best = min(near, key=lambda one: abs(one[0] - t))
                left.remove(best)
                delays.append(best[1] - t)
                hits += 1
    total = sum(map(len, found)) + sum(map(len, truths))
    delay = float(np.median(delays)) if delays else float("nan")
    return {"f1": 2.0 * hits / max(1, total), "delay": delay}


def follow(name: str, parameters: dict[str, Any], signal: Any) -> Iterator[tuple[int, int]]:
    """Yield the changes that a detector reports while it reads a signal one number at a time. A
    change comes with the number of samples that the detector had read when it reported the
    change."""
    if name == "ClaSP":
        from claspy.streaming.segmentation import StreamingClaSPSegmentation

        size = min(parameters["n_timepoints"], len(signal))
        given = {**parameters, "n_timepoints": size, "n_warmup": 4 * parameters["window_size"]}
        model, told = StreamingClaSPSegmentation(**given, log_cps=True), 0
        for t, value in enumerate(signal):
            model.update(float(value))
            for change in getattr(model, "change_points", [])[told:]:
                yield int(change), t + 1
                told += 1
        return
    from river import drift

    detector = getattr(drift, name)(**parameters, **({"seed": 0} if name == "KSWIN" else {}))
    for t, value in enumerate(signal):
        detector.update(float(value))
        if detector.drift_detected:
            # only ADWIN gives a position: the start of its window
            width = int(detector.width) if name == "ADWIN" else 0
            yield t + 1 - width, t + 1


def stream_row(name: str, data: dict[str, Any]) -> dict[str, Any]:
    """Choose the parameters and the signal with which a detector has the largest F1 on the training
    data. Returns its F1, delay and speed on the test data."""
    best: Any = (-1.0, {}, "")
    for values in product(*GRIDS[name].values()):
        parameters = dict(zip(GRIDS[name], values))
        for kind in ("principal", "learned"):
            train = data["train"]
            found = [list(follow(name, parameters, x)) for x in train[kind][:_TUNED]]
            f1 = scores(found, train["truths"][:_TUNED], data["margin"])["f1"]
            best = max(best, (f1, parameters, kind), key=lambda one: one[0])
    _, parameters, kind = best
    begin, test = time.process_time(), data["test"]
    found = [list(follow(name, parameters, x)) for x in test[kind]]
    seconds = max(time.process_time() - begin, 1e-9)
    return {
        "parameters": {**parameters, "signal": kind},
        **scores(found, test["truths"], data["margin"]),
        "samples a second": round(sum(map(len, test[kind])) / seconds),
    }


def streams(path: Path) -> Any:
    """Measure all detectors on the signals that ``streaming --write`` stores."""
    data: dict[str, Any] = {}
    with np.load(path) as file:
        for key in file.files:  # in the order of writing
            name, *rest = key.split("/")
            mine = data.setdefault(name, {})
            if rest == ["margin"]:
                mine["margin"] = int(file[key])
            else:
                part, kind, _ = rest
                mine.setdefault(part, {}).setdefault(kind, []).append(file[key])
    return {name: {one: stream_row(one, mine) for one in GRIDS} for name, mine in data.items()}


COMMANDS = {
    "segmenters": (segmenters, "hapt_segmenters.json"),
    "shots": (shots, "shot_detectors.json"),
    "streams": (streams, "stream_detectors.json"),
}


def main() -> None:
    """Run the detectors of one kind, and write what they find."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("kind", choices=COMMANDS)
    parser.add_argument("data", type=Path, nargs="?", help="folder of videos, or file of streams")
    options = parser.parse_args()
    run, target = COMMANDS[options.kind]
    warnings.simplefilter("ignore")
    text = json.dumps(run(options.data), indent=1 if options.kind == "streams" else None)
    Path(__file__).with_name(target).write_text(f"{text}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
