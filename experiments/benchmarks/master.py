"""The master problem of a bundle method: one call of the dual against cvxpy.

    python -m experiments.benchmarks.master [--out FOLDER] [--repeats 7] [--skip-slow]

The problem is min t + (μ/2)‖B‖² over the cone with t ≥ β_j + ⟨G_j, B⟩ for J random cuts: G_j of
independent standard normal entries (symmetric, or diagonal), β_j too, and μ = 1. Both sides begin
with no knowledge of the solution; ours ends at a duality gap of 1e-6 of the optimum, cvxpy's
solvers with their default tolerances, but SCS and OSQP with 1e-6, without which they miss the
optimum by more than 1e-4. cvxpy's time is that of stating and solving the
problem, since every round has other cuts; the time inside its solver stands beside it. Medians of
processor seconds, taken in turns, one thread.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import cvxpy
import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from experiments.benchmarks.machine import Report, Timing, in_turns, met, options_of
from metriclearn import DiagonalMetric, FullMetric
from metriclearn.solvers.dual_master import DualMaster
from metriclearn.solvers.mahalanobis import MetricCone

_SAME, _TOLERANCE = 1e-4, 1e-6
_SETTINGS = {name: {"eps_abs": 1e-6, "eps_rel": 1e-6} for name in ("SCS", "OSQP")}
_SLOW_FEATURES = 100  # from here on an interior point of cvxpy takes the better part of a minute


@dataclass(frozen=True)
class Answer:
    """Point that a program found, with the seconds spent inside its solver."""

    coordinates: NDArray
    inside: float


@dataclass(frozen=True)
class Size:
    """P features, J cuts, the milliseconds required (if any) and the peers of cvxpy."""

    metric: FullMetric | DiagonalMetric
    n_features: int
    n_cuts: int
    required: float | None
    peers: tuple[str, ...]

    @property
    def name(self) -> str:
        """For the table."""
        kind = "diagonal" if self.metric.polyhedral else "full"
        return f"{kind}, P={self.n_features}, J={self.n_cuts}"

    def problem(self, seed: int = 0) -> DualMaster:
        """Random cuts."""
        cone, rng = MetricCone(self.metric, self.n_features, False), np.random.default_rng(seed)
        return DualMaster(
            rows=rng.standard_normal((self.n_cuts, cone.size)),
            offsets=rng.standard_normal(self.n_cuts),
            groups=np.zeros(self.n_cuts, dtype=np.int64),
            masses=np.ones(1),
            shift=np.zeros(cone.size),
            curvature=1.0,
            cone=cone,
        )


SIZES = (
    Size(FullMetric(), 10, 30, None, ("SCS", "CLARABEL")),
    Size(FullMetric(), 50, 30, 8.0, ("SCS", "CLARABEL")),
    Size(FullMetric(), 100, 100, 120.0, ("SCS", "CLARABEL")),
    Size(DiagonalMetric(), 300, 100, 8.0, ("OSQP", "SCS", "CLARABEL")),
)


def ours(master: DualMaster, tolerance: float) -> Answer:
    """The dual, from equal weights."""
    weights = np.full(len(master.offsets), 1.0 / len(master.offsets))
    _, x, _ = master.solve(weights, tolerance)
    return Answer(x, 0.0)


def peer(master: DualMaster, solver: str) -> Answer:
    """The primal, stated in cvxpy and given to a solver."""
    metric, P = master.cone.metric, master.cone.n_features
    if metric.polyhedral:
        B = cvxpy.Variable(P, nonneg=True)
        cuts = master.offsets + master.rows @ B
    else:
        B = cvxpy.Variable((P, P), PSD=True)
        matrices = np.array([metric.matrix(row).ravel() for row in master.rows])
        cuts = master.offsets + matrices @ cvxpy.vec(B, order="C")
    level = cvxpy.Variable()
    objective = level + 0.5 * master.curvature * cvxpy.sum_squares(B)
    problem = cvxpy.Problem(cvxpy.Minimize(objective), [cuts <= level])
    settings = _SETTINGS.get(solver, {})
    data, chain, inverse = problem.get_problem_data(solver, solver_opts=settings)
    begun = time.process_time()
    result = chain.solve_via_data(problem, data, solver_opts=settings)
    inside = time.process_time() - begun
    problem.unpack_results(result, chain, inverse)
    found = np.array(B.value)
    if metric.polyhedral:
        return Answer(np.maximum(found, 0.0), inside)
    values, vectors = np.linalg.eigh((found + found.T) / 2.0)
    root = (vectors * np.sqrt(np.maximum(values, 0.0))).T
    return Answer(metric.coordinates(root), inside)


def value(master: DualMaster, x: NDArray) -> float:
    """Objective of the primal at a point of the cone."""
    worst = float(np.max(master.offsets + master.rows @ x))
    return worst + 0.5 * master.curvature * float(x @ x)


def row(size: Size, repeats: int, skip_slow: bool) -> dict[str, Any]:
    """One size: all programs on the same cuts."""
    master = size.problem()
    scale = abs(value(master, ours(master, 1e-9).coordinates))
    calls: dict[str, Callable[[], Answer]] = {"ours": partial(ours, master, _TOLERANCE * scale)}
    left_out = {"CLARABEL"} if skip_slow and size.n_features == _SLOW_FEATURES else set()
    calls |= {name: partial(peer, master, name) for name in size.peers if name not in left_out}
    timings = in_turns(calls, repeats)
    values = {name: value(master, timing.result.coordinates) for name, timing in timings.items()}
    best, mine = min(values.values()), 1e3 * timings["ours"].processor_median
    required = (
        "" if size.required is None else f"<= {size.required:g}: {met(mine <= size.required)}"
    )
    cells = {name: _peer_cell(timings, name, mine) for name in ("SCS", "CLARABEL", "OSQP")}
    above = max((values[name] - best) / scale for name in values)
    return {
        "cone": size.name,
        "ours, ms": round(mine, 2),
        "required": required,
        **{f"cvxpy + {name}": cell for name, cell in cells.items()},
        "ours above the best": f"{(values['ours'] - best) / scale:.0e}",
        "same to 1e-4": "yes" if above <= _SAME else f"NO, {above:.0e}",
    }


def _peer_cell(timings: dict[str, Timing], name: str, mine: float) -> str:
    if name not in timings:
        return ""
    whole = 1e3 * timings[name].processor_median
    inside = 1e3 * timings[name].result.inside
    once = ", 1 run" if len(timings[name].processor) == 1 else ""
    return f"{whole:.0f} ms, {whole / mine:.0f}x (solver alone {inside:.0f} ms{once})"


def main() -> None:
    """Time all sizes; print and save."""
    parser = options_of(__doc__)
    parser.add_argument(
        "--skip-slow", action="store_true", help="without the peer's run of about half a minute"
    )
    options = parser.parse_args()
    report = Report("master", threads=1, repeats=options.repeats, cvxpy=cvxpy.__version__)
    with threadpool_limits(1):
        sizes = SIZES[:1] if options.tiny else SIZES
        rows = [row(size, options.repeats, options.skip_slow) for size in sizes]
    report.table(
        "One master problem",
        rows,
        "Processor milliseconds; behind a peer's time how many times as long that is as ours. The "
        "time of a solver alone is that of the last run.",
    )
    report.save(options.out)


if __name__ == "__main__":
    main()
