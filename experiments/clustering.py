"""K-means under learned metrics: section 6.2 of the paper, on six tables.

Protocol A, the paper's: learn on all of a table and cluster it again, with several K-means seeds.
Protocol B: learn on a stratified half and cluster the other half, several times. Protocol C: learn
on half of the classes, as two data sets of different classes, and cluster the other classes.

Every method fits ``components_`` to the features that are not the same in 99 % of the training
samples; then K-means clusters the transformed test data, K given. What a method has to choose is
chosen in the training part only: in A by the loss on it, which is what A measures (with other
K-means seeds); in B on stratified splits of the training half, a third held out; in C on splits
that hold out the classes of one of the training sets. The candidate of least mean ‖M−N‖² over these
splits replaces the first of the grid if it is better by more than one standard error of their
difference, corrected for splits that share samples (Nadeau & Bengio 2003), and is fitted to all of
the training part.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from hydra.utils import instantiate
from numpy.typing import NDArray
from omegaconf import DictConfig
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.model_selection import StratifiedShuffleSplit

from experiments.procedure import (
    Case,
    Losses,
    Method,
    Outcome,
    Procedure,
    Row,
    Scores,
    Story,
    grouped,
    pooled_rows,
    summary_rows,
)
from experiments.report import MEASURE, Artifacts, compared, learned_metrics, page
from metriclearn import FrobeniusLoss, Partition
from metriclearn.datasets import LabeledTable
from metriclearn.indices import adjusted_rand_score
from metriclearn.plots import plot_embeddings
from metriclearn.problem.forms import center

_SELECTION_SEED = 1001  # of K-means; never that of a result
_RARE = 0.01  # share of samples up to which another value than the usual one tells nothing
_DRAWN = {"A": "training data", "B": "held-out samples", "C": "held-out classes"}
Tables = list[LabeledTable]


@dataclass(frozen=True)
class Repeated:
    """A table to cluster once for every K-means seed."""

    table: LabeledTable
    seeds: Sequence[int]


class Clustering(Procedure):
    """The procedure: a case is a protocol, a table and a repetition."""

    entries = "clustering_methods"

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
        """Fit to the features that vary within some training table; the others get no weight.

        So do those with one value in more than 99 of 100 samples: whatever a method makes of a
        pixel that is set in two training images, it is out of proportion where other images set it.
        """
        varies = np.any([_share_of_others(table.X) > _RARE for table in data], axis=0)
        truths = [Partition.from_labels(table.y) for table in data]
        estimator.fit([table.X[:, varies] for table in data], truths)
        components = np.zeros((len(estimator.components_), len(varies)))
        components[:, varies] = estimator.components_
        estimator.components_ = components
        return estimator

    def validate(self, method: Method, model: Any, train: Tables, held_out: Tables) -> Losses:
        """One loss for every split, the mean over its tables."""
        n_init = self.config.inner_init
        losses = [kmeans_scores(model, table, n_init, _SELECTION_SEED)[0] for table in held_out]
        return {"given": {None: np.array([np.mean(losses)])}}

    def score(self, model: Any, option: Any, column: str, case: Case) -> tuple[Any, Scores]:
        test: Repeated = case.test
        scores = [kmeans_scores(model, test.table, self.config.n_init, seed) for seed in test.seeds]
        losses, rand = np.array(scores).T
        split = _split(case)
        return model, {(split, MEASURE): losses, (split, "adjusted_rand"): rand}

    def stories(self, outcomes: list[Outcome], folder: Path) -> list[Story]:
        for outcome in outcomes:  # the processor's seconds of the last fit among the measures
            seconds = np.array([outcome.fit_seconds])
            outcome.scores["given"][_split(outcome.case), "seconds"] = seconds
        rows = pooled_rows(outcomes)
        groups = grouped(outcomes, lambda o: (o.name, *o.case.facts.values()))
        for row in rows:
            row["standard_deviation"] = row["standard_error"] * np.sqrt(len(row["values"]))
            mine = groups[row["method"], row["protocol"], row["table"]]
            row["choices"] = list(filter(None, map(_words, mine)))
        text = page("clustering.md.j2", cells=_cells(rows))
        (folder / "clustering.md").write_text(text, encoding="utf-8")
        self._draw(outcomes, folder)
        return [Story(summary_rows(rows) + rows, self._artifacts(outcomes))]

    def _draw(self, outcomes: Sequence[Outcome], folder: Path) -> None:
        """Two dimensions of one test table under two methods: before and after learning."""
        cases = [outcome.case for outcome in outcomes]
        drawn = list(self.config.drawn)
        case = next((c for c in cases if list(c.facts.values()) == drawn), cases[0])
        split, table = _split(case), case.test.table
        by_name = {outcome.name: outcome for outcome in outcomes if outcome.case is case}
        panels = {}
        for name in self.config.drawn_methods:
            if name in by_name:
                outcome = by_name[name]
                loss = outcome.scores["given"][split, MEASURE].mean()
                plane = _plane(_transformed(outcome.models["given"], table))
                panels[f"{name}: ‖M−N‖² = {loss:.2f}"] = plane
        if panels:
            kind = _DRAWN[case.facts["protocol"]]
            title = f"{table.name}, {kind}: before and after learning the metric"
            figure = plot_embeddings(panels, table.y, title)
            for suffix in ("png", "svg"):
                figure.savefig(folder / f"clustering.{suffix}", dpi=160)

    def _artifacts(self, outcomes: Sequence[Outcome]) -> Artifacts:
        first = outcomes[0].case
        choices: dict[str, list[str]] = {}
        for outcome in outcomes:
            words = _words(outcome)
            if words and outcome.case.name.endswith(" 0"):
                where = ", ".join(outcome.case.facts.values())
                choices.setdefault(outcome.name, []).append(f"{where}: {words}")
        models = {o.name: o.models["given"] for o in outcomes if o.case is first}
        return Artifacts(
            feature_names=first.test.table.feature_names,
            choices={method: "; ".join(texts) + "." for method, texts in choices.items()},
            notes=page("clustering.notes.j2", facts=first.facts).splitlines(),
            **learned_metrics(
                models, np.vstack([center(table.X) for table in first.train]).std(axis=0)
            ),
        )


def _split(case: Case) -> str:
    """Protocol A clusters the training data again."""
    return "train" if case.facts["protocol"] == "A" else "test"


def cases_of(protocol: str, table: LabeledTable, count: int, config: DictConfig) -> list[Case]:
    """The cases of one table: one in A, with ``count`` seeds, or ``count`` in B and C.

    Raises
    ------
    ValueError
        If there is no such protocol.
    """
    if protocol == "A":
        some = _thinned(table, config.inner_samples, config.seed)
        seeds = range(config.seed, config.seed + count)
        return [_case("A", 0, [table], Repeated(table, seeds), [([some], [some])])]
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
    facts = {"protocol": protocol, "table": name}
    ratios = [sum(map(len, held_out)) / sum(map(len, part)) for part, held_out in folds]
    label, title = f"/{protocol}/{name}", f"{protocol}, {name}, repetition {repetition}"
    return Case(title, train, test, folds, label, facts, float(np.mean(ratios)))


def _halves(table: LabeledTable, count: int, config: DictConfig) -> list[Case]:
    splits = StratifiedShuffleSplit(count, test_size=0.5, random_state=config.seed)
    cases = []
    for i, (train, test) in enumerate(splits.split(table.X, table.y)):
        part, rest = table.select(train), Repeated(table.select(test), [config.seed + i])
        n_inner, seed = config.inner_splits[table.name], config.seed + 7919 * (i + 1)
        inner = StratifiedShuffleSplit(n_inner, test_size=1 / 3, random_state=seed)
        folds = []
        for pair in inner.split(part.X, part.y):
            fitted, held_out = ([_thinned(part.select(p), config.inner_samples, i)] for p in pair)
            folds.append((fitted, held_out))
        cases.append(_case("B", i, [part], rest, folds))
    return cases


def _classes(table: LabeledTable, count: int, config: DictConfig) -> list[Case]:
    cases = []
    for i in range(count):
        order = np.random.RandomState(config.seed + i).permutation(table.classes)
        n_train = len(order) // 2
        parts = [table.of_classes(half) for half in np.array_split(order[:n_train], 2)]
        first, second = ([_thinned(part, config.inner_samples, i)] for part in parts)
        test = Repeated(table.of_classes(order[n_train:]), [config.seed + i])
        cases.append(_case("C", i, parts, test, [(first, second), (second, first)]))
    return cases


def _thinned(table: LabeledTable, most: int, seed: int) -> LabeledTable:
    """At most ``most`` samples, of every class by the same share."""
    if len(table) <= most:
        return table
    split = StratifiedShuffleSplit(1, train_size=most, random_state=seed)
    return table.select(next(split.split(table.X, table.y))[0])


def _share_of_others(X: NDArray) -> NDArray:
    """Share of the samples without the most common value, for every feature."""
    return np.array([1 - np.unique(x, return_counts=True)[1].max() / len(x) for x in X.T])


def kmeans_scores(model: Any, table: LabeledTable, n_init: int, seed: int) -> tuple[float, float]:
    """‖M−N‖² and the adjusted Rand index of K-means, K given."""
    truth = Partition.from_labels(table.y)
    clusters = _clusters(_transformed(model, table), truth.n_clusters, n_init, seed)
    rand = adjusted_rand_score(truth.labels, clusters.labels)
    return FrobeniusLoss().squared_norm(clusters, truth), float(rand)


def _clusters(Z: NDArray, K: int, n_init: int, seed: int) -> Partition:
    """K-means; a metric of rank 0 tells no samples apart and gets K random clusters.

    K-means would then return a single cluster, whose loss K − 1 is less than that of many metrics.
    """
    if not np.any(np.ptp(Z, axis=0) > 0):
        return Partition.from_labels(np.random.RandomState(seed).permutation(len(Z)) % K)
    means = KMeans(K, n_init=n_init, random_state=seed)
    return Partition.from_labels(means.fit_predict(Z))


def _transformed(model: Any, table: LabeledTable) -> NDArray:
    """Centered samples under the metric; a zero column where its rank is 0."""
    Z = center(table.X) @ model.components_.T
    return Z if Z.shape[1] else np.zeros((len(table), 1))


def _plane(Z: NDArray) -> NDArray:
    """The two leading principal components; a zero second one for rank 1."""
    Z = PCA(min(2, Z.shape[1])).fit_transform(Z)
    return np.pad(Z, ((0, 0), (0, 2 - Z.shape[1])))


def _words(outcome: Outcome) -> str:
    """What was chosen, if there was something to choose."""
    choice = outcome.choices["given"]
    if not len(choice.losses):
        return ""
    return f"{choice} (loss {choice.losses.mean():.3g} on the inner splits)"


def _cells(rows: Sequence[Row]) -> dict[str, Any]:
    """Rows with their cells by protocol, measure, method and table; a table is a column."""
    cells: dict[str, Any] = {}
    for column in grouped(rows, lambda row: row["measure"]).values():
        for row, cell in zip(column, compared(column)):
            measures = cells.setdefault(row["protocol"], {})
            methods = measures.setdefault(row["measure"].partition("/")[0], {})
            methods.setdefault(row["method"], {})[row["table"]] = row, cell
    return cells


def load_table(config: DictConfig, name: str) -> LabeledTable:
    """A table of the configuration by its name there.

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
