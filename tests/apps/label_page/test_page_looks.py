"""Colors of the label page for all eyes, light and dark, and what a phone shows."""

import io
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.apps.label_page.browsing import Page, opened, segments, write_labels, write_table

FIRST = "01 morning walk"
_COLORS = """
const style = getComputedStyle(document.documentElement);
const value = (name) => style.getPropertyValue(`--${name}`).trim();
return Object.fromEntries(arguments[0].map((name) => [name, value(name)]));
"""
_COVERED = """
const shown = document.querySelector(arguments[0]), box = shown.getBoundingClientRect();
const y = (box.top + box.bottom) / 2;
const seen = [box.left + 1, box.right - 1].map((x) => document.elementFromPoint(x, y));
const isWhole = seen.every((one) => shown.contains(one));
return [shown.textContent, shown.scrollWidth - shown.clientWidth, isWhole];
"""
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


def contrast(one: str, other: str, eyes: str) -> float:
    """The contrast of two colors by WCAG 2.2."""
    bright = []
    for color in (one, other):
        parts = np.array([int(color[i : i + 2], 16) for i in (1, 3, 5)]) / 255
        linear = np.where(parts > 0.04045, ((parts + 0.055) / 1.055) ** 2.4, parts / 12.92)
        seen = np.clip(np.array(EYES[eyes]) @ linear, 0, 1)
        bright.append(float(seen @ [0.2126, 0.7152, 0.0722]) + 0.05)
    return max(bright) / min(bright)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, serve_all: Any) -> tuple[str, Path]:
    """Address and folder of thirty tables, of which one is labeled."""
    folder = tmp_path_factory.mktemp("looks")
    for name in (FIRST, *(f"{k:02d}" for k in range(2, 31))):
        write_table(folder / f"{name}.csv", [6.0, 11.0], "x,y")
    write_labels(folder, **{FIRST: segments([6.0, 11.0])[:3]})
    return serve_all(folder)[1], folder


@pytest.fixture(scope="module", params=itertools.product((1280, 360), ("light", "dark")), ids=str)
def page(browser: Any, served: tuple[str, Path], request: Any) -> Iterator[Page]:
    """Tests look at it, and change nothing."""
    with opened(browser, *served, *request.param) as page:
        yield page


def test_label_next_differs_from_all_labels_and_is_seen(page: Page) -> None:
    names = [f"c{k}" for k in range(1, 10)]
    colors = page.browser.execute_script(_COLORS, [*names, "ask", "card", "line", "known"])
    for eyes in EYES:
        for name in [*names, "card", "line", "known"]:
            assert contrast(colors["ask"], colors[name], eyes) >= 3, (name, eyes)
    strips = [one.value_of_css_property("background-image") for one in page.all("#recordings i")]
    red, green, blue = (int(colors["ask"][i : i + 2], 16) for i in (1, 3, 5))
    assert f"rgb({red}, {green}, {blue})" in "".join(strips)


def test_scrollbars_are_as_dark_as_the_page(page: Page) -> None:
    from PIL import Image

    is_dark, width = page.browser.execute_script(
        "const list = document.querySelector('#recordings'), width = list.offsetWidth;"
        "const {matches} = matchMedia('(prefers-color-scheme: dark)');"
        "return [matches, width - list.clientWidth]"
    )
    scheme = "return getComputedStyle(document.documentElement).colorScheme"
    assert page.browser.execute_script(scheme) == "light dark"
    if not width:  # a phone shows one only while it scrolls
        return
    picture = page.all("#recordings")[0].screenshot_as_png
    bar = np.asarray(Image.open(io.BytesIO(picture)).convert("L"))[4:-4, -2]
    assert (bar.max() < 100) if is_dark else (bar.min() > 150)


def test_the_name_of_the_first_recording_is_legible(page: Page) -> None:
    for selector in ("#name", "#recordings b"):
        page.browser.execute_script(
            "if (arguments[0] !== '#name') document.querySelector(arguments[0]).scrollIntoView()",
            selector,
        )
        assert page.browser.execute_script(_COVERED, selector) == [FIRST, 0, True]
