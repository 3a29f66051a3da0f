from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from metriclearn.datasets import load_neuroblastoma
from metriclearn.problem.knowledge import EXACTLY_ONE, NO_CHANGE, Region
from metriclearn.problem.partition import Partition

HEADER = "sequence_id,profile_id,chromosome,start,end,changes,annotation,fold\n"
ROWS = ["7.20,7,20,1,3,0,normal,1", "7.20,7,20,4,6,1,1breakpoint,2", "7.2,7,2,2,4,0,normal,2"]


def write(folder: Path, rows: list[str], points: str | None = None) -> Path:
    lines = [f"7.2,{v}" for v in (0.5, -0.25, 0, 1)] + [f"7.20,{v}" for v in range(6)]
    text = "sequence_id,logratio\n" + "".join(f"{line}\n" for line in lines)
    (folder / "profiles.csv.gz").write_bytes(gzip.compress((points or text).encode()))
    annotations = HEADER + "".join(f"{row}\n" for row in rows)
    (folder / "annotations.csv.gz").write_bytes(gzip.compress(annotations.encode()))
    return folder


def test_profiles_and_regions_by_hand(tmp_path: Path) -> None:
    data = load_neuroblastoma(write(tmp_path, ROWS))
    assert (data.names, data.groups) == (["7.2", "7.20"], ["7", "7"])
    np.testing.assert_array_equal(data.sequences[0], [[0.5], [-0.25], [0], [1]])
    assert data.regions[1] == [Region(0, 3, NO_CHANGE), Region(3, 6, EXACTLY_ONE)]
    assert [len(k.regions) for k in data.known(1)] == [0, 1]
    assert [len(k.regions) for k in data.known(2)] == [1, 1]
    assert [len(k.regions) for k in data.known()] == [1, 2]
    assert data.select([1]).names == ["7.20"]


def test_errors_as_the_source_counts_them(tmp_path: Path) -> None:
    # region 4 to 6 counted from 1: a change between points 4|5 or 5|6, that is at 4 or 5
    known = load_neuroblastoma(write(tmp_path, ROWS)).known()[1]
    for ends, expected in {
        (6,): (0, 1), (3, 6): (0, 1), (4, 6): (0, 0), (5, 6): (0, 0),
        (4, 5, 6): (1, 0), (1, 4, 6): (1, 0), (2, 3, 6): (1, 1),
    }.items():  # fmt: skip
        assert known.label_errors(Partition.from_change_points(ends)) == expected


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        (["7.3,7,3,1,2,0,normal,1"], "its own sequences"),
        (["7.2,7,2,1,2,0,2breakpoints,1"], "2breakpoints"),
        (["7.2,7,2,1,5,0,normal,1"], "'7.2' needs annotations inside its 4 points"),
        (["7.2,7,2,0,2,0,normal,1"], "'7.2' needs annotations inside its 4 points"),
    ],
)
def test_annotations_that_do_not_fit(tmp_path: Path, rows: list[str], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        load_neuroblastoma(write(tmp_path, rows))


def test_damaged_files(tmp_path: Path) -> None:
    path = write(tmp_path, ROWS) / "profiles.csv.gz"
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(ValueError, match=r"profiles\.csv\.gz' should be a CSV file"):
        load_neuroblastoma(tmp_path)
    path.write_bytes(b"sequence_id,logratio\n7.2,1\n")
    with pytest.raises(ValueError, match=r"profiles\.csv\.gz' should be a CSV file"):
        load_neuroblastoma(tmp_path)
    write(tmp_path, ROWS, "sequence_id,logratio\n7.2,1\n7.2,0")
    with pytest.raises(ValueError, match="its last line is cut"):
        load_neuroblastoma(tmp_path)
    with pytest.raises(FileNotFoundError, match="OPART_Learning_Penalty_Interval"):
        load_neuroblastoma(tmp_path / "elsewhere")


def test_real_profiles(shared_folder: Callable[[str], Path]) -> None:
    data = load_neuroblastoma(shared_folder("neuroblastoma"))
    assert (len(data), len(set(data.groups))) == (154, 53)
    assert sum(map(len, data.sequences)) == 495_305
    kinds = [region.kind for regions in data.regions for region in regions]
    assert (kinds.count(NO_CHANGE), kinds.count(EXACTLY_ONE)) == (227, 256)
    folds = np.concatenate(data.folds)
    assert (np.sum(folds == 1), np.sum(folds == 2)) == (290, 193)
    assert all(len(known.regions) for fold in (1, 2) for known in data.known(fold))
