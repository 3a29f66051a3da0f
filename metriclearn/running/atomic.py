"""Writing a file so that it is either the old one or the new one, never half of one."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

__all__ = ["replacing"]


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
