"""Regularization paths on planted problems: does the path find the planted rank and support?

    python -m experiments.benchmarks.regularization_path [--out FOLDER]

Ten sequences of 300 samples, 30 features and 3 to 6 segments are used for training, and ten more
for validation. Problems of planted rank have two random relevant directions, for a full metric with
the trace as regularizer. Problems of planted support have five relevant features, for a diagonal
metric with L1. In some problems, all other directions or features are noise. In the others, they
change as much as the relevant ones, but at independent times. There are 20 strengths, from the one
at which the metric vanishes to a thousandth of it. Certified gaps are at most 1e-4 of the objective
of a zero metric. "Exact at" counts the strengths with an exact result. A support is exact if the
planted features, and no others, have nonzero weights. A rank is exact if two eigenvalues are
nonzero.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

import metriclearn as ml
from experiments.benchmarks.machine import Report, Timing, options_of
from metriclearn.datasets import make_change_points
from metriclearn.estimators.selection.regularization_path import (
    RegularizationPath,
    regularization_path,
)
from metriclearn.plots import plot_regularization_path

P, RANK, SUPPORT = 30, 2, (3, 8, 14, 21, 27)
_SAMPLES, _TOLERANCE, _STRENGTHS = 300, 1e-4, 20


def sequences(
    n_relevant: int, mixing: NDArray, noise: bool, seed: int, n_samples: int
) -> tuple[list[NDArray], list[NDArray]]:
    """Draw sequences Z @ mixing, and labels that only the first ``n_relevant`` columns of Z
    follow."""
    data = make_change_points(
        10, n_samples, n_relevant if noise else P, n_relevant, (3, 6), jump=1.5, random_state=seed
    )
    rng = np.random.default_rng(seed)
    rest = (n_samples, P - data.sequences[0].shape[1])
    wide = [np.hstack([X, rng.standard_normal(rest)]) for X in data.sequences]
    return [Z @ mixing for Z in wide], data.labels


def planted(diagonal: bool, noise: bool, tiny: bool) -> tuple[Timing, frozenset[int]]:
    """Compute a path on data with planted support or rank. Return a timing with the path as its
    result, and the indices of the weights that should not be zero."""
    solver = ml.BundleDual(tolerance=_TOLERANCE)
    if diagonal:
        learner = ml.ChangePointMetricLearner(ml.DiagonalMetric(), ml.L1(), solver, verbose=False)
        columns = [*SUPPORT, *(p for p in range(P) if p not in SUPPORT)]
        mixing, where = np.eye(P)[columns], frozenset(SUPPORT)
    else:
        learner = ml.ChangePointMetricLearner(ml.FullMetric(), ml.Trace(), solver, verbose=False)
        normal = np.random.default_rng(0).standard_normal((P, P))
        mixing, where = np.linalg.qr(normal)[0], frozenset(range(RANK))
    n_samples, n_strengths = (60, 4) if tiny else (_SAMPLES, _STRENGTHS)
    train, validation = (sequences(len(where), mixing, noise, seed, n_samples) for seed in (0, 1))
    call = partial(regularization_path, learner, *train, n_strengths, validation=validation)
    return Timing().run(call), where


def not_zero(path: RegularizationPath, i: int) -> frozenset[int]:
    """Return the indices of the weights that are not zero at the i-th strength. If the metric has
    rank r, these are the r largest weights. For a full metric, weights are eigenvalues in
    decreasing order."""
    rank = path.solutions[i].rank
    return frozenset(np.argsort(-path.weights[i], kind="stable")[:rank].tolist())


def row(name: str, timing: Timing, where: frozenset[int]) -> dict[str, Any]:
    """Make one line of the table."""
    path = timing.result
    best, kept = path.best, [not_zero(path, i) for i in range(len(path))]
    exact = path.strengths[[here == where for here in kept]]
    weights = path.weights[best]
    return {
        "planted": name,
        "not zero, from strong to weak": " ".join(str(len(here)) for here in kept),
        "exact at": f"{len(exact)} of {len(path)}",
        "strengths": f"{exact[0]:.2g} to {exact[-1]:.2g}" if len(exact) else "-",
        "validated": f"{path.strengths[best]:.2g}",
        "not zero there": len(kept[best]),
        "share of the planted there": f"{weights[list(where)].sum() / weights.sum():.3f}",
        "largest gap": f"{max(s.relative_gap for s in path.solutions):.0e}",
        **timing.cells,
    }


def draw(record: Mapping[str, Any]) -> Figure:
    """Plot the weights against the strength, above the validation loss, in one panel for each
    path."""
    figure = Figure(figsize=(12.0, 5.2), layout="constrained")
    axes = figure.subplots(1, len(record["paths"]))
    for ax, (title, path) in zip(axes, record["paths"].items()):
        plot_regularization_path(**path, ax=ax, title=title)
    return figure


def drawn(name: str, path: RegularizationPath, where: frozenset[int]) -> dict[str, Any]:
    """Return the data of one path for :func:`draw`, in a dict with the title of its panel as the
    only key. The title tells how many weights are not zero at the validated strength, and how many
    of them are planted."""
    kept, diagonal = not_zero(path, path.best), path.diagonal
    noun = "features" if diagonal else "eigenvalues"
    names = [
        f"{noun[:-1]} {p if diagonal else p + 1}{', planted' if p in where else ''}"
        for p in range(P)
    ]
    title = f"{name} keeps the {len(where)} planted of {P} {noun}"
    if kept != where:
        title = f"{name} keeps {len(kept)} of {P} {noun}, {len(kept & where)} of them planted"
    return {
        title: {
            "strengths": path.strengths,
            "weights": path.weights,
            "validation_loss": path.validation_loss,
            "feature_names": names,
        }
    }


def main() -> None:
    """Compute all paths, print and save. The file also has the data for a picture of the paths with
    noise."""
    options = options_of(__doc__).parse_args()
    report = Report("regularization_path", options, tolerance=_TOLERANCE)
    names = (f"Trace: rank {RANK} of {P}", f"L1: {len(SUPPORT)} of {P} features")
    results = {
        f"{name}, the rest {rest}": planted(name == names[1], rest == "noise", options.tiny)
        for rest in ("noise", "changes on its own")
        for name in names
    }
    report.table(
        "Planted problems",
        [row(name, timing, where) for name, (timing, where) in results.items()],
        "Where the rest is noise, almost the whole path is exact. Where the rest changes on its "
        "own, the optimum keeps some of it at all but the strongest strengths, and the "
        "strength that validates best, being chosen for prediction, is weaker than those.",
    )
    paths: dict[str, Any] = {}
    for name, (timing, where) in results.items():
        if "noise" in name:
            paths |= drawn(name.partition(":")[0], timing.result, where)
    report.save(paths=paths)


if __name__ == "__main__":
    main()
