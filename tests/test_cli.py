"""The console command, on a folder of small recordings and on tables."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline

import metriclearn as ml
from metriclearn.cli import main
from metriclearn.datasets.annotations import read_segments, save_segments
from tests.features.sounds import RATE, write_wave


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
    assert main(["fit", str(songs), "--out", str(path), "--cache", str(songs / "cache")]) == 0
    return path


def test_two_commands_from_a_folder_to_a_picture(
    songs: Path, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = songs / "out"
    wave = songs / "new" / "r3.wav"
    truth = songs / "new" / "truth.csv"
    arguments = ["--model", str(model), "--out", str(out), "--truth", str(truth)]
    assert main(["segment", str(wave), *arguments, "--cache", str(songs / "cache")]) == 0
    found = read_segments(out / "r3.segments.csv")["r3"]
    true = read_segments(truth)["r3"]
    assert [label for _, _, label in found] == [label for _, _, label in true]
    assert np.abs([a[1] - b[1] for a, b in zip(found[:-1], true[:-1])]).max() <= 1.0
    assert len((out / "r3.labels.txt").read_text().splitlines()) == len(true)
    assert (out / "r3.vtt").read_text().startswith("WEBVTT\n")
    assert (out / "r3.timeline.png").read_bytes()[:4] == b"\x89PNG"
    assert "tone" in capsys.readouterr().out
    assert main(["compare", str(truth), str(out / "r3.segments.csv")]) == 0
    row = capsys.readouterr().out.splitlines()[1].split()
    assert row[0] == "r3"
    assert float(row[1]) < 2.0
    assert row[3] == "1.00"


def test_silent_and_very_short_recordings_are_one_segment(songs: Path, model: Path) -> None:
    new = songs / "new"
    for name, signal in (("silent", np.zeros(3 * RATE)), ("short", np.full(RATE // 4, 0.1))):
        write_wave(new / f"{name}.wav", signal)
        assert main(["segment", str(new / f"{name}.wav"), "--model", str(model)]) == 0
        ((start, end, _),) = read_segments(new / f"{name}.segments.csv")[name]
        assert (start, end) == (0.0, len(signal) / RATE)  # and not the end of the last row
        assert (new / f"{name}.timeline.png").is_file()


def test_info_tells_what_it_is(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", str(model)]) == 0
    text = capsys.readouterr().out
    assert "noise, tone" in text
    assert "3 recordings: r0, r1, r2" in text


@pytest.mark.parametrize(
    ("estimator", "sentence"),
    [
        (ml.ChangePointMetricLearner(), "ChangePointMetricLearner without a metric"),
        (ml.HermiteMoments(2), "HermiteMoments without a metric"),
        (make_pipeline(ml.HermiteMoments(2)), "HermiteMoments without a metric"),
        (ml.RecordingSegmenter(), "RecordingSegmenter without a metric"),
        (
            make_pipeline(
                ml.HermiteMoments(2),
                ml.ChangePointMetricLearner(),
            ).fit([np.arange(8.0)[:, None] ** 2], [[0, 0, 0, 0, 1, 1, 1, 1]]),
            "HermiteMoments → ChangePointMetricLearner of 1 features",
        ),
    ],
    ids=["unfitted", "transformer", "pipeline", "segmenter", "fitted pipeline"],
)
def test_info_on_what_holds_no_metric_is_a_sentence(
    estimator: Any, sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["info", str(ml.save(estimator, tmp_path / "m.npz"))]) == 0
    assert capsys.readouterr().out.startswith(sentence)


def test_tables_of_features(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "tables"
    folder.mkdir()
    random = np.random.default_rng(0)
    for i in range(3):
        labels = np.repeat(["a", "b", "a", "b"], 20)
        X = random.normal(size=(80, 3))
        X[:, 1] += 4.0 * (labels == "b")
        table = pd.DataFrame(X, columns=["x", "y", "z"]).assign(phase=labels)
        table.to_csv(folder / f"s{i}.csv", index=False)
    path = str(tmp_path / "t.model")
    assert main(["fit", str(folder), "--out", path, "--label", "phase", "--rate", "10"]) == 0
    new = str(folder / "s2.csv")
    assert main(["segment", new, "--model", path, "--out", str(tmp_path / "out")]) == 0
    found = read_segments(tmp_path / "out" / "s2.segments.csv")["s2"]
    assert [(round(a, 1), round(b, 1), label) for a, b, label in found] == [
        (0.0, 2.0, "a"),
        (2.0, 4.0, "b"),
        (4.0, 6.0, "a"),
        (6.0, 8.0, "b"),
    ]
    for name, text, message in [
        ("wrong.csv", "x,y,z\n1,2,oops\n", "row 1 of column 'z'"),
        ("lacking.csv", "x,y\n1,2\n", "but it lacks ['z']"),
        ("short.csv", "x,y,z\n", "but it lacks rows"),
        ("table.py", "", "needs to be a CSV file: the model was made from tables"),
    ]:
        (folder / name).write_text(text)
        assert main(["segment", str(folder / name), "--model", path]) == 1
        error = capsys.readouterr().err
        assert message in error
        assert repr(str(folder / name)) in error


def test_compare_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b = tmp_path / "a.csv", tmp_path / "b.csv"
    save_segments({"r": [(0.0, 10.0, "x"), (10.0, 20.0, "y")], "only": [(0.0, 1.0, "x")]}, a)
    save_segments({"r": [(0.0, 10.0, "x"), (10.0, 15.0, "y"), (15.0, 20.0, "x")]}, b)
    assert main(["compare", str(a), str(b)]) == 0
    lines = capsys.readouterr().out.splitlines()
    # M has one segment more: ‖M − N‖² = 2 + 3 − 2 · 2
    assert lines[1].split() == ["r", "1.00", "1.00", "0.67", "0.50", "1.00", "75.0%"]
    assert "only" in lines[-1]
    save_segments({"other": [(0.0, 1.0, "x")]}, b)
    assert main(["compare", str(a), str(b)]) == 1
    assert "recording in common" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fit", "NO", "--out", "m"], "is no folder"),
        (["info", "NO"], "does not exist"),
        (["segment", "NO", "--model", "NO"], "does not exist"),
        (["compare", "NO", "NO"], "does not exist"),
    ],
)
def test_errors_are_one_sentence_and_status_1(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([a.replace("NO", str(tmp_path / "none")) for a in arguments]) == 1
    error = capsys.readouterr().err
    assert error.startswith("Error: ")
    assert message in error
    assert error.count("\n") == 1


def test_damaged_recording_is_one_sentence(
    songs: Path, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    junk = songs / "new" / "junk.wav"
    junk.write_bytes(b"junk" * 100)
    assert main(["segment", str(junk), "--model", str(model)]) == 1
    assert "cannot be read as sound" in capsys.readouterr().err


def test_wrong_command_line_is_status_2(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, shown in {
        (): "COMMAND",
        ("fit",): "--out MODEL",
        ("segment",): "[--out FOLDER]",
        ("compare",): "TRUTH.csv PREDICTED.csv",
        ("fit", "x", "--out", "y", "--rate", "-1"): "needs a positive number, got -1",
    }.items():
        with pytest.raises(SystemExit) as stopped:
            main(arguments)
        assert stopped.value.code == 2
        assert shown in capsys.readouterr().err


def test_help_has_examples_and_is_quick() -> None:
    command = [sys.executable, "-m", "metriclearn.cli", "segment", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "metriclearn segment new.wav --model songs.model" in done.stdout
