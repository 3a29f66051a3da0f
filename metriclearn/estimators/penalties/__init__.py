"""Penalties of features of the sequence or of the boundary, and the rate of boundaries."""
