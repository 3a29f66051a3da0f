"""Time the exact search for change-points under a given metric, next to installed peers.

    python -m experiments.benchmarks.change_points [--repeats 7] [--tiny]

The data are X = Z L⁻¹, where L is a random symmetric matrix, B = LLᵀ is the metric, and Z is
piecewise constant plus noise of variance one. Under the metric the noise is therefore white, as
fastcpd's mean model assumes. All programs minimize ‖Z − MZ‖² + penalty · (number of segments). The
penalty is 2 P log T unless another one is stated. fastcpd gets half of the penalty as ``beta``,
with ``cost_adjustment="BIC"``. Before programs are timed, their objectives must agree to a relative
1e-9. Times are medians of processor time, measured in turns with one thread. Unlike wall time,
processor time does not favor short programs on a busy machine. Memory is measured only for our
program, in a separate process. This memory is the peak of the process, minus the memory that the
process uses before the call. Before the call, the process already holds X and Z.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

import metriclearn as ml
from experiments.benchmarks import machine
from experiments.benchmarks.benchmark import Benchmark, Run, cell
from experiments.benchmarks.machine import Row, in_own_process, in_turns, side_by_side
from experiments.benchmarks.peers import Ends, Program, answering, installed, objective, programs
from metriclearn.datasets import make_change_points
from metriclearn.estimators.scores.segment_score import SegmentScore
from metriclearn.plots import plot_scaling

BENCH = Benchmark("change_points", __doc__)
SIZES = [(600, 300, 10), (2000, 20, 40), (5400, 50, 90), (20000, 10, 200), (20000, 10, 1)]
KNOWN = [(5400, 50, 90), (20000, 10, 200)]
NOISY = [(600, 300, 10, 0.2), (2000, 20, 40, 0.5), (5400, 50, 90, 0.3), (20000, 10, 200, 0.6)]
TINY = (120, 5, 3)
RATIOS = (None, 10.0, 3.0, 1.0)
LENGTHS = (10**3, 10**4, 10**5, 10**6, 10**7)
COUNTS: dict[str, Callable[[int], int]] = {
    "no change": lambda T: 1,
    "10 segments": lambda T: 10,
    "T / 100 segments": lambda T: T // 100,
}
_CHANGES, _SIZE = "changes", "(T, P, segments)"
_AGAINST = "Time against length"
_SLOW = 100.0  # seconds
_PEAK = "peak MiB above the data"
_SAME = 1e-9  # relative difference of objectives


@dataclass(frozen=True)
class Signal:
    """A signal to segment: observations X, the factor L of the metric, Z = X L, the true
    segmentation, and the penalty of a segment."""

    X: NDArray
    L: NDArray
    Z: NDArray
    truth: ml.Partition
    penalty: float

    @property
    def name(self) -> str:
        """The size of the signal as text: (T, P, number of segments)."""
        return f"({len(self.X)}, {self.X.shape[1]}, {self.truth.n_clusters})"

    @property
    def form(self) -> ml.problem.LowRankForm:
        """The form whose maximum is the optimum at the penalty."""
        return ml.problem.LowRankForm(self.Z, shift=-self.penalty)

    def scaled(self, ratio: float | None) -> Signal:
        """Scale the signal until the penalty is ``ratio``. By default the signal stays the same."""
        penalty = self.penalty if ratio is None else ratio
        return replace(self, Z=self.Z * np.sqrt(penalty / self.penalty), penalty=penalty)

    def same(self, first: Ends, second: Ends) -> bool:
        """Return whether two segmentations have the same objective."""
        a, b = (objective(self.Z, ends, self.penalty) for ends in (first, second))
        return abs(a - b) <= _SAME * min(a, b)


def make_signal(n_samples: int, n_features: int, n_segments: int, jump: float = 1.0) -> Signal:
    """Draw a signal with jumps and white noise, and a metric with eigenvalues between 1/e and e."""
    drawn = make_change_points(
        1, n_samples, n_features, n_features, (n_segments, n_segments), jump=jump, random_state=0
    )
    rng = np.random.default_rng(0)
    Q, _ = np.linalg.qr(rng.standard_normal((n_features, n_features)))
    scale = np.exp(rng.uniform(-0.5, 0.5, n_features))
    L, inverse = (Q * scale) @ Q.T, (Q / scale) @ Q.T
    X = drawn.sequences[0] @ inverse
    truth = ml.Partition.from_runs(drawn.labels[0])
    return Signal(X, L, X @ L, truth, 2.0 * n_features * np.log(n_samples))


@BENCH.table("Penalized, Z = X L given", lambda run: [TINY] if run.tiny else SIZES)
def penalized(size: tuple[int, ...], run: Run) -> Row:
    """Time programs that get the transformed signal Z and a penalty."""
    signal = make_signal(*size)
    able = answering(programs(), signal.Z, signal.penalty)
    calls = {name: partial(one, signal.Z, signal.penalty) for name, one in able.items()}
    cells = side_by_side(calls, run.repeats, signal.same)
    cells["segments"] = len(cells["ours"].result)
    return {_SIZE: signal.name, **cells, _PEAK: peak(signal)}


@BENCH.table("Penalized, product X @ L included", lambda run: [TINY] if run.tiny else SIZES)
def with_product(size: tuple[int, ...], run: Run) -> Row:
    """Time programs that get X. Our time is for ``predict_change_points``. A peer segments X L, and
    its time includes the computation of this product.

    Ours is the whole call on a fitted learner, input checks included.
    """
    signal, learner = make_signal(*size), ml.ChangePointMetricLearner()
    learner.score_ = SegmentScore(signal.L.T, signal.penalty)
    learner.n_features_in_ = len(signal.L)

    def multiplied(one: Program) -> Ends:
        return one(signal.X @ signal.L, signal.penalty)

    able = answering(programs(), signal.Z, signal.penalty)
    calls = {name: partial(multiplied, one) for name, one in able.items()}
    calls["ours"] = partial(learner.predict_change_points, signal.X)
    cells = side_by_side(calls, run.repeats, signal.same)
    cells["product alone"] = machine.timed(lambda: signal.X @ signal.L, run.repeats).of_processor
    return {_SIZE: signal.name, **cells}


def peak(signal: Signal, count: int | None = None) -> float:
    """Measure the peak memory in MiB that our program needs in addition to the data. Without
    ``count`` our program minimizes the penalized objective. With ``count`` our program finds the
    best segmentation into this number of segments."""
    return in_own_process(_memory, signal, count)[_PEAK]


def _memory(signal: Signal, count: int | None) -> Row:
    form = signal.form if count is None else ml.problem.LowRankForm(signal.Z)
    return {_PEAK: machine.peak_above(partial(ml.oracles.ChangePoints(), form, count))}


def known_number(signal: Signal, count: int, repeats: int) -> Row:
    """Compare our time for a given number of segments with the time of ruptures' dynamic program
    without pruning."""
    calls: dict[str, Callable[[], Ends]] = {
        "ours": lambda: (
            ml.oracles.ChangePoints()(ml.problem.LowRankForm(signal.Z), count).change_points
        )
    }
    ruptures = installed("ruptures")
    if ruptures is not None:
        program = ruptures.KernelCPD(kernel="linear", min_size=1, jump=1)
        calls["KernelCPD"] = lambda: program.fit(signal.Z).predict(n_bkps=count - 1)
    cells = side_by_side(calls, repeats, signal.same)
    return {_SIZE: signal.name, "K": count, **cells, _PEAK: peak(signal, count)}


@BENCH.table("Known number of segments", lambda run: [TINY] if run.tiny else KNOWN)
def on_hull(size: tuple[int, ...], run: Run) -> Row:
    """Give the true number of segments.

    A program that takes more than 10 s is run once.
    """
    signal = make_signal(*size)
    return known_number(signal, signal.truth.n_clusters, run.repeats)


@BENCH.table(
    "Known number of segments that no penalty leads to (noisy data)",
    lambda run: NOISY[:1] if run.tiny else NOISY,
)
def noisy(size: tuple[int, int, int, float], run: Run) -> Row:
    """Give a number of segments that no penalty yields."""
    signal = make_signal(*size)
    row = known_number(signal, off_hull(signal), run.repeats)
    return {_SIZE: row.pop(_SIZE), "jump / noise": size[3], **row}


def off_hull(signal: Signal) -> int:
    """Find the number of segments that is nearest to the true number among those that no penalty
    yields."""
    n_segments = signal.truth.n_clusters
    path = ml.oracles.segmentation_path(signal.Z, max_segments=2 * n_segments)
    inside = np.setdiff1d(np.arange(2, 2 * n_segments), path.n_segments)
    return int(inside[np.argmin(np.abs(inside - n_segments))])


@BENCH.table(
    "Loss-augmented inference, α = 1",
    lambda run: [(ratio, size) for ratio in RATIOS for size in ([TINY] if run.tiny else SIZES)],
)
def augmented(case: tuple[float | None, tuple[int, ...]], run: Run) -> Row:
    """Time loss-augmented and plain inference with the same penalty. The weight α of the loss is 1.
    If a ratio is given, the penalty is this ratio times α. In this case the signal is scaled until
    this penalty is 2 P log T times the variance of its noise."""
    ratio, oracle = case[0], ml.oracles.ChangePoints()
    signal = make_signal(*case[1]).scaled(ratio)
    calls = {
        "plain": lambda: oracle(signal.form),
        "augmented": lambda: oracle(signal.form.plus(signal.truth, 2.0).shifted(1.0)),
    }
    timings = in_turns(calls, run.repeats)
    plainly, loss = (timing.of_processor for timing in timings.values())
    return {
        _SIZE: signal.name,
        "penalty / α": "2 P log T" if ratio is None else ratio,
        "plain": plainly,
        "augmented": loss,
        "augmented / plain": f"{loss.median / plainly.median:.2f}",
        "segments plain, augmented": f"{plainly.result.n_clusters}, {loss.result.n_clusters}",
    }


def of_length(
    case: tuple[int, str, Callable[[int], int]], run: Run, sizes: Sequence[int]
) -> Iterator[Row]:
    """Yield times against T, for programs that get Z.

    A peer is left out of the next length where a quadratic cost would take it more than 100 s
    there.
    """
    n_features, words, count = case
    sizes = (100, 200) if run.tiny else sizes
    peers = {"ours", "ruptures KernelCPD", "fastcpd mean", "skchange FPOP"}
    for T, following in zip(sizes, [*sizes[1:], sizes[-1]]):
        signal = steps(T, n_features, count(T))
        runs = programs(n_features=n_features)
        calls = {n: partial(runs[n], signal.Z, signal.penalty) for n in runs if n in peers}
        cells = side_by_side(calls, run.repeats, signal.same)
        others = calls.keys() - {"ours"}
        peers -= {n for n in others if cells[n].median * (following / T) ** 2 > _SLOW}
        cells |= {"segments": len(cells["ours"].result), _PEAK: peak(signal)}
        yield {_CHANGES: words, "P": n_features, "T": T, **cells}


_FEW = {"no change": COUNTS["no change"], "780 segments": lambda T: min(780, T // 10)}
_ONE = [(P, "no change", COUNTS["no change"]) for P in (1, 2, 3, 5, 8)]
for _title, _cases, _sizes in (
    (f"{_AGAINST}, P = 8", [(8, *item) for item in COUNTS.items()], LENGTHS),
    ("One feature", [(1, *item) for item in _FEW.items()], LENGTHS[:4]),
    ("No change, by the number of features", _ONE, (20_000, 10**6)),
):
    BENCH.table(_title, _cases)(partial(of_length, sizes=_sizes))


def steps(n_samples: int, n_features: int, n_segments: int) -> Signal:
    """Draw a signal with segments of the same length, whose means have variance one, and white
    noise."""
    rng = np.random.default_rng(0)
    ends = np.arange(1, n_segments + 1) * n_samples // n_segments
    means = rng.standard_normal((n_segments, n_features))
    Z = np.repeat(means, np.diff(ends, prepend=0), axis=0)
    Z += rng.standard_normal(Z.shape)
    truth = ml.Partition.from_change_points(ends, n_samples)
    return Signal(Z, np.eye(n_features), Z, truth, 2.0 * n_features * np.log(n_samples))


def draw(record: Mapping[str, Any]) -> Figure:
    """Plot time against length, with one panel for each number of changes."""
    rows = next(table["rows"] for table in record["tables"] if table["title"].startswith(_AGAINST))
    figure = Figure(figsize=(12.0, 4.2), layout="constrained")
    kinds = list(dict.fromkeys(row[_CHANGES] for row in rows))
    for ax, kind in zip(np.atleast_1d(figure.subplots(1, len(kinds), sharey=True)), kinds):
        lines = [row for row in rows if row[_CHANGES] == kind]
        longest = f"{lines[-1]['T']:,} samples".replace(",", " ")
        title = f"{kind}: {longest} in {cell(lines[-1]['ours'])}"
        for name in (name for name, value in lines[0].items() if isinstance(value, dict)):
            times = {row["T"]: row[name]["median"] for row in lines if name in row}
            power = machine.power_of(list(times), list(times.values()))
            label = f"{name}, T^{power:.2f}"
            plot_scaling(list(times), list(times.values()), ax=ax, label=label, title=title)
    return figure


if __name__ == "__main__":
    BENCH.main()
