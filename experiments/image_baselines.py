"""The methods that the experiment ``images`` compares, each with its candidates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.cluster import SpectralClustering

from metriclearn import NormalizedCutMetricLearner
from metriclearn.baselines.similarities import EuclideanSimilarity, SimilarityGridSearch
from metriclearn.estimators.graphs import Graph, pooled_scale
from metriclearn.features.image import ImageNodes
from metriclearn.similarities import Nodes
from metriclearn.similarities.normalized_cut import Rounding, ThresholdCut

__all__ = ["Euclidean", "Grid", "ImageMethod", "Learned", "Spectral"]


class ImageMethod(Protocol):
    """Something that is trained on nodes of images with label maps, and then predicts."""

    grid: Mapping[str, Sequence[Any]]

    def fit(
        self, nodes: Sequence[ImageNodes], labels: Sequence[NDArray], parameters: Mapping[str, Any]
    ) -> Any:
        """A fitted model with ``predict(nodes, n_clusters)``."""
        ...

    def choice(self, model: Any) -> str:
        """What training chose, in words."""
        ...


@dataclass(frozen=True)
class Learned:
    """A learner, and the candidates for its hyper-parameters."""

    learner: NormalizedCutMetricLearner
    grid: Mapping[str, Sequence[Any]] = field(default_factory=dict)

    def fit(
        self, nodes: Sequence[ImageNodes], labels: Sequence[NDArray], parameters: Mapping[str, Any]
    ) -> NormalizedCutMetricLearner:
        return clone(self.learner).set_params(**parameters).fit(list(nodes), list(labels))

    def choice(self, model: NormalizedCutMetricLearner) -> str:
        solution = model.solution_
        start = min(model.start_objectives_, key=lambda pair: pair[1])[0]
        return (
            f"start {start:g} of {len(model.start_objectives_)}, objective "
            f"{solution.trace.objective[0]:.4g} to {solution.objective:.4g} in "
            f"{len(solution.trace) - 1} outer steps ({solution.reason}), rank {solution.rank}"
        )


@dataclass(frozen=True)
class Grid:
    """The exhaustive search over two scales; ``keep`` leaves out other features."""

    first: Sequence[int]
    scales: Sequence[float]
    keep: Sequence[int] | None = None
    rounding: Rounding = ThresholdCut()  # noqa: RUF009  # never changed
    grid: Mapping[str, Sequence[Any]] = field(default_factory=dict)

    def fit(
        self, nodes: Sequence[ImageNodes], labels: Sequence[NDArray], parameters: Mapping[str, Any]
    ) -> Any:
        scales = [float(scale) for scale in self.scales]
        search = SimilarityGridSearch(list(self.first), scales, rounding=self.rounding)
        if self.keep is None:
            return search.fit(list(nodes), list(labels))
        return _Selected(search, list(self.keep)).fit(nodes, labels)

    def choice(self, model: Any) -> str:
        search = getattr(model, "search", model)
        position, color = search.scales_
        return (
            f"weight {position:.3g} for position, {color:.3g} for the rest, of "
            f"{search.losses_.size} pairs (training loss {search.losses_.min():.3f})"
        )


@dataclass(frozen=True)
class Euclidean:
    """Standardized features, one fixed scale."""

    rounding: Rounding = ThresholdCut()  # noqa: RUF009  # never changed
    grid: Mapping[str, Sequence[Any]] = field(default_factory=dict)

    def fit(
        self, nodes: Sequence[ImageNodes], labels: Sequence[NDArray], parameters: Mapping[str, Any]
    ) -> EuclideanSimilarity:
        model = EuclideanSimilarity(rounding=self.rounding, **parameters)
        return model.fit(list(nodes), list(labels))

    def choice(self, model: EuclideanSimilarity) -> str:
        return ""


@dataclass(frozen=True)
class Spectral:
    """scikit-learn's SpectralClustering of standardized nodes, its gamma from training images."""

    grid: Mapping[str, Sequence[float]]

    def fit(
        self, nodes: Sequence[ImageNodes], labels: Sequence[NDArray], parameters: Mapping[str, Any]
    ) -> _SpectralModel:
        graphs = [Graph(Nodes(own.features, own.sizes)) for own in nodes]
        return _SpectralModel(pooled_scale("Spectral", graphs, None), parameters["gamma"])

    def choice(self, model: _SpectralModel) -> str:
        return f"gamma {model.gamma:g}"


@dataclass(frozen=True)
class _SpectralModel:
    scale: NDArray
    gamma: float

    def predict(self, X: Sequence[ImageNodes], n_clusters: Sequence[int]) -> list[NDArray]:
        found = []
        for nodes, K in zip(X, n_clusters):
            clustering = SpectralClustering(K, gamma=self.gamma, random_state=0)
            labels = clustering.fit_predict(nodes.features / self.scale)
            found.append(labels[nodes.segments])
        return found


@dataclass(frozen=True)
class _Selected:
    """A search that sees some of the features."""

    search: SimilarityGridSearch
    keep: list[int]

    def fit(self, nodes: Sequence[ImageNodes], labels: Sequence[NDArray]) -> _Selected:
        self.search.fit(self._cut(nodes), list(labels))
        return self

    def predict(self, X: Sequence[ImageNodes], n_clusters: Sequence[int]) -> list[NDArray]:
        return self.search.predict(self._cut(X), n_clusters)

    def _cut(self, nodes: Sequence[ImageNodes]) -> list[ImageNodes]:
        return [
            ImageNodes(np.asarray(n.features)[:, self.keep], n.sizes, n.segments, n.positions)
            for n in nodes
        ]
