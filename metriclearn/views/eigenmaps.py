"""Eigenmaps: where a recording repeats itself, by the graph of its most similar stretches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
import scipy.linalg
import scipy.sparse
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from scipy.sparse.linalg import ArpackNoConvergence, eigsh

from metriclearn.running.parameters import Whole
from metriclearn.running.values import check_scale
from metriclearn.views.windows import WindowOfLabels

_MOST = 2048  # stretches, at most
_BLOCK = 256  # stretches at a time
_FLAT = 0.05  # a smaller deviation of a stretch, relative to that of its column, counts as this one
_STROLL = 2  # windows that the walk moves, about, between two jumps to neighbors
_ROUNDING = 6  # digits of squared distances


@dataclass(eq=False, repr=False)
class Eigenmaps(WindowOfLabels):
    """Coordinates in which stretches of a recording are near if the recording goes to and fro.

    Every window of rows is a stretch, and each of its columns is standardized, so that its shape
    alone counts. A graph joins each stretch to the ``n_neighbors`` nearest ones that do not overlap
    it by more than half, and to the next one in time, whose weight lets a random walk move about
    two windows before it jumps to a neighbor. The rows are the eigenvectors of this walk with the
    largest eigenvalues, beside the constant one. So if patterns return in one part of a recording
    and not in another, rows differ between these parts, whatever the patterns are. At both ends,
    rows are those of the first and of the last stretch. If there are more than 2,048 stretches,
    stretches at equal distances are taken, and rows between them are interpolated. In a short
    recording, stretches have a quarter of its rows, and columns of zeros stand for vectors that
    do not exist. A recording that is constant, or has at most four rows, has rows of zeros. O(T).

    Parameters
    ----------
    window : int, optional
        Number of rows of a stretch. By default it is about a 40th of the median length of a labeled
        segment, and at least 5.
    n_components : int
        Number of eigenvectors.
    n_neighbors : int
        Number of stretches that each stretch is joined to.

    Attributes
    ----------
    window_ : int

    Raises
    ------
    ValueError
        For values whose squares are too large, or, without a window, if no segment is labeled.

    See Also
    --------
    Convolutions : how frequent patterns are in windows.

    References
    ----------
    Belkin & Niyogi, Laplacian eigenmaps for dimensionality reduction and data representation,
    Neural Computation 2003; McFee & Ellis, Analyzing song structure with spectral clustering,
    ISMIR 2014.

    Examples
    --------
    >>> import numpy as np
    >>> from metriclearn.views import Eigenmaps
    >>> t = np.arange(400)
    >>> signal = np.where(t < 200, np.sin(t / 3), np.abs(np.sin(t / 6)))[:, None]
    >>> rows = Eigenmaps(window=20, n_components=1).fit_transform([signal])[0]
    >>> bool(rows[:180].min() > rows[220:].max() or rows[:180].max() < rows[220:].min())
    True
    """

    n_components: Annotated[int, Whole(1, 64)] = 8
    n_neighbors: Annotated[int, Whole(1, 64)] = 3

    share: ClassVar[int] = 40
    least: ClassVar[int] = 5

    def rows(self, X: NDArray) -> NDArray[np.float64]:
        """Compute the rows of one recording, (T, n_components)."""
        check_scale(type(self).__name__, X)
        T, window = len(X), min(self.window_, max(len(X) // 4, 2), len(X))
        step = -(-(T - window + 1) // _MOST)
        stretches = sliding_window_view(X, window, axis=0)[::step]
        n, lag = len(stretches), window // 2 // step
        shapes, rows = _shapes(stretches, X), np.zeros((T, self.n_components))
        k = min(self.n_neighbors, n - 2 * lag - 1)  # of the middle stretch, which has the fewest
        if k > 0 and shapes.any():
            near = _neighbors(shapes, k, lag)
            found = _walk(near, self.n_components, max(1.0, (_STROLL * window / step) ** 2))
            middles = step * np.arange(n) + (window - 1) / 2
            for j, one in enumerate(found.T):
                rows[:, j] = np.interp(np.arange(T), middles, one)
        return rows


def _shapes(stretches: NDArray, X: NDArray) -> NDArray[np.float64]:
    """Standardize every column of all stretches, (n, P·window)."""
    deviation, size = X.std(axis=0), np.abs(X).max(axis=0)
    least = np.where(deviation > 1e-9 * size, _FLAT * deviation, np.inf)[:, None]
    shapes = stretches - stretches.mean(axis=2, keepdims=True)
    shapes /= np.maximum(shapes.std(axis=2, keepdims=True), least)
    return shapes.reshape(len(shapes), -1)


def _neighbors(shapes: NDArray, k: int, lag: int) -> NDArray[np.intp]:
    """Return the k nearest of each shape among those more than ``lag`` places away, (n, k).

    Of equally near ones, those nearest in time are taken.
    """
    n, squares, places = len(shapes), np.sum(shapes**2, axis=1), np.arange(len(shapes))
    near = np.empty((n, k), dtype=np.intp)
    for start in range(0, n, _BLOCK):
        some = slice(start, start + _BLOCK)
        # rounded, because the last bits depend on the number of BLAS threads
        distances = np.round(squares[some, None] + squares - 2 * shapes[some] @ shapes.T, _ROUNDING)
        apart = np.abs(places[some, None] - places)
        distances += apart * (0.4 * 10.0**-_ROUNDING / n)
        distances[apart <= lag] = np.inf
        near[some] = np.argpartition(distances, k - 1, axis=1)[:, :k]
    return near


def _walk(near: NDArray[np.intp], n_components: int, link: float) -> NDArray[np.float64]:
    """Compute the eigenvectors of the random walk on a graph of neighbors, (n, n_components).

    The edge to the next stretch has the weight ``link``, and an arrow to a neighbor the weight 1.
    Columns of zeros stand for eigenvectors that do not exist, or that the iteration did not find.
    """
    n, k = near.shape
    arrows = np.ones(n * k), (np.repeat(np.arange(n), k), near.ravel())
    graph = scipy.sparse.csr_array(arrows, shape=(n, n))
    time = scipy.sparse.diags_array([np.full(n - 1, link)] * 2, offsets=[-1, 1])
    graph = graph + graph.T + time
    scale = scipy.sparse.diags_array(graph.sum(axis=1) ** -0.5)
    walk, most = scale @ graph @ scale, 5 * (n_components + 1)
    try:
        if n <= most:  # the iteration fails if vectors are nearly as many as rows
            values, vectors = scipy.linalg.eigh(walk.toarray())
        else:
            values, vectors = eigsh(
                walk, n_components + 1, which="LA", v0=np.ones(n), ncv=most, tol=1e-6
            )
    except ArpackNoConvergence as error:
        values, vectors = error.eigenvalues, error.eigenvectors
    found = np.zeros((n, n_components))
    order = np.argsort(-values)[1 : n_components + 1]
    found[:, : len(order)] = scale @ vectors[:, order]
    largest = np.abs(found).argmax(axis=0)
    return found * np.where(found[largest, np.arange(n_components)] < 0, -1.0, 1.0)
