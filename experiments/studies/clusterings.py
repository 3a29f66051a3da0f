"""K-means under learned metrics: section 6.2 of the paper, on six tables.

Protocol A is the paper's: learn on a whole table and cluster the same table again, with several
K-means seeds. Protocol B: learn on a stratified half and cluster the other half, several times.
Protocol C: learn on half of the classes, as two data sets of different classes, and cluster the
other classes.

Every method is fitted to the features that vary: no value may occur in 99 % of the training
samples. K-means then divides the transformed test data into the given number of clusters.
Hyper-parameters are chosen on the training part only. Protocol A compares the losses on the
training table itself, with other K-means seeds than in the test. Protocol B uses stratified splits
of the training half, which hold out a third of it. Protocol C holds out half of the training
classes, drawn several times. The candidate with the least mean ‖M−N‖² is taken if it is better than
the first candidate of the grid by more than one standard error of their difference. Otherwise the
first candidate is taken. The standard error is corrected for splits that share samples (Nadeau &
Bengio 2003). The chosen candidate is fitted to the whole training part. Every protocol on every
data table has a table of results.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from hydra.utils import instantiate
from numpy.typing import NDArray
from omegaconf import DictConfig
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.model_selection import StratifiedShuffleSplit

from experiments.harness.comparison import learned_metrics
from experiments.harness.procedure import Case, Losses, Method, Outcome, Procedure, Scores, Story
from experiments.harness.report import Artifacts, page
from experiments.harness.results import MEASURE, OURS, Row, titled
from experiments.rivals.trivial import OneCluster
from metriclearn import Partition
from metriclearn.datasets import LabeledTable
from metriclearn.indices import adjusted_rand_score
from metriclearn.plots import plot_embeddings
from metriclearn.problem import FrobeniusLoss
from metriclearn.problem.forms import center

_SELECTION_SEED = 1001  # of K-means; never the number of a result
_FEWEST_CLASSES = 8  # half of them are for training, of which half are held out for choices
_RARE = 0.01  # a feature counts only if a larger share of samples differs from its usual value
_DRAWN = {"A": "training data", "B": "held-out samples", "C": "held-out classes"}
_TITLES = {
    "A": "learned on all samples and clustered again, K-means from several seeds (training data)",
    "B": "learned on one half of the samples, the other half clustered",
    "C": "learned on half of the classes, the other classes clustered",
}
Tables = list[LabeledTable]


@dataclass(frozen=True)
class Repeated:
    """A table that is clustered once for each seed of K-means. Each clustering gives one score."""

    table: LabeledTable
    seeds: Sequence[int]
    units: Sequence[str]


class Clustering(Procedure):
    """The experiment on clusterings. A case is one repetition of a protocol on a table."""

    entries = "clustering_methods"
    measures = titled(MEASURE, "adjusted_rand")
    titles: Mapping[str, str] = {"given": "K given"}

    def cases(self) -> list[Case]:
        cases = []
        for protocol, tables in self.config.protocols.items():
            for name, count in (tables or {}).items():
                if count:
                    table = load_table(self.config, name)
                    cases += cases_of(protocol, table, count, self.config)
        if not cases:
            raise ValueError(
                "The clustering experiment needs at least one table in config.protocols."
            )
        return cases

    def fit(self, estimator: Any, data: Tables, method: Method) -> Any:
        """Fit to the features that vary within at least one training table.

        Other features get no weight. A feature does not count as varying if more than 99 of 100
        samples have the same value of it. For example, if a pixel is set in only two training
        images, its learned weight would be far too large for other images.
        """
        varies = np.any([_share_of_others(table.X) > _RARE for table in data], axis=0)
        truths = [Partition.from_labels(table.y) for table in data]
        estimator.fit([table.X[:, varies] for table in data], truths)
        components = np.zeros((len(estimator.components_), len(varies)))
        components[:, varies] = estimator.components_
        if hasattr(estimator, "score_"):
            estimator.score_ = replace(estimator.score_, components=components)
        else:
            estimator.components_ = components
        return estimator

    def validate(self, method: Method, model: Any, train: Tables, held_out: Tables) -> Losses:
        """Compute the loss of a fold, which is the mean loss over its held-out tables."""
        n_init = self.config.inner_init
        losses = [kmeans_scores(model, table, n_init, _SELECTION_SEED)[0] for table in held_out]
        return {"given": {None: np.array([np.mean(losses)])}}

    def score(self, model: Any, option: Any, column: str, case: Case) -> tuple[Any, Scores]:
        test: Repeated = case.test
        scores = [kmeans_scores(model, test.table, self.config.n_init, seed) for seed in test.seeds]
        return model, dict(zip(self.measures, np.array(scores).T))

    def units(self, data: Any) -> Sequence[str]:
        return data.units if isinstance(data, Repeated) else ["split"]

    def table(self, name: str) -> Row:
        protocol, _, table = name.partition("/")
        fields = {"title": f"{protocol}, {table}: {_TITLES[protocol]}", "independent": False}
        if protocol == "A":
            note = "The spread is that of K-means alone: this is no test."
            return fields | {"unit": "seed of K-means", "note": note}
        note = "The error is corrected for splits that share samples (Nadeau & Bengio 2003)."
        return fields | {"unit": "split", "note": note}

    def story(self, outcomes: list[Outcome], folder: Path) -> Story:
        drawn = "/".join(self.config.drawn)
        first = next((o.case for o in outcomes if o.case.table == drawn), outcomes[0].case)
        mine = {outcome.name: outcome for outcome in outcomes if outcome.case is first}
        figures = {}
        if panels := {n: _plane(mine[n], first) for n in self.config.drawn_methods if n in mine}:
            protocol, _, name = first.table.partition("/")
            title = f"{name}, {_DRAWN[protocol]}: before and after learning the metric"
            labels = first.test.table.y
            figures[title] = partial(plot_embeddings, dict(panels.values()), labels, title), 1.6
        scale = np.vstack([center(table.X) for table in first.train]).std(axis=0)
        artifacts = Artifacts(
            figures=figures,
            feature_names={OURS: first.test.table.feature_names},
            notes=[f"Pictures are of {first.name}; weights are those of standardized features."],
            **learned_metrics({OURS: mine[OURS].models["given"]} if OURS in mine else {}, scale),
        )
        protocol = page("clustering.protocol.j2").strip()
        return Story(protocol, artifacts, self.numbers(outcomes))


def _plane(outcome: Outcome, case: Case) -> tuple[str, NDArray]:
    """Return the title of a panel, and the transformed samples projected on their two leading
    principal components."""
    Z = _transformed(outcome.models["given"], case.test.table)
    Z = PCA(min(2, Z.shape[1])).fit_transform(Z)
    loss = outcome.losses("given").mean()
    return f"{outcome.name}: ‖M−N‖² = {loss:.2f}", np.pad(Z, ((0, 0), (0, 2 - Z.shape[1])))


def cases_of(protocol: str, table: LabeledTable, count: int, config: DictConfig) -> list[Case]:
    """Make the cases of one table. Protocol A has one case with ``count`` seeds of K-means.
    Protocols B and C have ``count`` cases.

    Raises
    ------
    ValueError
        If there is no such protocol.
    """
    if protocol == "A":
        some = _thinned(table, config.inner_samples, config.seed)
        seeds = range(config.seed, config.seed + count)
        test = Repeated(table, seeds, [f"seed {seed}" for seed in seeds])
        return [_case("A", 0, [table], test, [([some], [some])])]
    if protocol == "B":
        return _halves(table, count, config)
    if protocol == "C":
        return _classes(table, count, config)
    raise ValueError(f"The clustering experiment needs protocols A, B or C, got {protocol!r}.")


def _case(
    protocol: str,
    repetition: int,
    train: Tables,
    test: Repeated,
    folds: list[tuple[Tables, Tables]],
) -> Case:
    name = test.table.name
    ratios = [sum(map(len, held_out)) / sum(map(len, part)) for part, held_out in folds]
    title = f"{protocol}, {name}, repetition {repetition}"
    shared = 0.0 if protocol == "A" else len(test.table) / sum(map(len, train))
    place, overlap = f"{protocol}/{name}", float(np.mean(ratios))
    return Case(title, train, test, folds, place, overlap=overlap, shared=shared)


def _halves(table: LabeledTable, count: int, config: DictConfig) -> list[Case]:
    splits = StratifiedShuffleSplit(count, test_size=0.5, random_state=config.seed)
    cases = []
    for i, (train, test) in enumerate(splits.split(table.X, table.y)):
        part = table.select(train)
        rest = Repeated(table.select(test), [config.seed + i], [f"split {i}"])
        n_inner, seed = config.inner_splits[table.name], config.seed + 7919 * (i + 1)
        inner = StratifiedShuffleSplit(n_inner, test_size=1 / 3, random_state=seed)
        folds = []
        for pair in inner.split(part.X, part.y):
            fitted, held_out = ([_thinned(part.select(p), config.inner_samples, i)] for p in pair)
            folds.append((fitted, held_out))
        cases.append(_case("B", i, [part], rest, folds))
    return cases


def _classes(table: LabeledTable, count: int, config: DictConfig) -> list[Case]:
    if len(table.classes) < _FEWEST_CLASSES:
        raise ValueError(
            f"Protocol C needs tables of {_FEWEST_CLASSES} classes or more, as every held-out part "
            f"of the classes for training has two, got {len(table.classes)} in {table.name!r}; "
            f"leave the table out (protocols.C.{table.name}=null)."
        )
    cases = []
    for i in range(count):
        random = np.random.RandomState(config.seed + i)
        order = random.permutation(table.classes)
        n_train = len(order) // 2
        parts = [table.of_classes(half) for half in np.array_split(order[:n_train], 2)]
        test = Repeated(table.of_classes(order[n_train:]), [config.seed + i], [f"split {i}"])
        folds = []
        for _ in range(config.inner_splits[table.name]):
            halves = np.array_split(random.permutation(order[:n_train]), 2)
            drawn = [table.of_classes(half) for half in halves]
            first, second = ([_thinned(part, config.inner_samples, i)] for part in drawn)
            folds += [(first, second), (second, first)]
        cases.append(_case("C", i, parts, test, folds))
    return cases


def _thinned(table: LabeledTable, most: int, seed: int) -> LabeledTable:
    """Draw at most ``most`` samples, the same fraction of every class."""
    if len(table) <= most:
        return table
    split = StratifiedShuffleSplit(1, train_size=most, random_state=seed)
    return table.select(next(split.split(table.X, table.y))[0])


def _share_of_others(X: NDArray) -> NDArray:
    """Compute for every feature the fraction of the samples that do not have its most common
    value."""
    return np.array([1 - np.unique(x, return_counts=True)[1].max() / len(x) for x in X.T])


def kmeans_scores(model: Any, table: LabeledTable, n_init: int, seed: int) -> tuple[float, float]:
    """Compute ‖M−N‖² and the adjusted Rand index of K-means with the true K."""
    truth = Partition.from_labels(table.y)
    K = 1 if isinstance(model, OneCluster) else truth.n_clusters
    clusters = _clusters(_transformed(model, table), K, n_init, seed)
    rand = adjusted_rand_score(truth.labels, clusters.labels)
    return FrobeniusLoss().squared_norm(clusters, truth), float(rand)


def _clusters(Z: NDArray, K: int, n_init: int, seed: int) -> Partition:
    """Cluster by K-means. A metric of rank 0, which separates no samples, gets K random clusters.

    For such a metric K-means would return a single cluster, whose loss K − 1 is less than the loss
    of many metrics.
    """
    if not np.any(np.ptp(Z, axis=0) > 0):
        return Partition.from_labels(np.random.RandomState(seed).permutation(len(Z)) % K)
    means = KMeans(K, n_init=n_init, random_state=seed)
    return Partition.from_labels(means.fit_predict(Z))


def _transformed(model: Any, table: LabeledTable) -> NDArray:
    """Return the centered samples, transformed by the metric. If the metric has rank 0, this is one
    column of zeros."""
    Z = center(table.X) @ model.components_.T
    return Z if Z.shape[1] else np.zeros((len(table), 1))


def load_table(config: DictConfig, name: str) -> LabeledTable:
    """Load a table by its name in the configuration.

    Raises
    ------
    ValueError
        If there is no such table.
    """
    if name not in config.tables:
        raise ValueError(
            f"The clustering experiment needs tables among {', '.join(config.tables)}, got {name}."
        )
    return instantiate(config.tables[name].loader)
