"""Views and learners that could not be combined before views: each row is one combination."""

import pickle
from copy import copy, deepcopy
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest

import metriclearn as ml
from metriclearn import views
from tests.conformance.learners import ODD, OF_NAMES, X, Y, holed

HOLED = holed(X)
FEW = ml.BundleDual(max_rounds=30)


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


SIX = [x[:, :3] for x in X]


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


def test_names_without_a_sample_complete_nothing() -> None:
    """The samples of a name may be left out, or have the weight 0."""
    labels = [np.where(np.arange(90) < 50, y, "").astype(object) for y in ODD]
    for one in labels:
        one[one == ""] = -1
    labels[0][20:23] = "alone"
    model = ml.NamedSegmentLearner(emissions=views.Neighbors(0), solver=FEW)
    model.fit(OF_NAMES, labels, sample_weight=[0, 1, 1, 1, 1, 1])
    assert "alone" not in np.concatenate(model.predict(OF_NAMES[1:]))


def test_training_losses_are_those_of_the_tuned_penalty() -> None:
    strong = ml.SquaredFrobenius(100.0)
    model = ml.WhitenedMetricLearner(regularizer=strong, retune=True).fit(X, Y)
    assert model.training_losses_["learned"] == pytest.approx(-model.score(X, Y))


def test_distances_of_single_samples_under_a_view() -> None:
    model = ml.ChangePointMetricLearner(view=views.OwnScale(), verbose=False).fit(X, Y)
    for call in (model.get_metric, lambda: model.pair_distance(np.zeros((1, 2, 5)))):
        with pytest.raises(TypeError, match="needs whole recordings, because its view"):
            call()
