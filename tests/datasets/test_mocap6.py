from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from metriclearn.datasets import load_mocap6

HEADER = "sequence,start,end,label\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    arrays = {"13_30": rng.normal(size=(6, 2)), "13_29": rng.normal(size=(8, 2))}
    np.savez(tmp_path / "sequences.npz", channels=np.array(["root.ty", "rfoot.rx"]), **arrays)
    rows = "13_30,0,6,Jog\n13_29,0,3,Jog\n13_29,3,5,Squat\n13_29,5,8,Jog\n"
    (tmp_path / "segments.csv").write_text(HEADER + rows)
    return tmp_path


def test_segments_and_derived_features_by_hand(folder: Path) -> None:
    raw, dataset = load_mocap6(folder, derived=False), load_mocap6(folder, window=3)
    assert raw.names == ["13_29", "13_30"]
    assert raw.labels[0].tolist() == ["Jog"] * 3 + ["Squat"] * 2 + ["Jog"] * 3
    assert [ends.tolist() for ends in dataset.change_points] == [[3, 5, 8], [6]]
    X = raw.sequences[0]
    row = dict(zip(dataset.feature_names, dataset.sequences[0][4]))
    assert row["rfoot.rx"] == X[4, 1]
    assert row["root.ty_mean"] == pytest.approx(X[3:6, 0].mean())
    assert row["root.ty_log_sd"] == pytest.approx(np.log(X[3:6, 0].std() + 1e-2))
    assert row["rfoot.rx_log_sd"] == pytest.approx(np.log(X[3:6, 1].std() + 1e-1))


@pytest.mark.parametrize(
    "rows", ["", "13_29,0,8,J\n", "13_29,0,8,J\n13_30,1,6,J\n", "13_29,0,9,J\n13_30,0,6,J\n",
             "13_29,0,5,J\n13_29,4,8,J\n13_30,0,6,J\n"],
)  # fmt: skip
def test_segments_that_do_not_fit(folder: Path, rows: str) -> None:
    (folder / "segments.csv").write_text(HEADER + rows)
    with pytest.raises(ValueError, match="needs non-empty segments that cover its"):
        load_mocap6(folder)


def test_bad_window_and_arrays(folder: Path) -> None:
    with pytest.raises(ValueError, match="odd window"):
        load_mocap6(folder, window=0)
    np.savez(folder / "sequences.npz", channels=np.array(["a"]), b=np.zeros((4, 2)))
    with pytest.raises(ValueError, match="'b' needs 1 columns"):
        load_mocap6(folder)
    np.savez(folder / "sequences.npz", b=np.zeros((4, 2)))
    with pytest.raises(ValueError, match="needs the array channels"):
        load_mocap6(folder)


def test_real_sequences(shared_folder: Callable[[str], Path]) -> None:
    dataset = load_mocap6(shared_folder("mocap6"))
    assert dataset.names == ["13_29", "13_30", "13_31", "14_06"]
    assert [len(X) for X in dataset.sequences] == [382, 205, 251, 446]
    assert [len(ends) for ends in dataset.change_points] == [6, 5, 7, 8]
    assert len(dataset.feature_names) == 36
