"""Reading what users pass to estimators: data sets, labels, weights and numbers of clusters.

Everything is checked here, once: what comes out of these functions is not checked again.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from inspect import signature
from typing import Any, ClassVar, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from metriclearn.problem.knowledge import PartialPartition
from metriclearn.problem.partition import Partition, factorize, label_array, label_values
from metriclearn.running.executors import Executor
from metriclearn.running.parameters import check_parameters, number, real_array, shown
from metriclearn.running.stored import StoredArrays

Data = TypeVar("Data", bound="DataSets")

# Relative to the largest weight; smaller ones change a sum only by rounding.
_LEAST_WEIGHT = 1e-9
# Types that have a length, but are not lists of labels or numbers.
_NESTED = (list, np.ndarray)
_NO_LIST = (str, bytes, Mapping, Set, type)


class Measures(NamedTuple):
    """Lengths (N,) of the data sets, and for each feature (N, P) the largest absolute value and the
    standard deviation around the mean.
    """

    lengths: NDArray[np.int64]
    magnitudes: NDArray[np.float64]
    deviations: NDArray[np.float64]


def measure(arrays: Iterable[NDArray]) -> Measures:
    """One pass over the data sets, one of them in memory at a time; O(Σ T_i P)."""
    rows = []
    for X in arrays:
        magnitude = np.maximum(np.max(X, axis=0), -np.min(X, axis=0))
        # Dividing by the unit keeps squares within range.
        unit = np.where(magnitude > 0, magnitude, 1.0)
        rows.append((len(X), magnitude, unit * np.std(X / unit, axis=0)))
    return Measures(*map(np.array, zip(*rows)))


class NamedColumns(np.ndarray):
    """An array (T, P) whose ``columns`` have names, as those of a data frame have."""

    columns: Any

    @classmethod
    def of(cls, array: NDArray, names: Iterable[str]) -> NamedColumns:
        """The array with names (P,) of its columns; not a copy."""
        named = array.view(cls)
        named.columns = list(names)
        return named


@dataclass(frozen=True)
class DataSets:
    """One or several (T_i, P) arrays.

    Attributes
    ----------
    arrays : list of float64 arrays or StoredArrays
        The latter, of :mod:`metriclearn.running.stored`, are read when they are asked for.
    single : bool
        Whether the user passed one (T, P) array, and so expects one result.
    feature_names : array of str or None
        Column names, where the data came as data frames.
    executor : Executor, optional
        Reads and measures stored arrays.
    """

    arrays: StoredArrays | list[NDArray[np.float64]]
    single: bool
    feature_names: NDArray | None
    executor: Executor | None = field(default=None, kw_only=True)
    items: ClassVar[str] = "samples"
    # For data with another number of features than in fitting.
    remedy: ClassVar[str] = ""

    @property
    def n_features(self) -> int:
        """P, the number of features."""
        if isinstance(self.arrays, StoredArrays):
            return self.arrays.n_features
        return self.arrays[0].shape[1]

    @cached_property
    def measures(self) -> Measures:
        """Length, magnitude and deviation of every data set, in one pass."""
        if isinstance(self.arrays, StoredArrays) and self.executor is not None:
            parts = self.executor.each(self.executor.place(self.arrays.parts()), measure)
            return Measures(*map(np.concatenate, zip(*parts)))
        return measure(self.arrays)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """T_i, (N,)."""
        if isinstance(self.arrays, StoredArrays):
            return self.measures.lengths
        return np.array(list(map(len, self.arrays)))

    def subset(self, places: NDArray) -> Self:
        """The data sets at the given places, measured already."""
        if isinstance(self.arrays, StoredArrays):
            chosen = replace(self, arrays=self.arrays.subset(places))
        else:
            chosen = replace(self, arrays=[self.arrays[i] for i in places])
        chosen.__dict__["measures"] = Measures(*[column[places] for column in self.measures])
        return chosen

    def pooled_deviation(self, who: str, weights: NDArray | None = None) -> NDArray:
        """Standard deviations around the means of the data sets, pooled over samples, (P,).

        ∞ where a feature is constant in every data set: divided by it, it has no weight.

        Parameters
        ----------
        who : str
            Name used in errors.
        weights : array (N,), optional
            Of the data sets; equal by default.

        Raises
        ------
        ValueError
            If all features are constant in every data set.
        """
        lengths, magnitudes, deviations = self.measures
        sizes = lengths * (1.0 if weights is None else weights)
        magnitude = magnitudes.max(axis=0)
        # Dividing by the unit keeps squares within range.
        unit = np.where(magnitude > 0, magnitude, 1.0)
        ratios = np.sqrt(np.average((deviations / unit) ** 2, axis=0, weights=sizes))
        varies = ratios > 1e-13
        if not varies.any():
            raise ValueError(
                f"{who} needs features that vary within some data set, but all {len(ratios)} are "
                f"constant in each, of {lengths.sum()} sample(s) together; pass other features."
            )
        return np.where(varies, ratios * unit, np.inf)

    def varying(self, estimator: Any) -> tuple[Self, NDArray]:
        """The data sets without features that are constant in each, and whether each is (P,)."""
        who = type(estimator).__name__
        deviations = self.pooled_deviation(who)
        varies = np.isfinite(deviations)
        check_range(who, "features with standard deviations", deviations[varies], 1e100)
        note_constant(estimator, varies)
        if varies.all():
            return self, varies
        arrays: Any = [array[:, varies] for array in self.arrays]
        return replace(self, arrays=arrays), varies


def _check_rows(who: str, X: list[Any]) -> None:
    """Rows of one length, if all are lists."""
    if all(isinstance(row, (list, tuple)) for row in X):
        sizes = sorted({len(row) for row in X})
        if len(sizes) > 1:
            raise ValueError(
                f"{who} reads a list of lists as the rows of one data set, but they have from "
                f"{sizes[0]} to {sizes[-1]} numbers; pass several signals as arrays, "
                "[np.array(x) for x in X]."
            )


def read_data_sets(
    who: str,
    X: Any,
    *,
    single_precision: bool = False,
    missing: bool = False,
    executor: Executor | None = None,
) -> DataSets:
    """Check data sets: same features everywhere, finite numbers, at least one sample.

    Parameters
    ----------
    who : str
        Name used in errors.
    X : (T, P) array-like or data frame, (N, T, P) array, or a sequence of (T_i, P) ones
        A (T,) array is a signal with one feature, alone, in a list and in an array of objects.
        A sequence that is no list or tuple, but has ``__len__`` and ``__getitem__``, is asked for
        its data sets one at a time, and they are checked then.
    single_precision : bool
        Leave float32 arrays as they are; otherwise all become float64.
    missing : bool
        Let NaN stand for what is unknown; the caller handles it.
    executor : Executor, optional
        Where a sequence that is asked for its data sets one at a time is measured.

    Raises
    ------
    ValueError
        Naming the data set, and the row and feature where one is at fault.
    """
    if X is None:
        raise ValueError(f"{who} needs data, got none; pass X, such as a list of (T, P) arrays.")
    sort = _sort_of(X)
    allow = ("missing",) if missing else ()
    checked = partial(real_array, who, single_precision=single_precision, signals=True, allow=allow)
    if sort == "lazy":

        def read(item: Any, i: int, n_features: int | None) -> NDArray:
            return checked(f"data set {i}", item, n_features=n_features)

        return DataSets(StoredArrays(X, read), False, None, executor=executor)
    single = sort == "one"
    if single and isinstance(X, list):
        _check_rows(who, X)
    items = [X] if single else list(X)
    if not items:
        raise ValueError(f"{who} needs at least one data set, got an empty list.")
    arrays: list[NDArray] = []
    first: NDArray | None = None
    for i, item in enumerate(items):
        place = "the data set" if single else f"data set {i}"
        n_features = arrays[0].shape[1] if arrays else None
        arrays.append(checked(place, item, n_features=n_features))
        columns = getattr(item, "columns", None)
        names = None if columns is None else np.asarray(columns, dtype=object)
        if names is None or not all(isinstance(name, str) for name in names):
            continue
        first = names if i == 0 else first
        if first is not None and list(names) != list(first):
            raise ValueError(
                f"{who} needs the same feature names in the same order, but data set {i} has "
                f"{list(names)[:5]} where data set 0 has {list(first)[:5]}."
            )
    return DataSets(arrays, single, first)


def check_features(estimator: Any, data: Data) -> Data:
    """Return data, if they have the features that an estimator has been fitted to.

    Raises
    ------
    NotFittedError
        If it has not been.
    ValueError
        If their number is another, or their names.
    """
    check_is_fitted(estimator)
    who, expected = type(estimator).__name__, estimator.n_features_in_
    if data.n_features != expected:
        one = " Reshape your data: a 1-D array is a signal of one feature, not a sample."
        raise ValueError(
            f"X has {data.n_features} features, but {who} is expecting {expected} features as "
            f"input.{data.remedy or one * (data.n_features == 1)}"
        )
    fitted = getattr(estimator, "feature_names_in_", None)
    names = data.feature_names
    if fitted is not None and names is not None and list(fitted) != list(names):
        raise ValueError(
            f"{who} needs the feature names it was fitted with, in that order; the "
            "feature names should match those that were passed during fit."
        )
    return data


def check_range(who: str, what: str, values: NDArray, most: float) -> None:
    """Raise unless positive ``values`` lie from 1/``most`` to ``most``, so that squares add up."""
    if values.size and not 1.0 / most <= values.min() <= values.max() <= most:
        raise ValueError(
            f"{who} needs {what} between {1.0 / most:g} and {most:g}, whose squares can be added, "
            f"got {values.min():.3g} to {values.max():.3g}; change the unit."
        )


def keep_features(estimator: Any, data: DataSets) -> None:
    """Keep number and names of the features an estimator is fitted to, as scikit-learn does.

    States learned in an earlier fit belong to the old metric, so they are removed.
    """
    estimator.n_features_in_ = data.n_features
    vars(estimator).pop("states_", None)
    if data.feature_names is not None:
        estimator.feature_names_in_ = data.feature_names
    elif hasattr(estimator, "feature_names_in_"):
        del estimator.feature_names_in_


def note_constant(estimator: Any, varies: NDArray, stacklevel: int = 4) -> None:
    """Warn of features (P,) that get no weight because they do not vary, by their names."""
    constant = np.flatnonzero(~varies)
    if len(constant):
        named = getattr(estimator, "feature_names_in_", np.arange(len(varies)))[constant]
        warnings.warn(
            f"{type(estimator).__name__} gives no weight to {len(constant)} feature(s) that are "
            f"constant in every data set ({', '.join(map(str, named[:5]))}"
            f"{', …' if len(constant) > 5 else ''}); remove them, or fit to data in which they "
            "vary.",
            stacklevel=stacklevel,
        )


def list_labelings(who: str, y: Any, data: DataSets) -> Sequence[Any]:
    """One labeling per data set, not yet read.

    Raises
    ------
    ValueError
        If there are none, or others than one for each data set.
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
    except Exception:  # an object fails in whatever way it likes
        sized = False
    if not data.single and (isinstance(y, _NO_LIST) or not sized):
        raise ValueError(
            f"{who} needs one labeling per data set, got {len(data.arrays)} data set(s) and "
            f"a {type(y).__name__}; pass a list of label arrays."
        )
    if len(labelings) != len(data.arrays):
        raise ValueError(
            f"{who} needs one labeling per data set, got {len(data.arrays)} data set(s) and "
            f"{len(labelings)} labeling(s); pass a list of one array or list for each data set."
        )
    return labelings


def read_labelings(
    who: str, y: Any, data: DataSets, *, segments: bool, partial: bool = False
) -> list[Any]:
    """Check one labeling per data set, as long as it, and read each as a partition.

    Parameters
    ----------
    who : str
        Name used in errors.
    y : sequence of (T_i,) labels, of Partition or of PartialPartition; or one
        For segments also change-points as in ruptures, whole numbers that rise to T_i. No list
        can be read in two ways: T_i of them, 1, 2, …, T_i, are change-points and labels of one
        and the same partition.
    data : DataSets
    segments : bool
        Whether every run of equal labels is a cluster; else equal labels are one cluster,
        wherever they stand.
    partial : bool
        Whether −1, and a PartialPartition, may say that not all is known.

    Returns
    -------
    list of Partition; of PartialPartition if ``partial`` and some labels are unknown

    Raises
    ------
    ValueError
        If lengths differ, or labels are missing (None or NaN; −1 unless ``partial``).
    """
    truths: list[Any] = []
    for i, (length, labels) in enumerate(zip(data.lengths, list_labelings(who, y, data))):
        place = "the data set" if data.single else f"data set {i}"
        truth = _read_labeling(who, labels, place, partial, segments, length)
        if truth.n_samples != length:
            ends = f", or change-points that rise to {length}" if segments else ""
            raise ValueError(
                f"{who} needs one label per sample, got {truth.n_samples} labels for the "
                f"{length} samples of {place}; pass {length} labels{ends}."
            )
        truths.append(truth)
    return alike(truths)


def alike(truths: list[Any]) -> list[Any]:
    """Partitions, or all of them partial where one is."""
    if PartialPartition not in map(type, truths):
        return truths
    given = PartialPartition.from_partition
    return [given(truth) if isinstance(truth, Partition) else truth for truth in truths]


def refuse_unlabeled(who: str, truths: Iterable[Partition | PartialPartition]) -> None:
    """Raise a ValueError if labels say nothing about any data set."""
    if all(isinstance(truth, PartialPartition) and not truth.constraints for truth in truths):
        raise ValueError(
            f"{who} needs labels, but all labels of all data sets are unknown (−1); label some."
        )


def _read_labeling(
    who: str, labels: Any, place: str, partial: bool, segments: bool, length: int
) -> Partition | PartialPartition:
    if isinstance(labels, Partition):
        return labels
    if isinstance(labels, _NO_LIST):
        raise ValueError(
            f"{who} needs a list of labels for {place}, got a {type(labels).__name__}; pass one."
        )
    if not isinstance(labels, PartialPartition):
        try:
            values = label_values(labels)
            if segments and len(values) < length and values[-1] == length:
                # An array of objects may hold whole numbers.
                ends = np.asarray(values.tolist())
                if ends.dtype.kind == "i" and np.all(np.diff(ends, prepend=0) > 0):
                    return Partition(ends=ends)
            if not np.any(values == -1):
                return Partition.from_runs(values) if segments else Partition.from_labels(values)
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


def read_labeled(
    estimator: Any, X: Any, y: Any = None, *, segments: bool | None = None, partial: bool = False
) -> tuple[Any, DataSets, list[Any]]:
    """Check parameters, data and, unless ``segments`` is None, labels.

    Returns
    -------
    tuple of a copy of the estimator, to be fitted, with the names of features; data sets; truths
        A fit that works on the copy, and takes over its attributes at the end, changes nothing if
        it fails.
    """
    check_parameters(estimator)
    fitted, who = copy.copy(estimator), type(estimator).__name__
    # Set by tune_penalty for another penalty.
    vars(fitted).pop("penalty_unit_", None)
    data = read_data_sets(who, X)
    truths: list[Any] = []
    if segments is not None:
        truths = read_labelings(who, y, data, segments=segments, partial=partial)
    keep_features(fitted, data)
    return fitted, data, truths


def read_counts(
    who: str, name: str, given: Any, data: Any, *, optional: bool, min_size: int = 1
) -> list[int | None]:
    """One number of clusters, or None where that is ``optional``, per data set.

    Parameters
    ----------
    who, name : str
        Of the estimator and of the parameter, for errors.
    given : int, None, or a sequence of them
    data : DataSets or Graphs
        Whose T_i samples, or nodes, hold at most T_i / ``min_size`` clusters, and always one.
    optional : bool
    min_size : int

    Raises
    ------
    ValueError
        If there are not as many numbers as data sets, or one is not whole or out of range.
    """
    if isinstance(given, np.ndarray) and given.ndim == 0:
        given = given.item()
    listed = hasattr(given, "__len__") and hasattr(given, "__iter__")
    several = listed and not isinstance(given, _NO_LIST)
    counts = list(given) if several else [given] * len(data.arrays)
    if len(counts) != len(data.arrays):
        raise ValueError(
            f"{who} needs one {name} for each of the {len(data.arrays)} data sets, or one for "
            f"all, got {len(counts)}."
        )
    if optional and {*map(type, counts)} == {type(None)}:
        # The data may be on disk, so they are not read here.
        return counts
    for i, (count, length) in enumerate(zip(counts, data.lengths)):
        most = max(1, length // min_size)
        if not (number(1, most, whole=True).accepts(count) or (optional and count is None)):
            raise ValueError(
                f"{who} needs a whole {name} from 1 to {most} for the {length} {data.items} of "
                f"data set {i}, got {count!r}."
            )
    return counts


def read_weights(who: str, sample_weight: ArrayLike | None, n: int) -> NDArray | None:
    """Check one nonnegative weight per data set, not all zero."""
    if sample_weight is None:
        return None
    weights = real_array(who, "sample_weight", sample_weight, 1)
    if weights.shape != (n,) or not np.all(weights >= 0) or not 0 < weights.sum() < np.inf:
        raise ValueError(
            f"{who} needs sample_weight with one finite nonnegative number for each of the {n} "
            f"data sets, not all zero, got shape {weights.shape}."
        )
    least = weights[weights > 0].min()
    if least < _LEAST_WEIGHT * weights.max():
        raise ValueError(
            f"{who} needs positive sample_weight within a factor of {1 / _LEAST_WEIGHT:g} of each "
            f"other, got {least:g} and {weights.max():g}; leave data sets out by a weight of 0."
        )
    return weights


def read_groups(who: str, groups: Any, n: int) -> NDArray[np.int64]:
    """Number of the group of each of ``n`` sequences, which are alone by default, (n,)."""
    units = np.arange(n)
    if groups is not None:
        try:
            names = label_values(groups)
        except ValueError as error:
            raise ValueError(
                f"{who} needs groups=[…] with a name or a number for each of {n} sequence(s), none "
                f"of them missing, got {shown(groups)}."
            ) from error
        names = factorize(names) if names.dtype == object else names
        units = np.unique(names, return_inverse=True)[1]
    if np.shape(units) != (n,) or units.max() == 0:
        raise ValueError(
            f"{who} needs a list of sequences in two groups and more, one group for each, got {n} "
            f"sequence(s) and groups={shown(groups)}."
        )
    return units


def read_names(
    who: str, y: Any, data: DataSets, truths: Sequence[Any], classes: NDArray | None = None
) -> tuple[list[NDArray[np.int64]], NDArray]:
    """The name of every sample as a code, −1 where it is unknown, and the names (C,), sorted.

    Labels are names that mean the same in all data sets. Partitions, change-points and partial
    labels have none.

    Parameters
    ----------
    who : str
        Name used in errors.
    y : labelings
        One for each data set.
    data : DataSets
    truths : list of Partition or PartialPartition
        The labelings, as they were read.
    classes : array (C,), optional
        The names that are possible, sorted; by default those that occur.

    Raises
    ------
    ValueError
        If there are no names, they cannot be sorted, or they are not among the classes.
    """
    given = []
    for labeling, truth in zip(list_labelings(who, y, data), truths):
        values = np.full(truth.n_samples, -1)
        if not isinstance(labeling, (Partition, PartialPartition)):
            labels = label_array(labeling)
            values = labels if len(labels) == truth.n_samples else values
        given.append(values)
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


def read_parts(kind: type, models: Any, parts: Any) -> list[tuple[Any, Any]]:
    """Pairs of a model of one kind, and its own data and labels (X, y), of the first models.

    Raises
    ------
    ValueError
        Unless there are as many pairs (X, y) as models, or fewer.
    """
    listed = all(isinstance(one, (list, tuple)) for one in (models, parts))
    if (
        not (listed and len(models) >= len(parts) > 0)
        or not all(isinstance(model, kind) for model in models)
        or not all(isinstance(part, (list, tuple)) and len(part) == 2 for part in parts)
    ):
        raise ValueError(
            f"{kind.__name__} needs a list of fitted models and a list of pairs (X, y), at most "
            f"one for each model, got {shown(models)} and {shown(parts)}."
        )
    return list(zip(models, parts))


def refuse_unknown(estimator: Any, unknown: Mapping[str, Any]) -> None:
    """Raise a TypeError for arguments that ``fit`` does not have."""
    if unknown:
        rows = signature(estimator.fit).parameters.values()
        names = [row.name for row in rows if row.kind is not row.VAR_KEYWORD]
        raise TypeError(
            f"{type(estimator).__name__} needs {', '.join(names)} as arguments of fit, got "
            f"{', '.join(unknown)}; pass parameters when you make the estimator."
        )


def _sort_of(X: Any) -> str:
    """Whether X is "one" data set, or a sequence of "several", or a "lazy" one.

    A lazy sequence has ``__len__`` and ``__getitem__``, but is no array, list or table. Several
    data sets are a list, or an array of objects, with an array, a table or a list of lists in it,
    or an array of three dimensions.
    """
    if hasattr(X, "columns"):
        return "one"
    if hasattr(X, "ndim"):
        if X.ndim != 1 or X.dtype != object:
            return "several" if X.ndim == 3 else "one"
        X = list(X)
    listed = isinstance(X, (list, tuple, str, bytes, range, Mapping))
    if not listed and not hasattr(X, "toarray") and not hasattr(X, "__array__"):
        return "lazy" if hasattr(X, "__len__") and hasattr(X, "__getitem__") else "one"
    if not isinstance(X, Sequence):
        return "one"
    for item in X:
        table = isinstance(item, Sequence) and len(item) > 0 and isinstance(item[0], Sequence)
        shape = getattr(item, "shape", ())
        if table or (isinstance(shape, tuple) and len(shape) in (1, 2)):
            return "several"
    return "one" if len(X) > 0 else "several"
