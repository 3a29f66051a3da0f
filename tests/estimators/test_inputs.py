"""Data sets, labels, weights and parameters: which are fine, and what is refused in a sentence."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse

import metriclearn as ml
from experiments.rivals.image_baselines import EuclideanSimilarity
from metriclearn import baselines
from metriclearn.estimators.reading.data_sets import read_data_sets
from metriclearn.estimators.reading.labels import read_labelings, read_weights
from tests.sentences import assert_refused, assert_warned
from tests.training import PAIRS, XS, YS, learn

A = np.arange(8.0).reshape(4, 2)
B = np.arange(6.0).reshape(3, 2)


def edited(array: np.ndarray, row: Any, column: int, value: float) -> np.ndarray:
    array = array.copy()
    array[row, column] = value
    return array


class Frame:
    """What data frames of polars have: columns, a shape and no number of dimensions."""

    def __init__(self, array: np.ndarray) -> None:
        self.array, self.shape, self.columns = array, array.shape, ["speed", "heart"]

    def __getitem__(self, name: str) -> np.ndarray:
        return self.array[:, self.columns.index(name)]

    def __array__(self, *arguments: Any, **keywords: Any) -> np.ndarray:
        return self.array.astype(np.float64)


SIGNALS = [np.arange(4.0), np.arange(3.0)]
COLUMN, OTHER = (signal[:, None] for signal in SIGNALS)
MIXED = pd.DataFrame({"speed": [1.0, 2.0], "name": ["a", "b"], "day": pd.to_datetime([0, 1])})
DATES = Frame(np.array([[0, 1], [2, 3]], dtype="datetime64[s]"))  # which become numbers in silence
NAMES = ["speed", "heart"]
FRAMES = [pd.DataFrame(array, columns=NAMES) for array in (A, B)]
# one name is composed, the other is not, and has a blank at its end
LIKE = [pd.DataFrame(A, columns=["Zo\u00eb", "x"]), pd.DataFrame(B, columns=["Zoe\u0308 ", "x"])]
# what is passed, the arrays that are read, and names of features
READ: dict[str, tuple[Any, list[np.ndarray], list[str] | None]] = {
    "list": ([A, B], [A, B], None),
    "tuple": ((A, B), [A, B], None),
    "nested lists": ([A.tolist(), B], [A, B], None),
    "other types": ([A.astype(np.float32), B.astype(int)], [A, B], None),
    "frame without names": ([pd.DataFrame(A), B], [A, B], None),
    "array of three dimensions": (np.stack([A, A + 1.0]), [A, A + 1.0], None),
    "array of objects": ([A.astype(object), B], [A, B], None),
    "another order in memory": ([np.asfortranarray(A), B], [A, B], None),
    "signals": (SIGNALS, [COLUMN, OTHER], None),
    "series": (tuple(map(pd.Series, SIGNALS)), [COLUMN, OTHER], None),
    "signals as objects": (np.array(SIGNALS, dtype=object), [COLUMN, OTHER], None),
    "frames": (FRAMES, [A, B], NAMES),
    "frames of another package": ([Frame(A), Frame(B)], [A, B], NAMES),
    "frames as objects": (np.fromiter([Frame(A), Frame(B)], dtype=object), [A, B], NAMES),
    "names that look equal": (LIKE, [A, B], ["Zo\u00eb", "x"]),
}


@pytest.mark.parametrize(("X", "expected", "names"), READ.values(), ids=READ)
def test_several_data_sets_and_each_of_them_alone(X, expected, names) -> None:
    several, alone = read_data_sets("Learner", X), read_data_sets("Learner", X[0])
    assert (several.single, alone.single) == (False, True)
    assert not read_data_sets("Learner", [X[0]]).single
    for data, arrays in ((several, expected), (alone, expected[:1])):
        found = data.feature_names
        assert (found if found is None else found.tolist()) == names
        assert data.n_features == arrays[0].shape[1]
        for array, values in zip(data.arrays, arrays, strict=True):
            assert array.dtype == np.float64
            np.testing.assert_array_equal(array, values)


@pytest.mark.parametrize(
    "names",
    [
        NAMES,
        [0, 1],
        [7, 3],
        pd.MultiIndex.from_tuples([("a", "x"), ("a", "y")]),
        pd.to_datetime(["2020-01-02", "2020-01-01"]),
    ],
)
def test_names_of_columns_decide_not_positions(names) -> None:
    fitted = ml.baselines.TunedSegmenter(penalty=1.0).fit([pd.DataFrame(A, columns=names)])
    fitted.predict(pd.DataFrame(B, columns=names))
    fitted.predict(B)
    fitted.predict(pd.DataFrame(B))
    other = pd.DataFrame(B, columns=names)
    remedy = r".* Pass the columns of the training, table\[\["
    remedy = remedy if hasattr(fitted, "feature_names_in_") else ""
    with assert_refused("needs the feature names it was fitted with, in that order" + remedy):
        fitted.predict(other.iloc[:, ::-1])
    if names is NAMES:
        with assert_refused("X has 3 features, but TunedSegmenter is expecting 2" + remedy):
            fitted.predict(other.assign(further=0.0))


SPARSE = "needs dense data, got a sparse matrix; call"
BAD_DATA: list[tuple[Any, str]] = [
    ([], "at least one data set, got an empty list"),
    (np.zeros((0, 4, 2)), "at least one data set, got an empty list"),
    ([A, edited(A, 2, 1, np.nan)], "numbers, got NaN at row 2, feature 1 of data set 1"),
    ([edited(A, 2, 1, np.inf), B], "numbers, got inf at row 2, feature 1 of data set 0"),
    ([A, B[:, :1]], "same features in every data set, got 2 in data set 0 and 1 in data set 1"),
    ([A, B[:0]], r"array with 0 sample\(s\) .*minimum of 1 is required in data set 1"),
    (A[:, :0], r"array with 0 feature\(s\) .*minimum of 1 is required in the data set"),
    (3.0, r"\(n_samples, n_features\) data, got 0 dimension"),
    (None, "needs data, got none"),
    ([["a", "b"], ["c", "d"]], "a rectangular array of real numbers in"),
    (A + 1j, "a rectangular array of real numbers in the data set.*Complex data"),
    ([A, np.zeros(3)], "data set 1"),
    ([[1.0, 2.0], [3.0]], r"rows of one data set, .* from 1 to 2 numbers; pass .* as arrays"),
    (MIXED, "in the data set, got something else in name, day .*convert such columns, or drop"),
    (MIXED[["day"]], "something else in day .*datetime64.*convert such columns, or drop them"),
    (DATES, "something else in speed, heart .*convert such columns, or drop them"),
    (edited(A, slice(None), 1, np.nan), "got NaN at row 0, feature 1 .*drop this column"),
    ([FRAMES[0], FRAMES[1][NAMES[::-1]]], "feature names in the same order, but data set 1"),
    (scipy.sparse.csr_matrix(A), SPARSE),
    ([A, scipy.sparse.csr_array(B)], SPARSE),
    (SimpleNamespace(sequences=[A]), "a list of arrays or tables, .*; pass X.sequences"),
    (SimpleNamespace(column_names=NAMES), "an Arrow table; call .to_pandas"),
]


@pytest.mark.parametrize(("X", "message"), BAD_DATA)
def test_bad_data_sets(X, message) -> None:
    with assert_refused(f"Learner .*{message}"):
        read_data_sets("Learner", X)


# labels of four samples, and their change-points
GIVEN_LABELS: dict[str, tuple[Any, list[int]]] = {
    "str": (["a", "a", "b", "a"], [2, 3, 4]),
    "int": (np.array([3, 3, 0, 3]), [2, 3, 4]),
    "series": (pd.Series([3, 3, 0, 3], index=[9, 8, 7, 6]), [2, 3, 4]),
    "categories": (pd.Series(["x", "x", "y", "x"], dtype="category"), [2, 3, 4]),
    "tuples": ([(0, 1), (0, 1), (1, 1), (0, 1)], [2, 3, 4]),
    "bool": (np.array([False, False, True, False]), [2, 3, 4]),
    "partition": (ml.Partition.from_change_points([2, 3, 4]), [2, 3, 4]),
    "change-points": ([2, 3, 4], [2, 3, 4]),
    "the end alone": ((4,), [4]),
    "change-points as a range": (range(1, 5), [1, 2, 3, 4]),
    "change-points as a list of NumPy": (list(np.array([2, 4])), [2, 4]),
    "change-points of few bits": (np.array([2, 4], np.uint8), [2, 4]),
}


@pytest.mark.parametrize(("y", "change_points"), GIVEN_LABELS.values(), ids=GIVEN_LABELS)
@pytest.mark.parametrize("partial", [False, True])
def test_labels_are_runs_or_change_points_that_rise_to_the_end(y, change_points, partial) -> None:
    expected = ml.Partition.from_change_points(change_points)
    one, several = read_data_sets("L", A), read_data_sets("L", [A, B])
    assert read_labelings("L", y, one, segments=True, partial=partial) == [expected]
    both = read_labelings("L", [y, [1, 3]], several, segments=True, partial=partial)
    assert both == [expected, ml.Partition.from_change_points([1, 3])]


FOUR = [0] * 4
NEITHER = r"\d labels for the 4 samples .*; pass 4 labels, or change-points that rise to 4"
BAD_LABELS: list[tuple[Any, Any, str]] = [
    ([A, B], None, "Learner requires y to be passed, but the target y is None"),
    ([A, B], [FOUR], r"one labeling for each of the 2 data sets, got 1"),
    ([A, B], [FOUR] * 2, "one label per sample, got 4 labels for the 3 samples of data set 1"),
    ([A, B], [[-1] * 4, [0] * 3], "every sample of data set 0 labeled, got .*4 samples, 0 l"),
    ([A, B], [FOUR, [0, -1, -1]], "sample of data set 1 labeled, got .*3 samples, 1 labeled"),
    ([A, B], [FOUR, np.array([0, -1, 2], object)], "data set 1 labeled, .*3 samples, 2 lab"),
    ([A, B], [FOUR, [0, 1, None]], "labels of data set 1: .*without None or NaN; label every"),
    ([A, B], [FOUR, 3], "Learner.*data set 1"),
    ([A, B], 3, "Learner needs one labeling per data set"),
    ([A, B], {"a": FOUR, "b": [0] * 3}, r"per data set, got 2 data set\(s\) and a dict"),
    (A, dict(enumerate(FOUR)), "needs a list of labels for the data set, got a dict"),
    (A, "aaaa", "needs a list of labels for the data set, got a str"),
    ([A, B], [FOUR, b"aaa"], "needs a list of labels for data set 1, got a bytes"),
    ([[1.0, 2.0]] * 2, [[0, 1]] * 2, "several for each of the 2 rows .* recordings as arrays"),
    (A, [0, 0, 1], "got 3 labels for the 4 samples of the data set"),
    (A, [(0, 2, np.str_("a")), (2, 4, "b")], "got 2 labels for .*row_labels converts .start,"),
    (A, ml.Partition.from_change_points([5]), "got 5 labels for the 4 samples of the data set"),
    *((A, y, NEITHER) for y in ([0, 2, 4], [2, 2, 4], [3, 2, 4], [2, 3], [2.0, 4.0], [5], [-1, 4])),
]


@pytest.mark.parametrize(("X", "y", "message"), BAD_LABELS)
def test_bad_labels(X, y, message) -> None:
    some = message == NEITHER
    with assert_refused(message):
        read_labelings("Learner", y, read_data_sets("Learner", X), segments=True, partial=some)


def test_clusterings_have_no_change_points() -> None:
    with assert_refused("got 2 labels for the 4 samples of the data set; pass 4 labels"):
        read_labelings("L", [2, 4], read_data_sets("L", A), segments=False)


def test_weights() -> None:
    assert read_weights("Learner", None, 3) is None
    np.testing.assert_array_equal(read_weights("Learner", [1, 0, 2], 3), [1.0, 0.0, 2.0])
    np.testing.assert_array_equal(read_weights("Learner", pd.Series([1, 2]), 2), [1.0, 2.0])


@pytest.mark.parametrize(
    "weights", [[1.0, 2.0], [1, 2, -1], [0, 0, 0], [1, 2, np.nan], [1, 2, np.inf], 1.0, [[1, 2, 3]]]
)
def test_bad_weights(weights) -> None:
    with assert_refused("Learner needs .*sample_weight"):
        read_weights("Learner", weights, 3)


# Unusual data that are fine


def test_lengths_may_differ_and_short_sequences_are_predicted() -> None:
    lengths = (120, 100, 90, 110, 60)
    learner = learn(*zip(*[(x[:T], y[:T]) for x, y, T in zip(XS, YS, lengths)]), min_size=3)
    short = [x[:T] for x, T in zip(XS, (1, 2, 90))]
    assert [ends[-1] for ends in learner.predict_change_points(short)] == [1, 2, 90]


@pytest.mark.parametrize(
    ("metric", "regularizer"), [(ml.DiagonalMetric(), ml.L1(1e6)), (ml.FullMetric(), ml.Trace(1e6))]
)
def test_a_metric_that_learned_nothing_still_predicts(metric, regularizer) -> None:
    """A huge strength leaves B = 0: no components, one segment, distances 0."""
    with assert_warned("learned a metric that is .nearly. zero, .*1000000.0.* lower the strength"):
        learner = learn(metric=metric, regularizer=regularizer)
    assert learner.components_.shape == (0, 6)
    with assert_warned("transforms to tables without a column, as its metric is 0; fit again"):
        assert learner.transform(XS[0]).shape == (120, 0)
    np.testing.assert_array_equal(learner.get_mahalanobis_matrix(), np.zeros((6, 6)))
    np.testing.assert_array_equal(learner.pair_distance(np.ones((2, 2, 6))), [0.0, 0.0])
    assert learner.predict_change_points(XS[0]).tolist() == [120]
    assert len(learner.predict_change_points(XS[0], n_segments=4)) == 4


@pytest.mark.parametrize("labels", [np.zeros(120), np.arange(120)], ids=["no change", "all"])
@pytest.mark.parametrize(("metric", "regularizer"), PAIRS[::4])
def test_labels_that_never_change_or_at_every_sample(metric, regularizer, labels) -> None:
    with assert_warned(
        "was given labels that (put all samples.*pass data|differ for all .*give all)"
    ):
        learner = learn(y=[labels] * 5, metric=metric, regularizer=regularizer)
    assert learner.solution_.converged
    assert learner.score(XS, [labels] * 5) == 0.0


def test_a_metric_that_is_nearly_zero() -> None:
    with assert_warned("learned a metric that is .nearly. zero, .*SquaredFrobenius.* too strong"):
        learn(regularizer=ml.SquaredFrobenius(1e9))
    with assert_warned(r"SquaredFrobenius\(\) or penalty=0.0 leaves nothing to gain;"):
        learn(penalty=0.0)
    with assert_warned("stopped by a callback at a metric that is still .nearly. zero"):
        learn(callbacks=[ml.running.callbacks.TimeLimit(0.0)])


def test_a_penalty_of_zero_says_what_is_missing() -> None:
    """Changes alone do not say where there is none; a list that ends with T does."""
    ends = [np.append(np.flatnonzero(np.diff(labels)) + 1, 120) for labels in YS]
    some = [ml.PartialPartition(120, change_points=list(one[:-1])) for one in ends]
    with assert_warned("learned a penalty of 0, .*end lists of all change-points with T"):
        assert learn(y=some).penalty_ == 0.0


@pytest.mark.parametrize(
    "estimator",
    [
        *(baselines.Euclidean(), baselines.PrincipalComponents(6), baselines.RelevantComponents()),
        *(baselines.RelevantComponents(diagonal=True), baselines.ClosedFormMetric()),
        *(baselines.MMC(), baselines.NeighborhoodComponents(), EuclideanSimilarity()),
        *(
            ml.ClusteringMetricLearner(),
            ml.NormalizedCutMetricLearner(),
            ml.WhitenedMetricLearner(),
        ),
    ],
    ids=repr,
)
def test_constant_features_of_other_estimators(estimator) -> None:
    X = [np.insert(array, 3, 7.0, axis=1) for array in XS[:2]]
    with assert_warned(r"gives no weight to 1 feature.s. .*\(3\); remove"):
        estimator.fit(X, YS[:2])
    assert estimator.components_.shape[1] == 7
    np.testing.assert_array_equal(estimator.components_[:, 3], 0.0)
    assert np.isfinite(estimator.components_).all()


def test_a_consensus_tells_of_constant_features() -> None:
    segmenter = ml.Segmenter(baselines.TunedSegmenter(), n_folds=2, verbose=False)
    with assert_warned(r"^Segmenter gives no weight to 6 feature.s. .*\(6, 7, 8, 9, 10, …\)"):
        segmenter.fit([np.hstack([array, np.ones((len(array), 6))]) for array in XS], YS)
