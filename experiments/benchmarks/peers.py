"""Programs that segment a signal at a given penalty, and how often they miss the optimum.

    python -m experiments.benchmarks.peers [--tiny]

The programs are ours and the installed peers. All of them minimize ‖Z − MZ‖² + penalty · (number of
segments). fastcpd gets half of the penalty as ``beta``, with ``cost_adjustment="BIC"`` and unit
variance. fastcpd has no ``min_size``.

The benchmark segments 400 short random signals (12 to 60 samples, 1 to 3 features, white noise with
or without jumps). Each signal has a random penalty. The optimum comes from the dynamic program
without pruning (Algorithm 1), which tests compare with the enumeration of all segmentations. In a
second test, the same number is added to every sample. The sums are exact, because all samples are
multiples of 1/1024, and the optimal segmentations stay the same. Nothing is timed.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from functools import cache
from math import nan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.benchmarks.benchmark import Benchmark, Run
from experiments.benchmarks.machine import Row
from metriclearn import Partition
from metriclearn.oracles import ChangePoints, SummedArea
from metriclearn.problem import LowRankForm

Ends = Sequence[int] | NDArray
Program = Callable[[NDArray, float], Ends]

BENCH = Benchmark("peers", __doc__)
OFFSETS = (1e6, 1e7, 1e8)
_GRID = 1024.0  # samples are multiples of 1/1024, so that sums with 1e8 are exact
_MISSED = 1e-9  # relative


def objective(Z: NDArray, ends: Ends, penalty: float) -> float:
    """Compute the objective ‖Z − MZ‖² + penalty · K from the residuals themselves."""
    residuals = Z - Partition.from_change_points(ends, len(Z)).project(Z)
    return float(np.sum(residuals * residuals) + penalty * len(ends))


def installed(name: str) -> Any:
    """Import a module by its name. Returns None if the module is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def programs(min_size: int = 1, pelt: bool = False, n_features: int = 0) -> dict[str, Program]:
    """Return our program and the installed peers that support ``min_size``, by name.

    ruptures' Pelt is included only with ``pelt``. skchange's functional pruning supports only one
    feature, so it is included only for ``n_features=1``.
    """
    oracle = ChangePoints(min_size)
    calls: dict[str, Program] = {
        "ours": lambda Z, penalty: oracle(LowRankForm(Z, shift=-penalty)).change_points
    }
    for package in ("ruptures", "ruptures_rs", "rustures"):
        peer = installed(package)
        if peer is not None and pelt:
            calls[f"{package} Pelt"] = _of(peer.Pelt, model="l2", min_size=min_size, jump=1)
        if peer is not None:
            options = {"kernel": "linear", "min_size": min_size, "jump": 1}
            calls[f"{package} KernelCPD"] = _of(peer.KernelCPD, **options)
    fastcpd = installed("fastcpd.segmentation")
    if fastcpd is not None and min_size == 1:
        calls["fastcpd mean"] = lambda Z, penalty: _mean_model(fastcpd, Z, penalty)
    detectors = installed("skchange.detectors")
    if detectors is not None and min_size == 1 and n_features == 1:
        calls["skchange FPOP"] = lambda Z, penalty: _functional(detectors.FPOP, Z, penalty)
    return calls


def _of(kind: Any, **options: Any) -> Program:
    return lambda Z, penalty: kind(**options).fit(Z).predict(pen=penalty)


def answering(calls: dict[str, Program], Z: NDArray, penalty: float) -> dict[str, Program]:
    """Select the programs that do not fail on this signal."""

    def answers(run: Program) -> bool:
        try:
            return len(run(Z, penalty)) > 0
        except RuntimeError:  # rustures: "numerical failure"
            return False

    return {name: run for name, run in calls.items() if answers(run)}


def _functional(detector: Any, Z: NDArray, penalty: float) -> list[int]:
    return [*detector(penalty=penalty).fit(Z).predict(Z).tolist(), len(Z)]


def _mean_model(fastcpd: Any, Z: NDArray, penalty: float) -> list[int]:
    options = {"cost_adjustment": "BIC", "trim": 0.0, "cp_only": True}
    variance = np.eye(Z.shape[1])
    result = fastcpd.detect_mean(Z, beta=penalty / 2, variance_estimation=variance, **options)
    return [*result.cp_set.tolist(), len(Z)]


def random_signals(count: int) -> list[tuple[NDArray, float]]:
    """Draw signals of white noise, with the penalty of a segment. Every second signal has jumps. A
    penalty is 0.2 to 10 per feature."""
    rng = np.random.default_rng(0)
    signals = []
    for i in range(count):
        n_samples, n_features = int(rng.integers(12, 61)), int(rng.integers(1, 4))
        Z = rng.standard_normal((n_samples, n_features))
        if i % 2:
            starts = rng.random(n_samples) < 0.1
            Z += 2.0 * rng.standard_normal((n_samples, n_features))[np.cumsum(starts)]
        penalty = float(np.exp(rng.uniform(np.log(0.2), np.log(10.0))) * n_features)
        signals.append((np.round(_GRID * Z) / _GRID, penalty))
    return signals


@cache
def measured(
    name: str, min_size: int, offset: float, count: int
) -> tuple[list[list[int]], NDArray[np.float64]]:
    """Segment the shifted signals. Returns the ends that a program finds, and by how much their
    objective exceeds the optimum of Algorithm 1, relative to the optimum. The excess is infinite if
    a segment is too short, and NaN if there is no result."""
    found, excess = [], []
    program, exact = programs(min_size, pelt=True)[name], SummedArea(min_size)
    for Z, penalty in random_signals(count):
        try:
            ends = [int(end) for end in program(Z + offset, penalty)]
        except Exception:  # whatever a peer raises is its result
            ends = []
        found.append(ends)
        best = objective(Z, exact(LowRankForm(Z, shift=-penalty)).change_points, penalty)
        short = len(ends) and np.min(np.diff(ends, prepend=0)) < min_size
        excess.append(np.inf if short else objective(Z, ends, penalty) / best - 1 if ends else nan)
    return found, np.array(excess)


def _count(run: Run) -> int:
    return 10 if run.tiny else 400


@BENCH.table(
    "Optimality, jump = 1",
    lambda run: [(name, size) for size in (1, 3) for name in programs(size, pelt=True)],
    f"Missed: the objective is more than {_MISSED:g} (relative) above the optimum.",
)
def optimality(case: tuple[str, int], run: Run) -> Row:
    """Tell how often and by how much a program exceeds the optimum on unshifted signals."""
    _, values = measured(*case, 0.0, _count(run))
    missed = values[np.isfinite(values) & (values > _MISSED)]
    return {
        "program": case[0],
        "min_size": case[1],
        "optimum missed": f"{len(missed)} of {len(values)}",
        "worst excess": f"{missed.max():.2%}" if len(missed) else "none",
        "mean excess where missed": f"{missed.mean():.2%}" if len(missed) else "none",
        "segments too short": int(np.isinf(values).sum()),
        "failed": int(np.isnan(values).sum()),
    }


@BENCH.table("A common offset, min_size = 1", lambda run: programs(pelt=True))
def offsets(name: str, run: Run) -> Row:
    """Tell for how many signals a shift changes the change-points, and how far the worst result is
    from the optimum.

    The excess is over the optimum of the unshifted signal; the shift changes no optimum.
    """
    row: Row = {"program": name}
    unshifted, _ = measured(name, 1, 0.0, _count(run))
    for offset in OFFSETS:
        ends, values = measured(name, 1, offset, _count(run))
        changed = sum(a != b for a, b in zip(unshifted, ends))
        missed = values[np.isfinite(values) & (values > _MISSED)]
        row[f"other change-points at {offset:g}"] = f"{changed} of {len(ends)}"
        row[f"worst excess at {offset:g}"] = f"{missed.max():.2%}" if len(missed) else "none"
    return row


if __name__ == "__main__":
    BENCH.main()
