"""Means and deviations of moving windows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray

from metriclearn.problem.partial_labels import PartialPartition
from metriclearn.problem.partition import Partition
from metriclearn.running.parameters import Each, OneOf, Whole
from metriclearn.running.values import check_scale
from metriclearn.views.gaps import labels_for
from metriclearn.views.neighbors import StandardWindows
from metriclearn.views.plain import PlainView

_FEW = 40  # with more columns, windows of one size are enough


@dataclass(eq=False, repr=False)
class Windows(PlainView):
    """The standardized rows, and means and log-deviations of the rows around them.

    A window of size h around row t has the rows t − h … t + h, fewer near the ends. A metric on
    these rows sees levels, slower levels, and how much a signal moves. The first columns are the
    columns of X, standardized by the means and deviations of all training rows. Then follow, for
    each size, P means and P values log(deviation + .01). O(TP) for each size.

    Parameters
    ----------
    sizes : sequence of int, optional
        The sizes h ≥ 1, in rows on each side. By default they follow from the labels: let m be the
        median length of a labeled segment. The windows then have about m/16, m/4 and m rows, or,
        with more than 40 columns, m/4 rows.
    sides : bool
        Whether to add for each size the P means of the 2h + 1 rows before a row, and the P means of
        the 2h + 1 rows from this row on. A classifier sees from them where a boundary is.

    Attributes
    ----------
    sizes_ : tuple of int
    scale_ : StandardWindows
        The means and deviations of the columns.

    Raises
    ------
    ValueError
        For sizes that cannot be used, for values whose squares are too large, or, without sizes, if
        no segment is labeled.

    See Also
    --------
    BoundaryFeatures : compares the windows before and after a position.

    Examples
    --------
    >>> import numpy as np
    >>> from metriclearn.views import Windows
    >>> rows = Windows((1,)).fit_transform([np.array([[0.0], [3.0], [6.0]])])[0]
    >>> rows[:, 1].round(2).tolist()
    [-0.61, 0.0, 0.61]
    """

    sizes: Annotated[
        Sequence[int] | None,
        OneOf(None, Each(Whole(1), "a list of whole numbers of at least 1", least=1)),
    ] = None
    sides: bool = False

    @property
    def reach(self) -> tuple[int, int] | None:
        """The largest size, on both sides; None before the sizes are known."""
        sizes = getattr(self, "sizes_", self.sizes)
        if sizes is None:
            return None
        most = int(max(sizes))
        return (2 * most + 1, 2 * most) if self.sides else (most, most)

    def fit(self, X: Any, y: Any = None, groups: ArrayLike | None = None) -> Self:
        """Learn the scale of the columns and, without ``sizes``, the sizes of the windows."""
        arrays = self.begin(X)
        for one in arrays:
            check_scale(type(self).__name__, one)
        self.scale_ = StandardWindows.of(0, arrays, getattr(y, "weights", None))
        if self.sizes is not None:
            self.sizes_ = tuple(map(int, self.sizes))
        else:
            m = typical_length(self, labels_for(self, y, arrays).partitions)
            self.sizes_ = tuple(w // 2 for w in widths_for(m, arrays[0].shape[1]))
        return self

    def rows(self, X: NDArray) -> NDArray[np.float64]:
        """Compute the rows of one recording, (T, (2·sizes + 1)·P); two P more per size on sides."""
        check_scale(type(self).__name__, X)
        Z, (T, P) = self.scale_.transform(X), X.shape
        found = np.empty((T, (1 + (2 + 2 * self.sides) * len(self.sizes_)) * P))
        found[:, :P], t = Z, np.arange(T)
        for k, h in enumerate(self.sizes_):
            w = 2 * h + 1
            means, scatters = window_moments(Z, w)
            counts = np.minimum(t + h + 1, T) - np.maximum(t - h, 0)
            spread = np.log(np.sqrt(scatters[h + 1 : h + 1 + T] / counts[:, None]) + 0.01)
            parts = [means[h + 1 : h + 1 + T], spread]
            if self.sides:
                parts += [means[np.maximum(t, 1)], means[w : w + T]]
            first = P * (1 + len(parts) * k)
            for j, part in enumerate(parts):
                found[:, first + j * P : first + (j + 1) * P] = part
        return found


def typical_length(view: Any, truths: Sequence[Partition | PartialPartition]) -> float:
    """Return the median length of labeled segments, in rows."""
    known = [one for truth in truths for one in truth.pieces.stretches]
    if not known:
        raise ValueError(
            f"{type(view).__name__} needs a labeled segment to know the length of windows, got "
            "none; label one, or set their length."
        )
    return float(np.median(np.concatenate([np.diff(ends, prepend=s) for s, ends in known])))


@dataclass(eq=False, repr=False)
class WindowOfLabels(PlainView):
    """A view of the whole recording whose windows are a share of the median labeled segment."""

    window: Annotated[int | None, OneOf(None, Whole(2))] = None

    share: ClassVar[int]  # windows in a segment
    least: ClassVar[int]  # rows of a window

    @property
    def reach(self) -> tuple[int, int] | None:
        """None, because a row depends on the whole recording."""
        return None

    @property
    def rows_key(self) -> tuple[Any, ...]:
        """What the rows of a recording depend on."""
        return type(self), *(self.get_params(deep=False) | {"window": self.window_}).values()

    def fit(self, X: Any, y: Any = None, groups: ArrayLike | None = None) -> Self:
        """Learn from the labels, without ``window``, how many rows a window has.

        They are rounded to a power of √2, so that most parts of the labels give the same number.
        """
        arrays = self.begin(X)
        if self.window is not None:
            self.window_ = int(self.window)
        else:
            m = typical_length(self, labels_for(self, y, arrays).partitions)
            near = round(2 ** (round(2 * np.log2(m / self.share)) / 2))
            self.window_ = max(self.least, near)
        return self


def widths_for(m: float, n_columns: int) -> list[int]:
    """Return odd numbers of rows, at least 3, near m/16, m/4 and m; with many columns, near m/4."""
    parts = (4,) if n_columns > _FEW else (16, 4, 1)
    return sorted({max(3, 2 * round(m / part / 2) + 1) for part in parts})


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
    mean, scatter = np.zeros(P), np.zeros(P)  # over the block of row b−1, up to that row
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
