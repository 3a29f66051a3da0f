"""Pictures that state the hash of their results, the chart of all results, the map of the code."""
