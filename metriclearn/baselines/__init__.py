"""Metrics to compare with: Euclidean, principal components, relevant components."""

from metriclearn.baselines.linear import Euclidean, PrincipalComponents, RelevantComponents
from metriclearn.baselines.tuned import TunedSegmenter

__all__ = ["Euclidean", "PrincipalComponents", "RelevantComponents", "TunedSegmenter"]
