"""Recordings in their own scale."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metriclearn.running.parameters import check_scale
from metriclearn.views.plain import PlainView


class OwnScale(PlainView):
    """Standardize every column of a recording: subtract its mean, divide by its standard deviation.

    Standardized recordings by different microphones and cameras are comparable. A constant column
    becomes zero. Nothing is learned: every recording has a separate scale. O(TP).

    Raises
    ------
    ValueError
        If a recording is not a table of finite numbers whose squares can be added.

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

    reach = None

    def rows(self, X: NDArray) -> NDArray[np.float64]:
        """Standardize one recording."""
        check_scale(type(self).__name__, X)
        centered = X - X.mean(axis=0)
        scale = centered.std(axis=0)
        # rounding leaves constant columns a deviation of about 1e-16 of their size
        constant = scale <= 1e-9 * np.maximum(np.abs(X).max(axis=0), 1e-9)
        return np.where(constant, 0.0, centered / np.where(constant, 1.0, scale))

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> ArrayLike | None:
        """Return the names of the input columns, because the columns stay the same."""
        return input_features
