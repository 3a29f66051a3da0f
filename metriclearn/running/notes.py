"""Notes to the user: warnings that point to the line of the user's own program."""

from __future__ import annotations

import inspect
import os
import warnings
from contextvars import ContextVar
from pathlib import Path
from types import FrameType

_PACKAGE = os.fspath(Path(__file__).parents[1]) + os.sep
_CALLERS = {"sklearn", "joblib"}  # which call methods of ours for the user
# The call from outside, in threads of ours: their own calls begin in the standard library.
OUTSIDE: ContextVar[FrameType | None] = ContextVar("outside", default=None)


def note(sentence: str, category: type[Warning] = UserWarning) -> None:
    """Warn of something that is worth knowing, but is not an error.

    The warning has the file and the line of the last call from outside of the package, and of what
    calls it for the user, such as a search in a grid.
    """
    frame = last_outside()
    registry = frame.f_globals.setdefault("__warningregistry__", {})
    place = frame.f_code.co_filename, frame.f_lineno, frame.f_globals.get("__name__")
    warnings.warn_explicit(sentence, category, *place, registry)


def last_outside() -> FrameType:
    """Return the last call from outside; the first call of all if there is none."""
    if (known := OUTSIDE.get()) is not None:
        return known
    frame = inspect.currentframe()
    assert frame is not None
    while _is_passed(frame) and frame.f_back is not None:
        frame = frame.f_back
    return frame


def _is_passed(frame: FrameType) -> bool:
    caller = str(frame.f_globals.get("__name__")).partition(".")[0]
    return caller in _CALLERS or frame.f_code.co_filename.startswith(_PACKAGE)
