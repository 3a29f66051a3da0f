"""Random convolutions (ROCKET) of the windows around every row, from pyts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from metriclearn.views import Labels, Windows

_LONGEST = 11  # rows of the authors' longest kernel; a window has as many at least


@dataclass(eq=False, repr=False)
class RandomConvolutions(BaseEstimator):
    """Convolve the windows around every row with random kernels.

    Each kernel sees one column in windows of one width. It gives two features of a row: the largest
    value of the convolution in the window around this row, and the share of positive values.
    Kernels are as in the paper: 7, 9 or 11 random weights, a random bias and a random dilation. The
    authors use 10,000 kernels for a few hundred whole series. Here, every row is a sample.

    Parameters
    ----------
    n_kernels : int
        Number of kernels, about: all columns and widths have equally many, at least one.
    random_state : int

    References
    ----------
    Dempster, Petitjean & Webb, ROCKET: exceptionally fast and accurate time series classification
    using random convolutional kernels, Data Mining and Knowledge Discovery 34, 2020.
    """

    n_kernels: int = 500
    random_state: int = 0

    def fit(self, X: Sequence[NDArray], y: Labels) -> Self:
        """Draw kernels for the windows of :class:`metriclearn.views.Windows`, of 11 rows or more
        each."""
        from pyts.transformation import ROCKET

        windows = Windows().fit(X, y)
        self.scale_, n_columns = windows.scale_, X[0].shape[1]
        self.widths_ = sorted({max(_LONGEST, 2 * size + 1) for size in windows.sizes_})
        count = max(1, self.n_kernels // (n_columns * len(self.widths_)))
        seed = np.random.default_rng(self.random_state)
        self.kernels_: list[list[Any]] = [
            [
                ROCKET(count, random_state=int(seed.integers(2**31))).fit(np.zeros((1, width)))
                for _ in range(n_columns)
            ]
            for width in self.widths_
        ]
        return self

    def transform(self, X: Sequence[NDArray]) -> list[NDArray]:
        """Return the standardized rows and their features, (T, P + 2 · kernels) each.

        At the ends of a recording, windows repeat its first or last row.
        """
        return [self._convolved(self.scale_.transform(x)) for x in X]

    def _convolved(self, Z: NDArray) -> NDArray[np.float64]:
        parts = [Z]
        for width, kernels in zip(self.widths_, self.kernels_):
            padded = np.pad(Z, ((width // 2, width // 2), (0, 0)), mode="edge")
            windows = sliding_window_view(padded, width, axis=0)  # (T, P, width)
            parts += [one.transform(windows[:, p].copy()) for p, one in enumerate(kernels)]
        return np.hstack(parts)
