"""Read values that users pass: arrays of real numbers, whole numbers and texts."""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from math import isfinite
from reprlib import Repr
from typing import Any

import numpy as np
from numpy.typing import NDArray

_ROWS = 2**16  # rows checked at once, because a long array may be on disk
_SHORTENED = Repr()
_SHORTENED.maxother = _SHORTENED.maxstring = 200


class NotNumbers(TypeError, ValueError):
    """Raised if the input is not an array of real numbers."""


def shown(value: Any) -> str:
    """Convert any value to a short text on one line, for error messages."""
    return " ".join(_SHORTENED.repr(value).split())


def real_array(
    who: str,
    what: str,
    values: Any,
    ndim: int | None = 2,
    *,
    n_features: int | None = None,
    single_precision: bool = False,
    signals: bool = False,
    allow: Collection[str] = (),
) -> NDArray:
    """Convert the input to a float64 array of finite real numbers, without a copy if possible.

    All functions of the package call this function to read the arrays of users. Masked or complex
    values, times, texts, numbers too large for a float, NaN and infinity raise an error.

    Parameters
    ----------
    who, what : str
        Name of the caller and name of the array, for error messages.
    values : array-like
        The input.
    ndim : int or None
        Required number of dimensions. None accepts any number.
    n_features : int, optional
        Required size of the last dimension.
    single_precision : bool
        Whether a float32 array is kept as it is.
    signals : bool
        Whether a one-dimensional array is converted to one column.
    allow : collection of "empty", "infinite" and "missing"
        Also accept an empty array, infinite numbers or NaN.

    Raises
    ------
    ValueError
        If the input is not accepted. The message names the first row and feature with a wrong
        number. If the input is sparse or does not consist of numbers, the error is a NotNumbers,
        which is both a ValueError and a TypeError.
    """
    ready = type(values) is np.ndarray and values.dtype == np.float64
    array = values if ready else _converted(who, what, values, single_precision)
    if signals and array.ndim == 1:
        array = array[:, None]
    if ndim is not None and array.ndim != ndim:
        needed = "(n_samples, n_features) data" if ndim == 2 else f"{ndim} dimension(s)"
        raise ValueError(
            f"{who} needs {needed}, got {array.ndim} dimension(s) in {what}. "
            "Reshape your data: .reshape(-1, 1) makes a single feature, .ravel() a flat array."
        )
    if array.size == 0 and "empty" not in allow:
        part = "sample(s)" if array.shape[0] == 0 else "feature(s)"
        raise ValueError(
            f"{who} found array with 0 {part} (shape={array.shape}) while a minimum of 1 is "
            f"required in {what}."
        )
    if n_features is not None and array.shape[-1] != n_features:
        raise ValueError(
            f"{who} needs the same features in every data set, got {n_features} in data set 0 and "
            f"{array.shape[-1]} in {what}."
        )
    for start in range(0, len(array) if array.ndim else 1, _ROWS):
        rows = array[start : start + _ROWS] if array.ndim else array
        if isfinite(np.vdot(rows, rows)):  # one pass; large numbers overflow and are checked below
            continue
        finite = ~np.isnan(rows) if "infinite" in allow else np.isfinite(rows)
        finite |= np.isnan(rows) & ("missing" in allow)
        if not finite.all():
            place = np.argwhere(~finite)[0] + [start, *[0] * (array.ndim - 1)][: array.ndim]
            found, remedy = _fault(array, place, signals)
            raise ValueError(f"{who} needs finite numbers, got {found} of {what}; {remedy}.")
    return array


def _fault(array: NDArray, place: NDArray, signals: bool) -> tuple[str, str]:
    """Return two texts for an error message: the wrong value with its place, and the remedy."""
    value = "NaN" if np.isnan(array[tuple(place)]) else "inf"
    row = f" at row {', feature '.join(map(str, place))}" if array.ndim else ""
    if array.ndim > 2:
        row = f" at position {tuple(place.tolist())}"
    remedy = "impute or remove such samples"
    if signals and value == "NaN":
        remedy += "; learners of segments leave them out with view=metriclearn.views.LeaveOut()"
    if array.ndim == 2 and len(array) > 1 and not np.isfinite(array[:, place[1]]).any():
        remedy = "no row has a number there, so drop this column"
    return value + row, remedy


def _converted(who: str, what: str, values: Any, single_precision: bool) -> NDArray:
    """Convert real numbers of any shape to float64. Raises NotNumbers for anything else."""
    if hasattr(values, "toarray"):
        raise NotNumbers(f"{who} needs dense data, got a sparse matrix; call .toarray() on it.")
    if hasattr(values, "column_names"):
        raise NotNumbers(f"{who} needs a data frame, got an Arrow table; call .to_pandas() on it.")
    is_frame = hasattr(values, "columns") and not isinstance(values, np.ndarray)
    faulty = _at_fault(values) if is_frame else ""
    try:
        raw = _without_na(values)
        if np.ma.is_masked(values):
            raise ValueError("entries are masked")
        if raw.dtype.kind == "c":
            raise ValueError("Complex data not supported")
        texts = raw.dtype == object and any(isinstance(item, (str, bytes)) for item in raw.flat)
        if texts or raw.dtype.kind not in "biufO":
            raise ValueError(f"values of {str if texts else raw.dtype}")
        keep = single_precision and raw.dtype == np.float32
        array = raw if keep else np.asarray(raw, dtype=np.float64)
        if faulty:  # some data frames convert these to numbers
            raise ValueError("text or dates")
    except Exception as error:  # a foreign object may raise any error
        raise NotNumbers(
            f"{who} needs a rectangular array of real numbers in {what}, got something else "
            f"{faulty}({shown(str(error))}); convert such columns, or drop them."
        ) from error
    return array


def _without_na(values: Any) -> NDArray:
    """Convert values to an array in which NaN stands for missing values of pandas and Arrow."""
    raw, missing = np.asarray(values), getattr(sys.modules.get("pandas"), "NA", None)
    if raw.dtype != object or missing is None:
        return raw
    known = [np.nan if item is missing else item for item in raw.flat]
    return np.fromiter(known, dtype=object, count=raw.size).reshape(raw.shape)


def _at_fault(table: Any) -> str:
    """List, for an error message, the columns of a data frame that do not hold numbers."""
    faulty = []
    for name in table.columns:
        try:
            column = _without_na(table[name])
            if column.dtype.kind not in "biuf":
                np.asarray(column.tolist(), dtype=np.float64)
            if column.dtype.kind in "cmM":
                raise TypeError
        except Exception:  # a foreign object may raise any error
            faulty.append(str(name))
    return f"in {', '.join(faulty[:5])} " if faulty else ""


def symmetric(who: str, what: str, values: Any, ndim: int = 2) -> NDArray:
    """Convert the input to one symmetric matrix, or a stack of them, as :func:`real_array` does."""
    array = real_array(who, what, values, ndim)
    flipped = array.swapaxes(-1, -2)
    if array.shape != flipped.shape:
        raise ValueError(f"{who} needs a square matrix in {what}, got shape {array.shape}.")
    if (difference := np.abs(array - flipped).max()) > 1e-8 * np.abs(array).max():
        raise ValueError(
            f"{who} needs a symmetric matrix A in {what}, got |A - A.T| up to {difference:.3g}; "
            "pass (A + A.T) / 2."
        )
    return array


def check_each(who: str, name: str, count: int, items: str, n: int) -> None:
    """Raise ValueError unless there is one ``name`` for each of the n ``items``."""
    if count != n:
        raise ValueError(f"{who} needs one {name} for each of the {n} {items}, got {count}.")


def check_weights(who: str, name: str, values: Any, items: str, n: int) -> NDArray[np.float64]:
    """Return n nonnegative numbers, not all zero, as an array, or raise ValueError."""
    weights = real_array(who, name, values, 1)
    if np.any(weights < 0) or not 0 < weights.sum() < np.inf:
        raise ValueError(
            f"{who} needs {name} of at least 0, not all zero, got {shown(weights.tolist())}."
        )
    check_each(who, name.removesuffix("s"), len(weights), items, n)
    return weights


def dimensions(item: Any) -> int | None:
    """Return the number of dimensions of an array, or None if the object is not an array."""
    try:
        return np.ndim(item)
    except Exception:  # a foreign object may raise any error
        return None


def sort_of(X: Any) -> str:
    """Tell whether X is "one" data set, "several" data sets, or a "lazy" sequence of data sets.

    "lazy" means that X has ``__len__`` and ``__getitem__``, but is not an array, list or table.
    "several" means that X is an array of three dimensions, or that X is a list or an array of
    objects and contains an array, a table or a list of lists.
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


def check_scale(who: str, X: NDArray) -> None:
    """Raise ValueError if X, (n, d), has values above 1e150/√d: their squares may be too large."""
    largest = np.abs(X).max(initial=0.0)
    if largest > 1e150 / np.sqrt(X.shape[1]):
        raise ValueError(
            f"{who} needs squared distances below 1e300, got values up to {largest:.1e}; "
            "rescale X, and parameters in its units."
        )


def metric_factor(who: str, metric: Any, d: int) -> NDArray[np.float64]:
    """Factorize the matrix B of a metric: compute L, (d, d), with B = LLᵀ, in O(d³) time.

    Parameters
    ----------
    who : str
        Name of the caller, for error messages.
    metric : None, (d, d) matrix B, (d,) weights, or an object with ``get_mahalanobis_matrix``
        The metric. None stands for the identity, and weights are the diagonal of B.
    d : int
        Number of features.

    Raises
    ------
    ValueError
        If B has another shape, or is not symmetric and positive semi-definite.
    """
    if metric is None:
        return np.eye(d)
    if hasattr(metric, "get_mahalanobis_matrix"):
        metric = metric.get_mahalanobis_matrix()
    given = B = real_array(who, "metric", metric, None)
    if B.shape == (d,):
        B = np.diag(B)
    if B.shape == (d, d) and np.allclose(B, B.T):
        values, vectors = np.linalg.eigh(B)
        if values[0] >= -1e-9 * max(values[-1], 0.0):
            return vectors * np.sqrt(np.maximum(values, 0.0))
    raise ValueError(
        f"{who} needs a metric that is a positive semi-definite ({d}, {d}) matrix, {d} "
        f"non-negative weights or an object with such a matrix, got an array of shape "
        f"{given.shape}; check its shape and its eigenvalues."
    )


def whole(value: Any) -> Any:
    """Convert a whole number of any type to an int, and an array of them to int64.

    Sums and products of numbers of a short type such as uint8 would wrap around.
    """
    return np.asarray(value).astype(np.int64) if np.ndim(value) else int(value)


def text(value: Any) -> Any:
    """Return the form in which a text is compared: composed (NFC), without blanks at its ends.

    Texts that people see as equal have the same form. Anything else, such as a number, is returned
    as it is, and a tuple with the forms of its items.
    """
    if isinstance(value, tuple):
        return tuple(map(text, value))
    return unicodedata.normalize("NFC", value).strip() if isinstance(value, str) else value
