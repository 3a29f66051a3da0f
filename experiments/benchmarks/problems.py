"""Inputs of benchmarks: samples around centers, and the problems that learners state."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import make_blobs

from metriclearn.solvers.base import Problem


def clusters(
    n_samples: int, n_features: int, n_clusters: int, spread: float
) -> tuple[NDArray, NDArray]:
    """Draw samples of unit variance around centers of standard deviation ``spread``, with their
    labels.

    Returns
    -------
    X : array (n_samples, n_features)
    y : int array (n_samples,)
    """
    half = np.sqrt(3.0) * spread  # width of the box: a uniform variable of variance spread²
    return make_blobs(n_samples, n_features, centers=n_clusters, center_box=(-half, half),
                      random_state=0)[:2]  # fmt: skip


def problem_of(learner: Any, X: Any, y: Any) -> Problem:
    """Return the optimization problem that a learner states for data sets and labels."""
    return learner.stated(learner.read(X, y)).problem
