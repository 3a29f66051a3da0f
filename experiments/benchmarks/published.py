"""Covering and F1 of penalties and metrics that are learned from few series, with published
results.

    python -m experiments.benchmarks.published [--tiny]

TCPD (the Turing benchmark): each series is left out once. TSSB and UTSA: the series are divided
into five folds. Nothing is learned or chosen from the series that are scored. Covering and F1 are
defined as in the Turing benchmark. All methods of the league on these sets are in
``experiment=league``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import KFold, LeaveOneOut
from sklearn.preprocessing import scale

from experiments.benchmarks.benchmark import Benchmark, Run
from experiments.benchmarks.machine import Row
from metriclearn import ChangePointMetricLearner, Partition
from metriclearn.datasets import LabeledSequences, load_dataset, registry
from metriclearn.indices import covering, f_measure
from metriclearn.oracles.change_points import PenalizedSegmentation
from metriclearn.oracles.segmentation_path import SegmentationPath, path_between
from metriclearn.problem import LowRankForm
from metriclearn.problem.losses import FrobeniusLoss

BENCH = Benchmark("published", __doc__)
PENALTIES = np.geomspace(1e-3, 30.0, 200)  # of a segment, times the variance of a series and T
CENTERS = np.geomspace(4e-3, 1.6, 40)  # of random penalties, in the same unit
SPREADS = np.linspace(0.2, 2.5, 12)  # of their logarithms


def path_of(Z: NDArray, most: int = 25) -> SegmentationPath:
    """Compute the optimal segmentations at all penalties that leave at most about ``most``
    segments."""
    problem = PenalizedSegmentation(LowRankForm(Z), 1)
    return path_between(problem, *problem.extremes, min(len(Z), most))


def along_penalties(path: SegmentationPath, scores: NDArray, unit: float) -> NDArray[np.float64]:
    """Return the measures of the segmentations that are optimal at the penalties ``unit`` ·
    :data:`PENALTIES`, (n, penalties).

    ``scores`` (m, n) has n measures for each of the m segmentations of the path.
    """
    return scores[path.positions(PENALTIES * unit)].T


def agreed(path: SegmentationPath, scores: NDArray, unit: float) -> NDArray[np.float64]:
    """Choose a segmentation for a random penalty instead of a fixed one, and return its measures,
    (spreads, n, centers).

    No penalty is right for all series. So we treat the penalty as random: its logarithm is normally
    distributed. Every median of :data:`CENTERS` is tried with every standard deviation of
    :data:`SPREADS`. The optimum at the random penalty is then a random segmentation. Of all
    segmentations on the path, we choose the one with the largest expected agreement with this
    random segmentation. The measure of agreement is covering plus F1.
    """
    ends = path.change_points
    agreement = np.array([[covering(a, b) + f_measure(a, b) for b in ends] for a in ends])
    deviations = (np.log(PENALTIES) - np.log(CENTERS)[:, None]) / SPREADS[:, None, None]
    weights = np.exp(-0.5 * deviations**2)
    shares = weights @ np.eye(len(ends))[path.positions(PENALTIES * unit)]  # of every optimum
    return np.swapaxes(scores[np.argmax(shares @ agreement, axis=2)], 1, 2)


def left_out(tables: NDArray, folds: Any) -> NDArray[np.float64]:
    """Segment every series at the penalty that is best on the other series, and return its measures
    (n, N).

    The best penalty has the largest mean of the first two measures.

    Parameters
    ----------
    tables : array (candidates, N, n, penalties)
        Measures of every candidate, series and penalty. The candidate is chosen on the other
        series, too. Among equally good neighboring penalties, the middle one is taken.
    """
    N = tables.shape[1]
    scores = np.zeros((tables.shape[2], N))
    for rest, held_out in folds.split(np.zeros(N)):
        mean = tables[:, rest, :2].mean(axis=(1, 2))
        candidate = int(np.argmax(mean.max(axis=1)))
        best = np.flatnonzero(mean[candidate] >= mean[candidate].max() - 1e-12)
        penalty = best[len(best[: np.argmax(np.diff(best, append=10**9) > 1) + 1]) // 2]
        scores[:, held_out] = tables[candidate, held_out][:, :, penalty].T
    return scores


def turing(marks: Any, ends: Any) -> tuple[float, float, float]:
    """Compute covering, F1, and the mean of ‖M − N‖² over annotators."""
    found = Partition(ends=np.asarray(ends))
    norms = [FrobeniusLoss().squared_norm(found, Partition(ends=one)) for one in marks.values()]
    return covering(marks, ends), f_measure(marks, ends), float(np.mean(norms))


def turing_row(
    method: str, labels: str, cover: float, f1: float, squared_norm: float | None = None
) -> Row:
    """Make one line of the tables of covering and F1."""
    row = {
        "method": method,
        "learned from labels": labels,
        "covering": round(float(cover), 3),
        "F1": round(float(f1), 3),
    }
    return row if squared_norm is None else row | {"‖M − N‖²": round(float(squared_norm), 2)}


@BENCH.table(
    "TCPD: 23 univariate series, one left out",
    note="Mean over series; five annotators each, margin of 5 samples; of ‖M − N‖² the mean over "
    "annotators. Random penalty: log-normal, center and spread from the other series; the answer "
    "has the least expected error against the optima at all penalties. Penalties times T do not "
    "depend on how finely a series is sampled. Published columns: van den Burg & Williams 2020, "
    "best of each over their algorithms. What else was tried is told in docs/research.",
)
def tcpd(case: None, run: Run) -> list[Row]:
    """Leave out one series at a time. The others determine its penalty."""
    series = [one for one in load_dataset("tcpd") if one.values.shape[1] == 1]
    series = series[: 4 if run.tiny else None]
    cases = []
    for one in series:
        path = path_of(scale(one.values))
        scores = np.array([turing(one.annotations, ends) for ends in path.change_points])
        cases.append((path, scores, float(len(one.values))))
    fixed = np.array([along_penalties(*case) for case in cases])[None]
    random = np.swapaxes([agreed(*case) for case in cases], 0, 1)
    zero = [turing(one.annotations, [len(one.values)]) for one in series]
    rows = [turing_row("no change-point", "none", *np.mean(zero, axis=0))]
    for name, tables in (("penalty", fixed), ("random penalty", random)):
        scores = left_out(tables, LeaveOneOut()).mean(axis=1)
        rows.append(turing_row(f"Euclidean, {name} times T", "penalty", *scores))
    best = fixed[0][:, :2].max(axis=2).mean(axis=0)
    rows.append(turing_row("Euclidean, best penalty of each series", "oracle", *best))
    rows.append(turing_row("published: best default column", "none", 0.672, 0.698))
    rows.append(turing_row("published: best oracle column", "oracle", 0.784, 0.886))
    return rows


def window_features(x: NDArray, size: int, step: int) -> NDArray:
    """Compute simple features in windows of ``size`` samples around every ``step``-th sample, and
    standardize them.

    The features are the level, the spread, the steps from sample to sample, and six bands of the
    spectrum.
    """
    starts = np.arange(len(x) // step) * step + step // 2 - size // 2
    windows = np.lib.stride_tricks.sliding_window_view(x, size)
    rows = windows[np.clip(starts, 0, len(x) - size)]
    centered = rows - rows.mean(axis=1, keepdims=True)
    power = np.abs(np.fft.rfft(centered, axis=1))[:, 1:] ** 2 / size
    bands = [part.sum(axis=1) for part in np.array_split(power, min(6, power.shape[1]), axis=1)]
    bands += [bands[-1]] * (6 - len(bands))
    floor = 1e-3 * x.var() + 1e-12
    steps = np.mean(np.diff(rows, axis=1) ** 2, axis=1)
    logs = [np.log(band + floor) for band in [*bands, centered.var(axis=1), steps]]
    extremes = [rows.mean(axis=1), np.quantile(rows, 0.1, axis=1), np.quantile(rows, 0.9, axis=1)]
    return scale(np.column_stack([*extremes, *logs]))


def parts_of_series(name: str, data: LabeledSequences) -> tuple[list, list[int], list[Partition]]:
    """Divide every series into about 300 parts. Returns for each series the features of its parts,
    the number of samples per part, and the true segmentation of the parts."""
    kinds = {"series": str, "window_size": int}
    windows = registry.read(name, "change_points.csv", None, kinds).set_index("series")
    X, sizes, truths = [], [], []
    for series, raw, ends in zip(data.names, data.sequences, data.change_points):
        size = max(len(raw) // 300, 1)
        width = np.clip(3 * windows.loc[series, "window_size"], max(2 * size, 8), len(raw) // 2)
        Z = window_features(raw[:, 0], int(width), size)
        X.append(Z / np.sqrt(len(Z)))
        sizes.append(size)
        inner = np.unique(np.clip(np.round(ends[:-1] / size).astype(int), 1, len(Z) - 1))
        truths.append(Partition.from_change_points(inner, len(Z)))
    return X, sizes, truths


def published_rows(name: str, series: Sequence[str]) -> list[Row]:
    """Return the means of the published results on these series, one line per method."""
    kinds = {"series": str, "method": str, "covering": float, "f1": float}
    published = registry.read(name, "published.csv", None, kinds)
    published = published[published["series"].isin(series)]
    means = published.groupby("method")[["covering", "f1"]].mean()
    return [turing_row(f"{who} (published)", "none", *values) for who, values in means.iterrows()]


def archive(name: str, run: Run) -> list[Row]:
    """Compare our results on TSSB or UTSA, by cross-validation over five folds of the series, with
    published results."""
    data = load_dataset(name.lower())
    data = data.select(range(6 if run.tiny else len(data)))
    X, sizes, truths = parts_of_series(name.lower(), data)

    def scores(components: NDArray) -> NDArray:
        rows = []
        for Z, size, true in zip(X, sizes, data.change_points):
            T, path, pairs = int(true[-1]), path_of(Z @ components.T), []
            for ends in path.change_points:
                found = [*(ends[:-1] * size), T]
                margin = int(0.01 * T)
                pairs.append((covering(true, found), f_measure(true, found, margin=margin)))
            rows.append(along_penalties(path, np.array(pairs), 1.0))
        return np.array(rows)

    folds = KFold(5, shuffle=True, random_state=0)
    euclidean = left_out(scores(np.eye(X[0].shape[1]))[None], folds)
    ours = np.zeros_like(euclidean)
    for rest, held_out in folds.split(X):
        learner = ChangePointMetricLearner(verbose=False)
        learner.fit([X[i] for i in rest], [truths[i] for i in rest])
        L = learner.components_ if len(learner.components_) else np.eye(X[0].shape[1])
        tables = scores(L / np.linalg.norm(L))
        mean = tables[rest].mean(axis=(0, 1))
        ours[:, held_out] = tables[held_out][:, :, int(np.argmax(mean))].T
    title = "ours, diagonal metric of crude features"
    rows = [
        turing_row(title, "metric, penalty", *ours.mean(axis=1)),
        turing_row("Euclidean, crude features", "penalty", *euclidean.mean(axis=1)),
        *published_rows(name.lower(), data.names),
    ]
    return sorted(rows, key=lambda row: -row["covering"])


for _name, _count in {"TSSB": 50, "UTSA": 22}.items():
    BENCH.table(
        f"{_name}: {_count} series, five folds",
        [_name],
        "Mean over series; margin of F1 1 % of the series. Published per series by Ermshaus, "
        "Schäfer & Leser, CLaP, 2025. Ours sees windows three times as long as the archive's, of "
        "which it knows level, spread, steps and six bands: ClaSP compares shapes of subsequences.",
    )(archive)


if __name__ == "__main__":
    BENCH.main()
