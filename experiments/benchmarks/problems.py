"""What benchmarks are run on: samples around centers, and the problem that a learner states."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.datasets import make_blobs

from metriclearn.solvers.base import Problem, Solution, Trace


def clusters(
    n_samples: int, n_features: int, n_clusters: int, spread: float
) -> tuple[NDArray, NDArray]:
    """Samples of unit variance around centers of standard deviation ``spread``, and their labels.

    Returns
    -------
    X : array (n_samples, n_features)
    y : int array (n_samples,)
    """
    half = np.sqrt(3.0) * spread  # of the box: a uniform variable of variance spread²
    return make_blobs(n_samples, n_features, centers=n_clusters, center_box=(-half, half),
                      random_state=0)[:2]  # fmt: skip


@dataclass
class _Listener:
    """A solver that solves nothing and remembers what it was asked."""

    problem: Problem | None = None

    def minimize(self, problem: Problem) -> Solution:
        self.problem = problem
        return Solution(problem.start, np.inf, 0.0, 1.0, "callback", Trace(), 0)


def problem_of(learner: Any, X: Any, y: Any) -> Problem:
    """What a learner asks of its solver for data sets and labels, without its callbacks."""
    listener = _Listener()
    clone(learner).set_params(solver=listener).fit(X, y)
    assert listener.problem is not None
    return replace(listener.problem, callbacks=())
