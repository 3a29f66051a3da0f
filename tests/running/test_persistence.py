"""A loaded estimator equals the saved one; foreign files are refused and never executed."""

import hashlib
import io
import json
import os
import pickle
from dataclasses import is_dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.datasets import load_iris
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import StandardScaler

import metriclearn as ml
from metriclearn import baselines
from metriclearn.solvers.subgradient import ConstantStep
from metriclearn.views.hermite import HermiteMoments, SlidingMoments, SoftThresholds
from metriclearn.views.sequence import SequenceFeatures
from tests.estimators.test_normalized_cuts import arrays
from tests.estimators.test_penalty import sequences
from tests.training import PAIRS, XS, YS, some_of

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
LEARNER = ml.ChangePointMetricLearner
TABLE_LEARNER = ml.ClusteringMetricLearner(random_state=0, solver=ml.BundleDual(1e-2))
SHAPED = make_pipeline(
    SlidingMoments(3, scale="noise"), SoftThresholds([0.5, 1]), HermiteMoments(3, scale=4.0)
)
SEQUENCES = {
    **{f"{metric}, {term}": LEARNER(metric, term, ml.BundleDual(1e-2)) for metric, term in PAIRS},
    "constant steps": LEARNER(
        solver=ml.solvers.ProjectedSubgradient(ConstantStep(1e-3), max_rounds=5)
    ),
    "given": LEARNER(n_segments="given", n_jobs=2, verbose=False),
    "numpy scalars": LEARNER(penalty=np.float64(0.5), min_size=np.int64(2)),
    "nothing learned": LEARNER(regularizer=ml.L1(1e6)),
    "whitened": ml.WhitenedMetricLearner(),
    "towards a reference": ml.WhitenedMetricLearner(
        view=ml.views.Metric(baselines.PrincipalComponents(3)), toward=1e-2
    ),
}
PENALTIES = {
    "represented": baselines.PenaltyLearner(SHAPED, SequenceFeatures(("log_length",))),
    "counted": baselines.PenaltyLearner(
        SHAPED, make_union(SequenceFeatures(), ml.estimators.SegmentCounts((0.5, 2.0), SHAPED))
    ),
    "criterion": baselines.BayesianCriterion(HermiteMoments(2)),
}
TABLES = {
    "relaxed": TABLE_LEARNER,
    "searched": clone(TABLE_LEARNER).set_params(oracle=ml.oracles.LocalSearch(), n_clusters=None),
    "averaged": clone(TABLE_LEARNER).set_params(oracle=ml.oracles.Averaged()),
    "whitened clusters": ml.estimators.WhitenedClusteringLearner(),
    "chunklets": baselines.RelevantComponents(contiguous=False),
    "closed form": baselines.ClosedFormMetric(),
    "neighborhoods": baselines.NeighborhoodComponents(max_iter=5, random_state=0),
}
GRAPHS = {"cuts": ml.NormalizedCutMetricLearner(starts=(1e-2,), verbose=False)}
PARTLY = [np.where(np.arange(120) < 60, labels, -1) for labels in YS]
GIVEN = [
    (SEQUENCES, (XS, YS)),
    (PENALTIES, sequences(8, 0)),
    (TABLES, load_iris(return_X_y=True)),
    (GRAPHS, arrays(2)),
    ({"completed": LEARNER(solver=ml.BundleDual(1e-2))}, (XS, PARTLY)),
    ({"completed cuts": GRAPHS["cuts"]}, (arrays(2)[0], some_of(arrays(2)[1], 0.5))),
]
CASES = {name: (one, *data) for learners, data in GIVEN for name, one in learners.items()}
LEFT_OUT = ("paths_",)  # large, and only of the training


@pytest.fixture(scope="module")
def learner() -> ml.ChangePointMetricLearner:
    return ml.ChangePointMetricLearner(regularizer=ml.SquaredFrobenius(0.1)).fit(XS, YS)


def contents(value: Any) -> Any:
    """Parameters and fitted attributes of an estimator."""
    if isinstance(value, BaseEstimator) or is_dataclass(value):
        held = {k: contents(v) for k, v in vars(value).items() if k not in LEFT_OUT}
        return [type(value).__name__, held]
    if isinstance(value, (list, tuple)):
        return [contents(item) for item in value]
    return value


def assert_same(mine: BaseEstimator, theirs: BaseEstimator) -> None:
    np.testing.assert_equal(contents(mine), contents(theirs))


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


@pytest.mark.parametrize("case", CASES)
def test_round_trip(case, tmp_path) -> None:
    unfitted, X, y = CASES[case]
    learner = clone(unfitted).fit(X, y)
    path = ml.save(learner, str(tmp_path / "model.npz"))
    assert path == tmp_path / "model.npz"
    loaded = ml.load(path)
    assert_same(loaded, learner)
    assert vars(learner).keys() - vars(loaded).keys() <= {*LEFT_OUT}
    assert not {*LEFT_OUT} & vars(loaded).keys()
    if getattr(learner, "penalty_", 0.0) is not None:
        use = "predict" if hasattr(learner, "predict") else "transform"
        np.testing.assert_equal(getattr(loaded, use)(X), getattr(learner, use)(X))


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
        with pytest.raises(ValueError, match=r"needs a file written by metriclearn\.save"):
            ml.load(path)
    assert not mark.exists()


def test_damaged_and_foreign_files_are_refused(tmp_path, learner) -> None:
    path = ml.save(learner, tmp_path / "model.npz")
    content = path.read_bytes()
    middle = len(content) // 2
    flipped = content[:middle] + bytes([content[middle] ^ 0xFF]) + content[middle + 1 :]
    truncated = [content[:n] for n in np.linspace(0, len(content) - 1, 12).astype(int)]
    np.savez(stream := io.BytesIO(), components=np.eye(3))
    for damaged in (*truncated, flipped, b"a text\n", b"PK\x03\x04", stream.getvalue()):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"metriclearn\.(load|save).*model\.npz") as caught:
            ml.load(path)
        assert "\n" not in str(caught.value)


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
        with pytest.raises(ValueError, match=r"metriclearn\.load .*model\.npz"):
            ml.load(path)
    for other in (5, 7):
        rewrite(path, lambda document, _, n=other: document.update(format=n, version="9.1"))
        with pytest.raises(
            ValueError, match=rf"reads format 6, .* has format {other}; load .* metriclearn 9\.1"
        ):
            ml.load(path)


def test_fractions_are_numbers(tmp_path) -> None:
    solver = ml.solvers.CuttingPlane(stabilization=Fraction(1, 3), tolerance=1e-2)
    learner = LEARNER(ml.FullMetric(), ml.Trace(Fraction(1, 100)), solver).fit(XS, YS)
    loaded = ml.load(learner.save(tmp_path / "model.npz"))
    assert loaded.regularizer.strength == 0.01
    np.testing.assert_array_equal(loaded.components_, learner.components_)


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


@pytest.mark.skipif(os.name != "posix", reason="file modes are POSIX")
def test_files_are_readable_as_the_umask_says(tmp_path) -> None:
    old = os.umask(0o022)
    try:
        path = ml.save(ml.ChangePointMetricLearner(), tmp_path / "model.npz")
    finally:
        os.umask(old)
    assert path.stat().st_mode & 0o777 == 0o644


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
