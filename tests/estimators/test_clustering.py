"""ClusteringMetricLearner: what it learns, what it certifies, how it predicts."""

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

import metriclearn as ml

ORACLES = [
    ml.oracles.SpectralRelaxation(),
    ml.oracles.SpectralRelaxation(True),
    ml.oracles.LocalSearch(),
    ml.oracles.Averaged(),
]


def blobs(seed: int, n: int = 40, K: int = 3):
    """Two features that separate K clusters, four of larger noise; labels in random order."""
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(n * K) % K)
    X = rng.normal(size=(n * K, 6)) * [1, 1, 5, 5, 5, 5]
    X[:, :2] += 7.0 * np.column_stack([np.cos(2 * np.pi * y / K), np.sin(2 * np.pi * y / K)])
    return X, y


def learn(X, y, **parameters) -> ml.ClusteringMetricLearner:
    return ml.ClusteringMetricLearner(**{"random_state": 0, **parameters}).fit(X, y)


def test_several_data_sets_share_a_metric_for_classes_never_seen() -> None:
    first, second = blobs(2), blobs(3, n=30, K=4)
    Xs, ys = [first[0], second[0]], [first[1], second[1]]
    learner = learn(Xs, ys)
    assert learner.n_clusters_ is None
    X_new, y_new = blobs(4, n=30, K=5)
    assert learner.score(X_new, y_new) > -0.02
    labels = learner.predict([X_new, Xs[0]], n_clusters=[5, 3])
    assert [len(set(one)) for one in labels] == [5, 3]
    with pytest.raises(ValueError, match="different numbers of clusters and has no penalty; pass"):
        learner.predict(X_new)
    assert len(set(learner.set_params(n_clusters=5).predict(X_new))) == 5
    weighted = ml.ClusteringMetricLearner().fit(Xs, ys, sample_weight=[1.0, 0.0])
    alone = ml.ClusteringMetricLearner().fit([Xs[0]], [ys[0]])
    np.testing.assert_allclose(weighted.components_, alone.components_)
    assert weighted.n_clusters_ == 3


def test_scale_is_within_clusters() -> None:
    X, y = blobs(5)
    N = ml.Partition.from_labels(y)
    np.testing.assert_allclose(learn(X, y).scale_, np.std(X - N.project(X), axis=0))
    np.testing.assert_array_equal(learn(X, y, standardize=False).scale_, np.ones(6))
    tied = np.column_stack([X, y])
    assert learn(tied, y).scale_[-1] == pytest.approx(0.01 * np.std(y))


@pytest.mark.parametrize("oracle", ORACLES)
@pytest.mark.parametrize("n_clusters", ["given", None])
def test_certificate_says_what_it_certifies(oracle, n_clusters) -> None:
    with pytest.raises(NotFittedError):
        _ = ml.ClusteringMetricLearner().certificate_
    X, y = blobs(6, n=10)
    learner = learn(X, y, oracle=oracle, n_clusters=n_clusters)
    certificate, solution = learner.certificate_, learner.solution_
    assert certificate.over_partitions == isinstance(oracle, ml.oracles.LocalSearch)
    assert certificate.lower_bound == solution.lower_bound
    assert certificate.upper >= solution.objective - 1e-9
    assert certificate.gap == certificate.upper - certificate.lower_bound
    if isinstance(oracle, ml.oracles.SpectralRelaxation):
        assert certificate.upper == solution.objective
        best = learn(X, y, oracle=oracle, n_clusters=n_clusters, solver=ml.BundleDual(1e-4))
        assert certificate.lower_bound <= best.solution_.objective + 1e-12
    else:
        relaxed = learn(X, y, oracle=oracle.relaxation, n_clusters=n_clusters)
        assert certificate.lower_bound <= relaxed.solution_.objective
        assert certificate.upper >= relaxed.solution_.lower_bound


def test_prediction_without_k_maximizes_the_penalized_score() -> None:
    X, y = blobs(8)
    learner = learn(X, y, n_clusters=None)
    form = ml.problem.LowRankForm(learner.transform(X - X.mean(axis=0)), shift=-learner.penalty_)
    value = form.at(ml.Partition.from_labels(learner.predict(X)))
    assert value >= form.at(ml.Partition.from_labels(y)) - 1e-9
    penalized = ml.clusterers.DPMeans(learner.penalty_, order="farthest-first").fit_predict(
        form.factors
    )
    assert value >= form.at(ml.Partition.from_labels(penalized)) - 1e-9
    learner.score_ = learner.score_.at(100.0 * learner.penalty_)
    assert len(set(learner.predict(X))) == 1
    assert len(set(learner.predict(X, n_clusters=4))) == 4
