"""Adapters for aeon, sktime, skchange and Label Studio.

Nothing of metriclearn imports them, and each imports its library alone: ``from
metriclearn.integrations.aeon import MetricSegmenter``.
"""
