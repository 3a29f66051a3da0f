"""Change-points in torch operations, on the processor, against the pruned program."""

from __future__ import annotations

import numpy as np
import pytest

from metriclearn import ChangePoints, LowRankForm, TorchChangePoints
from tests.exhaustive import best_segmentation
from tests.oracles.signals import draw_case

pytest.importorskip("torch", reason="torch is not installed")


@pytest.mark.parametrize("seed", range(3))
def test_equals_enumeration(seed) -> None:
    """Integer signals with ties, in one batch: K unknown and every K."""
    rng = np.random.default_rng(seed)
    min_size = seed + 1
    forms, counts, winners = [], [], []
    for T in range(min_size, 9):
        form, A, _ = draw_case(rng, T, 0, min_size)
        for K in (None, *range(1, T // min_size + 1)):
            forms.append(form)
            counts.append(K)
            winners.append(best_segmentation(A, K, min_size)[1])
    for answer, best in zip(TorchChangePoints("cpu", min_size).many(forms, counts), winners):
        assert tuple(answer.change_points) in best


@pytest.mark.parametrize("min_size", [1, 2, 7])
def test_equals_the_pruned_program_on_ragged_batches(min_size) -> None:
    rng = np.random.default_rng(min_size)
    lengths = rng.integers(min_size, 120, 30)
    forms = [draw_case(rng, int(T), i % 3 + 1, min_size)[0] for i, T in enumerate(lengths)]
    counts = [
        None if i % 3 else int(rng.integers(1, min(20, form.n_samples // min_size) + 1))
        for i, form in enumerate(forms)
    ]
    answers = TorchChangePoints("cpu", min_size).many(forms, counts)
    assert answers == [ChangePoints(min_size)(*pair) for pair in zip(forms, counts)]
    far = LowRankForm(np.round(forms[0].factors * 2**12) / 2**12 + 1e8, shift=-3.0)
    assert TorchChangePoints("cpu")(far) == ChangePoints()(far)


def test_errors_name_the_remedy() -> None:
    form = LowRankForm(np.ones((3, 1)))
    with pytest.raises(ValueError, match="needs 4 samples for 4 segment"):
        TorchChangePoints("cpu")(form, 4)
    with pytest.raises(ValueError, match="min_size of at least 1"):
        TorchChangePoints("cpu", 0)(form)
