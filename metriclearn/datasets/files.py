"""Read one file of a sequence: its table, labels, features and times."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from metriclearn.datasets.programs.poses import is_poses, read_poses
from metriclearn.datasets.registry import PathLike, read_arrays
from metriclearn.datasets.text_tables import cell_number, lacks, read_text_table
from metriclearn.running.atomic import reading
from metriclearn.running.extras import optional
from metriclearn.running.notes import note
from metriclearn.running.row_times import Times, evenly
from metriclearn.running.times import read_times, without_times
from metriclearn.running.values import text

if TYPE_CHECKING:
    import pandas as pd

_CLOCKS = re.compile(r"(date|time|stamp|clock|elapsed|seconds?|millis|t|s|ms|us|ns)", re.IGNORECASE)
SEPARATORS = {".csv": ",", ".tsv": "\t"}  # that save_files writes
ENDINGS = (*SEPARATORS, ".parquet", ".npz")
# Marks in numbers that a table cannot have, and what to write.
_MARKS = {
    re.compile(r"-?\d{1,3}(,\d{3})+\.\d*|-?\d{1,3}(,\d{3}){2,}"): (
        "write numbers without a comma for each thousand"
    ),
    re.compile(r"-?\d{1,3}(\.\d{3})+,\d*"): "write numbers without a point for each thousand",
    re.compile(r"-?\d*,\d+(e[+-]?\d+)?", re.IGNORECASE): (
        "write decimal points, or separate columns by semicolons"
    ),
}


def columns_of_times(tables: Sequence[pd.DataFrame]) -> list[Any]:
    """Return the columns that hold times by their names, and never decrease in any table.

    Parameters
    ----------
    tables : sequence of pandas.DataFrame
        Tables of the same columns.

    Returns
    -------
    list of names

    Raises
    ------
    KeyError
        If a table lacks a column of the first.

    Warns
    -----
    UserWarning
        If there is such a column: it is no feature.

    See Also
    --------
    file_times : reads such a column.

    Examples
    --------
    >>> import pandas as pd
    >>> from metriclearn.datasets import columns_of_times
    >>> columns_of_times([pd.DataFrame({"x": [1, 2]})])
    []
    """
    pd = optional("pandas", "tables")

    def never_falls(name: Any) -> bool:
        many = [pd.to_numeric(table[name], errors="coerce").to_numpy() for table in tables]
        rise = any(one[-1] > one[0] for one in many)
        return max(map(len, many)) >= 10 and rise and all((np.diff(x) >= 0).all() for x in many)

    names = tables[0].columns
    found = [name for name in names if _names_times(str(name)) and never_falls(name)]
    if len(found) == len(names):
        return []
    if found:
        note(
            f"Columns of times are no features and are left out: {', '.join(map(str, found))}; to "
            f"use the times, name the column (file_times, --time {shlex.quote(str(found[0]))})."
        )
    return found


def _names_times(column: str) -> bool:
    """Tell whether a column is named like one of times."""
    return any(map(_CLOCKS.fullmatch, re.split(r"[\W_]+", column)))


def read_columns(
    file: Path, likelihood: float = 0.0, **options: Any
) -> tuple[pd.DataFrame, dict[str, NDArray]]:
    """Read a file into a data frame. For npz files, also return the other arrays.

    The data frame of an npz file is its array ``X``, with column names from ``feature_names``. The
    second result holds all other arrays of an npz file. For other kinds of files, the second result
    is empty. ``options`` are passed to ``pandas.read_csv``. In tables of DeepLabCut, coordinates of
    a smaller ``likelihood`` are missing.

    Raises
    ------
    ValueError
        If the file is damaged or of another kind.
    """
    pd = optional("pandas", "tables")
    kind = file.suffix.lower()
    if kind in SEPARATORS and is_poses(file):
        return read_poses(file, likelihood), {}
    if kind in SEPARATORS:
        return read_text_table(file, **options), {}
    if kind == ".npz":
        arrays = read_arrays(file)
        with reading(file, "an array X (T, P), and P feature_names if any"):
            X = np.atleast_2d(arrays.pop("X").T).T  # a signal is one column
            names = arrays.pop("feature_names", [f"x{i}" for i in range(X.shape[1])])
            return pd.DataFrame(X, columns=names), arrays
    with reading(file, f"a table ({', '.join(ENDINGS)})"):
        if kind not in ENDINGS:
            raise ValueError(f"the name ends in {kind!r}")
        return pd.read_parquet(file), {}


def read_labeled(
    file: PathLike, label: str, group: str | None = None, partly: bool | None = None
) -> tuple[pd.DataFrame, NDArray, str]:
    """Read the features, the labels and the group of one file in the layout of :func:`load_files`.

    Parameters
    ----------
    file : path
    label : str
        Column of the labels.
    group : str, optional
        Column of the group.
    partly : bool, optional
        Whether rows may have no label. If it is False, the error message offers True.

    Returns
    -------
    (pandas.DataFrame, array (T,), str)

    Raises
    ------
    ValueError
        If the file is damaged, lacks labels, rows or features, or has several groups.

    See Also
    --------
    load_files : reads a folder.

    Examples
    --------
    >>> from metriclearn.datasets import read_labeled
    >>> features, labels, group = read_labeled("walk.csv", "gait")  # doctest: +SKIP
    """
    pd = optional("pandas", "tables")
    file, special = Path(file), [label, *([group] if group else [])]
    table, arrays = read_columns(file, dtype=dict.fromkeys(special, str))
    table = columns_as(table, special)
    if file.suffix.lower() == ".npz":
        with reading(file, "arrays X (T, P) and y (T,)"):
            return table, _forms(arrays["y"]), text(str(arrays.get("group", file.stem)))
    blanks = {}
    for column in special:
        if column not in table.columns:
            remedy = "name the column of the labels (label=…, --label)"
            raise lacks(file, column, table.columns, remedy)
        blank = (table[column].isna() | (table[column].astype(str).str.strip() == "")).to_numpy()
        blanks[column] = blank
        if blank.any() and (blank.all() or column == group or not partly):
            rest = (
                ", such as background, or say that they are unlabeled (partly=True, --unknown '')"
            )
            rest = "" if column == group or partly is None else rest
            raise ValueError(
                f"{os.fspath(file)!r} has no value in row {blank.argmax() + 1} of column "
                f"{column!r}; write one{rest}."
            )
    if table.empty or table.shape[1] == len(special):
        raise ValueError(f"{os.fspath(file)!r} needs at least one row and one feature column.")
    groups = sorted(set(map(text, table[group].astype(str)))) if group else [file.stem]
    if len(groups) > 1:
        raise ValueError(f"{os.fspath(file)!r} needs one group in column {group!r}, got {groups}.")
    labels = table[label][~blanks[label]].to_numpy()
    if pd.api.types.is_string_dtype(table[label]):
        labels = _forms(labels.astype(np.str_))
    if file.suffix.lower() in SEPARATORS and all(
        re.fullmatch(r"0|-?[1-9]\d{0,17}", word) for word in labels
    ):
        labels = labels.astype(np.int64)
    if blanks[label].any():  # −1 beside whole numbers, or no text
        is_whole = labels.dtype.kind in "iuf" and np.all(labels == np.floor(labels))
        known = labels.astype(np.int64 if is_whole else np.str_)
        labels = np.full(len(table), -1 if is_whole else "", dtype=known.dtype)
        labels[~blanks[label]] = known
    return table.drop(columns=special), labels, groups[0]


def columns_as(table: pd.DataFrame, names: Iterable[Any]) -> pd.DataFrame:
    """Give columns that people see as named so the given names, unless two of them are."""
    wanted = {text(name): name for name in names}
    seen = list(map(text, table.columns))
    if len(set(seen)) < len(seen):
        return table
    return table.set_axis([wanted.get(a, b) for a, b in zip(seen, table.columns)], axis=1)


def _forms(labels: NDArray) -> NDArray:
    """Return labels in the form in which texts are compared."""
    return np.array(list(map(text, labels.tolist()))) if labels.dtype.kind == "U" else labels


def read_features(
    path: PathLike,
    ignore: Collection[str] = (),
    names: Sequence[str] | None = None,
    likelihood: float = 0.0,
) -> pd.DataFrame:
    """Read the features of a table from the columns ``names``.

    If ``names`` is None, all columns are features, except ``label`` and the columns in ``ignore``.

    Parameters
    ----------
    path : path
        A CSV, TSV, Parquet or npz file.
    ignore : collection of str
        Columns that are not features. A file may lack these columns.
    names : sequence of str, optional
        The columns to read, in this order.
    likelihood : float
        In tables of DeepLabCut, coordinates of a smaller likelihood are missing values.

    Returns
    -------
    pandas.DataFrame
        Its values are float64, and NaN where they are missing.

    Raises
    ------
    ValueError
        If the file is damaged, has no row or no feature column, lacks one of ``names``, has a value
        that is not a finite number, or a column without a value.

    See Also
    --------
    load_files : reads features and labels of a folder.

    Examples
    --------
    >>> from metriclearn.datasets import read_features
    >>> features = read_features("walk.csv", ignore=["time"])  # doctest: +SKIP
    """
    pd = optional("pandas", "tables")
    path = Path(path)
    table, _ = read_columns(path, likelihood)
    table = columns_as(table, ["label", *ignore] if names is None else names)
    if names is None:
        table = table.drop(columns=["label", *ignore], errors="ignore")
    elif missing := [name for name in names if name not in table.columns]:
        raise ValueError(
            f"{os.fspath(path)!r} needs the columns of the model, {list(names)[:8]}, but lacks "
            f"{missing[:8]}; its columns are {list(table.columns)[:20]}."
        )
    else:
        table = table[list(names)]
    if table.empty:
        raise ValueError(f"{os.fspath(path)!r} needs at least one row and one feature column.")
    values = finite_values(table, path, names is None, missing=True, ignored=ignore)
    return pd.DataFrame(values, columns=table.columns)


def finite_values(
    features: pd.DataFrame,
    file: Path,
    ignorable: bool = True,
    missing: bool = False,
    ignored: Collection[str] = (),
) -> NDArray[np.float64]:
    """Convert the features to float64, and check that they are finite.

    Parameters
    ----------
    features : pandas.DataFrame
    file : Path
        The file that error messages name.
    ignorable : bool
        Whether messages may propose to leave columns out.
    missing : bool
        Whether values may be missing: empty, NaN or None. They become NaN, and every column needs
        a value.
    ignored : collection of str
        Columns that are already left out, for messages.

    Returns
    -------
    array (T, P)

    Raises
    ------
    ValueError
        If a value is not a finite number. The message names the first wrong value. If
        ``ignorable``, and if most values in this column are not numbers, the message proposes to
        leave out all such columns.

    See Also
    --------
    read_features : reads and checks a file.

    Examples
    --------
    >>> import pandas as pd
    >>> from metriclearn.datasets import finite_values
    >>> finite_values(pd.DataFrame({"x": ["1", "2.5"]}), Path("a.csv")).tolist()
    [[1.0], [2.5]]
    """
    pd = optional("pandas", "tables")
    numbers = np.array(features.apply(pd.to_numeric, errors="coerce"), dtype=np.float64)
    wrong = ~np.isfinite(numbers)
    for column in np.flatnonzero(wrong.any(axis=0)).tolist():
        rows = np.flatnonzero(np.isnan(numbers[:, column]))
        cells = list(map(str, features.iloc[rows, column]))
        read = {one: cell_number(one) for one in set(cells)}
        values = np.array([np.inf if read[one] is None else read[one] for one in cells])
        numbers[rows, column] = np.where(np.isinf(values), np.nan, values)
        wrong[rows, column] = np.isinf(values) | (np.isnan(values) & (not missing))
        if np.isnan(numbers[:, column]).all() and not wrong[:, column].any():
            name = str(features.columns[column])
            names = [*ignored, name]
            quoted = " ".join(map(shlex.quote, names))
            remedy = f"ignore it (ignore={names}, --ignore {quoted})" if ignorable else "fill it"
            raise ValueError(
                f"{os.fspath(file)!r} needs a number in every column, but column {name!r} has "
                f"none; {remedy}."
            )
    if wrong.any():
        row, column = np.argwhere(wrong)[0]
        value, name = str(features.iat[row, column]), str(features.columns[column])
        text = 2 * wrong.sum(axis=0) > len(wrong)
        remedy = next((told for form, told in _MARKS.items() if form.fullmatch(value.strip())), "")
        if not remedy and ignorable and text[column]:
            names = [*ignored, *(str(name) for name in features.columns[text])]
            clock = next(filter(_names_times, names[len(ignored) :]), None)
            others = [one for one in names if one != clock] or names
            quoted = " ".join(map(shlex.quote, others))
            remedy = f"ignore columns without numbers (ignore={names}, --ignore {quoted})"
            if clock:
                link = "and" if clock not in others else "or"
                named = f"name the column of times (--time {shlex.quote(clock)})"
                remedy = f"{named}, {link} {remedy}"
        raise ValueError(
            f"{os.fspath(file)!r} needs finite numbers, got {value!r} in row {row + 1} of column "
            f"{name!r}; {remedy or 'fill or drop such rows'}."
        )
    return numbers


def file_times(
    file: PathLike, time: str, rate: float | None = None, duplicates: str | None = None
) -> Times:
    """Read the times of the rows of a table.

    Parameters
    ----------
    file : path
        A CSV, TSV, Parquet or npz file.
    time : str
        Name of the column of times: numbers (seconds, or another unit that the name of the column
        or the size of the numbers tells), time stamps, clock times or durations.
    rate : float, optional
        Rows per second of a table without this column. By default, such a table is refused.
    duplicates : "mean" or "first", optional
        Successive rows may have the same time, see :meth:`metriclearn.running.Times.distinct`. By
        default, this is an error.

    Returns
    -------
    Times

    Raises
    ------
    ValueError
        If there is no such column or no row, a value is not a time, or times do not increase.

    Warns
    -----
    UserWarning
        If there is no such column, so that ``rate`` is used.

    See Also
    --------
    change_times : gives the times of change-points.

    Examples
    --------
    >>> from metriclearn.datasets import file_times
    >>> file_times("walk.csv", "time").rate  # doctest: +SKIP
    50.0
    """
    file = Path(file)
    is_text, wanted = file.suffix.lower() in SEPARATORS, text(time)
    only: dict[str, Any] = {"usecols": lambda name: text(name) == wanted} if is_text else {}
    table, _ = read_columns(file, **only)
    named = [name for name in table.columns if text(name) == wanted]
    if named:
        who, values = repr(os.fspath(file)), table[named[0]]
        remedy = "drop one of them, or keep one row for both (duplicates=…, --duplicates)"
        return read_times(who, values, time, None, 1, duplicates=duplicates, remedy=remedy)
    table, _ = read_columns(file)
    if rate is None:
        raise lacks(file, time, table.columns, "name the column of the times (time=…, --time)")
    note(without_times(repr(os.fspath(file)), time, rate))
    return evenly(len(table), rate)
