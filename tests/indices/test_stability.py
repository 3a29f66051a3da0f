"""Bootstrap stability: stable and unstable methods, seeds, summaries and the picture."""

import numpy as np
import pytest
from joblib import parallel_config
from sklearn.cluster import KMeans

import metriclearn.indices as indices


@pytest.fixture
def blobs() -> np.ndarray:
    rng = np.random.default_rng(0)
    return np.concatenate([rng.normal(size=(30, 2)), rng.normal(size=(30, 2)) + 12])


def test_the_right_number_of_clusters_is_stable(blobs: np.ndarray) -> None:
    two = indices.stability(KMeans(2, n_init=1), blobs, n_bootstrap=12)
    five = indices.stability(KMeans(5, n_init=1), blobs, n_bootstrap=12)
    assert two.mean == two.median == two.quantile(0.9) == 0.0
    assert five.mean > 0.2
    expected = {"mean": 3.0, "median": 2.0, "q90": pytest.approx(5.2)}
    assert indices.stability_summary([1.0, 2.0, 6.0]) == expected
    assert five.labelings.shape == (12, 60)
    held = np.mean(five.labelings >= 0, axis=1)
    assert 0.55 < held.mean() < 0.72  # 1 − 1/e
    assert np.ptp(held) > 0  # drawn with replacement


@pytest.mark.parametrize(("compare", "n_jobs"), [("reference", 2), ("pairwise", 1)])
def test_seeded_and_independent_of_the_number_of_jobs(blobs, compare, n_jobs) -> None:
    arguments = {"n_bootstrap": 5, "compare": compare, "distance": indices.misclassification_error}
    estimator = KMeans(4, n_init=1)
    first = indices.stability(estimator, blobs, random_state=3, **arguments)
    with parallel_config(backend="threading"):  # faster to start than processes
        again = indices.stability(estimator, blobs, random_state=3, n_jobs=n_jobs, **arguments)
    other = indices.stability(estimator, blobs, random_state=4, **arguments)
    assert np.array_equal(first.distances, again.distances)
    assert not np.array_equal(first.distances, other.distances)
    assert len(first.distances) == (5 if compare == "reference" else 10)
    assert first.distance == "misclassification_error"


def test_every_fit_has_its_own_seed(blobs: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> None:
    seeds: list[int] = []
    fit = KMeans.fit_predict
    monkeypatch.setattr(
        KMeans, "fit_predict", lambda m, X: seeds.append(m.random_state) or fit(m, X)
    )
    indices.stability(KMeans(2, n_init=1), blobs, n_bootstrap=4)
    assert len(set(seeds)) == 5


def test_picture_shows_every_distance(blobs: np.ndarray) -> None:
    result = indices.stability(KMeans(5, n_init=1), blobs, n_bootstrap=10)
    axes = result.plot().axes[0]
    assert sum(patch.get_height() for patch in axes.patches) == 10
    assert f"mean {result.mean:.3g}" in [t.get_text() for t in axes.get_legend().get_texts()]
