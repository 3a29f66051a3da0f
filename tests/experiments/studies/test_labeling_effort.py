"""The simulated annotator learns from what was asked, and what its curves are said to reach."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone

from experiments.studies.labeling_effort import Annotator, Folder, made, reach
from metriclearn import L1, ChangePointMetricLearner


def rows(method, means, parts=(0.1, 0.25, 0.5)):
    return [
        {
            "method": method,
            "column": f"{100 * p:g} % labeled",
            "mean": m,
            "standard_error": None,
            "values": [m - 1, m + 1],
        }
        for p, m in zip(parts, means)
    ]


def test_reach_is_the_way_from_the_start_to_all_labels():
    table = [
        *rows("euclidean", [12, 12, 12]),
        *rows("ours/all labels", [2, 2, 2]),
        *rows("random", [9, 7, 4]),
        *rows("ours", [5, 3], (0.1, 0.25)),
    ]
    facts = reach("made", 1000.0, table)
    assert facts["percent"] == 25
    assert (facts["way"], facts["random_way"], facts["worse"]) == (90, 50, "ours is nowhere")
    # random has its 4 from half of the seconds, ours is below that from a quarter of them
    assert (facts["random_seconds"], facts["seconds"]) == (500, 250)
    table[-2:] = rows("ours", [8, 5], (0.1, 0.25))  # not at 4: 8 is below 9, and 5 below 7
    facts = reach("made", 1000.0, table)
    assert (facts["random_seconds"], facts["seconds"]) == (250, 250)
    table[-2:] = rows("ours", [11, 10], (0.1, 0.25))
    facts = reach("made", 1000.0, table)
    assert "seconds" not in facts
    assert facts["worse"] == "with 10, 25 % labeled, ours is"
    table[:3] = rows("euclidean", [2, 2, 2])  # no worse than all labels: a way to nowhere
    facts = reach("made", 1000.0, table)
    assert (facts["way"], facts["random_way"]) == (None, None)
    table[-1]["values"] = [4, 16]  # on average 3 more than random, 5 more or less
    assert reach("made", 1000.0, table)["worse"] == "with 10 % labeled, ours is"


@pytest.fixture
def folder():
    train, _ = made(0, n_series=3, n_samples=90, n_features=5, n_relevant=2, n_segments=(3, 4))
    return Folder(train, length=15, rate=1.0, learner=ChangePointMetricLearner(), seed=1)


def test_all_answers_together_are_the_labels(folder):
    annotator = Annotator(strategy="leftmost", fractions=(0.5, 1.0)).fit(folder)
    order = np.random.default_rng(1).permutation(3)
    data = folder.data.select(order)
    learner = clone(folder.learner).fit(data.sequences, data.labels)
    assert len(annotator.learners_) == 2
    np.testing.assert_allclose(annotator.learners_[1].components_, learner.components_)
    whole = replace(folder, whole=ChangePointMetricLearner(regularizer=L1(0.1)))
    both = Annotator(strategy="leftmost", fractions=(0.5, 1.0)).fit(whole).learners_
    assert [one.regularizer.strength for one in both] == [1e-3, 0.1]
    wrong = Annotator(strategy="leftmost", error=1.0).fit(folder).learners_[0]
    assert not np.allclose(wrong.penalty_, learner.penalty_)
