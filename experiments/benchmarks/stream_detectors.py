"""Run detectors of claspy and river on the streams of ``experiments.benchmarks.streaming``.

    python -m experiments.benchmarks.streaming --write streams.npz
    python experiments/benchmarks/stream_detectors.py streams.npz [--out FILE]

The second command does not import this project. Run this command in a separate environment, made by
``pip install claspy==0.2.8 river==0.26.1``. The output is committed, and
``experiments.benchmarks.streaming`` compares it with our stream. All these detectors read one
number at a time. The signal is either the leading principal component of the features, or the
leading direction of the learned metric. Each detector gets the signal and the parameters with the
largest F1 on the first six training recordings.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

Found = list[tuple[int, int]]  # position of a change, and samples read until its report

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


def chosen(
    name: str, data: dict[str, Any], run: Callable[..., Found]
) -> tuple[dict[str, Any], str, list[Found], float]:
    """Choose the parameters and the signal with which a detector has the largest F1 on the training
    data. Returns the parameters, the name of the signal, the changes found in the test data, and
    the processor seconds for the test data."""
    best: Any = (-1.0, {}, "")
    for values in product(*GRIDS[name].values()):
        parameters = dict(zip(GRIDS[name], values))
        for kind in ("principal", "learned"):
            found = [run(name, parameters, signal) for signal in data["train"][kind][:_TUNED]]
            f1 = scores(found, data["train"]["truths"][:_TUNED], data["margin"])["f1"]
            best = max(best, (f1, parameters, kind), key=lambda one: one[0])
    _, parameters, kind = best
    begin = time.process_time()
    found = [run(name, parameters, signal) for signal in data["test"][kind]]
    return parameters, kind, found, time.process_time() - begin


def read(path: Path) -> dict[str, Any]:
    """Read the signals and true change-points that ``streaming --write`` stores, by data set and
    part (training or test)."""
    with np.load(path) as file:
        data: dict[str, Any] = {}
        for key in file.files:  # in the order of writing
            name, *rest = key.split("/")
            if rest == ["margin"]:
                data.setdefault(name, {})["margin"] = int(file[key])
                continue
            part, kind, _ = rest
            data.setdefault(name, {}).setdefault(part, {}).setdefault(kind, []).append(file[key])
    return data


def main() -> None:
    """Write F1, delay and speed of every detector, with its parameters."""
    parser = argparse.ArgumentParser(description="Detectors of claspy and river on streams.")
    parser.add_argument("streams", type=Path, help="file made by streaming --write")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "stream_detectors.json")
    options = parser.parse_args()
    if find_spec("claspy") is None or find_spec("river") is None:
        print("claspy or river is not installed; the head of this file says how to.")
        return
    results: dict[str, dict[str, Any]] = {}
    for data_name, data in read(options.streams).items():
        for name in GRIDS:
            run = lambda *arguments: list(follow(*arguments))  # noqa: E731
            parameters, kind, found, seconds = chosen(name, data, run)
            n_samples = sum(map(len, data["test"][kind]))
            results.setdefault(data_name, {})[name] = {
                "parameters": {**parameters, "signal": kind},
                **scores(found, data["test"]["truths"], data["margin"]),
                "samples a second": round(n_samples / max(seconds, 1e-9)),
            }
            print(data_name, name, results[data_name][name], flush=True)
    options.out.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
