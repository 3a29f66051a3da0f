"""How the defaults of the clustering learners were chosen: many small tables, Iris and Wine apart.

``python -m experiments.clustering_defaults`` draws three classes of Letters, Digits or Libras, or
the two of Breast cancer, up to 27 samples of each class for training and as many held out, sixty
times, and writes docs/clustering_defaults.md: the mean ‖M − N‖² of K-means on the held-out samples
for every setting. Iris and Wine, the small tables of the results, take no part.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.cluster import KMeans

from experiments.procedure import quiet, statistics
from experiments.report import markdown_table
from metriclearn import (
    Averaged,
    ClusteringMetricLearner,
    FrobeniusLoss,
    FullMetric,
    LocalSearch,
    Partition,
    SpectralRelaxation,
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

Tables = tuple[LabeledTable, LabeledTable]
SOURCES: dict[str, tuple[Callable[[], LabeledTable], int]] = {
    "letters": (load_letters, 24),
    "digits": (load_digits, 12),
    "breast cancer": (load_breast_cancer, 12),
    "libras": (load_libras, 12),
}
PARTITIONS: dict[str, Any] = {"averaged": Averaged(), "local search": LocalSearch()}
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


def learner(regularizer: Any, **options: Any) -> ClusteringMetricLearner:
    """A full metric."""
    return ClusteringMetricLearner(FullMetric(), regularizer, verbose=False, **options)


def settings() -> dict[str, Any]:
    """Everything that is compared, by name."""
    compared: dict[str, Any] = {"Euclidean": Euclidean()}
    for shrinkage in (0.03, 0.1, 0.3):
        rca = RelevantComponents(contiguous=False, shrinkage=shrinkage)
        compared[f"RCA, shrinkage {shrinkage:g}"] = rca
    for ridge in (1.0, 0.1, 0.01):
        compared[f"closed form, ridge {ridge:g}"] = ClosedFormMetric(ridge=ridge)
    for strength in (1000.0, 300.0, 100.0, 30.0, 10.0, 1.0, 0.1):
        compared[f"full, squared {strength:g}"] = learner(SquaredFrobenius(strength))
    for (words, oracle), strength in product(PARTITIONS.items(), (10.0, 1.0, 0.1, 1e-3)):
        name = f"full, {words}, squared {strength:g}"
        compared[name] = learner(SquaredFrobenius(strength), oracle=oracle)
    for strength in (0.3, 0.1, 0.03, 0.01):
        compared[f"full, trace {strength:g}"] = learner(Trace(strength))
    relaxed: dict[str, Any] = {"relaxed": SpectralRelaxation(), "averaged": Averaged()}
    for between, shrinkage, strength, (words, oracle) in product(
        (0.0, 1.0), (0.1, 0.3), (100.0, 10.0, 1.0), relaxed.items()
    ):
        inner = learner(SquaredFrobenius(strength), oracle=oracle, standardize=False)
        kind = "total" if between else "within"
        name = f"whitened {kind}, shrinkage {shrinkage:g}, {words}, squared {strength:g}"
        whitened = WhitenedClusteringLearner(inner, shrinkage=shrinkage, between=between)
        compared[name] = whitened
    return compared


def held_out_loss(estimator: Any, train: LabeledTable, test: LabeledTable) -> float:
    """‖M − N‖² of K-means, K given, on the held-out samples under the metric of the others."""
    with quiet():
        model = clone(estimator).fit(train.X, Partition.from_labels(train.y))
    Z = (test.X - test.X.mean(axis=0)) @ model.components_.T
    truth = Partition.from_labels(test.y)
    labels = KMeans(truth.n_clusters, n_init=5, random_state=0).fit_predict(Z)
    return float(FrobeniusLoss().squared_norm(Partition.from_labels(labels), truth))


def losses_of(estimator: Any, draws: list[Tables]) -> NDArray:
    """One loss per drawn table."""
    return np.array([held_out_loss(estimator, *tables) for tables in draws])


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
    compared = settings()
    values = Parallel(arguments.jobs)(delayed(losses_of)(e, draws) for e in compared.values())
    text = markdown(list(compared), np.array(values), np.array(sources))
    arguments.out.write_text(text, encoding="utf-8")


def markdown(names: list[str], values: NDArray, sources: NDArray) -> str:
    """The table, settings × sources."""
    columns = list(dict.fromkeys(sources))
    rows = []
    for name, losses in zip(names, values):
        numbers = statistics(losses)
        cells = [f"{losses[sources == column].mean():.3f}" for column in columns]
        rows.append([name, *cells, f"{numbers['mean']:.3f} ± {numbers['standard_error']:.3f}"])
    lines = [
        "# How the defaults of the clustering learners were chosen",
        "",
        (__doc__ or "").split("\n\n", 1)[1].strip(),
        "",
        *markdown_table(["setting", *columns, f"all {len(sources)} (± s.e.)"], rows),
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
