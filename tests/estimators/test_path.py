"""Warm-started paths of strengths."""

from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import metriclearn as ml
from metriclearn.running.callbacks import ScalarLog
from tests.solvers.complete_problem import watched_by
from tests.training import NAMES, PAIRS, XS, YS, sequences

TIGHT = ml.BundleDual(1e-6)


@pytest.mark.parametrize(("metric", "regularizer"), PAIRS[1::2], ids=NAMES[1::2])
def test_warm_solutions_are_the_cold_ones(metric, regularizer) -> None:
    count = "given" if isinstance(regularizer, ml.Trace) else None
    learner = ml.ChangePointMetricLearner(metric, regularizer, TIGHT, n_segments=count)
    path = ml.regularization_path(learner, XS, YS, [0.03, 0.3])
    np.testing.assert_array_equal(path.strengths, [0.3, 0.03])
    for strength, solution, fitted in zip(path.strengths, path.solutions, path.learners):
        cold = clone(learner).set_params(regularizer__strength=strength).fit(XS, YS)
        assert solution.converged
        both = 2e-6 * cold.solution_.scale
        assert solution.objective == pytest.approx(cold.solution_.objective, abs=both)
        assert solution.lower_bound <= cold.solution_.objective + 1e-12
        assert fitted.regularizer.strength == strength
        assert fitted.solution_ is solution
        assert solution.cuts is None  # nobody keeps hundreds of cuts by accident
    B = fitted.get_mahalanobis_matrix() * np.outer(fitted.scale_, fitted.scale_)
    weights = np.diag(B) if metric.polyhedral else np.linalg.eigvalsh(B)[::-1]
    np.testing.assert_allclose(path.weights[-1], weights, atol=1e-9)


def test_warm_starts_ask_oracles_less() -> None:
    strengths = np.geomspace(0.3, 0.03, 5)
    learner = ml.ChangePointMetricLearner(
        ml.FullMetric(), ml.SquaredFrobenius(), ml.BundleDual(1e-4)
    )
    path = ml.regularization_path(learner, XS, YS, strengths)
    warm = [solution.trace.oracle_calls[-1] for solution in path.solutions[1:]]
    each = [clone(learner).set_params(regularizer__strength=s).fit(XS, YS) for s in strengths[1:]]
    cold = [alone.solution_.trace.oracle_calls[-1] for alone in each]
    assert sum(warm) < 0.9 * sum(cold)


@pytest.mark.parametrize(
    ("metric", "regularizer"), [(ml.DiagonalMetric(), ml.L1()), (ml.FullMetric(), ml.Trace())]
)
def test_the_grid_begins_where_nothing_is_learned(metric, regularizer) -> None:
    learner = ml.ChangePointMetricLearner(metric, regularizer, TIGHT)
    path = ml.regularization_path(learner, XS, YS, 6, ratio=1e-2)
    assert len(path) == 6
    assert path.strengths[-1] == pytest.approx(1e-2 * path.strengths[0])
    assert path.solutions[0].rank == 0
    assert path.solutions[-1].rank > 0
    np.testing.assert_array_equal(path.weights[0], np.zeros(6))
    X = [(x - x.mean(axis=0)) / path.learners[0].scale_ for x in XS]
    H = np.zeros((6, 6))
    for x, labels in zip(X, YS):
        runs = np.append(0, np.cumsum(np.diff(labels) != 0))
        means = np.array([x[runs == k].mean(axis=0) for k in range(runs.max() + 1)])
        H += means[runs].T @ means[runs] / len(x) / len(X)
    greatest = np.diag(H).max() if metric.polyhedral else np.linalg.eigvalsh(H)[-1]
    assert path.strengths[0] == pytest.approx(greatest)


@pytest.mark.parametrize("metric", [ml.DiagonalMetric(), ml.FullMetric()])
def test_strengths_and_weights_of_a_path_have_the_unit_of_the_data(metric) -> None:
    """Both are in squares of this unit, whose powers of two change no digit."""
    learner = ml.ChangePointMetricLearner(metric, ml.Trace(), standardize=False)
    path = ml.regularization_path(learner, XS, YS, 3)
    far = ml.regularization_path(learner, [2.0**20 * x for x in XS], YS, 3)
    np.testing.assert_array_equal(far.strengths, 2.0**40 * path.strengths)
    np.testing.assert_array_equal(far.weights, path.weights / 2.0**40)
    assert far.weights.max() > 0


def test_validation_loss_chooses() -> None:
    X, y = sequences(5)
    learner = ml.ChangePointMetricLearner()
    path = ml.regularization_path(learner, XS, YS, 3, validation=(X, y))
    expected = [-fitted.score(X, y) for fitted in path.learners]
    np.testing.assert_allclose(path.validation_loss, expected)
    assert path.best == int(np.argmin(expected))


def test_a_path_has_the_callbacks_itself() -> None:
    rows: list[tuple] = []
    learner = ml.ChangePointMetricLearner(callbacks=[ScalarLog(lambda *row: rows.append(row))])
    path = ml.regularization_path(learner, XS, YS, [0.1, 0.01])
    rounds = sum(len(solution.trace) for solution in path.solutions)
    assert sum(name == "metriclearn/objective" for name, _, _ in rows) == rounds
    assert all(tuple(fitted.callbacks) == () for fitted in path.learners)


def test_an_interrupted_path_says_where_it_was_and_keeps_what_it_has() -> None:
    seen: list[int] = []

    def interrupt(progress: Any) -> None:
        seen.append(progress.round)
        if len(seen) > 1 and progress.round == 1:
            raise KeyboardInterrupt

    learner = ml.ChangePointMetricLearner(callbacks=watched_by(interrupt))
    told = r"1 of its solutions early.*call it again, it was interrupted at 2 of 3\.$"
    with pytest.warns(ConvergenceWarning, match=told):
        path = ml.regularization_path(learner, XS, YS, 3)
    assert len(path) == len(path.weights) == len(path.learners) == len(path.solutions) == 2
    assert path.solutions[-1].reason == "interrupted"


def test_partial_labels_alternate_at_every_strength() -> None:
    """Each point of the path is what ``fit`` finds at its strength, completions included."""
    y = [np.where(np.arange(len(y)) < len(y) / 2, y, -1) for y in YS]
    strengths = [1e-1, 1e-2]
    learner = ml.ChangePointMetricLearner(solver=ml.BundleDual(tolerance=1e-4), verbose=False)
    path = ml.regularization_path(learner, XS, y, strengths)
    alternations = [one.alternation_ for one in path.learners]
    assert max(len(trace) for trace in alternations) > 1
    for one, strength in zip(path.learners, strengths):
        alone = clone(learner).set_params(regularizer__strength=strength).fit(XS, y)
        assert one.alternation_ == alone.alternation_
        np.testing.assert_allclose(one.components_, alone.components_, atol=1e-12)
        assert one.solution_.objective == one.alternation_.learned[-1]
