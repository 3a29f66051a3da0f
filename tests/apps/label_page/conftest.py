"""Servers of the label page: in this process, and the command ``metriclearn label``."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from metriclearn.estimators.selection.families import default_members
from tests.apps.label_page.browsing import RATE
from tests.apps.serving import needs_label
from tests.processes import PROCESSES, run_console


def servers() -> Iterator[Callable[..., tuple[Any, str]]]:
    """Start the server of a folder; returns its process and the address it prints."""
    needs_label()
    started = []

    def start(place: Path, *options: str) -> tuple[Any, str]:
        arguments = ["label", str(place), "--quiet", "--rate", str(RATE), *options]
        output, printed = PROCESSES.Pipe(duplex=False)
        process = PROCESSES.Process(target=run_console, args=(arguments, printed))
        process.start()
        printed.close()
        started.append((process, output))
        with open(output.fileno(), closefd=False) as lines:
            return process, lines.readline().strip()

    yield start
    for process, output in started:
        process.kill()
        process.join()
        output.close()


serve = pytest.fixture(servers, name="serve")
serve_all = pytest.fixture(servers, scope="module", name="serve_all")


@pytest.fixture
def two_families(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of all families, a metric and a classifier, which has no boundary between equal labels."""

    def some(*given: Any, **options: Any) -> dict[str, Any]:
        members = default_members(*given, **options)
        return {name: members[name] for name in ("scaled, diagonal", "logistic, scaled, Viterbi")}

    monkeypatch.setattr("metriclearn.estimators.selection.families.default_members", some)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Any]:
    from tests.apps.label_page.test_server import running, two_tables

    yield from running(two_tables(tmp_path))


@pytest.fixture(scope="module")
def untouched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A server for requests that it refuses: its folder stays as it is."""
    from tests.apps.label_page.test_server import running, two_tables

    yield from running(two_tables(tmp_path_factory.mktemp("untouched")))
