"""EqualCuts: segments of equal length, independent of the data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import NDArray

from metriclearn.estimators.reading.data_sets import DataSets
from metriclearn.estimators.reading.labels import read_counts, read_labeled, refuse_unlabeled
from metriclearn.estimators.scores.segmenting import ScoredByLoss
from metriclearn.problem.losses import KnownLoss
from metriclearn.problem.partial_labels import fewest_changes
from metriclearn.problem.partition import Partition
from metriclearn.running.components import ComponentParameters
from metriclearn.running.parameters import OneOf, Whole, refuse_unknown

_MOST_LENGTHS = 100


@dataclass(eq=False, repr=False)
class EqualCuts(ScoredByLoss, ComponentParameters):
    """Cut into segments of equal length: a trivial baseline that every method should beat.

    At most a hundred lengths are tried. The length with the least loss ‖M − N‖²_F on the training
    recordings is chosen. If several lengths are equally good, the shortest is chosen. Features are
    not used.

    Parameters
    ----------
    n_segments : int, optional
        Number of segments of every recording, in place of a length. The number 1 means no
        boundaries.

    Attributes
    ----------
    length_ : float or None
        Number of samples in a segment. The length is ∞ if the training labels need no boundary, and
        None if ``n_segments`` is given.

    Raises
    ------
    ValueError
        For parameters, data or labels that cannot be used, and for predictions before ``fit``.

    See Also
    --------
    TunedSegmenter : a stronger baseline, the Euclidean metric with a tuned penalty.

    Examples
    --------
    >>> import numpy as np
    >>> from metriclearn.baselines import EqualCuts
    >>> labels = np.repeat(["verse", "chorus", "verse"], 20)
    >>> cuts = EqualCuts().fit([np.zeros((60, 2))] * 2, [labels] * 2)
    >>> cuts.predict_change_points(np.zeros((60, 2))).tolist()
    [20, 40, 60]
    """

    n_segments: Annotated[int | None, OneOf(None, Whole(1))] = None

    def fit(self, X: Any, y: Any = None, **unknown: Any) -> Self:
        """Choose the length of segments in O(lengths · segments) time.

        Parameters
        ----------
        X : sequence of (T_i, P) arrays, or a single one
        y : labels, change-points or partial labels of each array
            If some samples are labeled −1, the loss is on the labeled parts only. Labels are not
            needed if ``n_segments`` is given.
        """
        if unknown:
            refuse_unknown(self, unknown)
        segments = True if y is not None or self.n_segments is None else None
        fitted, _, truths = read_labeled(self, X, y, segments=segments, partial=True)
        fitted.length_ = None
        if self.n_segments is None:
            refuse_unlabeled(type(self).__name__, truths)
            longest = max(truth.n_samples for truth in truths)
            lengths = np.unique(np.geomspace(2, longest, _MOST_LENGTHS).round())
            losses = []
            for length in lengths:
                cuts = [_equal(t.n_samples, round(t.n_samples / length)) for t in truths]
                losses.append(sum(map(KnownLoss().squared_norm, cuts, truths)))
            fitted.length_ = float(lengths[np.argmin(losses)])
            if not any(map(fewest_changes, truths)):
                fitted.length_ = np.inf
        self.__dict__ = fitted.__dict__
        return self

    def predict_change_points(self, X: Any, n_segments: Any = None) -> Any:
        """Return the ends of all segments of every recording, including T, as in ruptures.

        Parameters
        ----------
        X : (T, P) array or sequence of such arrays
        n_segments : int or sequence of int, optional
            Number of segments, in place of the learned length.
        """
        data = self.read_data(X)
        return data.as_passed([one.change_points for one in self.segmented(data, n_segments)])

    def predict(self, X: Any, n_segments: Any = None) -> Any:
        """Return the number of the segment of every sample, (T,) for each recording."""
        data = self.read_data(X)
        return data.as_passed([found.labels for found in self.segmented(data, n_segments)])

    def segmented(self, data: DataSets, n_segments: Any = None) -> list[Partition]:
        """Divide every recording into segments of equal length."""
        counts = read_counts(type(self).__name__, "n_segments", n_segments, data, optional=True)
        found = []
        for array, count in zip(data.arrays, counts):
            if count is None:
                count = self.n_segments or round(len(array) / (self.length_ or len(array)))
            found.append(_equal(len(array), count))
        return found


def _equal(n_samples: int, count: int) -> Partition:
    """Divide samples into ``count`` segments whose lengths differ by at most one sample.

    The number of segments is at least 1 and at most the number of samples.
    """
    count = min(max(count, 1), n_samples)
    ends: NDArray = np.linspace(0, n_samples, count + 1).round().astype(np.int64)
    return Partition(ends=ends[1:])
