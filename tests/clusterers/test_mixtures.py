"""The Gibbs sampler against enumeration, and its limit against DP-means."""

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import gammaln
from scipy.stats import multivariate_normal

from metriclearn.clusterers import (
    GibbsDPMixture,
    spherical_responsibilities,
)
from metriclearn.clusterers.mixtures import DirichletProcess
from metriclearn.problem.partition import Partition
from tests.exhaustive import all_partitions

VARIANCE, PRIOR, CONCENTRATION = 0.5, 2.0, 0.8


def process(d: int) -> DirichletProcess:
    opening = np.log(CONCENTRATION) - d / 2 * np.log1p(PRIOR / VARIANCE)
    return DirichletProcess(VARIANCE, PRIOR, opening)


def posterior_by_densities(X: NDArray, labels: tuple[int, ...]) -> float:
    """ln p(labels) + ln p(X | labels), by the Chinese restaurant and dense covariances."""
    same = np.equal.outer(labels, labels)
    covariance = VARIANCE * np.eye(len(X)) + PRIOR * same
    sizes = np.bincount(labels)
    prior = len(sizes) * np.log(CONCENTRATION) + gammaln(sizes).sum()
    return float(prior + sum(multivariate_normal.logpdf(x, cov=covariance) for x in X.T))


def test_log_posterior_is_the_density_up_to_a_constant() -> None:
    X = np.random.default_rng(0).normal(size=(5, 3))
    partitions = list(all_partitions(5))
    assert len(partitions) == 52
    found = np.array([process(3).log_posterior(X, np.array(labels)) for labels in partitions])
    expected = np.array([posterior_by_densities(X, labels) for labels in partitions])
    assert np.ptp(found - expected) < 1e-12


def test_sweeps_visit_partitions_as_often_as_the_posterior_says() -> None:
    X = np.array([[-2.0], [-1.2], [1.4], [2.6]])  # so far from 0 that shrinkage shows
    partitions = list(all_partitions(4))
    weights = np.exp([posterior_by_densities(X, labels) for labels in partitions])
    expected = dict(zip(map(Partition.from_labels, partitions), weights / weights.sum()))
    random, n_sweeps = np.random.RandomState(0), 8000
    labels, means = np.zeros(4, dtype=np.int64), np.zeros((1, 1))
    visits = dict.fromkeys(expected, 0)
    for _ in range(n_sweeps):
        labels, means = process(1).sweep(X, labels, means, random)
        visits[Partition.from_labels(labels)] += 1
    errors = [visits[p] / n_sweeps - expected[p] for p in expected]
    assert max(map(abs, errors)) < 0.025  # about 4 standard errors of correlated draws
    assert max(expected.values()) < 0.5  # so that never moving would fail


def test_fit_keeps_the_most_probable_partition_and_its_traces() -> None:
    X = np.random.default_rng(0).normal(size=(30, 2))
    found = GibbsDPMixture(n_sweeps=40, concentration=1.0, random_state=0).fit(X)
    same = DirichletProcess(0.2, 1.0, -np.log1p(5.0))
    value = same.log_posterior(X - X.mean(axis=0), found.labels_)
    assert value == pytest.approx(found.log_posterior_trace_.max(), rel=1e-12)
    assert found.n_clusters_trace_[np.argmax(found.log_posterior_trace_)] == found.n_clusters_
    for c, center in enumerate(found.cluster_centers_):
        assert center == pytest.approx(X[found.labels_ == c].mean(axis=0), rel=1e-12)
    assert GibbsDPMixture(random_state=0).fit([[1e140], [0.0]]).n_clusters_ == 2
    moved = GibbsDPMixture(n_sweeps=40, concentration=1.0, random_state=0).fit(X + 64.0)
    assert np.array_equal(moved.labels_, found.labels_)


def test_responsibilities_by_hand_and_in_the_limit() -> None:
    found = spherical_responsibilities([[0.0], [1.0]], [0.25, 0.75], [[0.0], [2.0]], 2.0)
    first, second = 0.25, 0.75 * np.exp(-1.0)
    assert found[0] == pytest.approx(np.array([first, second]) / (first + second), rel=1e-14)
    assert found[1] == pytest.approx([0.25, 0.75], rel=1e-14)
    hard = spherical_responsibilities([[0.9], [1.1]], [0.99, 0.01], [[0.0], [2.0]], 1e-9)
    assert hard.tolist() == [[1, 0], [0, 1]]
    each = spherical_responsibilities([[0.5]], [1.0, 1.0], [[0.0], [0.5]], [1.0, 4.0])
    density = multivariate_normal.pdf
    expected = np.array([density(0.5, 0.0, 1.0), density(0.5, 0.5, 4.0)])
    assert each[0] == pytest.approx(expected / expected.sum(), rel=1e-14)
