"""Normalized cuts without learning: the Euclidean similarity, and a grid search over scales."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from metriclearn.estimators.cutter import NormalizedCutSegmenter
from metriclearn.estimators.graphs import Graph, pooled_scale, read_graphs, read_labels
from metriclearn.features.image import ImageFeatures
from metriclearn.similarities import GaussianSimilarity, NodeLabels, Similarity
from metriclearn.similarities.normalized_cut import Rounding, ThresholdCut

__all__ = ["EuclideanSimilarity", "SimilarityGridSearch"]


class EuclideanSimilarity(NormalizedCutSegmenter):
    """Normalized cuts under exp(−s‖x − y‖²/P) of standardized features.

    Parameters
    ----------
    scale : float
        s.
    similarity, features, rounding
        As for :class:`metriclearn.NormalizedCutMetricLearner`.
    """

    def __init__(
        self,
        scale: float = 1.0,
        *,
        similarity: Similarity = GaussianSimilarity(),  # noqa: B008  # never changed
        features: ImageFeatures = ImageFeatures(),  # noqa: B008
        rounding: Rounding = ThresholdCut(),  # noqa: B008
    ) -> None:
        self.scale = scale
        self.similarity = similarity
        self.features = features
        self.rounding = rounding

    def fit(self, X: Any, y: Any) -> Self:
        """Standardize features; labels serve to estimate a number of clusters."""
        graphs, truths = self._read_training(X, y)
        P = self.n_features_in_
        self._accept_weights(np.full(P, self.scale / P))
        self._set_threshold(
            [self._scaled(graph.nodes) for graph in graphs], [t.n_clusters for t in truths]
        )
        return self

    def _read_training(self, X: Any, y: Any) -> tuple[list[Graph], list[NodeLabels]]:
        who = type(self).__name__
        graphs, single = read_graphs(who, X, self.features, False)
        self._remember_features(graphs[0].nodes.n_features, None)
        self.scale_ = pooled_scale(who, graphs, None)
        return graphs, read_labels(who, y, graphs, single)

    def _accept_weights(self, weights: NDArray) -> None:
        self.components_ = np.diag(np.sqrt(weights)) / self.scale_


class SimilarityGridSearch(EuclideanSimilarity):
    """Two scales, one of some features and one of the others, by an exhaustive search.

    The paper's baseline: every pair of scales is tried on the training images, and the one with
    the least mean ‖M − N‖² is kept.

    Parameters
    ----------
    first : sequence of int
        Features that share the first scale, such as those of position.
    scales : sequence of float
        Candidates for both scales, as weights of standardized features.
    similarity, features, rounding
        As for :class:`metriclearn.NormalizedCutMetricLearner`.

    Attributes
    ----------
    scales_ : (float, float)
        The chosen weights, of ``first`` and of the others.
    losses_ : array (n, n)
        Mean loss on the training images for every pair of scales.
    """

    def __init__(
        self,
        first: Sequence[int] = (3, 4),
        scales: Sequence[float] = tuple(10.0 ** np.arange(-4.0, 1.6, 0.5)),
        *,
        similarity: Similarity = GaussianSimilarity(),  # noqa: B008  # never changed
        features: ImageFeatures = ImageFeatures(),  # noqa: B008
        rounding: Rounding = ThresholdCut(),  # noqa: B008
    ) -> None:
        self.first = first
        self.scales = scales
        self.similarity = similarity
        self.features = features
        self.rounding = rounding

    def fit(self, X: Any, y: Any) -> Self:
        """Try all pairs of scales on images and their label maps."""
        graphs, truths = self._read_training(X, y)
        nodes = [self._scaled(graph.nodes) for graph in graphs]
        is_first = np.isin(np.arange(self.n_features_in_), list(self.first))
        n = len(self.scales)
        self.losses_ = np.empty((n, n))
        for i, j in np.ndindex(n, n):
            self._accept_weights(np.where(is_first, self.scales[i], self.scales[j]))
            self.losses_[i, j] = np.mean(
                [
                    truth.squared_norm(self.rounding(self._cut(own), truth.n_clusters))
                    for own, truth in zip(nodes, truths)
                ]
            )
        i, j = divmod(int(np.argmin(self.losses_)), n)
        self.scales_ = (float(self.scales[i]), float(self.scales[j]))
        self._accept_weights(np.where(is_first, *self.scales_))
        self._set_threshold(nodes, [truth.n_clusters for truth in truths])
        return self
