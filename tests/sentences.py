"""Errors and warnings of one sentence, and tables of calls that are refused with one."""

import contextlib
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import metriclearn as ml

Rows = list[tuple[Callable[[], Any], str]]


@contextlib.contextmanager
def assert_refused(message: str, kind: Any = (ValueError, TypeError)) -> Any:
    """An error of one sentence, on one line."""
    with pytest.raises(kind, match=message) as caught:
        yield caught
    text = str(caught.value)
    assert "\n" not in text
    assert text.endswith(".")
    assert len(text) < 400


@contextlib.contextmanager
def assert_warned(message: str) -> Any:
    """One warning of one sentence, that points here."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    texts = [str(warning.message) for warning in caught]
    assert len(texts) == 1, texts
    assert re.search(message, texts[0]), texts
    assert texts[0].endswith(".")
    assert len(texts[0]) < 300
    assert Path(ml.__file__).parent not in Path(caught[0].filename).parents


def every_row(rooms: dict[str, Rows]) -> pytest.MarkDecorator:
    """A test of ``call`` and ``sentence`` for every row of every table."""
    return pytest.mark.parametrize(
        ("call", "sentence"),
        [
            pytest.param(*row, id=f"{room} {i}: {row[1]}")
            for room, rows in rooms.items()
            for i, row in enumerate(rows)
        ],
    )
