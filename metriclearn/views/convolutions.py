"""Convolutions: which patterns are frequent around a row, in a recording's own components."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from itertools import combinations
from typing import Annotated, Any, ClassVar, Self

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike, NDArray

from metriclearn.running.parameters import Whole
from metriclearn.running.values import check_scale
from metriclearn.views.windows import WindowOfLabels

# The kernels of MiniRocket: of nine weights, six are −1 and three are 2. No level has a response.
_KERNELS = np.full((84, 9), -1.0)
for _row, _places in zip(_KERNELS, combinations(range(9), 3)):
    _row[list(_places)] = 2.0
_GOLDEN = (5**0.5 - 1) / 2  # its multiples, without whole parts, are spread evenly over 0 to 1
_MOST = 7  # dilations
_SAMPLE = 500  # rows, about, that give the quantiles
_BLOCK = 4096  # rows at a time
_ENOUGH = 8192  # rows, at most, that give the components
_ROUNDING = 1e-9  # responses to a level, relative to the largest value of a column


@dataclass(eq=False, repr=False)
class Convolutions(WindowOfLabels):
    """The principal components of how often convolutions are large in a window.

    The columns are convolved with the 84 kernels of MiniRocket, dilated by 1, 2, 4, … rows until
    they are as long as a window, or by 64. Each of these kernels sees one column, in turn; if there
    are fewer kernels than columns, the last ones are not seen. A quantile of a convolution in the
    recording is its threshold. The share of rows above the threshold, in a window around each row,
    shows how frequent a pattern is, and so in which rhythm a signal moves. The rows are the first
    principal components of the shares, with the components of the recording itself, because every
    recording may have other rhythms. They are divided by the largest standard deviation. At the
    ends, windows have fewer rows, and kernels read copies of the first or the last row. In long
    recordings, rows at equal distances give the quantiles (500) and the components (8,192). O(T)
    for each dilation.

    Parameters
    ----------
    window : int, optional
        Number of rows of a window; one more if it is even. By default it is about a quarter of the
        median length of a labeled segment.
    n_components : int
        Number of components.

    Attributes
    ----------
    window_ : int

    Raises
    ------
    ValueError
        For values whose squares are too large, or, without a window, if no segment is labeled.

    See Also
    --------
    Details : differences of means at several scales.

    References
    ----------
    Dempster, Schmidt & Webb, MiniRocket: a very fast (almost) deterministic transform for time
    series classification, KDD 2021.

    Examples
    --------
    >>> import numpy as np
    >>> from metriclearn.views import Convolutions
    >>> t = np.arange(200)
    >>> signal = np.sin(np.where(t < 100, t, 2 * t))[:, None]
    >>> rows = Convolutions(window=20, n_components=1).fit_transform([signal])[0]
    >>> bool(abs(rows[:80].mean() - rows[120:].mean()) > 1)
    True
    """

    n_components: Annotated[int, Whole(1, len(_KERNELS))] = 8

    share: ClassVar[int] = 4
    least: ClassVar[int] = 3

    def fit(self, X: Any, y: Any = None, groups: ArrayLike | None = None) -> Self:
        """Learn from the labels, without ``window``, the odd number of rows of a window."""
        super().fit(X, y, groups)
        if self.window is None:
            self.window_ = self.window_ // 2 * 2 + 1
        return self

    def rows(self, X: NDArray) -> NDArray[np.float64]:
        """Compute the rows of one recording, (T, n_components)."""
        check_scale(type(self).__name__, X)
        thresholds, starts = self._thresholds(X), range(0, len(X), self._block)
        shares: Callable[[int], NDArray] = partial(self._shares, X, thresholds)
        if len(starts) == 1:
            shares = cache(shares)
        n, step = len(thresholds), -(-len(X) // _ENOUGH)
        mean, scatter, rows = np.zeros(n), np.zeros((n, n)), len(range(0, len(X), step))
        for start in starts:
            some = shares(start)[-start % step :: step]
            mean, scatter = mean + some.sum(axis=0) / rows, scatter + some.T @ some / rows
        covariance = scatter - np.outer(mean, mean)
        leading = [n - self.n_components, n - 1]
        variances, directions = scipy.linalg.eigh(covariance, subset_by_index=leading)
        largest = np.abs(directions).argmax(axis=0)
        directions *= np.sign(directions[largest, np.arange(self.n_components)])
        scale = np.sqrt(variances[-1]) if variances[-1] > _ROUNDING else np.inf
        basis = directions[:, ::-1] / scale
        return np.concatenate([(one - mean) @ basis for one in map(shares, starts)])

    @property
    def _block(self) -> int:
        """Rows at a time."""
        return max(_BLOCK, self.window_)

    def _responses(self, X: NDArray, at: NDArray[np.intp]) -> Iterator[NDArray[np.float64]]:
        """Convolve around some rows; yields (kernels, rows) for every dilation."""
        (T, P), span = X.shape, np.arange(-4, 5)[:, None]
        longest = int(np.ceil(np.log2(max(self.window_ / 8, 1))))
        for j in range(min(longest + 1, _MOST)):
            dilation = 2**j
            places = np.clip(at + dilation * span, 0, T - 1)
            responses = np.empty((len(_KERNELS), len(at)))
            for p in range(P):
                mine = slice((p - j * len(_KERNELS)) % P, None, P)
                responses[mine] = _KERNELS[mine] @ X[places, p]
            yield responses

    def _thresholds(self, X: NDArray) -> NDArray[np.float64]:
        """Compute a quantile of every convolution."""
        found = np.concatenate(
            list(self._responses(X, np.arange(0, len(X), max(1, len(X) // _SAMPLE))))
        )
        ranks = (np.arange(len(found)) * _GOLDEN % 1 * found.shape[1]).astype(int)
        quantiles = np.sort(found, axis=1)[np.arange(len(found)), ranks]
        largest = np.abs(X).max(axis=0)
        return quantiles + _ROUNDING * largest[np.arange(len(found)) % len(largest)]

    def _shares(self, X: NDArray, thresholds: NDArray, start: int) -> NDArray[np.float64]:
        """Compute the shares of a block of rows, (rows, convolutions)."""
        T, h = len(X), self.window_ // 2
        stop = min(start + self._block, T)
        first, last = max(start - h, 0), min(stop + h, T)
        left, inner = first - (start - h), last - first
        counts = np.zeros((len(thresholds), stop - start + 2 * h + 1), dtype=np.int32)
        for j, some in enumerate(self._responses(X, np.arange(first, last))):
            mine = slice(j * len(some), (j + 1) * len(some))
            large = some > thresholds[mine, None]
            np.cumsum(large, axis=1, out=counts[mine, left + 1 : left + 1 + inner])
        counts[:, left + 1 + inner :] = counts[:, left + inner, None]
        t = np.arange(start, stop)
        sizes = np.minimum(t + h + 1, T) - np.maximum(t - h, 0)
        return (counts[:, 2 * h + 1 :] - counts[:, : -2 * h - 1]).T / sizes[:, None]
