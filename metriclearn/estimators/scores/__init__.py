"""Prediction with a metric: segmentations, clusterings, cuts, and how certain they are."""
