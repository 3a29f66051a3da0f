"""Views and learners that could not be combined before views: each row is one combination."""

import pickle
from copy import copy, deepcopy
from functools import partial
from importlib.util import find_spec
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest
from sklearn.decomposition import PCA
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
    "names where rows are left out": (
        ml.NamedSegmentLearner(
            view=views.LeaveOut(), emissions=views.Neighbors(0), solver=FEW, verbose=False
        ),
        holed(OF_NAMES),
        NAMED,
        {},
    ),
    "moments of some columns": (
        ml.ChangePointMetricLearner(view=views.Chain([views.Columns(0, 4), views.Windows((2, 4))])),
        X,
        Y,
        {},
    ),
}
if find_spec("torch"):
    NETWORK = partial(ml.encoders.WindowEncoder, n_outputs=3, width=8, dropout=0.0)
    ENCODED = ml.encoders.Encoder(NETWORK, n_epochs=20, learning_rate=0.02, random_state=0)
    COMBINATIONS["an encoder over windows of some columns"] = (
        ml.ChangePointMetricLearner(
            ml.FullMetric(),
            ml.SquaredFrobenius(1.0, 1.0),
            view=views.Chain([views.Columns(0, 4), views.Windows((2, 4)), ENCODED]),
        ),
        X,
        Y,
        {},
    )


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", COMBINATIONS.values(), ids=COMBINATIONS)
def test_combination(case, tmp_path) -> None:
    """Better than one segment, the same after saving, and for one recording as for several."""
    learner, arrays, labels, options = case
    model = learner.fit(arrays, labels, **options)
    found = model.predict_change_points(arrays)
    assert [ends[-1] for ends in found] == [90] * 6
    truths = list(map(ml.Partition.from_runs, NAMED if labels is NAMED else Y))
    loss = ml.problem.FrobeniusLoss()
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


SIX = [x[:, :3] for x in X]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("size", [1, 5, 90])
def test_streams_fill_gaps(size: int) -> None:
    """Also a first row that is missing, in chunks of one buffer."""
    model = ml.ChangePointMetricLearner(view=views.Fill(3)).fit(HOLED, Y)
    first = HOLED[0].copy()
    first[0] = np.nan
    for array in (*HOLED[:2], first):
        stream, ends, buffer = model.stream(), [], np.empty((size, 5))
        for start in range(0, 90, size):
            buffer[:] = array[start : start + size]
            ends += stream.push(buffer).ends.tolist()
        assert ends + stream.finish().ends.tolist() == model.predict_change_points(array).tolist()


@pytest.mark.parametrize("copied", [lambda s: pickle.loads(pickle.dumps(s)), deepcopy, None])
def test_copies_of_streams_and_streams_of_a_segmenter_that_is_tuned(copied) -> None:
    model = ml.ChangePointMetricLearner(solver=FEW, verbose=False).fit(SIX, Y)
    wanted = model.predict_change_points(SIX[0]).tolist()
    assert len(wanted) > 2
    for n in (2, 4, 20, 40):
        stream = model.stream()
        ends = stream.push(SIX[0][:n]).ends.tolist()
        if copied is None:  # a stream keeps the score with which it began
            tuned = copy(model)
            tuned.score_ = model.score_.at(1e-3)
            stream.segmenter = tuned
            several = [stream.copy(), stream]
        else:
            several = [copied(stream)]
        for other in several:
            rest = [*other.push(SIX[0][n:]).ends.tolist(), *other.finish().ends.tolist()]
            assert ends + rest == wanted


@pytest.mark.filterwarnings("ignore")
def test_clusterings_fill_gaps() -> None:
    clusters = ml.ClusteringMetricLearner(view=views.Fill()).fit(HOLED, Y)
    assert clusters.score(HOLED, Y) > -3.0
    assert [len(one) for one in clusters.predict(HOLED, 3)] == [90] * 6


class Seen(views.plain.PlainView):
    """Remembers the groups with which it was fitted."""

    groups: ClassVar[list[Any]] = []

    def fit(self, X, y=None, groups=None):
        self.groups.append(None if groups is None else [int(one) for one in groups])
        self.begin(X)
        return self

    def rows(self, X):
        return X


@pytest.mark.filterwarnings("ignore")
def test_learners_pass_groups_to_the_view_and_forget_an_earlier_fit() -> None:
    learner = ml.ChangePointMetricLearner(view=Seen())
    ml.regularization_path(learner, X, Y, 2, groups=[0, 0, 1, 1, 2, 2])
    assert [0, 0, 1, 1, 2, 2] in Seen.groups
    learner = ml.ChangePointMetricLearner()
    learner.fit([pd.DataFrame(x, columns=list("abcde")) for x in X], Y).fit_states(X, Y)
    learner.fit(SIX, Y)
    assert learner.n_features_in_ == 3
    assert not hasattr(learner, "feature_names_in_")
    assert len(learner.predict_states(SIX[0])) == 90


@pytest.mark.filterwarnings("ignore")
def test_names_without_a_sample_complete_nothing() -> None:
    """The samples of a name may be left out, or have the weight 0."""
    labels = [np.where(np.arange(90) < 50, y, "").astype(object) for y in NAMED]
    for one in labels:
        one[one == ""] = -1
    labels[0][20:23] = "alone"
    model = ml.NamedSegmentLearner(emissions=views.Neighbors(0), solver=FEW)
    model.fit(OF_NAMES, labels, sample_weight=[0, 1, 1, 1, 1, 1])
    assert "alone" not in np.concatenate(model.predict(OF_NAMES[1:]))


@pytest.mark.filterwarnings("ignore")
def test_training_losses_are_those_of_the_tuned_penalty() -> None:
    strong = ml.SquaredFrobenius(100.0)
    model = ml.WhitenedMetricLearner(regularizer=strong, retune=True).fit(X, Y)
    assert model.training_losses_["learned"] == pytest.approx(-model.score(X, Y))


def with_short_segment() -> list[np.ndarray]:
    arrays = [array.copy() for array in X]
    arrays[0][2 : np.flatnonzero(np.diff(Y[0]))[0] + 1] = np.nan
    return arrays


REFUSED = {
    "segments that a view makes too short": (
        lambda: ml.ChangePointMetricLearner(view=views.LeaveOut(), min_size=4).fit(
            with_short_segment(), Y
        ),
        "labeled segments of at least min_size=4 samples, but data set 0 has one of 2",
    ),
    "clusterings without some rows": (
        lambda: ml.ClusteringMetricLearner(view=views.LeaveOut()).fit(HOLED, Y),
        "a view that keeps all rows, got .*LeaveOut",
    ),
    "names from neighbors across gaps": (
        lambda: ml.NamedSegmentLearner(view=views.LeaveOut()).fit(holed(OF_NAMES), NAMED),
        r"emissions without neighbors in time behind LeaveOut\(\), .* got Neighbors.* across gaps",
    ),
    "features of the penalty across gaps": (
        lambda: ml.ChangePointMetricLearner(
            view=views.LeaveOut(), penalty=ml.FeaturePenalty((ml.views.SequenceFeatures(window=9),))
        ).fit(HOLED, Y),
        r"penalty without neighbors in time behind LeaveOut\(\), .* got FeaturePenalty",
    ),
    "a transformer of scikit-learn": (
        lambda: ml.ChangePointMetricLearner(view=PCA(2)).fit(X, Y),
        r"a view such as views\.Each\(PCA\(2\)\)",
    ),
    "a parameter that was changed after the fit": (
        lambda: (
            ml.ChangePointMetricLearner(solver=FEW).fit(X, Y).set_params(min_size="a").predict(X)
        ),
        "a whole min_size of at least 1, got 'a'",
    ),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("call", "sentence"), REFUSED.values(), ids=REFUSED)
def test_refused(call, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        call()


def test_distances_of_single_samples_under_a_view() -> None:
    model = ml.ChangePointMetricLearner(view=views.OwnScale(), verbose=False).fit(X, Y)
    for call in (model.get_metric, lambda: model.pair_distance(np.zeros((1, 2, 5)))):
        with pytest.raises(TypeError, match="needs whole recordings, because its view"):
            call()
