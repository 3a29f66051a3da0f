"""Segments with names: the exact search against the enumeration of all named segmentations."""

from itertools import combinations, product

import numpy as np
import pytest

from metriclearn import ConstrainedChangePoints, LowRankForm
from metriclearn.oracles.change_points import ChangePoints
from metriclearn.problem.forms import cumulative_sums
from metriclearn.problem.knowledge import PartialPartition
from metriclearn.problem.losses import ChargedForm
from metriclearn.problem.named_segments import (
    NamedLoss,
    NamedPartition,
    NameScores,
    PartialNames,
)
from tests.budget import examples


def named_segmentations(T: int, C: int, n_segments: int | None, min_size: int):
    """All of them, with every choice of names."""
    for n in range(T) if n_segments is None else [n_segments - 1]:
        for inner in combinations(range(1, T), n):
            ends = np.array([*inner, T])
            if np.diff(ends, prepend=0).min() < min_size:
                continue
            for names in product(range(C), repeat=len(ends)):
                yield NamedPartition(ends, np.array(names))


def random_case(rng: np.random.Generator):
    """A form with scores of names, perhaps with a loss, and what inference is given."""
    T, C, r = int(rng.integers(2, 7)), int(rng.integers(1, 4)), int(rng.integers(1, 3))
    Z = rng.standard_normal((T, r)) * rng.choice([0.1, 1.0, 3.0])
    rows = rng.standard_normal((T, C)) * rng.choice([0.0, 0.3, 2.0])
    if rng.random() < 0.3:  # ties
        Z, rows = np.round(Z), np.round(rows)
    plain = LowRankForm(cumulative=cumulative_sums(Z))
    form = ChargedForm(plain, names=NameScores.of(rows))
    truth = NamedPartition.from_codes(rng.integers(0, C, T))
    known = None
    if rng.random() < 0.4:
        codes = np.where(rng.random(T) < 0.5, truth.sample_names, -1)
        known = PartialNames(PartialPartition(T, codes), codes)
    loss, constant = None, 0.0
    if rng.random() < 0.6:
        scale, partial = float(rng.choice([0.3, 1.0])), known is not None and rng.random() < 0.5
        loss = NamedLoss(float(rng.choice([0.0, 0.4])), partial), scale
        truth = truth.completing(known) if partial else truth
        form, constant = loss[0].augment(form, truth, scale)
        known = None
    return form.shifted(-float(rng.choice([-0.2, 0.0, 0.5, 2.0]))), known, truth, loss, constant


def agrees(partition: NamedPartition, known: PartialNames | None) -> bool:
    if known is None:
        return True
    right = (known.names < 0) | (known.names == partition.sample_names)
    return bool(right.all()) and known.allows(partition)


def check_search(rng: np.random.Generator) -> None:
    """Augmented or not, with annotations or not, with a count or not, for every min_size."""
    form, known, *_ = random_case(rng)
    T, C = form.n_samples, form.names.emissions.shape[1]
    min_size = int(rng.integers(1, 3)) if T > 2 else 1
    count = int(rng.integers(1, T // min_size + 1)) if rng.random() < 0.4 else None
    values = [
        form.at(one) for one in named_segmentations(T, C, count, min_size) if agrees(one, known)
    ]
    oracle = ConstrainedChangePoints(min_size)
    if not values:
        with pytest.raises(ValueError, match="agree"):
            oracle(form, count, known)
        return
    found = oracle(form, count, known)
    assert isinstance(found, NamedPartition)
    assert agrees(found, known)
    assert form.at(found) == pytest.approx(max(values), abs=1e-10)


@pytest.mark.parametrize("seed", range(4))
def test_search_equals_enumeration(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(examples(100)):
        check_search(rng)


@pytest.mark.parametrize("seed", range(2))
def test_augmented_form_adds_the_loss(seed: int) -> None:
    """⟨A′, M⟩ + a = ⟨A, M⟩ + scale·T·ℓ(M) on all named segmentations."""
    rng = np.random.default_rng(seed)
    for _ in range(examples(20)):
        T, C = 5, 2
        plain = LowRankForm(cumulative=cumulative_sums(rng.standard_normal((T, 2))))
        form = ChargedForm(plain, names=NameScores.of(rng.standard_normal((T, C))))
        codes = rng.integers(0, C, T)
        truth, partial = NamedPartition.from_codes(codes), bool(rng.random() < 0.5)
        if partial:
            given = np.where(rng.random(T) < 0.6, codes, -1)
            truth = truth.completing(PartialNames(PartialPartition(T, given), given))
        loss = NamedLoss(0.7, partial)
        augmented, constant = loss.augment(form, truth, 1.5)
        for one in named_segmentations(T, C, None, 1):
            expected = form.at(one) + 1.5 * T * loss(one, truth)
            assert augmented.at(one) + constant == pytest.approx(expected, abs=1e-10)
        assert loss(truth, truth) == 0.0


def test_long_sequences_equal_the_plain_recursion() -> None:
    """Pruning stays exact where it is at work: against the unpruned recursion at T = 400."""
    rng = np.random.default_rng(0)
    for scale in (0.05, 0.5, 3.0):
        T, C = 400, 4
        truth = np.repeat(rng.integers(0, C, 12), rng.multinomial(T - 12, np.ones(12) / 12) + 1)
        rows = scale * (rng.standard_normal((T, C)) + np.eye(C)[truth])
        Z = rng.standard_normal((C, 3))[truth] + 0.5 * rng.standard_normal((T, 3))
        form: ChargedForm = ChargedForm(
            LowRankForm(cumulative=cumulative_sums(Z)), names=NameScores.of(rows)
        )
        partition = NamedPartition.from_codes(truth)
        for augmented in (form, NamedLoss(0.03).augment(form, partition, 1.0)[0]):
            for penalty in (1.5, 4.0, 12.0):
                found = ChangePoints()(augmented.shifted(-penalty))
                best = unpruned(augmented, penalty)
                assert augmented.shifted(-penalty).at(found) == pytest.approx(best, rel=1e-12)
                again = ChangePoints()(augmented, found.n_clusters)
                assert augmented.at(again) == pytest.approx(augmented.at(found), rel=1e-12)


def unpruned(form: ChargedForm, penalty: float) -> float:
    """max_s F(s) + f(s, T) by the recursion over all starts, O(T²)."""
    S, E, T = form.cumulative, form.names.emissions, form.n_samples
    best = np.zeros(T + 1)
    for u in range(1, T + 1):
        s = np.arange(u)
        value = np.sum((S[u] - S[s]) ** 2, axis=1) / (u - s) + np.max(E[u] - E[s], axis=1)
        if form.form.truth is not None:
            ends = form.form.truth.change_points
            starts = np.append(0, ends[:-1])
            shared = np.minimum(u, ends)[None] - np.maximum(s[:, None], starts[None])
            shared = np.maximum(shared, 0) ** 2 / (ends - starts)
            value = value - form.form.weight * shared.sum(axis=1) / (u - s)
        best[u] = np.max(best[:u] + value + form.form.shift - penalty)
    return float(best[T])
