"""Notes: warnings that point to the line of the user's program."""

from __future__ import annotations

import inspect
import os
import warnings
from pathlib import Path
from types import FrameType

_PACKAGE = os.fspath(Path(__file__).parents[1]) + os.sep
_CALLERS = {"sklearn", "joblib"}  # which call methods of ours for the user


def note(sentence: str, category: type[Warning] = UserWarning) -> None:
    """Warn of something that is worth knowing, but is not an error.

    The warning has the file and the line of the last call from outside of the package, and of what
    calls it for the user, such as a search in a grid.
    """
    level, frame = 1, inspect.currentframe()
    while frame is not None and _is_passed(frame):
        level, frame = level + 1, frame.f_back
    warnings.warn(sentence, category, stacklevel=level - 1 if frame is None else level)


def _is_passed(frame: FrameType) -> bool:
    caller = str(frame.f_globals.get("__name__")).partition(".")[0]
    return caller in _CALLERS or frame.f_code.co_filename.startswith(_PACKAGE)
