"""Alternation on random problems never raises F, and survives SIGKILL with the same result."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metriclearn import (
    L1,
    Alternation,
    BundleDual,
    ChangePointMetricLearner,
    ClusteringMetricLearner,
    DiagonalMetric,
    FullMetric,
    PartialPartition,
    Partition,
    PrincipalStart,
    SquaredFrobenius,
    Trace,
)
from metriclearn.estimators.alternation import KnownStart
from metriclearn.problem.knowledge import AT_LEAST_ONE, EXACTLY_ONE, NO_CHANGE, Region

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
PAIRS = [
    (DiagonalMetric(), L1(1e-3)),
    (DiagonalMetric(), SquaredFrobenius(1e-1)),
    (FullMetric(), SquaredFrobenius(1e-2)),
    (FullMetric(), Trace(1e-2)),
]
STARTS = [KnownStart(), PrincipalStart(2)]


def known_parts(rng: np.random.Generator, truth: np.ndarray) -> PartialPartition | np.ndarray:
    """A random part of the truth: scattered labels, one stretch of them, or annotated regions."""
    T, kind = len(truth), rng.integers(3)
    if kind == 0:
        return np.where(rng.random(T) < rng.uniform(0.1, 0.9), truth, -1)
    if kind == 1:
        start = int(rng.integers(0, T // 2))
        return np.where((np.arange(T) >= start) & (np.arange(T) < start + T // 2), truth, -1)
    regions = []
    for start in rng.integers(0, T - 6, 4):
        inside = truth[start + 5] - truth[start]
        kind = (NO_CHANGE, EXACTLY_ONE, AT_LEAST_ONE)[min(int(inside), 2)]
        regions.append(Region(int(start), int(start) + 6, kind))
    return PartialPartition(T, regions=regions)


def steps_of(learner) -> list[float]:
    """F after every completion and every metric step, in order."""
    trace = learner.alternation_
    return [f for pair in zip(trace.completed, trace.learned) for f in pair]


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(PAIRS), st.sampled_from(STARTS), st.integers(1, 2))
def test_change_points(seed, pair, start, min_size) -> None:
    rng = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(4):
        truth = np.repeat(np.arange(5), rng.integers(6, 12, 5))
        signal = rng.normal(size=(5, 3))[truth] * rng.uniform(0.2, 3.0) * [1.0, 0.5, 0.0]
        X.append(signal + rng.normal(size=signal.shape))
        y.append(known_parts(rng, truth))
    y[0] = truth_with_a_change(y[0], len(X[0]))
    learner = ChangePointMetricLearner(
        *pair,
        BundleDual(tolerance=1e-3, max_rounds=40),
        alternation=Alternation(6, start),
        min_size=min_size,
        verbose=False,
    ).fit(X, y)
    steps = steps_of(learner)
    assert np.all(np.diff(steps) <= 1e-10 * steps[0])
    for known, labels in zip(y, learner.completions_):
        known = (
            known if isinstance(known, PartialPartition) else PartialPartition(len(known), known)
        )
        assert known.allows(Partition.from_runs(labels))


def truth_with_a_change(known, T: int):
    """Something to learn from, even where the draw says nothing of any change."""
    return PartialPartition(T, change_points=[T // 2]) if isinstance(known, np.ndarray) else known


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(PAIRS), st.sampled_from(STARTS))
def test_clusters(seed, pair, start) -> None:
    rng = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(3):
        truth = rng.permutation(np.repeat(np.arange(3), rng.integers(6, 12, 3)))
        means = rng.normal(size=(3, 3)) * rng.uniform(0.5, 4.0) * [1.0, 1.0, 0.0]
        X.append(means[truth] + rng.normal(size=(len(truth), 3)))
        keep = rng.random(len(truth)) < rng.uniform(0.2, 0.9)
        keep[[np.flatnonzero(truth == k)[0] for k in range(3)]] = True
        y.append(np.where(keep, truth, -1))
        y[-1][-1] = -1
    learner = ClusteringMetricLearner(
        *pair,
        BundleDual(tolerance=1e-3, max_rounds=40),
        n_clusters="given",
        alternation=Alternation(6, start),
        verbose=False,
    ).fit(X, y)
    steps = steps_of(learner)
    assert np.all(np.diff(steps) <= 1e-10 * steps[0])
    for known, labels in zip(y, learner.completions_):
        complete = Partition.from_labels(labels)
        assert PartialPartition(len(known), known).allows_clusters(complete)


PROGRAM = """
import sys
import numpy as np
from metriclearn import Alternation, BundleDual, ChangePointMetricLearner, L1, PrincipalStart
from metriclearn.datasets import make_change_points

checkpoint, out = sys.argv[1:3]
data = make_change_points(6, 150, 12, 3, (3, 5), jump=1.5, random_state=3)
y = [np.where(np.arange(150) < 45, labels, -1) for labels in data.labels]
alternation = Alternation(start=PrincipalStart(4), checkpoint=checkpoint)
learner = ChangePointMetricLearner(
    regularizer=L1(1e-3), solver=BundleDual(1e-5), alternation=alternation, verbose=False
)
print("begun", flush=True)
learner.fit(data.sequences, y)
trace = learner.alternation_
np.savez(
    out,
    components=learner.components_,
    completions=np.concatenate(learner.completions_),
    steps=[trace.completed, trace.learned, trace.changed],
    reason=trace.reason,
)
"""


def start_run(checkpoint, out) -> subprocess.Popen:
    command = [sys.executable, "-W", "ignore", "-c", PROGRAM, str(checkpoint), str(out)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_killed_and_resumed(tmp_path) -> None:
    """SIGKILL once a metric step is on disk, at the end of one or in the middle of the next."""
    whole = tmp_path / "whole.npz"
    assert start_run(tmp_path / "whole_state.npz", whole).wait() == 0
    state, out = tmp_path / "state.npz", tmp_path / "out.npz"
    process = start_run(state, out)
    assert process.stdout is not None
    process.stdout.readline()
    while process.poll() is None and not state.exists():
        time.sleep(0.0005)
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert not out.exists()
    assert start_run(state, out).wait() == 0
    with np.load(whole) as expected, np.load(out) as found:
        assert len(expected["steps"][0]) >= 3
        assert found["reason"] == expected["reason"]
        for key in ("components", "completions", "steps"):
            np.testing.assert_allclose(found[key], expected[key], rtol=1e-10, atol=1e-12)
