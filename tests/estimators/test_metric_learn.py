"""What metric-learn asks of a learned Mahalanobis metric, of every learner."""

import copy
from itertools import product

import numpy as np
import pytest
from scipy.spatial.distance import pdist, squareform
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError
from sklearn.neighbors import NearestNeighbors

import metriclearn as ml
from metriclearn import baselines
from tests.training import XS, YS

LEARNERS = [
    ml.ChangePointMetricLearner(),
    ml.ChangePointMetricLearner(ml.FullMetric(), ml.SquaredFrobenius(0.1)),
    ml.ClusteringMetricLearner(),
    ml.WhitenedMetricLearner(),
    ml.estimators.WhitenedClusteringLearner(),
    ml.WhitenedMetricLearner(view=ml.views.Metric(baselines.PrincipalComponents(3)), toward=1e-2),
    baselines.TunedSegmenter(),
    baselines.MetricKMeans(),
    baselines.Euclidean(),
    baselines.PrincipalComponents(2),
    baselines.RelevantComponents(),
    baselines.ClosedFormMetric(),
    baselines.MMC(),
    baselines.NeighborhoodComponents(),
]
each_learner = pytest.mark.parametrize("fitted", LEARNERS, indirect=True, ids=repr)


@pytest.fixture(scope="module")
def fitted(request: pytest.FixtureRequest) -> BaseEstimator:
    return clone(request.param).fit(XS, YS)


@each_learner
def test_pair_distance_is_a_euclidean_pseudo_distance(fitted) -> None:
    X = XS[0][:15]
    table = fitted.pair_distance(np.array(list(product(X, X)))).reshape(15, 15)
    assert np.isfinite(table).all()
    assert (table >= 0).all()
    np.testing.assert_array_equal(table, table.T)
    assert not table.diagonal().any()
    rounding = 1e-12 * table.max()
    assert (table[:, None] <= table[:, :, None] + table.T[None] + rounding).all()
    np.testing.assert_allclose(fitted.transform(X), X @ fitted.components_.T)
    embedded = squareform(pdist(fitted.transform(X)))
    np.testing.assert_allclose(table, embedded, rtol=1e-9, atol=1e-9 * table.max())
    components, matrix = fitted.components_, fitted.get_mahalanobis_matrix()
    np.testing.assert_allclose(matrix, components.T @ components, atol=1e-12 * np.abs(matrix).max())
    assert np.linalg.eigvalsh(matrix)[0] >= -1e-12 * np.abs(matrix).max()


@each_learner
def test_get_metric_is_the_distance_and_outlives_changes(fitted) -> None:
    a, b = np.random.default_rng(42).normal(size=(2, fitted.n_features_in_))
    learner = copy.deepcopy(fitted)
    metric = learner.get_metric()
    before = metric(a, b)
    (distance,) = learner.pair_distance([[a, b]])
    assert before == pytest.approx(distance, rel=1e-12)
    assert metric(a, b, squared=True) == pytest.approx(distance**2, rel=1e-12)
    table = squareform(pdist(learner.transform(XS[0][:12])))
    learner.components_[:] *= 3.0
    assert metric(a, b) == before
    neighbors = NearestNeighbors(n_neighbors=2, metric=metric).fit(XS[0][:12]).kneighbors()[0]
    np.testing.assert_allclose(neighbors, np.sort(table, axis=1)[:, 1:3], rtol=1e-6)


@each_learner
def test_pairs_of_other_shapes_and_learners_without_fit_are_refused(fitted) -> None:
    X = XS[0]
    for pairs in (X[:2], np.stack([X[:4]] * 3, axis=1), X[None, :2, :-1]):
        with pytest.raises(ValueError, match=f"needs pairs of shape .n, 2, {X.shape[1]}."):
            fitted.pair_distance(pairs)
    for method in ("get_metric", "get_mahalanobis_matrix"):
        with pytest.raises(NotFittedError):
            getattr(clone(fitted), method)()
