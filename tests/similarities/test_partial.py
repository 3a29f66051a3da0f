"""Partly labeled nodes: the loss over samples, completions, and learning from a few labels."""

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import metriclearn as ml
from metriclearn.oracles.spectral import TopEigenvectors
from metriclearn.similarities import NodeLabels, Nodes
from metriclearn.similarities.nodes import complete_nodes
from metriclearn.similarities.operators import SimilarityForm
from tests.estimators.test_normalized_cuts import SMALL, arrays, images, learner_of
from tests.exhaustive import allows_clusters
from tests.similarities.problems import expanded


def test_completions_keep_what_is_known_and_come_near_the_best() -> None:
    """Against the enumeration of all completions of 7 free nodes."""
    for seed in range(6):
        problem = expanded(seed, n_clusters=2)
        labels = problem.truth.labels.copy()
        labels[problem.owners >= 5] = -1
        if len(np.unique(labels[labels >= 0])) < 2:
            continue
        known = NodeLabels.from_labels(labels, problem.owners)
        form = SimilarityForm(
            ml.similarities.GaussianSimilarity().operator(problem.nodes, np.eye(3))
        )
        found = complete_nodes(form, None, known)
        assert allows_clusters(known.nodes, found)
        seeded = np.unique(known.columns[known.labeled])
        values = []
        for free in itertools.product(seeded, repeat=int(np.sum(known.columns < 0))):
            clusters = known.columns.copy()
            clusters[clusters < 0] = free
            values.append(form.at(replace(known, clusters=clusters)))
        assert form.at(known.with_completion(found)) >= max(values) * (1 - 0.01)


def test_spans_move_as_one_and_take_a_label() -> None:
    random = np.random.default_rng(0)
    labels = np.full(30, -1)
    labels[[0, 20]] = 0, 1
    known = NodeLabels.from_labels(labels, same=[(0, 6), (7, 15)])
    assert known.columns.tolist() == [0] * 6 + [-1] * 14 + [1] + [-1] * 9
    nodes = Nodes(random.normal(size=(30, 2)), np.ones(30))
    form = SimilarityForm(ml.similarities.GaussianSimilarity().operator(nodes, np.eye(2)))
    clusters = known.with_completion(complete_nodes(form, None, known)).labels
    assert set(clusters[:6]) == {0}
    assert len(set(clusters[7:15])) == 1
    assert set(clusters) == {0, 1}


def test_images_with_unlabeled_pixels() -> None:
    pytest.importorskip("skimage")
    X, y = images(4)
    scribbles = []
    for labels in y:
        kept = np.full(labels.shape, -1)
        kept[::7] = labels[::7] * 5 + 2  # labels 2 and 7, on every seventh row
        scribbles.append(kept)
    learner = learner_of(features=SMALL).fit(X, scribbles)
    full = learner_of(features=SMALL).fit(X, y)
    test = images(seed=1)
    assert learner.score(*test) > full.score(*test) - 0.15
    for done, labels, known in zip(learner.completions_, y, scribbles):
        assert done.shape == labels.shape
        assert set(np.unique(done)) == {2, 7}
        np.testing.assert_array_equal(done[known >= 0], known[known >= 0])
        assert np.mean((done == 7) != (labels == 1)) < 0.05
    flat = [ml.PartialPartition(known.size, known.ravel()) for known in scribbles]
    again = learner_of(features=SMALL).fit(X, flat)
    np.testing.assert_allclose(again.components_, learner.components_)


def test_full_labels_are_learned_as_ever() -> None:
    X, y = arrays()
    full = learner_of().fit(X, y)
    assert (full.alternation_, full.completions_) == (None, None)
    for read in (lambda labels: ml.PartialPartition(len(labels), labels), ml.Partition.from_labels):
        again = learner_of().fit(X, list(map(read, y)))
        np.testing.assert_array_equal(again.components_, full.components_)


def test_spans_of_pixels_are_refused_in_one_sentence() -> None:
    pytest.importorskip("skimage")
    X, y = images(1)
    known = ml.PartialPartition(2000, y[0].ravel(), same=[(0, 3)])
    with pytest.raises(ValueError, match="2000 pixels of image 0, row by row and with labels only"):
        learner_of(features=SMALL).fit(X, [known])
    short = ml.PartialPartition(100, [0, 1] + [-1] * 98)
    with pytest.raises(ValueError, match="2000 pixels of image 0"):
        learner_of(features=SMALL).fit(X, [short])


def test_words_may_be_unlabeled_too() -> None:
    X, y = arrays(2)
    words: list[Any] = [["cat" if v else "dog" for v in labels] for labels in y]
    words[0][5:30] = [-1] * 25
    learner = learner_of().fit(X, words)
    assert set(learner.completions_[0]) == {"cat", "dog"}
    assert learner.completions_[1].tolist() == words[1]


def test_one_known_cluster_is_completed_by_itself() -> None:
    labels = np.array([0, 0, -1, -1, 0])
    known = NodeLabels.from_labels(labels)
    nodes = Nodes(np.random.default_rng(0).normal(size=(5, 2)), np.ones(5))
    form = SimilarityForm(ml.similarities.GaussianSimilarity().operator(nodes, np.eye(2)))
    assert complete_nodes(form, None, known).n_clusters == 1
    assert TopEigenvectors()(form, 1).n_clusters == 1
