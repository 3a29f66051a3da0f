"""Inputs of benchmarks: samples around centers, and the problems that learners state."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.datasets import make_blobs

import metriclearn as ml
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


class _Asked(Exception):
    """Stops a learner as soon as it has stated its optimization problem."""


class _Listener(ml.solvers.CCCP):
    """A solver for any learner, which only records the problem that it gets."""

    def minimize(self, problem: Problem) -> Any:
        raise _Asked(problem)

    def minimize_from(self, problem: Problem, starts: Any) -> Any:
        raise _Asked(problem)


def problem_of(learner: Any, X: Any, y: Any) -> Problem:
    """Return the optimization problem that a learner states for data sets and labels, without
    callbacks."""
    try:
        clone(learner).set_params(solver=_Listener()).fit(X, y)
    except _Asked as asked:
        return replace(asked.args[0], callbacks=())
    raise RuntimeError(f"{learner!r} asked nothing of its solver.")
