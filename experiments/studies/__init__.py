"""One file for each family of experiments."""
