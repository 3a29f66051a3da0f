"""Signs of life in a terminal: a line or a bar within 2 s, and then every few seconds."""

import io
import re
import sys
import time
from typing import Any

import pytest

from metriclearn.running import progress
from metriclearn.running.command_line import run_program


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def work() -> None:
    """work for a while"""
    time.sleep(0.35)
    for _ in progress.bar(range(2), "steps", 2, disable=None):
        time.sleep(0.35)
    time.sleep(0.35)


@pytest.mark.parametrize("stream", [Terminal, io.StringIO])
def test_lines_tell_what_is_done_in_a_terminal_only(stream: Any, monkeypatch: Any) -> None:
    assert progress.FIRST < 2
    assert progress.EVERY < 5
    monkeypatch.setattr(progress, "FIRST", 0.1)
    monkeypatch.setattr(progress, "EVERY", 0.1)
    monkeypatch.setattr(sys, "stderr", stream())
    assert run_program("program", work, [work], "1", ["work"]) == 0
    shown = sys.stderr.getvalue()  # type: ignore[attr-defined]
    time.sleep(0.25)
    assert sys.stderr.getvalue() == shown  # type: ignore[attr-defined]
    lines = [line for line in re.split("[\r\n]+", shown) if line]
    if stream is io.StringIO:
        assert lines == []
        return
    assert re.fullmatch(r"work: \d s", lines[0])
    assert len([line for line in lines if line.startswith("steps:   0%")]) >= 2  # drawn again
    assert re.fullmatch(r"work: \d s, steps: 2 of 2", lines[-1])
