"""metriclearn: learn a metric from partitions people have already made.

Public names load on first use, so that ``import metriclearn`` is instant.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOMES = {
    "AT_LEAST_ONE": "partial_partition",
    "Alternation": "partial_labels",
    "BundleDual": "solvers.bundle",
    "ChangePointMetricLearnerCV": "learners.cross_validation",
    "CuttingPlane": "solvers.cutting_plane",
    "EarlyStopping": "callbacks",
    "RecordingSegmenter": "recordings",
    "ScalarLog": "callbacks",
    "ReferenceMetricLearner": "learners.reference",
    "WhitenedMetricLearner": "learners.whitened",
    "regularization_path": "learners.regularization_path",
    "Averaged": "oracles.averaged",
    "CCCP": "solvers.cccp",
    "ChangePointMetricLearner": "learners.change_points",
    "ClusteringMetricLearner": "learners.clustering",
    "ChangePoints": "oracles.change_points",
    "ConstrainedChangePoints": "oracles.constrained",
    "DPMeans": "clusterers",
    "DataPenaltyMetricLearner": "learners.data_penalty",
    "DenseForm": "forms",
    "DiagonalMetric": "mahalanobis",
    "EvidenceAccumulation": "clusterers",
    "FactorDescent": "solvers.factor_descent",
    "FourierSimilarity": "similarities",
    "EXACTLY_ONE": "partial_partition",
    "FrobeniusLoss": "losses",
    "FullMetric": "mahalanobis",
    "GaussianSimilarity": "similarities",
    "GibbsDPMixture": "clusterers",
    "GivenSimilarities": "similarities",
    "HermiteMoments": "features.hermite",
    "ImageFeatures": "features.image",
    "L1": "regularizers",
    "KnownLoss": "partial_loss",
    "KnownStart": "first_completion",
    "LinearFeatures": "joint_features",
    "LocalSearch": "oracles.local_search",
    "LowRankForm": "forms",
    "NormalizedCutMetricLearner": "learners.normalized_cuts",
    "NO_CHANGE": "partial_partition",
    "PenaltyLearner": "baselines.penalty_learning",
    "PartialPartition": "partial_partition",
    "Partition": "partition",
    "PrincipalStart": "first_completion",
    "ProjectedSubgradient": "solvers.subgradient",
    "Region": "partial_partition",
    "SpectralRelaxation": "oracles.spectral",
    "SquaredFrobenius": "regularizers",
    "SummedArea": "oracles.summed_area",
    "TorchChangePoints": "oracles.torch_change_points",
    "Trace": "regularizers",
    "WhitenedClusteringLearner": "learners.whitened_clustering",
    "best_penalty": "penalties",
    "load": "persistence",
    "save": "persistence",
    "segmentation_path": "oracles.path",
}

__all__ = sorted(_HOMES)

if TYPE_CHECKING:
    from metriclearn.baselines.penalty_learning import PenaltyLearner
    from metriclearn.callbacks import EarlyStopping, ScalarLog
    from metriclearn.clusterers import DPMeans, EvidenceAccumulation, GibbsDPMixture
    from metriclearn.features.hermite import HermiteMoments
    from metriclearn.features.image import ImageFeatures
    from metriclearn.first_completion import KnownStart, PrincipalStart
    from metriclearn.forms import DenseForm, LowRankForm
    from metriclearn.joint_features import LinearFeatures
    from metriclearn.learners.change_points import ChangePointMetricLearner
    from metriclearn.learners.clustering import ClusteringMetricLearner
    from metriclearn.learners.cross_validation import ChangePointMetricLearnerCV
    from metriclearn.learners.data_penalty import DataPenaltyMetricLearner
    from metriclearn.learners.normalized_cuts import NormalizedCutMetricLearner
    from metriclearn.learners.reference import ReferenceMetricLearner
    from metriclearn.learners.regularization_path import regularization_path
    from metriclearn.learners.whitened import WhitenedMetricLearner
    from metriclearn.learners.whitened_clustering import WhitenedClusteringLearner
    from metriclearn.losses import FrobeniusLoss
    from metriclearn.mahalanobis import DiagonalMetric, FullMetric
    from metriclearn.oracles.averaged import Averaged
    from metriclearn.oracles.change_points import ChangePoints
    from metriclearn.oracles.constrained import ConstrainedChangePoints
    from metriclearn.oracles.local_search import LocalSearch
    from metriclearn.oracles.path import segmentation_path
    from metriclearn.oracles.spectral import SpectralRelaxation
    from metriclearn.oracles.summed_area import SummedArea
    from metriclearn.oracles.torch_change_points import TorchChangePoints
    from metriclearn.partial_labels import Alternation
    from metriclearn.partial_loss import KnownLoss
    from metriclearn.partial_partition import (
        AT_LEAST_ONE,
        EXACTLY_ONE,
        NO_CHANGE,
        PartialPartition,
        Region,
    )
    from metriclearn.partition import Partition
    from metriclearn.penalties import best_penalty
    from metriclearn.persistence import load, save
    from metriclearn.recordings import RecordingSegmenter
    from metriclearn.regularizers import L1, SquaredFrobenius, Trace
    from metriclearn.similarities import FourierSimilarity, GaussianSimilarity, GivenSimilarities
    from metriclearn.solvers.bundle import BundleDual
    from metriclearn.solvers.cccp import CCCP
    from metriclearn.solvers.cutting_plane import CuttingPlane
    from metriclearn.solvers.factor_descent import FactorDescent
    from metriclearn.solvers.subgradient import ProjectedSubgradient


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'metriclearn' has no attribute {name!r}")
    return getattr(import_module(f"metriclearn.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
