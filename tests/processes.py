"""Processes that tests kill while they work, as copies of one that has done the imports."""

import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from metriclearn.apps.console.commands import main

# Children are copies of a process that has imported these files, with compiled programs.
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload([__name__, "tests.loaded"])


def _start(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    process = PROCESSES.Process(target=function, args=arguments)
    process.start()
    return process


def finish(function: Callable[..., Any], *arguments: Any) -> None:
    """Call a function in another process."""
    process = _start(function, arguments)
    process.join()
    assert process.exitcode == 0


def kill_after_writing(
    file: Path, delay: float, function: Callable[..., Any], *arguments: Any
) -> bool:
    """SIGKILL so many seconds after the call has written a file; False if it was done before."""
    before = file.stat().st_mtime_ns if file.exists() else 0
    process = _start(function, arguments)
    while process.is_alive() and not (file.exists() and file.stat().st_mtime_ns > before):
        time.sleep(0.0005)
    time.sleep(delay)
    process.kill()
    process.join()
    assert process.exitcode in (0, -signal.SIGKILL)  # anything else is an error of the call
    return process.exitcode != 0


def run_console(arguments: list[str], printed: Any, given: Any = None) -> None:
    """The command, which prints into a pipe, and may read from one."""
    os.dup2(printed.fileno(), 1)
    if given is not None:
        sys.stdin = os.fdopen(given.fileno(), closefd=False)
    sys.exit(main(arguments))
