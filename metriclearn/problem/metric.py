"""Factors of the metrics that users pass as parameters."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from metriclearn.running.parameters import real_array


def metric_factor(who: str, metric: Any, d: int) -> NDArray[np.float64]:
    """L with B = LLᵀ for a metric that a user passes, (d, d), in O(d³).

    Parameters
    ----------
    who : str
        Name for error messages.
    metric : None, (d, d) matrix B, (d,) weights, or an object with ``get_mahalanobis_matrix``
        None stands for the identity; weights are the diagonal of B.
    d : int
        Number of features.

    Raises
    ------
    ValueError
        If B has another shape, or is not symmetric and positive semi-definite.
    """
    if metric is None:
        return np.eye(d)
    if hasattr(metric, "get_mahalanobis_matrix"):
        metric = metric.get_mahalanobis_matrix()
    given = B = real_array(who, "metric", metric, None)
    if B.shape == (d,):
        B = np.diag(B)
    if B.shape == (d, d) and np.allclose(B, B.T):
        values, vectors = np.linalg.eigh(B)
        if values[0] >= -1e-9 * max(values[-1], 0.0):
            return vectors * np.sqrt(np.maximum(values, 0.0))
    raise ValueError(
        f"{who} needs a metric that is a positive semi-definite ({d}, {d}) matrix, {d} "
        f"non-negative weights or an object with such a matrix, got an array of shape "
        f"{given.shape}; check its shape and its eigenvalues."
    )
