"""How many of the names that the labeling page gives are right, for people without labels.

    python -m experiments.benchmarks.labeling_names [--out FOLDER]

The data are HAPT. A simulated annotator labels stretches of 20 s in the recordings of the training
users. The stretches are suggested by the page, or random. Segments that have no activity in HAPT
get no name. The page's model learns from these labels, and names every segment in the recordings of
the test users. All settings were chosen on training users.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from experiments.benchmarks.machine import Report, Row, options_of
from experiments.harness.procedure import standard_error
from experiments.studies.labeling_effort import held_out
from metriclearn import PartialPartition
from metriclearn.annotate import suggest
from metriclearn.annotate.learning import Group, strategy_for
from metriclearn.annotate.project import Annotation
from metriclearn.annotate.signals import Recording
from metriclearn.datasets import LabeledSequences, load_dataset

_RATE = 2.0
_LENGTH = 40  # rows of a stretch: 20 s
_SHARES = (0.05, 0.1, 0.25)
_SEEDS = 3
_PATIENCE = 60.0  # seconds, enough to finish learning on a busy machine


def annotations_of(labels: NDArray, start: int, stop: int) -> list[Annotation]:
    """Return the annotations that a person would make from row ``start`` to ``stop``: all changes,
    and a name for every segment that has one."""
    changes = start + 1 + np.flatnonzero(np.diff(labels[start:stop]))
    cuts = [start, *changes.tolist(), stop]
    given = [Annotation(t / _RATE, t / _RATE, "change") for t in cuts[1:-1]]
    for a, b in pairwise(cuts):
        if labels[a]:
            given.append(Annotation(a / _RATE, b / _RATE, "segment", str(labels[a])))
    return given


def names_right(group: Group, test: LabeledSequences) -> list[float]:
    """For every recording, return the fraction of its named rows to which the model gives the right
    name."""
    right = []
    for X, labels in zip(test.sequences, test.labels):
        assert group.model is not None
        ends = group.model.margins(X, PartialPartition(len(X)), 1).change_points
        names, _ = group.model.named(X, ends)
        rows = np.repeat(names, np.diff(ends, prepend=0))
        right.append(float(np.mean((rows == labels.astype(str))[labels > 0])))
    return right


def labeled(
    train: LabeledSequences, test: LabeledSequences, shares: Sequence[float], seed: int, page: bool
) -> list[list[float]]:
    """Label more and more stretches, which the page suggests or which are drawn at random. Whenever
    the labels reach one of ``shares``, measure in every test recording the fraction of names that
    are right."""
    recordings = [
        Recording(name, "table", Path(name), X, train.feature_names, _RATE, len(X) / _RATE)
        for name, X in zip(train.names, train.sequences)
    ]
    group, said = Group(recordings, patience=_PATIENCE), dict[str, list[Annotation]]()
    known = [np.full(len(labels), -1) for labels in train.labels]
    random, total, results = np.random.default_rng(seed), sum(map(len, known)), []
    for share in shares:
        missing = share * total - sum(np.count_nonzero(row >= 0) for row in known)
        asked = suggest(
            list(train.sequences),
            known,
            length=_LENGTH,
            n=int(np.ceil(missing / _LENGTH)),
            strategy=strategy_for(group.model) if page and group.model else "random",
            learner=group.model and group.model.learner,
            random_state=random,
        )
        for i, start, stop, _ in asked:
            labels = train.labels[i]
            runs = np.cumsum(np.append(0, np.diff(labels[start:stop]) != 0))
            known[i][start:stop] = 1000 * start + runs
            said.setdefault(train.names[i], []).extend(annotations_of(labels, start, stop))
        given = group.given({name: sorted(many) for name, many in said.items()})
        group.learn(given)
        group.validate(given)
        results.append(names_right(group, test))
    return results


def rows_of(tiny: bool) -> list[Row]:
    """Make rows of a table: for each fraction of labels, the fraction of names that are right, with
    its standard error over users."""
    window = 100 if tiny else 25
    data = load_dataset("hapt", window=window, unlabeled="keep", labels="activities")
    train, test = held_out(0, data, 6)
    seeds, shares = range(1 if tiny else _SEEDS), _SHARES[-1:] if tiny else _SHARES
    users = np.unique(test.groups)
    rows = []
    for page in (True, False):
        values = np.mean([labeled(train, test, shares, seed, page) for seed in seeds], axis=0)
        for share, right in zip(shares, values):
            of_users = np.array([right[np.array(test.groups) == user].mean() for user in users])
            rows.append(
                {
                    "stretches": "as suggested" if page else "at random",
                    "share of labels": share,
                    "names right": of_users.mean(),
                    "standard error over users": standard_error(of_users),
                }
            )
    return rows


def main() -> None:
    """Measure, print and save."""
    options = options_of(__doc__).parse_args()
    report = Report("labeling_names", options)
    note = (
        f"Six test users; means over {1 if options.tiny else _SEEDS} orders. A name is right or "
        "wrong for every half second that has one."
    )
    report.table("Names right on recordings without labels, HAPT", rows_of(options.tiny), note)
    report.save()


if __name__ == "__main__":
    main()
