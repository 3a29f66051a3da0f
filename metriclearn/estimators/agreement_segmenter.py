"""The methods of a segmenter whose answers come from an agreement of scores."""

from __future__ import annotations

import copy
import os
import warnings
from contextlib import nullcontext
from itertools import pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from metriclearn.datasets.segments import Segment
from metriclearn.estimators.reading.data_sets import DataSets, NamedColumns, read_new
from metriclearn.estimators.reading.far_values import note_far_values
from metriclearn.estimators.reading.given import mended, read_files
from metriclearn.estimators.reading.labels import (
    list_labelings,
    read_counts,
    read_known,
    read_labelings,
    sample_labels,
)
from metriclearn.estimators.scores.agreement import (
    Agreement,
    BoundaryRates,
    bear_threads,
    loss_without_names,
    shares_of,
)
from metriclearn.estimators.scores.segmenting import ScoredByLoss
from metriclearn.estimators.scores.stream import SegmenterStream, Streaming
from metriclearn.estimators.selection.agreement_stream import AgreementStream
from metriclearn.features.media.decoding import duration
from metriclearn.problem.consensus_form import ConsensusForm
from metriclearn.problem.named_segments import NamedPartition
from metriclearn.problem.partition import Partition
from metriclearn.running.components import ComponentParameters
from metriclearn.running.executors import in_threads, jobs
from metriclearn.running.parameters import Whole
from metriclearn.running.row_times import Times, mean_rows
from metriclearn.running.times import index_times, read_times
from metriclearn.running.values import real_array
from metriclearn.views.gaps import LeaveOut, placed
from metriclearn.views.plain import leaves_out, rows_of


class AgreementSegmenter(Streaming, ScoredByLoss, ComponentParameters):
    """Predicts with a fitted ``agreement_`` behind a fitted ``view_``, which may be None.

    ``rates_`` are the :class:`BoundaryRates` of recordings that were left out. Subclasses fit all
    three.
    """

    agreement_: Agreement
    rates_: BoundaryRates
    view_: Any
    row_names_: Any
    divides_equal_: bool
    extractor: Any
    rate: float | None
    n_features_in_: int
    n_jobs: int | None

    @property
    def classes_(self) -> NDArray | None:
        """The sorted names that are predicted, or None."""
        return self.agreement_.classes

    def read_data(self, X: Any) -> DataSets:
        """Read new recordings, and check that they have the features of the training data.

        If no view stands before all members, missing values are interpolated, with a note.
        """
        X = read_files(type(self).__name__, X, self.extractor)
        view = getattr(self, "view_", None)
        data = read_new(self, X, LeaveOut() if view is None else view)
        if self.extractor is None:
            note_far_values(type(self).__name__, data)
        if view is None:
            mended(type(self).__name__, data)
        return data

    def _view_of(self, rows: NDArray) -> Any:
        """Return the view before all members for the rows of one recording, or None."""
        if self.view_ is None and np.isnan(rows).any():
            return LeaveOut(fill=True).fit([rows])
        return self.view_

    def predict_change_points(self, X: Any, n_segments: Any = None, known: Any = None) -> Any:
        """Return the ends of all segments of every recording, including T, as in ruptures.

        Parameters
        ----------
        X : (T, P) array or sequence of such arrays, or paths of files
        n_segments : int or sequence of int, optional
            Numbers of segments. Members with a metric get these numbers, too.
        known : partial labels of each array, optional
            Partial labels of the new recordings: labels in which −1 means unknown, or
            :class:`~metriclearn.PartialPartition`. The result is the best segmentation that agrees
            with these labels. If the view leaves rows out, it agrees with them on the other rows: a
            change in a gap is placed in the middle of the gap.
        """
        return self._of_each(X, n_segments, known, lambda form, found, ends: ends)

    def predict(self, X: Any, n_segments: Any = None, known: Any = None) -> Any:
        """Return the name of every sample, (T,). If labels are no names, return segment numbers."""
        data, results = self.read_data(X), []
        answers = self.answers(data, n_segments, known)
        given: Any = [None] * len(answers)
        if known is not None:
            given = list_labelings(type(self).__name__, known, data)
        for rows, labels, (_, found, ends) in zip(data.arrays, given, answers):
            names = self._names_of(rows, found, labels)
            names = np.arange(len(ends)) if names is None else names
            results.append(np.repeat(names, np.diff(ends, prepend=0)))
        return data.as_passed(results)

    def _names_of(self, rows: NDArray, found: Partition, known: Any = None) -> NDArray | None:
        """Return the name of every segment: by the members, else by known labels and the rows."""
        if self.classes_ is not None and isinstance(found, NamedPartition):
            return self.classes_[found.names]
        if self.row_names_ is None:
            return None
        view = self._view_of(rows)
        names = self.row_names_.of(rows_of(view, rows), found)
        labels = None if known is None else sample_labels(known, len(rows))
        if labels is not None:
            if leaves_out(view):
                labels = labels[view.kept([rows])[0]]
            learned = set(self.row_names_.names.tolist())
            told = [t for t, label in enumerate(labels.tolist()) if label in learned]
            names[np.searchsorted(found.change_points, told, side="right")] = labels[told]
        return names

    def expected_loss(self, X: Any, n_segments: Any = None, known: Any = None) -> Any:
        """Return the weighted mean of ‖M − N_j‖²_F over all models, for each recording.

        M is the answer, N_j is the prediction of model j, and q_j is its weight. The mean measures
        how much the models disagree. Suppose that one model is right, and that q_j is the
        probability of model j. Then the mean is the expected loss of M.
        """
        return self._of_each(
            X, n_segments, known, lambda form, found, ends: loss_without_names(form, found)
        )

    def boundary_shares(
        self, X: Any, n_segments: Any = None, tolerance: int = 0, known: Any = None
    ) -> Any:
        """Return the total weight of the models that agree with each predicted change-point.

        A model agrees if it has a change-point within the tolerance. The result for each recording
        is an array (K−1,) with values from 0 to 1.

        Parameters
        ----------
        X, n_segments, known
            As for :meth:`predict_change_points`.
        tolerance : int ≥ 0
            Largest distance, in samples, of change-points that agree.
        """
        Whole().check(type(self).__name__, "tolerance", tolerance)
        return self._of_each(
            X, n_segments, known, lambda form, found, ends: shares_of(form, found, tolerance)
        )

    def boundary_probabilities(
        self, X: Any, n_segments: Any = None, tolerance: int = 0, known: Any = None
    ) -> Any:
        """Return the probability that a true change-point is near each predicted one, (K−1,).

        Near means within the tolerance. A logistic regression predicts whether a boundary is true
        from the log odds of its :meth:`boundary_shares`. The regression is fitted to labeled
        stretches that were left out in ``fit``, or to the recordings of :meth:`calibrate`. For each
        stretch that was left out, the shares come from the models that were fitted without it.

        Parameters
        ----------
        X, n_segments, tolerance, known
            As for :meth:`boundary_shares`.

        Raises
        ------
        ValueError
            If no labeled stretch was left out, or if no boundary was found in such stretches.
        """
        shares = self.boundary_shares(X, n_segments, tolerance, known)
        if len(self.rates_.known(tolerance)) == 0:
            raise ValueError(
                f"{type(self).__name__} needs boundaries in labeled stretches that were left out, "
                f"more than {tolerance} rows from rows without a label, to learn probabilities "
                "from, but there are none; call calibrate with labeled recordings, or use "
                "boundary_shares."
            )
        if not isinstance(shares, list):
            return self.rates_.of(shares, tolerance)
        return [self.rates_.of(one, tolerance) for one in shares]

    def calibrate(self, X: Any, y: Any) -> Self:
        """Learn :meth:`boundary_probabilities` from labeled recordings that were not for training.

        Parameters
        ----------
        X : (T, P) array or sequence of such arrays
        y : labels, change-points or partial labels, for each recording
        """
        data = self.read_data(X)
        truths = read_labelings(type(self).__name__, y, data, segments=True, partial=True)
        forms, found, _ = zip(*self.answers(data, None))
        for i, view in enumerate(map(self._view_of, data.arrays)):
            if leaves_out(view):
                truths[i] = truths[i].at(view.kept([data.arrays[i]])[0])
        members, weights = [form.members for form in forms], self.agreement_.weights
        rates = BoundaryRates.learn(found, members, truths, weights)
        if not len(rates.distances):
            raise ValueError(
                f"{type(self).__name__} needs predicted boundaries in labeled stretches to "
                "calibrate, got none; pass recordings with changes, and more labels."
            )
        self.rates_ = rates
        return self

    def segmented(self, data: DataSets, n_segments: Any = None) -> list[Partition]:
        """Return the best segmentation of every recording."""
        return [
            NamedPartition(ends, found.names)
            if isinstance(found, NamedPartition)
            else Partition(ends=ends)
            for _, found, ends in self.answers(data, n_segments)
        ]

    def _of_each(self, X: Any, n_segments: Any, known: Any, result: Any) -> Any:
        data = self.read_data(X)
        return data.as_passed([result(*one) for one in self.answers(data, n_segments, known)])

    def answers(
        self, data: DataSets, n_segments: Any, known: Any = None
    ) -> list[tuple[ConsensusForm, Partition, NDArray]]:
        """Return for every recording the form of its rows, the best segmentation, and its ends.

        The form and the segmentation are of the rows that the view keeps, the ends of all rows.
        """
        who, agreement = type(self).__name__, self.agreement_
        # A warning about segments of a few samples is not needed for one of several models.
        quiet = warnings.catch_warnings(action="ignore", category=UserWarning)
        size = agreement.min_size
        counts = read_counts(who, "n_segments", n_segments, data, optional=True, min_size=size)
        facts = read_known(who, known, data, self.classes_)

        def answer(i: int) -> tuple[ConsensusForm, Partition, NDArray]:
            X, fact, view = data.arrays[i], facts[i], self._view_of(data.arrays[i])
            kept = view.kept([X])[0] if leaves_out(view) else None
            if kept is not None and fact is not None:
                fact = fact.at(kept)
            form, found = agreement.answer(rows_of(view, X), counts[i], fact)
            ends = found.change_points
            return form, found, ends if kept is None else placed(ends, kept, len(X))

        with jobs(self.n_jobs), quiet if len(agreement.scores) > 1 else nullcontext():
            alone = not bear_threads(agreement.scores)
            return in_threads(answer, range(len(data.arrays)), alone=alone)

    @property
    def labels_(self) -> list[str]:
        """The names that :meth:`segments` may give, as texts; none if labels are not classes."""
        if self.classes_ is None and self.row_names_ is None:
            return []
        return list(map(str, self.row_names_.names if self.classes_ is None else self.classes_))

    @property
    def rows_per_second(self) -> float:
        """Rows per second: the rate of the extractor, or the parameter ``rate``, or 1."""
        return float((self.rate or 1.0) if self.extractor is None else self.extractor.rate)

    def segments(
        self, X: Any, times: Times | None = None, *, cache: str | os.PathLike[str] | None = None
    ) -> list[Segment]:
        """Return the segments of one recording as (start, end, label), with times in seconds.

        Without a rate, times are in rows, unless the index of a data frame, or one of its levels,
        has time stamps or durations. Neighboring segments with the same label are joined, unless
        there were such in training. If labels are not classes, all labels are empty.

        Parameters
        ----------
        X : (T, P) array or data frame, or path of a file
            A file may end within its last row. If a segment begins with this incomplete row, the
            row is added to the segment before it.
        times : Times, optional
            The times of the rows of a table, see :func:`metriclearn.datasets.file_times`. By
            default, the index of a data frame gives them, if it has time stamps or durations.
            Otherwise rows come at the rate of the model.
        cache : folder, optional
            Where the features of files are kept.

        Raises
        ------
        ValueError
            If rows come more slowly than at the rate of the model, or times are missing or do not
            increase.

        Warns
        -----
        UserWarning
            If rows come faster. They are averaged to the rate of the model.
        """
        check_is_fitted(self)
        if not isinstance(X, (str, os.PathLike)):
            return self._segments(X, times)
        rows = read_files(type(self).__name__, X, self.extractor, cache)
        found = self._segments(rows, None)
        start, end, label = found[-1]
        length = duration(X)
        # The last row is incomplete or missing.
        if start < length < end + 1 / self.rows_per_second:
            found[-1] = (start, length, label)
            if (length - start) * self.rows_per_second < 1 and len(found) > 1:
                start, _, label = found[-2]
                found[-2:] = [(start, length, label)]
        return found

    def _segments(self, X: Any, times: Times | None) -> list[Segment]:
        begins, has_rate = np.arange(len(X) + 1) / self.rows_per_second, times is not None
        who = f"{type(self).__name__}.segments"
        if times is None and (index := index_times(getattr(X, "index", None))) is not None:
            remedy = "drop one of them, or average these rows (frame.groupby(level=0).mean())"
            times, has_rate = read_times(who, index, remedy=remedy), self.rate is not None
        if times is not None and len(X) > 1:
            begins = times.at(np.arange(len(X) + 1))
            if has_rate and not times.matches(self.rows_per_second):
                firsts = times.firsts(self.rows_per_second)
                rows = real_array(who, "the data set", X, signals=True, allow=("missing",))
                X = NamedColumns.of(mean_rows(rows, firsts), getattr(X, "columns", None))
                begins = begins[np.append(firsts, len(begins) - 1)]
        data = self.read_data(X)
        if not data.single:
            raise ValueError(f"{who} needs one recording, got a list; call it for each of them.")
        ((_, found, ends),) = self.answers(data, None)
        cuts = begins[np.append(0, ends)].tolist()
        if (names := self._names_of(data.arrays[0], found)) is None:
            return [(start, end, "") for start, end in pairwise(cuts)]
        segments: list[Segment] = []
        for start, end, name in zip(cuts[:-1], cuts[1:], map(str, names)):
            if segments and segments[-1][2] == name and not self.divides_equal_:
                start = segments.pop()[0]
            segments.append((start, end, name))
        return segments

    def stream(self, max_delay: int | None = None) -> SegmenterStream:
        """Make a stream in which this fitted segmenter finds change-points.

        Parameters
        ----------
        max_delay : int, optional
            A change becomes final after at most this many samples. By default there is no limit:
            the stream then returns the same segments as :meth:`predict_change_points`.

        Raises
        ------
        ValueError
            If a model needs the whole recording, for example for its features or its penalty. Fit
            with ``for_streams=True``, or take :meth:`follower`.
        """
        check_is_fitted(self)
        if self.view_ is not None:
            remedy = "give the view to the learners in members"
            if leaves_out(self.view_):
                remedy = "for rows without NaN take segmenter.behind(None).stream()"
            raise ValueError(
                f"{type(self).__name__} needs view=None for a stream, got {self.view_!r}; {remedy}."
            )
        one = len(self.agreement_.scores) == 1
        return (SegmenterStream if one else AgreementStream)(self, max_delay).start()

    def stream_score(self) -> Any:
        """Return the only score, which a stream follows."""
        return self.agreement_.scores[0]

    def behind(self, view: Any) -> Self:
        """Return a segmenter with the same models behind another view, or behind none.

        Parameters
        ----------
        view : fitted view or None
            With ``views.LeaveOut()``, a segmenter of complete rows leaves rows with NaN out.
        """
        check_is_fitted(self)
        other = copy.copy(self)
        other.view_ = view
        return other

    def follower(self) -> Self:
        """Return a segmenter with the best single model that can follow a stream.

        Raises
        ------
        ValueError
            If no model can.
        """
        check_is_fitted(self)
        other = copy.copy(self)
        other.agreement_ = self.agreement_.follower()
        # Measurements on recordings left out hold only for all models together.
        other.rates_ = BoundaryRates.none()
        other.__dict__.update(validation_=None, choice_=None, shares_=[])
        for name in ("cross_fit_", "left_out_"):
            other.__dict__.pop(name, None)
        return other
