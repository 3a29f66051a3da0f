"""Penalties of positions, of either sign, against enumeration and the plain quadratic program."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metriclearn import Partition
from metriclearn.oracles import ConstrainedChangePoints
from metriclearn.oracles.penalty_search import best_penalty
from metriclearn.problem import LowRankForm
from metriclearn.problem.losses import ChargedForm, FrobeniusLoss, KnownLoss
from tests.budget import examples
from tests.exhaustive import all_segmentations, block_means, segmentation_values
from tests.oracles.signals import AUGMENTED, PLAIN, draw_case, draw_penalties, noisy_steps
from tests.strategies import partial_partitions


def of_changes(penalties: np.ndarray, segmentations) -> np.ndarray:
    """What the changes of every segmentation cost, its end T being none."""
    return np.array([penalties[list(ends[:-1])].sum() for ends in segmentations])


@settings(max_examples=examples(150), deadline=None)
@given(
    partial_partitions(9),
    st.integers(0, 10**6),
    st.sampled_from(["free", "known", "charged", "both"]),
    st.integers(1, 3),
)
def test_equals_enumeration(known, seed, kind, min_size) -> None:
    """κN or the charges of a partial truth, constraints, all counts: several cases per example."""
    T, rng = known.n_samples, np.random.default_rng(seed)
    alphas = AUGMENTED if kind == "free" else PLAIN
    form, A, _ = draw_case(rng, T, int(rng.integers(0, 4)), alphas=alphas)
    penalties, min_size = draw_penalties(rng, T), min(min_size, T)
    penalized = ChargedForm(form, penalties=penalties)
    if kind in ("charged", "both"):
        form = LowRankForm(form.factors, shift=form.shift)
        truth = known.with_completion(Partition.from_change_points([T]))
        scale = float(rng.choice([0.3, 1.0, 4.0]))
        penalized, _ = KnownLoss().augment(ChargedForm(form, penalties=penalties), truth, scale)
        charged, _ = KnownLoss().augment(form, truth, scale)
    facts = known if kind in ("known", "both") else None
    oracle = ConstrainedChangePoints(min_size)
    for K in (None, *range(1, T // min_size + 1)):
        segmentations = all_segmentations(T, K, min_size)
        if kind in ("charged", "both"):
            values = [charged.at(Partition.from_change_points(ends)) for ends in segmentations]
        else:
            values = segmentation_values(A, K, min_size)
        values = np.array(values) - of_changes(penalties, segmentations)
        if facts is not None:
            agrees = [facts.allows(Partition.from_change_points(ends)) for ends in segmentations]
            values = np.where(agrees, values, -np.inf)
        if values.size == 0 or values.max() == -np.inf:
            with pytest.raises(ValueError, match="needs"):
                oracle(penalized, K, facts)
            continue
        answer = oracle(penalized, K, facts)
        place = segmentations.index(tuple(answer.change_points))
        close = {"rel": 1e-9, "abs": 1e-9 * (1 + np.abs(penalties).sum())}
        assert values[place] == pytest.approx(values.max(), **close)
        assert penalized.at(answer) == pytest.approx(values.max(), **close)


def quadratic_program(A, penalties, min_size, most):
    """The best value in any number of segments, and in 1 … ``most`` of them, O(T²) each."""
    T = len(A)
    lengths = np.arange(T + 1)[None, :] - np.arange(T + 1)[:, None]
    worth = np.where(lengths >= min_size, block_means(A), -np.inf)
    worth[:, 1:T] -= penalties[1:T]
    best = np.full(T + 1, -np.inf)
    best[0] = 0.0
    for u in range(1, T + 1):
        best[u] = np.max(best[:u] + worth[:u, u])
    counted, layer = [], np.where(np.arange(T + 1) == 0, 0.0, -np.inf)
    for _ in range(most):
        layer = np.max(layer[:, None] + worth, axis=0)
        counted.append(layer[T])
    return best[T], counted


@pytest.mark.parametrize("seed", range(4))
def test_equals_the_quadratic_program(seed) -> None:
    """800 cases with 10 ≤ T ≤ 300; three counts of every eighth."""
    rng = np.random.default_rng(seed)
    for case in range(200):
        T = int(rng.integers(10, 80)) if case % 8 else int(rng.integers(80, 301))
        form, A, min_size = draw_case(rng, T, case % 4, alphas=AUGMENTED)
        penalties = draw_penalties(rng, T)
        most = 0 if case % 8 else min(T // min_size, 15)
        best, counted = quadratic_program(A, penalties, min_size, most)
        penalized, oracle = (
            ChargedForm(form, penalties=penalties),
            ConstrainedChangePoints(min_size),
        )
        close = {"rel": 1e-9, "abs": 1e-9 * (T + np.abs(penalties).sum())}
        answer = oracle(penalized)
        assert answer.sizes.min() >= min_size
        assert penalized.at(answer) == pytest.approx(best, **close)
        for K in rng.integers(1, most + 1, 3 if most else 0).tolist():
            answer = oracle(penalized, K)
            assert answer.n_clusters == K
            assert penalized.at(answer) == pytest.approx(counted[K - 1], **close)


def test_best_penalty_together_with_penalties_of_positions() -> None:
    """Changes that cost nothing where they are true leave no loss at some λ; enumeration of λ."""
    signals = [noisy_steps(seed, K=3) for seed in range(3)]
    loss, forms = FrobeniusLoss(), []
    for X, truth in signals:
        X = X + 3.0 * np.random.default_rng(len(forms)).normal(size=X.shape)
        penalties = np.full(len(X) + 1, 30.0)
        penalties[truth.change_points] = 0.0
        forms.append(ChargedForm(LowRankForm(0.3 * X), penalties=penalties))
    truths = [truth for _, truth in signals]
    penalty, least = best_penalty(forms, truths)
    oracle = ConstrainedChangePoints()
    for candidate in (penalty, *np.geomspace(1e-3, 100.0, 30)):
        losses = [loss(oracle(f.shifted(-candidate)), t) for f, t in zip(forms, truths)]
        assert np.mean(losses) >= least - 1e-12
        if candidate == penalty:
            assert np.mean(losses) == pytest.approx(least, abs=1e-12)
    assert least < best_penalty([form.form for form in forms], truths)[1]
