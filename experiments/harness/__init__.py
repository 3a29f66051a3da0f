"""Shared by all experiments: the procedure, choices, finished fits, results and reports."""
