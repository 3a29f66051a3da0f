"""Pictures that hold the digest of their results, the chart of all results, and the map of the
code."""
