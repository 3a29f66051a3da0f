"""Nodes of several samples: traces, inner products and losses are those over samples, exactly."""

from __future__ import annotations

import numpy as np
import pytest

from metriclearn.problem.losses import FrobeniusLoss
from metriclearn.problem.partition import Partition
from metriclearn.similarities import NodeLabels, Nodes
from tests.similarities.problems import expanded


@pytest.mark.parametrize("seed", range(5))
def test_loss_of_nodes_is_the_loss_over_samples(seed: int) -> None:
    problem = expanded(seed)
    labels = np.random.default_rng(seed).integers(0, 4, problem.nodes.n_samples)
    expected = FrobeniusLoss().squared_norm(
        Partition.from_labels(labels[problem.owners]), problem.truth
    )
    assert problem.labels.squared_norm(labels) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_root_compresses_the_matrix_of_the_samples(seed: int) -> None:
    problem = expanded(seed)
    E = (problem.owners[:, None] == np.arange(problem.nodes.n_samples)).astype(float)
    E /= np.sqrt(problem.nodes.sizes)
    R = problem.labels.root
    np.testing.assert_allclose(R @ R.T, E.T @ problem.truth.to_array() @ E, atol=1e-12)
    assert np.sum(problem.nodes.root**2) == pytest.approx(1.0)


def test_nodes_of_one_sample_are_a_partition() -> None:
    labels = NodeLabels.from_labels(["b", "a", "b"])
    expected = Partition.from_labels([0, 1, 0]).to_array()
    np.testing.assert_allclose(labels.root @ labels.root.T, expected)
    assert labels.squared_norm(np.array([5, 3, 5])) == 0.0
    assert (labels.n_clusters, labels.n_samples) == (2, 3)


def test_labels_of_another_size_are_named() -> None:
    with pytest.raises(ValueError, match="got 3 labels for 4 samples"):
        NodeLabels.from_labels([0, 1, 1], [0, 0, 1, 1])


def test_given_similarities_count_as_features() -> None:
    assert Nodes(np.zeros((4, 5, 5)), np.ones(5)).n_features == 4
