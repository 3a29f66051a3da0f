"""Damaged recordings: as many rows are lost as stated, and the rest goes back to its place."""

import numpy as np
import pytest

from experiments.benchmarks.gaps import DAMAGES, SOURCES, Damage, on_grid

N = 20000
RECORDING = np.cumsum(np.random.default_rng(0).integers(-9, 10, size=(N, 2)), axis=0)


@pytest.mark.parametrize("name", ["hapt", "gazecom"])
def test_complete_recordings_come_back_as_they_are(name) -> None:
    source = SOURCES[name]
    frame = DAMAGES["complete"].of(RECORDING, source, np.random.default_rng(0))
    found = on_grid(frame, N, source, source.longest_gap)
    np.testing.assert_allclose(found, RECORDING, atol=1e-6)


@pytest.mark.parametrize("in_runs", [False, True])
@pytest.mark.parametrize("lost", [0.05, 0.2])
def test_rows_are_lost_and_long_gaps_stay(lost, in_runs) -> None:
    source = SOURCES["hapt"]
    frame = Damage(lost, in_runs).of(RECORDING, source, np.random.default_rng(1))
    assert len(frame) == pytest.approx((1 - lost) * N, rel=0.04)
    rows = np.rint(frame.index.to_numpy() * source.rate).astype(int)
    np.testing.assert_array_equal(frame.to_numpy(), RECORDING[rows])
    found = on_grid(frame, N, source, source.longest_gap)
    np.testing.assert_allclose(found[rows], RECORDING[rows], atol=1e-6)
    gaps = np.diff(rows)
    unknown = np.isnan(found[rows[0] : rows[-1], 0]).sum()
    assert unknown == (gaps[gaps > source.longest_gap * source.rate] - 1).sum()
    assert unknown > 0.9 * lost * N if in_runs else unknown < 0.01 * N


def test_jitter_moves_values_with_their_times() -> None:
    source = SOURCES["gazecom"]
    frame = Damage(jitter=0.45).of(RECORDING, source, np.random.default_rng(2))
    places = frame.index.to_numpy() * source.rate
    assert np.all(np.diff(places) > 0)
    assert 0.2 < np.abs(places - np.arange(N)).mean() < 0.25
    np.testing.assert_allclose(frame[0], np.interp(places, np.arange(N), RECORDING[:, 0]))
