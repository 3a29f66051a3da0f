"""The label page in a browser: its server is killed, restarted and refuses; exact selections."""

import json
import os
import signal
import socket
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.apps.label_page.browsing import SECONDS, Page, segments, write_labels, write_table

CHANGES = [8.0, 15.0, 24.0]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two tables whose mean changes at 8, 15 and 24 s."""
    for name in ("first", "other"):
        write_table(tmp_path / f"{name}.csv", CHANGES, "x,y")
    return tmp_path


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


@pytest.fixture
def page(browser: Any, folder: Path, serve: Any, request: Any) -> Iterator[Page]:
    """Starts the server at the same port every time, and stops it with a signal.

    A parameter holds annotations to begin with; then the other table is labeled, too.
    """
    if given := getattr(request, "param", None):
        write_labels(folder, first=given, other=segments(CHANGES, ("rest", "work")))
    port = _free_port()
    processes: list[Any] = []

    class Saved(Page):
        def start(self) -> str:
            process, address = serve(folder, "--port", str(port))
            processes.append(process)
            return address

        def kill(self) -> None:
            os.kill(processes[-1].pid, signal.SIGKILL)
            processes[-1].join()

        def alarm(self) -> str:
            return " ".join(place.text for place in self.all("#alarm") if place.is_displayed())

    process, address = serve(folder, "--port", str(port))
    processes.append(process)
    browser.set_window_size(1400, 1000)
    browser.get("about:blank")
    yield Saved(browser, address, folder)
    browser.get("about:blank")


def test_what_a_killed_server_did_not_get_is_kept_and_sent_again(page: Any) -> None:
    page.saved()
    page.click(7.0)
    page.saved()
    page.kill()
    page.click(15.0)
    page.until(lambda: "Not saved" in page.alarm())
    assert "kept in this browser" in page.alarm()
    assert "Saved" not in page.all("#status")[0].text
    page.click(20.0)
    assert len(page.changes("first")) == 1
    page.start()  # the open tab saves without a click
    page.until(lambda: len(page.changes("first")) == 3, 30)
    page.saved()
    assert page.alarm() == ""
    page.browser.refresh()
    page.until(lambda: page.all("#recordings button"))

    # also if the page was closed before the server is started again
    page.kill()
    page.click(24.0)
    page.until(lambda: "Not saved" in page.alarm())
    page.browser.get("about:blank")
    address = page.start()
    page.browser.get(address)
    page.until(lambda: len(page.changes("first")) == 4, 30)
    page.saved()
    assert page.alarm() == ""


def test_a_server_that_refuses_is_an_alarm_that_stays(page: Any) -> None:
    page.saved()
    # a folder of the table's name, as a full disk would: neither file is written
    (page.folder / "segments.csv").mkdir()
    page.click(7.0)
    page.until(lambda: "Not saved" in page.alarm())
    assert not (page.folder / "metriclearn.json").exists()
    (page.folder / "segments.csv").rmdir()  # it is sent again without a click
    page.until(lambda: page.alarm() == "", 30)
    page.saved()
    assert page.changes("first") == pytest.approx([7.0], abs=0.1)

    # another token: the page refuses, and a reload shows a page in plain words
    page.kill()
    (page.folder / ".metriclearn.address").unlink(missing_ok=True)
    address = page.start()
    page.click(15.0)
    page.until(lambda: "no longer" in page.alarm())
    assert "Not saved" in page.alarm()
    assert "Saved" not in page.all("#status")[0].text
    page.browser.refresh()
    page.until(lambda: "This page is not available" in page.all("body")[0].text)
    assert "{" not in page.all("body")[0].text
    page.browser.get(address)
    page.until(lambda: len(page.changes("first")) == 2, 30)


@pytest.mark.parametrize("button", ["again", "discard"])
def test_the_person_decides_what_was_changed_twice(page: Any, button: str) -> None:
    page.saved()
    page.click(7.0)
    page.saved()
    page.kill()
    page.click(15.0)
    page.until(lambda: "Not saved" in page.alarm())
    file = page.folder / "metriclearn.json"
    content = json.loads(file.read_text())
    content["recordings"]["first"] = [{"start": 3.0, "end": 3.0, "kind": "change"}]
    file.write_text(json.dumps(content | {"revision": 5}))
    page.start()
    page.until(lambda: "has changed “first”" in page.alarm())
    assert page.changes("first") == [3.0]
    page.all(f"#{button}")[0].click()
    if button == "discard":
        page.browser.switch_to.alert.accept()
    page.until(lambda: page.alarm() == "")
    page.saved()
    kept = [3.0] if button == "discard" else [7.0, 15.0]
    assert page.changes("first") == pytest.approx(kept, abs=0.1)
    page.click(28.0)  # later changes are saved, too
    page.saved()
    assert page.changes("first") == pytest.approx([*kept, 28.0], abs=0.1)


_GAPS = [
    {"start": 3.0, "end": 7.87, "kind": "segment", "label": "rest"},
    {"start": 14.0, "end": 14.0, "kind": "change"},
    {"start": 14.0, "end": 15.0, "kind": "segment", "label": "rest"},
    {"start": 15.0, "end": 15.0, "kind": "change"},
    {"start": 15.0, "end": 17.0, "kind": "segment", "label": "work"},
]


@pytest.mark.parametrize("page", [_GAPS], indirect=True, ids=["labeled"])
def test_selections_end_at_your_boundaries_first(page: Any) -> None:
    page.saved()
    # 7.97 is nearer to the model's boundary at 8.0 than to the end of the stretch at 7.87
    page.at(7.97, below=True).click_and_hold().perform()
    page.at(10.0, below=True).perform()
    page.at(12.0, below=True).perform()
    shown = page.all("#timeline")[0].get_attribute("data-snaps")
    page.at(12.0, below=True).release().perform()
    assert shown == "your boundary 0:07.870"
    assert "0:07.870 (your boundary)" in page.all("#hint")[0].text
    page.press("2")
    page.saved()
    stretches = [one for one in page.file()["recordings"]["first"] if one["kind"] == "segment"]
    assert [one["end"] for one in stretches][:1] == [stretches[1]["start"]] == [7.87]
    # a click in the row You selects between yours, although the model has a boundary at 24 s
    page.move(page.pixel(20.0), "You", click=True)
    assert page.all("#hint")[0].text.startswith("0:17.000 (your boundary) to 0:30.000 selected")
    # an unlabeled rest below a step of 0.1 s is labeled, too, where the pointer is far from its end
    page.at(14.0).perform()
    page.press("+", "+", "+", "+")  # about the pointer
    zoomed = [14.0 + (second - 14.0) / 0.6**4 for second in (13.3, 13.94)]
    page.drag(*zoomed, below=True)
    assert "to 0:13.9" in page.all("#hint")[0].text
    page.press("1")
    page.saved()
    stretches = [one for one in page.file()["recordings"]["first"] if one["kind"] == "segment"]
    assert 14.0 in [one["end"] for one in stretches]
    script = """
        const done = arguments[arguments.length - 1];
        import(location.pathname + "static/edits.js").then(({ filled, mark }) => {
          const list = mark([{start: 4, end: 4, kind: "change"}], 5, 6, "segment", "a");
          done([[4.03, 4.92], [4.2, 4.8], [0.05, 3.95], [6.09, 9.95], [5.03, 5.97], [4, 5]].map(
            ([start, end]) => filled(list, start, end, 0.1, 10)));
        }, (error) => done(String(error)));
    """
    page.browser.set_script_timeout(20)
    found = page.browser.execute_async_script(script)
    assert found == [[4, 5], [4.2, 4.8], [0, 4], [6, 10], [5.03, 5.97], [4, 5]]


_SHORT = [
    {"start": 3.0, "end": 7.93, "kind": "segment", "label": "rest"},
    {"start": 7.93, "end": 7.93, "kind": "change"},
    {"start": 7.93, "end": 8.01, "kind": "segment", "label": "blip"},
    {"start": 8.01, "end": 8.01, "kind": "change"},
    {"start": 8.01, "end": 12.0, "kind": "segment", "label": "work"},
]


@pytest.mark.parametrize("page", [_SHORT], indirect=True, ids=["labeled"])
def test_accepting_keeps_what_you_have_labeled(page: Any) -> None:
    page.saved()
    page.press("a")
    page.saved()
    after = page.file()["recordings"]["first"]
    assert page.changes("first")[:2] == [7.93, 8.01]
    stretches = [one for one in after if one["kind"] == "segment"]
    ends = [0.0, *page.changes("first"), SECONDS]
    assert [(one["start"], one["end"]) for one in stretches] == list(pairwise(ends))


def test_a_click_where_the_wheel_has_zoomed_is_saved_to_the_millisecond(page: Any) -> None:
    page.saved()
    area, time = page.box("#timeline .u-over"), 13.043
    page.browser.execute_script(
        "const [clientX] = arguments, area = document.querySelector('#timeline .u-over');"
        "area.dispatchEvent(new WheelEvent('wheel', {clientX, deltaY: -2500, bubbles: true}));",
        area["left"] + time / SECONDS * area["width"],
    )
    first, last = page.view()
    assert last - first < 0.001 * area["width"]  # a pixel is less than a millisecond
    page.move(page.pixel(time), click=True)
    page.saved()
    assert page.changes("first") == [time]
