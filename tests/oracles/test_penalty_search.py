"""The best penalty, and the penalty at which a given number of changes is found."""

from typing import Any

import numpy as np
import pytest

from metriclearn import PartialPartition, Partition
from metriclearn.oracles import ChangePoints, segmentation_path
from metriclearn.oracles.penalty_search import PenaltySearch, best_penalty, matched_penalty
from metriclearn.problem import LowRankForm
from metriclearn.problem.forms import center
from metriclearn.problem.losses import KnownLoss
from tests.oracles.signals import noisy_steps


def assert_no_penalty_is_better(
    forms: list[LowRankForm], labels: list[Any], weights: Any = None, min_size: int = 1
) -> float:
    """The loss of the best penalty, which is its mean loss and that of no other is below."""
    penalty, loss = best_penalty(forms, labels, weights, min_size)

    def mean_loss(penalty: float) -> float:
        found = [ChangePoints(min_size)(form.shifted(-penalty)) for form in forms]
        return float(np.average(list(map(KnownLoss(), found, labels)), weights=weights))

    assert mean_loss(penalty) == pytest.approx(loss, abs=1e-12)
    assert loss <= min(map(mean_loss, np.geomspace(1e-4, 1e6, 400))) + 1e-12
    return loss


@pytest.mark.parametrize("min_size", [1, 3])
@pytest.mark.parametrize("seed", range(5))
def test_best_penalty_is_as_good_as_a_dense_grid(seed, min_size) -> None:
    rng = np.random.default_rng(50 + seed)
    series = [noisy_steps(10 * seed + i, T=40 + 10 * i, K=3 + i % 2) for i in range(4)]
    weights = rng.uniform(0.5, 2.0, 4) if seed % 2 else None
    forms, truths = [LowRankForm(0.7 * X) for X, _ in series], [truth for _, truth in series]
    assert_no_penalty_is_better(forms, truths, weights, min_size)


def test_one_search_serves_several_units() -> None:
    """In another unit of each sequence, the penalty is that of the sequences in this unit."""
    rng = np.random.default_rng(0)
    series = [noisy_steps(seed, T=60, K=4) for seed in range(4)]
    forms, truths = [LowRankForm(X) for X, _ in series], [truth for _, truth in series]
    search, units = PenaltySearch(forms, truths, 2), rng.uniform(0.3, 3.0, 4)
    for unit in (np.ones(4), units, np.ones(4)):
        scaled = [LowRankForm(X / one**0.5) for (X, _), one in zip(series, unit)]
        expected = best_penalty(scaled, truths, min_size=2)
        assert search.best(units=unit) == pytest.approx(expected, rel=1e-9)
    hidden = [rng.random(61) < 0.5 for _ in series]
    assert matched_penalty(forms, hidden, 9.0, 2, units) == pytest.approx(
        matched_penalty(
            [LowRankForm(X / one**0.5) for (X, _), one in zip(series, units)], hidden, 9.0, 2
        ),
        rel=1e-9,
    )


@pytest.mark.parametrize("informative", [True, False])
def test_a_search_that_skips_segmentations_finds_nearly_the_best_penalty(informative) -> None:
    """It skips some of the many segments, or of partial labels; few segments are searched whole."""
    rng = np.random.default_rng(0)
    ends = [np.append(np.sort(rng.choice(np.arange(1, 1600), 299, replace=False)), 1600)] * 2
    truths = [Partition(ends=one) for one in ends]
    steps = [np.repeat(3.0 * rng.normal(size=300), truth.sizes) for truth in truths]
    forms = [LowRankForm((informative * x + rng.normal(size=1600))[:, None]) for x in steps]
    partial = [
        PartialPartition(1600, np.where(np.arange(1600) < 200, t.labels, -1)) for t in truths
    ]
    for labels in (truths, partial):
        penalty, loss = PenaltySearch(forms, labels, 1, exact=False).best()
        found = [ChangePoints()(form.shifted(-penalty)) for form in forms]
        assert loss == pytest.approx(np.mean(list(map(KnownLoss(), found, labels))), abs=1e-12)
        assert loss <= 1.01 * best_penalty(forms, labels)[1]
    few = [Partition.from_change_points([*range(100, 1600, 100), 1600])] * 2
    assert PenaltySearch(forms, few, 1, exact=False).best() == best_penalty(forms, few)


def test_the_best_penalty_lies_below_what_another_sequence_needs() -> None:
    """Noise whose path is cut at a high penalty, of little weight, with clear steps."""
    random = np.random.default_rng(0)
    noise, steps = 100.0 * random.normal(size=(100, 1)), np.repeat([0.0, 1.0, 0.0, 1.0], 25)
    steps = steps[:, None] + 0.1 * random.normal(size=(100, 1))
    truths = [Partition.from_change_points(ends) for ends in ([100], [25, 50, 75, 100])]
    assert_no_penalty_is_better([LowRankForm(noise), LowRankForm(steps)], truths, [0.01, 0.99])


def test_best_penalty_with_partial_labels_is_as_good_as_a_dense_grid() -> None:
    """One labeling is complete. Paths are short enough to be known whole: 18 ≤ 4 · 2 + 10."""
    series = [noisy_steps(seed, T=18, K=3) for seed in range(4)]
    forms = [LowRankForm(0.7 * X) for X, _ in series]
    labels: list[Any] = [
        PartialPartition(18, np.where(N.labels < 2, N.labels, -1)) for _, N in series
    ]
    labels[0] = series[0][1]
    assert assert_no_penalty_is_better(forms, labels) > 0


def test_best_penalty_does_not_stop_where_only_unlabeled_parts_have_changes() -> None:
    """Unlabeled jumps are larger: their 50 segments come first on the path, the labeled 4 last."""
    rng = np.random.default_rng(0)
    X = np.append(np.repeat([0.0, 1.0, 0.0, 1.0], 20), np.repeat(20.0 * rng.normal(size=50), 2))
    labels = np.append(np.repeat(np.arange(4), 20), np.full(100, -1))
    penalty, loss = best_penalty([LowRankForm(X[:, None])], [PartialPartition(180, labels)])
    assert loss == 0.0
    found = ChangePoints()(LowRankForm(X[:, None]).shifted(-penalty))
    assert found.change_points[:4].tolist() == [20, 40, 60, 80]


def test_best_penalty_on_separable_data_is_in_the_middle_of_the_perfect_range() -> None:
    truth = Partition.from_change_points([20, 40, 60])
    X = 5.0 * np.array([0.0, 1.0, 0.0])[truth.labels][:, None]
    X = X + 0.1 * np.random.default_rng(0).normal(size=X.shape)
    penalty, loss = best_penalty([LowRankForm(X)], [truth])
    assert loss == 0.0
    path = segmentation_path(X, (1e-6, 1e4))
    position = int(np.flatnonzero(path.n_segments == 3)[0])
    assert penalty == pytest.approx(np.sqrt(np.prod(path.penalties[position])), rel=1e-6)


def signals(seed: int, n: int = 2) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [
        center(np.repeat(rng.normal(size=(9, 2)), 7, axis=0) + 0.3 * rng.normal(size=(63, 2)))
        for _ in range(n)
    ]


@pytest.mark.parametrize("seed", range(5))
def test_every_number_on_the_path_is_found_inside_its_interval(seed: int) -> None:
    (Z,) = signals(seed, 1)
    path, form = segmentation_path(Z), LowRankForm(Z)
    hidden = np.ones(len(Z) + 1, dtype=bool)
    for count, (low, high) in zip(path.n_segments[:-1].tolist(), path.penalties):
        penalty = matched_penalty([form], [hidden], count - 1)
        assert 0.99 * low <= penalty <= 1.01 * high
        if count > 1:
            assert penalty == pytest.approx(np.sqrt(low * high), rel=0.03)


def test_only_hidden_positions_count_in_all_recordings_together() -> None:
    Zs = signals(7)
    hidden = [np.arange(64) < 32, np.zeros(64, dtype=bool)]
    forms = [LowRankForm(Z) for Z in Zs]

    def found(penalty: float) -> int:
        ends = [ChangePoints()(form.shifted(-penalty)).change_points[:-1] for form in forms]
        return sum(np.count_nonzero(some[at]) for some, at in zip(hidden, ends))

    counts = [found(penalty) for penalty in np.geomspace(0.05, 50, 400)]
    for changes in (1, 2, 4, 11):
        penalty = matched_penalty(forms, hidden, changes)
        assert found(penalty) == max(n for n in counts if n <= changes)
    assert matched_penalty(forms, hidden, 3) == pytest.approx(
        matched_penalty(forms[:1], hidden[:1], 3), rel=0.03
    )


def test_the_unit_of_the_data_and_equal_rows() -> None:
    Zs = signals(3)
    hidden = [np.ones(64, dtype=bool)] * 2
    one = matched_penalty([LowRankForm(Z) for Z in Zs], hidden, 9)
    many = matched_penalty([LowRankForm(1e6 * Z) for Z in Zs], hidden, 9)
    assert many == pytest.approx(1e12 * one, rel=0.05)
    flat = LowRankForm(np.zeros((63, 2)))
    assert matched_penalty([flat], hidden[:1], 3) is None


def test_constant_rows_have_no_penalty_for_changes_that_they_lack() -> None:
    steps = LowRankForm(center(np.repeat([[0.1], [3.3], [1.7], [1.9]], 25, axis=0)))
    hidden = np.ones(101, dtype=bool)
    for changes in (1, 3):
        penalty = matched_penalty([steps], [hidden], changes)
        assert penalty > 0.1
        found = ChangePoints()(steps.shifted(-penalty))
        assert found.n_clusters == changes + 1
    assert matched_penalty([steps], [hidden], 4) is None  # not one that divides rounding errors
    assert matched_penalty([steps], [np.arange(101) < 20], 1) is None
