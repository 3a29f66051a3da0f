"""Actions on the label page in a browser."""

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

SECONDS, RATE = 30.0, 10
_STATUS = "return document.getElementById('status').textContent"


def write_table(path: Path, changes: Sequence[float], columns: str, noise: float = 0.3) -> None:
    """A table whose first column has another mean from each of these seconds on."""
    times = np.arange(int(SECONDS * RATE)) / RATE
    X = np.random.default_rng(0).normal(size=(len(times), columns.count(",") + 1)) * noise
    X[:, 0] += 4.0 * (np.searchsorted(changes, times, side="right") % 2)
    np.savetxt(path, X, delimiter=",", header=columns, comments="")


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

    def shown(self) -> str:
        """The picture as text; it changes with the predictions."""
        return self.browser.execute_script(
            "return document.querySelector('#timeline canvas').toDataURL()"
        )
