"""What a Segmenter is given: recordings or files, labels, names and groups, each read once."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from metriclearn.datasets.feature_cache import cached_features
from metriclearn.datasets.segment_labels import runs
from metriclearn.datasets.sequences import LabeledSequences, labeled_as
from metriclearn.estimators.reading.data_sets import DataSets, NamedColumns, read_data_sets
from metriclearn.estimators.reading.labels import (
    NOBODY,
    are_classes,
    list_labelings,
    none_as_unlabeled,
    read_labelings,
    read_names,
    sample_labels,
)
from metriclearn.problem.partial_labels import LabeledPartial, PartialPartition, fewest_changes
from metriclearn.problem.partition import LabeledPartition, Partition
from metriclearn.problem.regions import NO_CHANGE, Region
from metriclearn.running.notes import note
from metriclearn.running.times import index_times, read_times
from metriclearn.running.values import text
from metriclearn.views.gaps import Labels, LeaveOut
from metriclearn.views.plain import fit_view, read_groups, says
from metriclearn.views.posteriors import HeldOutView
from metriclearn.views.whiten import LinearView

# With fewer labeled boundaries, parts of a recording are not left out; the second number is for
# labels without any segment, from which a metric is learned slowly.
_FEW, _FEW_FREE = 2, 8
_FEW_LISTED = 3  # segments between changes of a single recording


class Given(NamedTuple):
    """Training recordings as the members see them.

    Attributes
    ----------
    data : DataSets
    labels : list
        The labels of the recordings, as they were given.
    truths : list of Partition or PartialPartition
    groups : int array (N,)
    recordings : list of str, optional
        Their names, if they have any. Otherwise labels that are numbers may count the segments of
        a recording.
    codes : list of int arrays (T_i,), optional
        The names of all samples as codes, −1 where unknown; None if labels are not names.
    classes : array (C,), optional
        The sorted names; the code c stands for ``classes[c]``.
    segment_length : float, optional
        The usual number of rows of a segment, if it was stated.
    """

    data: DataSets
    labels: list[Any]
    truths: list[Any]
    groups: NDArray
    recordings: list[str] | None = None
    codes: list[NDArray] | None = None
    classes: NDArray | None = None
    segment_length: float | None = None

    def without_data(self) -> Self:
        """Return the information from the labels, without arrays of the caller."""
        return self._replace(data=DataSets([], False, None), labels=[])

    @property
    def known(self) -> Labels:
        """The labels for views that are fitted to labels."""
        return Labels(self.truths, self.codes, self.classes)

    @property
    def used(self) -> NDArray[np.int64]:
        """The recordings from which to learn: they have two rows or more, and labels."""
        pairs = zip(self.data.arrays, self.truths)
        usable = [len(X) > 1 and bool(getattr(truth, "constraints", True)) for X, truth in pairs]
        return np.flatnonzero(usable)

    def named(self, who: str, wanted: bool | None) -> Self:
        """Return the same with codes and classes if labels are names.

        With ``wanted=None``, labels are names if they are classes (:func:`are_classes`), and if
        recordings of two groups share one; with a single group, if two recordings do. A single
        recording does not need to share one.
        """
        if wanted is False:
            return self
        try:
            codes, classes = read_names(who, self.labels, self.data, self.truths)
        except ValueError:
            if wanted:
                raise
            return self
        # Names that no two groups share, such as speakers, do not help with other recordings.
        known = [row[row >= 0] for row in codes]
        used = np.flatnonzero(list(map(len, known)))
        several = len(np.unique(self.groups[used])) > 1
        units = (self.groups if several else np.arange(len(self.groups))).tolist()
        pairs = {(u, c) for u, row in zip(units, known) for c in np.unique(row).tolist()}
        shared = len(used) == 1 or len({c for _, c in pairs}) < len(pairs)
        if wanted or (shared and are_classes([classes[row] for row in known])):
            return self._replace(codes=codes, classes=classes)
        return self

    def behind(self, who: str, view: Any) -> tuple[Any, Self]:
        """Fit the view before all members: the given one, or :func:`mended` if there are NaN.

        Returns the fitted view, or None without one, and what members see behind it.
        """
        if (view := _front_view(who, view, self.data)) is None:
            return None, self
        arrays = list(self.data.arrays)
        fitted, rows = fit_view(view, arrays, None, self.groups)  # no labels leak
        seen = self._replace(data=DataSets(rows, False, None))
        if says(fitted, "keeps_all"):
            return fitted, seen
        kept = fitted.kept(arrays)
        if self.codes is None:
            truths = [truth.at(rows) for truth, rows in zip(self.truths, kept)]
            return fitted, seen._replace(labels=truths, truths=truths)
        labels = self.at(kept, np.arange(len(kept)))
        truths = read_labelings("Segmenter", labels, seen.data, segments=True, partial=True)
        codes = [row[some] for row, some in zip(self.codes, kept)]
        return fitted, seen._replace(labels=labels, truths=truths, codes=codes)

    def at(self, kept: Sequence[NDArray[np.int64]], places: NDArray[np.int64]) -> list[Any]:
        """Return the labels of some recordings on kept rows, with their names if they have any."""
        found: list[Any] = []
        names_of = {
            i: sample_labels(self.labels[i], len(self.data.arrays[i])) for i in set(places.tolist())
        }
        for i, rows in zip(places, kept):
            labels, truth = self.labels[i], self.truths[i].at(rows)
            if (names := names_of[i]) is None:
                found.append(truth)
                continue
            found.append(names[rows])
            if isinstance(labels, (LabeledPartition, LabeledPartial)):
                # the names do not tell boundaries between segments of one name
                whole = truth if isinstance(truth, Partition) else truth.segmentation()
                if whole is not None and np.all(names[rows] != -1):
                    ends = whole.change_points
                    found[-1] = LabeledPartition(ends, names[rows][ends - 1])
                elif isinstance(truth, PartialPartition):
                    found[-1] = LabeledPartial(truth, names[rows])
        return found

    def with_listed_changes(self, who: str) -> Self:
        """Take changes alone as all changes from the first to the last of each recording.

        A person who marks nothing but changes usually marks one after the other. Where that is not
        so, the answers are about as good as without this assumption, because labels that allow a
        boundary everywhere tell little. With fewer than three segments between changes, all of a
        single recording, nothing is assumed: parts of it would hold a change, but no segment.
        """
        changes = [[t for t, _ in labeled_changes(truth)] for truth in self.truths]
        between = [[(a, b, NO_CHANGE) for a, b in pairwise(one) if b - a > 1] for one in changes]
        alone = [is_free(one) and not one.pieces.regions for one in self.truths]
        several = sum(map(bool, between)) > 1
        if not all(alone) or not (several or sum(map(len, between)) >= _FEW_LISTED):
            return self
        note(
            f"{who} was given changes alone, so it takes them as all changes between the first and "
            "the last of each recording; if there are more, mark where there is no change, too."
        )
        listed = [
            PartialPartition(truth.n_samples, change_points=some, regions=regions)
            for truth, some, regions in zip(self.truths, changes, between)
        ]
        rows = [sample_labels(one, truth.n_samples) for one, truth in zip(self.labels, listed)]
        labels = [
            one if names is None else LabeledPartial(one, names) for one, names in zip(listed, rows)
        ]
        return self._replace(truths=listed, labels=labels)

    def divided(self, n_parts: int) -> Self | None:
        """Return the same with every recording of the only group as a separate group.

        A single recording becomes one for each part. Every part has all rows, but only the labels
        of a stretch with its share of the boundaries and of the regions that need one. Returns None
        if a single recording has fewer than two of these (eight, if no segment is labeled).
        """
        if len(self.used) != 1:
            return self._replace(groups=np.arange(len(self.groups))) if len(self.used) else None
        i = int(self.used[0])
        truth, T = self.truths[i], len(self.data.arrays[i])
        if not (spans := _spans(truth, n_parts)):
            return None
        names, codes, rows = sample_labels(self.labels[i], T), None, np.arange(T)
        masks = [(start <= rows) & (rows < stop) for start, stop in spans]
        labels: list[Any] = []
        if names is not None:
            labels = [np.where(mask, names.astype(object), -1) for mask in masks]
            if self.codes is not None:
                codes = [np.where(mask, self.codes[i], -1) for mask in masks]
        if names is None or isinstance(self.labels[i], (LabeledPartition, LabeledPartial)):
            known = PartialPartition.from_partition(truth)
            parts = [
                PartialPartition(
                    T, regions=[r for r in known.constraints if a <= r.start and r.stop <= b]
                )
                for a, b in spans
            ]
            labels = parts if names is None else list(map(LabeledPartial, parts, labels))
        data = replace(self.data, arrays=[self.data.arrays[i]] * len(spans))
        truths = read_labelings("Segmenter", labels, data, segments=True, partial=True)
        # If regions overlap, a cut may leave none of them.
        if sum(bool(truth.constraints) for truth in truths) < 2:
            return None
        return self._replace(
            data=data,
            labels=labels,
            truths=truths,
            groups=np.arange(len(spans)),
            codes=codes,
            classes=None if codes is None else self.classes,
        )


def _spans(truth: Any, n_parts: int) -> list[tuple[int, int]]:
    """Divide a recording into stretches with equal shares of the boundaries that are labeled.

    Returns none if there are fewer than two boundaries and regions that need one (eight, if no
    segment is labeled).
    """
    needed = labeled_changes(truth)
    if len(needed) < (_FEW_FREE if is_free(truth) else _FEW):
        return []
    n = min(n_parts, len(needed))
    first, last = np.array(needed).T
    after = np.arange(1, n) * len(first) // n
    cuts = (last[after - 1] + first[after]) // 2
    # A segment of one row is the end of one part and the start of the next.
    stops = np.append(cuts + (cuts == last[after - 1]), truth.n_samples)
    return list(zip([0, *cuts.tolist()], stops.tolist()))


def read_given(
    who: str,
    X: Any,
    y: Any,
    groups: Any = None,
    *,
    missing: bool = False,
    names: bool | None = None,
) -> Given:
    """Read recordings, labels and groups, as ``Segmenter.fit`` gets them.

    Parameters
    ----------
    who : str
        Name used in errors.
    X, y, groups
        As for ``Segmenter.fit``; files have been read.
    missing : bool
        Whether NaN is allowed for unknown values.
    names : bool, optional
        Whether labels are names; None finds out.
    """
    recordings = None
    if isinstance(X, LabeledSequences):
        if y is not None:
            raise ValueError(
                f"{who} needs y=None for LabeledSequences, which have their labels, got a "
                f"{type(y).__name__}; pass X.sequences and y."
            )
        if groups is not None:
            read_groups(who, groups, len(X.sequences), fewest=1)
            X = replace(X, groups=list(groups))
        made = _labeled(X)
        groups, recordings, y = made.groups, made.names, made.labelings
        X = [NamedColumns.of(one, made.feature_names) for one in made.sequences]
    data = read_data_sets(who, X, missing=missing)
    y = none_as_unlabeled(y, data)
    truths = read_labelings(who, y, data, segments=True, partial=True)
    labels = list(list_labelings(who, y, data))
    units = read_groups(who, groups, len(truths), fewest=1)
    return Given(replace(data, single=False), labels, truths, units, recordings).named(who, names)


def read_files(who: str, X: Any, extractor: Any, cache: Any = None) -> Any:
    """Compute the features of files, if X has paths; ``cache`` is the folder that keeps them."""
    if isinstance(X, (str, os.PathLike)):
        return read_files(who, [X], extractor, cache)[0]
    listed = isinstance(X, (list, tuple))
    paths = [isinstance(one, (str, os.PathLike)) for one in X] if listed else []
    if not any(paths):
        return X
    if not all(paths):
        raise ValueError(
            f"{who} needs paths of files or tables, got a list of both; pass lists of one kind."
        )
    if extractor is None:
        raise ValueError(
            f"{who} needs tables, or an extractor for files, got {str(X[0])!r}; pass "
            "extractor=AudioFeatures() or another."
        )
    return [cached_features(path, extractor, cache) for path in X]


def note_other_rate(who: str, X: Any, rate: float) -> None:
    """Warn if the index of a data frame has another rate, by more than a tenth, than ``rate``.

    ``X`` is a recording or a list of them, and ``rate`` is the number of rows per second. Only the
    first such data frame is named.
    """
    for i, frame in enumerate(X if isinstance(X, (list, tuple)) else [X]):
        index = index_times(getattr(frame, "index", None))
        if index is None or len(frame) < 2:
            continue
        with suppress(ValueError):  # segments refuses times that do not increase
            found = read_times(who, index).nearer_rate(rate)
            if not 1 / 1.1 <= found / rate <= 1.1:
                note(
                    f"{who} counts {rate:.6g} row(s) per second, but by its index data set {i} has "
                    f"{found:.6g}; pass rate={found:.6g}."
                )
                return


def _front_view(who: str, view: Any, data: DataSets) -> Any:
    """Return the view before all members: the given one, or one that mends rows with NaN."""
    if view is not None:
        if isinstance(view, (HeldOutView, LinearView)):
            raise ValueError(
                f"{who} needs a view that is not fitted to labels, got {view!r}; give this view to "
                "the learners in members."
            )
        return view
    return mended(who, data)


def mended(who: str, data: DataSets) -> LeaveOut | None:
    """Return a view for recordings with NaN, with notes, or None if there are none.

    Raises ValueError if a column of a recording has no number.

    On recordings with missing values in one column at a time, interpolation was better than leaving
    the rows out. Long gaps of all columns were better left out.
    """
    unknown = [np.isnan(array) for array in data.arrays]
    some, empty = (sum(int(how(one, 1).sum()) for one in unknown) for how in (np.any, np.all))
    if not some:
        return None
    for i, one in enumerate(unknown):
        for never in np.flatnonzero(one.all(axis=0))[:1]:
            raise ValueError(
                f"{who} needs a number in every column, but column {never} of recording {i} has "
                "none; leave the recording out, or fit without this column."
            )
    count = f"of {sum(map(len, unknown))} rows"
    if some > empty:
        note(
            f"{some - empty} {count} have missing values, which are interpolated; pass "
            "view=metriclearn.views.LeaveOut() to leave these rows out."
        )
    if empty:
        note(f"{empty} {count} have no value and are left out.")
    return LeaveOut(fill=True)


def is_free(truth: Any) -> bool:
    """Tell whether labels allow a boundary at every position, as a few change-points do."""
    finest = Partition(ends=np.arange(1, truth.n_samples + 1))
    return isinstance(truth, PartialPartition) and truth.allows(finest)


def needing_a_change(truth: Any) -> list[Region]:
    """Return the annotated regions that need a change at an unknown position."""
    return [region for region in truth.pieces.regions if region.kind.fewest]


def labeled_changes(truth: Any) -> list[tuple[int, int]]:
    """Return the first and last possible position of every change that labels demand, in order."""
    needed = [(t, t) for _, ends in truth.pieces.stretches for t in ends[:-1].tolist()]
    needed += [(region.start + 1, region.stop - 1) for region in needing_a_change(truth)]
    return sorted(needed)


def divides_equal(labeling: Any) -> bool:
    """Tell whether neighboring segments of a labeling may have one name."""
    if isinstance(labeling, LabeledPartial):
        names = labeling.sample_labels
        cuts = [ends[:-1] for _, ends in labeling.pieces.stretches]
        return any(np.any((names[t] != -1) & (names[t - 1] == names[t])) for t in cuts)
    return isinstance(labeling, LabeledPartition)


def count_segments(truth: Any) -> int:
    """Count labeled segments and annotated regions, or clusters."""
    if isinstance(truth, np.ndarray):
        return int(truth.max()) + 1
    segments = sum(len(ends) for _, ends in truth.pieces.stretches)
    return segments + len(needing_a_change(truth))


def _labeled(data: LabeledSequences) -> LabeledSequences:
    """Mark or leave out unlabeled samples, and leave out stretches of a single row."""
    found = sorted({text(label) for labels in data.labels for label in runs(labels)})
    nobody = [label for label in found if label.strip().casefold() in NOBODY]
    total = sum(map(len, data.labels))
    for label in nobody if data.unlabeled not in nobody else ():
        count = sum(int(np.count_nonzero(labeled_as(one, label))) for one in data.labels)
        what = f"samples of label {label!r} count as unlabeled"
        remedy = "; give them another label if they are of a class" if label else ""
        note(f"{count} of {total} {what if label else 'samples have no label'}{remedy}.")
    if nobody:
        several = sorted({*nobody, *([data.unlabeled] if data.unlabeled else [])})
        if len(several) > 1:
            labels = [
                np.where(np.any([labeled_as(y, one) for one in several], axis=0), several[0], y)
                for y in (one.astype(object) for one in data.labels)
            ]
            data = replace(data, labels=labels, unlabeled=data.unlabeled and several[0])
        if data.unlabeled is None:
            data = data.with_unlabeled(several[0])
    lengths = list(map(len, data.labels))
    known = DataSets(data.sequences, False, None)
    truths = read_labelings("Segmenter", data.labelings, known, segments=True, partial=True)
    if not any(map(fewest_changes, truths)):
        raise ValueError(
            f"Segmenter needs a boundary to learn from, but each recording of {data.name!r}, or "
            "each stretch of it with known labels, is a single segment; give every segment a "
            "separate line, or give rows of another kind another label."
        )
    long = [i for i, length in enumerate(lengths) if length > 1]
    if len(long) < len(lengths):
        short = sorted({data.names[i] for i in set(range(len(lengths))) - set(long)})
        note(
            "recordings of one row, or stretches of one row with known labels, tell nothing of "
            f"boundaries and are left out: {', '.join(short[:8])}."
        )
    return data.select(long)
