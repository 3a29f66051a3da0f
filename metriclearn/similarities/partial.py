"""Partly labeled nodes: the loss on what is known of them, and how similarities complete them.

Samples without a label in a node that has labels follow its most frequent one; nodes without any
label are completed as a whole. The loss is the one on labeled rows, as for clusterings
(:class:`metriclearn.problem.labeled_rows.LabeledRowsLoss`),

    ‖D(M − H)‖²_F = Tr M(D − DH − HD) + Tr DH,   D = Diag(1 where a sample is labeled),

with H the completion. It enters the matrices of nodes exactly, as sizes do (see
:mod:`metriclearn.similarities.nodes`): ÊᵀDÊ = Diag(share of labeled samples) and ÊᵀDHÊ = R_D Rᵀ,
where R is the root of H and R_D the same with labeled samples only. With all labels it is
‖M − N‖²_F.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray

from metriclearn.oracles.completion import ConstrainedSpectral, groups_of
from metriclearn.oracles.spectral import TopEigenvectors
from metriclearn.problem.knowledge import PartialPartition
from metriclearn.problem.partition import Partition
from metriclearn.similarities.forms import SimilarityForm
from metriclearn.similarities.nodes import NodeLabels
from metriclearn.similarities.risk import SimilarityHinge

__all__ = ["KnownNodes", "PartialSimilarityHinge", "complete_nodes"]

_ITERATIONS = 100


@dataclass(frozen=True, eq=False)
class KnownNodes:
    """What is known of the samples in S nodes.

    Parameters
    ----------
    counts : array (S, K)
        Labeled samples of cluster k in node s; every cluster has some.
    sizes : array (S,)
        Samples in every node, labeled or not.
    known : PartialPartition
        Of the nodes: the most frequent label of each, −1 where it has none, and same spans.
    """

    counts: NDArray
    sizes: NDArray
    known: PartialPartition

    @classmethod
    def from_labels(
        cls,
        labels: NDArray[np.int64],
        owners: NDArray | None = None,
        same: Sequence[tuple[int, int]] = (),
    ) -> KnownNodes:
        """Labels 0 … K-1 of the samples, −1 where unknown, and the node of each (their own).

        ``same`` are spans of nodes that belong together.
        """
        owners = np.arange(len(labels)) if owners is None else owners
        sizes = np.bincount(owners).astype(np.float64)
        counts, labeled = np.zeros((len(sizes), int(labels.max()) + 1)), labels >= 0
        np.add.at(counts, (owners[labeled], labels[labeled]), 1.0)
        most = np.where(counts.any(axis=1), np.argmax(counts, axis=1), -1)
        return cls(counts, sizes, PartialPartition(len(sizes), most, same=same))

    @property
    def n_clusters(self) -> int:
        """K."""
        return self.counts.shape[1]

    @property
    def labeled(self) -> NDArray[np.int64]:
        """Nodes with labeled samples."""
        return np.flatnonzero(self.known.labels >= 0)

    @property
    def columns(self) -> NDArray[np.int64]:
        """The cluster of every node that labels and spans fix, −1 for the others, (S,)."""
        groups = groups_of(self.known)[0]
        names = np.full(int(groups.max()) + 1, -1)
        names[groups[self.labeled]] = np.argmax(self.counts[self.labeled], axis=1)
        return names[groups]

    def clusters(self, completion: Partition) -> NDArray[np.int64]:
        """The cluster 0 … K-1 of every node in a completion, (S,)."""
        names = np.empty(completion.n_clusters, dtype=np.int64)
        names[completion.labels[self.labeled]] = np.argmax(self.counts[self.labeled], axis=1)
        return names[completion.labels]

    def completed(self, clusters: NDArray[np.int64]) -> NDArray:
        """Counts of all samples, where those unlabeled in a node have its cluster (−1: none)."""
        counts, rows = self.counts.copy(), np.flatnonzero(clusters >= 0)
        counts[rows, clusters[rows]] += self.sizes[rows] - self.counts[rows].sum(axis=1)
        return counts

    def squared_norm(self, labels: NDArray) -> float:
        """‖M − N‖²_F over labeled samples, for clusters of the nodes, (S,) -> float."""
        return NodeLabels(self.counts[self.labeled]).squared_norm(labels[self.labeled])


class KnownForm(SimilarityForm):
    """A + α(D − DH − HD) on nodes, known through products.

    Parameters
    ----------
    form : SimilarityForm
        Of A.
    known : KnownNodes
    root : array (S, K)
        R of the completion H.
    totals : array (K,)
        Samples in every cluster of H.
    scale : float
        α.
    """

    def __init__(
        self, form: SimilarityForm, known: KnownNodes, root: NDArray, totals: NDArray, scale: float
    ) -> None:
        super().__init__(form.operator)
        self._root, self._scale = root, scale
        self._share = known.counts.sum(axis=1) / known.sizes
        self._own = known.counts / np.sqrt(known.sizes)[:, None] / np.sqrt(totals)

    def matvec(self, V: NDArray) -> NDArray:
        flat = V.reshape(len(V), -1)
        change = self._share[:, None] * flat - self._own @ (self._root.T @ flat)
        change -= self._root @ (self._own.T @ flat)
        return self.operator.matvec(V) + self._scale * change.reshape(V.shape)


class PartialSimilarityHinge(SimilarityHinge):
    """Σ s_i L_i(B) for completions of partly labeled nodes, as alternation needs it.

    L_i(B) = max_M [ ⟨A_i, M⟩ + α‖D_i(M − H_i)‖²_F ] − ⟨A_i, H_i⟩ ≥ 0.

    Given completions it is a difference of convex functions as with full labels; completions
    enter the loss, so that completing may raise it, and alternation then stops.

    Parameters
    ----------
    features, cone, nodes, weights, **options
        As for :class:`SimilarityHinge`.
    known : sequence of KnownNodes
    truths : sequence of Partition
        H_i, of the nodes, which know ``known[i].known``.
    """

    completion_free = False

    def __init__(
        self,
        features: Any,
        cone: Any,
        nodes: Sequence[Any],
        known: Sequence[KnownNodes],
        truths: Sequence[Partition],
        weights: NDArray | None = None,
        **options: Any,
    ) -> None:
        super().__init__(features, cone, nodes, _labels(known, truths), weights, **options)
        self.known, self.truths = known, truths
        self._oracle, self._warm = TopEigenvectors(), True

    def _augmented(self, i: int, form: SimilarityForm) -> tuple[SimilarityForm, float]:
        known, totals = self.known[i], self.labels[i].counts.sum(axis=0)
        augmented = KnownForm(form, known, self._roots[i], totals, self.loss_scale)
        return augmented, self.loss_scale * float(np.sum(known.counts.sum(axis=0) / totals))

    def complete(self, w: NDArray) -> list[Partition]:
        """Best completions under w; an old one stays where the new one is not better."""
        form_of = self._forms(w, self._own_roots(w))

        def one(i: int) -> Partition:
            known, old, form = self.known[i], self.truths[i], form_of(i)
            new = complete_nodes(form, known)
            before, after = (_value(form, known, truth) for truth in (old, new))
            return new if after > before + 1e-12 * abs(before) else old

        run = Parallel(n_jobs=self.n_jobs, backend="threading")
        return run(delayed(one)(i) for i in range(len(self.nodes)))

    def completed(self, truths: Sequence[Partition]) -> Self:
        """The same risk with other completions."""
        moved = copy.copy(self)
        moved.truths, moved._starts = truths, list(self._starts)
        moved.labels = _labels(self.known, truths)
        moved._roots = [labels.root for labels in moved.labels]
        return moved


def _labels(known: Sequence[KnownNodes], truths: Sequence[Partition]) -> list[NodeLabels]:
    return [NodeLabels(own.completed(own.clusters(truth))) for own, truth in zip(known, truths)]


def complete_nodes(form: SimilarityForm, known: KnownNodes) -> Partition:
    """A large ⟨A, H⟩ over the completions H of the nodes.

    Kernel K-means that keeps what is known, from two starts: the most similar cluster of labeled
    samples, and seeded spectral clustering. O(products with K vectors), to a local maximum.
    """
    K = int(known.known.labels.max()) + 1
    spectral = ConstrainedSpectral()(form, K, known.known)
    starts = known.columns, known.clusters(spectral)
    runs = [_kernel_means(form, known, start) for start in starts]
    clusters = max(runs, key=lambda run: run[1])[0]
    return Partition.from_labels(clusters).completing(known.known)


def _kernel_means(
    form: SimilarityForm, known: KnownNodes, clusters: NDArray[np.int64]
) -> tuple[NDArray[np.int64], float]:
    """Clusters of nodes and ⟨A, H⟩: groups without labels move to the nearest mean, repeatedly.

    With A = ΨΨᵀ a node of n samples is the point ψ/√n with weight n, and its squared distance to
    the mean of a cluster is, up to a constant, q_k − 2m_sk. Each round raises ⟨A, H⟩ where A is
    positive semidefinite; the best one is kept.
    """
    groups, fixed = groups_of(known.known)[0], known.columns
    seeded = np.unique(fixed[known.labeled])
    best, value = clusters, -np.inf
    for _ in range(_ITERATIONS):
        counts = known.completed(clusters)
        totals = counts.sum(axis=0)
        root = counts / np.sqrt(known.sizes)[:, None] / np.sqrt(totals)
        product = form.matvec(root)
        inner = np.einsum("sk,sk->k", root, product)
        if np.all(clusters >= 0):
            if inner.sum() <= value + 1e-12 * abs(value):
                break
            best, value = clusters, float(inner.sum())
        closeness = 2.0 * np.sqrt(known.sizes)[:, None] * product / np.sqrt(totals)
        closeness -= np.outer(known.sizes, inner / totals)
        pooled = np.zeros((int(groups.max()) + 1, known.n_clusters))
        np.add.at(pooled, groups, closeness)
        nearest = seeded[np.argmax(pooled[:, seeded], axis=1)]
        clusters = np.where(fixed >= 0, fixed, nearest[groups])
    return best, value


def _value(form: SimilarityForm, known: KnownNodes, completion: Partition) -> float:
    """⟨A, H⟩."""
    root = NodeLabels(known.completed(known.clusters(completion))).root
    return float(np.sum(root * form.matvec(root)))
