"""Regularization paths on planted problems: does the path find the planted rank and support?

    python -m experiments.benchmarks.regularization_path [--out FOLDER] [--images FOLDER]

Ten sequences of 300 samples with 30 features and 3 to 6 segments for training, ten for
validation. ``rank`` plants two relevant directions, random ones, in a full metric with the trace;
``support`` plants five relevant features in a diagonal metric with L1. The other directions or
features are either noise, or change as much as the relevant ones, at times of their own. Strengths
are 20 from the one at which the metric vanishes to a thousandth of it; gaps are at most 1e-4 of the
objective with no metric. "Exact" means the planted support, or two eigenvalues that are not zero.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from experiments.benchmarks.machine import Report, options_of
from metriclearn import (
    L1,
    BundleDual,
    ChangePointMetricLearner,
    DiagonalMetric,
    FullMetric,
    Trace,
)
from metriclearn.datasets import make_change_points
from metriclearn.estimators.path import RegularizationPath, regularization_path

P, RANK, SUPPORT = 30, 2, (3, 8, 14, 21, 27)
_SAMPLES, _TOLERANCE, _STRENGTHS = 300, 1e-4, 20


@dataclass(frozen=True)
class Planted:
    """A path, and what is not zero at every strength.

    Attributes
    ----------
    planted : set of int
        Positions of the weights (eigenvalues in decreasing order) that ought not to be zero.
    """

    name: str
    path: RegularizationPath
    planted: frozenset[int]
    seconds: float

    def found(self, i: int) -> frozenset[int]:
        """Weights that are not zero at strength i, by the rank of the solution."""
        rank = self.path.solutions[i].rank
        return frozenset(np.argsort(-self.path.weights[i], kind="stable")[:rank].tolist())

    def row(self) -> dict[str, Any]:
        """One line of the table."""
        path, best = self.path, self.path.best
        found = [self.found(i) for i in range(len(path))]
        exact = path.strengths[[here == self.planted for here in found]]
        weights = path.weights[best]
        share = weights[list(self.planted)].sum() / weights.sum()
        return {
            "planted": self.name,
            "not zero, from strong to weak": " ".join(str(len(here)) for here in found),
            "exact at": f"{len(exact)} of {len(path)}",
            "strengths": f"{exact[0]:.2g} to {exact[-1]:.2g}" if len(exact) else "-",
            "validated": f"{path.strengths[best]:.2g}",
            "not zero there": len(found[best]),
            "exact there": "yes" if found[best] == self.planted else "NO",
            "share of the planted there": f"{share:.3f}",
            "largest gap": f"{max(s.relative_gap for s in path.solutions):.0e}",
            "processor seconds": round(self.seconds, 1),
        }


def sequences(
    n_relevant: int, mixing: NDArray, noise: bool, seed: int
) -> tuple[list[NDArray], list[NDArray]]:
    """Sequences Z @ mixing, of which the first ``n_relevant`` columns of Z matter, and labels."""
    data = make_change_points(
        10, _SAMPLES, n_relevant if noise else P, n_relevant, (3, 6), jump=1.5, random_state=seed
    )
    rng = np.random.default_rng(seed)
    rest = (_SAMPLES, P - data.sequences[0].shape[1])
    wide = [np.hstack([X, rng.standard_normal(rest)]) for X in data.sequences]
    return [Z @ mixing for Z in wide], data.labels


def planted(name: str, learner: ChangePointMetricLearner, noise: bool) -> Planted:
    """The path of a learner on data with the support or the rank planted."""
    if learner.metric.polyhedral:
        columns = [*SUPPORT, *(p for p in range(P) if p not in SUPPORT)]
        mixing, n_relevant, where = np.eye(P)[columns], len(SUPPORT), frozenset(SUPPORT)
    else:
        normal = np.random.default_rng(0).standard_normal((P, P))
        mixing, n_relevant, where = np.linalg.qr(normal)[0], RANK, frozenset(range(RANK))
    train, validation = (sequences(n_relevant, mixing, noise, seed) for seed in (0, 1))
    begun = time.process_time()
    path = regularization_path(learner, *train, _STRENGTHS, validation=validation)
    return Planted(name, path, where, time.process_time() - begun)


def draw(paths: list[Planted], path: Path) -> None:
    """Weights against strength over the validation loss, side by side."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12.0, 5.2))
    for i, item in enumerate(paths):
        ax = figure.add_axes((0.06 + 0.5 * i, 0.1, 0.42, 0.74))
        item.path.plot(ax)
        title = f"{item.name}; found {len(item.found(item.path.best))}"
        ax.set_title(title, loc="left", pad=38, fontsize=11, fontweight="bold")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    print(f"Saved {path}")


def main() -> None:
    """Follow all paths; print, save and draw those with noise."""
    parser = options_of(__doc__, timed=False)
    parser.add_argument("--images", type=Path, default=Path("docs/images"), help="the picture")
    options = parser.parse_args()
    solver = BundleDual(tolerance=_TOLERANCE)
    full = ChangePointMetricLearner(FullMetric(), Trace(), solver, verbose=False)
    diagonal = ChangePointMetricLearner(DiagonalMetric(), L1(), solver, verbose=False)
    report = Report("regularization_path", threads=1, tolerance=_TOLERANCE)
    with threadpool_limits(1):
        results = [
            planted(f"{what}, the rest {rest}", learner, rest == "noise")
            for rest in ("noise", "changes on its own")
            for what, learner in (
                (f"Trace: rank {RANK} of {P}", full),
                (f"L1: {len(SUPPORT)} of {P} features", diagonal),
            )
        ]
    report.table(
        "Planted problems",
        [result.row() for result in results],
        "Where the rest is noise, almost the whole path is exact. Where the rest changes on its "
        "own, the optimum keeps some of it at all but the strongest strengths, and the "
        "strength that validates best, being chosen for prediction, is weaker than those.",
    )
    report.save(options.out)
    draw(results[:2], options.images / "regularization_path.png")


if __name__ == "__main__":
    main()
