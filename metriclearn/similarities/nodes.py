"""Nodes of a graph that stand for one or many samples each, and their labels, exactly weighted.

A superpixel of n pixels is a node of size n. With E the T×S indicator of pixels in nodes, the
matrix Ê = E Diag(n)^(-1/2) has orthonormal columns, and every partition of the nodes has the
pixel matrix M = Ê M̃ Êᵀ with M̃ a projection of S×S. So traces and inner products of pixel matrices
are those of Êᵀ(·)Ê, with no approximation: sizes enter M exactly.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metriclearn.problem.partition import Partition

__all__ = ["NodeLabels", "Nodes"]


@dataclass(frozen=True, eq=False)
class Nodes:
    """S nodes with features, sizes and, for neighborhoods, places.

    Parameters
    ----------
    features : array (S, P), or (n, S, S) for similarities that are given
    sizes : array (S,)
        Samples that each node stands for, positive.
    positions : array (S, 2), optional
        Place of every node in pixels, for :class:`metriclearn.similarities.Neighborhood`.
    """

    features: NDArray
    sizes: NDArray
    positions: NDArray | None = None
    _kept: dict[str, Any] = field(default_factory=dict, init=False, repr=False)

    @property
    def n_samples(self) -> int:
        """S."""
        return len(self.sizes)

    @property
    def n_features(self) -> int:
        """P, or the number of given similarities."""
        return self.features.shape[1] if self.features.ndim == 2 else len(self.features)

    def once(self, key: str, make: Callable[[], Any]) -> Any:
        """What ``make`` returns; computed once for these nodes, such as pairs of neighbors."""
        if key not in self._kept:
            self._kept[key] = make()
        return self._kept[key]

    @property
    def root(self) -> NDArray:
        """√(n_s / T), shape (S,): scales similarities of nodes to those of samples over T."""
        return np.sqrt(self.sizes / np.sum(self.sizes))


@dataclass(frozen=True, eq=False)
class NodeLabels:
    """A partition of the samples, known through how many of each cluster are in each node.

    Parameters
    ----------
    counts : array (S, K)
        Samples of cluster k in node s; no empty row or column. A node may hold several clusters.
    """

    counts: NDArray

    @classmethod
    def from_labels(cls, labels: ArrayLike, nodes: ArrayLike | None = None) -> NodeLabels:
        """Labels of T samples, and the node 0 … S-1 of each (their own by default)."""
        codes = Partition.from_labels(np.ravel(np.asarray(labels))).labels
        owners = np.arange(len(codes)) if nodes is None else np.ravel(np.asarray(nodes))
        if len(owners) != len(codes):
            raise ValueError(
                f"NodeLabels needs one label per sample, got {len(codes)} labels for "
                f"{len(owners)} samples; labels and image must have the same size."
            )
        counts = np.zeros((int(owners.max()) + 1, int(codes.max()) + 1))
        np.add.at(counts, (owners, codes), 1.0)
        return cls(counts)

    @property
    def n_clusters(self) -> int:
        """K."""
        return self.counts.shape[1]

    @property
    def n_samples(self) -> int:
        """S, the number of nodes."""
        return len(self.counts)

    @property
    def root(self) -> NDArray:
        """R with RRᵀ = ÊᵀNÊ, (S, K): entries n_sk / √(n_s n_k)."""
        sizes = np.sqrt(self.counts.sum(axis=1))
        return self.counts / sizes[:, None] / np.sqrt(self.counts.sum(axis=0))

    def squared_norm(self, labels: NDArray) -> float:
        """‖M − N‖²_F over samples, for clusters of the nodes, (S,) -> float. O(SK)."""
        codes = Partition.from_labels(labels).labels
        table = np.zeros((int(codes.max()) + 1, self.n_clusters))
        np.add.at(table, codes, self.counts)
        shares = table**2 / table.sum(axis=1, keepdims=True) / table.sum(axis=0)
        return max(0.0, float(len(table) + self.n_clusters - 2.0 * shares.sum()))
