"""The folder of the shared real data, for tests that need it."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture
def shared_folder() -> Callable[[str], Path]:
    """Folder of a real data set; the test is skipped when METRICLEARN_DATA does not have it."""

    def find(name: str) -> Path:
        parent = os.environ.get("METRICLEARN_DATA")
        if not parent or not (Path(parent) / name).is_dir():
            pytest.skip(f"METRICLEARN_DATA does not hold {name}")
        return Path(parent) / name

    return find
