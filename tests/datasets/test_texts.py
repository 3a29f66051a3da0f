"""Texts that people see as equal are equal: labels, recordings, columns and groups of files."""

import unicodedata
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from metriclearn.datasets import load_files, load_tables
from metriclearn.datasets.annotations import named_as, read_groups, read_segments
from metriclearn.running.values import text

NAME = unicodedata.normalize("NFC", "Zoë")
DECOMPOSED = unicodedata.normalize("NFD", "Zoë")


@pytest.mark.parametrize("same", [NAME, DECOMPOSED, f" {NAME}", f"{DECOMPOSED}\t", f"{NAME}\u00a0"])
def test_one_form(same: str) -> None:
    assert text(same) == NAME
    assert text((same, 3)) == (NAME, 3)
    assert text(3) == 3


@pytest.mark.parametrize("ending", ["csv", "npz"])
def test_labels_and_columns_of_files(ending: str, tmp_path: Path) -> None:
    for i, name in enumerate((NAME, DECOMPOSED)):
        X, labels = np.arange(8.0).reshape(4, 2) % 3, [name, name, f"{name} ", "b"]
        columns = [name, "x"][:: 1 if ending == "npz" else (-1) ** i]
        if ending == "npz":
            np.savez(tmp_path / f"{i}.npz", X=X, y=np.array(labels), feature_names=columns)
        else:
            table = pd.DataFrame(X, columns=[name, "x"])[columns].assign(label=labels)
            table.to_csv(tmp_path / f"{i}.csv", index=False)
    data = load_files(tmp_path)
    np.testing.assert_array_equal(data.sequences[0], data.sequences[1])
    assert [sorted(set(labels)) for labels in data.labels] == [[NAME, "b"]] * 2


def test_recordings_and_groups_of_tables(tmp_path: Path) -> None:
    for name in (DECOMPOSED, "b"):
        pd.DataFrame({"x": np.arange(8.0) % 3}).to_csv(tmp_path / f"{name}.csv", index=False)
    rows = [
        f"{name},{a},{a + 4},{label}" for name in (NAME, "b") for a, label in ((0, NAME), (4, "c"))
    ]
    rows[2] = rows[2].replace(NAME, DECOMPOSED)
    (tmp_path / "segments.csv").write_text("\n".join(["recording,start,end,label", *rows]))
    data = load_tables(tmp_path, 1.0)
    assert sorted(data.names) == [DECOMPOSED, "b"]
    assert {label for labels in data.labels for label in labels} == {NAME, "c"}
    tables = read_segments(tmp_path / "segments.csv")
    assert {one[2] for one in tables["b"]} == {NAME, "c"}
    assert named_as(tables, [DECOMPOSED])[DECOMPOSED] == tables[NAME]
    assert list(named_as({NAME: tables["b"][:1], DECOMPOSED: tables["b"][1:]}, [NAME])) == [NAME]
    (tmp_path / "groups.csv").write_text(f"recording,group\n{NAME},g\nb,h\n")
    assert read_groups(tmp_path / "groups.csv", [DECOMPOSED, "b"]) == ["g", "h"]
