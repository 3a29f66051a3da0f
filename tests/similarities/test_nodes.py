"""Nodes of several samples: traces, inner products and losses equal the values over samples."""

from dataclasses import replace

import numpy as np
import pytest

from metriclearn.problem.losses import FrobeniusLoss
from metriclearn.problem.partition import Partition
from metriclearn.problem.projector import Projector
from metriclearn.similarities import GaussianSimilarity, NodeLabels, Nodes
from metriclearn.similarities.operators import SimilarityForm
from tests.exhaustive import all_partitions
from tests.similarities.problems import completed, expanded, hidden


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
    E, R = problem.E, problem.labels.factor
    np.testing.assert_allclose(R @ R.T, E.T @ problem.truth.to_array() @ E, atol=1e-12)
    assert np.sum(problem.nodes.root**2) == pytest.approx(1.0)


def test_nodes_of_one_sample_are_a_partition() -> None:
    labels = NodeLabels.from_labels(["b", "a", "b"])
    expected = Partition.from_labels([0, 1, 0]).to_array()
    np.testing.assert_allclose(labels.project(np.eye(3)), expected)
    assert labels.squared_norm(np.array([5, 3, 5])) == 0.0
    assert (labels.n_clusters, labels.n_samples) == (2, 3)


@pytest.mark.parametrize("seed", range(3))
def test_the_loss_charges_only_what_is_known(seed: int) -> None:
    """‖D(M − H)‖² over samples, of every partition M of the nodes; and its form, densely."""
    problem, random = expanded(seed), np.random.default_rng(seed)
    labels, known = hidden(problem, seed=seed)
    truth = completed(known)
    D, H = problem.matrices(labels, truth)
    plain = SimilarityForm(GaussianSimilarity().operator(problem.nodes, np.eye(3)))
    form, constant = FrobeniusLoss().augment(plain, truth, 0.3)
    for _ in range(5):
        nodes = Partition.from_labels(random.integers(0, 3, problem.nodes.n_samples))
        M = Partition.from_labels(nodes.labels[problem.owners])
        expected = np.sum((D @ (M.to_array() - H)) ** 2)
        compressed = problem.E.T @ M.to_array() @ problem.E
        found = Projector(np.linalg.svd(compressed)[0][:, : nodes.n_clusters])
        assert FrobeniusLoss().squared_norm(found, truth) == pytest.approx(expected, abs=1e-10)
        augmented = form.at(found) + constant
        assert augmented == pytest.approx(plain.at(found) + 0.3 * expected, abs=1e-10)
        rows = labels >= 0
        a, b = Partition.from_labels(M.labels[rows]), Partition.from_labels(labels[rows])
        restricted = FrobeniusLoss().squared_norm(a, b)
        assert known.squared_norm(nodes.labels) == pytest.approx(restricted, abs=1e-10)


@pytest.mark.parametrize("balance", [-1.0, 0.5, 1.0])
def test_every_partition_costs_what_its_samples_weigh(balance: float) -> None:
    """‖D^½(M − N)‖² of all partitions of 6 nodes with D = (n/n_k)^b, and its form, densely."""
    problem = expanded(1, n_nodes=6)
    truth = replace(problem.labels, balance=balance)
    sizes = np.bincount(problem.truth.labels)[problem.truth.labels]
    root, N = (len(sizes) / sizes) ** (0.5 * balance), problem.truth.to_array()
    plain = SimilarityForm(GaussianSimilarity().operator(problem.nodes, np.eye(3)))
    form, constant = FrobeniusLoss().augment(plain, truth, 0.3)
    for labels in all_partitions(6):
        M = Partition.from_labels(np.asarray(labels)[problem.owners]).to_array()
        expected = np.sum((root[:, None] * (M - N)) ** 2)
        assert truth.squared_norm(np.asarray(labels)) == pytest.approx(expected, abs=1e-10)
        count = len(np.unique(labels))
        found = Projector(np.linalg.svd(problem.E.T @ M @ problem.E)[0][:, :count])
        assert FrobeniusLoss().squared_norm(found, truth) == pytest.approx(expected, abs=1e-10)
        augmented = plain.at(found) + 0.3 * expected
        assert form.at(found) + constant == pytest.approx(augmented, abs=1e-10)


def test_given_similarities_count_as_features() -> None:
    assert Nodes(np.zeros((4, 5, 5)), np.ones(5)).n_features == 4
