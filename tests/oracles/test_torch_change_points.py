"""Change-points in torch operations, on the processor, against the pruned program."""

from __future__ import annotations

import numpy as np
import pytest

from metriclearn import (
    ChangePointMetricLearner,
    ChangePoints,
    LowRankForm,
    Partition,
    TorchChangePoints,
    load,
    save,
)
from metriclearn.datasets import make_change_points
from tests.exhaustive import best_segmentation, dense_form

pytest.importorskip("torch", reason="torch is not installed")


def segmentation(rng: np.random.Generator, T: int, most: int = 10) -> Partition:
    K = int(rng.integers(1, min(T, most) + 1))
    cuts = rng.choice(np.arange(1, T), K - 1, replace=False) if K > 1 else []
    return Partition.from_change_points(cuts, T)


def case(rng: np.random.Generator, T: int) -> LowRankForm:
    """Jumps of none to many deviations; with a loss, whose labels may be wrong, or without."""
    rank, alpha = int(rng.integers(1, 6)), float(rng.choice([0.0, 0.2, 1.0, 4.0]))
    truth = segmentation(rng, T)
    means = rng.normal(size=(truth.n_clusters, rank))[truth.labels]
    Z = rng.choice([0.0, 1.0, 5.0]) * means + rng.choice([0.1, 1.0]) * rng.normal(size=(T, rank))
    labels = truth if rng.random() < 0.5 else segmentation(rng, T)
    shift = alpha - float(rng.choice([0.1, 1.0, 3.0, 20.0]))
    return LowRankForm(Z, labels if alpha else None, 2.0 * alpha, shift)


@pytest.mark.parametrize("seed", range(3))
def test_equals_enumeration(seed) -> None:
    """Integer signals with ties, in one batch: K unknown and every K."""
    rng = np.random.default_rng(seed)
    min_size = seed + 1
    forms, counts, winners = [], [], []
    for T in range(min_size, 9):
        Z, truth = rng.integers(-3, 4, (T, 1)).astype(float), segmentation(rng, T)
        alpha, c = float(rng.choice([0.0, 0.5, 2.0])), float(rng.integers(-4, 5))
        A = dense_form(Z, truth.labels, 2 * alpha, c)
        for K in (None, *range(1, T // min_size + 1)):
            forms.append(LowRankForm(Z, truth, 2 * alpha, c))
            counts.append(K)
            winners.append(best_segmentation(A, K, min_size)[1])
    for answer, best in zip(TorchChangePoints("cpu", min_size).many(forms, counts), winners):
        assert tuple(answer.change_points) in best


@pytest.mark.parametrize("min_size", [1, 2, 7])
def test_equals_the_pruned_program_on_ragged_batches(min_size) -> None:
    rng = np.random.default_rng(min_size)
    forms = [case(rng, int(rng.integers(min_size, 120))) for _ in range(30)]
    counts = [
        None if i % 3 else int(rng.integers(1, min(20, form.n_samples // min_size) + 1))
        for i, form in enumerate(forms)
    ]
    answers = TorchChangePoints("cpu", min_size).many(forms, counts)
    assert answers == [ChangePoints(min_size)(*pair) for pair in zip(forms, counts)]
    far = LowRankForm(np.round(forms[0].factors * 2**12) / 2**12 + 1e8, shift=-3.0)
    assert TorchChangePoints("cpu")(far) == ChangePoints()(far)


@pytest.mark.parametrize("parameters", [{}, {"n_segments": "given"}, {"min_size": 4}])
def test_a_learner_learns_and_predicts_the_same(parameters, tmp_path) -> None:
    data = make_change_points(6, 60, 4, 2, (3, 5), random_state=0)
    plain = ChangePointMetricLearner(**parameters).fit(data.sequences, data.labels)
    learner = ChangePointMetricLearner(oracle=TorchChangePoints("cpu"), **parameters)
    learner.fit(data.sequences, data.labels)
    np.testing.assert_allclose(learner.components_, plain.components_, atol=1e-9)
    again = load(save(learner, tmp_path / "model.npz"))
    assert again.oracle.device == "cpu"
    X = [data.sequences[0], data.sequences[1][:50], data.sequences[2][:3]]
    counts = [3, 2, 1] if parameters == {"n_segments": "given"} else None
    for mine, theirs in zip(again.predict(X, counts), plain.predict(X, counts)):
        np.testing.assert_array_equal(mine, theirs)


def test_errors_name_the_remedy() -> None:
    form = LowRankForm(np.ones((3, 1)))
    with pytest.raises(ValueError, match="needs 4 samples for 4 segment"):
        TorchChangePoints("cpu")(form, 4)
    with pytest.raises(ValueError, match="min_size of at least 1"):
        TorchChangePoints("cpu", 0)(form)
