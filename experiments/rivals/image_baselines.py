"""Methods of the experiment ``images``: similarities without learning, and other clusterings."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.cluster import SpectralClustering

from metriclearn.estimators.reading.data_sets import keep_features
from metriclearn.estimators.scores.cut_score import (
    CutScore,
    NormalizedCutSegmenter,
    read_graphs,
    read_node_labels,
    standardized,
)
from metriclearn.features.media.image import ImageNodes
from metriclearn.running.parameters import check_parameters
from metriclearn.similarities import NodeLabels, Nodes
from metriclearn.views.columns import note_constant


class ScikitLearnSpectral(BaseEstimator):
    """Clusters standardized nodes by scikit-learn's SpectralClustering. ``gamma`` is a parameter of
    the kernel."""

    def __init__(self, gamma: float = 1.0) -> None:
        self.gamma = gamma

    def fit(self, X: Sequence[ImageNodes], y: Any = None) -> Self:
        """Subtract from every image its mean, and compute the standard deviation of each feature
        over the pixels of all images."""
        means = [np.average(nodes.features, axis=0, weights=nodes.sizes) for nodes in X]
        squares = [(nodes.features - mean) ** 2 for nodes, mean in zip(X, means)]
        sizes = np.concatenate([nodes.sizes for nodes in X])
        self.scale_ = np.sqrt(np.average(np.vstack(squares), axis=0, weights=sizes))
        return self

    def predict(self, X: Sequence[ImageNodes], n_clusters: Sequence[int]) -> list[NDArray]:
        """Predict label maps with the given numbers of regions."""
        maps = []
        for nodes, K in zip(X, n_clusters):
            clustering = SpectralClustering(K, gamma=self.gamma, random_state=0)
            maps.append(clustering.fit_predict(nodes.features / self.scale_)[nodes.segments])
        return maps


def some_features(X: Sequence[ImageNodes], keep: Sequence[int]) -> list[ImageNodes]:
    """Reduce nodes to the features ``keep``."""
    return [replace(nodes, features=nodes.features[:, list(keep)]) for nodes in X]


class WeighedSimilarity(NormalizedCutSegmenter, ABC):
    """Normalized cuts with the similarity exp(−Σ w_p (x_p − y_p)²) of standardized features.

    Subclasses choose the weights w.
    """

    def fit(self, X: Any, y: Any) -> Self:
        """Standardize features and choose w. The labels also give the numbers of clusters.

        Parameters
        ----------
        X : images, or feature arrays of their nodes, as for NormalizedCutMetricLearner
        y : their label maps; pixels labeled −1 are ignored
        """
        check_parameters(self)
        who = type(self).__name__
        graphs: Any = read_graphs(who, X, self.features, False)
        truths = read_node_labels(who, y, graphs, self.balance)
        keep_features(self, graphs)
        scale = graphs.measures.pooled_deviation(who)
        note_constant(self, np.isfinite(scale))
        nodes = [standardized(one, scale, self.similarity) for one in graphs.arrays]
        score = self._choose(nodes, truths, scale)
        self.score_ = score.with_threshold(nodes, [truth.n_clusters for truth in truths])
        return self

    def _weighing(self, weights: NDArray, scale: NDArray) -> CutScore:
        components = np.diag(np.sqrt(weights)) / scale
        return CutScore(components, scale, self.similarity, self.rounding)

    @abstractmethod
    def _choose(self, nodes: list[Nodes], truths: Sequence[NodeLabels], scale: NDArray) -> CutScore:
        """Return a score with the weights w of the features, which ``scale`` (P,) standardizes."""


@dataclass(eq=False, repr=False)
class EuclideanSimilarity(WeighedSimilarity):
    """Normalized cuts with the similarity exp(−s‖x − y‖²/P) of standardized features.

    Parameters
    ----------
    scale : float
        The factor s.
    similarity, features, rounding, balance
        See :class:`metriclearn.NormalizedCutMetricLearner`.
    """

    scale: float = 1.0

    def _choose(self, nodes: list[Nodes], truths: Sequence[NodeLabels], scale: NDArray) -> CutScore:
        return self._weighing(np.full(len(scale), self.scale / len(scale)), scale)


@dataclass(eq=False, repr=False)
class SimilarityGridSearch(WeighedSimilarity):
    """Normalized cuts with one weight for some features and another weight for all others.

    Lajugie, Arlot & Bach use this search as a baseline. Every pair of weights is tried on the
    training images. The pair with the least mean loss ‖M − N‖², weighted by ``balance``, is kept.

    Parameters
    ----------
    first : sequence of int
        Columns of the features with the first weight, such as the position.
    scales : sequence of float
        Candidates for both weights. These weights multiply squared differences of standardized
        features.
    similarity, features, rounding, balance
        See :class:`metriclearn.NormalizedCutMetricLearner`.

    Attributes
    ----------
    scales_ : (float, float)
        The chosen weights of ``first`` and of the other features.
    losses_ : array (n, n)
        Entry (i, j) is the mean loss on the training images if the features ``first`` have the
        weight ``scales[i]`` and the other features have the weight ``scales[j]``.
    """

    first: Sequence[int] = (3, 4)
    scales: Sequence[float] = tuple(10.0 ** np.arange(-4.0, 1.6, 0.5))

    def _choose(self, nodes: list[Nodes], truths: Sequence[NodeLabels], scale: NDArray) -> CutScore:
        is_first = np.isin(np.arange(len(scale)), list(self.first))
        n = len(self.scales)
        self.losses_ = np.empty((n, n))
        for i, j in np.ndindex(n, n):
            weights = np.where(is_first, self.scales[i], self.scales[j])
            self.losses_[i, j] = self._weighing(weights, scale).mean_loss(nodes, truths)
        i, j = divmod(int(np.argmin(self.losses_)), n)  # row and column of the least loss
        self.scales_ = (float(self.scales[i]), float(self.scales[j]))
        return self._weighing(np.where(is_first, *self.scales_), scale)
