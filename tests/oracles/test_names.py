"""Segments with names: the exact search against the enumeration of all named segmentations."""

from functools import lru_cache
from itertools import combinations, product
from typing import NamedTuple

import numpy as np
import pytest

from metriclearn import Partition
from metriclearn.oracles import ConstrainedChangePoints, boundary_margins
from metriclearn.oracles.change_points import ChangePoints
from metriclearn.problem import LowRankForm
from metriclearn.problem.charges import charge
from metriclearn.problem.forms import cumulative_sums
from metriclearn.problem.losses import ChargedForm
from metriclearn.problem.named_segments import NamedLoss, NamedPartition, NameScores, PartialNames
from metriclearn.problem.partial_labels import PartialPartition
from tests.budget import examples
from tests.exhaustive import all_segmentations, block_means, dense_form


def named_segmentations(T: int, C: int, n_segments: int | None = None, min_size: int = 1):
    """All of them, with every choice of names."""
    for ends in all_segmentations(T, n_segments, min_size):
        for names in product(range(C), repeat=len(ends)):
            yield NamedPartition(np.array(ends), np.array(names))


def agrees(partition: NamedPartition, known: PartialNames | None) -> bool:
    if known is None:
        return True
    right = (known.names < 0) | (known.names == partition.sample_names)
    return bool(right.all()) and known.allows(partition)


@lru_cache
def choices(C: int, n_segments: int) -> np.ndarray:
    """All choices of names, (C^K, K)."""
    return np.array(list(product(range(C), repeat=n_segments)))


class Case(NamedTuple):
    """What the search is asked, and dense arrays of what it maximizes."""

    form: ChargedForm
    known: PartialNames | None
    min_size: int
    count: int | None
    values: np.ndarray  # (T+1, T+1, C), −∞ where a given name forbids another
    costs: np.ndarray  # (C, C)

    def value(self, ends, names: np.ndarray) -> np.ndarray:
        """Of a segmentation with names (…, K)."""
        starts = (0, *ends[:-1])
        total = sum(self.values[s, u, names[..., k]] for k, (s, u) in enumerate(zip(starts, ends)))
        return total - self.costs[names[..., :-1], names[..., 1:]].sum(axis=-1)

    def bests(self) -> dict[tuple[int, ...], float]:
        """The best value of every segmentation that agrees, by its ends."""
        return {
            ends: self.value(ends, choices(len(self.costs), len(ends))).max()
            for ends in all_segmentations(self.form.n_samples, self.count, self.min_size)
            if self.known is None or self.known.allows(Partition(ends=np.array(ends)))
        }


def random_case(rng: np.random.Generator, transitions: bool) -> Case:
    """Perhaps with a loss, partial labels, penalties of positions or a count of segments."""
    T, C, r = int(rng.integers(2, 8)), int(rng.integers(1, 4)), int(rng.integers(1, 3))
    Z = rng.standard_normal((T, r)) * rng.choice([0.1, 1.0, 3.0])
    rows = rng.standard_normal((T, C)) * rng.choice([0.0, 0.3, 2.0])
    costs = rng.standard_normal((C, C)) * rng.choice([0.0, 0.5, 2.0])
    if rng.random() < 0.3:  # ties
        Z, rows, costs = np.round(Z), np.round(rows), np.round(costs)
    if C > 1 and rng.random() < 0.4:  # neighbors differ
        np.fill_diagonal(costs, np.inf)
    costs = costs if transitions else np.zeros((C, C))
    names = NameScores.of(rows, None, costs if transitions else None)
    form, known = ChargedForm(LowRankForm(cumulative=cumulative_sums(Z)), names=names), None
    codes, penalties = rng.integers(0, C, T), None
    if rng.random() < 0.4:
        given = np.where(rng.random(T) < 0.5, codes, -1)
        known = PartialNames(PartialPartition(T, given), given)
    min_size = int(rng.integers(1, 3)) if T > 2 else 1
    count = int(rng.integers(1, T // min_size + 1)) if rng.random() < 0.4 else None
    Z = Z - Z.mean(axis=0)
    values, weight, truth = rows, 0.0, NamedPartition.from_codes(codes)
    if rng.random() < 0.6:
        scale, beta = float(rng.choice([0.3, 1.0])), float(rng.choice([0.0, 0.4]))
        partial = known is not None and bool(rng.random() < 0.5)
        truth = known.with_completion(truth) if partial else truth
        form, _ = NamedLoss(beta).augment(form, truth, scale)
        labels, weight = known.names if partial else codes, 0.0 if partial else 2.0 * scale
        wrong = (labels[:, None] >= 0) & (labels[:, None] != np.arange(C))
        values, known = rows + scale * beta * wrong, None
    elif known is None and rng.random() < 0.3:
        penalties = rng.standard_normal(T + 1)
        form = ChargedForm(form.form, penalties=penalties, names=names)
    form = form.shifted(-float(rng.choice([-0.2, 0.0, 0.5, 2.0])))
    A = dense_form(Z, truth.labels, weight, form.shift)
    sums = np.vstack([np.zeros(C), np.cumsum(values, axis=0)])
    table = block_means(A)[:, :, None] + sums[None] - sums[:, None]
    for s, u in combinations(range(T + 1), 2):
        if form.charges is not None:
            table[s, u] += form.scale * charge(form.charges.table, s, u)
        table[s, u] -= 0.0 if penalties is None or u == T else penalties[u]
        if known is not None:
            here = known.names[s:u]
            table[s, u, [np.any((here >= 0) & (here != c)) for c in range(C)]] = -np.inf
    return Case(form, known, min_size, count, table, costs)


def assert_search_is_best(rng: np.random.Generator, transitions: bool | None = None) -> None:
    """Augmented or not, with annotations or not, with a count or not, for every min_size."""
    case = random_case(rng, bool(rng.random() < 0.5) if transitions is None else transitions)
    best = max(case.bests().values(), default=-np.inf)
    oracle = ConstrainedChangePoints(case.min_size)
    if best == -np.inf:
        with pytest.raises(ValueError, match="agree"):
            oracle(case.form, case.count, case.known)
        return
    found = oracle(case.form, case.count, case.known)
    assert isinstance(found, NamedPartition)
    assert case.count in (None, found.n_clusters)
    assert found.sizes.min() >= case.min_size
    assert agrees(found, case.known)
    value = case.value(tuple(found.change_points), found.names)
    assert value == pytest.approx(best, abs=1e-10)
    assert case.form.at(found) == pytest.approx(best, abs=1e-10)


@pytest.mark.parametrize("transitions", [False, True], ids=["plain", "transitions"])
@pytest.mark.parametrize("seed", range(2))
def test_search_equals_enumeration(seed: int, transitions: bool) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(examples(700 if transitions else 1000)):
        assert_search_is_best(rng, transitions)


@pytest.mark.parametrize("transitions", [False, True], ids=["plain", "transitions"])
def test_margins_equal_enumeration(transitions: bool) -> None:
    rng = np.random.default_rng(0)
    for _ in range(examples(200)):
        case = random_case(rng, transitions)._replace(count=None)
        bests, tolerance = case.bests(), int(rng.integers(0, 2))
        best = max(bests.values(), default=-np.inf)
        if best == -np.inf:
            continue
        margins = boundary_margins(
            case.form, None, case.known, min_size=case.min_size, tolerance=tolerance
        )
        ends = margins.change_points
        assert bests[tuple(ends)] == pytest.approx(best, abs=1e-9)
        for t, loss in zip(ends[:-1], margins.losses):
            rest = [v for e, v in bests.items() if not any(abs(b - t) <= tolerance for b in e[:-1])]
            assert loss == pytest.approx(best - max(rest, default=-np.inf), abs=1e-9)
        for t in range(1, case.form.n_samples):
            through = max((v for e, v in bests.items() if t in e), default=-np.inf)
            assert margins.gains[t] == pytest.approx(through - best, abs=1e-9)


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
            truth = PartialNames(PartialPartition(T, given), given).with_completion(truth)
        loss = NamedLoss(0.7)
        augmented, constant = loss.augment(form, truth, 1.5)
        for one in named_segmentations(T, C):
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
