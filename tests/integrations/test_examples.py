"""The examples of docs/integrations.md run, each where its library is installed."""

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "integrations.md"


@pytest.mark.parametrize("library", ["aeon", "sktime", "skchange"])
def test_an_example_of_ten_lines_per_library(library, capsys) -> None:
    pytest.importorskip(library, reason=f"{library} is not installed; see make integrations")
    start, *blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    (block,) = [block for block in blocks if f"metriclearn.integrations.{library}" in block]
    assert len([line for line in block.splitlines() if line.strip()]) <= 10
    exec(compile(start + block, PAGE.name, "exec"), {})
    printed = capsys.readouterr().out
    if library == "skchange":
        inner, ends = re.findall(r"\[(.*?)\]", printed)
        assert [*inner.split(), "200"] == ends.split()
    else:
        assert len(set(re.findall(r"\d+", printed))) > 3
