"""Detectors of sktime that learn their metric from labeled series, or panels of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from metriclearn import ChangePointMetricLearner, NamedSegmentLearner, Segmenter
from metriclearn.estimators import SegmenterStream, Viterbi
from metriclearn.integrations.fitting import fit_segmenter
from metriclearn.running import optional

BaseDetector: Any = optional("sktime.detection.base", "sktime").BaseDetector
_NAMED = (NamedSegmentLearner, Viterbi, Segmenter)  # learn names of segments


class MetricChangePointDetector(BaseDetector):
    """Detect change-points with a metric and a segment penalty that are learned from labels.

    ``fit(X, y)`` learns from a labeled series or from a panel of labeled series. Without y, a
    fitted learner is used as it is. If sktime clones the detector, pass the learner in a
    :class:`sklearn.frozen.FrozenEstimator`. If there is no y and the learner is not fitted, the
    metric is the Euclidean metric of standardized columns.

    The column ``"ilocs"`` of y holds the first sample of every new segment. This column may hold
    segments instead, as intervals closed on the left. In this case samples outside of all intervals
    are unlabeled. For a panel, the first index level of X, of y and of predictions is the instance.

    Parameters
    ----------
    learner, penalty : see :func:`~metriclearn.integrations.fitting.fit_segmenter`

    Attributes
    ----------
    segmenter_ : the fitted learner

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from metriclearn.integrations.sktime import MetricChangePointDetector
    >>> noise = np.random.default_rng(0).normal(size=(60, 2)) * [1.0, 9.0]
    >>> X = pd.DataFrame(noise + np.outer(np.repeat([0.0, 8.0, 0.0], 20), [1.0, 0.0]))
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
        who, series = type(self).__name__, instances(X)
        labels = None
        if y is not None:
            events = instances(pd.DataFrame(y))
            if different := set(events) ^ set(series):
                raise ValueError(
                    f"{who} needs events of every series of X and of no other, but one of both "
                    f"lacks {sorted(map(str, different))[:5]}; name the instances in the first "
                    "level of the index, and give a series without changes the event 0."
                )
            names = self.learner is None or isinstance(self.learner, _NAMED)
            labels = [
                labels_of(who, events[name], len(part), names) for name, part in series.items()
            ]
        arrays = [part.to_numpy(dtype=np.float64) for part in series.values()]
        self.segmenter_ = fit_segmenter(self, arrays, labels)
        self.streams_: dict[Any, SegmenterStream] = {}
        self.ends_: dict[Any, list[int]] = {}
        return self

    def _update(self, X: pd.DataFrame, y: Any = None) -> Any:
        """If y is given, learn again from all data. Otherwise read X as the next samples."""
        if y is not None:
            return super()._update(X, y)
        self.final_ = {}
        for name, part in instances(X).items():
            if name not in self.streams_:
                self.streams_[name], self.ends_[name] = self.segmenter_.stream(), [0]
            found = self.streams_[name].push(part.to_numpy(dtype=np.float64))
            borders, first = [self.ends_[name][-1], *found.ends.tolist()], len(self.ends_[name]) - 1
            numbers = np.arange(first, first + len(found.ends))
            self.final_[name] = borders, numbers if found.names is None else found.names
            self.ends_[name] += borders[1:]
        return self

    def update_predict(self, X: Any, y: Any = None) -> pd.DataFrame:
        """Read the next samples, and return the events that have become final.

        Without y the model does not change, and positions in ``"ilocs"`` are counted from the first
        sample that was passed to ``update`` or ``update_predict`` after ``fit``. Together, the
        calls return all events that ``predict`` finds in these samples, except those that are not
        final yet, see :class:`~metriclearn.estimators.SegmenterStream`. With y, ``fit`` learns
        again from all data, and the events are the same as from ``predict(X)``.
        """
        if y is not None:
            return super().update_predict(X, y)
        self.update(X)
        events = {name: self._final_events(*final) for name, final in self.final_.items()}
        return events[None] if None in events else pd.concat(events)

    def _final_events(self, borders: list[int], labels: NDArray) -> pd.DataFrame:
        """Make a table of the events of final segments. Segment i lies between the positions
        ``borders[i]`` and ``borders[i + 1]``, and has the label ``labels[i]``."""
        return pd.DataFrame({"ilocs": borders[1:]})

    def _predict(self, X: pd.DataFrame) -> pd.DataFrame:
        # sktime's predict_points and predict_segments pass X as it was given
        series = instances(pd.DataFrame(X))
        events = {name: self._events(part.to_numpy()) for name, part in series.items()}
        return events[None] if None in events else pd.concat(events)

    def _events(self, array: NDArray) -> pd.DataFrame:
        return pd.DataFrame({"ilocs": self.segmenter_.predict_change_points(array)[:-1]})

    @classmethod
    def get_test_params(cls, parameter_set: str = "default") -> list[dict[str, Any]]:
        """Return parameters with which sktime checks the detector."""
        learner = ChangePointMetricLearner(min_size=2)
        return [{}, {"penalty": 1.0}, {"learner": learner, "penalty": 20.0}]

    def predict_points(self, X: Any) -> pd.DataFrame:
        """Return the change-points in the format of sktime. For a panel, the first index level is
        the instance."""
        return self._each(super().predict_points, X)

    def predict_segments(self, X: Any) -> pd.DataFrame:
        """Return the segments in the format of sktime. For a panel, the first index level is the
        instance."""
        return self._each(super().predict_segments, X)

    def transform(self, X: Any) -> pd.DataFrame:
        """Return the labels of all samples in the format of sktime. For a panel, the first index
        level is the instance."""
        labels, index = self._each(super().transform, X), self._check_X(X).index
        return labels.set_axis(index) if isinstance(index, pd.MultiIndex) else labels

    def _each(self, method: Callable[[Any], pd.DataFrame], X: Any) -> pd.DataFrame:
        """Apply a method of sktime that accepts only one series to each series of a panel."""
        panel = self._check_X(X)
        if not isinstance(panel.index, pd.MultiIndex):
            return method(X)
        return pd.concat({name: method(part) for name, part in instances(panel).items()})


class MetricSegmenter(MetricChangePointDetector):
    """Cut series into segments with a metric and a segment penalty that are learned from labels.

    Only the prediction differs from :class:`MetricChangePointDetector`. The column ``"ilocs"`` of a
    prediction holds the segments as intervals closed on the left. The column ``"labels"`` holds the
    numbers of the segments. A :class:`~metriclearn.Segmenter` (the default), a
    :class:`~metriclearn.NamedSegmentLearner` or a :class:`~metriclearn.estimators.Viterbi` learns
    the names of intervals from the column ``"labels"`` of y, and predicts names, not numbers.

    Parameters
    ----------
    learner, penalty : as for :class:`MetricChangePointDetector`

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

    def _final_events(self, borders: list[int], labels: NDArray) -> pd.DataFrame:
        intervals = pd.IntervalIndex.from_breaks(borders, closed="left")
        return pd.DataFrame({"ilocs": intervals, "labels": labels})

    def _events(self, array: NDArray) -> pd.DataFrame:
        ends = self.segmenter_.predict_change_points(array)
        labels = self.segmenter_.predict(array)[ends - 1]  # names, or numbers of segments
        return self._final_events([0, *ends.tolist()], labels)


def instances(table: pd.DataFrame) -> Mapping[Any, pd.DataFrame]:
    """Return the series of a panel by their names. A single series has the name None."""
    if not isinstance(table.index, pd.MultiIndex):
        return {None: table}
    return {name: part.droplevel(0) for name, part in table.groupby(level=0, sort=False)}


def labels_of(who: str, events: pd.DataFrame, n_samples: int, names: bool = False) -> NDArray:
    """Convert the events of a series to the segment number of every sample, −1 outside of segments.

    With ``names``, the result holds the names of intervals, from the column ``"labels"``, instead
    of numbers.
    """
    ilocs: Any = events.get("ilocs", pd.Series(["no column of this name"]))
    if isinstance(ilocs.dtype, pd.IntervalDtype):
        intervals = pd.IntervalIndex(ilocs)
        samples = pd.RangeIndex(n_samples)
        inside = (intervals.left >= -1) & (intervals.right <= n_samples)
        if inside.all() and not intervals.is_overlapping:
            numbers = intervals.get_indexer(samples).astype(np.int64)
            if not names or "labels" not in events:
                return numbers
            return np.array([*events["labels"].tolist(), -1], dtype=object)[numbers]
    else:
        starts = pd.to_numeric(ilocs, errors="coerce").to_numpy(dtype=np.float64)
        if np.all((starts >= 0) & (starts < n_samples) & (starts % 1 == 0)):
            return np.cumsum(np.isin(np.arange(n_samples), starts), dtype=np.int64)
    raise ValueError(
        f'{who} needs in the column "ilocs" of y the first samples of segments, from 0 to '
        f"{n_samples - 1}, or intervals in this range that do not overlap, got "
        f"{ilocs.tolist()[:5]}; check the events."
    )
