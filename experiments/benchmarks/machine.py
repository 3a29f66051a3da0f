"""Timings in turns, separate processes, and memory."""

from __future__ import annotations

import ctypes
import multiprocessing
import resource
import statistics
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from matplotlib.figure import Figure

from metriclearn.plots import plot_scaling

_PATIENCE = 10.0  # processor seconds
_OURS = "ours"

Call = Callable[[], Any]
Same = Callable[[Any, Any], bool]
Row = dict[str, Any]


@dataclass
class Timing:
    """Wall and processor seconds of every run of one program, and the result of the last run.

    Processor time does not depend on how busy the machine is, except for shared caches.
    """

    seconds: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)
    result: Any = None

    def run(self, call: Call) -> Self:
        """Run once and keep the times."""
        wall, processor = time.perf_counter(), time.process_time()
        self.result = call()
        self.seconds.append(time.perf_counter() - wall)
        self.processor.append(time.process_time() - processor)
        return self

    @property
    def median(self) -> float:
        """Median wall time in seconds."""
        return statistics.median(self.seconds)

    @property
    def processor_median(self) -> float:
        """Median processor time in seconds."""
        return statistics.median(self.processor)

    @property
    def of_processor(self) -> Self:
        """A copy of this timing that has processor seconds in place of wall seconds."""
        return replace(self, seconds=self.processor)

    @property
    def cells(self) -> dict[str, float]:
        """Wall and processor seconds, as two cells of a table."""
        wall, processor = round(self.median, 3), round(self.processor_median, 3)
        return {"seconds": wall, "processor seconds": processor}


def in_turns(
    calls: Mapping[str, Call], repeats: int, same: Same | None = None
) -> dict[str, Timing]:
    """Time programs in turns, so that a busy moment of the machine affects all of them.

    Each program runs once to warm up. If this takes more than ten processor seconds, the program is
    not run again.

    Parameters
    ----------
    calls : dict of str to callable
    repeats : int
    same : callable (result, result) -> bool, optional
        Tells whether the results of the first program and of another one agree. This function is
        called after every program has run once and before the first program is timed.

    Raises
    ------
    RuntimeError
        If the result of a program does not agree with the result of the first.
    """
    timings = {name: Timing().run(call) for name, call in calls.items()}
    first, *others = timings
    for name in others:
        if same is not None and not same(timings[first].result, timings[name].result):
            raise RuntimeError(f"{name} gave another result than {first}: nothing to compare.")
    again = [name for name, timing in timings.items() if timing.processor[0] < _PATIENCE]
    timings |= {name: Timing() for name in again}
    for _ in range(repeats):
        for name in again:
            timings[name].run(calls[name])
    return timings


def timed(call: Call, repeats: int) -> Timing:
    """Run one program once to warm up, then time it, as in :func:`in_turns`."""
    return in_turns({"": call}, repeats)[""]


def side_by_side(calls: Mapping[str, Call], repeats: int, same: Same | None = None) -> Row:
    """Time our program and its peers in turns, and return the cells of one row: the processor
    seconds of each, and how many times as fast ours is as the fastest peer.

    Parameters
    ----------
    calls : dict of str to callable
        Our program first, under the name ``"ours"``, then its peers.
    """
    timings = {n: timing.of_processor for n, timing in in_turns(calls, repeats, same).items()}
    peers = [timing.median for name, timing in timings.items() if name != _OURS]
    factor = f"{min(peers) / timings[_OURS].median:.1f}x" if peers else ""
    return {**timings, "faster": factor}


def in_own_process(function: Callable[..., Row], *arguments: Any) -> Row:
    """Call a function in a fresh interpreter. Returns the row that the function makes, with the
    peak memory of the new process.

    Arguments and the values of the row are pickled.
    """
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
        return process.submit(_with_peak, function, *arguments).result()


def _with_peak(function: Callable[..., Row], *arguments: Any) -> Row:
    warnings.simplefilter("ignore")
    return {**function(*arguments), "peak MiB": peak_mebibytes()}


def peak_mebibytes() -> int:
    """Return the peak memory of this process so far in MiB. This memory includes the interpreter,
    compiled code and data."""
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def peak_above(call: Call) -> float:
    """Measure by how many MiB the memory of the process grows at most during a call. Before that,
    the same call is made once to warm up."""

    def mebibytes(name: str) -> float:
        status = Path("/proc/self/status").read_text(encoding="ascii")
        return int(status.partition(f"{name}:")[2].split()[0]) / 1024

    call()
    ctypes.CDLL(None).malloc_trim(0)  # what the first call has freed
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    before = mebibytes("VmRSS")
    call()
    return round(mebibytes("VmHWM") - before, 1)


def power_of(sizes: Sequence[float], seconds: Sequence[float]) -> float:
    """Fit a line to log(seconds) against log(size), by least squares, and return its slope."""
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def draw_scaling(rows: Sequence[Row], size: str, columns: Sequence[str], **options: Any) -> Figure:
    """Plot seconds against sizes, with one curve for each of ``columns`` of a saved table. A line
    of slope one goes through the last point of the last curve."""
    ax = None
    for name in columns:
        seconds = [
            row[name]["median"] if isinstance(row[name], dict) else row[name] for row in rows
        ]
        slope = 1.0 if name == columns[-1] else None
        sizes = [row[size] for row in rows]
        figure = plot_scaling(sizes, seconds, slope=slope, ax=ax, label=name, **options)
        ax = figure.axes[0]
    return figure
