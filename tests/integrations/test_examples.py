"""The examples of docs/integrations.md run, each where its library is installed."""

import re
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from metriclearn.indices import adjusted_mutual_info_score

PAGE = Path(__file__).resolve().parents[2] / "docs" / "integrations.md"
START, *BLOCKS = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


@cache
def start() -> dict[str, Any]:
    """What the first block of the page defines: series and a fitted segmenter."""
    names: dict[str, Any] = {}
    exec(compile(START, PAGE.name, "exec"), names)
    return names


def names_of(block: str, given: dict[str, Any]) -> dict[str, Any]:
    """What a block of the page defines."""
    assert len([line for line in block.splitlines() if line.strip()]) <= 11
    names = dict(given)
    exec(compile(block, PAGE.name, "exec"), names)
    return names


@pytest.mark.parametrize("library", ["aeon", "sktime", "skchange"])
def test_an_example_of_ten_lines_per_library(library, capsys) -> None:
    pytest.importorskip(library, reason=f"{library} is not installed; see make integrations")
    (block,) = [block for block in BLOCKS if f"metriclearn.integrations.{library}" in block]
    names_of(block, start())
    printed = capsys.readouterr().out
    if library == "skchange":
        inner, ends = re.findall(r"\[(.*?)\]", printed)
        assert [*inner.split(), "200"] == ends.split()
    else:
        assert len(set(re.findall(r"\d+", printed))) > 3


def test_the_example_of_label_studio(capsys: pytest.CaptureFixture[str]) -> None:
    (block,) = [block for block in BLOCKS if "apps.label_studio" in block]
    names_of(block, {})
    assert capsys.readouterr().out == "{'monday': [(0.0, 12.5, 'speech'), (12.5, 47.0, 'song')]}\n"


def test_the_example_of_states() -> None:
    (block,) = [block for block in BLOCKS if "fit_states" in block]
    names = names_of(block, {})
    learner, X, day = names["learner"], names["X"][2], names["days"][2]
    assert np.mean(learner.predict_states(X) == day) > 0.95
    assert adjusted_mutual_info_score(learner.predict_states(X, n_states=3), day) > 0.9
