"""Loaders of published comparisons: texts by hand, and both real data sets."""

import lzma
from pathlib import Path

import numpy as np
import pytest

from metriclearn.datasets import data_folder, load_penalties, load_texts

FIRST = ["apples grow on trees", "ships sail the sea", "planets orbit the sun"]
TEXTS = [*FIRST, "music sounds at night", "bread needs flour", "rivers carry water"]


def write(folder: Path, documents: dict[str, list[str]]) -> Path:
    """Documents of segments of two sentences each."""
    rows = ["document,sentence,segment,text"]
    for name, texts in documents.items():
        for k, text in enumerate(texts):
            rows += [f"{name},{2 * k},{k},{text}", f"{name},{2 * k + 1},{k},more of {text}"]
    file = folder / "documents_choi_disjoint.csv.xz"
    file.write_bytes(lzma.compress("\n".join([*rows, ""]).encode()))
    return folder


def test_no_excerpt_is_in_two_documents(tmp_path: Path) -> None:
    three = {"a": FIRST, "b": TEXTS[2:], "c": TEXTS[:4]}
    data = load_texts(write(tmp_path, three), n_components=3)
    assert data.names == data.groups == ["a", "b"]  # c has only what a and b have
    assert [y.tolist() for y in data.labels] == [[0, 0, 1, 1, 2, 2]] * 2  # b without a's planets
    assert [X.shape for X in data.sequences] == [(6, 4)] * 2


def test_held_out_documents_share_no_excerpt_with_the_others(tmp_path: Path) -> None:
    colors = ["red", "blue", "green", "gray", "pink", "gold"]
    texts = [f"{color} stand here alone" for color in colors]
    folder = write(tmp_path, {"a": texts, "b": texts[::-1], "c": texts})
    data = load_texts(folder, held_out=0.5, n_components=3)
    assert data.names == ["a", "held out a", "held out b", "held out c"]
    assert data.groups == ["a", *["held out a"] * 3]  # all three share all excerpts
    assert [y.tolist() for y in data.labels] == [[0, 0, 1, 1, 2, 2]] * 4
    mine, first, second, third = data.sequences
    np.testing.assert_allclose(first, third)
    assert not np.allclose(first, second)  # the order is another one
    assert not np.allclose(mine, first)


def test_features_know_only_the_documents_they_are_fitted_to(tmp_path: Path) -> None:
    here, there = ({"a": FIRST, "b": texts} for texts in (TEXTS[3:], ["x y z", "ocean", "wolf"]))
    one = load_texts(write(tmp_path, here), ["a"], n_components=3).sequences[0]
    other = load_texts(write(tmp_path, there), ["a"], n_components=3).sequences[0]
    np.testing.assert_allclose(one, other, rtol=0, atol=0)
    assert not np.allclose(one, load_texts(tmp_path, n_components=3).sequences[0])


def test_documents_of_another_folder_get_the_features_of_the_training(tmp_path: Path) -> None:
    folders = {name: tmp_path / name for name in ("all", "train", "test")}
    for folder in folders.values():
        folder.mkdir()
    train, test = {"a": FIRST}, {"b": TEXTS[3:]}
    both = load_texts(write(folders["all"], train | test), ["a"], n_components=3)
    write(folders["train"], train)
    apart = load_texts(write(folders["test"], test), n_components=3, fitted_root=folders["train"])
    np.testing.assert_allclose(apart.sequences[0], both.sequences[1], rtol=0, atol=0)
    with pytest.raises(ValueError, match="name their folder, fitted_root=FOLDER"):
        load_texts(folders["test"], ["a"], n_components=3)


def test_bad_requests_are_refused(tmp_path: Path) -> None:
    folder = write(tmp_path, {"a": FIRST})
    for fitted in (["z"], []):
        with pytest.raises(ValueError, match="needs fitted among the names of its 1 documents"):
            load_texts(folder, fitted)
    with pytest.raises(ValueError, match="more words than components"):
        load_texts(folder, n_components=200)
    file = folder / "documents_choi_disjoint.csv.xz"
    file.write_bytes(file.read_bytes()[:50])
    with pytest.raises(ValueError, match="CSV file"):
        load_texts(folder)


@pytest.mark.skipif(not data_folder("texts").is_dir(), reason="METRICLEARN_DATA has no texts")
def test_real_texts() -> None:
    both = load_texts(held_out=0.45, n_components=3)
    apart = [name.startswith("held out") for name in both.names]
    groups = {group for group, one in zip(both.groups, apart) if one}
    assert (len(both), sum(apart), len(groups)) == (502, 470, 21)
    data = load_texts(n_components=3)
    assert (len(data), sum(len(ends) for ends in data.change_points)) == (57, 217)


@pytest.mark.skipif(not data_folder("penalties").is_dir(), reason="METRICLEARN_DATA has none")
def test_a_constant_penalty_scores_as_published() -> None:
    import pandas as pd

    published = pd.read_csv(data_folder("penalties") / "published.csv")
    for name, size in (("H3K4me3_TDH_other", 90), ("H3K36me3_AM_immune", 420)):
        data, folds = load_penalties(name)
        assert len(data) == size
        grid = np.linspace(0, 20, 100)
        errors = np.array([data.errors_at(np.full(size, z)) for z in grid])
        labels, right = np.array(data.n_labels), []
        for fold in np.unique(folds):
            best = np.argmin(errors[:, folds != fold].sum(axis=1))
            wrong = errors[best, folds == fold].sum() / labels[folds == fold].sum()
            right.append(100 * (1 - wrong))
        rows = published[(published["set"] == name) & (published["model"] == "baseline_0")]
        assert np.mean(right) == pytest.approx(rows["percent_correct"].mean(), abs=1.5)
    with pytest.raises(ValueError, match="one log penalty for each of 420"):
        data.errors_at([1.0])
    with pytest.raises(ValueError, match="needs a set and its folds"):
        load_penalties("nothing")
