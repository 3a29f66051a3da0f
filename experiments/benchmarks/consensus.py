"""What a consensus costs, and whether it knows its errors.

    python -m experiments.benchmarks.consensus [--tiny]

A Segmenter with its default members is fitted for every case of an experiment, that is, for every
division into training and test data. The overhead of a consensus is the additional processor time
of its predictions for the test data, in percent of the time that its models take one by one. The
column "expected and real loss" has the rank correlation over test recordings between the loss that
the consensus expects and its real loss. A predicted boundary counts as true if a labeled boundary
is within ``tolerance`` samples.
"""

from __future__ import annotations

from functools import partial
from itertools import pairwise

import numpy as np
from hydra.utils import get_class
from scipy.stats import spearmanr

from experiments.benchmarks.benchmark import Benchmark, Run
from experiments.benchmarks.machine import Row, Timing, in_own_process
from experiments.harness.command_line import configuration
from experiments.harness.scoring import sequence_losses
from metriclearn import Partition, Segmenter
from metriclearn.datasets import LabeledSequences
from metriclearn.estimators.scores.agreement import answers_of
from metriclearn.indices.boundaries import near

NAMES = ("hapt", "birdsong", "mocap6")
BENCH = Benchmark("consensus", __doc__)
_TOLERANCE = 2
_PAIRS: dict[str, list[tuple[float, bool]]] = {}  # of every data set measured so far
_SHARES = (0.0, 0.5, 0.75, 0.9, 0.99, 1.01)  # of models, among those of the consensus


@BENCH.table(
    "Cost and doubt",
    NAMES,
    "Processor seconds of all test data, medians of five, models and consensus in turns.",
)
def cost(experiment: str, run: Run) -> Row:
    """Measure a data set in a process of its own."""
    row = in_own_process(measured, experiment, run.tiny)
    _PAIRS[experiment] = row.pop("boundaries")
    return row


def measured(experiment: str, tiny: bool) -> Row:
    """Measure everything for one data set, and return its row of the table."""
    config = configuration(f"experiment={experiment}", f"tiny={tiny}")
    fits, whole, asked = Timing(), [], []
    losses, expected, pairs = [], [], []
    for case in get_class(config.procedure)(config).cases():
        train, test = case.train, case.test
        groups = train.groups if len(set(train.groups)) > 1 else None
        fit = partial(Segmenter(n_folds=3).fit, train.sequences, train.labels, groups)
        consensus: Segmenter = fits.run(fit).result
        losses.append(sequence_losses(consensus, test))  # this also compiles kernels
        expected.append(consensus.expected_loss(test.sequences))
        pairs += _boundaries(consensus, test)
        data, answer, alone = consensus.read_data(test.sequences), Timing(), Timing()
        agreement = consensus.agreement_
        every = partial(answers_of, agreement.scores, agreement.fits, classes=agreement.classes)
        for _ in range(1 if tiny else 5):  # in turns
            alone.run(lambda: list(map(every, data.arrays)))  # noqa: B023
            answer.run(partial(consensus.predict_change_points, test.sequences))
        whole.append(answer.processor_median)
        asked.append(alone.processor_median)
    real = np.concatenate(losses)
    rank = spearmanr(np.concatenate(expected), real).statistic if len(real) > 4 else np.nan
    return {
        "data": experiment,
        "models": len(consensus.agreement_.scores),
        "seconds of a fit": round(fits.processor_median, 1),
        "seconds of the models": round(sum(asked), 3),
        "of the consensus": round(sum(whole), 3),
        "more, in %": round(100 * (sum(whole) / sum(asked) - 1), 1),
        "test recordings": len(real),
        "expected and real loss": "–" if np.isnan(rank) else round(float(rank), 2),
        "‖M − N‖²": float(real.mean()),
        "boundaries": pairs,
    }


def _boundaries(consensus: Segmenter, test: LabeledSequences) -> list[tuple[float, bool]]:
    """For each predicted boundary, return the fraction of the models that predict it, and whether
    it is true."""
    ends = consensus.predict_change_points(test.sequences)
    shares = consensus.boundary_shares(test.sequences, tolerance=_TOLERANCE)
    pairs: list[tuple[float, bool]] = []
    for found, share, labels in zip(ends, shares, test.labels):
        truth = Partition.from_runs(labels).change_points[:-1]
        pairs += zip(share.tolist(), near(found[:-1], truth, _TOLERANCE).tolist())
    return pairs


@BENCH.table("How many boundaries are true", pairwise(_SHARES))
def boundaries(shares: tuple[float, float], run: Run) -> Row:
    """Show how many of the boundaries are true that a given fraction of the models predicts."""
    low, high = shares
    row: Row = {"share of models": f"{low:g} to {min(high, 1.0):g}"}
    for name, pairs in _PAIRS.items():
        true = [is_true for share, is_true in pairs if low <= share < high]
        row[name] = f"{np.mean(true):.2f} of {len(true)}" if true else "–"
    return row


if __name__ == "__main__":
    BENCH.main()
