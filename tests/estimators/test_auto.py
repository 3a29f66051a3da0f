"""What auto_metric_learner chooses, and by which data."""

import numpy as np
import pytest

import metriclearn as ml
from metriclearn.datasets import make_change_points
from metriclearn.estimators.selection.auto import FAMILIES, Family
from tests.estimators.test_feature_penalty import TEST, XS, YS

QUICK = {"solver": ml.BundleDual(tolerance=1e-2, max_rounds=60), "verbose": False}
FEW = {
    "diagonal": Family(ml.ChangePointMetricLearner(**QUICK), "regularizer__strength", (1e-3, 1e4)),
    "full": Family(
        ml.ChangePointMetricLearner(ml.FullMetric(), ml.Trace(), **QUICK),
        "regularizer__strength",
        (1e-3,),
    ),
}


def test_the_simplest_of_equals_and_the_better_strength() -> None:
    """Three of fifteen features matter, each on its own: a full metric is no better."""
    data = make_change_points(6, 150, 15, 3, (3, 5), random_state=0)
    learner = ml.auto_metric_learner(data.sequences, data.labels, families=FEW, seconds=600)
    choice = learner.choice_
    assert choice.names[choice.chosen].startswith("diagonal 0.001")
    assert choice.losses.shape == (len(choice.names), 6)
    best = choice.losses[choice.chosen].mean()
    worst = choice.losses[[name.startswith("diagonal 10000") for name in choice.names]].mean()
    assert best < 0.5 * worst
    assert choice.left_out == []
    assert "→" in str(choice)
    assert np.count_nonzero(np.abs(learner.components_).sum(axis=0)) < 10


def test_two_groups_need_more_than_one_standard_error_of_theirs() -> None:
    """The full metric is better by 1.2 standard errors: Student asks for 1.8 of two values."""
    data = make_change_points(2, 120, 6, 2, (3, 5), random_state=15)
    turned = np.linalg.qr(np.random.RandomState(15).randn(6, 6))[0]
    strengths = {"diagonal": (1e-3,), "full": (1e-2,)}
    families = {name: FEW[name]._replace(strengths=one) for name, one in strengths.items()}
    arrays = [X @ turned for X in data.sequences]
    choice = ml.auto_metric_learner(arrays, data.labels, families=families, seconds=600).choice_
    losses = {name: row for name, row in zip(choice.names, choice.losses)}
    best = {
        family: min((row for name, row in losses.items() if name.startswith(family)), key=np.mean)
        for family in ("diagonal 0.001, penalty tuned in", "full 0.01, penalty tuned in")
    }
    excess = np.subtract(*best.values())
    error = np.std(excess, ddof=1) / np.sqrt(2)
    assert 1.1 < excess.mean() / error < 1.7
    assert choice.names[choice.chosen].startswith("diagonal")


def test_every_fit_is_stopped_after_a_twentieth_of_the_seconds() -> None:
    family = {"full": FEW["full"]._replace(strengths=(1e-6,))}
    hurried = ml.auto_metric_learner(XS[:4], YS[:4], families=family, seconds=1e-9, n_folds=2)
    assert hurried.solution_.reason == "callback"
    assert list(hurried.callbacks) == []


def test_penalties_are_taken_where_they_help_and_files_keep_the_choice(tmp_path) -> None:
    """Noise of two levels: the penalty has to follow it."""
    groups = np.repeat(np.arange(4), 2)
    squared = ml.ChangePointMetricLearner(regularizer=ml.SquaredFrobenius(), **QUICK)
    family = {"diagonal": FEW["diagonal"]._replace(learner=squared, strengths=(1e-3,))}
    learner = ml.auto_metric_learner(XS, YS, groups, families=family, seconds=600)
    assert learner.choice_.losses.shape[1] == 4
    assert any("penalties of the boundary" in name for name in learner.choice_.names)
    loaded = ml.load(ml.save(learner, tmp_path / "auto.npz"))
    assert str(loaded.choice_) == str(learner.choice_)
    X = TEST[0][0]
    np.testing.assert_array_equal(loaded.predict(X), learner.predict(X))


def test_without_time_the_first_candidate_is_fitted() -> None:
    learner = ml.auto_metric_learner(XS[:4], YS[:4], families=FEW, seconds=1e-9, n_folds=2)
    assert [name.partition(",")[0] for name in learner.choice_.names] == ["diagonal 0.001"] * 3
    assert "full 0.001" in learner.choice_.left_out
    assert learner.components_.shape[1] == 2


def test_partial_labels_are_left_to_families_that_learn_from_them() -> None:
    halves = [np.where(np.arange(len(y)) < 35, y, -1) for y in YS[:4]]
    families = {"diagonal": FEW["diagonal"], "whitened": FAMILIES["whitened"]}
    learner = ml.auto_metric_learner(XS[:4], halves, families=families, seconds=1e-9, n_folds=2)
    assert isinstance(learner, ml.ChangePointMetricLearner)
    assert not any(name.startswith("whitened") for name in learner.choice_.left_out)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((XS[0], YS[0]), "needs a list of sequences in two groups"),
        ((XS, YS, np.zeros(len(XS))), "two groups"),
        ((XS, YS, [1, 2]), "one group for each"),
        ((XS, YS, [None, *range(1, len(XS))]), "a number for each of 8 sequence.s., none of them"),
        ((XS, YS, np.ones((len(XS), 2))), "needs groups=.…. with a name or a number for each"),
        ((XS, YS, 3), "needs groups=.…. with a name or a number for each of 8"),
    ],
)
def test_what_cannot_be_divided_is_told(arguments, sentence) -> None:
    with pytest.raises(ValueError, match=sentence):
        ml.auto_metric_learner(*arguments)
