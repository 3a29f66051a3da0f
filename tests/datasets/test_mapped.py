"""Sequences on disk: the same arrays, the same metric, and few of them in memory at once."""

import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from metriclearn import ChangePointMetricLearner
from metriclearn.datasets import (
    PackedSequences,
    SequenceFolder,
    make_change_points,
    pack_sequences,
    save_files,
)
from metriclearn.running.executors import ThreadExecutor

DATA = make_change_points(7, 60, 3, 2, (2, 4), random_state=0)


def write(kind: str, folder: Path) -> Any:
    if kind == "packed":
        return pack_sequences(DATA.sequences, DATA.labels, folder)
    if kind == "npy":
        for name, X, y in zip(DATA.names, DATA.sequences, DATA.labels):
            np.save(folder / f"{name}.npy", X)
            np.save(folder / f"{name}.labels.npy", y)
    elif kind == "zarr":
        zarr = pytest.importorskip("zarr", reason="zarr is optional: pip install metriclearn[dask]")
        for name, X, y in zip(DATA.names, DATA.sequences, DATA.labels):
            group = zarr.open_group(str(folder / f"{name}.zarr"), mode="w")
            group.create_array("X", data=X)
            group.create_array("y", data=y)
    else:
        save_files(DATA, folder, format=kind)
    return SequenceFolder(folder)


@pytest.fixture(scope="module")
def here() -> ChangePointMetricLearner:
    """Fitted to the sequences in memory."""
    return ChangePointMetricLearner(verbose=False).fit(DATA.sequences, DATA.labels)


@pytest.mark.parametrize("kind", ["npz", "npy", "parquet", "zarr", "csv", "packed"])
def test_every_kind_gives_the_same_sequences_and_metric(kind, here, tmp_path) -> None:
    (tmp_path / "größe 1").mkdir()
    stored = write(kind, tmp_path / "größe 1")
    assert len(stored) == len(stored.sequences) == len(stored.labels) == 7
    for i in (0, 3, 6, -1):
        np.testing.assert_array_equal(stored.sequences[i], DATA.sequences[i])
        np.testing.assert_array_equal(stored.labels[i], DATA.labels[i])
    part = stored.sequences[2:6:2]
    assert len(part) == 2
    np.testing.assert_array_equal(part[1], DATA.sequences[4])
    found = ChangePointMetricLearner(verbose=False).fit(stored.sequences, stored.labels)
    np.testing.assert_allclose(found.components_, here.components_, rtol=1e-9)
    ends = found.predict_change_points(stored.sequences)
    for one, X in zip(ends, DATA.sequences):
        np.testing.assert_array_equal(one, found.predict_change_points(X))
    assert found.score(stored.sequences, stored.labels) == pytest.approx(
        found.score(DATA.sequences, DATA.labels)
    )


def test_damaged_columns_are_named(tmp_path: Path) -> None:
    frame = pd.DataFrame({"x": ["one", "two"], "kind": ["a", "b"]})
    frame.to_parquet(tmp_path / "a.parquet")
    frame[["x"]].to_parquet(tmp_path / "b.parquet")
    folder = SequenceFolder(tmp_path, "kind")
    assert folder.labels[0].tolist() == ["a", "b"]  # although the features are words
    with pytest.raises(ValueError, match=r"a\.parquet' cannot be read as a sequence"):
        folder.sequences[0]
    with pytest.raises(ValueError, match=r"b\.parquet' needs a column 'kind', got"):
        folder.labels[1]


class Counting:
    """A user's own lazy sequence, which counts how many of its arrays are alive."""

    def __init__(self) -> None:
        self.alive, self.most, self.read = 0, 0, 0

    def __len__(self) -> int:
        return len(DATA.sequences)

    def __getitem__(self, i: int) -> np.ndarray:
        if not 0 <= i < len(self):
            raise IndexError(i)
        array = DATA.sequences[i].copy()
        self.alive, self.read = self.alive + 1, self.read + 1
        self.most = max(self.most, self.alive)
        weakref.finalize(array, self._gone)
        return array

    def _gone(self) -> None:
        self.alive -= 1


@pytest.mark.parametrize("threads", [1, 2])
def test_no_more_in_memory_than_in_flight(threads: int) -> None:
    stored = Counting()
    learner = ChangePointMetricLearner(executor=ThreadExecutor(threads), verbose=False)
    learner.fit(stored, DATA.labels)
    rounds = len(learner.solution_.trace)
    assert rounds >= 5
    assert stored.read >= 7 * rounds  # again in every round
    assert stored.most <= 2 * threads
    here = ChangePointMetricLearner(verbose=False).fit(DATA.sequences, DATA.labels)
    np.testing.assert_allclose(learner.components_, here.components_, rtol=1e-9)


def test_damage_is_one_sentence(tmp_path: Path) -> None:
    stored = write("npz", tmp_path)
    (tmp_path / f"{DATA.names[2]}.npz").write_bytes(b"no archive")
    with pytest.raises(ValueError, match=rf"{DATA.names[2]}\.npz' cannot be read as a sequence"):
        ChangePointMetricLearner(verbose=False).fit(stored.sequences, stored.labels)
    with pytest.raises(FileNotFoundError, match="SequenceFolder needs a folder with files"):
        SequenceFolder(tmp_path / "nothing")
    with pytest.raises(FileNotFoundError, match=r"PackedSequences needs X\.npy in"):
        PackedSequences(tmp_path)


def test_packing_checks_shapes(tmp_path: Path) -> None:
    X, y = [np.zeros((4, 2)), np.zeros((3, 2))], [np.arange(4), np.arange(3)]
    for place, (rows, labels, sentence) in enumerate(
        [
            (X[:1], y, "labels for every sequence, got 1 sequences and 2"),
            ([], [], "labels for every sequence, got 0 sequences and 0"),
            (X, [y[0], y[0]], r"needs shape \(4, 2\), .* got \(3, 2\) in sequence 1"),
        ]
    ):
        with pytest.raises(ValueError, match=sentence):
            pack_sequences(rows, labels, tmp_path / str(place))
    pack_sequences(X, y, tmp_path / "good")
    with pytest.raises(FileExistsError, match="needs a new or empty folder"):
        pack_sequences(X, y, tmp_path / "good")
    np.save(tmp_path / "good" / "ends.npy", np.array([4, 6]))
    with pytest.raises(ValueError, match="needs increasing ends up to the number of rows"):
        PackedSequences(tmp_path / "good")
