"""Settings of the whole suite."""

import gc
import logging
import os
import sys
from collections import Counter
from collections.abc import Generator, Iterator
from typing import Any

import pytest
from hypothesis import settings

# Shared machines pause at any moment, so no deadlines; and in continuous integration the same
# examples every time, so that a change fails for what it changed.
settings.register_profile("local", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "local")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, Any, Any]:
    """Exempt libraries and collected tests from garbage collection, because they stay to the end.

    Every full collection would visit their millions of objects again.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


def pytest_configure(config: pytest.Config) -> None:
    config.option.loadscopereorder = False  # workers take files in the order below


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuse ids with addresses of objects, which differ between processes.

    Files of long stories come first, so that no worker is alone with one of them at the end.
    """
    if changing := [item.nodeid for item in items if " at 0x" in item.nodeid]:
        raise pytest.UsageError(f"Give this test an explicit id: {changing[0]}.")
    counts = Counter(item.path for item in items)
    stories = {path for path in counts if {"apps", "experiments"} & set(path.parts)}
    items.sort(key=lambda item: (item.path not in stories, -counts[item.path]))


@pytest.fixture(autouse=True)
def no_figure_stays_open() -> Iterator[None]:
    """Close the figures that pyplot manages."""
    yield
    if (pyplot := sys.modules.get("matplotlib.pyplot")) is not None:
        pyplot.close("all")


@pytest.fixture(autouse=True)
def no_handler_stays() -> Iterator[None]:
    """Remove the handlers that libraries add: their streams close with the test."""
    before = logging.root.handlers[:]
    yield
    for handler in logging.root.handlers[:]:
        if handler not in before:
            logging.root.removeHandler(handler)


@pytest.fixture(scope="session")
def chrome() -> Iterator[Any]:
    """Chromium without a window, started once, with a log of its console."""
    pytest.importorskip("selenium", reason="needs selenium")
    from experiments.benchmarks.labeling import chromium

    chrome = chromium()
    if chrome is None:
        pytest.skip("needs chromium and chromedriver on the PATH")
    yield chrome
    chrome.quit()


@pytest.fixture(scope="module")
def browser(chrome: Any) -> Any:
    """Chromium as if it was just started: nothing is stored, emulated or logged."""
    chrome.get("about:blank")
    for command, options in (
        ("Storage.clearDataForOrigin", {"origin": "*", "storageTypes": "all"}),
        ("Emulation.clearDeviceMetricsOverride", {}),
        ("Emulation.setEmulatedMedia", {"features": []}),
    ):
        chrome.execute_cdp_cmd(command, options)
    chrome.get_log("browser")
    return chrome
