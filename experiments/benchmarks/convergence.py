"""Passes and seconds of all solvers to the optimum and to its certificate.

    python -m experiments.benchmarks.convergence [--out FOLDER] [--images FOLDER] [--seconds 15]

Change-points with a squared regularizer. ``synthetic`` is 30 sequences of 150 samples and 20
features (5 relevant, 3 to 8 segments), strength 0.1: full and diagonal metric with a learned price
of a segment, and full with the number of segments known. ``many`` is 400 sequences of 40 samples
and 8 features, number known. There the learners' risk, and so ``bundle``, has one cut a round for
each of a hundred groups of sequences; all others, ``bundle, ungrouped`` too, see every sequence.
``hapt`` is the first 20 training sequences of ``python -m experiments.run experiment=hapt``
(half-second windows, 36 features, unlabeled gaps kept, the split of seed 0), full metric, strength
0.01, once with a learned price and once with the price fixed at the value learned; no test
sequence is read.

A pass is one loss-augmented inference for every sequence, whatever it was needed for: steps,
line searches, the objective at an average. Seconds are of the processor (one thread), so that
other work on the machine does not count. Every gap is over the objective with no metric;
suboptimality is the best objective so far minus the best lower bound that any run proved, with
``BundleDual(tolerance=1e-6)`` among them. A solver stops at a certified gap of 1e-4 or at its
limits. Block-coordinate Frank-Wolfe is here and not in the package, see the last table.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import cvxpy  # noqa: F401  # imported before any clock runs
import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from threadpoolctl import threadpool_limits

from experiments.benchmarks.machine import Report, options_of
from experiments.comparison import group_cases
from metriclearn import (
    BundleDual,
    ChangePointMetricLearner,
    DiagonalMetric,
    FullMetric,
    ProjectedSubgradient,
    SquaredFrobenius,
)
from metriclearn.datasets import load_hapt, make_change_points
from metriclearn.estimators.large_margin import LearningProblem
from metriclearn.problem.risk import StructuredHinge
from metriclearn.running.callbacks import TimeLimit
from metriclearn.solvers.base import Progress, Solution
from metriclearn.solvers.cutting_plane import CuttingPlane
from metriclearn.solvers.regularizers import Regularizer
from metriclearn.solvers.subgradient import DecreasingStep

TARGETS = (1e-1, 1e-2, 1e-3, 1e-4)
_TOLERANCE, _ROUNDS = 1e-4, 300
_BATCH = 5
Reached = tuple[float, float]  # passes and seconds


@dataclass
class Run:
    """Best objective, best bound, passes and processor seconds after every round of a solver."""

    n_series: int
    objective: list[float] = field(default_factory=list)
    lower_bound: list[float] = field(default_factory=list)
    passes: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    reason: str = ""

    def __post_init__(self) -> None:
        self._begun = time.process_time()

    def on_round(self, progress: Progress) -> None:
        """Write a round down."""
        self.objective.append(progress.objective)
        self.lower_bound.append(progress.lower_bound)
        self.passes.append(progress.oracle_calls / self.n_series)
        self.seconds.append(time.process_time() - self._begun)

    def on_end(self, solution: Solution) -> None:
        """Write down why it stopped."""
        self.reason = solution.reason

    def first(self, errors: NDArray, target: float) -> Reached | None:
        """Passes and seconds at which ``errors`` (one per round) are within the target."""
        reached = np.flatnonzero(errors <= target)
        return (self.passes[reached[0]], self.seconds[reached[0]]) if len(reached) else None


class BlockFrankWolfe:
    """Block-coordinate Frank-Wolfe (Lacoste-Julien, Jaggi, Schmidt & Pletscher, ICML 2013).

    Ascent on D(a) = aᵀβ − ‖[−Gᵀa]₊‖² / 2μ over the product of simplices, one data set at a time:
    its oracle gives the corner, a line search (one projection per trial) the step. Only Σ a_j G_j
    and Σ a_j β_j are kept for every data set. After every epoch the risk at the current metric is
    the upper bound, and D the lower bound. Squared regularizers; the price is not learned.
    """

    def __init__(self, tolerance: float, max_epochs: int, seconds: float) -> None:
        self.tolerance, self.max_epochs, self.seconds = tolerance, max_epochs, seconds

    def minimize(self, problem: LearningProblem, regularizer: Regularizer, run: Run) -> None:
        """Write every epoch to ``run``."""
        cone, weights = problem.cone, problem.risk.weights
        terms = regularizer.terms(cone)
        slopes, offsets = np.zeros((len(weights), cone.size)), np.zeros(len(weights))
        limit, rng = time.process_time() + self.seconds, np.random.default_rng(0)
        start = problem.risk(problem.start)
        scale = objective = start.mean + terms(problem.start)
        total, level, calls, bound = np.zeros(cone.size), 0.0, len(weights), 0.0
        for epoch in range(1, self.max_epochs + 1):
            for i in rng.permutation(len(weights)):
                w = cone.project(-total) / terms.curvature
                cut = problem.risk(w, np.array([i]))
                corner = weights[i] * cut.slopes[0]
                height = weights[i] * float(cut.values[0] - cut.slopes[0] @ w)
                turn, rise = corner - slopes[i], height - offsets[i]
                step = self._line_search(problem, terms.curvature, total, turn, rise)
                slopes[i], offsets[i] = slopes[i] + step * turn, offsets[i] + step * rise
                total, level = total + step * turn, level + step * rise
            w = cone.project(-total) / terms.curvature
            objective = min(objective, problem.risk(w).mean + terms(w))
            bound = max(bound, level - terms(w))
            calls += 2 * len(weights)
            gap = (objective - bound) / scale
            run.on_round(Progress(epoch, objective, bound, gap, w, calls))
            if gap <= self.tolerance or time.process_time() > limit:
                break
        run.reason = "converged" if gap <= self.tolerance else "callback"

    @staticmethod
    def _line_search(
        problem: LearningProblem, curvature: float, total: NDArray, turn: NDArray, rise: float
    ) -> float:
        """argmax over γ in [0, 1] of D along the turn: the root of a decreasing derivative."""

        def derivative(step: float) -> float:
            w = problem.cone.project(-total - step * turn) / curvature
            return rise + float(turn @ w)

        if derivative(0.0) <= 0.0:
            return 0.0
        return 1.0 if derivative(1.0) >= 0.0 else float(brentq(derivative, 0.0, 1.0, xtol=1e-4))


SOLVERS: dict[str, Any] = {
    "bundle": BundleDual(_TOLERANCE, _ROUNDS),
    "n-slack planes": CuttingPlane(tolerance=_TOLERANCE, max_rounds=_ROUNDS),
    "one-slack, stabilized": CuttingPlane(False, tolerance=_TOLERANCE, max_rounds=_ROUNDS),
    "one-slack, plain": CuttingPlane(False, 0.0, tolerance=_TOLERANCE, max_rounds=_ROUNDS),
    "subgradient, Polyak": ProjectedSubgradient(tolerance=_TOLERANCE, max_rounds=_ROUNDS),
    "subgradient, decreasing": ProjectedSubgradient(
        DecreasingStep(), tolerance=_TOLERANCE, max_rounds=_ROUNDS
    ),
    "stochastic subgradient": ProjectedSubgradient(
        DecreasingStep(), batch_size=_BATCH, tolerance=_TOLERANCE, max_rounds=_ROUNDS // 2
    ),
}  # fmt: skip
_FRANK_WOLFE, _UNGROUPED = "block Frank-Wolfe", "bundle, ungrouped"


@dataclass
class Job:
    """A problem, its regularizer, who solves it, and all runs.

    Attributes
    ----------
    reference : Solution
        Certified more closely than any run.
    """

    title: str
    problem: LearningProblem
    regularizer: Regularizer
    solvers: tuple[str, ...] = tuple(SOLVERS)
    runs: dict[str, Run] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # this also compiles what is compiled at the first call
        self.reference = BundleDual(1e-6).minimize(self.problem)

    def solve(self, seconds: float) -> None:
        """Run every solver to the tolerance or the limits."""
        apart = ungrouped(self.problem)
        for name in self.solvers:
            problem = self.problem if name == "bundle" else apart
            run = self.runs[name] = Run(len(problem.risk.weights))
            if name == _FRANK_WOLFE:
                rival = BlockFrankWolfe(_TOLERANCE, _ROUNDS // 2, seconds)
                rival.minimize(problem, self.regularizer, run)
            else:
                watching = (run, TimeLimit(seconds, time.process_time))
                solver = SOLVERS["bundle" if name == _UNGROUPED else name]
                solver.minimize(replace(problem, callbacks=watching))
            print(f"  {self.title}: {name} {run.seconds[-1]:.1f} s", flush=True)

    @property
    def optimum(self) -> float:
        """The best lower bound of all."""
        return max(self.reference.lower_bound, *(max(r.lower_bound) for r in self.runs.values()))

    def suboptimality(self, name: str) -> NDArray:
        """Objective minus the optimum over the objective with no metric, per round."""
        return (np.array(self.runs[name].objective) - self.optimum) / self.reference.scale

    def gap(self, name: str) -> NDArray:
        """Certified gap over the objective with no metric, per round."""
        run = self.runs[name]
        return (np.array(run.objective) - np.array(run.lower_bound)) / self.reference.scale

    def reached(self, errors: Callable[[str], NDArray], target: float) -> dict[str, Reached]:
        """Passes and seconds of every solver that got within the target."""
        firsts = {name: run.first(errors(name), target) for name, run in self.runs.items()}
        return {name: first for name, first in firsts.items() if first is not None}

    def rows(self, errors: Callable[[str], NDArray]) -> list[dict[str, Any]]:
        """Passes and seconds of every solver to every target."""
        cells = {
            f"{target:g}": {
                name: f"{passes:.0f} ({seconds:.2f} s)"
                for name, (passes, seconds) in self.reached(errors, target).items()
            }
            for target in TARGETS
        }
        reasons = {"callback": "seconds", "max_rounds": "rounds"}
        return [
            {
                "solver": name,
                **{target: by_name.get(name, "-") for target, by_name in cells.items()},
                "passes": round(run.passes[-1]),
                "seconds": round(run.seconds[-1], 2),
                "at the end": f"{max(errors(name)[-1], 0.0):.1e}",
                "stopped by": reasons.get(run.reason, run.reason),
            }
            for name, run in self.runs.items()
        ]

    def fastest(self, errors: Callable[[str], NDArray], target: float) -> list[tuple[float, str]]:
        """Seconds and names of those that got within the target, the fastest first."""
        return sorted((seconds, n) for n, (_, seconds) in self.reached(errors, target).items())

    def traces(self) -> dict[str, dict[str, Any]]:
        """What :func:`metriclearn.plots.plot_convergence` draws."""
        names = ("objective", "lower_bound", "passes", "seconds")
        return {
            solver: {**{n: getattr(run, n) for n in names}, "scale": self.reference.scale}
            for solver, run in self.runs.items()
        }


def ungrouped(problem: LearningProblem) -> LearningProblem:
    """The same problem with a cut for every data set, however many there are."""
    risk = problem.risk
    return replace(problem, risk=StructuredHinge(risk.terms, risk.samples, risk.truths))


def jobs(root: str | None, tiny: bool) -> Iterator[Job]:
    """All problems, each made when its turn comes."""
    size = (4, 60, 6, 2, (2, 4)) if tiny else (30, 150, 20, 5, (3, 8))
    data = make_change_points(*size, random_state=0)
    both = (*SOLVERS, _FRANK_WOLFE)
    full = ChangePointMetricLearner(FullMetric(), SquaredFrobenius(0.1), verbose=False)
    diagonal = ChangePointMetricLearner(DiagonalMetric(), SquaredFrobenius(0.1), verbose=False)
    known = ChangePointMetricLearner(
        FullMetric(), SquaredFrobenius(0.1), n_segments="given", verbose=False
    )
    for title, learner, solvers in (
        ("synthetic, full metric, learned price", full, tuple(SOLVERS)),
        ("synthetic, diagonal metric, learned price", diagonal, tuple(SOLVERS)),
        ("synthetic, full metric, number known", known, both),
    ):
        problem = learner._problem(data.sequences, data.labels)
        yield Job(title, problem, learner.regularizer, solvers)
    if tiny:
        return
    data = make_change_points(400, 40, 8, 3, (2, 4), random_state=0)
    few = ("bundle", _UNGROUPED, "n-slack planes", "stochastic subgradient", _FRANK_WOLFE)
    problem = known._problem(data.sequences, data.labels)
    yield Job("many, full metric, number known", problem, known.regularizer, few)
    train = group_cases(load_hapt(root, unlabeled="keep"), 6, False, 4, 0)[0].train
    X, y = train.sequences[:20], train.labels[:20]
    weak = SquaredFrobenius(1e-2)
    learner = ChangePointMetricLearner(FullMetric(), weak, verbose=False)
    yield (job := Job("HAPT, full metric, learned price", learner._problem(X, y), weak))
    learner.set_params(penalty=job.problem.cone.split(job.reference.w)[1])
    yield Job("HAPT, full metric, fixed price", learner._problem(X, y), weak, both)


def verdict(job: Job) -> str:
    """Passes of the bundle to its certificate, and who is fastest to every target."""
    certified = job.reached(job.gap, _TOLERANCE).get("bundle")
    passes = f"after {certified[0]:.0f} passes" if certified else "not reached"
    orders = [(target, job.fastest(job.suboptimality, target)) for target in TARGETS]
    fastest = [f"{order[0][1] if order else '-'} ({target:g})" for target, order in orders]
    return (
        f"Optimum {job.optimum:.6g}, objective with no metric {job.reference.scale:.6g}. "
        f"Certified gap of 1e-4 by the bundle: {passes}. Fewest seconds to a suboptimality: "
        f"{', '.join(fastest)}."
    )


def frank_wolfe_row(job: Job) -> dict[str, Any]:
    """Seconds of Frank-Wolfe over those of the best run of the bundle, to a certified gap."""
    row: dict[str, Any] = {"problem": job.title}
    for target in TARGETS:
        seconds = {name: own for own, name in job.fastest(job.gap, target)}
        best = min(seconds.get("bundle", np.inf), seconds.get(_UNGROUPED, np.inf))
        mine = seconds.get(_FRANK_WOLFE)
        row[f"{target:g}"] = f"{mine / best:.1f}x" if mine else "not reached"
    return row


def draw(solved: Sequence[Job], path: Path) -> None:
    """Certified gap against passes and against seconds, a row for every job."""
    from matplotlib.figure import Figure

    from metriclearn.plots import plot_convergence

    figure = Figure(figsize=(12.0, 4.4 * len(solved)), layout="constrained")
    axes = figure.subplots(len(solved), 2, squeeze=False)
    for (left, right), job in zip(axes, solved):
        traces = job.traces()
        title = job.title[0].upper() + job.title[1:]
        plot_convergence(traces, left, gap=True, title=title)
        plot_convergence(traces, right, gap=True, seconds=True, title=race(job))
        left.set_ylabel("certified gap")
        right.set(xlabel="processor seconds", ylabel="certified gap")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    print(f"Saved {path}")


def race(job: Job) -> str:
    """Seconds of the two fastest to the tolerance."""
    parts = [f"{name} {seconds:.1f} s" for seconds, name in job.fastest(job.gap, _TOLERANCE)[:2]]
    alone = "" if len(parts) > 1 else ", no other in time"
    return f"To {_TOLERANCE:.0e}: {', '.join(parts) or 'nobody'}{alone}"


def main() -> None:
    """Solve everything; print, save and draw."""
    parser = options_of(__doc__, timed=False)
    parser.add_argument("--seconds", type=float, default=15.0, help="processor time of a run")
    parser.add_argument("--root", help="folder of HAPT; by default that of load_hapt")
    parser.add_argument("--images", type=Path, default=Path("docs/images"), help="the pictures")
    options = parser.parse_args()
    options.seconds = 1.0 if options.tiny else options.seconds
    limits = f"{_ROUNDS} rounds or {options.seconds:g} processor seconds"
    report = Report("convergence", threads=1, tolerance=_TOLERANCE, limits=limits)
    solved = []
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # cvxpy on inaccurate optima: bounds allow for them
        for job in jobs(options.root, options.tiny):
            job.solve(options.seconds)
            solved.append(job)
            note = "Passes (seconds) to a suboptimality. " + verdict(job)
            report.table(job.title, job.rows(job.suboptimality), note)
            title = f"{job.title}: certified"
            report.table(title, job.rows(job.gap), "Passes (seconds) to a certified gap.")
    report.table(
        "Block-coordinate Frank-Wolfe against the bundle",
        [frank_wolfe_row(job) for job in solved if _FRANK_WOLFE in job.runs],
        "Seconds of Frank-Wolfe over those of the bundle (grouped or not, whichever is faster) to "
        "a certified gap: above 1x the bundle is faster. A step costs several projections on the "
        "cone for its line search, and convergence is sublinear; a learned price, which no "
        "regularizer touches, it cannot handle at all. So it is not in the package.",
    )
    report.save(options.out)
    learned = [job for job in solved if "full metric, learned" in job.title]
    draw(learned, options.images / "convergence.png")


if __name__ == "__main__":
    main()
