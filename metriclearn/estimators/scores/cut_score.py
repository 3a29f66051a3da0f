"""Divide images by normalized cuts under a fitted similarity, and read images as graphs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property
from operator import attrgetter
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from metriclearn.estimators.learned_metric import LearnedMetric
from metriclearn.estimators.reading.data_sets import DataSets, check_features, read_data_sets
from metriclearn.estimators.reading.labels import list_labelings, read_counts, read_weights
from metriclearn.features.media.image import ImageFeatures, ImageNodes
from metriclearn.oracles.rounding import Rounding
from metriclearn.problem.partial_labels import PartialPartition
from metriclearn.problem.partition import Partition
from metriclearn.running.parameters import Of, Real, check_changed
from metriclearn.running.values import dimensions, symmetric
from metriclearn.similarities import GaussianSimilarity, NodeLabels, Nodes, Similarity
from metriclearn.similarities.normalized_cut import NormalizedCut, ThresholdCut
from metriclearn.views.columns import Measures, measure


@dataclass(frozen=True, eq=False)
class Graphs(DataSets):
    """The graphs that were made of one or several data sets.

    Attributes
    ----------
    arrays : list of Nodes
    single : bool
        Whether the user passed one data set. If so, methods return one result, not a list.
    feature_names : array of str or None
    segments : list of int arrays or None
        For each data set, the node of every sample, in the shape of the samples. None means that
        each sample is a node.
    """

    arrays: list[Nodes]  # type: ignore[assignment]
    segments: list[NDArray | None]
    items: ClassVar[str] = "nodes"
    remedy: ClassVar[str] = " A gray image needs three equal channels."

    @property
    def n_features(self) -> int:
        """P, the number of features or the number of given similarities."""
        return self.arrays[0].n_features

    @cached_property
    def measures(self) -> Measures:
        """The lengths of the data sets, and the magnitudes and deviations of their features."""
        return measure(np.repeat(n.features, n.sizes.astype(int), axis=0) for n in self.arrays)

    def subset(self, places: NDArray) -> Self:
        """Return only the graphs at the given positions."""
        return replace(super().subset(places), segments=[self.segments[i] for i in places])

    def spread(self, i: int, labels: NDArray) -> NDArray:
        """Convert labels of the nodes of data set i to labels of its samples."""
        segments = self.segments[i]
        return labels if segments is None else labels[segments]


@dataclass(frozen=True, eq=False)
class SampleLabels(NodeLabels):
    """Labels of nodes, and the labels of samples from which they were computed.

    Parameters
    ----------
    codes : int array, of the samples' shape
        Codes of the labels, numbered by first appearance. −1 means that a label is unknown.
    values : array (K,)
        The label that belongs to each code.
    segments : int array or None
        The node of every sample. None means that each sample is a node.
    """

    _: KW_ONLY
    codes: NDArray[np.int64]
    values: NDArray
    segments: NDArray | None

    @property
    def completion(self) -> NDArray:
        """The labels of the samples. A sample without a label has the cluster of its node."""
        spread = self.labels if self.segments is None else self.labels[self.segments]
        return self.values[np.where(self.codes < 0, spread, self.codes)]


def read_graphs(who: str, X: Any, features: ImageFeatures, given: bool) -> Graphs:
    """Read one or several data sets as graphs.

    Parameters
    ----------
    who : str
        Name used in errors.
    X : (H, W, 3) image, ImageNodes or (T, P) array, or a sequence of these
        If ``given`` is true, an array (n, S, S) of similarities takes the place of an image.
    features : ImageFeatures
        Divides images into nodes.
    given : bool
        Whether data sets are similarities rather than images or features.

    Raises
    ------
    ValueError
        If there are no data sets, or if a data set has another type.
    """
    several = isinstance(X, Sequence)
    # A list of lists of numbers is one table.
    numbers = several and len(X) > 0 and dimensions(X[0]) == 1
    single = numbers or not (several or dimensions(X) == 4)
    items = [X] if single else list(X)
    if given:
        items = [_read_similarities(who, item, i) for i, item in enumerate(items)]
        tables = [stack.reshape(len(stack), -1).T for stack in items]
    else:
        items = [features.nodes(item) if dimensions(item) == 3 else item for item in items]
        tables = [item.features if isinstance(item, ImageNodes) else item for item in items]
    data = read_data_sets(who, tables)
    names = data.feature_names
    arrays: list[Nodes] = []
    segments: list[NDArray | None] = []
    for item, table in zip(items, data.arrays):
        if isinstance(item, ImageNodes):
            arrays.append(Nodes(table, item.sizes, item.positions))
            segments.append(item.segments)
            names = np.asarray(features.names, dtype=object)
        else:
            values = item if given else table
            arrays.append(Nodes(values, np.ones(values.shape[-2])))
            segments.append(None)
    return Graphs(arrays, single, names, segments)


def _read_similarities(who: str, item: Any, i: int) -> NDArray:
    stack = symmetric(who, f"the similarities (n, S, S) of data set {i}", item, 3)
    if stack.min() < 0:
        raise ValueError(
            f"{who} needs similarities of at least 0, got {stack.min():g} in data set {i}; a "
            "kernel matrix is one, a distance matrix is not."
        )
    return stack


def read_node_labels(who: str, y: Any, graphs: Graphs, balance: float = 0.0) -> list[SampleLabels]:
    """Convert one label map or label array for every graph to labels of its nodes.

    Parameters
    ----------
    who : str
        Name used in errors.
    y : sequence of (H_i, W_i) label maps, of (T_i,) labels, of Partition or PartialPartition (of
        pixels row by row); or a single one
    graphs : Graphs
    balance : float
        As for :class:`~metriclearn.similarities.NodeLabels`.

    Raises
    ------
    ValueError
        If labels are missing, or if labels and data differ in size.
    """
    labelings = list_labelings(who, y, graphs)
    return [_read_labels(who, labels, graphs, i, balance) for i, labels in enumerate(labelings)]


def _read_labels(who: str, labels: Any, graphs: Graphs, i: int, balance: float) -> SampleLabels:
    """Convert labels of the samples of graph i (−1 where unknown) to labels of its nodes.

    Raises
    ------
    ValueError
        If the shapes of labels and samples differ, if no label is known, or if there are more
        labels than nodes.
    """
    nodes, segments = graphs.arrays[i], graphs.segments[i]
    shape = (nodes.n_samples,) if segments is None else segments.shape
    same: Sequence[tuple[int, int]] = ()
    if isinstance(labels, (Partition, PartialPartition)):
        same = labels.same if isinstance(labels, PartialPartition) else ()
        if segments is not None and (labels.n_samples != segments.size or same):
            raise ValueError(
                f"{who} needs partitions of the {segments.size} pixels of image {i}, row by row "
                f"and with labels only, got {labels!r}; pass a label map with -1 where unknown."
            )
        labels = labels.labels if segments is None else labels.labels.reshape(shape)
    array = np.asarray(labels)
    if array.dtype.kind in "US" and not hasattr(labels, "dtype"):
        # numpy would turn −1 into a string.
        array = np.array(labels, dtype=object)
    if array.shape != shape:
        remedy = "resize label maps by the nearest neighbor"
        if segments is None:
            remedy = "give a label to every row; a gray image needs three channels"
        raise ValueError(
            f"{who} needs labels of shape {shape} for data set {i}, one for every sample, got "
            f"{array.shape}; {remedy}."
        )
    known = array != -1
    if not known.any():
        raise ValueError(
            f"{who} needs some labels in every data set, but they cover no sample of data set {i}; "
            "remove it."
        )
    codes = np.full(shape, -1, dtype=np.int64)
    try:
        codes[known] = Partition.from_labels(array[known]).labels
    except ValueError as error:
        raise ValueError(f"{who}, labels of data set {i}: {error}") from error
    values = array[known][np.unique(codes[known], return_index=True)[1]]
    if len(values) > nodes.n_samples:
        raise ValueError(
            f"{who} needs at least as many nodes as labels, got {nodes.n_samples} nodes and "
            f"{len(values)} labels in data set {i}; use more superpixels."
        )
    of_nodes = vars(NodeLabels.from_labels(codes, segments, same)) | {"balance": balance}
    return SampleLabels(**of_nodes, codes=codes, values=values, segments=segments)


@dataclass(frozen=True, eq=False)
class CutScore:
    """The score of normalized cuts under a metric, and the threshold that gives their number.

    Attributes
    ----------
    components : array (r, P)
        Lᵀ of the metric B = LLᵀ, for data in their original units.
    scale : array (P,)
        The numbers by which features are divided.
    similarity : Similarity
    rounding : Rounding
        Converts eigenvectors to clusters.
    threshold : float
        If K is not given, it is the number of eigenvalues above this threshold.
    most : int
        Largest K that the threshold can give.
    """

    components: NDArray
    scale: NDArray
    similarity: Similarity
    rounding: Rounding
    threshold: float = np.nan
    most: int = 1
    penalty: ClassVar[None] = None  # clusters have no penalty

    def divide(self, nodes: Nodes, count: int | None = None) -> NDArray[np.int64]:
        """Divide nodes into clusters. Without ``count``, the eigenvalue threshold determines K."""
        cut = self.cut(standardized(nodes, self.scale, self.similarity))
        if count is None:
            values, _ = cut.eigenpairs(min(self.most, nodes.n_samples))
            count = max(1, int(np.sum(values > self.threshold)))
        return self.rounding(cut, int(count))

    def mean_loss(
        self, scaled: Sequence[Nodes], truths: Sequence[NodeLabels], weights: NDArray | None = None
    ) -> float:
        """Compute the mean loss ‖D^½(M − N)‖²_F of standardized nodes. K comes from the labels."""
        pairs = zip(map(self.cut, scaled), truths)
        losses = [t.squared_norm(self.rounding(cut, t.n_clusters)) for cut, t in pairs]
        return float(np.average(losses, weights=weights))

    def cut(self, scaled: Nodes, unit: float = 1.0) -> NormalizedCut:
        """Return the normalized cut of nodes whose features are divided by ``scale`` · unit."""
        # Features with infinite scale have weight 0; ∞ · 0 would be NaN.
        scale = np.minimum(self.scale * unit, np.finfo(np.float64).max)
        return NormalizedCut(self.similarity.operator(scaled, self.components * scale))

    def with_threshold(
        self, scaled: Sequence[Nodes], counts: Sequence[int], unit: float = 1.0
    ) -> Self:
        """Return the same score with the eigenvalue threshold of training images.

        In each image, the number of eigenvalues above this threshold should be the number of
        clusters in ``counts``. The threshold minimizes the sum of the differences.
        """
        most = min(2 * max(counts) + 2, *map(len, scaled))
        spectra = np.array([self.cut(one, unit).eigenpairs(most)[0] for one in scaled])
        edges = np.unique(spectra)
        middles = np.append(0.5 * (edges[1:] + edges[:-1]), edges[0] - 1e-12)
        errors = [np.abs(np.sum(spectra > t, axis=1) - counts).sum() for t in middles]
        best = middles[np.flatnonzero(errors == np.min(errors))]
        return replace(self, threshold=float(np.median(best)), most=most)


def standardized(nodes: Nodes, scale: NDArray, similarity: Similarity) -> Nodes:
    """Divide the features of nodes by ``scale`` (P,), and center them for accuracy.

    Given similarities stay as they are.
    """
    if similarity.given:
        return nodes
    mean = nodes.sizes @ nodes.features / np.sum(nodes.sizes)
    return Nodes((nodes.features - mean) / scale, nodes.sizes, nodes.positions)


@dataclass(eq=False, repr=False)
class NormalizedCutSegmenter(LearnedMetric):
    """Divide images by normalized cuts with a fitted ``score_``, a :class:`CutScore`.

    Subclasses fit ``score_``. Their parameters are ``similarity``, ``features``, ``rounding`` and
    ``balance``.
    """

    _: KW_ONLY
    similarity: Annotated[Similarity, Of(Similarity, "GaussianSimilarity()")] = GaussianSimilarity()  # noqa: RUF009
    features: Annotated[ImageFeatures, Of(ImageFeatures, "ImageFeatures()")] = ImageFeatures()  # noqa: RUF009
    rounding: Annotated[Rounding, Of(Rounding, "ThresholdCut()")] = ThresholdCut()  # noqa: RUF009
    balance: Annotated[float, Real(-2.0, 2.0)] = 0.0

    score_: CutScore = field(init=False)
    # The score holds the learned values.
    components_ = property(attrgetter("score_.components"))  # type: ignore[assignment]
    scale_ = property(attrgetter("score_.scale"))
    eigenvalue_threshold_ = property(attrgetter("score_.threshold"))
    max_clusters_ = property(attrgetter("score_.most"))

    @property
    def present_score(self) -> CutScore:
        """The fitted score with the present parameters ``similarity`` and ``rounding``."""
        check_is_fitted(self)
        return replace(self.score_, similarity=self.similarity, rounding=self.rounding)

    def predict(self, X: Any, n_clusters: int | Sequence[int] | None = 2) -> Any:
        """Divide images by normalized cuts under the learned similarity.

        Parameters
        ----------
        X : images, :class:`ImageNodes` or feature arrays, as for :meth:`fit`
        n_clusters : int, sequence of int, or None
            K. With None, K is the number of eigenvalues above ``eigenvalue_threshold_``.

        Returns
        -------
        label map (H, W) of an image, or labels (T,) of an array; a list for several data sets
        """
        graphs = self._read_graphs(X)
        who = type(self).__name__
        counts = read_counts(who, "n_clusters", n_clusters, graphs, optional=True)
        found = map(self.present_score.divide, graphs.arrays, counts)
        labels = [graphs.spread(i, one) for i, one in enumerate(found)]
        return graphs.as_passed(labels)

    def predict_labels_image(self, image: ArrayLike, n_clusters: int | None = 2) -> NDArray:
        """Return the label map (H, W) of one RGB image (H, W, 3), see :meth:`predict`."""
        return self.predict([image], n_clusters)[0]

    def score(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> float:
        """Return minus the mean loss ‖D^½(M − N)‖²_F over images. The best score is 0.

        K comes from the labels. With ``balance=0``, D is the identity. Samples with the label −1
        are ignored. ``sample_weight`` holds a weight for every image, (N,).
        """
        graphs = self._read_graphs(X)
        truths = read_node_labels(type(self).__name__, y, graphs, self.balance)
        score = self.present_score
        scaled = [standardized(one, score.scale, score.similarity) for one in graphs.arrays]
        weights = read_weights(type(self).__name__, sample_weight, len(truths))
        return -score.mean_loss(scaled, truths, weights)

    def _read_graphs(self, X: Any) -> Graphs:
        check_is_fitted(self)
        check_changed(self)
        graphs = read_graphs(type(self).__name__, X, self.features, self.similarity.given)
        return check_features(self, graphs)
