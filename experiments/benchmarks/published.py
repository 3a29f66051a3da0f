"""Covering and F1 of penalties and metrics that are learned from few series, with published
results.

    python -m experiments.benchmarks.published [--only tcpd archives] [--tiny]

TCPD (the Turing benchmark): each series is the test series once. TSSB and UTSA: the committed
results of ``experiment=league``, where each third of the series is the test part once. No method
learns or chooses anything from its test series. Covering and F1 are defined as in the Turing
benchmark.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import LeaveOneOut
from sklearn.preprocessing import scale

from experiments.benchmarks.benchmark import Benchmark, Run
from experiments.benchmarks.machine import Row
from experiments.harness.committed import COMMITTED
from experiments.harness.results import OURS, read_results
from metriclearn import Partition
from metriclearn.datasets import load_dataset, registry
from metriclearn.indices import covering, f_measure
from metriclearn.oracles.change_points import PenalizedSegmentation
from metriclearn.oracles.segmentation_path import SegmentationPath, path_between
from metriclearn.problem import LowRankForm
from metriclearn.problem.losses import FrobeniusLoss

BENCH = Benchmark("published", __doc__)
PENALTIES = np.geomspace(1e-3, 30.0, 200)  # per segment; times the variance of a series and T
CENTERS = np.geomspace(4e-3, 1.6, 40)  # medians of random penalties, in the same unit
_OF_LEAGUE = {  # methods, and what they learn
    OURS: "metrics, penalties",
    "euclidean": "penalty",
    "equal cuts": "mean length",
    "one segment": "none",
}
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
    :data:`SPREADS`. The optimum at the random penalty is then a random segmentation. From the path,
    we choose the segmentation with the largest expected agreement with this random segmentation.
    The measure of agreement is covering plus F1.
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


@BENCH.table("TCPD: 23 univariate series, one left out", part="tcpd")
def tcpd(case: None, run: Run) -> list[Row]:
    """Leave out one series at a time. The others determine its penalty.

    Mean over series; five annotators each, margin of 5 samples; of ‖M − N‖² the mean over
    annotators. Random penalty: log-normal, center and spread from the other series; the answer has
    the least expected error against the optima at all penalties. Penalties times T do not depend
    on how finely a series is sampled. Published columns: van den Burg & Williams 2020, best of each
    over their algorithms. What else was tried is told in docs/research.
    """
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


def archive(name: str, run: Run) -> list[Row]:
    """List the published results and rows of the league, as means over the same series.

    Published per series by Ermshaus, Schäfer & Leser, CLaP, 2025. The league cuts a series into at
    most 400 blocks. The margin of its F1 is 1.25 to 2.5 % of a series, that of the published F1 is
    1 %; coverings can be compared.
    """
    kinds = {"series": str, "method": str, "covering": float, "f1": float}
    published = registry.read(name, "published.csv", None, kinds)
    rows = read_results(COMMITTED / "league.json")["rows"]
    found = {(row["method"], row["measure"]): row for row in rows if row["table"] == name}
    lines = [
        turing_row(
            f"{method} (league)",
            labels,
            *(found[method, one]["mean"] for one in ("covering", "boundary_f1")),
        )
        for method, labels in _OF_LEAGUE.items()
    ]
    series = found[OURS, "covering"]["units"]
    means = published[published["series"].isin(series)].groupby("method")[["covering", "f1"]].mean()
    lines += [turing_row(f"{who} (published)", "none", *values) for who, values in means.iterrows()]
    return sorted(lines, key=lambda row: -row["covering"])


for _name, _count in {"TSSB": 50, "UTSA": 22}.items():
    BENCH.table(f"{_name}: {_count} series", [_name.lower()], part="archives")(archive)

if __name__ == "__main__":
    BENCH.main()
