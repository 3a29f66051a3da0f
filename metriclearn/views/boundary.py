"""Features of possible change-points: statistics of windows left and right of a position."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metriclearn.running.parameters import Each, OneOf, Whole, needs
from metriclearn.running.values import check_scale, real_array
from metriclearn.views.plain import SEQUENCES, StatelessTransformer
from metriclearn.views.windows import window_moments


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
    >>> from metriclearn.views import BoundaryFeatures
    >>> X = np.repeat([[0.0], [5.0]], 20, axis=0)
    >>> int(BoundaryFeatures(windows=(5,)).transform([X])[0][:, 0].argmax())  # where X jumps
    20
    """

    windows: Annotated[Sequence[int], Each(Whole(1), "whole {name} of at least 1")] = (5, 20)
    statistics: Annotated[
        Sequence[str], Each(OneOf("mean", "deviation"), "{name} among mean and deviation")
    ] = ("mean",)
    unit: Literal["sequence", "data"] = "sequence"

    @property
    def reach(self) -> tuple[int, int] | None:
        """The row of a position depends on this many samples before it, and from it on.

        None means that the row depends on the whole sequence.
        """
        longest = max(self.windows, default=0)
        return (longest, longest) if self.unit == "data" else None

    @needs
    def transform(self, X: Annotated[Sequence[ArrayLike], SEQUENCES]) -> list[NDArray[np.float64]]:
        """Compute the features of every sequence (T_i, P). Returns arrays (T_i + 1, q).

        The columns hold the statistics of the first window length, then of the second, and so on.
        Rows 0 and T are 0, because one of their windows is empty. The cost is O(TP) for each
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
            means, scatters = window_moments(Z, h)
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
