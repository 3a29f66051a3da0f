"""One Dask cluster on this machine, for all learners of a run."""

from __future__ import annotations

import logging
from functools import cache
from typing import Any


@cache
def local_cluster(n_workers: int) -> Any:
    """Start a cluster of ``n_workers`` processes with one thread each, and a dashboard on a free
    port.

    Calls with the same number return the same cluster, which ends with this process. Errors of
    tasks are raised in this process, so the logs of the workers are off, also at their shutdown.
    """
    from distributed import LocalCluster

    return LocalCluster(
        n_workers=n_workers,
        threads_per_worker=1,
        dashboard_address="127.0.0.1:0",
        silence_logs=logging.CRITICAL,
    )
