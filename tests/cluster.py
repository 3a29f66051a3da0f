"""A real Dask scheduler and workers, each in a separate process, on loopback and free ports."""

import importlib
import os
import signal
import time
from pathlib import Path
from typing import Any

from tests.processes import PROCESSES

_TIMEOUT = 60.0  # seconds, for a slow machine


def serve(name: str, log: str, arguments: list[str]) -> None:
    """``dask NAME ARGUMENTS``."""
    with open(log, "a") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    importlib.import_module(f"distributed.cli.dask_{name}").main(arguments)


class Cluster:
    """Starts processes in a folder, and ends them."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._file = folder, folder / "scheduler.json"
        self.workers: list[Any] = []
        self.scheduler = self._start("scheduler", "--port", "0", "--scheduler-file", self._file)
        deadline = time.monotonic() + _TIMEOUT
        while not self._file.exists():
            assert self.scheduler.is_alive(), self.log("scheduler")
            assert time.monotonic() < deadline, "the scheduler did not start"
            time.sleep(0.05)

    def connect(self, timeout: float = _TIMEOUT) -> Any:
        """A client that waits up to ``timeout`` seconds for the scheduler."""
        from distributed import Client

        return Client(scheduler_file=str(self._file), timeout=timeout, set_as_default=False)

    def with_workers(self, client: Any, count: int) -> None:
        """Start workers until ``count`` are alive."""
        self.workers = [worker for worker in self.workers if worker.is_alive()]
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
        """Send SIGKILL to a worker, which cannot hand over its work."""
        victim = next(worker for worker in self.workers if worker.is_alive())
        os.kill(victim.pid, signal.SIGKILL)
        victim.join()

    def kill_the_scheduler(self) -> None:
        self.scheduler.kill()
        self.scheduler.join()

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text()

    def close(self) -> None:
        for process in (*self.workers, self.scheduler):
            process.kill()
            process.join()

    def _start(self, name: str, *options: Any) -> Any:
        arguments = ["--host", "127.0.0.1", "--no-dashboard", *map(str, options)]
        log = str(self.folder / f"{name}.log")
        process = PROCESSES.Process(target=serve, args=(name, log, arguments))
        process.start()
        return process
