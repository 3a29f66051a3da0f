"""Benchmarks: ours and the peers in one run, with one thread, which is set before NumPy loads."""

import os

os.environ.update(
    dict.fromkeys(["OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "RAYON_NUM_THREADS"], "1")
)
