"""Segments with names: features of single samples, and the learner of names and boundaries."""
