"""Learners: a metric and a penalty from labeled data sets."""
