"""How often programs that claim to be exact miss the optimum, and how an offset affects them.

    python -m experiments.benchmarks.correctness_of_peers [--out FOLDER] [--signals 400]

Every program segments short random signals (12 to 60 samples, 1 to 3 features, white noise with or
without jumps). Each signal has a random penalty. The optimum comes from the dynamic program without
pruning (Algorithm 1), which tests compare with the enumeration of all segmentations of short
signals. In a second test, the same number is added to every sample. The sums are exact, because all
samples are multiples of 1/1024, and the optimal segmentations stay the same. fastcpd has no
``min_size``, so it is compared only with the optimum for ``min_size=1``. Nothing is timed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.benchmarks.machine import Report, options_of
from experiments.benchmarks.peers import Program, objective, programs
from metriclearn import LowRankForm, SummedArea

MIN_SIZE = 3
OFFSETS = (1e6, 1e7, 1e8)
_GRID = 1024.0  # samples are multiples of 1/1024, so that sums with 1e8 are exact
_MISSED = 1e-9  # relative


@dataclass(frozen=True)
class Signal:
    """A signal to segment: samples Z (T, P), and the penalty of a segment."""

    Z: NDArray
    penalty: float


def random_signals(count: int) -> list[Signal]:
    """Draw signals of white noise. Every second signal has jumps. A penalty is drawn for every
    signal, from 0.2 to 10 per feature."""
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
    """Compute the least objective of all segmentations of a signal, by Algorithm 1."""
    form = LowRankForm(signal.Z, shift=-signal.penalty)
    return objective(signal.Z, SummedArea(min_size)(form).change_points, signal.penalty)


def ends_of(program: Program, signal: Signal, offset: float) -> list[int]:
    """Return the segment ends that a program finds in the shifted signal, or an empty list if the
    program fails."""
    try:
        return [int(end) for end in program(signal.Z + offset, signal.penalty)]
    except Exception:  # whatever a peer raises is its result
        return []


def excess(signal: Signal, ends: list[int], best: float, min_size: int) -> float:
    """Compute by how much the objective of a segmentation exceeds the optimum, relative to the
    optimum. The excess is infinite if a segment is too short, and NaN if there is no result."""
    if not ends:
        return np.nan
    if np.min(np.diff(ends, prepend=0)) < min_size:
        return np.inf
    return objective(signal.Z, ends, signal.penalty) / best - 1.0


def summary(values: NDArray) -> dict[str, Any]:
    """Make cells of a table that tell how often and by how much one program exceeds the optimum."""
    missed = values[np.isfinite(values) & (values > _MISSED)]
    return {
        "optimum missed": f"{len(missed)} of {len(values)}",
        "worst excess": f"{missed.max():.2%}" if len(missed) else "none",
        "mean excess where missed": f"{missed.mean():.2%}" if len(missed) else "none",
        "segments too short": int(np.isinf(values).sum()),
        "failed": int(np.isnan(values).sum()),
    }


def optimality(signals: list[Signal]) -> Iterator[dict[str, Any]]:
    """Yield the lines of the table on unshifted signals, with two values of ``min_size``."""
    for min_size in (1, MIN_SIZE):
        best = [optimum(signal, min_size) for signal in signals]
        for name, program in programs(min_size, pelt=True).items():
            ends = [ends_of(program, signal, 0.0) for signal in signals]
            values = map(excess, signals, ends, best, repeat(min_size))
            yield {"program": name, "min_size": min_size, **summary(np.array(list(values)))}


def offsets(signals: list[Signal]) -> Iterator[dict[str, Any]]:
    """Yield the lines of the table on shifted signals, with ``min_size=1``. A line tells for how
    many signals the shift changes the change-points, and how far the worst result is from the
    optimum."""
    best = [optimum(signal, 1) for signal in signals]
    for name, program in programs(pelt=True).items():
        unshifted = [ends_of(program, signal, 0.0) for signal in signals]
        row: dict[str, Any] = {"program": name}
        for offset in OFFSETS:
            ends = [ends_of(program, signal, offset) for signal in signals]
            changed = sum(a != b for a, b in zip(unshifted, ends))
            values = np.array(list(map(excess, signals, ends, best, repeat(1))))
            row[f"other change-points at {offset:g}"] = f"{changed} of {len(signals)}"
            row[f"worst excess at {offset:g}"] = summary(values)["worst excess"]
        yield row


def main() -> None:
    """Print and save both tables."""
    parser = options_of(__doc__)
    parser.add_argument("--signals", type=int, default=400)
    options = parser.parse_args()
    count = 10 if options.tiny else options.signals
    report = Report("correctness_of_peers", options, signals=count)
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
    report.save()


if __name__ == "__main__":
    main()
