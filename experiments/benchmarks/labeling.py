"""The page of metriclearn label: its reaction to a correction, its zoom, and the names it gives.

    python -m experiments.benchmarks.labeling [--only page names] [--tiny]

Correction: the model learns from ten recordings of 20 000 samples and 36 features, and segments all
of them again, with one thread. This test is repeated with more and more labels. Zooming: Chromium,
without a window or a graphics card, shows an hour at 50 Hz and gets a turn of the mouse wheel in
every frame. The same browser takes the three screenshots of docs/label.md.

Names: a simulated annotator labels stretches of 20 s in the recordings of the training users of
HAPT. The stretches are suggested by the page, or random. Segments that have no activity in HAPT get
no name. The page's model learns from these labels, and names every segment in the recordings of the
test users. All settings were chosen on training users.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.benchmarks.benchmark import Benchmark, Run
from experiments.benchmarks.machine import Row, in_turns
from experiments.harness.results import standard_error
from experiments.studies.labeling_effort import asked, held_out
from metriclearn import PartialPartition, Partition
from metriclearn.apps.label_page.annotation import Annotation
from metriclearn.apps.label_page.learning.group import Group, compile_programs
from metriclearn.apps.label_page.loop import strategy_for
from metriclearn.apps.label_page.project import Project
from metriclearn.apps.label_page.signals import Recording
from metriclearn.datasets import LabeledSequences, load_dataset, make_change_points
from metriclearn.problem import FrobeniusLoss

BENCH = Benchmark("labeling", __doc__)

_RATE = 50.0
# names: half-second rows, and rows of a stretch of 20 s
_ROWS, _LENGTH, _SHARES, _SEEDS = 2.0, 40, (0.05, 0.1, 0.25), 3
_PATIENCE = 60.0  # seconds, enough to finish learning on a busy machine
_ZOOM = Path(__file__).with_name("zoom.js").read_text(encoding="utf-8")
_STILLS = {
    "label_begin": "A recording of a folder is open; six boundaries are set and segments labeled",
    "label_learned": "The model has learned; the next question, with the names it suggests",
    "label_sound": "Sound with spectrogram and waveform, on a small and dark screen",
}


def chromium() -> Any:
    """Start Chromium without a window, with a log of its console. Returns None if Chromium is not
    installed."""
    binary, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if binary is None or driver is None:
        return None
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = binary
    off = ("gpu", "quic", "background-networking", "component-update", "sync")
    flags = ["headless", "no-sandbox", "no-first-run", f"user-data-dir={tempfile.mkdtemp()}"]
    for flag in [*flags, *(f"disable-{name}" for name in off)]:
        options.add_argument(f"--{flag}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))


@contextmanager
def served(folder: Path, rate: float) -> Iterator[str]:
    """Run the labeling page of a folder, and yield its address."""
    command = [sys.executable, "-m", "metriclearn", "label", str(folder), "--quiet"]
    command += ["--rate", str(rate)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.kill()


def annotations_of(
    labels: NDArray, start: int, stop: int, rate: float, names: bool
) -> list[Annotation]:
    """Return the annotations that a person would make from row ``start`` to ``stop``: all changes,
    and a name for every segment that has one, or else a statement that it has no change."""
    ends = start + Partition.from_runs(labels[start:stop]).change_points
    cuts = [start, *ends.tolist()]
    given = [Annotation(t / rate, t / rate, "change") for t in cuts[1:-1]]
    for a, b in pairwise(cuts):
        if not names:
            given.append(Annotation(a / rate, b / rate, "no change"))
        elif labels[a]:
            given.append(Annotation(a / rate, b / rate, "segment", str(labels[a])))
    return given


def recordings_of(data: LabeledSequences, rate: float) -> list[Recording]:
    """Make recordings of tables, as the page reads them."""
    return [
        Recording(name, "table", Path(name), X, data.feature_names, rate, len(X) / rate)
        for name, X in zip(data.names, data.sequences)
    ]


@BENCH.table(
    "A correction, learned and segmented",
    lambda run: (1, 4) if run.tiny else (1, 4, 8),
    part="page",
)
def corrections(count: int, run: Run) -> Row:
    """Measure the processor seconds from a correction to the new segmentations, if ``count`` evenly
    spread twentieths of each recording are labeled."""
    n, T, length = (2, 2000, 40) if run.tiny else (10, 20000, 200)
    counts = T // length, T // length
    data = make_change_points(n, T, 36, 36, counts, jump=0.5, random_state=0)
    compile_programs()
    group = Group(recordings_of(data, _RATE), patience=_PATIENCE)
    said: dict[str, list[Annotation]] = {}
    for name, y in zip(data.names, data.labels):
        firsts = np.linspace(0, T - T // 20, count).astype(int).tolist()
        given = [annotations_of(y, first, first + T // 20, _RATE, False) for first in firsts]
        said[name] = sorted(one for some in given for one in some)

    def answer() -> Any:
        given = group.given(said)
        group.learn(given)
        return group.segment(given)

    answer()  # the first correction; later ones begin with its metric
    timing = in_turns({"answer": answer}, run.repeats)["answer"]
    return {
        "recordings": n,
        "samples each": T,
        "features": 36,
        "share known": count / 20,
        "processor seconds": timing.processor_median,
    }


def write_recordings(folder: Path) -> NDArray:
    """Write two tables with three kinds of movement, and a sound file. Returns the name of every
    row of the first table."""
    from scipy.io import wavfile

    generator = np.random.default_rng(0)
    means = {"rest": (0.0, 0.0), "walk": (3.0, 1.0), "turn": (1.0, -3.0)}
    named = {}
    for table in ("monday", "tuesday"):
        names = np.repeat(np.resize(list(means), 9), generator.integers(80, 260, 9))
        X = np.hstack([[means[name] for name in names], np.zeros((len(names), 2))])
        X += generator.normal(size=X.shape) * (0.7, 0.7, 1.0, 1.0)
        header = "forward,side,light,heat"
        np.savetxt(folder / f"{table}.csv", X, "%.3f", ",", header=header, comments="")
        named[table] = names
    times = np.arange(4 * 8000) / 8000
    tone = 0.3 * np.sin(2 * np.pi * 440 * times * (1 + 0.02 * np.sin(12 * times)))
    noise = 0.08 * generator.normal(size=len(times))
    hum = 0.2 * np.sign(np.sin(2 * np.pi * 90 * times))
    sound = np.concatenate([tone, noise, hum, noise, tone, hum])
    wavfile.write(folder / "yard.wav", 8000, (sound * 30000).astype(np.int16))
    return named["monday"]


class Visit:
    """An open labeling page, with methods for the actions of a person."""

    def __init__(self, browser: Any, address: str) -> None:
        self.browser = browser
        browser.get(address)
        self.wait()

    def wait(self) -> None:
        """Wait until everything is saved and learned."""
        status = "return document.getElementById('status').textContent"
        done = re.compile("No labels|.*Learned in(?!.*checking)")
        while not done.match(self.browser.execute_script(status)):
            time.sleep(0.1)

    def size(self, width: int, height: int, scheme: str) -> None:
        """Set the size of the screen, and light or dark colors."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        time.sleep(1)

    def open(self, number: int) -> None:
        """Open a recording by its index in the list."""
        self.browser.find_elements("css selector", "#recordings button")[number].click()
        time.sleep(1)


def take_stills(browser: Any, folder: Path, target: Path) -> None:
    """Show a part of a recording with labels, as in docs/label.md, and take three screenshots."""
    names, rate = write_recordings(folder), 10.0
    stop = int(Partition.from_runs(names).change_points[6])
    given = {"monday": annotations_of(names, 0, stop, rate, True)}
    labels = ["rest", "walk", "turn"]
    Project(folder, {"monday": len(names) / rate}, labels=labels, annotations=given).save()
    with served(folder, rate) as address:
        visit = Visit(browser, address)
        visit.size(1200, 860, "light")
        browser.save_screenshot(str(target / "label_begin.png"))
        visit.open(1)
        browser.find_element("css selector", "#next").click()
        time.sleep(1)
        browser.save_screenshot(str(target / "label_learned.png"))
        visit.open(2)
        visit.size(390, 780, "dark")
        browser.save_screenshot(str(target / "label_sound.png"))


@BENCH.table("Zooming", lambda run: filter(None, [chromium()]), part="page")
def frames(browser: Any, run: Run) -> Row:
    """Zoom a recording at 50 Hz, with a turn of the mouse wheel in every frame, and take three
    screenshots.

    In the quietest sixteenth of the time, and over all of it: in a browser that draws without a
    graphics card other work on the machine takes frames away.
    """
    browser.set_script_timeout(120)
    X = np.random.default_rng(0).normal(size=(int((60 if run.tiny else 3600) * _RATE), 6))
    X += 3 * np.sin(np.arange(len(X)) / 900)[:, None]
    with tempfile.TemporaryDirectory() as folder:
        np.savetxt(f"{folder}/hour.csv", X, "%.3f", ",", header="a,b,c,d,e,f", comments="")
        with served(Path(folder), _RATE) as address:
            visit = Visit(browser, address)
            visit.size(1400, 900, "light")
            browser.execute_async_script(_ZOOM)  # the page then has all tiles
            steps = np.diff(browser.execute_async_script(_ZOOM))
    pictures = Path(tempfile.mkdtemp())
    (pictures / "gestures").mkdir()
    take_stills(browser, pictures / "gestures", pictures)
    browser.quit()
    run.pictures |= {name: (pictures / f"{name}.png", words) for name, words in _STILLS.items()}
    seconds_of = [part.sum() / 1000 for part in np.array_split(steps, 16)]
    return {
        "samples": len(X),
        "signals": 6,
        "frames": len(steps),
        "frames per second": len(steps) / 16 / min(seconds_of),
        "of all": 1000 / float(np.mean(steps)),
    }


def judged(group: Group, test: LabeledSequences) -> list[tuple[float, float]]:
    """For every recording, return the fraction of its named rows to which the model gives the right
    name, and the loss ‖M − N‖² of its segments."""
    found = []
    for X, labels in zip(test.sequences, test.labels):
        assert group.model is not None
        free = PartialPartition(len(X))
        ends = group.model.margins(group.seen.of(X), X, free, 1).change_points
        names, _ = group.model.named(X, ends)
        rows = np.repeat(names, np.diff(ends, prepend=0))
        right = float(np.mean((rows == labels.astype(str))[labels > 0]))
        truth = Partition.from_runs(labels)
        found.append((right, FrobeniusLoss().squared_norm(Partition(ends=ends), truth)))
    return found


def labeled(
    train: LabeledSequences,
    test: LabeledSequences,
    shares: tuple[float, ...],
    seed: int,
    page: bool,
) -> list[list[tuple[float, float]]]:
    """Label more and more stretches, which the page suggests or which are drawn at random. Whenever
    the labels reach one of ``shares``, judge the model in every test recording."""
    group = Group(recordings_of(train, _ROWS), patience=_PATIENCE)
    said: dict[str, list[Annotation]] = {}
    known = [np.full(len(labels), -1) for labels in train.labels]
    random, results = np.random.default_rng(seed), []
    for share in shares:
        options: dict[str, Any] = {
            "strategy": strategy_for(group.model) if page and group.model else "random",
            "learner": group.model and group.model.learner,
            "random_state": random,
        }
        for i, part in asked(group.seen.rows, known, share, _LENGTH, **options):
            labels, given = train.labels[i], said.setdefault(train.names[i], [])
            runs = np.cumsum(np.append(0, np.diff(labels[part]) != 0))
            known[i][part] = 1000 * part.start + runs
            given += annotations_of(labels, part.start, part.stop, _ROWS, True)
        everything = group.given({name: sorted(many) for name, many in said.items()})
        group.learn(everything)
        group.validate(everything)
        results.append(judged(group, test))
    return results


@BENCH.table(
    "Recordings without labels, HAPT",
    (True, False),
    f"Six test users; means over {_SEEDS} orders. A name is right or wrong for every half second "
    "that has one.",
    part="names",
)
def names(page: bool, run: Run) -> Iterator[Row]:
    """Yield for each fraction of labels the fraction of names that are right and the loss of the
    segments, with their standard errors over users."""
    window = 100 if run.tiny else 25
    data = load_dataset(
        "hapt", window=window, features="basic", unlabeled="keep", labels="activities"
    )
    train, test = held_out(0, data, 6)
    seeds, shares = range(1 if run.tiny else _SEEDS), _SHARES[-1:] if run.tiny else _SHARES
    values = np.mean([labeled(train, test, shares, seed, page) for seed in seeds], axis=0)
    groups = np.array(test.groups)
    for share, found in zip(shares, values):
        users = np.array([found[groups == user].mean(axis=0) for user in np.unique(groups)])
        right, loss = users.T
        yield {
            "stretches": "as suggested" if page else "at random",
            "share of labels": share,
            "names right": right.mean(),
            "± names": standard_error(right),
            "‖M − N‖²": loss.mean(),
            "± loss": standard_error(loss),
        }


if __name__ == "__main__":
    BENCH.main()
