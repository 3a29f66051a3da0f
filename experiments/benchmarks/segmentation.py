"""Change-points and states against the unsupervised methods of the field, as they were published.

    python -m experiments.benchmarks.segmentation [--only hapt tcpd tssb utsa]

HAPT: 12 users train, 6 test; the change-points of aeon's and claspy's segmenters on the test users
are in ``hapt_segmenters.json``, made by :mod:`experiments.benchmarks.segmenters`. TCPD: one series
is left out at a time. TSSB and UTSA: five folds of series. Everything that is learned or chosen
comes from the other series or users. Covering and F1 are those of the Turing benchmark.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.vq import whiten
from sklearn.cluster import KMeans, SpectralClustering
from sklearn.model_selection import KFold, LeaveOneOut

from experiments.benchmarks.machine import Report, options_of
from experiments.comparison import group_cases, group_folds
from metriclearn import (
    ChangePointMetricLearner,
    ClusteringMetricLearner,
    FullMetric,
    LowRankForm,
    Partition,
    SquaredFrobenius,
)
from metriclearn.baselines import RelevantComponents, TunedSegmenter
from metriclearn.datasets import LabeledSequences, load_hapt, load_tcpd, registry
from metriclearn.indices import adjusted_mutual_info_score, covering, f_measure, precision_recall
from metriclearn.oracles.change_points import PricedSegmentation
from metriclearn.oracles.path import SegmentationPath, hull_vertices, path_along

PEERS = Path(__file__).parent / "hapt_segmenters.json"
STRENGTHS = (3e-3, 1e-2, 3e-2, 1e-1)
PRICES = np.geomspace(1e-3, 30.0, 200)  # of a segment, times the variance of a series and T
Row = dict[str, Any]


def boundaries_f1(true: NDArray, found: Any, margin: float = 2) -> float:
    """F1 of inner change-points within a second, two windows; 0 where none is found."""
    if len(found) == 0 or found[-1] != true[-1]:
        found = [*found, true[-1]]
    if len(found) < 2:
        return 0.0
    precision, recall = precision_recall(true, found, margin=margin)
    return 2.0 * precision * recall / max(precision + recall, 1e-12)


def tuned_learner(train: LabeledSequences) -> ChangePointMetricLearner:
    """The full metric, its strength chosen by four folds of the training groups."""
    losses = []
    for strength in STRENGTHS:
        learner = ChangePointMetricLearner(FullMetric(), SquaredFrobenius(strength))
        parts = group_folds(train, 4)
        folds = [(train.select(rest), train.select(held_out)) for rest, held_out in parts]
        scores = [learner.fit(a.sequences, a.labels).score(b.sequences, b.labels) for a, b in folds]
        losses.append(-np.mean(scores))
    best = SquaredFrobenius(STRENGTHS[int(np.argmin(losses))])
    return ChangePointMetricLearner(FullMetric(), best).fit(train.sequences, train.labels)


def hapt(report: Report, tiny: bool) -> None:
    """Boundaries and states on the test users of HAPT."""
    segments = load_hapt(unlabeled="keep")
    activities = load_hapt(unlabeled="keep", labels="activities")
    if tiny:
        segments, activities = segments.select(range(8)), activities.select(range(8))
    (case,) = group_cases(segments, 1 if tiny else 6, False, 2, 0)
    train, test = case.train, case.test
    named_train, named_test = activities.split_by_group(
        groups=[sorted(set(train.groups)), sorted(set(test.groups))]
    )
    learner = tuned_learner(train)
    euclidean = TunedSegmenter().fit(train.sequences, train.labels)
    truths = test.change_points
    rows: list[Row] = []
    for method, segmenter in {"ours, full metric": learner, "Euclidean": euclidean}.items():
        found = segmenter.predict_change_points(test.sequences)
        labels = "metric, penalty" if segmenter is learner else "penalty"
        scores = list(map(boundaries_f1, truths, found))
        rows.append(boundary_row(method, labels, scores, [len(ends) - 1 for ends in found]))
    by_channel: dict[str, list[Row]] = {}
    for title, runs in json.loads(PEERS.read_text(encoding="utf-8")).items():
        method, _, channel = title.partition("/")
        if not set(test.names) <= set(runs):
            continue
        found = [runs[name] for name in test.names]
        row = boundary_row(method, "none", list(map(boundaries_f1, truths, found)),
                           list(map(len, found)))  # fmt: skip
        row["method"] += f", channel {channel} (the best here)" if channel else ""
        by_channel.setdefault(method, []).append(row)
    rows += [max(several, key=lambda row: row["F1 at ± 1 s"]) for several in by_channel.values()]
    report.table(
        "HAPT: boundaries on test users",
        sorted(rows, key=lambda row: -row["F1 at ± 1 s"]),
        f"{len(test)} recordings with {np.mean([len(t) - 1 for t in truths]):.1f} boundaries on "
        "average. K given: the method is told the true number; of methods for one channel the one "
        "best on these recordings is shown, in their favor.",
    )
    report.table(
        "HAPT: states against activities on test users",
        list(state_rows(learner, euclidean, named_train, named_test, tiny)),
        "Adjusted mutual information over labeled windows: mean over recordings, and of all "
        "recordings together where names are common to them. K given: the true number of "
        "activities in each recording.",
    )


def boundary_row(
    method: str,
    labels: str,
    scores: list[float],
    counts: list[int],
    measure: str = "F1 at ± 1 s",
) -> Row:
    """One line of a table of boundaries."""
    error = np.std(scores, ddof=1) / np.sqrt(len(scores)) if len(scores) > 1 else 0.0
    return {
        "method": method,
        "learned from labels": labels,
        measure: float(np.mean(scores)),
        "standard error": float(error),
        "boundaries": float(np.mean(counts)),
    }


def state_rows(
    learner: Any, euclidean: Any, train: LabeledSequences, test: LabeledSequences, tiny: bool
) -> Iterator[Row]:
    """Agreement of states with activities, ours and clusterings of windows and of segments."""
    known = [labels >= 0 for labels in test.labels]
    truths = [labels[rows] for labels, rows in zip(test.labels, known)]
    counts = [len(set(truth)) for truth in truths]

    def row(method: str, labels: str, states: Sequence[NDArray], named: bool = False) -> Row:
        parts = [state[rows] for state, rows in zip(states, known)]
        each = [adjusted_mutual_info_score(*pair) for pair in zip(truths, parts)]
        line: Row = {
            "states": method,
            "learned from labels": labels,
            "mean over recordings": float(np.mean(each)),
            "all together": "",
        }
        if named:
            pooled = adjusted_mutual_info_score(np.concatenate(truths), np.concatenate(parts))
            line["all together"] = float(pooled)
        return line

    metrics = {
        "the metric of segments": None,
        "RCA": RelevantComponents(),
        "the hinge on the general partition": ClusteringMetricLearner(),
    }
    for name, metric in metrics.items():
        learner.fit_states(train.sequences, train.labels, metric=metric)
        states = learner.predict_states(test.sequences)
        yield row(f"nearest labeled state, {name}", "metric, penalty, states", states, True)
        learner.fit_states(train.sequences, train.labels, metric=metric, named=False)
        states = learner.predict_states(test.sequences)
        yield row(f"DP-means at a learned price, {name}", "metric, penalty, price", states)
        states = learner.predict_states(test.sequences, counts)
        yield row(f"K-means of segments, K given, {name}", "metric, penalty", states)
    states = euclidean.predict_states(test.sequences, counts)
    yield row("Euclidean segments, K-means, K given", "penalty", states)
    windows = [whiten(X - X.mean(axis=0)) for X in test.sequences]
    means = [KMeans(k, n_init=10, random_state=0).fit_predict(Z) for Z, k in zip(windows, counts)]
    yield row("windows, K-means, K given", "none", means)
    graph = {"affinity": "nearest_neighbors", "random_state": 0}
    yield row("windows, spectral clustering, K given", "none", [
        SpectralClustering(k, **graph).fit_predict(Z) for Z, k in zip(windows, counts)
    ])  # fmt: skip
    spectral = []
    for X, Z, k in zip(test.sequences, windows, counts):
        partition = Partition(ends=euclidean.predict_change_points(X))
        pooled = partition.pool(Z) / partition.sizes[:, None]
        few = min(k, len(pooled) - 1)
        clusterer = SpectralClustering(few, random_state=0, affinity="rbf", gamma=0.1 / len(Z[0]))
        spectral.append(clusterer.fit_predict(pooled)[partition.labels])
    yield row("Euclidean segments, spectral clustering, K given", "penalty", spectral)


def standardized(X: NDArray) -> NDArray:
    """Columns of mean 0 and variance 1; constant ones are 0."""
    Z = X - X.mean(axis=0)
    deviation = Z.std(axis=0)
    return Z / np.where(deviation > 0, deviation, 1.0)


def slopes(x: NDArray, share: int) -> NDArray:
    """Least-squares slope of a series around every sample, in windows of 2T / share samples."""
    reach = max(2, round(len(x) / share))
    windows = (x[max(0, t - reach) : t + reach + 1] for t in range(len(x)))
    return np.array([np.polyfit(np.arange(len(w)), w, 1)[0] for w in windows])


def path_of(Z: NDArray, most: int = 25) -> SegmentationPath:
    """Optimal segmentations for all prices down to about ``most`` segments."""
    problem = PricedSegmentation(LowRankForm(Z), 1)
    vertices = hull_vertices(problem, *problem.extremes, min(len(Z), most))
    return path_along(vertices, 0.0, (0.0, np.inf))


def along_prices(
    Z: NDArray, unit: float, score: Callable[[NDArray], tuple[float, float]]
) -> NDArray:
    """Covering and F1 at every price of :data:`PRICES`, (2, prices)."""
    path = path_of(Z)
    scores = np.array([score(ends) for ends in path.change_points])
    return scores[path.positions(PRICES * unit)].T


def left_out(tables: NDArray, folds: Any) -> tuple[NDArray, NDArray]:
    """Covering and F1 of held-out series at the price best for the others, (2, N).

    Parameters
    ----------
    tables : array (candidates, N, 2, prices)
        Of equally good neighboring prices the middle one is taken; of candidates the best.

    Returns
    -------
    scores (2, N), and the candidate chosen for every series (N,)
    """
    N = tables.shape[1]
    scores, chosen = np.zeros((2, N)), np.zeros(N, dtype=int)
    for rest, held_out in folds.split(np.zeros(N)):
        mean = tables[:, rest].mean(axis=(1, 2))
        candidate = int(np.argmax(mean.max(axis=1)))
        best = np.flatnonzero(mean[candidate] >= mean[candidate].max() - 1e-12)
        price = best[len(best[: np.argmax(np.diff(best, append=10**9) > 1) + 1]) // 2]
        scores[:, held_out] = tables[candidate, held_out][:, :, price].T
        chosen[held_out] = candidate
    return scores, chosen


def tcpd(report: Report, tiny: bool) -> None:
    """One series of the Turing benchmark left out at a time, its price from the others."""
    series = [one for one in load_tcpd() if one.values.shape[1] == 1][: 4 if tiny else None]

    def table(features: Callable[[NDArray], NDArray], by_length: bool) -> NDArray:
        rows = []
        for one in series:
            T = len(one.values)
            marks = one.annotations

            def score(ends: NDArray, marks: Any = marks) -> tuple[float, float]:
                return covering(marks, ends), f_measure(marks, ends)

            unit = float(T if by_length else 250)
            rows.append(along_prices(standardized(features(one.values)), unit, score))
        return np.array(rows)

    with_slope = [
        lambda X, share=share: np.column_stack([X, slopes(X[:, 0], share)])
        for share in (20, 30, 40, 60)
    ]
    level = table(lambda X: X, True)
    both = [table(features, True) for features in with_slope]
    candidates = {
        "Euclidean, price times T": [level],
        "Euclidean, price constant": [table(lambda X: X, False)],
        "level and slope in T/30 samples, price times T": [both[3]],
        "level, or level and slope in T/30 to T/10 samples, chosen, price times T": [level, *both],
    }
    marks: list[Any] = [one.annotations for one in series]
    ends = [[len(one.values)] for one in series]
    zero = [(covering(*pair), f_measure(*pair)) for pair in zip(marks, ends)]
    rows: list[Row] = [tcpd_row("no change-point", "none", *np.mean(zero, axis=0))]
    for name, tables in candidates.items():
        scores, _ = left_out(np.array(tables), LeaveOneOut())
        rows.append(tcpd_row(name, "penalty", *scores.mean(axis=1)))
    best = level.max(axis=2).mean(axis=0)
    rows.append(tcpd_row("Euclidean, best penalty of each series", "oracle", *best))
    rows.append(tcpd_row("published: best default column", "none", 0.672, 0.698))
    rows.append(tcpd_row("published: best oracle column", "oracle", 0.784, 0.886))
    report.table(
        f"TCPD: {len(series)} univariate series, one left out",
        rows,
        "Mean over series; five annotators each, margin of 5 samples. Published columns: van den "
        "Burg & Williams 2020, best of each over their algorithms. That slopes are taken in T/30 "
        "samples was seen on all series: the line where it is chosen without the series left out "
        "is the honest one, and it is below Euclidean distances with a tuned penalty.",
    )


def tcpd_row(method: str, labels: str, cover: float, f1: float) -> Row:
    """One line of the tables of covering and F1."""
    return {
        "method": method,
        "learned from labels": labels,
        "covering": round(float(cover), 3),
        "F1": round(float(f1), 3),
    }


def window_features(x: NDArray, size: int, step: int) -> NDArray:
    """Crude features around every ``step``-th sample, standardized, in windows of ``size`` samples.

    Level, spread, steps and six bands of the spectrum.
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
    return standardized(np.column_stack([*extremes, *logs]))


def archive(report: Report, name: str, tiny: bool) -> None:
    """Five folds of the series of TSSB or UTSA, beside what was published for each series."""
    from metriclearn import datasets

    data = getattr(datasets, f"load_{name}")()
    data = data.select(range(6 if tiny else len(data)))
    kinds = {"series": str, "window_size": int}
    windows = registry.read(name, "change_points.csv", None, kinds).set_index("series")
    X, sizes, truths = [], [], []  # of every 300th part of a series
    for series, raw, ends in zip(data.names, data.sequences, data.change_points):
        size = max(len(raw) // 300, 1)
        width = int(
            np.clip(3 * windows.loc[series, "window_size"], max(2 * size, 8), len(raw) // 2)
        )
        Z = window_features(raw[:, 0], width, size)
        X.append(Z / np.sqrt(len(Z)))
        sizes.append(size)
        inner = np.unique(np.clip(np.round(ends[:-1] / size).astype(int), 1, len(Z) - 1))
        truths.append(Partition.from_change_points(inner, len(Z)))

    def scores(components: NDArray) -> NDArray:
        rows = []
        for Z, size, true in zip(X, sizes, data.change_points):
            T = int(true[-1])

            def score(
                ends: NDArray, size: int = size, true: NDArray = true, T: int = T
            ) -> tuple[float, float]:
                found = [*(ends[:-1] * size), T]
                return covering(true, found), f_measure(true, found, margin=int(0.01 * T))

            rows.append(along_prices(Z @ components.T, 1.0, score))
        return np.array(rows)

    folds = KFold(5, shuffle=True, random_state=0)
    euclidean, _ = left_out(scores(np.eye(X[0].shape[1]))[None], folds)
    ours = np.zeros_like(euclidean)
    for rest, held_out in folds.split(X):
        learner = ChangePointMetricLearner(verbose=False)
        learner.fit([X[i] for i in rest], [truths[i] for i in rest])
        L = learner.components_ if len(learner.components_) else np.eye(X[0].shape[1])
        tables = scores(L / np.linalg.norm(L))
        mean = tables[rest].mean(axis=(0, 1))
        ours[:, held_out] = tables[held_out][:, :, int(np.argmax(mean))].T
    rows = [
        tcpd_row("ours, diagonal metric of crude features", "metric, penalty", *ours.mean(axis=1)),
        tcpd_row("Euclidean, crude features", "penalty", *euclidean.mean(axis=1)),
    ]
    rows += published_rows(name, data.names)
    report.table(
        f"{name.upper()}: {len(data)} series, five folds",
        sorted(rows, key=lambda row: -row["covering"]),
        "Mean over series; margin of F1 1 % of the series. Published per series by Ermshaus, "
        "Schäfer & Leser, CLaP, 2025. Ours sees windows three times as long as the archive's, of "
        "which it knows level, spread, steps and six bands: ClaSP compares shapes of subsequences.",
    )


def published_rows(name: str, series: Sequence[str]) -> list[Row]:
    """Means of what was published for these series, a line for every method."""
    kinds = {"series": str, "method": str, "covering": float, "f1": float}
    published = registry.read(name, "published.csv", None, kinds)
    published = published[published["series"].isin(series)]
    means = published.groupby("method")[["covering", "f1"]].mean()
    return [tcpd_row(f"{who} (published)", "none", *values) for who, values in means.iterrows()]


def main() -> None:
    """Print and save the tables."""
    parser = options_of(__doc__)
    parts = ("hapt", "tcpd", "tssb", "utsa")
    parser.add_argument("--only", nargs="+", choices=parts, default=parts)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    report = Report("segmentation", options)
    for part in options.only:
        if part == "hapt":
            hapt(report, options.tiny)
        elif part == "tcpd":
            tcpd(report, options.tiny)
        else:
            archive(report, part, options.tiny)
    report.save()


if __name__ == "__main__":
    main()
