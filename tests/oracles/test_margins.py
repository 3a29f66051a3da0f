"""Max-marginals against enumeration, and against two constrained programs per boundary."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metriclearn import BoundaryMargins, ChangePoints, LowRankForm, Partition, boundary_margins
from metriclearn.problem.knowledge import NO_CHANGE, PartialPartition, Region
from metriclearn.problem.losses import KnownLoss
from tests.budget import examples
from tests.exhaustive import all_segmentations, segmentation_values
from tests.oracles.signals import draw_case, noisy_steps
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


@settings(max_examples=examples(600), deadline=None)
@given(
    partial_partitions(9),
    st.integers(0, 10**6),
    st.sampled_from(["free", "known", "known", "charged"]),
    st.integers(1, 3),
    st.integers(0, 2),
    st.booleans(),
)
def test_equals_enumeration(known, seed, kind, min_size, tolerance, counted) -> None:
    """All forms and constraints, price and count."""
    T, rng = known.n_samples, np.random.default_rng(seed)
    form, A, _ = draw_case(rng, T, int(rng.integers(0, 4)))
    n_segments = int(rng.integers(1, T + 1)) if counted else None
    segmentations = all_segmentations(T, n_segments, min_size)
    values = np.array([])
    if kind == "charged":
        form = LowRankForm(form.factors, shift=form.shift)
        truth = Partition.from_change_points([T]).completing(known)
        form, _ = KnownLoss().augment(form, truth, float(rng.choice([0.3, 1.0, 4.0])))
        values = np.array([form.at(Partition.from_change_points(e)) for e in segmentations])
    elif segmentations:
        values = segmentation_values(A, n_segments, min_size)
    facts = None if kind == "free" else known
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


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("n_segments", [None, 9])
def test_equals_two_constrained_programs_per_boundary(seed: int, n_segments: int | None) -> None:
    X, _ = noisy_steps(seed, T=300, K=8, P=3)
    min_size, tolerance = 1 + seed % 3, (0, 3, 20)[seed // 2]
    form = LowRankForm(0.6 * X).shifted(-float(np.random.default_rng(seed).uniform(3, 30)))
    oracle = ChangePoints(min_size)
    best = form.at(oracle(form, n_segments))

    def loss(known: PartialPartition) -> float:
        return best - form.at(oracle(form, n_segments, known))

    margins = boundary_margins(form, n_segments, min_size=min_size, tolerance=tolerance)
    ends = margins.change_points
    assert Partition(ends=ends) == oracle(form, n_segments)
    assert len(ends) > 4
    for t, found in zip(ends[:-1], margins.losses):
        nothing = Region(max(0, t - tolerance - 1), min(300, t + tolerance + 1), NO_CHANGE)
        assert found == pytest.approx(loss(PartialPartition(300, regions=[nothing])), abs=1e-9)
    places = np.arange(1, 300, 7)
    places = places[np.isfinite(margins.gains[places])]
    expected = [-loss(PartialPartition(300, change_points=[t])) for t in places]
    assert margins.gains[places] == pytest.approx(expected, abs=1e-9)


def test_intervals_are_where_the_loss_is_small() -> None:
    gains = np.array([0.0, -3.0, -1.0, 0.0, -2.0, -5.0, 0.0, -9.0])
    margins = BoundaryMargins(np.array([3, 6, 8]), np.array([1.0, 2.0]), gains)
    assert margins.intervals(0.0).tolist() == [[3, 3], [6, 6]]
    assert margins.intervals(2.5).tolist() == [[2, 4], [6, 6]]
    assert margins.intervals(100.0).tolist() == [[1, 7], [1, 7]]
    with pytest.raises(ValueError, match="score of at least 0"):
        margins.intervals(-1.0)
    with pytest.raises(ValueError, match="tolerance"):
        boundary_margins(LowRankForm(np.eye(3)), tolerance=-1)
    one = boundary_margins(LowRankForm(np.eye(1)), tolerance=5)
    assert (one.change_points.tolist(), one.losses.tolist(), one.gains.tolist()) == ([1], [], [0.0])
    assert one.intervals(1.0).shape == (0, 2)
