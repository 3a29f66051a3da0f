"""Saved and loaded is the same estimator; anything else is refused; nothing is executed."""

from __future__ import annotations

import json
import os
import pickle
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator
from sklearn.linear_model import LinearRegression

import metriclearn
from metriclearn import (
    L1,
    BundleDual,
    ChangePointMetricLearner,
    DiagonalMetric,
    FullMetric,
    ProjectedSubgradient,
    SquaredFrobenius,
    Trace,
    load,
    save,
)
from metriclearn.solvers.subgradient import ConstantStep, DecreasingStep
from tests.training import PAIRS, XS, YS

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
SOLVERS = [
    BundleDual(tolerance=1e-2),
    ProjectedSubgradient(max_rounds=5),
    ProjectedSubgradient(ConstantStep(1e-3), average=False, max_rounds=5),
    ProjectedSubgradient(DecreasingStep(0.5), max_rounds=5),
]


@pytest.fixture(scope="module")
def learner() -> ChangePointMetricLearner:
    return ChangePointMetricLearner(regularizer=SquaredFrobenius(0.1)).fit(XS, YS)


def assert_same(mine: ChangePointMetricLearner, theirs: ChangePointMetricLearner) -> None:
    assert repr(mine) == repr(theirs)
    mine_parameters, their_parameters = mine.get_params(), theirs.get_params()
    assert mine_parameters.keys() == their_parameters.keys()
    for name, value in mine_parameters.items():
        if not isinstance(value, BaseEstimator):
            assert value == their_parameters[name]
            assert type(value) is type(their_parameters[name])
    assert vars(mine).keys() == vars(theirs).keys()
    np.testing.assert_array_equal(mine.components_, theirs.components_)
    np.testing.assert_array_equal(mine.scale_, theirs.scale_)
    assert mine.penalty_ == theirs.penalty_
    assert mine.n_features_in_ == theirs.n_features_in_
    solution, expected = mine.solution_, theirs.solution_
    np.testing.assert_array_equal(solution.w, expected.w)
    assert solution.objective == expected.objective
    assert solution.relative_gap == expected.relative_gap
    assert solution.reason == expected.reason
    assert vars(solution.trace) == vars(expected.trace)
    if theirs.penalty_ is not None:
        for found, labels in zip(mine.predict(XS), theirs.predict(XS)):
            np.testing.assert_array_equal(found, labels)


@pytest.mark.parametrize("solver", SOLVERS, ids=[f"solver{i}" for i in range(4)])
@pytest.mark.parametrize(("metric", "regularizer"), PAIRS)
def test_round_trip_of_every_combination(metric, regularizer, solver, tmp_path) -> None:
    learner = ChangePointMetricLearner(metric, regularizer, solver).fit(XS[:3], YS[:3])
    path = save(learner, tmp_path / "model.npz")
    assert path == tmp_path / "model.npz"
    assert_same(load(path), learner)


@pytest.mark.parametrize(
    "parameters",
    [
        {"penalty": 0.5, "loss_scale": 0.25, "min_size": 2, "standardize": False},
        {"n_segments": "given", "n_jobs": 2, "verbose": False},
        {"penalty": np.float64(0.5), "min_size": np.int64(2)},
        {"regularizer": L1(1e6)},
    ],
    ids=["fixed", "given", "numpy scalars", "nothing learned"],
)
def test_round_trip_of_parameters(parameters, tmp_path) -> None:
    learner = ChangePointMetricLearner(**parameters).fit(XS, YS)
    loaded = load(save(learner, tmp_path / "model.npz"))
    for name, value in parameters.items():
        assert repr(getattr(loaded, name)) == repr(value) or getattr(loaded, name) == value
    np.testing.assert_array_equal(loaded.components_, learner.components_)
    assert loaded.penalty_ == learner.penalty_


def test_feature_names_and_output_format(tmp_path) -> None:
    columns = ["speed", "häufig", "c", "d", "e", "f"]
    frames = [pd.DataFrame(X, columns=columns) for X in XS]
    learner = ChangePointMetricLearner().fit(frames, YS).set_output(transform="pandas")
    loaded = load(save(learner, tmp_path / "model.npz"))
    assert loaded.feature_names_in_.tolist() == columns
    assert loaded.feature_names_in_.dtype == object
    pd.testing.assert_frame_equal(loaded.transform(frames[0]), learner.transform(frames[0]))


def test_unfitted_estimator_and_refit(tmp_path, learner) -> None:
    empty = ChangePointMetricLearner(FullMetric(), Trace(0.5), n_jobs=1)
    loaded = load(save(empty, tmp_path / "model.npz"))
    assert repr(loaded) == repr(empty)
    again = load(save(learner, tmp_path / "model.npz")).fit(XS, YS)
    np.testing.assert_array_equal(again.components_, learner.components_)


def test_methods_of_the_learner_and_module_are_the_same(tmp_path, learner) -> None:
    learner.save(tmp_path / "one.npz")
    save(learner, str(tmp_path / "two.npz"))
    assert_same(metriclearn.load(tmp_path / "one.npz"), metriclearn.load(tmp_path / "two.npz"))


def test_one_file_of_arrays_and_json_without_pickle(tmp_path, learner) -> None:
    path = save(learner, tmp_path / "any name.model")
    assert [file.name for file in tmp_path.iterdir()] == ["any name.model"]
    with np.load(path, allow_pickle=False) as file:
        arrays = dict(file)
    document = json.loads(str(arrays["metriclearn"]))
    assert document["format"] == 2
    assert document["version"] == metriclearn.__version__
    assert all(array.dtype != object for array in arrays.values())


class Bomb:
    """Unpickling it would write a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return (Path.touch, (self.path,))


def test_pickles_are_never_opened(tmp_path) -> None:
    path, mark = tmp_path / "model.npz", tmp_path / "executed"
    path.write_bytes(pickle.dumps(Bomb(mark)))
    with pytest.raises(ValueError, match=r"needs a file written by metriclearn\.save"):
        load(path)
    with path.open("wb") as stream:
        np.savez(stream, metriclearn=np.array([Bomb(mark)], dtype=object))
    with pytest.raises(ValueError, match=r"needs a file written by metriclearn\.save"):
        load(path)
    assert not mark.exists()


@pytest.mark.parametrize(
    "damage", ["truncated", "half", "flipped", "empty", "text", "png", "other zip", "other npz"]
)
def test_damaged_and_foreign_files_are_refused(damage, tmp_path, learner) -> None:
    path = save(learner, tmp_path / "model.npz")
    content = path.read_bytes()
    middle = len(content) // 2
    flipped = content[:middle] + bytes([content[middle] ^ 0xFF]) + content[middle + 1 :]
    if damage == "other npz":
        np.savez(path, components=np.eye(3))
    elif damage == "other zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("readme.txt", "hello")
    else:
        path.write_bytes(
            {
                "truncated": content[:-1],
                "half": content[:middle],
                "flipped": flipped,
                "empty": b"",
                "text": b"a text\n",
                "png": b"\x89PNG\r\n\x1a\n" + bytes(100),
            }[damage]
        )
    with pytest.raises(ValueError, match=r"metriclearn\.(load|save).*model\.npz") as caught:
        load(path)
    assert "\n" not in str(caught.value)


def test_every_single_truncation_is_refused(tmp_path, learner) -> None:
    path = save(learner, tmp_path / "model.npz")
    content = path.read_bytes()
    for length in np.unique(np.linspace(0, len(content) - 1, 60).astype(int)):
        path.write_bytes(content[:length])
        with pytest.raises(ValueError, match="metriclearn"):
            load(path)


def rewrite(path: Path, change) -> None:
    """Apply ``change`` to the JSON document and arrays of a saved file."""
    with np.load(path, allow_pickle=False) as file:
        arrays = dict(file)
    document = json.loads(str(arrays["metriclearn"]))
    change(document, arrays)
    arrays["metriclearn"] = np.array(json.dumps(document))
    with path.open("wb") as stream:
        np.savez(stream, **arrays)


def test_newer_formats_are_refused_with_the_remedy(tmp_path, learner) -> None:
    path = save(learner, tmp_path / "model.npz")
    rewrite(path, lambda document, _: document.update(format=3, version="9.1"))
    with pytest.raises(
        ValueError, match=r"reads format 2, but .* has format 3 of metriclearn 9\.1; upgrade"
    ):
        load(path)


CHANGES = {
    "no format": lambda document, _: document.pop("format"),
    "no estimator": lambda document, _: document.pop("estimator"),
    "format is text": lambda document, _: document.update(format="new"),
    "array missing": lambda _, arrays: arrays.pop("array0"),
    "unknown class": lambda document, _: document["estimator"]["object"].__setitem__(0, "Popen"),
    "unknown kind": lambda document, _: document.update(estimator={"code": "1 + 1"}),
    "estimator is a number": lambda document, _: document.update(estimator={"object": 3}),
    "list": lambda document, _: document.update(estimator=[1, 2]),
    "two kinds": lambda document, _: document.update(estimator={"list": [], "dict": []}),
}


@pytest.mark.parametrize("change", CHANGES)
def test_incomplete_or_invented_contents_are_refused(change, tmp_path, learner) -> None:
    path = save(learner, tmp_path / "model.npz")
    rewrite(path, CHANGES[change])
    with pytest.raises(ValueError, match=r"metriclearn\.load .*model\.npz"):
        load(path)


def as_before(value):
    """The same content as format 1 had it: names without modules, a kind for every record."""
    if isinstance(value, list):
        return [as_before(item) for item in value]
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    if kind not in ("object", "record"):
        return {kind: as_before(content)}
    path, *rest = content
    name = path.rpartition(".")[2]
    rest = as_before(rest)
    if kind == "record":
        return {{"Trace": "trace", "Solution": "solution"}[name]: rest[0]}
    rest[0]["dict"] += [["device", None]]
    return {kind: [name, *rest]}


def test_older_files_load_wherever_their_classes_stand_now(tmp_path, learner) -> None:
    path = save(learner, tmp_path / "model.npz")
    rewrite(path, lambda d, _: d.update(format=1, estimator=as_before(d["estimator"])))
    assert_same(load(path), learner)
    rewrite(path, lambda d, _: d["estimator"]["object"][1]["dict"].append(["speed", 3]))
    with pytest.warns(UserWarning, match="leaves out speed, which ChangePointMetricLearner no"):
        assert_same(load(path), learner)
    save(learner, path)
    moved = "metriclearn.another.place.ChangePointMetricLearner"
    rewrite(path, lambda d, _: d["estimator"]["object"].__setitem__(0, moved))
    assert_same(load(path), learner)


def test_missing_file_and_missing_folder(tmp_path, learner) -> None:
    with pytest.raises(FileNotFoundError, match=r"needs a model file, but .*nothing\.npz does"):
        load(tmp_path / "nothing.npz")
    with pytest.raises(OSError, match="missing"):
        save(learner, tmp_path / "missing" / "model.npz")
    with pytest.raises(ValueError, match=r"metriclearn\.load needs a file written by"):
        load(tmp_path)


@pytest.mark.skipif(os.name != "posix", reason="file modes are POSIX")
def test_files_are_readable_as_the_umask_says(tmp_path, learner) -> None:
    old = os.umask(0o022)
    try:
        path = save(learner, tmp_path / "model.npz")
    finally:
        os.umask(old)
    assert path.stat().st_mode & 0o777 == 0o644


def test_failing_write_leaves_the_old_file(tmp_path, learner, monkeypatch) -> None:
    path = save(learner, tmp_path / "model.npz")
    before = path.read_bytes()

    def fail(*_, **__):
        raise OSError("no space left on device")

    for module, name in ((np, "savez_compressed"), (os, "fsync"), (os, "replace")):
        with monkeypatch.context() as patch:
            patch.setattr(module, name, fail)
            with pytest.raises(OSError, match="no space left"):
                save(ChangePointMetricLearner(), path)
        assert path.read_bytes() == before
        assert [file.name for file in tmp_path.iterdir()] == ["model.npz"]
    assert_same(load(path), learner)


def test_only_what_the_format_knows_is_saved(tmp_path, learner) -> None:
    path = save(learner, tmp_path / "model.npz")
    before = path.read_bytes()
    mine = type("DiagonalMetric", (DiagonalMetric,), {})()
    for estimator in (
        LinearRegression(),
        ChangePointMetricLearner(regularizer=LinearRegression()),
        ChangePointMetricLearner(metric=mine),
    ):
        with pytest.raises(TypeError, match="knows estimators and components of metriclearn, got"):
            save(estimator, path)
    assert path.read_bytes() == before
