"""Tables of cuts keep what the master needs and give back what helps."""

import numpy as np
import pytest

from metriclearn import BundleDual, FullMetric, Trace
from metriclearn.solvers.base import Cuts
from metriclearn.solvers.dual_master import inactive, linear_master, table_of
from metriclearn.solvers.mahalanobis import DiagonalMetric, MetricCone
from tests.solvers.complete_problem import CompleteProblem


@pytest.mark.parametrize("most", [1, 3])
def test_cuts_are_inactive_after_so_many_rounds_without_a_weight(most: int) -> None:
    """The weights of the others are raised by what is negligible."""
    cone = MetricCone(DiagonalMetric(), 2, False)
    cuts = np.tile(table_of(Cuts(np.ones(1), np.ones((1, 2)), np.ones(1)), np.zeros(2), cone), 3)
    cuts["weight"] = [1.0, 1e-10, 0.0]
    assert [inactive(cuts, most).tolist() for _ in range(most + 1)] == [[]] * most + [[1, 2]]
    np.testing.assert_allclose(cuts["weight"], [1.0 + 1e-10, 0.0, 0.0], rtol=1e-14)


def test_cache_spares_oracle_calls() -> None:
    """Keeping no inactive cuts costs passes; the cache gives them back without an oracle."""
    calls: dict[int, int] = {0: 0, 20: 0}
    hits = 0
    for seed in range(6):
        problem = CompleteProblem(FullMetric(), Trace(1e-2), "learned", seed)
        for size in calls:
            solver = BundleDual(1e-6, keep_inactive=0, cache_size=size)
            solution = solver.minimize(problem.stated())
            assert solution.objective == pytest.approx(problem.optimum, abs=3e-6)
            assert solution.trace.oracle_calls[-1] == 3 * (len(solution.trace) + 1)
            calls[size] += solution.trace.oracle_calls[-1]
            hits += solution.trace.cache_hits[-1]
            assert size > 0 or solution.trace.cache_hits[-1] == 0
    assert hits > 0
    assert calls[20] <= calls[0]


@pytest.mark.parametrize(("m", "repetitions"), [(3, 10), (150, 1)])
def test_linear_master_is_the_optimum_of_its_program(m, repetitions) -> None:
    """Of few functions, whose constraints are dense, and of many, whose constraints are sparse."""
    cp = pytest.importorskip("cvxpy", reason="cvxpy is the reference here: pip install cvxpy")
    rng = np.random.default_rng(2)
    for _ in range(repetitions):
        J, n = 4 * m, 4
        rows, offsets = rng.normal(size=(J, n)), rng.normal(size=J)
        groups, masses = np.arange(J) % m, rng.uniform(0.2, 1.0, m)
        cost = 0.5 + np.abs(rows).max() * np.ones(n) * masses.sum()
        a = linear_master(rows, offsets, groups, masses, cost)
        x, slack = cp.Variable(n, nonneg=True), cp.Variable(m, nonneg=True)
        program = cp.Problem(
            cp.Minimize(masses @ slack + cost @ x), [slack[groups] >= offsets + rows @ x]
        )
        optimum = program.solve(solver="CLARABEL")
        assert a @ offsets == pytest.approx(optimum, rel=1e-6, abs=1e-6)
        assert a.min() >= -1e-9
        assert np.all(a @ rows + cost >= -1e-7)
        assert np.all(np.bincount(groups, weights=a) <= masses + 1e-9)
