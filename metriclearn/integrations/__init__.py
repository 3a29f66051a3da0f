"""Adapters for aeon, sktime and skchange.

Nothing of metriclearn imports them, and each imports its library alone: ``from
metriclearn.integrations.aeon import MetricSegmenter``.
"""
