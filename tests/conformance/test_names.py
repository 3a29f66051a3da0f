"""A name that is gone raises one sentence that names its successor."""

import importlib

import pytest

import metriclearn as ml

GONE = {
    "ChangePointMetricLearnerCV": "GridSearchCV",
    "ClusteringConsensus": r"Clusterer\(combine='consensus'\)",
    "ColumnSegmenter": r"view=metriclearn\.views\.Columns",
    "Consensus": "Segmenter",
    "EachSample": r"metriclearn\.views\.Each",
    "FramePosteriors": r"metriclearn\.views\.Posteriors",
    "GapSegmenter": r"Segmenter, or pass view=metriclearn\.views\.LeaveOut",
    "NeighborFeatures": r"metriclearn\.views\.Neighbors",
    "annotate": r"metriclearn\.suggest",
    "RecordingSegmenter": r"Segmenter\(extractor=\.\.\.\)",
    "ReferenceMetricLearner": r"WhitenedMetricLearner\(view=metriclearn\.views\.Metric",
    "auto_metric_learner": r"Segmenter\(combine='best'\)",
}


@pytest.mark.parametrize(("name", "successor"), GONE.items(), ids=GONE)
def test_a_name_that_is_gone_names_its_successor(name: str, successor: str) -> None:
    assert not hasattr(ml, name)
    with pytest.raises(AttributeError, match=f"metriclearn has no {name} any more; .*{successor}"):
        getattr(ml, name)
    with pytest.raises(ImportError, match=successor):
        exec(f"from metriclearn import {name}", {})
    for word in successor.replace("\\", "").split("(")[-1].split("=")[-1].split():
        if word.startswith("metriclearn.views."):
            assert getattr(importlib.import_module("metriclearn.views"), word.split(".")[-1])
