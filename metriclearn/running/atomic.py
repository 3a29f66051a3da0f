"""Files that are either the old one or the new one, and what is said of those that are damaged."""

from __future__ import annotations

import errno
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from glob import escape
from io import BufferedIOBase
from pathlib import Path
from secrets import token_hex
from typing import BinaryIO
from zipfile import BadZipFile

try:
    import fcntl
except ImportError:  # on Windows, where a file that is open cannot be removed
    fcntl = None  # type: ignore[assignment]

# What readers raise for files that are cut or of another kind.
_DAMAGED = (OSError, ValueError, KeyError, EOFError, BadZipFile, zlib.error)


@contextmanager
def reading(path: str | os.PathLike[str], needed: str, *further: type[Exception]) -> Iterator[None]:
    """One sentence for what a file that is not what it should be raises in the block.

    Parameters
    ----------
    path : path
        The file.
    needed : str
        What it should be.
    *further : exception classes
        What a damaged file of this kind raises besides OSError, ValueError, KeyError, EOFError
        and the errors of zip and zlib.

    Raises
    ------
    ValueError
        Naming file and reason; a sentence that begins with the path is raised as it is.
    OSError
        As it is where the operating system says what is wrong: no such file, no permission, a
        disk that cannot be read.
    """
    try:
        yield
    except _DAMAGED + further as error:
        # a damaged archive has the system seek where no file can be
        of_the_system = isinstance(error, OSError) and error.errno not in (None, errno.EINVAL)
        if of_the_system or str(error).startswith(repr(os.fspath(path))):
            raise
        reason = str(error).strip().splitlines()[0] if str(error).strip() else "no reason given"
        raise ValueError(
            f"{os.fspath(path)!r} cannot be read as {needed}: it is truncated, damaged or of "
            f"another kind ({type(error).__name__}: {reason.rstrip('.')}); get or make it again."
        ) from error


def writable(path: str | os.PathLike[str]) -> Path:
    """The absolute path of a file that may be written.

    Raises
    ------
    OSError
        If it is a folder, or its folder is missing or may only be read.
    """
    target = Path(path).absolute()
    if target.is_dir():
        raise IsADirectoryError(
            f"{path} is a folder; add the name of the file to write, as in {target / 'NAME'}."
        )
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
    """A stream that becomes the file ``path`` once the block ends without an error.

    Until then it is a hidden file ``.NAME.*.tmp`` beside it, locked while its writer lives: what
    a killed one has left behind goes when a file of that name is written again.

    Raises
    ------
    OSError
        If the file cannot be written, such as for a full disk or a folder that may only be read;
        an older file stays as it was.
    """
    target = writable(path)
    temporary = f"{target.parent}/.{target.name}.{token_hex(4)}.tmp"
    stream = None
    try:
        for leftover in target.parent.glob(f".{escape(target.name)}.*.tmp"):
            with suppress(OSError), open(leftover, "rb") as abandoned:
                _lock(abandoned, wait=False)  # fails while its writer lives
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
            raise  # of another file, which the block reads
        raise OSError(
            f"{path} cannot be written: {error.strerror}; make room in {target.parent}, or choose "
            "a folder that can be written to."
        ) from error
    finally:
        if stream is not None:
            with suppress(OSError):  # where the disk is full
                stream.close()
        with suppress(FileNotFoundError):  # as it is the file now
            os.unlink(temporary)


def _lock(stream: BufferedIOBase, wait: bool) -> None:
    if fcntl is not None:
        fcntl.flock(stream, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
