"""Compare two labelings of a graph's nodes, by the random walk index or by VI with neighbors.

VI is the variation of information, and VIN stands for VI with neighbors.

The indices use the edges of the graph. Their values therefore depend on which nodes are labeled
differently. Other functions build the graph from points or from the pixels of an image.

References
----------
Z. Hussain and M. Meilă, "Graph-sensitive indices for comparing clusterings", arXiv:1411.7582, 2014.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metriclearn.indices.contingency import Labels, label_arrays, label_codes
from metriclearn.indices.information import log_base, variation_of_information
from metriclearn.running.parameters import Each, Real, Whole, needs
from metriclearn.running.values import check_scale, real_array, whole


def random_walk_index(
    S: Any, labels_true: Labels, labels_pred: Labels, *, base: float | None = None
) -> float:
    """Random walk index H(k_t | k′_t, k_{t−1}) + H(k′_t | k_t, k′_{t−1}), Eq. (12).

    In a stationary random walk on S, k_t and k′_t are the two labels of the node at step t. The
    first term is the uncertainty about k_t, given the other label k′_t and the previous label
    k_{t−1}. In the second term, the two labelings are exchanged. See Eqs. (8)–(11), where Eq. (10)
    must condition on C_k. The index is symmetric in the labelings and does not change if S is
    scaled. Time and memory are O(edges) for sparse S and O(n²) for dense S, even with thousands of
    clusters.

    Contrary to the paper, the random walk index is not a metric. The index can be 0 for different
    partitions (0000 and 0101 on a path of 4 nodes), and it can exceed VI on irregular graphs. The
    index equals VI on the complete graph with self-loops, and it is 0 if all edges are self-loops.
    Nodes of degree 0 have no influence. In the table of section 5.2, the row RWI (random walk
    index) contradicts the paper's definition. This function follows the paper's definition.

    Parameters
    ----------
    S : dense or sparse (n, n) array
        Symmetric, non-negative similarities.
    labels_true, labels_pred : n labels each
    base : float, optional
        Base of the logarithm, by default e.

    Returns
    -------
    float ≥ 0

    Raises
    ------
    ValueError
        If S has no edges, has negative or non-finite entries, or is not symmetric.
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

    Two nodes have the same type if they have the same label and, for every label, the same number
    of neighbors with this label. Each labeling thus gives a partition into types. VIN is the VI of
    these two partitions (Eq. (21)), so it satisfies the triangle inequality. VIN is symmetric, and
    it equals VI on a complete or an empty graph.

    The types are found by hashing. Every label gets four random 64-bit words. The hash of a node is
    a pair of sums modulo 2⁶⁴. A product with A sums the first two words over the labels of the
    node's neighbors. Then the last two words of the node's own label are added to these sums.
    Hashing takes O(edges) time and O(n) memory besides A. For degrees up to d, a collision makes
    the result wrong with probability below (n d)²/2¹²⁸.

    Contrary to the paper, VIN is only a pseudo-metric (on a path of 3 nodes, VIN(000, 010) = 0).
    The program in the paper multiplies A by the labels themselves, which fails for the label 0 and
    for weighted edges. Here any labels are allowed, every non-zero entry of A is an edge of weight
    1, and the diagonal of A is ignored.

    Parameters
    ----------
    A : dense or sparse (n, n) array
        Adjacency matrix. Row i is non-zero at the neighbors of node i.
    labels_true, labels_pred : n labels each
    base : float, optional
        Base of the logarithm, by default e.

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


@needs
def epsilon_graph(X: ArrayLike, radius: Annotated[float, Real()]) -> Any:
    """Make a graph that links points at most ``radius`` apart, without self-loops.

    In few dimensions it takes about O(n log n + edges) time. Section 5.2 of the paper links points
    whose similarity exp(−d²) exceeds a threshold s. For this graph, pass ``radius = sqrt(−log s)``.

    Parameters
    ----------
    X : array (n, d)
        The points, all finite.
    radius : float ≥ 0
        Largest distance of linked points.

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
    """Make a graph that links two points if either is among the nearest neighbors of the other.

    In few dimensions it takes about O(n log n) time, with the search trees of scikit-learn.

    Parameters
    ----------
    X : array (n, d)
        The points, all finite.
    n_neighbors : int
        Number of nearest neighbors of every point, from 1 to n − 1.

    Returns
    -------
    sparse symmetric 0/1 array (n, n)

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
    Whole(1, len(points) - 1).check("knn_graph", "n_neighbors", n_neighbors)
    graph = kneighbors_graph(points, n_neighbors, mode="connectivity", include_self=False)
    return graph.maximum(graph.T)


@needs
def grid_graph(
    shape: Annotated[Sequence[int], Each(Whole(1), "a {name} of positive whole numbers")],
    reach: Annotated[int, Whole(0)] = 2,
    *,
    weighted: bool = False,
) -> Any:
    """Make a graph that links pixels of a grid that are at most ``reach`` apart on every axis.

    There are no self-loops. ``reach=2`` is the 5×5 neighborhood of section 5.3 of the paper. It
    takes O(pixels (2 reach + 1)^axes) time.

    Parameters
    ----------
    shape : sequence of int
        Shape of the grid, e.g. ``image.shape[:2]``. Nodes are numbered in C order, as by
        ``ravel()``.
    reach : int ≥ 0
        Largest distance of linked pixels along an axis, in pixels.
    weighted : bool
        If True, an edge has the weight exp(−d²) as in section 5.3, where d is the distance in
        pixels. If False, all weights are 1.

    Returns
    -------
    sparse symmetric array (n, n)
        The weights of the edges, for n pixels.

    Raises
    ------
    ValueError
        If the shape has an entry that is not a positive integer, or ``reach`` is negative.
    """
    from scipy.sparse import diags_array, eye_array, kron

    # both the neighborhood and exp(−d²) are products over the axes
    graph = eye_array(1)
    for size in map(whole, shape):
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
        real_array("Comparing partitions on a graph", "the matrix", matrix.data, 1, allow=["empty"])
    else:
        matrix = real_array("Comparing partitions on a graph", "the matrix", matrix)
    if matrix.shape != (n, n):
        raise ValueError(
            f"Comparing partitions on a graph needs a matrix of shape ({n}, {n}), one row per "
            f"label, got {matrix.shape}."
        )
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
    """Make the sparse (n, K) matrix Y, where entry (i, k) is 1 if sample i is in cluster k."""
    from scipy.sparse import csr_array

    n = len(codes)
    return csr_array((np.ones(n), codes, np.arange(n + 1)), shape=(n, int(codes.max()) + 1))


def _neighborhood_types(A: Any, codes: NDArray, generator: np.random.Generator) -> NDArray:
    """Number the types of nodes. Return the number of every node's type, an array (n,).

    Two nodes have the same type if they have the same label and, for every label, the same number
    of neighbors with this label.
    """
    words = generator.integers(0, 2**64, size=(int(codes.max()) + 1, 4), dtype=np.uint64)[codes]
    # no node is its own neighbor; its own label is hashed with other words than its neighbors'
    hashes = A @ words[:, :2] - A.diagonal()[:, None] * words[:, :2] + words[:, 2:]
    order = np.lexsort(hashes.T)
    changes = np.any(np.diff(hashes[order], axis=0) != 0, axis=1)
    types = np.empty(len(codes), dtype=np.int64)
    types[order] = np.concatenate([[0], np.cumsum(changes)])
    return types
