"""Time one master problem of a bundle method: our dual solver against cvxpy.

    python -m experiments.benchmarks.master [--out FOLDER] [--repeats 7] [--skip-slow]

The problem is to minimize t + ‖B‖²/2 over matrices B in the cone and numbers t. The constraints are
J random cuts, t ≥ β_j + ⟨G_j, B⟩. Each G_j is a symmetric or diagonal matrix. The entries of G_j,
and β_j, are independent and standard normal. No program starts from a known solution. Our solver
stops at a duality gap of 1e-6, relative to the optimum. cvxpy's solvers have their default
tolerances, except SCS and OSQP: they get 1e-6, because their default misses the optimum by more
than 1e-4. Before programs are timed, their objectives must agree to 1e-4. cvxpy's time includes
stating the problem, since the cuts differ in every round. The table also gives the time that
cvxpy's solver reports. Times are medians of processor seconds, measured in turns with one thread.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import cvxpy
import numpy as np
from numpy.typing import NDArray

from experiments.benchmarks.machine import Report, Timing, options_of, side_by_side
from metriclearn import DiagonalMetric, FullMetric
from metriclearn.solvers.dual_master import DualMaster
from metriclearn.solvers.mahalanobis import Metric, MetricCone

SIZES: list[tuple[Metric, int, int, tuple[str, ...]]] = [  # metric, P, J, solvers of cvxpy
    (FullMetric(), 10, 30, ("SCS", "CLARABEL")),
    (FullMetric(), 50, 30, ("SCS", "CLARABEL")),
    (FullMetric(), 100, 100, ("SCS", "CLARABEL")),
    (DiagonalMetric(), 300, 100, ("OSQP", "SCS", "CLARABEL")),
]
_SAME, _TOLERANCE = 1e-4, 1e-6
_SETTINGS = {name: {"eps_abs": 1e-6, "eps_rel": 1e-6} for name in ("SCS", "OSQP")}
_SLOW_FEATURES = 100  # from here on an interior point of cvxpy takes the better part of a minute


@dataclass(frozen=True)
class Answer:
    """The final point of a program, with the seconds spent inside its solver."""

    w: NDArray
    inside: float | None = None


def random_cuts(metric: Metric, n_features: int, n_cuts: int) -> DualMaster:
    """Draw a master problem with one group of cuts."""
    cone, rng = MetricCone(metric, n_features, False), np.random.default_rng(0)
    return DualMaster(
        rows=rng.standard_normal((n_cuts, cone.size)),
        offsets=rng.standard_normal(n_cuts),
        groups=np.zeros(n_cuts, dtype=np.int64),
        masses=np.ones(1),
        shift=np.zeros(cone.size),
        curvature=1.0,
        cone=cone,
    )


def ours(master: DualMaster, tolerance: float) -> Answer:
    """Solve the dual, starting from equal weights of all cuts."""
    weights = np.full(len(master.offsets), 1.0 / len(master.offsets))
    _, w, _ = master.solve(weights, tolerance)
    return Answer(w)


def peer(master: DualMaster, solver: str) -> Answer:
    """Solve the primal, stated in cvxpy, with one of its solvers."""
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
    problem.solve(solver=solver, **_SETTINGS.get(solver, {}))
    solution, inside = np.array(B.value), problem.solver_stats.solve_time
    if metric.polyhedral:
        return Answer(np.maximum(solution, 0.0), inside)
    values, vectors = np.linalg.eigh((solution + solution.T) / 2.0)
    root = (vectors * np.sqrt(np.maximum(values, 0.0))).T
    return Answer(metric.coordinates(root), inside)


def value(master: DualMaster, w: NDArray) -> float:
    """Compute the primal objective at a point of the cone."""
    worst = float(np.max(master.offsets + master.rows @ w))
    return worst + 0.5 * master.curvature * float(w @ w)


def row(master: DualMaster, peers: tuple[str, ...], options: Any) -> dict[str, Any]:
    """Time all programs on the same cuts, and return one line of the table."""
    cone = master.cone
    scale = abs(value(master, ours(master, 1e-9).w))

    def same(first: Answer, second: Answer) -> bool:
        return abs(value(master, first.w) - value(master, second.w)) <= _SAME * scale

    calls: dict[str, Callable[[], Answer]] = {"ours": partial(ours, master, _TOLERANCE * scale)}
    for name in peers:
        slow = name == "CLARABEL" and cone.n_features == _SLOW_FEATURES
        if not (slow and options.skip_slow):
            calls[name] = partial(peer, master, name)
    cells = side_by_side(calls, options.repeats, same)
    timings = {name: cell for name, cell in cells.items() if isinstance(cell, Timing)}
    mine = timings.pop("ours")
    kind = "diagonal" if cone.metric.polyhedral else "full"
    return {
        "cone": f"{kind}, P={cone.n_features}, J={len(master.offsets)}",
        "ours": mine,
        **{
            f"cvxpy + {name}": f"{timing}, {timing.median / mine.median:.0f}x (solver alone "
            f"{1e3 * timing.result.inside:.0f} ms)"
            for name, timing in timings.items()
        },
    }


def main() -> None:
    """Time all sizes, print and save."""
    parser = options_of(__doc__)
    parser.add_argument(
        "--skip-slow", action="store_true", help="without the peer's run of about half a minute"
    )
    options = parser.parse_args()
    report = Report("master", options, repeats=options.repeats, cvxpy=cvxpy.__version__)
    sizes = SIZES[:1] if options.tiny else SIZES
    rows = [row(random_cuts(metric, P, J), peers, options) for metric, P, J, peers in sizes]
    report.table(
        "One master problem",
        rows,
        "Processor time; behind a peer's how many times as long that is as ours. The time of a "
        "solver alone is that of the last run.",
    )
    report.save()


if __name__ == "__main__":
    main()
