"""Confidence of change-points: are probabilities right on unseen users, and are they fast?

    python -m experiments.benchmarks.confidence [--tiny]

The data are half-second windows of HAPT. The metric is learned and calibrated on the training users
of ``experiment=hapt``, and its probabilities are compared with the labeled changes of the test
users. A predicted change counts as true if a labeled change is within the tolerance. Processor
seconds of ``predict_change_points`` and ``boundary_margins`` are measured in turns, on the
recordings of the test users and on generated steps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, partial
from itertools import product
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from experiments.benchmarks.benchmark import Benchmark, Run
from experiments.benchmarks.machine import Row, in_turns
from experiments.harness.cases import group_cases
from metriclearn import ChangePointMetricLearner, Partition
from metriclearn.baselines import Euclidean, TunedSegmenter
from metriclearn.datasets import LabeledSequences, load_dataset, make_change_points
from metriclearn.estimators.scores.segmenting import MahalanobisSegmenter
from metriclearn.indices.boundaries import near
from metriclearn.plots import expected_calibration_error, plot_reliability

_SECONDS, _RATE = (0.5, 1.0, 2.0), 2.0  # tolerances, and windows per second
_DRAWN = 1.0
BENCH = Benchmark("confidence", __doc__)
_LUCK: list[float] = []  # the calibration error of the drawn case, if it were right
_CLEAR = (300, 6), (2000, 20), (4000, 40), (20000, 100)  # numbers of samples, and of clear segments


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


def luck(probabilities: NDArray, outcomes: NDArray) -> float:
    """Estimate the calibration error that these probabilities would have by chance if they were
    right. Outcomes are drawn from the probabilities many times, and the error is averaged."""
    random = np.random.default_rng(0)
    drawn = [random.random(len(outcomes)) < probabilities for _ in range(200)]
    return float(np.mean([expected_calibration_error(probabilities, one) for one in drawn]))


@BENCH.table(
    "Probabilities of changes on test users",
    product(("ours", "euclidean"), _SECONDS),
    lambda rows: (
        "Ten bins of equal width; a perfectly calibrated answer has an error, too, about "
        f"{_LUCK[0]:.3f} for ours at {_DRAWN:g} s."
    ),
)
def probabilities(case: tuple[str, float], run: Run) -> Row:
    """Calibrate a model on the training data, and compare the probability of every change that it
    predicts in the test data with whether the change is true."""
    (name, seconds), (learners, train, test) = case, fitted(run.tiny)
    model, tolerance = learners[name], round(seconds * _RATE)
    model.calibrate(train.sequences, train.labels, tolerance)
    margins = model.boundary_margins(test.sequences)
    truths = [Partition.from_runs(labels) for labels in test.labels]
    true = [
        near(m.change_points[:-1], t.change_points[:-1], tolerance) for m, t in zip(margins, truths)
    ]
    given, outcomes = np.concatenate([m.probabilities for m in margins]), np.concatenate(true)
    if case == ("ours", _DRAWN):
        run.kept |= {"probabilities": given, "outcomes": outcomes}
        _LUCK[:] = [luck(given, outcomes)]
    return {
        "metric": name,
        "tolerance in s": seconds,
        "predicted changes": len(given),
        "true": float(outcomes.mean()),
        "mean probability": float(given.mean()),
        "expected calibration error": expected_calibration_error(given, outcomes),
    }


def clear_steps(n_samples: int, n_segments: int) -> tuple[NDArray, int]:
    """Draw a sequence of steps far above the noise. Returns the sequence and its number of
    segments."""
    counts = n_segments, n_segments
    steps = make_change_points(1, n_samples, 36, 36, counts, jump=3.0, random_state=0)
    return steps.sequences[0], n_segments


def cases(run: Run) -> list[tuple[str, MahalanobisSegmenter, Sequence[NDArray], Any]]:
    """List the cases to time: title, model, sequences, and the given numbers of segments. These
    numbers are right, too small or too large. If the numbers are None, the penalty decides."""
    learners, _, test = fitted(run.tiny)
    whole = learners["ours"]
    size = (1, 400, 36, 36, (5, 5)) if run.tiny else (1, 20000, 36, 36, (100, 100))
    steps = make_change_points(*size, jump=0.5, random_state=0)
    planted = TunedSegmenter(Euclidean()).fit(steps.sequences, steps.labels)
    true = [Partition.from_runs(labels).n_clusters for labels in test.labels]
    n_steps = Partition.from_runs(steps.labels[0]).n_clusters
    clear = [clear_steps(n, K) for n, K in _CLEAR if n <= len(steps.sequences[0])]
    noise = [np.random.default_rng(0).normal(size=(len(steps.sequences[0]) // 5, 36))]
    return [
        ("HAPT, test users", whole, test.sequences, None),
        ("HAPT, true numbers given", whole, test.sequences, true),
        ("HAPT, half of them given", whole, test.sequences, [(K + 1) // 2 for K in true]),
        ("HAPT, twice as many given", whole, test.sequences, [2 * K for K in true]),
        ("steps, 36 features", planted, steps.sequences, None),
        ("steps, true number given", planted, steps.sequences, n_steps),
        ("steps, half of it given", planted, steps.sequences, n_steps // 2),
        ("steps, twice as many given", planted, steps.sequences, 2 * n_steps),
        ("noise, as many given", planted, noise, n_steps),
        *[
            (f"clear steps, {words} given", planted, [array], K * times // 2)
            for array, K in clear
            for words, times in (("true number", 2), ("half of it", 1), ("twice as many", 4))
        ],
    ]


@BENCH.table(
    "Cost",
    cases,
    "Processor seconds. With given numbers of segments prediction is one program where changes "
    "are clear and their number is right, and a search by up to twenty elsewhere; margins are "
    "two programs in a narrow window, and wider ones for what it leaves open.",
)
def cost(case: tuple[str, Any, Sequence[NDArray], Any], run: Run) -> Row:
    """Time prediction and boundary margins in turns."""
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


if __name__ == "__main__":
    BENCH.main()
