"""SIGKILL at any moment: the resumed run ends where an uninterrupted one does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

PROGRAM = """
import sys
import numpy as np
from metriclearn import *
from metriclearn.datasets import make_change_points
from metriclearn.solvers.cutting_plane import CuttingPlane

name, checkpoint, out = sys.argv[1:4]
data = make_change_points(6, 150, 8, 2, (3, 5), random_state=0)
solver = {
    "BundleDual": BundleDual(1e-7, keep_inactive=1, checkpoint=checkpoint),
    "CuttingPlane": CuttingPlane(tolerance=1e-5, checkpoint=checkpoint),
    "ProjectedSubgradient": ProjectedSubgradient(max_rounds=300, checkpoint=checkpoint),
    "stochastic": ProjectedSubgradient(max_rounds=60, batch_size=2, checkpoint=checkpoint),
}[name]
learner = ChangePointMetricLearner(FullMetric(), SquaredFrobenius(0.1), solver, verbose=False)
print("begun", flush=True)
learner.fit(data.sequences, data.labels)
s = learner.solution_
np.savez(out, w=s.w, objective=s.objective, bound=s.lower_bound, trace=s.trace.objective)
"""


def start(name: str, checkpoint, out) -> subprocess.Popen:
    command = [sys.executable, "-W", "ignore", "-c", PROGRAM, name, str(checkpoint), str(out)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize(
    "name", ["BundleDual", "CuttingPlane", "ProjectedSubgradient", "stochastic"]
)
def test_killed_and_resumed(name, tmp_path) -> None:
    if name == "CuttingPlane":
        pytest.importorskip("cvxpy", reason="cvxpy solves its master: pip install cvxpy")
    whole = tmp_path / "whole.npz"
    assert start(name, tmp_path / "whole_state.npz", whole).wait() == 0
    state, out = tmp_path / "state.npz", tmp_path / "out.npz"
    kills, rng = 0, np.random.default_rng(0)
    while kills < 3:
        process = start(name, state, out)
        assert process.stdout is not None
        process.stdout.readline()
        before = state.stat().st_mtime_ns if state.exists() else 0
        while process.poll() is None:  # a round at least, so that the run gets on
            if state.exists() and state.stat().st_mtime_ns > before:
                break
            time.sleep(0.001)
        time.sleep(rng.uniform(0.0, 0.05))
        if process.poll() is not None:
            break
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        kills += 1
    assert kills >= 1
    assert start(name, state, out).wait() == 0
    with np.load(whole) as expected, np.load(out) as found:
        for key in ("w", "objective", "bound", "trace"):
            np.testing.assert_allclose(found[key], expected[key], rtol=1e-10, atol=1e-12)
    assert sorted(p.name for p in tmp_path.glob("*.npz")) == [
        "out.npz",
        "state.npz",
        "whole.npz",
        "whole_state.npz",
    ]
