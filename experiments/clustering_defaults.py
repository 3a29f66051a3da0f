"""How the defaults of the clustering learners were chosen: many small tables, Iris and Wine apart.

``python -m experiments.clustering_defaults`` draws three classes of Letters, Digits or Libras, or
the two of Breast cancer, up to 27 samples of each class for training and as many held out, sixty
times, and writes docs/clustering_defaults.md: the mean ‖M − N‖² of K-means on the held-out samples
for every setting. Iris and Wine, the small tables of the results, take no part.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from experiments.clustering import kmeans_scores
from experiments.default_settings import all_losses, command_line
from experiments.procedure import statistics
from experiments.report import markdown_table
from metriclearn import (
    Averaged,
    ClusteringMetricLearner,
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
    parts = []
    for label in random.permutation(table.classes)[:3]:
        rows = random.permutation(np.flatnonzero(table.y == label))
        count = min(MOST_PER_CLASS, len(rows) // 2)
        parts.append((rows[:count], rows[count : 2 * count]))
    train, test = (np.concatenate(rows) for rows in zip(*parts))
    X = np.asarray(table.X, dtype=float)
    varies = np.flatnonzero(X[train].std(axis=0) > 1e-3 * X.std(axis=0).max())
    some = varies[random.permutation(len(varies))[:MOST_FEATURES]]
    reduced = replace(table, X=X[:, some], feature_names=["x"] * len(some))
    return reduced.select(train), reduced.select(test)


def settings() -> dict[str, Any]:
    """Everything that is compared, by name."""
    compared: dict[str, Any] = {"Euclidean": Euclidean()}
    for shrinkage in (0.03, 0.1, 0.3):
        rca = RelevantComponents(contiguous=False, shrinkage=shrinkage)
        compared[f"RCA, shrinkage {shrinkage:g}"] = rca
    for ridge in (1.0, 0.1, 0.01):
        compared[f"closed form, ridge {ridge:g}"] = ClosedFormMetric(ridge=ridge)
    learner = partial(ClusteringMetricLearner, FullMetric(), verbose=False)
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
        compared[name] = WhitenedClusteringLearner(inner, shrinkage=shrinkage, between=between)
    return compared


def held_out_loss(estimator: Any, tables: Tables) -> float:
    """‖M − N‖² of K-means, K given, on the held-out samples under the metric of the others."""
    train, test = tables
    model = clone(estimator).fit(train.X, Partition.from_labels(train.y))
    return kmeans_scores(model, test, n_init=5, seed=0)[0]


def main() -> None:
    """Compare all settings on all draws; write the table."""
    parser = command_line(__doc__, "docs/clustering_defaults.md")
    parser.add_argument("--draws", type=int, help="from every source, at most")
    arguments = parser.parse_args()
    draws, sources = [], []
    for name, (load, count) in SOURCES.items():
        table = load()
        seeds = range(min(count, arguments.draws or count))
        draws += [draw(table, seed) for seed in seeds]
        sources += [name] * len(seeds)
    compared = settings()
    values = all_losses(held_out_loss, compared.values(), draws, arguments.jobs)
    text = markdown(list(compared), values, np.array(sources))
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
