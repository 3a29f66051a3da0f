"""Progress in a terminal: bars of long loops, and a line every few seconds where no bar moves."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any

FIRST, EVERY = 1.5, 4.0  # seconds until the first line, and between two lines

_shown: list[Any] = []  # bars that have not ended
_done: list[str] = []  # title of the last bar, and what it has counted
_over = Event()


def bar(items: Iterable[Any], title: str, total: int | None = None, **options: Any) -> Iterator:
    """Yield items, and show how many are done: always, never, or in a terminal.

    Parameters
    ----------
    items : iterable
    title : str
    total : int, optional
        The number of items.
    **options
        Options of ``tqdm``: with ``disable=None`` a bar is drawn in a terminal only. Without a bar,
        :func:`telling` prints the count.
    """
    from tqdm import tqdm

    shown = tqdm(items, title, total, **options)
    _shown.append(shown)
    try:
        for count, item in enumerate(shown):
            _done[:] = [title, f"{count} of {total}"] if total else []
            yield item
            _done[:] = [title, f"{count + 1} of {total}"] if total else []
    finally:
        _shown.remove(shown)


@contextmanager
def share_done(title: str, total: float, **options: Any) -> Iterator[Callable[[float], None]]:
    """Context that shows which share of the work is done. It yields a function that adds to it.

    Parameters
    ----------
    title : str
    total : float
        All work, in any unit.
    **options
        Options of ``tqdm``, as for :func:`bar`.
    """
    from tqdm import tqdm

    form = "{desc} {percentage:3.0f}%|{bar}| {elapsed}, about {remaining} to go"
    with tqdm(desc=title, total=total, bar_format=form, **options) as shown:
        _shown.append(shown)
        done = 0.0

        def add(more: float) -> None:
            nonlocal done
            done += more
            shown.update(more)
            _done[:] = [title, f"{done / total:.0%}"]

        try:
            yield add
        finally:
            _done.clear()  # what follows is not counted
            _shown.remove(shown)


def share_told() -> str:
    """Return the share that :func:`share_done` has counted, such as "34%", or nothing."""
    return _done[-1] if _done and _done[-1].endswith("%") else ""  # a count may be of earlier work


@contextmanager
def telling(title: str) -> Iterator[None]:
    """Context in which a terminal gets a sign of life within 2 s, and then at least every 5 s.

    A bar that has not moved is drawn again. Without a bar, a line shows how long the work takes,
    and the count of the last bar.

    Parameters
    ----------
    title : str
        Name of the work.
    """
    _over.clear()
    _done.clear()
    if sys.stderr.isatty():
        Thread(target=_tell, args=(title, sys.stderr), daemon=True).start()
    try:
        yield
    finally:
        quieten()


def quieten() -> None:
    """End the lines of :func:`telling`, since the work is done or tells of itself."""
    _over.set()


def _tell(title: str, stream: Any) -> None:
    begun, pause = time.monotonic(), FIRST
    while not _over.wait(pause):
        pause = EVERY
        drawn = [one for one in _shown if not one.disable]
        for one in drawn:
            one.refresh()
        if not drawn:
            passed = time.monotonic() - begun
            done = f", {': '.join(_done)}" if _done else ""
            print(f"{title}: {passed:.0f} s{done}", file=stream, flush=True)
