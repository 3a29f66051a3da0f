"""A loaded estimator equals the saved one; foreign files are refused and never executed."""

import hashlib
import io
import json
import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import StandardScaler

import metriclearn as ml
from metriclearn import baselines
from tests.training import XS, YS

LEARNER = ml.ChangePointMetricLearner


@pytest.fixture(scope="module")
def learner() -> ml.ChangePointMetricLearner:
    return ml.ChangePointMetricLearner(regularizer=ml.SquaredFrobenius(0.1)).fit(XS, YS)


def test_what_two_parts_share_is_one_after_loading(tmp_path: Path) -> None:
    """Whatever it holds itself."""
    shared = ml.views.Chain([ml.views.OwnScale(), ml.views.Windows((2,))])
    both = make_union(shared, StandardScaler(), shared).fit(XS[0])
    loaded = ml.load(ml.save(both, tmp_path / "both.npz"))
    first, _, last = (part for _, part in loaded.transformer_list)
    assert first is last
    np.testing.assert_array_equal(first.transform(XS[0]), shared.fit(XS[0]).transform(XS[0]))


def test_a_segmenter_of_members_with_views_can_be_fitted_and_streamed_after_loading(
    tmp_path,
) -> None:
    member = ml.estimators.Member("windows", LEARNER(), ml.views.Windows((2,)))
    made = ml.Segmenter({"windows": [member]}, n_folds=2, for_streams=True, verbose=False)
    loaded = ml.load(made.fit(XS, YS).save(tmp_path / "model.npz"))
    (kept,) = loaded.members["windows"]
    assert (kept.family, kept.view.sizes, kept.every) == ("windows", (2,), 1)
    stream = loaded.stream()
    ends = [*stream.push(XS[0]).ends, *stream.finish().ends]
    assert ends == made.predict_change_points(XS[0]).tolist()
    again = clone(loaded).fit(XS, YS)
    np.testing.assert_equal(again.predict(XS), made.predict(XS))


def test_feature_names_and_output_format(tmp_path) -> None:
    columns = ["speed", "häufig", "c", "d", "e", "f"]
    frames = [pd.DataFrame(X, columns=columns) for X in XS]
    learner = ml.ChangePointMetricLearner().fit(frames, YS).set_output(transform="pandas")
    loaded = ml.load(learner.save(tmp_path / "model.npz"))
    assert loaded.feature_names_in_.tolist() == columns
    assert loaded.feature_names_in_.dtype == object
    pd.testing.assert_frame_equal(loaded.transform(frames[0]), learner.transform(frames[0]))


def test_names_in_an_array_of_objects_keep_their_types(tmp_path) -> None:
    """Numbers as names: 9 comes before 10, but "10" before "9"."""
    labels = [np.array([9, 10, 100], dtype=object)[y % 3] for y in YS]
    learner = ml.NamedSegmentLearner(emissions=ml.views.Neighbors(0)).fit(XS, labels)
    loaded = ml.load(ml.save(learner, tmp_path / "model.npz"))
    assert loaded.classes_.tolist() == learner.classes_.tolist() == [9, 10, 100]
    np.testing.assert_array_equal(loaded.predict(XS[0]), learner.predict(XS[0]))


def test_one_file_of_arrays_and_json_without_pickle(tmp_path, learner) -> None:
    path = ml.save(learner, tmp_path / "any name.model")
    assert [file.name for file in tmp_path.iterdir()] == ["any name.model"]
    with np.load(path, allow_pickle=False) as file:
        arrays = dict(file)
    document = json.loads(str(arrays["metriclearn"]))
    assert document["format"] == 6
    assert document["version"] == ml.__version__
    assert all(array.dtype != object for array in arrays.values())


class Bomb:
    """Unpickling it would write a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return (Path.touch, (self.path,))


def test_pickles_are_never_opened(tmp_path) -> None:
    path, mark = tmp_path / "model.npz", tmp_path / "executed"
    np.savez(stream := io.BytesIO(), metriclearn=np.array([Bomb(mark)], dtype=object))
    for content in (pickle.dumps(Bomb(mark)), stream.getvalue()):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"cannot be read as a model of metriclearn\.save"):
            ml.load(path)
    assert not mark.exists()


def rewrite(path: Path, change, *, forged: bool = True) -> None:
    """Apply ``change`` to the JSON document and arrays of a file, and forge the digest."""
    with np.load(path, allow_pickle=False) as file:
        arrays = dict(file)
    document, digest = json.loads(str(arrays["metriclearn"])), arrays.pop("digest")
    change(document, arrays)
    arrays["metriclearn"] = np.array(json.dumps(document))
    total = hashlib.sha256()
    for name, array in sorted(arrays.items()):
        total.update(f"{name} {array.dtype.str} {array.shape} ".encode() + array.tobytes())
    arrays["digest"] = np.array(total.hexdigest()) if forged else digest
    with path.open("wb") as stream:
        np.savez(stream, **arrays)


CHANGES = [
    lambda document, _: document.pop("format"),
    lambda document, _: document.pop("estimator"),
    lambda _, arrays: arrays.pop("array0"),
    lambda document, _: document["estimator"]["object"].__setitem__(0, "Popen"),
    lambda document, _: document.update(estimator={"code": "1 + 1"}),
    lambda document, _: document.update(estimator={"list": [], "dict": []}),
]


def test_incomplete_or_invented_contents_and_other_formats_are_refused(tmp_path, learner) -> None:
    path = ml.save(learner, tmp_path / "model.npz")
    content = path.read_bytes()
    for change in CHANGES:
        path.write_bytes(content)
        rewrite(path, change)
        with pytest.raises(ValueError, match=r"model\.npz"):
            ml.load(path)
    for other in (5, 7):
        rewrite(path, lambda document, _, n=other: document.update(format=n, version="9.1"))
        with pytest.raises(
            ValueError, match=rf"reads format 6, .* has format {other}; load .* metriclearn 9\.1"
        ):
            ml.load(path)


def test_an_array_that_another_program_changed_is_refused(tmp_path, learner) -> None:
    path = ml.save(learner, tmp_path / "model.npz")
    content = path.read_bytes()
    with np.load(path, allow_pickle=False) as file:
        names = [name for name in file.files if name.startswith("array")]
    for name in names:
        for damage in (lambda a: a[:0], lambda a: 2 * a + 1, np.float16):
            path.write_bytes(content)

            def change(_, arrays, name=name, damage=damage) -> None:
                arrays[name] = damage(arrays[name])

            rewrite(path, change, forged=False)
            with pytest.raises(ValueError, match=r"as metriclearn\.save wrote it, .* changed"):
                ml.load(path)


def test_foreign_objects_are_not_saved(tmp_path, learner) -> None:
    path = ml.save(learner, tmp_path / "model.npz")
    before = path.read_bytes()
    for stranger in (
        ml.ChangePointMetricLearner(regularizer=open),
        ml.ChangePointMetricLearner(metric=type("DiagonalMetric", (ml.DiagonalMetric,), {})()),
        baselines.PenaltyLearner(make_pipeline(type("Scaler", (StandardScaler,), {})())),
    ):
        with pytest.raises(TypeError, match="stores"):
            ml.save(stranger, path)
    assert path.read_bytes() == before
