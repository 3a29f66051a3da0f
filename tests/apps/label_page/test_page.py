"""The page of ``metriclearn label`` in a browser: from recordings to a model."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.io import wavfile

from metriclearn.apps.console.commands import main
from metriclearn.datasets.annotations import read_segments
from tests.apps.label_page.browsing import SECONDS, Page, emulate, write_table
from tests.features.sounds import write_video

pytest.importorskip("soundfile", reason="needs the extra audio")

CHANGES = {"first": (8.0, 15.0, 24.0), "second": (5.0, 18.0, 22.0)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two tables whose mean changes, and a recording in which a tone and noise take turns."""
    place = tmp_path_factory.mktemp("recordings")
    for name, changes in CHANGES.items():
        write_table(place / f"{name}.csv", changes, "x,y,z", noise=0.4)
    tone = 0.3 * np.sin(2 * np.pi * 440 * np.arange(4 * 8000) / 8000)
    noise = 0.1 * np.random.default_rng(0).normal(size=4 * 8000)
    sound = np.concatenate([tone, noise, tone]) * 30000
    wavfile.write(place / "third.wav", 8000, sound.astype(np.int16))
    return place


def _no_errors(browser: Any) -> None:
    assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []


def _edit_boundaries(page: Page) -> None:
    """Set a boundary by a click, move it by a drag, undo and redo both."""
    page.open("first")
    page.click(7.0)
    page.saved()
    assert page.changes("first") == pytest.approx([7.0], abs=0.1)
    page.drag(7.0, 8.0)
    page.saved()
    assert page.changes("first") == pytest.approx([8.0], abs=0.1)
    for key, expected in (("undo", [7.0]), ("undo", []), ("redo", [7.0]), ("redo", [8.0])):
        page.all(f"#{key}")[0].click()
        page.saved()
        assert page.changes("first") == pytest.approx(expected, abs=0.1)


def _label_and_accept(page: Page) -> None:
    """Label clicked segments and a stretch by keys, then accept a part of the prediction."""
    (field,) = page.all("#labels input")
    field.send_keys("rest\n")
    page.all("#labels input")[0].send_keys("work\n")
    before = page.shown()
    page.click(4.0, below=True)
    page.press("1")
    page.click(15.0)
    page.drag(8.1, 14.9, below=True)  # to the boundaries nearby
    page.press("2")
    page.click(24.0)
    for second, key in ((17.0, "1"), (26.0, "2")):
        page.click(second, below=True)
        page.press(key)
    page.saved()
    labels = [one.get("label") for one in page.file()["recordings"]["first"]]
    assert labels.count("rest") == labels.count("work") == 2
    assert page.file()["labels"] == ["rest", "work"]
    assert page.shown() != before  # segmented again

    page.open("second")
    page.drag(0.05, 20.0)
    page.press("a")
    page.saved()
    np.testing.assert_allclose(page.changes("second"), CHANGES["second"][:2], atol=0.11)


def _accept_a_suggestion(page: Page) -> None:
    """Accept the prediction in the suggested stretch, and undo it."""
    before = page.file()["recordings"]
    page.all("#next")[0].click()
    name = page.all("#name")[0].text
    page.press("a")
    page.saved()
    after = page.file()["recordings"][name]
    assert len(after) > len(before.get(name, []))
    page.all("#undo")[0].click()
    page.saved()
    assert page.file()["recordings"] == before
    page.all("#redo")[0].click()
    page.saved()
    assert page.file()["recordings"][name] == after


def test_from_recordings_to_a_model(browser, folder, serve, tmp_path, capsys) -> None:
    _, address = serve(folder)
    browser.set_window_size(1400, 1000)
    browser.get("about:blank")  # the page before may still ask its server
    browser.get_log("browser")
    page = Page(browser, address, folder)
    page.saved()

    _edit_boundaries(page)
    _label_and_accept(page)
    _accept_a_suggestion(page)
    _no_errors(browser)

    # the history of changes survives a reload
    state = page.file()
    page.open("second")
    page.click(28.0)
    page.saved()
    browser.refresh()
    page.until(lambda: page.all("#recordings button"))
    page.saved()
    page.all("#undo")[0].click()
    page.saved()
    assert page.file()["recordings"] == state["recordings"]
    _no_errors(browser)

    # fit and segment use the saved labels
    model = tmp_path / "tables.model"
    assert main(["fit", str(folder), "--out", str(model), "--quick"]) == 0
    second = str(folder / "second.csv")
    assert main(["segment", second, "--model", str(model), "--out", str(tmp_path)]) == 0
    (segments,) = read_segments(tmp_path / "second.segments.csv").values()
    assert [label for *_, label in segments] == ["rest", "work", "rest", "work"]
    ends = [end for _, end, _ in segments[:-1]]
    np.testing.assert_allclose(ends, CHANGES["second"], atol=0.11)
    capsys.readouterr()


def test_a_video_is_seen_and_heard_of_in_other_windows(browser, serve, tmp_path) -> None:
    pytest.importorskip("av", reason="needs the extra video")
    times = np.arange(120) / 10
    pictures = np.full((120, 48, 64, 3), 40, dtype=np.uint8)
    pictures[np.arange(120) // 40 == 1] = (200, 60, 20)
    write_video(tmp_path / "film.webm", pictures, times.tolist(), codec="libvpx")
    _, address = serve(tmp_path)
    browser.get("about:blank")  # the page before may still ask its server
    browser.get_log("browser")
    page = Page(browser, address, tmp_path)
    page.saved()
    size = "const v = document.querySelector('video'); return v.readyState && v.videoWidth"
    page.until(lambda: browser.execute_script(size) == 64)
    assert browser.execute_script("return document.querySelector('video').duration") > 11
    first = browser.current_window_handle
    before = page.shown()
    browser.switch_to.new_window("window")
    other = Page(browser, address, tmp_path)
    other.saved()
    other.click(SECONDS / 2)  # at the height of Model, where the cursor is
    other.press("b")
    other.saved()
    assert other.changes("film") == pytest.approx([6.0], abs=0.1)
    browser.close()
    browser.switch_to.window(first)
    page.until(lambda: page.shown() != before)
    page.saved()
    _no_errors(browser)


def test_sound_on_small_and_large_screens(browser: Any, folder: Path, serve: Any) -> None:
    _, address = serve(folder)
    for width, scheme in ((390, "dark"), (1400, "light")):
        emulate(browser, width, scheme)
        browser.get("about:blank")
        browser.get_log("browser")
        page = Page(browser, address, folder)
        page.saved()
        page.open("third")
        sound = "return document.querySelector('audio')"
        page.until(lambda script=f"{sound}.readyState": browser.execute_script(script))
        assert browser.execute_script("return document.documentElement.scrollWidth") <= width
        assert browser.execute_script(f"{sound}.duration") == 12.0
        page.press("+", "+", "0", "?")
        assert page.all("dialog[open]")
        page.all("#keys button")[0].click()
        page.all("#files")[0].click()
        assert len(page.all("#transfer a")) == 37
        _no_errors(browser)
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
