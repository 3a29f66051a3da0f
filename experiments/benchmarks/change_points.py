"""Exact change-points with a metric given as a matrix, side by side with ruptures and fastcpd.

    python -m experiments.benchmarks.change_points [--out FOLDER] [--repeats 7] [--skip-slow]

The data are X = Z L⁻¹ with L a random symmetric matrix, B = LLᵀ the metric, and Z piecewise
constant plus noise of variance one: under the metric the noise is white, which is what fastcpd's
mean model is told. All programs minimize ‖Z − MZ‖² + penalty · (number of segments), with
penalty 2 P log T where none is stated; fastcpd's half of it is its ``beta`` with the adjustment
"BIC". Times are medians of processor time, taken in turns, one thread: unlike wall time they do not
favor short programs on a busy machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from experiments.benchmarks.machine import Report, Timing, in_turns, met, options_of
from experiments.benchmarks.peers import Program, installed, objective, programs
from metriclearn import (
    ChangePointMetricLearner,
    ChangePoints,
    LowRankForm,
    Partition,
    SummedArea,
    segmentation_path,
)
from metriclearn.datasets import make_change_points
from metriclearn.problem.forms import center

SIZES = [(600, 300, 10), (2000, 20, 40), (5400, 50, 90), (20000, 10, 200), (20000, 10, 1)]
KNOWN_SIZES = [(5400, 50, 90, 100.0), (20000, 10, 200, 1000.0)]
RATIOS = (None, 10.0, 3.0, 1.0)
_SAME = 1e-9  # relative difference of objectives
_SLOW_SAMPLES = 20000  # from here on a peer's dynamic program takes the better part of a minute


@dataclass(frozen=True)
class Problem:
    """Observations X, the factor L of the metric, Z = X L, and the labeled segmentation."""

    X: NDArray
    L: NDArray
    Z: NDArray
    truth: Partition
    penalty: float

    @property
    def name(self) -> str:
        """(T, P, number of segments)."""
        return f"({len(self.X)}, {self.X.shape[1]}, {self.truth.n_clusters})"


def make_problem(
    n_samples: int, n_features: int, n_segments: int, jump: float = 1.0, seed: int = 0
) -> Problem:
    """White noise and jumps under a metric with eigenvalues between 1/e and e."""
    drawn = make_change_points(
        1, n_samples, n_features, n_features, (n_segments, n_segments), jump=jump,
        random_state=seed,
    )  # fmt: skip
    rng = np.random.default_rng(seed)
    Q, _ = np.linalg.qr(rng.standard_normal((n_features, n_features)))
    scale = np.exp(rng.uniform(-0.5, 0.5, n_features))
    L, inverse = (Q * scale) @ Q.T, (Q / scale) @ Q.T
    X = drawn.sequences[0] @ inverse
    truth = Partition.from_runs(drawn.labels[0])
    return Problem(X, L, X @ L, truth, 2.0 * n_features * np.log(n_samples))


def timed(
    calls: Mapping[str, Callable[[], Any]], repeats: int
) -> tuple[dict[str, Timing], float | None]:
    """Programs by turns, with the processor's seconds, and how often the best peer's ours are."""
    timings = {
        name: replace(timing, seconds=timing.processor)
        for name, timing in in_turns(calls, repeats).items()
    }
    peers = [timing.median for name, timing in timings.items() if name != "ours"]
    return timings, min(peers) / timings["ours"].median if peers else None


def excess(problem: Problem, timings: dict[str, Timing]) -> list[float]:
    """Objective of every program relative to the best of all, minus one."""
    values = [objective(problem.Z, t.result, problem.penalty) for t in timings.values()]
    return [value / min(values) - 1.0 for value in values]


def times(factor: float | None) -> str:
    """How a table says how many times faster ours is."""
    return "" if factor is None else f"{factor:.1f}x"


def penalized(problem: Problem, repeats: int) -> dict[str, Any]:
    """Z given."""
    calls = {n: partial(run, problem.Z, problem.penalty) for n, run in programs().items()}
    timings, faster = timed(calls, repeats)
    above = excess(problem, timings)
    return {
        "(T, P, segments)": problem.name,
        **timings,
        "faster": times(faster),
        ">= 3x": "" if faster is None else met(faster >= 3.0),
        "found": len(timings["ours"].result),
        "objective above the best": ", ".join(f"{value:.1e}" for value in above),
        "same to 1e-9": met(max(above) <= _SAME),
    }


def with_product(problem: Problem, repeats: int) -> dict[str, Any]:
    """X and L given; and what a user of a fitted learner calls, checks of the input included."""

    def multiplied(run: Program) -> Any:
        return run(problem.X @ problem.L, problem.penalty)

    calls = {name: partial(multiplied, run) for name, run in programs().items()}
    timings, faster = timed(calls, repeats)
    learner = ChangePointMetricLearner()
    learner.components_, learner.penalty_ = problem.L.T, problem.penalty
    learner.n_features_in_ = len(problem.L)
    further, _ = timed(
        {
            "ours": partial(learner.predict_change_points, problem.X),
            "X @ L": lambda: problem.X @ problem.L,
        },
        repeats,
    )
    same = np.array_equal(further["ours"].result, timings["ours"].result)
    return {
        "(T, P, segments)": problem.name,
        **timings,
        "faster": times(faster),
        "X @ L": further["X @ L"],
        "predict_change_points": further["ours"],
        "same change-points": met(same),
    }


def known_number(repeats: int, skip_slow: bool, tiny: bool) -> Iterator[dict[str, Any]]:
    """K given and on the hull."""
    sizes = [(200, 5, 4, 1.0)] if tiny else KNOWN_SIZES
    for n_samples, n_features, n_segments, required in sizes:
        problem = make_problem(n_samples, n_features, n_segments)
        yield known_row(problem, n_segments, required, repeats, skip_slow)


def known_row(
    problem: Problem, count: int, required: float | None, repeats: int, skip_slow: bool
) -> dict[str, Any]:
    """Ours against the full dynamic program for a number of segments."""
    calls: dict[str, Callable[[], Any]] = {
        "ours": lambda: ChangePoints()(LowRankForm(problem.Z), count).change_points
    }
    ruptures = installed("ruptures")
    if ruptures is not None and not (skip_slow and len(problem.Z) >= _SLOW_SAMPLES):
        program = ruptures.KernelCPD(kernel="linear", min_size=1, jump=1)
        calls["KernelCPD"] = lambda: program.fit(problem.Z).predict(n_bkps=count - 1)
    timings, faster = timed(calls, repeats)
    counts = {len(timing.result) for timing in timings.values()}
    target = ""
    if required is not None and faster is not None:
        target = f">= {required:g}x: {met(faster >= required)}"
    return {
        "(T, P, segments)": problem.name,
        "K": count,
        "ours": timings["ours"],
        "KernelCPD": timings.get("KernelCPD", "skipped"),
        "faster": times(faster),
        "required": target,
        "same to 1e-9": met(counts == {count} and max(excess(problem, timings)) <= _SAME),
    }


def off_hull(repeats: int, skip_slow: bool, tiny: bool) -> Iterator[dict[str, Any]]:
    """Noisy data, K given and strictly inside an edge of the hull: no penalty leads to it."""
    cases = [(600, 300, 10, 0.2), (2000, 20, 40, 0.5), (5400, 50, 90, 0.3), (20000, 10, 200, 0.6)]
    for n_samples, n_features, n_segments, jump in cases[:1] if tiny else cases:
        problem = make_problem(n_samples, n_features, n_segments, jump)
        path = segmentation_path(problem.Z, max_segments=2 * n_segments)
        inside = np.setdiff1d(np.arange(2, 2 * n_segments), path.n_segments)
        count = int(inside[np.argmin(np.abs(inside - n_segments))])
        row = known_row(problem, count, None, repeats, skip_slow)
        row.pop("required")
        yield {"jump / noise": jump, **row}


def augmented(problem: Problem, repeats: int, ratio: float | None = None) -> dict[str, Any]:
    """Loss-augmented against plain inference at the same price of a segment, α = 1.

    What the loss weighs depends on the price: with ``ratio`` the signal is scaled so that the
    price, 2 P log T in units of the noise, is ``ratio`` times α.
    """
    price = problem.penalty if ratio is None else ratio
    Z = problem.Z * np.sqrt(price / problem.penalty)
    share, timings = augmented_share(Z, problem.truth, price, repeats)
    counts = [timing.result.n_clusters for timing in timings.values()]
    return {
        "(T, P, segments)": problem.name,
        "price / α": "2 P log T" if ratio is None else ratio,
        **timings,
        "augmented / plain": f"{share:.2f}",
        "<= 1.5": met(share <= 1.5),
        "segments plain, augmented": f"{counts[0]}, {counts[1]}",
    }


def augmented_share(
    Z: NDArray, truth: Partition, price: float, repeats: int
) -> tuple[float, dict[str, Timing]]:
    """Time of loss-augmented over time of plain inference, both from Z."""

    def plain() -> Partition:
        return ChangePoints()(LowRankForm(Z, shift=-price))

    def with_loss() -> Partition:
        return ChangePoints()(LowRankForm(Z, shift=-price).plus(truth, 2.0).shifted(1.0))

    timings, _ = timed({"ours": plain, "augmented": with_loss}, repeats)
    plainly = {"plain": timings["ours"], "augmented": timings["augmented"]}
    return timings["augmented"].median / timings["ours"].median, plainly


def trained(repeats: int) -> dict[str, Any]:
    """Loss-augmented against plain inference at a learned metric and its learned price."""
    data = make_change_points(random_state=0)
    learner = ChangePointMetricLearner().fit(data.sequences, data.labels)
    assert learner.penalty_ is not None
    Z = center(data.sequences[0]) @ learner.components_.T
    truth = Partition.from_runs(data.labels[0])
    share, timings = augmented_share(Z, truth, learner.penalty_, repeats)
    return {
        "(T, P, segments)": f"(600, 300, {truth.n_clusters}) after training",
        "price / α": learner.penalty_,
        **timings,
        "augmented / plain": f"{share:.2f}",
        "<= 1.5": met(share <= 1.5),
        "segments plain, augmented": ", ".join(
            str(timing.result.n_clusters) for timing in timings.values()
        ),
    }


def smallest(problem: Problem, min_size: int, share: float) -> dict[str, Any]:
    """Objectives relative to the best of all for a smallest segment and a part of the penalty."""
    price = share * problem.penalty
    found = {name: run(problem.Z, price) for name, run in programs(min_size).items()}
    if len(problem.Z) <= 2000:
        form = LowRankForm(problem.Z, shift=-price)
        found["Algorithm 1"] = SummedArea(min_size)(form).change_points
    values = {name: objective(problem.Z, ends, price) for name, ends in found.items()}
    best = min(values.values())
    return {
        "(T, P, segments)": problem.name,
        "min_size": min_size,
        "penalty": f"{2 * share:g} P log T",
        "found": len(found["ours"]),
        "shortest": int(np.min(np.diff(found["ours"], prepend=0))),
        "above the best": ", ".join(f"{n} {v / best - 1:.1e}" for n, v in values.items()),
        "ours best": met(values["ours"] <= best * (1 + _SAME)),
    }


def main() -> None:
    """Print and save all tables."""
    parser = options_of(__doc__)
    parser.add_argument(
        "--skip-slow", action="store_true", help="without the peer's runs of about a minute"
    )
    options = parser.parse_args()
    repeats = options.repeats
    with threadpool_limits(1):
        report = Report("change_points", threads=1, repeats=repeats)
        sizes = [(120, 5, 3)] if options.tiny else SIZES
        problems = [make_problem(*size) for size in sizes]
        report.table(
            "Penalized, Z = X L given",
            [penalized(problem, repeats) for problem in problems],
            "Objectives above the best are those of the programs in their order, relative.",
        )
        report.table(
            "Penalized, product X @ L included",
            [with_product(problem, repeats) for problem in problems],
            "`predict_change_points` is the whole call on a fitted learner, input checks included.",
        )
        report.table(
            "Known number of segments",
            list(known_number(repeats, options.skip_slow, options.tiny)),
            "A program that takes more than 10 s is run once.",
        )
        report.table(
            "Known number of segments that no penalty leads to (noisy data)",
            list(off_hull(repeats, options.skip_slow, options.tiny)),
        )
        report.table(
            "Loss-augmented inference, α = 1",
            [
                *(augmented(problem, repeats, ratio) for ratio in RATIOS for problem in problems),
                *([] if options.tiny else [trained(repeats)]),
            ],
        )
        report.table(
            "Smallest segment",
            [
                smallest(make_problem(*size, jump=0.5), min_size, share)
                for size in sizes[:3]
                for min_size in (1, 5)
                for share in (1.0, 0.05)
            ],
        )
    report.save(options.out)


if __name__ == "__main__":
    main()
