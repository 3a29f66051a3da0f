"""Load and save folders of labelled sequences: a CSV, TSV, Parquet or npz file per sequence."""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal

import numpy as np
from numpy.typing import NDArray

from metriclearn.datasets.files import (
    ENDINGS,
    SEPARATORS,
    columns_as,
    columns_of_times,
    finite_values,
    read_labeled,
)
from metriclearn.datasets.registry import PathLike
from metriclearn.datasets.sequences import LabeledSequences
from metriclearn.datasets.text_tables import cell_number, table_form
from metriclearn.running.atomic import replacing
from metriclearn.running.extras import optional
from metriclearn.running.notes import note
from metriclearn.running.parameters import Text, needs
from metriclearn.running.values import text

if TYPE_CHECKING:
    import pandas as pd


def load_files(
    path: PathLike,
    label: str = "label",
    pattern: str | None = None,
    group: str | None = None,
    ignore: Collection[str] = (),
    partly: bool = False,
) -> LabeledSequences:
    """Load a folder of labelled sequences: one file per sequence, with one row per sample.

    ``.csv``, ``.tsv`` and ``.parquet`` files have the label in column ``label``; all other columns
    are features. Semicolons, tabs or bars may replace the commas. ``.npz`` files have arrays ``X``
    (T, P) and ``y`` (T,). An optional array ``feature_names`` holds the names of the columns, and
    an optional ``group`` holds the group. Files are sorted by name; the name without its ending is
    the name of the sequence. Labels in text files are strings, or integers if all labels of the
    file are integers. With ``partly``, rows without a label get −1 or "", and
    :meth:`metriclearn.Segmenter.fit` does not learn from them. Empty cells and NaN are missing
    values. Columns that hold times by their names, and never decrease, are left out.

    Parameters
    ----------
    path : path
        The folder. Its subfolders are not read.
    label : str
        Column of the labels.
    pattern : str, optional
        Load only files whose names match this pattern, such as ``"train_*.csv"``. By default all
        files of the four kinds are loaded.
    group : str, optional
        Column that holds the group of the sequence, with one value per file. npz files always have
        it under the name ``group``. By default every sequence is a separate group.
    ignore : collection of str
        Columns that are not features, such as a time stamp. A file may lack these columns.
    partly : bool
        Whether rows may have no label.

    Returns
    -------
    LabeledSequences
        ``sequences`` of shape (T_i, P), ``labels`` (T_i,), ``groups``, ``names``.

    Raises
    ------
    FileNotFoundError
        If the folder does not exist or has no file of these kinds.
    ValueError
        If a file cannot be read, lacks a column, a label or all values of a column, or has other
        feature columns than the first file. For a wrong value, the message names the file, the
        column and the row, where row 1 is the row after the header.

    Warns
    -----
    UserWarning
        If a column of times is not read, or if a column increases in every row, so that it may hold
        row numbers or times.

    See Also
    --------
    save_files : writes this layout.
    SequenceFolder : the same folder, without reading all files at once.
    """
    folder = Path(path)
    files = sequence_files("load_files", folder, pattern, ENDINGS)
    read = [read_labeled(file, label, group, partly) for file in files]
    first = [*read[0][0].columns, *ignore]
    read = [(columns_as(features, first), labels, name) for features, labels, name in read]
    if len({labels.dtype.kind in "iu" for _, labels, _ in read}) > 1:  # one type for all files
        read = [(features, labels.astype(np.str_), name) for features, labels, name in read]
    columns = list(dict.fromkeys(str(name) for features, _, _ in read for name in features.columns))
    if not set(ignore) < set(columns):
        raise ValueError(
            f"{os.fspath(folder)!r} has columns {columns[:20]} besides {label!r}; columns to "
            f"ignore must be some of them, but not all, got {list(ignore)}."
        )
    tables = [features.drop(columns=list(ignore), errors="ignore") for features, _, _ in read]
    names = feature_columns(files, tables)
    sequences = [
        finite_values(table[names], file, missing=True, ignored=ignore)
        for file, table in zip(files, tables)
    ]
    _note_rising(folder, names, sequences)
    return LabeledSequences(
        name=folder.resolve().name,
        sequences=sequences,
        labels=[labels for _, labels, _ in read],
        groups=[name for _, _, name in read],
        names=[file.stem for file in files],
        feature_names=names,
    )


def _note_rising(folder: Path, names: Sequence[Any], sequences: Sequence[NDArray]) -> None:
    rising = np.all([np.all(np.diff(X, axis=0) > 0, axis=0) for X in sequences], axis=0)
    if max(map(len, sequences)) >= 10 and rising.any():  # columns of fewer rows may rise by chance
        times = [str(name) for name, rises in zip(names, rising) if rises]
        note(
            f"Columns of {os.fspath(folder)!r} that increase in every row count as features; if "
            f"they are row numbers or times, leave them out (ignore={times}, --ignore "
            f"{' '.join(map(repr, times))})."
        )


def _are_names(values: NDArray[np.float64]) -> bool:
    """Tell whether numbers rise, or fall as wavenumbers do. Few numbers may fall by chance."""
    steps = np.diff(values)
    return bool(np.all(steps > 0) or (len(values) >= 5 and np.all(steps < 0)))


def feature_columns(files: Sequence[Path], tables: Sequence[pd.DataFrame]) -> list[Any]:
    """Return the columns of the first table, which all tables need, in any order, without times.

    Raises
    ------
    ValueError
        If a table has other columns, or has one twice.

    Warns
    -----
    UserWarning
        If the names are numbers that neither rise nor fall, so that they may be a row.
    """
    names = list(tables[0].columns)
    values = [cell_number(str(name)) for name in names]
    if None not in values and not _are_names(np.array(values, dtype=np.float64)):
        note(
            f"The first line of {os.fspath(files[0])!r} is read as names of columns, but holds "
            f"numbers, {names[:4]}; if it is a row, write the names above it."
        )
    for file, table in zip(files, tables):
        if sorted(table.columns) != sorted(set(names)):
            raise ValueError(
                f"{os.fspath(file)!r} needs the distinct feature columns of {files[0].name!r}, but "
                f"lacks {sorted(set(names) - set(table.columns))[:5]} and adds "
                f"{sorted(set(table.columns) - set(names))[:5]}; ignore columns that not all files "
                "have (ignore=…, --ignore)."
            )
    clocks = columns_of_times(tables)
    return [name for name in names if name not in clocks]


def sequence_files(
    who: str, folder: Path, pattern: str | None, endings: Collection[str]
) -> list[Path]:
    """List the files of a folder that have one of the endings, sorted by name.

    Hidden files and tables of segments are left out, see :func:`without_segments`.

    Parameters
    ----------
    who : str
        Name of the caller, for error messages.
    folder : Path
    pattern : str, optional
        List only files whose names match this pattern.
    endings : collection of str
        In lower case, with the dot.

    Returns
    -------
    list of Path

    Raises
    ------
    FileNotFoundError
        If there is no such file. The message starts with ``who``.

    See Also
    --------
    load_files : reads the files of a folder.

    Examples
    --------
    >>> from pathlib import Path
    >>> from metriclearn.datasets import sequence_files
    >>> sequence_files("me", Path("walks"), None, [".csv"])  # doctest: +SKIP
    [PosixPath('walks/monday.csv')]
    """
    files = [
        file
        for file in sorted(folder.glob(pattern or "*"), key=lambda file: file.name)
        if file.suffix.lower() in endings
        and not file.name.startswith(".")
        and (file.is_file() or file.suffix.lower() == ".zarr")
    ]
    files = without_segments(files, ".segments.csv")
    if not files:
        raise FileNotFoundError(
            f"{who} needs a folder with files {pattern or '*'} ending in {', '.join(endings)}, "
            f"but finds none in {os.fspath(folder)!r}."
        )
    return files


def without_segments(files: Sequence[Path], ending: str) -> list[Path]:
    """Leave out tables of segments: the files whose names end in ``ending``, in any letter case.

    Names may also end in ``.labels.csv``, as exports of the label page, if there is a column
    ``start``.

    Parameters
    ----------
    files : sequence of Path
    ending : str

    Returns
    -------
    list of Path

    Raises
    ------
    OSError
        If a file cannot be read.

    Warns
    -----
    UserWarning
        If an omitted file has no column ``start``: such a file may not be a table of segments.

    See Also
    --------
    sequence_files : lists the files of a folder.

    Examples
    --------
    >>> from pathlib import Path
    >>> from metriclearn.datasets import without_segments
    >>> without_segments([Path("a.csv")], ".segments.csv")
    [PosixPath('a.csv')]
    """

    def has_times(file: Path) -> bool:
        with file.open("rb") as stream:
            return re.search(rb"\bstart\b", stream.readline(), re.IGNORECASE) is not None

    tables = [file for file in files if file.name.lower().endswith(ending)]
    if odd := [file.name for file in tables if not has_times(file)]:
        note(
            f"Files whose names end in {ending} count as tables of segments, so they are no "
            f"recordings: {', '.join(odd[:5])}; give them other names if they are."
        )
    others = [file for file in files if not file.name.lower().endswith(ending)]
    return [f for f in others if not (f.name.lower().endswith(".labels.csv") and has_times(f))]


@needs
def save_files(
    dataset: LabeledSequences,
    path: PathLike,
    format: Literal["csv", "tsv", "parquet", "npz"] = "csv",
    label: Text = "label",
    group: str | None = None,
) -> None:
    """Write a data set, without loss, in the layout that :func:`load_files` reads.

    Each file appears only when it is complete.

    Parameters
    ----------
    dataset : LabeledSequences
        The names of its sequences become file names.
    path : path
        A folder that is new or empty.
    format : {"csv", "tsv", "parquet", "npz"}
    label : str
        Column of the labels. npz files always have them under the name ``y``.
    group : str, optional
        Column of the groups. By default, only npz files hold the groups. npz files always have them
        under the name ``group``.

    Raises
    ------
    FileExistsError
        If the folder is not empty.
    ValueError
        If the format is unknown, names cannot be file names, column names clash, or the format
        cannot hold the labels.

    See Also
    --------
    load_files : reads this layout.
    """
    folder = new_folder("save_files", path)
    names = dataset.names
    if len(set(names)) < len(names) or any(Path(f"{name}.").name != f"{name}." for name in names):
        raise ValueError("save_files needs distinct sequence names without '/'; rename sequences.")
    columns = [*dataset.feature_names, label] + ([group] if group else [])
    if len({*map(text, columns), ""}) <= len(columns):
        raise ValueError(
            "save_files needs names of columns that are distinct and not empty, got "
            f"{columns[:20]}."
        )
    header, separator = io.StringIO(), SEPARATORS.get(f".{format}")
    csv.writer(header, delimiter=separator or ",").writerow(columns)
    if separator and table_form([header.getvalue()]).names != [one.strip() for one in columns]:
        raise ValueError(
            f"save_files needs names of columns that can be read back, got {columns[:20]}; leave "
            "out semicolons, commas, tabs, bars and line breaks, or save npz files."
        )
    for position, name in enumerate(names):
        with replacing(folder / f"{name}.{format}") as stream:
            _write(dataset, position, stream, format, label, group)


def new_folder(who: str, path: PathLike) -> Path:
    """Make a folder if it does not exist, check that it is empty, and return its path.

    Raises
    ------
    FileExistsError
        If the folder is not empty. The message starts with ``who``.
    """
    folder = Path(path)
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise FileExistsError(
            f"{who} needs a new or empty folder, but {os.fspath(folder)!r} holds files."
        )
    return folder


def _write(
    dataset: LabeledSequences, i: int, stream: BinaryIO, format: str, label: str, group: str | None
) -> None:
    """Save one sequence to a file from which its labels are read back unchanged."""
    pd = optional("pandas", "tables")
    labels, separator = dataset.labels[i], SEPARATORS.get(f".{format}")
    texts = {text(str(value)) for value in labels.tolist()}
    same = len(texts) < len(set(labels.tolist()))
    lost = separator and ("" in texts or any("\r" in one for one in texts))
    if same or lost or (format == "npz" and labels.dtype == object):
        raise ValueError(
            f"save_files needs labels that {format} files can hold, got empty, equally written or "
            f"mixed ones in sequence {dataset.names[i]!r}; number the labels first."
        )
    if format == "npz":
        owner, columns = np.array(dataset.groups[i]), np.array(dataset.feature_names)
        X = dataset.sequences[i]
        np.savez_compressed(stream, X=X, y=labels, group=owner, feature_names=columns)
        return
    frame = pd.DataFrame(dataset.sequences[i], columns=dataset.feature_names)
    frame[label] = labels
    if group:
        frame[group] = dataset.groups[i]
    if separator:
        frame.to_csv(stream, sep=separator, index=False)
    else:
        frame.to_parquet(stream, index=False)
