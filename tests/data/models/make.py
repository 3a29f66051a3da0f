"""Writes the model files beside it: python tests/data/models/make.py FOLDER

They were written by version 0.1.0 before its modules moved; every later version has to load them
and predict the same. ``expected.npz`` holds the inputs and what was predicted.
"""

from __future__ import annotations

import sys
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.pipeline import make_pipeline

import metriclearn as ml
from metriclearn import baselines, datasets
from metriclearn.baselines.similarities import EuclideanSimilarity
from metriclearn.features.audio import AudioFeatures

warnings.simplefilter("ignore")
SERIES = datasets.make_change_points(4, 60, 4, 2, (2, 4), random_state=0)
XS, YS = SERIES.sequences, SERIES.labels
PARTIAL = [np.where(np.arange(len(y)) < 15, -1, y) for y in YS]
rng = np.random.default_rng(0)
TABLE_Y = np.repeat([0, 1, 2], 12)
TABLE = rng.normal(size=(36, 4)) + 3.0 * np.eye(3, 4)[TABLE_Y]
NODES = [np.vstack([rng.normal(size=(15, 3)), rng.normal(size=(15, 3)) + [3, 0, 0]]) for _ in "ab"]
HALVES = [np.repeat([0, 1], 15) for _ in "ab"]
REGIONS = [
    ml.PartialPartition(len(y), regions=[(0, 10, ml.NO_CHANGE), (10, 50, ml.AT_LEAST_ONE)])
    for y in YS
]

SEQUENCES: dict[str, Any] = {
    "change_points_diagonal": ml.ChangePointMetricLearner(verbose=False),
    "change_points_full": ml.ChangePointMetricLearner(
        ml.FullMetric(), ml.SquaredFrobenius(0.1), ml.ProjectedSubgradient(max_rounds=5)
    ),
    "change_points_trace": ml.ChangePointMetricLearner(ml.FullMetric(), ml.Trace(0.01)),
    "change_points_cross_validated": ml.ChangePointMetricLearnerCV(cv=2, strengths=3),
    "whitened": ml.WhitenedMetricLearner(),
    "reference": ml.ReferenceMetricLearner(),
    "euclidean": baselines.TunedSegmenter(baselines.Euclidean()),
    "principal_components": baselines.TunedSegmenter(baselines.PrincipalComponents(2)),
    "relevant_components": baselines.TunedSegmenter(baselines.RelevantComponents()),
}
TABLES: dict[str, Any] = {
    "clustering": ml.ClusteringMetricLearner(random_state=0, verbose=False),
    "clustering_averaged": ml.ClusteringMetricLearner(oracle=ml.Averaged(), random_state=0),
    "whitened_clustering": ml.WhitenedClusteringLearner(
        ml.ClusteringMetricLearner(oracle=ml.Averaged(), standardize=False, random_state=0)
    ),
    "mmc": baselines.MetricKMeans(baselines.MMC(), random_state=0),
    "closed_form": baselines.MetricKMeans(baselines.ClosedFormMetric(), random_state=0),
    "neighborhood_components": baselines.MetricKMeans(
        baselines.NeighborhoodComponents(), random_state=0
    ),
}


def main(folder: Path) -> None:
    """Fit, save, and write what was predicted."""
    expected: dict[str, Any] = {f"sequence_{i}": X for i, X in enumerate(XS)}
    expected |= {"table": TABLE, "nodes_0": NODES[0], "nodes_1": NODES[1]}
    fitted = {name: (one.fit(XS, YS), XS[:2]) for name, one in SEQUENCES.items()}
    partial = ml.ChangePointMetricLearner(verbose=False).fit(XS, PARTIAL)
    fitted["change_points_partial"] = partial, XS[:2]
    for name, one in TABLES.items():
        fitted[name] = one.fit(TABLE, TABLE_Y), [TABLE]
    for name, one in {
        "normalized_cuts": ml.NormalizedCutMetricLearner(verbose=False),
        "normalized_cuts_fourier": ml.NormalizedCutMetricLearner(
            similarity=ml.FourierSimilarity(50), verbose=False
        ),
    }.items():
        fitted[name] = one.fit(NODES, HALVES), NODES
    fitted["penalty"] = ml.PenaltyLearner().fit(XS, REGIONS), XS[:2]
    moments = make_pipeline(ml.HermiteMoments(2))
    fitted["penalty_hermite"] = ml.PenaltyLearner(moments).fit(XS, REGIONS), XS[:2]
    fitted["bayesian_criterion"] = baselines.BayesianCriterion().fit(XS, REGIONS), XS[:2]
    euclidean = EuclideanSimilarity(0.1).fit(NODES, HALVES)
    fitted["similarity"] = euclidean, NODES
    fitted["penalty_metric"] = ml.DataPenaltyMetricLearner().fit(XS, REGIONS), XS[:2]
    for name, (estimator, inputs) in fitted.items():
        ml.save(estimator, folder / f"{name}.npz")
        predicted = [estimator.predict(X) for X in inputs] if len(inputs) == 1 else None
        predicted = predicted or estimator.predict(inputs)
        expected |= {f"{name}/{i}": labels for i, labels in enumerate(predicted)}
        if hasattr(estimator, "components_"):
            expected[f"{name}/components"] = estimator.components_
    named = replace(SERIES, labels=[np.array(["quiet", "loud"])[y % 2] for y in YS])
    recordings = ml.RecordingSegmenter(AudioFeatures(rate=2.0), rate=2.0).fit(named, progress=False)
    ml.save(recordings, folder / "recordings.npz")
    segments = recordings.segment_features(XS[0])
    expected["recordings/starts"] = np.array([start for start, _, _ in segments])
    expected["recordings/labels"] = np.array([label for _, _, label in segments])
    np.savez_compressed(folder / "expected.npz", **expected)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
