"""Means and deviations of moving windows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numba import njit
from numpy.typing import NDArray

from metriclearn.running.parameters import Each, Whole, check_scale
from metriclearn.views.plain import PlainView


@dataclass(eq=False, repr=False)
class Windows(PlainView):
    """The rows, and the means and deviations of the rows around them, at several scales.

    A window of size h around row t has the rows t − h … t + h, fewer near the ends. A metric on
    these rows sees levels, slower levels, and how much a signal moves. The columns are those of X,
    then the P means and the P standard deviations of the first size, and so on. O(TP) for each
    size.

    Parameters
    ----------
    sizes : sequence of int
        The sizes h ≥ 1, in rows on each side.

    Raises
    ------
    ValueError
        For sizes that cannot be used, or values whose squares are too large.

    See Also
    --------
    BoundaryFeatures : compares the windows before and after a position.

    Examples
    --------
    >>> import numpy as np
    >>> from metriclearn.views import Windows
    >>> Windows((1,)).fit_transform([np.array([[0.0], [3.0], [6.0]])])[0][:, 1].tolist()
    [1.5, 3.0, 4.5]
    """

    sizes: Annotated[
        Sequence[int], Each(Whole(1), "one or more whole {name} of at least 1", least=1)
    ] = (1, 4, 16)

    @property
    def reach(self) -> tuple[int, int]:
        """The largest size, on both sides."""
        return max(self.sizes), max(self.sizes)

    def rows(self, X: NDArray) -> NDArray[np.float64]:
        """Compute the rows of one recording, (T, (2·sizes + 1)·P)."""
        check_scale(type(self).__name__, X)
        T, parts = len(X), [X]
        for h in self.sizes:
            means, scatters = window_moments(X, 2 * h + 1)
            t = np.arange(T)
            counts = np.minimum(t + h + 1, T) - np.maximum(t - h, 0)
            parts += [means[t + h + 1], np.sqrt(scatters[t + h + 1] / counts[:, None])]
        return np.hstack(parts)


@njit(nogil=True, cache=True)
def window_moments(Z: NDArray, h: int) -> tuple[NDArray, NDArray]:
    """Compute the mean and Σ(z − mean)² of the rows b−h … b−1, for every b < T + h.

    Returns two arrays (T+h, P). Rows that do not exist are left out. No large numbers are
    subtracted from each other, so even a high jump causes no rounding error in the windows after
    it. Every window consists of the end of one block of h rows and the beginning of the next.
    Welford's updates give the moments of these two parts, and Chan's formula combines them. The
    cost is O(TP).

    References
    ----------
    Chan, Golub & LeVeque, Algorithms for computing the sample variance, The American Statistician
    37, 1983.
    """
    T, P = Z.shape
    means, scatters = np.zeros((T + h, P)), np.zeros((T + h, P))
    # moments of the rows from row a to the end of the block of row a
    end_means, end_scatters = Z.copy(), np.zeros((T, P))
    for a in range(T - 2, -1, -1):
        if (a + 1) % h:
            n = min(h - a % h, T - a)
            for p in range(P):
                step = Z[a, p] - end_means[a + 1, p]
                end_means[a, p] = end_means[a + 1, p] + step / n
                end_scatters[a, p] = end_scatters[a + 1, p] + step * (Z[a, p] - end_means[a, p])
    mean, scatter = np.zeros(P), np.zeros(P)  # of the block of row b−1, up to that row
    for b in range(1, T + h):
        n = (min(b, T) - 1) % h + 1
        start, first = min(b, T) - n, max(b - h, 0)
        for p in range(P):
            if b <= T:
                if n == 1:
                    mean[p] = scatter[p] = 0.0
                step = Z[b - 1, p] - mean[p]
                mean[p] += step / n
                scatter[p] += step * (Z[b - 1, p] - mean[p])
            if first == start:
                means[b, p], scatters[b, p] = mean[p], scatter[p]
            else:
                means[b, p], scatters[b, p] = end_means[first, p], end_scatters[first, p]
            if first < start:
                m, gap = start - first, mean[p] - end_means[first, p]
                means[b, p] += gap * (n / (m + n))
                scatters[b, p] += scatter[p] + gap * gap * (m * n / (m + n))
    return means, scatters
