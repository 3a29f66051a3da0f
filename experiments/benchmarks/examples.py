"""Run the first examples of the README: their output, the time they take, and their pictures.

    python -m experiments.benchmarks.examples [--out FOLDER] [--tiny]

The Python lines are run as they are in the README. The first command of the README learns from four
shows of speech and song. The shows are made as in ``experiment=shows``, but each of them lasts two
and a half minutes. The second command segments another show, with other people and other songs. The
benchmark writes ``docs/benchmarks/examples.json``, ``docs/images/segmentation.png`` and
``docs/images/timeline.png``.
"""

from __future__ import annotations

import contextlib
import io
import re
import shutil
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from experiments.benchmarks.machine import Report, Timing, options_of
from experiments.data.assembled_shows import build_shows
from experiments.pages.pictures import ROOT, take, title_of
from metriclearn.__main__ import main as metriclearn

_COMMANDS = {
    "fit": ("train", "--out", "shows.model"),
    "segment": ("new.mp4", "--model", "shows.model"),
}


def main() -> None:
    """Run everything in a temporary folder, print and save."""
    options = options_of(__doc__).parse_args()
    report = Report("examples", options)
    timings: dict[str, Timing] = {}
    printed: dict[str, str] = {}
    names: dict[str, Any] = {}
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    code = compile(re.findall(r"```python\n(.*?)```", text, re.DOTALL)[0], "README.md", "exec")
    calls: dict[str, Callable[[], Any]] = {"python": lambda: exec(code, names)}
    for command, arguments in _COMMANDS.items():
        calls[command] = partial(metriclearn, (command, *arguments))
    with tempfile.TemporaryDirectory() as folder:
        build_shows(folder, minutes=0.5 if options.tiny else 2.5, shows=(4, 1, 1))
        shutil.copy(Path(folder, "test", "test0.mp4"), Path(folder, "new.mp4"))
        for name, call in calls.items():
            with contextlib.chdir(folder), contextlib.redirect_stdout(io.StringIO()) as lines:
                timings[name] = Timing().run(call)
            if timings[name].result:
                raise RuntimeError(f"metriclearn {name} ended with {timings[name].result}.")
            printed[name] = lines.getvalue().replace(folder, "").replace("/new.", "new.")
        rows = [{"example": name, "time": timing} for name, timing in timings.items()]
        report.table("The first examples of the README", rows)
        report.save(printed=printed)
        images = report.path.parents[1] / "images"
        images.mkdir(exist_ok=True)
        found = next(line for line in printed["segment"].splitlines() if line[:8] == "new.mp4:")
        title = f"Pictures and sound of a new show above the segments found, {found}"
        take(Path(folder, "new.timeline.png"), images / "timeline.png", report.path, title)
        figure, picture = names["figure"], Path(folder, "segmentation.png")
        figure.savefig(picture, dpi=160, metadata={"Software": None})
        title = f"Three features of a test sequence over its segments: {title_of(figure)}"
        take(picture, images / "segmentation.png", report.path, title)


if __name__ == "__main__":
    main()
