"""Errors for names of earlier versions."""

from __future__ import annotations

import inspect


def gone(told: str) -> Exception:
    """Return the error that ``__getattr__`` of a module raises for a name that is gone.

    It is an AttributeError or, in ``from … import …``, an ImportError, because Python would replace
    the text of an AttributeError there.
    """
    frame = inspect.currentframe()
    for _ in range(2):  # this function, and __getattr__
        frame = frame and frame.f_back
    imported = frame is not None and frame.f_code.co_name == "_handle_fromlist"
    return (ImportError if imported else AttributeError)(told)
