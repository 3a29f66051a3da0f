"""Sets of labelled sequences, which loaders return and experiments use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metriclearn.datasets.segment_labels import name_classes, runs
from metriclearn.problem.partial_labels import LabeledPartial, PartialPartition
from metriclearn.problem.partition import LabeledPartition, Partition
from metriclearn.problem.regions import AT_LEAST_ONE, Region
from metriclearn.running.values import real_array, text


class Items:
    """A data set whose items, such as sequences or images, are stored in lists of equal length."""

    LISTS: ClassVar[tuple[str, ...]]  # names of the lists

    def __post_init__(self) -> None:
        lengths = {name: len(getattr(self, name)) for name in self.LISTS}
        if len(set(lengths.values())) > 1 or 0 in lengths.values():
            raise ValueError(
                f"{type(self).__name__} needs non-empty lists of one length, got {lengths}."
            )

    def __len__(self) -> int:
        """Return N, the number of items."""
        return len(getattr(self, self.LISTS[0]))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} {self.LISTS[0]})"

    def select(self, indices: ArrayLike) -> Self:
        """Return the items at ``indices``, in this order. Arrays are shared, not copied.

        Raises
        ------
        ValueError
            If no index is given, or indices are not integers.
        IndexError
            If an index is not in the data set.
        """
        chosen = np.asarray(indices).ravel()
        if chosen.size == 0 or chosen.dtype.kind not in "iu":
            raise ValueError(
                f"{type(self).__name__}.select needs at least one integer index, got "
                f"{chosen.size} of type {chosen.dtype}."
            )
        lists = {name: [getattr(self, name)[i] for i in chosen] for name in self.LISTS}
        return replace(self, **lists)  # type: ignore[type-var]


@dataclass(frozen=True, eq=False, repr=False)
class LabeledSequences(Items):
    """N sequences with one label per sample. The constructor checks shapes and values.

    A segment is a run of equal labels, so a label may recur later in a sequence. Runs are maximal,
    except at ``starts``.

    Parameters
    ----------
    name : str
        Name of the data set.
    sequences : list of N arrays (T_i, P)
        Features, stored as float64. NaN is a missing value; infinity is refused. Arrays are kept,
        not copies of them, because they may fill the memory.
    labels : list of N arrays (T_i,)
        Label of every sample: numbers, strings or other hashable values.
    groups : list of N str
        Group of every sequence, such as a person or a video. A split into training and test data
        does not divide a group.
    names : list of N str
        Name of every sequence.
    feature_names : list of P str
        Name of every feature.
    starts : list of N int arrays, optional
        For every sequence, the samples at which a segment starts although the segment before has
        the same label. :meth:`metriclearn.Segmenter.fit` learns these boundaries if it is given the
        data set; ``labels`` alone cannot tell them. ``starts`` also holds boundaries next to
        samples without a label.
    unlabeled : str, optional
        The label that marks unlabeled samples, see :meth:`with_unlabeled`.

    Raises
    ------
    ValueError
        If shapes disagree, or a value is infinite; the message names the sequence.

    See Also
    --------
    load_files : reads your files.
    make_change_points : generates sequences.

    Examples
    --------
    >>> from metriclearn.datasets import load_example
    >>> routines = load_example("exercise")
    >>> routines.names[0], routines.sequences[0].shape, str(routines.labels[0][0])
    ('13_29', (382, 36), 'JumpJack')
    """

    name: str
    sequences: list[NDArray[np.float64]]
    labels: list[NDArray]
    groups: list[str]
    names: list[str]
    feature_names: list[str]
    starts: list[NDArray[np.int64]] = field(default_factory=list, kw_only=True)
    unlabeled: str | None = field(default=None, kw_only=True)
    LISTS: ClassVar = ("sequences", "labels", "groups", "names", "starts")

    def __post_init__(self) -> None:
        if not len(self.starts):
            object.__setattr__(self, "starts", [()] * len(self.sequences))
        super().__post_init__()
        checked = [self._check(*item) for item in zip(self.names, self.sequences, self.labels)]
        object.__setattr__(self, "sequences", [features for features, _ in checked])
        object.__setattr__(self, "labels", [labels for _, labels in checked])
        starts = [np.unique(np.array(rows, dtype=np.int64)) for rows in self.starts]
        object.__setattr__(self, "starts", starts)
        for name, rows, labels in zip(self.names, starts, self.labels):
            if len(rows) and not 0 < rows[0] <= rows[-1] < len(labels):
                raise ValueError(
                    f"LabeledSequences {self.name!r} needs starts inside of sequence {name!r}, "
                    f"from 1 to {len(labels) - 1}, got {rows.tolist()[:8]}."
                )
        for one in ("groups", "names", "feature_names"):
            object.__setattr__(self, one, [str(value) for value in getattr(self, one)])

    def _check(self, name: str, features: ArrayLike, labels: ArrayLike) -> tuple[NDArray, NDArray]:
        """Check one sequence, and return its features (float64) and labels as arrays."""
        who, y = f"LabeledSequences {self.name!r}", np.asarray(labels)
        X = np.ascontiguousarray(real_array(who, f"sequence {name!r}", features, allow=["missing"]))
        if X.shape[1] != len(self.feature_names) or y.shape != X.shape[:1]:
            raise ValueError(
                f"{who} needs a label per sample and a column per feature name in sequence "
                f"{name!r}, got {y.shape} labels, {len(self.feature_names)} names and shape "
                f"{X.shape}."
            )
        try:
            Partition.from_runs(y)
        except ValueError as error:
            raise ValueError(f"{who} needs other labels in sequence {name!r}: {error}") from error
        return X, y

    @property
    def change_points(self) -> list[NDArray[np.int64]]:
        """The segment ends of every sequence, as in ruptures: the last end is T_i.

        A run of samples without a label counts as a segment.
        """
        ends = [Partition.from_runs(labels).change_points for labels in self.labels]
        return list(map(np.union1d, ends, self.starts))

    @property
    def labelings(self) -> list[Any]:
        """The labels of every sequence, with the boundaries between equal labels if there are any.

        :meth:`metriclearn.Segmenter.fit` takes them in place of ``labels``.
        """
        open_rows = [labeled_as(labels, self.unlabeled) for labels in self.labels]
        classes = any(map(np.any, open_rows)) and self.has_classes
        found: list[Any] = []
        for labels, rows, ends, is_open in zip(
            self.labels, self.starts, self.change_points, open_rows
        ):
            if np.any(is_open):
                found.append(_partly_labeled(labels, rows, ends, ~is_open, classes))
            else:
                found.append(LabeledPartition(ends, labels[ends - 1]) if len(rows) else labels)
        return found

    @property
    def has_classes(self) -> bool:
        """Whether labels name classes of segments, see :func:`name_classes`."""
        unlabeled = text(self.unlabeled)
        spelled = [[name for name in runs(one) if text(name) != unlabeled] for one in self.labels]
        return name_classes(spelled)

    def with_unlabeled(self, label: str) -> Self:
        """Return the data set for learning if one label marks unlabeled samples.

        If more than half of the samples are unlabeled, all stay: few labels say more with the
        samples around them. The scale of a sequence is then that of all its samples, and no segment
        is cut where labels end. Otherwise unlabeled samples are removed: a sequence is cut where
        they were, and every piece becomes a sequence with the name and the group of its source. So
        no boundary is learned where samples are missing. Unlabeled samples near ``starts`` among
        them and at their ends stay. There, a piece continues for the median length of a labeled
        segment, so that it contains samples on both sides of such a boundary. If no segment is
        labeled, the median distance of these boundaries counts in its place.

        Raises
        ------
        ValueError
            If no sample has the label, or if all have it and there are no ``starts``.
        """
        known = [~labeled_as(labels, label) for labels in self.labels]
        open_starts = [t[~(m[t] & m[t - 1])] for m, t in zip(known, self.starts)]
        has_starts = any(map(len, open_starts))
        if not has_starts and (all(map(np.all, known)) or not any(map(np.any, known))):
            raise ValueError(
                f"LabeledSequences {self.name!r} needs samples of label {label!r} and others, got "
                f"{sorted({name for y in self.labels for name in runs(y)})[:10]}."
            )
        n_known = sum(int(np.count_nonzero(mask)) for mask in known)
        if n_known and 2 * n_known < sum(map(len, known)):
            return replace(self, unlabeled=label)
        if not has_starts:
            return self._kept(known)
        lengths: list[int] = []
        for mask, ends in zip(known, self.change_points):
            lengths += [b - a for a, b in pairwise([0, *ends.tolist()]) if mask[a]]
        lengths = lengths or [int(d) for starts in open_starts for d in np.diff(starts)]
        reach = int(np.median(lengths)) if lengths else max(map(len, self.labels))
        kept = [mask.copy() for mask in known]
        for mask, starts in zip(kept, open_starts):
            for t in starts.tolist():
                mask[max(0, t - reach) : t + reach] = True
        return replace(self._kept(kept), unlabeled=label)

    def in_pieces(self, n_changes: int) -> Self:
        """Cut long sequences in the middle of segments, so that pieces have ``n_changes`` changes.

        A segment of a single sample is not cut, so the piece before it has more. The time to learn
        from a sequence can grow with the square of its number of changes.
        """
        pieces = []
        for i, ends in enumerate(self.change_points):
            places = np.arange(n_changes, len(ends) - 1, n_changes)
            places = places[ends[places] - ends[places - 1] > 1]
            cuts = [0, *((ends[places - 1] + ends[places]) // 2).tolist(), int(ends[-1])]
            pieces += [(i, a, b) for a, b in pairwise(cuts)]
        return self._pieces(pieces)

    def _kept(self, kept: Sequence[NDArray[np.bool_]]) -> Self:
        """Cut every sequence where samples are not kept."""
        pieces = []
        for i, mask in enumerate(kept):
            ends = Partition.from_runs(mask).change_points.tolist()
            pieces += [(i, a, b) for a, b in pairwise([0, *ends]) if mask[a]]
        return self._pieces(pieces)

    def _pieces(self, pieces: Sequence[tuple[int, int, int]]) -> Self:
        """Cut out pieces, given by their sequence, first sample and the one after the last."""
        return replace(
            self,
            sequences=[self.sequences[i][a:b] for i, a, b in pieces],
            labels=[self.labels[i][a:b] for i, a, b in pieces],
            groups=[self.groups[i] for i, _, _ in pieces],
            names=[self.names[i] for i, _, _ in pieces],
            starts=[_within(self.starts[i], a, b) for i, a, b in pieces],
        )

    def split_by_group(
        self,
        fractions: Sequence[float] | None = None,
        *,
        n_test: int | None = None,
        groups: Sequence[Sequence[str]] | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> tuple[Self, ...]:
        """Divide the data set into parts that have no group in common.

        Exactly one of ``fractions``, ``n_test`` and ``groups`` must be given. The first two assign
        groups to parts at random. Sequences keep their order within a part.

        Parameters
        ----------
        fractions : sequence of float, optional
            The fraction of the groups that each part gets. The fractions sum to 1. Each part gets
            at least one group.
        n_test : int, optional
            Make two parts, and put this number of groups into the second part.
        groups : sequence of sequences of str, optional
            The names of the groups in every part. All other groups are left out.
        random_state : int, RandomState instance or None
            Determines which groups are in which part. An integer makes the split reproducible.

        Raises
        ------
        ValueError
            If not exactly one of ``fractions``, ``n_test`` and ``groups`` is given, there are too
            few groups for the parts, or ``groups`` has an empty part or an unknown or repeated
            name.
        """
        if sum(rule is not None for rule in (fractions, n_test, groups)) != 1:
            raise ValueError(
                "LabeledSequences.split_by_group needs exactly one of fractions, n_test and groups."
            )
        present = sorted(set(self.groups))
        if groups is None:
            from sklearn.utils import check_random_state

            share = (n_test or 0) / len(present)
            shares = np.asarray((1.0 - share, share) if fractions is None else fractions)
            if shares.min() <= 0 or abs(shares.sum() - 1) > 1e-8 or len(shares) > len(present):
                raise ValueError(
                    f"LabeledSequences {self.name!r} needs positive fractions that sum to 1, or "
                    f"n_test between, and a group per part, got {shares.tolist()} of "
                    f"{len(present)} groups."
                )
            order = check_random_state(random_state).permutation(len(present))
            counts = np.diff(np.round(np.cumsum(shares) * len(present)).astype(int), prepend=0)
            while counts.min() < 1:  # rounding leaves no part empty
                counts[counts.argmax()] -= 1
                counts[counts.argmin()] += 1
            parts = np.split(order, np.cumsum(counts)[:-1])
            groups = [[present[i] for i in part] for part in parts]
        wanted = [group for part in groups for group in part]
        if sorted(wanted) != sorted({*wanted} & {*present}) or not all(map(len, groups)):
            raise ValueError(
                f"LabeledSequences {self.name!r} needs non-empty parts of distinct groups among "
                f"{present}, got {groups}."
            )
        members = [np.flatnonzero(np.isin(self.groups, list(part))) for part in groups]
        return tuple(self.select(indices) for indices in members)


def labeled_as(labels: NDArray, label: str | None) -> NDArray[np.bool_]:
    """Return which samples have a label that people see as equal to this one."""
    written = labels.astype(str)
    equal = [one for one in np.unique(written).tolist() if text(one) == text(label)]
    return np.isin(written, equal)


def _partly_labeled(
    labels: NDArray, starts: NDArray, ends: NDArray, known: NDArray[np.bool_], classes: bool
) -> LabeledPartial:
    """Return the labels of a sequence some of whose samples are not ``known``.

    If labels are names of classes, there is a change between different ones. Otherwise they may
    only number the segments.
    """
    spans = [(a, b) for a, b in pairwise([0, *ends.tolist()]) if known[a]]
    touching = [b for (_, b), (c, _) in pairwise(spans) if b == c]
    apart = [
        Region(b - 1, c + 1, AT_LEAST_ONE)
        for (_, b), (c, _) in pairwise(spans)
        if classes and labels[b - 1] != labels[c]
    ]
    changes = sorted({*starts.tolist(), *touching})
    partial = PartialPartition(len(labels), change_points=changes, same=spans, regions=apart)
    return LabeledPartial(partial, np.where(known, labels.astype(object), -1))


def _within(rows: NDArray[np.int64], first: int, stop: int) -> NDArray[np.int64]:
    """Return the rows inside a range, counted from its first row."""
    return rows[(rows > first) & (rows < stop)] - first


def of_parts(
    name: str,
    parts: Mapping[str, tuple[NDArray, ...]],
    feature_names: Sequence[str],
    groups: Sequence[str] | None = None,
) -> LabeledSequences:
    """Make a data set from ``parts``, which maps sequence names to (features, labels).

    A third array in a part holds the ``starts`` of :class:`LabeledSequences`.

    Parameters
    ----------
    name : str
        Name of the data set.
    parts : mapping of str to (array (T_i, P), array (T_i,)) or with a third array
    feature_names : sequence of P str
    groups : sequence of str, optional
        In the order of ``parts``. By default every sequence is a separate group.

    Returns
    -------
    LabeledSequences

    Raises
    ------
    ValueError
        If shapes disagree, or a value is not finite.

    See Also
    --------
    LabeledSequences : the returned object.

    Examples
    --------
    >>> import numpy as np
    >>> from metriclearn.datasets import of_parts
    >>> of_parts("toy", {"a": (np.zeros((3, 1)), np.array([0, 0, 1]))}, ["x"])
    LabeledSequences(1 sequences)
    """
    names = list(parts)
    sequences, labels = ([part[i] for part in parts.values()] for i in (0, 1))
    starts = [part[2] if len(part) > 2 else np.zeros(0, dtype=np.int64) for part in parts.values()]
    groups = names if groups is None else list(groups)
    features = list(feature_names)
    return LabeledSequences(name, sequences, labels, groups, names, features, starts=starts)
