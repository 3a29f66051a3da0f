"""How defaults were chosen: every setting is fitted to many data sets, no test set is looked at.

``experiment=default_settings`` cross-validates ChangePointMetricLearner inside the training parts
of three data sets. ``experiment=clustering_defaults`` draws three classes of Letters, Digits or
Libras, or the two of Breast cancer, up to 27 samples of each class for training and as many held
out, sixty times; Iris and Wine, the small tables of the results, take no part.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from hydra.utils import instantiate
from scipy.stats import gmean

from experiments.clustering import Clustering, Repeated, load_table
from experiments.comparison import Comparison, group_folds
from experiments.procedure import Case, Method, Outcome, Procedure, Story, grouped, pooled_rows
from experiments.report import Artifacts, page
from metriclearn.datasets import LabeledTable

MOST_PER_CLASS, MOST_FEATURES = 27, 16


class Settings(Procedure):
    """A setting is a method with one candidate, and the label of a case says where its data are of.

    ``NAME.md`` has the mean losses on what is held out, every label in a column.
    """

    entries = "settings"
    each_candidate = True

    def stories(self, outcomes: list[Outcome], folder: Path) -> list[Story]:
        means: dict[str, dict[str, float]] = {}
        groups = grouped(outcomes, lambda outcome: (outcome.name, outcome.case.label))
        for (setting, label), mine in groups.items():
            (column,) = mine[0].choices  # these procedures have a single one
            losses_of_cases = [outcome.losses(column).mean() for outcome in mine]
            means.setdefault(setting, {})[label.strip("/")] = np.mean(losses_of_cases)
        losses = np.array([list(by_label.values()) for by_label in means.values()])
        # geometric means over the columns of the loss over the best one of the column
        ratios = dict(zip(means, gmean(losses / losses.min(axis=0), axis=1)))
        rows = pooled_rows([replace(o, case=replace(o.case, label="", facts={})) for o in outcomes])
        text = page(f"{self.config.name}.md.j2", means=means, ratios=ratios, rows=rows)
        (folder / f"{self.config.name}.md").write_text(text, encoding="utf-8")
        return [Story(rows + pooled_rows(outcomes), Artifacts(markdown=text))]


class SegmenterSettings(Settings, Comparison):
    """The procedure for segmenters: a case is a fold of the training part of a data set."""

    def cases(self) -> list[Case]:
        cases = []
        for name in self.config.names:
            entry = self.config.sets[name]
            data = instantiate(entry.data, _convert_="all")
            data = data.select([i for i, g in enumerate(data.groups) if g not in entry.without])
            for i, (train, rest) in enumerate(group_folds(data, self.config.n_folds)):
                parts = data.select(train), data.select(rest)
                cases.append(Case(f"{name}, fold {i}", *parts, [], f"/{name}"))
        return cases

    def columns(self, method: Method) -> Sequence[str]:
        return ("estimated",)


class ClusteringSettings(Settings, Clustering):
    """The procedure for clusterings: a case is a draw from a table, one half of it held out."""

    def cases(self) -> list[Case]:
        cases = []
        for name, count in self.config.draws.items():
            facts = {"protocol": "B", "table": name}
            for seed in range(count):
                train, rest = draw(load_table(self.config, name), seed)
                halves = [train], Repeated(rest, [0])
                cases.append(Case(f"{name}, draw {seed}", *halves, [], f"/{name}", facts))
        return cases


def draw(table: LabeledTable, seed: int) -> tuple[LabeledTable, LabeledTable]:
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
