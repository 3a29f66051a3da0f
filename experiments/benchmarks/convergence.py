"""How many passes and seconds every solver needs to reach the optimum, and to certify it.

    python -m experiments.benchmarks.convergence [--out FOLDER] [--seconds 15]

All problems learn change-points with a squared Frobenius regularizer. ``synthetic`` is 30 sequences
of 150 samples and 20 features (5 relevant, 3 to 8 segments), with strength 0.1. There are three
versions of ``synthetic``: a full and a diagonal metric with a learned penalty, and a full metric
with the number of segments given. ``many`` is 400 sequences of 40 samples and 8 features, with a
full metric and the number of segments given. A learner divides these 400 sequences into a hundred
groups, and adds one cut for every group in each round. The run ``bundle`` has the same groups. The
run ``bundle, ungrouped`` and all other solvers add a separate cut for every sequence. ``hapt`` is
the first 20 training sequences of ``python -m experiments.run experiment=hapt`` (half-second
windows, 36 features, unlabeled gaps kept, the split of seed 0), with a full metric and strength
0.01. There are two versions of ``hapt``: in one the penalty is learned, in the other it is fixed at
the learned value. No test sequence is used.

A pass is one loss-augmented inference for every sequence, whether for a step, a line search or the
objective at an average. Seconds are processor seconds (one thread), so that other work on the
machine does not count. Every gap is divided by the objective of a zero metric. Suboptimality is the
best objective so far minus the best lower bound that any run proved, including a run of
``BundleDual(tolerance=1e-6)``. A solver stops at a certified gap of 1e-4 or at its limits.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from typing import Any

import cvxpy  # noqa: F401  # imported before any clock runs
import pandas
from matplotlib.figure import Figure
from sklearn.base import clone

import metriclearn as ml
from experiments.benchmarks.machine import Report, options_of
from experiments.benchmarks.problems import problem_of
from experiments.harness.comparison import group_cases
from metriclearn.datasets import load_dataset, make_change_points
from metriclearn.plots import plot_convergence
from metriclearn.problem.risk import StructuredHinge
from metriclearn.running.callbacks import TimeLimit
from metriclearn.solvers.base import Problem, Progress, Solution
from metriclearn.solvers.cutting_plane import CuttingPlane
from metriclearn.solvers.subgradient import DecreasingStep

TARGETS = (1e-1, 1e-2, 1e-3, 1e-4)
_TOLERANCE, _ROUNDS = 1e-4, 300
_BATCH = 5
_UNGROUPED = "bundle, ungrouped"
_DRAWN = ["objective", "lower_bound", "seconds", "passes"]
_LIMITS: dict[str, Any] = {"tolerance": _TOLERANCE, "max_rounds": _ROUNDS}

SOLVERS: dict[str, Any] = {
    "bundle": ml.BundleDual(**_LIMITS),
    "n-slack planes": CuttingPlane(**_LIMITS),
    "one-slack, stabilized": CuttingPlane(False, **_LIMITS),
    "one-slack, plain": CuttingPlane(False, 0.0, **_LIMITS),
    "subgradient, Polyak": ml.ProjectedSubgradient(**_LIMITS),
    "subgradient, decreasing": ml.ProjectedSubgradient(DecreasingStep(), **_LIMITS),
    "stochastic subgradient": ml.ProjectedSubgradient(
        DecreasingStep(), batch_size=_BATCH, tolerance=_TOLERANCE, max_rounds=_ROUNDS // 2
    ),
    _UNGROUPED: ml.BundleDual(**_LIMITS),
}
_USUAL = tuple(name for name in SOLVERS if name != _UNGROUPED)  # there are no groups to undo
_FEW = ("bundle", _UNGROUPED, "n-slack planes", "stochastic subgradient")


class ProcessorTimes:
    """A callback that reads the processor's clock after every round of a solver.

    Attributes
    ----------
    seconds : list of float
        Processor seconds since the callback was made.
    """

    def __init__(self) -> None:
        self.begun = time.process_time()
        self.seconds: list[float] = []

    def on_round(self, progress: Progress) -> None:
        """Read the clock."""
        self.seconds.append(time.process_time() - self.begun)

    def on_end(self, solution: Solution) -> None:
        """Do nothing at the end."""


def run(problem: Problem, name: str, seconds: float) -> tuple[pandas.DataFrame, str]:
    """Run a solver. Returns the objective, bound, passes and seconds after every round, and why the
    solver stopped."""
    asked = problem if name == "bundle" else ungrouped(problem)
    limit = TimeLimit(seconds, time.process_time)
    times = ProcessorTimes()
    solution = SOLVERS[name].minimize(replace(asked, callbacks=(times, limit)))
    rounds = pandas.DataFrame(asdict(solution.trace)).assign(seconds=times.seconds)
    rounds["passes"] = rounds.pop("oracle_calls") / len(asked.risk.weights)
    reasons = {"callback": "seconds", "max_rounds": "rounds"}
    return rounds, reasons.get(solution.reason, solution.reason)


def ungrouped(problem: Problem) -> Problem:
    """Make the same problem with a separate cut for every data set. A learner would divide many
    data sets into groups and make one cut for every group."""
    risk = problem.risk
    return replace(problem, risk=StructuredHinge(risk.terms, risk.samples, risk.truths))


def problems(root: str | None, tiny: bool) -> Iterator[tuple[str, Problem, tuple[str, ...]]]:
    """Yield the title, the problem and the names of the solvers of each comparison. A problem is
    made only when it is needed."""
    size = (4, 60, 6, 2, (2, 4)) if tiny else (30, 150, 20, 5, (3, 8))
    data = make_change_points(*size, random_state=0)
    full = ml.ChangePointMetricLearner(ml.FullMetric(), ml.SquaredFrobenius(0.1), verbose=False)
    diagonal = clone(full).set_params(metric=ml.DiagonalMetric())
    known = clone(full).set_params(n_segments="given")
    for title, learner in (
        ("synthetic, full metric, learned penalty", full),
        ("synthetic, diagonal metric, learned penalty", diagonal),
        ("synthetic, full metric, number known", known),
    ):
        yield title, problem_of(learner, data.sequences, data.labels), _USUAL
    if tiny:
        return
    data = make_change_points(400, 40, 8, 3, (2, 4), random_state=0)
    yield "many, full metric, number known", problem_of(known, data.sequences, data.labels), _FEW
    train = group_cases(load_dataset("hapt", root, unlabeled="keep"), 6, False, 4, 0)[0].train
    X, y = train.sequences[:20], train.labels[:20]
    learner = clone(full).set_params(regularizer__strength=1e-2)
    problem = problem_of(learner, X, y)
    yield "HAPT, full metric, learned penalty", problem, _USUAL
    penalty = problem.cone.split(ml.BundleDual(1e-6).minimize(problem).w)[1]
    learner.set_params(penalty=penalty)
    yield "HAPT, full metric, fixed penalty", problem_of(learner, X, y), _USUAL


def reached(rounds: pandas.DataFrame, errors: Any, target: float) -> str:
    """Tell after how many passes and seconds the error is within the target for the first time."""
    within = rounds[errors <= target]
    if within.empty:
        return "-"
    return f"{within.passes.iloc[0]:.0f} ({within.seconds.iloc[0]:.2f} s)"


def report_on(
    report: Report,
    title: str,
    runs: Mapping[str, tuple[pandas.DataFrame, str]],
    reference: Solution,
) -> None:
    """Report the passes and seconds that every solver needs to reach every target. There are two
    tables: one for the suboptimality, and one for the certified gap."""
    bounds = [rounds.lower_bound.max() for rounds, _ in runs.values()]
    optimum = max(reference.lower_bound, *bounds)
    for kind in ("suboptimality", "certified gap"):
        rows = []
        for name, (rounds, reason) in runs.items():
            bound = optimum if kind == "suboptimality" else rounds.lower_bound
            errors = (rounds.objective - bound) / reference.scale
            rows.append(
                {
                    "solver": name,
                    **{f"{target:g}": reached(rounds, errors, target) for target in TARGETS},
                    "passes": round(rounds.passes.iloc[-1]),
                    "seconds": round(rounds.seconds.iloc[-1], 2),
                    "at the end": f"{max(errors.iloc[-1], 0.0):.1e}",
                    "stopped by": reason,
                }
            )
        note = f"Optimum {optimum:.6g}, objective with no metric {reference.scale:.6g}."
        report.table(f"{title}: {kind}", rows, f"Passes (seconds) to a {kind}. {note}")


def draw(record: Mapping[str, Any]) -> Figure:
    """Plot the certified gap against passes and against seconds, with a row of plots for each
    problem."""
    traces = record["traces"]
    figure = Figure(figsize=(12.0, 4.4 * len(traces)), layout="constrained")
    axes = figure.subplots(len(traces), 2, squeeze=False)
    for (left, right), (title, by_solver) in zip(axes, traces.items()):
        plot_convergence(by_solver, left, gap=True, title=title[0].upper() + title[1:])
        table = next(t for t in record["tables"] if t["title"] == f"{title}: certified gap")
        done = {row["solver"]: row["0.01"].partition("(")[2] for row in table["rows"]}
        times = sorted((float(t.split()[0]), solver) for solver, t in done.items() if t)
        (first, name), *others = times
        message = f"{name} is proven within 1 % in {first:.2g} s"
        message += f", the next in {others[0][0]:.2g} s" if others else ", no other one"
        plot_convergence(by_solver, right, gap=True, seconds=True, title=message)
        left.set_ylabel("certified gap")
        right.set(xlabel="processor seconds", ylabel="certified gap")
    return figure


def main() -> None:
    """Solve everything, print and save."""
    parser = options_of(__doc__)
    parser.add_argument("--seconds", type=float, default=15.0, help="processor time of a run")
    parser.add_argument("--root", help="folder of HAPT; by default that of load_dataset")
    options = parser.parse_args()
    seconds = 1.0 if options.tiny else options.seconds
    limits = f"{_ROUNDS} rounds or {seconds:g} processor seconds"
    report = Report("convergence", options, tolerance=_TOLERANCE, limits=limits)
    traces = {}
    warnings.simplefilter("ignore")  # cvxpy on inaccurate optima: bounds allow for them
    for title, problem, solvers in problems(options.root, options.tiny):
        # also compiles the kernels of the first call
        reference = ml.BundleDual(1e-6).minimize(problem)
        runs = {name: run(problem, name, seconds) for name in solvers}
        report_on(report, title, runs, reference)
        if "full metric, learned" in title:
            traces[title] = {
                name: rounds[_DRAWN].to_dict("list") | {"scale": reference.scale}
                for name, (rounds, _) in runs.items()
            }
    report.save(traces=traces)


if __name__ == "__main__":
    main()
