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


def objective_by_matrices(X: NDArray, labels: Any, penalty: float) -> float:
    """Tr[XXᵀ(I−M)] + λ Tr M, eq. (7) as printed."""
    M = equivalence_matrix(labels)
    return float(np.trace(X @ X.T @ (np.eye(len(X)) - M)) + penalty * np.trace(M))


# Quarters make ties of every kind; their sums are exact, so both algorithms see the same means.
lattices = st.tuples(st.integers(1, 40), st.integers(1, 4)).flatmap(
    lambda shape: arrays(np.float64, shape, elements=st.integers(-12, 12).map(lambda v: v / 4))
)


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


@given(
    X=lattices.filter(lambda X: len(X) <= 6),
    penalty=st.integers(0, 64).map(lambda v: v / 16),
    weights=st.lists(st.integers(1, 3), min_size=6, max_size=6),
)
@settings(max_examples=60, deadline=None)
def test_objective_is_equation_7_and_a_local_minimum(X, penalty, weights) -> None:
    """A sample of weight w is w samples that stay together."""
    counts = weights[: len(X)]
    found = DPMeans(penalty).fit(X, sample_weight=counts)
    repeated = np.repeat(X, counts, axis=0)

    def objective(labels: Any) -> float:
        return objective_by_matrices(repeated, np.repeat(labels, counts), penalty)

    assert found.objective_ == pytest.approx(objective(found.labels_), rel=1e-10, abs=1e-10)
    cost = penalized_kmeans_objective(repeated, np.repeat(found.labels_, counts), penalty)
    assert found.objective_ == pytest.approx(cost, rel=1e-10, abs=1e-10)
    least = min(objective(labels) for labels in all_partitions(len(X)))
    assert least - 1e-10 <= found.objective_ <= objective([0] * len(X)) + 1e-10
    distances = ((X[:, None] - found.cluster_centers_) ** 2).sum(axis=-1)
    own = distances[np.arange(len(X)), found.labels_]
    assert np.all(own <= distances.min(axis=1) + 1e-12)
    assert np.all(counts * own <= penalty + 1e-12)


def test_restarts_only_improve() -> None:
    X = np.random.default_rng(0).normal(size=(150, 2))
    values = [DPMeans(0.4, n_init=n, random_state=5).fit(X).objective_ for n in (1, 4, 16)]
    assert values[0] == DPMeans(0.4).fit(X).objective_
    assert values == sorted(values, reverse=True)
    assert values[2] < 0.99 * values[0]


def test_the_threshold_is_on_the_squared_distance_and_emptied_clusters_are_dropped() -> None:
    X = [[0.0], [4.0]]  # at squared distance 4 from their mean
    assert DPMeans(4.0).fit(X).labels_.tolist() == [0, 0]
    assert DPMeans(3.99).fit(X).n_clusters_ == 2
    found = DPMeans(1.0).fit([[0.0], [0.5], [6.0], [5.5]])  # the mean 3 keeps no sample
    assert found.cluster_centers_.ravel().tolist() == [0.25, 5.75]


def test_too_few_passes_are_said() -> None:
    X = np.random.default_rng(0).normal(size=(200, 2))
    with pytest.warns(ConvergenceWarning, match="max_iter=1 passes"):
        found = DPMeans(0.5, max_iter=1).fit(X)
    assert found.n_iter_ == 1
