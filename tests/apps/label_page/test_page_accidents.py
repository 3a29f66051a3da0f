"""What happens by accident on the label page loses nothing, labels nothing, and is told."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.apps.label_page.browsing import Page, contrast, write_table

_KEY = """
const [key, place, options] = arguments;
const event = new KeyboardEvent("keydown", { key, bubbles: true, ...options });
document.querySelector(place).dispatchEvent(event);
"""
_RENAME = """
const click = new MouseEvent("click", {shiftKey: true});
setTimeout(() => document.querySelector("#labels button").dispatchEvent(click));
"""
_SPY = """
const pen = CanvasRenderingContext2D.prototype, write = pen.fillText;
window.inks = {};
pen.fillText = function (text, ...place) {
  inks[text] = this.fillStyle;
  return write.call(this, text, ...place);
};
"""
_DRAG_ENDS = """
const area = document.querySelector("#timeline .u-over");
area.dispatchEvent(new PointerEvent("pointercancel", {pointerId: 1}));
"""
_CURVE = """
const [done] = arguments, point = {stretches: 3, agreed: 3, missed: 0, extra: 0, low: 0.4, high: 1};
import(new URL("static/quality.js", location)).then(({ Quality }) => {
  const quality = new Quality(() => () => "#000000");
  quality.show([3, 9, 5].map((seconds) => ({...point, seconds})));
  done(quality.plot.data[0]);
});
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A table, twenty others of which one has a long name, and a sound that no browser plays."""
    soundfile = pytest.importorskip("soundfile", reason="needs the extra audio")
    write_table(tmp_path / "a.csv", [8.0, 15.0, 24.0], "x,y")
    for name in (*(f"{k:02d}" for k in range(19)), "long" * 40):
        (tmp_path / f"{name}.csv").write_text("x,y\n" + "0,1\n1,0\n" * 20)
    soundfile.write(tmp_path / "mute.aiff", 0.1 * np.sin(np.arange(300.0)), 8000)
    return tmp_path


class Accidents(Page):
    def key(self, key: str, place: str = "#timeline", **options: Any) -> None:
        self.browser.execute_script(_KEY, key, place, options)

    def add_label(self, text: str, **options: Any) -> None:
        self.browser.execute_script(
            "document.querySelector('#labels input').value = arguments[0]", text
        )
        self.key("Enter", "#labels input", **options)

    def rename(self, name: str) -> None:
        from selenium.webdriver.support.expected_conditions import alert_is_present

        self.browser.execute_script(_RENAME)
        alert = self.until(lambda: alert_is_present()(self.browser))
        alert.send_keys(name)
        alert.accept()

    def mine(self, kind: str) -> list[tuple[float, float]]:
        """Annotations of a kind once all is saved."""
        self.saved()
        entries = self.file()["recordings"].get("a", [])
        return [(one["start"], one["end"]) for one in entries if one["kind"] == kind]


def _labels_are_lines(page: Accidents) -> None:
    page.add_label("half", isComposing=True)  # Enter chose a character
    assert page.all("#labels button") == []
    for label in ("a\tb", "x" * 250):
        page.add_label(label)
    page.saved()
    assert page.file()["labels"] == ["a b", "x" * 200]
    page.click(17.0, below=True)
    page.rename("unknown")
    page.until(lambda: "is reserved" in page.text("#toast"))
    page.rename("walk")
    page.saved()
    assert page.file()["labels"] == ["walk", "x" * 200]
    assert page.file()["recordings"] == {}  # renaming labels nothing


def _boundaries_stay_where_they_were(page: Accidents) -> None:
    page.press(chr(27))
    page.click(7.0)
    (before,) = page.mine("change")
    page.at(7.0).click_and_hold().perform()
    page.at(12.0).perform()
    page.browser.execute_script(_DRAG_ENDS)  # the system took the pointer
    page.until(lambda: f"{before[0]:06.3f}" in page.text("#said"))
    page.at(12.0).release().perform()
    assert page.mine("change") == [before]
    page.drag(15.0, 20.0, below=True)
    page.press("1")
    (stretch,) = page.mine("segment")
    page.drag(7.0, 17.0)  # it stops at the label, which stays
    assert page.mine("segment") == [stretch]
    assert page.mine("change") == [(stretch[0], stretch[0])]


def _keys_work_everywhere(page: Accidents) -> None:
    page.click(27.0)
    assert len(page.mine("change")) == 2
    page.key("z", ctrlKey=True)
    page.press("\ue017")  # Delete: the boundary is gone already
    assert page.mine("no change") == []
    page.all("#lanes summary")[0].click()
    page.all("#lanes input")[1].click()
    page.drag(22.0, 24.5, below=True)
    page.all("#lanes input")[1].click()  # has the focus
    page.press("n")
    assert len(page.mine("no change")) == 1
    page.key("u", code="KeyU", altKey=True)  # a menu of the browser
    assert len(page.mine("no change")) == 1
    page.key("г", code="KeyU")  # U on a keyboard of Cyrillic letters
    assert page.mine("no change") == []


def _undo_is_seen(page: Accidents) -> None:
    page.key("0")
    page.click(29.0)
    page.saved()
    page.key("ArrowLeft", shiftKey=True)
    page.press("0", *"++++", *"," * 3)
    left = page.browser.execute_script("return document.querySelector('#overview i').style.left")
    page.all("#undo")[0].click()
    first, last = page.view()
    assert float(left[:-1]) < 90
    assert first < 29 < last


def _files_are_told(page: Accidents) -> None:
    file = page.folder / "import.txt"
    file.write_text("junk")
    page.all("#files")[0].click()
    page.all("#file")[0].send_keys(str(file))
    page.until(lambda: page.all("dialog[open] #toast"))
    page.until(lambda: "cannot be read" in page.text("#toast"))
    rows = [f"{k / 10:.3f}\t{(k + 1) / 10:.3f}\t{('walk', 'run')[k % 2]}" for k in range(300)]
    file.write_text("\n".join(rows))
    page.all("#file")[0].send_keys(str(file))  # the same one again
    page.until(lambda: not page.all("dialog[open]"))
    assert len(page.mine("segment")) == 300
    shown = page.all("#overview")[0].value_of_css_property("background-image")
    assert shown.count("rgb(0, 158, 115)") == 300  # two for each of "run"


def test_accidents_lose_and_label_nothing(browser: Any, folder: Path, serve: Any) -> None:
    process, address = serve(folder)
    browser.set_window_size(1400, 1000)
    browser.get("about:blank")
    page = Accidents(browser, address, folder)
    page.saved()
    page.open("a")
    _labels_are_lines(page)
    _boundaries_stay_where_they_were(page)
    _keys_work_everywhere(page)
    _undo_is_seen(page)
    _files_are_told(page)

    # labels can be read on all colors
    browser.execute_script(_SPY)
    page.press(*"+++++")
    inks = page.until(lambda: browser.execute_script("return inks.run && inks"), 10)
    for label, color in (("walk", "#0072b2"), ("run", "#009e73")):
        assert contrast(inks[label], color) > 4.5

    # long lists and names leave the rest in its place
    for name in ("18", "long"):
        page.key("0")
        page.browser.execute_script(
            "[...document.querySelectorAll('#recordings button')].find("
            "(one) => one.textContent.startsWith(arguments[0])).click()",
            name,
        )
    shown, listed = page.box("#recordings [aria-current=true]"), page.box("#recordings")
    assert listed["top"] <= shown["top"]
    assert shown["bottom"] <= listed["bottom"]
    assert page.box("#verdict")["top"] < browser.execute_script("return innerHeight")
    assert page.box("#all")["right"] <= page.box("#work")["right"]
    assert page.box("#hint")["width"] > 300
    assert browser.execute_async_script(_CURVE) == [3, 5, 9]

    page.open("mute")
    page.until(lambda: browser.execute_script("return document.querySelector('audio').error"))
    page.all("#play")[0].click()
    page.until(lambda: "cannot play" in page.text("#toast"))
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    page.all("#more summary")[0].click()
    page.all("#tiers input")[0].send_keys("words\n")
    page.until(lambda: "does not answer" in page.text("#toast"))
    assert json.loads((folder / "metriclearn.json").read_text())["revision"] > 5
    browser.get("about:blank")
