"""Details: what remains of every column between two scales, by the Haar wavelet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metriclearn.running.parameters import OneOf, Whole
from metriclearn.running.values import check_scale
from metriclearn.views.gaps import labels_for
from metriclearn.views.plain import PlainView
from metriclearn.views.windows import typical_length

_MOST = 20  # details of longer windows would need more than a million rows


@dataclass(eq=False, repr=False)
class Details(PlainView):
    """The details of every column at 1, 2, 4, … rows: wavelet coefficients of Haar at each row.

    The detail of 2^j rows is half the difference of two means. One mean is over the 2^j rows that
    end with a row, the other over the 2^j rows before these. Details of few rows show fast changes,
    and details of many rows show slow changes. Their deviations in windows (:class:`Windows`) tell
    in which rhythm a signal moves; rows with equal means and deviations can differ in it. Rows
    before the first are copies of it. O(TP) for each level.

    Parameters
    ----------
    levels : int, optional
        Number of details. By default it follows from the labels: the longest have at most an eighth
        of the rows of the median labeled segment, and at most 64.

    Attributes
    ----------
    levels_ : int

    Raises
    ------
    ValueError
        For values whose squares are too large, or, without levels, if no segment is labeled.

    See Also
    --------
    Windows : means and deviations of moving windows.

    References
    ----------
    Percival & Walden, Wavelet methods for time series analysis, 2000, chapter 5 (the maximal
    overlap discrete wavelet transform).

    Examples
    --------
    >>> import numpy as np
    >>> from metriclearn.views import Details
    >>> Details(2).fit_transform([np.array([[0.0], [0.0], [8.0], [8.0]])])[0].tolist()
    [[0.0, 0.0], [0.0, 0.0], [4.0, 2.0], [0.0, 4.0]]
    """

    levels: Annotated[int | None, OneOf(None, Whole(1, _MOST))] = None

    @property
    def reach(self) -> tuple[int, int] | None:
        """The rows before a row that its longest detail reads; None before that is known."""
        levels = getattr(self, "levels_", self.levels)
        return None if levels is None else (2**levels - 1, 0)

    def fit(self, X: Any, y: Any = None, groups: ArrayLike | None = None) -> Self:
        """Learn from the labels, without ``levels``, how long the longest details are."""
        arrays = self.begin(X)
        if self.levels is not None:
            self.levels_ = int(self.levels)
        else:
            m = typical_length(self, labels_for(self, y, arrays).partitions)
            self.levels_ = int(np.clip(np.log2(max(m, 8.0) / 8), 0, 6)) + 1
        return self

    def rows(self, X: NDArray) -> NDArray[np.float64]:
        """Compute the rows of one recording, (T, levels·P): all details of one length together."""
        check_scale(type(self).__name__, X)
        (T, P), means = X.shape, X
        found = np.empty((T, self.levels_ * P))
        for j in range(self.levels_):
            before = np.concatenate([np.repeat(means[:1], min(2**j, T), axis=0), means[: -(2**j)]])
            found[:, j * P : (j + 1) * P] = (means - before) / 2
            means = (means + before) / 2
        return found
