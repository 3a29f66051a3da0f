"""The two commands of the README, on recordings nobody has to fetch: seconds, and their picture.

    python -m experiments.console [--out FOLDER] [--tiny]

Four shows of speech and song, as in ``experiment=shows`` but of two and a half minutes, are learned
from; another one, of other people and other songs, is segmented. Writes
``docs/benchmarks/console.json`` and the picture that the second command leaves beside the new
recording, ``docs/images/timeline.png``.
"""

from __future__ import annotations

import contextlib
import io
import shutil
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

from experiments.benchmarks.machine import Report, Timing, options_of
from experiments.figures import take
from experiments.shows import build_shows
from metriclearn.cli import main as metriclearn

COMMANDS = {
    "metriclearn fit shows --out shows.model": ("fit", "train", "--out", "shows.model"),
    "metriclearn segment new.mp4 --model shows.model": (
        "segment",
        "new.mp4",
        "--model",
        "shows.model",
    ),
}


def run(arguments: tuple[str, ...]) -> str:
    """What a command prints."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        status = metriclearn(arguments)
    if status:
        raise RuntimeError(f"metriclearn {' '.join(arguments)} ended with {status}.")
    return printed.getvalue()


def main() -> None:
    """Build the shows, run both commands, keep the seconds and the picture."""
    options = options_of(__doc__).parse_args()
    report = Report("console", options)
    minutes = 0.5 if options.tiny else 2.5
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        build_shows(folder, minutes=minutes, shows=(4, 1, 1))
        shutil.copy(Path(folder, "test", "test0.mp4"), Path(folder, "new.mp4"))
        for command, arguments in COMMANDS.items():
            with contextlib.chdir(folder):
                timing = Timing().run(partial(run, arguments))
            print(timing.result)
            rows.append({"command": command, "time": timing})
        note = f"Four shows of {minutes:g} minutes, and another one of other people and songs."
        report.table("Commands", rows, note)
        report.save()
        found = next(line for line in timing.result.splitlines() if line.startswith("new.mp4:"))
        title = f"Pictures and sound of a new show above the segments found, {found}"
        images = report.path.parents[1] / "images"
        images.mkdir(exist_ok=True)
        take(Path(folder, "new.timeline.png"), images / "timeline.png", report.path, title)


if __name__ == "__main__":
    main()
