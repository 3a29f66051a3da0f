"""Recordings in their own scale."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metriclearn.running.parameters import OneOf, Whole
from metriclearn.views.hermite import binary_exponents
from metriclearn.views.plain import PlainView
from metriclearn.views.windows import window_moments


@dataclass(eq=False, repr=False)
class OwnScale(PlainView):
    """Standardize every column of a recording: subtract its mean, divide by its standard deviation.

    Standardized recordings by different microphones and cameras are comparable. A constant column
    becomes zero. This view learns nothing, because every recording has a separate scale. O(TP).

    Parameters
    ----------
    window : int, optional
        Number of rows, up to and with the present one, that give its mean and deviation. A view
        with a window can follow a stream. By default all rows of the recording count.

    Raises
    ------
    ValueError
        If a recording is not a table of finite numbers.

    See Also
    --------
    HermiteMoments : features of columns in a robust scale.

    Examples
    --------
    >>> import numpy as np
    >>> from metriclearn.views import OwnScale
    >>> OwnScale().fit_transform([np.array([[0.0], [2.0]])])[0].tolist()
    [[-1.0], [1.0]]
    """

    window: Annotated[int | None, OneOf(None, Whole(2))] = None

    @property
    def reach(self) -> tuple[int, int] | None:
        """The rows of the window before a row; None without a window."""
        return None if self.window is None else (self.window - 1, 0)

    def rows(self, X: NDArray) -> NDArray[np.float64]:
        """Standardize one recording."""
        X = np.ldexp(X, -binary_exponents(X))
        if self.window is None:
            mean, size = X.mean(axis=0), np.abs(X).max(axis=0)
            scale = (X - mean).std(axis=0)
        else:
            means, scatters = window_moments(np.ascontiguousarray(X), self.window)
            counts = np.minimum(np.arange(len(X)) + 1, self.window)[:, None]
            mean, scale = means[1 : len(X) + 1], np.sqrt(scatters[1 : len(X) + 1] / counts)
            size = np.abs(mean)
        # rounding leaves constant columns a deviation of about 1e-16 of their size
        flat = scale <= 1e-9 * size
        return np.where(flat, 0.0, (X - mean) / np.where(flat, 1.0, scale))

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> ArrayLike | None:
        """Return the names of the input columns, because the columns stay the same."""
        return input_features
