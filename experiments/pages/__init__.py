"""Pictures with the digest of their results, the chart of all results, the map of the house."""
