"""Tables of segments in seconds: reading, rows, and the formats of other programs."""

from pathlib import Path

import pytest

from metriclearn.datasets.annotations import (
    read_segments,
    row_labels,
    save_audacity,
    save_segments,
    save_webvtt,
)

SEGMENTS = [(0.0, 1.5, "speech"), (1.5, 4.0, "music"), (4.0, 3671.25, "a & <b>")]


def test_tables_come_back(tmp_path: Path) -> None:
    path = save_segments({"one": SEGMENTS, "two": SEGMENTS[:1]}, tmp_path / "s.csv")
    assert read_segments(path) == {"one": SEGMENTS, "two": SEGMENTS[:1]}
    assert path.read_text().splitlines()[:2] == [
        "recording,start,end,label",
        "one,0.000,1.500,speech",
    ]


def test_label_track_of_audacity(tmp_path: Path) -> None:
    text = save_audacity(SEGMENTS, tmp_path / "a.txt").read_text()
    assert text.splitlines() == [
        "0.000000\t1.500000\tspeech",
        "1.500000\t4.000000\tmusic",
        "4.000000\t3671.250000\ta & <b>",
    ]


def test_webvtt_is_as_the_standard_says(tmp_path: Path) -> None:
    text = save_webvtt(SEGMENTS, tmp_path / "a.vtt").read_text()
    assert text == (
        "WEBVTT\n\n00:00:00.000 --> 00:00:01.500\nspeech\n\n"
        "00:00:01.500 --> 00:00:04.000\nmusic\n\n"
        "00:00:04.000 --> 01:01:11.250\na &amp; &lt;b&gt;\n"
    )


def test_rows_get_the_label_of_their_middle() -> None:
    segments = [(0.0, 1.4, "a"), (1.4, 2.0, "b"), (3.0, 5.0, "c")]
    assert row_labels(segments, 6, 1.0).tolist() == ["a", "b", "b", "c", "c", "c"]
    assert row_labels(segments, 6, 1.0, gap="none").tolist() == ["a", "b", "none", "c", "c", "none"]
    assert row_labels([(1.0, 2.0, "x")], 2, 1.0).tolist() == ["x", "x"]
    # nearer to the following segment
    apart = [(0.0, 1.0, "a"), (4.0, 5.0, "b")]
    assert row_labels(apart, 5, 1.0).tolist() == ["a", "a", "a", "b", "b"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("recording,start,label\na,0,x\n", r"one row, but lacks \['end'\]"),
        ("recording,start,end,label\n", "at least one row, but lacks rows"),
        ("recording,start,end,label\na,zero,1,x\n", "line 2"),
        ("recording,start,end,label\na,0,1,x\na,3,2,y\n", "line 3"),
        ("recording,start,end,label\n\na,0,1,x\n,,,\na,3,2,y\n", "line 5"),  # empty rows
        ("recording,start,end,label\na,0,1,\na,1,2,x\n", "line 2"),
        ("recording,start,end,label\na,0,2,x\na,1,3,y\n", "needs disjoint segments"),
        ("recording,start,end,label\na,0,2,x\na,2,3,y,z\n", "got .*.z.. in line 3"),
        ("recording,start,end,label\na,0,2,x,z\na,2,3,y,z\n", "got .*.z.. in line 2"),
    ],
)
def test_tables_that_are_not_well_give_one_sentence(tmp_path: Path, text, message) -> None:
    path = tmp_path / "bad.csv"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        read_segments(path)
    with pytest.raises(FileNotFoundError, match="columns recording, start, end, label"):
        read_segments(tmp_path / "none.csv")


@pytest.mark.parametrize(
    "text",
    [
        "recording,start,end\nr,0,1.5\nr,1.5,2\n",
        "recording,start,end,label\nr,0,1.5,\nr,1.5,2,\n",
        "end;recording;start\n2;r;1,5\n1,5;r;0\n",
        " Recording,Start, End\nr,0,1.5\nr,1.5,2\n",
        "recording\tstart\tend\nr\t0\t1.5\nr\t1.5\t2\n",
    ],
    ids=["no column", "empty column", "semicolons, another order", "capitals", "tabs"],
)
def test_boundaries_without_labels(tmp_path: Path, text: str) -> None:
    path = tmp_path / "s.csv"
    path.write_text(text)
    tables = read_segments(path)
    assert tables == {"r": [(0.0, 1.5, ""), (1.5, 2.0, "")]}
    assert read_segments(save_segments(tables, path)) == tables
    assert path.read_text().splitlines() == [
        "recording,start,end",
        "r,0.000,1.500",
        "r,1.500,2.000",
    ]
    assert save_audacity(tables["r"], path).read_text().endswith("\t1\n1.500000\t2.000000\t2\n")
