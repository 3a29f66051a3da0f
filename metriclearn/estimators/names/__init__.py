"""Estimators of segments with names, and the features of single samples that they use."""
