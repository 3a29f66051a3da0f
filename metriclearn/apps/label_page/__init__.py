"""The page of metriclearn label."""
