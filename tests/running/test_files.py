"""Errors of damaged, locked and missing files; a file is the old one or the new one."""

import errno
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import metriclearn as ml
from metriclearn.running.atomic import Checkpoint, reading, replacing


@pytest.mark.parametrize(
    "error",
    [
        PermissionError(errno.EACCES, "Permission denied"),
        NameError("name 'table' is not defined"),
        ValueError("'a.csv' needs one group per file."),
    ],
    ids=repr,
)
def test_other_errors_pass_through(error: Exception) -> None:
    with pytest.raises(type(error)) as raised, reading("a.csv", "a table"):
        raise error
    assert raised.value is error


def test_full_disk_names_file_and_remedy_and_keeps_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "model.npz"
    path.write_text("old")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, hard))
    try:
        with pytest.raises(
            OSError, match=rf"{path} cannot be written: .*; make room in {tmp_path}"
        ):
            Checkpoint(str(path), "BundleDual").save({"w": np.zeros(10_000)})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["model.npz"]


def test_closed_folder_names_file_and_remedy() -> None:
    folder = Path("/proc/self")  # closed to the superuser, too
    with pytest.raises(OSError, match=r"m\.npz cannot be written: .* choose a folder that can be"):
        ml.save(ml.ChangePointMetricLearner(), folder / "m.npz")


def test_error_of_another_file_passes_through(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="other"), replacing(tmp_path / "m.npz"):
        (tmp_path / "other").read_text()
    assert os.listdir(tmp_path) == []


def test_folder_in_place_of_a_file_and_missing_ones(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.npz")
    learner = ml.ChangePointMetricLearner(solver=ml.BundleDual(checkpoint=str(tmp_path)))
    for call, sentence in (
        (lambda: learner.fit([[0.0], [1.0]], [0, 1]), "Is a directory"),
        (lambda: ml.save(learner, tmp_path), r"is a folder; add the name of the file to write"),
        (lambda: ml.load(tmp_path), "Is a directory"),
    ):
        with pytest.raises((OSError, ValueError), match=sentence) as raised:
            call()
        assert "remove" not in str(raised.value)
    for call, sentence in (
        (lambda: ml.load(tmp_path / "no.npz"), r"No such file .*no\.npz"),
        (lambda: ml.save(learner, tmp_path / "missing" / "m.npz"), "missing"),
        (lambda: ml.save(learner, "/dev/none"), "is no file that can be replaced"),
        (lambda: ml.save(learner, tmp_path / "pipe.npz"), "is no file that can be replaced"),
    ):
        with pytest.raises(OSError, match=sentence):
            call()


def test_next_file_removes_the_leftover_of_a_killed_writer(tmp_path: Path) -> None:
    path = tmp_path / "m[1].npz"  # brackets are wildcards
    text = (
        "import sys, time; from metriclearn.running.atomic import replacing\n"
        f"with replacing({str(path)!r}) as stream: print('open', flush=True); time.sleep(60)"
    )
    writer = subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE)
    assert writer.stdout is not None
    assert writer.stdout.readline() == b"open\n"
    for left in (2, 1):  # the file of a living writer stays, the leftover of a dead one goes
        ml.save(ml.ChangePointMetricLearner(), path)
        assert len(os.listdir(tmp_path)) == left
        writer.send_signal(signal.SIGKILL)
        writer.wait()
    writer.stdout.close()
    assert isinstance(ml.load(path), ml.ChangePointMetricLearner)
