"""Large-margin learning towards a reference metric: its two ends, its units and its sentences."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone

from metriclearn import load
from metriclearn.baselines import (
    Euclidean,
    PrincipalComponents,
    RelevantComponents,
    TunedSegmenter,
)
from metriclearn.estimators.whitened import ReferenceMetricLearner
from tests.estimators.test_whitened import mixed


@pytest.mark.parametrize(
    "reference", [PrincipalComponents(4), Euclidean(), RelevantComponents(3, shrinkage=0.1)]
)
def test_a_large_strength_is_the_reference(reference) -> None:
    X, y = mixed(1)
    baseline = TunedSegmenter(reference).fit(X, y)
    learner = ReferenceMetricLearner(reference, strength=1e4)
    learner.set_params(learner__solver__tolerance=1e-8).fit(X, y)
    B, B0 = learner.get_mahalanobis_matrix(), baseline.get_mahalanobis_matrix()
    scale = np.trace(B @ B0) / np.trace(B0 @ B0)
    assert np.linalg.norm(B - scale * B0) < 1e-3 * np.linalg.norm(B)
    assert learner.penalty_ / scale == pytest.approx(baseline.penalty_, rel=0.05)
    assert learner.score(X, y) >= baseline.score(X, y) - 1e-12


def test_a_small_strength_learns_from_the_labels() -> None:
    X, y = mixed(1)
    new = mixed(2)
    reference = PrincipalComponents(12)
    baseline = TunedSegmenter(reference).fit(X, y)
    learner = ReferenceMetricLearner(reference, strength=1e-2).fit(X, y)
    assert learner.solution_.converged
    assert learner.score(X, y) > 0.1 * baseline.score(X, y)  # scores are minus losses
    assert learner.score(*new) > 0.8 * baseline.score(*new)


def test_units_do_not_matter() -> None:
    X, y = mixed(1)
    learner = ReferenceMetricLearner(PrincipalComponents(3)).fit(X, y)
    again = clone(learner).fit([1e4 * x + 7.0 for x in X], y)
    B, again = learner.get_mahalanobis_matrix(), again.get_mahalanobis_matrix()
    np.testing.assert_allclose(again * 1e8, B, rtol=1e-5, atol=1e-8 * np.abs(B).max())


def test_what_cannot_be_used_is_one_sentence() -> None:
    X, y = mixed(1)
    for strength in (0.0, -1.0, float("nan"), None, "a"):
        with pytest.raises(ValueError, match="needs a strength of at least"):
            ReferenceMetricLearner(strength=strength).fit(X, y)
    for reference in (3, PrincipalComponents):
        with pytest.raises(ValueError, match="needs a reference such as"):
            ReferenceMetricLearner(reference).fit(X, y)
    with pytest.raises(ValueError, match="spread over 1e-50 to 1e50"):
        ReferenceMetricLearner().fit([1e200 * x for x in X], y)
    with pytest.raises(ValueError, match="features that vary"):
        ReferenceMetricLearner().fit([np.ones((10, 2))], [[0] * 5 + [1] * 5])


def test_constant_features_get_no_weight_and_files_keep_it(tmp_path: Path) -> None:
    X, y = mixed(1)
    padded = [np.insert(x, 4, 7.0, axis=1) for x in X]
    learner = ReferenceMetricLearner(PrincipalComponents(3)).fit(padded, y)
    assert np.abs(learner.components_[:, 4]).max() == 0.0
    again = load(learner.save(tmp_path / "r.npz"))
    np.testing.assert_array_equal(again.components_, learner.components_)
    assert again.reference.n_components == 3
    assert again.penalty_ == learner.penalty_
