"""The command ``metriclearn label`` in a separate process."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.annotate.browsing import RATE


@pytest.fixture
def serve() -> Iterator[Callable[..., tuple[subprocess.Popen, str]]]:
    """Start the server of a folder; returns its process and the address it prints."""
    processes = []

    def start(place: Path, *options: str) -> tuple[subprocess.Popen, str]:
        command = [sys.executable, "-m", "metriclearn", "label", str(place), "--quiet"]
        process = subprocess.Popen(
            [*command, "--rate", str(RATE), *options], stdout=subprocess.PIPE, text=True
        )
        processes.append(process)
        assert process.stdout is not None
        return process, process.stdout.readline().strip()

    yield start
    for process in processes:
        process.kill()
        process.wait()
