"""Neighbors in time: the standardized rows around each row, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Self

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import ArrayLike, NDArray

from metriclearn.running.parameters import Whole
from metriclearn.views.plain import PlainView

_MOST = 1e30  # standardized values are clipped to this
Context = Annotated[int, Whole(0, 10**6)]


@dataclass(frozen=True)
class StandardWindows:
    """Windows of a sample and its neighbors in time, with standardized features.

    Attributes
    ----------
    context : int
        Number of neighbors on each side.
    mean, deviation : arrays (P,)
        Mean and standard deviation of each feature over all training samples. The deviation of a
        constant feature is ∞.
    """

    context: int
    mean: NDArray
    deviation: NDArray

    @classmethod
    def of(cls, context: int, arrays: Sequence[NDArray], weights: NDArray | None = None) -> Self:
        """Compute the means and deviations of training data. ``weights`` (N,) are of recordings."""
        lengths = np.array([len(X) for X in arrays], dtype=float)
        lengths *= 1.0 if weights is None else weights
        # Squares may overflow, so we divide by a power of 2, which changes no digit.
        largest = np.max([np.abs(X).max(axis=0) for X in arrays], axis=0)
        unit = np.ldexp(1.0, np.frexp(largest)[1] - 1)
        means = np.array([np.mean(X / unit, axis=0) for X in arrays])
        mean = np.average(means, axis=0, weights=lengths)
        variances = np.array([np.mean(np.square(X / unit - mean), axis=0) for X in arrays])
        deviation = np.sqrt(np.average(variances, axis=0, weights=lengths))
        varies = deviation > 1e-7 * np.abs(mean)
        return cls(context, mean * unit, np.where(varies, deviation * unit, np.inf))

    def transform(self, X: NDArray) -> NDArray[np.float64]:
        """Return the standardized window of every sample as a row, (T, (2·context + 1)·P).

        Windows that reach beyond an end contain copies of the first or the last sample.
        """
        if self.context == 0:
            return self._padded(X)
        # Neighboring samples are next to each other, so the rows are views of one flat array.
        width = (2 * self.context + 1) * X.shape[1]
        windows = sliding_window_view(self._padded(X).ravel(), width)
        return np.ascontiguousarray(windows[:: X.shape[1]])

    def scores(self, X: NDArray, coef: NDArray) -> NDArray[np.float64]:
        """Compute ``transform(X) @ coef.T`` for weights ``coef`` (C, (2·context + 1)·P).

        To save memory, the result of :meth:`transform` is not stored. Instead we add up one product
        for each position in the window.
        """
        padded, weights = self._padded(X), coef.reshape(len(coef), -1, X.shape[1])
        total = np.zeros((len(X), len(coef)))
        for k in range(weights.shape[1]):
            total += padded[k : k + len(X)] @ np.ascontiguousarray(weights[:, k].T)
        return total

    def _padded(self, X: NDArray) -> NDArray[np.float64]:
        """Standardize samples, and extend both ends by copies of the first and the last sample."""
        T, context = len(X), self.context
        padded = np.empty((T + 2 * context, X.shape[1]))
        standard = padded[context : context + T]
        np.divide(X - self.mean, self.deviation, out=standard)
        np.clip(standard, -_MOST, _MOST, out=standard)  # forests read float32
        padded[:context], padded[context + T :] = standard[0], standard[-1]
        return padded


@dataclass(eq=False, repr=False)
class Neighbors(PlainView):
    """The standardized rows from ``context`` before to ``context`` after each row, side by side.

    Columns are standardized by the means and deviations of all training rows. Rows beyond an end
    are copies of the first or the last row.

    Parameters
    ----------
    context : int
        Number of neighbors on each side.

    Attributes
    ----------
    windows_ : StandardWindows

    Raises
    ------
    ValueError
        For a context that cannot be used.

    See Also
    --------
    Posteriors : probabilities of names from a classifier of such windows.

    References
    ----------
    Sarawagi & Cohen, Semi-Markov conditional random fields for information extraction, NIPS 2004
    (segments that are scored by features of their samples).

    Examples
    --------
    >>> import numpy as np
    >>> from metriclearn.views import Neighbors
    >>> Neighbors(context=1).fit_transform([np.arange(10.0).reshape(5, 2)])[0].shape
    (5, 6)
    """

    context: Context = 4

    @property
    def reach(self) -> tuple[int, int]:
        """The context, on both sides."""
        return self.context, self.context

    def fit(self, X: Any, y: Any = None, groups: ArrayLike | None = None) -> Self:
        """Compute the means and deviations of the columns."""
        weights = getattr(y, "weights", None)
        self.windows_ = StandardWindows.of(self.context, self.begin(X), weights)
        return self

    def rows(self, X: NDArray) -> NDArray[np.float64]:
        """Return the window of every row, (T, (2·context + 1)·P)."""
        return self.windows_.transform(X)
