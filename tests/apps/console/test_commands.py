"""The console command, on a folder of small recordings and on tables."""

import inspect
import io
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from itertools import zip_longest
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pandas as pd
import pytest

import metriclearn as ml
from metriclearn.apps.console import commands as cli
from metriclearn.apps.console.commands import main
from metriclearn.datasets.annotations import read_segments, save_segments
from metriclearn.datasets.formats import read_labels, write_file
from metriclearn.running.extras import install
from tests.features.sounds import RATE, write_wave


def run(*arguments: Any, status: int = 0) -> None:
    """The exit status of a command; fit learns one family, as all of them take long."""
    quick = ["--quick"] if arguments[0] == "fit" else []
    assert main([*map(str, arguments), *quick]) == status


class Console:
    """Runs commands, and gives what each of them has printed."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.capsys = capsys

    def __call__(self, *arguments: Any, status: int = 0) -> Any:
        self.capsys.readouterr()
        run(*arguments, status=status)
        return self.capsys.readouterr()

    def assert_refused(self, sentence: str, *arguments: Any) -> None:
        assert sentence in self(*arguments, status=1).err


@pytest.fixture
def console(capsys: pytest.CaptureFixture[str]) -> Console:
    return Console(capsys)


@pytest.fixture(scope="module")
def songs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four recordings of 40 s where a tone and noise alternate, their level changing anywhere."""
    pytest.importorskip("librosa")
    pytest.importorskip("soundfile")
    folder = tmp_path_factory.mktemp("songs")
    tables = {}
    for i in range(4):
        random = np.random.default_rng(i)
        ends = np.cumsum(random.integers(5, 9, 6))
        parts, spans, start = [], [], 0
        for k, end in enumerate(ends):
            time = np.arange((end - start) * RATE) / RATE
            tone = np.sin(2 * np.pi * random.uniform(300, 900) * time)
            noise = 0.7 * random.normal(size=len(time))
            parts.append((tone, noise)[k % 2])
            spans.append((float(start), float(end), ("tone", "noise")[k % 2]))
            start = int(end)
        signal = np.concatenate(parts)
        gain = np.repeat(10 ** random.uniform(-2, -0.7, len(signal) // (3 * RATE) + 1), 3 * RATE)
        write_wave(folder / f"r{i}.wav", signal * gain[: len(signal)])
        tables[f"r{i}"] = spans
    new = folder / "new"
    new.mkdir()
    (folder / "r3.wav").rename(new / "r3.wav")
    save_segments({"r3": tables.pop("r3")}, new / "truth.csv")
    save_segments(tables, folder / "segments.csv")
    return folder


@pytest.fixture(scope="module")
def model(songs: Path) -> Path:
    path = songs / "songs.model"
    run("fit", songs, "--out", path, "--cache", songs / "cache")
    return path


def test_two_commands_from_a_folder_to_a_picture(songs, model, console) -> None:
    out = songs / "out"
    wave = songs / "new" / "r3.wav"
    truth = songs / "new" / "truth.csv"
    arguments = ("--model", model, "--out", out, "--truth", truth)
    told = console("segment", wave, *arguments, "--cache", songs / "cache").out
    found = read_segments(out / "r3.segments.csv")["r3"]
    true = read_segments(truth)["r3"]
    assert [label for _, _, label in found] == [label for _, _, label in true]
    assert np.abs([a[1] - b[1] for a, b in zip(found[:-1], true[:-1])]).max() <= 1.0
    track = (out / "r3.labels.txt").read_text().splitlines()
    assert [line.split("\t")[2] for line in track] == [label for _, _, label in true]
    assert (out / "r3.vtt").read_text().startswith("WEBVTT\n")
    assert (out / "r3.timeline.png").read_bytes()[:4] == b"\x89PNG"
    assert "tone" in told
    row = console("compare", truth, out / "r3.segments.csv").out.splitlines()[1].split()
    assert row[0] == "r3"
    assert float(row[1]) < 2.0
    assert row[3] == "1.00"


def test_silent_and_very_short_recordings_are_one_segment(songs: Path, model: Path) -> None:
    new = songs / "new"
    for name, sound in (("silent", np.zeros(3 * RATE)), ("short", np.full(RATE // 4, 0.1))):
        write_wave(new / f"{name}.wav", sound)
        run("segment", new / f"{name}.wav", "--model", model)
        ((start, end, _),) = read_segments(new / f"{name}.segments.csv")[name]
        assert (start, end) == (0.0, len(sound) / RATE)  # and not the end of the last row
        assert (new / f"{name}.timeline.png").is_file()


def test_info_tells_what_it_is(model: Path, console: Console) -> None:
    text = console("info", model).out
    assert "noise, tone" in text
    assert "3 recordings: r0, r1, r2" in text


def test_info_describes_models_of_recordings_only(tmp_path, console) -> None:
    file = ml.save(ml.ChangePointMetricLearner(), tmp_path / "m.npz")
    console.assert_refused("a ChangePointMetricLearner, not a model of rec", "info", file)


def write_tables(folder: Path, **columns: Any) -> Path:
    """Three CSV files of 80 rows where column y tells phase a from b, and further columns."""
    folder.mkdir()
    for i in range(3):
        random, phase = np.random.default_rng(i), np.repeat(["a", "b", "a", "b"], 20)
        X = random.normal(size=(80, 2)) + 6.0 * np.outer(phase == "b", [0, 1])
        table = pd.DataFrame(X, columns=["x", "y"]).assign(**columns, phase=phase)
        table.to_csv(folder / f"s{i}.csv", index=False)
    return folder


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_files_of_other_programs_are_learned_from_written_and_compared(tmp_path, console) -> None:
    pytest.importorskip("pympi")
    folder, out = tmp_path / "tables", tmp_path / "out"
    folder.mkdir()
    random = np.random.default_rng(0)
    for i in range(3):
        lengths = random.integers(15, 25, 4)
        X = random.normal(size=(lengths.sum(), 3))
        X[:, 1] += np.repeat([0.0, 6.0, 0.0, 6.0], lengths)
        pd.DataFrame(X, columns=["x", "y", "z"]).to_csv(folder / f"s{i}.csv", index=False)
        ends = (np.append(0, np.cumsum(lengths)) / 30).tolist()
        spans = list(zip(ends[:-1], ends[1:], ["at rest", "busy", "at rest", "busy"]))
        write_file("textgrid", f"s{i}", spans, folder / f"s{i}.TextGrid")
    fit = ("fit", folder, "--out", tmp_path / "t.model", "--rate", "30")
    error = console(*fit, "--features", "tables", status=1).err
    assert "to use s0.TextGrid and files like it, pass '*.TextGrid'" in error
    for options in ([], ["--features", "tables"]):
        run(*fit, *options, "--segments", "*.TextGrid")
    new = ("segment", folder / "s2.csv", "--model", tmp_path / "t.model", "--out", out)
    run(*new, "--formats", "elan", "jams", "textgrid")
    names = {"s2.eaf", "s2.jams", "s2.TextGrid", "s2.timeline.png"}
    assert {file.name for file in out.iterdir()} == names
    for name in sorted(names - {"s2.timeline.png"}):
        row = console("compare", folder / "*.TextGrid", out / name).out.splitlines()[1].split()
        assert row[0] == "s2"
        assert [row[3], row[6]] == ["1.00", "100.0%"]
    console.assert_refused("RTTM cannot hold the segment", *new, "--formats", "rttm")
    assert not (out / "s2.rttm").exists()


def test_columns_of_tables_are_named(tmp_path: Path, console: Console) -> None:
    stamps = pd.date_range("2024-01-01 23:59:50", periods=80, freq="250ms")
    folder = write_tables(tmp_path / "t", stamp=stamps, who="bob", level=7.0)
    model = tmp_path / "t.model"
    fit = ("fit", folder, "--out", model, "--label", "phase")
    error = console(*fit, status=1).err
    assert (
        "name the column of times (--time stamp), and ignore columns without numbers "
        "(ignore=['stamp', 'who'], --ignore who)." in error
    )
    console.assert_refused("--ignore stamp who).", *fit, "--ignore", "stamp")
    told = console(*fit, "--time", "stamp", "--ignore", "who")
    assert "4 rows per second" in told.out
    assert "constant in every data set (level)" in told.err
    told = console(*fit, "--time", "stamp", "--ignore", "who", "--rate", 2)
    assert "2 rows per second" in told.out
    assert "Rows count as 0.5 s each by --rate, so the times in column 'stamp' are" in told.err
    # unlabeled rows: the first b of each file, and so its two boundaries
    for file in folder.iterdir():
        table = pd.read_csv(file)
        table.loc[20:39, "phase"] = "open"
        table.to_csv(file, index=False)
    stamped = (*fit, "--time", "stamp", "--ignore", "who")
    assert "of 3 held-out ones" in console(*stamped, "--unknown", "open").out
    console.assert_refused("got ['a', 'b', 'open']", *stamped, "--unknown", "opne")
    levels = (*fit, "--time", "level", "--ignore", "who", "stamp")
    console.assert_refused(
        "needs times that increase in column 'level', but rows 1 and 2 both have 7.0", *levels
    )
    late = pd.read_csv(file).assign(level=np.append(np.arange(79.0), 99.0))
    late.to_csv(folder / file.name, index=False)
    for other in set(folder.iterdir()) - {file}:
        other.unlink()
    assert "Rows are 1 to 21 s apart by column 'level'" in console(*levels).err


def test_poses_of_deeplabcut_with_events_of_boris(tmp_path: Path, console: Console) -> None:
    """Unlikely coordinates are missing, in fit and in segment; labels are a column of BORIS."""
    folder, model, random = tmp_path / "mice", tmp_path / "m", np.random.default_rng(0)
    folder.mkdir()
    events = ["Observation id,Subject,Behavior,Behavior type,Start (s),Stop (s)"]
    for name in ("m0", "m1"):
        rows = ["scorer,net,net,net", "bodyparts,nose,nose,nose", "coords,x,y,likelihood"]
        for t in range(80):
            x, y = random.normal(size=2) + 9.0 * (t // 20 % 2)
            rows.append(f"{t},{x},{y},{0.1 if t % 20 == 7 else 0.9}")
        (folder / f"{name}.csv").write_text("\n".join(rows))
        events += [f"{name},c,{'ab'[i % 2]},STATE,{5 * i},{5 * i + 5}" for i in range(4)]
    (folder / "events.csv").write_text("\n".join(events))
    fit = ("fit", folder, "--out", model, "--segments", "events.csv", "--rate", 4)
    said = console(*fit, "--likelihood", 0.5)
    assert "have missing values, which are interpolated, or left out if no column has a" in said.err
    assert "labels:               a, b" in said.out
    assert "features:             tables, 2 columns, 4 rows per second" in said.out
    assert "missing" not in console(*fit, "--likelihood", 0.5, "--fill", 0.3).err
    found = ("segment", folder / "m0.csv", "--model", model, "--out", tmp_path, "--formats")
    run(*found, "raven", "--likelihood", 0.5)
    expected = [(5.0 * i, 5.0 * i + 5.0, "ab"[i % 2]) for i in range(4)]
    assert read_labels(tmp_path / "m0.selections.txt") == {"m0": expected}
    console.assert_refused("written into a copy of a .wav file, but 'm0' is not one", *found, "wav")
    unsure = "needs a number in every column, but column 'nose x' has none"
    console.assert_refused(unsure, *found, "csv", "--likelihood", 1)
    console.assert_refused(unsure, *fit, "--likelihood", 1)
    console.assert_refused("needs a column 'behaviour', got", *fit, "--label", "Behaviour")


def test_tables_of_features_beside_a_table_of_segments(tmp_path: Path, console: Console) -> None:
    folder = write_tables(tmp_path / "t", seconds=np.arange(80) / 4)
    spans = [(5.0 * i, 5.0 * i + 5.0, "abab"[i]) for i in range(4)]
    for file in folder.iterdir():  # with spaces after the commas, as people write them
        lines = pd.read_csv(file).drop(columns="phase").to_csv(index=False).splitlines()
        file.write_text("\n".join(line.replace(",", ", ") for line in lines))
    save_segments({f"s{i}": spans for i in range(3)}, folder / "segments.csv")
    fit = ("fit", folder, "--out", tmp_path / "m")
    told = console(*fit, "--time", "seconds").out
    assert "labels:               a, b" in told
    assert "features:             tables, 2 columns, 4 rows per second" in told
    run("segment", folder / "s0.csv", "--model", tmp_path / "m", "--out", tmp_path)
    assert read_segments(tmp_path / "s0.segments.csv")["s0"] == spans
    console.assert_refused("needs to be a table of Raven or BORIS", *fit, "--label", "phase")


@pytest.mark.parametrize(
    ("lines", "status", "sentence"),
    [
        ("start,end\n{0},0,9\n{0},9,20\n", 0, "none, only boundaries"),
        ("start,end,label\n{0},0,9,\n{0},9,20,\n", 0, "none, only boundaries"),
        ("start,end,label\n{0},0,9,a\n{0},12,20,b\n", 0, "Note: 9 of 60 s are in no segment of"),
        ("start,end,label\n{0},0,9,a\n{0},9,9.2,b\n{0},9.2,20,c\n", 0, "Segments too short for"),
        ("start,end,label\n{0},0,9,a\n{0},9,20,b\n{0}9,0,9,a\n", 1, "but has none for ['s09', "),
    ],
    ids=["no column", "no labels", "gaps", "short", "no file"],
)  # fmt: skip
def test_tables_of_segments_mean_the_same_for_rows_as_for_recordings(
    lines: str, status: int, sentence: str, tmp_path: Path, console: Console
) -> None:
    folder = tmp_path / "t"
    folder.mkdir()
    for i in range(3):
        levels = np.where(np.arange(20) < 9, 0.0, 3.0) + np.random.default_rng(i).normal(size=20)
        pd.DataFrame({"x": levels}).to_csv(folder / f"s{i}.csv", index=False)
    first, *rest = lines.splitlines()
    table = [line.format(f"s{i}") for i in range(3) for line in rest]
    (folder / "segments.csv").write_text("\n".join([f"recording,{first}", *table]) + "\n")
    told = console("fit", folder, "--out", tmp_path / "m", status=status)
    assert sentence in told.err + told.out


def test_a_note_is_said_once(tmp_path: Path, console: Console) -> None:
    for i in range(4):
        X = np.random.default_rng(i).normal(size=(30, 2))
        table = pd.DataFrame(X, columns=["x", "y"]).assign(label=[f"l{k}" for k in range(30)])
        table.to_csv(tmp_path / f"s{i}.csv", index=False)
    told = console("fit", tmp_path, "--out", tmp_path / "m").err
    notes = [line for line in told.splitlines() if line.startswith("Note: ")]
    assert any("labels that differ for all samples" in note for note in notes)
    assert len(notes) == len(set(notes))


def test_labels_and_rows_that_are_easily_missed(tmp_path: Path, console: Console) -> None:
    folder = write_tables(tmp_path / "t")
    first, other, _ = sorted(folder.iterdir())
    table = pd.read_csv(first)
    first.unlink()
    # the ending in capitals, a class with two spellings (blanks at an end make none), and the row
    # before the last unknown
    table.replace("b", "B ").assign(level=7.0).to_csv(folder / "s0.CSV", index=False)
    labels = [*table["phase"][:-2], "?", "b"]
    table.assign(phase=labels, level=8.0).to_csv(other, index=False)
    (folder / "one.csv").write_text("x,y,phase\n1,2,a\n")
    fit = ("fit", folder, "--out", tmp_path / "m", "--label", "phase", "--ignore", "level")
    words = "The label '?' is learned as a class; if nobody has labeled this time, pass --unknown "
    assert f"{words}'?'." in console(*fit).err
    told = console(*fit, "--unknown", "?")
    assert "learned as a class" not in told.err
    assert "100%" in told.out
    assert " whitened\n" in told.out
    assert "tell nothing of boundaries and are left out: one, s1." in told.err
    assert "labels 'B', 'b' count as different classes" in told.err
    assert "trained on:           3 recordings: s0, s1, s2" in told.out
    words = f"cannot be used with {str(folder)!r}, only with a folder of recordings"
    console.assert_refused(f"--features, --gap {words}", *fit, "--gap", "b", "--features", "audio")


def test_constant_columns_are_not_those_of_most_weight(tmp_path: Path, console: Console) -> None:
    folder = write_tables(tmp_path / "t", level=1e300)
    model = tmp_path / "m"
    told = console("fit", folder, "--out", model, "--label", "phase").out
    assert "heaviest features:    y, x\n" in told
    assert "s0.csv: 4 segments" in console("segment", folder / "s0.csv", "--model", model).out


def test_tables_may_have_other_endings_than_csv(tmp_path: Path, console: Console) -> None:
    folder, model = write_tables(tmp_path / "t"), tmp_path / "t.model"
    for file in list(folder.iterdir()):
        table = pd.read_csv(file)
        file.unlink()
        if file.stem == "s0":
            table.to_parquet(folder / "s0.parquet")
        else:
            table.to_csv(file.with_suffix(".tsv"), sep="\t", index=False)
    run("fit", folder, "--label", "phase", "--out", model)
    told = console("segment", folder, "--model", model).out
    for name in ("s0.parquet", "s1.tsv", "s2.tsv"):
        assert f"{name}: 4 segments" in told


def test_a_model_that_cannot_be_written_is_kept(tmp_path, console, monkeypatch) -> None:
    folder, out, save = write_tables(tmp_path / "t"), tmp_path / "t.model", ml.Segmenter.save

    def on_a_full_disk(model: ml.Segmenter, path: Path) -> Path:
        if path == out:
            raise OSError("No space left on device")
        return save(model, path)

    monkeypatch.setattr(ml.Segmenter, "save", on_a_full_disk)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    told = console("fit", folder, "--label", "phase", "--out", out, status=1)
    assert "validation loss" in told.out
    assert "Error: No space left" in told.err
    run("info", re.findall(r"kept as (\S+);", told.err)[0])


def test_many_files_and_folders(tmp_path: Path, console: Console) -> None:
    folder, model, out = write_tables(tmp_path / "t"), tmp_path / "t.model", tmp_path / "out"
    fit, segment = ("fit", folder, "--label", "phase", "--out"), ("segment", "--model", model)
    run(*fit, model)
    console.assert_refused("is a folder; add the name of the file to write", *fit, tmp_path)
    words = f"there is no folder {tmp_path / 'none'}; make it first"
    console.assert_refused(words, *fit, tmp_path / "none" / "m")
    (tmp_path / "bad.csv").write_text("x\n1\n")
    told = console(*segment, folder, tmp_path / "bad.csv", "--out", out, status=1)
    assert "1 of 4 files were not segmented, see above" in told.err
    assert [f"s{i}.csv: 4 segments" in told.out for i in range(3)] == [True] * 3
    found = [read_segments(out / f"s{i}.segments.csv")[f"s{i}"] for i in range(3)]
    assert found == [[(20.0 * k, 20.0 * k + 20.0, "abab"[k]) for k in range(4)]] * 3
    # results in the same folder are neither segmented nor learned from
    run(*segment, folder)
    (table := folder / "segments.csv").write_text("recording,start,end\ns0,0,9\n")
    run(*segment, folder)
    table.unlink()
    run(*fit, model)
    words = "would be written to files of the same name"
    console.assert_refused(words, *segment, folder, folder / "s0.csv")
    words = "which looks like a file; every result has the name"
    console.assert_refused(words, *segment, folder / "s0.csv", "--out", tmp_path / "x.csv")
    assert not (tmp_path / "x.csv").exists()
    truth = out / "s0.segments.csv"
    console.assert_refused("has no segments of s1, s2", *segment, folder, "--truth", truth)


def test_tables_that_a_model_cannot_use(tmp_path: Path, console: Console) -> None:
    folder, model = write_tables(tmp_path / "t"), tmp_path / "t.model"
    run("fit", folder, "--out", model, "--label", "phase")
    for name, text, message in [
        ("wrong.csv", "x,y\n1,oops\n", "row 1 of column 'y'; fill or drop such rows."),
        ("lacking.csv", "x\n1\n", "but lacks ['y']"),
        ("short.csv", "x,y\n", "needs at least one row"),
        ("table.py", "", "cannot be read as a table (.csv"),
    ]:
        (folder / name).write_text(text)
        error = console("segment", folder / name, "--model", model, status=1).err
        assert message in error
        assert repr(str(folder / name)) in error


def test_boundaries_without_classes(songs: Path, tmp_path: Path, console: Console) -> None:
    tables = read_segments(songs / "segments.csv")
    blank = {name: [(a, b, "") for a, b, _ in spans] for name, spans in tables.items()}
    save_segments(blank, songs / "cuts.csv")
    model, cache = tmp_path / "cuts.model", ("--cache", songs / "cache")
    told = console("fit", songs, "--out", model, "--segments", "cuts.csv", *cache).out
    assert "none, only boundaries" in told
    assert "100% of 15 held-out ones within 1 s" in told
    assert "5.00 without any boundary" in told
    wave, truth = songs / "new" / "r3.wav", songs / "new" / "truth.csv"
    run("segment", wave, "--model", model, "--out", tmp_path, "--truth", truth, *cache)
    assert (tmp_path / "r3.segments.csv").read_text().startswith("recording,start,end\nr3,0.000,")
    assert (tmp_path / "r3.labels.txt").read_text().splitlines()[1].endswith("\t2")
    shown = console("compare", truth, tmp_path / "r3.segments.csv").out
    assert shown.splitlines()[1].split()[-4:] == ["1.00", "1.00", "1.00", "-"]


def test_table_in_minutes_and_options_of_tables(songs, tmp_path, console) -> None:
    tables = read_segments(songs / "segments.csv")
    minutes = {r: [(a / 3, b / 3, label) for a, b, label in t] for r, t in tables.items()}
    save_segments(minutes, songs / "third.csv")
    fit = ("fit", songs, "--out", tmp_path / "m", "--segments", "third.csv")
    told = console(*fit, "--cache", songs / "cache").err
    assert told.count("gets the label of this last segment: check that times are in seconds") == 3
    words = f"cannot be used with {str(songs)!r}, only with a folder of CSV files"
    console.assert_refused(f"--time, --likelihood {words}", *fit, "--time", "t", "--likelihood", 1)


def test_end_of_a_recording_is_no_segment(songs: Path, model: Path, tmp_path: Path) -> None:
    """A tone with a click 0.05 s before the end, in a row that is not full."""
    signal = np.append(np.sin(np.arange(6 * RATE) / 7), np.zeros(RATE // 10))
    signal[-RATE // 20 :] = np.random.default_rng(0).normal(size=RATE // 20)
    write_wave(tmp_path / "end.wav", 0.3 * signal)
    segmenter = ml.load(model)
    rows = segmenter.extractor.extract(tmp_path / "end.wav")
    assert segmenter.predict_change_points(rows).tolist() == [6, 7]  # the sliver
    ((start, end, _),) = segmenter.segments(tmp_path / "end.wav", cache=tmp_path / "cache")
    assert (start, end) == (0.0, 6.1)


def test_warning_if_no_boundary_is_as_good() -> None:
    random = np.random.default_rng(1)
    labels = [np.arange(40) // size % 2 for size in (7, 11, 17)]  # independent of the features
    X, names = list(random.normal(size=(3, 40, 2))), ["p", "q", "r"]
    data = ml.datasets.LabeledSequences("d", X, labels, names, names, ["x", "y"])
    with pytest.warns(UserWarning, match="no better than without any boundary .3.33.; label more"):
        model = ml.Segmenter(ml.ChangePointMetricLearner(), verbose=False).fit(data)
    found = model.validation_
    assert found.loss >= found.one_segment == pytest.approx(10 / 3)


@pytest.mark.parametrize(
    ("names", "told"),
    [
        ((1, 2, -1, 1), "label '-1' count as unlabeled"),
        (("a", "b", "NaN", "a"), "label 'NaN' count as unlabeled"),
        (("a", "b", " ", "a"), "10 of 40 samples have no label"),
    ],
)
def test_warning_for_labels_that_mean_unlabeled(names: tuple[Any, ...], told: str) -> None:
    X = np.repeat([0.0, 4.0, 9.0, 0.0], 10)[:, None] + 0.1 * np.sin(np.arange(40.0))[:, None]
    data = ml.datasets.LabeledSequences("d", [X], [np.repeat(names, 10)], ["g"], ["s"], ["x"])
    with pytest.warns(UserWarning, match=told):
        fitted = ml.Segmenter(ml.ChangePointMetricLearner(), verbose=False).fit(data)
    assert fitted.labels_ == [str(name) for name in names[:2]]


@pytest.mark.parametrize(
    ("files", "sentence"),
    [
        ({}, "holds neither recordings nor CSV files"),
        ({"a.wav": "x"}, "segments.csv' does not exist; write a table with columns"),
        ({"a.csv": "x,label\n1,a\n", "notes.docx": "x"}, "is a single segment"),
        ({"segments.csv": "recording,start,end\na,0,1\na,1,2\n"}, "has none for ['a']"),
        ({"a.parquet": "x", "notes.docx": "x"}, "a.parquet' cannot be read as a table"),
    ],
    ids=["empty", "no table", "other files", "no recordings", "tables"],
)
def test_folders_that_lack_something(tmp_path, files, sentence, console) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    console.assert_refused(sentence, "fit", tmp_path, "--out", tmp_path / "m.model")


def test_error_for_a_missing_extra_names_the_command(
    songs: Path, model: Path, tmp_path: Path, console: Console, monkeypatch
) -> None:
    monkeypatch.setitem(sys.modules, "soundfile", None)
    segment = ("segment", songs / "new" / "r3.wav", "--model", model, "--cache", tmp_path)
    error = console(*segment, status=1).err
    assert "needs soundfile, which is not installed: pip install " in error
    assert "[audio]'" in error


@pytest.mark.parametrize("command", [cli.fit, cli.segment, cli.compare, cli.info])
def test_every_option_has_help(command: Any, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([command.__name__, "--help"])
    shown = " ".join(capsys.readouterr().out.split())
    for name, parameter in inspect.signature(command, eval_str=True).parameters.items():
        text = get_args(parameter.annotation)[1]
        assert len(text.split()) > 1, name
        assert text in shown


def test_compare_counts(tmp_path: Path, console: Console) -> None:
    a, b = tmp_path / "a.csv", tmp_path / "b.csv"
    save_segments({"r": [(0.0, 10.0, "x"), (10.0, 20.0, "y")], "only": [(0.0, 1.0, "x")]}, a)
    save_segments({"r": [(0.0, 10.0, "x"), (10.0, 15.0, "y"), (15.0, 20.0, "x")]}, b)
    lines = console("compare", a, b).out.splitlines()
    # M has one segment more: ‖M − N‖² = 2 + 3 − 2 · 2
    assert lines[1].split() == ["r", "1.00", "1.00", "0.67", "0.50", "1.00", "75.0%"]
    assert "only" in lines[-1]
    composed, spans = "Zo\u00eb", [(0.0, 10.0, "x"), (10.0, 20.0, "y")]
    save_segments({composed: spans}, tmp_path / "c.csv")
    save_segments({"Zoe\u0308": spans}, b)  # the same name in another Unicode form
    row = console("compare", tmp_path / "c.csv", b).out.splitlines()[1].split()
    assert row[0] == composed
    assert row[-1] == "100.0%"
    save_segments({"r": [(0.0, 10000.0, "x"), (10000.0, 20000.0, "y")]}, b)
    error = console("compare", a, b).err
    assert "'r' ends at 20 s in the truth and at 20000 s in the other table" in error
    save_segments({"r": [(0.0, 1e12, "x")]}, b)
    console.assert_refused("Only times up to 1e7 s can be compared, got 1e+12", "compare", a, b)
    save_segments({"other": [(0.0, 1.0, "x")]}, b)
    console.assert_refused("recording in common", "compare", a, b)


def test_compare_measures_what_indices_measure_of_rows(tmp_path: Path, console: Console) -> None:
    """At 500 rows a second, with segments of 20 ms and names that return."""
    random, files, rows = np.random.default_rng(0), [tmp_path / "a.csv", tmp_path / "b.csv"], []
    for file in files:
        ends = np.append(np.sort(random.choice(4999, 250, replace=False)) + 1, 5000)
        labels = np.array(list("xyz"))[np.cumsum(random.integers(1, 3, 251)) % 3]
        times = (np.append(0, ends) / 500).tolist()
        save_segments({"r": list(zip(times, times[1:], labels.tolist()))}, file)
        rows.append(np.repeat(labels, np.diff(ends, prepend=0)))
    M, N = map(ml.Partition.from_runs, rows)
    head, row, *_, said = console("compare", *files).out.splitlines()
    assert head.split()[-4:] == ["edit", "F1@10", "F1@25", "F1@50"]
    near = np.median(M.sizes) / 10  # a tenth of the median segment of 14 rows
    assert f"within {near / 500:.3g} s" in said
    assert "F1@50: segments of one name" in said
    scores = [ml.indices.segmental_f1(*rows, overlap=share) for share in (0.1, 0.25, 0.5)]
    cells = [float(cell) for cell in row.split()[1:] if cell[-1] != "%"]
    loss, right = ml.indices.partition_loss(M, N, normalized=False), ml.indices.precision_recall
    expected = [*right(M, N, margin=near), ml.indices.edit_score(*rows), *scores]
    assert [*cells[:2], *cells[3:]] == pytest.approx([loss, 250, *expected], abs=5e-3)
    assert 0.0 < scores[2] < 1.0
    shown = console("compare", *files, "--tolerance", "0.1").out
    assert "within 0.1 s" in shown
    precision = right(M, N, margin=50).precision
    assert float(shown.split("\n")[1].split()[4]) == pytest.approx(precision, abs=5e-3)
    unnamed = [(start, end, "") for start, end, _ in read_segments(files[1])["r"]]
    save_segments({"r": unnamed}, files[1])
    assert console("compare", *files).out.splitlines()[1].split()[-1] == "-"


def test_compare_folders(tmp_path: Path, console: Console) -> None:
    """CSV files with a column of labels, and what the command segment wrote for them."""
    for name in ("a", "b"):
        table = pd.DataFrame({"x": range(6), "operator": "Ann", "who": list("xxyyyx")})
        table.to_csv(tmp_path / f"{name}.csv", index=False)
    found = tmp_path / "found"
    found.mkdir()
    console.assert_refused("holds no tables NAME.segments.csv", "compare", tmp_path, found)
    words = "with a label in column 'phase' pass --time or --rate"
    console.assert_refused(words, "compare", tmp_path, found, "--label", "phase")
    blank = tmp_path / "blank"
    blank.mkdir()
    (blank / "a.csv").write_text("x,who\n1,\n2,b\n")
    words = "no value in row 1 of column 'who'; write one."
    console.assert_refused(words, "compare", blank, found, "--label", "who", "--rate", 1)
    for name, end in (("a", 1.0), ("b", 2.0)):
        spans = [(0.0, end, "x"), (end, 2.5, "y"), (2.5, 3.0, "x")]
        save_segments({name: spans}, found / f"{name}.segments.csv")
    told = console("compare", tmp_path, found, "--label", "who", "--rate", "2")
    assert told.err == ""  # only labels are read
    shown = told.out
    first, second = (line.split() for line in shown.splitlines()[1:3])
    assert first == ["a", "0.00", "2.00", "1.00", "1.00", "1.00", "100.0%", *["1.00"] * 4]
    assert second[0] == "b"
    assert float(second[1]) > 0.5
    timed = tmp_path / "timed"
    timed.mkdir()
    for file in tmp_path.glob("*.csv"):
        table = pd.read_csv(file).assign(seconds=np.arange(6) / 2)
        table.to_csv(timed / file.name, index=False)
    shown = console("compare", timed, found, "--label", "who", "--time", "seconds").out
    assert shown.splitlines()[1].split() == first


def test_groups_are_left_out_as_a_whole(tmp_path: Path, console: Console) -> None:
    people, out = tmp_path / "people.csv", tmp_path / "p.model"
    fit = ("fit", write_tables(tmp_path / "t"), "--label", "phase", "--out", out)
    people.write_text("recording;group\ns0;Ann\ns1;Ann\n", encoding="utf-8")
    console.assert_refused("no group of s2", *fit, "--groups", people)
    people.write_text("recording;group\ns0;Ann\ns1;Ann\ns2;Ben\n", encoding="utf-8")
    run(*fit, "--groups", people)
    grouped = ml.load(out).agreement_.scores
    run(*fit)
    # In two units with three penalties each: two groups and all, or three recordings and all.
    assert (len(grouped), len(ml.load(out).agreement_.scores)) == (18, 24)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fit", "NO", "--out", "m"], "is not a folder"),
        (["info", "NO"], "cannot be used: No such file"),
        (["segment", "NO", "--model", "NO"], "cannot be used: No such file"),
        (["compare", "NO", "NO"], "does not exist"),
    ],
)
def test_errors_are_one_sentence_and_status_1(arguments, message, tmp_path, console) -> None:
    error = console(*(a.replace("NO", str(tmp_path / "none")) for a in arguments), status=1).err
    assert error.startswith("Error: ")
    assert message in error
    assert error.count("\n") == 1


def test_wrong_command_line_is_status_2(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, shown in {
        (): "COMMAND",
        ("fit",): "--out MODEL",
        ("segment",): "[--out FOLDER]",
        ("compare",): "TRUTH.csv PREDICTED.csv",
        ("fit", "x", "--out", "y", "--rate", "-1"): "needs a positive number, got -1",
        ("fit", "x", "--out", "y", "--rate", "2,5"): "needs a positive number, got 2,5",
    }.items():
        with pytest.raises(SystemExit) as stopped:
            main(arguments)
        assert stopped.value.code == 2
        assert shown in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "module", "told"),
    [
        (["metriclearn", "info", "x"], "numpy", "Interrupted. No file was left incomplete."),
        (["metriclearn", "info", "m"], "sklearn", "Interrupted. No file was left incomplete."),
        (["experiments.run", "experiment=synthetic"], "numpy", "Interrupted."),
        (["experiments.evaluate", "model=m"], "sklearn", "Interrupted."),
    ],
)
def test_interrupted_while_libraries_are_loaded(command, module, told, tmp_path) -> None:
    """They may make another error of it, as NumPy does."""
    (tmp_path / f"{module}.py").write_text(
        "import os, signal, time\n"
        "try:\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "    time.sleep(60)\n"
        "except KeyboardInterrupt:\n"
        "    raise ImportError('loaded by half')\n"
    )
    paths = [str(tmp_path), str(Path(ml.__file__).parents[1])]
    done = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=paths[1],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        # a shell lets background processes ignore Ctrl-C
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", f"{told}\n")


@pytest.mark.skipif(os.name == "nt", reason="only writing to a pipe tells there")
@pytest.mark.parametrize(
    ("other", "merged", "status", "told"),
    [("a.csv", False, 141, ""), ("no.csv", False, 1, "does not exist"), ("no.csv", True, 141, "")],
)
def test_a_command_whose_output_nobody_reads_ends_quietly(tmp_path, other, merged, status, told):
    """As in ``metriclearn compare truth found | head -1``; errors are told where they are read."""
    (tmp_path / "a.csv").write_text("recording,start,end,label\nr,0,1,x\nr,1,2,y\n")
    paths = {"PYTHONPATH": str(Path(ml.__file__).parents[1])}
    unread, given = os.pipe()
    os.close(unread)
    done = subprocess.run(
        [sys.executable, "-m", "metriclearn", "compare", "a.csv", other],
        cwd=tmp_path,
        env=os.environ | paths | {"PYTHONUNBUFFERED": "1" if merged else ""},
        stdout=given,
        stderr=given if merged else subprocess.PIPE,
        text=True,
    )
    os.close(given)
    assert done.returncode == status
    assert told in (done.stderr or "")
    assert (done.stderr or "").count("\n") == (1 if told else 0)


def test_an_output_of_few_letters_gets_the_others_as_codes(tmp_path, monkeypatch) -> None:
    (file := tmp_path / "a.csv").write_text("recording,start,end,label\nr,0,1,x\nr,1,2,y\n")
    output = io.TextIOWrapper(io.BytesIO(), encoding="cp1252")  # of pipes on Windows
    monkeypatch.setattr(sys, "stdout", output)
    run("compare", file, file)
    assert b"loss: \\u2016M" in output.buffer.getvalue()


def test_page_of_the_console_shows_what_is_printed(tmp_path, monkeypatch, capsys) -> None:
    """By default fit learns all families, and shows its progress on a terminal."""
    page = (Path(__file__).parents[3] / "docs" / "console.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```(\w*)\n(.*?)```", page, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    progress = ""
    for kind, block in blocks:
        if kind == "python":
            exec(compile(block, "console.md", "exec"), {})
        if block.startswith("recording,start,end,label\nm0,"):
            Path("truth.csv").write_text(block)
    for part in "\n".join(block for kind, block in blocks if kind == "console").split("$ ")[1:]:
        command, _, shown = part.partition("\n")
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stderr", Terminal())
            assert main(command.split()[1:]) == 0
            told = sys.stderr.getvalue() + capsys.readouterr().out
        lines = [line for line in re.split("[\r\n]+", told) if line.strip()]
        progress += "\n".join(line for line in lines if "%|" in line)
        printed = [line for line in lines if not re.search(r"%\||^(fit|segment|info): \d+ s", line)]
        for line, expected in zip_longest(printed, filter(None, shown.split("\n"))):
            row = re.match(r" {22} +\d+% +\d+\.\d\d +\d+\.\d  (.+)", line)  # seconds vary
            assert (row[1] in shown) if row else line == expected
    assert re.search(r"Segmenter 100%\|.* to go", progress)


@pytest.mark.parametrize(
    ("origin", "command"),
    [
        ({"url": "file:///a/b%20c", "dir_info": {"editable": True}}, "-e '/a/b c[audio]'"),
        ({"url": "file:///a/b", "dir_info": {}}, "'/a/b[audio]'"),
        (
            {"url": "https://h/m.git", "vcs_info": {"vcs": "git", "commit_id": "12ab"}},
            "'metriclearn[audio] @ git+https://h/m.git@12ab'",
        ),
        ({"url": "https://h/m.whl", "archive_info": {}}, "'metriclearn[audio] @ https://h/m.whl'"),
        (None, "'metriclearn[audio]'"),
    ],
    ids=["checkout", "folder", "git", "file", "index"],
)
def test_extras_are_installed_as_the_package_is(origin, command, tmp_path, monkeypatch) -> None:
    place = tmp_path / "metriclearn-9.9.dist-info"
    place.mkdir()
    (place / "METADATA").write_text("Metadata-Version: 2.1\nName: metriclearn\nVersion: 9.9\n")
    if origin is not None:
        (place / "direct_url.json").write_text(json.dumps(origin))
    monkeypatch.syspath_prepend(tmp_path)
    assert install("audio") == f"pip install {command}"
