"""Replace files as a whole, report damaged or too large files clearly, and save checkpoints."""

from __future__ import annotations

import errno
import hashlib
import logging
import lzma
import os
import time
import zlib
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from glob import escape
from io import BufferedIOBase
from math import prod
from pathlib import Path
from secrets import token_hex
from typing import Any, BinaryIO
from zipfile import BadZipFile, ZipFile

import numpy as np
from numpy.typing import NDArray

try:
    import fcntl
except ImportError:  # on Windows, where an open file cannot be removed
    fcntl = None  # type: ignore[assignment]

_LOGGER = logging.getLogger(__name__)
_FORMAT = b"2"  # increased when names or units in a solver's state change, to refuse older files
LARGEST = 10**9  # bytes of all contents together
# Contents above this many bytes may be at most so many times as large as the file.
_SURE, _RATIO = 64 * 10**6, 100
# Errors that readers raise for truncated files or files of another kind.
_DAMAGED = (OSError, ValueError, KeyError, EOFError, BadZipFile, zlib.error, lzma.LZMAError)


@contextmanager
def reading(path: str | os.PathLike[str], needed: str, *further: type[Exception]) -> Iterator[None]:
    """Context for reading a file, which turns errors of damaged files into one clear ValueError.

    Parameters
    ----------
    path : path
        The file.
    needed : str
        Kind of file that is needed, for the message.
    *further : exception classes
        Further errors that can occur when a damaged file of this kind is read. OSError, ValueError,
        KeyError, EOFError and the errors of zip, zlib and lzma are always included.

    Raises
    ------
    ValueError
        If the file is damaged or of another kind. The message names the file and the reason. If the
        message of the original error already begins with the path, that error is raised unchanged.
    OSError
        If the operating system cannot read the file, for example because it does not exist. Such an
        error is raised unchanged.
    """
    try:
        yield
    except _DAMAGED + further as error:
        # a damaged archive can make the system seek to an impossible place
        of_the_system = isinstance(error, OSError) and error.errno not in (None, errno.EINVAL)
        if of_the_system or str(error).startswith(repr(os.fspath(path))):
            raise
        if isinstance(error, UnicodeDecodeError):
            raise ValueError(f"{os.fspath(path)!r} needs to be text; save it as UTF-8.") from error
        reason = str(error).strip().splitlines()[0] if str(error).strip() else "no reason given"
        raise ValueError(
            f"{os.fspath(path)!r} cannot be read as {needed}: it is truncated, damaged or of "
            f"another kind ({type(error).__name__}: {reason.rstrip('.')}); get or make it again."
        ) from error


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
        contents = sum(_size(archive, member) for member in members.values())
        check_contents(repr(os.fspath(path)), contents, os.path.getsize(path), largest)
        arrays = {}
        for name, member in members.items():
            with archive.open(member) as stream:
                arrays[name] = np.lib.format.read_array(stream, allow_pickle=False)
        return arrays


def write_npz(path: str | os.PathLike[str], arrays: dict[str, NDArray[Any]]) -> None:
    """Replace an npz file as a whole, so that :func:`read_npz` reads it.

    The arrays are compressed, unless they would become so small that the file would be refused.

    Raises
    ------
    TooLarge
        If the arrays have more than a gigabyte.
    OSError
        If the file cannot be written.
    """
    contents = sum(array.nbytes for array in arrays.values())
    if contents > LARGEST:
        raise TooLarge(
            f"{os.fspath(path)!r} would hold {contents / 1e6:.0f} MB, and at most "
            f"{LARGEST / 1e6:.0f} MB are read; save less, or pickle it for yourself."
        )
    with replacing(path) as stream:
        np.savez_compressed(stream, **arrays)  # type: ignore[arg-type]
        if contents > max(_SURE, _RATIO * stream.seek(0, os.SEEK_END)):
            stream.seek(0)
            stream.truncate()
            np.savez(stream, **arrays)  # type: ignore[arg-type]


def _size(archive: ZipFile, member: str) -> int:
    """Return the bytes of an array by its header. Raises ValueError for anything but an array."""
    form = np.lib.format
    with archive.open(member) as stream:
        first = form.read_magic(stream) == (1, 0)
        read = form.read_array_header_1_0 if first else form.read_array_header_2_0
        shape, _, dtype = read(stream)
    return prod(map(int, shape), start=max(1, dtype.itemsize))


def writable(path: str | os.PathLike[str]) -> Path:
    """Check that a file can be written, and return its absolute path.

    Raises
    ------
    OSError
        If the path is a folder or a device, or if its folder is missing or read-only.
    """
    target = Path(path).absolute()
    if target.is_dir():
        raise IsADirectoryError(
            f"{path} is a folder; add the name of the file to write, as in {target / 'NAME'}."
        )
    # replacing /dev/null by a file would break other programs
    if target.parent == Path("/dev") or (target.exists() and not target.is_file()):
        raise OSError(f"{path} is no file that can be replaced; choose the name of a file.")
    if not target.parent.is_dir():
        raise FileNotFoundError(
            f"{path} cannot be written: there is no folder {target.parent}; make it first, or "
            "choose another name."
        )
    if not os.access(target.parent, os.W_OK):
        raise PermissionError(
            f"{path} cannot be written: {target.parent} may only be read; choose a folder that "
            "can be written to."
        )
    return target


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Context that opens a stream, and replaces the file ``path`` if the block ends without error.

    Until then, the stream writes to a hidden file ``.NAME.*.tmp`` next to ``path``. The hidden file
    is locked while the process runs. If the process is killed, the hidden file remains until
    ``path`` is written again.

    Raises
    ------
    OSError
        If the file cannot be written, for example because the disk is full or the folder is
        read-only. An existing file then stays as it is.
    """
    target = writable(path)
    temporary = f"{target.parent}/.{target.name}.{token_hex(4)}.tmp"
    stream = None
    try:
        for leftover in target.parent.glob(f".{escape(target.name)}.*.tmp"):
            with suppress(OSError), open(leftover, "rb") as abandoned:
                _lock(abandoned, wait=False)  # fails while its writer runs
                leftover.unlink()
        while stream is None or not os.path.exists(temporary):  # gone before it was locked
            stream = open(temporary, "xb")  # noqa: SIM115
            with suppress(OSError):  # a file system without locks
                _lock(stream, wait=True)
        yield stream
        stream.flush()
        os.fsync(stream.fileno())
        if fcntl is None:
            stream.close()
        os.replace(temporary, target)
    except OSError as error:
        if not error.strerror or error.filename not in (None, temporary):
            raise  # an error of another file that the block reads
        raise OSError(
            f"{path} cannot be written: {error.strerror}; make room in {target.parent}, or choose "
            "a folder that can be written to."
        ) from error
    finally:
        if stream is not None:
            with suppress(OSError):  # where the disk is full
                stream.close()
        with suppress(FileNotFoundError):  # it was renamed to the target
            os.unlink(temporary)


@contextmanager
def locked(folder: str | os.PathLike[str], seconds: float = 10.0) -> Iterator[None]:
    """Context that only one process at a time can enter for the same folder.

    On file systems without locks, such as some network drives, several processes can enter at once.

    Raises
    ------
    OSError
        If another process stays in the context for longer than ``seconds``.
    """
    if fcntl is None:
        yield
        return
    descriptor, deadline = os.open(folder, os.O_RDONLY), time.monotonic() + seconds
    try:
        while True:
            try:
                _lock(descriptor, wait=False)
            except BlockingIOError as error:
                if time.monotonic() > deadline:
                    raise OSError(
                        f"another program has been writing in {folder} for {seconds:g} s; stop it "
                        "or try again."
                    ) from error
                time.sleep(0.005)
                continue
            except OSError:  # a file system without locks
                pass
            break
        yield
    finally:
        os.close(descriptor)


def _lock(stream: BufferedIOBase | int, wait: bool) -> None:
    if fcntl is not None:
        fcntl.flock(stream, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))


class Checkpoint:
    """A file to which the state of a computation is saved, so that it can be resumed.

    A state is a dictionary of arrays.

    Parameters
    ----------
    path : str
        A ``.npz`` file in an existing folder.
    who : str
        Name of the caller, for error messages.
    *identity : numbers and arrays
        Values that identify the problem, so that a state is never used for another problem. The
        file stores only a digest of these values. For this digest, each array is divided by its
        largest absolute value and rounded to nine digits, because the last bits may differ between
        machines.
    """

    def __init__(self, path: str, who: str, *identity: Any) -> None:
        self.path, self.who = path, who
        digest = hashlib.sha256(_FORMAT)
        for value in identity:
            array = np.asarray(value, dtype=np.float64)
            scale = float(np.max(np.abs(array), initial=0.0)) or 1.0
            digest.update(f"{scale:.9e}".encode())
            digest.update((np.round(array / scale, 9) + 0.0).tobytes())  # + 0.0: no -0.0
        self.identity = digest.hexdigest()

    def save(self, state: dict[str, Any]) -> None:
        """Write the state to a temporary file, then replace the old one."""
        with replacing(self.path) as stream:
            np.savez(stream, **state, identity=self.identity)

    def load(self) -> dict[str, NDArray]:
        """Load the saved state. If there is no file, the state is empty.

        Raises
        ------
        ValueError
            If the file is not a checkpoint, or if it belongs to another problem.
        IsADirectoryError
            If the path is a folder.
        """
        if not os.path.exists(self.path):
            return {}
        needed = f"a checkpoint of {self.who} (remove it to start afresh)"
        with reading(self.path, needed, Exception):
            state: dict[str, Any] = read_npz(self.path, largest=np.inf)
            identity = str(state.pop("identity"))
        if identity != self.identity:
            raise ValueError(
                f"{self.who} needs a checkpoint of this problem, but {self.path!r} belongs to "
                "other data, settings or an older version; remove it or choose another checkpoint "
                "file."
            )
        _LOGGER.info("resuming from %s", self.path)
        return state
