"""A set of labelled sequences: what every loader returns and every experiment takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metriclearn.problem.partition import Partition

if TYPE_CHECKING:
    import pandas as pd


class Items:
    """Sequences, images … of a data set: lists of one length, one entry per item in each."""

    LISTS: ClassVar[tuple[str, ...]]  # names of the lists

    def __post_init__(self) -> None:
        lengths = {name: len(getattr(self, name)) for name in self.LISTS}
        if len(set(lengths.values())) > 1 or 0 in lengths.values():
            raise ValueError(
                f"{type(self).__name__} needs at least one item, with an entry in every list, got "
                f"{', '.join(f'{count} {name}' for name, count in lengths.items())}."
            )

    def __len__(self) -> int:
        """N, the number of items."""
        return len(getattr(self, self.LISTS[0]))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} {self.LISTS[0]})"

    def select(self, indices: ArrayLike) -> Self:
        """The items at ``indices``, in that order (arrays are shared, not copied).

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
    """N sequences with one label per sample, checked when built.

    A segment is a maximal run of equal labels, so a label may recur later in a sequence.

    Parameters
    ----------
    name : str
        Name of the data set.
    sequences : list of N arrays (T_i, P)
        Finite features, stored as float64.
    labels : list of N arrays (T_i,)
        Labels, any hashables.
    groups : list of N str
        What must not be divided between training and test data: a person, a video ...
    names : list of N str
        Name of every sequence.
    feature_names : list of P str

    Raises
    ------
    ValueError
        If shapes disagree, or a value is not finite; the sentence names the sequence.

    See Also
    --------
    load_files : from your files.
    make_change_points : made ones.

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
    LISTS: ClassVar = ("sequences", "labels", "groups", "names")

    def __post_init__(self) -> None:
        super().__post_init__()
        checked = [self._check(*item) for item in zip(self.names, self.sequences, self.labels)]
        object.__setattr__(self, "sequences", [features for features, _ in checked])
        object.__setattr__(self, "labels", [labels for _, labels in checked])
        for field in ("groups", "names", "feature_names"):
            object.__setattr__(self, field, [str(value) for value in getattr(self, field)])

    def _check(self, name: str, features: ArrayLike, labels: ArrayLike) -> tuple[NDArray, NDArray]:
        """One sequence as (float64 array, label array), or a sentence that names it."""
        start = f"LabeledSequences {self.name!r}, sequence {name!r},"
        X, y = np.ascontiguousarray(features, dtype=np.float64), np.asarray(labels)
        if X.ndim != 2 or X.shape[1] != len(self.feature_names):
            raise ValueError(
                f"{start} needs shape (T, {len(self.feature_names)}), one column per feature "
                f"name, got {X.shape}."
            )
        if y.shape != X.shape[:1]:
            raise ValueError(f"{start} needs {len(X)} labels, got an array of shape {y.shape}.")
        if not np.isfinite(X).all():
            row, column = np.argwhere(~np.isfinite(X))[0]
            raise ValueError(
                f"{start} needs finite features, got {X[row, column]} at sample {row} of "
                f"feature {self.feature_names[column]!r}; fill or drop such samples."
            )
        try:
            Partition.from_runs(y)
        except ValueError as error:
            raise ValueError(f"{start} has labels that make no partition: {error}") from error
        return X, y

    @property
    def change_points(self) -> list[NDArray[np.int64]]:
        """Segment ends of every sequence as in ruptures: the last one is T_i."""
        return [Partition.from_runs(labels).change_points for labels in self.labels]

    @property
    def has_classes(self) -> bool:
        """Whether labels name kinds of segments, see :func:`name_classes`."""
        return name_classes([runs(labels) for labels in self.labels])

    def without(self, label: str) -> Self:
        """The data set without the samples of a label, such as the label of unlabeled samples.

        Every stretch between them becomes a sequence with the name and the group of its source, so
        no boundary is learned where the label begins or ends.

        Raises
        ------
        ValueError
            If no sample has the label, or all have it.
        """
        kept = [labels.astype(str) != label for labels in self.labels]
        if all(map(np.all, kept)) or not any(map(np.any, kept)):
            raise ValueError(
                f"LabeledSequences {self.name!r} needs samples of label {label!r} to leave out, "
                "and others to keep; its labels are "
                f"{sorted({name for labels in self.labels for name in runs(labels)})[:10]}."
            )
        pieces = []  # sequence, first sample and the one after the last
        for i, mask in enumerate(kept):
            ends = Partition.from_runs(mask).change_points.tolist()
            pieces += [(i, a, b) for a, b in pairwise([0, *ends]) if mask[a]]
        return replace(
            self,
            sequences=[self.sequences[i][a:b] for i, a, b in pieces],
            labels=[self.labels[i][a:b] for i, a, b in pieces],
            groups=[self.groups[i] for i, _, _ in pieces],
            names=[self.names[i] for i, _, _ in pieces],
        )

    def split_by_group(
        self,
        fractions: Sequence[float] | None = None,
        *,
        n_test: int | None = None,
        groups: Sequence[Sequence[str]] | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> tuple[Self, ...]:
        """Parts of the data set that share no group, by exactly one of three rules.

        Groups are dealt out in random order; inside a part the sequences keep their order.

        Parameters
        ----------
        fractions : sequence of float, optional
            Share of the groups in every part; sums to 1. Each part gets at least one group.
        n_test : int, optional
            Two parts, the second one with this number of groups.
        groups : sequence of sequences of str, optional
            The groups of every part, chosen by hand; groups in no part are left out.
        random_state : int, RandomState instance or None
            Order in which groups are dealt out; an integer makes the split reproducible.

        Raises
        ------
        ValueError
            If not exactly one rule is given, there are too few groups for the parts, or groups
            chosen by hand are unknown or in two parts.
        """
        if sum(rule is not None for rule in (fractions, n_test, groups)) != 1:
            raise ValueError(
                "LabeledSequences.split_by_group needs exactly one of fractions, n_test and groups."
            )
        if groups is None:
            from sklearn.utils import check_random_state

            present = sorted(set(self.groups))
            order = check_random_state(random_state).permutation(len(present))
            if n_test is not None:
                if not 1 <= n_test < len(present):
                    raise ValueError(
                        f"LabeledSequences {self.name!r} needs n_test from 1 to "
                        f"{len(present) - 1}, below its number of groups, got {n_test}."
                    )
                fractions = 1.0 - n_test / len(present), n_test / len(present)
            parts = np.split(order, self._ends_of_parts(np.asarray(fractions), len(present)))
            groups = [[present[i] for i in part] for part in parts]
        wanted = [group for part in groups for group in part]
        unknown = sorted(set(wanted) - set(self.groups))
        repeated = sorted({group for group in wanted if wanted.count(group) > 1})
        if unknown or repeated or any(len(part) == 0 for part in groups):
            raise ValueError(
                f"LabeledSequences {self.name!r} needs non-empty parts of distinct groups among "
                f"{sorted(set(self.groups))}, got unknown {unknown} and repeated {repeated}."
            )
        members = [np.flatnonzero(np.isin(self.groups, list(part))) for part in groups]
        return tuple(self.select(indices) for indices in members)

    def _ends_of_parts(self, shares: NDArray, n_groups: int) -> NDArray[np.int64]:
        """Where to split the groups; rounding moves groups but leaves no part empty."""
        positive = shares.ndim == 1 and np.all(shares > 0) and np.isclose(shares.sum(), 1.0)
        if not positive or len(shares) > n_groups:
            raise ValueError(
                f"LabeledSequences {self.name!r} needs positive fractions that sum to 1 and at "
                f"least one group per part, got {shares.tolist()} of {n_groups} groups; ask for "
                "fewer or smaller parts."
            )
        counts = np.diff(np.round(np.cumsum(shares) * n_groups).astype(int), prepend=0)
        while counts.min() < 1:
            counts[counts.argmax()] -= 1
            counts[counts.argmin()] += 1
        return np.cumsum(counts)[:-1]


def runs(labels: ArrayLike) -> list[str]:
    """Label of every segment, that is of every run of equal labels, in order."""
    values = np.asarray(labels)
    return [str(value) for value in values[Partition.from_runs(values).change_points - 1]]


def name_classes(labelings: Sequence[Sequence[str]]) -> bool:
    """Whether labels name classes, rather than single segments or nothing at all.

    They do not where they are empty or one for all, where none comes back, and where all end with
    a number, none comes back in its sequence, and there are more than eight, or they count the
    segments of sequences that have not all as many: shot 1, shot 2, … Where all have as many, they
    are phases.

    Parameters
    ----------
    labelings : sequence of sequences of str
        Labels of the segments of every sequence, in order.
    """
    every = [label for labels in labelings for label in labels]
    names = set(every)
    if len(names) == 1 or len(names) == len(every):
        return False
    if any(len(set(labels)) < len(labels) for labels in labelings):
        return True
    numbers = [[name[len(name.rstrip("0123456789")) :] for name in part] for part in labelings]
    counted = all(part == [str(i + 1) for i in range(len(part))] for part in numbers)
    uneven = len({len(labels) for labels in labelings}) > 1
    worded = not any(name.isdigit() for name in names)  # bare numbers are often classes
    return not (all(map(all, numbers)) and (len(names) > 8 or (counted and uneven and worded)))


def of_parts(
    name: str,
    parts: Mapping[str, tuple[NDArray, NDArray]],
    feature_names: Sequence[str],
    groups: Sequence[str] | None = None,
) -> LabeledSequences:
    """A data set from the features and labels of every sequence, by its name.

    Every sequence is a separate group if no ``groups`` are given, which are in the same order.
    """
    names = list(parts)
    sequences, labels = ([part[i] for part in parts.values()] for i in (0, 1))
    groups = names if groups is None else list(groups)
    return LabeledSequences(name, sequences, labels, groups, names, list(feature_names))


def of_change_points(
    name: str,
    arrays: Mapping[str, NDArray],
    changes: Mapping[str, ArrayLike],
    feature_names: Sequence[str],
) -> LabeledSequences:
    """A data set labeled by segment numbers, from the first samples of new segments.

    Raises
    ------
    ValueError
        If a sequence is missing, or change-points are not inside it.
    """
    parts = {}
    for key, starts in changes.items():
        try:
            X = arrays[key].reshape(len(arrays[key]), -1)
            ends = np.asarray(starts, dtype=np.int64)
            parts[key] = X, Partition.from_change_points(ends, len(X)).labels
        except (KeyError, ValueError) as error:
            raise ValueError(
                f"Data set {name!r} needs a sequence {key!r} with its change-points: {error}; get "
                "the files again."
            ) from error
    return of_parts(name, parts, feature_names)


def with_columns(
    data: LabeledSequences, names: Sequence[str], derive: Callable[..., NDArray], window: int
) -> LabeledSequences:
    """The data set with more columns, ``derive`` of the others of every sequence and the window.

    Raises
    ------
    ValueError
        If the window is not odd and positive, in the name of the data set's loader.
    """
    if window < 1 or window % 2 == 0:
        raise ValueError(f"load_{data.name} needs an odd window of 1 sample or more, got {window}.")
    sequences = [np.hstack([X, derive(X, window)]) for X in data.sequences]
    return replace(data, sequences=sequences, feature_names=[*data.feature_names, *names])


def covering_labels(table: pd.DataFrame, lengths: Mapping[str, int]) -> dict[str, NDArray]:
    """Label of every sample of every sequence from segments that cover its samples in order.

    Parameters
    ----------
    table : table
        Of every segment its ``sequence``, its first sample ``start``, the one after its last,
        ``end``, and its ``label``.
    lengths : mapping
        Samples T of every sequence, by its name.

    Raises
    ------
    ValueError
        If a segment is empty, or the segments leave a gap, overlap or do not end with T.
    """
    labels = {}
    for name, n_samples in lengths.items():
        rows = table[table["sequence"] == name]
        start, end = rows["start"].to_numpy(), rows["end"].to_numpy()
        edges, sizes = np.append(start, n_samples), end - start
        if not len(rows) or edges[0] != 0 or np.any(edges[1:] != end) or sizes.min() < 1:
            raise ValueError(
                f"Sequence {name!r} needs non-empty segments that cover its {n_samples} samples in "
                f"order, got {len(rows)} segments up to {end.max(initial=0)}; get the files again."
            )
        labels[name] = np.repeat(rows["label"].to_numpy(dtype=str), sizes)
    return labels


def moving_mean(X: NDArray, window: int) -> NDArray[np.float64]:
    """Mean over a centered odd window of every column, ends repeated, (T, P) -> (T, P), O(T P)."""
    from scipy.ndimage import uniform_filter1d

    return np.asarray(uniform_filter1d(X, window, axis=0, mode="nearest"))
