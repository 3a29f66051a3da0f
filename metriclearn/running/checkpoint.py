"""A solver's state in a file, with a digest of the problem that it belongs to."""

from __future__ import annotations

import hashlib
import logging
import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metriclearn.running.atomic import reading, replacing

_LOGGER = logging.getLogger(__name__)

# Raised whenever a solver's state gets other names or units, so that older files are refused.
_FORMAT = b"2"


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
        IsADirectoryError
            If it is a folder.
        """
        if os.path.isdir(self.path):
            raise IsADirectoryError(
                f"{self.who} needs a file for its checkpoint, got the folder {self.path!r}; add a "
                f"name, as in {os.path.join(self.path, 'checkpoint.npz')!r}."
            )
        if not os.path.exists(self.path):
            return {}
        needed = f"a checkpoint of {self.who} (remove it to start afresh)"
        with reading(self.path, needed, Exception), np.load(self.path, allow_pickle=False) as file:
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
