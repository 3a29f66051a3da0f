"""Table 1 on generated videos and shows, from encoding to the table."""

import os
import re
from pathlib import Path

import numpy as np
import pytest

from experiments.harness.command_line import configuration
from tests.experiments.command import DATA_REASON, results_of
from tests.features.sounds import RATE, write_wave

pytest.importorskip("av")
pytest.importorskip("torch")
pytest.importorskip("librosa")

from experiments.data import drawn_scenes
from experiments.data.assembled_shows import build_shows
from experiments.data.generated_videos import build_videos
from experiments.harness.procedure import Case
from experiments.studies.audio_and_video import AudioAndVideo, folder_cases, held_out_cases, unseen
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
        "+methods.ours.estimator.members={names: [{_target_: metriclearn.NamedSegmentLearner}]}",
    ]  # fmt: skip
    results = results_of(folder, *options)
    rows = {
        (r["table"], r["method"], r["column"]): r
        for r in results["rows"]
        if r["measure"] == "partition_loss"
    }
    assert [table["name"] for table in results["tables"] if table["main"]] == ["audio", "video"]
    of_video = [t["measure"] for t in results["tables"] if t["name"] == "video" and not t["main"]]
    assert "names_right" in of_video  # of ours
    of_field = [measure for measure in of_video if not measure.startswith("name")]
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


def record(folder: Path, name: str, ends: list[float]) -> Path:
    """Recordings of 4 s of noise, each with a boundary at one of the ends."""
    pytest.importorskip("soundfile")
    folder.mkdir()
    for i in range(len(ends)):
        noise = np.random.default_rng([i, len(ends)]).normal(size=RATE * 4)
        write_wave(folder / f"{name}{i}.wav", noise)
    spans = {f"{name}{i}": [(0.0, end, "a"), (end, 4.0, "b")] for i, end in enumerate(ends)}
    save_segments(spans, folder / "segments.csv")
    return folder


def test_training_and_validation_are_held_out_for_each_other(tmp_path: Path) -> None:
    for part, count in (("train", 2), ("validation", 1), ("test", 1)):
        record(tmp_path / part, part, [2.0] * count)
    (case,) = folder_cases(tmp_path, AudioFeatures(), 3)
    assert case.train.names == ["train0", "train1", "validation0"]
    assert case.test.names == ["test0"]
    halves = [["train0", "train1"], ["validation0"]]
    assert [[a.names, b.names] for a, b in case.folds] == [halves, halves[::-1]]
    drawn = folder_cases([tmp_path, tmp_path], AudioFeatures(), 3)
    assert [(case.name, case.test.groups) for case in drawn] == [
        ("draw 1", ["draw 1, test0"]),
        ("draw 2", ["draw 2, test0"]),
    ]


def test_recordings_of_a_folder_of_their_own_are_for_test(tmp_path: Path) -> None:
    known = load_recordings(record(tmp_path / "known", "known", [2.0, 1.0, 3.0]), AudioFeatures())
    record(tmp_path / "songs", "songs", [2.5])
    for root in (tmp_path, tmp_path / "songs"):  # a folder for each stream, or of this one
        new = unseen(root, "songs", AudioFeatures())
        (case,) = held_out_cases(known, 3, 0, standardize=True, unseen=new)
        assert case.train.names == ["known0", "known1", "known2"]
        assert case.test.names == ["songs0"]
        assert len(case.folds) == 3
    assert unseen(None, "songs", AudioFeatures()) is None
    with pytest.raises(ValueError, match="but 3 of 3 are the same in both, such as 'known0'; name"):
        held_out_cases(known, 3, 0, unseen=known)


def test_streams_are_the_folders_of_the_user(tmp_path: Path) -> None:
    place = record(tmp_path / "songs", "mine", [1.0, 2.0, 3.0])

    def cases(*more: str) -> list[Case]:
        return AudioAndVideo(configuration("experiment=audio", "n_folds=2", *more)).cases()

    found = cases(f"dataset.root={tmp_path}")
    assert {(case.table, len(case.train)) for case in found} == {("songs", 2)}  # no meetings there
    assert sorted(case.test.names[0] for case in found) == ["mine0", "mine1", "mine2"]
    # recordings of a folder without streams are those of the only stream
    found = cases("~streams.songs", f"dataset.root={place}")
    assert {case.table for case in found} == {"meetings"}
    with pytest.raises(ValueError, match=r"dataset.test_root=.* folders named songs and meetings"):
        cases(f"dataset.test_root={place}")


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


def test_shows_are_made_again_from_another_folder_of_recordings(tmp_path, monkeypatch) -> None:
    marks: list[str] = []
    monkeypatch.setattr(drawn_scenes, "build_movies", lambda _, wanted, *more: marks.append(wanted))
    for place in ("one", "one", "other"):
        monkeypatch.setenv("METRICLEARN_DATA", str(tmp_path / place))
        build_shows(tmp_path)
    assert marks[0] == marks[1] != marks[2]
