"""Folders of recordings: features, labels, and the cache."""

import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from metriclearn.datasets import (
    cached_features,
    load_recordings,
    save_segments,
    with_background,
)


class Bytes:
    """An extractor for tests: every byte of the file is a row; counts its calls."""

    def __init__(self, rate: float = 2.0, factor: float = 1.0) -> None:
        self.rate, self.factor, self.calls = rate, factor, 0

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        return {"rate": self.rate, "factor": self.factor}

    def get_feature_names_out(self) -> NDArray:
        return np.array(["byte"], dtype=object)

    def extract(self, path: str | os.PathLike[str]) -> NDArray[np.float64]:
        self.calls += 1
        return self.factor * np.frombuffer(Path(path).read_bytes(), np.uint8)[:, None].astype(float)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "mine"
    (root / "audio").mkdir(parents=True)
    (root / "one.wav").write_bytes(b"aabbbb")
    (root / "audio" / "two.flac").write_bytes(b"cccc")
    (root / "notes.txt").write_text("not a recording")
    tables = {"two": [(0.0, 2.0, "x")], "one": [(0.0, 1.0, "x"), (1.0, 3.0, "y")]}
    save_segments(tables, root / "segments.csv")
    return root


def test_what_does_not_fit_is_one_sentence(folder: Path) -> None:
    with pytest.raises(ValueError, match=r"has segments of .* but not of \['three'\]"):
        load_recordings(folder, Bytes(), recordings=["three"])
    (folder / "one.mp3").write_bytes(b"z")
    with pytest.raises(ValueError, match="one file per recording"):
        load_recordings(folder, Bytes())
    (folder / "one.mp3").unlink()
    (folder / "one.wav").unlink()
    with pytest.raises(FileNotFoundError, match=r"none for \['one'\]"):
        load_recordings(folder, Bytes())


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ("0,1,x 1,9,y", "from 1 to 9 s, but .* ends at 3.0 s; the rest is ignored"),
        ("0,1,x 1,1.1,y 1.1,3,x", r"at 2 rows per second are lost: 1 of 4 .one 1.; raise .*--rate"),
        ("0,1,x 1,2,y 2,3,y", "that touch one with the same label are kept apart: 1 of 4 .one 1"),
        ("0,1000,x 1000,3000,y", r"'one' from 1000 to 3000 s, but .* times in seconds"),
        ("0,0.2,x", "and get the label of the nearest segment"),
    ],
)
def test_segments_that_are_lost(folder: Path, rows: str, told: str) -> None:
    lines = ["recording,start,end,label", *(f"one,{row}" for row in rows.split()), "two,0,2,x", ""]
    (folder / "segments.csv").write_text("\n".join(lines))
    if "1000" in rows:
        with pytest.raises(ValueError, match=told):
            load_recordings(folder, Bytes())
    else:
        with pytest.warns(UserWarning, match=told):
            load_recordings(folder, Bytes())


@pytest.mark.parametrize("label", ["", ",cut", ",shot {}"], ids=["none", "one for all", "numbers"])
def test_boundaries_without_classes(folder: Path, label: str) -> None:
    spans = [("one", 0, 0.5), ("one", 0.5, 1), ("one", 1, 3), ("two", 0, 1), ("two", 1, 2)]
    rows = [f"{r},{a},{b}{label.format(i)}" for i, (r, a, b) in enumerate(spans)]
    head = "recording,start,end" + (",label" if label else "")
    (folder / "segments.csv").write_text("\n".join([head, *rows, ""]))
    data = load_recordings(folder, Bytes())
    assert not data.has_classes
    assert [ends.tolist() for ends in data.change_points] == [[1, 2, 6], [2, 4]]
    if label != ",cut":
        with pytest.raises(ValueError, match="needs labels that recur if gaps get"):
            load_recordings(folder, Bytes(), gap="nothing")


@pytest.mark.parametrize(
    ("labels", "starts", "expected"),
    [
        ("a,b", [8, 11], ""),  # they touch
        ("a,unknown,b,unknown", [1, 6, 11, 16], "0-1 4-6 9-11 14-16 19-21"),
        ("a,Background,a,a", [1, 6, 11, 99], "0-1 4-11 14-21"),
    ],
)
def test_what_is_background(labels: str, starts: list[int], expected: str) -> None:
    """Names that differ do not recur by time that nobody labeled; a label is used as it is."""
    spans = [(start, start + 3, label) for start, label in zip(starts, labels.split(","))]
    with warnings.catch_warnings(action="ignore"):
        found = with_background("table", {"one": spans}, {"one": 21})["one"]
    told = [one for one in found if "background" in one[2].lower()]
    assert " ".join(f"{start:g}-{end:g}" for start, end, _ in told) == expected
    assert len({label for *_, label in told}) == (1 if "Background" in labels else len(told))


def test_cache_is_by_content_and_parameters(tmp_path: Path) -> None:
    file, cache, extractor = tmp_path / "a.wav", tmp_path / "cache", Bytes()
    file.write_bytes(b"abc")
    first = cached_features(file, extractor, cache)
    file = file.rename(tmp_path / "renamed.wav")
    np.testing.assert_array_equal(cached_features(file, extractor, cache), first)
    assert extractor.calls == 1
    np.testing.assert_array_equal(cached_features(file, Bytes(factor=2.0), cache), 2 * first)
    file.write_bytes(b"abd")
    assert cached_features(file, extractor, cache)[2, 0] == ord("d")
    assert (extractor.calls, len(list(cache.iterdir()))) == (2, 3)
    for damage in (Path.unlink, lambda entry: entry.write_bytes(entry.read_bytes()[:40])):
        for entry in cache.iterdir():
            damage(entry)
        assert cached_features(file, extractor, cache)[2, 0] == ord("d")
    assert extractor.calls == 4
    blocked = tmp_path / "blocked"
    blocked.write_text("a file, not a folder")
    assert cached_features(file, extractor, blocked)[2, 0] == ord("d")
    with pytest.raises(ValueError, match=r"renamed\.wav' has features that are NaN or infinite"):
        cached_features(file, Bytes(factor=np.inf), tmp_path / "new")
    assert not (tmp_path / "new").exists()
