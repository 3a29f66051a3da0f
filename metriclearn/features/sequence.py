"""Features of a whole sequence: its length, noise and spread."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metriclearn.features.hermite import binary_exponents, noise_scale, robust_scale
from metriclearn.features.stateless import SEQUENCES, StatelessTransformer
from metriclearn.running.parameters import either, needs, real_array, several

_FLOOR = 1e-12  # relative to the largest value: keeps logarithms of constants finite


def _log(scale: Callable[[NDArray], NDArray], X: NDArray) -> float:
    """Mean over columns of the logarithm of their scale, bounded below."""
    exponents = binary_exponents(X)
    Z = np.ldexp(X, -exponents)
    largest = np.max(np.abs(Z), axis=0)
    floor = _FLOOR * np.where(largest > 0, largest, 1.0)
    return float(np.mean(np.log(np.maximum(scale(Z), floor)) + np.log(2.0) * exponents))


SEQUENCE_FEATURES: dict[str, Callable[[NDArray], float]] = {
    "log_length": lambda X: float(np.log(len(X))),
    "log_log_length": lambda X: float(np.log(np.log(max(len(X), 2)))),
    "log_noise": lambda X: _log(noise_scale, X),
    "log_spread": lambda X: _log(robust_scale, X),
    "log_deviation": lambda X: _log(lambda Z: np.std(Z, axis=0), X),
    "log_step_deviation": lambda X: _log(
        lambda Z: np.std(np.diff(Z, axis=0, prepend=Z[:1]), axis=0), X
    ),
    "log_range": lambda X: _log(lambda Z: np.ptp(Z, axis=0), X),
}


@dataclass(eq=False, repr=False)
class SequenceFeatures(StatelessTransformer):
    """One row of features per sequence, for a penalty that depends on the sequence.

    Every scale is a natural logarithm, averaged over columns. A log-linear penalty is then a
    product of powers, such as σ² log T, the BIC.

    Parameters
    ----------
    names : sequence of str
        Among ``log_length``, ``log_log_length``, ``log_noise`` (median absolute difference of
        neighbors, scaled to a standard deviation), ``log_spread`` (median absolute deviation,
        scaled likewise), ``log_deviation`` and ``log_step_deviation`` (standard deviation of
        the values, and of the steps), ``log_range``. Empty for a constant penalty.

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
    >>> from metriclearn import SequenceFeatures
    >>> SequenceFeatures(("log_length",)).transform([np.zeros((100, 1))]).round(2)
    array([[4.61]])
    """

    PARAMETERS: ClassVar = {
        "names": several(
            either(*SEQUENCE_FEATURES), f"{{name}} among {', '.join(SEQUENCE_FEATURES)}"
        )
    }

    names: Sequence[str] = (
        "log_length",
        "log_log_length",
        "log_noise",
        "log_spread",
        "log_deviation",
        "log_step_deviation",
    )

    @needs(X=SEQUENCES)
    def transform(self, X: Sequence[ArrayLike]) -> NDArray[np.float64]:
        """Features of N sequences (T_i, P), (N, n_names), O(T log T) each."""
        arrays = [real_array("SequenceFeatures", "a sequence", sequence) for sequence in X]
        rows = [[SEQUENCE_FEATURES[name](array) for name in self.names] for array in arrays]
        return np.array(rows, dtype=np.float64).reshape(len(arrays), len(self.names))

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray:
        """Names of the features, one per column."""
        return np.array(list(self.names), dtype=object)
