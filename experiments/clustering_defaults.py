"""How the defaults of the clustering learners were chosen: many small tables, Iris and Wine apart.

``python -m experiments.clustering_defaults`` draws three classes of Letters, Digits or Libras, or
the two of Breast cancer, up to 27 samples of each class for training and as many held out, sixty
times, and writes docs/clustering_defaults.md: the mean ‖M − N‖² of K-means on the held-out samples
for every setting. Iris and Wine, the small tables of the results, take no part.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

from metriclearn import (
    ClusteringMetricLearner,
    FrobeniusLoss,
    FullMetric,
    Partition,
    SquaredFrobenius,
    Trace,
    WhitenedClusteringLearner,
)
from metriclearn.baselines import ClosedFormMetric, Euclidean, RelevantComponents
from metriclearn.datasets import (
    LabeledTable,
    load_breast_cancer,
    load_digits,
    load_letters,
    load_libras,
)
from metriclearn.oracles.averaged import Averaged
from metriclearn.oracles.local_search import LocalSearch
from metriclearn.oracles.spectral import SpectralRelaxation

Tables = tuple[LabeledTable, LabeledTable]
SOURCES: dict[str, tuple[Callable[[], LabeledTable], int]] = {
    "letters": (load_letters, 24),
    "digits": (load_digits, 12),
    "breast cancer": (load_breast_cancer, 12),
    "libras": (load_libras, 12),
}
MOST_PER_CLASS, MOST_FEATURES = 27, 16


def draw(table: LabeledTable, seed: int) -> Tables:
    """Training samples and held-out ones of up to three classes and 16 features."""
    random = np.random.RandomState(seed)
    parts: tuple[list[NDArray], list[NDArray]] = ([], [])
    for label in random.permutation(table.classes)[:3]:
        rows = random.permutation(np.flatnonzero(table.y == label))
        count = min(MOST_PER_CLASS, len(rows) // 2)
        parts[0].append(rows[:count])
        parts[1].append(rows[count : 2 * count])
    train, test = (np.concatenate(rows) for rows in parts)
    X = np.asarray(table.X, dtype=float)
    varies = np.flatnonzero(X[train].std(axis=0) > 1e-3 * X.std(axis=0).max())
    some = varies[random.permutation(len(varies))[:MOST_FEATURES]]
    names = ["x"] * len(some)
    return (
        LabeledTable(table.name, X[train][:, some], table.y[train], names),
        LabeledTable(table.name, X[test][:, some], table.y[test], names),
    )


def settings() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Name and estimator of everything that is compared."""
    yield "Euclidean", Euclidean
    for shrinkage in (0.03, 0.1, 0.3):
        yield (
            f"RCA, shrinkage {shrinkage:g}",
            partial(RelevantComponents, contiguous=False, shrinkage=shrinkage),
        )
    for ridge in (1.0, 0.1, 0.01):
        yield f"closed form, ridge {ridge:g}", partial(ClosedFormMetric, ridge=ridge)
    for strength in (1000.0, 300.0, 100.0, 30.0, 10.0, 1.0, 0.1):
        yield (
            f"full, squared {strength:g}",
            partial(
                ClusteringMetricLearner, FullMetric(), SquaredFrobenius(strength), verbose=False
            ),
        )
    for words, oracle in (("averaged", Averaged()), ("local search", LocalSearch())):
        for strength in (10.0, 1.0, 0.1, 1e-3):
            yield (
                f"full, {words}, squared {strength:g}",
                partial(
                    ClusteringMetricLearner,
                    FullMetric(),
                    SquaredFrobenius(strength),
                    oracle=oracle,
                    verbose=False,
                ),
            )
    for strength in (0.3, 0.1, 0.03, 0.01):
        yield (
            f"full, trace {strength:g}",
            partial(ClusteringMetricLearner, FullMetric(), Trace(strength), verbose=False),
        )
    for between in (0.0, 1.0):
        for shrinkage in (0.1, 0.3):
            for strength in (100.0, 10.0, 1.0):
                for words, oracle in (("relaxed", SpectralRelaxation()), ("averaged", Averaged())):
                    inner = ClusteringMetricLearner(
                        FullMetric(),
                        SquaredFrobenius(strength),
                        oracle=oracle,
                        standardize=False,
                        verbose=False,
                    )
                    kind = "total" if between else "within"
                    yield (
                        f"whitened {kind}, shrinkage {shrinkage:g}, {words}, squared {strength:g}",
                        partial(
                            WhitenedClusteringLearner,
                            inner,
                            shrinkage=shrinkage,
                            between=between,
                        ),
                    )


def held_out_loss(make: Callable[[], Any], train: LabeledTable, test: LabeledTable) -> float:
    """‖M − N‖² of K-means, K given, on the held-out samples under the metric of the others."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = make().fit(train.X, Partition.from_labels(train.y))
    Z = (test.X - test.X.mean(axis=0)) @ model.components_.T
    truth = Partition.from_labels(test.y)
    labels = KMeans(truth.n_clusters, n_init=5, random_state=0).fit_predict(Z)
    return float(FrobeniusLoss().squared_norm(Partition.from_labels(labels), truth))


def losses_of(make: Callable[[], Any], draws: list[Tables]) -> NDArray:
    """One loss per drawn table."""
    return np.array([held_out_loss(make, *tables) for tables in draws])


def main() -> None:
    """Compare all settings on all draws; write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("docs/clustering_defaults.md"))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--draws", type=int, help="from every source, at most")
    arguments = parser.parse_args()
    draws, sources = [], []
    for name, (load, count) in SOURCES.items():
        table = load()
        seeds = range(min(count, arguments.draws or count))
        draws += [draw(table, seed) for seed in seeds]
        sources += [name] * len(seeds)
    compared = list(settings())
    values = np.array(
        Parallel(arguments.jobs)(delayed(losses_of)(make, draws) for _, make in compared)
    )
    arguments.out.write_text(
        markdown([name for name, _ in compared], values, np.array(sources)), encoding="utf-8"
    )


def markdown(names: list[str], values: NDArray, sources: NDArray) -> str:
    """The table, settings × sources."""
    columns = list(dict.fromkeys(sources))
    lines = [
        "# How the defaults of the clustering learners were chosen",
        "",
        (__doc__ or "").split("\n\n", 1)[1].strip(),
        "",
        f"| setting | {' | '.join(columns)} | all {len(sources)} (± s.e.) |",
        "|---|" + "---:|" * (len(columns) + 1),
    ]
    for name, row in zip(names, values):
        cells = [f"{row[sources == column].mean():.3f}" for column in columns]
        error = row.std(ddof=1) / np.sqrt(len(row)) if len(row) > 1 else 0.0
        lines.append(f"| {name} | {' | '.join(cells)} | {row.mean():.3f} ± {error:.3f} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
