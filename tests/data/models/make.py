"""Models of every kind that can be saved, fitted on small data, with what they predict.

    python tests/data/models/make.py

The files beside this one were written by the version before the modules of the package moved, in
format 1, which later versions have to read; made again by those, they would say nothing of it.
"""

from __future__ import annotations

import os
import pkgutil
import sys
import tempfile
import warnings
import wave
from contextlib import suppress
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

import metriclearn as ml
from metriclearn import baselines, datasets

FOLDER = Path(__file__).parent
VALUES = [
    *["get_mahalanobis_matrix", "penalty_", "scale_", "strength_", "loss_path_", "intervals_"],
    *["solution_.objective", "alternation_.learned", "certificate_.upper", "training_errors_"],
    *["eigenvalue_threshold_", "coef_", "label_weights_", "label_intercepts_", "losses_"],
]
METHODS = ["transform", "predict", "predict_change_points", "predict_penalties", "segment_features"]


def part(name: str) -> Any:
    """A class that has no public name, wherever this version keeps it."""
    for module in pkgutil.walk_packages(ml.__path__, "metriclearn."):
        if hasattr(import_module(module.name), name):
            return getattr(import_module(module.name), name)
    raise LookupError(name)


def data() -> dict[str, tuple[Any, Any]]:
    """Training data, as few as possible; the first argument of fit is what models predict."""
    rng = np.random.default_rng(0)
    drawn = datasets.make_change_points(3, 30, 3, 2, (2, 3), jump=3.0, random_state=0)
    classes = np.arange(24) % 3
    table = rng.normal(size=(24, 3)) + np.outer(classes, (3, 1, 0))
    graphs = rng.normal(size=(2, 16, 2)) + np.outer(np.arange(16) // 8, (3, 0))
    gaps = graphs[:, :, None] - graphs[:, None]
    image = rng.integers(0, 10, size=(1, 24, 32, 3), dtype=np.uint8)
    image[:, :, 16:] += 150
    halves = np.arange(16) // 8
    known = [np.where(np.arange(30) % 10 < 7, labels, -1) for labels in drawn.labels]
    regions = [ml.PartialPartition(30, labels) for labels in known]
    interval = np.column_stack([np.arange(6.0) - 1, np.arange(6.0) + 1])
    return {
        "sequences": (np.array(drawn.sequences), drawn.labels),
        "partial": (np.array(drawn.sequences), known),
        "regions": (np.array(drawn.sequences), regions),
        "table": (table, classes),
        "partial table": (table, np.where(rng.random(24) < 0.5, classes, -1)),
        "graphs": (graphs, [halves, halves]),
        "partial graphs": (graphs, [np.where(np.arange(16) % 8 < 5, halves, -1)] * 2),
        "kernels": (np.exp(-(np.moveaxis(gaps, 3, 1) ** 2)), [halves, halves]),
        "image": (image, [np.tile(np.arange(32) // 16, (24, 1))]),
        "sequence": (drawn.sequences[0], None),
        "rows": (np.column_stack([np.arange(6.0), np.ones(6)]), interval),
    }


def estimators() -> dict[str, list[Any]]:
    """By the data that they are fitted on."""
    segmenter = ml.ChangePointMetricLearner(verbose=False)
    full, trace = ml.FullMetric(), ml.Trace(1e-2)
    steps = [part("ConstantStep")(1e-3), part("DecreasingStep")(0.5), part("PolyakStep")()]
    few = [ml.ProjectedSubgradient(step, max_rounds=3) for step in steps]
    smooth, thresholds = part("SlidingMoments")(3, scale="noise"), part("SoftThresholds")([0.5, 1])
    shaped = make_pipeline(smooth, thresholds, ml.HermiteMoments(2))
    given = part("GivenStart")(np.eye(3))
    cut, similarity = ml.NormalizedCutMetricLearner, part("EuclideanSimilarity")
    blocks = ml.ImageFeatures(part("PixelBlocks")(24), (part("Color")(), part("Position")()))
    groups = [part(name)() for name in ("GradientEnergy", "GaborEnergy", "Centrality")]
    groups += [part(name)() for name in ("ColorContext", "BorderContrast")]
    pixels = ml.ImageFeatures(part("Superpixels")(24), groups)
    return {
        "sequences": [
            segmenter,
            segmenter.paper(min_size=2, n_jobs=2),
            clone(segmenter).set_params(n_segments="given", oracle=ml.TorchChangePoints("cpu")),
            *[clone(segmenter).set_params(solver=solver) for solver in few],
            clone(segmenter).set_params(metric=full, regularizer=trace, solver=ml.CuttingPlane()),
            clone(segmenter).set_params(metric=full, regularizer=ml.SquaredFrobenius(0.1, 0.5)),
            ml.ChangePointMetricLearnerCV(strengths=2, cv=2, verbose=False),
            ml.WhitenedMetricLearner(),
            ml.ReferenceMetricLearner(baselines.RelevantComponents(2)),
            baselines.TunedSegmenter(baselines.PrincipalComponents(2, whiten=True)),
            baselines.RelevantComponents(),
            baselines.Euclidean(),
            part("SequenceFeatures")(),
        ],
        "sequence": [ml.HermiteMoments(2), part("SlidingMoments")(), part("SoftThresholds")()],
        "partial": [
            segmenter,
            clone(segmenter).set_params(alternation=ml.Alternation(2, ml.PrincipalStart(2))),
        ],
        "regions": [
            ml.PenaltyLearner(shaped, own_weight=1.0),
            baselines.BayesianCriterion(ml.HermiteMoments(2)),
            ml.DataPenaltyMetricLearner(),
            ml.DataPenaltyMetricLearner(start=given, constrained=False, n_turns=2, keep_best=True),
        ],
        "table": [
            ml.ClusteringMetricLearner(random_state=0, verbose=False),
            ml.ClusteringMetricLearner(
                n_clusters=None, oracle=ml.LocalSearch(rounding=part("RowKMeans")()), random_state=0
            ),
            ml.WhitenedClusteringLearner().set_params(learner__random_state=0),
            baselines.MetricKMeans(baselines.ClosedFormMetric(0.1), random_state=0),
            baselines.MMC(random_state=0),
            baselines.NeighborhoodComponents(2, max_iter=3, random_state=0),
        ],
        "partial table": [ml.ClusteringMetricLearner(random_state=0, verbose=False)],
        "graphs": [
            cut(solver=ml.CCCP(ml.BundleDual(max_rounds=5)), rounding=part("KMeansRounding")()),
            cut(full, similarity=ml.FourierSimilarity(20), rounding=part("Discretization")()),
            similarity(),
            part("SimilarityGridSearch")((0,), (0.1, 1.0)),
        ],
        "partial graphs": [cut()],
        "kernels": [cut(similarity=ml.GivenSimilarities())],
        "image": [
            cut(features=blocks, similarity=ml.GaussianSimilarity(part("Neighborhood")(6.0))),
            similarity(features=pixels),
        ],
        "rows": [baselines.IntervalRegression()],
    }


def recordings(sound: Any) -> list[tuple[str, Any]]:
    """Segmenters of recordings: a sound, and a table that stands for a video with its sound."""
    options: Any = {"sampling_rate": 4000, "window": 256, "hop": 128, "n_mels": 10, "n_mfcc": 4}
    audio = part("AudioFeatures")(4.0, **options)
    pictures = part("VideoFeatures")(4.0, (part("Gist")(), part("ColorHistogram")(4)))
    both = part("JoinedFeatures")((pictures, audio))
    spans = ["recording,start,end,label", "sound,0,1,low", "sound,1,2,high", "sound,2,3,low"]
    (FOLDER / "segments.csv").write_text("\n".join(spans) + "\n")
    with wave.open(str(FOLDER / "sound.wav"), "wb") as file:
        file.setparams((1, 2, 4000, 0, "NONE", ""))
        file.writeframes(sound.tobytes())
    learned = datasets.load_recordings(FOLDER, audio)
    drawn = datasets.make_change_points(3, 30, 3, 2, (2, 3), jump=3.0, random_state=0)
    return [
        ("sound", ml.RecordingSegmenter(audio).fit(learned, progress=False)),
        ("sequence", ml.RecordingSegmenter(both, n_folds=2).fit(drawn, progress=False)),
    ]


def flat(value: Any) -> Any:
    """Numbers in one array, None as NaN; segments as texts."""
    if isinstance(value, list) and value and isinstance(value[0], np.ndarray):
        return np.concatenate([array.ravel() for array in value])
    return np.ravel(np.nan if value is None else value)


def main() -> None:
    """Fit and save every model, and write what it predicts to expected.npz."""
    warnings.simplefilter("ignore")
    os.environ["METRICLEARN_CACHE"] = tempfile.mkdtemp()
    pitch = np.repeat([300.0, 1200.0, 300.0], 4000)
    sound = (8000 * np.sin(2 * np.pi * np.cumsum(pitch) / 4000)).astype(np.int16)
    expected: dict[str, Any] = {"input|sound": sound}
    models = recordings(sound)
    for name, (X, y) in data().items():
        given = X if X.ndim == 2 else list(X)
        expected[f"input|{name}"] = X
        models += [(name, estimator.fit(given, y)) for estimator in estimators()[name]]
    for i, (name, model) in enumerate(models):
        file = f"{i:02d}-{type(model).__name__}"
        ml.save(model, FOLDER / f"{file}.npz")
        X = FOLDER / "sound.wav" if name == "sound" else expected[f"input|{name}"]
        given = list(X) if name != "sound" and X.ndim > 2 else X
        for value in VALUES:
            with suppress(AttributeError):
                found = attrgetter(value)(model)
                expected[f"{file}|{value}|"] = flat(found() if callable(found) else found)
        for method in ["segment"] if name == "sound" else METHODS:
            with suppress(AttributeError, ValueError):  # some have no such method, or need K
                expected[f"{file}|{method}|{name}"] = flat(getattr(model, method)(given))
    np.savez_compressed(FOLDER / "expected.npz", **expected)
    for left in ("segments.csv", "sound.wav"):
        (FOLDER / left).unlink()


if __name__ == "__main__":
    sys.exit(main())
