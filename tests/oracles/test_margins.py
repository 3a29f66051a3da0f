"""Max-marginals against enumeration, and against two constrained programs per boundary."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metriclearn import Partition
from metriclearn.oracles import BoundaryMargins, ChangePoints, boundary_margins
from metriclearn.problem import LowRankForm
from metriclearn.problem.losses import ChargedForm, KnownLoss
from metriclearn.problem.partial_labels import PartialPartition
from metriclearn.problem.regions import AT_LEAST_ONE, EXACTLY_ONE, NO_CHANGE, Region
from tests.budget import examples
from tests.exhaustive import all_segmentations, segmentation_values
from tests.oracles.signals import ALPHAS, PLAIN, draw_case, draw_penalties, noisy_steps
from tests.strategies import partial_partitions


def by_enumeration(segmentations, values, T, change_points, tolerance):
    """(losses, gains) over segmentations and their values."""
    changes = np.zeros((len(values), T), dtype=bool)
    for row, ends in zip(changes, segmentations):
        row[list(ends[:-1])] = True
    best = values.max()
    gains = [np.max(values[changes[:, t]], initial=-np.inf) - best for t in range(1, T)]
    losses = []
    for t in change_points[:-1]:
        window = changes[:, max(1, t - tolerance) : t + tolerance + 1]
        losses.append(best - np.max(values[~window.any(axis=1)], initial=-np.inf))
    return np.array(losses), np.array([0.0, *gains])


@settings(max_examples=examples(200), deadline=None)
@given(
    partial_partitions(8),
    st.integers(0, 10**6),
    st.sampled_from(["free", "known", "known", "charged", "penalized"]),
    st.integers(1, 3),
    st.integers(0, 2),
    st.booleans(),
)
def test_equals_enumeration(known, seed, kind, min_size, tolerance, counted) -> None:
    """All forms, constraints and penalties of positions, with a count and without."""
    T, rng = known.n_samples, np.random.default_rng(seed)
    alphas = ALPHAS if kind == "free" else PLAIN
    form, A, _ = draw_case(rng, T, int(rng.integers(0, 4)), alphas=alphas)
    n_segments = int(rng.integers(1, T + 1)) if counted else None
    segmentations = all_segmentations(T, n_segments, min_size)
    values = np.array([])
    if kind == "charged":
        form = LowRankForm(form.factors, shift=form.shift)
        truth = known.with_completion(Partition.from_change_points([T]))
        form, _ = KnownLoss().augment(form, truth, float(rng.choice([0.3, 1.0, 4.0])))
        values = np.array([form.at(Partition.from_change_points(e)) for e in segmentations])
    elif segmentations:
        values = segmentation_values(A, n_segments, min_size)
    if kind == "penalized":
        penalties = draw_penalties(rng, T)
        form = ChargedForm(form, penalties=penalties)
        changes = [list(ends[:-1]) for ends in segmentations]
        values = values - np.array([penalties[each].sum() for each in changes])
    facts = None if kind in ("free", "penalized") else known
    if facts is not None:
        agrees = [known.allows(Partition.from_change_points(ends)) for ends in segmentations]
        values = values[np.flatnonzero(agrees)]
        segmentations = [ends for ends, kept in zip(segmentations, agrees) if kept]
    options = {"min_size": min_size, "tolerance": tolerance}
    if len(values) == 0:
        with pytest.raises(ValueError, match="needs"):
            boundary_margins(form, n_segments, facts, **options)
        return
    margins = boundary_margins(form, n_segments, facts, **options)
    losses, gains = by_enumeration(segmentations, values, T, margins.change_points, tolerance)
    scale = 1.0 + np.abs(values).max() + abs(form.shift) * T
    assert form.at(Partition(ends=margins.change_points)) == pytest.approx(values.max())
    assert margins.losses == pytest.approx(losses, abs=1e-9 * scale)
    assert margins.gains == pytest.approx(gains, abs=1e-9 * scale)


def by_layers(form, n_segments, min_size, tolerance, change_points):
    """(losses, gains) by the program with a layer for every number of segments, over all pairs."""
    T, S = form.n_samples, form.cumulative
    sizes = np.subtract.outer(np.arange(T + 1), np.arange(T + 1)).T
    energies = sum(np.subtract.outer(column, column) ** 2 for column in S.T)
    with np.errstate(divide="ignore", invalid="ignore"):
        values = np.where(sizes >= min_size, energies / sizes, -np.inf)
    before, behind = np.full((2, n_segments + 1, T + 1), -np.inf)
    before[0, 0] = behind[0, T] = 0.0
    for k in range(n_segments):
        before[k + 1] = np.max(before[k][:, None] + values, axis=0)
        behind[k + 1] = np.max(values + behind[k], axis=1)
    best = before[-1, T]
    gains = np.max(before + behind[::-1], axis=0)[:T] - best
    gains[0] = 0.0
    pairs = np.full((T + 1, T + 1), -np.inf)
    for k in range(n_segments):
        np.maximum(pairs, before[k][:, None] + behind[n_segments - 1 - k], out=pairs)
    pairs += values
    losses = []
    for t in change_points[:-1]:
        first, last = max(1, t - tolerance), min(T - 1, t + tolerance)
        losses.append(best - np.max(pairs[:first, last + 1 :]))
    return np.array(losses), gains


def drawn_signal(kind: str, T: int, rng: np.random.Generator) -> np.ndarray:
    """Steps that are clear, weak or none, whole numbers with many ties, or one constant."""
    steps = np.cumsum(rng.random(T) < 12 / T)
    means = rng.normal(size=(T, int(rng.integers(1, 6))))
    noise = rng.normal(size=means.shape)
    jump = {"clear": 5.0, "weak": 0.5, "noise": 0.0, "whole": 2.0, "constant": 0.0}[kind]
    X = jump * means[steps] + noise
    return np.round(X) if kind == "whole" else X * (kind != "constant")


@pytest.mark.parametrize("kind", ["clear", "weak", "noise", "whole", "constant"])
@pytest.mark.parametrize("T", [40, 200])
def test_given_counts_equal_the_program_with_a_layer_for_each(kind: str, T: int) -> None:
    """Numbers on the hull and off it, too small and too large, and all that T samples can hold."""
    rng = np.random.default_rng(T)
    for min_size, tolerance in [(1, 0), (1, 6), (4, 0), (3, 10)]:
        form = LowRankForm(drawn_signal(kind, T, rng))
        for n_segments in {1, 2, 3, 9, 10, min(33, T // min_size), min(60, T) // min_size}:
            options = {"min_size": min_size, "tolerance": tolerance}
            margins = boundary_margins(form, n_segments, **options)
            ends = margins.change_points
            losses, gains = by_layers(form, n_segments, change_points=ends, **options)
            assert len(ends) == n_segments
            assert form.at(Partition(ends=ends)) == pytest.approx(
                form.at(ChangePoints(min_size)(form, n_segments)), abs=1e-8
            )
            assert margins.losses == pytest.approx(losses, abs=1e-8)
            assert margins.gains == pytest.approx(gains, abs=1e-8)


def test_given_counts_of_20000_samples_equal_constrained_programs() -> None:
    """Layers over all pairs of them would take minutes."""
    T, X = 20000, noisy_steps(0, T=20000, K=100, P=2)[0]
    form, oracle = LowRankForm(X), ChangePoints()
    margins = boundary_margins(form, 100, tolerance=2)
    best = form.at(Partition(ends=margins.change_points))
    for i in (3, 60):
        t = int(margins.change_points[i])
        nothing = PartialPartition(T, regions=[Region(t - 3, t + 3, NO_CHANGE)])
        loss = best - form.at(oracle(form, 100, nothing))
        assert margins.losses[i] == pytest.approx(loss, abs=1e-6)
    for t in (1234, 16001):
        gain = form.at(oracle(form, 100, PartialPartition(T, change_points=[t]))) - best
        assert margins.gains[t] == pytest.approx(gain, abs=1e-6)


@pytest.mark.parametrize("seed", [0, 3, 5])
@pytest.mark.parametrize("n_segments", [None, 9])
@pytest.mark.parametrize("annotated", [False, True])
def test_equals_two_constrained_programs_per_boundary(seed, n_segments, annotated) -> None:
    X, truth = noisy_steps(seed, T=300, K=8, P=3)
    min_size, tolerance = 1 + seed % 3, (0, 3, 20)[seed // 2]
    form = LowRankForm(0.6 * X).shifted(-float(np.random.default_rng(seed).uniform(3, 30)))
    oracle = ChangePoints(min_size)
    regions = []
    if annotated:
        regions = [Region(t - 1, min(300, t + 30), AT_LEAST_ONE) for t in truth.change_points[1:4]]
        regions += [Region(t + 3, min(300, t + 9), NO_CHANGE) for t in truth.change_points[4:6]]
        regions += [Region(t - 25, t + 25, EXACTLY_ONE) for t in (60, 240)]
    facts = PartialPartition(300, regions=regions)
    best = form.at(oracle(form, n_segments, facts))

    def loss(*more: Region, change_points: list[int] = []) -> float:  # noqa: B006  # is not changed
        try:
            known = PartialPartition(300, change_points=change_points, regions=[*regions, *more])
            return best - form.at(oracle(form, n_segments, known))
        except ValueError:
            return np.inf

    margins = boundary_margins(form, n_segments, facts, min_size=min_size, tolerance=tolerance)
    ends = margins.change_points
    assert Partition(ends=ends) == oracle(form, n_segments, facts)
    assert len(ends) > 4
    for t, found in zip(ends[:-1], margins.losses):
        nothing = Region(max(0, t - tolerance - 1), min(300, t + tolerance + 1), NO_CHANGE)
        assert found == pytest.approx(loss(nothing), abs=1e-9)
    places = np.arange(1, 300, 7)
    expected = [-loss(change_points=[int(t)]) for t in places]
    assert margins.gains[places] == pytest.approx(expected, abs=1e-9)


def test_intervals_are_where_the_loss_is_small() -> None:
    gains = np.array([0.0, -3.0, -1.0, 0.0, -2.0, -5.0, 0.0, -9.0])
    margins = BoundaryMargins(np.array([3, 6, 8]), np.array([1.0, 2.0]), gains)
    assert margins.intervals(0.0).tolist() == [[3, 3], [6, 6]]
    assert margins.intervals(2.5).tolist() == [[2, 4], [6, 6]]
    assert margins.intervals(100.0).tolist() == [[1, 7], [1, 7]]
    one = boundary_margins(LowRankForm(np.eye(1)), tolerance=5)
    assert (one.change_points.tolist(), one.losses.tolist(), one.gains.tolist()) == ([1], [], [0.0])
    assert one.intervals(1.0).shape == (0, 2)


def test_a_typical_score_lets_clear_changes_move_little() -> None:
    """One change more costs less than a tenth of what a clear change is worth."""
    X = np.repeat([[0.0], [30.0], [-30.0]], 60, axis=0)
    X += np.random.default_rng(0).normal(size=X.shape)
    margins = boundary_margins(LowRankForm(X).shifted(-20.0))
    assert margins.change_points.tolist() == [60, 120, 180]
    assert np.all(np.abs(margins.intervals(margins.typical_score) - [[60], [120]]) <= 2)
    assert np.all(margins.intervals(0.1 * np.median(margins.losses)) == [1, 179])
