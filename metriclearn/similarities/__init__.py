"""Similarities of graph nodes under a metric, for normalized cuts."""

from metriclearn.similarities.joint import (
    FourierSimilarity,
    GaussianSimilarity,
    GivenSimilarities,
    Neighborhood,
    Similarity,
    SimilarityFeatures,
)
from metriclearn.similarities.nodes import NodeLabels, Nodes

__all__ = [
    "FourierSimilarity",
    "GaussianSimilarity",
    "GivenSimilarities",
    "Neighborhood",
    "NodeLabels",
    "Nodes",
    "Similarity",
    "SimilarityFeatures",
]
