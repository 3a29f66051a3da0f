"""What every benchmark states and shares: the machine, timings taken in turns, saved tables."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import platform
import re
import resource
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from importlib import metadata
from pathlib import Path
from typing import Any, Self

import numpy as np
from matplotlib.figure import Figure

from experiments.report import markdown_table
from metriclearn.plots import plot_scaling

_PACKAGES = ("numpy", "scipy", "scikit-learn", "numba", "ruptures", "ruptures-rs", "fastcpd")
_PATIENCE = 10.0  # processor seconds
_OURS = "ours"

Call = Callable[[], Any]
Row = dict[str, Any]


@dataclass
class Timing:
    """Wall and processor seconds of every run of one program, and what its last run returned.

    Processor time is the same on a busy machine, but for what shared caches cost.
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
        """The same with the processor's seconds in place of those of the wall clock."""
        return replace(self, seconds=self.processor)

    @property
    def cells(self) -> dict[str, float]:
        """Two cells of a table for what takes seconds."""
        wall, processor = round(self.median, 3), round(self.processor_median, 3)
        return {"seconds": wall, "processor seconds": processor}

    def __str__(self) -> str:
        """Milliseconds, with the number of runs where it is a single one."""
        single = " (1 run)" if len(self.seconds) == 1 else ""
        return f"{1e3 * self.median:.2f} ms{single}"


def in_turns(
    calls: Mapping[str, Call], repeats: int, same: Callable[[Any, Any], bool] | None = None
) -> dict[str, Timing]:
    """Time programs by turns, so that a busy moment of the machine meets all of them.

    Each runs once to warm up. One whose warm-up takes more than ten seconds of the processor is
    not run again.

    Parameters
    ----------
    calls : dict of str to callable
    repeats : int
    same : callable (result, result) -> bool, optional
        Whether the results of the first program and of another one agree, asked before any clock
        counts.

    Raises
    ------
    RuntimeError
        If they do not.
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
    """Times of one program, warmed up as in :func:`in_turns`."""
    return in_turns({"": call}, repeats)[""]


def side_by_side(
    calls: Mapping[str, Call], repeats: int, same: Callable[[Any, Any], bool] | None = None
) -> dict[str, Any]:
    """Cells of one row: processor seconds of ours and the peers, and how many times as fast it is.

    Parameters
    ----------
    calls : dict of str to callable
        ``"ours"`` first; ``faster`` is against the quickest of the others.
    """
    timings = {n: timing.of_processor for n, timing in in_turns(calls, repeats, same).items()}
    peers = [timing.median for name, timing in timings.items() if name != _OURS]
    factor = f"{min(peers) / timings[_OURS].median:.1f}x" if peers else ""
    return {**timings, "faster": factor}


def in_own_process(function: Callable[..., Row], *arguments: Any) -> Row:
    """A row that is measured in a fresh interpreter, and the peak memory of that process.

    Arguments and what the row holds are pickled.
    """
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
        return process.submit(_with_peak, function, *arguments).result()


def _with_peak(function: Callable[..., Row], *arguments: Any) -> Row:
    return {**function(*arguments), "peak MiB": peak_mebibytes()}


def peak_mebibytes() -> int:
    """Most memory that this process has had: interpreter, compiled code and data."""
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def power_of(sizes: Sequence[float], seconds: Sequence[float]) -> float:
    """Slope of log seconds over log sizes, by least squares."""
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def draw_scaling(
    sizes: Sequence[int], curves: Mapping[str, Sequence[float]], **options: Any
) -> Figure:
    """Seconds against sizes, with a line of slope one through the last curve."""
    ax, last = options.pop("ax", None), list(curves)[-1]
    for label, seconds in curves.items():
        slope = 1.0 if label == last else None
        figure = plot_scaling(sizes, seconds, slope=slope, ax=ax, label=label, **options)
        ax = ax or figure.axes[0]
    return figure


def describe() -> dict[str, Any]:
    """Processor, cores, memory, load before the run and the versions that matter."""
    file = Path("/proc/cpuinfo")
    model = re.search(r"model name\s*: (.*)", file.read_text() if file.exists() else "")
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    versions = {package.name: package.version for package in metadata.distributions()}
    return {
        "processor": model[1] if model else platform.processor(),
        "cores": os.cpu_count(),
        "memory": f"{memory / 2**30:.0f} GiB",
        "load": " ".join(f"{load:.2f}" for load in os.getloadavg()),
        "python": platform.python_version(),
        "packages": ", ".join(f"{name} {versions.get(name, 'none')}" for name in _PACKAGES),
        "threads": 1,
    }


def options_of(description: str | None) -> argparse.ArgumentParser:
    """The options of all benchmarks: where results go, ``--tiny`` and ``--repeats``.

    A tiny run leaves its pictures beside its tables, not among those of the documentation.
    """
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--out", type=Path, default=Path("outputs/benchmarks"), help="folder of the tables"
    )
    parser.add_argument(
        "--images", type=Path, default=Path("docs/images"), help="folder of the pictures"
    )
    parser.add_argument("--tiny", action="store_true", help="seconds, to see that it works")
    parser.add_argument(
        "--repeats", type=int, default=7, help="runs behind each median, where one is taken"
    )
    return parser


class Report:
    """Tables that are printed while they grow, then saved as markdown and JSON, and pictures.

    Parameters
    ----------
    name : str
        Stem of the saved files.
    options : Namespace
        Of :func:`options_of`.
    facts : mapping, optional
        What holds for the whole run, beside the machine.
    """

    def __init__(self, name: str, options: argparse.Namespace, **facts: Any) -> None:
        self.name, self.folder = name, options.out
        self.images = options.out if options.tiny else options.images
        self.facts = {**describe(), **facts}
        self.parts: list[str] = []
        self.tables: list[dict[str, Any]] = []
        lines = [f"# {name}", "", *(f"* {key}: {value}" for key, value in self.facts.items())]
        self._add("\n".join(lines))

    def _add(self, text: str) -> None:
        print(text, flush=True)
        self.parts.append(text)

    def table(self, title: str, rows: Sequence[Mapping[str, Any]], note: str = "") -> None:
        """Print a table and keep it; timings are kept with every single run."""
        names = list(dict.fromkeys(name for row in rows for name in row))
        cells = [[_cell(row.get(name, "")) for name in names] for row in rows]
        lines = [f"\n## {title}\n", *markdown_table(names, cells)]
        self._add("\n".join([*lines, "", note] if note else lines))
        self.tables.append({"title": title, "note": note, "rows": rows})

    def picture(self, figure: Figure, name: str | None = None) -> None:
        """Save a picture under its name, by default that of the report."""
        self.images.mkdir(parents=True, exist_ok=True)
        path = self.images / f"{name or self.name}.png"
        figure.savefig(path, dpi=120)
        print(f"Saved {path}")

    def save(self) -> None:
        """Write NAME.md and NAME.json."""
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / f"{self.name}.md"
        path.write_text("\n".join(self.parts) + "\n", encoding="utf-8")
        record = {"machine": self.facts, "tables": self.tables}
        text = json.dumps(record, indent=1, ensure_ascii=False, default=_plain)
        path.with_suffix(".json").write_text(text + "\n", encoding="utf-8")
        print(f"\nSaved {path} and .json")


def _plain(value: Any) -> Any:
    """What JSON can hold of numpy's numbers, timings and anything else."""
    if isinstance(value, Timing):
        return {"median": value.median, "seconds": value.seconds, "processor": value.processor}
    return value.item() if isinstance(value, np.generic) else str(value)


def _cell(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
