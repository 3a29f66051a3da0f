"""A learned metric before the clusterers."""

import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.metrics import adjusted_rand_score
from sklearn.pipeline import make_pipeline

from metriclearn.clusterers import DPMeans, EvidenceAccumulation, GibbsDPMixture


@pytest.mark.parametrize(
    "clusterer",
    [
        DPMeans(30.0),
        GibbsDPMixture(12.0, variance=1.0, prior_variance=20.0, random_state=0),
        EvidenceAccumulation(threshold=None, random_state=0),
    ],
    ids=lambda c: type(c).__name__,
)
def test_a_learned_metric_before_the_clusterer(clusterer: BaseEstimator) -> None:
    """Three classes in one of six features, the others louder: only the metric shows them."""
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], 60)
    X = rng.normal(size=(180, 6)) * [0.4, 30, 30, 30, 30, 30]
    X[:, 0] += 4.0 * y
    metric = LinearDiscriminantAnalysis(n_components=2)
    pipeline = make_pipeline(metric, clone(clusterer)).fit(X, y)
    assert adjusted_rand_score(y, pipeline[-1].labels_) > 0.9
    assert adjusted_rand_score(y, clone(clusterer).fit_predict(X)) < 0.2
    assert np.array_equal(pipeline[-1].labels_, make_pipeline(metric, clusterer).fit_predict(X, y))
