"""Segments while a recording is still running: the same as those of the whole recording."""

import copy
import io
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import metriclearn
from metriclearn import ChangePointMetricLearner, Segmenter
from metriclearn.apps.console.commands import main
from metriclearn.apps.console.live import (
    RowClock,
    live_segments,
    pulse_code,
    sound_rows,
    table_rows,
)
from metriclearn.datasets import LabeledSequences, read_features, read_segments
from tests.processes import PROCESSES, run_console

NAMES = ("idle", "wash", "idle", "spin", "wash")


def machines(n_recordings: int, seed: int = 0) -> LabeledSequences:
    """Recordings of a machine with three states, two of which differ in each feature."""
    rng = np.random.default_rng(seed)
    sequences, labels = [], []
    for _ in range(n_recordings):
        state = np.repeat(NAMES, rng.integers(15, 30, len(NAMES)))
        X = rng.normal(size=(len(state), 3))
        X[:, 0] += 5.0 * (state == "spin")
        X[:, 1] += 5.0 * (state != "idle")
        sequences.append(X)
        labels.append(state)
    names = [f"m{i}" for i in range(n_recordings)]
    return LabeledSequences(
        name="machines",
        sequences=sequences,
        labels=labels,
        groups=names,
        names=names,
        feature_names=["power", "water", "noise"],
    )


@pytest.fixture(scope="module", params=[1, 4])
def model(request) -> Segmenter:
    """Of one recording, a single learner; of several, a consensus."""
    learner = ChangePointMetricLearner(verbose=False)
    return Segmenter(learner, rate=2.0, n_folds=4, verbose=False).fit(machines(request.param))


def expected(model: Segmenter, X: np.ndarray) -> list[tuple[float, float, str]]:
    """Segments by the model that follows the stream, of all rows at once."""
    return model.follower().segments(X)


def test_times_of_new_tables_are_their_own(model, tmp_path, monkeypatch, capsys) -> None:
    """Files and streams that last as long have equal segments, whatever their rate and holes."""
    single = copy.copy(model)
    single.time = "t"
    path = metriclearn.save(single, tmp_path / "machines.model")
    X = machines(1, 7).sequences[0]
    T, file = len(X), tmp_path / "new.csv"
    cuts = np.array([0, *(int(2 * end) for _, end, _ in single.segments(X))])
    hole = np.arange(T) / 2 + 1000 * (np.arange(T) >= cuts[2])
    for times, rows, ends, sentence in (
        (np.arange(T) / 2, 1, cuts / 2, ""),
        (hole, 1, np.append(hole, hole[-1] + 0.5)[cuts], ""),
        (np.arange(10 * T) / 20, 10, cuts / 2, "20 rows per second and the model 2, so rows are"),
        (np.arange(T), 1, None, "1 rows per second, but the model needs 2"),
        (None, 1, cuts / 2, "has no column 't' of times, so its rows count as 0.5 s each"),
    ):
        table = pd.DataFrame(np.repeat(X, rows, axis=0), columns=single.feature_names_in_)
        stamps = None if times is None else pd.Timestamp("2026-01-01") + pd.to_timedelta(times, "s")
        (table if times is None else table.assign(t=stamps)).to_csv(file, index=False)
        for given in (str(file), "-"):
            monkeypatch.setattr(sys, "stdin", io.StringIO(file.read_text()))
            assert main(["segment", given, "--model", str(path)]) == (ends is None)
            told = capsys.readouterr()
            assert sentence in told.err
            if ends is None:
                continue
            if given == "-":
                lines = [json.loads(line) for line in told.out.splitlines()]
                found = [(line["start"], line["end"], line["label"]) for line in lines]
            else:
                found = read_segments(tmp_path / "new.segments.csv")["new"]
            np.testing.assert_allclose([end for _, end, _ in found], ends[1:], atol=1e-6)
            np.testing.assert_allclose([start for start, *_ in found], ends[:-1], atol=1e-6)
            assert [label for *_, label in found] == list(NAMES)


@pytest.mark.parametrize("kind", ["growing file", "sound"])
def test_pipes_tell_segments_while_the_input_goes_on(kind, tmp_path) -> None:
    """As tail -f or arecord write: the first segment comes before the end of the input."""
    rng, arguments = np.random.default_rng(0), []
    if kind == "sound":
        pytest.importorskip("librosa")
        from metriclearn.features.media.audio import AudioFeatures

        extractor = AudioFeatures(2.0, sampling_rate=8000)
        levels = np.repeat([300.0, 9000.0] * 5, 8 * 8000)
        sound = (levels * rng.normal(size=len(levels)) / 3).astype("<i2")
        X = extractor.extract_signal(sound.astype(np.float32) / 32768)
        labels = np.repeat(["calm", "loud"] * 5, 16)
        rows = LabeledSequences(
            name="sounds",
            sequences=[X],
            labels=[labels],
            groups=["one"],
            names=["one"],
            feature_names=extractor.get_feature_names_out().tolist(),
        )
        learner = ChangePointMetricLearner(verbose=False)
        model = Segmenter(learner, extractor=extractor, verbose=False).fit(rows)
        data, arguments = sound.tobytes(), ["--rate", "8000"]
        expected = [(8.0 * i, 8.0 * (i + 1), label) for i, label in enumerate(labels[::16])]
    else:
        learner = ChangePointMetricLearner(verbose=False)
        model = Segmenter(learner, rate=2.0, verbose=False).fit(machines(1))
        X = machines(1, 7).sequences[0]
        lines = [",".join(map(repr, row)) for row in X.tolist()]
        data = ("power,water,noise\n" + "\n".join(lines) + "\n").encode()
        expected = model.segments(X)
    path = metriclearn.save(model, tmp_path / "pipe.model")
    command = ["segment", "-", "--model", str(path), *arguments]
    half = len(data) * 7 // 10 + 1  # in the middle of a number
    given, growing = PROCESSES.Pipe(duplex=False)
    output, printed = PROCESSES.Pipe(duplex=False)
    console = (command, printed, given)
    process = PROCESSES.Process(target=run_console, args=console, daemon=True)
    process.start()
    given.close()
    printed.close()
    with (
        open(growing.fileno(), "wb", 0, closefd=False) as pipe,
        open(output.fileno(), closefd=False) as lines,
    ):
        pipe.write(data[:half])
        assert output.poll(60), "no segment before the end of the input"
        first = json.loads(lines.readline())
        pipe.write(data[half:])
        growing.close()
        others = [json.loads(line) for line in lines]
    process.join()
    assert process.exitcode == 0
    assert [tuple(line.values()) for line in (first, *others)] == expected


@pytest.mark.parametrize(
    ("text", "arguments", "message"),
    [
        ("power,noise\n1,2\n", [], "needs the column 'water'"),
        ("1,2,3\n1,x,3\n", [], "needs 3 numbers in line 2, and at most 3 cells, got"),
        ("1,2,3\n1,1_0,3\n", [], "needs 3 numbers in line 2, and at most 3 cells, got"),
        ("0.1,1,2,3\n", [], "needs 3 columns, or names of columns in its first line, got 4"),
        ("1\n", [], "needs 3 columns, or names of columns in its first line, got 1 number"),
        ("1_0,2,3\n1,2,3\n", [], "needs the column 'power', got ['1_0', '2', '3']"),
        ("1,2,3\n1,2,3,4\n", [], "needs 3 numbers in line 2, and at most 3 cells, got"),
        ("power,noise,water, water\n1,2,3,4\n", [], "distinct column names, but repeats ['water']"),
        ("1,2,3\n", ["--rate", "8000"], "needs lines of CSV without --rate, got --rate 8000"),
        ("", [], "needs rows with values, but has none"),
        ("", ["--delay", "3"], "needs --delay 8 or more seconds, which are 16 rows, got 3."),
        ("", ["--out", "found"], "leave out --out, --formats, --truth and --cache"),
    ],
)
def test_input_that_cannot_be_used(
    text, arguments, message, model, tmp_path, monkeypatch, capsys
) -> None:
    path = metriclearn.save(model, tmp_path / "machines.model")
    monkeypatch.setattr(sys, "stdin", io.StringIO(text))
    assert main(["segment", "-", "--model", str(path), *arguments]) == 1
    assert message in capsys.readouterr().err


def test_options_of_streams_are_refused_for_files(model, tmp_path, capsys) -> None:
    path = str(metriclearn.save(model, tmp_path / "machines.model"))
    for given in (["x.csv", "--delay", "3"], ["-", "x.csv"]):
        assert main(["segment", *given, "--model", path]) == 1
        assert "are for streams; pass - as the only FILE" in capsys.readouterr().err


def test_any_segmenter_with_a_stream() -> None:
    """Without a rate times are rows, without labels segments do not wait for the next one."""
    data = machines(3)
    learner = ChangePointMetricLearner(verbose=False).fit(data.sequences, data.labels)
    X = data.sequences[0]
    ends = learner.predict_change_points(X).tolist()
    rows = table_rows(
        io.StringIO("\n".join(",".join(map(str, x)) for x in X)), ["0", "1", "2"], RowClock(1.0)
    )
    found = list(live_segments(learner, rows, max_delay=5000))
    assert found == [(a, b, "") for a, b in zip([0, *ends], ends)]


TABLES = {
    "truth values": "t,wet,label\n0.5,TRUE,a\n1,FALSE,b\n",
    "a column without a name": ",t,label\n0,0.5,a\n1,1.5,b\n",
    "missing values": "t,u,label\n0.5,,a\n1,NA,b\n2,3,b\n",
    "short lines": "t,u,label\n0.5\n1,2,b\n2,\n",
    "lines of empty cells": "t,u,label\n0.5,1,a\n,,\n \n1,2,b\n,, \n",
    "truth values beside decimal commas": "t;wet;label\n0,5;TRUE;a\n1;FALSE;b\n",
    "truth values and others": "t;wet;label\n0,5;TRUE;a\n1;2,5;b\n",
}


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_streams_read_the_rows_of_files(table: str, tmp_path: Path) -> None:
    file = tmp_path / "new.csv"
    file.write_bytes(table.encode())
    frame = read_features(file)
    stream = io.TextIOWrapper(io.BytesIO(table.encode()), encoding="utf-8")
    rows = np.vstack(list(table_rows(stream, list(frame.columns), RowClock(1.0))))
    np.testing.assert_array_equal(rows, frame.to_numpy())


@pytest.mark.parametrize(("rate", "deltas"), [(1.0, 1), (4.0, 2), (2.5, 0)])
def test_sound(rate, deltas) -> None:
    """Raw sound in chunks of any size has the features of the whole recording."""
    pytest.importorskip("librosa")
    from metriclearn.features.media.audio import AudioFeatures

    extractor = AudioFeatures(rate, sampling_rate=8000, deltas=deltas, flatness=True)
    rng = np.random.default_rng(0)
    for seconds in (0.1, 3.3, 31.7):
        sound = np.round(3000 * rng.normal(size=int(8000 * seconds))).astype("<i2")
        data = io.BytesIO(sound.tobytes())
        sizes = iter(rng.integers(1, 9000, 10_000).tolist())
        pipe = SimpleNamespace(read1=lambda _: data.read(next(sizes)))  # noqa: B023
        rows = np.vstack(list(sound_rows(extractor, pulse_code(pipe))))  # type: ignore[arg-type]
        whole = extractor.extract_signal(sound.astype(np.float32) / 32768)
        assert rows.shape == whole.shape
        np.testing.assert_allclose(rows, whole, rtol=1e-3, atol=1e-2)
