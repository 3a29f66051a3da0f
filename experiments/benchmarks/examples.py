"""Run the first examples of the README: the time they take, and their pictures.

    python -m experiments.benchmarks.examples [--tiny]

The Python lines are run as they are in the README. The first command of the README learns from four
shows of speech and song. The shows are made as in ``experiment=shows``, but each of them lasts two
and a half minutes. The second command segments another show, with other people and other songs.
"""

from __future__ import annotations

import contextlib
import io
import re
import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from experiments.benchmarks.benchmark import Benchmark, Run
from experiments.benchmarks.machine import Row, Timing
from experiments.data.assembled_shows import build_shows
from experiments.pages.pictures import ROOT, title_of
from metriclearn.apps.console.commands import main as metriclearn

BENCH = Benchmark("examples", __doc__)


@cache
def folder_of(tiny: bool) -> Path:
    """Make the shows in a temporary folder."""
    folder = Path(tempfile.mkdtemp())
    build_shows(folder, minutes=0.5 if tiny else 2.5, shows=(4, 1, 1))
    shutil.copy(folder / "test" / "test0.mp4", folder / "new.mp4")
    return folder


@BENCH.table("The first examples of the README", ("python", "fit", "segment"))
def example(name: str, run: Run) -> Row:
    """Run one example, and keep what it draws."""
    folder, names = folder_of(run.tiny), dict[str, Any]()
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    blocks = "".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL))
    code = compile(blocks, "README.md", "exec")
    calls = {
        "python": lambda: exec(code, names),
        "fit": lambda: metriclearn(("fit", "train", "--out", "shows.model")),
        "segment": lambda: metriclearn(("segment", "new.mp4", "--model", "shows.model")),
    }
    with contextlib.chdir(folder), contextlib.redirect_stdout(io.StringIO()) as lines:
        timing = Timing().run(calls[name])
    if timing.result:
        raise RuntimeError(f"metriclearn {name} ended with {timing.result}.")
    printed = lines.getvalue().replace(str(folder), "").replace("/new.", "new.")
    if name == "python":
        figure, picture = names["figure"], folder / "segmentation.png"
        figure.savefig(picture, dpi=160, metadata={"Software": None})
        words = f"Three features of a test sequence over its segments: {title_of(figure)}"
        run.pictures["segmentation"] = picture, words
    elif name == "segment":
        found = next(line for line in printed.splitlines() if line[:8] == "new.mp4:")
        words = f"Pictures and sound of a new show above the segments found, {found}"
        run.pictures["timeline"] = folder / "new.timeline.png", words
    return {"example": name, "time": timing}


if __name__ == "__main__":
    BENCH.main()
