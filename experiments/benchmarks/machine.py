"""Code that all benchmarks share: facts about the machine, timings in turns, and saved tables.

A benchmark writes ``docs/benchmarks/NAME.json``. Then ``make figures`` makes the page and the
pictures.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import multiprocessing
import os
import platform
import re
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from importlib import metadata
from itertools import chain
from pathlib import Path
from typing import Any, Self

import numpy as np
from matplotlib.figure import Figure

from experiments.harness.results import markdown_table
from metriclearn.plots import plot_scaling
from metriclearn.plots.canvas import number

_PACKAGES = ("numpy", "scipy", "scikit-learn", "numba", "ruptures", "ruptures-rs", "fastcpd")
_PATIENCE = 10.0  # processor seconds
_OURS = "ours"

Call = Callable[[], Any]
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

    def __str__(self) -> str:
        return cell(_plain(self))


def in_turns(
    calls: Mapping[str, Call], repeats: int, same: Callable[[Any, Any], bool] | None = None
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
        If the result of a program does not agree with that of the first.
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


def side_by_side(
    calls: Mapping[str, Call], repeats: int, same: Callable[[Any, Any], bool] | None = None
) -> dict[str, Any]:
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
    """Fit a line to the logarithms of seconds against those of sizes, by least squares, and return
    its slope."""
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def draw_scaling(
    rows: Sequence[Mapping[str, Any]], size: str, columns: Sequence[str], **options: Any
) -> Figure:
    """Plot seconds against sizes, with one curve for each of ``columns`` of a saved table. A line
    of slope one goes through the last point of the last curve."""
    sizes = [row[size] for row in rows]
    curves = {name: [row[name] for row in rows] for name in columns}
    ax = None
    for name, cells in curves.items():
        seconds = [c["median"] if isinstance(c, dict) else c for c in cells]
        slope = 1.0 if name == columns[-1] else None
        figure = plot_scaling(sizes, seconds, slope=slope, ax=ax, label=name, **options)
        ax = figure.axes[0]
    return figure


def describe() -> dict[str, Any]:
    """Return facts about a run: command, commit, machine, load before the run, and versions of
    packages."""
    file = Path("/proc/cpuinfo")
    model = re.search(r"model name\s*: (.*)", file.read_text() if file.exists() else "")
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    versions = {package.name: package.version for package in metadata.distributions()}
    parts = Path(sys.argv[0]).with_suffix("").parts
    module = ".".join(parts[parts.index("experiments") :] if "experiments" in parts else parts)
    command = " ".join(["python -m", module, *sys.argv[1:]])
    return {
        "command": re.sub(r" --out[ =]\S+", "", command),  # a place on this machine
        "commit": _commit(),
        "processor": model[1] if model else platform.processor(),
        "cores": os.cpu_count(),
        "memory": f"{memory / 2**30:.0f} GiB",
        "load": " ".join(f"{load:.2f}" for load in os.getloadavg()),
        "python": platform.python_version(),
        "packages": ", ".join(f"{name} {versions.get(name, 'none')}" for name in _PACKAGES),
        "threads": 1,
    }


def _commit() -> str:
    """Return the commit that is checked out, and whether files differ from it."""
    call = ["git", "describe", "--always", "--dirty=, with changes"]
    answer = subprocess.run(call, capture_output=True, text=True, cwd=Path(__file__).parent)
    return answer.stdout.strip() or "unknown"


def options_of(description: str | None) -> argparse.ArgumentParser:
    """Make a parser of the options that all benchmarks have: where results go, ``--tiny`` and
    ``--repeats``."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--out", type=Path, help="folder of the results: docs/benchmarks, or outputs if tiny"
    )
    parser.add_argument("--tiny", action="store_true", help="seconds, to see that it works")
    parser.add_argument(
        "--repeats", type=int, default=7, help="runs behind each median, where one is taken"
    )
    return parser


class Report:
    """Prints every table when it is added, and saves all of them as JSON.

    Parameters
    ----------
    name : str
        Stem of the saved file.
    options : Namespace
        The options of :func:`options_of`.
    facts : mapping, optional
        Facts about the whole run, apart from the machine.
    """

    def __init__(self, name: str, options: argparse.Namespace, **facts: Any) -> None:
        folder = options.out or Path("outputs" if options.tiny else "docs") / "benchmarks"
        self.path = folder / f"{name}.json"
        self.record: dict[str, Any] = {"machine": {**describe(), **facts}, "tables": []}
        print(page_of(name, self.record), flush=True)

    def table(self, title: str, rows: Sequence[Mapping[str, Any]], note: str = "") -> None:
        """Print a table, and keep it for the saved file. Timings keep the seconds of every run."""
        plain = json.loads(json.dumps(rows, default=_plain))
        self.record["tables"].append({"title": title, "note": note, "rows": plain})
        print("\n".join(_table_lines(self.record["tables"][-1])), flush=True)

    def save(self, **curves: Any) -> None:
        """Write NAME.json, with the tables and the data of its pictures."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(self.record | curves, indent=1, ensure_ascii=False, default=_plain)
        self.path.write_text(text + "\n", encoding="utf-8")
        print(f"Saved {self.path}; `make figures` makes its page and pictures")


def page_of(name: str, record: Mapping[str, Any]) -> str:
    """Return the Markdown page of a saved benchmark."""
    lines = [
        f"# {name.replace('_', ' ')}",
        "",
        *(f"* {key}: {value}" for key, value in record["machine"].items()),
    ]
    return "\n".join([*lines, *chain(*map(_table_lines, record["tables"]))]) + "\n"


def _table_lines(table: Mapping[str, Any]) -> list[str]:
    names = list(dict.fromkeys(name for row in table["rows"] for name in row))
    cells = [[cell(row.get(name, "")) for name in names] for row in table["rows"]]
    lines = ["", f"## {table['title']}", "", *markdown_table(names, cells)]
    return [*lines, "", table["note"]] if table["note"] else lines


def _plain(value: Any) -> Any:
    """Convert numpy's numbers and arrays, timings and other values to what JSON can hold."""
    if isinstance(value, Timing):
        return {"median": value.median, "seconds": value.seconds, "processor": value.processor}
    return value.tolist() if hasattr(value, "tolist") else str(value)


def cell(value: Any) -> str:
    """Return a saved value as text. A timing is shown as its median, with a mark if it is a single
    run."""
    if isinstance(value, dict):
        seconds, single = value["median"], " (1 run)" if len(value["seconds"]) == 1 else ""
        return (f"{number(1e3 * seconds)} ms" if seconds < 1 else f"{number(seconds)} s") + single
    return f"{value:.3g}" if isinstance(value, float) else str(value)
