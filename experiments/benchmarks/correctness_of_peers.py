"""How often exact-looking programs miss the optimum, and what a common offset does to them.

    python -m experiments.benchmarks.correctness_of_peers [--out FOLDER] [--signals 400]

Short random signals (12 to 60 samples, 1 to 3 features, white noise with or without jumps) are
segmented for a random penalty by every program; the optimum is that of the dynamic program
without pruning (Algorithm 1), checked against all segmentations where there are at most 2¹³ of
them. Then a number is added to every sample: an exact change of the data (they are multiples of
1/1024), after which the optimal segmentations are the same. fastcpd has no ``min_size``, so its
optimum is that for 1. Nothing is timed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.benchmarks.machine import Report, options_of
from experiments.benchmarks.peers import Program, objective, programs
from metriclearn import LowRankForm, SummedArea

MIN_SIZE = 3
OFFSETS = (0.0, 1e6, 1e7, 1e8)
_GRID = 1024.0  # samples are multiples of 1/1024, so that sums with 1e8 are exact
_MISSED = 1e-9  # relative
_ENUMERATED = 14  # samples up to which all segmentations are tried


@dataclass(frozen=True)
class Signal:
    """Samples Z (T, P) and a penalty."""

    Z: NDArray
    penalty: float


def random_signals(count: int) -> list[Signal]:
    """Noise, with jumps in half of the signals, and penalties from cheap to dear."""
    rng = np.random.default_rng(0)
    signals = []
    for i in range(count):
        n_samples, n_features = int(rng.integers(12, 61)), int(rng.integers(1, 4))
        Z = rng.standard_normal((n_samples, n_features))
        if i % 2:
            starts = rng.random(n_samples) < 0.1
            Z += 2.0 * rng.standard_normal((n_samples, n_features))[np.cumsum(starts)]
        penalty = float(np.exp(rng.uniform(np.log(0.2), np.log(10.0))) * n_features)
        signals.append(Signal(np.round(_GRID * Z) / _GRID, penalty))
    return signals


def optimum(signal: Signal, min_size: int) -> float:
    """Least objective, by Algorithm 1, and by enumeration for the shortest signals."""
    form = LowRankForm(signal.Z, shift=-signal.penalty)
    best = objective(signal.Z, SummedArea(min_size)(form).change_points, signal.penalty)
    T = len(signal.Z)
    if T <= _ENUMERATED:
        listed = min(
            objective(signal.Z, ends, signal.penalty) for ends in segmentations(T, min_size)
        )
        if abs(listed - best) > 1e-9 * best:
            raise RuntimeError(f"Algorithm 1 gave {best!r}, enumeration {listed!r}.")
    return best


@cache
def segmentations(n_samples: int, min_size: int) -> list[list[int]]:
    """Ends of all segmentations with segments of at least ``min_size`` samples."""
    inner = range(min_size, n_samples - min_size + 1)
    lists = (
        [*ends, n_samples]
        for count in range(n_samples // min_size)
        for ends in combinations(inner, count)
    )
    return [ends for ends in lists if min(np.diff([0, *ends])) >= min_size]


@dataclass
class Tally:
    """What one program did on all signals."""

    found: list[list[int]] = field(default_factory=list)
    excess: list[float] = field(default_factory=list)
    illegal: int = 0
    failed: int = 0
    error: str = ""

    def judge(
        self, program: Program, signal: Signal, best: float, min_size: int, offset: float
    ) -> None:
        """Run on the shifted signal, judge on the signal itself."""
        try:
            ends = [int(end) for end in program(signal.Z + offset, signal.penalty)]
        except Exception as error:  # whatever a peer raises is its result
            self.failed += 1
            self.error = type(error).__name__
            self.found.append([])
            return
        self.found.append(ends)
        if np.min(np.diff(ends, prepend=0)) < min_size:
            self.illegal += 1
            return
        self.excess.append(objective(signal.Z, ends, signal.penalty) / best - 1.0)

    @property
    def missed(self) -> list[float]:
        """Relative excess over the optimum, where there is one."""
        return [value for value in self.excess if value > _MISSED]

    def row(self) -> dict[str, Any]:
        """How a table states it."""
        missed = self.missed
        return {
            "optimum missed": f"{len(missed)} of {len(self.found)}",
            "worst excess": f"{max(missed):.2%}" if missed else "none",
            "mean excess where missed": f"{np.mean(missed):.2%}" if missed else "none",
            "segments too short": self.illegal,
            "failed": f"{self.failed} {self.error}".strip(),
        }


def tallies(
    signals: list[Signal], best: list[float], min_size: int, offset: float
) -> Iterator[tuple[str, Tally]]:
    """Every program on all signals, each shifted by ``offset``."""
    for name, program in programs(min_size, pelt=True).items():
        tally = Tally()
        for signal, value in zip(signals, best):
            tally.judge(program, signal, value, min_size, offset)
        yield name, tally


def optimality(signals: list[Signal]) -> Iterator[dict[str, Any]]:
    """The unshifted signals, for two smallest segments."""
    for min_size in (1, MIN_SIZE):
        best = [optimum(signal, min_size) for signal in signals]
        for name, tally in tallies(signals, best, min_size, 0.0):
            yield {"program": name, "min_size": min_size, **tally.row()}


def offsets(signals: list[Signal]) -> Iterator[dict[str, Any]]:
    """Shifted signals: how many get other change-points than unshifted, min_size 1."""
    best = [optimum(signal, 1) for signal in signals]
    found = {offset: dict(tallies(signals, best, 1, offset)) for offset in OFFSETS}
    for name, unshifted in found[0.0].items():
        yield {
            "program": name,
            **{
                f"other change-points at {offset:g}": others(unshifted, found[offset][name])
                for offset in OFFSETS[1:]
            },
            **{
                f"worst excess at {offset:g}": found[offset][name].row()["worst excess"]
                for offset in OFFSETS[1:]
            },
        }


def others(unshifted: Tally, shifted: Tally) -> str:
    """How many segmentations the shift has changed."""
    changed = sum(a != b for a, b in zip(unshifted.found, shifted.found))
    return f"{changed} of {len(unshifted.found)}"


def main() -> None:
    """Print and save both tables."""
    parser = options_of(__doc__, timed=False)
    parser.add_argument("--signals", type=int, default=400)
    options = parser.parse_args()
    count = 10 if options.tiny else options.signals
    report = Report("correctness_of_peers", signals=count)
    signals = random_signals(count)
    report.table(
        "Optimality, jump = 1",
        list(optimality(signals)),
        f"Missed: the objective is more than {_MISSED:g} (relative) above the optimum.",
    )
    report.table(
        "A common offset, min_size = 1",
        list(offsets(signals)),
        "The excess is over the optimum of the unshifted signal; the shift changes no optimum.",
    )
    report.save(options.out)


if __name__ == "__main__":
    main()
