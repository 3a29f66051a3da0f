"""A user's own folder of labelled sequences: CSV, TSV, Parquet or npz, one file per sequence."""

from __future__ import annotations

import csv
import os
import re
import warnings
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from metriclearn.datasets.registry import PathLike, read_arrays
from metriclearn.datasets.sequences import LabeledSequences
from metriclearn.running.atomic import reading, replacing

if TYPE_CHECKING:
    import pandas as pd

SEPARATORS = {".csv": ",", ".tsv": "\t"}  # as written


def read_text_table(path: PathLike, needed: str, **options: Any) -> pd.DataFrame:
    """A table separated by what its first line has most of: commas, tabs or semicolons.

    No value counts as missing: a label may be called NA. With semicolons numbers may have decimal
    commas, as spreadsheets write them where the comma is one.

    Parameters
    ----------
    path : path
    needed : str
        What the file should be, for errors.
    **options
        Of ``pandas.read_csv``.

    Raises
    ------
    ValueError
        If the file is damaged, a column is repeated, or a row has too many values; the
        sentence names the file.
    """
    import pandas as pd

    with reading(path, needed, pd.errors.ParserWarning), warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)  # a row with too many values
        try:
            with open(path, encoding="utf-8-sig") as stream:
                header = stream.readline()
            separator = max(",\t;", key=header.count)
            spaced = f"{separator} " in header  # which is no part of a value then
            reader = csv.reader([header], delimiter=separator, skipinitialspace=spaced)
            names = next(reader, [])
            if repeated := [name for name in set(names) if name and names.count(name) > 1]:
                raise ValueError(
                    f"{os.fspath(path)!r} needs each column once, but repeats "
                    f"{sorted(repeated)[:5]}; rename or remove the others."
                )
            return pd.read_csv(
                path,
                sep=separator,
                decimal="," if separator == ";" else ".",
                index_col=False,
                encoding="utf-8-sig",
                na_filter=False,
                skipinitialspace=spaced,
                **options,
            )
        except UnicodeDecodeError as error:
            raise ValueError(
                f"{os.fspath(path)!r} needs to be text in UTF-8; save it as CSV UTF-8."
            ) from error


def load_files(
    path: PathLike,
    label: str = "label",
    pattern: str | None = None,
    group: str | None = None,
    ignore: Collection[str] = (),
) -> LabeledSequences:
    """Every sequence in a folder: one file each, one row per sample, one column of labels.

    ``.csv``, ``.tsv`` and ``.parquet`` files have the label in column ``label``; all other columns
    are features; semicolons or tabs may stand for the commas. ``.npz`` files have arrays ``X``
    (T, P) and ``y`` (T,), and may name the columns in ``feature_names`` and the group in ``group``.
    Files are sorted by name, which without its
    ending is the name of the sequence. In text files labels are compared as they are written,
    and given as integers where all of a file are.

    Parameters
    ----------
    path : path
        The folder; folders inside it are not entered.
    label : str
        Column of the labels.
    pattern : str, optional
        Only files that match, such as ``"train_*.csv"``; by default all four kinds.
    group : str, optional
        Column (npz: always the array ``group``) that holds the group of the sequence, one value
        per file; by default every sequence is a separate group.
    ignore : collection of str
        Columns that are no features, such as a time stamp, of one file or more.

    Returns
    -------
    LabeledSequences
        ``sequences`` of shape (T_i, P), ``labels`` (T_i,), ``groups``, ``names``.

    Raises
    ------
    FileNotFoundError
        If the folder does not exist or holds no such file.
    ValueError
        If a file cannot be read, misses a column or a value, or has other feature columns than
        the first one; the sentence names file, row (line after the header, from 1) and column.

    See Also
    --------
    save_files : the other direction.
    SequenceFolder : the same without reading them.
    """
    folder = Path(path)
    files = sequence_files("load_files", folder, pattern, READERS)
    read = [READERS[file.suffix.lower()](file, label, group) for file in files]
    columns = {str(name): None for features, _, _ in read for name in features.columns}
    if not set(ignore) <= set(columns) or set(columns) <= set(ignore):
        raise ValueError(
            f"{os.fspath(folder)!r} needs columns to ignore that its files have, and others that "
            f"are features; its columns besides {label!r} are {list(columns)[:20]}, those to "
            f"ignore {list(ignore)}."
        )
    tables = [features.drop(columns=list(ignore), errors="ignore") for features, _, _ in read]
    feature_names = list(tables[0].columns)
    sequences = []
    for file, features in zip(files, tables):
        repeated = features.columns[features.columns.duplicated()].tolist()
        lacking = [name for name in feature_names if name not in features.columns]
        extra = [name for name in features.columns if name not in feature_names]
        if repeated or lacking or extra:
            raise ValueError(
                f"{os.fspath(file)!r} needs each feature column of {files[0].name!r} once and no "
                f"other, but repeats {repeated[:5]}, lacks {lacking[:5]} and adds {extra[:5]}; "
                "leave out what not all have (ignore=…, --ignore)."
            )
        sequences.append(finite_values(features[feature_names], file))
    rising = np.all([np.all(np.diff(X, axis=0) > 0, axis=0) for X in sequences], axis=0)
    if max(map(len, sequences)) >= 10 and rising.any():  # fewer rows may rise by chance
        names = [str(name) for name, rises in zip(feature_names, rising) if rises]
        shown = " ".join(f"'{name}'" for name in names)
        warnings.warn(
            f"Columns of {os.fspath(folder)!r} that rise with every row of every file count as "
            f"features; if they are numbers of rows or times, leave them out (ignore={names}, "
            f"--ignore {shown}).",
            stacklevel=2,
        )
    return LabeledSequences(
        name=folder.resolve().name,
        sequences=sequences,
        labels=[labels for _, labels, _ in read],
        groups=[name for _, _, name in read],
        names=[file.stem for file in files],
        feature_names=[str(name) for name in feature_names],
    )


def sequence_files(
    who: str, folder: Path, pattern: str | None, endings: Collection[str]
) -> list[Path]:
    """Files of a folder with one of the endings, by name.

    Hidden ones are left out, and tables of segments, ``NAME.segments.csv``.

    Raises
    ------
    FileNotFoundError
        If there is none, in the name of ``who``.
    """
    matching = sorted(folder.glob(pattern or "*"), key=lambda file: file.name)
    known = [file for file in matching if file.suffix.lower() in endings]
    files = [file for file in known if not re.match(r"\.|.*\.segments\.csv$", file.name)]
    files = [file for file in files if file.is_file() or file.suffix.lower() == ".zarr"]
    if not files:
        raise FileNotFoundError(
            f"{who} needs a folder with files {pattern or '*'} ending in {', '.join(endings)}, "
            f"found none in {os.fspath(folder)!r}."
        )
    return files


Read = tuple["pd.DataFrame", NDArray, str]


def _read_table(file: Path, label: str, group: str | None) -> Read:
    import pandas as pd

    text, needed = file.suffix.lower() in SEPARATORS, f"a table as {file.suffix[1:]}"
    if text:
        kinds = {label: str} | ({group: str} if group else {})
        table = read_text_table(file, needed, dtype=kinds)
    else:
        with reading(file, needed):
            table = pd.read_parquet(file)
    features, labels, name = _divide(table, file, label, group)
    if text and all(re.fullmatch(r"0|-?[1-9]\d{0,17}", text) for text in labels):
        labels = labels.astype(np.int64)
    return features, labels, name


def _read_npz(file: Path, label: str, group: str | None) -> Read:
    import pandas as pd

    arrays = read_arrays(file)
    with reading(file, "arrays X (T, P) and y (T,), and P feature_names if any"):
        X, y = arrays["X"], arrays["y"]
        if X.ndim != 2 or y.shape != X.shape[:1]:
            raise ValueError(f"X has shape {X.shape} and y {y.shape}")
        names = arrays.get("feature_names", [f"x{i}" for i in range(X.shape[1])])
        return pd.DataFrame(X, columns=names), y, str(arrays.get("group", file.stem))


READERS: dict[str, Callable[[Path, str, str | None], Read]] = {
    ".csv": _read_table,
    ".tsv": _read_table,
    ".parquet": _read_table,
    ".npz": _read_npz,
}


def read_features(path: Path, ignore: Collection[str] = ()) -> pd.DataFrame:
    """All columns of a table, of any of the four kinds, but ``label`` and those to ignore, finite.

    Raises
    ------
    ValueError
        If the file is damaged, or has no rows or no column of numbers; the sentence names it.
    """
    import pandas as pd

    kind, needed = path.suffix.lower(), f"a table as {path.suffix[1:]}"
    if kind == ".npz":
        with reading(path, "an array X (T, P), and P feature_names if any"):
            arrays = read_arrays(path)
            X = np.atleast_2d(arrays["X"].T).T  # a signal is one column
            names = arrays.get("feature_names", [f"x{i}" for i in range(X.shape[1])])
            table = pd.DataFrame(X, columns=names)
    elif kind in SEPARATORS:
        table = read_text_table(path, needed)
    else:
        with reading(path, needed):
            table = pd.read_parquet(path)
    table = table.drop(columns=["label", *ignore], errors="ignore")
    if table.empty:
        raise ValueError(f"{os.fspath(path)!r} needs at least one row and one feature column.")
    return pd.DataFrame(finite_values(table, path), columns=table.columns)


def _divide(table: pd.DataFrame, file: Path, label: str, group: str | None) -> Read:
    """Feature columns, labels and group of a table, none of them missing."""
    import pandas as pd

    special = [label] + ([group] if group else [])
    for column in special:
        if column not in table.columns:
            raise ValueError(
                f"{os.fspath(file)!r} needs a column {column!r}, got {list(table.columns)[:20]}; "
                "name that of the labels (label=…, --label)."
            )
        blank = (table[column].isna() | (table[column].astype(str) == "")).to_numpy()
        if blank.any():
            raise ValueError(
                f"{os.fspath(file)!r} needs a value in every row, got none in row "
                f"{blank.argmax() + 1} of column {column!r}; write a word such as unknown there, "
                "which may be left out (data.without('unknown'), --unknown unknown)."
            )
    if table.empty or table.shape[1] == len(special):
        raise ValueError(f"{os.fspath(file)!r} needs at least one row and one feature column.")
    names = table[group].astype(str).unique() if group else [file.stem]
    if len(names) > 1:
        raise ValueError(
            f"{os.fspath(file)!r} needs one group per file, got {list(names)[:5]} in column "
            f"{group!r}."
        )
    labels = table[label].to_numpy()
    if pd.api.types.is_string_dtype(table[label]):
        labels = labels.astype(np.str_)
    return table.drop(columns=special), labels, str(names[0])


def finite_values(
    features: pd.DataFrame, file: Path, ignorable: bool = True
) -> NDArray[np.float64]:
    """Finite float64 values, or a sentence with the place of the first that is not.

    ``ignorable`` says that columns may be left out, as a remedy for those of text or time stamps.
    """
    import pandas as pd

    numbers = features.apply(pd.to_numeric, errors="coerce").to_numpy(dtype=np.float64)
    missing = ~np.isfinite(numbers)
    if missing.any():
        row, column = np.argwhere(missing)[0]
        value, name = str(features.iat[row, column]), str(features.columns[column])
        remedy, other = "fill or drop such rows", 2 * missing.sum(axis=0) > len(missing)
        if re.fullmatch(r"-?\d*,\d+(e[+-]?\d+)?", value.strip(), re.IGNORECASE):
            remedy = "write decimal points, or separate columns by semicolons"
        elif ignorable and other[column]:
            names = [str(name) for name in features.columns[other]]
            remedy = f"leave out what is no feature (ignore={names}, --ignore {' '.join(names)})"
        raise ValueError(
            f"{os.fspath(file)!r} needs finite numbers, got {value!r} in row {row + 1} of column "
            f"{name!r}; {remedy}."
        )
    return numbers


def load_features(path: Path, names: list[str]) -> NDArray[np.float64]:
    """Columns of a CSV file by name, finite, in the order of the names, (T, P).

    Raises
    ------
    ValueError
        If the file is no CSV file, is damaged, or lacks a column or rows; the sentence names it.
    """
    if path.suffix.lower() != ".csv":
        raise ValueError(f"{str(path)!r} needs to be a CSV file: the model was made from tables.")
    table = read_text_table(path, "a table as csv")
    missing = [name for name in names if name not in table.columns]
    if missing or table.empty:
        raise ValueError(
            f"{str(path)!r} needs rows with the columns of the model, {names[:8]}, but it lacks "
            f"{missing[:8] or 'rows'}."
        )
    return finite_values(table[names], path, ignorable=False)


def sampling_rate(files: Sequence[Path], time: str) -> float:
    """Rows per second of CSV files: one over the median step in their column of times.

    Parameters
    ----------
    files : sequence of paths
    time : str
        The column, of seconds or of time stamps.

    Raises
    ------
    ValueError
        If times do not increase, or every file has one row.

    Warns
    -----
    UserWarning
        If rows are not evenly spaced, or so far apart that times may be milliseconds.
    """
    import pandas as pd

    steps = []
    for file in files:
        values = read_text_table(file, "a table as csv")[time]
        seconds = pd.to_numeric(values, errors="coerce")
        stamped = seconds.isna().all()
        if stamped:
            stamps = pd.to_datetime(values, errors="coerce", format="mixed", utc=True)
            seconds = (stamps - stamps.iloc[0]).dt.total_seconds()
        steps.append(np.diff(seconds))
        if not np.all(steps[-1] > 0):
            row = int(np.argmin(steps[-1] > 0))
            raise ValueError(
                f"{str(file)!r} needs increasing seconds or time stamps in column {time!r}, got "
                f"{str(values[row])!r} and {str(values[row + 1])!r} in rows {row + 1} and "
                f"{row + 2}; sort the rows, or leave the column out by --ignore and give --rate."
            )
    every = np.concatenate(steps)
    if not len(every):
        raise ValueError(f"Files of one row have no rate in column {time!r}; give --rate.")
    step, medians = float(np.median(every)), [np.median(part) for part in steps if len(part)]
    if np.ptp(every) > step or np.ptp(medians) > 0.1 * step:
        warnings.warn(
            f"rows are {every.min():g} to {every.max():g} s apart by column {time!r}; results "
            f"count {step:g} s for each, so resample rows evenly where times matter.",
            stacklevel=2,
        )
    if step >= 5 and not stamped:
        warnings.warn(
            f"column {time!r} says {step:g} s from row to row; if it counts milliseconds, divide "
            f"it by 1000, or leave it out by --ignore and give --rate {1000 / step:g}.",
            stacklevel=2,
        )
    return 1 / step


def save_files(
    dataset: LabeledSequences,
    path: PathLike,
    format: str = "csv",
    label: str = "label",
    group: str | None = None,
) -> None:
    """Write a data set in the layout that :func:`load_files` reads, without loss.

    Every file is put in place in one step.

    Parameters
    ----------
    dataset : LabeledSequences
        Its names become file names.
    path : path
        A folder that is new or empty.
    format : {"csv", "tsv", "parquet", "npz"}
    label : str
        Column of the labels (npz: always the array ``y``).
    group : str, optional
        Column of the groups; by default they are not written (npz: always the array ``group``).

    Raises
    ------
    FileExistsError
        If the folder holds anything.
    ValueError
        If the format is unknown, names cannot be file names, column names clash, or labels would
        not survive the format.

    See Also
    --------
    load_files : the other direction.
    """
    if f".{format}" not in READERS:
        formats = sorted(suffix[1:] for suffix in READERS)
        raise ValueError(f"save_files needs a format among {formats}, got {format!r}.")
    folder = new_folder("save_files", path)
    names = dataset.names
    if len(set(names)) < len(names) or any(Path(f"{name}.").name != f"{name}." for name in names):
        raise ValueError("save_files needs distinct sequence names without '/'; rename sequences.")
    columns = [*dataset.feature_names, label] + ([group] if group else [])
    if len(set(columns)) < len(columns):
        raise ValueError(f"save_files needs distinct column names, got {columns[:20]}.")
    for position, name in enumerate(names):
        with replacing(folder / f"{name}.{format}") as stream:
            _write(dataset, position, stream, format, label, group)


def new_folder(who: str, path: PathLike) -> Path:
    """A folder without files, made if need be.

    Raises
    ------
    FileExistsError
        If the folder holds anything, in the name of ``who``.
    """
    folder = Path(path)
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise FileExistsError(
            f"{who} needs a new or empty folder, got {os.fspath(folder)!r}, which holds files."
        )
    return folder


def _write(
    dataset: LabeledSequences, i: int, stream: BinaryIO, format: str, label: str, group: str | None
) -> None:
    """Save one sequence to a file, so that labels are read back unchanged."""
    import pandas as pd

    labels, separator = dataset.labels[i], SEPARATORS.get(f".{format}")
    if separator:
        texts = [str(value) for value in labels.tolist()]
        if "" in texts or len(set(texts)) < len(set(labels.tolist())):
            raise ValueError(
                f"save_files needs labels that differ as text and are not empty, got others in "
                f"sequence {dataset.names[i]!r}; use format='npz' or rename the labels."
            )
    if format == "npz":
        if labels.dtype == object:
            raise ValueError(
                f"save_files needs numbers or strings as labels in npz files, got objects in "
                f"sequence {dataset.names[i]!r}; number the labels first."
            )
        names, person = np.array(dataset.feature_names), np.array(dataset.groups[i])
        np.savez_compressed(
            stream, X=dataset.sequences[i], y=labels, feature_names=names, group=person
        )
        return
    frame = pd.DataFrame(dataset.sequences[i], columns=dataset.feature_names)
    frame[label] = labels
    if group:
        frame[group] = dataset.groups[i]
    if separator:
        frame.to_csv(stream, sep=separator, index=False)
    else:
        frame.to_parquet(stream, index=False)
