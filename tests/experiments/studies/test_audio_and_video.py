"""Table 1 on generated videos and shows, from encoding to the table."""

import os
import re
from pathlib import Path

import numpy as np
import pytest

from tests.experiments.command import DATA_REASON, configuration, results_of
from tests.features.sounds import RATE, write_wave

pytest.importorskip("av")
pytest.importorskip("torch")
pytest.importorskip("librosa")

from experiments.data.assembled_shows import PARTS, build_shows
from experiments.data.drawn_scenes import Shot, draw_shots
from experiments.data.generated_videos import build_videos
from experiments.studies.audio_and_video import (
    AudioAndVideo,
    folder_cases,
    held_out_cases,
    unseen,
)
from metriclearn.datasets import load_recordings
from metriclearn.datasets.annotations import read_segments, save_segments
from metriclearn.features.media.audio import AudioFeatures
from metriclearn.features.media.decoding import audio_blocks, duration, video_frames

DATA = os.environ.get("METRICLEARN_DATA")
needs_data = pytest.mark.skipif(DATA is None, reason=DATA_REASON)


def test_table_of_a_tiny_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("METRICLEARN_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "out"
    options = [
        "experiment=video", "tiny=true", "n_jobs=1", f"root.folder={tmp_path / 'videos'}",
        "~streams.both", "~methods.trace", "~methods.towards_pca", "~methods.towards_rca",
        "~methods.whitened_full", "~methods.rca",
    ]  # fmt: skip
    results = results_of(folder, *options)
    rows = {
        (r["table"], r["method"], r["column"]): r
        for r in results["rows"]
        if r["measure"] == "partition_loss"
    }
    assert [table["name"] for table in results["tables"] if table["main"]] == ["audio", "video"]
    of_field = [t["measure"] for t in results["tables"] if t["name"] == "video" and not t["main"]]
    assert of_field == ["segmental_f1@10", "segmental_f1@25", "segmental_f1@50", "edit_score"]
    for row in results["rows"]:  # what equals the truth has all of it
        if (
            row["measure"] in of_field
            and rows[row["table"], row["method"], row["column"]]["mean"] == 0
        ):
            assert row["mean"] == 1.0
    assert rows["audio", "ours", "estimated"]["units"] == ["test0"]
    ours, plain = (rows["video", name, "estimated"]["mean"] for name in ("ours", "one-parameter"))
    assert ours < plain
    audio = {m: r["values"] for (t, m, c), r in rows.items() if (t, c) == ("audio", "estimated")}
    parts = [values for method, values in audio.items() if method.startswith("ours/")]
    assert rows["audio", "ours/one model", "estimated"]["values"] in parts
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "Metric learned by ours/one model, audio" in page
    (drawn,) = folder.glob("*-weights-ours-one-model-video.svg")
    assert not re.search("<!-- feature [0-9]", drawn.read_text())  # features have their names
    assert (folder / "video" / "model.npz").is_file()
    finished = {file: file.stat().st_mtime_ns for file in (folder / "finished").iterdir()}
    results_of(folder, *options, "pictures=false")  # what is there already is not computed again
    assert finished == {file: file.stat().st_mtime_ns for file in (folder / "finished").iterdir()}


def test_training_and_validation_are_held_out_for_each_other(tmp_path: Path) -> None:
    pytest.importorskip("soundfile")
    for part, count in (("train", 2), ("validation", 1), ("test", 1)):
        tables = {}
        (tmp_path / part).mkdir()
        for i in range(count):
            noise = np.random.default_rng(i).normal(size=RATE * 4)
            write_wave(tmp_path / part / f"{part}{i}.wav", noise)
            tables[f"{part}{i}"] = [(0.0, 2.0, "a"), (2.0, 4.0, "b")]
        save_segments(tables, tmp_path / part / "segments.csv")
    (case,) = folder_cases(tmp_path, AudioFeatures(), 3)
    assert case.train.names == ["train0", "train1", "validation0"]
    assert case.test.names == ["test0"]
    halves = [["train0", "train1"], ["validation0"]]
    assert [[a.names, b.names] for a, b in case.folds] == [halves, halves[::-1]]
    drawn = folder_cases([tmp_path, tmp_path], AudioFeatures(), 3)
    assert [case.name for case in drawn] == ["draw 1", "draw 2"]
    assert [case.test.groups for case in drawn] == [["draw 1, test0"], ["draw 2, test0"]]


def test_recordings_of_a_folder_of_their_own_are_for_test(tmp_path: Path) -> None:
    pytest.importorskip("soundfile")
    parts = {}
    for part, seconds in (("known", [2.0, 1.0, 3.0]), ("songs", [2.5])):
        (tmp_path / part).mkdir()
        for i in range(len(seconds)):
            noise = np.random.default_rng([i, len(seconds)]).normal(size=RATE * 4)
            write_wave(tmp_path / part / f"{part}{i}.wav", noise)
        ends = {f"{part}{i}": end for i, end in enumerate(seconds)}
        spans = {name: [(0.0, end, "a"), (end, 4.0, "b")] for name, end in ends.items()}
        save_segments(spans, tmp_path / part / "segments.csv")
        parts[part] = load_recordings(tmp_path / part, AudioFeatures())
    for root in (tmp_path, tmp_path / "songs"):  # a folder for each stream, or of this one
        new = unseen(root, "songs", AudioFeatures())
        assert new is not None
        (case,) = held_out_cases(parts["known"], 3, 0, standardize=True, unseen=new)
        assert case.train.names == ["known0", "known1", "known2"]
        assert case.test.names == ["songs0"]
        assert len(case.folds) == 3
    assert unseen(None, "songs", AudioFeatures()) is None
    with pytest.raises(ValueError, match="but 3 of 3 are the same in both, such as 'known0'; name"):
        held_out_cases(parts["known"], 3, 0, unseen=parts["known"])


def test_streams_are_the_folders_of_the_user(tmp_path: Path) -> None:
    pytest.importorskip("soundfile")
    place = tmp_path / "songs"
    place.mkdir()
    for i in range(3):
        write_wave(place / f"mine{i}.wav", np.random.default_rng(i).normal(size=RATE * 4))
    spans = {f"mine{i}": [(0.0, i + 1.0, "a"), (i + 1.0, 4.0, "b")] for i in range(3)}
    save_segments(spans, place / "segments.csv")
    options = ("experiment=audio", "n_folds=2")
    cases = AudioAndVideo(configuration(*options, f"dataset.root={tmp_path}")).cases()
    assert {case.table for case in cases} == {"songs"}  # meetings have no folder there
    assert sorted(case.test.names[0] for case in cases) == ["mine0", "mine1", "mine2"]
    assert {len(case.train) for case in cases} == {2}
    # recordings of a folder without streams are those of the only stream
    only = ("~streams.songs", f"dataset.root={place}")
    cases = AudioAndVideo(configuration(*options, *only)).cases()
    assert {case.table for case in cases} == {"meetings"}
    both = AudioAndVideo(configuration(*options, f"dataset.test_root={place}"))
    with pytest.raises(ValueError, match=r"dataset.test_root=.* folders named songs and meetings"):
        both.cases()


def test_videos_are_as_long_as_their_segments_and_the_same_for_a_seed(tmp_path: Path) -> None:
    first, second = (build_videos(tmp_path / n, 3, 20.0, (1, 0, 0)) for n in ("a", "b"))
    spans = read_segments(first / "train" / "segments.csv")
    assert spans == read_segments(second / "train" / "segments.csv")
    path = first / "train" / "train0.mp4"
    assert spans["train0"][-1][1] == 20.0
    assert duration(path) == pytest.approx(20.0, abs=0.3)
    assert len(list(video_frames(path, 1.0, (8, 8)))) == 20
    assert sum(map(len, audio_blocks(path))) == pytest.approx(20 * 16000, abs=4096)
    changed = path.stat().st_mtime_ns
    build_videos(first, 3, 20.0, (1, 0, 0))
    assert path.stat().st_mtime_ns == changed  # built once


def test_scenes_differ_in_direction() -> None:
    steps = {}
    for kind in ("studio", "stage"):
        pictures = list(draw_shots([Shot(kind, 1)] * 12, np.random.default_rng(0)))
        gray = np.mean(pictures, axis=3)
        steps[kind] = [np.abs(np.diff(gray, axis=a)).mean() for a in (1, 2)]
    assert steps["studio"][0] > 1.1 * steps["studio"][1]  # changes from row to row
    assert steps["stage"][1] > 1.1 * steps["stage"][0]


def test_sources_of_shows_are_disjoint() -> None:
    sources = [{*part.songs, *(name for _, name in part.speech)} for part in PARTS.values()]
    assert sum(map(len, sources)) == len(set.union(*sources))


@needs_data
def test_show_alternates_in_passages_of_5_to_25_seconds(tmp_path: Path) -> None:
    folder = build_shows(tmp_path, 1, 0.6, (0, 0, 1))
    spans = read_segments(folder / "test" / "segments.csv")["test0"]
    labels = [label for _, _, label in spans]
    assert all(a != b for a, b in zip(labels, labels[1:]))  # noqa: RUF007
    lengths = np.array([b - a for a, b, _ in spans])
    assert lengths.min() >= 5.0 - 0.002
    assert lengths.max() <= 25.0 + 0.002
    assert all(a[1] == b[0] for a, b in zip(spans, spans[1:]))  # noqa: RUF007
    path = folder / "test" / "test0.mp4"
    assert duration(path) == pytest.approx(spans[-1][1], abs=0.4)
    again = build_shows(tmp_path / "again", 1, 0.6, (0, 0, 1))
    assert read_segments(again / "test" / "segments.csv")["test0"] == spans
    heard = [np.concatenate(list(audio_blocks(f / "test" / "test0.mp4"))) for f in (folder, again)]
    np.testing.assert_array_equal(*heard)
