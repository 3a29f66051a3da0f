"""Errors for names of earlier versions."""

from __future__ import annotations

import sys


def gone(told: str) -> Exception:
    """Return the error that ``__getattr__`` of a module raises for a name that is gone.

    It is an AttributeError or, in ``from … import …``, an ImportError, because Python would replace
    the text of an AttributeError there.
    """
    imported = sys._getframe(2).f_code.co_name == "_handle_fromlist"
    return (ImportError if imported else AttributeError)(told)
