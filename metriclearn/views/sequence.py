"""Features of a whole sequence: its length, noise and spread."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import ArrayLike, NDArray

from metriclearn.running.parameters import Each, OneOf, Whole, needs
from metriclearn.running.values import real_array
from metriclearn.views.hermite import binary_exponents, noise_scale, robust_scale
from metriclearn.views.plain import SEQUENCES, StatelessTransformer

_BLOCK = 2**18  # numbers at a time
_FLOOR = 1e-12  # relative to the largest value: keeps logarithms of constants finite


def _logs(scale: Callable[[NDArray], NDArray], X: NDArray) -> NDArray[np.float64]:
    """Compute ln ``scale(X)``, with a lower bound of the scale so that the result is finite."""
    exponents = binary_exponents(X)
    Z = np.ldexp(X, -exponents)
    largest = np.max(np.abs(Z), axis=0)
    floor = _FLOOR * np.where(largest > 0, largest, 1.0)
    return np.log(np.maximum(scale(Z), floor)) + np.log(2.0) * exponents


# Each function maps samples (T, P) to one number per column, (P,).
SEQUENCE_FEATURES: dict[str, Callable[[NDArray], NDArray]] = {
    "log_length": lambda X: np.full(X.shape[1], np.log(len(X))),
    "log_log_length": lambda X: np.full(X.shape[1], np.log(np.log(max(len(X), 2)))),
    "log_noise": lambda X: _logs(noise_scale, X),
    "log_spread": lambda X: _logs(robust_scale, X),
    "log_deviation": lambda X: _logs(lambda Z: np.std(Z, axis=0), X),
    "log_step_deviation": lambda X: _logs(
        lambda Z: np.std(np.diff(Z, axis=0, prepend=Z[:1]), axis=0), X
    ),
    "log_range": lambda X: _logs(lambda Z: np.ptp(Z, axis=0), X),
}


@dataclass(eq=False, repr=False)
class SequenceFeatures(StatelessTransformer):
    """One row of features per sequence, for a penalty that depends on the sequence.

    Every feature is a natural logarithm, averaged over columns. So a log-linear penalty is a
    product of powers, such as the penalty σ² log T of the BIC.

    Parameters
    ----------
    names : sequence of str
        Names of the features: ``log_length``, ``log_log_length``, ``log_noise`` (median absolute
        difference of neighboring samples, scaled to a standard deviation), ``log_spread`` (median
        absolute deviation, scaled likewise), ``log_deviation`` (standard deviation of the values),
        ``log_step_deviation`` (standard deviation of the steps, the first of which is 0) or
        ``log_range``. An empty sequence of names gives a constant penalty.
    window : int, optional
        With a window, there is a row for every position 0 … T instead of one row per sequence. A
        row describes the ``window`` samples before its position (fewer near the beginning; position
        0 has the row of position 1). Streams can use such features, as they depend only on earlier
        samples.

    Raises
    ------
    ValueError
        For invalid names or sequences.

    References
    ----------
    Hocking, Rigaill, Vert & Bach, Learning sparse penalties for change-point detection using max
    margin interval regression, ICML 2013.

    Examples
    --------
    >>> import numpy as np
    >>> from metriclearn.views import SequenceFeatures
    >>> SequenceFeatures(("log_length",)).transform([np.zeros((100, 1))]).round(2)
    array([[4.61]])
    """

    names: Annotated[
        Sequence[str],
        Each(OneOf(*SEQUENCE_FEATURES), f"{{name}} among {', '.join(SEQUENCE_FEATURES)}"),
    ] = tuple(name for name in SEQUENCE_FEATURES if name != "log_range")
    window: Annotated[int | None, OneOf(None, Whole(1))] = None

    @property
    def reach(self) -> tuple[int, int] | None:
        """The row of a position depends on this many samples before it, and from it on.

        None means that the row depends on the whole sequence.
        """
        return None if self.window is None else (self.window, 0)

    @needs
    def transform(
        self, X: Annotated[Sequence[ArrayLike], SEQUENCES]
    ) -> NDArray[np.float64] | list[NDArray[np.float64]]:
        """Compute the features of N sequences (T_i, P). Returns an array (N, n_names).

        With ``window``, the method returns a list of N arrays (T_i + 1, n_names). The cost for a
        sequence is O(T log T · P) or, with ``window``, O(T · window · P).
        """
        arrays = [real_array("SequenceFeatures", "a sequence", sequence) for sequence in X]
        if self.window is not None:
            return [self._rows_before(array) for array in arrays]
        rows = [self._rows(array, array.shape[1]) for array in arrays]
        return np.array(rows, dtype=np.float64).reshape(len(arrays), len(self.names))

    def _rows(self, X: NDArray, n_features: int) -> NDArray[np.float64]:
        """Compute the features of m stretches of T samples, (m, n_names).

        X (T, mP) holds the P columns of every stretch, one stretch after another.
        """
        values = [SEQUENCE_FEATURES[name](X).reshape(-1, n_features) for name in self.names]
        means = [one.mean(axis=1) for one in values]
        n_rows = X.shape[1] // n_features
        return np.reshape(np.transpose(means), (n_rows, len(self.names)))  # also without names

    def _rows_before(self, X: NDArray) -> NDArray[np.float64]:
        """Compute the features of the window before every position, (T+1, n_names)."""
        assert self.window is not None
        (T, P), window = X.shape, min(self.window, len(X))
        rows = np.zeros((T + 1, len(self.names)))
        for t in range(1, window):
            rows[t] = self._rows(X[:t], P)
        stretches = sliding_window_view(X, window, axis=0)  # (T − window + 1, P, window)
        size = max(1, _BLOCK // (window * P))
        for begin in range(0, len(stretches), size):
            block = stretches[begin : begin + size]
            side_by_side = block.transpose(2, 0, 1).reshape(window, -1)
            rows[window + begin : window + begin + len(block)] = self._rows(side_by_side, P)
        rows[0] = rows[1]
        return rows

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray:
        """Return the names of the features, one per column."""
        return np.array(list(self.names), dtype=object)
