"""Detectors of sktime that learn their metric from labeled series, or panels of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sktime.detection.base import BaseDetector

from metriclearn.estimators.change_points import ChangePointMetricLearner
from metriclearn.integrations.fitting import fit_segmenter


class MetricChangePointDetector(BaseDetector):
    """Detect change-points under a metric, and a price of a segment, learned from labels.

    ``fit(X, y)`` learns from a labeled series or from a panel of them. Without y, a learner that
    is fitted already is taken as it is (in a :class:`sklearn.frozen.FrozenEstimator` where
    sktime clones the detector); else the metric is the Euclidean one of standardized columns.

    Events in y have in ``"ilocs"`` the first sample of a new segment, or, as intervals closed on
    the left, segments: samples outside of all intervals are unlabeled. For a panel, X has the
    instances in the first level of its index, and so has y; predictions have them, too.

    Parameters
    ----------
    learner : estimator, optional
        A :class:`~metriclearn.ChangePointMetricLearner`, or another segmenter of metriclearn.
    penalty : float ≥ 0, optional
        Price of a segment where there are neither labels nor a fitted learner, in units of squared
        standard deviations; by default that of the BIC.

    Attributes
    ----------
    segmenter_ : the fitted learner

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from metriclearn.integrations.sktime import MetricChangePointDetector
    >>> noise = np.random.default_rng(0).normal(size=(60, 2)) * [1.0, 9.0]
    >>> X = pd.DataFrame(noise + np.outer(np.repeat([0.0, 5.0, 0.0], 20), [1.0, 0.0]))
    >>> detector = MetricChangePointDetector().fit(X, pd.DataFrame({"ilocs": [20, 40]}))
    >>> detector.predict(X)["ilocs"].tolist()
    [20, 40]
    """

    _tags: ClassVar[dict[str, Any]] = {
        "authors": "metriclearn developers",
        "maintainers": "metriclearn developers",
        "python_dependencies": None,
        "task": "change_point_detection",
        "learning_type": "supervised",
        "capability:multivariate": True,
        "X_inner_mtype": ["pd.DataFrame", "pd-multiindex"],
    }

    def __init__(self, learner: Any = None, penalty: float | None = None) -> None:
        self.learner = learner
        self.penalty = penalty
        super().__init__()

    def _fit(self, X: pd.DataFrame, y: Any = None) -> Any:
        series = instances(X)
        labels = None
        if y is not None:
            events = instances(pd.DataFrame(y))
            if set(events) != set(series):
                raise ValueError(
                    f"{type(self).__name__} needs events of the {len(series)} series of X, got "
                    f"{len(events)} others; name the instances in the first level of the index."
                )
            labels = [labels_of(events[name], len(part)) for name, part in series.items()]
        arrays = [part.to_numpy(dtype=np.float64) for part in series.values()]
        self.segmenter_ = fit_segmenter(self.learner, self.penalty, arrays, labels)
        return self

    def _predict(self, X: pd.DataFrame) -> pd.DataFrame:
        # sktime's predict_points and predict_segments pass X as it was given
        series = instances(pd.DataFrame(X))
        events = {name: self._events(part.to_numpy()) for name, part in series.items()}
        return events[None] if None in events else pd.concat(events)

    def _events(self, array: NDArray) -> pd.DataFrame:
        return pd.DataFrame({"ilocs": self.segmenter_.predict_change_points(array)[:-1]})

    @classmethod
    def get_test_params(cls, parameter_set: str = "default") -> list[dict[str, Any]]:
        """Parameters with which sktime checks the detector."""
        learner = ChangePointMetricLearner(min_size=2)
        return [{}, {"penalty": 1.0}, {"learner": learner, "penalty": 20.0}]

    def transform(self, X: Any) -> pd.DataFrame:
        """Labels of all samples as in sktime, of a panel with the instances in the index."""
        panel = self._check_X(X)
        if not isinstance(panel.index, pd.MultiIndex):
            return super().transform(X)
        parts = instances(panel).values()
        dense = [self.sparse_to_dense(self._predict(part), range(len(part))) for part in parts]
        labels = np.concatenate([np.ravel(part) for part in dense])
        return pd.DataFrame({"labels": labels}, panel.index)


class MetricSegmenter(MetricChangePointDetector):
    """Cut series into segments under a metric, and a price of a segment, learned from labels.

    All is as in :class:`MetricChangePointDetector`, but for the prediction: intervals, closed on
    the left, in ``"ilocs"`` and the number of each in ``"labels"``.

    Parameters
    ----------
    learner, penalty : as of :class:`MetricChangePointDetector`

    Examples
    --------
    >>> import pandas as pd
    >>> from metriclearn.integrations.sktime import MetricSegmenter
    >>> X = pd.DataFrame([0.1, 0.0, 0.2, 0.1, 5.1, 5.0, 5.2, 5.1])
    >>> MetricSegmenter(penalty=1.0).fit(X).predict(X)
        ilocs  labels
    0  [0, 4)       0
    1  [4, 8)       1
    """

    _tags: ClassVar[dict[str, Any]] = {"task": "segmentation"}

    def _events(self, array: NDArray) -> pd.DataFrame:
        ends = self.segmenter_.predict_change_points(array)
        intervals = pd.IntervalIndex.from_breaks(np.append(0, ends), closed="left")
        return pd.DataFrame({"ilocs": intervals, "labels": np.arange(len(ends))})


def instances(table: pd.DataFrame) -> Mapping[Any, pd.DataFrame]:
    """The series of a panel by their names; a single one has the name None."""
    if not isinstance(table.index, pd.MultiIndex):
        return {None: table}
    return {name: part.droplevel(0) for name, part in table.groupby(level=0, sort=False)}


def labels_of(events: pd.DataFrame, n_samples: int) -> NDArray[np.int64]:
    """Segment number of every sample from the events of a series, −1 outside of all segments."""
    ilocs: Any = events["ilocs"]
    if isinstance(ilocs.dtype, pd.IntervalDtype):
        return pd.IntervalIndex(ilocs).get_indexer(pd.RangeIndex(n_samples)).astype(np.int64)
    starts = np.zeros(n_samples, dtype=np.int64)
    starts[ilocs.to_numpy(dtype=np.int64)] = 1
    return np.cumsum(starts)
