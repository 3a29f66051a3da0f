"""Benchmarks that compare this package with its peers in one run.

All benchmarks use one thread. The number of threads is set here, before NumPy is loaded.
"""

import os

os.environ.update(
    dict.fromkeys(["OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "RAYON_NUM_THREADS"], "1")
)
