"""Clusterer: tables, several data sets and images."""

import warnings

import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.datasets import load_iris

import metriclearn as ml
from tests.estimators.test_normalized_cuts import SMALL, images

X, Y = load_iris(return_X_y=True)
METRICS = {
    "full": [ml.ClusteringMetricLearner(n_init=1, random_state=0)],
    "diagonal": [
        ml.ClusteringMetricLearner(ml.DiagonalMetric(), ml.L1(mu), n_init=1, random_state=0)
        for mu in (1e-3, 1e-2)
    ],
}


@pytest.fixture(scope="module")
def consensus() -> ml.Clusterer:
    return ml.Clusterer(METRICS, combine="consensus", n_folds=2, verbose=False).fit(X[::2], Y[::2])


def test_members_are_cross_fitted_on_one_table(consensus) -> None:
    """Three members with a model for each half, weighed equally, as six clusters are few."""
    assert consensus.families_ == ["full"] * 2 + ["diagonal"] * 4
    assert consensus.cross_fit_.losses.shape == (3, 2)
    assert consensus.weights_.sum() == pytest.approx(1)
    assert 0.0 < -consensus.score(X[1::2], Y[1::2]) * 75 < 0.5


def test_images() -> None:
    """Cuts of unseen images, as label maps; unknown pixels do not count."""
    (pixels, maps), (new, truth) = images(2), images(1, seed=5)
    maps[0] = np.where(np.arange(50) < 5, -1, maps[0])
    learner = ml.NormalizedCutMetricLearner(features=SMALL, starts=(1e-2,), verbose=False)
    consensus = ml.Clusterer({"cuts": [learner]}, combine="consensus", verbose=False).fit(
        pixels, maps
    )
    found = consensus.predict(new, 2)
    assert found[0].shape == (40, 50)
    assert len(consensus.models_) == 2
    assert 0.0 < -consensus.score(new, truth) * 2000 < 0.8


def test_the_best_member_is_fitted_to_all_data() -> None:
    """The simplest family within one standard error; one that is never right is not chosen."""
    bad = ml.ClusteringMetricLearner(ml.DiagonalMetric(), ml.L1(1e6), n_init=1, random_state=0)
    best = ml.Clusterer({"nothing": [bad], **METRICS}, n_folds=3, verbose=False).fit(X[::2], Y[::2])
    losses = best.cross_fit_.losses.mean(axis=1)
    assert best.families_ != ["nothing"]
    assert losses[0] > 3 * losses.min()
    assert len(best.models_) == 1
    alone = clone(METRICS[best.families_[0]][0]).fit([X[::2]], [Y[::2]])
    expected = alone.predict([X[1::2]], [3])[0]
    same = ml.Partition.from_labels(best.predict(X[1::2], 3))
    assert same == ml.Partition.from_labels(expected)
    assert "→" in str(best.choice_)


def test_default_members_are_for_tables() -> None:
    found = ml.Clusterer(n_folds=2, verbose=False).fit(X[::2], Y[::2])
    assert set(found.cross_fit_.families) == {"diagonal", "full", "whitened"}
    assert -found.score(X[1::2], Y[1::2]) * 75 < 0.8
    # Answers of the same model, from starts of K-means that many seeds would give others
    noise = np.random.default_rng(0).normal(size=(80, 4))
    assert np.array_equal(found.predict(noise, 12), found.predict(noise, 12))


@pytest.mark.parametrize(
    ("labels", "words"), [([Y * 0] * 3, "put all"), ([np.arange(50)] * 3, "differ for all")]
)
def test_labels_that_teach_nothing_are_noted(labels, words) -> None:
    tables = [X[i::3] for i in range(3)]
    with pytest.warns(UserWarning, match=f"Clusterer was given labels that {words}"):
        ml.Clusterer(METRICS, n_folds=3, verbose=False).fit(tables, [y[:50] for y in labels])


def test_small_parts_of_a_table_are_no_concern() -> None:
    """Every part of the table has one row of each kind; the table has several."""
    with warnings.catch_warnings(action="error", category=UserWarning):
        model = ml.Clusterer(METRICS, n_folds=5, verbose=False).fit(X[::10], Y[::10])
    assert len(np.unique(model.predict(X, 3))) == 3


class _Options(BaseEstimator):
    """A clusterer that takes its numbers of clusters as any option."""

    def fit(self, X, y=None):
        return self

    def predict(self, X, **options):
        return [np.arange(len(x)) % k for x, k in zip(X, options["n_clusters"])]


def test_members_may_take_any_option() -> None:
    found = ml.Clusterer({"own": [_Options()]}, n_folds=3, verbose=False).fit(X, Y).predict(X, 3)
    assert len(np.unique(found)) == 3
