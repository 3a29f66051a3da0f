"""Reading the data sets that users pass to estimators, and checking their features.

Everything is checked once, here; the results of these functions are not checked again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from metriclearn.running.executors import Executor
from metriclearn.running.parameters import check_changed
from metriclearn.running.stored import StoredArrays
from metriclearn.running.values import real_array, shown, sort_of, text
from metriclearn.views.columns import Measures, measure
from metriclearn.views.plain import reads_missing

Data = TypeVar("Data", bound="DataSets")


class NamedColumns(np.ndarray):
    """An array (T, P) with the names of its columns in ``columns``, as in a data frame."""

    columns: Any

    @classmethod
    def of(cls, array: NDArray, names: Iterable[str] | None) -> NDArray:
        """Return a view of the array whose columns have the given names (P,), if there are any."""
        if names is None:
            return array
        named = array.view(cls)
        named.columns = list(names)
        return named


@dataclass(frozen=True)
class DataSets:
    """One or several (T_i, P) arrays.

    Attributes
    ----------
    arrays : list of float64 arrays or StoredArrays
        Stored arrays are read only when they are needed, see :mod:`metriclearn.running.stored`.
    single : bool
        Whether the user passed one (T, P) array. If so, methods return one result, not a list.
    feature_names : array of str, int or tuple, or None
        Names of the columns if the user passed data frames whose columns are not just numbered,
        else None.
    executor : Executor, optional
        Reads stored arrays and computes their lengths and scales.
    numbered : bool
        Whether the user passed data frames whose columns are numbered 0 … P − 1.
    """

    arrays: StoredArrays | list[NDArray[np.float64]]
    single: bool
    feature_names: NDArray | None
    executor: Executor | None = field(default=None, kw_only=True)
    numbered: bool = field(default=False, kw_only=True)
    items: ClassVar[str] = "samples"
    # Added to the error message if the number of features differs from that in fitting.
    remedy: ClassVar[str] = ""

    @property
    def n_features(self) -> int:
        """P, the number of features."""
        if isinstance(self.arrays, StoredArrays):
            return self.arrays.n_features
        return self.arrays[0].shape[1]

    @cached_property
    def measures(self) -> Measures:
        """The lengths of the data sets, and the magnitudes and deviations of their features."""
        if isinstance(self.arrays, StoredArrays) and self.executor is not None:
            parts = self.executor.each(self.executor.place(self.arrays.parts()), measure)
            return Measures(*map(np.concatenate, zip(*parts)))
        return measure(self.arrays)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """The number of samples T_i of every data set, (N,)."""
        if isinstance(self.arrays, StoredArrays):
            return self.measures.lengths
        return np.array(list(map(len, self.arrays)))

    def as_passed(self, results: list[Any]) -> Any:
        """Return the only result if the user passed a single data set, else the list of results."""
        return results[0] if self.single else results

    def subset(self, places: NDArray) -> Self:
        """Return only the data sets at the given positions, with their lengths and scales."""
        if isinstance(self.arrays, StoredArrays):
            chosen = replace(self, arrays=self.arrays.subset(places))
        else:
            chosen = replace(self, arrays=[self.arrays[i] for i in places])
        chosen.__dict__["measures"] = Measures(*[column[places] for column in self.measures])
        return chosen

    def varying(self, estimator: Any) -> tuple[Self, NDArray]:
        """Leave out the features that are constant in every data set.

        Returns the data sets without these features, and an array (P,) that is true for each
        feature that is kept.
        """
        varies = self.measures.varying(estimator)
        if varies.all():
            return self, varies
        arrays: Any = [array[:, varies] for array in self.arrays]
        return replace(self, arrays=arrays), varies


def read_data_sets(
    who: str,
    X: Any,
    *,
    single_precision: bool = False,
    missing: bool = False,
    executor: Executor | None = None,
) -> DataSets:
    """Read data sets; all must have the same features, finite numbers and at least one sample.

    Parameters
    ----------
    who : str
        Name used in errors.
    X : (T, P) array-like or data frame, (N, T, P) array, or a sequence of (T_i, P) arrays
        A (T,) array is a signal with one feature. Such arrays may also be the items of a list or of
        an array of objects. Any other object with ``__len__`` and ``__getitem__`` is read and
        checked one data set at a time.
    single_precision : bool
        Whether to keep float32 arrays as they are. If not, all arrays become float64.
    missing : bool
        Whether NaN is allowed for unknown values. The caller must then handle NaN.
    executor : Executor, optional
        Computes the lengths and scales of data sets that are read one at a time.

    Raises
    ------
    ValueError
        If data cannot be used. The message names the data set and, for a bad value, its row and
        feature.
    """
    if X is None:
        raise ValueError(f"{who} needs data, got none; pass X, such as a list of (T, P) arrays.")
    if hasattr(X, "sequences"):
        kind = type(X).__name__
        raise ValueError(f"{who} needs a list of arrays or tables, got {kind}; pass X.sequences.")
    sort = sort_of(X)
    allow = ("missing",) if missing else ()
    checked = partial(real_array, who, single_precision=single_precision, signals=True, allow=allow)
    if sort == "lazy":

        def read(item: Any, i: int, n_features: int | None) -> NDArray:
            return checked(f"data set {i}", item, n_features=n_features)

        return DataSets(StoredArrays(X, read), False, None, executor=executor)
    single = sort == "one"
    if single and isinstance(X, list) and all(isinstance(row, (list, tuple)) for row in X):
        sizes = sorted({len(row) for row in X})
        if len(sizes) > 1:
            raise ValueError(
                f"{who} reads a list of lists as the rows of one data set, but they have from "
                f"{sizes[0]} to {sizes[-1]} numbers; pass several signals as arrays, "
                "[np.array(x) for x in X]."
            )
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
        if columns is None:
            continue
        names = _names_of(columns)
        first = names if i == 0 else first
        if first is not None and _are_others(names, first):
            raise ValueError(
                f"{who} needs the same feature names in the same order, but data set {i} has "
                f"{list(names)[:5]} where data set 0 has {list(first)[:5]}."
            )
    numbered = first is not None and _is_numbered(first)
    return DataSets(arrays, single, None if numbered else first, numbered=numbered)


def _names_of(columns: Any) -> NDArray[Any]:
    """Return the names of the columns of a data frame: texts, numbers or tuples, (P,)."""
    names = np.empty(len(columns), dtype=object)
    for i, name in enumerate(columns):
        name = name.item() if isinstance(name, np.generic) else name
        names[i] = name if isinstance(name, (str, int, tuple)) else str(name)
    return names


def _is_numbered(names: NDArray) -> bool:
    """Tell whether columns have the numbers 0 … P − 1, as in a table without names."""
    return list(names) == list(range(len(names)))


def _are_others(names: NDArray, known: NDArray) -> bool:
    """Tell whether names differ, or have another order. Numbers 0 … P − 1 may be no names."""
    given, expected = list(map(text, names)), list(map(text, known))
    unnamed = _is_numbered(names) or _is_numbered(known)
    return given != expected and not (unnamed and set(given) != set(expected))


def check_features(estimator: Any, data: Data) -> Data:
    """Check that data have the features to which an estimator was fitted, and return the data.

    Raises
    ------
    NotFittedError
        If the estimator is not fitted.
    ValueError
        If the number of features or their names differ, or if a parameter was set after the fit to
        a value that ``fit`` does not accept.
    """
    if not hasattr(estimator, "n_features_in_"):
        check_is_fitted(estimator)
    check_changed(estimator)
    who, expected = type(estimator).__name__, estimator.n_features_in_
    given, known = data.feature_names, getattr(estimator, "feature_names_in_", None)
    numbers, remedy = np.arange(expected, dtype=object), data.remedy
    fitted = numbers if known is None else known
    if known is not None and given is not None and {*map(text, known)} <= {*map(text, given)}:
        remedy = f" Pass the columns of the training, table[{shown(list(fitted))}]."
    if data.n_features != expected:
        one = " Reshape your data: a 1-D array is a signal of one feature, not a sample."
        raise ValueError(
            f"X has {data.n_features} features, but {who} is expecting {expected} features as "
            f"input.{remedy or one * (data.n_features == 1)}"
        )
    names = numbers if getattr(data, "numbered", False) else given
    if names is not None and _are_others(names, fitted):
        raise ValueError(
            f"{who} needs the feature names it was fitted with, in that order; the "
            f"feature names should match those that were passed during fit.{remedy}"
        )
    return data


def read_new(
    estimator: Any, X: Any, view: Any = None, *, single_precision: bool = False
) -> DataSets:
    """Read new data, and check that they have the features to which an estimator was fitted.

    NaN is allowed if the view leaves it out or fills it.
    """
    who, missing = type(estimator).__name__, reads_missing(view)
    data = read_data_sets(who, X, single_precision=single_precision, missing=missing)
    return check_features(estimator, data)


def keep_features(estimator: Any, data: DataSets) -> None:
    """Store the number and the names of the features of the data, as scikit-learn does.

    The states of an earlier fit are removed, because they were learned under the old metric.
    """
    estimator.n_features_in_ = data.n_features
    vars(estimator).pop("states_", None)
    if data.feature_names is not None:
        estimator.feature_names_in_ = data.feature_names
    elif hasattr(estimator, "feature_names_in_"):
        del estimator.feature_names_in_
