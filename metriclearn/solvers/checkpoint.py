"""State of a solver in one file, written atomically, refused by any other problem."""

from __future__ import annotations

import hashlib
import logging
import os
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from metriclearn.running.atomic import replacing

__all__ = ["Checkpoint"]

_LOGGER = logging.getLogger(__name__)


class Checkpoint:
    """Saves and loads dictionaries of arrays; does nothing without a path.

    Parameters
    ----------
    path : str or None
        A ``.npz`` file in an existing folder.
    who : str
        Name used in errors.
    """

    def __init__(self, path: str | None, who: str = "BundleDual") -> None:
        self.path, self.who = path, who
        self.identity = ""

    def identify(self, *values: Any) -> None:
        """Fix which problem the state belongs to, by a digest of numbers that depend on it."""
        digest = hashlib.sha256()
        for value in values:
            array = np.asarray(value, dtype=np.float64)
            scale = float(np.max(np.abs(array), initial=0.0)) or 1.0
            digest.update(f"{scale:.9e}".encode())  # rounded: the last bits may differ
            digest.update((np.round(array / scale, 9) + 0.0).tobytes())
        self.identity = digest.hexdigest()

    def save(self, state: dict[str, NDArray]) -> None:
        """Write the state beside the file, then put it in its place."""
        if self.path is None:
            return
        with replacing(self.path) as stream:
            np.savez(stream, **{**state, "identity": np.array(self.identity)})  # type: ignore[arg-type]

    def load(self) -> dict[str, NDArray] | None:
        """The saved state, or None where there is no file.

        Raises
        ------
        ValueError
            If the file is not a checkpoint, or belongs to another problem.
        """
        if self.path is None or not os.path.exists(self.path):
            return None
        try:
            with np.load(self.path, allow_pickle=False) as file:
                state = dict(file)
            identity = str(state.pop("identity"))
        except (OSError, ValueError, KeyError, BadZipFile, EOFError) as error:
            raise ValueError(
                f"{self.who} needs a checkpoint it wrote, got an unreadable file {self.path!r}; "
                "remove it to start afresh."
            ) from error
        if identity != self.identity:
            raise ValueError(
                f"{self.who} needs a checkpoint of this problem, but {self.path!r} belongs to "
                "other data or settings; remove it or choose another checkpoint file."
            )
        _LOGGER.info("resuming from %s", self.path)
        return state
