"""Tables of cuts keep what the master needs and give back what helps."""

import numpy as np
import pytest

from metriclearn import BundleDual, FullMetric, Trace
from metriclearn.solvers import base
from metriclearn.solvers.base import Cuts, Solution
from metriclearn.solvers.dual_master import (
    best_violated,
    combination,
    inactive,
    linear_master,
    move,
    table_of,
)
from metriclearn.solvers.mahalanobis import DiagonalMetric, MetricCone
from tests.solvers.complete_problem import CompleteProblem


def filled(rng: np.random.Generator, n: int = 3, rounds: int = 4):
    """A table of cuts, and all cuts it was given as (offset, slope, group)."""
    tables, plain = [], []
    for _ in range(rounds):
        w = rng.normal(size=5)
        new = Cuts(rng.normal(size=n), rng.normal(size=(n, 5)), np.full(n, 1 / n))
        tables.append(table_of(new, w, MetricCone(DiagonalMetric(), 5, False)))
        plain += [(v - s @ w, s, g) for g, (v, s) in enumerate(zip(new.values, new.slopes))]
    return np.concatenate(tables), plain


def test_combinations_are_those_of_the_cuts_within_the_masses() -> None:
    rng = np.random.default_rng(0)
    cuts, plain = filled(rng)
    w = rng.normal(size=5)
    assert cuts["group"].tolist() == [g for _, _, g in plain]
    weights = rng.uniform(size=len(cuts)) * (rng.uniform(size=len(cuts)) > 0.4)
    totals = np.bincount(cuts["group"], weights=weights)
    # The weights of the second and third function exceed their masses.
    scales = np.array([1.0, 0.5, 0.9])
    offset, slope = combination(cuts, weights, totals * scales * [2.0, 1.0, 1.0])
    expected = sum(a * scales[g] * (o + s @ w) for a, (o, s, g) in zip(weights, plain))
    assert offset + slope @ w == pytest.approx(expected, rel=1e-9)


def test_inactive_cuts_move_to_another_table_and_none_is_lost() -> None:
    rng = np.random.default_rng(1)
    cuts, plain = filled(rng, rounds=6)
    cuts["weight"] = np.where(np.arange(18) % 5 == 0, 0.2, 0.0)
    cuts["weight"][cuts["group"] == 2] = 0.1
    totals = np.bincount(cuts["group"], weights=cuts["weight"])
    assert len(inactive(cuts, 1)) == 0
    dropped = cuts[:0].copy()
    move(cuts, inactive(cuts, 1), dropped)
    assert np.all(cuts["weight"] > 0)
    np.testing.assert_allclose(np.bincount(cuts["group"], weights=cuts["weight"]), totals)
    every = np.concatenate([cuts, dropped])
    order = [int(np.argmin(np.abs(every["offset"] - offset))) for offset, _, _ in plain]
    assert sorted(order) == list(range(18))
    np.testing.assert_allclose(every["slope"][order], [slope for _, slope, _ in plain])


@pytest.mark.parametrize("places", [[], [0], [5], [4, 5], [5, 0, 3], [0, 1, 2, 3, 4, 5]])
def test_records_move_and_the_others_close_the_gaps(places) -> None:
    source, target = (np.array([(v,) for v in range(n)], [("value", int)]) for n in (6, 2))
    move(source, np.array(places, dtype=int), target)
    assert target["value"].tolist() == [0, 1, *places]
    assert sorted(source["value"]) == sorted(set(range(6)) - set(places))
    move(source, np.arange(len(source)))
    assert len(source) == 0


def test_best_cut_of_every_function_that_beats_the_model() -> None:
    slopes, others = np.eye(2), np.diag([2.0, -1.0])
    cone, zeros = MetricCone(DiagonalMetric(), 2, False), np.zeros(2)
    archive = np.concatenate(
        [table_of(Cuts(zeros, s, np.ones(2)), zeros, cone) for s in (slopes, others)]
    )
    w = np.array([1.0, 0.5])
    places, excess = best_violated(archive, w, np.array([1.5, 0.4]))
    np.testing.assert_array_equal(archive["slope"][places], [[2.0, 0.0], [0.0, 1.0]])
    np.testing.assert_allclose(excess, [0.5, 0.1])
    assert len(best_violated(archive, w, np.array([5.0, 5.0]))[0]) == 0


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


def test_a_solution_prints_as_a_short_summary() -> None:
    trace = base.Trace([3.0, 2.0], [0.0, 1.5], [0.1, 0.2], [1, 2], [0, 0])
    solution = Solution(np.zeros(1000), 2.0, 1.5, 5.0, "max_rounds", trace, rank=7)
    assert repr(solution) == (
        "Solution(max_rounds after 2 rounds, objective 2, relative gap 0.1, rank 7)"
    )
