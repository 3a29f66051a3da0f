"""SIGKILL at any moment: the resumed run ends where an uninterrupted one does."""

import warnings
from pathlib import Path

import numpy as np
import pytest

import metriclearn as ml
from metriclearn.datasets import make_change_points
from tests.processes import finish, kill_after_writing


def fit_and_keep(name: str, checkpoint: Path, out: Path) -> None:
    """Learn with a checkpoint, and write the solution into another file."""
    warnings.simplefilter("ignore")
    if name == "Alternation":
        data = make_change_points(6, 150, 12, 3, (3, 5), jump=1.5, random_state=3)
        labels = [np.where(np.arange(150) < 45, one, -1) for one in data.labels]
        alternation = ml.estimators.Alternation(
            start=ml.estimators.PrincipalStart(4), checkpoint=str(checkpoint)
        )
        learner = ml.ChangePointMetricLearner(
            regularizer=ml.L1(1e-3), solver=ml.BundleDual(1e-5), alternation=alternation
        )
    else:
        data = make_change_points(6, 150, 8, 2, (3, 5), random_state=0)
        labels, solver = (
            data.labels,
            ml.BundleDual(1e-7, keep_inactive=1, checkpoint=str(checkpoint)),
        )
        learner = ml.ChangePointMetricLearner(ml.FullMetric(), ml.SquaredFrobenius(0.1), solver)
    learner.set_params(verbose=False).fit(data.sequences, labels)
    solution, turns = learner.solution_, learner.alternation_
    np.savez(
        out,
        w=solution.w,
        bounds=[solution.objective, solution.lower_bound],
        trace=solution.trace.objective,
        steps=[] if turns is None else [turns.completed, turns.learned, turns.changed],
        completions=np.concatenate(learner.completions_ or [[]]),
    )


@pytest.mark.parametrize("name", ["BundleDual", "Alternation"])
def test_killed_and_resumed(name, tmp_path) -> None:
    """Interruptions of the other solvers are in test_checkpoint; they write as these do."""
    whole, state, out = (tmp_path / f"{file}.npz" for file in ("whole", "state", "out"))
    finish(fit_and_keep, name, tmp_path / "whole_state.npz", whole)
    for delay in (0.0, 0.03):
        killed = kill_after_writing(state, delay, fit_and_keep, name, state, out)
        assert killed or delay > 0.0  # a round at least, so that the run gets on
    finish(fit_and_keep, name, state, out)
    with np.load(whole) as expected, np.load(out) as resumed:
        assert name != "Alternation" or len(expected["steps"][0]) >= 3
        for key in expected:
            np.testing.assert_allclose(resumed[key], expected[key], rtol=1e-10, atol=1e-12)
    assert len(list(tmp_path.glob("*.npz"))) == 4  # two states, two results, nothing left over
