"""Read npz files without believing their sizes: small files may expand to many gigabytes."""

from __future__ import annotations

import os
from collections.abc import Collection
from typing import IO, Any
from zipfile import ZipFile

import numpy as np
from numpy.typing import NDArray

LARGEST = 10**9  # bytes of all contents together
# Contents above this many bytes may be at most so many times as large as the file.
_SURE, _RATIO = 64 * 10**6, 100


class TooLarge(ValueError):
    """Raised if the contents of a file are larger than allowed."""


def check_contents(name: str, contents: int, size: int, largest: float = LARGEST) -> None:
    """Refuse contents that are too large, or too large for a file of ``size`` bytes.

    Raises
    ------
    TooLarge
        The message begins with ``name``.
    """
    most = min(largest, max(_SURE, _RATIO * size))
    if contents > most:
        raise TooLarge(
            f"{name} expands to {contents / 1e6:.0f} MB, and at most {most / 1e6:.0f} MB are read "
            f"from a file of {size / 1e6:.3g} MB; divide it, or get it from another source."
        )


def read_npz(
    path: str | os.PathLike[str],
    names: Collection[str] | None = None,
    *,
    largest: float = LARGEST,
) -> dict[str, NDArray[Any]]:
    """Read arrays of an npz file, after all their headers have been read and their sizes checked.

    Parameters
    ----------
    path : path
    names : collection of str, optional
        The arrays to read, if the file has them; all by default.
    largest : float
        The most bytes that the arrays may have together.

    Raises
    ------
    TooLarge
        If the arrays are too large, see :func:`check_contents`.
    ValueError, KeyError, OSError, zipfile.BadZipFile, zlib.error, RuntimeError
        If the file is damaged or holds anything but plain arrays.
    """
    with ZipFile(path) as archive:
        members = {member.removesuffix(".npy"): member for member in archive.namelist()}
        members = {k: v for k, v in members.items() if names is None or k in names}
        contents = 0
        for member in members.values():
            with archive.open(member) as stream:
                contents += _size(stream)
        check_contents(repr(os.fspath(path)), contents, os.path.getsize(path), largest)
        arrays = {}
        for name, member in members.items():
            with archive.open(member) as stream:
                arrays[name] = np.lib.format.read_array(stream, allow_pickle=False)
        return arrays


def _size(stream: IO[bytes]) -> int:
    """Return the bytes of an array by its header. Raises ValueError for anything but an array."""
    form = np.lib.format
    first = form.read_magic(stream) == (1, 0)
    read = form.read_array_header_1_0 if first else form.read_array_header_2_0
    shape, _, dtype = read(stream)
    size = max(1, dtype.itemsize)
    for length in shape:
        size *= int(length)
    return size
