"""The path of segmentations, against fine grids of penalties."""

import numpy as np
import pytest

from metriclearn import Partition
from metriclearn.oracles import ChangePoints, segmentation_path
from metriclearn.problem import LowRankForm
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
    assert repr(path) == f"SegmentationPath(n_segments={path.n_segments!r})"
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
