"""Calls whose results are saved as soon as they finish, so that a stopped run can resume."""

from __future__ import annotations

import hashlib
import json
import logging
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import joblib
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits
from tqdm import tqdm

import metriclearn
from metriclearn.running.atomic import replacing

Task = tuple[list[str], tuple[Any, ...]]  # the key of a result, and the call that computes it
SILENCE = 30.0  # seconds between signs of progress
_logger = logging.getLogger(__name__)


class FinishedFits:
    """Makes calls and saves their results. A result is saved as soon as it is computed. If the same
    call is made again, its result is read from the file.

    Parameters
    ----------
    folder : path
    settings : mapping
        All settings on which the results depend, in addition to the keys of the calls.
    """

    def __init__(self, folder: Path, settings: Mapping[str, Any]) -> None:
        self.folder = folder
        self._mark = _hash([metriclearn.__version__, json.dumps(settings, sort_keys=True)])[:8]
        folder.mkdir(parents=True, exist_ok=True)

    def __len__(self) -> int:
        """Return the number of saved results with these settings."""
        return sum(1 for _ in self.folder.glob(f"{self._mark}-*.joblib"))

    def __call__(self, key: Sequence[str], call: Callable[..., Any], *arguments: Any) -> Any:
        """Return the result of ``call(*arguments)``, computed now or read from the file of an
        earlier run."""
        path = self._file(key)
        if path.is_file():
            try:
                return joblib.load(path)
            except Exception as error:  # a damaged file can fail in any of many ways
                told = f"{type(error).__name__}: {error}"
                _logger.warning("%s is damaged (%s); its fit is made again", path, told)
        result = call(*arguments)
        with replacing(path) as stream:
            joblib.dump(result, stream)
        return result

    def _file(self, key: Sequence[str]) -> Path:
        return self.folder / f"{self._mark}-{_hash(key)}.joblib"


def _hash(texts: Sequence[str]) -> str:
    return hashlib.sha256(json.dumps(texts).encode()).hexdigest()[:32]


def run_all(
    title: str, tasks: Sequence[Task], finished: FinishedFits, backend: str, n_jobs: int
) -> list[Any]:
    """Compute the results of all tasks, and return them in the order of the tasks. The last tasks
    run first, because costly methods come last. Progress is printed every ``SILENCE`` seconds, from
    the first fit on.
    """
    _logger.info("%s: %d fits", title, len(tasks))
    results: list[Any] = [None] * len(tasks)
    with quiet(), tqdm(desc=title, total=len(tasks), disable=None, unit="fit") as bar:
        parallel = joblib.Parallel(n_jobs, prefer=backend, return_as="generator_unordered")
        ended = threading.Event()

        def tell() -> None:
            while not ended.wait(SILENCE):
                if bar.disable:  # no terminal
                    done = sum(result is not None for result in results)
                    _logger.info("%s: %d of %d fits are done", title, done, len(tasks))
                else:
                    bar.refresh()

        threading.Thread(target=tell, daemon=True).start()
        try:
            jobs = (
                joblib.delayed(_call)(i, finished, backend, *tasks[i])
                for i in reversed(range(len(tasks)))
            )
            for i, result in parallel(jobs):
                results[i] = result
                bar.update()
        finally:
            ended.set()
    return results


def _call(
    place: int, finished: FinishedFits, backend: str, key: list[str], call: tuple[Any, ...]
) -> tuple[int, Any]:
    """Compute the result of one task. Returns the index of the task, and the result.

    Raises
    ------
    ValueError
        If the fit fails with such an error. The message begins with the method and the case.
    """
    with nullcontext() if backend == "threads" else quiet():  # threads share the caller's settings
        try:
            return place, finished(key, *call)
        except ValueError as error:
            method, case, *_ = key
            raise ValueError(f"{method} cannot be used on {case}: {error}") from error


@contextmanager
def quiet() -> Iterator[None]:
    """Use one thread for linear algebra, and ignore warnings about convergence: tables mark fits
    that stopped before their tolerance."""
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield
