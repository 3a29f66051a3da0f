"""Labelled sequences that stay on disk: one file each, or all of them in one memory-mapped array.

What these classes give, ``fit`` takes: sequences are read when they are asked for, one at a time
on one machine, and by the workers that keep them under Dask.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metriclearn.datasets.files import READERS, new_folder, sequence_files
from metriclearn.datasets.registry import PathLike
from metriclearn.running.atomic import reading
from metriclearn.running.extras import optional


class LazyArrays(Sequence[NDArray]):
    """Arrays that are read when they are asked for; slices are lazy, too.

    Parameters
    ----------
    read : callable
        Reads the array at one of the places.
    places : array (N, …)
        The name of a file, say, or the first and last row in one.
    """

    def __init__(self, read: Callable[[Any], NDArray], places: NDArray) -> None:
        self._read, self._places = read, places

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, i: Any) -> Any:
        return self.subset(i) if isinstance(i, slice) else self._read(self._places[i])

    def subset(self, chosen: NDArray | slice) -> LazyArrays:
        """Some of the arrays, so that a task holds few names or numbers."""
        return LazyArrays(self._read, self._places[chosen])


class _OnDisk:
    """Lazy sequences and their labels."""

    sequences: LazyArrays
    labels: LazyArrays

    def __len__(self) -> int:
        return len(self.sequences)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} sequences)"


class SequenceFolder(_OnDisk):
    """A folder with one file per sequence, none of which is read before it is asked for.

    The layout is that of :func:`~metriclearn.datasets.load_files`, with two more kinds: ``.npy``
    files of (T, P) features, memory-mapped, with labels beside them in ``NAME.labels.npy``, and
    ``.zarr`` folders, groups with the arrays ``X`` and ``y``. Files are sorted by name.

    Parameters
    ----------
    path : path
        The folder; under Dask every worker must see it at this path.
    label : str
        Column of the labels in tables.
    pattern : str, optional
        Only files that match, such as ``"train_*.npz"``.

    Attributes
    ----------
    sequences, labels : lazy sequences of arrays (T_i, P) and (T_i,)
        For ``fit(folder.sequences, folder.labels)``.
    names : list of str

    Raises
    ------
    FileNotFoundError
        If the folder does not exist or holds no such file.

    See Also
    --------
    load_files : which reads all at once.
    PackedSequences : many sequences in one file.
    """

    def __init__(self, path: PathLike, label: str = "label", pattern: str | None = None) -> None:
        folder, endings = Path(path).absolute(), (*READERS, ".npy", ".zarr")
        matching = sequence_files("SequenceFolder", folder, pattern, endings)
        files = [file for file in matching if not file.name.endswith(".labels.npy")]
        self.names = [file.stem for file in files]
        places = np.array([os.fspath(file) for file in files], dtype=object)
        self.sequences = LazyArrays(partial(_read, label, "X"), places)
        self.labels = LazyArrays(partial(_read, label, "y"), places)


def _read(label: str, part: str, file: str) -> NDArray:
    """The features ("X") or labels ("y") of a file, without the other where that is possible."""
    path, kind = Path(file), Path(file).suffix.lower()
    with reading(path, "a sequence with labels", TypeError):
        if kind == ".npy":
            array = path if part == "X" else path.with_suffix(".labels.npy")
            return np.load(array, mmap_mode="r", allow_pickle=False)
        if kind == ".npz":
            with np.load(path, allow_pickle=False) as arrays:
                return arrays[part]
        if kind == ".zarr":
            zarr = optional("zarr", "dask")

            return np.asarray(zarr.open_group(file, mode="r")[part])
        if kind == ".parquet":
            return _read_columns(path, label, part)
        features, labels, _ = READERS[kind](path, label, None)
        return labels if part == "y" else features.to_numpy(dtype=np.float64)


def _read_columns(path: Path, label: str, part: str) -> NDArray:
    """The columns of one part of a Parquet file, and no others."""
    import pandas as pd
    from pyarrow import parquet

    names = parquet.read_schema(path).names
    if label not in names:
        raise ValueError(f"{os.fspath(path)!r} needs a column {label!r}, got {names[:20]}.")
    if part == "X":
        features = [name for name in names if name != label]
        return pd.read_parquet(path, columns=features).to_numpy(dtype=np.float64)
    labels = pd.read_parquet(path, columns=[label])[label]
    if pd.api.types.is_string_dtype(labels) and not labels.hasnans:
        return labels.to_numpy().astype(np.str_)
    return labels.to_numpy()


class PackedSequences(_OnDisk):
    """Many sequences in one memory-mapped array: nothing to open, and no copy of float64 data.

    What :func:`pack_sequences` writes: ``X.npy`` (ΣT, P), ``labels.npy`` (ΣT,) and ``ends.npy``
    (N,), the row after the last of every sequence.

    Parameters
    ----------
    path : path
        The folder; under Dask every worker must see it at this path.

    Attributes
    ----------
    sequences, labels : lazy sequences of arrays (T_i, P) and (T_i,)

    Raises
    ------
    FileNotFoundError
        If one of the files is missing.
    ValueError
        If they do not fit together.

    See Also
    --------
    pack_sequences : what writes the folder.

    Examples
    --------
    >>> from metriclearn.datasets import PackedSequences
    >>> packed = PackedSequences("folder")  # doctest: +SKIP
    """

    def __init__(self, path: PathLike) -> None:
        folder = Path(path).absolute()
        missing = [n for n in ("X", "labels", "ends") if not (folder / f"{n}.npy").is_file()]
        if missing:
            raise FileNotFoundError(
                f"PackedSequences needs X.npy, labels.npy and ends.npy in {os.fspath(folder)!r}, "
                f"but {missing[0]}.npy is missing; write the folder with pack_sequences."
            )
        ends = np.load(folder / "ends.npy", allow_pickle=False).astype(np.int64)
        rows, labels = _Rows(folder / "X.npy"), _Rows(folder / "labels.npy")
        counts = {len(rows.array), len(labels.array)}
        if len(ends) == 0 or counts != {int(ends[-1])} or np.any(np.diff(ends, prepend=0) < 1):
            raise ValueError(
                f"PackedSequences needs increasing ends up to the number of rows and labels in "
                f"{os.fspath(folder)!r}, got {len(ends)} ends and {sorted(counts)} rows; write the "
                "folder again with pack_sequences."
            )
        spans = np.column_stack([np.append(0, ends[:-1]), ends])
        self.sequences, self.labels = LazyArrays(rows, spans), LazyArrays(labels, spans)


class _Rows:
    """Stretches of rows of a memory-mapped file, which is opened where it is read."""

    def __init__(self, file: Path) -> None:
        self._file = file

    @cached_property
    def array(self) -> NDArray:
        """The whole file, mapped."""
        return np.load(self._file, mmap_mode="r", allow_pickle=False)

    def __call__(self, span: NDArray) -> NDArray:
        return self.array[span[0] : span[1]]

    def __reduce__(self) -> tuple[Any, ...]:
        return _Rows, (self._file,)


def pack_sequences(
    sequences: Sequence[Any], labels: Sequence[Any], path: PathLike
) -> PackedSequences:
    """Write sequences, one after another, to a folder that :class:`PackedSequences` reads.

    Parameters
    ----------
    sequences, labels : (lazy) sequences of (T_i, P) and (T_i,) arrays
        Features keep the floating-point type of the first sequence; labels are numbers or strings.
    path : path
        A folder that is new or empty.

    Returns
    -------
    PackedSequences

    Raises
    ------
    FileExistsError
        If the folder holds anything.
    ValueError
        If a sequence has other features than the first, or not one label per row.

    See Also
    --------
    PackedSequences : which reads them.
    SequenceFolder : a file per sequence.
    """
    folder = new_folder("pack_sequences", path)
    if not 0 < len(sequences) == len(labels):
        raise ValueError(
            f"pack_sequences needs one labeling per sequence, got {len(sequences)} sequences and "
            f"{len(labels)} labelings."
        )
    every_label = [np.asarray(labels[i]) for i in range(len(labels))]
    ends = np.cumsum([len(one) for one in every_label])
    first = np.asarray(sequences[0])
    kind = first.dtype if first.dtype.kind == "f" else np.dtype(np.float64)
    shape = (int(ends[-1]), first.shape[1])
    rows = np.lib.format.open_memmap(folder / "X.npy", mode="w+", dtype=kind, shape=shape)
    for i, end in enumerate(ends):
        values, size = np.asarray(sequences[i]), len(every_label[i])
        if values.shape != (size, shape[1]):
            raise ValueError(
                f"pack_sequences needs shape ({size}, {shape[1]}), a row per label and the "
                f"features of sequence 0, got {values.shape} in sequence {i}."
            )
        rows[end - size : end] = values
    rows.flush()
    np.save(folder / "labels.npy", np.concatenate(every_label), allow_pickle=False)
    np.save(folder / "ends.npy", ends)
    return PackedSequences(folder)
