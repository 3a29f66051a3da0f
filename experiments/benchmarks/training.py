"""Measure the seconds and the memory of training to a certified gap.

    python -m experiments.benchmarks.training [--out FOLDER] [--repeats 7] [--only METRIC]

``main`` is the main synthetic problem: 10 sequences of 600 samples and 300 features, 10 of them
relevant, 6 to 9 segments. ``television`` has the size of the paper's TV shows: four sequences of
5400 samples, 200 features (20 relevant), 60 to 120 segments. ``matrix`` is for full metrics, whose
20 100 numbers dominate the cost: 20 sequences of 1000 samples, 200 features (20 relevant), 10 to 20
segments. Each row is trained in a separate process to a relative gap of 1e-3 (objective minus
certified lower bound, divided by the objective at the start), with the default strength of the
regularizer and a tenth of it. Peak memory counts everything: interpreter, compiled code and data.
Linear algebra has one thread. The last table shows how long a new user waits in a fresh process for
the interpreter, import, compiling, fit and prediction of ten short sequences. For its last row, the
same interpreter only imports scikit-learn and numba and calls an empty kernel.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

from sklearn.exceptions import ConvergenceWarning

import metriclearn as ml
from experiments.benchmarks import machine
from metriclearn.datasets import make_change_points

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
_GAP = 1e-3
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


def row(job: str, name: str, share: float, n_jobs: int, repeats: int) -> dict[str, Any]:
    """Time training with ``share`` times the default strength of the regularizer, and return one
    row."""
    data, test = (make_change_points(*DATA[job], random_state=seed) for seed in (0, 2))
    metric, regularizer = LEARNERS[name]
    strength = share * regularizer().strength
    learner = ml.ChangePointMetricLearner(
        metric, regularizer(strength), ml.BundleDual(tolerance=_GAP), n_jobs=n_jobs, verbose=False
    )
    warnings.simplefilter("ignore", ConvergenceWarning)
    timing = machine.timed(lambda: learner.fit(data.sequences, data.labels), repeats)
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


def first_second(repeats: int) -> list[dict[str, Any]]:
    """Time fresh processes, with an empty and with a filled cache of compiled code."""
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        for work, code in _FIRST.items():
            program = Path(folder, f"{len(rows)}.py")  # only code of files is kept by numba
            program.write_text(code, encoding="utf-8")
            for cache, kept in {"empty": None, "filled": folder}.items():
                runs = sorted(fresh(program, kept) for _ in range(repeats))
                seconds, peak = runs[repeats // 2]
                row = {"work": work, "cache": cache}
                rows.append({**row, "processor seconds": seconds, "peak MiB": peak})
    return rows


def fresh(program: Path, cache: str | None) -> tuple[float, int]:
    """Run a program in a new interpreter. Returns the processor seconds and the peak memory (MiB)
    of the program. The cache of compiled code is empty if no folder is given."""
    path = os.pathsep.join(sys.path)  # a program in a file cannot import the modules of this folder
    with tempfile.TemporaryDirectory() as empty:
        environment = os.environ | {"NUMBA_CACHE_DIR": cache or empty, "PYTHONPATH": path}
        process = subprocess.Popen([sys.executable, str(program)], env=environment)
        _, status, used = os.wait4(process.pid, 0)
    if status:
        raise RuntimeError(f"The program of the first second ended with status {status}.")
    return round(used.ru_utime + used.ru_stime, 2), round(used.ru_maxrss / 1024)


def main() -> None:
    """Train everything, print and save."""
    parser = machine.options_of(__doc__)
    parser.add_argument("--only", choices=LEARNERS, help="only this metric and regularizer")
    parser.add_argument("--job", choices=DATA, help="only this job")
    parser.add_argument("--threads", type=int, default=1, help="threads over sequences")
    options = parser.parse_args()
    facts = {"repeats": options.repeats, "threads": options.threads, "tolerance": _GAP}
    report = machine.Report("training", options, **facts)
    jobs = ["tiny"] if options.tiny else ["main", "television", "matrix"]
    for job in jobs if options.job is None else [options.job]:
        rows = [
            machine.in_own_process(row, job, name, share, options.threads, options.repeats)
            for name in LEARNERS
            if options.only in (None, name) and (job != "matrix" or name.startswith("full"))
            for share in (1.0, 0.1)
        ]
        report.table(job, rows, "A run of more than 10 s is not repeated.")
    report.table("The first second", first_second(options.repeats))
    report.save()


if __name__ == "__main__":
    main()
