"""Colors of the label page for all eyes, light and dark."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.apps.label_page.browsing import (
    EYES,
    Page,
    contrast,
    opened,
    segments,
    write_labels,
    write_table,
)

FIRST = "01 morning walk"
_COLORS = """
const style = getComputedStyle(document.documentElement);
const value = (name) => style.getPropertyValue(`--${name}`).trim();
return Object.fromEntries(arguments[0].map((name) => [name, value(name)]));
"""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, serve_all: Any) -> tuple[str, Path]:
    """Address and folder of thirty tables, of which one is labeled."""
    folder = tmp_path_factory.mktemp("looks")
    for name in (FIRST, *(f"{k:02d}" for k in range(2, 31))):
        write_table(folder / f"{name}.csv", [6.0, 11.0], "x,y")
    write_labels(folder, **{FIRST: segments([6.0, 11.0], ["a label of many words " * 3 + "."])[:3]})
    return serve_all(folder)[1], folder


@pytest.fixture(scope="module", params=[(360, "light"), (1280, "dark")], ids=str)
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


def test_a_long_label_is_not_wider_than_the_page(page: Page) -> None:
    assert page.box("#labels button")["right"] <= page.box("#labels")["right"]
