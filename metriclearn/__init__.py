"""metriclearn: learn a metric from partitions people have already made.

Public names load on first use, so that ``import metriclearn`` is instant.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOMES = {
    "BundleDual": "solvers.bundle",
    "ChangePointMetricLearner": "learners.change_points",
    "ChangePoints": "oracles.change_points",
    "DenseForm": "forms",
    "DiagonalMetric": "mahalanobis",
    "FrobeniusLoss": "losses",
    "FullMetric": "mahalanobis",
    "L1": "regularizers",
    "LinearFeatures": "joint_features",
    "LowRankForm": "forms",
    "Partition": "partition",
    "ProjectedSubgradient": "solvers.subgradient",
    "SquaredFrobenius": "regularizers",
    "SummedArea": "oracles.summed_area",
    "Trace": "regularizers",
    "best_penalty": "penalties",
    "load": "persistence",
    "save": "persistence",
    "segmentation_path": "oracles.path",
}

__all__ = sorted(_HOMES)

if TYPE_CHECKING:
    from metriclearn.forms import DenseForm, LowRankForm
    from metriclearn.joint_features import LinearFeatures
    from metriclearn.learners import ChangePointMetricLearner
    from metriclearn.losses import FrobeniusLoss
    from metriclearn.mahalanobis import DiagonalMetric, FullMetric
    from metriclearn.oracles.change_points import ChangePoints
    from metriclearn.oracles.path import segmentation_path
    from metriclearn.oracles.summed_area import SummedArea
    from metriclearn.partition import Partition
    from metriclearn.penalties import best_penalty
    from metriclearn.persistence import load, save
    from metriclearn.regularizers import L1, SquaredFrobenius, Trace
    from metriclearn.solvers.bundle import BundleDual
    from metriclearn.solvers.subgradient import ProjectedSubgradient


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'metriclearn' has no attribute {name!r}")
    return getattr(import_module(f"metriclearn.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
