"""SegmenterStream: change-points of a stream, returned as soon as they are final."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from metriclearn.estimators.reading.data_sets import check_features, read_data_sets
from metriclearn.estimators.scores.segment_score import SegmentScore
from metriclearn.oracles.change_points.bounds import MOST_LEVELS, Levels, Live
from metriclearn.oracles.change_points.margins import boundary_margins
from metriclearn.oracles.change_points.recursion import Program
from metriclearn.oracles.change_points.segment_values import Signal, boundary_worths
from metriclearn.oracles.change_points.streaming import (
    BASE,
    CENTER,
    CHECK,
    N_BOUNDS,
    N_CLOCK,
    NOW,
    Progress,
    changes,
    compact,
    follow,
    projected,
)
from metriclearn.problem.forms import LowRankForm
from metriclearn.problem.joint_features import single_features
from metriclearn.problem.losses import ChargedForm
from metriclearn.problem.named_segments import NameScores
from metriclearn.running.components import ComponentParameters
from metriclearn.running.notes import note
from metriclearn.running.parameters import Of, OneOf, Whole, check_parameters
from metriclearn.running.values import real_array
from metriclearn.views.plain import reads_missing, says

_LARGEST = 1e120  # its square can still be added many times
_BLOCK = 4096  # rows at a time, so that a large chunk needs no more memory than small ones


class StreamedSegments(NamedTuple):
    """Segments of a stream, in the order of time.

    Attributes
    ----------
    ends : int array (K,)
        Ends of the segments, in samples since the start of the stream.
    names : array (K,) or None
        The label of each segment, if the segmenter has learned names.
    losses : array (K−1,) or None
        For pending segments, the loss of the change at every end except the last: how much lower
        the best score is without this change, as in
        :class:`~metriclearn.oracles.BoundaryMargins`. Changes that are already final are kept in
        this comparison.

    See Also
    --------
    SegmenterStream : returns such segments.

    Examples
    --------
    >>> import numpy as np
    >>> from metriclearn.baselines import TunedSegmenter
    >>> stream = TunedSegmenter(penalty=1.0).fit([np.arange(9.0)]).stream()
    >>> stream.push([0.0, 0.0, 0.0]).ends.tolist()
    []
    >>> stream.finish().ends.tolist()
    [3]
    """

    ends: NDArray[np.int64]
    names: NDArray | None = None
    losses: NDArray[np.float64] | None = None


class _Kept(NamedTuple):
    """The score of a stream, its reach and metric, and its arrays as the kernels need them.

    ``single`` is the result of :func:`~metriclearn.problem.joint_features.single_features`.
    """

    score: SegmentScore
    reach: tuple[int, int]
    components: NDArray
    single: tuple[NDArray, NDArray] | None
    state: Any


@dataclass(eq=False, repr=False)
class SegmenterStream(ComponentParameters):
    """Find change-points in a stream of samples with a fitted segmenter.

    :meth:`push` and :meth:`finish` together return the same segments as ``predict_change_points``
    for all samples at once, except for ties within rounding errors. It does not matter how samples
    are divided into chunks. A segment is returned as soon as no later sample can change it. A
    stream needs O(samples since the last final change) memory, and takes about the same time as a
    search over the whole sequence at once. A stream can be saved at any moment with
    :func:`metriclearn.save`, and continues after :func:`metriclearn.load`.

    Parameters
    ----------
    segmenter : fitted segmenter
        Streams are made by calling its method ``stream()``.
    max_delay : int, optional
        A change becomes final after at most this many samples. The limit bounds memory and delay.
        If the limit makes a change final, the result may differ from a search over all samples at
        once. When this first happens, a warning is given, and ``exact_`` becomes False.

    Attributes
    ----------
    n_samples_ : int
        Number of rows pushed so far.
    exact_ : bool
        False as soon as ``max_delay`` has made a change final, else True.

    Raises
    ------
    ValueError
        If the segmenter needs the whole sequence (for example, for its penalty), if rows cannot be
        used, or if a method is called after :meth:`finish`.

    References
    ----------
    Šrámek, Brejová & Vinař, On-line Viterbi algorithm for analysis of long biological sequences,
    WABI 2007 (a change is final if all segmentations that can still win have it).
    Killick, Fearnhead & Eckley, Optimal detection of changepoints with a linear computational
    cost, Journal of the American Statistical Association 107, 2012 (pruning).

    Examples
    --------
    >>> import numpy as np
    >>> from metriclearn.baselines import TunedSegmenter
    >>> X = np.repeat([[0.0], [5.0], [1.0]], 40, axis=0)
    >>> stream = TunedSegmenter(penalty=1.0).fit([X]).stream()
    >>> [end for row in X for end in stream.push([row]).ends.tolist()]
    [40, 80]
    >>> stream.finish().ends.tolist()
    [120]
    """

    segmenter: Annotated[Any, Of("stream_score", "ChangePointMetricLearner().fit(X, y)")]
    max_delay: Annotated[int | None, OneOf(None, Whole(16, 2**30))] = None

    # Running sums at the last sample that was read; not in vars before the first one
    last_ = cast("NDArray | None", None)

    def start(self) -> Self:
        """Forget everything and wait for the first row. ``segmenter.stream()`` calls this."""
        check_parameters(self)
        check_is_fitted(self.segmenter)
        # A tuned penalty or a new fit of the segmenter does not change a stream that has begun.
        self.kept_ = self._kept_anew()
        score = self.kept_.score
        if self.max_delay is not None and self.max_delay < 2 * score.min_size:
            raise ValueError(
                f"{self.who} needs a max_delay of at least twice min_size={score.min_size}, got "
                f"{self.max_delay}; wait for longer, or lower min_size."
            )
        # Position 0 of the program is sample begin_ of the stream. Position i > 0 is sample
        # begin_ + head_ + i.
        self.n_samples_ = self.n_read_ = self.first_recent_ = self.begin_ = self.head_ = 0
        self.exact_, self.finished_ = True, False
        # Samples that still lack neighbors, and the neighbors that they have.
        self.recent_: NDArray | None = None
        self.offset_: NDArray | None = None
        self.largest_ = max(1.0, float(np.abs(score.components).max(initial=0.0)))
        return self

    def push(self, rows: ArrayLike) -> StreamedSegments:
        """Read more samples, and return the segments that have become final.

        Parameters
        ----------
        rows : (n, P) array or data frame
            n may be 0. A 1-D array is one row or, if there is one feature, n samples.
        """
        self.check_running("push")
        X, exact = self.checked(rows), self.exact_
        return self._reported(self.followed(X), exact)

    def pending(self, margins: bool = True) -> StreamedSegments:
        """Return the current best segments of the samples since the last final change.

        The last samples are not included if they still wait for their neighbors in time.

        Parameters
        ----------
        margins : bool
            Whether to compute ``losses``, by two dynamic programs over the pending samples. With
            ``max_delay``, the stream may have forgotten samples of the first pending segment. Each
            loss is then only an upper bound: how much the score falls if one change is removed and
            all others stay.
        """
        self.check_running("pending")
        if self.offset_ is None:
            return self.joined([])._replace(losses=np.zeros(0))
        signal, base, now = self._kept().state[0], int(self.clock_[BASE]), int(self.clock_[NOW])
        ends = self._ends(now)
        if not margins:
            return self._told(ends)
        if len(ends) <= 1:
            losses = np.zeros(0)
        elif self.head_ and base == 0:
            losses = np.maximum(boundary_worths(signal._replace(c=0.0), ends) + signal.c, 0.0)
        else:
            form: Any = LowRankForm(cumulative=signal.cumulative[base : now + 1])
            form, penalties = form.shifted(signal.c), self.penalties_
            if self.emissions_ is not None:
                form = ChargedForm(form, names=NameScores(self.emissions_[base : now + 1]))
            if penalties is not None:
                form = ChargedForm(form, penalties=penalties[base : now + 1])
            best = boundary_margins(form, min_size=signal.min_size)
            ends, losses = base + best.change_points, best.losses
        return self._told(ends)._replace(losses=losses)

    def finish(self) -> StreamedSegments:
        """End the stream, and return the remaining segments up to the last sample."""
        self.check_running("finish")
        if self.n_samples_ == 0:
            raise ValueError(f"{self.who} needs a sample before finish, got none; push rows first.")
        exact = self.exact_
        found = self.rest()
        self.finished_ = True
        return self._reported(found, exact)

    def copy(self) -> Self:
        """Return an independent copy that continues from here. The segmenter is not copied."""
        other = copy.copy(self)
        for name, value in vars(self).items():
            if isinstance(value, np.ndarray):
                setattr(other, name, value.copy())
        if "kept_" in vars(self):
            other.kept_ = self.kept_._replace(state=None)
        return other

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for pickle, without the arrays that share memory with others."""
        state = dict(vars(self))
        state.pop("kept_", None)
        return state

    @property
    def who(self) -> str:
        """The name of the stream in error messages."""
        return f"The stream of {type(self.segmenter).__name__}"

    @property
    def classes(self) -> NDArray | None:
        """The names that the segmenter has learned, or None."""
        names = self._kept().score.names
        return None if names is None else names.classes

    def check_running(self, method: str) -> None:
        """Raise a ValueError if the stream has not begun or has ended."""
        if getattr(self, "finished_", True):
            raise ValueError(
                f"{self.who} is finished or has not begun, so it cannot {method}; make one with "
                "segmenter.stream()."
            )

    def checked(self, rows: Any) -> NDArray[np.float64]:
        """Read rows (n, P), and check that they have the features of the training data."""
        n_features = self.segmenter.n_features_in_
        view = getattr(getattr(self.segmenter, "score_", None), "view", None)
        missing = reads_missing(view)
        if hasattr(rows, "columns") and len(rows):
            data = read_data_sets(self.who, rows, missing=missing)
            rows = check_features(self.segmenter, data).arrays[0]
        allow = ("empty", "missing") if missing else ("empty",)
        X = real_array(self.who, f"rows from {self.n_samples_} on", rows, None, allow=allow)
        if X.ndim in (1, 2) and len(X) == 0:
            return np.zeros((0, n_features))
        if X.ndim < 2:
            X = X.reshape(-1, 1) if n_features == 1 else X.reshape(1, -1)
        if X.ndim != 2 or X.shape[1] != n_features:
            raise ValueError(
                f"{self.who} needs rows of {n_features} features, got shape {np.shape(rows)}; "
                "pass an (n, P) array, or one row."
            )
        largest = float(np.fmax.reduce(np.abs(X), axis=None, initial=0.0))  # ignores NaN
        if largest * self.largest_ > _LARGEST:
            raise ValueError(
                f"{self.who} needs rows whose squares under the metric can be added, got values "
                f"up to {largest:.3g}; change the unit."
            )
        return X

    def followed(
        self, X: NDArray[np.float64], seen: dict[Any, Any] | None = None
    ) -> list[StreamedSegments]:
        """Process checked rows, and return a list of the segments that become final.

        ``seen`` keeps what views compute of these rows, so that streams of the same samples that
        share a view compute it once.
        """
        self.n_samples_ += len(X)
        found = []
        for begin in range(0, len(X), _BLOCK):
            here = None if seen is None else seen.setdefault(begin, {})
            found += self._follow(*self._read(X[begin : begin + _BLOCK], here))
        return found

    def rest(self) -> list[StreamedSegments]:
        """Treat the stream as ended, and return a list of the remaining segments."""
        found = []
        if self.recent_ is not None:
            found = self._follow(*self._read(self.recent_[:0], None, last=True))
        return [*found, self._told(self._ends(int(self.clock_[NOW])))]

    def joined(self, found: list[StreamedSegments]) -> StreamedSegments:
        """Join a list of segments into one result."""
        if len(found) == 1:
            return found[0]
        ends = np.concatenate([np.zeros(0, dtype=np.int64), *(part.ends for part in found)])
        if (classes := self.classes) is None:
            return StreamedSegments(ends)
        return StreamedSegments(ends, np.concatenate([classes[:0], *(p.names for p in found)]))

    def _reported(self, found: list[StreamedSegments], before: bool) -> StreamedSegments:
        """Join segments, and warn if ``exact_`` was True ``before`` and is now False."""
        if before and not self.exact_:
            note(
                f"{self.who} decided by max_delay={self.max_delay} at about sample "
                f"{self.n_samples_}, so its segments may differ from those of all samples at once "
                "from now on; raise max_delay to wait for longer."
            )
        return self.joined(found)

    def _read(
        self, X: NDArray, seen: dict[Any, Any] | None, last: bool = False
    ) -> tuple[NDArray, Any, Any]:
        """Compute features, scores and penalties of samples whose neighbors have all arrived."""
        score, (behind, ahead) = self._kept()[:2]
        recent = X if self.recent_ is None else np.vstack([self.recent_, X])
        # The stretch that is read begins early enough for all neighbors, or where the stream
        # begins. Its last samples lack later neighbors, so they wait, except at the end of the
        # stream.
        stop = self.first_recent_ + len(recent) - (0 if last else ahead)
        rows = slice(self.n_read_ - self.first_recent_, max(0, stop - self.first_recent_))
        if rows.stop <= rows.start:  # all samples wait for their neighbors
            if behind or ahead:
                self.recent_ = recent.copy()
            return recent[:0], None, None
        if seen is not None:  # only of a stretch with the same samples
            stretch = self.recent_ is None, self.first_recent_, len(recent)
            seen = seen.setdefault(stretch, {})
        features = score.rows(recent, seen)
        if score.view is not None and says(score.view, "running"):
            # The sum continues from the last sample that was read.
            if self.last_ is not None:
                features = features + (self.last_ - features[rows.start - 1])
            self.last_ = features[rows.stop - 1].copy()
        features, scores, penalties = score.read(recent, seen, features)
        scores = None if scores is None else scores[rows]
        # Row t of the penalties is for the position before sample t, and a stream needs the
        # penalty of a change after each sample.
        penalties = None if penalties is None else penalties[1:][rows]
        if behind or ahead:
            self.n_read_ = max(self.n_read_, stop)
            keep = max(self.first_recent_, self.n_read_ - behind)
            # A copy, because the caller may use the same buffer again.
            self.recent_ = recent[keep - self.first_recent_ :].copy()
            self.first_recent_ = keep
        return features[rows], scores, penalties

    def _follow(self, features: NDArray, scores: Any, penalties: Any) -> list[StreamedSegments]:
        """Pass samples to the dynamic program, and return the segments that become final."""
        if not len(features):
            return []
        if self.offset_ is None:
            self._begin(features[0], scores, penalties)
        assert self.offset_ is not None
        kept = self._kept()
        if kept.single is not None:
            columns, weights = kept.single
            rows = np.ascontiguousarray((features[:, columns] - self.offset_[columns]) * weights)
        else:
            rows = projected(np.ascontiguousarray(features), self.offset_, kept.components)
        if scores is not None:
            # Shift scores so that the best name of every sample has 0, as for whole sequences.
            scores = scores - scores.max(axis=1, keepdims=True)
        else:
            scores = np.empty((len(rows), 0))
        penalties = np.empty(0) if penalties is None else penalties
        self._reserve(len(rows))
        found, used = [], 0
        while used < len(rows):
            n, change = follow(*self._kept().state, rows[used:], scores[used:], penalties[used:])
            clock, used = self.clock_, used + n
            now, base = int(clock[NOW]), int(clock[BASE])
            if change > base:
                found.append(self._told(changes(self.positions_[0], change, base)))
                clock[BASE] = base = change
            first = base + 1
            if self.max_delay is not None and now - base >= self.max_delay:
                # The current best segmentation decides about the oldest quarter of the delay.
                ends = self._ends(now)
                oldest = now - 3 * int(self.max_delay) // 4
                if len(decided := ends[ends < oldest]):
                    found.append(self._told(decided))
                    base = int(decided[-1])
                first = max(oldest, base + 1)
            if now >= clock[CENTER] or 2 * base >= now:
                self._forget(base, first)
        return found

    def _forget(self, base: int, first: int) -> None:
        """Drop positions between ``base`` and ``first``. The new position 0 is ``base``."""
        self.begin_ += base + (self.head_ if base else 0)
        self.head_ = (0 if base else self.head_) + first - 1 - base
        signal, program, progress = self._kept().state
        signal = signal._replace(head=self.head_)
        lost = compact(signal, program, progress, base, first)
        self.kept_ = self._kept()._replace(state=(signal, program, progress))
        if self.max_delay is not None:
            self.clock_[CENTER] = min(self.clock_[CENTER], self.max_delay)
        self.exact_ = self.exact_ and not lost

    def _begin(self, features: NDArray, scores: NDArray | None, penalties: Any) -> None:
        """Make empty arrays. All sums are over samples minus the first sample."""
        n_components = len(self._kept().components)
        self.offset_ = np.array(features, dtype=np.float64)
        self.clock_, self.bounds_ = np.zeros(N_CLOCK, dtype=np.int64), np.zeros(N_BOUNDS)
        self.clock_[CHECK], self.center_ = 1, np.zeros(n_components)
        self.sums_ = np.zeros((1, n_components))
        self.emissions_ = None if scores is None else np.zeros((1, scores.shape[1]))
        self.penalties_ = None if penalties is None else np.zeros(1)
        self.values_, self.positions_ = np.zeros((2, 1)), np.full((3, 1), -1, dtype=np.int32)
        self.whole_levels_ = np.zeros((6, MOST_LEVELS), dtype=np.int32)
        self.real_levels_ = np.zeros((2, MOST_LEVELS))
        self.whole_levels_[0, 0], self.real_levels_[0, 0] = 1, -np.inf
        self._reserve(1)
        self._forget(0, 1)

    def _reserve(self, n: int) -> None:
        """Resize the arrays if n more samples do not fit, or if the arrays are mostly unused."""
        used, room = int(self.clock_[NOW]) + 1, len(self.sums_)
        if used + n <= room <= max(8 * (used + n), 4 * _BLOCK):
            return
        room = 2 * (used + n) + 64
        for name in ("sums_", "emissions_", "penalties_", "values_", "positions_"):
            if (old := getattr(self, name)) is not None:
                by_row = name in ("values_", "positions_")  # a row for each quantity
                shape = (len(old), room) if by_row else (room, *old.shape[1:])
                new = np.zeros(shape, dtype=old.dtype)
                here = (slice(None), slice(used)) if by_row else slice(used)
                new[here] = old[here]
                setattr(self, name, new)
        self.kept_ = self._kept()._replace(state=self._state(self._kept().score))

    def _kept(self) -> _Kept:
        """Return the parts that are not saved in model files, because they can be recomputed."""
        if not hasattr(self, "kept_"):
            self.kept_ = self._kept_anew()
        if self.kept_.state is None and self.offset_ is not None:
            self.kept_ = self.kept_._replace(state=self._state(self.kept_.score))
        return self.kept_

    def _kept_anew(self) -> _Kept:
        """Read the score of the segmenter. Raises a ValueError if no stream can follow it."""
        score = self.segmenter.stream_score()
        if (lacking := score.refusal_of_streams()) is not None:
            raise ValueError(f"{type(self.segmenter).__name__} needs {lacking}")
        components = np.ascontiguousarray(score.components, dtype=np.float64)
        if not len(components):
            components = np.zeros((1, components.shape[1]))
        single = single_features(components)
        return _Kept(score, score.reach or (0, 0), components, single, None)

    def _state(self, score: SegmentScore) -> tuple[Signal, Program, Progress]:
        """Return the arrays of the dynamic program as its kernels need them."""
        assert score.penalty is not None
        signal = Signal(self.sums_, 0.0, score.min_size, c=-float(score.penalty), head=self.head_)
        if self.penalties_ is not None:
            signal = signal._replace(penalties=self.penalties_)
        if self.emissions_ is not None:
            signal = signal.named(NameScores(self.emissions_))
        live = Live(self.positions_[1], self.values_[1], self.positions_[2])
        levels = Levels(*self.whole_levels_, *self.real_levels_)
        program = Program(self.values_[0], self.positions_[0], live, levels)
        needed = np.zeros(len(self.sums_), dtype=np.bool_)
        return signal, program, Progress(self.clock_, self.bounds_, self.center_, needed)

    def _ends(self, now: int) -> NDArray[np.int64]:
        """Return the ends of the best segments since the last final change, as array positions."""
        if self.values_[0, now] == -np.inf:  # fewer samples than min_size form one segment
            return np.array([now])
        return changes(self.positions_[0], now, int(self.clock_[BASE]))

    def _told(self, ends: NDArray[np.int64]) -> StreamedSegments:
        """Convert array positions to segments, whose ends are counted since the stream began."""
        names, classes = None, self.classes
        if classes is not None and self.emissions_ is not None:
            starts = np.append(self.clock_[BASE], ends[:-1])
            codes = np.argmax(self.emissions_[ends] - self.emissions_[starts], axis=1)
            names = classes[codes]
        return StreamedSegments(self.begin_ + self.head_ + ends, names)


class Streaming:
    """Gives a segmenter that can follow a stream the method ``stream``."""

    present_score: SegmentScore

    def stream(self, max_delay: int | None = None) -> SegmenterStream:
        """Make a stream in which this fitted segmenter finds change-points.

        Parameters
        ----------
        max_delay : int, optional
            A change becomes final after at most this many samples. By default there is no limit:
            the stream then returns the same segments as ``predict_change_points``.

        Returns
        -------
        SegmenterStream

        Raises
        ------
        ValueError
            If the segmenter needs the whole sequence, for example for its features or penalty, or
            if ``max_delay`` is less than twice ``min_size``.
        """
        return SegmenterStream(self, max_delay).start()

    def stream_score(self) -> SegmentScore:
        """Return the score that a stream follows."""
        return self.present_score
