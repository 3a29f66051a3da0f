"""Labelled sequences that stay on disk: one file each, or all of them in one memory-mapped array.

``fit`` accepts the sequences of these classes and reads them when it needs them. On one machine,
every thread reads one sequence at a time. Under Dask, a sequence is read by the worker to which it
is assigned.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metriclearn.datasets.files import ENDINGS, read_labeled
from metriclearn.datasets.registry import PathLike
from metriclearn.datasets.sequence_folders import new_folder, sequence_files
from metriclearn.running.atomic import read_npz, reading
from metriclearn.running.extras import optional


class LazyArrays(Sequence[NDArray]):
    """A sequence of N arrays. An array is read when it is indexed. Slices are lazy, too.

    Parameters
    ----------
    read : callable
        ``read(places[i])`` reads array i.
    places : array (N, …)
        Where each array is stored: for example the path of its file, or the number of its first row
        in a file and of the row after its last row.
    """

    def __init__(self, read: Callable[[Any], NDArray], places: NDArray) -> None:
        self._read, self._places = read, places

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, i: Any) -> Any:
        return self.subset(i) if isinstance(i, slice) else self._read(self._places[i])

    def subset(self, chosen: NDArray | slice) -> LazyArrays:
        """Select some of the arrays without reading them."""
        return LazyArrays(self._read, self._places[chosen])


class _OnDisk:
    """Sequences on disk. A sequence and its labels are read when they are indexed."""

    sequences: LazyArrays
    labels: LazyArrays

    def __len__(self) -> int:
        return len(self.sequences)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} sequences)"


class SequenceFolder(_OnDisk):
    """Read sequences from a folder with one file per sequence. A file is read when it is indexed.

    The folder has the layout of :func:`~metriclearn.datasets.load_files`. The folder may also hold
    sequences in two other formats. ``NAME.npy`` holds features (T, P), which are memory-mapped, and
    ``NAME.labels.npy`` holds their labels. ``NAME.zarr`` is a Zarr group with the arrays ``X`` and
    ``y``. Files are sorted by name.

    Parameters
    ----------
    path : path
        The folder; under Dask every worker must see it at this path.
    label : str
        Column of the labels in tables.
    pattern : str, optional
        Use only files whose names match this pattern, such as ``"train_*.npz"``.

    Attributes
    ----------
    sequences, labels : lazy sequences of arrays (T_i, P) and (T_i,)
        Arguments for ``fit(folder.sequences, folder.labels)``.
    names : list of str
        Name of every sequence: its file without the ending.

    Raises
    ------
    FileNotFoundError
        If the folder does not exist or has no file of these kinds.

    See Also
    --------
    load_files : reads all files at once.
    PackedSequences : reads many sequences from one file.
    """

    def __init__(self, path: PathLike, label: str = "label", pattern: str | None = None) -> None:
        folder, endings = Path(path).absolute(), (*ENDINGS, ".npy", ".zarr")
        matching = sequence_files("SequenceFolder", folder, pattern, endings)
        files = [file for file in matching if not file.name.endswith(".labels.npy")]
        self.names = [file.stem for file in files]
        places = np.array([os.fspath(file) for file in files], dtype=object)
        self.sequences = LazyArrays(partial(_read, label, "X"), places)
        self.labels = LazyArrays(partial(_read, label, "y"), places)


def _read(label: str, part: str, file: str) -> NDArray:
    """Read the features (``part="X"``) or the labels (``part="y"``) of a file."""
    path, kind = Path(file), Path(file).suffix.lower()
    with reading(path, "a sequence with labels", TypeError, RuntimeError):
        if kind == ".npy":
            array = path if part == "X" else path.with_suffix(".labels.npy")
            return np.load(array, mmap_mode="r", allow_pickle=False)
        if kind == ".npz":
            return read_npz(path, [part])[part]
        if kind == ".zarr":
            zarr = optional("zarr", "dask")
            return np.asarray(zarr.open_group(file, mode="r")[part])
        features, labels, _ = read_labeled(path, label)
        return labels if part == "y" else features.to_numpy(dtype=np.float64)


class PackedSequences(_OnDisk):
    """Many sequences in one memory-mapped array. Features in float64 are used without a copy.

    :func:`pack_sequences` writes three files. ``X.npy`` (ΣT, P) holds the features of all
    sequences, one after another, and ``labels.npy`` (ΣT,) holds their labels. ``ends.npy`` (N,)
    holds the index of the row after the last row of each sequence.

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
        If one of the three files is missing.
    ValueError
        If the files do not fit together.

    See Also
    --------
    pack_sequences : writes the folder.

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
                f"PackedSequences needs {missing[0]}.npy in {os.fspath(folder)!r}; write the "
                "folder with pack_sequences."
            )
        ends = np.load(folder / "ends.npy", allow_pickle=False).astype(np.int64)
        rows, labels = _Rows(folder / "X.npy"), _Rows(folder / "labels.npy")
        counts = {len(rows.array), len(labels.array)}
        if len(ends) == 0 or counts != {int(ends[-1])} or np.any(np.diff(ends, prepend=0) < 1):
            raise ValueError(
                f"PackedSequences needs increasing ends up to the number of rows and labels, got "
                f"{len(ends)} ends and {sorted(counts)} rows in {os.fspath(folder)!r}; write them "
                "again with pack_sequences."
            )
        spans = np.column_stack([np.append(0, ends[:-1]), ends])
        self.sequences, self.labels = LazyArrays(rows, spans), LazyArrays(labels, spans)


class _Rows:
    """Reads ranges of rows of a memory-mapped file.

    A process opens the file when it first reads from it.
    """

    def __init__(self, file: Path) -> None:
        self._file = file

    @cached_property
    def array(self) -> NDArray:
        """The content of the file as a memory-mapped array."""
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
        Features are stored in the floating-point type of the first sequence. Labels are numbers or
        strings.
    path : path
        A folder that is new or empty.

    Returns
    -------
    PackedSequences

    Raises
    ------
    FileExistsError
        If the folder is not empty.
    ValueError
        If a sequence has another number of features than the first, or a wrong number of labels.

    See Also
    --------
    PackedSequences : reads the folder.
    SequenceFolder : reads a folder with one file per sequence.
    """
    folder = new_folder("pack_sequences", path)
    if not 0 < len(sequences) == len(labels):
        raise ValueError(
            f"pack_sequences needs labels for every sequence, got {len(sequences)} sequences and "
            f"{len(labels)} label arrays."
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
