"""Labelled sequences that stay on disk: one file each, or all of them in one memory-mapped array.

What these classes give, ``fit`` takes: sequences are read when they are asked for, one at a time
on one machine, and by the workers that keep them under Dask.
"""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from metriclearn.datasets.files import READERS, sequence_files
from metriclearn.datasets.registry import damaged


class SequenceFolder:
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
    """

    def __init__(
        self, path: str | os.PathLike[str], label: str = "label", pattern: str | None = None
    ) -> None:
        folder = Path(path).absolute()
        matching = sequence_files("SequenceFolder", folder, pattern, _FORMATS)
        files = [file for file in matching if not file.name.endswith(".labels.npy")]
        self.names = [file.stem for file in files]
        texts = [os.fspath(file) for file in files]
        self.sequences = _Files(texts, label, 0)
        self.labels = _Files(texts, label, 1)

    def __len__(self) -> int:
        return len(self.names)

    def __repr__(self) -> str:
        return f"SequenceFolder({len(self)} sequences)"


class _Lazy(Sequence[NDArray]):
    """Arrays that are read when they are asked for; slices are lazy, too."""

    def __getitem__(self, i: Any) -> Any:
        return self.subset(np.arange(len(self))[i]) if isinstance(i, slice) else self.read(i)

    @abstractmethod
    def read(self, i: int) -> NDArray:
        """One array."""

    @abstractmethod
    def subset(self, places: NDArray) -> Self:
        """Some of the arrays, so that a task holds few names or numbers."""


class _Files(_Lazy):
    """The features (part 0) or the labels (part 1) of files."""

    def __init__(self, files: list[str], label: str, part: int) -> None:
        self._files, self._label, self._part = files, label, part

    def __len__(self) -> int:
        return len(self._files)

    def read(self, i: int) -> NDArray:
        file = Path(self._files[i])
        try:
            return _FORMATS[file.suffix.lower()](file, self._label, self._part)
        except (OSError, ValueError, KeyError, EOFError) as error:
            raise damaged(file, "a sequence with labels", error) from error

    def subset(self, places: NDArray) -> Self:
        return type(self)([self._files[i] for i in places], self._label, self._part)


def _npz(file: Path, label: str, part: int) -> NDArray:
    with np.load(file, allow_pickle=False) as arrays:
        return arrays["Xy"[part]]


def _npy(file: Path, label: str, part: int) -> NDArray:
    if part == 0:
        return np.load(file, mmap_mode="r", allow_pickle=False)
    return np.load(file.with_suffix(".labels.npy"), allow_pickle=False)


def _zarr(file: Path, label: str, part: int) -> NDArray:
    import zarr

    return np.asarray(zarr.open_group(os.fspath(file), mode="r")["Xy"[part]])


def _parquet(file: Path, label: str, part: int) -> NDArray:
    """Only the columns of the part, column by column from the mapped file."""
    import pyarrow.parquet as parquet

    names = parquet.read_schema(file).names
    wanted = [name for name in names if name != label] if part == 0 else [label]
    columns = parquet.read_table(file, columns=wanted, memory_map=True).columns
    values = np.column_stack([column.to_numpy() for column in columns])
    if part == 0:
        return values
    return values[:, 0].astype(np.str_) if values.dtype == object else values[:, 0]


def _text(file: Path, label: str, part: int) -> NDArray:
    features, labels, _ = READERS[file.suffix.lower()](file, label, None)
    return labels if part else features.to_numpy(dtype=np.float64)


# the features (part 0) or the labels (part 1) of a file, without the other where that is possible
_FORMATS: dict[str, Callable[[Path, str, int], NDArray]] = {
    ".npz": _npz,
    ".npy": _npy,
    ".parquet": _parquet,
    ".zarr": _zarr,
    ".csv": _text,
    ".tsv": _text,
}


class PackedSequences:
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
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        folder = Path(path).absolute()
        missing = [n for n in ("X", "labels", "ends") if not (folder / f"{n}.npy").is_file()]
        if missing:
            raise FileNotFoundError(
                f"PackedSequences needs X.npy, labels.npy and ends.npy in {os.fspath(folder)!r}, "
                f"but {missing[0]}.npy is missing; write the folder with pack_sequences."
            )
        ends = np.load(folder / "ends.npy", allow_pickle=False).astype(np.int64)
        self.sequences = _Rows(os.fspath(folder / "X.npy"), ends)
        self.labels = _Rows(os.fspath(folder / "labels.npy"), ends)
        rows = {len(self.sequences.array), len(self.labels.array)}
        if len(ends) == 0 or rows != {int(ends[-1])} or np.any(np.diff(ends, prepend=0) < 1):
            raise ValueError(
                f"PackedSequences needs increasing ends up to the number of rows and labels in "
                f"{os.fspath(folder)!r}, got {len(ends)} ends and {sorted(rows)} rows; write the "
                "folder again with pack_sequences."
            )

    def __len__(self) -> int:
        return len(self.sequences)

    def __repr__(self) -> str:
        return f"PackedSequences({len(self)} sequences)"


class _Rows(_Lazy):
    """Stretches of rows of a memory-mapped file, which is opened where it is read."""

    def __init__(self, file: str, ends: NDArray, starts: NDArray | None = None) -> None:
        self._file, self._ends = file, ends
        self._starts = np.append(0, ends[:-1]) if starts is None else starts
        self._array: NDArray | None = None

    @property
    def array(self) -> NDArray:
        """The whole file, mapped."""
        if self._array is None:
            self._array = np.load(self._file, mmap_mode="r", allow_pickle=False)
        return self._array

    def __len__(self) -> int:
        return len(self._ends)

    def read(self, i: int) -> NDArray:
        return self.array[self._starts[i] : self._ends[i]]

    def subset(self, places: NDArray) -> Self:
        return type(self)(self._file, self._ends[places], self._starts[places])

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_array": None}


def pack_sequences(
    sequences: Sequence[Any], labels: Sequence[Any], path: str | os.PathLike[str]
) -> PackedSequences:
    """Write sequences, one after another, to a folder that :class:`PackedSequences` reads.

    Parameters
    ----------
    sequences, labels : (lazy) sequences of (T_i, P) and (T_i,) arrays
        Features keep the floating-point type of the first sequence; labels are numbers or strings.
    path : path
        A folder that is new or empty.

    Raises
    ------
    FileExistsError
        If the folder holds anything.
    ValueError
        If a sequence has other features than the first, or not one label per row.
    """
    folder = Path(path)
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise FileExistsError(
            f"pack_sequences needs a new or empty folder, got {os.fspath(folder)!r}, which holds "
            "files."
        )
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
