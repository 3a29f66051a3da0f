"""A real Dask scheduler and workers, each a process of its own, on loopback and free ports."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

_TIMEOUT = 60.0  # seconds, for a slow machine


class Cluster:
    """Starts processes in a folder, and ends them."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._file = folder, folder / "scheduler.json"
        self.workers: list[subprocess.Popen] = []
        self.scheduler = self._start("scheduler", "--port", "0", "--scheduler-file", self._file)
        deadline = time.monotonic() + _TIMEOUT
        while not self._file.exists():
            assert self.scheduler.poll() is None, self.log("scheduler")
            assert time.monotonic() < deadline, "the scheduler did not start"
            time.sleep(0.05)

    def connect(self, timeout: float = _TIMEOUT) -> Any:
        """A client, which waits so long for a scheduler that is not there, or no longer."""
        from distributed import Client

        return Client(scheduler_file=str(self._file), timeout=timeout, set_as_default=False)

    def with_workers(self, client: Any, count: int) -> None:
        """Have that many, after some were killed."""
        self.workers = [worker for worker in self.workers if worker.poll() is None]
        while len(self.workers) < count:
            place = self.folder / f"work{time.monotonic_ns()}"
            options = ("--nthreads=1", "--no-nanny", "--memory-limit=0", "--death-timeout=60")
            files = ("--scheduler-file", self._file, "--local-directory", place)
            self.workers.append(self._start("worker", *options, *files))
        deadline = time.monotonic() + _TIMEOUT
        while len(client.scheduler_info(n_workers=-1)["workers"]) != count:
            assert time.monotonic() < deadline, self.log("worker")
            time.sleep(0.05)

    def kill_a_worker(self) -> None:
        """SIGKILL: no good-bye, no hand-over."""
        victim = next(worker for worker in self.workers if worker.poll() is None)
        os.kill(victim.pid, signal.SIGKILL)
        victim.wait()

    def kill_the_scheduler(self) -> None:
        self.scheduler.kill()
        self.scheduler.wait()

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text()

    def close(self) -> None:
        for process in (*self.workers, self.scheduler):
            process.kill()
            process.wait()

    def _start(self, name: str, *options: Any) -> subprocess.Popen:
        command = [sys.executable, "-m", f"distributed.cli.dask_{name}", "--host", "127.0.0.1"]
        with open(self.folder / f"{name}.log", "a") as log:
            return subprocess.Popen(
                [*command, "--no-dashboard", *map(str, options)],
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, "OMP_NUM_THREADS": "1"},
            )
