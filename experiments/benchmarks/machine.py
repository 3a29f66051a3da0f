"""What every benchmark states and shares: the machine, timings taken in turns, saved tables."""

from __future__ import annotations

import argparse
import importlib
import inspect
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any, Self

import numpy as np
from threadpoolctl import threadpool_limits

_PACKAGES = ("numpy", "scipy", "scikit-learn", "numba", "ruptures", "ruptures-rs", "fastcpd")
_PATIENCE = 10.0  # seconds


@dataclass
class Timing:
    """Wall and processor seconds of every run of one program, and what its last run returned.

    Processor time is the same on a busy machine, but for what shared caches cost.
    """

    seconds: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)
    result: Any = None

    def run(self, call: Callable[[], Any]) -> None:
        """Run once and keep the times."""
        wall, processor = time.perf_counter(), time.process_time()
        self.result = call()
        self.seconds.append(time.perf_counter() - wall)
        self.processor.append(time.process_time() - processor)

    def clear(self) -> None:
        """Forget the times."""
        self.seconds.clear()
        self.processor.clear()

    @classmethod
    def of(cls, call: Callable[[], Any]) -> Self:
        """One run."""
        timing = cls()
        timing.run(call)
        return timing

    @property
    def median(self) -> float:
        """Median wall time in seconds."""
        return statistics.median(self.seconds)

    @property
    def processor_median(self) -> float:
        """Median processor time in seconds."""
        return statistics.median(self.processor)

    @property
    def numbers(self) -> dict[str, list[float]]:
        """The times as JSON; ``Timing(**numbers)`` is this one without its result."""
        return {"seconds": self.seconds, "processor": self.processor}

    def __str__(self) -> str:
        """Milliseconds, with the number of runs where it is a single one."""
        single = " (1 run)" if len(self.seconds) == 1 else ""
        return f"{1e3 * self.median:.2f} ms{single}"


def in_turns(calls: Mapping[str, Callable[[], Any]], repeats: int) -> dict[str, Timing]:
    """Time programs by turns, so that a busy moment of the machine meets all of them.

    Each runs once to warm up. One whose warm-up takes more than ten seconds is not run again.
    """
    timings = {name: Timing() for name in calls}
    for name, call in calls.items():
        timings[name].run(call)
    again = [name for name in calls if timings[name].seconds[0] < _PATIENCE]
    for name in again:
        timings[name].clear()
    for _ in range(repeats):
        for name in again:
            timings[name].run(calls[name])
    return timings


def in_own_process(function: Callable[..., Any], *arguments: Any) -> Any:
    """What a function of a benchmark returns in a fresh interpreter, whose peak memory is its own.

    Arguments and results are what JSON can hold.
    """
    module = inspect.getmodule(function)
    assert module is not None
    assert module.__spec__ is not None
    program = (
        "import sys; from experiments.benchmarks import machine; machine.answer(*sys.argv[1:])"
    )
    command = [sys.executable, "-c", program, module.__spec__.name, function.__name__]
    done = subprocess.run([*command, json.dumps(arguments)], check=True, stdout=subprocess.PIPE)
    return json.loads(done.stdout)


def answer(module: str, name: str, arguments: str) -> None:
    """The other side of :func:`in_own_process`: print the result as JSON."""
    with threadpool_limits(1):
        result = getattr(importlib.import_module(module), name)(*json.loads(arguments))
    print(json.dumps(result))


def peak_mebibytes() -> float:
    """Most memory that this process has had: interpreter, compiled code and data."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def met(good: bool) -> str:
    """How a table says whether a requirement holds."""
    return "yes" if good else "NO"


def power_of(sizes: Sequence[float], seconds: Sequence[float]) -> float:
    """Slope of log seconds over log sizes, by least squares; not a number for one size."""
    if len(sizes) < 2:
        return float("nan")
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def draw_scaling(
    path: Path, sizes: Sequence[int], curves: Mapping[str, Sequence[float]], **options: Any
) -> None:
    """Seconds against sizes, with a line of slope one through the last curve."""
    from metriclearn.plots import plot_scaling

    if len(sizes) < 2:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    ax = None
    for place, (label, seconds) in enumerate(curves.items(), start=1):
        slope = 1.0 if place == len(curves) else None
        figure = plot_scaling(sizes, seconds, slope=slope, ax=ax, label=label, **options)
        ax = figure.axes[0]
    figure.savefig(path, dpi=150, bbox_inches="tight")
    print(f"Saved {path}")


def describe() -> dict[str, str]:
    """Processor, cores, memory, load before the run and the versions that matter."""
    return {
        "processor": _line("/proc/cpuinfo", "model name") or platform.processor(),
        "cores": str(os.cpu_count()),
        "memory": _memory(),
        "load": " ".join(f"{load:.2f}" for load in os.getloadavg()),
        "python": platform.python_version(),
        "packages": ", ".join(_version(name) for name in _PACKAGES),
    }


def _version(name: str) -> str:
    try:
        return f"{name} {metadata.version(name)}"
    except metadata.PackageNotFoundError:
        return f"no {name}"


def _memory() -> str:
    kibibytes = _line("/proc/meminfo", "MemTotal").split(" ")[0]
    return f"{int(kibibytes) / 2**20:.0f} GiB" if kibibytes else "unknown"


def _line(path: str, name: str) -> str:
    """Value after the colon of the first line that begins with ``name``, empty without one."""
    if not Path(path).exists():
        return ""
    lines = Path(path).read_text().splitlines()
    return next((line.split(":")[1].strip() for line in lines if line.startswith(name)), "")


def options_of(description: str | None, timed: bool = True) -> argparse.ArgumentParser:
    """The options of all benchmarks: ``--out``, ``--tiny`` and, where timed, ``--repeats``."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--out", type=Path, default=Path("outputs/benchmarks"), help="folder of the tables"
    )
    parser.add_argument("--tiny", action="store_true", help="seconds, to see that it works")
    if timed:
        parser.add_argument("--repeats", type=int, default=7, help="runs behind each median")
    return parser


class Report:
    """Tables that are printed while they grow, then saved as markdown and JSON.

    Parameters
    ----------
    name : str
        Stem of the saved files.
    facts : mapping, optional
        What holds for the whole run, beside the machine.
    """

    def __init__(self, name: str, **facts: Any) -> None:
        self.name, self.machine, self.facts = name, describe(), facts
        self.parts = [self._heading()]
        self.tables: list[dict[str, Any]] = []
        print(self.parts[0], flush=True)

    def _heading(self) -> str:
        lines = [f"# {self.name}", ""]
        facts = {**self.machine, **self.facts}
        return "\n".join(lines + [f"* {name}: {value}" for name, value in facts.items()])

    def table(self, title: str, rows: Sequence[Mapping[str, Any]], note: str = "") -> None:
        """Print a table and keep it; timings are kept with every single run."""
        text = f"\n## {title}\n\n{_markdown(rows)}" + (f"\n\n{note}" if note else "")
        print(text, flush=True)
        self.parts.append(text)
        kept = [{name: _plain(value) for name, value in row.items()} for row in rows]
        self.tables.append({"title": title, "note": note, "rows": kept})

    def save(self, folder: Path) -> None:
        """Write NAME.md and NAME.json."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{self.name}.md").write_text("\n".join(self.parts) + "\n", encoding="utf-8")
        record = {"machine": self.machine, **self.facts, "tables": self.tables}
        text = json.dumps(record, indent=1, ensure_ascii=False)
        (folder / f"{self.name}.json").write_text(text + "\n", encoding="utf-8")
        print(f"\nSaved {folder / self.name}.md and .json")


def _plain(value: Any) -> Any:
    if isinstance(value, Timing):
        return {"median": value.median, "seconds": value.seconds, "processor": value.processor}
    return value if isinstance(value, (int, float, str, bool, list)) else str(value)


def _markdown(rows: Sequence[Mapping[str, Any]]) -> str:
    names = list(rows[0])
    cells = [names, *([_cell(row[name]) for name in names] for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(names))]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths)) + " |"
        for row in cells
    ]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines)


def _cell(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
