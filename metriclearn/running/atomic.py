"""Files that are either the old one or the new one, and what is said of those that are damaged."""

from __future__ import annotations

import hashlib
import logging
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

__all__ = ["Checkpoint", "reading", "replacing"]

_LOGGER = logging.getLogger(__name__)

# Raised whenever a solver's state gets other names or units, so that older files are refused.
_FORMAT = b"2"


@contextmanager
def reading(path: str | os.PathLike[str], needed: str) -> Iterator[None]:
    """One sentence for whatever a file that is not what it should be raises in the block.

    Parameters
    ----------
    path : path
        The file, or the folder of files that should fit together.
    needed : str
        What it should be.

    Raises
    ------
    ValueError
        Naming file and reason; a sentence that begins with the path is raised as it is.
    FileNotFoundError, ImportError, MemoryError
        As they are, too.
    """
    try:
        yield
    except (FileNotFoundError, ImportError, MemoryError):
        raise
    except Exception as error:  # a damaged file can fail in any of many ways
        if str(error).startswith(repr(os.fspath(path))):
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


class Checkpoint:
    """Saves and loads dictionaries of arrays.

    Parameters
    ----------
    path : str
        A ``.npz`` file in an existing folder.
    who : str
        Name used in errors.
    *identity : numbers and arrays
        Which problem the state belongs to: a digest of them is kept with it, rounded to nine
        digits of the largest number of each, because the last bits may differ between machines.
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
        """Write the state beside the file, then put it in its place."""
        with replacing(self.path) as stream:
            np.savez(stream, **state, identity=self.identity)

    def load(self) -> dict[str, NDArray]:
        """The saved state; an empty one where there is no file.

        Raises
        ------
        ValueError
            If the file is not a checkpoint, or belongs to another problem.
        """
        if not os.path.exists(self.path):
            return {}
        needed = f"a checkpoint of {self.who} (remove it to start afresh)"
        with reading(self.path, needed), np.load(self.path, allow_pickle=False) as file:
            state = dict(file)
            identity = str(state.pop("identity"))
        if identity != self.identity:
            raise ValueError(
                f"{self.who} needs a checkpoint of this problem, but {self.path!r} belongs to "
                "other data, settings or an older version; remove it or choose another checkpoint "
                "file."
            )
        _LOGGER.info("resuming from %s", self.path)
        return state
