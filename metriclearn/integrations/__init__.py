"""Adapters for aeon, sktime, skchange and Label Studio.

No other module of metriclearn imports them, and each imports only its library: ``from
metriclearn.integrations.aeon import MetricSegmenter``.
"""
