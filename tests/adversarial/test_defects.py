"""What an adversary once got an answer to, and gets a sentence for now."""

from typing import Any

import numpy as np
import pytest

import metriclearn as ml
from metriclearn import indices
from metriclearn.clusterers import penalized_kmeans_objective
from metriclearn.features.hermite import HermiteMoments
from tests.adversarial.callables import LABELS, X
from tests.adversarial.outcome import is_ours

MASKED = np.ma.array(X, mask=np.arange(24).reshape(12, 2) == 5)
DAYS = np.array(["2020-01-01", "NaT"] * 6, "datetime64[D]")
HUGE: Any = [[10**400, 1]] * 12
LEARNER = ml.ChangePointMetricLearner(solver=ml.BundleDual(max_rounds=3), verbose=False)
CALLS: list[tuple[Any, tuple, str]] = [
    (LEARNER.fit, (MASKED, LABELS), "masked"),
    (LEARNER.fit, (X.astype("datetime64[D]"), LABELS), "datetime64"),
    (LEARNER.fit, (X + 1j, LABELS), "Complex"),
    (LEARNER.fit, (HUGE, LABELS), "too large"),
    (LEARNER.fit, (X, {0: 1}), "list of labels"),
    (LEARNER.fit, (X, np.full(12, -1)), "nothing is known|labels"),
    (LEARNER.fit, ([X, X], [LABELS, LABELS], [1.0, "a"]), "sample_weight"),
    (LEARNER.fit(X, LABELS).fit_states, (X, [1, "1"] * 6), "states of one type"),
    (ml.SequenceFeatures().transform, ("",), "a list X of sequences"),
    (ml.LowRankForm, (X + 1j,), "Complex"),
    (ml.LowRankForm, (MASKED,), "masked"),
    (ml.DenseForm, (DAYS,), "datetime64"),
    (ml.segmentation_path, (MASKED,), "masked"),
    (ml.best_penalty, ([ml.LowRankForm(X)], [ml.Partition.from_runs(LABELS)], [np.nan]), "NaN"),
    (indices.rand_score, (DAYS, LABELS), "NaN"),
    (indices.annotation_error, ([12], [(0, np.nan, 1)]), "regions"),
    (indices.annotation_error, ([12], [(0, 2.5, 1)]), "regions"),
    (indices.hausdorff, ([5], [6], 12.5), "n_samples"),
    (indices.silhouette_score, (X * 1e200, LABELS), "squared distances"),
    (indices.expected_mutual_information, ([1.5, 2.5], [4.0]), "whole"),
    (indices.mann_whitney_exact_p, (1.0, 10**6, 3), "n1 between 1 and 1000"),
    (penalized_kmeans_objective, (HUGE, LABELS, 1.0), "too large"),
    (ml.DPMeans(penalty=np.nan).fit, (X,), "penalty"),
    (HermiteMoments(width=1 + 2j).fit, (X,), "width"),  # type: ignore[arg-type]
    (ml.Partition.from_change_points, ([5, 12.5],), "integer"),
]


@pytest.mark.parametrize(("call", "arguments", "word"), CALLS)
def test_refused(call: Any, arguments: tuple, word: str) -> None:
    with pytest.raises((TypeError, ValueError), match=word) as caught:
        call(*arguments)
    assert is_ours(caught.value)


@pytest.mark.parametrize("base", [1, 0.5, np.nan])
def test_logarithms_have_a_base(base: float) -> None:
    with pytest.raises(ValueError, match="base"):
        indices.random_walk_index(np.ones((12, 12)), LABELS, LABELS, base=base)


@pytest.mark.parametrize("name", ["ridge", "min_size", "n_jobs", "callbacks", "executor"])
def test_parameters_are_checked(name: str) -> None:
    from metriclearn.baselines import ClosedFormMetric, TunedSegmenter

    kinds = {"ridge": ClosedFormMetric, "min_size": TunedSegmenter}
    estimator = kinds.get(name, ml.ChangePointMetricLearner)(**{name: np.nan})
    with pytest.raises(ValueError, match=f"needs .*{name}"):
        estimator.fit(X, LABELS)


@pytest.mark.parametrize("n", [10**9, 10**10, 10**12, 10**15])
def test_information_of_many_samples_is_a_series(n: int) -> None:
    """E[I] of K and K′ large clusters is (K − 1)(K′ − 1)/(2n), up to 1/n² and rounding."""
    rows, columns = [n // 3, n - n // 3], [n // 7, n // 2, n - n // 7 - n // 2]
    expected = indices.expected_mutual_information(rows, columns)
    assert expected == pytest.approx(1.0 / n, rel=1e-6, abs=1e-16)
