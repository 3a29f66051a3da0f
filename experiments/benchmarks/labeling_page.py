"""The page of metriclearn label: how fast it reacts to a correction, and how smoothly it zooms.

    python -m experiments.benchmarks.labeling_page [--out FOLDER]

Correction: the model learns from ten recordings of 20 000 samples and 36 features, and segments all
of them again, with one thread. This test is repeated with more and more labels. Zooming: Chromium,
without a window or a graphics card, shows an hour at 50 Hz and gets a turn of the mouse wheel in
every frame. The same browser takes the three screenshots of docs/label.md.
"""

from __future__ import annotations

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

from experiments.benchmarks.machine import Report, in_turns, options_of
from experiments.pages.pictures import take
from metriclearn.annotate.learning import Group, compile_programs
from metriclearn.annotate.project import Annotation
from metriclearn.annotate.signals import Recording
from metriclearn.datasets import make_change_points

_RATE = 50.0
_ZOOM = """
const done = arguments[0], place = document.getElementById('timeline'), times = [];
const box = place.getBoundingClientRect();
const at = {clientX: box.left + box.width / 2, clientY: box.top + 50};
(function step(time) {
  times.push(time);
  const deltaY = times.length % 160 < 80 ? -60 : 60;
  place.dispatchEvent(new WheelEvent('wheel', {deltaY, ...at, cancelable: true}));
  times.length < 400 ? requestAnimationFrame(step) : done(times.slice(1));
})(performance.now());
"""
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
    quiet = ("gpu", "quic", "background-networking", "component-update", "sync")
    profile = f"user-data-dir={tempfile.mkdtemp()}"
    for flag in (
        "headless",
        "no-sandbox",
        "no-first-run",
        profile,
        *map("disable-{}".format, quiet),
    ):
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


def known_of(ends: NDArray, length: int, count: int) -> list[Annotation]:
    """Annotate the true segments in ``count`` evenly spread stretches of ``length`` samples
    each."""
    annotations: list[Annotation] = []
    for first in np.linspace(0, ends[-1] - length, count).astype(int).tolist():
        inside = ends[(ends > first) & (ends < first + length)]
        edges = (np.array([first, *inside, first + length]) / _RATE).tolist()
        annotations += [Annotation(t, t, "change") for t in edges[1:-1]]
        annotations += [Annotation(a, b, "no change") for a, b in pairwise(edges)]
    return sorted(annotations)


def corrections(tiny: bool, repeats: int) -> list[dict[str, Any]]:
    """Make one row for each amount of labels. The row has the processor seconds from a correction
    to the new segmentations."""
    n, T = (2, 2000) if tiny else (10, 20000)
    data = make_change_points(n, T, 36, 36, (T // 200, T // 200), jump=0.5, random_state=0)
    columns = [f"x{i}" for i in range(36)]
    recordings = [
        Recording(name, "table", Path(name), X, columns, _RATE, T / _RATE)
        for name, X in zip(data.names, data.sequences)
    ]
    ends = [np.append(np.flatnonzero(np.diff(y)) + 1, T) for y in data.labels]
    rows = []
    compile_programs()
    for count in (1, 4) if tiny else (1, 4, 8):
        group = Group(recordings)
        said = {one.name: known_of(e, T // 20, count) for one, e in zip(recordings, ends)}

        def answer(group: Group = group, said: dict = said) -> Any:
            given = group.given(said)
            group.learn(given)
            return group.segment(given)

        answer()  # the first correction; later ones begin with its metric
        timing = in_turns({"answer": answer}, repeats)["answer"]
        rows.append(
            {
                "recordings": n,
                "samples each": T,
                "features": 36,
                "share known": count / 20,
                "processor seconds": timing.processor_median,
            }
        )
    return rows


def write_recordings(folder: Path) -> None:
    """Write two tables with three kinds of movement, and a sound file."""
    from scipy.io import wavfile

    generator = np.random.default_rng(0)
    means = {"rest": (0.0, 0.0), "walk": (3.0, 1.0), "turn": (1.0, -3.0)}
    for name in ("monday", "tuesday"):
        ends = np.cumsum(generator.integers(80, 260, 9))
        kinds = np.resize(list(means), 9)
        X = np.repeat([means[kind] for kind in kinds], np.diff(ends, prepend=0), axis=0)
        X = np.hstack(
            [X + 0.7 * generator.normal(size=X.shape), generator.normal(size=(len(X), 2))]
        )
        np.savetxt(
            folder / f"{name}.csv", X, "%.3f", ",", header="forward,side,light,heat", comments=""
        )
    times = np.arange(4 * 8000) / 8000
    tone = 0.3 * np.sin(2 * np.pi * 440 * times * (1 + 0.02 * np.sin(12 * times)))
    noise = 0.08 * generator.normal(size=len(times))
    hum = 0.2 * np.sign(np.sin(2 * np.pi * 90 * times))
    sound = np.concatenate([tone, noise, hum, noise, tone, hum])
    wavfile.write(folder / "yard.wav", 8000, (sound * 30000).astype(np.int16))


class Visit:
    """An open labeling page, with methods for the actions of a person."""

    def __init__(self, browser: Any, address: str) -> None:
        self.browser = browser
        browser.get(address)
        self.wait()

    def wait(self) -> None:
        """Wait until everything is saved and learned."""
        status = "return document.getElementById('status').textContent"
        while not (text := self.browser.execute_script(status)).startswith(
            ("Saved.", "No labels")
        ) or ("Learning" in text or "checking" in text):
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

    def below(self, share: float, key: str) -> None:
        """Click the strip of segments at the fraction ``share`` of the width, and press a key."""
        self._at(share, True).click().send_keys(key).perform()
        self.wait()

    def click(self, share: float) -> None:
        """Click the signals at the fraction ``share`` of the width, which sets a boundary."""
        self._at(share, False).click().perform()

    def _at(self, share: float, below: bool) -> Any:
        from selenium.webdriver.common.action_chains import ActionChains

        area = self.browser.find_element("css selector", "#timeline .u-over")
        down = area.rect["height"] / 2 - 20 if below else 0
        across = (share - 0.5) * area.rect["width"]
        return ActionChains(self.browser).move_to_element_with_offset(area, int(across), int(down))


def take_stills(browser: Any, folder: Path, target: Path) -> None:
    """Label a part of a recording, as in docs/label.md, and take three screenshots."""
    write_recordings(folder)
    ends = np.cumsum(np.random.default_rng(0).integers(80, 260, 9))
    with served(folder, 10.0) as address:
        visit = Visit(browser, address)
        visit.size(1200, 860, "light")
        for label in ("rest", "walk", "turn"):
            field = browser.find_element("css selector", "#labels input")
            field.send_keys(f"{label}\n")
        for end in ends[:6]:
            visit.click(end / ends[-1])
        for key, middle in zip("123123", (ends[0] / 2, *(ends[:5] + ends[1:6]) / 2)):
            visit.below(middle / ends[-1], key)
        time.sleep(1)
        browser.save_screenshot(str(target / "label_begin.png"))
        visit.open(1)
        browser.find_element("css selector", "#next").click()
        time.sleep(1)
        browser.save_screenshot(str(target / "label_learned.png"))
        visit.open(2)
        visit.size(390, 780, "dark")
        browser.save_screenshot(str(target / "label_sound.png"))


def frames(browser: Any, folder: Path, seconds: int) -> list[dict[str, Any]]:
    """Zoom a recording at 50 Hz, with a turn of the mouse wheel in every frame. Returns one row
    with the frames per second."""
    X = np.random.default_rng(0).normal(size=(int(seconds * _RATE), 6))
    X += 3 * np.sin(np.arange(len(X)) / 900)[:, None]
    np.savetxt(folder / "hour.csv", X, "%.3f", ",", header="a,b,c,d,e,f", comments="")
    with served(folder, _RATE) as address:
        visit = Visit(browser, address)
        visit.size(1400, 900, "light")
        browser.execute_async_script(_ZOOM)  # the page then has all tiles
        steps = np.diff(browser.execute_async_script(_ZOOM))
    seconds_of = [part.sum() / 1000 for part in np.array_split(steps, 16)]
    return [
        {
            "samples": len(X),
            "signals": 6,
            "frames": len(steps),
            "frames per second": len(steps) / 16 / min(seconds_of),
            "of all": 1000 / float(np.mean(steps)),
        }
    ]


def main() -> None:
    """Time corrections and zooming, take screenshots, print and save."""
    options = options_of(__doc__).parse_args()
    report = Report("labeling", options)
    report.table("A correction, learned and segmented", corrections(options.tiny, options.repeats))
    browser = chromium()
    if browser is None:
        report.save()
        return
    browser.set_script_timeout(120)
    with tempfile.TemporaryDirectory() as made, tempfile.TemporaryDirectory() as told:
        report.table(
            "Zooming",
            frames(browser, Path(made), 60 if options.tiny else 3600),
            "In the quietest sixteenth of the time, and over all of it: in a browser that draws "
            "without a graphics card other work on the machine takes frames away.",
        )
        pictures = Path(told) / "pictures"
        (Path(told) / "gestures").mkdir()
        pictures.mkdir()
        take_stills(browser, Path(told) / "gestures", pictures)
        browser.quit()
        report.save()
        images = report.path.parents[1] / "images"
        images.mkdir(exist_ok=True)
        for name, title in _STILLS.items():
            take(pictures / f"{name}.png", images / f"{name}.png", report.path, title)


if __name__ == "__main__":
    main()
