"""Whitened clustering: invariance, the inner problem, the limit of strong regularization."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.datasets import load_iris, load_wine
from sklearn.metrics import adjusted_rand_score
from sklearn.utils.estimator_checks import check_estimator

from metriclearn import Partition, SquaredFrobenius
from metriclearn.estimators.clustering import ClusteringMetricLearner
from metriclearn.estimators.learned_metric import covariances, whitening
from metriclearn.estimators.whitened import WhitenedClusteringLearner

IRIS, SPECIES = load_iris(return_X_y=True)


def learner(strength: float = 1.0, shrinkage: float = 0.0) -> WhitenedClusteringLearner:
    inner = ClusteringMetricLearner(
        regularizer=SquaredFrobenius(strength), standardize=False, verbose=False, random_state=0
    )
    return WhitenedClusteringLearner(inner, shrinkage=shrinkage)


def test_any_linear_map_of_the_features_leaves_distances_as_they_are() -> None:
    mixing = np.random.default_rng(0).normal(size=(4, 4))
    B = learner().fit(IRIS, SPECIES).get_mahalanobis_matrix()
    mixed = learner().fit(IRIS @ mixing, SPECIES).get_mahalanobis_matrix()
    assert_allclose(mixing @ mixed @ mixing.T, B, rtol=1e-2, atol=1e-2 * np.abs(B).max())


def test_the_metric_is_that_of_the_inner_learner_in_whitened_coordinates() -> None:
    model = learner(shrinkage=0.1).fit([IRIS, IRIS[::2]], [SPECIES, SPECIES[::2]])
    assert model.n_clusters_ == 3
    assert model.penalty_ is None
    assert model.solution_ is model.learner_.solution_
    assert model.components_.shape == (len(model.learner_.components_), 4)
    assert adjusted_rand_score(SPECIES, model.predict(IRIS)) > 0.85


def test_strong_regularization_weighs_directions_by_how_far_clusters_are_apart() -> None:
    """Nearly Fisher's directions: the leading one is that of linear discriminant analysis."""
    model = learner(1e3).fit(IRIS, SPECIES)
    within = sum(np.cov(IRIS[k == SPECIES].T, bias=True) for k in range(3))
    means = np.array([IRIS[k == SPECIES].mean(axis=0) for k in range(3)])
    fisher = np.linalg.eig(np.linalg.solve(within, np.cov(means.T)))
    leading = np.real(fisher.eigenvectors[:, np.argmax(np.real(fisher.eigenvalues))])
    B = model.get_mahalanobis_matrix()
    gain = leading @ within @ B @ within @ leading
    explained = np.trace(np.linalg.cholesky(within).T @ B @ np.linalg.cholesky(within))
    assert gain / (leading @ within @ leading) > 0.9 * explained


def test_shrinkage_1_is_the_learner_that_scales_within_clusters() -> None:
    inner = ClusteringMetricLearner(regularizer=SquaredFrobenius(1.0), verbose=False)
    B = inner.fit(IRIS, SPECIES).get_mahalanobis_matrix()
    model = learner(1.0, shrinkage=1.0).fit(IRIS, SPECIES)
    assert_allclose(model.get_mahalanobis_matrix(), B, rtol=2e-2, atol=2e-2 * np.abs(B).max())


@pytest.mark.parametrize("between", [0.0, 0.5, 1.0])
def test_the_mixed_covariance_is_whitened(between: float) -> None:
    total, within = covariances([IRIS], [Partition.from_labels(SPECIES)])
    W = whitening(total, within + between * (total - within), shrinkage=0.0)
    within = sum(np.cov(IRIS[k == SPECIES].T, bias=True) for k in range(3)) / 3
    S = within + between * (np.cov(IRIS.T, bias=True) - within)
    assert_allclose(W @ S @ W.T, np.eye(4), atol=1e-9)


@pytest.mark.parametrize("name", ["shrinkage", "between"])
def test_shares_are_between_0_and_1(name: str) -> None:
    with pytest.raises(ValueError, match=f"needs a {name} between 0 and 1, got 1.5"):
        learner().set_params(**{name: 1.5}).fit(IRIS, SPECIES)


def test_constant_features_get_no_weight() -> None:
    padded = np.insert(IRIS, 2, 7.0, axis=1)
    model, plain = learner(10.0, 0.1).fit(padded, SPECIES), learner(10.0, 0.1).fit(IRIS, SPECIES)
    assert_allclose(np.delete(model.components_, 2, axis=1), plain.components_)
    assert np.all(model.components_[:, 2] == 0)
    with pytest.raises(ValueError, match="all 2 are constant"):
        learner().fit(np.ones((9, 2)), [0, 0, 0, 1, 1, 1, 2, 2, 2])


def test_wine_and_parameters() -> None:
    X, y = load_wine(return_X_y=True)
    model = clone(learner(100.0, 0.1)).set_params(learner__n_init=3).fit(X, y)
    assert model.n_init == 3
    assert model.score(X, y) > -0.005


def test_scikit_learn_contract() -> None:
    data_set = "sample_weight weighs data sets, and the array of the check is a single one"
    expected = {
        f"check_sample_weight{name}": data_set
        for name in (
            "s_pandas_series",
            "s_not_an_array",
            "s_list",
            "s_shape",
            "s_not_overwritten",
            "_equivalence_on_dense_data",
        )
    } | {
        "check_methods_subset_invariance": "clusters of a subset are not those of all samples",
        "check_methods_sample_order_invariance": "K-means starts depend on the order",
        "check_parameters_default_constructible": "the learner is an object, cloned before use",
        "check_dtype_object": "values that are no numbers are refused by a ValueError of ours",
    }
    results = check_estimator(
        WhitenedClusteringLearner(), expected_failed_checks=expected, on_fail=None, on_skip=None
    )
    failed = [(r["check_name"], r["exception"]) for r in results if r["status"] == "failed"]
    assert failed == []


def test_weights_are_repetitions_and_a_data_set_of_weight_0_is_not_there() -> None:
    other = IRIS * [1, 5, 0.2, 3] + np.random.default_rng(0).standard_normal(IRIS.shape)
    alone = learner(10.0, 0.1).fit([IRIS], [SPECIES]).get_mahalanobis_matrix()
    with_nothing = learner(10.0, 0.1).fit([IRIS, other], [SPECIES, SPECIES], [1, 0])
    assert_allclose(with_nothing.get_mahalanobis_matrix(), alone, rtol=1e-9)
    weighted = learner(10.0, 0.1).fit([IRIS, other], [SPECIES, SPECIES], [2, 1])
    repeated = learner(10.0, 0.1).fit([IRIS, IRIS, other], [SPECIES] * 3)
    expected = repeated.get_mahalanobis_matrix()
    atol = 1e-3 * np.abs(expected).max()
    assert_allclose(weighted.get_mahalanobis_matrix(), expected, atol=atol)
