"""Clustering baselines against closed forms, convex solvers, finite differences, invariances."""

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.neighbors import NeighborhoodComponentsAnalysis

from metriclearn import PartialPartition, Partition
from metriclearn.baselines import (
    MMC,
    ClosedFormMetric,
    Euclidean,
    MetricKMeans,
    NeighborhoodComponents,
    PrincipalComponents,
    RelevantComponents,
    TunedSegmenter,
)
from metriclearn.baselines.mmc import different_pairs, spread_apart
from metriclearn.datasets import make_change_points
from metriclearn.problem.forms import center

IRIS, SPECIES = load_iris(return_X_y=True)
CHUNKLETS = RelevantComponents(shrinkage=0.0, contiguous=False)
SUPERVISED = [
    CHUNKLETS,
    ClosedFormMetric(),
    MMC(),
    MMC(diagonal=True),
    NeighborhoodComponents(random_state=0),
]


def several(n: int = 3) -> tuple[list[NDArray], list[NDArray]]:
    """Data sets whose clusters have equal shapes but other means."""
    rng = np.random.default_rng(5)
    shape = rng.normal(size=(4, 4))
    labels = [rng.permutation(np.repeat(np.arange(3), 20)) for _ in range(n)]
    means = [rng.normal(size=(3, 4)) * 3 for _ in range(n)]
    return [m[y] + rng.normal(size=(60, 4)) @ shape for m, y in zip(means, labels)], labels


def inverse_within(rows: NDArray) -> NDArray:
    """Inverse covariance within the species, of some rows of the table."""
    X = IRIS[rows]
    within = X - Partition.from_labels(SPECIES[rows]).project(X)
    return np.linalg.inv(within.T @ within / len(X))


def matrix(estimator: Any, X: Any, y: Any) -> NDArray:
    return clone(estimator).fit(X, y).get_mahalanobis_matrix()


@pytest.mark.parametrize("estimator", SUPERVISED, ids=repr)
def test_names_shifts_units_and_a_list_of_one_change_nothing(estimator: BaseEstimator) -> None:
    X, y = several()
    B, units = matrix(estimator, X, y), np.array([1e-3, 1.0, 50.0, 1e4])
    named = [np.array(["c", "a", "b"])[labels] for labels in y]
    moved = matrix(estimator, [(x + 100.0 * i) * units for i, x in enumerate(X)], named)
    moved *= np.outer(units, units)
    assert_allclose(moved, B, rtol=1e-4, atol=1e-5 * np.abs(B).max())
    assert_allclose(matrix(estimator, X[:1], y[:1]), matrix(estimator, X[0], y[0]), rtol=1e-12)


# Relevant components


def test_relevant_components_are_the_inverse_covariance_within_chunklets() -> None:
    order = np.random.default_rng(0).permutation(len(IRIS))
    expected = inverse_within(SPECIES >= 0)
    assert_allclose(matrix(CHUNKLETS, IRIS[order], SPECIES[order]), expected, rtol=1e-6)
    known = np.arange(150) % 3 == 0  # the others add nothing and do not count
    B = matrix(CHUNKLETS, IRIS, np.where(known, SPECIES, -1))
    assert_allclose(B, inverse_within(known), rtol=1e-6)
    named = [label if one else -1 for label, one in zip(np.array(list("abc"))[SPECIES], known)]
    assert np.array_equal(B, matrix(CHUNKLETS, IRIS, named))
    B = matrix(CHUNKLETS, [IRIS[:50], IRIS[50:]], [np.full(50, -1), SPECIES[50:]])
    assert_allclose(B, inverse_within(SPECIES > 0), rtol=1e-6)
    labels = np.where(np.arange(150) // 5 == 10, 0, -1)
    spans = PartialPartition(150, labels, same=[(53, 75), (75, 100), (74, 76), (100, 150)])
    assert_allclose(matrix(CHUNKLETS, IRIS, spans), B, rtol=1e-9)


# Closed form


def test_closed_form_minimizes_the_distance_of_the_similarities_from_the_truth() -> None:
    X, N = center(IRIS), Partition.from_labels(SPECIES).to_array()
    B = matrix(ClosedFormMetric(), IRIS, SPECIES)
    gradient = X.T @ (X @ B @ X.T - N) @ X
    assert np.abs(gradient).max() < 1e-9 * np.abs(X.T @ N @ X).max()
    doubled = np.hstack([IRIS, IRIS[:, :1] + IRIS[:, 1:2]])  # the pseudo-inverse of Z spreads it
    Z = ClosedFormMetric().fit(doubled, SPECIES).transform(center(doubled))
    assert_allclose(Z @ Z.T, X @ B @ X.T, atol=1e-8)


def test_ridge_shrinks_the_regression_coefficients() -> None:
    X = center(IRIS) / IRIS.std(axis=0)
    J = np.eye(3)[SPECIES] / np.sqrt(50)
    model = ClosedFormMetric(ridge=0.1).fit(IRIS, SPECIES)
    expected = np.linalg.solve(X.T @ X + 15.0 * np.eye(4), X.T @ J)
    assert_allclose(np.abs((model.components_ * IRIS.std(axis=0)).T), np.abs(expected), rtol=1e-9)


# MMC


@pytest.mark.parametrize("diagonal", [False, True])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_mmc_meets_the_optimality_conditions(seed: int, diagonal: bool) -> None:
    """With slope G = I − ½ mean xxᵀ/√(xᵀBx) / mean √(xᵀBx): G ⪰ 0, GB = 0; or on the diagonals."""
    random = np.random.default_rng(seed)
    pairs = random.normal(size=(80, 5)) * [1.0, 1.2, 0.3, 1.5, 0.9]
    factor, n_iter = spread_apart(pairs, diagonal, 2000, 1e-8)
    distances = np.linalg.norm(pairs @ factor, axis=1)
    slope = np.eye(5) - 0.5 * (pairs.T / distances) @ pairs / distances.sum()
    B = factor @ factor.T
    if diagonal:
        slope, B = np.diag(np.diag(slope)), np.diag(np.diag(B))
    assert np.linalg.eigvalsh(slope)[0] > -1e-6
    assert np.abs(slope @ B).max() < 1e-6
    assert np.trace(B) == pytest.approx(0.5, abs=1e-6)  # the logarithm's degree
    assert n_iter < 2000


def test_pairs_are_drawn_uniformly_from_clusters_of_any_size() -> None:
    y = np.repeat([0, 1, 2], [50, 150, 400])
    X = np.array([[0.0], [1.0], [3.0]])[y]  # a difference tells the two clusters
    case = [X, X[::2]], [Partition.from_labels(labels) for labels in (y, y[::2])]
    every, drawn, again = (different_pairs(*case, most, 0) for most in (10**6, 20_000, 20_000))
    assert (len(every), len(drawn)) == (87_500 + 87_500 // 4, 20_000)
    kinds = [np.bincount(np.abs(one[:, 0]).astype(int)) / len(one) for one in (every, drawn)]
    assert_allclose(kinds[1], kinds[0], atol=0.01)
    assert np.array_equal(drawn, again)


def test_mmc_objective_is_the_ratio_of_distances() -> None:
    model = MMC().fit(IRIS, SPECIES)
    i, j = np.triu_indices(150, 1)
    gaps = model.pair_distance(np.stack([IRIS[i], IRIS[j]], axis=1))
    same = SPECIES[i] == SPECIES[j]
    assert np.mean(gaps[same] ** 2) == pytest.approx(1.0, rel=1e-6)
    assert np.mean(gaps[~same]) == pytest.approx(model.objective_, rel=1e-6)
    assert model.objective_ > MMC(diagonal=True).fit(IRIS, SPECIES).objective_ > 1.0


@pytest.mark.parametrize("seed", [20, 29])
def test_mmc_keeps_no_direction_of_rounding(seed: int) -> None:
    """If one feature alone separates the clusters, the optimal metric has one component."""
    y = np.repeat(np.arange(3), 8)
    X = np.random.default_rng(seed).normal(size=(24, 4)) + np.outer(y, [3, 0, 0, 0])
    assert len(MMC().fit(X, y).components_) == 1


# Neighborhood components


def test_neighborhood_components_are_those_of_scikit_learn() -> None:
    X = center(IRIS) / IRIS.std(axis=0)
    peer = NeighborhoodComponentsAnalysis(max_iter=20, random_state=0).fit(X, SPECIES)
    own = NeighborhoodComponents(max_iter=20, random_state=0).fit(IRIS, SPECIES)
    assert_allclose(own.components_ * IRIS.std(axis=0), peer.components_, rtol=1e-6, atol=1e-8)
    thin = NeighborhoodComponents(max_samples=60, max_iter=5, random_state=0).fit(IRIS, SPECIES)
    full = NeighborhoodComponents(max_iter=5, random_state=0).fit(IRIS, SPECIES)
    assert not np.allclose(thin.components_, full.components_)
    assert NeighborhoodComponents(9, max_iter=1).fit(IRIS, SPECIES).components_.shape == (4, 4)
    assert NeighborhoodComponents(2, max_iter=1).fit(IRIS, SPECIES).components_.shape == (2, 4)


# K-means with them


def test_exactly_k_clusters_also_of_repeated_samples() -> None:
    """1, 2 and 3 samples at three places: first every place is a cluster, then places are split."""
    X = np.repeat([[0.0, 0.0], [1.0, 5.0], [4.0, 1.0]], [1, 2, 3], axis=0)
    y = [0, 1, 1, 2, 2, 2]
    model = MetricKMeans(random_state=0).fit(X, y)
    assert model.predict(X, n_clusters=3).tolist() == y
    for count in (4, 5, 6):
        with pytest.warns(ConvergenceWarning, match="distinct clusters"):
            found, again = model.predict([X, X], n_clusters=count)
        assert np.array_equal(found, again)
        assert len(set(found)) == count
        truth = Partition.from_labels(y)
        assert Partition.from_labels(found).inner(truth) == pytest.approx(3.0)  # a refinement
    assert model.predict(X, n_clusters=np.array(3)).tolist() == y


# Sequences


DATA = make_change_points(4, 120, 6, 2, (3, 4), jump=4.0, random_state=0)
TRUTHS = [Partition.from_runs(labels) for labels in DATA.labels]
CENTERED = np.vstack([X - X.mean(axis=0) for X in DATA.sequences])
WITHIN = np.vstack([X - N.project(X) for X, N in zip(DATA.sequences, TRUTHS)])


def test_linear_metrics_whiten_what_they_should() -> None:
    Z = CENTERED @ Euclidean().fit(DATA.sequences).components_.T
    assert_allclose(np.mean(Z**2, axis=0), 1.0)
    plain, white = (
        PrincipalComponents(3, whiten=whiten).fit(DATA.sequences) for whiten in (False, True)
    )
    covariance = np.cov((CENTERED @ plain.components_.T).T, bias=True)
    assert np.all(np.diff(np.diag(covariance)) <= 1e-9)
    assert_allclose(covariance, np.diag(np.diag(covariance)), atol=1e-12)
    assert_allclose(np.cov((CENTERED @ white.components_.T).T, bias=True), np.eye(3), atol=1e-9)
    for rank in (6, 2):
        model = RelevantComponents(rank, shrinkage=0.0).fit(DATA.sequences, DATA.labels)
        Z = WITHIN @ model.components_.T
        assert_allclose(Z.T @ Z / len(Z), np.eye(rank), atol=1e-8)
    model = RelevantComponents(diagonal=True).fit(DATA.sequences, DATA.labels)
    assert_allclose(np.diag(model.components_), 1.0 / np.sqrt(np.mean(WITHIN**2, axis=0)))


def test_chunklets_of_sequences_are_the_segments_that_are_known() -> None:
    """A label that recurs after a gap is another chunklet with another mean."""
    X = np.array([0.0, 2.0, 50.0, 10.0, 14.0, 20.0, 20.0])[:, None]
    model = RelevantComponents(shrinkage=0.0).fit(X, [0, 0, -1, 0, 0, 1, 1])
    assert_allclose(model.components_**-2, (1 + 1 + 4 + 4) / 6)


def test_tuned_segmenter_scores_its_training_loss() -> None:
    gaps = [np.where(np.arange(len(y)) % 50 < 12, -1, y) for y in DATA.labels]
    for labels, size in ((DATA.labels, 1), (gaps, 1), (DATA.labels, 25)):
        model = TunedSegmenter(RelevantComponents(), min_size=size).fit(DATA.sequences, labels)
        assert model.penalty_ > 0
        assert -model.score(DATA.sequences, labels) == pytest.approx(model.training_loss_)
    assert not hasattr(model.set_params(penalty=1.0).fit(DATA.sequences, labels), "training_loss_")
