"""Baseline metrics against their definitions."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from metriclearn import Partition
from metriclearn.baselines import (
    Euclidean,
    PrincipalComponents,
    RelevantComponents,
    TunedSegmenter,
)
from metriclearn.datasets import make_change_points

DATA = make_change_points(4, 120, 6, 2, (3, 4), jump=4.0, random_state=0)
TRUTHS = [Partition.from_runs(labels) for labels in DATA.labels]
CENTERED = np.vstack([X - X.mean(axis=0) for X in DATA.sequences])
WITHIN = np.vstack([X - N.project(X) for X, N in zip(DATA.sequences, TRUTHS)])


def test_euclidean_divides_by_the_pooled_standard_deviation() -> None:
    Z = CENTERED @ Euclidean().fit(DATA.sequences).components_.T
    assert_allclose(np.mean(Z**2, axis=0), 1.0)


@pytest.mark.parametrize("whiten", [False, True])
def test_principal_components_are_uncorrelated(whiten) -> None:
    model = PrincipalComponents(3, whiten=whiten).fit(DATA.sequences)
    covariance = np.cov((CENTERED @ model.components_.T).T, bias=True)
    assert covariance.shape == (3, 3)
    assert_allclose(covariance - np.diag(np.diag(covariance)), 0.0, atol=1e-12)
    assert np.all(np.diff(np.diag(covariance)) <= 1e-9)
    if whiten:
        assert_allclose(np.diag(covariance), 1.0)


@pytest.mark.parametrize("n_components", [None, 2])
def test_relevant_components_whiten_within_segments(n_components) -> None:
    model = RelevantComponents(n_components, shrinkage=0.0).fit(DATA.sequences, DATA.labels)
    Z = WITHIN @ model.components_.T
    assert_allclose(Z.T @ Z / len(Z), np.eye(n_components or 6), atol=1e-8)


def test_diagonal_relevant_components_weigh_each_feature() -> None:
    model = RelevantComponents(diagonal=True).fit(DATA.sequences, DATA.labels)
    assert_allclose(np.diag(model.components_), 1.0 / np.sqrt(np.mean(WITHIN**2, axis=0)))


def test_tuned_segmenter_scores_its_training_loss() -> None:
    model = TunedSegmenter(RelevantComponents()).fit(DATA.sequences, DATA.labels)
    assert model.penalty_ > 0
    assert -model.score(DATA.sequences, DATA.labels) == pytest.approx(model.training_loss_)


def test_bad_baselines_say_so() -> None:
    with pytest.raises(ValueError, match="n_components of at least 1, got 0"):
        PrincipalComponents(0).fit(DATA.sequences)
    with pytest.raises(ValueError, match="constant"):
        Euclidean().fit([np.ones((5, 2))])
