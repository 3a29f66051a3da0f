"""ChangePointMetricLearner: what it learns, how it is solved, and the same in ruptures."""

import logging
import warnings

import numpy as np
import pytest

import metriclearn as ml
from metriclearn.datasets import make_change_points
from tests.training import NAMES, PAIRS, XS, YS, learn, sequences


@pytest.fixture(scope="module")
def learner() -> ml.ChangePointMetricLearner:
    return learn()


def mean_loss(ends, labelings=YS) -> float:
    pairs = zip(map(ml.Partition.from_change_points, ends), map(ml.Partition.from_runs, labelings))
    return np.mean([ml.problem.FrobeniusLoss()(mine, truth) for mine, truth in pairs])


def test_score_is_minus_the_mean_loss(learner) -> None:
    ends = learner.predict_change_points(XS)
    assert learner.score(XS, YS) == pytest.approx(-mean_loss(ends))
    assert learner.score(XS[0], YS[0]) == pytest.approx(-mean_loss(ends[:1], YS[:1]))
    assert learner.score(XS, learner.predict(XS)) == 0.0


def test_the_papers_setting_finds_too_few_segments_with_noise() -> None:
    """With λ = α = 1 a cluster is free in the hinge, and B shrinks; a learned λ mends that."""
    data, new = (make_change_points(8, 200, 30, 3, (5, 8), random_state=i) for i in (0, 1))
    learned = ml.ChangePointMetricLearner(regularizer=ml.SquaredFrobenius(0.1))
    paper = ml.ChangePointMetricLearner.paper(regularizer=ml.SquaredFrobenius(0.1), n_jobs=1)
    assert (paper.penalty, paper.loss_scale, paper.n_jobs) == (1.0, 1.0, 1)
    assert ml.ChangePointMetricLearner.paper(penalty=2.0).penalty == 2.0
    paper.fit(data.sequences, data.labels)
    learned.fit(data.sequences, data.labels)
    assert paper.solution_.converged
    segments = [len(ends) for ends in paper.predict_change_points(new.sequences)]
    truth = [labels.max() + 1 for labels in new.labels]
    assert np.mean(segments) < 0.7 * np.mean(truth)
    assert learned.score(new.sequences, new.labels) > 0.7 * paper.score(new.sequences, new.labels)


def test_a_result_that_plain_answers_beat_is_told() -> None:
    """Few informative features, where the hinge asks for more than the noise allows."""
    rng, X, y = np.random.default_rng(12), [], []
    for _ in range(10):
        changes = np.sort(rng.choice(np.arange(5, 295), 7, replace=False))
        y.append(np.searchsorted(changes, np.arange(300), side="right"))
        mixing, means = rng.normal(size=(6, 6)), rng.normal(size=(8, 6))
        X.append(means[y[-1]] + rng.normal(size=(300, 6)) @ mixing)
    with pytest.warns(UserWarning, match=r"has a mean training loss of 0\.\d+, where one segment"):
        learner = ml.ChangePointMetricLearner(verbose=False).fit(X, y)
    assert learner.training_losses_["learned"] == pytest.approx(-learner.score(X, y))


def test_progress_bar_on_demand_only_and_a_log_line(capsys, caplog) -> None:
    caplog.set_level(logging.INFO, logger="metriclearn")
    ml.ChangePointMetricLearner(verbose=True).fit(XS, YS)
    shown = capsys.readouterr().err
    assert "ChangePointMetricLearner" in shown
    assert "round" in shown
    assert "gap=" in shown
    ml.ChangePointMetricLearner(verbose=False).fit(XS, YS)
    ml.ChangePointMetricLearner().fit(XS, YS)
    captured = capsys.readouterr()
    assert captured.err == captured.out == ""
    assert any(" after " in record.message for record in caplog.records)


@pytest.mark.parametrize(("metric", "regularizer"), PAIRS[::3], ids=NAMES[::3])
def test_the_learned_matrix_gives_the_same_segmentation_in_ruptures(metric, regularizer) -> None:
    """Pelt's cost of a segment is Σ (x−x̄)ᵀB(x−x̄), so its penalty per change is λ."""
    ruptures = pytest.importorskip("ruptures")
    from ruptures.costs import CostMl

    learner = learn(metric=metric, regularizer=regularizer)
    B = learner.get_mahalanobis_matrix()
    for X in XS + sequences(3)[0]:
        pelt = ruptures.Pelt(custom_cost=CostMl(metric=B), min_size=1, jump=1).fit(X)
        theirs = pelt.predict(pen=learner.penalty_)
        np.testing.assert_array_equal(learner.predict_change_points(X), theirs)
        form = ml.problem.LowRankForm(learner.transform(X), shift=-3.0 * learner.penalty_)
        theirs = pelt.predict(pen=3.0 * learner.penalty_)
        np.testing.assert_array_equal(ml.oracles.ChangePoints()(form).change_points, theirs)


def test_penalty_that_one_sequence_leaves_open_is_told() -> None:
    """Two thirds of it give the same segments; more sequences or more changes bound it."""
    data = make_change_points(5, 40, 3, 1, (2, 2), jump=3.0, random_state=0)
    with pytest.warns(UserWarning, match="the penalty of a segment from one sequence"):
        learner = ml.ChangePointMetricLearner().fit(data.sequences[0], data.labels[0])
    assert learner.predict_change_points(data.sequences[0]).tolist() == [*data.change_points[0]]
    learner.score_ = learner.score_.at(learner.penalty_ * 2 / 3)
    assert learner.predict_change_points(data.sequences[0]).tolist() == [*data.change_points[0]]
    long = make_change_points(1, 200, 10, 3, (6, 6), random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ml.ChangePointMetricLearner().fit(data.sequences, data.labels)
        ml.ChangePointMetricLearner().fit(long.sequences[0], long.labels[0])
        ml.ChangePointMetricLearner(penalty=2.0).fit(data.sequences[0], data.labels[0])


def test_warns_if_single_samples_do_not_tell_the_segments() -> None:
    """Parts that differ in variance only: no metric is better than one segment."""
    rng, labels = np.random.default_rng(0), np.repeat([0, 1], 60)
    X = [rng.normal(size=(120, 2)) * (1 + labels)[:, None] for _ in range(4)]
    with pytest.warns(UserWarning, match="where one segment has .* let a Segmenter"):
        ml.ChangePointMetricLearner().fit(X, [labels] * 4)
