"""Compare our change-points and states with unsupervised methods and published results.

    python -m experiments.benchmarks.segmentation [--only hapt tcpd tssb utsa]

HAPT: 12 users are used for training, and 6 users for test. The change-points that segmenters of
aeon and claspy find for the test users are in ``hapt_segmenters.json``, which
:mod:`experiments.benchmarks.segmenters` writes. TCPD (the Turing benchmark): each series is left
out once. TSSB and UTSA: the series are divided into five folds. Nothing is learned or chosen from
the series or users that are scored. Covering and F1 are defined as in the Turing benchmark.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.vq import whiten
from sklearn.cluster import KMeans, SpectralClustering
from sklearn.model_selection import KFold, LeaveOneOut

from experiments.benchmarks.machine import Report, options_of
from experiments.harness.comparison import group_cases, group_folds
from metriclearn import (
    ChangePointMetricLearner,
    ClusteringMetricLearner,
    FullMetric,
    LowRankForm,
    Partition,
    SquaredFrobenius,
)
from metriclearn.baselines import RelevantComponents, TunedSegmenter
from metriclearn.datasets import LabeledSequences, load_dataset, registry
from metriclearn.estimators.penalties.interval_regression import IntervalRegression, target_interval
from metriclearn.indices import adjusted_mutual_info_score, covering, f_measure, precision_recall
from metriclearn.oracles.change_points import PenalizedSegmentation
from metriclearn.oracles.segmentation_path import SegmentationPath, path_between
from metriclearn.problem.losses import FrobeniusLoss
from metriclearn.views.sequence import SequenceFeatures

PEERS = Path(__file__).parent / "hapt_segmenters.json"
STRENGTHS = (3e-3, 1e-2, 3e-2, 1e-1)
PENALTIES = np.geomspace(1e-3, 30.0, 200)  # of a segment, times the variance of a series and T
CENTERS = np.geomspace(4e-3, 1.6, 40)  # of random penalties, in the same unit
SPREADS = np.linspace(0.2, 2.5, 12)  # of their logarithms
TURING_NOTE = """
Mean over series; five annotators each, margin of 5 samples; of ‖M − N‖² the mean over annotators.
Random penalty: log-normal, center and spread from the other series; the answer has the least
expected error against the optima at all penalties. Penalties times T do not depend on how finely a
series is sampled. Published columns: van den Burg & Williams 2020, best of each over their
algorithms. What else was tried is told in docs/research.
""".strip().replace("\n", " ")
Row = dict[str, Any]


def boundaries_f1(true: NDArray, found: Any, margin: float = 2) -> float:
    """Compute the F1 of inner change-points, by default within 2 windows (a second). The result is
    0 if no change-point is found."""
    if len(found) == 0 or found[-1] != true[-1]:
        found = [*found, true[-1]]
    if len(found) < 2:
        return 0.0
    precision, recall = precision_recall(true, found, margin=margin)
    return 2.0 * precision * recall / max(precision + recall, 1e-12)


def tuned_learner(train: LabeledSequences) -> ChangePointMetricLearner:
    """Fit a full metric. The strength is chosen by cross-validation over four folds of the
    groups."""
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
    """Report two tables for the test users of HAPT: boundaries, and states."""
    segments = load_dataset("hapt", unlabeled="keep")
    activities = load_dataset("hapt", unlabeled="keep", labels="activities")
    if tiny:
        segments, activities = segments.select(range(10)), activities.select(range(10))
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
    """Make one line of a table of boundaries."""
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
    """Yield rows that show how well states agree with activities. The states are predicted by our
    learners, or are clusters of windows or of segments."""
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
        yield row(f"DP-means at a learned penalty, {name}", "metric, penalty, penalty", states)
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
    cases = zip(euclidean.predict_change_points(test.sequences), windows, counts)
    spectral = [spectral_segments(*case) for case in cases]
    yield row("Euclidean segments, spectral clustering, K given", "penalty", spectral)


def spectral_segments(ends: NDArray, Z: NDArray, count: int) -> NDArray:
    """Cluster segments with a Gaussian kernel of their means, and return the label of every
    window."""
    partition = Partition(ends=ends)
    pooled = partition.pool(Z) / partition.sizes[:, None]
    few, width = min(count, len(pooled) - 1), 0.1 / Z.shape[1]
    clusterer = SpectralClustering(few, random_state=0, affinity="rbf", gamma=width)
    return clusterer.fit_predict(pooled)[partition.labels]


def standardized(X: NDArray) -> NDArray:
    """Scale columns to mean 0 and variance 1. Constant columns become 0."""
    Z = X - X.mean(axis=0)
    deviation = Z.std(axis=0)
    return Z / np.where(deviation > 0, deviation, 1.0)


def with_slope(X: NDArray, share: int) -> NDArray:
    """Append a column with the slopes of a series of T samples. A slope is fitted by least squares
    in a window of about 2T / share samples."""
    reach = max(2, round(len(X) / share))
    windows = (X[max(0, t - reach) : t + reach + 1, 0] for t in range(len(X)))
    fitted = [np.polyfit(np.arange(len(window)), window, 1)[0] for window in windows]
    return np.column_stack([X, fitted])


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


def left_out(tables: NDArray, folds: Any) -> tuple[NDArray, NDArray]:
    """Segment every series at the penalty that is best on the other series.

    The best penalty has the largest mean of the first two measures.

    Parameters
    ----------
    tables : array (candidates, N, n, penalties)
        Measures of every candidate, series and penalty. The candidate is chosen on the other
        series, too. Among equally good neighboring penalties, the middle one is taken.

    Returns
    -------
    The measures of every series (n, N), and the index of the candidate chosen for it (N,).
    """
    N = tables.shape[1]
    scores, chosen = np.zeros((tables.shape[2], N)), np.zeros(N, dtype=int)
    for rest, held_out in folds.split(np.zeros(N)):
        mean = tables[:, rest, :2].mean(axis=(1, 2))
        candidate = int(np.argmax(mean.max(axis=1)))
        best = np.flatnonzero(mean[candidate] >= mean[candidate].max() - 1e-12)
        penalty = best[len(best[: np.argmax(np.diff(best, append=10**9) > 1) + 1]) // 2]
        scores[:, held_out] = tables[candidate, held_out][:, :, penalty].T
        chosen[held_out] = candidate
    return scores, chosen


def tcpd(report: Report, tiny: bool) -> None:
    """Report the table of the Turing benchmark. One series is left out at a time, and the others
    determine its penalty."""
    series = [one for one in load_dataset("tcpd") if one.values.shape[1] == 1][
        : 4 if tiny else None
    ]
    lengths = np.array([len(one.values) for one in series])
    units = {
        "times T": lengths,
        "times √T": np.sqrt(250.0 * lengths),
        "constant": 0 * lengths + 250,
    }

    def optima(features: Callable[[NDArray], NDArray]) -> list[tuple[SegmentationPath, NDArray]]:
        paths = [path_of(standardized(features(one.values))) for one in series]
        pairs = zip(paths, [one.annotations for one in series])
        return [
            (path, np.array([turing(m, ends) for ends in path.change_points])) for path, m in pairs
        ]

    def table(cases: Any, unit: NDArray, measures: Any = along_penalties) -> NDArray:
        return np.array([measures(*case, float(one)) for case, one in zip(cases, unit)])

    level = optima(lambda X: X)
    fixed = {name: table(level, unit) for name, unit in units.items()}
    random = {name: np.swapaxes(table(level, unit, agreed), 0, 1) for name, unit in units.items()}
    slope = [table(optima(partial(with_slope, share=s)), lengths) for s in (20, 30, 40, 60)]
    learned = {f"Euclidean, penalty {name}": values[None] for name, values in fixed.items()}
    learned |= {f"Euclidean, random penalty {name}": values for name, values in random.items()}
    learned |= {
        "Euclidean, random penalty, its unit chosen, too": np.concatenate([*random.values()]),
        "level, or level and slope in T/30 to T/10 samples, chosen, penalty times T": np.array(
            [fixed["times T"], *slope]
        ),
    }
    zero = [turing(one.annotations, [len(one.values)]) for one in series]
    rows = [turing_row("no change-point", "none", *np.mean(zero, axis=0))]
    for name, tables in learned.items():
        scores, _ = left_out(tables, LeaveOneOut())
        rows.append(turing_row(name, "penalty", *scores.mean(axis=1)))
    name = "Euclidean, penalty by interval regression on log T and log noise"
    rows.append(turing_row(name, "penalty", *np.mean(regressed_penalties(series, level), axis=0)))
    best = fixed["times T"][:, :2].max(axis=2).mean(axis=0)
    rows.append(turing_row("Euclidean, best penalty of each series", "oracle", *best))
    rows.append(turing_row("published: best default column", "none", 0.672, 0.698))
    rows.append(turing_row("published: best oracle column", "oracle", 0.784, 0.886))
    title = f"TCPD: {len(series)} univariate series, one left out"
    report.table(title, rows, TURING_NOTE)


def regressed_penalties(series: Sequence[Any], optima: Sequence[Any]) -> list[NDArray]:
    """For every series, fit interval regression to the other series, and predict a penalty of this
    series. Return the measures of all series, segmented at these penalties."""
    names = SequenceFeatures(("log_length", "log_noise"))
    rows = names.fit_transform([standardized(one.values) for one in series])
    intervals = [target_interval(path, -scores[:, :2].mean(axis=1)) for path, scores in optima]
    measures = []
    for rest, (i,) in LeaveOneOut().split(rows):
        regression = IntervalRegression().fit(rows[rest], np.array(intervals)[rest])
        path, scores = optima[i]
        measures.append(scores[path.positions(np.exp(regression.predict(rows[[i]])))[0]])
    return measures


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
    return standardized(np.column_stack([*extremes, *logs]))


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


def archive(report: Report, name: str, tiny: bool) -> None:
    """Report a table for TSSB or UTSA, with our results, by cross-validation over five folds of the
    series, and with published results."""
    data = load_dataset(name)
    data = data.select(range(6 if tiny else len(data)))
    X, sizes, truths = parts_of_series(name, data)

    def scores(components: NDArray) -> NDArray:
        rows = []
        for Z, size, true in zip(X, sizes, data.change_points):
            T = int(true[-1])

            def score(
                ends: NDArray, size: int = size, true: NDArray = true, T: int = T
            ) -> tuple[float, float]:
                found = [*(ends[:-1] * size), T]
                return covering(true, found), f_measure(true, found, margin=int(0.01 * T))

            path = path_of(Z @ components.T)
            rows.append(along_penalties(path, np.array(list(map(score, path.change_points))), 1.0))
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
        turing_row(
            "ours, diagonal metric of crude features", "metric, penalty", *ours.mean(axis=1)
        ),
        turing_row("Euclidean, crude features", "penalty", *euclidean.mean(axis=1)),
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
    """Return the means of the published results on these series, one line per method."""
    kinds = {"series": str, "method": str, "covering": float, "f1": float}
    published = registry.read(name, "published.csv", None, kinds)
    published = published[published["series"].isin(series)]
    means = published.groupby("method")[["covering", "f1"]].mean()
    return [turing_row(f"{who} (published)", "none", *values) for who, values in means.iterrows()]


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
