"""Code that all experiments share: the procedure, choices, finished fits, results and reports."""
