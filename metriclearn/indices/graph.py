"""Indices that use the positions of the samples: random walk index and VI with neighbors.

Both compare two labelings of the nodes of a graph. Helpers build the graph from points or from the
pixels of an image.

References
----------
Z. Hussain and M. Meilă, "Graph-sensitive indices for comparing clusterings", arXiv:1411.7582, 2014.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metriclearn.indices.contingency import Labels, label_arrays, label_codes
from metriclearn.indices.information import log_base, variation_of_information
from metriclearn.running.parameters import check_scale, needs, number, real_array, several


def random_walk_index(
    S: Any, labels_true: Labels, labels_pred: Labels, *, base: float | None = None
) -> float:
    """Random walk index H(k_t | k′_t, k_{t−1}) + H(k′_t | k_t, k′_{t−1}), Eq. (12).

    It is the uncertainty of a node's label, given its label in the other labeling and the label of
    the previous node, in a stationary random walk on S (Eqs. (8)–(11); Eq. (10) conditions on C_k).
    It is symmetric in the labelings and does not change if S is scaled. O(edges) for sparse S,
    O(n²) for dense; memory of the same order, also for thousands of clusters.

    Contrary to the paper, it is not a metric, 0 does not imply equal partitions (on a path of 4
    nodes, 0000 and 0101), and it can exceed VI on irregular graphs. It equals VI on the complete
    graph with self-loops and is 0 with self-loops only. Nodes of degree 0 have no weight. The RWI
    row of the table in section 5.2 contradicts the definition; this function follows the
    definition.

    Parameters
    ----------
    S : dense or sparse (n, n) array
        Symmetric non-negative similarities.
    labels_true, labels_pred : n labels each
    base : float, optional
        Base of the logarithm, e by default.

    Returns
    -------
    float ≥ 0

    Raises
    ------
    ValueError
        If S has no edges, negative or non-finite weights, or is not symmetric.
    """
    from scipy.sparse import csr_array
    from scipy.special import entr

    a, b = map(label_codes, label_arrays(labels_true, labels_pred))
    S = _similarities(S, len(a))
    # joint: number of the pair (a_i, b_i) of every node; first: a node with each pair
    _, first, joint = np.unique(a * (int(b.max()) + 1) + b, return_index=True, return_inverse=True)
    if isinstance(S, np.ndarray):
        to_pairs = S @ _indicator(joint)
    else:  # renaming the columns gives the same matrix without a product
        shape = len(a), len(first)
        to_pairs = csr_array((S.data, joint[S.indices], S.indptr), shape=shape)
    total = 0.0
    for before, given in ((a, b[first]), (b, a[first])):
        flow = csr_array(_indicator(before).T @ to_pairs)
        flow /= flow.data.sum()  # P(k_{t−1}, (k, k′)_t)
        to_given = flow @ _indicator(given)  # P(k_{t−1}, k′_t): pairs merged by the other label
        total += entr(flow.data).sum() - entr(to_given.data).sum()  # H(all) − H(condition)
    return max(0.0, float(total)) / log_base(base)


def vi_with_neighbors(
    A: Any, labels_true: Labels, labels_pred: Labels, *, base: float | None = None
) -> float:
    """Variation of information between the neighborhood types of two labelings, Eq. (13).

    Two nodes have the same type when they have the same label and each label occurs equally often
    among their neighbors. VIN is the VI of the two partitions into types (Eq. (21)), so it obeys
    the triangle inequality. It is symmetric, and equal to VI on a complete or an empty graph.

    Types are found by hashing: A times two random 64-bit words per label, modulo 2⁶⁴. O(edges)
    time, O(n) memory besides A, wrong with probability below (n d)²/2¹²⁸ for degrees up to d.

    Contrary to the paper, it is only a pseudo-metric (on a path of 3 nodes VIN(000, 010) = 0). The
    paper's listing multiplies labels by A, which fails for the label 0 and for weights. Here A is
    binarized (non-zero means an edge), its diagonal is ignored, and labels are arbitrary.

    Parameters
    ----------
    A : dense or sparse (n, n) array
        Adjacency; row i holds the neighbors of node i.
    labels_true, labels_pred : n labels each
    base : float, optional
        Base of the logarithm, e by default.

    Returns
    -------
    float in [0, ln n]

    Raises
    ------
    ValueError
        If the matrix is not square and finite, or there is not one label per node.
    """
    from scipy.sparse import csr_array

    a, b = map(label_codes, label_arrays(labels_true, labels_pred))
    A = csr_array(_square(A, len(a)))
    edges = csr_array(((A.data != 0).astype(np.uint64), A.indices, A.indptr), shape=A.shape)
    generator = np.random.default_rng(0)  # fixed: the value must not depend on a seed
    types = (_neighborhood_types(edges, codes, generator) for codes in (a, b))
    return variation_of_information(*types, base=base)


@needs(radius=number())
def epsilon_graph(X: ArrayLike, radius: float) -> Any:
    """Sparse 0/1 graph that links points at most ``radius`` apart, without self-loops.

    About O(n log n + edges) in few dimensions. The graph of section 5.2 links points whose
    similarity exp(−d²) exceeds a threshold s: pass ``radius = sqrt(−log s)``.

    Parameters
    ----------
    X : array (n, d)
        Points, finite.
    radius : float ≥ 0
        In the units of X.

    Returns
    -------
    sparse 0/1 array (n, n)

    Raises
    ------
    ValueError
        If X is not finite, or the radius is negative.
    """
    from sklearn.neighbors import radius_neighbors_graph

    points = real_array("epsilon_graph", "X", X)
    return radius_neighbors_graph(points, radius, mode="connectivity", include_self=False)


def knn_graph(X: ArrayLike, n_neighbors: int) -> Any:
    """Sparse symmetric 0/1 graph that links two points if one is a nearest neighbor of the other.

    About O(n log n) in few dimensions (scikit-learn's trees).

    Parameters
    ----------
    X : array (n, d)
        Points, finite.
    n_neighbors : int
        From 1 to n − 1.

    Returns
    -------
    sparse 0/1 array (n, n)

    Raises
    ------
    ValueError
        If X is not finite, or n_neighbors is out of range.

    See Also
    --------
    vi_with_neighbors : compares labelings on the graph.
    epsilon_graph, grid_graph
    """
    from sklearn.neighbors import kneighbors_graph

    points = real_array("knn_graph", "X", X)
    check_scale("knn_graph", points)
    number(1, len(points) - 1, whole=True).check("knn_graph", "n_neighbors", n_neighbors)
    graph = kneighbors_graph(points, n_neighbors, mode="connectivity", include_self=False)
    return graph.maximum(graph.T)


@needs(
    shape=several(number(1, whole=True), "a {name} of positive whole numbers"),
    reach=number(0, whole=True),
)
def grid_graph(shape: Sequence[int], reach: int = 2, *, weighted: bool = False) -> Any:
    """Sparse symmetric graph that links pixels of a grid at most ``reach`` apart on every axis.

    ``reach=2`` is the 5×5 neighborhood of section 5.3. No self-loops.
    O(pixels (2 reach + 1)^axes).

    Parameters
    ----------
    shape : sequence of int
        Grid shape, e.g. ``image.shape[:2]``; nodes are numbered in C order, as by ``ravel()``.
    reach : int ≥ 0
        Pixels.
    weighted : bool
        Whether edges weigh exp(−d²), d the distance in pixels, as in section 5.3; 1 otherwise.

    Returns
    -------
    sparse array (n, n)
        For n pixels.

    Raises
    ------
    ValueError
        If the shape is not made of positive integers, or the reach is negative.
    """
    from scipy.sparse import diags_array, eye_array, kron

    # both the neighborhood and exp(−d²) are products over the axes
    graph = eye_array(1)
    for size in shape:
        steps = np.arange(-min(reach, size - 1), min(reach, size - 1) + 1)
        weights = np.exp(-(steps**2.0)) if weighted else np.ones(len(steps))
        graph = kron(graph, diags_array(weights, offsets=steps, shape=(size, size)))
    graph = graph.tocsr()
    graph.setdiag(0.0)
    graph.eliminate_zeros()
    return graph


def _square(matrix: Any, n: int) -> Any:
    """Check the matrix and return it as a canonical sparse CSR array or a dense float array."""
    if hasattr(matrix, "tocsr"):
        from scipy.sparse import csr_array

        matrix = csr_array(matrix)
        if not matrix.has_canonical_format:
            matrix = matrix.copy()
            matrix.sum_duplicates()
        values = matrix.data
    else:
        matrix = values = real_array("Comparing partitions on a graph", "the matrix", matrix)
    if matrix.shape != (n, n):
        raise ValueError(
            f"Comparing partitions on a graph needs a matrix of shape ({n}, {n}), one row per "
            f"label, got {matrix.shape}."
        )
    if not np.all(np.isfinite(values)):
        raise ValueError("Comparing partitions on a graph needs finite weights; remove NaN, inf.")
    return matrix


def _similarities(S: Any, n: int) -> Any:
    """Check that the similarities are symmetric, non-negative and not all 0."""
    S = _square(S, n)
    if S.min() < 0:
        raise ValueError("random_walk_index needs similarities of at least 0, got negative ones.")
    degrees = S.sum(axis=1, dtype=np.float64)
    if not degrees.sum() > 0:
        raise ValueError("random_walk_index needs a graph with edges; every similarity is 0.")
    probe = np.random.default_rng(0).random((n, 2))  # tests S = Sᵀ by products with random vectors
    if not np.allclose(S @ probe, S.T @ probe, rtol=1e-6, atol=1e-9 * degrees.max()):
        raise ValueError(
            "random_walk_index needs a symmetric similarity matrix; pass (S + S.T) / 2."
        )
    return S


def _indicator(codes: NDArray) -> Any:
    """Assignment matrix Y, sparse (n, K)."""
    from scipy.sparse import csr_array

    n = len(codes)
    return csr_array((np.ones(n), codes, np.arange(n + 1)), shape=(n, int(codes.max()) + 1))


def _neighborhood_types(A: Any, codes: NDArray, generator: np.random.Generator) -> NDArray:
    """Numbers (n,), equal exactly for equal labels and equal label counts among the neighbors."""
    words = generator.integers(0, 2**64, size=(int(codes.max()) + 1, 4), dtype=np.uint64)[codes]
    # no node is its own neighbor; its own label is hashed with other words than its neighbors'
    hashes = A @ words[:, :2] - A.diagonal()[:, None] * words[:, :2] + words[:, 2:]
    order = np.lexsort(hashes.T)
    changes = np.any(np.diff(hashes[order], axis=0) != 0, axis=1)
    types = np.empty(len(codes), dtype=np.int64)
    types[order] = np.concatenate([[0], np.cumsum(changes)])
    return types
