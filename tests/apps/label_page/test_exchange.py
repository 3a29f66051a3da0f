"""Random annotations of the page go through every format and come back."""

import wave
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metriclearn.apps.label_page.annotation import Annotation, read_annotations
from metriclearn.apps.label_page.server import open_page
from metriclearn.datasets import FORMATS
from tests.apps.label_page.test_server import write_table
from tests.apps.serving import needs_label
from tests.budget import examples

SECONDS, LABELS = 9.0, ["walk", "歩く", "a,b", 'say"hi"', "<b>&amp;", "it's", "x;y"]


@st.composite
def annotations(draw: st.DrawFn) -> list[Annotation]:
    """Stretches and changes at whole milliseconds, as the page makes them.

    Neighbors that touch and say the same have a change between them. Times are at least 3 ms apart.
    """
    times = sorted(
        draw(
            st.sets(st.integers(1, 2999), min_size=1, max_size=12).map(lambda s: {3 * t for t in s})
        )
    )
    labels, kinds = draw(st.sampled_from([LABELS, LABELS[:1]])), ["no change", "one change", ""]
    kinds += draw(st.sampled_from([[], ["segment"] * 5]))
    entries: list[dict[str, Any]] = []
    for start, end in pairwise([0, *times, 9000]):
        one = {"start": start / 1000, "end": end / 1000, "kind": draw(st.sampled_from(kinds))}
        if one["kind"] == "segment":
            one["label"] = draw(st.sampled_from(labels))
        before = entries[-1] if entries else {}
        same = (before.get("kind"), before.get("label")) == (one["kind"], one.get("label"))
        if start and (draw(st.booleans()) or (same and before["end"] == one["start"])):
            entries.append({"start": one["start"], "end": one["start"], "kind": "change"})
        entries += [one] if one["kind"] else []
    return read_annotations(entries, SECONDS)


def said(many: list[Annotation]) -> tuple[set[float], list[tuple[float, float, str]]]:
    """Boundaries, which are changes and places where names change, and the named segments."""
    named = [one for one in many if one.kind == "segment"]
    touching = {b.start for a, b in pairwise(named) if a.end == b.start and a.label != b.label}
    changes = {one.start for one in many if one.kind == "change"}
    return touching | changes, [(one.start, one.end, one.label) for one in named]


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Any:
    needs_label()
    folder: Path = tmp_path_factory.mktemp("sounds")
    write_table(folder / "one.csv")
    page = open_page(folder, rate=10.0)
    with wave.open(str(folder / "sound.wav"), "wb") as file:
        file.setparams((1, 2, 8000, 0, "NONE", ""))
        file.writeframes(bytes(range(1, 241)) * 600)
    page.recordings["one"] = replace(page.recordings["one"], path=folder / "sound.wav")
    return page


@pytest.mark.parametrize("kind", FORMATS)
@settings(max_examples=examples(100), deadline=None)
@given(many=annotations())
def test_annotations_come_back(page: Any, kind: str, many: list[Annotation]) -> None:
    """No boundary is lost or added, and no name changes."""
    page.project.annotations = {"one": many}
    path, query = {"name": "one", "kind": kind}, {"what": "known"}
    request = SimpleNamespace(path_params=path, query_params=query)
    sent = page.export(request, b"").body
    back = page.parse(request, sent)["annotations"]["one"]
    assert said(read_annotations(back, SECONDS)) == said(many)
