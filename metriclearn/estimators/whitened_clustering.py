"""WhitenedClusteringLearner: large-margin learning in whitened coordinates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone

from metriclearn.estimators.clusterer import MahalanobisClusterer
from metriclearn.estimators.clustering import ClusteringMetricLearner
from metriclearn.estimators.inputs import read_clusterings, read_data_sets, read_weights
from metriclearn.oracles.averaged import Averaged
from metriclearn.problem.forms import center
from metriclearn.problem.partition import Partition
from metriclearn.running.parameters import Needs, check_parameters, component, number
from metriclearn.solvers.base import Solution
from metriclearn.solvers.regularizers import SquaredFrobenius

__all__ = ["WhitenedClusteringLearner"]


class WhitenedClusteringLearner(MahalanobisClusterer):
    """Eq. (9) in the coordinates of relevant component analysis: few samples, full metric.

    With W the whitening of a covariance S, the metric is B = WᵀCW and C is learned with large
    margin. K-means looks for round clusters of one size. S within clusters (RCA's whitening,
    ``between=0``) provides them, and a strongly regularized C keeps the directions in which
    clusters differ, in proportion to how much they do; with the total covariance (``between=1``)
    all those directions count alike, and the limit of strong regularization is near that of
    :class:`~metriclearn.baselines.ClosedFormMetric`. ``shrinkage=1`` is
    :class:`ClusteringMetricLearner` itself. The defaults had nearly the least loss on 60 small
    tables (docs/clustering_defaults.md); their local search depends slightly on the order of the
    samples. Cost: O(TP² + P³) and that of the inner learner.

    Parameters
    ----------
    learner : ClusteringMetricLearner
        Learns C; ``standardize=False`` keeps the whitened units. Its ``n_init`` and
        ``random_state`` are those of :meth:`predict`.
    n_clusters : "given", int or None
        As in :class:`ClusteringMetricLearner`; replaces the learner's.
    shrinkage : float in [0, 1]
        Share of the diagonal in S, for few samples.
    between : float in [0, 1]
        Share of the covariance between clusters that is added to the one within: 0 within, 1 total.

    Attributes
    ----------
    components_ : array (r, P)
    penalty_ : float or None
    n_clusters_ : int or None
    learner_ : ClusteringMetricLearner
        Fitted in whitened coordinates.
    solution_ : Solution
        What its solver found; ``learner_.certificate_`` says what that is worth.
    """

    PARAMETERS: ClassVar[Mapping[str, Needs]] = {
        "learner": component(ClusteringMetricLearner, "ClusteringMetricLearner()"),
        "shrinkage": number(0, 1),
        "between": number(0, 1),
    }

    def __init__(
        self,
        learner: ClusteringMetricLearner = ClusteringMetricLearner(  # noqa: B008  # cloned
            regularizer=SquaredFrobenius(10.0),  # noqa: B008
            oracle=Averaged(),  # noqa: B008
            standardize=False,
        ),
        *,
        n_clusters: str | int | None = "given",
        shrinkage: float = 0.1,
        between: float = 0.0,
    ) -> None:
        self.learner = learner
        self.n_clusters = n_clusters
        self.shrinkage = shrinkage
        self.between = between

    @property
    def n_init(self) -> int:  # type: ignore[override]
        """Starts of K-means or DP-means: the inner learner's."""
        return self.learner.n_init

    @property
    def random_state(self) -> Any:  # type: ignore[override]
        """Of these starts: the inner learner's."""
        return self.learner.random_state

    @property
    def solution_(self) -> Solution:
        """What the inner learner's solver found."""
        return self.learner_.solution_

    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Whiten, then learn; parameters as in :class:`ClusteringMetricLearner`.

        Features that are constant in every data set get no weight.

        Raises
        ------
        ValueError
            For data, labels or parameters that cannot be used, in one sentence.
        """
        who = type(self).__name__
        check_parameters(self)
        data = read_data_sets(who, X)
        truths = read_clusterings(who, y, data)
        self._remember(data)
        weights = read_weights(who, sample_weight, len(truths))
        if weights is None:
            weights = np.ones(len(truths))
        varies = np.any(
            [np.ptp(data.arrays[i], axis=0) > 0 for i in np.flatnonzero(weights)], axis=0
        )
        if not varies.any():
            raise ValueError(
                f"{who} needs features that vary within some data set, but all {data.n_features} "
                f"are constant over {len(data.arrays[0])} sample(s); pass other features."
            )
        arrays = [center(array)[:, varies] for array in data.arrays]
        W = self._whitening(arrays, truths, weights)
        whitened = [Z @ W.T for Z in arrays]
        learner = clone(self.learner).set_params(n_clusters=self.n_clusters)
        self.learner_ = learner.fit(whitened, truths, sample_weight)
        self.components_: NDArray = np.zeros((len(self.learner_.components_), data.n_features))
        self.components_[:, varies] = self.learner_.components_ @ W
        self.penalty_, self.n_clusters_ = self.learner_.penalty_, self.learner_.n_clusters_
        return self

    def _whitening(
        self, arrays: list[NDArray], truths: list[Partition], weights: NDArray
    ) -> NDArray:
        """W with W S Wᵀ = I, the directions of most total variance first."""
        mass = sum(weight * len(array) for weight, array in zip(weights, arrays))
        residuals = [array - truth.project(array) for array, truth in zip(arrays, truths)]
        total = sum(weight * array.T @ array for weight, array in zip(weights, arrays)) / mass
        within = sum(weight * rows.T @ rows for weight, rows in zip(weights, residuals)) / mass
        S = within + self.between * (total - within)
        floor = 1e-12 * np.diag(total)
        S = (1 - self.shrinkage) * S + np.diag(self.shrinkage * np.diag(S) + floor)
        return scipy.linalg.eigh(total, S)[1][:, ::-1].T
