"""Methods of the experiment ``images`` that are not estimators of the package."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.cluster import SpectralClustering

from metriclearn.features.media.image import ImageNodes


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
