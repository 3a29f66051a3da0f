"""Exports hold a person's times exactly, over the model's segments."""

import io
import json
import time
import zipfile
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import numpy as np
import pytest

from metriclearn.apps.label_page.annotation import Annotation, read_annotations
from metriclearn.apps.label_page.project import UNKNOWN
from metriclearn.apps.label_page.shown import exact_times, merged_segments
from metriclearn.datasets.annotations import read_segments
from tests.apps.label_page.test_server import FORMATS, TOKEN, running, two_tables

# the model's rows are 0.1 s long, and the signal changes at 3.0 and 5.5 s
EXACT = [
    {"start": 0.0, "end": 3.043, "kind": "segment", "label": "rest"},
    {"start": 3.043, "end": 3.043, "kind": "change"},
    {"start": 3.043, "end": 5.467, "kind": "segment", "label": "work"},
    {"start": 5.467, "end": 5.467, "kind": "change"},
    {"start": 5.467, "end": 6.0, "kind": "segment", "label": "rest"},
]


@pytest.fixture(scope="module")
def learned(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A server that has learned from exact labels of "one", and of a part of "two"."""
    for server in running(two_tables(tmp_path_factory.mktemp("learned"))):
        assert server.change(0, one=EXACT, two=EXACT[:3])[0] == 200
        server.page.loop.thread.start()
        while server.page.loop.learned.get("busy", True):
            time.sleep(0.01)
        yield server


def test_what_is_learned_has_a_persons_times(learned: Any) -> None:
    state = json.loads(learned.ask("GET", f"/{TOKEN}/api/learned/0")[1])["recordings"]["one"]
    assert {3.043, 5.467} <= set(state["boundaries"])
    assert not {3.0, 5.5} & set(state["boundaries"])


@pytest.mark.parametrize("kind", FORMATS)
def test_all_recordings_are_exported_at_once(learned: Any, kind: str, tmp_path: Path) -> None:
    status, content = learned.ask("GET", f"/{TOKEN}/export/{kind}")
    assert status == 200
    if kind != "csv":
        files = zipfile.ZipFile(io.BytesIO(content))
        for name in files.namelist():
            one = learned.ask("GET", f"/{TOKEN}/export/{kind}/{name.split('.')[0]}")[1]
            if kind != "elan":  # which has the date
                assert files.read(name) == one
        assert len(files.namelist()) == 2
        return
    (tmp_path / "all.csv").write_bytes(content)
    tables = read_segments(tmp_path / "all.csv")
    assert sorted(tables) == ["one", "two"]
    assert tables["one"][1][:2] == (3.043, 5.467)
    _, content = learned.ask("POST", f"/{TOKEN}/import/csv/two", content)
    again = json.loads(content)["annotations"]  # for all recordings
    assert again["one"][:3] == EXACT[:3]
    assert again["two"]
    assert learned.ask("GET", f"/{TOKEN}/export/nothing")[0] == 404


def test_names_of_files_tell_whose_segments_they_hold(learned: Any) -> None:
    for what, name in (("", "one.segments.csv"), ("?what=known", "one.labels.csv")):
        address = f"http://127.0.0.1:{learned.port}/{TOKEN}/export/csv/one{what}"
        with urlopen(address) as answer:
            assert answer.headers["Content-Disposition"].endswith(f"''{name}")


def _random_annotations(generator: np.random.Generator) -> list[Annotation]:
    """Stretches of all kinds and changes, at whole milliseconds of 20 s."""
    times = np.unique(generator.integers(1, 20_000, 12)) / 1000
    entries: list[dict[str, Any]] = []
    for start, end in pairwise(times.tolist()):
        kind = generator.choice(["segment", "no change", "one change", "change", ""])
        label = {"label": str(generator.choice(["a", "b"]))} if kind == "segment" else {}
        if kind:
            stop = start if kind == "change" else end
            entries.append({"start": start, "end": stop, "kind": str(kind)} | label)
    return read_annotations(entries, 20.0)


@pytest.mark.parametrize("seed", range(60))
def test_segments_agree_with_a_person_everywhere(seed: int) -> None:
    generator = np.random.default_rng(seed)
    given = _random_annotations(generator)
    rate, rows = 4.0, np.unique(generator.integers(1, 80, 8)).tolist()
    names = [str(name) for name in generator.choice(["a", "b"], len(rows) + 1)] if seed % 3 else []
    times = exact_times(rows, given, rate)
    assert times == sorted(set(times))
    assert np.abs(np.array(times) - np.array(rows) / rate).max() <= 0.5 / rate
    found = merged_segments(given, times, names, 20.0, rate)
    cuts = [0.0, *(end for _, end, _ in found)]
    assert found[0][0] == 0.0
    assert cuts[-1] == 20.0
    assert all(a[1] == b[0] for a, b in pairwise(found))
    changes = {one.start for one in given if one.kind == "change"}
    assert changes <= set(cuts)
    for one in given:
        if one.kind == "segment":
            inside = [s for s in found if s[0] < one.end and s[1] > one.start]
            assert [label for *_, label in inside] == [one.label]
        if one.kind == "no change":  # the model has no boundary inside
            assert not [t for t in cuts if one.start < t < one.end and t in times]
    for before, after in pairwise(found):
        if before[2] == after[2] and after[2] not in ("", UNKNOWN):
            assert after[0] in changes


def test_short_labels_do_not_name_the_model_s_segments() -> None:
    given = [Annotation(4.0, 4.05, "segment", "blip"), Annotation(6.0, 8.0, "segment", "a")]
    found = merged_segments(given, [5.0], ["b", "a"], 10.0, 10.0)
    assert found == [*((0.0, 4.0, "b"), (4.0, 4.05, "blip"), (4.05, 5.0, "b")), (5.0, 10.0, "a")]
