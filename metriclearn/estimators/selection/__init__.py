"""Choosing one of many models, or combining them by a consensus."""
