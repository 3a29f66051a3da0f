"""Find normalized cuts of a graph of nodes: a spectral embedding and three ways to round it.

A node of size n counts exactly as n equal samples, see :mod:`metriclearn.similarities.nodes`. So a
cut of the nodes has the same value as the same cut of the samples.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata
from sklearn.base import BaseEstimator
from sklearn.cluster import KMeans

from metriclearn.oracles.spectral import TopEigenvectors
from metriclearn.running.parameters import RandomState
from metriclearn.similarities.operators import Operator


@dataclass(frozen=True)
class NormalizedCut:
    """The normalized cut problem of one graph.

    Parameters
    ----------
    operator : Operator
        A = Diag(r) W Diag(r), (S, S).
    oracle : TopEigenvectors
        Finds eigenvectors.
    """

    operator: Operator
    oracle: TopEigenvectors = TopEigenvectors()  # noqa: RUF009  # never changed

    @property
    def n_samples(self) -> int:
        """The number S of nodes."""
        return len(self.operator.root)

    @cached_property
    def _normalized(self) -> Operator:
        return self.operator.normalized()

    @cached_property
    def _leading(self) -> NDArray:
        """The eigenvector r√d with the eigenvalue 1, which every graph with degrees d has."""
        leading = self.operator.root**2 / self._normalized.root
        return leading / np.linalg.norm(leading)

    @property
    def volumes(self) -> NDArray:
        """For every node, the sum of the degrees of its samples, (S,)."""
        return self.operator.root**4 / self._normalized.root**2

    def matvec(self, V: NDArray) -> NDArray:
        """Multiply V by the normalized similarity minus vvᵀ with its first eigenvector v."""
        flat = V.reshape(len(V), -1)
        rest = self._normalized.matvec(flat) - np.outer(self._leading, self._leading @ flat)
        return rest.reshape(V.shape)

    def eigenpairs(self, count: int) -> tuple[NDArray, NDArray]:
        """Return the ``count`` largest eigenvalues of the normalized similarity, with eigenvectors.

        The largest eigenvalue comes first.
        """
        count = min(count, self.n_samples)
        if count == 1:
            return np.ones(1), self._leading[:, None]
        values, vectors = self.oracle.pairs(self, count - 1)
        return np.append(1.0, values), np.column_stack([self._leading, vectors])

    def embedding(self, count: int) -> NDArray:
        """Return for each node the row of one of its samples in the eigenvectors, with length 1."""
        rows = self.eigenpairs(count)[1] / self.operator.root[:, None]
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        return rows / np.where(lengths > 0, lengths, 1.0)

    def values(self, indicators: NDArray) -> NDArray:
        """Return the values cut/vol + cut/vol′ of the k two-way cuts in ``indicators`` (S, k)."""
        scaled = self.operator.root[:, None] * indicators
        inside = np.sum(scaled * self.operator.matvec(scaled), axis=0)
        volume = self.volumes @ indicators
        cut, rest = volume - inside, np.sum(self.volumes) - volume
        return cut / volume + cut / rest


class ThresholdCut(BaseEstimator):
    """Cut at the best threshold of the second eigenvector, and repeat until there are K parts.

    As in the paper of Shi and Malik, the part whose best cut has the least value is divided next.

    Parameters
    ----------
    n_thresholds : int
        Number of thresholds to try. The nodes are sorted by their entries in the eigenvector, and
        the thresholds are spread evenly over this order.

    References
    ----------
    Shi & Malik, Normalized cuts and image segmentation, PAMI 2000, section 3.
    """

    def __init__(self, n_thresholds: int = 200) -> None:
        self.n_thresholds = n_thresholds

    def __call__(self, cut: NormalizedCut, n_clusters: int) -> NDArray[np.int64]:
        labels = np.zeros(cut.n_samples, dtype=np.int64)
        if n_clusters == 1:
            return labels
        splits = {0: self._split(cut)}
        for new in range(1, n_clusters):
            divided = min(splits, key=lambda part: splits[part][0])
            members = np.flatnonzero(labels == divided)
            labels[members[splits.pop(divided)[1]]] = new
            for part in (divided, new) if new + 1 < n_clusters else ():
                inside = np.flatnonzero(labels == part)
                restricted = cut.operator.restricted(inside)
                splits[part] = self._split(NormalizedCut(restricted, cut.oracle))
        return labels

    def _split(self, cut: NormalizedCut) -> tuple[float, NDArray]:
        """Return the value of the best two-way cut, and a mask of the nodes on its second side."""
        if cut.n_samples == 1:
            return np.inf, np.zeros(1, dtype=bool)
        second = cut.eigenpairs(2)[1][:, 1] / np.sqrt(cut.volumes)
        ranks = rankdata(second, method="ordinal") - 1
        places = np.unique(np.linspace(1, len(ranks) - 1, self.n_thresholds).astype(int))
        indicators = (ranks[:, None] >= places).astype(np.float64)
        values = cut.values(indicators)
        best = int(np.argmin(values))
        return float(values[best]), ranks >= places[best]


class KMeansRounding(BaseEstimator):
    """Find clusters by K-means on the rows of the K leading eigenvectors, scaled to unit length.

    Parameters
    ----------
    n_init : int
        Number of runs of K-means.
    random_state : int

    References
    ----------
    Ng, Jordan & Weiss, On spectral clustering, NIPS 2001.
    """

    def __init__(self, n_init: int = 10, random_state: RandomState = 0) -> None:
        self.n_init = n_init
        self.random_state = random_state

    def __call__(self, cut: NormalizedCut, n_clusters: int) -> NDArray[np.int64]:
        if n_clusters == 1:
            return np.zeros(cut.n_samples, dtype=np.int64)
        means = KMeans(n_clusters, n_init=self.n_init, random_state=self.random_state)
        weights = cut.operator.root**2
        return means.fit(cut.embedding(n_clusters), sample_weight=weights).labels_.astype(np.int64)


class Discretization(BaseEstimator):
    """Find clusters by rotating the rows of the K leading eigenvectors close to indicators.

    Parameters
    ----------
    max_rounds : int
        Largest number of rounds. A round finds the nearest indicators, and then the best rotation.

    References
    ----------
    Yu & Shi, Multiclass spectral clustering, ICCV 2003.
    """

    def __init__(self, max_rounds: int = 100) -> None:
        self.max_rounds = max_rounds

    def __call__(self, cut: NormalizedCut, n_clusters: int) -> NDArray[np.int64]:
        rows, weights = cut.embedding(n_clusters), cut.operator.root**2
        # The first axes are nearly orthogonal rows, chosen greedily.
        chosen, overlap = [rows[0]], np.zeros(len(rows))
        for _ in range(n_clusters - 1):
            overlap += np.abs(rows @ chosen[-1])
            chosen.append(rows[int(np.argmin(overlap))])
        rotation = np.array(chosen).T
        labels, before = np.zeros(len(rows), dtype=np.int64), -np.inf
        for _ in range(self.max_rounds):
            labels = np.argmax(rows @ rotation, axis=1)
            indicators = np.eye(n_clusters)[labels] * weights[:, None]
            left, values, right = np.linalg.svd(indicators.T @ rows)
            if values.sum() <= before * (1.0 + 1e-12):
                break
            before, rotation = float(values.sum()), (left @ right).T
        return labels
