"""Reading images and feature arrays as graphs of nodes, and label maps as labels of nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metriclearn.features.image import ImageFeatures
from metriclearn.inputs import read_data_sets
from metriclearn.similarities import NodeLabels, Nodes

__all__ = ["Graph", "pooled_scale", "read_graphs", "read_labels"]


@dataclass(frozen=True, eq=False)
class Graph:
    """Nodes, and which of them each sample belongs to (None: each is its own)."""

    nodes: Nodes
    segments: NDArray | None = None

    @property
    def is_image(self) -> bool:
        """Whether samples are pixels."""
        return self.segments is not None

    def spread(self, labels: NDArray) -> NDArray:
        """Labels of the nodes as labels of the samples, in their shape."""
        return labels if self.segments is None else labels[self.segments]


def read_graphs(who: str, X: Any, features: ImageFeatures, given: bool) -> tuple[list[Graph], bool]:
    """Graphs of one or several data sets, and whether there was one.

    Parameters
    ----------
    who : str
        Name used in errors.
    X : (H, W, 3) image, ImageNodes or (T, P) array, or a sequence of them; with ``given``,
        (n, S, S) similarities
    features : ImageFeatures
        Makes nodes of images.
    given : bool
        Whether data sets are similarities.

    Raises
    ------
    ValueError
        If there is nothing, or something that is no data set.
    """
    single = not (isinstance(X, Sequence) or np.ndim(X) == 4) or _is_table(X)
    items = [X] if single else list(X)
    if not items:
        raise ValueError(f"{who} needs at least one image or data set, got an empty list.")
    graphs = [_read(who, item, i, features, given) for i, item in enumerate(items)]
    for i, graph in enumerate(graphs):
        if graph.nodes.n_features != graphs[0].nodes.n_features:
            raise ValueError(
                f"{who} needs the same features in every data set, got "
                f"{graphs[0].nodes.n_features} in data set 0 and {graph.nodes.n_features} in data "
                f"set {i}."
            )
    return graphs, single


def read_labels(who: str, y: Any, graphs: Sequence[Graph], single: bool) -> list[NodeLabels]:
    """Labels of the nodes, one label map or array for every graph.

    Raises
    ------
    ValueError
        If they are missing, or of another size than the data.
    """
    if y is None:
        raise ValueError(f"{who} requires y to be passed, but the target y is None; pass labels.")
    labelings = [y] if single else list(y)
    if len(labelings) != len(graphs):
        raise ValueError(
            f"{who} needs one label map per image, got {len(graphs)} image(s) and "
            f"{len(labelings)} label map(s)."
        )
    truths = []
    for i, (labels, graph) in enumerate(zip(labelings, graphs)):
        array = np.asarray(labels)
        shape = (graph.nodes.n_samples,) if graph.segments is None else graph.segments.shape
        if array.shape != shape:
            raise ValueError(
                f"{who} needs labels of shape {shape} for data set {i}, one for every sample, got "
                f"{array.shape}; resize label maps by the nearest neighbor."
            )
        if array.dtype.kind in "if" and np.any(array == -1):
            raise ValueError(
                f"{who} needs every pixel labeled, got -1 in data set {i}; give such pixels a "
                "label of their own."
            )
        truth = NodeLabels.from_labels(array, graph.segments)
        if truth.n_clusters > graph.nodes.n_samples:
            raise ValueError(
                f"{who} needs at least as many nodes as labels, got {graph.nodes.n_samples} nodes "
                f"and {truth.n_clusters} labels in data set {i}; use more superpixels."
            )
        truths.append(truth)
    return truths


def pooled_scale(who: str, graphs: Sequence[Graph], weights: NDArray | None) -> NDArray:
    """Standard deviations around the means of data sets, pooled over samples, (P,).

    Raises
    ------
    ValueError
        If a feature is constant in every data set.
    """
    shares = np.ones(len(graphs)) if weights is None else weights
    total, mass = np.zeros(graphs[0].nodes.n_features), 0.0
    magnitude = np.zeros_like(total)
    for share, graph in zip(shares, graphs):
        X, sizes = graph.nodes.features, graph.nodes.sizes
        mean = sizes @ X / sizes.sum()
        total += share * (sizes @ (X - mean) ** 2)
        mass += share * float(sizes.sum())
        magnitude = np.maximum(magnitude, np.max(np.abs(X), axis=0))
    scale = np.sqrt(total / mass)
    constant = np.flatnonzero(scale <= 1e-12 * magnitude)
    if len(constant):
        raise ValueError(
            f"{who} needs features that vary within the data sets, but {len(constant)} are "
            f"constant in each ({', '.join(map(str, constant[:5]))}); remove them."
        )
    return scale


def _is_table(X: Any) -> bool:
    """A (T, P) list of lists of numbers."""
    return isinstance(X, Sequence) and len(X) > 0 and np.ndim(X[0]) == 1


def _read(who: str, item: Any, i: int, features: ImageFeatures, given: bool) -> Graph:
    if hasattr(item, "segments"):
        return Graph(Nodes(item.features, item.sizes, item.positions), item.segments)
    if given:
        return Graph(_read_similarities(who, item, i))
    if np.ndim(item) == 3:
        image = features.nodes(item)
        return Graph(Nodes(image.features, image.sizes, image.positions), image.segments)
    X = read_data_sets(who, [item]).arrays[0]
    return Graph(Nodes(X, np.ones(len(X))))


def _read_similarities(who: str, item: Any, i: int) -> Nodes:
    stack = np.asarray(item, dtype=np.float64)
    if stack.ndim != 3 or stack.shape[1] != stack.shape[2] or stack.size == 0:
        raise ValueError(
            f"{who} needs similarities of shape (n, S, S) with GivenSimilarities, got "
            f"{stack.shape} in data set {i}."
        )
    symmetric = np.allclose(
        stack, stack.transpose(0, 2, 1), rtol=0, atol=1e-8 * np.abs(stack).max()
    )
    if not np.all(np.isfinite(stack)) or not symmetric or stack.min() < 0:
        raise ValueError(
            f"{who} needs finite, nonnegative, symmetric similarities, got others in data set {i}; "
            "a kernel matrix is one, a distance matrix is not."
        )
    return Nodes(stack, np.ones(stack.shape[1]))
