"""What all benchmarks share: options, tables of rows, facts about the machine, and saved pages.

A benchmark is a :class:`Benchmark` with tables. A table has cases, and a function that measures one
case and returns its row. The command saves ``docs/benchmarks/NAME.json``, or one file for each part
of the benchmark in ``docs/benchmarks/NAME/``. Then ``make figures`` makes the page and pictures.
"""

from __future__ import annotations

import argparse
import inspect
import json
import os
import platform
import re
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

from experiments.benchmarks.machine import Row, Timing, in_own_process
from experiments.harness.wording import markdown_table
from experiments.pages.pictures import take
from metriclearn.plots.canvas import number

_PEERS = ("ruptures", "ruptures-rs", "fastcpd", "cvxpy", "torch")
_PACKAGES = ("numpy", "scipy", "scikit-learn", "numba", *_PEERS)
Measure = Callable[[Any, "Run"], Any]  # a case and the run -> a row, or several rows


@dataclass
class Run:
    """The options of one run of a benchmark.

    Attributes
    ----------
    tiny : bool
        Whether the run takes only seconds, to see that everything works.
    repeats : int
        Number of runs behind each median.
    options : Namespace
        All options of the command.
    kept : dict
        Data of pictures, which are saved with the tables of the part.
    pictures : dict
        Files of pictures that the run has drawn, with their titles.
    """

    tiny: bool
    repeats: int
    options: argparse.Namespace
    kept: dict[str, Any] = field(default_factory=dict)
    pictures: dict[str, tuple[Path, str]] = field(default_factory=dict)


@dataclass(frozen=True)
class _Table:
    title: str
    measure: Measure
    cases: Iterable[Any] | Callable[[Run], Iterable[Any]]
    note: str | Callable[[list[Row]], str] | None
    apart: bool

    def rows(self, run: Run) -> list[Row]:
        """Measure all cases. With ``apart`` every case runs in a separate process."""
        rows: list[Row] = []
        for case in self.cases(run) if callable(self.cases) else self.cases:
            call = partial(in_own_process, self.measure) if self.apart else self.measure
            found = call(case, run)
            rows += [found] if isinstance(found, dict) else found
            print(".", end="", file=sys.stderr, flush=True)
        return rows

    def note_on(self, rows: list[Row]) -> str:
        """Return the text below the table."""
        if self.note is not None:
            return self.note(rows) if callable(self.note) else self.note
        about = inspect.getdoc(getattr(self.measure, "func", self.measure)) or ""
        return " ".join(about.partition("\n\n")[2].split())


class Benchmark:
    """A command that measures tables, prints each of them, and saves them part by part.

    Parameters
    ----------
    name : str
        Name of the page.
    about : str, optional
        What ``--help`` shows.
    """

    def __init__(self, name: str, about: str | None) -> None:
        self.name, self.parts = name, dict[str, list[_Table]]()
        self._parser = argparse.ArgumentParser(
            description=about, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        for flags, options in (
            ("--out", dict(type=Path, help="folder: docs/benchmarks, or outputs if tiny")),
            ("--tiny", dict(action="store_true", help="seconds, to see that it works")),
            ("--repeats", dict(type=int, default=7, help="runs behind each median")),
            ("--only", dict(nargs="+", metavar="PART", help="parts of the page to measure")),
        ):
            self.option(flags, **options)

    def option(self, flag: str, **options: Any) -> None:
        """Add an option to the command, as ``argparse`` does."""
        self._parser.add_argument(flag, **options)

    def table(
        self,
        title: str,
        cases: Iterable[Any] | Callable[[Run], Iterable[Any]] = (None,),
        note: str | Callable[[list[Row]], str] | None = None,
        part: str = "",
        apart: bool = False,
    ) -> Callable[[Measure], Any]:
        """Add a table. The decorated function ``measure(case, run)`` returns one row or several.

        The text below the table is what the docstring of this function says after its first
        paragraph.

        Parameters
        ----------
        title : str
        cases : iterable, or callable (Run) -> iterable
        note : str, or callable (rows) -> str, optional
            Another text below the table.
        part : str
            The part of the benchmark that the table belongs to. Each part has its own file.
        apart : bool
            Whether every case runs in a separate process, whose peak memory is a column.
        """

        def added(measure: Measure) -> Measure:
            table = _Table(title, measure, cases, note, apart)
            self.parts.setdefault(part, []).append(table)
            return measure

        return added

    def main(self, arguments: Sequence[str] | None = None) -> None:
        """Measure the chosen parts, print and save."""
        options = self._parser.parse_args(arguments)
        unknown = set(options.only or ()) - set(self.parts)
        if unknown:
            self._parser.error(f"--only needs parts among {', '.join(self.parts)}")
        warnings.simplefilter("ignore")  # runs with limits do not converge, which rows tell
        folder = options.out or Path("outputs" if options.tiny else "docs") / "benchmarks"
        for part in options.only or self.parts:
            run = Run(options.tiny, options.repeats, options)
            record: dict[str, Any] = {"machine": describe(run), "tables": []}
            print(page_of(f"{self.name} {part}".strip(), {"": record}), flush=True)
            for table in self.parts[part]:
                record["tables"].append(_record(table, run))
                print("\n".join(_lines(record["tables"][-1], "##")), flush=True)
            path = folder / self.name / f"{part}.json" if part else folder / f"{self.name}.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            text = json.dumps(record | run.kept, indent=1, ensure_ascii=False, default=_plain)
            path.write_text(text + "\n", encoding="utf-8")
            for name, (picture, title) in run.pictures.items():
                take(picture, folder.parent / "images" / f"{name}.png", path, title)
            print(f"Saved {path}; `make figures` makes its page and pictures")


def _record(table: _Table, run: Run) -> dict[str, Any]:
    """Measure a table, and return the content of its file. Timings keep the seconds of every
    run."""
    rows = table.rows(run)
    plain = json.loads(json.dumps(rows, default=_plain))
    return {"title": table.title, "note": table.note_on(rows), "rows": plain}


def describe(run: Run) -> dict[str, Any]:
    """Return facts about a run: command, commit, machine, load before the run, and versions of
    packages."""
    file = Path("/proc/cpuinfo")
    model = re.search(r"model name\s*: (.*)", file.read_text() if file.exists() else "")
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    versions = {package.name: package.version for package in metadata.distributions()}
    parts = Path(sys.argv[0]).with_suffix("").parts
    module = ".".join(parts[parts.index("experiments") :] if "experiments" in parts else parts)
    command = " ".join(["python -m", module, *sys.argv[1:]])
    call = ["git", "describe", "--always", "--dirty=, with changes"]
    commit = subprocess.run(call, capture_output=True, text=True, cwd=Path(__file__).parent)
    return {
        "command": re.sub(r" --out[ =]\S+", "", command),  # a place on this machine
        "commit": commit.stdout.strip() or "unknown",
        "processor": model[1] if model else platform.processor(),
        "cores": os.cpu_count(),
        "memory": f"{memory / 2**30:.0f} GiB",
        "load": " ".join(f"{load:.2f}" for load in os.getloadavg()),
        "python": platform.python_version(),
        "packages": ", ".join(f"{name} {versions.get(name, 'none')}" for name in _PACKAGES),
        "threads": 1,
        "repeats": run.repeats,
    }


def page_of(name: str, records: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the Markdown page of a saved benchmark, from the records of its parts."""
    lines = [f"# {name.replace('_', ' ')}", ""]
    for part, record in records.items():
        lines += [f"## {part.replace('_', ' ')}", ""] if part else []
        lines += [f"* {key}: {value}" for key, value in record["machine"].items()]
        for table in record["tables"]:
            lines += _lines(table, "###" if part else "##")
        lines += [""] if part else []
    return "\n".join(lines).rstrip() + "\n"


def _lines(table: Mapping[str, Any], level: str) -> list[str]:
    names = list(dict.fromkeys(name for row in table["rows"] for name in row))
    cells = [[cell(row.get(name, "")) for name in names] for row in table["rows"]]
    lines = ["", f"{level} {table['title']}", "", *markdown_table(names, cells)]
    return [*lines, "", table["note"]] if table["note"] else lines


def _plain(value: Any) -> Any:
    """Convert numpy's numbers and arrays, timings and other values to what JSON can hold."""
    if isinstance(value, Timing):
        return {"median": value.median, "seconds": value.seconds, "processor": value.processor}
    return value.tolist() if hasattr(value, "tolist") else str(value)


def cell(value: Any) -> str:
    """Return a saved value as text. A timing is shown as its median, with a mark if it is a single
    run."""
    if isinstance(value, Timing):
        value = _plain(value)
    if isinstance(value, dict):
        seconds, single = value["median"], " (1 run)" if len(value["seconds"]) == 1 else ""
        return (f"{number(1e3 * seconds)} ms" if seconds < 1 else f"{number(seconds)} s") + single
    return f"{value:.3g}" if isinstance(value, float) else str(value)
