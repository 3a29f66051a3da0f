"""Adapters for aeon, sktime, skchange and river.

Each adapter imports only its own library, and no other module of metriclearn imports an adapter. So
import only the adapter that you need: ``from metriclearn.integrations.aeon import
MetricSegmenter``.
"""
