"""Clusterers: partitions from points alone, after a learned metric through ``transform``."""

from metriclearn.clusterers.dp_means import DPMeans, penalized_kmeans_objective
from metriclearn.clusterers.evidence_accumulation import (
    EvidenceAccumulation,
    coassociation,
    evidence_accumulation,
)
from metriclearn.clusterers.mixtures import (
    GibbsDPMixture,
    assignment_probabilities,
    spherical_responsibilities,
)

__all__ = [
    "DPMeans",
    "EvidenceAccumulation",
    "GibbsDPMixture",
    "assignment_probabilities",
    "coassociation",
    "evidence_accumulation",
    "penalized_kmeans_objective",
    "spherical_responsibilities",
]
