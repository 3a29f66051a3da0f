"""Dividing images by normalized cuts under a fitted similarity."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from metriclearn.estimators.graphs import Graph, read_graphs, read_known_labels
from metriclearn.estimators.learned_metric import LearnedMetric
from metriclearn.features.image import ImageFeatures
from metriclearn.running.parameters import number
from metriclearn.similarities import Nodes, Similarity
from metriclearn.similarities.normalized_cut import NormalizedCut, Rounding

__all__ = ["NormalizedCutSegmenter"]


class NormalizedCutSegmenter(LearnedMetric):
    """What every estimator does that has fitted ``components_``, ``scale_`` and a threshold.

    A subclass has the parameters ``similarity``, ``features`` and ``rounding``.
    """

    similarity: Similarity
    features: ImageFeatures
    rounding: Rounding
    scale_: NDArray
    eigenvalue_threshold_: float
    max_clusters_: int

    def predict(self, X: Any, n_clusters: int | Sequence[int] | None = 2) -> Any:
        """Divide images by normalized cuts under the learned similarity.

        Parameters
        ----------
        X : images, :class:`ImageNodes` or feature arrays, as for :meth:`fit`
        n_clusters : int, sequence of int, or None
            K; None counts the eigenvalues above ``eigenvalue_threshold_``.

        Returns
        -------
        label map (H, W) of an image, labels (T,) of an array; a list of them for several
        """
        check_is_fitted(self)
        who = type(self).__name__
        graphs, single = read_graphs(who, X, self.features, self.similarity.given)
        several = isinstance(n_clusters, (Sequence, np.ndarray))
        counts: Any = n_clusters if several else [n_clusters] * len(graphs)
        if len(counts) != len(graphs):
            raise ValueError(
                f"{who} needs one n_clusters, or one per image, got {len(counts)} for "
                f"{len(graphs)} images."
            )
        labels = [graph.spread(self._labels(graph, K)) for graph, K in zip(graphs, counts)]
        return labels[0] if single else labels

    def predict_labels_image(self, image: ArrayLike, n_clusters: int | None = 2) -> NDArray:
        """The label map (H, W) of one RGB image (H, W, 3), see :meth:`predict`."""
        return self.predict([image], n_clusters)[0]

    def score(self, X: Any, y: Any) -> float:
        """Minus the mean ‖M − N‖²_F over samples, with K as in the labels: greater is better.

        Samples with the label −1 do not count.
        """
        check_is_fitted(self)
        who = type(self).__name__
        graphs, single = read_graphs(who, X, self.features, self.similarity.given)
        truths: Sequence[Any] = read_known_labels(who, y, graphs, single)
        losses = [
            truth.squared_norm(self._labels(graph, truth.n_clusters))
            for graph, truth in zip(graphs, truths)
        ]
        return -float(np.mean(losses))

    def _labels(self, graph: Graph, n_clusters: int | None) -> NDArray[np.int64]:
        """Clusters of the nodes."""
        if graph.nodes.n_features != self.n_features_in_:
            gray = "" if graph.is_image else " A gray image needs three equal channels."
            raise ValueError(
                f"X has {graph.nodes.n_features} features, but {type(self).__name__} is expecting "
                f"{self.n_features_in_} features as input.{gray}"
            )
        cut, S = self._cut(self._scaled(graph.nodes)), graph.nodes.n_samples
        if n_clusters is None:
            n_clusters = self._count(cut.eigenpairs(min(self.max_clusters_, S))[0])
        if not number(1, S, whole=True).accepts(n_clusters):
            raise ValueError(
                f"{type(self).__name__} needs n_clusters from 1 to the {S} nodes of the image, "
                f"got {n_clusters!r}; ask for fewer, or for more superpixels."
            )
        return self.rounding(cut, int(n_clusters))

    def _cut(self, scaled: Nodes) -> NormalizedCut:
        return NormalizedCut(self.similarity.operator(scaled, self.components_ * self.scale_))

    def _scaled(self, nodes: Nodes) -> Nodes:
        """Features over ``scale_``, centered to keep distances accurate."""
        if self.similarity.given:
            return nodes
        mean = nodes.sizes @ nodes.features / np.sum(nodes.sizes)
        return Nodes((nodes.features - mean) / self.scale_, nodes.sizes, nodes.positions)

    def _set_threshold(self, nodes: Sequence[Nodes], counts: Sequence[int]) -> None:
        """Choose the threshold that counts eigenvalues best on the training images."""
        self.max_clusters_ = min([2 * max(counts) + 2, *(n.n_samples for n in nodes)])
        spectra = [self._cut(own).eigenpairs(self.max_clusters_)[0] for own in nodes]
        edges = np.unique(np.concatenate(spectra))
        middles = np.append(0.5 * (edges[1:] + edges[:-1]), edges[0] - 1e-12)
        errors = [
            sum(abs(int(np.sum(values > t)) - K) for values, K in zip(spectra, counts))
            for t in middles
        ]
        best = middles[np.flatnonzero(errors == np.min(errors))]
        self.eigenvalue_threshold_ = float(np.median(best))

    def _count(self, values: NDArray) -> int:
        return max(1, int(np.sum(values > self.eigenvalue_threshold_)))

    def _remember_features(self, n_features: int, names: Any) -> None:
        self.n_features_in_ = n_features
        if names is not None and all(isinstance(name, str) for name in names):
            self.feature_names_in_ = np.asarray(names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
