"""NormalizedCutMetricLearner from end to end, on synthetic images and feature arrays."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from metriclearn import (
    CCCP,
    L1,
    BundleDual,
    DiagonalMetric,
    FactorDescent,
    FourierSimilarity,
    FullMetric,
    GaussianSimilarity,
    GivenSimilarities,
    ImageFeatures,
    NormalizedCutMetricLearner,
    SquaredFrobenius,
    load,
    save,
)
from metriclearn.baselines.similarities import EuclideanSimilarity, SimilarityGridSearch
from metriclearn.features.image import Color, PixelBlocks, Position
from metriclearn.problem.losses import FrobeniusLoss
from metriclearn.problem.risk import HingeTerms, StructuredHinge
from metriclearn.similarities import Neighborhood, SimilarityFeatures
from metriclearn.similarities.nodes import NodeLabels, Nodes
from metriclearn.similarities.normalized_cut import Discretization
from metriclearn.solvers.base import Problem
from metriclearn.solvers.mahalanobis import MetricCone

SMALL = ImageFeatures(PixelBlocks(100), (Color(), Position()))


@pytest.fixture(autouse=True)
def quiet() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield


def arrays(count: int = 4, seed: int = 0, size: int = 60) -> tuple[list[NDArray], list[NDArray]]:
    """One feature of five tells the clusters, and a louder one says something else."""
    random = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(count):
        labels = random.permutation(np.arange(size) % 2)
        features = random.normal(size=(size, 5))
        features[:, 0] += 3.0 * labels
        features[:, 1] = 4.0 * random.integers(0, 2, size) + 0.3 * random.normal(size=size)
        X.append(features)
        y.append(labels)
    return X, y


def images(count: int = 3, seed: int = 0) -> tuple[list[NDArray], list[NDArray]]:
    """A bluish disk, on a background whose lightness is divided elsewhere."""
    random = np.random.default_rng(seed)
    row, column = np.mgrid[:40, :50]
    pixels, maps = [], []
    for _ in range(count):
        center = random.uniform((15, 18), (25, 32))
        disk = (row - center[0]) ** 2 + (column - center[1]) ** 2 < 11**2
        image = 0.35 + 0.35 * (column[..., None] > random.integers(20, 30)) * np.ones(3)
        image = image + disk[..., None] * np.array([-0.12, -0.05, 0.15])
        noise = gaussian_filter(random.normal(size=(40, 50, 3)), (1, 1, 0))
        pixels.append(np.clip(image + 0.05 * noise, 0, 1))
        maps.append(disk.astype(int))
    return pixels, maps


def test_learns_which_feature_counts() -> None:
    X, y = arrays()
    test_X, test_y = arrays(seed=1)
    learner = NormalizedCutMetricLearner(verbose=False).fit(X, y)
    euclidean = EuclideanSimilarity().fit(X, y)
    assert learner.score(test_X, test_y) > -0.6
    assert euclidean.score(test_X, test_y) < -1.5
    weights = np.diag(learner.get_mahalanobis_matrix()) * learner.scale_**2
    assert weights[0] > 20 * weights[1:].max()
    trace = learner.solution_.trace.objective
    assert np.all(np.diff(trace) <= 0)
    assert len(learner.start_objectives_) == 3


@pytest.mark.parametrize(
    "parameters",
    [
        {"metric": FullMetric()},
        {"similarity": FourierSimilarity(200)},
        {"normalized": True, "loss_scale": 0.1},
        {"rounding": Discretization()},
        {"regularizer": L1(1e-2)},
        {"solver": CCCP(BundleDual(max_rounds=25)), "regularizer": SquaredFrobenius(1.0)},
        {"n_jobs": 2},
    ],
    ids=["full", "fourier", "normalized", "discretization", "l1", "bundle", "threads"],
)
def test_every_part_can_be_exchanged(parameters: dict[str, Any]) -> None:
    X, y = arrays()
    learner = NormalizedCutMetricLearner(verbose=False, **parameters).fit(X, y)
    assert learner.score(*arrays(seed=1)) > -0.9
    assert np.all(np.diff(learner.solution_.trace.objective) <= 0)


def test_images_in_label_maps_out() -> None:
    pytest.importorskip("skimage")
    X, y = images()
    learner = NormalizedCutMetricLearner(features=SMALL, verbose=False).fit(X, y)
    test_X, test_y = images(seed=1)
    euclidean = EuclideanSimilarity(features=SMALL).fit(X, y)
    assert learner.score(test_X, test_y) > 0.7 * euclidean.score(test_X, test_y)
    found = learner.predict_labels_image(test_X[0])
    assert found.shape == (40, 50)
    assert set(np.unique(found)) == {0, 1}
    np.testing.assert_array_equal(found, learner.predict(test_X[0]))
    several = learner.predict(test_X, [2, 3, 4])
    assert [len(np.unique(labels)) for labels in several] == [2, 3, 4]
    assert list(learner.feature_names_in_) == SMALL.names
    nodes = [SMALL.nodes(image) for image in X]
    again = NormalizedCutMetricLearner(verbose=False).fit(nodes, y)
    np.testing.assert_allclose(again.components_, learner.components_)
    np.testing.assert_array_equal(again.predict(nodes[0]), learner.predict(X[0]))


def test_neighborhoods_of_images() -> None:
    pytest.importorskip("skimage")
    X, y = images()
    similarity = GaussianSimilarity(Neighborhood(15.0))
    learner = NormalizedCutMetricLearner(similarity=similarity, features=SMALL, verbose=False)
    learner.fit(X, y)
    assert np.all(np.diff(learner.solution_.trace.objective) <= 0)
    assert learner.predict(X[0]).shape == (40, 50)


def test_number_of_clusters_from_eigenvalues() -> None:
    random = np.random.default_rng(0)
    X, y = [], []
    for K in (2, 3, 4, 2, 3, 4):
        labels = np.repeat(np.arange(K), 12)
        spread = 8.0 * np.column_stack([labels // 2, labels % 2])
        X.append(spread + 0.5 * random.normal(size=(12 * K, 2)))
        y.append(labels)
    learner = NormalizedCutMetricLearner(starts=(10.0,), verbose=False).fit(X[:3], y[:3])
    found = [len(np.unique(labels)) for labels in learner.predict(X[3:], None)]
    assert found == [2, 3, 4]


def test_given_similarities_are_a_convex_problem() -> None:
    """The optimum is that of the certified convex solver on the same risk."""
    random = np.random.default_rng(0)
    stacks, y = [], []
    for _ in range(3):
        labels = random.permutation(np.arange(20) % 2)
        good = (labels[:, None] == labels).astype(float)
        noise = random.uniform(size=(2, 20, 20))
        stacks.append(np.stack([good, *(noise + noise.transpose(0, 2, 1)) / 2]))
        y.append(labels)
    learner = NormalizedCutMetricLearner(
        regularizer=SquaredFrobenius(0.1),
        similarity=GivenSimilarities(),
        solver=CCCP(FactorDescent(500, 1e-13), 1e-9, 30),
        verbose=False,
    ).fit(stacks, y)
    cone = MetricCone(DiagonalMetric(), 3, priced=False)
    terms = HingeTerms(
        SimilarityFeatures(GivenSimilarities(), DiagonalMetric()),
        FrobeniusLoss(),
        GivenSimilarities().oracle(),
        cone,
        loss_scale=0.03,
        count_known=True,
    )
    nodes = [Nodes(stack, np.ones(20)) for stack in stacks]
    hinge = StructuredHinge(terms, nodes, [NodeLabels.from_labels(labels) for labels in y])
    exact = BundleDual(1e-7, 500).minimize(Problem(hinge, SquaredFrobenius(0.1), cone, np.zeros(3)))
    assert exact.converged
    assert learner.solution_.objective == pytest.approx(exact.objective, rel=1e-3)
    assert learner.score(stacks, y) == 0.0
    weights = np.diag(learner.get_mahalanobis_matrix())
    assert weights[0] > 5 * weights[1:].max()


def test_grid_search_is_exhaustive() -> None:
    X, y = arrays()
    search = SimilarityGridSearch((0,), (1e-3, 1e-1, 10.0)).fit(X, y)
    assert search.losses_.shape == (3, 3)
    assert -search.score(X, y) == pytest.approx(search.losses_.min())
    assert search.scales_[0] > search.scales_[1]
    i, j = np.argwhere(search.losses_ == search.losses_.min())[0]
    assert search.scales_ == ((1e-3, 1e-1, 10.0)[i], (1e-3, 1e-1, 10.0)[j])


def test_contract_of_scikit_learn() -> None:
    learner = NormalizedCutMetricLearner(FullMetric(), loss_scale=0.5)
    copy = clone(learner)
    assert copy.get_params()["loss_scale"] == 0.5
    copy.set_params(regularizer__strength=7.0, solver__solver__max_rounds=3)
    assert copy.regularizer.strength == 7.0
    assert copy.solver.solver.max_rounds == 3
    assert learner.regularizer.strength == 1e-2
    assert NormalizedCutMetricLearner().solver.solver.max_rounds == 40
    X, y = arrays(1)
    with pytest.raises(NotFittedError):
        copy.predict(X)
    single = NormalizedCutMetricLearner(verbose=False).fit(X[0], y[0])
    assert single.predict(X[0]).shape == y[0].shape
    assert isinstance(single.predict(X), list)
    np.testing.assert_allclose(single.transform(X[0]), X[0] @ single.components_.T)
    weighted = NormalizedCutMetricLearner(verbose=False).fit(X * 2, y * 2, [1.0, 3.0])
    np.testing.assert_allclose(weighted.solution_.objective, single.solution_.objective, rtol=1e-6)


def test_saved_and_loaded(tmp_path: Path) -> None:
    pytest.importorskip("skimage")
    X, y = images()
    for model in (
        NormalizedCutMetricLearner(features=SMALL, verbose=False),
        SimilarityGridSearch((3, 4), (1e-2, 1.0), features=SMALL),
    ):
        loaded = load(save(model.fit(X, y), tmp_path / "model.npz"))
        np.testing.assert_array_equal(loaded.predict(X[0]), model.predict(X[0]))
        np.testing.assert_array_equal(loaded.predict(X[0], None), model.predict(X[0], None))
        assert loaded.features.names == SMALL.names


def test_callbacks_see_a_learner_that_can_score() -> None:
    scores: list[float] = []
    X, y = arrays()

    class Scorer:
        def on_round(self, progress: Any) -> None:
            scores.append(progress.estimator().score(X, y))

        def on_end(self, solution: Any) -> None:
            pass

    NormalizedCutMetricLearner(callbacks=[Scorer()], verbose=False).fit(X, y)
    assert scores
    assert max(scores) > -0.6


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        ([], [], "empty list"),
        ([np.zeros((4, 2))], None, "requires y"),
        ([np.eye(4)], [[0, 1]], r"shape \(4,\)"),
        ([np.eye(4)], [[-1, -1, -1, -1]], "cover no sample of data set 0"),
        ([np.eye(4)], [[0, 1, 1, 0], [0]], "1 image"),
        ([np.eye(4), np.zeros((3, 2))], [[0, 1, 1, 0], [0, 1, 1]], "same features"),
        ([np.full((4, 2), np.nan)], [[0, 1, 1, 0]], "finite"),
        ([np.ones((4, 2))], [[0, 1, 1, 0]], "constant"),
    ],
)
def test_wrong_data_are_named(X: Any, y: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        NormalizedCutMetricLearner().fit(X, y)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"loss_scale": 0.0}, "positive loss_scale"),
        ({"starts": ()}, "at least one positive start"),
        ({"metric": DiagonalMetric}, r"DiagonalMetric\(\)"),
        ({"solver": BundleDual()}, r"CCCP\(\)"),
    ],
)
def test_wrong_parameters_are_named(parameters: dict[str, Any], message: str) -> None:
    X, y = arrays(1)
    with pytest.raises(ValueError, match=message):
        NormalizedCutMetricLearner(**parameters).fit(X, y)


def test_wrong_numbers_of_clusters_are_named() -> None:
    X, y = arrays(2, size=20)
    learner = NormalizedCutMetricLearner(verbose=False).fit(X, y)
    for count in (0, 21, 2.5):
        with pytest.raises(ValueError, match="n_clusters from 1 to 20 for the 20 nodes"):
            learner.predict(X[0], count)
    with pytest.raises(ValueError, match="for each of the 2 data sets, or one for all, got 3"):
        learner.predict(X, [2, 2, 2])
    with pytest.raises(ValueError, match="is expecting 5 features"):
        learner.predict(X[0][:, :3])
