"""Two tables: shots of videos compared with PySceneDetect, and speech, music and noise in a
recording.

    python -m experiments.benchmarks.stored_recordings [--only shots musanmix]

The first table uses the drawn videos of ``experiment=video``, 7 to train and 3 to test.
PySceneDetect's cuts are in ``shot_detectors.json``, which
:mod:`experiments.benchmarks.shot_detectors` writes. The second table uses musanmix. This data set
has a single recording, which is used for test. So models learn from the sound of the shows of
``experiment=shows``.
"""

from __future__ import annotations

import json
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from experiments.benchmarks.machine import Report, Row, options_of
from experiments.benchmarks.segmentation import boundaries_f1, boundary_row, tuned_learner
from experiments.data.assembled_shows import build_shows
from experiments.data.drawn_scenes import FOLDERS, FRAME_RATE
from experiments.data.generated_videos import build_videos, plan
from experiments.studies.audio_and_video import folder_cases
from metriclearn import Partition
from metriclearn.baselines import EqualCuts, TunedSegmenter
from metriclearn.datasets import LabeledSequences, load_dataset
from metriclearn.features.media.audio import AudioFeatures
from metriclearn.features.media.video import ColorHistogram, VideoFeatures
from metriclearn.indices import compare
from metriclearn.views import OwnScale

PEERS = Path(__file__).parent / "shot_detectors.json"
DATA = Path("outputs/data")
SHOTS = "F1 at ± 0.2 s"


def segmenters(train: LabeledSequences) -> dict[str, tuple[str, Any]]:
    """Fit all methods to training recordings. Returns each method with a text on what the method
    learns from labels."""
    fitted: dict[str, tuple[str, Any]] = {
        "ours, full metric": ("metric, penalty", tuned_learner(train)),
        "Euclidean": ("penalty", TunedSegmenter()),
        "equal cuts": ("mean length", EqualCuts()),
        "one segment": ("none", EqualCuts(1)),
    }
    for _, segmenter in list(fitted.values())[1:]:
        segmenter.fit(train.sequences, train.labels)
    return fitted


def shots(report: Report, tiny: bool) -> None:
    """Report how well cuts of the test videos are found, within one frame."""
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
    rows = []
    for method, (seen, segmenter) in segmenters(train).items():
        found = segmenter.predict_change_points(test.sequences)
        scores = [boundaries_f1(*pair, margin=1) for pair in zip(test.change_points, found)]
        rows.append(boundary_row(method, seen, scores, [len(c) - 1 for c in found], SHOTS))
    peers = {} if tiny else json.loads(PEERS.read_text(encoding="utf-8"))
    for detector, settings in peers.items():
        means = {}
        for setting, cuts in settings.items():
            pairs = zip(train.names, train.change_points)
            means[setting] = np.mean([boundaries_f1(t, cuts[n], margin=1) for n, t in pairs])
        _, installed, *_ = means
        chosen = max(list(means)[1:], key=means.__getitem__)
        for how, setting, seen in (
            ("as installed", "as installed", "none"),
            ("its threshold, shots from 0.6 s", installed, "none"),
            (f"threshold chosen ({chosen}), shots from 0.6 s", chosen, "threshold"),
        ):
            found = [settings[setting][name] for name in test.names]
            scores = [boundaries_f1(*pair, margin=1) for pair in zip(test.change_points, found)]
            method = f"{detector} (PySceneDetect), {how}"
            rows.append(boundary_row(method, seen, scores, list(map(len, found)), SHOTS))
    inner = np.mean([len(ends) - 1 for ends in test.change_points])
    report.table(
        "Shots of drawn videos",
        sorted(rows, key=lambda row: -row[SHOTS]),
        f"{len(test)} test videos with {inner:.1f} cuts on average, {len(train)} to train; a cut "
        "counts within one frame, a fifth of a second. Ours and Euclidean "
        "see histograms of colors in four quarters. As installed PySceneDetect's shortest shot, 15 "
        "frames, is 3 s in videos of 5 frames per second; 0.6 s is what it is at 25.",
    )


def musanmix(report: Report, tiny: bool) -> None:
    """Report how well models learned from other recordings find the boundaries of musanmix."""
    extractor = AudioFeatures(rate=2.0, flatness=True, contrast=True)
    sizes: Any = (0.7, (4, 1, 1)) if tiny else (5.5, (4, 3, 3))
    root = build_shows(DATA / ("tiny_sounds" if tiny else "sounds"), 0, *sizes)
    (case,) = folder_cases(root, extractor, 2, standardize=True)
    test = load_dataset("musanmix", extractor=extractor)
    (X,) = OwnScale().fit_transform(test.sequences)
    truth = Partition.from_runs(test.labels[0])
    rows: list[Row] = []
    for method, (seen, segmenter) in segmenters(case.train).items():
        (ends,) = segmenter.predict_change_points([X])
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
    report.table(
        "musanmix: music, noise and speech",
        sorted(rows, key=lambda row: -row["F1 at ± 0.5 s"]),
        f"One recording of {len(X) / 2:.0f} s with {truth.n_clusters - 1} boundaries, which are "
        "those of inaSpeechSegmenter: agreement with a system, not with people, and too little for "
        f"a standard error. Training: the sound of {len(case.train)} shows where speech and songs "
        "alternate, without noise or silence. F1 as mir_eval counts (the two ends of the recording "
        "are hits of everybody), purity and coverage of segments as pyannote.metrics does.",
    )


def main() -> None:
    """Print and save the tables."""
    parser = options_of(__doc__)
    tables = {"shots": shots, "musanmix": musanmix}
    parser.add_argument("--only", nargs="+", choices=tables, default=tables)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    report = Report("recordings", options)
    for name in options.only:
        tables[name](report, options.tiny)
    report.save()


if __name__ == "__main__":
    main()
