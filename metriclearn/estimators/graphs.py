"""Reading images and feature arrays as graphs of nodes, and label maps as labels of nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metriclearn.estimators.inputs import read_data_sets
from metriclearn.features.image import ImageFeatures
from metriclearn.problem.knowledge import PartialPartition
from metriclearn.problem.partition import Partition
from metriclearn.similarities import NodeLabels, Nodes

__all__ = [
    "Graph",
    "PartialLabels",
    "pooled_scale",
    "read_graphs",
    "read_known_labels",
    "read_labels",
]


@dataclass(frozen=True, eq=False)
class Graph:
    """Nodes, and which of them each sample belongs to (None: each is its own)."""

    nodes: Nodes
    segments: NDArray | None = None

    @property
    def is_image(self) -> bool:
        """Whether samples are pixels."""
        return self.segments is not None

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the samples: (H, W), or (T,)."""
        return (self.nodes.n_samples,) if self.segments is None else self.segments.shape

    def spread(self, labels: NDArray) -> NDArray:
        """Labels of the nodes as labels of the samples, in their shape."""
        return labels if self.segments is None else labels[self.segments]


@dataclass(frozen=True, eq=False)
class PartialLabels:
    """The labels of a graph's samples, of which some are not known.

    Parameters
    ----------
    codes : array, of the samples' shape
        Number of the label, by first appearance; −1 where unknown.
    values : array (K,)
        The labels.
    nodes : NodeLabels
        What that says of the nodes.
    """

    codes: NDArray[np.int64]
    values: NDArray
    nodes: NodeLabels

    @property
    def n_clusters(self) -> int:
        """K, the number of different labels."""
        return len(self.values)

    def squared_norm(self, labels: NDArray) -> float:
        """‖M − N‖²_F over labeled samples, for clusters of the nodes, (S,) -> float."""
        return self.nodes.squared_norm(labels)

    def completed(self, clusters: NDArray[np.int64], graph: Graph) -> NDArray:
        """The labels, with those of the nodes' clusters where they are unknown."""
        return self.values[np.where(self.codes < 0, graph.spread(clusters), self.codes)]


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
    """Labels of the nodes, one label map or array for every graph, every sample labeled.

    Raises
    ------
    ValueError
        If they are missing, or of another size than the data.
    """
    truths = read_known_labels(who, y, graphs, single)
    complete = [truth for truth in truths if isinstance(truth, NodeLabels)]
    if len(complete) < len(truths):
        raise ValueError(
            f"{who} needs every pixel labeled, got -1 or a PartialPartition; give such pixels a "
            "label of their own, or use NormalizedCutMetricLearner."
        )
    return complete


def read_known_labels(
    who: str, y: Any, graphs: Sequence[Graph], single: bool
) -> list[NodeLabels] | list[PartialLabels]:
    """As :func:`read_labels`, but −1 and PartialPartition say that not all is known.

    Returns
    -------
    list of NodeLabels where every sample is labeled, else of PartialLabels
    """
    if y is None:
        raise ValueError(f"{who} requires y to be passed, but the target y is None; pass labels.")
    if not hasattr(y, "__len__") and not (single and hasattr(y, "n_samples")):
        raise ValueError(f"{who} needs one label map per image, got {y!r}; pass a list of them.")
    labelings = [y] if single else list(y)
    if len(labelings) != len(graphs):
        raise ValueError(
            f"{who} needs one label map per image, got {len(graphs)} image(s) and "
            f"{len(labelings)} label map(s)."
        )
    read = [
        _read_codes(who, own, graph, i) for i, (own, graph) in enumerate(zip(labelings, graphs))
    ]
    if all(np.all(codes >= 0) for codes, _, _ in read):
        return [
            NodeLabels.from_labels(codes, graph.segments)
            for (codes, *_), graph in zip(read, graphs)
        ]
    return [
        PartialLabels(codes, values, NodeLabels.from_labels(codes, graph.segments, same))
        for (codes, values, same), graph in zip(read, graphs)
    ]


Spans = Sequence[tuple[int, int]]


def _read_codes(
    who: str, labels: Any, graph: Graph, i: int
) -> tuple[NDArray[np.int64], NDArray, Spans]:
    """Codes of the samples, the labels that they stand for, and spans of samples in one cluster."""
    same: Spans = ()
    if isinstance(labels, (Partition, PartialPartition)):
        same = labels.same if isinstance(labels, PartialPartition) else ()
        labels = labels.labels if graph.segments is None else _as_map(who, labels, same, graph, i)
    array = _label_array(labels)
    if array.shape != graph.shape:
        gray = (
            "; a gray image needs three channels" if array.ndim == 2 and not graph.is_image else ""
        )
        raise ValueError(
            f"{who} needs labels of shape {graph.shape} for data set {i}, one for every sample, "
            f"got {array.shape}{gray}; resize label maps by the nearest neighbor."
        )
    known = ~_unlabeled(array)
    if not known.any():
        raise ValueError(
            f"{who} needs some labels in every data set, but they cover no sample of data set {i}; "
            "remove it."
        )
    codes = np.full(array.shape, -1, dtype=np.int64)
    try:
        codes[known] = found = Partition.from_labels(array[known]).labels
    except ValueError as error:
        raise ValueError(f"{who}, labels of data set {i}: {error}") from error
    values = array[known][np.unique(found, return_index=True)[1]]
    if len(values) > graph.nodes.n_samples:
        raise ValueError(
            f"{who} needs at least as many nodes as labels, got {graph.nodes.n_samples} nodes "
            f"and {len(values)} labels in data set {i}; use more superpixels."
        )
    return codes, values, same


def _as_map(
    who: str, known: Partition | PartialPartition, same: Spans, graph: Graph, i: int
) -> NDArray:
    """Labels of an image's pixels, row by row, as a map."""
    if known.n_samples != np.prod(graph.shape) or same:
        raise ValueError(
            f"{who} needs partitions of the {np.prod(graph.shape)} pixels of image {i}, row by "
            f"row and with labels only, got {known!r}; pass a label map with -1 where unknown."
        )
    return known.labels.reshape(graph.shape)


def _label_array(labels: Any) -> NDArray:
    array = np.asarray(labels)
    if array.dtype.kind in "US" and not hasattr(labels, "dtype"):
        return np.array(labels, dtype=object)  # numpy would turn -1 into a string
    return array


def _unlabeled(array: NDArray) -> NDArray[np.bool_]:
    """Where labels are −1."""
    if array.dtype.kind in "if":
        return array == -1
    missing = [isinstance(v, (int, float, np.number)) and v == -1 for v in array.ravel()]
    return np.array(missing, dtype=bool).reshape(array.shape)


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
