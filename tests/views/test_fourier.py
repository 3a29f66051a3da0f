"""Random Fourier features: unbiased, and their error is O(1/√D)."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.utils.estimator_checks import check_estimator

from metriclearn.views.fourier import RandomFourierFeatures

KERNELS = {
    "gaussian": lambda r: np.exp(-(r**2)),
    "laplacian": lambda r: np.exp(-r),
    "cauchy": lambda r: 1 / (1 + r**2),
}


@pytest.mark.parametrize("kernel", KERNELS)
def test_error_falls_as_one_over_the_root_of_the_dimension(kernel: str) -> None:
    rng = np.random.default_rng(0)
    X, L = rng.normal(size=(40, 3)), rng.normal(size=(3, 2))
    exact = KERNELS[kernel](np.sqrt(0.3) * cdist(X @ L, X @ L))
    map_ = RandomFourierFeatures(kernel=kernel, metric=L @ L.T, gamma=0.3)

    def squared_error(D: int, seed: int) -> float:
        Phi = map_.set_params(n_components=D, random_state=seed).fit_transform(X)
        return float(np.mean((Phi @ Phi.T - exact) ** 2))

    dimensions = [100, 1600, 25600]
    errors = [np.sqrt(np.mean([squared_error(D, seed) for seed in range(5)])) for D in dimensions]
    slope = np.polyfit(np.log(dimensions), np.log(errors), 1)[0]
    assert -0.6 < slope < -0.4
    assert all(error < 1.2 / np.sqrt(D) for error, D in zip(errors, dimensions))


def test_metrics_of_every_form_agree() -> None:
    X = np.random.default_rng(1).normal(size=(5, 3))
    weights = np.array([1.0, 0.0, 4.0])

    class Learner:
        def get_mahalanobis_matrix(self) -> np.ndarray:
            return np.diag(weights)

    maps = [
        RandomFourierFeatures(4000, metric=metric, random_state=0).fit_transform(X)
        for metric in (weights, np.diag(weights), Learner())
    ]
    assert np.allclose(maps[0], maps[1])
    assert np.allclose(maps[0], maps[2])


def test_scikit_learn_contract() -> None:
    check_estimator(RandomFourierFeatures(n_components=20, random_state=0), on_skip=None)
    map_ = RandomFourierFeatures(3, random_state=0).fit(np.ones((2, 2)))
    assert map_.get_feature_names_out()[2] == "randomfourierfeatures2"
