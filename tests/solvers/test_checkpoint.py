"""Interrupted and resumed equals uninterrupted; other files are refused."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone

import metriclearn as ml
from metriclearn.datasets import make_change_points
from metriclearn.solvers.regularizers import Quadratic
from tests.solvers.complete_problem import CompleteProblem, watched_by

PROBLEM = CompleteProblem(ml.DiagonalMetric(), ml.SquaredFrobenius(1e-2), "learned", 0)
SOLVERS = [
    ml.BundleDual(1e-8, max_rounds=40, keep_inactive=1),
    ml.solvers.ProjectedSubgradient(tolerance=0.0, max_rounds=25),
    ml.solvers.ProjectedSubgradient(tolerance=0.0, max_rounds=12, batch_size=2),
    ml.solvers.CuttingPlane(tolerance=1e-9, max_rounds=6),
]


def minimize(problem: CompleteProblem, solver=SOLVERS[0], on_round=None, **settings):
    solver = clone(solver).set_params(**settings)
    return solver.minimize(problem.stated(callbacks=watched_by(on_round)))


@pytest.mark.parametrize("solver", SOLVERS, ids=lambda s: f"{s!r}".split("(")[0])
@pytest.mark.parametrize(
    ("metric", "omega", "mode"),
    [
        (ml.DiagonalMetric(), ml.L1(3e-2), "learned"),
        (ml.FullMetric(), ml.SquaredFrobenius(1e-2), "fixed"),
        (ml.FullMetric(), ml.SquaredFrobenius(1e-2), "known"),
    ],
    ids=["diagonal-learned", "full-fixed", "full-known"],
)
def test_resumed_run_equals_the_uninterrupted_one(metric, omega, mode, solver, tmp_path) -> None:
    if isinstance(solver, ml.solvers.CuttingPlane):
        pytest.importorskip("cvxpy", reason="cvxpy solves its master: pip install cvxpy")
    problem = CompleteProblem(metric, omega, mode, 0)
    whole = minimize(problem, solver, checkpoint=str(tmp_path / "whole.npz"))
    with np.load(tmp_path / "whole.npz") as state:
        at_end = dict(state)
    assert len(whole.trace) >= 4
    for rounds in (1, len(whole.trace) - 1):

        def interrupt(progress, last=rounds) -> None:
            if progress.round == last:
                raise KeyboardInterrupt

        path = str(tmp_path / f"{rounds}.npz")
        first = minimize(problem, solver, interrupt, checkpoint=path)
        assert first.reason == "interrupted"
        for _ in ("resumed", "finished, and not done again"):
            resumed = minimize(problem, solver, checkpoint=path)
            np.testing.assert_array_equal(resumed.w, whole.w)
            for name in ("objective", "lower_bound", "oracle_calls"):
                assert getattr(resumed.trace, name) == getattr(whole.trace, name)
            assert resumed.trace.objective[:rounds] == first.trace.objective
            assert np.all(np.diff(resumed.trace.seconds) >= 0.0)
        with np.load(path) as state:
            for name in set(at_end) - {"seconds", "rows"}:
                np.testing.assert_array_equal(state[name], at_end[name])


class Weights:
    """Ω(b) = ⟨κ, b⟩."""

    def __init__(self, *weights: float) -> None:
        self.weights = np.array(weights)

    def terms(self, cone):
        return Quadratic(cone, 0.0, self.weights)


class Expressed:
    """Ω(B) = κ Tr B, which only CuttingPlane can read."""

    def __init__(self, strength: float) -> None:
        self.strength = strength

    def expression(self, B):
        import cvxpy

        return self.strength * cvxpy.trace(B)


BUNDLE, DESCENT, STOCHASTIC, PLANES = SOLVERS
OTHERS = [  # problem and solver of the checkpoint, and of another run
    *[
        (PROBLEM, BUNDLE, replace(PROBLEM, **change), BUNDLE)
        for change in (
            {"seed": 1},
            {"regularizer": ml.SquaredFrobenius(2e-2)},
            {"regularizer": ml.L1(1e-2)},
            {"metric": ml.FullMetric()},
            {"mode": "fixed"},
            {"mode": "known"},
            {"scale": 0.5},
        )
    ],
    *[
        (replace(PROBLEM, regularizer=one), solver, replace(PROBLEM, regularizer=other), solver)
        for one, other, solver in (
            (Weights(5.0, 1.0, 1.0), Weights(1.0, 5.0, 1.0), BUNDLE),
            (Expressed(0.1), Expressed(1e-3), PLANES),
        )
    ],
    (PROBLEM, DESCENT, PROBLEM, BUNDLE),
    (PROBLEM, DESCENT, PROBLEM, STOCHASTIC),
    (PROBLEM, DESCENT, PROBLEM, clone(DESCENT).set_params(random_state=1)),
]


@pytest.mark.parametrize(("problem", "solver", "other", "another"), OTHERS)
def test_checkpoint_of_another_problem_is_refused(
    problem, solver, other, another, tmp_path
) -> None:
    path = str(tmp_path / "state.npz")
    minimize(problem, solver, checkpoint=path, max_rounds=2)
    refusal = rf"{type(another).__name__} needs a checkpoint of this problem, but .*state\.npz"
    with pytest.raises(ValueError, match=f"{refusal}.* belongs to other data, settings or"):
        minimize(other, another, checkpoint=path)
    assert len(minimize(problem, solver, checkpoint=path, max_rounds=3).trace) == 3


def test_other_weights_of_data_sets_and_other_data_with_equal_means(tmp_path) -> None:
    learner = ml.ChangePointMetricLearner(
        solver=ml.BundleDual(checkpoint=str(tmp_path / "state.npz")), standardize=False
    )
    data = make_change_points(4, 40, 5, 2, (3, 4), random_state=0)
    X, y = data.sequences, data.labels
    learner.fit(X, y, [100, 1, 1, 1])
    ends = [np.flatnonzero(np.diff(labels)) + 1 for labels in y]
    parts = [np.split(x, cuts) for x, cuts in zip(X, ends)]
    other = [np.vstack([np.sort(part, axis=0) for part in each]) for each in parts]
    for rows, weights in ((X, [1, 1, 1, 100]), (other, [100, 1, 1, 1])):
        with pytest.raises(ValueError, match="belongs to other data, settings or"):
            learner.fit(rows, y, weights)


def test_resumed_warm_start(tmp_path) -> None:
    """The state keeps the unit of the penalty; what a fitted learner hands on has no cuts."""
    problem = replace(PROBLEM, regularizer=ml.L1(1e-2)).stated()
    exact = ml.BundleDual(1e-7).minimize(problem)
    warm = ml.BundleDual(1e-3).minimize(replace(problem, regularizer=ml.L1(0.1)))
    for again in (warm, replace(warm, cuts=None)):
        path = str(tmp_path / f"{again.cuts is None}.npz")
        first = ml.BundleDual(1e-7, max_rounds=3, checkpoint=path)
        first.minimize(replace(problem, warm=warm))
        resumed = ml.BundleDual(1e-7, checkpoint=path).minimize(replace(problem, warm=again))
        rounding = 2e-7 * exact.scale
        assert resumed.converged
        assert -1e-12 <= resumed.gap <= rounding
        assert resumed.lower_bound <= exact.objective + rounding
        assert resumed.objective == pytest.approx(exact.objective, abs=rounding)


@pytest.mark.parametrize("damage", ["text", "truncated", "empty", "other npz", "flipped"])
def test_damaged_checkpoint_is_refused_and_left_alone(damage, tmp_path) -> None:
    path = tmp_path / "state.npz"
    solution = minimize(PROBLEM, checkpoint=str(path), max_rounds=2)
    content = path.read_bytes()
    if damage == "other npz":
        np.savez(path, anything=np.zeros(3))
    else:
        middle = len(content) // 2
        byte = content.index(solution.w.tobytes()) + 3
        flipped = content[:byte] + bytes([content[byte] ^ 0xFF]) + content[byte + 1 :]
        damaged = {"text": b"no state", "truncated": content[:middle], "empty": b""}
        path.write_bytes(damaged.get(damage, flipped))
    before = path.read_bytes()
    with pytest.raises(
        ValueError,
        match=r"state\.npz' cannot be read as a checkpoint of",
    ):
        minimize(PROBLEM, checkpoint=str(path))
    assert path.read_bytes() == before


def test_folder_that_does_not_exist(tmp_path) -> None:
    with pytest.raises(FileNotFoundError):
        minimize(PROBLEM, checkpoint=str(tmp_path / "missing" / "state.npz"))
