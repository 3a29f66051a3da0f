"""What every experiment shares: the procedure, choices, finished fits, results and reports."""
