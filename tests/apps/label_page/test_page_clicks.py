"""Clicks, zoom and rows of the label page to the pixel, on a large or a small screen."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.apps.label_page.browsing import (
    SECONDS,
    Page,
    opened,
    segments,
    write_labels,
    write_table,
)

CHANGES = [6.0, 11.0, 15.0, 20.0, 26.0]
_ALT = """
const options = {key: "Alt", altKey: true, bubbles: true, cancelable: true};
return document.dispatchEvent(new KeyboardEvent(arguments[0], options));
"""
# Heights of the captions of rows, in pixels of the window.
_ROWS = """
const pen = CanvasRenderingContext2D.prototype, write = pen.fillText;
window.rows = {};
pen.fillText = function (text, x, y) {
  const place = this.getTransform().transformPoint({ x, y });
  rows[text] = place.y / devicePixelRatio + this.canvas.getBoundingClientRect().top;
  return write.call(this, text, x, y);
};
"""
_DRAWN = """
document.querySelector("#timeline").dispatchEvent(new WheelEvent("wheel", {deltaY: 0}));
return rows.You;
"""
LARGE, SMALL = (1280, "light"), (360, "dark")


@pytest.fixture
def folder(tmp_path: Path, request: Any) -> Path:
    """Two tables of the same changes, and the labels of the first unless a parameter is false."""
    for name in ("first", "second"):
        write_table(tmp_path / f"{name}.csv", CHANGES, "x,y")
    if getattr(request, "param", True):
        write_labels(tmp_path, first=segments(CHANGES))
    return tmp_path


@pytest.fixture
def page(browser: Any, folder: Path, serve: Any, request: Any) -> Iterator[Page]:
    _, address = serve(folder)
    with opened(browser, address, folder, *getattr(request, "param", LARGE)) as page:
        yield page


def flags(page: Page) -> str:
    return page.all("#timeline")[0].get_attribute("data-snaps") or ""


@pytest.mark.parametrize("page", [LARGE, SMALL], indirect=True, ids=str)
def test_a_click_is_where_it_was_made(page: Page) -> None:
    page.open("second")
    theirs = page.pixel(CHANGES[1])
    for distance in (4, 5, 6):  # no boundary of the model moves it
        time = page.move(theirs + distance)
        assert flags(page) == ""
        assert page.changes("second") == []
        assert page.move(theirs + distance, click=True) == time
        page.saved()
        assert page.changes("second") == [pytest.approx(time, abs=6e-4)]
        page.press("\ue017")
        page.saved()
    # up to three pixels, it is shown before, and Alt undoes it at once
    time = page.move(theirs + 3)
    assert flags(page) == "the model's boundary 0:11.000"
    page.browser.execute_script(_ALT, "keydown")
    assert flags(page) == ""
    page.browser.execute_script(_ALT, "keyup")
    assert flags(page) == "the model's boundary 0:11.000"
    page.move(theirs + 3, click=True, alt=True)
    page.saved()
    assert page.changes("second") == [pytest.approx(time, abs=6e-4)]
    page.press("\ue017")
    page.saved()
    page.move(theirs + 3, click=True)
    page.saved()
    assert page.changes("second") == [CHANGES[1]]
    # beside a boundary of yours a click selects it; with Alt it sets another one
    page.move(theirs + 5, click=True)
    assert "Boundary selected" in page.text("#hint")
    time = page.move(theirs + 5, click=True, alt=True)
    page.saved()
    assert page.changes("second") == [CHANGES[1], pytest.approx(time, abs=6e-4)]


def test_a_boundary_of_the_model_is_confirmed_by_an_action_of_its_own(page: Page) -> None:
    page.open("second")
    (confirm,) = [one for one in page.all("#marks button") if one.text.endswith("Confirm")]
    assert not confirm.is_enabled()
    page.move(page.pixel(CHANGES[2]) + 5, "Model", click=True)
    assert "press C to confirm it" in page.text("#hint")
    assert page.file()["recordings"].get("second", []) == []
    assert confirm.is_enabled()
    page.press("c")
    page.saved()
    assert page.changes("second") == [CHANGES[2]]
    assert not confirm.is_enabled()
    page.press("c")  # it is yours already
    page.move(page.pixel(CHANGES[3]) - 5, "Model", click=True)
    confirm.click()
    page.saved()
    assert page.changes("second") == CHANGES[2:4]
    # a click far from boundaries selects the segment, as before
    page.move(page.pixel(23.0), "Model", click=True)
    assert "selected: label it" in page.text("#hint")


@pytest.mark.parametrize("page", [SMALL], indirect=True, ids=str)
def test_zoom_is_about_the_pointer_or_the_cursor(page: Page) -> None:
    wide = page.box("#timeline .u-over")["width"]
    for share in (0.1, 0.5, 0.83):
        x = round(share * wide)
        time = page.move(x)
        page.press("+", "+", "+")
        span = page.view()[1] - page.view()[0]
        assert span == pytest.approx(SECONDS * 0.6**3, rel=1e-3)
        assert abs(page.pixel(time) - x) <= 1
        page.press("-")
        assert abs(page.pixel(time) - x) <= 1
        page.press("0")
    # the pointer is elsewhere: about the cursor, by keys and by the buttons
    page.move(page.pixel(7.5), click=True)
    x = page.pixel(7.5)
    page.all("#name")[0].click()
    page.press("+", "+")
    assert abs(page.pixel(7.5) - x) <= 1
    page.press("0")
    page.all("#in")[0].click()
    page.all("#in")[0].click()
    assert abs(page.pixel(7.5) - x) <= 1
    page.all("#out")[0].click()
    assert abs(page.pixel(7.5) - x) <= 1


@pytest.mark.parametrize(("folder", "page"), [(False, SMALL)], indirect=True, ids=["unlabeled"])
def test_no_boundary_of_the_model_until_it_is_better_than_none(page: Page) -> None:
    """And neither a boundary, nor a label, nor the first segments of the model move a row."""
    page.browser.execute_script(_ROWS)

    def rows() -> dict[str, float]:
        page.browser.execute_script("window.scrollTo(0, 0); rows = {}")
        page.until(lambda: page.browser.execute_script(_DRAWN), 10)
        found = page.browser.execute_script("return rows")
        places = {name: page.box(name) for name in ("#timeline", "#overview", ".tools")}
        return {name: found[name] for name in ("You", "Model")} | {
            f"{name} {side}": box[side]
            for name, box in places.items()
            for side in ("top", "height")
        }

    before = rows()
    needs = "needs 3 more labeled boundaries"
    assert needs in page.browser.execute_script("return Object.keys(rows)")
    page.move(page.pixel(CHANGES[0]), click=True)
    page.saved()
    assert rows() == before
    assert f"The model {needs}" in page.text("#status")
    for number, (start, label) in enumerate(zip([0.0, *CHANGES], "ababab"), 1):
        if number in (1, 2):
            page.all("#labels input")[0].send_keys(f"{label}\n")
            assert rows() == before
        if number <= len(CHANGES):
            page.move(page.pixel(CHANGES[number - 1]), click=True)
        page.move(page.pixel(start + 1.0), "You", click=True)
        page.press("1" if label == "a" else "2")
        page.saved()
        assert rows() == before
        n_known = number - 1
        shown = page.browser.execute_script("return document.querySelector('#hint').textContent")
        if n_known < 3:
            more = f"{3 - n_known} more labeled {'boundary' if n_known == 2 else 'boundaries'}"
            assert page.text("#status").endswith(f"The model needs {more}.")
        else:
            assert "Learned in" in page.text("#status")
            assert "needs" not in shown
    page.open("second")
    page.press("a")
    page.saved()
    assert page.changes("second") == pytest.approx(CHANGES, abs=0.11)
