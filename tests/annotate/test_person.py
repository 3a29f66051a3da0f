"""Ten minutes of sound in five recordings, labeled on the page: all files have exact boundaries."""

import io
import json
import shutil
import zipfile
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.io import wavfile

from metriclearn.datasets.annotations import read_segments
from metriclearn.datasets.formats import FORMATS, read_file
from tests.annotate.browsing import Page

pytest.importorskip("uvicorn", reason="needs the extra label")
pytest.importorskip("starlette", reason="needs the extra label")
pytest.importorskip("pympi", reason="needs the extra label")

SECONDS, RATE = 120.0, 8000
LABELS = ["tone", "noise", "hum"]
CLOSE = -2900  # of the wheel, to see 0.36 s of 120 s
_AREA = "const {left, width} = arguments[0].getBoundingClientRect(); return [left, width]"
_TURN = """
const [area, clientX, deltaY] = arguments;
document.getElementById("all").click();
area.dispatchEvent(new WheelEvent("wheel", {clientX, deltaY, bubbles: true, cancelable: true}));
"""
_FETCH = """
const [address, body, done] = arguments;
const options = body === null ? {} : { method: "POST", body };
fetch(address, options).then((answer) => answer.blob()).then((blob) => {
  const reader = new FileReader();
  reader.onload = () => done(reader.result.split(",")[1]);
  reader.readAsDataURL(blob);
}, (error) => done(String(error)));
"""


def sounds(folder: Path) -> dict[str, list[float]]:
    """Five recordings of two minutes, and the times at which their sound changes."""
    random = np.random.default_rng(7)
    times = np.arange(int(SECONDS * RATE)) / RATE
    kinds = np.stack([
        0.3 * np.sin(2 * np.pi * 440 * times),
        0.1 * random.normal(size=len(times)),
        0.2 * np.sign(np.sin(2 * np.pi * 90 * times)),
    ])  # fmt: skip
    ends = {}
    for number in range(5):
        cuts = (np.arange(1, 5) * 24_000 + random.integers(-9000, 9000, 4)) / 1000
        place = np.searchsorted(cuts, times, side="right") % 3
        sound = kinds[place, np.arange(len(times))]
        wavfile.write(folder / f"take{number}.wav", RATE, (sound * 30000).astype(np.int16))
        ends[f"take{number}"] = cuts.tolist()
    return ends


def label(page: Any, ends: list[float]) -> None:
    """Zoom in and click at every boundary, then label the segments between them by keys."""
    from selenium.webdriver.common.action_chains import ActionChains

    (area,) = page.all("#timeline .u-over")
    left, wide = page.browser.execute_script(_AREA, area)
    middle = np.floor(left + wide / 2) - left  # offsets of the mouse count from there
    for time in ends:
        there = round(time / SECONDS * wide) / wide * SECONDS
        page.browser.execute_script(_TURN, area, left + there / SECONDS * wide, CLOSE)
        part = np.exp(CLOSE * 0.002)
        across = there / SECONDS * wide + (time - there) / (part * SECONDS) * wide
        actions = ActionChains(page.browser, duration=0)
        actions.move_to_element_with_offset(area, round(across - middle), 0).click().perform()
    page.browser.execute_script("document.getElementById('all').click()")
    actions = ActionChains(page.browser, duration=0)
    down = int(area.rect["height"] / 2 - 54)  # the row You
    for number, (start, end) in enumerate(pairwise([0.0, *ends, SECONDS])):
        across = round((start + end) / 2 / SECONDS * wide - middle)
        actions.move_to_element_with_offset(area, across, down).click()
        actions.send_keys(str(number % 3 + 1))
    actions.perform()


def fetched(page: Any, address: str, body: str | None = None) -> bytes:
    from base64 import b64decode

    return b64decode(page.browser.execute_async_script(_FETCH, address, body))


def is_exact(segments: list[tuple[float, float, str]], ends: list[float]) -> bool:
    """Whether segments end at these times, to the millisecond, with the labels in turn."""
    found = [(round(end, 6), label) for _, end, label in segments]
    names = [LABELS[i % 3] for i in range(len(ends) + 1)]
    return found == list(zip([*ends, SECONDS], names))


def exported(page: Any, kind: str, known: str, names: Mapping[str, Any], place: Path) -> Any:
    """Segments by recording from the file of all recordings, and the text of each file."""
    content = fetched(page, f"export/{kind}{known}")
    files: dict[str, bytes] = {}
    if kind == "csv":
        (place / "all.csv").write_bytes(content)
        return read_segments(place / "all.csv"), dict.fromkeys(names, content)
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        for name in names:
            files[name] = archive.read(f"{name}{FORMATS[kind].ending}")
    tables = {}
    for name, text in files.items():
        path = place / f"file{FORMATS[kind].ending}"
        path.write_bytes(text)
        tables[name] = read_file(kind, name, path)
    return tables, files


def test_ten_minutes_of_sound_to_the_millisecond(browser: Any, serve: Any, tmp_path: Path) -> None:
    folder, again = tmp_path / "sounds", tmp_path / "again"
    folder.mkdir()
    ends = sounds(folder)
    shutil.copytree(folder, again)
    _, address = serve(folder)
    browser.set_window_size(1400, 1000)
    browser.set_script_timeout(30)
    browser.get("about:blank")
    page = Page(browser, address, folder)
    for name in LABELS:
        page.all("#labels input")[0].send_keys(f"{name}\n")
    for name, times in ends.items():
        page.open(name)
        label(page, times)
    page.saved()
    saved = page.file()["recordings"]
    for name, times in ends.items():
        assert page.changes(name) == times
        assert [one["end"] for one in saved[name] if "label" in one] == [*times, SECONDS]

    texts = {}
    for kind in FORMATS:
        for known in ("", "?what=known"):
            tables, texts[kind] = exported(page, kind, known, ends, tmp_path)
            assert all(is_exact(tables[name], times) for name, times in ends.items())
            path = tmp_path / f"take3{FORMATS[kind].ending}"
            path.write_bytes(fetched(page, f"export/{kind}/take3{known}"))
            assert is_exact(read_file(kind, "take3", path), ends["take3"])

    # into another folder: the table by the page's own dialog, the other formats as its script does
    _, address = serve(again)
    browser.get("about:blank")
    page = Page(browser, address, again)
    page.all("#files")[0].click()
    page.all("#file")[0].send_keys(str(tmp_path / "all.csv"))
    page.until(lambda: (again / "metriclearn.json").exists())
    page.saved()
    assert page.file()["recordings"] == saved
    for kind, files in texts.items():
        for name, text in files.items():
            answer = fetched(page, f"import/{kind}/{name}", text.decode("utf-8"))
            assert json.loads(answer)["annotations"][name] == saved[name]
