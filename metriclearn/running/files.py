"""Files that are either the old one or the new one, and what is said of those that are damaged."""

from __future__ import annotations

import os
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO
from zipfile import BadZipFile

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
        of_the_system = isinstance(error, OSError) and error.errno is not None
        if of_the_system or str(error).startswith(repr(os.fspath(path))):
            raise
        reason = str(error).strip().splitlines()[0] if str(error).strip() else "no reason given"
        raise ValueError(
            f"{os.fspath(path)!r} cannot be read as {needed}: it is truncated, damaged or of "
            f"another kind ({type(error).__name__}: {reason.rstrip('.')}); get or make it again."
        ) from error


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A stream that becomes the file ``path`` once the block ends without an error.

    Raises
    ------
    OSError
        If the folder cannot be written; an older file stays as it was.
    """
    target = Path(path)
    if target.is_dir() or not target.absolute().parent.is_dir():
        raise FileNotFoundError(
            f"{target} cannot be written: it needs a file name in an existing folder; create "
            f"{target.absolute().parent} or choose another name."
        )
    handle, temporary = tempfile.mkstemp(suffix=".tmp", dir=target.absolute().parent)
    try:
        with os.fdopen(handle, "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(temporary, 0o666 & ~mask)
        os.replace(temporary, target)
    except BaseException:
        os.unlink(temporary)
        raise
