"""Tables of segments and files of other programs: what is written comes back, or is refused."""

import re
from itertools import pairwise
from math import ceil
from pathlib import Path
from struct import pack, unpack_from
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metriclearn.datasets import (
    FORMATS,
    Segment,
    covering,
    numbered,
    read_groups,
    read_labels,
    read_segments,
    row_labels,
    write_file,
)

pympi = pytest.importorskip("pympi")
DATA, RATE = 44, 5000  # first byte of the sound, samples per second

RATES = (1, 2, 3, 7, 25, 100 / 3, 50, 128, 1000, 16000, 44100, 48000, 96000, 192000)
PLAIN = ["walk", "歩く", "naïve", "a,b", 'say"hi"', "<b>&amp;", ";", "it's", "😀", "#1", "NA", "!"]
ODD = ["sit down", "tab\there", "new\nline", " edge", "a  b", "a\rb", "\x00", "\u2028", "a\x85b"]
ODD += ["\\", ""]
REFUSED: dict[str, set[str]] = {
    "csv": {"", "a\rb", "\u2028"},
    "audacity": {"a\rb", "new\nline"},
    "webvtt": {"a\rb", "new\nline"},
    "textgrid": {"", "\u2028"},
    "elan": {"a\rb", "\x00"},
    "rttm": {*ODD} - {"\\", "\x00", " edge"},
    "jams": set(),
    "raven": {"tab\there", "new\nline", "a\rb"},
    "wav": {"\x00"},
}


def chunk(kind: bytes, content: bytes) -> bytes:
    return pack("<4sI", kind, len(content)) + content + len(content) % 2 * b"\0"


def sound(path: Path, rate: int, *chunks: bytes, length: int = 8) -> Path:
    """A WAV file of 16 bits with samples 0, 1, 2, …, and further chunks."""
    form = pack("<HHIIHH", 1, 1, rate, 2 * rate, 2, 16)
    data = b"".join(pack("<h", i % 1000) for i in range(length))
    content = b"WAVE" + chunk(b"fmt ", form) + chunk(b"data", data) + b"".join(chunks)
    path.write_bytes(chunk(b"RIFF", content))
    return path


@st.composite
def segmentations(draw: st.DrawFn, rate: float) -> list[Segment]:
    """Segments of up to 10 h with gaps and equal neighbors, some a sample or a millisecond long."""
    shortest = max(1, ceil(rate / 1000))
    most = int(36000 * rate) // 8
    sizes = st.one_of(st.integers(shortest, most), st.just(shortest))
    ends = np.cumsum(draw(st.lists(sizes, min_size=1, max_size=8))).tolist()
    spans = [span for span in pairwise([0, *ends]) if draw(st.integers(0, 4))] or [(0, ends[0])]
    labels = draw(st.sampled_from([PLAIN, ["same"], [""]]))
    return [(a / rate, b / rate, draw(st.sampled_from(labels))) for a, b in spans]


def samples(segments: list[Segment], rate: float) -> list[tuple[int, int, str]]:
    return [(round(a * rate), round(b * rate), label) for a, b, label in segments]


@pytest.mark.parametrize("kind", FORMATS)
@settings(max_examples=25)
@given(st.data())
def test_boundaries_come_back_at_their_samples(kind: str, tmp_path_factory, data: Any) -> None:
    rate = data.draw(st.sampled_from((1, 7, 1000) if FORMATS[kind].precision > 1e-4 else RATES))
    segments = data.draw(segmentations(rate))
    folder = tmp_path_factory.mktemp("one")
    given = sound(tmp_path_factory.mktemp("of") / "one.wav", max(1000, round(rate)))
    path = write_file(kind, "one", segments, folder / f"one{FORMATS[kind].ending}", given)
    if kind == "wav":
        before, after = given.read_bytes(), path.read_bytes()
        assert after[8 : len(before)] == before[8:]
        assert len(after) == 8 + unpack_from("<I", after, 4)[0]
        again = write_file(kind, "one", segments, folder / path.name, path)
        assert read_labels(again) == read_labels(write_file(kind, "one", segments, path, given))
    expected = segments if kind == "csv" or any(segments[0][2]) else numbered(segments)
    assert samples(read_labels(path)["one"], rate) == samples(expected, rate)
    assert [p.name for p in folder.iterdir()] == [path.name]


@pytest.mark.parametrize("kind", FORMATS)
def test_labels_and_times_are_kept_or_refused(kind: str, tmp_path: Path) -> None:
    target, refused = tmp_path / f"one{FORMATS[kind].ending}", {}
    (tmp_path / "of").mkdir()
    of = sound(tmp_path / "of" / "one.wav", RATE)
    for label in ODD:
        segments = [(0.0, 1.0, "walk"), (1.0, 2.5, label), (2.5, 4.0, "run")]
        try:
            write_file(kind, "one", segments, target, of)
        except ValueError as error:
            refused[label] = str(error)
            assert not target.exists()
        else:
            seen = [(start, end, name.strip()) for start, end, name in segments]
            assert read_labels(target) == {"one": seen}
            target.unlink()
    assert set(refused) == REFUSED[kind]
    assert all(re.fullmatch(r".* cannot hold the segment.*", told) for told in refused.values())
    short = [(0.0, 1.0, "a"), (1.0, 1.0001, "b"), (1.0001, 2.0, "a")]
    if kind in ("elan", "webvtt", "wav"):
        with pytest.raises(ValueError, match="cannot hold the segment"):
            write_file(kind, "one", short, target, of)
    else:
        assert len(read_labels(write_file(kind, "one", short, target, of))["one"]) == 3
    with pytest.raises(ValueError, match="needs disjoint segments, but in 'one' 'b' starts"):
        write_file(kind, "one", [(0.0, 2.0, "a"), (1.0, 3.0, "b")], target, of)
    if kind == "wav":
        with pytest.raises(ValueError, match=r"into a copy of a \.wav file, but 'one' is not"):
            write_file(kind, "one", segments, target)


def test_files_are_as_their_formats_say(tmp_path: Path) -> None:
    segments = [(0.0, 1.5, "speech"), (1.5, 3671.25, "a & <b>")]
    expected = {
        "raven": "Selection\tView\tChannel\tBegin Time (s)\tEnd Time (s)\tLow Freq (Hz)\t"
        "High Freq (Hz)\tAnnotation\n1\tSpectrogram 1\t1\t0.000\t1.500\t0.0\t20000.0\tspeech\n"
        "2\tSpectrogram 1\t1\t1.500\t3671.250\t0.0\t20000.0\ta & <b>\n",
        "csv": "recording,start,end,label\none,0.000,1.500,speech\none,1.500,3671.250,a & <b>\n",
        "audacity": "0.000000\t1.500000\tspeech\n1.500000\t3671.250000\ta & <b>\n",
        "webvtt": "WEBVTT\n\n00:00:00.000 --> 00:00:01.500\nspeech\n\n"
        "00:00:01.500 --> 01:01:11.250\na &amp; &lt;b&gt;\n",
    }
    written = {k: write_file(k, "one", segments, tmp_path / k).read_text() for k in expected}
    assert written == expected


CHRONOLOGICAL = (
    '"Praat chronological TextGrid text file"\n0 4   ! Time domain.\n2   ! Number of tiers.\n'
    '"TextTier" "points" 0 4\n"IntervalTier" "segments" 0 4\n! segments:\n2 0 1.5\n"a ""b"""\n'
    '! points:\n1 1.5\n"click"\n! segments:\n2 1.5 2\n""\n\n! segments:\n2 2 4\n"c"\n'
)
SHORT = (
    'File type = "ooTextFile"\nObject class = "TextGrid"\n\n0\n4\n<exists>\n2\n'
    '"IntervalTier"\n"words"\n0\n4\n3\n0\n1.5\n"ja"\n1.5\n2\n""\n2\n4\n"ném"\n'
    '"TextTier"\n"points"\n0\n4\n1\n1.5\n"click"\n'
)
JAMS = (
    '{"annotations": [{"namespace": "beat", "data": [{"time": 0.5, "duration": 0, "value": 1}]}'
    ',{"namespace": "segment_salami_upper", "data": [{"time": 2, "duration": 3, "value": "B"},'
    '{"time": 0, "duration": 2, "value": "A"}]}], "file_metadata": {}, "sandbox": {}}'
)
SPEAKER = "SPEAKER meeting 1 {} {} <NA> <NA> {} <NA> <NA>\n"


@pytest.mark.parametrize(
    ("name", "content", "segments"),
    [
        ("a.TextGrid", SHORT.encode("utf-16"), [(0.0, 1.5, "ja"), (2.0, 4.0, "ném")]),
        ("a.TextGrid", CHRONOLOGICAL.encode(), [(0.0, 1.5, 'a "b"'), (2.0, 4.0, "c")]),
        ("a.rttm", (SPEAKER.format(0.1, 1.2, "Ann") + SPEAKER.format(1.3, 2.7, "Bob")).encode(),
         [(0.1, 1.3, "Ann"), (1.3, 4.0, "Bob")]),
        ("a.jams", JAMS.encode(), [(0.0, 2.0, "A"), (2.0, 5.0, "B")]),
        ("a.txt", b"0.0\t1.0\tA\n\\\t100.0\t200.0\n1.0\t2.5\tB C\r\n",
         [(0.0, 1.0, "A"), (1.0, 2.5, "B C")]),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:'.*' has segments of 'meeting', and they are read as those")
def test_files_as_other_programs_write_them(name, content, segments, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    assert read_labels(tmp_path / name) == {"a": segments}
    (tmp_path / f"b{Path(name).suffix}").write_bytes(content)
    assert read_labels(tmp_path / f"*{Path(name).suffix}") == {"a": segments, "b": segments}


def test_times_of_elan(tmp_path: Path) -> None:
    """A boundary that was moved in ELAN has its new time; times count from the sound's origin."""
    path = write_file("elan", "one", [(0.0, 1.00002, "a"), (1.00002, 2.0, "b")], tmp_path / "a.eaf")
    assert read_labels(path)["a"][0][1] == 1.00002
    text = path.read_text().replace('TIME_VALUE="1000"', 'TIME_VALUE="1250"')
    path.write_text(text)
    assert read_labels(path)["a"] == [(0.0, 1.25, "a"), (1.25, 2.0, "b")]
    media = '<MEDIA_DESCRIPTOR MEDIA_URL="a.wav" MIME_TYPE="audio/x-wav" TIME_ORIGIN="4000" />'
    path.write_text(re.sub(r"(<HEADER[^>]*>)", rf"\1{media}", text))
    assert read_labels(path)["a"] == [(4.0, 5.25, "a"), (5.25, 6.0, "b")]


def test_several_tiers_are_told_apart(tmp_path: Path) -> None:
    grid = pympi.TextGrid(xmax=2.0)
    for name, label in (("words", "ja"), ("phones", "j")):
        grid.add_tier(name).add_interval(0.0, 2.0, label)
    grid.to_file(str(tmp_path / "a.TextGrid"))
    with pytest.warns(UserWarning, match=r"'words' is read, phones left out"):
        assert read_labels(tmp_path / "a.TextGrid") == {"a": [(0.0, 2.0, "ja")]}


def markers(places: dict[int, int]) -> bytes:
    cues = [pack("<II4sIII", i, at, b"data", 0, 0, at) for i, at in places.items()]
    return chunk(b"cue ", pack("<I", len(places)) + b"".join(cues))


def names(texts: dict[int, bytes], lengths: dict[int, int]) -> bytes:
    parts = [chunk(b"labl", pack("<I", i) + text + b"\0") for i, text in texts.items()]
    parts += [chunk(b"ltxt", pack("<II4s8x", i, n, b"rgn ")) for i, n in lengths.items()]
    return chunk(b"LIST", b"adtl" + b"".join(parts))


@pytest.mark.parametrize(
    ("chunks", "expected"),
    [
        ([markers({1: 6, 2: 2})], [(0, 2, ""), (2, 6, ""), (6, 8, "")]),
        ([markers({7: 2, 9: 6}), names({9: b"b", 7: b"caf\xe9"}, {})],  # letters of Windows
         [(1, 2, "unknown"), (2, 6, "café"), (6, 8, "b")]),
        ([names({1: b"a"}, {1: 4}), markers({1: 0, 2: 2})], [(0, 2, "a"), (2, 4, "a")]),
        ([markers({1: 1, 2: 6}), names({1: b"a"}, {1: 3})],
         [(1, 4, "a"), (5, 6, "unknown"), (6, 7, "unknown")]),
    ],
)  # fmt: skip
def test_markers_are_boundaries_and_regions_are_segments(chunks, expected, tmp_path: Path) -> None:
    """A marker divides the time around it, and names the time up to the next one."""
    path = sound(tmp_path / "a.wav", 1000, *chunks)
    assert samples(read_labels(path)["a"], 1000) == expected
    piped = path.read_bytes()[: DATA + 16]  # the sound alone, as programs write it to a pipe
    path.write_bytes(piped[: DATA - 4] + b"\xff\xff\xff\xff" + piped[DATA:])
    segments = [(a / 1000, b / 1000, label or "x") for a, b, label in expected]
    assert read_labels(write_file("wav", "a", segments, path, path)) == {"a": segments}


SELECTIONS = (
    "Selection\tView\tBegin Time (s)\tEnd Time (s)\tSpecies\n"
    "1\tWaveform 1\t2.5\t3.0\twren\n"
    "1\tSpectrogram 1\t2.5\t3.0\twren\n2\tSpectrogram 1\t0\t2.5\towl\n"
)
EVENTS = "Observation id,Media duration (s),Subject,Behavior,Behavior type,Time\n"
CODED = EVENTS + (
    "m,20,cat,sleep,START,1\nm,20,cat,blink,POINT,2\nm,20,cat,sleep,STOP,4\nn,9,cat,blink,POINT,3\n"
    "m,20,cat,eat,START,4\nm,20,cat,eat,STOP,6.5\n"
)
PAIRED = (
    "Observation id;Media duration (s);Subject;Behavior;Behavior type;Start (s);Stop (s)\n"
    "m;20;cat;sleep;STATE;1;4\nm;20;cat;eat;STATE;4;6,5\nm;20;cat;blink;POINT;2;NA\n"
    "n;9;cat;blink;POINT;3;3\n"
)


def test_tables_of_raven_and_boris(tmp_path: Path) -> None:
    path = tmp_path / "rec.Table.1.selections.txt"
    path.write_text(SELECTIONS)
    assert read_labels(path, "Species") == {"rec": [(0.0, 2.5, "owl"), (2.5, 3.0, "wren")]}
    path.write_text("\ufeff" + SELECTIONS.replace(".", ",").replace("Species", "espe\u0300ce"))
    assert read_labels(path, "esp\u00e8ce ") == {"rec": [(0.0, 2.5, "owl"), (2.5, 3.0, "wren")]}
    with pytest.raises(ValueError, match=r"column 'x', got .*; name one of its columns \(label=…"):
        read_labels(path, "x")
    with pytest.warns(UserWarning, match="no column 'Annotation', so its segments have no labels"):
        assert read_labels(path) == {"rec": [(0.0, 2.5, ""), (2.5, 3.0, "")]}
    other = "Begin Time (s)\tEnd Time (s)\tAnnotation\tBegin File\n0\t1\tx\tmeeting.wav\n"
    for file, content in (("b.selections.txt", other), ("b.rttm", SPEAKER.format(0, 1, "x"))):
        (tmp_path / file).write_text(content)
        with pytest.warns(UserWarning, match="of 'meeting', and they are read as those of 'b';"):
            assert read_labels(tmp_path / file) == {"b": [(0.0, 1.0, "x")]}
    expected = {
        "m": [(1.0, 2.0, "sleep"), (2.0, 4.0, "sleep"), (4.0, 6.5, "eat")],
        "n": [(0.0, 3.0, ""), (3.0, 9.0, "")],
    }
    for name, table in (("a.csv", CODED), ("b.tsv", CODED.replace(",", "\t")), ("c.csv", PAIRED)):
        (tmp_path / name).write_text(table)
        assert read_labels(tmp_path / name) == expected
    assert {label for *_, label in read_labels(tmp_path / "a.csv", "Subject")["m"]} == {"cat"}


TABLE = "recording,start,end,label\n"
BAD: list[tuple[str, str, str]] = [
    ("a.txt", "0.0\t1.0\tA\n0.5\t2.0\tB\n", "needs disjoint segments"),
    ("a.txt", "1.0\t1.0\tpoint\n", "needs 0 <= start < end in seconds"),
    ("a.txt", "zero\t1.0\tA\n", "cannot be read as Audacity labels"),
    ("a.rttm", "SPEAKER a 1 0 1\n", "cannot be read as RTTM"),
    ("a.rttm", "", "cannot be read as RTTM"),
    ("a.jams", "{}", "cannot be read as JAMS"),
    ("a.jams", '{"annotations": []}', "no tier with labeled intervals"),
    ("a.eaf", "<ANNOTATION_DOCUMENT/>", "cannot be read as ELAN"),
    ("a.TextGrid", 'File type = "ooTextFile"\n', "cannot be read as Praat TextGrid"),
    ("a.vtt", "WEBVTT\n", "has no segments of 'a'"),
    ("a.selections.txt", SELECTIONS.replace("End", "Stop"), r"needs a column 'End Time \(s\)'"),
    ("a.selections.txt", "Begin Time (s)\tEnd Time (s)\tAnnotation\n0\tx\ta\n", "see line 2"),
    (
        "a.selections.txt",
        "Begin Time (s)\tEnd Time (s)\tAnnotation\tBegin File\n0\t1\ta\ta.wav\n0\t1\ta\tb.wav\n",
        r"selections of one recording, got \['a.wav', 'b.wav'\]",
    ),
    ("a.wav", "RIFF", "cannot be read as WAV cue markers"),
    ("a.csv", EVENTS + "m,9,c,run,START,1\n", "needs a STOP of 'run', see line 2"),
    ("a.csv", EVENTS + "m,9,c,run,STOP,1\n", "needs one START before each STOP of 'run', see"),
    ("a.csv", EVENTS + "m,9,c,run,START,1\nm,9,c,run,START,2\n", "before each STOP .* line 3"),
    ("a.csv", EVENTS + "m,9,c,run,POINT,x\n", "times that increase, see line 2"),
    ("a.csv", EVENTS + "m,NA,c,run,POINT,1\n", "needs the length of 'm', since point events"),
    ("a.csv", EVENTS.replace("Time", "Zeit") + "m,9,c,run,START,1\n", "needs a column 'time', got"),
    ("a.csv", "recording,start,label\na,0,x\n", r"one row, but lacks \['end'\]"),
    ("a.csv", TABLE, "at least one row, but lacks rows"),
    ("a.csv", TABLE + "a,zero,1,x\n", "line 2"),
    ("a.csv", TABLE + "a,0,1,x\na,3,2,y\n", "line 3"),
    ("a.csv", TABLE + "\na,0,1,x\n,,,\na,3,2,y\n", "line 5"),  # empty rows
    ("a.csv", TABLE + "a,0,1,\na,1,2,x\n", "line 2"),
    ("a.csv", TABLE + "a,0,2,x\na,1,3,y\n", "needs disjoint segments"),
    ("a.csv", TABLE + "a,0,2,x\na,2,3,y,z\n", "got .*.z.. in line 3"),
    ("a.csv", TABLE + "a,0,2,x,z\na,2,3,y,z\n", "got .*.z.. in line 2"),
    ("a.csv", TABLE + "Zoe\u0301,0,2,x\nZo\u00e9,1,3,y\n", "needs disjoint segments"),  # one name
    ("a.csv", TABLE + "a,0,1_0,x\n", "without a comma for each thousand.* in line 2"),
    ("a.csv", TABLE + 'a,0,"1,000",x\n', "without a comma for each thousand.* in line 2"),
    ("a.csv", "recording,start,end,End\na,0,1,2\n", r"distinct column names, but repeats \['end'"),
]


@pytest.mark.parametrize(("name", "text", "message"), BAD)
def test_damaged_files_give_one_sentence(name, text, message, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(ValueError, match=message) as caught:
        read_labels(tmp_path / name)
    assert str(tmp_path / name) in str(caught.value)


def test_missing_tables_name_the_files_that_are_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="columns recording, start, end, label"):
        read_segments(tmp_path / "none.csv")
    (tmp_path / "monday.eaf").write_text("<x/>")
    with pytest.raises(FileNotFoundError, match=r"to use monday.eaf and files like it, pass '\*.e"):
        read_labels(tmp_path / "segments.csv")
    with pytest.raises(FileNotFoundError, match=r"No file of .* is like '\*\.jams'"):
        read_labels(tmp_path / "*.jams")


@settings(max_examples=60)
@given(segmentations(4.0), st.integers(1, 40))
def test_rows_get_the_label_of_their_middle(segments: list[Segment], n_rows: int) -> None:
    """The label of the segment around it, or of the nearest one; so do instants of ``covering``."""
    touching = [(0.0, 1.5, "a"), (1.5, 3.0, "b")]  # a middle on a boundary is in the later segment
    assert row_labels(touching, 3, 1.0).tolist() == ["a", "b", "b"]
    far = [(0.0, 6.0, "a"), (10.0, 11.0, "b"), (12.0, 13.0, "c")]  # 11.5 is as near to both
    assert "".join(row_labels(far, 13, 1.0)) == "aaaaaaaabbbbc"
    over = [(0.0, 4.0, "a"), (3.0, 6.0, "b")]  # the later one counts
    assert "".join(row_labels(over, 6, 1.0)) == "aaabbb"
    assert covering(over, 6.0) == [(0.0, 3.0, "a"), (3.0, 6.0, "b")]
    rate = n_rows / max(1.0, segments[-1][1] * 1.25)
    found = row_labels(segments, n_rows, rate).tolist()
    marked = row_labels(segments, n_rows, rate, gap="gap").tolist()
    for t, (label, or_gap) in enumerate(zip(found, marked)):
        middle = (t + 0.5) / rate
        inside = [text for a, b, text in segments if a <= middle < b]
        far = [max(a - middle, middle - b, 0.0) for a, b, _ in segments]
        near = {text for d, (*_, text) in zip(far, segments) if d <= min(far) + 1e-9}
        assert or_gap == (inside[0] if inside else "gap")
        assert label in (inside or near)
        spread = covering(segments, n_rows / rate)
        assert label in near or label == next(text for a, b, text in spread if a <= middle < b)
    assert (spread[0][0], spread[-1][1]) == (0.0, n_rows / rate)
    assert all(a[1] == b[0] and a[2] != b[2] for a, b in pairwise(spread))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("recording,group\na,x\nb,y\n", None),
        ("recording; group\nb;y\n\na; x\n", None),
        ("recording,groups\na,x\n", r"needs a column 'group', got \['recording', 'groups'\]"),
        ("recording,group\na,x\n", "has no group of b"),
        ("recording,group\na,x\nb,y\na,y\n", "one group of each recording, got two of 'a'"),
        ("recording,group\na,x\nb,x\n", "at least two groups"),
    ],
)
def test_groups_of_recordings(tmp_path: Path, text: str, sentence: str | None) -> None:
    (tmp_path / "g.csv").write_text(text)
    if sentence is None:
        assert read_groups(tmp_path / "g.csv", ["b", "a"]) == ["y", "x"]
    else:
        with pytest.raises(ValueError, match=sentence):
            read_groups(tmp_path / "g.csv", ["a", "b"])
