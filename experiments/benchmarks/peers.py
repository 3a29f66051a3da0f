"""Programs that segment a signal at a given penalty: ours, and the installed peers.

All programs minimize ‖Z − MZ‖² + penalty · (number of segments). fastcpd gets half of the penalty
as ``beta``, with ``cost_adjustment="BIC"`` and unit variance. fastcpd has no ``min_size``.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metriclearn import ChangePoints, LowRankForm, Partition

Ends = Sequence[int] | NDArray
Program = Callable[[NDArray, float], Ends]


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
