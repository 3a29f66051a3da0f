"""Settings of the whole suite."""

import os
import shutil
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import settings

# Shared machines pause at any moment, so no deadlines; and in continuous integration the same
# examples every time, so that a change fails for what it changed.
settings.register_profile("local", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "local")


@pytest.fixture(autouse=True)
def no_figure_stays_open() -> Iterator[None]:
    """Where a test has imported pyplot, figures are its figures, too."""
    yield
    if (pyplot := sys.modules.get("matplotlib.pyplot")) is not None:
        pyplot.close("all")


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Chromium without a window, which logs what its console says."""
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if chromium is None or driver is None:
        pytest.skip("needs chromium and chromedriver on the PATH")
    webdriver = pytest.importorskip("selenium.webdriver", reason="needs selenium")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    quiet = ("gpu", "quic", "background-networking", "component-update", "sync")
    profile = f"user-data-dir={tmp_path_factory.mktemp('profile')}"
    for flag in (
        "headless",
        "no-sandbox",
        "no-first-run",
        profile,
        *map("disable-{}".format, quiet),
    ):
        options.add_argument(f"--{flag}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    service = webdriver.ChromeService(executable_path=driver)
    chrome = webdriver.Chrome(options=options, service=service)
    yield chrome
    chrome.quit()
