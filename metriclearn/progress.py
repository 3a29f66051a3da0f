"""A progress bar for solvers."""

from __future__ import annotations

from typing import Any, Self

from tqdm import tqdm

from metriclearn.solvers.base import Progress

__all__ = ["ProgressBar"]


class ProgressBar:
    """Monitor that shows rounds, objective and relative gap with tqdm.

    Parameters
    ----------
    title : str
    shown : bool or None
        True at once, False never, None in a terminal after a few seconds.
    """

    def __init__(self, title: str, shown: bool | None) -> None:
        disable = None if shown is None else not shown
        self._bar = tqdm(desc=title, disable=disable, delay=3 if shown is None else 0, unit="round")

    def __call__(self, progress: Progress) -> None:
        """Advance by one round."""
        gap = f"{progress.relative_gap:.1e}"
        self._bar.set_postfix(objective=f"{progress.objective:.4g}", gap=gap, refresh=False)
        self._bar.update()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: Any) -> None:
        self._bar.close()
