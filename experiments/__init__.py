"""Experiments and benchmarks: run, evaluate and figures.

Ctrl-C ends each of these commands with one sentence and exit status 130.
"""

import sys
from types import TracebackType

_usual = sys.excepthook


def _end(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """End a command on an uncaught Ctrl-C, for example while libraries are loading.

    Libraries may turn the interrupt into another error.
    """
    origin: BaseException | None = error
    while origin is not None and not isinstance(origin, KeyboardInterrupt):
        origin = origin.__cause__ or origin.__context__
    if origin is None:
        return _usual(kind, error, trace)
    print(str(origin) or "Interrupted.", file=sys.stderr)
    raise SystemExit(130)


sys.excepthook = _end
