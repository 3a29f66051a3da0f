"""How many labels are needed: loss on users never seen against labeled recordings.

    python -m experiments.benchmarks.learning_curve [--out FOLDER]

HAPT, windows of half a second: the users that the experiment hapt trains on and those it tests on.
The default learner, and a full metric with the strength that the experiment default_settings found
on training data, are fitted to so many recordings of the training users, drawn anew five times, and
scored on all test recordings. What learns no metric is fitted to all training recordings: the
Euclidean metric with the penalty of least training loss, equal cuts of the length of least training
loss, and one segment.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from sklearn.base import clone

from experiments.benchmarks.machine import Report, options_of
from experiments.comparison import group_cases, sequence_losses
from experiments.trivial import EqualCuts
from metriclearn import ChangePointMetricLearner, FullMetric, SquaredFrobenius
from metriclearn.baselines import Euclidean, TunedSegmenter
from metriclearn.datasets import load_hapt
from metriclearn.plots.canvas import MUTED, PALETTE, canvas, figure_of, number, tidy, words

_NUMBERS, _DRAWS, _RATE = (1, 2, 3, 4, 6, 8, 12, 16, 24), 5, 2.0  # the rate in windows per second
_LEARNERS = {
    "ours, full metric": ChangePointMetricLearner(FullMetric(), SquaredFrobenius(0.1)),
    "ours, a weight per feature": ChangePointMetricLearner(),
}
_OTHERS: dict[str, Any] = {
    "Euclidean, all labels": TunedSegmenter(Euclidean()),
    "equal cuts, all labels": EqualCuts(),
    "one segment": EqualCuts(n_segments=1),
}


def draw(record: Mapping[str, Any], ax: Axes | None = None) -> Figure:
    """Curves with standard errors over draws, and flat lines for what learns no metric."""
    curves, flat = record["curves"], record["flat"]
    numbers, minutes = record["recordings"], np.array(record["minutes"])
    best, level = curves["ours, full metric"], min(flat.values())
    enough = next(n for n, (mean, _) in zip(numbers, best) if mean < level)
    few = "One labeled recording beats" if enough == 1 else f"{enough} labeled recordings beat"
    message = (
        f"{few} the Euclidean metric tuned on all {numbers[-1]} ({number(level)}); "
        f"learned from all: {number(best[-1][0])}"
    )
    ax = canvas(ax, (7.4, 4.2), message)
    for place, (name, curve) in enumerate(curves.items()):
        mean, errors = np.transpose(curve)
        line: dict[str, Any] = {"color": PALETTE[place], "lw": 2.6 - place, "capsize": 2.5}
        ax.errorbar(minutes, mean, errors, marker="o", ms=4, **line)
        words(ax, 1.04 * minutes[-1], mean[-1], name, color=PALETTE[place])
    for name, loss in flat.items():
        ax.axhline(loss, color=MUTED, ls="--", lw=1.2)
        words(ax, 1.04 * minutes[-1], loss, name, color=MUTED)
    ax.set_xscale("log")
    ax.set_xticks(minutes, [f"{m:.0f}\n({n})" for m, n in zip(minutes, numbers)])
    ax.set_xticks([], minor=True)
    ax.set_xlim(right=1.02 * minutes[-1])  # names stand outside
    ax.set_ylim(0, 1.1 * max(flat.values()))
    tidy(ax, "labeled minutes (recordings), log scale", "loss ‖M − N‖² on new users", grid="y")
    return figure_of(ax)


def main() -> None:
    """Learn from more and more recordings; print and save."""
    options = options_of(__doc__).parse_args()
    report = Report("learning_curve", options, draws=_DRAWS)
    (case,) = group_cases(load_hapt(unlabeled="keep"), 6, False, 4, 0)
    train, test = case.train, case.test
    numbers, draws = [n for n in _NUMBERS if n <= len(train)], _DRAWS
    if options.tiny:
        numbers, draws, test = [1, 2], 2, test.select([0, 1])
    flat = {
        name: float(sequence_losses(other.fit(train.sequences, train.labels), test).mean())
        for name, other in _OTHERS.items()
    }
    orders = [np.random.default_rng(seed).permutation(len(train)) for seed in range(draws)]
    curves: dict[str, Any] = {name: [] for name in _LEARNERS}
    minutes = []
    for n in numbers:
        parts = [train.select(order[:n]) for order in orders]
        windows = [sum(map(len, part.sequences)) for part in parts]
        minutes.append(float(np.mean(windows) / _RATE / 60))
        for name, learner in _LEARNERS.items():
            losses = [
                sequence_losses(clone(learner).fit(part.sequences, part.labels), test).mean()
                for part in parts
            ]
            error = 0.0 if n == len(train) else np.std(losses, ddof=1) / np.sqrt(draws)
            curves[name].append((np.mean(losses), error))
    rows: list[dict[str, Any]] = [
        {
            "recordings": n,
            "minutes": minutes[i],
            **{name: "{:.3g} ± {:.2g}".format(*curve[i]) for name, curve in curves.items()},
            **flat,
        }
        for i, n in enumerate(numbers)
    ]
    report.table(
        "Loss on test users by labeled recordings",
        rows,
        "Mean ‖M − N‖² over the test recordings, number of segments estimated; standard errors are "
        "over the draws of training recordings, with the same test recordings. With all recordings "
        "every draw is the same, and has none.",
    )
    report.save(recordings=numbers, minutes=minutes, curves=curves, flat=flat)


if __name__ == "__main__":
    main()
