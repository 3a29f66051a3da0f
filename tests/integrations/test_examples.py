"""The examples of docs/integrations.md run, each where its library is installed."""

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "integrations.md"
START, *BLOCKS = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


def printed_by(block: str, capsys: pytest.CaptureFixture[str]) -> str:
    """What the first block of the page and another one print."""
    assert len([line for line in block.splitlines() if line.strip()]) <= 10
    exec(compile(START + block, PAGE.name, "exec"), {})
    return capsys.readouterr().out


@pytest.mark.parametrize("library", ["aeon", "sktime", "skchange"])
def test_an_example_of_ten_lines_per_library(library, capsys) -> None:
    pytest.importorskip(library, reason=f"{library} is not installed; see make integrations")
    (block,) = [block for block in BLOCKS if f"metriclearn.integrations.{library}" in block]
    printed = printed_by(block, capsys)
    if library == "skchange":
        inner, ends = re.findall(r"\[(.*?)\]", printed)
        assert [*inner.split(), "200"] == ends.split()
    else:
        assert len(set(re.findall(r"\d+", printed))) > 3


def test_the_example_of_states(capsys) -> None:
    (block,) = [block for block in BLOCKS if "fit_states" in block]
    printed = printed_by(block, capsys)
    assert set(re.findall(r"'(\w)'", printed)) <= set("abcd")
    assert set(re.findall(r"\b\d\b", printed)) == set("012")
