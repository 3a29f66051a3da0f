"""Why our method is not the best on some data sets of the league, tested on training recordings.

    python -m experiments.benchmarks.reasons [--out FOLDER]

There are three hypotheses, each with an experiment that could refute it. (a) A consensus fits its
members to only a part of the recordings. To test this, we fit one model to all recordings that are
not held out, and another one to only some of these recordings. (b) The names in test recordings are
new. To test this, we fit metrics to other recordings, and to the first halves of the recordings
whose second halves are tested. (c) Segments are equally long. To test this, we measure how much
their lengths differ within a recording, and the loss of equal cuts. All recordings are from the
training data of the first case of each set.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf
from sklearn.exceptions import ConvergenceWarning

from experiments.benchmarks.machine import Report, Row, options_of
from experiments.harness.command_line import CONFIGS
from experiments.harness.comparison import group_folds
from experiments.harness.procedure import Method
from experiments.harness.scoring import sequence_losses
from experiments.league.contest import League, set_cases
from metriclearn.datasets import LabeledSequences

FOLDS = 3
PARTS = (
    ("shows", "named_logistic"),
    ("shows", "encoder"),
    ("bees", "diagonal_l1"),
    ("songs", "full"),
)
METRICS = ("euclidean", "diagonal_l1", "full")
LENGTHS = ("utsa", "tssb", "texts", "billboard", "birdsong")


class Bench:
    """Provides training recordings and methods of the league."""

    def __init__(self, tiny: bool) -> None:
        with initialize_config_dir(CONFIGS, version_base="1.3"):
            self.config = compose("config", ["experiment=league", f"tiny={tiny}"])
        self.league = League(self.config)
        self.methods = {method.name: method for method in self.league.methods()}

    def training(self, name: str) -> LabeledSequences:
        """Return the training recordings of the first case of a set."""
        entry: Any = OmegaConf.to_container(self.config.sets[name], resolve=True)
        return set_cases(name, entry, FOLDS, self.config.seed)[0].train

    def method(self, key: str) -> Method:
        """Return the method that an entry of the configuration describes."""
        return self.methods[self.config.methods[key].name]

    def loss(self, key: str, train: LabeledSequences, test: LabeledSequences) -> float:
        """Fit a method, with its first candidate of hyper-parameters, and return its mean ‖M − N‖²
        on ``test``."""
        method = self.method(key)
        model = self.league.fit(method.with_parameters(method.candidates[0]), train, method)
        return float(sequence_losses(model, test).mean())


def fewer_recordings(bench: Bench, name: str, key: str) -> list[Row]:
    """Hold out each group of recordings once, and make a row with the mean losses of two fits.

    The first fit is to all other groups, and the second to about two thirds of them. The losses are
    measured on the groups held out.

    There is no row if only one recording would remain for a fit.
    """
    data, pairs = bench.training(name), list[tuple[float, float]]()
    folds = group_folds(data, len(set(data.groups)))
    if min(len(rest) for rest, _ in folds) < 2:
        return []
    for rest, held_out in folds:
        train, test = data.select(rest), data.select(held_out)
        parts = [train.select(some) for some, _ in group_folds(train, FOLDS)]
        some = float(np.mean([bench.loss(key, part, test) for part in parts]))
        pairs.append((bench.loss(key, train, test), some))
    whole, part = np.mean(pairs, axis=0)
    row = {
        "set": name,
        "method": bench.method(key).name,
        "recordings": len(data),
        "fitted to all others": f"{whole:.3g}",
        "fitted to a part of them": f"{part:.3g}",
        "ratio": f"{part / whole:.2f}",
    }
    return [row]


def new_names(bench: Bench, name: str) -> list[Row]:
    """Make two rows with losses on second halves of recordings: after a fit to other recordings,
    and after a fit to the first halves of the same recordings."""
    data = bench.training(name)
    middle = [len(x) // 2 for x in data.sequences]
    halves = [
        halved(data, [slice(m) for m in middle]),
        halved(data, [slice(m, None) for m in middle]),
    ]
    kinds: dict[str, list[list[float]]] = {"other recordings": [], "first halves": []}
    for rest, held_out in group_folds(data, len(set(data.groups))):
        first, second = (half.select(held_out) for half in halves)
        for kind, train in zip(kinds, (data.select(rest), first)):
            kinds[kind].append([bench.loss(key, train, second) for key in METRICS])
    rows = []
    for kind, losses in kinds.items():
        mean = dict(zip(METRICS, np.mean(losses, axis=0)))
        cells = {bench.method(key).name: f"{value:.3g}" for key, value in mean.items()}
        learned = min(value for key, value in mean.items() if key != "euclidean")
        ratio = f"{learned / mean['euclidean']:.2f}"
        rows.append({"set": name, "fitted to": kind, **cells, "learned / euclidean": ratio})
    return rows


def halved(data: LabeledSequences, spans: Sequence[slice]) -> LabeledSequences:
    """Keep one span of each recording, with its labels."""
    return replace(
        data,
        sequences=[x[span] for x, span in zip(data.sequences, spans)],
        labels=[y[span] for y, span in zip(data.labels, spans)],
    )


def lengths(bench: Bench, name: str) -> Row:
    """Make one row. The row tells how much the lengths of segments differ within a recording, and
    it has the cross-validated losses of equal cuts and of a full metric."""
    data, shares = bench.training(name), []
    for ends in data.change_points:
        sizes = np.diff(ends, prepend=0)
        if len(sizes) > 1:
            shares.append(sizes.std() / sizes.mean())
    keys = ("equal_cuts", "full")
    losses = [
        [bench.loss(key, data.select(rest), data.select(held_out)) for key in keys]
        for rest, held_out in group_folds(data, FOLDS)
    ]
    equal, full = np.mean(losses, axis=0)
    return {
        "set": name,
        "recordings": len(data),
        "deviation of lengths / mean": f"{np.mean(shares):.2f}",
        "equal cuts": f"{equal:.3g}",
        "ours/full": f"{full:.3g}",
        "ratio": f"{equal / full:.2f}",
    }


def main() -> None:
    """Test all reasons, print and save."""
    options = options_of(__doc__).parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    warnings.simplefilter("ignore", UserWarning)
    bench, report = Bench(options.tiny), Report("reasons", options)
    note = "Mean ‖M − N‖² on training recordings left out, each group once."
    rows = [row for name, key in PARTS for row in fewer_recordings(bench, name, key)]
    report.table("Fewer recordings", rows, note)
    note = "Mean ‖M − N‖² on second halves of training recordings."
    report.table("New names", new_names(bench, "meetings"), note)
    note = "Mean ‖M − N‖² on training recordings left out; lengths of the segments of a recording."
    report.table("Equal lengths", [lengths(bench, name) for name in LENGTHS], note)
    report.save()


if __name__ == "__main__":
    main()
