"""ClusterScore, and the methods that all clustering estimators with a metric have."""

from __future__ import annotations

from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.cluster import KMeans

from metriclearn.clusterers.dp_means import DPMeans
from metriclearn.estimators.learned_metric import LearnedMetric
from metriclearn.estimators.reading.data_sets import DataSets
from metriclearn.estimators.reading.labels import (
    read_counts,
    read_labelings,
    read_weights,
    refuse_sets_without_labels,
)
from metriclearn.oracles.local_search import LocalSearch
from metriclearn.oracles.rounding import with_clusters
from metriclearn.problem.forms import LowRankForm, center
from metriclearn.problem.losses import FrobeniusLoss
from metriclearn.problem.partition import Partition
from metriclearn.running.parameters import RandomState


@dataclass(frozen=True, eq=False)
class ClusterScore:
    """The score Tr(XBXᵀM) − λ Tr M of a clustering, and the search for a local maximum.

    Attributes
    ----------
    components : array (r, P)
        Lᵀ of the metric B = LLᵀ.
    penalty : float or None
        λ; None if the number of clusters has to be given.
    n_clusters : int or None
        K of the training data sets if it is the same for all of them, else None.
    n_init : int
        Number of starts of K-means or DP-means.
    random_state : int, RandomState or None
        Seed of these starts.
    view : fitted view or None
        Converts a table to the rows of the metric.
    """

    components: NDArray
    penalty: float | None
    n_clusters: int | None = None
    n_init: int = 10
    random_state: Any = None
    view: Any = None

    def at(self, penalty: float | None) -> Self:
        """Return the same score with another penalty."""
        return replace(self, penalty=penalty)

    def through(self, view: Any) -> Self:
        """Return the same score for tables, from which a fitted view computes the rows.

        The components of a linear view are in the units of the tables.
        """
        if hasattr(view, "composed"):
            return replace(self, components=view.composed(self.components))
        return replace(self, view=view)

    def rows(self, X: NDArray) -> NDArray:
        """Compute the rows that the metric sees."""
        return X if self.view is None else self.view.transform([X])[0]

    def cluster(self, X: NDArray, count: int | None = None) -> Partition:
        """Cluster a table, with ``count`` clusters if this number is given."""
        some = len(self.components) > 0
        Z = center(self.rows(X)) @ self.components.T if some else np.zeros((len(X), 1))
        if count is not None:
            return self._k_means(Z, int(count))
        assert self.penalty is not None
        form = LowRankForm(Z, shift=-self.penalty)
        penalized = DPMeans(
            self.penalty, order="farthest-first", n_init=self.n_init, random_state=self.random_state
        )
        best = max(
            Partition.from_labels(penalized.fit_predict(Z)), LocalSearch()(form), key=form.at
        )
        # More clusters would separate equal samples.
        most = len(np.unique(Z, axis=0))
        while best.n_clusters < most:
            finer = self._k_means(Z, best.n_clusters + 1)
            if form.at(finer) <= form.at(best):
                break
            best = finer
        return best

    def _k_means(self, Z: NDArray, count: int) -> Partition:
        """Find exactly K clusters. Equal samples stay together if there are K different samples."""
        means = KMeans(count, n_init=self.n_init, random_state=self.random_state)
        clusters = Partition.from_labels(means.fit_predict(Z))
        if clusters.n_clusters == count:
            return clusters
        distinct, first, codes = np.unique(Z, axis=0, return_index=True, return_inverse=True)
        merged = with_clusters(clusters.labels[first], distinct, min(count, len(distinct)))
        return with_clusters(merged.labels[codes.ravel()], Z, count)


class MahalanobisClusterer(LearnedMetric):
    """Cluster data with a fitted ``score_``, a :class:`ClusterScore`.

    Subclasses fit ``score_``. Their parameters are ``n_clusters`` ("given", a number or None),
    ``n_init`` and ``random_state``.
    """

    score_: ClusterScore
    n_clusters: str | int | None
    n_init: int
    random_state: RandomState

    # The score holds the learned values.
    components_ = property(attrgetter("score_.components"))  # type: ignore[assignment]
    penalty_ = property(attrgetter("score_.penalty"))
    n_clusters_ = property(attrgetter("score_.n_clusters"))

    def predict(self, X: Any, n_clusters: Any = None) -> Any:
        """Return the cluster of every sample, (T,) for each data set, numbered by first appearance.

        The clusters are a local maximum of Tr(XBXᵀM) − λ Tr M over partitions. If K is known,
        K-means runs from ``n_init`` starts. Otherwise, with ``penalty_``, we take the better result
        of two methods: DP-means from ``n_init`` starts, and a local search from the rounded
        relaxation. This result often has too few clusters, because DP-means opens a cluster only if
        a single sample in the new cluster gains more than λ. K-means therefore adds one cluster at
        a time, as long as Tr(XBXᵀM) − λ Tr M rises.

        Parameters
        ----------
        X : (T, P) array or sequence of such arrays
        n_clusters : int or sequence of int, optional
            K. The default depends on the estimator: with a ``penalty_``, K is unknown. Otherwise K
            is the parameter ``n_clusters`` of the estimator or, if this is "given", the K of the
            training data sets.
        """
        data = self.read_data(X)
        return data.as_passed([found.labels for found in self._cluster(data, n_clusters)])

    def score(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> float:
        """Return minus the mean loss ℓ = ‖M − N‖²_F / T. The best score is 0.

        N is the partition by the labels y. With ``n_clusters="given"``, the numbers of clusters are
        taken from y. Samples with the label −1 are left out of the loss.
        """
        data = self.read_data(X)
        known: Any = read_labelings(type(self).__name__, y, data, segments=False, partial=True)
        rows = [np.flatnonzero(truth.labels >= 0) for truth in known]
        refuse_sets_without_labels(type(self).__name__, map(len, rows))
        truths = [Partition.from_labels(truth.labels[i]) for truth, i in zip(known, rows)]
        counts = [t.n_clusters for t in truths] if self.n_clusters == "given" else None
        clusterings = self._cluster(data, counts)
        predicted = [Partition.from_labels(p.labels[i]) for p, i in zip(clusterings, rows)]
        losses = np.array([FrobeniusLoss()(*pair) for pair in zip(predicted, truths)])
        weights = read_weights(type(self).__name__, sample_weight, len(losses))
        return -float(np.average(losses, weights=weights))

    def rows_of(self, data: DataSets) -> list[NDArray]:
        """Return the rows that the metric sees."""
        return list(map(self.score_.rows, data.arrays))

    def _cluster(self, data: DataSets, n_clusters: Any) -> list[Partition]:
        if n_clusters is None and self.penalty_ is None:
            n_clusters = self.n_clusters_ if self.n_clusters == "given" else self.n_clusters
            if n_clusters is None:
                raise ValueError(
                    f"{type(self).__name__} was fitted to data sets with different numbers of "
                    "clusters and has no penalty; pass n_clusters to predict, or fit with "
                    "n_clusters=None."
                )
        who, unknown = type(self).__name__, self.penalty_ is not None
        counts = read_counts(who, "n_clusters", n_clusters, data, optional=unknown)
        score = replace(self.score_, n_init=self.n_init, random_state=self.random_state)
        return list(map(score.cluster, data.arrays, counts))
