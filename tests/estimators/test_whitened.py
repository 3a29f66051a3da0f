"""Large-margin learning in whitened coordinates."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone

from metriclearn import ChangePointMetricLearner, load
from metriclearn.baselines import Euclidean, RelevantComponents, TunedSegmenter
from metriclearn.datasets import make_change_points
from metriclearn.estimators.whitened import WhitenedMetricLearner


def mixed(seed: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Sequences whose features are strongly correlated mixtures."""
    data = make_change_points(5, 150, 12, 3, (4, 5), jump=2.0, feature_seed=0, random_state=seed)
    mixing = np.random.default_rng(0).normal(size=(12, 12)) * np.geomspace(1, 50, 12)
    return [X @ mixing for X in data.sequences], data.labels


def test_components_are_those_of_the_inner_learner_times_the_whitening() -> None:
    X, y = mixed(1)
    learner = WhitenedMetricLearner(shrinkage=0.05).fit(X, y)
    W = RelevantComponents(shrinkage=0.05).fit(X, y).components_
    np.testing.assert_allclose(learner.components_, learner.learner_.components_ @ W)
    inner = learner.learner_.predict_change_points([x @ W.T - (x @ W.T).mean(axis=0) for x in X])
    for a, b in zip(inner, learner.predict_change_points(X)):
        np.testing.assert_array_equal(a, b)
    assert learner.solution_.converged


def test_better_than_euclidean_on_mixtures() -> None:
    X, y = mixed(1)
    new = mixed(2)
    learned = -WhitenedMetricLearner(shrinkage=1e-4).fit(X, y).score(*new)
    plain = -TunedSegmenter(Euclidean()).fit(X, y).score(*new)
    assert learned < 0.6 * plain


def test_constant_features_get_no_weight() -> None:
    X, y = mixed(1)
    padded = [np.insert(x, 4, 7.0, axis=1) for x in X]
    learner = WhitenedMetricLearner().fit(padded, y)
    assert np.abs(learner.components_[:, 4]).max() == 0.0
    np.testing.assert_allclose(
        np.delete(learner.components_, 4, axis=1), WhitenedMetricLearner().fit(X, y).components_
    )
    with pytest.raises(ValueError, match="features that vary"):
        WhitenedMetricLearner().fit([np.ones((10, 2))], [[0] * 5 + [1] * 5])


def test_retuned_penalty_has_the_least_training_loss() -> None:
    X, y = mixed(3)
    learned = WhitenedMetricLearner().fit(X, y)
    tuned = WhitenedMetricLearner(retune=True).fit(X, y)
    assert tuned.score(X, y) >= learned.score(X, y)


def test_parameters_reach_inside_and_files_keep_it(tmp_path: Path) -> None:
    X, y = mixed(1)
    learner = clone(WhitenedMetricLearner()).set_params(
        learner__regularizer__strength=0.5, learner__min_size=3, shrinkage=0.2
    )
    assert learner.learner.regularizer.strength == 0.5
    assert WhitenedMetricLearner().learner.min_size == 1  # the default stays as it was
    assert learner.min_size == 3
    learner.fit(X, y)
    again = load(learner.save(tmp_path / "w.npz"))
    np.testing.assert_array_equal(again.components_, learner.components_)
    np.testing.assert_array_equal(
        again.predict_change_points(X[0]), learner.predict_change_points(X[0])
    )
    assert isinstance(again.learner_, ChangePointMetricLearner)
