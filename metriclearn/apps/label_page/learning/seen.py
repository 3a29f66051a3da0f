"""What the metric of the label page sees: rows, and the rows around them in windows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from metriclearn import PartialPartition
from metriclearn.views import Windows

_WIDTHS = 32, 8, 2  # a window reaches so many parts of the usual segment to each side
_MANY = 40  # with more features, windows have one width, as in ``Windows``
_MOST_NUMBERS = 20_000_000  # in rows with windows; beyond, one width or no windows


@dataclass(frozen=True, eq=False)
class Seen:
    """The rows that the metric sees: features, with their means and deviations in windows.

    Attributes
    ----------
    rows : list of arrays (T, Q)
        The rows of every recording.
    sizes : tuple of int
        Number of rows of each window on each side of a row.
    windows : fitted view, or None
        None if the rows are the features.
    """

    rows: list[NDArray]
    sizes: tuple[int, ...] = ()
    windows: Windows | None = None

    @property
    def context(self) -> int:
        """The number of rows around a stretch, on each side, which its boundaries need."""
        return 4 * max(self.sizes, default=0)

    def suited(self, arrays: Sequence[NDArray], labels: Sequence[PartialPartition]) -> Seen:
        """Return the rows with windows that suit the labels; the object itself if its windows do.

        Sizes follow from the median length of a labeled segment, rounded to a power of two, so that
        they seldom change. Without a labeled segment, and of very many features or rows, the rows
        are the features.

        Parameters
        ----------
        arrays : list of arrays (T, P)
            The features of every recording.
        labels : list of PartialPartition
        """
        numbers = sum(X.size for X in arrays)
        sizes = _sizes(labels, arrays[0].shape[1], numbers)
        if self.sizes == sizes:
            return self
        if not sizes or numbers >= _MOST_NUMBERS // 2:
            return Seen(list(arrays), sizes)
        centered = [_centered(X) for X in arrays]
        windows = Windows(sizes).fit(centered)
        return Seen(windows.transform(centered), sizes, windows)

    def of(self, features: NDArray) -> NDArray:
        """Return the rows that the metric sees of a recording with these features."""
        return (
            features if self.windows is None else self.windows.transform([_centered(features)])[0]
        )


def _centered(X: NDArray) -> NDArray:
    """A change is then also seen on top of a far larger level."""
    return X - X.mean(axis=0)


def _sizes(labels: Sequence[PartialPartition], n_features: int, numbers: int) -> tuple[int, ...]:
    """Choose the windows for labels of recordings with so many numbers."""
    lengths = [
        np.diff(ends, prepend=first)
        for partial in labels
        for first, ends in partial.pieces.stretches
        if ends[-1] - first > 2
    ]
    if not lengths:
        return ()
    usual = 2.0 ** round(np.log2(np.median(np.concatenate(lengths))))
    sizes = {max(1, round(usual / part)) for part in _WIDTHS}
    if n_features > _MANY or (1 + 2 * len(sizes)) * numbers > _MOST_NUMBERS:
        sizes = {max(1, round(usual / _WIDTHS[1]))}
    return tuple(sorted(sizes))
