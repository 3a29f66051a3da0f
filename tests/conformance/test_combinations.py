"""Views and learners that could not be combined before views: each row is one combination."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import metriclearn as ml
from metriclearn import views
from metriclearn.datasets import make_change_points

DATA = make_change_points(6, 90, 5, 2, (3, 4), jump=3.0, random_state=0)
X, Y = DATA.sequences, DATA.labels
NAMED = [np.array(["a", "b"])[y % 2] for y in Y]
NOISE = np.random.default_rng(0).normal(size=(6, 90, 5))
OF_NAMES = [one + 2.5 * np.outer(y == "b", [1, 1, 0, 0, 0]) for one, y in zip(NOISE, NAMED)]
HALF = [np.where(np.arange(len(y)) < 60, y, -1) for y in Y]


def holed(arrays: list[np.ndarray]) -> list[np.ndarray]:
    """The arrays with a row that is missing, and with a gap in one column."""
    arrays = [array.copy() for array in arrays]
    for array in arrays:
        array[7], array[40:43, 1] = np.nan, np.nan
    return arrays


HOLED = holed(X)
FEW = ml.BundleDual(max_rounds=30)
POSTERIORS = views.Chain([views.Fill(4), views.Posteriors(LogisticRegression(), 2, 2)])
COMBINATIONS = {
    "partial labels under whitening": (ml.WhitenedMetricLearner(), X, HALF, {}),
    "a named learner on some columns, with weights and groups": (
        ml.NamedSegmentLearner(view=views.Columns(0, 3), solver=FEW),
        OF_NAMES,
        NAMED,
        {"sample_weight": [1, 2, 1, 1, 1, 1], "groups": [0, 0, 1, 1, 2, 2]},
    ),
    "posteriors over filled gaps": (
        ml.ChangePointMetricLearner(view=POSTERIORS),
        holed(OF_NAMES),
        NAMED,
        {"groups": [0, 0, 1, 1, 2, 2]},
    ),
    "whitening behind rows that are left out": (
        ml.ChangePointMetricLearner(view=views.Chain([views.LeaveOut(), views.Whiten()])),
        HOLED,
        Y,
        {},
    ),
    "partial labels where rows are left out": (
        ml.ChangePointMetricLearner(view=views.LeaveOut()),
        HOLED,
        HALF,
        {},
    ),
    "moments of some columns": (
        ml.ChangePointMetricLearner(view=views.Chain([views.Columns(0, 4), views.Windows((2, 4))])),
        X,
        Y,
        {},
    ),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", COMBINATIONS.values(), ids=COMBINATIONS)
def test_combination(case, tmp_path) -> None:
    """Better than one segment, the same after saving, and for one recording as for several."""
    learner, arrays, labels, options = case
    model = learner.fit(arrays, labels, **options)
    found = model.predict_change_points(arrays)
    assert [ends[-1] for ends in found] == [90] * 6
    truths = list(map(ml.Partition.from_runs, NAMED if labels is NAMED else Y))
    loss = ml.FrobeniusLoss()
    one = np.mean([loss(ml.Partition(ends=np.array([90])), truth) for truth in truths])
    ours = np.mean([loss(ml.Partition(ends=e), truth) for e, truth in zip(found, truths)])
    assert ours < 0.5 * one
    loaded = ml.load(model.save(tmp_path / "model.npz"))
    for array, ends, again in zip(arrays, found, loaded.predict_change_points(arrays)):
        assert again.tolist() == ends.tolist() == model.predict_change_points(array).tolist()
    known = [label[:50].tolist() + [-1] * 40 for label in (NAMED if labels is NAMED else Y)]
    known = [np.array(one, dtype=object) for one in known]
    for ends, truth in zip(model.predict_change_points(arrays, known=known), Y):
        changes = np.flatnonzero(np.diff(truth[:50])) + 1
        near = [min(abs(ends - t)) <= 2 for t in changes]  # a change in a gap is in its middle
        assert all(near)
        assert np.sum(ends < 50) == len(changes)


@pytest.mark.filterwarnings("ignore")
def test_posteriors_over_filled_gaps_in_a_stream() -> None:
    learner, arrays, labels, options = COMBINATIONS["posteriors over filled gaps"]
    model = learner.fit(arrays, labels, **options)
    assert model.score_.reach == (6, 6)
    for array in OF_NAMES:
        stream, ends = model.stream(), []
        for chunk in np.array_split(array, 17):
            ends += stream.push(chunk).ends.tolist()
        assert ends + stream.finish().ends.tolist() == model.predict_change_points(array).tolist()


@pytest.mark.filterwarnings("ignore")
def test_a_learner_that_leaves_rows_out_is_the_learner_of_the_kept_rows() -> None:
    model = ml.ChangePointMetricLearner(view=views.LeaveOut()).fit(HOLED, Y)
    kept = [np.flatnonzero(~np.isnan(array).any(axis=1)) for array in HOLED]
    rows = [array[k] for array, k in zip(HOLED, kept)]
    plain = ml.ChangePointMetricLearner().fit(rows, [y[k] for y, k in zip(Y, kept)])
    np.testing.assert_array_equal(model.components_, plain.components_)
    for array, row, k in zip(HOLED, rows, kept):
        ends = plain.predict_change_points(row)
        placed = [(k[e - 1] + k[e] + 1) // 2 for e in ends[:-1]]
        assert model.predict_change_points(array).tolist() == [*placed, 90]
    with pytest.raises(ValueError, match="Margins need a view that keeps all rows"):
        model.boundary_margins(HOLED)
    with pytest.raises(ValueError, match=r"a view that keeps all rows .* for a stream"):
        model.stream()
