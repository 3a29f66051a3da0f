"""Learned metrics where others work: adapters for aeon, sktime and skchange, an extra each.

Nothing of metriclearn imports them, and each imports its library alone: ``from
metriclearn.integrations.aeon import MetricSegmenter``.
"""
