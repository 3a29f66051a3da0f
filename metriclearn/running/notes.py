"""Notes: warnings that point to the line of the user's program."""

from __future__ import annotations

import inspect
import os
import warnings
from pathlib import Path

_PACKAGE = os.fspath(Path(__file__).parents[1]) + os.sep


def note(sentence: str, category: type[Warning] = UserWarning) -> None:
    """Warn of something that is worth knowing, but is not an error.

    The warning has the file and the line of the last call from outside of the package.
    """
    level, frame = 1, inspect.currentframe()
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        level, frame = level + 1, frame.f_back
    warnings.warn(sentence, category, stacklevel=level - 1 if frame is None else level)
