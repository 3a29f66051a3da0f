"""DP-means: the blocked passes against the point-by-point algorithm, order, objective, errors."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from metriclearn.clusterers import DPMeans, penalized_kmeans_objective
from tests.exhaustive import all_partitions, equivalence_matrix


def sequential(X: NDArray, penalty: float) -> tuple[NDArray, NDArray, int]:
    """Algorithm 1 of Kulis & Jordan (2012), one point at a time, distances by differences."""
    labels, means, passes = np.zeros(len(X), dtype=int), [X.mean(axis=0)], 0
    while True:
        before, passes = labels.copy(), passes + 1
        for i, x in enumerate(X):
            distances = np.sum((np.array(means) - x) ** 2, axis=1)
            labels[i] = np.argmin(distances)
            if distances.min() > penalty:
                means.append(x)
                labels[i] = len(means) - 1
        labels = np.unique(labels, return_inverse=True)[1]
        means = [X[labels == c].mean(axis=0) for c in range(labels.max() + 1)]
        if np.array_equal(labels, before):
            return labels, np.array(means), passes


def objective_by_matrices(X: NDArray, labels: Any, penalty: float) -> float:
    """Tr[XXᵀ(I−M)] + λ Tr M, eq. (7) as printed."""
    M = equivalence_matrix(labels)
    return float(np.trace(X @ X.T @ (np.eye(len(X)) - M)) + penalty * np.trace(M))


# Quarters make ties of every kind; their sums are exact, so both algorithms see the same means.
lattices = st.tuples(st.integers(1, 40), st.integers(1, 4)).flatmap(
    lambda shape: arrays(np.float64, shape, elements=st.integers(-12, 12).map(lambda v: v / 4))
)


def assert_sequential(X: NDArray, penalty: float) -> None:
    found = DPMeans(penalty).fit(X)
    labels, means, passes = sequential(X, penalty)
    assert np.array_equal(found.labels_, labels)
    assert np.array_equal(found.cluster_centers_, means)
    assert (found.n_clusters_, found.n_iter_) == (len(means), passes)


@given(X=lattices, penalty=st.integers(0, 60).map(lambda v: v / 16))
@settings(max_examples=80, deadline=None)
def test_passes_are_the_sequential_algorithm(X: NDArray, penalty: float) -> None:
    assert_sequential(X, penalty)


def test_many_blocks_of_points_are_the_sequential_algorithm() -> None:
    """A pass over 2,200 points takes two blocks."""
    X = np.random.default_rng(0).integers(-12, 13, size=(2200, 3)) / 4
    assert_sequential(X, 4.0)


@pytest.mark.parametrize("shift", [0.0, 1e8])
@pytest.mark.parametrize("penalty", [0.5, 4.0, 30.0])
def test_points_in_general_position(penalty: float, shift: float) -> None:
    """Also far from the origin, where products of raw coordinates would have lost all digits."""
    rng = np.random.default_rng(int(penalty))
    X = rng.integers(-6, 7, size=(9, 3)).repeat(60, axis=0) + rng.normal(size=(540, 3))
    X = np.round(rng.permutation(X) * 1024) / 1024 + shift
    assert np.array_equal(DPMeans(penalty).fit(X).labels_, sequential(X - shift, penalty)[0])


@given(X=lattices, penalty=st.floats(0.01, 4))
@settings(max_examples=50, deadline=None)
def test_a_random_order_is_the_given_order_of_permuted_rows(X: NDArray, penalty: float) -> None:
    visits = np.random.RandomState(3).permutation(len(X))
    found = DPMeans(penalty, order="random", random_state=3).fit(X)
    expected = DPMeans(penalty).fit(X[visits])
    assert np.array_equal(found.labels_[visits], expected.labels_)
    assert found.objective_ == pytest.approx(expected.objective_, rel=1e-12, abs=1e-12)


def test_farthest_first_does_not_depend_on_the_rows() -> None:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(200, 3))
    shuffle = rng.permutation(200)
    found = DPMeans(2.0, order="farthest-first").fit(X).labels_[shuffle]
    again = DPMeans(2.0, order="farthest-first").fit(X[shuffle]).labels_
    assert np.array_equal(found, again)
    assert not np.array_equal(
        DPMeans(2.0).fit(X).labels_[shuffle], DPMeans(2.0).fit(X[shuffle]).labels_
    )


def test_farthest_first_traversal_by_hand() -> None:
    """Mean 3.2: 10 is farthest, then 0 (from 3.2), then nothing farther than √9; then the rest."""
    X, visits = np.array([[1.0], [0.0], [2.0], [3.0], [10.0]]), [4, 1, 0, 2, 3]
    found = DPMeans(9.0, order="farthest-first").fit(X)
    assert np.array_equal(found.labels_[visits], DPMeans(9.0).fit(X[visits]).labels_)
    assert found.labels_.tolist() == [2, 2, 0, 0, 1]  # 0: the start


@given(X=lattices.filter(lambda X: len(X) <= 6), penalty=st.floats(0, 4))
@settings(max_examples=40, deadline=None)
def test_objective_is_equation_7_and_a_local_minimum(X: NDArray, penalty: float) -> None:
    found = DPMeans(penalty).fit(X)
    every = [objective_by_matrices(X, labels, penalty) for labels in all_partitions(len(X))]
    assert found.objective_ == pytest.approx(
        objective_by_matrices(X, found.labels_, penalty), rel=1e-10, abs=1e-10
    )
    assert min(every) - 1e-10 <= found.objective_
    one_cluster = objective_by_matrices(X, [0] * len(X), penalty)
    assert found.objective_ <= one_cluster + 1e-10  # no worse than the start
    distances = ((X[:, None] - found.cluster_centers_) ** 2).sum(axis=-1)
    own = distances[np.arange(len(X)), found.labels_]
    assert np.all(own <= distances.min(axis=1) + 1e-12)
    assert np.all(own <= penalty + 1e-12)


def test_restarts_only_improve() -> None:
    X = np.random.default_rng(0).normal(size=(150, 2))
    values = [DPMeans(0.4, n_init=n, random_state=5).fit(X).objective_ for n in (1, 4, 16)]
    assert values[0] == DPMeans(0.4).fit(X).objective_
    assert values == sorted(values, reverse=True)
    assert values[2] < 0.99 * values[0]


def test_the_threshold_is_on_the_squared_distance() -> None:
    X = [[0.0], [4.0]]  # at squared distance 4 from their mean
    assert DPMeans(4.0).fit(X).labels_.tolist() == [0, 0]
    assert DPMeans(3.99).fit(X).n_clusters_ == 2
    assert DPMeans(3.99).fit(X).objective_ == pytest.approx(2 * 3.99, rel=1e-15)
    doubled = DPMeans(0.0).fit([[1.0, 1.0], [0.1, 0.2], [1.0, 1.0], [0.3, 0.2]])
    assert doubled.labels_[0] == doubled.labels_[2]
    assert (doubled.n_clusters_, doubled.objective_) == (3, 0.0)


def test_emptied_clusters_are_dropped() -> None:
    """The mean 3 of the start keeps no sample: K is 2, not 3."""
    found = DPMeans(1.0).fit([[0.0], [0.5], [6.0], [5.5]])
    assert found.cluster_centers_.ravel().tolist() == [0.25, 5.75]
    assert found.labels_.tolist() == [0, 0, 1, 1]


def test_predict_is_the_nearest_mean() -> None:
    rng = np.random.default_rng(2)
    X, new = rng.normal(size=(300, 4)), rng.normal(size=(1000, 4)) * 3
    found = DPMeans(3.0).fit(X)
    assert np.array_equal(found.predict(X), found.labels_)
    distances = ((new[:, None] - found.cluster_centers_) ** 2).sum(axis=-1)
    assert np.array_equal(found.predict(new), distances.argmin(axis=1))


def test_too_few_passes_are_said() -> None:
    X = np.random.default_rng(0).normal(size=(200, 2))
    with pytest.warns(ConvergenceWarning, match="max_iter=1 passes"):
        found = DPMeans(0.5, max_iter=1).fit(X)
    assert found.n_iter_ == 1
    assert found.objective_ == pytest.approx(
        penalized_kmeans_objective(X, found.labels_, 0.5), rel=1e-12
    )


def test_errors_of_the_data() -> None:
    with pytest.raises(ValueError, match="rescale X"):
        DPMeans().fit([[1e200], [0.0]])
    with pytest.raises(ValueError, match="3 labels for 2 rows"):
        penalized_kmeans_objective([[0.0], [1.0]], [0, 0, 1], 1.0)
    with pytest.raises(ValueError, match="a penalty of at least 0, got -1"):
        penalized_kmeans_objective([[0.0], [1.0]], [0, 1], -1.0)
