"""Tables as loggers write them, in the console: missing values, equal times, several annotators."""

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import metriclearn as ml
from metriclearn.apps.console.commands import main
from metriclearn.apps.console.missing import filled, filled_stream
from metriclearn.apps.label_page.server import open_page
from metriclearn.datasets import read_segments, save_segments
from tests.apps.serving import needs_label

NAMES = ("idle", "wash", "idle", "spin", "wash")
FIT = ("--label", "state", "--time", "t", "--quick")


def machine(seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    """A table with 2 rows per second, and the ends of its segments in seconds."""
    random = np.random.default_rng(seed)
    sizes = random.integers(15, 30, len(NAMES))
    state = np.repeat(NAMES, sizes)
    table = pd.DataFrame(random.normal(size=(len(state), 2)), columns=["power", "water"])
    table["power"] += 9.0 * (state == "spin")
    table["water"] += 9.0 * (state != "idle")
    table.insert(0, "t", np.arange(len(state)) / 2)
    return table.assign(state=state), np.cumsum(sizes) / 2


def holes(table: pd.DataFrame, at: int = 4) -> pd.DataFrame:
    """A long gap of one channel, a row without values, and a single value that is missing."""
    broken = table.copy()
    broken.loc[at : at + 5, "power"] = np.nan
    broken.loc[30, ["power", "water"]] = np.nan
    broken.loc[40, "water"] = np.nan
    return broken


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "tables"
    place.mkdir()
    for i in range(3):
        machine(i)[0].to_csv(place / f"m{i}.csv", index=False)
    return place


@pytest.fixture
def told(capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    """Run a command, and return what it has printed."""

    def run(*arguments: Any, status: int = 0) -> Any:
        capsys.readouterr()
        assert main([*map(str, arguments)]) == status, capsys.readouterr().err
        return capsys.readouterr()

    return run


def spans(told: Any, monkeypatch: Any, file: Path, model: Path, *options: Any) -> Any:
    """Segments of a file; those of the same bytes as a stream are equal."""
    said = told("segment", file, "--model", model, *options)
    found = read_segments(file.with_name(f"{file.stem}.segments.csv"))[file.stem]
    monkeypatch.setattr(sys, "stdin", io.StringIO(file.read_text()))
    streamed = told("segment", "-", "--model", model, *options)
    lines = [json.loads(line) for line in streamed.out.splitlines()]
    assert [(one["start"], one["end"], one["label"]) for one in lines] == found
    return found, said.err, streamed.err


@pytest.mark.parametrize("is_broken", [False, True], ids=["complete", "with gaps"])
def test_missing_values_are_left_out_or_filled(is_broken, folder, told, monkeypatch) -> None:
    """Whether the training data have gaps or not, files and streams with gaps are segmented."""
    if is_broken:
        for i in range(3):
            holes(machine(i)[0], 5 + i).to_csv(folder / f"m{i}.csv", index=False)
    model, new = folder / "a.model", folder.parent / "new.csv"
    said = told("fit", folder, *FIT, "--out", model).err
    assert (
        "24 of " in said and "missing values, which are interpolated, or left" in said
    ) == is_broken
    table, ends = machine(7)
    holes(table).drop(columns="state").to_csv(new, index=False)
    for fill, note in (
        (None, f"8 of {len(table)} rows"),
        (0.5, f"6 of {len(table)} rows"),
        (9, ""),
    ):
        options = [] if fill is None else ["--fill", fill]
        found, err, live = spans(told, monkeypatch, new, model, *options)
        assert [label for *_, label in found] == list(NAMES)
        np.testing.assert_allclose([end for _, end, _ in found], ends, atol=0.51)
        assert ("missing" in err) == ("missing" in live) == bool(note)
        assert note in err
        assert note in live
    filled_model = folder / "b.model"
    said = told("fit", folder, *FIT, "--out", filled_model, "--fill", 3).err
    assert "missing" not in said
    monkeypatch.setattr(sys, "stdin", io.StringIO("t,power,water\n0,1,\n0.5,,2\n"))
    error = told("segment", "-", "--model", model, status=1).err
    assert "needs rows with values, but has none" in error
    new.write_text("t,power,water\n0,1,\n0.5,,2\n")
    error = told("segment", new, "--model", model, "--fill", 0.1, status=1).err
    assert f"'{new}' needs a row without a missing value, but has none; interpolate" in error
    assert "2 of 2 rows" in told("segment", new, "--model", model).err
    new.write_text("t,power,water\n0,1,\n0.5,3,\n")
    error = told("segment", new, "--model", model, status=1).err
    assert f"'{new}' needs a number in every column, but column 'water' has none" in error
    table.loc[60:, "water"], table.loc[55:64, "state"] = np.nan, "?"
    table.to_csv(folder / "m1.csv", index=False)
    for options, what in (
        ([], "value in every column"),
        (["--fill", 0.1], "row without a missing"),
    ):
        said = told("fit", folder, *FIT, "--out", filled_model, "--unknown", "?", *options).err
        assert f"m1, or a stretch of it, does not have a {what}" in said


def test_a_view_that_fills_gaps_follows_streams(tmp_path, told, monkeypatch) -> None:
    """Segmenter(view=Fill()) fills the gaps of files and streams."""
    tables = [holes(machine(i)[0]) for i in range(3)]
    X, y = [one[["power", "water"]] for one in tables], [one["state"].to_numpy() for one in tables]
    learner = ml.ChangePointMetricLearner(verbose=False)
    for longest in (None, 6):
        view = ml.views.Fill(longest)
        model = ml.Segmenter(learner, view=view, rate=2.0, time="t", verbose=False).fit(X, y)
        file, new = model.save(tmp_path / "fill.model"), tmp_path / "new.csv"
        table, ends = machine(7)
        holes(table).drop(columns="state").to_csv(new, index=False)
        found, err, live = spans(told, monkeypatch, new, file)
        np.testing.assert_allclose([end for _, end, _ in found], ends, atol=0.51)
        assert "missing" not in err + live


def test_short_gaps_are_filled_in_streams_as_in_files() -> None:
    random = np.random.default_rng(0)
    for _ in range(25):
        X = random.normal(size=(random.integers(1, 40), 2))
        X[random.random(X.shape) < random.random()] = np.nan
        for longest in (0, 1, 3, np.inf):
            whole, parts = filled(X, longest), np.array_split(X, random.integers(1, 9))
            np.testing.assert_array_equal(np.vstack(list(filled_stream(parts, longest))), whole)
            runs = "".join("?" if gap else "." for gap in np.isnan(whole[:, 0])).split(".")
            assert all(len(run) > longest for run in runs if run) or np.isnan(X[:, 0]).all()


def test_rows_of_one_time(folder: Path, told: Any, monkeypatch: Any) -> None:
    """A logger writes each row twice, the second time with another water."""
    for file in [*folder.iterdir()]:
        table = pd.read_csv(file)
        again = table.assign(water=table["water"] + 2.0)
        pd.concat([table, again]).sort_values("t", kind="stable").to_csv(file, index=False)
    model = folder / "a.model"
    error = told("fit", folder, *FIT, "--out", model, status=1).err
    remedy = "drop one of them, or keep one row for both (duplicates=…, --duplicates)"
    assert f"rows 1 and 2 both have 0.0; {remedy}" in error
    for how in ("mean", "first"):
        said = told("fit", folder, *FIT, "--out", model, "--duplicates", how)
        assert "tables, 2 columns, 2 rows per second" in said.out
        table, ends = machine(0)
        new = folder.parent / "new.csv"
        pd.read_csv(folder / "m0.csv").drop(columns="state").to_csv(new, index=False)
        found, *_ = spans(told, monkeypatch, new, model, "--duplicates", how)
        np.testing.assert_allclose([end for _, end, _ in found], ends, atol=0.51)
        save_segments({"m0": found}, folder.parent / "m0.segments.csv")
        compared = ("compare", folder, folder.parent / "m0.segments.csv", *FIT[:4])
        assert told(*compared, "--duplicates", how).out.splitlines()[1].split()[-5] == "100.0%"
    assert "both have 0.0" in told(*compared, status=1).err


def test_a_row_counts_as_a_second_without_times(folder: Path, told: Any) -> None:
    """The column of times is no feature then, nor if times recur; a note says how to use it."""
    note = "Neither --time nor --rate is given, so a row counts as a second; name the column of"
    for file in folder.iterdir():
        table = pd.read_csv(file)
        table.assign(t=table["t"] // 1).to_csv(file, index=False)
    said = told("fit", folder, "--label", "state", "--quick", "--out", folder / "m")
    assert note in said.err
    assert "Columns of times are no features and are left out: t" in said.err
    assert "tables, 2 columns" in said.out
    rate = ("--rate", 2, "--ignore", "t")
    said = told("fit", folder, "--label", "state", "--quick", "--out", folder / "m", *rate)
    assert "Neither" not in said.err
    assert "are no features" not in said.err


def test_the_label_page_begins_with_a_column(folder: Path, told: Any) -> None:
    """Unknown rows have no label there; values that are missing are interpolated, with a note."""
    needs_label()
    table, ends = machine(0)
    table.loc[: int(2 * ends[0]) - 1, "state"] = "?"
    holes(table).to_csv(folder / "m0.csv", index=False)
    options = {"time": "t", "label": "state", "unknown": "?"}
    with pytest.warns(UserWarning, match="8 of .* rows have missing values, which .* in m0.csv; "):
        page = open_page(folder, **options)
    mine = page.project.annotations
    assert page.project.labels == ["idle", "spin", "wash"]
    assert [one.label for one in mine["m1"] if one.kind == "segment"] == list(NAMES)
    named = [one for one in mine["m0"] if one.kind == "segment"]
    assert [one.label for one in named] == list(NAMES[1:])
    assert named[0].start == ends[0]
    assert ends[0] not in [one.start for one in mine["m0"] if one.kind == "change"]
    assert page.recordings["m0"].columns == ["power", "water"]
    assert np.isfinite(page.recordings["m0"].features).all()
    page.project.change(0, {"m2": mine["m2"]}, page.project.labels)
    with (
        pytest.warns(UserWarning, match="already has labels in metriclearn.json, so those of the"),
        pytest.warns(UserWarning, match="missing values, which the page interpolates"),
    ):
        assert open_page(folder, **options).project.annotations == mine


def test_one_of_several_annotators(folder: Path, told: Any) -> None:
    """Without --annotator, an error lists them; with it, the table is that of one person."""
    rows = ["recording,start,end,label,Annotator"]
    for i in range(3):
        _, ends = machine(i)
        for who, shift in (("Ann", 0.0), ("Zo\u00eb", 3.0)):
            times = [0.0, *(ends[:-1] + shift), ends[-1]]
            rows += [f"m{i},{a},{b},{c},{who}" for a, b, c in zip(times, times[1:], NAMES)]
    (folder / "segments.csv").write_text("\n".join(rows), encoding="utf-8")
    fit = ("fit", folder, "--features", "tables", "--time", "t", "--quick", "--out", folder / "m")
    fit = (*fit, "--ignore", "state")
    error = told(*fit, status=1).err
    listed = "has segments of several annotators, Ann, Zo\u00eb; keep those of one in the file"
    assert f"{listed}, or choose one (annotator=…, --annotator NAME)." in error
    error = told(*fit, "--annotator", "Bob", status=1).err
    assert "no segments of the annotator 'Bob', only of Ann, Zo\u00eb; choose another" in error
    assert "idle, spin, wash" in told(*fit, "--annotator", "Ann").out
    truth = {f"m{i}": list(zip([0.0, *machine(i)[1]], machine(i)[1], NAMES)) for i in range(3)}
    save_segments(truth, folder.parent / "ann.csv")
    compare = ("compare", folder / "segments.csv", folder.parent / "ann.csv")
    assert told(*compare, "--annotator", "Ann").out.splitlines()[1].split()[-5] == "100.0%"
    shown = told(*compare, "--annotator", "Zoe\u0308").out  # the same name in another form
    assert float(shown.splitlines()[1].split()[-5].rstrip("%")) < 95
