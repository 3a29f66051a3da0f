"""Small graphs whose nodes stand for several samples, and dense references over samples."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from metriclearn.oracles.spectral import TopEigenvectors
from metriclearn.problem.losses import FrobeniusLoss
from metriclearn.problem.partition import Partition
from metriclearn.problem.risk import HingeTerms, StructuredHinge
from metriclearn.similarities import (
    GaussianSimilarity,
    NodeLabels,
    Nodes,
    Similarity,
    SimilarityFeatures,
)
from metriclearn.similarities.nodes import complete_nodes
from metriclearn.solvers.mahalanobis import Metric, MetricCone


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

    @property
    def E(self) -> NDArray:
        """Normalized indicators of the nodes, (T, n): EᵀE = I."""
        owned = self.owners[:, None] == np.arange(self.nodes.n_samples)
        return owned / np.sqrt(self.nodes.sizes)

    def matrices(self, labels: NDArray, completed: NodeLabels) -> tuple[NDArray, NDArray]:
        """D of the known labels and H of their completion, as arrays over the samples."""
        known = labels[labels >= 0]
        names = known[np.sort(np.unique(known, return_index=True)[1])]  # by first appearance
        filled = np.where(labels < 0, names[completed.labels[self.owners]], labels)
        return np.diag((labels >= 0).astype(float)), Partition.from_labels(filled).to_array()


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


def hidden(problem: Expanded, share: float = 0.4, seed: int = 0) -> tuple[NDArray, NodeLabels]:
    """Labels of the samples, some of them −1 (whole nodes, too), and what that says of nodes."""
    random = np.random.default_rng(seed)
    labels = problem.truth.labels.copy()
    nodes = random.permutation(problem.nodes.n_samples)[:4]
    hide = np.isin(problem.owners, nodes) | (random.random(len(labels)) < share)
    hide[[np.flatnonzero(labels == k)[0] for k in range(problem.truth.n_clusters)]] = False
    labels[hide] = -1
    return labels, NodeLabels.from_labels(labels, problem.owners)


def completed(known: NodeLabels, seed: int = 0) -> NodeLabels:
    """Some completion of the nodes."""
    random, fixed = np.random.default_rng(seed), known.columns
    free = random.choice(np.unique(fixed[fixed >= 0]), len(fixed))
    return known.with_completion(Partition.from_labels(np.where(fixed >= 0, fixed, free)))


def hinge_of(
    problems: Sequence[Expanded],
    metric: Metric,
    similarity: Similarity | None = None,
    *,
    truths: Sequence[NodeLabels] | None = None,
    normalized: bool = False,
    ramp: bool = False,
    loss_scale: float = 1.0,
    weights: NDArray | None = None,
) -> StructuredHinge:
    """The hinge of normalized cuts, of full labels or of given completions."""
    similarity = similarity or GaussianSimilarity()
    terms = HingeTerms(
        SimilarityFeatures(similarity, metric, normalized),
        FrobeniusLoss(),
        similarity.oracle() if truths is None else TopEigenvectors(),
        MetricCone(metric, 3, learns_penalty=False),
        loss_scale=loss_scale,
        count_known=True,
        completion=None if truths is None else complete_nodes,
        ramp=ramp,
    )
    return StructuredHinge(
        terms,
        [problem.nodes for problem in problems],
        [problem.labels for problem in problems] if truths is None else truths,
        weights,
    )
