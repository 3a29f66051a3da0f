"""Tools of the label page in a browser: sound, screen readers, tiers, names, models."""

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.io import wavfile

import metriclearn
from tests.apps.label_page.browsing import SECONDS, Page, segments, write_labels, write_table
from tests.apps.label_page.test_server import TOKEN, running

CHANGES = [4.0, 8.0, 12.0, 16.0, 20.0, 26.0]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A table and a sound, both as long."""
    write_table(tmp_path / "table.csv", CHANGES, "x,y")
    sound = 0.3 * np.sin(2 * np.pi * 2000 * np.arange(int(SECONDS * 16000)) / 16000)
    wavfile.write(tmp_path / "tone.wav", 16000, (sound * 30000).astype(np.int16))
    return tmp_path


@pytest.fixture
def page(browser: Any, folder: Path, serve: Any) -> Page:
    _, address = serve(folder)
    browser.set_window_size(1400, 1000)
    browser.get("about:blank")
    browser.get_log("browser")
    return Page(browser, address, folder)


def test_labels_of_a_person_from_the_keyboard(page: Page) -> None:
    """Names, annotators, suggestions, "fill", the verdict, and what screen readers hear."""
    page.saved()
    page.all("#more summary")[0].click()
    page.all("#annotator")[0].send_keys("Ada\t")
    for label in ("rest", "work"):
        page.all("#labels input")[0].send_keys(f"{label}\n")
    for number, change in enumerate(CHANGES[:5]):
        page.click(change)
        page.click(change - 1.5, below=True)
        page.press(str(number % 2 + 1))
    page.saved()
    assert page.file()["annotators"] == {"table": ["Ada"]}

    found = re.match(
        r"(\d+) % of boundaries agree \(likely (\d+) % to (\d+) %\)", page.text("#share")
    )
    assert found
    share, low, high = map(int, found.groups())
    assert 40 < low <= share <= high <= 100
    assert low < high
    assert "Measured on 2 stretches of yours" in page.text("#verdict")
    assert "of your 4 boundaries" in page.text("#verdict")
    assert "With so few stretches the number is rough" in page.text("#verdict")

    # the rest has a name of the model and how sure it is; one key accepts it
    page.click(23.0, below=True)
    hint = page.text("#hint")
    assert "press A to accept: rest" in hint or "press A to accept: work" in hint
    page.until(lambda: page.text("#said") == page.text("#hint"))
    page.press("a")
    page.saved()
    stretches = [one for one in page.file()["recordings"]["table"] if one["kind"] == "segment"]
    assert [one["label"] for one in stretches] == ["rest", "work"] * 3

    # the cursor is announced with what lies there
    page.press(chr(27), "\ue014")  # Escape, right
    page.until(lambda: "Cursor at 0:2" in page.text("#said"))
    # a click may have moved to a boundary of the model nearby
    assert re.search(r"Your label: work, 0:(19\.9|20)", page.text("#said"))
    assert "Model: work" in page.text("#said")
    page.press(",")
    page.until(lambda: re.match(r"Your boundary, at 0:(19\.9|20\.0)", page.text("#said")))

    # a gap is filled from the stretch before it
    page.drag(16.9, 18.5, below=True)
    page.press("u", chr(27))
    page.click(17.5, below=True)
    page.press("f")
    page.saved()
    stretches = [one for one in page.file()["recordings"]["table"] if one["kind"] == "segment"]
    assert [one["label"] for one in stretches] == ["rest", "work"] * 3
    assert all(a["end"] == b["start"] for a, b in pairwise(stretches))
    assert [one["level"] for one in page.browser.get_log("browser")] == []


def test_sound_is_looped_and_slowed(page: Page) -> None:
    page.open("tone")
    here = "const sound = document.querySelector('audio')"
    sound = f"{here}; return sound"
    page.until(lambda: page.browser.execute_script(f"{sound}.readyState") > 1)
    page.drag(2.0, 2.5)
    page.press("l", "s", " ")
    assert page.browser.execute_script(f"{sound}.playbackRate") == 0.5
    assert page.text("#speed") == "½×"
    heard = f"{here}; return window.heard = [...(window.heard ?? []), sound.currentTime]"
    page.until(lambda: (np.diff(page.browser.execute_script(heard)) < -0.2).any())  # went back
    times = np.array(page.browser.execute_script(heard))
    assert times[times > 0].min() > 1.8
    assert times.max() < 2.9
    page.press(" ", "l", "s", "s")
    assert page.browser.execute_script(f"{sound}.paused")
    assert page.text("#speed") == "1×"
    # a paused player does not throw the view back to the cursor
    page.press("0", "+", "+", "+", "+")
    bar = "return document.querySelector('#overview i').style.left"
    left = page.browser.execute_script(bar)
    page.browser.execute_script("document.querySelector('audio').currentTime = 29")
    page.until(lambda: not page.browser.execute_script(f"{sound}.seeking"))
    assert page.browser.execute_script(bar) == left


def test_frequencies_stand_at_their_height_beside_the_spectrogram(page: Page) -> None:
    page.open("tone")
    page.browser.execute_script("""
    const pen = CanvasRenderingContext2D.prototype, write = pen.fillText;
    window.written = {};
    pen.fillText = function (text, x, y) {
      written[text] = this.getTransform().transformPoint({ x, y }).y;
      return write.call(this, text, x, y);
    };
    """)
    marks = ["500 Hz", "1 kHz", "2 kHz", "4 kHz"]
    page.press("+")
    written = page.until(lambda: page.browser.execute_script("return written"))
    heights = [written[mark] for mark in marks]
    assert (np.diff(heights) < -5).all()
    # the tone of 2 kHz: of the pixels near its mark those at its height differ most
    column = """
    const canvas = document.querySelector("#timeline canvas");
    const d = canvas.getContext("2d").getImageData(canvas.width / 2, arguments[0] - 25, 1, 51).data;
    return Array.from({ length: 51 }, (_, i) => [d[4 * i], d[4 * i + 1], d[4 * i + 2]]);
    """

    def differences() -> np.ndarray:
        colors = np.array(page.browser.execute_script(column, round(heights[2])), dtype=float)
        return np.abs(colors - colors[0]).sum(axis=1)

    page.until(lambda: differences().any())  # its tiles have arrived
    apart = differences()
    assert np.average(np.arange(-25, 26), weights=apart) == pytest.approx(0.0, abs=1.5)


def test_tiers_are_separate_and_seen_together(page: Page) -> None:
    page.saved()
    page.click(8.0)
    page.click(4.0, below=True)
    page.press("n")
    page.saved()
    before = page.file()
    page.all("#more summary")[0].click()
    page.all("#tiers input")[0].send_keys("words\n")
    page.until(lambda: page.browser.current_url.endswith("/tier/words/"))
    page.until(lambda: page.text("#tier") == "tier words")
    page.until(lambda: page.all("#recordings button"))
    # the stretch of the other tier is in the last row; a click there selects it
    page.click(4.0, below=True)
    start, end = (before["recordings"]["table"][0][name] for name in ("start", "end"))
    assert page.text("#hint").startswith(f"0:{start:06.3f} to 0:{end:06.3f} selected")
    page.press("n")
    page.saved()
    assert page.file() == before
    content = (page.folder / "words.metriclearn.json").read_text()
    assert f'"end": {end}' in content
    (button,) = [one for one in page.all("#tiers button") if one.text == "first tier"]
    button.click()
    page.until(lambda: not page.browser.current_url.endswith("/tier/words/"))
    page.until(lambda: page.all("#recordings button"))
    page.saved()
    assert page.text("#tier") == ""
    assert [one["level"] for one in page.browser.get_log("browser")] == []


@pytest.fixture
def learning(browser, folder, two_families, monkeypatch) -> Iterator[Page]:
    """The page of two labeled tables and a sound, which tells often how far a model is."""
    monkeypatch.setattr("metriclearn.apps.label_page.page._LOOK", 0.05)
    write_table(folder / "other.csv", CHANGES[2:], "x,y")
    write_labels(folder, table=segments(CHANGES), other=segments(CHANGES[2:]))
    for server in running(folder):
        server.page.loop.thread.start()
        yield Page(browser, f"http://127.0.0.1:{server.port}/{TOKEN}/", folder)
        browser.get("about:blank")


def test_a_model_is_learned_and_then_downloaded(learning: Page, browser, tmp_path) -> None:
    """The dialog tells how far it is, also if opened again; a failure is a sentence there."""
    page, saved = learning, tmp_path / "saved"

    def ask_for_model() -> None:
        page.all("#files")[0].click()
        (link,) = [one for one in page.all("#transfer a") if "metriclearn segment" in one.text]
        link.click()

    allowed = {"behavior": "allow", "downloadPath": str(saved)}
    browser.execute_cdp_cmd("Browser.setDownloadBehavior", allowed)
    page.saved()
    page.open("tone")
    ask_for_model()
    page.until(lambda: page.text("#toast").startswith("A model needs labels"))
    assert page.all("#toast")[0].is_displayed()
    assert page.text("#learning") == ""
    page.all("#transfer form button")[0].click()

    page.open("table")
    ask_for_model()
    said = page.until(lambda: page.text("#learning"))
    assert re.fullmatch(r"Learning, (\d+%, )?\d+ s\. The file comes when this is done\.", said)
    page.all("#transfer form button")[0].click()
    page.click(2.0)  # the page is used further
    page.saved()
    page.all("#files")[0].click()
    (path,) = page.until(lambda: list(saved.glob("*.model")))
    page.until(lambda: page.text("#learning") == "")
    assert metriclearn.load(path).feature_names_in_.tolist() == ["x", "y"]
    assert page.changes("table")[0] == pytest.approx(2.0, abs=0.1)
