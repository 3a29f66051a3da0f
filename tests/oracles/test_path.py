"""The path of segmentations, and the best penalty, against fine grids of penalties."""

from typing import Any

import numpy as np
import pytest

from metriclearn import PartialPartition, Partition
from metriclearn.oracles import ChangePoints, segmentation_path
from metriclearn.oracles.segmentation_path import PenaltySearch, best_penalty, matched_penalty
from metriclearn.problem import LowRankForm
from metriclearn.problem.losses import KnownLoss
from tests.exhaustive import all_segmentations, segmentation_values
from tests.oracles.signals import noisy_steps


def residual(X: np.ndarray, ends: np.ndarray) -> float:
    return sum(float(np.sum((S - S.mean(axis=0)) ** 2)) for S in np.split(X, ends[:-1]))


@pytest.mark.parametrize("min_size", [1, 2, 3])
@pytest.mark.parametrize("seed", range(3))
def test_whole_path_is_the_hull_of_all_segmentations(seed, min_size) -> None:
    """T = 8, every penalty from 0 to infinity: optimal cost at any penalty by enumeration."""
    X = np.random.default_rng(seed).normal(size=(8, 2))
    path = segmentation_path(X, (0.0, np.inf), min_size=min_size)
    centered = X - X.mean(axis=0)
    costs = np.sum(centered**2) - segmentation_values(centered @ centered.T, None, min_size)
    counts = np.array([len(ends) for ends in all_segmentations(8, None, min_size)])
    for penalty in np.concatenate([np.linspace(0.0, 30.0, 200), np.logspace(-4, 3, 60)]):
        ends = path.at(penalty)
        mine = residual(X, ends) + penalty * len(ends)
        assert mine == pytest.approx(np.min(costs + penalty * counts), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("seed", [23, 112, 136, 151])
def test_the_default_path_of_long_segments_ends_at_a_penalty_above_zero(seed) -> None:
    """Three segments of two samples can be worse than two."""
    path = segmentation_path(np.random.default_rng(seed).normal(size=(8, 2)), min_size=2)
    assert np.all(path.penalties >= 0)
    assert np.all(np.diff(path.costs) < 0)


@pytest.mark.parametrize("min_size", [1, 4])
@pytest.mark.parametrize("seed", range(4))
def test_every_penalty_of_a_fine_grid_and_close_to_every_switch(seed, min_size) -> None:
    X, _ = noisy_steps(seed)
    low, high = 2.0, 300.0
    path = segmentation_path(X, (low, high), min_size=min_size)
    edges = path.penalties * [1 + 1e-6, 1 - 1e-6]
    for penalty in [*np.geomspace(low * 1.0001, high * 0.9999, 150), *edges.ravel()]:
        expected = ChangePoints(min_size)(LowRankForm(X, shift=-penalty)).change_points
        np.testing.assert_array_equal(path.at(penalty), expected)


def test_attributes_agree_with_each_other() -> None:
    X, _ = noisy_steps(11, T=120, K=6)
    path = segmentation_path(X, (1.0, 1e4))
    assert len(path) == len(path.costs) == len(path.penalties) == len(path.n_segments)
    np.testing.assert_array_equal(path.n_segments, [len(ends) for ends in path.change_points])
    np.testing.assert_allclose(path.costs, [residual(X, e) for e in path.change_points], rtol=1e-9)
    assert np.all(np.diff(path.n_segments) > 0)
    assert np.all(np.diff(path.costs) < 0)
    np.testing.assert_allclose(path.penalties[:-1, 0], path.penalties[1:, 1])
    assert path.penalties[0, 1] == 1e4
    assert path.penalties[-1, 0] == 1.0
    assert np.all(path.penalties[:, 0] <= path.penalties[:, 1])
    switches = -np.diff(path.costs) / np.diff(path.n_segments)
    np.testing.assert_allclose(path.penalties[:-1, 0], switches, rtol=1e-9)


@pytest.mark.parametrize("options", [{}, {"penalty_range": (0.5, 1e5)}], ids=["default", "wide"])
@pytest.mark.parametrize(("seed", "K"), [(0, 3), (1, 4), (2, 6)])
def test_elbow_is_the_clear_segmentation(seed, K, options) -> None:
    rng = np.random.default_rng(seed)
    truth = Partition.from_change_points(25 * np.arange(1, K + 1))
    signs = np.resize([-1.0, 1.0], K)[truth.labels]
    path = segmentation_path(10.0 * signs[:, None] + rng.normal(size=(25 * K, 1)), **options)
    elbow = path.elbow()
    assert path.n_segments[elbow] == K
    np.testing.assert_array_equal(path.change_points[elbow], truth.change_points)


def test_metric_min_size_and_most_segments() -> None:
    X, _ = noisy_steps(6, P=3)
    L = np.array([[1.0, 0.5, 0.0], [0.0, 0.0, 2.0]])
    under_metric = segmentation_path(X, (1.0, 500.0), components=L)
    transformed = segmentation_path(X @ L.T, (1.0, 500.0))
    np.testing.assert_allclose(under_metric.costs, transformed.costs, rtol=1e-9)
    long = segmentation_path(X, (1.0, 500.0), min_size=7)
    assert min(np.diff(ends, prepend=0).min() for ends in long.change_points) >= 7
    full = segmentation_path(X, (0.01, 500.0))
    short = segmentation_path(X, (0.01, 500.0), max_segments=5)
    assert len(short) < len(full)
    few = full.n_segments <= 5
    np.testing.assert_array_equal(full.n_segments[few], short.n_segments[: few.sum()])


def test_an_array_of_one_dimension_is_one_feature() -> None:
    X, _ = noisy_steps(7)
    signal, column = segmentation_path(X[:, 0], (2.0, 9.0)), segmentation_path(X[:, :1], (2.0, 9.0))
    np.testing.assert_array_equal(signal.penalties, column.penalties)
    assert len(signal) > 1


def test_offset_and_a_constant_signal() -> None:
    X, _ = noisy_steps(7)
    X = np.round(X * 2**12) / 2**12
    plain, far = segmentation_path(X, (2.0, 100.0)), segmentation_path(X + 1e8, (2.0, 100.0))
    assert len(plain) == len(far)
    for mine, theirs in zip(plain.change_points, far.change_points):
        np.testing.assert_array_equal(mine, theirs)
    constant = segmentation_path(np.full((10, 2), 3.0), (1.0, 2.0))
    np.testing.assert_array_equal(constant.n_segments, [1])
    np.testing.assert_array_equal(constant.penalties, [[1.0, 2.0]])
    single = segmentation_path(np.array([[1.0, 2.0]]))
    assert single.n_segments.tolist() == [1]
    assert single.elbow() == 0


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
