"""Store nodes of a graph and their labels. A node stands for one or many samples.

A superpixel of n pixels is a node of size n. Let E be the T×S matrix whose entry is 1 if pixel t is
in node s, and 0 if it is not. The matrix Ê = E Diag(n)^(-1/2) has orthonormal columns, and the
pixel matrix of every partition of the nodes is M = Ê M̃ Êᵀ with an S×S projection M̃. So traces and
inner products of T×T pixel matrices are computed without approximation from S×S matrices: Êᵀ(·)Ê
has the same traces and inner products.

The loss of partial labels, :class:`~metriclearn.problem.losses.FrobeniusLoss`, is also computed
from S×S matrices. Let D be diagonal, with 1 for labeled pixels and 0 for other pixels, and let the
partition H be a completion of the labels. Then ÊᵀDÊ is diagonal and holds the fraction of labeled
pixels in each node. If ÊᵀHÊ = RRᵀ, then ÊᵀDHÊ = R_D Rᵀ. Here R_D is computed like R, but only
labeled pixels are counted.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metriclearn.oracles.completion import groups_of, spectral_completion
from metriclearn.problem.forms import Form
from metriclearn.problem.partial_labels import PartialPartition
from metriclearn.problem.partition import Partition
from metriclearn.running.values import check_each

_ITERATIONS = 100  # passes of kernel K-means at most; a few dozen are usual


@dataclass(eq=False)
class Nodes:
    """S nodes with features, sizes and, for neighborhoods, positions.

    Parameters
    ----------
    features : array (S, P), or (n, S, S) for given similarities
    sizes : array (S,)
        Number of samples in each node. Every size is positive.
    positions : array (S, 2), optional
        Position of every node in pixels, for :class:`metriclearn.similarities.Neighborhood`.

    Attributes
    ----------
    start : array (S, k) or None
        Leading eigenvectors that the previous search found. The next search starts from these
        eigenvectors.

    See Also
    --------
    metriclearn.features.ImageFeatures : makes nodes of images.

    Examples
    --------
    >>> import numpy as np
    >>> from metriclearn.similarities import Nodes
    >>> Nodes(np.zeros((4, 2)), sizes=np.full(4, 16)).n_features
    2
    """

    features: NDArray
    sizes: NDArray
    positions: NDArray | None = None
    start: NDArray | None = field(default=None, init=False, repr=False)
    _kept: dict[str, tuple[Hashable, Any]] = field(default_factory=dict, init=False, repr=False)

    unit = 1.0  # similarities of nodes are divided by the number of samples already

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore the state, and copy arrays to aligned memory.

        Arrays in a received pickle are not aligned, so their products would round differently.
        """
        state["features"] = np.require(state["features"], requirements="A")
        vars(self).update(state)

    def __len__(self) -> int:
        """The number S of nodes."""
        return len(self.sizes)

    @property
    def n_samples(self) -> int:
        """The number S of nodes."""
        return len(self.sizes)

    @property
    def n_features(self) -> int:
        """The number P of features, or the number n of given similarities."""
        return self.features.shape[1] if self.features.ndim == 2 else len(self.features)

    @property
    def scaled(self) -> NDArray:
        """Features and sizes in one array. Checkpoints identify the graph by this array."""
        return np.append(self.features, self.sizes)

    def once(self, name: str, key: Hashable, make: Callable[[], Any]) -> Any:
        """Return the result of ``make``, which is cached under ``name`` until ``key`` changes."""
        if name not in self._kept or self._kept[name][0] != key:
            self._kept[name] = key, make()
        return self._kept[name][1]

    @property
    def root(self) -> NDArray:
        """The vector r (S,) of A = Diag(r) W Diag(r). The entry of r for node s is √(n_s / T)."""
        return np.sqrt(self.sizes / np.sum(self.sizes))


@dataclass(frozen=True, eq=False)
class NodeLabels:
    """Labels of the samples of S nodes: a partition, partial labels, or a completion of them.

    Losses and risks accept node labels in place of a
    :class:`~metriclearn.problem.partition.Partition`. In a completion, the unlabeled samples of a
    node with labels get the most frequent label of the node. In a node without labels, all samples
    get the same label.

    Parameters
    ----------
    counts : array (S, K)
        Number of labeled samples of cluster k in node s. A node may hold samples of several
        clusters. Every cluster has at least one labeled sample.
    sizes : array (S,), optional
        Number of samples in every node, including unlabeled samples. By default all samples are
        labeled.
    same : sequence of (start, stop)
        Ranges of nodes. All nodes of a range lie in the same cluster.
    clusters : array (S,), optional
        The cluster that the unlabeled samples of every node get in a completion. By default the
        labels are not completed.
    balance : float
        The exponent b in the loss ‖D^½(M − N)‖²_F with D = Diag((n/n_k)^b), where n_k is the number
        of labeled samples in the same cluster, and n the number of all labeled samples. With b = 0,
        all clusters have the same influence. With b = −1, the influence of a cluster is
        proportional to its size. With b = 1, it is inversely proportional to its size.

    See Also
    --------
    metriclearn.features.ImageFeatures : makes nodes of images.

    Examples
    --------
    >>> import numpy as np
    >>> from metriclearn.similarities import NodeLabels
    >>> NodeLabels(np.array([[16, 0], [12, 4], [0, 16]])).n_clusters
    2
    """

    counts: NDArray
    sizes: NDArray | None = None
    same: Sequence[tuple[int, int]] = ()
    clusters: NDArray[np.int64] | None = None
    balance: float = 0.0

    @classmethod
    def from_labels(
        cls,
        labels: ArrayLike,
        nodes: ArrayLike | None = None,
        same: Sequence[tuple[int, int]] = (),
    ) -> Self:
        """Count the labels of T samples in every node. A label of −1 means unknown.

        ``nodes`` holds the node of each sample, 0 … S-1. By default each sample is a node.
        """
        array = np.ravel(np.asarray(labels))
        owners = np.arange(len(array)) if nodes is None else np.ravel(np.asarray(nodes))
        check_each("NodeLabels", "label", len(array), "samples", len(owners))
        labeled = np.flatnonzero(array != -1)
        codes, sizes = Partition.from_labels(array[labeled]).labels, np.bincount(owners)
        counts = np.zeros((len(sizes), int(codes.max()) + 1))
        np.add.at(counts, (owners[labeled], codes), 1.0)
        return cls(counts, sizes.astype(np.float64), same)

    @property
    def n_clusters(self) -> int:
        """The number K of labels."""
        return self.counts.shape[1]

    @property
    def n_samples(self) -> int:
        """The number S of nodes."""
        return len(self.counts)

    @cached_property
    def _weighted(self) -> NDArray[np.float64]:
        """The counts (S, K), each multiplied by the entry of D for its cluster."""
        totals = self.counts.sum(axis=0)
        return self.counts * (totals.sum() / totals) ** self.balance

    @cached_property
    def share(self) -> NDArray[np.float64] | None:
        """The diagonal of ÊᵀDÊ: the fraction of labeled samples in each node, weighted by D.

        The diagonal is an array (S,), or None if ÊᵀDÊ is the identity.
        """
        if self.partial_labels is None and not self.balance:
            return None
        return self._weighted.sum(axis=1) / self._scales[0][:, 0] ** 2

    @cached_property
    def partial_labels(self) -> NodeLabels | None:
        """The node labels themselves if some samples are unlabeled, and None if all are labeled."""
        complete = self.sizes is None or np.all(self.counts.sum(axis=1) == self.sizes)
        return None if complete else self

    @cached_property
    def nodes(self) -> PartialPartition:
        """The labels as a PartialPartition of the nodes, with the ranges ``same``.

        The label of a node is the most frequent label of its samples, or −1 if no sample is
        labeled.
        """
        most = np.where(self.counts.any(axis=1), np.argmax(self.counts, axis=1), -1)
        return PartialPartition(len(most), most, same=self.same)

    @property
    def labeled(self) -> NDArray[np.int64]:
        """The nodes that have labeled samples."""
        return np.flatnonzero(self.counts.any(axis=1))

    @property
    def columns(self) -> NDArray[np.int64]:
        """The cluster of every node, (S,), or −1 if labels and ``same`` do not determine it."""
        groups = groups_of(self.nodes)[0]
        names = np.full(int(groups.max()) + 1, -1)
        names[groups[self.labeled]] = np.argmax(self.counts[self.labeled], axis=1)
        return names[groups]

    @property
    def labels(self) -> NDArray[np.int64]:
        """The cluster of every node in the completion, or else the most frequent label, (S,)."""
        return np.argmax(self.counts, axis=1) if self.clusters is None else self.clusters

    def with_completion(self, partition: Partition) -> NodeLabels:
        """Complete the labels by a partition of the nodes that agrees with the labels."""
        names = np.empty(partition.n_clusters, dtype=np.int64)
        names[partition.labels[self.labeled]] = np.argmax(self.counts[self.labeled], axis=1)
        return replace(self, clusters=names[partition.labels])

    def completed(self, clusters: NDArray[np.int64] | None) -> NDArray:
        """Return the counts (S, K) if the unlabeled samples of node s join cluster ``clusters[s]``.

        If ``clusters[s]`` is −1, only the labeled samples of node s are counted.
        """
        if clusters is None or self.sizes is None:
            return self.counts
        counts, rows = self.counts.copy(), np.flatnonzero(clusters >= 0)
        counts[rows, clusters[rows]] += self.sizes[rows] - self.counts[rows].sum(axis=1)
        return counts

    @cached_property
    def _scales(self) -> tuple[NDArray, NDArray]:
        """The square roots of sizes: √n_s of every node (S, 1), and √n_k of every cluster (K,)."""
        sizes = self.counts.sum(axis=1) if self.sizes is None else self.sizes
        return np.sqrt(sizes)[:, None], np.sqrt(self.completed(self.clusters).sum(axis=0))

    @cached_property
    def factor(self) -> NDArray:
        """The matrix R with RRᵀ = ÊᵀHÊ, (S, K). The entries of R are n_sk / √(n_s n_k)."""
        nodes, clusters = self._scales
        return self.completed(self.clusters) / nodes / clusters

    def root(self, V: NDArray) -> NDArray:
        """Return RᵀV, (S, k) -> (K, k)."""
        return self.factor.T @ V

    def project(self, V: NDArray) -> NDArray:
        """Return RRᵀV, (S, k) -> (S, k)."""
        return self.factor @ (self.factor.T @ V)

    def labeled_product(self, V: NDArray) -> NDArray:
        """Return Êᵀ(DH + HD)Ê V = (R_D Rᵀ + R R_Dᵀ) V, (S, k) -> (S, k)."""
        nodes, clusters = self._scales
        labeled = self._weighted / nodes / clusters
        return labeled @ (self.factor.T @ V) + self.factor @ (labeled.T @ V)

    @property
    def labeled_trace(self) -> float:
        """Tr DH. Each cluster adds its entry of D times the labeled fraction of its samples."""
        return float(np.sum(self._weighted.sum(axis=0) / self._scales[1] ** 2))

    def squared_norm(self, labels: NDArray) -> float:
        """Return the loss ‖D^½(M − N)‖²_F of a partition of the nodes, given by ``labels`` (S,).

        The time is O(SK).
        """
        codes = Partition.from_labels(labels[self.labeled]).labels
        table = np.zeros((int(codes.max()) + 1, self.n_clusters))
        np.add.at(table, codes, self.counts[self.labeled])
        rows, columns = table / table.sum(axis=1, keepdims=True), table / table.sum(axis=0)
        weights = (table.sum() / table.sum(axis=0)) ** self.balance
        return max(
            0.0, float((rows.sum(axis=0) + 1.0 - 2.0 * (rows * columns).sum(axis=0)) @ weights)
        )

    def __eq__(self, other: Any) -> bool:
        if not isinstance(other, NodeLabels):
            return NotImplemented
        return np.array_equal(self.labels, other.labels) and np.array_equal(
            self.counts, other.counts
        )

    def __hash__(self) -> int:
        return hash((self.counts.tobytes(), self.labels.tobytes()))


def complete_nodes(form: Form, n_clusters: int | None = None, known: Any = None) -> Partition:
    """Find a partition H of the nodes that agrees with the labels and has a large ⟨A, H⟩.

    The algorithm is kernel K-means, but nodes with a label keep the cluster of this label. The
    algorithm runs twice, and the better result is returned. In the first run, each node starts in
    the most similar cluster of labeled samples. The second run starts from constrained spectral
    clustering. Each run ends in a local maximum, and each round takes a product of A with K
    vectors. There are K clusters: one for each label that is the most frequent label of some node.
    """
    K = int(known.nodes.labels.max()) + 1
    spectral = spectral_completion(form, K, known.nodes)
    starts = known.columns, known.with_completion(spectral).labels
    runs = [_kernel_means(form, known, start) for start in starts]
    return Partition.from_labels(max(runs, key=lambda run: run[1])[0])


def _kernel_means(
    form: Form, known: NodeLabels, clusters: NDArray[np.int64]
) -> tuple[NDArray[np.int64], float]:
    """Run kernel K-means from ``clusters``, and return the cluster of every node, and ⟨A, H⟩.

    Nodes that must share a cluster form a group. In every round each group without a label moves to
    the nearest mean. Let A = ΨΨᵀ. A node s of n samples is the point ψ/√n with weight n, where ψ is
    the row of the node in Ψ. Up to a constant, the squared distance between this point and the mean
    of cluster k is q_k − 2m_sk. Here m_sk is the inner product of the point with the mean, and q_k
    is the squared norm of the mean. If A is positive semidefinite, each round increases ⟨A, H⟩. In
    any case, the clusters of the best round are returned.
    """
    groups, fixed = groups_of(known.nodes)[0], known.columns
    labeled = np.unique(fixed[known.labeled])  # clusters that hold labeled samples
    best, value = clusters, -np.inf
    for _ in range(_ITERATIONS):
        completion = replace(known, clusters=clusters)
        (nodes, totals), root = completion._scales, completion.factor
        product = form.matvec(root)
        inner = np.einsum("sk,sk->k", root, product)
        if np.all(clusters >= 0):
            if inner.sum() <= value + 1e-12 * abs(value):
                break
            best, value = clusters, float(inner.sum())
        # 2m_sk − q_k times the weight n of the node, summed over the nodes of a group
        closeness = 2.0 * nodes * product / totals - nodes**2 * (inner / totals**2)
        pooled = np.zeros((int(groups.max()) + 1, known.n_clusters))
        np.add.at(pooled, groups, closeness)
        nearest = labeled[np.argmax(pooled[:, labeled], axis=1)]
        clusters = np.where(fixed >= 0, fixed, nearest[groups])
    return best, value
