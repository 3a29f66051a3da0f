"""metriclearn: learn a metric from partitions people have already made.

Public names load on first use, so that ``import metriclearn`` is instant.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOMES = {
    "AT_LEAST_ONE": "problem.knowledge",
    "Alternation": "estimators.alternation",
    "BundleDual": "solvers.bundle",
    "ChangePointMetricLearnerCV": "estimators.cross_validation",
    "CuttingPlane": "solvers.cutting_plane",
    "EarlyStopping": "running.callbacks",
    "RecordingSegmenter": "estimators.recordings",
    "ScalarLog": "running.callbacks",
    "ReferenceMetricLearner": "estimators.reference",
    "WhitenedMetricLearner": "estimators.whitened",
    "regularization_path": "estimators.path",
    "Averaged": "oracles.averaged",
    "CCCP": "solvers.cccp",
    "ChangePointMetricLearner": "estimators.change_points",
    "ClusteringMetricLearner": "estimators.clustering",
    "ChangePoints": "oracles.change_points",
    "ConstrainedChangePoints": "oracles.constrained",
    "DPMeans": "clusterers",
    "DataPenaltyMetricLearner": "estimators.data_penalty",
    "DenseForm": "problem.forms",
    "DiagonalMetric": "solvers.mahalanobis",
    "EvidenceAccumulation": "clusterers",
    "FactorDescent": "solvers.factor_descent",
    "FourierSimilarity": "similarities",
    "EXACTLY_ONE": "problem.knowledge",
    "FrobeniusLoss": "problem.losses",
    "FullMetric": "solvers.mahalanobis",
    "GaussianSimilarity": "similarities",
    "GibbsDPMixture": "clusterers",
    "GivenSimilarities": "similarities",
    "HermiteMoments": "features.hermite",
    "ImageFeatures": "features.image",
    "L1": "solvers.regularizers",
    "KnownLoss": "problem.known_loss",
    "KnownStart": "estimators.first_completion",
    "LinearFeatures": "problem.joint_features",
    "LocalSearch": "oracles.local_search",
    "LowRankForm": "problem.forms",
    "NormalizedCutMetricLearner": "estimators.normalized_cuts",
    "NO_CHANGE": "problem.knowledge",
    "PenaltyLearner": "estimators.penalty",
    "PartialPartition": "problem.knowledge",
    "Partition": "problem.partition",
    "PrincipalStart": "estimators.first_completion",
    "ProjectedSubgradient": "solvers.subgradient",
    "Region": "problem.knowledge",
    "SpectralRelaxation": "oracles.spectral",
    "SquaredFrobenius": "solvers.regularizers",
    "SummedArea": "oracles.summed_area",
    "TorchChangePoints": "oracles.torch_change_points",
    "Trace": "solvers.regularizers",
    "WhitenedClusteringLearner": "estimators.whitened_clustering",
    "best_penalty": "oracles.best_penalty",
    "load": "running.persistence",
    "save": "running.persistence",
    "segmentation_path": "oracles.path",
}

__all__ = sorted(_HOMES)

if TYPE_CHECKING:
    from metriclearn.clusterers import DPMeans, EvidenceAccumulation, GibbsDPMixture
    from metriclearn.estimators.alternation import Alternation
    from metriclearn.estimators.change_points import ChangePointMetricLearner
    from metriclearn.estimators.clustering import ClusteringMetricLearner
    from metriclearn.estimators.cross_validation import ChangePointMetricLearnerCV
    from metriclearn.estimators.data_penalty import DataPenaltyMetricLearner
    from metriclearn.estimators.first_completion import KnownStart, PrincipalStart
    from metriclearn.estimators.normalized_cuts import NormalizedCutMetricLearner
    from metriclearn.estimators.path import regularization_path
    from metriclearn.estimators.penalty import PenaltyLearner
    from metriclearn.estimators.recordings import RecordingSegmenter
    from metriclearn.estimators.reference import ReferenceMetricLearner
    from metriclearn.estimators.whitened import WhitenedMetricLearner
    from metriclearn.estimators.whitened_clustering import WhitenedClusteringLearner
    from metriclearn.features.hermite import HermiteMoments
    from metriclearn.features.image import ImageFeatures
    from metriclearn.oracles.averaged import Averaged
    from metriclearn.oracles.best_penalty import best_penalty
    from metriclearn.oracles.change_points import ChangePoints
    from metriclearn.oracles.constrained import ConstrainedChangePoints
    from metriclearn.oracles.local_search import LocalSearch
    from metriclearn.oracles.path import segmentation_path
    from metriclearn.oracles.spectral import SpectralRelaxation
    from metriclearn.oracles.summed_area import SummedArea
    from metriclearn.oracles.torch_change_points import TorchChangePoints
    from metriclearn.problem.forms import DenseForm, LowRankForm
    from metriclearn.problem.joint_features import LinearFeatures
    from metriclearn.problem.knowledge import (
        AT_LEAST_ONE,
        EXACTLY_ONE,
        NO_CHANGE,
        PartialPartition,
        Region,
    )
    from metriclearn.problem.known_loss import KnownLoss
    from metriclearn.problem.losses import FrobeniusLoss
    from metriclearn.problem.partition import Partition
    from metriclearn.running.callbacks import EarlyStopping, ScalarLog
    from metriclearn.running.persistence import load, save
    from metriclearn.similarities import FourierSimilarity, GaussianSimilarity, GivenSimilarities
    from metriclearn.solvers.bundle import BundleDual
    from metriclearn.solvers.cccp import CCCP
    from metriclearn.solvers.cutting_plane import CuttingPlane
    from metriclearn.solvers.factor_descent import FactorDescent
    from metriclearn.solvers.mahalanobis import DiagonalMetric, FullMetric
    from metriclearn.solvers.regularizers import L1, SquaredFrobenius, Trace
    from metriclearn.solvers.subgradient import ProjectedSubgradient


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'metriclearn' has no attribute {name!r}")
    return getattr(import_module(f"metriclearn.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
