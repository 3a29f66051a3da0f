"""Numbers that describe a whole sequence: its length, its noise, how far it spreads."""

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
    """Mean over columns of the logarithm of their scale, floored."""
    exponents = binary_exponents(X)
    Z = np.ldexp(X, -exponents)
    largest = np.max(np.abs(Z), axis=0)
    floor = _FLOOR * np.where(largest > 0, largest, 1.0)
    return float(np.mean(np.log(np.maximum(scale(Z), floor)) + np.log(2.0) * exponents))


def _step_deviation(X: NDArray) -> NDArray:
    return np.std(np.diff(X, axis=0, prepend=X[:1]), axis=0)


SEQUENCE_FEATURES: dict[str, Callable[[NDArray], float]] = {
    "log_length": lambda X: float(np.log(len(X))),
    "log_log_length": lambda X: float(np.log(np.log(max(len(X), 2)))),
    "log_noise": lambda X: _log(noise_scale, X),
    "log_spread": lambda X: _log(robust_scale, X),
    "log_deviation": lambda X: _log(lambda Z: np.std(Z, axis=0), X),
    "log_step_deviation": lambda X: _log(_step_deviation, X),
    "log_range": lambda X: _log(lambda Z: np.ptp(Z, axis=0), X),
}


@dataclass(eq=False, repr=False)
class SequenceFeatures(StatelessTransformer):
    """One row of features per sequence, for a penalty that depends on the sequence.

    Every scale is a natural logarithm, averaged over columns, so that a penalty that is
    log-linear in them is a product of powers: σ² log T, the BIC, is one of them.

    Parameters
    ----------
    names : sequence of str
        Among ``log_length``, ``log_log_length``, ``log_noise`` (median absolute difference of
        neighbors, scaled to a standard deviation), ``log_spread`` (the same of the median
        absolute deviation), ``log_deviation`` and ``log_step_deviation`` (standard deviation of
        the values, and of the steps), ``log_range``. Empty for a constant penalty.

    Raises
    ------
    ValueError
        For names, windows or sequences that cannot be used.

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
        """Names of the features of a sequence, one for every column that transform gives."""
        return np.array(list(self.names), dtype=object)
