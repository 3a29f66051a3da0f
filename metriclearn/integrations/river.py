"""A detector with the methods of river, which reads one sample at a time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from metriclearn.running import text


class StreamingChangePointDetector:
    """Follow a stream of samples, which are dictionaries, with a fitted segmenter.

    This class has the methods of river's detectors, so that it can replace them. River itself is
    not needed. :meth:`learn_one` reads a sample. :meth:`predict_one` returns the number or the name
    of a sample's segment, as far as it is known by now. A change-point is final if later samples do
    not move it any more. ``drift_detected`` is True if the last sample made change-points final. In
    this case ``changes`` holds these change-points.

    Parameters
    ----------
    segmenter : fitted segmenter
        A segmenter such as :class:`~metriclearn.ChangePointMetricLearner`. The values of a sample
        are used in the order of the segmenter's ``feature_names_in_`` or, without them, in the
        order of the dictionary, which must be the same in all samples.
    max_delay : int, optional
        See :class:`~metriclearn.estimators.SegmenterStream`.

    Attributes
    ----------
    stream_ : SegmenterStream
    changes : list of int
        Change-points that the last sample made final, as positions from the start of the stream.
    drift_detected : bool

    Raises
    ------
    ValueError
        If the segmenter cannot follow streams, or if a sample lacks a feature of the training, or
        has other names than the first sample where the segmenter knows no names.

    Examples
    --------
    >>> import numpy as np
    >>> from metriclearn.baselines import TunedSegmenter
    >>> from metriclearn.integrations.river import StreamingChangePointDetector
    >>> segmenter = TunedSegmenter(penalty=1.0).fit([np.repeat([[0.0], [5.0]], 9, axis=0)])
    >>> detector, found = StreamingChangePointDetector(segmenter), []
    >>> for value in [0.1, 0.0, 0.1, 5.0, 5.1, 5.0]:
    ...     detector.learn_one({"level": value})
    ...     found += detector.changes
    >>> found, detector.predict_one({"level": 5.0})
    ([3], 1)
    """

    def __init__(self, segmenter: Any, max_delay: int | None = None) -> None:
        self.segmenter, self.max_delay = segmenter, max_delay
        self.stream_ = segmenter.stream(max_delay)
        self.changes: list[int] = []
        self._n_final = 0
        self._names: list[Any] | None = None

    @property
    def drift_detected(self) -> bool:
        """Whether the last sample made a change-point final."""
        return len(self.changes) > 0

    def learn_one(self, x: Mapping[Any, float], y: Any = None) -> None:
        """Read a sample. ``y`` is not used."""
        self.changes = self.stream_.push(self._row(x)).ends.tolist()
        self._names = self._names or list(map(text, x))
        self._n_final += len(self.changes)

    def predict_one(self, x: Mapping[Any, float]) -> Any:
        """Return the number (from 0) or the name of the segment of ``x`` if ``x`` is the next
        sample.

        A copy of the stream reads the sample, so the stream does not change. The cost is a copy of
        the samples since the last final change-point, and a search for change-points in them.
        """
        ahead = self.stream_.copy()
        found = ahead.push(self._row(x))
        pending = ahead.pending()
        if pending.names is not None:
            return pending.names[-1] if len(pending.names) else None
        return self._n_final + len(found.ends) + len(pending.ends) - 1

    def _row(self, x: Mapping[Any, float]) -> Any:
        values = {text(name): value for name, value in x.items()}
        given = list(values)
        fitted = getattr(self.segmenter, "feature_names_in_", None)
        if fitted is None:
            names = self._names or given
            if given != names:
                raise ValueError(
                    f"StreamingChangePointDetector needs the features {names[:5]} in this order in "
                    "every sample, because the segmenter was fitted to arrays without names, got "
                    f"{given[:5]}; fit it to data frames, and the names of columns decide."
                )
        else:
            names = list(map(text, fitted))
        lacking = [name for name in names if name not in values]
        if lacking:
            raise ValueError(
                f"StreamingChangePointDetector needs the feature {lacking[0]!r} in every sample, "
                f"got {list(x)[:5]}; pass the features of the training."
            )
        row = [values[name] for name in names]
        try:
            return np.array([row], dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"StreamingChangePointDetector needs a number for every feature, got {row[:5]}."
            ) from error
