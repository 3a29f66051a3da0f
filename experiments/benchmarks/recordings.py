"""Boundaries compared with other packages: shots of videos, activities on phones, and sound.

    python -m experiments.benchmarks.recordings [--tiny]

*shots* uses the drawn videos of ``experiment=video``, 7 to train and 3 to test.
PySceneDetect's cuts are in ``shot_detectors.json``, which
:mod:`experiments.benchmarks.detectors` writes. *musanmix* is a data set with a single recording,
which is used for test. So models learn from the sound of the shows of ``experiment=shows``.
*phones* are the test users of ``experiment=hapt``. The answers of segmenters of aeon and claspy are
in ``hapt_segmenters.json``.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import GridSearchCV

from experiments.benchmarks.benchmark import Benchmark, Run
from experiments.benchmarks.machine import Row
from experiments.data.assembled_shows import build_shows
from experiments.data.drawn_scenes import FOLDERS, FRAME_RATE
from experiments.data.generated_videos import build_videos, plan
from experiments.harness.cases import group_cases, group_folds
from experiments.harness.results import standard_error
from experiments.harness.scoring import inner_f1
from experiments.studies.audio_and_video import folder_cases
from metriclearn import ChangePointMetricLearner, FullMetric, Partition, SquaredFrobenius
from metriclearn.baselines import EqualCuts, TunedSegmenter
from metriclearn.datasets import LabeledSequences, load_dataset
from metriclearn.features.media.audio import AudioFeatures
from metriclearn.features.media.video import ColorHistogram, VideoFeatures
from metriclearn.indices import compare
from metriclearn.views import OwnScale

BENCH = Benchmark("recordings", __doc__)
PEERS = Path(__file__).parent / "shot_detectors.json"
SEGMENTERS = PEERS.with_name("hapt_segmenters.json")
DATA = Path("outputs/data")
SHOTS, PHONES = "F1 at ± 0.2 s", "F1 at ± 1 s"
MARGINS = {SHOTS: 1, PHONES: 2}  # in samples


def answers(train: LabeledSequences, X: Sequence[NDArray]) -> list[tuple[str, str, Any]]:
    """Fit all methods to training recordings. Returns the name of each method, what it learns from
    labels, and the change-points that it finds in new recordings."""
    strengths = [SquaredFrobenius(strength) for strength in (3e-3, 1e-2, 3e-2, 1e-1)]
    folds = group_folds(train, 4)
    search = GridSearchCV(
        ChangePointMetricLearner(FullMetric()), {"regularizer": strengths}, cv=folds
    )
    methods: list[tuple[str, str, Any]] = [
        ("ours, full metric", "metric, penalty", search),
        ("Euclidean", "penalty", TunedSegmenter()),
        ("equal cuts", "mean length", EqualCuts()),
        ("one segment", "none", EqualCuts(1)),
    ]
    found = []
    for name, seen, method in methods:
        fitted = method.fit(train.sequences, train.labels)
        model = getattr(fitted, "best_estimator_", fitted)
        found.append((name, seen, model.predict_change_points(X)))
    return found


def row_of(
    method: str, seen: str, true: Sequence[NDArray], found: Sequence[Any], measure: str = SHOTS
) -> Row:
    """Make one line of a table of boundaries."""
    scores = np.array([inner_f1(*pair, MARGINS[measure]) for pair in zip(true, found)])
    counts = [sum(end != t[-1] for end in ends) for ends, t in zip(found, true)]
    return {
        "method": method,
        "learned from labels": seen,
        measure: float(scores.mean()),
        "standard error": standard_error(scores) or 0.0,
        "boundaries": float(np.mean(counts)),
    }


@BENCH.table("Shots of drawn videos", part="media")
def shots(_: Any, run: Run) -> list[Row]:
    """Measure how well cuts of the test videos are found, within one frame.

    A cut counts within one frame, a fifth of a second. Ours and Euclidean see histograms of colors
    in four quarters. As installed PySceneDetect's shortest shot, 15 frames, is 3 s in videos of 5
    frames per second; 0.6 s is what it is at 25.
    """
    tiny = run.tiny
    seconds, counts = (40.0, (4, 1, 1)) if tiny else (240.0, (4, 3, 3))
    root = build_videos(DATA / ("tiny_shots" if tiny else "videos"), 0, seconds, counts)
    labels = {}
    for place, (folder, count) in enumerate(zip(FOLDERS, counts)):
        for i in range(count):  # the generator of build_movies
            _, drawn = plan(seconds, np.random.default_rng([0, place, i]))
            lengths = [shot.n_frames for shot in drawn]
            labels[f"{folder}{i}"] = np.repeat(np.arange(len(lengths)), lengths)
    features = VideoFeatures(FRAME_RATE, [ColorHistogram(bins=4, blocks=2)], (64, 64))
    (case,) = folder_cases(root, features, 2)
    train, test = (
        replace(part, labels=[labels[name] for name in part.names])
        for part in (case.train, case.test)
    )
    ours, true = answers(train, test.sequences), test.change_points
    rows = [row_of(method, seen, true, found) for method, seen, found in ours]
    peers = {} if tiny else json.loads(PEERS.read_text(encoding="utf-8"))
    for detector, settings in peers.items():
        means = {}
        for setting, cuts in settings.items():
            pairs = zip(train.names, train.change_points)
            means[setting] = np.mean([inner_f1(t, cuts[n], 1) for n, t in pairs])
        _, installed, *_ = means
        chosen = max(list(means)[1:], key=means.__getitem__)
        for how, setting, seen in (
            ("as installed", "as installed", "none"),
            ("its threshold, shots from 0.6 s", installed, "none"),
            (f"threshold chosen ({chosen}), shots from 0.6 s", chosen, "threshold"),
        ):
            found = [settings[setting][name] for name in test.names]
            rows.append(row_of(f"{detector} (PySceneDetect), {how}", seen, true, found))
    return sorted(rows, key=lambda row: -row[SHOTS])


@BENCH.table("musanmix: music, noise and speech", part="media")
def musanmix(_: Any, run: Run) -> list[Row]:
    """Measure how well models learned from other recordings find the boundaries of musanmix.

    One recording, whose boundaries are those of inaSpeechSegmenter: agreement with a system, not
    with people, and too little for a standard error. Training: the sound of shows where speech and
    songs alternate, without noise or silence. F1 as mir_eval counts (the two ends of the recording
    are hits of everybody), purity and coverage of segments as pyannote.metrics does.
    """
    extractor = AudioFeatures(rate=2.0, flatness=True, contrast=True)
    sizes: Any = (0.7, (4, 1, 1)) if run.tiny else (5.5, (4, 3, 3))
    root = build_shows(DATA / ("tiny_sounds" if run.tiny else "sounds"), 0, *sizes)
    (case,) = folder_cases(root, extractor, 2, standardize=True)
    test = load_dataset("musanmix", extractor=extractor)
    (X,) = OwnScale().fit_transform(test.sequences)
    truth = Partition.from_runs(test.labels[0])
    rows: list[Row] = []
    for method, seen, (ends,) in answers(case.train, [X]):
        found = Partition(ends=ends)
        music, speech = (compare(truth, found, field=f, rate=2.0) for f in ("music", "speech"))
        rows.append(
            {
                "method": method,
                "learned from labels": f"{seen}, of other recordings" if seen != "none" else seen,
                "F1 at ± 0.5 s": music["hit_f@0.5"],
                "F1 at ± 3 s": music["hit_f@3"],
                "purity": speech["segmentation_purity"],
                "coverage": speech["segmentation_coverage"],
                "boundaries": len(ends) - 1,
            }
        )
    return sorted(rows, key=lambda row: -row["F1 at ± 0.5 s"])


@BENCH.table("HAPT: boundaries on test users", part="phones")
def phones(_: Any, run: Run) -> list[Row]:
    """Measure how well boundaries of activities are found, within a second.

    K given: the method is told the true number; of methods for one channel the one best on these
    recordings is shown, in their favor.
    """
    data = load_dataset("hapt", unlabeled="keep")
    data = data.select(range(10)) if run.tiny else data
    (case,) = group_cases(data, 1 if run.tiny else 6, False, 2, 0)
    test, true = case.test, case.test.change_points
    ours = answers(case.train, test.sequences)[:2]
    rows = [row_of(method, seen, true, found, PHONES) for method, seen, found in ours]
    best: dict[str, Row] = {}
    for title, runs in json.loads(SEGMENTERS.read_text(encoding="utf-8")).items():
        method, _, channel = title.partition("/")
        if set(test.names) <= set(runs):
            words = f"{method}, channel {channel} (the best here)" if channel else method
            found = [runs[name] for name in test.names]
            row = row_of(words, "none", true, found, PHONES)
            best[method] = max(best.get(method, row), row, key=lambda row: row[PHONES])
    return sorted([*rows, *best.values()], key=lambda row: -row[PHONES])


if __name__ == "__main__":
    BENCH.main()
