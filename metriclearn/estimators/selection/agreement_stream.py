"""AgreementStream: change-points of a stream by many models, returned as soon as they are final."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from metriclearn.estimators.scores.agreement import Scored
from metriclearn.estimators.scores.stream import SegmenterStream, StreamedSegments
from metriclearn.oracles.change_points.segment_values import NO_RULES
from metriclearn.oracles.expected_loss import advance, overlap_table
from metriclearn.oracles.summed_area import followed
from metriclearn.problem.named_segments import NO_SCORES, NameScores
from metriclearn.running.parameters import Of, OneOf, Whole, check_parameters


@dataclass(eq=False, repr=False)
class AgreementStream(SegmenterStream):
    """Find change-points in a stream of samples with the agreement of a fitted Segmenter.

    Every model follows the samples with a separate stream, which returns final segments. Let C be
    the last position up to which the segments of all models are final. Up to C, the segments of the
    models and their overlaps are the same as for the whole sequence. The recursion of
    :mod:`metriclearn.oracles.expected_loss` depends only on earlier samples, so up to C its values
    are the same, too. The stream keeps all positions at which the current segment may begin. A
    change is final if it is in the best segmentation up to each of these positions. :meth:`push`
    and :meth:`finish` together therefore return the segments that ``predict_change_points`` returns
    for all samples at once.

    The weight of a boundary depends on the lengths of both segments around it, and a length is
    known only when its segment has become final. So C is where the final segments of the slowest
    model end. If one model finds no change, nothing becomes final. A stream needs as much memory as
    the streams of all models together. In addition, it stores the segment ends that the models have
    found since the last final change.

    Parameters
    ----------
    segmenter : fitted Segmenter
        Streams are made by calling its method ``stream()``.
    max_delay : int, optional
        A change becomes final after at most this many samples. For the streams of the models, the
        limit is half as large.

    Attributes
    ----------
    n_samples_ : int
        Number of rows pushed so far.
    exact_ : bool
        False as soon as ``max_delay`` has made a change final, else True.

    Raises
    ------
    ValueError
        If some models cannot follow a stream, if rows cannot be used, or if a
        method is called after :meth:`finish`.

    See Also
    --------
    SegmenterStream : the stream of a single model.

    References
    ----------
    Šrámek, Brejová & Vinař, On-line Viterbi algorithm for analysis of long biological sequences,
    WABI 2007 (a change is final if all segmentations that can still win have it).

    Examples
    --------
    >>> from metriclearn import ChangePointMetricLearner, Segmenter
    >>> from metriclearn.datasets import make_change_points
    >>> data = make_change_points(6, 80, 6, 3, (3, 5), random_state=0)
    >>> members = {"diagonal": [ChangePointMetricLearner()]}
    >>> segmenter = Segmenter(members, n_folds=2, for_streams=True)
    >>> stream = segmenter.fit(data.sequences, data.labels).stream()
    >>> ends = [*stream.push(data.sequences[0]).ends, *stream.finish().ends]
    >>> ends == segmenter.predict_change_points(data.sequences[0]).tolist()
    True
    """

    segmenter: Annotated[Any, Of("follower", "Segmenter(for_streams=True).fit(X, y)")]
    max_delay: Annotated[int | None, OneOf(None, Whole(32, 2**30))] = None

    def start(self) -> Self:
        """Forget everything and wait for the first row. ``segmenter.stream()`` calls this."""
        check_parameters(self)
        check_is_fitted(self.segmenter)
        agreement = self.segmenter.agreement_
        if (lacking := agreement.refusal_of_streams()) is not None:
            raise ValueError(f"{type(self.segmenter).__name__} needs {lacking}")
        least = 4 * agreement.min_size
        if self.max_delay is not None and self.max_delay < least:
            raise ValueError(
                f"{self.who} needs a max_delay of at least {least}, four times the largest "
                f"min_size, as its models wait for half of it, got {self.max_delay}; wait for "
                "longer, or lower min_size."
            )
        half = None if self.max_delay is None else self.max_delay // 2
        members = [Scored(one, self.segmenter.n_features_in_) for one in agreement.scores]
        self.streams_ = [SegmenterStream(one, half).start() for one in members]
        self.largest_ = max(stream.largest_ for stream in self.streams_)
        self.n_samples_, self.exact_, self.finished_ = 0, True, False
        # Final segments of every model, beginning with the segment that holds the sample after the
        # last position. The first of these segments begins at firsts_.
        nothing = np.zeros(0, dtype=np.int64)
        self.ends_, self.codes_ = [nothing] * len(self.streams_), [nothing] * len(self.streams_)
        self.firsts_ = [0] * len(self.streams_)
        self.earliest_ = 0  # no further change may lie before this, because of max_delay
        # The program over the positions since the last final change.
        self.places_, self.live_ = np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64)
        self.back_, self.best_ = np.zeros(1, dtype=np.int64), np.zeros(1)
        self.table_ = np.zeros((4, 1, len(self.streams_)))
        self.votes_: NDArray | None = None  # cumulative votes for names, (E, C)
        return self

    @property
    def classes(self) -> NDArray | None:
        """The names that were learned, or None."""
        return self.segmenter.classes_

    def followed(
        self, X: NDArray[np.float64], seen: dict[Any, Any] | None = None
    ) -> list[StreamedSegments]:
        """Process checked rows, and return a list of the segments that become final."""
        found = []
        # With max_delay, changes are decided at the ends of blocks.
        size = max(1, len(X) if self.max_delay is None else self.max_delay // 8)
        for begin in range(0, len(X), size):
            block, shared = X[begin : begin + size], dict[Any, Any]()
            self.n_samples_ += len(block)
            self._follow_models([one.joined(one.followed(block, shared)) for one in self.streams_])
            found.append(self._shared_segments())
            since = self.n_samples_ - max(int(self.places_[0]), self.earliest_)
            if self.max_delay is not None and since >= self.max_delay:
                found.append(self._decided_segments())
                self.exact_ = False
        return found

    def rest(self) -> list[StreamedSegments]:
        """End the streams of the models, and return the remaining segments in a list."""
        self._end_models()
        return [self._segments(self._path())]

    def pending(self, margins: bool = False) -> StreamedSegments:
        """Return the current best segments of the samples since the last final change.

        ``predict_change_points`` would find the same segments if the sequence ended here. Every
        model searches for its pending segments.

        Parameters
        ----------
        margins : bool
            Ignored: an agreement has no margins, so ``losses`` is None.
        """
        self.check_running("pending")
        if self.n_samples_ == 0:
            return self._segments(np.zeros(0, dtype=np.int64))
        whole = self._ended()
        return whole._segments(whole._path())

    def copy(self) -> Self:
        """Return an independent copy that continues from here. The models are not copied."""
        other = copy.copy(self)  # arrays are replaced, never changed
        for name in ("ends_", "codes_", "firsts_"):
            setattr(other, name, list(getattr(self, name)))
        other.streams_ = [stream.copy() for stream in self.streams_]
        return other

    def _ended(self) -> Self:
        """End a copy of this stream, and return the copy. This stream itself does not end."""
        whole = self.copy()
        whole._end_models()
        return whole

    def _end_models(self) -> None:
        """Process the samples that wait for their neighbors, and advance to the last sample."""
        self._follow_models([stream.joined(stream.rest()) for stream in self.streams_])

    def _follow_models(self, found: list[StreamedSegments]) -> None:
        """Store new final segments, and advance to the last position where all models are final."""
        self.exact_ = self.exact_ and all(stream.exact_ for stream in self.streams_)
        if not any(len(part.ends) for part in found):
            return  # positions where all models are final follow from new ends only
        classes = self.classes
        for j, part in enumerate(found):
            if len(part.ends):
                self.ends_[j] = np.append(self.ends_[j], part.ends)
                if classes is not None and part.names is not None:
                    codes = np.searchsorted(classes, part.names)
                    self.codes_[j] = np.append(self.codes_[j], codes)
        last = int(self.places_[-1])
        self._forget_ends(last)
        reached = min((int(ends[-1]) if len(ends) else last) for ends in self.ends_)
        inside = np.unique(np.concatenate(self.ends_))
        inside = inside[(inside >= self.earliest_) & (inside <= reached)]
        if not len(inside):
            return
        places = np.append(last, inside)
        table = overlap_table(self.ends_, self.firsts_, places)
        # The first row belongs to the last position. Its part for later samples is known only now;
        # its part for earlier samples was known before.
        table[:3, 0] = self.table_[:3, -1]
        self.table_ = np.concatenate([self.table_[:, :-1], table], axis=1)
        self.places_ = np.append(self.places_, places[1:])
        self._count_votes(places)
        self._advance()
        self._forget_ends(int(places[-1]))

    def _advance(self) -> None:
        """Advance the dynamic program to the last entry of ``places_``."""
        n, used = len(self.places_), len(self.best_)
        more = np.zeros(n - used, dtype=np.int64)
        self.best_, self.back_ = np.append(self.best_, 1.0 * more), np.append(self.back_, more)
        live = np.append(self.live_, more)
        loss, names = self.segmenter.agreement_.name_loss, NO_SCORES
        if self.votes_ is not None and loss:
            names = NameScores(loss * self.votes_)
        scores = names.emissions, names.given, np.arange(n)
        table = np.ascontiguousarray(self.table_)
        shift = self.segmenter.agreement_.shift - 1.0
        signal = (self.places_, table, 2.0 * self._weights, scores, NO_RULES, shift)
        n_live = advance(signal, self.best_, self.back_, live, len(self.live_), used)
        self.live_ = live[:n_live]

    @property
    def _weights(self) -> NDArray[np.float64]:
        weights = self.segmenter.agreement_.weights
        return weights / weights.sum()

    def _count_votes(self, places: NDArray) -> None:
        """Append the cumulative votes for names at all ``places`` except the first."""
        if self.segmenter.classes_ is None or not any(map(len, self.codes_)):
            return
        # Sums over single samples round as in the whole sequence, so ties are the same. After a
        # decision by max_delay they need not, and a segment may last for days: names change only at
        # ends, so stretches between ends are enough.
        if self.exact_:
            cuts = np.arange(places[0], places[-1] + 1)
        else:
            cuts = np.unique(np.concatenate([places, *self.ends_]))
            cuts = cuts[(cuts >= places[0]) & (cuts <= places[-1])]
        votes = np.zeros((len(cuts) - 1, len(self.segmenter.classes_)))
        given = self.segmenter.agreement_.name_weights
        weights = self._weights if given is None else given
        for q, ends, codes in zip(weights.tolist(), self.ends_, self.codes_):
            if len(codes):
                here = np.searchsorted(ends, cuts[:-1], side="right")
                votes[np.arange(len(votes)), codes[here]] += q
        if self.votes_ is None:
            self.votes_ = np.zeros((1, votes.shape[1]))
        votes = np.vstack([self.votes_[-1:], votes * np.diff(cuts)[:, None]])
        sums = np.cumsum(votes, axis=0)[np.searchsorted(cuts, places[1:])]
        self.votes_ = np.vstack([self.votes_, sums])

    def _shared_segments(self) -> StreamedSegments:
        """Return the segments up to the last final change.

        For each position at which the current segment may begin, there is a best segmentation of
        the samples before it. The last change that all these segmentations have in common is the
        last final change.
        """
        needed = set(self.live_.tolist())
        while len(needed) > 1:
            latest = max(needed)
            needed.remove(latest)
            needed.add(int(self.back_[latest]))
        (base,) = needed
        if base == 0:
            return self._segments(np.zeros(0, dtype=np.int64))
        found = self._segments(self._path(base))
        self.live_, self.back_ = self.live_ - base, np.maximum(self.back_[base:] - base, 0)
        self.places_, self.best_ = self.places_[base:], self.best_[base:]
        self.table_ = self.table_[:, base:]
        self.votes_ = None if self.votes_ is None else self.votes_[base:]
        return found

    def _decided_segments(self) -> StreamedSegments:
        """Make changes final because of ``max_delay``, and return the segments between them.

        A change of the current best segmentation becomes final if it is more than half of
        ``max_delay`` in the past. Afterwards no further change before ``earliest_`` is possible.
        """
        assert self.max_delay is not None
        whole = self._ended()
        path = whole._path()
        self.earliest_ = self.n_samples_ - self.max_delay // 2
        decided = path[whole.places_[path] < self.earliest_]
        last = int(decided[-1]) if len(decided) else 0
        base = int(whole.places_[last])
        kept = self.places_ >= max(self.earliest_, base + 1)
        self.places_ = np.append(base, self.places_[kept])
        self.table_ = np.append(whole.table_[:, last : last + 1], self.table_[:, kept], axis=1)
        if whole.votes_ is not None:
            sums = whole.votes_[:0] if self.votes_ is None else self.votes_[kept]
            self.votes_ = np.vstack([whole.votes_[last : last + 1], sums])
        self.live_, self.back_ = np.zeros((2, 1), dtype=np.int64)
        self.best_ = np.zeros(1)
        self._advance()
        self._forget_ends(int(self.places_[-1]))
        return whole._segments(decided)

    def _forget_ends(self, position: int) -> None:
        """Drop those segments of the models that end at or before a position."""
        for j, ends in enumerate(self.ends_):
            n_done = int(np.searchsorted(ends, position, side="right"))
            if n_done:
                self.firsts_[j] = int(ends[n_done - 1])
            self.ends_[j], self.codes_[j] = ends[n_done:], self.codes_[j][n_done:]

    def _path(self, last: int | None = None) -> NDArray[np.int64]:
        """Return the ends of the best segmentation up to ``places_[last]``, as indices."""
        return followed(self.back_[None, : len(self.places_) if last is None else last + 1])

    def _segments(self, numbers: NDArray[np.int64]) -> StreamedSegments:
        """Return the segments that end at ``places_[numbers]``."""
        ends, names = self.places_[numbers], None
        if self.votes_ is not None:
            starts = np.append(0, numbers[:-1])[: len(numbers)]
            codes = np.argmax(self.votes_[numbers] - self.votes_[starts], axis=1)
            names = self.segmenter.classes_[codes]
        elif self.segmenter.classes_ is not None:
            names = self.segmenter.classes_[:0]
        return StreamedSegments(ends.astype(np.int64, copy=False), names)
