"""Estimators that learn a metric from labeled partitions."""

from metriclearn.learners.change_points import ChangePointMetricLearner

__all__ = ["ChangePointMetricLearner"]
