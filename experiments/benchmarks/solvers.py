"""Solvers: rounds to the optimum, one master problem, time and memory of training, and paths.

    python -m experiments.benchmarks.solvers [--only convergence master training path] [--tiny]

**convergence.** All problems learn change-points with a squared Frobenius regularizer.
``synthetic`` is 30 sequences of 150 samples and 20 features (5 relevant, 3 to 8 segments), with
strength 0.1. There are three versions of it: a full and a diagonal metric with a learned penalty,
and a full metric with the number of segments given. ``many`` is 400 sequences of 40 samples and 8
features, with a full metric and the number of segments given. A learner divides these sequences
into a hundred groups, and adds one cut for every group in each round. The run ``bundle`` has the
same groups. The run ``bundle, ungrouped`` and all other solvers add a separate cut for every
sequence. ``HAPT`` is the first 20 training sequences of ``experiment=hapt``, with a full metric and
strength 0.01. In one version the penalty is learned, in the other it is fixed at the learned value.
A pass is one loss-augmented inference for every sequence. Seconds are processor seconds. Every gap
is divided by the objective of a zero metric. Suboptimality is the best objective so far minus the
best lower bound that any run proved. A solver stops at a certified gap of 1e-4 or at its limits.

**master.** The problem is to minimize t + ‖B‖²/2 over matrices B in the cone and numbers t, with J
random cuts t ≥ β_j + ⟨G_j, B⟩. The entries of the symmetric or diagonal matrices G_j, and β_j, are
independent and standard normal. No program starts from a known solution. Our solver stops at a
duality gap of 1e-6, relative to the optimum. cvxpy's solvers have their default tolerances, except
SCS and OSQP: they get 1e-6. Before programs are timed, their objectives must agree to 1e-4. cvxpy's
time includes stating the problem, since the cuts differ in every round.

**training.** ``main`` is 10 sequences of 600 samples and 300 features, 10 of them relevant, 6 to 9
segments. ``television`` has the size of the paper's TV shows: four sequences of 5400 samples, 200
features (20 relevant), 60 to 120 segments. ``matrix`` is for full metrics: 20 sequences of 1000
samples, 200 features (20 relevant), 10 to 20 segments. Each row is trained in a separate process to
a relative gap of 1e-3, with the default strength of the regularizer and a tenth of it. The last
table shows how long a new user waits in a fresh process for the interpreter, import, compiling, fit
and prediction of ten short sequences. For its last row, the same interpreter only imports
scikit-learn and numba and calls an empty kernel.

**path.** Ten sequences of 300 samples, 30 features and 3 to 6 segments are used for training, and
ten more for validation. Problems of planted rank have two random relevant directions, for a full
metric with the trace as regularizer. Problems of planted support have five relevant features, for a
diagonal metric with L1. All other directions or features are noise, or they change as much as the
relevant ones, but at independent times. "Exact at" counts the strengths at which the planted
features, and no others, have nonzero weights, or two eigenvalues are nonzero.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import Any

import cvxpy  # imported before any clock runs
import numpy as np
import pandas
from matplotlib.figure import Figure
from numpy.typing import NDArray

import metriclearn as ml
from experiments.benchmarks.benchmark import Benchmark, Run, cell
from experiments.benchmarks.machine import Row, Timing, side_by_side, timed
from experiments.benchmarks.problems import problem_of
from experiments.harness.cases import group_cases
from metriclearn.datasets import load_dataset, make_change_points
from metriclearn.estimators.selection.regularization_path import RegularizationPath
from metriclearn.plots import plot_convergence, plot_regularization_path
from metriclearn.problem.risk import StructuredHinge
from metriclearn.running.callbacks import Progress, TimeLimit
from metriclearn.solvers.base import Problem, Solution
from metriclearn.solvers.cutting_plane import CuttingPlane
from metriclearn.solvers.dual_master import DualMaster
from metriclearn.solvers.mahalanobis import Metric, MetricCone
from metriclearn.solvers.subgradient import DecreasingStep

BENCH = Benchmark("solvers", __doc__)

# ---- convergence
TARGETS = (1e-1, 1e-2, 1e-3, 1e-4)
_TOLERANCE, _ROUNDS = 1e-4, 300
_BATCH = 5
_UNGROUPED = "bundle, ungrouped"
_DRAWN = ["objective", "lower_bound", "seconds", "passes"]
_SECONDS = 15.0  # of a run
_LIMITS: dict[str, Any] = {"tolerance": _TOLERANCE, "max_rounds": _ROUNDS}

SOLVERS: dict[str, Any] = {
    "bundle": ml.BundleDual(**_LIMITS),
    "n-slack planes": CuttingPlane(**_LIMITS),
    "one-slack, stabilized": CuttingPlane(False, **_LIMITS),
    "one-slack, plain": CuttingPlane(False, 0.0, **_LIMITS),
    "subgradient, Polyak": ml.solvers.ProjectedSubgradient(**_LIMITS),
    "subgradient, decreasing": ml.solvers.ProjectedSubgradient(DecreasingStep(), **_LIMITS),
    "stochastic subgradient": ml.solvers.ProjectedSubgradient(
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


def solved(asked: Problem, name: str, seconds: float) -> tuple[pandas.DataFrame, str]:
    """Run a solver. Returns the objective, bound, passes and seconds after every round, and why the
    solver stopped."""
    asked = asked if name == "bundle" else ungrouped(asked)
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


PROBLEMS: dict[str, tuple[str, ...]] = {  # and the solvers that are compared on each
    "synthetic, full metric, learned penalty": _USUAL,
    "synthetic, diagonal metric, learned penalty": _USUAL,
    "synthetic, full metric, number known": _USUAL,
    "many, full metric, number known": _FEW,
    "HAPT, full metric, learned penalty": _USUAL,
    "HAPT, full metric, fixed penalty": _USUAL,
}


def problem(title: str, tiny: bool) -> Problem:
    """State one of :data:`PROBLEMS`."""
    data, metric, penalty = title.split(", ")
    learner = ml.ChangePointMetricLearner(ml.FullMetric(), ml.SquaredFrobenius(0.1), verbose=False)
    if metric.startswith("diagonal"):
        learner.set_params(metric=ml.DiagonalMetric())
    if penalty == "number known":
        learner.set_params(n_segments="given")
    if data == "HAPT":
        (case,) = group_cases(load_dataset("hapt", unlabeled="keep"), 6, False, 4, 0)
        X, y = case.train.sequences[:20], case.train.labels[:20]
        learner.set_params(regularizer__strength=1e-2)
        if penalty == "fixed penalty":
            free = problem_of(learner, X, y)
            w = ml.BundleDual(1e-6).minimize(free).w
            learner.set_params(penalty=free.cone.split(w)[1])
        return problem_of(learner, X, y)
    size: Any = (30, 150, 20, 5, (3, 8)) if data == "synthetic" else (400, 40, 8, 3, (2, 4))
    drawn = make_change_points(*((4, 60, 6, 2, (2, 4)) if tiny else size), random_state=0)
    return problem_of(learner, drawn.sequences, drawn.labels)


@cache
def runs_of(title: str, tiny: bool) -> tuple[dict[str, tuple[pandas.DataFrame, str]], Solution]:
    """Run all solvers on a problem. Returns their rounds, and an optimum to compare with."""
    asked = problem(title, tiny)
    reference = ml.BundleDual(1e-6).minimize(asked)  # also compiles the kernels of the first call
    seconds = 1.0 if tiny else _SECONDS
    return {name: solved(asked, name, seconds) for name in PROBLEMS[title]}, reference


def reached(rounds: pandas.DataFrame, errors: Any, target: float) -> str:
    """Tell after how many passes and seconds the error is within the target for the first time."""
    within = rounds[errors <= target]
    if within.empty:
        return "-"
    return f"{within.passes.iloc[0]:.0f} ({within.seconds.iloc[0]:.2f} s)"


def convergence(title: str, run: Run, kind: str) -> Iterator[Row]:
    """Yield the passes and seconds that every solver needs to reach every target of the
    suboptimality or of the certified gap."""
    if run.tiny and not title.startswith("synthetic"):
        return
    runs, reference = runs_of(title, run.tiny)
    bounds = [rounds.lower_bound.max() for rounds, _ in runs.values()]
    optimum = max(reference.lower_bound, *bounds)
    for name, (rounds, reason) in runs.items():
        bound = optimum if kind == "suboptimality" else rounds.lower_bound
        errors = (rounds.objective - bound) / reference.scale
        yield {
            "solver": name,
            **{f"{target:g}": reached(rounds, errors, target) for target in TARGETS},
            "passes": round(rounds.passes.iloc[-1]),
            "seconds": round(rounds.seconds.iloc[-1], 2),
            "at the end": f"{max(errors.iloc[-1], 0.0):.1e}",
            "stopped by": reason,
        }
    if "full metric, learned" in title:
        traces = run.kept.setdefault("traces", {})
        traces[title] = {
            name: rounds[_DRAWN].to_dict("list") | {"scale": reference.scale}
            for name, (rounds, _) in runs.items()
        }


for _title, _kind in product(PROBLEMS, ("suboptimality", "certified gap")):
    BENCH.table(
        f"{_title}: {_kind}", [_title], f"Passes (seconds) to a {_kind}.", part="convergence"
    )(partial(convergence, kind=_kind))


def draw_convergence(record: Mapping[str, Any]) -> Figure:
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


# ---- master
SIZES: list[tuple[Metric, int, int, tuple[str, ...]]] = [  # metric, P, J, solvers of cvxpy
    (ml.FullMetric(), 10, 30, ("SCS", "CLARABEL")),
    (ml.FullMetric(), 50, 30, ("SCS", "CLARABEL")),
    (ml.FullMetric(), 100, 100, ("SCS", "CLARABEL")),
    (ml.DiagonalMetric(), 300, 100, ("OSQP", "SCS", "CLARABEL")),
]
_SAME, _GAP = 1e-4, 1e-6
_SETTINGS = {name: {"eps_abs": 1e-6, "eps_rel": 1e-6} for name in ("SCS", "OSQP")}


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


@BENCH.table("One master problem", lambda run: SIZES[:1] if run.tiny else SIZES, part="master")
def one_master(case: tuple[Metric, int, int, tuple[str, ...]], run: Run) -> Row:
    """Time all programs on the same cuts.

    Processor time; behind a peer's how many times as long that is as ours. The time of a solver
    alone is that of the last run.
    """
    metric, P, J, peers = case
    master = random_cuts(metric, P, J)
    scale = abs(value(master, ours(master, 1e-9).w))

    def same(first: Answer, second: Answer) -> bool:
        return abs(value(master, first.w) - value(master, second.w)) <= _SAME * scale

    calls: dict[str, Callable[[], Answer]] = {"ours": partial(ours, master, _GAP * scale)}
    calls |= {name: partial(peer, master, name) for name in peers}
    cells = side_by_side(calls, run.repeats, same)
    mine, kind = cells["ours"], "diagonal" if metric.polyhedral else "full"
    row: Row = {"cone": f"{kind}, P={P}, J={J}", "ours": mine}
    for name in peers:
        times, inside = cells[name].median / mine.median, 1e3 * cells[name].result.inside
        row[f"cvxpy + {name}"] = f"{cell(cells[name])}, {times:.0f}x (solver alone {inside:.0f} ms)"
    return row


# ---- training
LEARNERS: dict[str, tuple[Any, Any]] = {
    "diagonal l2": (ml.DiagonalMetric(), ml.SquaredFrobenius),
    "diagonal l1": (ml.DiagonalMetric(), ml.L1),
    "full l2": (ml.FullMetric(), ml.SquaredFrobenius),
    "full trace": (ml.FullMetric(), ml.Trace),
}
# sequences, samples, features, relevant ones, segments
DATA: dict[str, tuple[Any, ...]] = {
    "tiny": (3, 100, 10, 3, (3, 4)),
    "main": (10, 600, 300, 10, (6, 9)),
    "television": (4, 5400, 200, 20, (60, 120)),
    "matrix": (20, 1000, 200, 20, (10, 20)),
}
_FIRST = {
    "fit and prediction": """
import metriclearn as ml
from metriclearn.datasets import make_change_points
data = make_change_points(10, 300, 100, 10, (3, 6), random_state=0)
learner = ml.ChangePointMetricLearner(verbose=False).fit(data.sequences, data.labels)
learner.predict(data.sequences)
""",
    "scikit-learn, numba and an empty kernel": """
import sklearn.base
from numba import njit
@njit(cache=True)
def nothing(x):
    return x
nothing(1)
""",
}


def training(case: tuple[str, float], run: Run, job: str) -> Row:
    """Time training with a share of the default strength of the regularizer.

    A run of more than 10 s is not repeated.
    """
    (name, share), size = case, DATA["tiny" if run.tiny else job]
    data, test = (make_change_points(*size, random_state=seed) for seed in (0, 2))
    metric, regularizer = LEARNERS[name]
    strength = share * regularizer().strength
    learner = ml.ChangePointMetricLearner(
        metric, regularizer(strength), ml.BundleDual(tolerance=1e-3), verbose=False
    )
    timing = timed(lambda: learner.fit(data.sequences, data.labels), run.repeats)
    return {
        "metric": name,
        "strength": strength,
        **timing.cells,
        "slowest": round(max(timing.seconds), 2),
        "rounds": len(learner.solution_.trace),
        "relative gap": f"{learner.solution_.relative_gap:.1e}",
        "rank": len(learner.components_),
        "test loss": -learner.score(test.sequences, test.labels) * len(test.sequences[0]),
    }


for _job in ("main", "television", "matrix"):
    _names = [name for name in LEARNERS if _job != "matrix" or name.startswith("full")]
    BENCH.table(_job, list(product(_names, (1.0, 0.1))), part="training", apart=True)(
        partial(training, job=_job)
    )


@BENCH.table("The first second", part="training")
def first_second(case: None, run: Run) -> Iterator[Row]:
    """Time fresh processes, with an empty and with a filled cache of compiled code."""
    with tempfile.TemporaryDirectory() as folder:
        for place, (work, code) in enumerate(_FIRST.items()):
            program = Path(folder, f"{place}.py")  # only code of files is kept by numba
            program.write_text(code, encoding="utf-8")
            for cached, kept in {"empty": None, "filled": folder}.items():
                runs = sorted(fresh(program, kept) for _ in range(run.repeats))
                seconds, peak = runs[run.repeats // 2]
                row = {"work": work, "cache": cached}
                yield {**row, "processor seconds": seconds, "peak MiB": peak}


def fresh(program: Path, cached: str | None) -> tuple[float, int]:
    """Run a program in a new interpreter. Returns the processor seconds and the peak memory (MiB)
    of the program. The cache of compiled code is empty if no folder is given."""
    path = os.pathsep.join(sys.path)  # a program in a file cannot import the modules of this folder
    with tempfile.TemporaryDirectory() as empty:
        environment = os.environ | {"NUMBA_CACHE_DIR": cached or empty, "PYTHONPATH": path}
        process = subprocess.Popen([sys.executable, str(program)], env=environment)
        _, status, used = os.wait4(process.pid, 0)
    if status:
        raise RuntimeError(f"The program of the first second ended with status {status}.")
    return round(used.ru_utime + used.ru_stime, 2), round(used.ru_maxrss / 1024)


# ---- path
N_FEATURES, RANK, SUPPORT = 30, 2, (3, 8, 14, 21, 27)
_SAMPLES, _STRENGTHS = 300, 20


def sequences(
    n_relevant: int, mixing: NDArray, noise: bool, seed: int, n_samples: int
) -> tuple[list[NDArray], list[NDArray]]:
    """Draw sequences Z @ mixing, and labels that only the first ``n_relevant`` columns of Z
    follow."""
    n_drawn, rng = n_relevant if noise else N_FEATURES, np.random.default_rng(seed)
    options: Any = {"jump": 1.5, "random_state": seed}
    data = make_change_points(10, n_samples, n_drawn, n_relevant, (3, 6), **options)
    rest = n_samples, N_FEATURES - n_drawn
    wide = (np.hstack([X, rng.standard_normal(rest)]) for X in data.sequences)
    return [Z @ mixing for Z in wide], data.labels


@cache
def planted(diagonal: bool, noise: bool, tiny: bool) -> tuple[Timing, frozenset[int]]:
    """Compute a path on data with planted support or rank. Return a timing with the path as its
    result, and the indices of the weights that should not be zero."""
    solver = ml.BundleDual(tolerance=_TOLERANCE)
    if diagonal:
        learner = ml.ChangePointMetricLearner(ml.DiagonalMetric(), ml.L1(), solver, verbose=False)
        columns = [*SUPPORT, *(p for p in range(N_FEATURES) if p not in SUPPORT)]
        mixing, where = np.eye(N_FEATURES)[columns], frozenset(SUPPORT)
    else:
        learner = ml.ChangePointMetricLearner(ml.FullMetric(), ml.Trace(), solver, verbose=False)
        normal = np.random.default_rng(0).standard_normal((N_FEATURES, N_FEATURES))
        mixing, where = np.linalg.qr(normal)[0], frozenset(range(RANK))
    n_samples, n_strengths = (60, 4) if tiny else (_SAMPLES, _STRENGTHS)
    train, validation = (sequences(len(where), mixing, noise, seed, n_samples) for seed in (0, 1))
    call = partial(ml.regularization_path, learner, *train, n_strengths, validation=validation)
    return Timing().run(call), where


def not_zero(path: RegularizationPath, i: int) -> frozenset[int]:
    """Return the indices of the weights that are not zero at the i-th strength. If the metric has
    rank r, these are the r largest weights. For a full metric, weights are eigenvalues in
    decreasing order."""
    rank = path.solutions[i].rank
    return frozenset(np.argsort(-path.weights[i], kind="stable")[:rank].tolist())


_PLANTED = (f"Trace: rank {RANK} of {N_FEATURES}", f"L1: {len(SUPPORT)} of {N_FEATURES} features")


@BENCH.table(
    "Planted problems",
    [(name, rest) for rest in ("noise", "changes on its own") for name in _PLANTED],
    part="path",
)
def planted_row(case: tuple[str, str], run: Run) -> Row:
    """Compute a path, and tell where it finds the planted metric.

    Where the rest is noise, almost the whole path is exact. Where the rest changes on its own, the
    optimum keeps some of it at all but the strongest strengths, and the strength that validates
    best, being chosen for prediction, is weaker than those.
    """
    name, rest = case
    timing, where = planted(name == _PLANTED[1], rest == "noise", run.tiny)
    path = timing.result
    best, kept = path.best, [not_zero(path, i) for i in range(len(path))]
    exact = path.strengths[[here == where for here in kept]]
    weights = path.weights[best]
    if rest == "noise":
        run.kept.setdefault("paths", {}).update(drawn(name.partition(":")[0], path, where))
    return {
        "planted": f"{name}, the rest {rest}",
        "not zero, from strong to weak": " ".join(str(len(here)) for here in kept),
        "exact at": f"{len(exact)} of {len(path)}",
        "strengths": f"{exact[0]:.2g} to {exact[-1]:.2g}" if len(exact) else "-",
        "validated": f"{path.strengths[best]:.2g}",
        "not zero there": len(kept[best]),
        "share of the planted there": f"{weights[list(where)].sum() / weights.sum():.3f}",
        "largest gap": f"{max(s.relative_gap for s in path.solutions):.0e}",
        **timing.cells,
    }


def drawn(name: str, path: RegularizationPath, where: frozenset[int]) -> dict[str, Any]:
    """Return the data of one path for :func:`draw_paths`, in a dict with the title of its panel as
    the only key. The title tells how many weights are not zero at the validated strength, and how
    many of them are planted."""
    kept, diagonal = not_zero(path, path.best), path.diagonal
    noun = "features" if diagonal else "eigenvalues"
    names = [
        f"{noun[:-1]} {p if diagonal else p + 1}{', planted' if p in where else ''}"
        for p in range(N_FEATURES)
    ]
    title = f"{name} keeps the {len(where)} planted of {N_FEATURES} {noun}"
    if kept != where:
        some = f"{len(kept & where)} of them planted"
        title = f"{name} keeps {len(kept)} of {N_FEATURES} {noun}, {some}"
    fields = {name: getattr(path, name) for name in ("strengths", "weights", "validation_loss")}
    return {title: fields | {"feature_names": names}}


def draw_paths(record: Mapping[str, Any]) -> Figure:
    """Plot the weights against the strength, above the validation loss, in one panel for each
    path."""
    figure = Figure(figsize=(12.0, 5.2), layout="constrained")
    axes = figure.subplots(1, len(record["paths"]))
    for ax, (title, path) in zip(axes, record["paths"].items()):
        plot_regularization_path(**path, ax=ax, title=title)
    return figure


if __name__ == "__main__":
    BENCH.main()
