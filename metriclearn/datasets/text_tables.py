"""Read text tables of any dialect: from files, and from streams that are still being written."""

from __future__ import annotations

import csv
import os
import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from io import StringIO
from itertools import chain, islice
from math import nan
from typing import TYPE_CHECKING, Any, NamedTuple

from metriclearn.datasets.registry import PathLike
from metriclearn.running.atomic import reading
from metriclearn.running.extras import optional
from metriclearn.running.times import MISSING
from metriclearn.running.values import text

if TYPE_CHECKING:
    import pandas as pd

_SEPARATORS = "\t;|,"  # commas may also stand in numbers and names
_BLANKS = " \t\r\n"
_FIRST = 50  # lines that show the form of a table


class TableForm(NamedTuple):
    """The form of a text table, as its first lines show it.

    Attributes
    ----------
    separator : str
        A comma, a tab, a semicolon or a vertical bar.
    spaced : bool
        Whether blanks follow the separators of the header.
    skipped : int
        Number of lines up to ``sep=;``, if the first line with a text is this, as Excel reads it.
    names : list of str
        Cells of the header, without blanks at their ends.
    """

    separator: str
    spaced: bool
    skipped: int
    names: list[str]

    @property
    def decimal(self) -> str:
        """The decimal mark: a comma if semicolons separate the cells, else a point."""
        return "," if self.separator == ";" else "."


def table_form(lines: Sequence[str]) -> TableForm:
    """Return the form of a table from its first lines.

    The separator is the one that divides the header and the rows into equally many cells, more than
    one. If none does, it is the most frequent one in the header.
    """
    lines = [line.removeprefix("\ufeff") for line in lines]
    place, first = next(((i, line) for i, line in enumerate(lines) if line.strip()), (0, ""))
    told = re.fullmatch(r'"?sep=(.)"?', first.strip(), re.IGNORECASE)
    skipped = place + 1 if told else 0
    lines = lines[skipped:]
    header = next((line for line in lines if line.strip()), "")
    if told:
        separator = told[1]
    else:
        alike = (mark for mark in _SEPARATORS if _width(lines, mark) > 1)
        separator = next(alike, max(reversed(_SEPARATORS), key=header.count))
    spaced = f"{separator} " in header
    rows = csv.reader(lines, delimiter=separator, skipinitialspace=spaced)
    names = [cell.strip() for cell in next((row for row in rows if any(row)), [])]
    return TableForm(separator, spaced, skipped, names)


def _width(lines: Sequence[str], separator: str) -> int:
    """Count the cells of every row, if all rows have equally many, or return 0."""
    rows = [row for row in csv.reader(lines, delimiter=separator, skipinitialspace=True) if row]
    if len(rows) > 1 and len(lines) == _FIRST:
        rows.pop()  # a cell with a line break may be cut
    widths = {len(row) for row in rows}
    return widths.pop() if len(widths) == 1 else 0


def form_of_file(path: PathLike) -> TableForm:
    """Return the form of the table in a file.

    Raises
    ------
    ValueError
        If two columns have the same name.
    """
    form = form_of_lines(path)
    check_distinct(repr(os.fspath(path)), form.names)
    return form


def form_of_lines(path: PathLike) -> TableForm:
    """Return the form of the table in a file, whose first line may repeat a cell."""
    with open(path, encoding="utf-8-sig") as stream:
        return table_form(list(islice(stream, _FIRST)))


def check_distinct(who: str, names: Sequence[str]) -> None:
    """Refuse names of columns of which people see two as equal.

    Parameters
    ----------
    who : str
        The table, in words for error messages.
    names : sequence of str

    Raises
    ------
    ValueError
        If two names are equal.

    See Also
    --------
    stream_rows : reads a table whose first line may hold names.

    Examples
    --------
    >>> from metriclearn.datasets import check_distinct
    >>> check_distinct("new.csv", ["time", "x"])
    """
    seen = list(map(text, names))
    if repeated := sorted({name for name in seen if name and seen.count(name) > 1}):
        raise ValueError(
            f"{who} needs distinct column names, but repeats {repeated[:5]}; rename or remove "
            "columns."
        )


def read_text_table(path: PathLike, needed: str = "a table", **options: Any) -> pd.DataFrame:
    """Read a text table with commas, tabs, semicolons or vertical bars.

    The separator is the one that divides the header and the first rows alike. Names of columns lose
    blanks at their ends. Texts such as ``NA`` are not read as missing values, so they may be
    labels. If the separator is a semicolon, numbers may have decimal commas.

    Parameters
    ----------
    path : path
    needed : str
        The kind of file that is needed, in words for error messages.
    **options
        Options of ``pandas.read_csv``.

    Returns
    -------
    pandas.DataFrame

    Raises
    ------
    ValueError
        If the file is damaged, two columns have the same name, or a row has too many values.

    See Also
    --------
    stream_rows : reads the same dialects from a stream.

    Examples
    --------
    >>> from metriclearn.datasets import read_text_table
    >>> table = read_text_table("sensors.csv")  # doctest: +SKIP
    """
    pd = optional("pandas", "tables")
    wrong = pd.errors.ParserError, pd.errors.ParserWarning  # also of rows with too many values
    with (
        reading(path, needed, *wrong, csv.Error),
        warnings.catch_warnings(action="error", category=wrong[1]),
    ):
        form = form_of_file(path)
        try:
            table = pd.read_csv(
                path,
                sep=form.separator,
                decimal=form.decimal,
                index_col=False,
                encoding="utf-8-sig",
                na_filter=False,
                skipinitialspace=form.spaced,
                skiprows=form.skipped,
                **options,
            )
        except wrong:
            _check_widths(path, form)
            raise
    if form.decimal == ",":  # pandas leaves commas in columns with cells that are no numbers
        as_given = set(map(text, options.get("dtype") or {}))
        for name in table.columns.difference(table.select_dtypes("number").columns):
            if text(name) not in as_given and table[name].dtype != bool:
                given, table[name] = table[name], table[name].map(_point, na_action="ignore")
                _check_points(path, name, given[given != table[name]], given)
    return table.rename(columns=str.strip)


def _check_points(path: PathLike, name: str, commas: Iterable[Any], cells: Iterable[Any]) -> None:
    """Refuse points for each thousand beside decimal commas: 1.234 would be a fraction."""
    for cell in cells if any(True for _ in commas) else ():
        if re.fullmatch(r"\s*[+-]?[1-9]\d{0,2}(\.\d{3})+\s*", str(cell)):
            raise ValueError(
                f"{os.fspath(path)!r} has {cell!r} in column {name!r} beside numbers with decimal "
                "commas; write numbers without a point for each thousand."
            )


def _check_widths(path: PathLike, form: TableForm) -> None:
    """Refuse a table with a row that is longer than the first one."""
    if line := next((line for line, row in _rows_of(path, form) if len(row) > len(form.names)), 0):
        raise ValueError(
            f"{os.fspath(path)!r} needs names of columns in its first line and no row that is "
            f"longer, but line {line} is; remove lines above the names and separators at the ends "
            "of rows."
        )


def _rows_of(path: PathLike, form: TableForm) -> Iterator[tuple[int, list[str]]]:
    """Yield the number of the line and the cells of every row."""
    with open(path, encoding="utf-8-sig", newline="") as stream:
        lines = csv.reader(stream, delimiter=form.separator, skipinitialspace=form.spaced)
        for row in lines:
            yield lines.line_num, [cell.strip() for cell in row]


def text_rows(path: PathLike, needed: str) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """Read the names of the columns of a text table in lower case, and its rows of cells.

    Every row comes with its number of line. Cells lose blanks at their ends. Rows without a value
    are left out.

    Raises
    ------
    ValueError
        If the file is damaged, or two columns have the same name.
    """
    with reading(path, needed, csv.Error):
        form = form_of_file(path)
        rows = [(line, row) for line, row in _rows_of(path, form) if any(row)]
    header = [name.lower() for name in form.names]
    check_distinct(repr(os.fspath(path)), header)
    return header, rows[2 if form.skipped else 1 :]


def stream_rows(lines: Iterable[str]) -> Iterator[tuple[int, list[str]]]:
    """Divide the lines of a text table as they arrive. Yields the number and the cells of each.

    The first two lines determine the form, so the first one is yielded when the second has arrived.
    Cells lose blanks at their ends, and decimal commas become points. Blank lines are left out.

    Parameters
    ----------
    lines : iterable of str

    Returns
    -------
    iterator of (int, list of str)
        Lines are counted from 1.

    Raises
    ------
    ValueError
        If a quote is not closed, or a cell is longer than 131,072 characters.

    See Also
    --------
    read_text_table : reads the same dialects from a file.

    Examples
    --------
    >>> from metriclearn.datasets import stream_rows
    >>> list(stream_rows(["t;x", "0,5;1,25"]))
    [(1, ['t', 'x']), (2, ['0.5', '1.25'])]
    """
    numbered = (
        (i, line.removeprefix("\ufeff") if i == 1 else line) for i, line in enumerate(lines, 1)
    )
    first = list(islice(_joined(numbered, _SEPARATORS), 2))
    if first and re.match('"?sep=', first[0][1], re.IGNORECASE):
        first += islice(_joined(numbered, _SEPARATORS), 1)
    place = 1
    try:
        form = table_form([line for _, joined in first for line in StringIO(joined)])
        for place, line in chain(first[form.skipped :], _joined(numbered, form.separator)):
            rows = csv.reader([line], delimiter=form.separator, skipinitialspace=form.spaced)
            cells = [cell.strip() for cell in next(rows, [])]
            if len(cells) > 1 or line.strip(_BLANKS):
                yield place, [_point(one) for one in cells] if form.decimal == "," else cells
    except csv.Error as error:
        raise ValueError(f"Line {place} is no line of a table ({error}); correct it.") from error


def _joined(numbered: Iterable[tuple[int, str]], separators: str) -> Iterator[tuple[int, str]]:
    """Join lines that a quoted cell spans, and leave out empty lines."""
    quote = rf'((?:^|[{separators}])[ \ufeff]*)"'
    quoted, opened = re.compile(rf'{quote}(?:[^"]|"")*+"'), re.compile(quote)
    joined, place = "", 1
    for i, line in numbered:
        joined, place = joined + line, place if joined else i
        if opened.search(quoted.sub(r"\1x", joined)) and len(joined) < csv.field_size_limit():
            continue
        if joined.strip("\r\n"):
            yield place, joined
        joined = ""
    if joined:
        raise ValueError(f"Line {place} opens a quote that no line closes; correct it.")


def cell_number(cell: str) -> float | None:
    """Read a cell of a table as a number. Return None if it is none.

    A missing value is NaN, and truth values are 1 and 0.

    Parameters
    ----------
    cell : str

    Returns
    -------
    float or None

    Raises
    ------
    AttributeError
        If the cell is no text.

    See Also
    --------
    stream_rows : yields cells.

    Examples
    --------
    >>> from metriclearn.datasets import cell_number
    >>> cell_number(" 1.5"), cell_number("TRUE"), cell_number("NA"), cell_number("one")
    (1.5, 1.0, nan, None)
    """
    lower = cell.strip().lower()
    if lower in MISSING:
        return nan
    try:
        return None if "_" in lower else float({"true": 1, "false": 0}.get(lower, lower))
    except ValueError:
        return None


def _point(cell: str) -> str:
    """Replace a decimal comma."""
    number = r"\s*([+-]?\d*),((?<=\d,)|\d+)((?:[eE][+-]?\d+)?)\s*"
    return re.sub(f"^{number}$", r"\1.\2\3", str(cell))


def lacks(path: PathLike, column: str, columns: Iterable[Any], remedy: str) -> ValueError:
    """Make the error that says that a table has no column of a name, and which ones it has."""
    return ValueError(
        f"{os.fspath(path)!r} needs a column {column!r}, got {[*map(str, columns)][:20]}; {remedy}."
    )
