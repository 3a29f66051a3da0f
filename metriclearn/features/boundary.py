"""Features of possible change-points: statistics of windows left and right of a position."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray

from metriclearn.features.stateless import SEQUENCES, StatelessTransformer
from metriclearn.running.parameters import Each, OneOf, Whole, check_scale, needs, real_array


@dataclass(eq=False, repr=False)
class BoundaryFeatures(StatelessTransformer):
    """Differences of window statistics left and right of every position, at several scales.

    The windows are the h samples before a position and the h samples from it on (fewer near the
    ends). Every column is first divided by its standard deviation σ over the sequence. Then

        mean       √(n/P Σ_p (m′_p − m_p)²),        1/n = 1/n_left + 1/n_right,
        deviation  √(1/P Σ_p (log s′_p − log s_p)²),

    where m and m′ are the means of the two windows, s and s′ their standard deviations, and n_left
    and n_right their numbers of samples. The variance s² = (Σ (x − m)² + 1)/(h + 1) is regularized
    by an additional sample at distance σ. The features are large where the level or the spread
    changes. In pure noise, the features are about equally large at all positions.

    Parameters
    ----------
    windows : sequence of int
        The window lengths h ≥ 1, in samples.
    statistics : sequence of str
        One or both of ``mean`` and ``deviation``.
    unit : "sequence" or "data"
        With "data", columns are not divided, so σ = 1. Then a row depends only on the samples of
        its windows, so the features can also be computed on a stream. A stream computes the row of
        a position after it has received the window after the position.

    Raises
    ------
    ValueError
        For invalid names, windows or sequences.

    See Also
    --------
    FeaturePenalty : a penalty of changes that depends on these features.

    Examples
    --------
    >>> import numpy as np
    >>> from metriclearn import BoundaryFeatures
    >>> X = np.repeat([[0.0], [5.0]], 20, axis=0)
    >>> int(BoundaryFeatures(windows=(5,)).transform([X])[0][:, 0].argmax())  # where X jumps
    20
    """

    windows: Annotated[Sequence[int], Each(Whole(1), "whole {name} of at least 1")] = (5, 20)
    statistics: Annotated[
        Sequence[str], Each(OneOf("mean", "deviation"), "{name} among mean and deviation")
    ] = ("mean",)
    unit: Annotated[str, OneOf("sequence", "data")] = "sequence"

    @property
    def looks_back(self) -> int | None:
        """The row of a position depends on this many samples before it.

        None means that the row depends on the whole sequence.
        """
        return max(self.windows, default=0) if self.unit == "data" else None

    @property
    def looks_ahead(self) -> int | None:
        """The row of a position depends on this many samples from the position on.

        None means that the row depends on the whole sequence.
        """
        return self.looks_back

    @needs
    def transform(self, X: Annotated[Sequence[ArrayLike], SEQUENCES]) -> list[NDArray[np.float64]]:
        """Compute the features of every sequence (T_i, P). Returns arrays (T_i + 1, q).

        The columns hold the statistics of the first window length, then those of the second, and so
        on. Rows 0 and T are 0, because one of their windows is empty. The cost is O(TP) for each
        window.
        """
        return [self._rows(real_array("BoundaryFeatures", "a sequence", one)) for one in X]

    def _rows(self, X: NDArray) -> NDArray[np.float64]:
        check_scale("BoundaryFeatures", X)
        T, deviation = len(X), np.std(X, axis=0)
        Z = X - np.mean(X, axis=0)
        if self.unit == "sequence":
            Z = Z / np.where(deviation > 0, deviation, 1.0)
        t, columns = np.arange(1, T), []
        for window in self.windows:
            h = min(window, T)
            means, scatters = _window_moments(Z, h)
            sides = []
            for b in (t, t + h):
                size = (np.minimum(b, T) - np.maximum(b - h, 0))[:, None]
                sides.append((size, means[b], 0.5 * np.log((scatters[b] + 1.0) / (size + 1.0))))
            (m, mean, spread), (n, next_mean, next_spread) = sides
            differences = {
                "mean": np.sqrt(m * n / (m + n)) * (next_mean - mean),
                "deviation": next_spread - spread,
            }
            for name in self.statistics:
                columns.append(np.sqrt(np.mean(differences[name] ** 2, axis=1)))
        rows = np.zeros((T + 1, len(columns)))
        rows[1:T] = np.reshape(columns, (len(columns), T - 1)).T
        return rows


@njit(nogil=True, cache=True)
def _window_moments(Z: NDArray, h: int) -> tuple[NDArray, NDArray]:
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
