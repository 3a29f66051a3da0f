"""Actions on the label page in a browser."""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

SECONDS, RATE = 30.0, 10
_STATUS = "return document.getElementById('status').textContent"
_BOX = "return document.querySelector(arguments[0]).getBoundingClientRect()"
_VIEW = "const {left, width} = document.querySelector('#overview i').style; return [left, width]"


# Colors as eyes without one kind of cones see them, from linear RGB (Machado, Oliveira and
# Fernandes, A physiologically-based model for simulation of color vision deficiency, 2009).
EYES = {
    "all": np.eye(3),
    "protanopia": [
        *([0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216]),
        [-0.003882, -0.048116, 1.051998],
    ],
    "deuteranopia": [
        *([0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413]),
        [-0.011820, 0.042940, 0.968881],
    ],
    "tritanopia": [
        *([1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602]),
        [0.004733, 0.691367, 0.303900],
    ],
}


def contrast(one: str, other: str, eyes: str = "all") -> float:
    """The contrast of two colors by WCAG 2.2."""
    bright = []
    for color in (one, other):
        parts = np.array([int(color[i : i + 2], 16) for i in (1, 3, 5)]) / 255
        linear = np.where(parts > 0.04045, ((parts + 0.055) / 1.055) ** 2.4, parts / 12.92)
        seen = np.clip(np.array(EYES[eyes]) @ linear, 0, 1)
        bright.append(float(seen @ [0.2126, 0.7152, 0.0722]) + 0.05)
    return max(bright) / min(bright)


def write_table(path: Path, changes: Sequence[float], columns: str, noise: float = 0.3) -> None:
    """A table whose first column has another mean from each of these seconds on."""
    times = np.arange(int(SECONDS * RATE)) / RATE
    X = np.random.default_rng(0).normal(size=(len(times), columns.count(",") + 1)) * noise
    X[:, 0] += 4.0 * (np.searchsorted(changes, times, side="right") % 2)
    np.savetxt(path, X, delimiter=",", header=columns, comments="")


def segments(changes: Sequence[float], labels: Sequence[str] = "ab") -> list[dict[str, Any]]:
    """Annotations of a whole recording, whose labels take turns."""
    ends = [0.0, *changes, SECONDS]
    entries: list[dict[str, Any]] = [{"start": t, "end": t, "kind": "change"} for t in changes]
    for i, (start, end) in enumerate(pairwise(ends)):
        label = labels[i % len(labels)]
        entries.append({"start": start, "end": end, "kind": "segment", "label": label})
    return entries


def write_labels(folder: Path, **recordings: list[dict[str, Any]]) -> None:
    """A folder in which the page was used."""
    labels = sorted(
        {one["label"] for many in recordings.values() for one in many if "label" in one}
    )
    state = {"format": 1, "revision": 1, "labels": labels, "recordings": recordings}
    (folder / "metriclearn.json").write_text(json.dumps(state))


def emulate(browser: Any, width: int, scheme: str) -> None:
    """Show pages on a screen of this width, a phone below 600 pixels, and in these colors."""
    height = 740 if width < 600 else 800
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})


class Page:
    """Actions on the page, and the content of the saved file."""

    def __init__(self, browser: Any, address: str, folder: Path) -> None:
        from selenium.webdriver.common.action_chains import ActionChains

        self.browser, self.folder = browser, folder
        self.actions = lambda: ActionChains(browser, duration=20)
        browser.get(address)
        self.until(lambda: self.all("#recordings button"))

    def all(self, selector: str) -> list[Any]:
        return self.browser.find_elements("css selector", selector)

    def until(self, condition: Callable[[], Any], seconds: float = 120.0) -> Any:
        deadline = time.monotonic() + seconds
        while not (result := condition()):
            assert time.monotonic() < deadline, self.browser.execute_script(_STATUS)
            time.sleep(0.05)
        return result

    def saved(self) -> None:
        """Wait until all is saved and learned from."""
        words = ("Saved. Learned", "Saved. The model needs", "No labels yet")
        self.until(lambda: self.browser.execute_script(_STATUS).startswith(words))
        self.until(lambda: "checking" not in self.browser.execute_script(_STATUS))

    def text(self, selector: str) -> str:
        return self.all(selector)[0].get_attribute("textContent")

    def open(self, name: str) -> None:
        (button,) = [b for b in self.all("#recordings button") if name in b.text]
        button.click()

    def at(self, second: float, below: bool = False) -> Any:
        """Position of a second in a recording shown as a whole, or in the strips below it."""
        (area,) = self.all("#timeline .u-over")
        across = round((second / SECONDS - 0.5) * area.rect["width"])
        down = area.rect["height"] / 2 - 20 if below else 0
        return self.actions().move_to_element_with_offset(area, across, int(down))

    def click(self, second: float, below: bool = False) -> None:
        self.at(second, below).click().perform()

    def drag(self, start: float, end: float, below: bool = False) -> None:
        self.at(start, below).click_and_hold().perform()
        self.at((start + end) / 2, below).perform()
        self.at(end, below).release().perform()

    def press(self, *keys: str) -> None:
        for key in keys:
            self.actions().send_keys(key).perform()

    def file(self) -> dict[str, Any]:
        return json.loads((self.folder / "metriclearn.json").read_text("utf-8"))

    def changes(self, name: str) -> list[float]:
        entries = self.file()["recordings"].get(name, [])
        return [one["start"] for one in entries if one["kind"] == "change"]

    def box(self, selector: str) -> dict[str, float]:
        return self.browser.execute_script(_BOX, selector)

    def view(self) -> tuple[float, float]:
        """The seconds that are in view, first and last."""
        left, wide = (float(value[:-1]) for value in self.browser.execute_script(_VIEW))
        return left * SECONDS / 100, (left + wide) * SECONDS / 100

    def move(self, x: int, row: str = "", alt: bool = False, click: bool = False) -> float:
        """Move the pointer to a pixel of the signals, or of the row "You" or "Model".

        Returns the second that is there.
        """
        area = self.box("#timeline .u-over")
        up = {"": area["height"] / 2, "You": 54, "Model": 20}[row]
        with_alt = {"modifiers": 1} if alt else {}
        self.browser.execute_script(
            "document.querySelector('#timeline').scrollIntoView({block: 'end'})"
        )
        area = self.box("#timeline .u-over")
        place = {"x": round(area["left"]) + x, "y": area["bottom"] - up, **with_alt}
        pressed = ("mousePressed", "mouseReleased") if click else ()
        for kind in ("mouseMoved", *pressed):
            button = {"button": "left", "clickCount": 1} if kind in pressed else {}
            self.browser.execute_cdp_cmd(
                "Input.dispatchMouseEvent", {"type": kind, **place, **button}
            )
        first, last = self.view()
        return first + (place["x"] - area["left"]) / area["width"] * (last - first)

    def pixel(self, second: float) -> int:
        """The pixel of the signals that is next to a second."""
        first, last = self.view()
        area = self.box("#timeline .u-over")
        across = (second - first) / (last - first) * area["width"]
        return round(area["left"] + across) - round(area["left"])

    def shown(self) -> str:
        """The picture as text; it changes with the predictions."""
        return self.browser.execute_script(
            "return document.querySelector('#timeline canvas').toDataURL()"
        )


@contextmanager
def opened(browser: Any, address: str, folder: Path, width: int, scheme: str) -> Iterator[Page]:
    """Show the page on a screen of this width, light or dark; then leave the browser as it was."""
    emulate(browser, width, scheme)
    browser.get("about:blank")
    page = Page(browser, address, folder)
    page.saved()
    yield page
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    browser.get("about:blank")
