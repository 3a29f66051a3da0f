"""One very long sequence: sums in blocks, single precision as it is, bounded memory."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metriclearn import PartialPartition, Partition, Region
from metriclearn.baselines import Euclidean, TunedSegmenter
from metriclearn.datasets import make_change_points
from metriclearn.oracles import ChangePoints
from metriclearn.problem import NO_CHANGE, LowRankForm
from metriclearn.problem.forms import center, cumulative_sums

PROGRAM = """
import json, resource, sys
import numpy as np
import metriclearn
peak = lambda: 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
segmenter = metriclearn.load(sys.argv[1])
X = np.load(sys.argv[2], mmap_mode="r")
segmenter.predict_change_points(X[:2000])
before = peak()
ends = segmenter.predict_change_points(X)
print(json.dumps([peak() - before, len(ends)]))
"""


@given(
    st.integers(1, 60), st.integers(1, 4), st.integers(0, 4), st.integers(1, 70), st.integers(0, 99)
)
def test_blocks_of_any_size_give_the_ordinary_sums(T, P, r, block, seed) -> None:
    rng = np.random.default_rng(seed)
    X, L = rng.normal(size=(T, P)) + 1e3 * rng.normal(size=P), rng.normal(size=(r, P))
    expected = cumulative_sums(center(X) @ L.T) if r else np.zeros((T + 1, 1))
    np.testing.assert_allclose(cumulative_sums(X, L, block), expected, atol=1e-9)


def test_sums_of_single_precision_are_those_of_its_values() -> None:
    """An offset of a thousand: summed in single precision, errors would be of order one."""
    X = (np.random.default_rng(0).normal(size=(200_000, 2)) + 1e3).astype(np.float32)
    exact = cumulative_sums(X.astype(np.float64))
    found = cumulative_sums(X, np.eye(2), 1000)
    np.testing.assert_allclose(found, exact, atol=1e-7)
    assert np.max(np.abs(np.cumsum(X - X.mean(axis=0), axis=0) - exact[1:])) > 1e-2


def drifting(seed: int, split: int) -> np.ndarray:
    """Waves in noise, T = 17 000, where hundreds of starts stay alive; a jump at ``split``."""
    t = np.arange(17_000)[:, None]
    X = np.random.default_rng(seed).normal(size=(17_000, 2)) + 0.3 * np.sin(t / [300, 800])
    return X + 50.0 * (t >= split)


@pytest.mark.parametrize(("seed", "split", "penalty"), [(40, 9199, 20.0), (69, 6008, 50.0)])
def test_joined_levels_are_renewed_at_once(seed, split, penalty) -> None:
    """Before a jump there is what a signal that ends there has; short ones have no levels."""
    X = drifting(seed, split)
    whole = ChangePoints()(LowRankForm(X, shift=-penalty)).change_points
    alone = ChangePoints()(LowRankForm(X[:split], shift=-penalty)).change_points
    np.testing.assert_array_equal(whole[: len(alone)], alone)


def test_joined_levels_wait_for_an_end_that_is_allowed() -> None:
    """With annotations the next position may be none; the reversed signal is worth the same."""
    X, T = drifting(39, 12_649), 17_000
    rng = np.random.default_rng(39)
    rng.normal(size=(T, 2))
    starts = np.cumsum(rng.integers(3, 40, size=700)).tolist()
    regions = [Region(a, a + 3, NO_CHANGE) for a in starts if a < T - 3]
    turned = [Region(T - r.stop, T - r.start, NO_CHANGE) for r in regions]
    truth = Partition(ends=np.arange(850, T + 1, 850))
    forms = [LowRankForm(signal, truth, 4.0, -20.0) for signal in (X, X[::-1])]
    values = [
        form.at(ChangePoints()(form, known=PartialPartition(T, regions=known)))
        for form, known in zip(forms, [regions, turned])
    ]
    assert values[0] == pytest.approx(values[1], rel=0, abs=1e-5)


@pytest.fixture(scope="module")
def segmenter() -> TunedSegmenter:
    data = make_change_points(3, 2000, 4, 4, (15, 25), random_state=0)
    return TunedSegmenter(Euclidean()).fit(data.sequences, data.labels)


@pytest.mark.parametrize("mapped", [False, True])
def test_single_precision_predicts_as_its_double(segmenter, mapped, tmp_path) -> None:
    data = make_change_points(1, 70_000, 4, 4, (600, 700), random_state=1)
    X = data.sequences[0].astype(np.float32)
    np.save(tmp_path / "X.npy", X)
    given = np.load(tmp_path / "X.npy", mmap_mode="r") if mapped else X
    found = segmenter.predict_change_points(given)
    assert len(found) > 500
    np.testing.assert_array_equal(found, segmenter.predict_change_points(X.astype(np.float64)))
    np.testing.assert_array_equal(
        segmenter.predict_change_points(given, n_segments=len(found)), found
    )


def test_a_bad_value_far_into_a_long_sequence_is_found(segmenter) -> None:
    X = np.zeros((150_000, 4), dtype=np.float32)
    X[140_001, 2] = np.inf
    with pytest.raises(ValueError, match="got inf at row 140001, feature 2 of the data set"):
        segmenter.predict_change_points(X)


def test_memory_is_that_of_sums_values_and_starts(segmenter, tmp_path: Path) -> None:
    """8r + 12 bytes per sample, the bytes of the file, and a block; T = 10⁶."""
    T, P = 10**6, 4
    rng = np.random.default_rng(0)
    rows = np.lib.format.open_memmap(tmp_path / "X.npy", mode="w+", dtype=np.float32, shape=(T, P))
    rows[:] = np.repeat(3 * rng.normal(size=(T // 100, P)), 100, axis=0)
    rows += rng.normal(size=(T, P))
    rows.flush()
    model = segmenter.save(tmp_path / "model.npz")
    command = [sys.executable, "-c", PROGRAM, str(model), str(tmp_path / "X.npy")]
    used, found = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    assert found > 8000
    needed = T * (8 * P + 12 + 4 * P)
    assert used < 1.1 * needed + 2**25
