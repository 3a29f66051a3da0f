"""Texts that people see as equal are equal: labels, recordings, columns and groups of files."""

import unicodedata
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from metriclearn.datasets import load_files
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
