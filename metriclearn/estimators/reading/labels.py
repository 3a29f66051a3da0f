"""Reading the labels, names, numbers of clusters, weights and groups that users pass.

Everything is checked once, here; the results of these functions are not checked again.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence, Set
from itertools import chain, groupby
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metriclearn.datasets.segment_labels import name_classes
from metriclearn.estimators.reading.data_sets import DataSets, keep_features, read_data_sets
from metriclearn.problem.named_segments import PartialNames
from metriclearn.problem.partial_labels import LabeledPartial, PartialPartition
from metriclearn.problem.partition import LabeledPartition, Partition, label_array, label_values
from metriclearn.running.notes import note
from metriclearn.running.parameters import Whole, check_parameters
from metriclearn.running.values import check_each, check_weights, shown, text, whole
from metriclearn.views.gaps import Labels

# Entries of tables for a sample without a label.
NOBODY = {"", "-1", "-1.0", "nan", "<na>"}
# Weights below this fraction of the largest weight change a sum only by rounding.
_LEAST_WEIGHT = 1e-9
# Types that have a length, but are not lists of labels or numbers.
_NESTED = (list, np.ndarray)
_NO_LIST = (str, bytes, Mapping, Set, type)


def list_labelings(who: str, y: Any, data: DataSets) -> Sequence[Any]:
    """Check that there is one labeling for each data set, and return the labelings unchanged.

    Raises
    ------
    ValueError
        If y is None, or is not a list with one labeling for each data set.
    """
    if y is None:
        raise ValueError(f"{who} requires y to be passed, but the target y is None; pass labels.")
    labelings = [y] if data.single else y
    listed = isinstance(y, (list, tuple)) and len(y) and isinstance(y[0], _NESTED)
    if data.single and listed and data.items == "samples":
        raise ValueError(
            f"{who} needs one label per sample, got several for each of the {len(data.arrays[0])} "
            "rows of one data set; pass several recordings as arrays, [np.array(x) for x in X]."
        )
    try:
        sized = len(labelings) >= 0 and not hasattr(y, "toarray")
    except Exception:  # a foreign object may raise any error
        sized = False
    if not data.single and (isinstance(y, _NO_LIST) or not sized):
        raise ValueError(
            f"{who} needs one labeling per data set, got {len(data.arrays)} data set(s) and "
            f"a {type(y).__name__}; pass a list of label arrays."
        )
    if len(labelings) != len(data.arrays):
        raise ValueError(
            f"{who} needs one labeling for each of the {len(data.arrays)} data sets, got "
            f"{len(labelings)}; pass a list of one array or list for each data set."
        )
    return labelings


def none_as_unlabeled(y: Any, data: DataSets) -> Any:
    """Replace None in a list of labelings by −1 for all samples of the data set."""
    if not isinstance(y, (list, tuple)) or len(y) != len(data.arrays):
        return y
    return [np.full(len(A), -1) if one is None else one for one, A in zip(y, data.arrays)]


def read_labelings(
    who: str, y: Any, data: DataSets, *, segments: bool, partial: bool = False
) -> list[Any]:
    """Convert one labeling for each data set to a partition, and check its length.

    Parameters
    ----------
    who : str
        Name used in errors.
    y : sequence of (T_i,) labels, of Partition or of PartialPartition; or a single one
        With ``segments``, a labeling may also be a list of change-points as in ruptures: increasing
        whole numbers up to T_i. Only the list 1, 2, …, T_i can be read as labels and as
        change-points, and both readings mean the same partition.
    data : DataSets
    segments : bool
        Whether every run of equal labels is a cluster. If not, all samples with equal labels form
        one cluster.
    partial : bool
        Whether labels may be partial: −1 for unknown labels, or a PartialPartition.

    Returns
    -------
    list of Partition, or list of PartialPartition if ``partial`` and some labels are unknown

    Raises
    ------
    ValueError
        If a labeling and its data set differ in length, or if labels are missing. Missing labels
        are None, NaN and, unless ``partial``, −1.
    """
    truths: list[Any] = []
    for i, (length, labels) in enumerate(zip(data.lengths, list_labelings(who, y, data))):
        place = "the data set" if data.single else f"data set {i}"
        truth = _read_labeling(who, labels, place, partial, segments, length)
        if truth.n_samples != length:
            ends = f", or change-points that rise to {length}" if segments else ""
            if isinstance(labels, (list, tuple)) and isinstance(labels[0], tuple):
                ends += "; metriclearn.datasets.row_labels converts (start, end, label)"
            raise ValueError(
                f"{who} needs one label per sample, got {truth.n_samples} labels for the "
                f"{length} samples of {place}; pass {length} labels{ends}."
            )
        truths.append(truth)
    return alike(truths)


def alike(truths: list[Any]) -> list[Any]:
    """Return the partitions, but convert all to PartialPartition if one of them is partial."""
    if not any(isinstance(truth, PartialPartition) for truth in truths):
        return truths
    return list(map(PartialPartition.from_partition, truths))


def _has_labels(truths: Iterable[Partition | PartialPartition]) -> bool:
    return any(isinstance(truth, Partition) or truth.constraints for truth in truths)


def note_empty_score(who: str, truths: Iterable[Partition | PartialPartition]) -> None:
    """Warn if no data set has a label, so that a score is 0 whatever was predicted."""
    if not _has_labels(truths):
        note(
            f"{who} has the best score, 0, for every answer, because all labels of all data sets "
            "are unknown (−1); pass data sets with labels."
        )


def refuse_unlabeled(who: str, truths: Iterable[Partition | PartialPartition]) -> None:
    """Raise a ValueError if no data set has a label."""
    if not _has_labels(truths):
        raise ValueError(
            f"{who} needs labels, but all labels of all data sets are unknown (−1); label some."
        )


def refuse_sets_without_labels(who: str, n_known: Iterable[int]) -> None:
    """Raise a ValueError if a data set has no label; ``n_known`` are their numbers of labels."""
    for i, n in enumerate(n_known):
        if n == 0:
            raise ValueError(
                f"{who} needs some labels in every data set, but they cover no sample of data set "
                f"{i}; remove it."
            )


def refuse_regions(who: str, truths: Iterable[Partition | PartialPartition]) -> None:
    """Raise a ValueError if no row is in a segment that is known."""
    if not any(truth.pieces.stretches for truth in truths):
        raise ValueError(
            f"{who} needs rows whose segments are known, such as those on both sides of a "
            "boundary, got only regions with changes somewhere inside; label such rows (−1 "
            "elsewhere), or pass a learner that finds the changes: "
            "members=metriclearn.ChangePointMetricLearner()."
        )


def _read_labeling(
    who: str, labels: Any, place: str, partial: bool, segments: bool, length: int
) -> Partition | PartialPartition:
    if isinstance(labels, LabeledPartition):
        return Partition(ends=labels.change_points)
    if isinstance(labels, Partition):
        return labels
    if isinstance(labels, _NO_LIST):
        raise ValueError(
            f"{who} needs a list of labels for {place}, got a {type(labels).__name__}; pass one."
        )
    if not isinstance(labels, PartialPartition):
        try:
            values = label_values(labels)
            if partial:
                _note_texts(values)
            last = values[-1]  # whole numbers may be in an array of objects
            if segments and len(values) < length and isinstance(last, Integral) and last == length:
                ends = np.asarray(values.tolist())
                if ends.dtype.kind == "i" and np.all(np.diff(ends, prepend=0) > 0):
                    return Partition(ends=ends)
            if not np.any(values == -1):
                if not segments:
                    return Partition.from_labels(values)
                # This does what Partition.from_runs does, without checking the labels again.
                changes = np.flatnonzero(values[1:] != values[:-1]) + 1
                return Partition(ends=np.append(changes, len(values)))
            labels = PartialPartition(len(values), values)
        except ValueError as error:
            raise ValueError(f"{who}, labels of {place}: {error}") from error
    known = labels.segmentation() if segments else None
    if not segments and np.all(labels.labels >= 0):
        known = Partition.from_labels(labels.labels)
    if known is None and not partial:
        raise ValueError(
            f"{who} needs every sample of {place} labeled, got {labels!r}, which leaves some of it "
            "open (−1); drop such samples or give each gap a different label."
        )
    return known or labels


def _note_texts(labels: NDArray) -> None:
    """Note texts such as "-1", which numpy makes of the number −1 beside other texts."""
    if labels.dtype.kind in "UOT":
        given = labels[np.append(True, labels[1:] != labels[:-1])].tolist()
        texts = {one for one in given if isinstance(one, str)}
        if nobody := sorted(one for one in texts if one.strip().casefold() in NOBODY):
            note(
                f"the label {nobody[0]!r} is a text, so it counts as a class; write the number −1 "
                "in an array of objects for rows without a label."
            )


def read_labeled(
    estimator: Any,
    X: Any,
    y: Any = None,
    *,
    segments: bool | None = None,
    partial: bool = False,
    missing: bool = False,
) -> tuple[Any, DataSets, list[Any]]:
    """Check and read the parameters and data of an estimator, and its labels if there are any.

    ``segments=None`` means that there are no labels, and ``missing`` that NaN is allowed.

    Returns
    -------
    fitted : estimator
        A copy of the estimator that knows the features of the data. ``fit`` works on this copy and
        takes over its attributes at the end, so a fit that fails leaves the estimator unchanged.
    data : DataSets
    truths : list of Partition or PartialPartition
        The labels; empty if ``segments`` is None.
    """
    check_parameters(estimator)
    fitted, who = copy.copy(estimator), type(estimator).__name__
    data = read_data_sets(who, X, missing=missing)
    truths: list[Any] = []
    if segments is not None:
        truths = read_labelings(who, y, data, segments=segments, partial=partial)
    keep_features(fitted, data)
    return fitted, data, truths


def read_counts(
    who: str, name: str, given: Any, data: Any, *, optional: bool, min_size: int = 1
) -> list[int | None]:
    """Read the number of clusters of each data set, or None if this is allowed.

    Parameters
    ----------
    who, name : str
        Names of the estimator and of the parameter, for errors.
    given : int, None, or a sequence of int
    data : DataSets or Graphs
        A data set of T_i samples or nodes may have up to T_i / ``min_size`` clusters. One cluster
        is always allowed.
    optional : bool
        Whether None is allowed in place of a number.
    min_size : int
        Smallest number of samples in a cluster.

    Raises
    ------
    ValueError
        If there are not as many numbers as data sets, or if a number is not whole or is out of
        range.
    """
    if isinstance(given, np.ndarray) and given.ndim == 0:
        given = given.item()
    listed = hasattr(given, "__len__") and hasattr(given, "__iter__")
    several = listed and not isinstance(given, _NO_LIST)
    counts = list(given) if several else [given] * len(data.arrays)
    check_each(who, name, len(counts), "data sets", len(data.arrays))
    if optional and {*map(type, counts)} == {type(None)}:
        # The data may be on disk, so we do not read their lengths.
        return counts
    for i, (count, length) in enumerate(zip(counts, data.lengths)):
        most = max(1, length // min_size)
        if not (Whole(1, most).accepts(count) or (optional and count is None)):
            raise ValueError(
                f"{who} needs a whole {name} from 1 to {most} for the {length} {data.items} of "
                f"data set {i}, got {count!r}."
            )
    return [None if count is None else whole(count) for count in counts]


def read_weights(who: str, sample_weight: ArrayLike | None, n: int) -> NDArray | None:
    """Check that each data set has one nonnegative weight, and that not all weights are zero."""
    if sample_weight is None:
        return None
    weights = check_weights(who, "sample_weight", sample_weight, "data sets", n)
    least = weights[weights > 0].min()
    if least < _LEAST_WEIGHT * weights.max():
        raise ValueError(
            f"{who} needs positive sample_weight within a factor of {1 / _LEAST_WEIGHT:g} of each "
            f"other, got {least:g} and {weights.max():g}; leave data sets out by a weight of 0."
        )
    return weights


def sample_labels(labeling: Any, length: int) -> NDArray | None:
    """Return the labels of the samples, (T,), or None if there is no label for each sample.

    Partitions without labels, change-points and PartialPartitions have no label for each sample.
    """
    if isinstance(labeling, (LabeledPartition, LabeledPartial)):
        return labeling.sample_labels
    if isinstance(labeling, (Partition, PartialPartition)):
        return None
    values = label_array(labeling)
    return values if len(values) == length else None


def are_classes(known: Sequence[NDArray], numbered: bool = True) -> bool:
    """Return whether labels, the known ones of each recording, name classes.

    If ``numbered``, numbers that only rise within each of several recordings count segments, and
    those that fall name classes. For all others :func:`name_classes` says whether they do.
    """
    used = [one[Partition.from_runs(one).change_points - 1] for one in known if len(one)]
    numbers = all(np.array(one.tolist()).dtype.kind in "biuf" for one in used)
    if numbered and numbers and len(used) > 1:
        return any(np.any(np.diff(one.astype(float)) < 0) for one in used)
    return name_classes([list(map(str, one)) for one in used])


def read_names(
    who: str, y: Any, data: DataSets, truths: Sequence[Any], classes: NDArray | None = None
) -> tuple[list[NDArray[np.int64]], NDArray]:
    """Convert the name of every sample to a code; −1 means that the name is unknown.

    Names are labels that mean the same in all data sets. Partitions, change-points and
    PartialPartitions have no names. Also returns the sorted names (C,); the code c stands for
    names[c].

    Parameters
    ----------
    who : str
        Name used in errors.
    y : labelings
        One for each data set.
    data : DataSets
    truths : list of Partition or PartialPartition
        The labelings as partitions.
    classes : array (C,), optional
        All possible names, sorted; by default the names that occur.

    Raises
    ------
    ValueError
        If there are no names, or if they cannot be sorted or are not among ``classes``.
    """
    given = []
    for labeling, truth in zip(list_labelings(who, y, data), truths):
        labels = sample_labels(labeling, truth.n_samples)
        given.append(np.full(truth.n_samples, -1) if labels is None else labels)
    known = [values[values != -1] for values in given]
    if len({values.dtype.kind in "SU" for values in known if len(values)}) > 1:
        known = [values.astype(object) for values in known]  # numpy makes texts of numbers
    try:
        found = np.unique(np.concatenate(known))
    except TypeError as error:
        raise ValueError(
            f"{who} needs labels of one type, but {error}; pass texts, or numbers."
        ) from error
    if classes is None:
        classes = found
        note_alike(classes)
        if len(classes) == 0:
            raise ValueError(
                f"{who} needs labels of samples, whose values are names, got change-points or "
                "unknown labels only; use ChangePointMetricLearner for boundaries without names."
            )
    elif other := set(found.tolist()).difference(classes.tolist()):
        raise ValueError(
            f"{who} needs names that it has learned, {shown(classes.tolist())}, got "
            f"{shown(min(other, key=str))}; pass −1 for unknown names, or change-points."
        )
    codes = []
    for values in given:
        row = np.full(len(values), -1)
        row[values != -1] = np.searchsorted(classes, values[values != -1])
        codes.append(row)
    return codes, classes


def note_alike(names: NDArray) -> None:
    """Note names that are different classes, but that people may see as one."""
    written = sorted(set(map(str, names.tolist())), key=lambda one: (_spelled(one), one))
    alike = [list(spellings) for _, spellings in groupby(written, _spelled)]
    if twice := [spellings for spellings in alike if len(spellings) > 1]:
        note(
            f"labels {', '.join(map(repr, chain(*twice)))} count as different classes, but differ "
            "by spaces, capitals or composed letters only; write them alike if they are one."
        )


def _spelled(label: str) -> str:
    return "".join(text(label).split()).casefold()


def labels_of(who: str, y: Any, data: DataSets, truths: Sequence[Any]) -> Labels:
    """Return the labels for a view: partitions and, if labels are names of samples, their codes."""
    try:
        return Labels(truths, *read_names(who, y, data, truths))
    except ValueError:  # change-points, or regions
        return Labels(truths)


def read_known(
    who: str, known: Any, data: DataSets, classes: NDArray | None = None
) -> Sequence[PartialPartition | None]:
    """Read the labels of parts of new recordings, with which their segmentations have to agree.

    Parameters
    ----------
    who : str
        Name used in errors.
    known : labelings or None
        One for each data set, None for those without any labels; None without any.
    data : DataSets
    classes : array (C,), optional
        The names that a segmenter predicts, if it predicts names.
    """
    if known is None:
        return [None] * len(data.arrays)
    known = none_as_unlabeled(known, data)
    truths = read_labelings(who, known, data, segments=True, partial=True)
    facts = list(map(PartialPartition.from_partition, truths))
    if classes is None:
        return facts
    codes, _ = read_names(who, known, data, truths, classes)
    return list(map(PartialNames, facts, codes))
