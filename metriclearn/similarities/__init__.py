"""Similarities that a metric defines between nodes of a graph, for normalized cuts."""

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
