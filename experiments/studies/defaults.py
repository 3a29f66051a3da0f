"""How defaults were chosen: every setting is fitted to many data sets. No test set is used.

``experiment=default_settings`` cross-validates ChangePointMetricLearner inside the training parts
of three data sets. ``experiment=clustering_defaults`` makes sixty draws. A draw has three classes
of Letters, Digits or Libras, or the two classes of Breast cancer. Up to 27 samples of each class
are used for training, and the same number is held out. Iris and Wine, the small data sets of the
results, are left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from hydra.utils import instantiate

from experiments.harness.cases import group_folds
from experiments.harness.comparison import Comparison
from experiments.harness.procedure import Case, Method, Outcome, Procedure, Story
from experiments.harness.report import Artifacts, page
from experiments.harness.results import Row
from experiments.studies.clusterings import Clustering, Repeated, load_table
from metriclearn.datasets import LabeledTable

MOST_PER_CLASS, MOST_FEATURES = 27, 16


class DefaultSettings(Procedure):
    """Compare settings: every setting is a method with one candidate. The table of held-out losses
    has one column for all cases of a data set."""

    entries = "settings"
    each_candidate = True
    validates_one = False
    reads_test_root = False
    titles: Mapping[str, str] = {}

    def table(self, name: str) -> Row:
        note = "Units share samples where they come from one data set."
        return {"title": "settings", "unit": "held-out unit", "note": note}

    def story(self, outcomes: list[Outcome], folder: Path) -> Story:
        whole = [replace(o, case=replace(o.case, column="all")) for o in outcomes]
        protocol = page("default_settings.protocol.j2").strip()
        return Story(protocol, Artifacts(), self.numbers([*whole, *outcomes]))


class SegmenterSettings(DefaultSettings, Comparison):
    """The experiment on defaults of segmenters. A case is a fold of the training part of a data
    set."""

    def cases(self) -> list[Case]:
        cases = []
        for name in self.config.names:
            entry = self.config.sets[name]
            data = instantiate(entry.data, _convert_="all")
            data = data.select([i for i, g in enumerate(data.groups) if g not in entry.without])
            for i, (train, rest) in enumerate(group_folds(data, self.config.n_folds)):
                parts = data.select(train), data.select(rest)
                cases.append(Case(f"{name}, fold {i}", *parts, [], column=name))
        return cases

    def columns(self, method: Method) -> Sequence[str]:
        return ("estimated",)


class ClusteringSettings(DefaultSettings, Clustering):
    """The experiment on defaults of clusterings. A case is a draw of samples from a table. Half of
    these samples are held out."""

    def cases(self) -> list[Case]:
        cases = []
        for name, count in self.config.draws.items():
            for seed in range(count):
                train, rest = draw(load_table(self.config, name), seed)
                halves = [train], Repeated(rest, [0], [f"{name}, draw {seed}"])
                cases.append(Case(f"{name}, draw {seed}", *halves, [], column=name))
        return cases


def draw(table: LabeledTable, seed: int) -> tuple[LabeledTable, LabeledTable]:
    """Draw training samples and held-out samples of up to three classes, with up to 16 features."""
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
