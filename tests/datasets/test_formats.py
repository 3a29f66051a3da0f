"""Files of other programs: every boundary comes back at its sample, every label unchanged."""

import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from metriclearn.datasets.annotations import Segment, numbered
from metriclearn.datasets.formats import FORMATS, read_labels, write_file

pytest.importorskip("pympi")

RATES = (1, 2, 3, 7, 25, 100 / 3, 50, 128, 1000, 16000, 44100, 48000, 96000, 192000)
PLAIN = (
    "walk",
    "Gehen",
    "歩く",
    "naïve",
    "a,b",
    'say"hi"',
    "<b>&amp;",
    ";",
    "it's",
    "😀",
    "#1",
    "NA",
)
ODD = (
    "sit down",
    "tab\there",
    "new\nline",
    " edge",
    "a  b",
    "a\rb",
    "\x00",
    "\u2028",
    "a\x85b",
    "\\",
)
REFUSED: dict[str, set[str]] = {
    "csv": {"", " edge", "a\rb", "\u2028"},
    "audacity": {"", " edge", "a\rb", "\u2028", "new\nline"},
    "webvtt": {"", " edge", "a\rb", "\u2028", "new\nline"},
    "textgrid": {"", " edge", "\u2028"},
    "elan": {" edge", "a\rb", "\u2028", "\x00"},
    "rttm": {*ODD, ""} - {"\\", "\x00"},
    "jams": set(),
}


def random_segments(random: np.random.Generator, rate: float, labels: tuple[str, ...]) -> list:
    """Segments of up to 10 h with gaps, some a single sample or a millisecond long."""
    ends = np.unique(random.integers(1, int(36000 * rate), random.integers(1, 12)))
    if random.random() < 0.3:
        ends = np.unique(np.concatenate([ends, ends + max(1, round(rate / 1000))]))
    bounds = [0, *ends.tolist()]
    spans = [span for span in pairwise(bounds) if random.random() < 0.9] or [(0, bounds[1])]
    return [(a / rate, b / rate, str(random.choice(labels))) for a, b in spans]


def samples(segments: list[Segment], rate: float) -> list[tuple[int, int, str]]:
    return [(round(a * rate), round(b * rate), label) for a, b, label in segments]


@pytest.mark.parametrize("kind", [kind for kind in FORMATS if kind != "webvtt"])
@pytest.mark.parametrize("rate", RATES)
def test_boundaries_come_back_at_their_samples(kind: str, rate: float, tmp_path: Path) -> None:
    random = np.random.default_rng(int(rate))
    for labels in (PLAIN, ("",), PLAIN, PLAIN):
        segments = random_segments(random, rate, labels)
        path = write_file(kind, "one", segments, tmp_path / f"one{FORMATS[kind].ending}")
        expected = segments if labels != ("",) or kind == "csv" else numbered(segments)
        assert samples(read_labels(path)["one"], rate) == samples(expected, rate)
        assert {p.name for p in tmp_path.iterdir()} == {path.name}


def test_webvtt_keeps_milliseconds(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    for _ in range(30):
        segments = random_segments(random, 1000.0, PLAIN)
        path = write_file("webvtt", "one", segments, tmp_path / "one.vtt")
        assert samples(read_labels(path)["one"], 1000.0) == samples(segments, 1000.0)


@pytest.mark.parametrize("kind", FORMATS)
def test_labels_are_kept_or_refused(kind: str, tmp_path: Path) -> None:
    target, refused = tmp_path / f"one{FORMATS[kind].ending}", {}
    for label in (*ODD, ""):
        segments = [(0.0, 1.0, "walk"), (1.0, 2.5, label), (2.5, 4.0, "run")]
        try:
            write_file(kind, "one", segments, target)
        except ValueError as error:
            refused[label] = str(error)
            assert not target.exists()
        else:
            assert read_labels(target) == {"one": segments}
            target.unlink()
    assert set(refused) == REFUSED[kind]
    assert all(re.fullmatch(r".* cannot hold the segment.*", told) for told in refused.values())


def test_segments_shorter_than_the_format_are_refused(tmp_path: Path) -> None:
    short = [(0.0, 1.0, "a"), (1.0, 1.0001, "b"), (1.0001, 2.0, "a")]
    for kind in ("elan", "webvtt"):
        with pytest.raises(ValueError, match="cannot hold the segment"):
            write_file(kind, "one", short, tmp_path / "file")
    for kind in ("csv", "audacity", "textgrid", "rttm", "jams"):
        write_file(kind, "one", short, tmp_path / f"one{FORMATS[kind].ending}")


def test_a_boundary_moved_in_elan_has_its_new_time(tmp_path: Path) -> None:
    path = write_file("elan", "one", [(0.0, 1.00002, "a"), (1.00002, 2.0, "b")], tmp_path / "a.eaf")
    assert read_labels(path)["a"][0][1] == 1.00002
    path.write_text(path.read_text().replace('TIME_VALUE="1000"', 'TIME_VALUE="1250"'))
    assert read_labels(path)["a"] == [(0.0, 1.25, "a"), (1.25, 2.0, "b")]


def test_files_as_other_programs_write_them(tmp_path: Path) -> None:
    (tmp_path / "praat.TextGrid").write_text(
        'File type = "ooTextFile"\nObject class = "TextGrid"\n\n0\n4\n<exists>\n2\n'
        '"IntervalTier"\n"words"\n0\n4\n3\n0\n1.5\n"ja"\n1.5\n2\n""\n2\n4\n"ném"\n'
        '"TextTier"\n"points"\n0\n4\n1\n1.5\n"click"\n',
        encoding="utf-16",
    )
    assert read_labels(tmp_path / "praat.TextGrid") == {
        "praat": [(0.0, 1.5, "ja"), (2.0, 4.0, "ném")]
    }
    (tmp_path / "talk.rttm").write_text(
        "SPEAKER meeting 1 0.1 1.2 <NA> <NA> Ann <NA> <NA>\n"
        "SPEAKER meeting 1 1.3 2.7 <NA> <NA> Bob <NA> <NA>\n"
    )
    assert read_labels(tmp_path / "talk.rttm") == {"talk": [(0.1, 1.3, "Ann"), (1.3, 4.0, "Bob")]}
    (tmp_path / "song.jams").write_text(
        '{"annotations": [{"namespace": "beat", "data": [{"time": 0.5, "duration": 0, "value": 1}]}'
        ',{"namespace": "segment_salami_upper", "data": [{"time": 2, "duration": 3, "value": "B"},'
        '{"time": 0, "duration": 2, "value": "A"}]}], "file_metadata": {}, "sandbox": {}}'
    )
    assert read_labels(tmp_path / "song.jams") == {"song": [(0.0, 2.0, "A"), (2.0, 5.0, "B")]}
    (tmp_path / "labels.txt").write_text("0.0\t1.0\tA\n\\\t100.0\t200.0\n1.0\t2.5\tB C\r\n")
    assert read_labels(tmp_path / "labels.txt") == {"labels": [(0.0, 1.0, "A"), (1.0, 2.5, "B C")]}
    assert sorted(read_labels(tmp_path / "*.[rj]*")) == ["song", "talk"]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
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
    ],
)
def test_damaged_files_give_one_sentence(name, text, message, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(ValueError, match=message) as caught:
        read_labels(tmp_path / name)
    assert str(tmp_path / name) in str(caught.value)


def test_several_tiers_are_told_apart(tmp_path: Path) -> None:
    pympi = pytest.importorskip("pympi")
    grid = pympi.TextGrid(xmax=2.0)
    for name, label in (("words", "ja"), ("phones", "j")):
        grid.add_tier(name).add_interval(0.0, 2.0, label)
    grid.to_file(str(tmp_path / "a.TextGrid"))
    with pytest.warns(UserWarning, match=r"'words' is read, phones left out"):
        assert read_labels(tmp_path / "a.TextGrid") == {"a": [(0.0, 2.0, "ja")]}


def test_missing_tables_name_the_files_that_are_there(tmp_path: Path) -> None:
    (tmp_path / "monday.eaf").write_text("<x/>")
    with pytest.raises(FileNotFoundError, match=r"to use monday.eaf and files like it, pass '\*.e"):
        read_labels(tmp_path / "segments.csv")
    with pytest.raises(FileNotFoundError, match=r"No file of .* is like '\*.jams'"):
        read_labels(tmp_path / "*.jams")
