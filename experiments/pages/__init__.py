"""The chart of all results, the map of the code, and a digest of the results in every picture."""
