"""What every change-point estimator with a metric can do once it is fitted."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone

from metriclearn.estimators.inputs import (
    DataSets,
    check_features,
    list_labelings,
    read_counts,
    read_data_sets,
    read_labelings,
    read_weights,
)
from metriclearn.estimators.learned_metric import LearnedMetric, MetricEstimator
from metriclearn.estimators.states import States
from metriclearn.oracles.change_points import segmentation_oracle
from metriclearn.problem.forms import LowRankForm, cumulative_sums
from metriclearn.problem.knowledge import PartialPartition
from metriclearn.problem.losses import FrobeniusLoss, known_loss
from metriclearn.problem.partition import Partition, label_array
from metriclearn.problem.risk import Oracle


class MahalanobisSegmenter(LearnedMetric):
    """Predictions of a fitted metric ``components_`` with a ``penalty_`` per segment.

    Subclasses fit ``components_`` (r, P) and ``penalty_``, and have the parameters
    ``n_segments`` (None or "given") and ``min_size``.
    """

    penalty_: float | None
    n_segments: str | None
    min_size: int
    oracle: Oracle | None = None

    def predict_change_points(self, X: Any, n_segments: Any = None) -> Any:
        """Change-points of every data set, as in ruptures: segment ends, the last one T.

        Memory beside X: 8(r+2)T bytes for a metric of rank r, whether X is in single or double
        precision, in memory or mapped from a file (``np.load(file, mmap_mode="r")``).

        Parameters
        ----------
        X : (T, P) array or sequence of them
        n_segments : int or sequence of int, optional
            Number of segments; by default it follows from ``penalty_``.

        Returns
        -------
        int array (K,), or a list of them
        """
        data = self._read(X)
        partitions = self._segment(data, n_segments)
        ends = [partition.change_points for partition in partitions]
        return ends[0] if data.single else ends

    def predict(self, X: Any, n_segments: Any = None) -> Any:
        """Segment number of every sample, 0 … K−1, (T,) for each data set."""
        data = self._read(X)
        labels = [partition.labels for partition in self._segment(data, n_segments)]
        return labels[0] if data.single else labels

    def fit_states(
        self, X: Any, y: Any, metric: MetricEstimator | None = None, named: bool = True
    ) -> Self:
        """Learn from labels that come back what :meth:`predict_states` calls segments.

        Segmentations were learned with every run of equal labels as a segment of its own, since no
        other truth is among what the search for change-points may answer. Here equal labels are
        one cluster wherever they stand.

        Parameters
        ----------
        X : (T, P) array or sequence of them
        y : (T,) labels for each of them, −1 where unknown
        metric : estimator with ``components_``, optional
            Learns the metric of states: ``ClusteringMetricLearner()`` minimizes the hinge of the
            same loss over partitions in which labels come back. By default states have the metric
            of the segments.
        named : bool
            Whether a label means the same in all data sets. If not, the price of a state is
            learned, at which the labeled segments of each are clustered with the least mean loss.

        Returns
        -------
        self, with ``states_``, a :class:`~metriclearn.estimators.states.States`

        Raises
        ------
        ValueError
            If no label is known, or data or labels cannot be used.
        """
        who, data = type(self).__name__, self._read(X)
        truths = read_labelings(who, y, data, segments=False, partial=True)
        known = [np.flatnonzero(truth.labels >= 0) for truth in truths]
        if not sum(map(len, known)):
            raise ValueError(f"{who} needs labels of states, but nothing is known (all −1).")
        given = [label_array(getattr(one, "labels", one)) for one in list_labelings(who, y, data)]
        arrays = [array[rows] for array, rows in zip(data.arrays, known) if len(rows)]
        labels = [label[rows] for label, rows in zip(given, known) if len(rows)]
        learned: Any = self if metric is None else clone(metric).fit(arrays, labels)
        self.states_ = States.learn(learned.components_, arrays, labels, named)
        return self

    def predict_states(self, X: Any, n_states: Any = None, random_state: int | None = 0) -> Any:
        """State of every sample: the segments of :meth:`predict`, and one name for alike ones.

        With ``n_states``, K-means of the segments of each data set, weighed by their lengths.
        Without, the name of the nearest state where :meth:`fit_states` has learned names; else
        DP-means with the price of a state that it has learned, or with that of a segment: a state
        more then has to pay as much as a change-point.

        Parameters
        ----------
        X : (T, P) array or sequence of them
        n_states : int or sequence of int, optional
            Number of states in each data set.
        random_state : int or None
            Of the starts of K-means.

        Returns
        -------
        (T,) names or numbers 0, 1, … for each data set
        """
        who, data = type(self).__name__, self._read(X)
        counts = read_counts(who, "n_states", n_states, data, optional=True)
        partitions = self._segment(data, None)
        states = getattr(self, "states_", None) or States(
            self.components_, price=float(self.penalty_ or 0.0)
        )
        results = [
            states.of(array, partition, count, random_state)
            for array, partition, count in zip(data.arrays, partitions, counts)
        ]
        return results[0] if data.single else results

    def score(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> float:
        """Minus the mean loss ℓ = ‖M − N‖²_F / T against the labels, at best 0.

        With ``n_segments="given"`` the numbers of segments are those of y. Partial labels count
        where something is known, see :class:`~metriclearn.problem.losses.KnownLoss`.
        """
        data = self._read(X)
        who = type(self).__name__
        given = self.n_segments == "given"
        truths = read_labelings(who, y, data, segments=True, partial=not given)
        partitions = self._segment(data, [truth.n_clusters for truth in truths] if given else None)
        loss = known_loss if isinstance(truths[0], PartialPartition) else FrobeniusLoss()
        losses = np.array(list(map(loss, partitions, truths)))
        weights = read_weights(who, sample_weight, len(losses))
        return -float(np.average(losses, weights=weights))

    def _read(self, X: Any) -> DataSets:
        """Arrays in single precision stay as they are: sums of them are in double precision."""
        return check_features(self, read_data_sets(type(self).__name__, X, single_precision=True))

    def _segment(self, data: DataSets, n_segments: Any) -> list[Partition]:
        if n_segments is None and self.penalty_ is None:
            raise ValueError(
                f"{type(self).__name__} was fitted with n_segments='given' and has no penalty; "
                "pass n_segments to predict, or fit with n_segments=None."
            )
        who, unknown = type(self).__name__, self.penalty_ is not None
        counts = read_counts(
            who, "n_segments", n_segments, data, optional=unknown, min_size=self.min_size
        )
        oracle: Any = segmentation_oracle(self.oracle, self.min_size)
        partitions: list[Partition] = []
        for X, count in zip(data.arrays, counts):
            form = LowRankForm(cumulative=cumulative_sums(X, self.components_))
            if count is not None:
                partitions.append(oracle(form, int(count)))
            elif len(X) < self.min_size:  # is one segment
                partitions.append(Partition(ends=np.array([len(X)])))
            else:
                assert self.penalty_ is not None
                partitions.append(oracle(form.shifted(-self.penalty_)))
        return partitions
