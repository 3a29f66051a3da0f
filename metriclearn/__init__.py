"""metriclearn: learn a metric from partitions people have already made."""

__version__ = "0.1.0"
