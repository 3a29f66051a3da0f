"""Confidence: do probabilities and a consensus know their errors on unseen users, and at what cost?

    python -m experiments.benchmarks.confidence [--only margins consensus] [--tiny]

**margins.** The data are half-second windows of HAPT. The metric is learned and calibrated on the
training users of ``experiment=hapt``, and its probabilities are compared with the labeled changes
of the test users. A predicted change counts as true if a labeled change is within the tolerance.
Ten bins of equal width are compared. A perfectly calibrated answer has an error, too: "by chance"
is the mean error of outcomes that are drawn from the probabilities. Processor seconds of
``predict_change_points`` and ``boundary_margins`` are measured in turns, on the recordings of the
test users and on generated steps.

**consensus.** A Segmenter with its default members is fitted for every case of an experiment, that
is, for every division into training and test data. The overhead of a consensus is the additional
processor time of its predictions for the test data, in percent of the time that its models take one
by one. The column "expected and real loss" has the rank correlation over test recordings between
the loss that the consensus expects and its real loss. A predicted boundary counts as true if a
labeled boundary is within two samples.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache, partial
from itertools import pairwise, product
from math import ceil
from typing import Any

import numpy as np
from hydra.utils import get_class
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy.stats import spearmanr

from experiments.benchmarks.benchmark import Benchmark, Run
from experiments.benchmarks.machine import Row, Timing, in_own_process, in_turns
from experiments.harness.cases import group_cases
from experiments.harness.command_line import configuration
from experiments.harness.scoring import sequence_losses
from metriclearn import ChangePointMetricLearner, Segmenter
from metriclearn.baselines import Euclidean, TunedSegmenter
from metriclearn.datasets import LabeledSequences, load_dataset, make_change_points
from metriclearn.estimators.scores.agreement import answers_of
from metriclearn.estimators.scores.segmenting import MahalanobisSegmenter
from metriclearn.indices.boundaries import near
from metriclearn.plots import expected_calibration_error, plot_reliability

BENCH = Benchmark("confidence", __doc__)
_SECONDS, _RATE = (0.5, 1.0, 2.0), 2.0  # tolerances, and windows per second
_DRAWN = 1.0
_CLEAR = (300, 6), (2000, 20), (4000, 40), (20000, 100)  # numbers of samples, and of clear segments
_GIVEN = {"true number": 1.0, "half of it": 0.5, "twice as many": 2.0}
_TOLERANCE = 2
_SHARES = (0.0, 0.5, 0.75, 0.9, 0.99, 1.01)  # share of the models of the consensus
Timed = tuple[str, MahalanobisSegmenter, Sequence[NDArray], list[int] | None]


@cache
def fitted(tiny: bool) -> tuple[dict[str, Any], LabeledSequences, LabeledSequences]:
    """Return our learner and a Euclidean one, fitted to training users of HAPT, with the training
    and the test data."""
    (case,) = group_cases(load_dataset("hapt", unlabeled="keep"), 6, False, 4, 0)
    train, test = case.train, case.test
    if tiny:
        train, test = train.select([0, 1, 2]), test.select([0, 1])
    learners = {"ours": ChangePointMetricLearner(), "euclidean": TunedSegmenter(Euclidean())}
    for learner in learners.values():
        learner.fit(train.sequences, train.labels)
    return learners, train, test


def hits(found: Sequence[NDArray], test: LabeledSequences, tolerance: int) -> NDArray[np.bool_]:
    """Tell for every predicted change of all recordings whether a labeled change is near."""
    pairs = zip(found, test.change_points)
    return np.concatenate([near(ends[:-1], true[:-1], tolerance) for ends, true in pairs])


def by_chance(probabilities: NDArray) -> float:
    """Estimate the calibration error that these probabilities would have if they were right.
    Outcomes are drawn from the probabilities many times, and the error is averaged."""
    random = np.random.default_rng(0)
    drawn = [random.random(len(probabilities)) < probabilities for _ in range(200)]
    return float(np.mean([expected_calibration_error(probabilities, one) for one in drawn]))


@BENCH.table(
    "Probabilities of changes on test users",
    product(("ours", "euclidean"), _SECONDS),
    part="margins",
)
def probabilities(case: tuple[str, float], run: Run) -> Row:
    """Calibrate a model on the training data, and compare the probability of every change that it
    predicts in the test data with whether the change is true.

    Calibration error of ten bins of equal width.
    """
    (name, seconds), (learners, train, test) = case, fitted(run.tiny)
    model, tolerance = learners[name], round(seconds * _RATE)
    model.calibrate(train.sequences, train.labels, tolerance)
    margins = model.boundary_margins(test.sequences)
    given = np.concatenate([one.probabilities for one in margins])
    outcomes = hits([one.change_points for one in margins], test, tolerance)
    if case == ("ours", _DRAWN):
        run.kept |= {"probabilities": given, "outcomes": outcomes}
    return {
        "metric": name,
        "tolerance in s": seconds,
        "predicted changes": len(given),
        "true": float(outcomes.mean()),
        "mean probability": float(given.mean()),
        "expected calibration error": expected_calibration_error(given, outcomes),
        "by chance": by_chance(given),
    }


def timed_cases(run: Run) -> Iterator[Timed]:
    """Yield the cases to time: title, model, sequences, and the given numbers of segments. These
    numbers are right, too small or too large. If there are none, the penalty decides."""

    def steps(n_samples: int, count: int, jump: float) -> LabeledSequences:
        counts = count, count
        return make_change_points(1, n_samples, 36, 36, counts, jump=jump, random_state=0)

    learners, _, test = fitted(run.tiny)
    T, K = (400, 5) if run.tiny else (20000, 100)
    noisy, whole = steps(T, K, 0.5), learners["ours"]
    planted = TunedSegmenter(Euclidean()).fit(noisy.sequences, noisy.labels)
    yield "HAPT, test users", whole, test.sequences, None
    yield "steps, 36 features", planted, noisy.sequences, None
    noise = np.random.default_rng(0).normal(size=(T // 5, 36))
    yield "noise, as many given", planted, [noise], [K]
    known = [("HAPT", whole, test), ("steps", planted, noisy)]
    known += [("clear steps", planted, steps(n, k, 3.0)) for n, k in _CLEAR if n <= T]
    for (name, model, data), (words, factor) in product(known, _GIVEN.items()):
        counts = [ceil(factor * len(ends)) for ends in data.change_points]
        yield f"{name}, {words} given", model, data.sequences, counts


@BENCH.table("Cost", timed_cases, part="margins")
def cost(case: Timed, run: Run) -> Row:
    """Time prediction and boundary margins in turns.

    Processor seconds. With given numbers of segments prediction is one program where changes are
    clear and their number is right, and a search by up to twenty elsewhere; margins are two
    programs in a narrow window, and wider ones for what it leaves open.
    """
    name, model, arrays, counts = case
    calls = {
        "prediction": partial(model.predict_change_points, arrays, counts),
        "margins": partial(model.boundary_margins, arrays, counts),
    }
    timings = in_turns(calls, run.repeats)
    prediction, margins = (timings[call].of_processor for call in calls)
    return {
        "data": name,
        "samples": sum(map(len, arrays)),
        "segments": sum(map(len, prediction.result)),
        "prediction": prediction,
        "margins": margins,
        "times as much": margins.median / prediction.median,
    }


def draw(record: Mapping[str, Any]) -> Figure:
    """Plot the reliability of the learned metric's probabilities for a tolerance of one second."""
    return plot_reliability(record["probabilities"], record["outcomes"])


@BENCH.table("Cost and doubt", ("hapt", "birdsong", "mocap6"), part="consensus")
def doubt(experiment: str, run: Run) -> Row:
    """Measure a data set in a separate process, and keep its boundaries.

    Processor seconds of all test data, medians of five, models and consensus in turns.
    """
    row = in_own_process(measured, experiment, run.tiny)
    run.kept.setdefault("boundaries", {})[experiment] = row.pop("boundaries")
    return row


def measured(experiment: str, tiny: bool) -> Row:
    """Measure everything for one data set, and return its row of the table. Its boundaries are the
    shares of the models that predict each of them, and whether they are true."""
    config = configuration(f"experiment={experiment}", f"tiny={tiny}")
    fits, whole, asked = Timing(), [], []
    losses, expected, shares, true = [], [], [], []
    for case in get_class(config.procedure)(config).cases():
        train, test = case.train, case.test
        groups = train.groups if len(set(train.groups)) > 1 else None
        fit = partial(Segmenter(n_folds=3).fit, train.sequences, train.labels, groups)
        consensus: Segmenter = fits.run(fit).result
        losses.append(sequence_losses(consensus, test))  # this also compiles kernels
        expected.append(consensus.expected_loss(test.sequences))
        shares += consensus.boundary_shares(test.sequences, tolerance=_TOLERANCE)
        true.append(hits(consensus.predict_change_points(test.sequences), test, _TOLERANCE))
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
        "boundaries": (np.concatenate(shares), np.concatenate(true)),
    }


@BENCH.table("How many boundaries are true", pairwise(_SHARES), part="consensus")
def boundaries(shares: tuple[float, float], run: Run) -> Row:
    """Show how many of the boundaries are true that a given fraction of the models predicts."""
    low, high = shares
    row: Row = {"share of models": f"{low:g} to {min(high, 1.0):g}"}
    for name, (share, true) in run.kept["boundaries"].items():
        some = true[(low <= share) & (share < high)]
        row[name] = f"{some.mean():.2f} of {len(some)}" if len(some) else "–"
    return row


if __name__ == "__main__":
    BENCH.main()
