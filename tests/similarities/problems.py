"""Small graphs whose nodes stand for several samples, and dense references over samples."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from metriclearn.problem.partition import Partition
from metriclearn.similarities import NodeLabels, Nodes

__all__ = ["Expanded", "dense_similarity", "expanded", "random_metric"]


@dataclass(frozen=True)
class Expanded:
    """Nodes with their labels, and the same thing sample by sample."""

    nodes: Nodes
    labels: NodeLabels
    owners: NDArray
    truth: Partition

    @property
    def X(self) -> NDArray:
        """Features of the samples, (T, P)."""
        return self.nodes.features[self.owners]


def expanded(seed: int, n_nodes: int = 12, n_features: int = 3, n_clusters: int = 3) -> Expanded:
    """Nodes of 1 to 5 samples, labels that cut across some of them; T ≤ 60."""
    random = np.random.default_rng(seed)
    sizes = random.integers(1, 6, n_nodes)
    owners = np.repeat(np.arange(n_nodes), sizes)
    centers = random.normal(size=(n_clusters, n_features))
    kinds = np.append(np.arange(n_clusters), random.integers(0, n_clusters, n_nodes - n_clusters))
    X = centers[kinds] + 0.4 * random.normal(size=(n_nodes, n_features))
    samples = kinds[owners]
    samples[::7] = random.integers(0, n_clusters, len(samples[::7]))
    truth = Partition.from_labels(samples)
    positions = np.column_stack([np.arange(n_nodes) % 4, np.arange(n_nodes) // 4]).astype(float)
    nodes = Nodes(X, sizes.astype(float), positions)
    return Expanded(nodes, NodeLabels.from_labels(samples, owners), owners, truth)


def random_metric(seed: int, n_features: int = 3) -> NDArray:
    """A positive definite matrix of order 1."""
    root = np.random.default_rng(seed).normal(size=(n_features, n_features))
    return 0.3 * root @ root.T + 0.1 * np.eye(n_features)


def dense_similarity(X: NDArray, B: NDArray) -> NDArray:
    """exp(−(x_i − x_j)ᵀB(x_i − x_j)), entry by entry."""
    return np.array([[np.exp(-(x - y) @ B @ (x - y)) for y in X] for x in X])
