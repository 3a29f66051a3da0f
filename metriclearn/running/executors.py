"""Where the shards of a risk are, and how they are asked: threads here, or Dask across machines.

A shard is some of the data sets. It answers with :class:`Sums`, the weighted sums of values and
slopes of the functions its data sets belong to, and nothing else travels: no partition ever
leaves the machine that found it. An executor places shards and asks them; sums are added up in
one fixed order, so that the result does not depend on where a shard was.
"""

from __future__ import annotations

import logging
import os
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise, repeat
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from threadpoolctl import threadpool_limits

from metriclearn.running.extras import optional
from metriclearn.running.parameters import number

if TYPE_CHECKING:
    from distributed import Client, Future
    from distributed.deploy import Cluster

_LOGGER = logging.getLogger(__name__)
_FAN_IN = 16  # sums that one task of the tree, or the client, adds up
_SHARDS_PER_THREAD = 4  # shards of this process, because some data sets take longer than others


class Sums(NamedTuple):
    """Σ s_i L_i(w) and Σ s_i ∂L_i(w) over the data sets of one shard, per function.

    ``groups`` (G,) are the functions of the risk, in increasing order; ``values`` is (G,),
    ``slopes`` (G, n).
    """

    groups: NDArray
    values: NDArray
    slopes: NDArray


class Shard(Protocol):
    """Some of the data sets of a risk.

    ``lazy`` says that the shard only knows where its data are, so that it can be sent again at
    any time.
    """

    lazy: bool

    def loaded(self) -> Self:
        """The same shard with its data in memory."""


class Executor(Protocol):
    """Places shards, and asks them."""

    def count(self, n_items: int) -> int:
        """Into how many shards to divide so many data sets."""

    def place(self, shards: Sequence[Any]) -> list[Any]:
        """Bring shards to where they are evaluated; the returned handles stand for them."""

    def each(
        self, placed: list[Any], function: Callable[..., Any], *arguments: Any, total: Any = None
    ) -> list[Any]:
        """``function(shard, *arguments)`` of placed shards, in their order.

        With ``total``, a function that adds up lists of answers, neighboring answers may be added.
        """


def add_up(parts: Sequence[Sums]) -> Sums:
    """Sums of several shards, in the order given: function by function, O(total size)."""
    if len(parts) == 1:
        return parts[0]
    groups, values, slopes = map(np.concatenate, zip(*parts))
    functions, place = np.unique(groups, return_inverse=True)
    total = Sums(functions, np.zeros(len(functions)), np.zeros((len(functions), slopes.shape[1])))
    np.add.at(total.values, place, values)
    np.add.at(total.slopes, place, slopes)
    return total


def shard_bounds(group_bounds: NDArray, count: int) -> NDArray:
    """Where shards begin and end: whole groups where there are enough, else parts of one group.

    With at most as many shards as groups every function is summed within one shard, and results
    are the same to the last bit whatever the number of shards.
    """
    groups = len(group_bounds) - 1
    if count <= groups:
        return group_bounds[np.linspace(0, groups, count + 1).astype(int)]
    parts = -(-count // groups)
    within = (np.linspace(a, b, parts + 1).astype(int) for a, b in pairwise(group_bounds))
    return np.unique(np.concatenate(list(within)))


@dataclass(eq=False, repr=False)
class ThreadExecutor(BaseEstimator):
    """Threads of this process; the oracles' compiled kernels and BLAS run outside Python's lock.

    A shard that knows where its data are reads one data set at a time and forgets it, in every
    round, so that memory holds no more data sets than there are threads. Learners give BLAS one
    thread while they use several here, or have fewer than 500 features.

    Parameters
    ----------
    n_jobs : int, optional
        Threads, as in joblib: one by default, −1 for one per processor.

    Raises
    ------
    ValueError
        From the learner's ``fit``, for parameters that cannot be used.

    See Also
    --------
    DaskExecutor : on many machines.
    """

    n_jobs: int | None = None

    def count(self, n_items: int) -> int:
        threads = effective_n_jobs(self.n_jobs)
        return 1 if threads == 1 else min(n_items, _SHARDS_PER_THREAD * threads)

    def place(self, shards: Sequence[Any]) -> list[Any]:
        return list(shards)

    def each(
        self, placed: list[Any], function: Callable[..., Any], *arguments: Any, total: Any = None
    ) -> list[Any]:
        if effective_n_jobs(self.n_jobs) == 1:  # saves a millisecond of every round
            return list(map(function, placed, *map(repeat, arguments)))
        threads = Parallel(n_jobs=self.n_jobs, backend="threading")
        return list(threads(delayed(function)(shard, *arguments) for shard in placed))


class DaskExecutor:
    """Workers of a Dask cluster, on this machine or on many.

    Data sets in memory are scattered once. Those that are only named (see
    :class:`metriclearn.datasets.SequenceFolder`) are read by the workers, once, and kept by them.
    A round sends w, and the workers' sums are added over a tree; tasks are called ``load-shard``,
    ``value-and-slope`` and ``add-up`` on Dask's dashboard.

    A lost worker costs its shards: Dask has another one read them again, and scattered ones are
    scattered again from here. The sums, and so the result, are the same as on one machine. Workers
    give BLAS one thread, as Dask does, and should have one thread each: Python's lock is held in a
    good part of the work on short sequences. When the scheduler is lost, the run ends with an
    error; a solver with a ``checkpoint`` resumes from it under a new one.

    Parameters
    ----------
    client : distributed.Client, a cluster such as distributed.LocalCluster, or str
        A string is the address of a scheduler such as ``"tcp://127.0.0.1:8786"``. Clusters and
        addresses are connected to at first use.
    shards_per_thread : int
        Shards for every thread of the cluster there is when they are placed; the shards of a lost
        worker are spread over as many others. More take more time of the scheduler, about 1 ms
        each.
    retries : int
        How often in a row a round is repeated after its shards were lost.
    patience : float
        Seconds to wait for the first worker.

    Raises
    ------
    ValueError
        For a client that is none.
    ImportError
        If Dask is not installed.
    RuntimeError
        If no worker comes, the scheduler is gone, or shards were lost too often.

    References
    ----------
    Rocklin, Dask: parallel computation with blocked algorithms and task scheduling, SciPy 2015.

    Examples
    --------
    >>> from metriclearn import ChangePointMetricLearner
    >>> from metriclearn.running.executors import DaskExecutor
    >>> executor = DaskExecutor("tcp://127.0.0.1:8786")  # connects at first use
    >>> learner = ChangePointMetricLearner(executor=executor)
    """

    def __init__(
        self,
        client: Client | Cluster | str,
        *,
        shards_per_thread: int = 2,
        retries: int = 5,
        patience: float = 60.0,
    ) -> None:
        known = ("scatter", "scheduler_address")  # the attribute of a client, and of a cluster
        if not isinstance(client, str) and not any(hasattr(client, name) for name in known):
            raise ValueError(
                "DaskExecutor needs a distributed.Client, a cluster or the address of a "
                f"scheduler, got {client!r}."
            )
        number(1, whole=True).check("DaskExecutor", "shards_per_thread", shards_per_thread)
        number(0, whole=True).check("DaskExecutor", "retries", retries)
        number(positive=True).check("DaskExecutor", "patience", patience)
        self._given: Any = client
        self.shards_per_thread, self.retries, self.patience = shards_per_thread, retries, patience

    @cached_property
    def client(self) -> Client:
        """The client, connected."""
        if hasattr(self._given, "scatter"):
            return self._given
        return optional("distributed", "dask").Client(self._given, set_as_default=False)

    def count(self, n_items: int) -> int:
        try:
            self.client.wait_for_workers(1, timeout=self.patience)
        except TimeoutError as error:
            raise RuntimeError(
                f"DaskExecutor needs a worker, but {self._address} had none for "
                f"{self.patience:g} s; start some: dask worker ADDRESS."
            ) from error
        threads = sum(self.client.nthreads().values())
        return min(n_items, self.shards_per_thread * max(1, threads))

    def place(self, shards: Sequence[Shard]) -> list[_Placed]:
        return [_Placed(self.client, shard) for shard in shards]

    def each(
        self, placed: list[Any], function: Callable[..., Any], *arguments: Any, total: Any = None
    ) -> list[Any]:
        from concurrent.futures import CancelledError

        from distributed import KilledWorker

        for attempt in range(self.retries + 1):
            try:
                return self._ask(placed, total, function, *arguments)
            except (CancelledError, KilledWorker) as error:
                if self.client.status != "running":
                    raise RuntimeError(
                        "DaskExecutor lost its scheduler; start it again and go on from the "
                        "solver's checkpoint, where it has one."
                    ) from error
                if attempt == self.retries:
                    raise RuntimeError(
                        f"DaskExecutor lost shards {attempt + 1} times in a row ({error}); "
                        "give the workers more memory, or make smaller shards with "
                        "shards_per_thread."
                    ) from error
                _LOGGER.warning("shards were lost with a worker and are placed again: %s", error)
                for shard in placed:
                    shard.home = None
                    if shard.future.status in ("cancelled", "lost", "error"):
                        shard.put()
        raise AssertionError

    def _ask(
        self, placed: list[_Placed], total: Any, function: Callable[..., Any], *arguments: Any
    ) -> list[Any]:
        """The answers; requests to one worker are one message, and sums return over a tree."""
        # a long w travels once, and from worker to worker; a short one with every task
        sent = [
            self.client.scatter(argument, hash=False) if np.size(argument) >= 2**11 else argument
            for argument in arguments
        ]
        self._find(placed)
        answers: dict[_Placed, Future] = {}
        for home in dict.fromkeys(shard.home for shard in placed):
            there = [shard for shard in placed if shard.home == home]
            # Left free, an idle worker would take tasks over from a busy one and have their
            # shards copied, which takes longer than to wait.
            where: dict[str, Any] = {"workers": [home], "allow_other_workers": True} if home else {}
            futures = [shard.future for shard in there]
            answers.update(zip(there, self._submit(function, futures, *sent, **where)))
        parts = [answers[shard] for shard in placed]
        while total is not None and len(parts) > _FAN_IN:
            batches = [parts[i : i + _FAN_IN] for i in range(0, len(parts), _FAN_IN)]
            parts = self._submit(total, batches)
        return self.client.gather(parts)

    def _find(self, placed: list[_Placed]) -> None:
        """The workers that have the shards, once they are there."""
        from distributed import wait

        if all(shard.home for shard in placed):
            return
        futures = [shard.future for shard in placed]
        with self.client.as_current():
            wait(futures)
        held = self.client.who_has(futures)
        for shard in placed:
            shard.home = next(iter(held.get(shard.future.key, ())), None)

    def _submit(
        self, function: Callable[..., Any], items: Sequence[Any], *arguments: Any, **where: Any
    ) -> list[Future]:
        """One task per item, in one message, under a name that the dashboard shows."""
        name, token = function.__name__.strip("_").replace("_", "-"), uuid.uuid4().hex[:12]
        keys = [f"{name}-{token}-{i}" for i in range(len(items))]
        rest = [[argument] * len(items) for argument in arguments]
        options = {"key": keys, "pure": False, "retries": self.retries, **where}
        return self.client.map(function, items, *rest, **options)

    def __deepcopy__(self, memo: Any) -> Self:
        """A connection is not copied, also where scikit-learn clones its estimator."""
        return self

    def __reduce__(self) -> Any:
        """In another process: the same scheduler."""
        numbers = ("shards_per_thread", "retries", "patience")
        options = {name: getattr(self, name) for name in numbers}
        return partial(DaskExecutor, self._address, **options), ()

    @property
    def _address(self) -> str:
        if isinstance(self._given, str):
            return self._given
        return str(self.client.scheduler_info(n_workers=0)["address"])

    def __repr__(self) -> str:
        return f"DaskExecutor({self._address!r})"


class _Placed:
    """A shard, its future, and the worker that has it, as far as is known."""

    def __init__(self, client: Client, shard: Shard) -> None:
        self.client, self.original = client, shard
        self.home = None
        self.put()

    def put(self) -> None:
        """Send the shard, or have it loaded, where a worker is free."""
        if self.original.lazy:
            key = f"load-shard-{uuid.uuid4().hex[:12]}"
            submit = self.client.submit
            self.future = submit(_load, self.original, os.getpid(), key=key, pure=False)
        else:
            self.future = self.client.scatter(self.original, hash=False)


def _load(shard: Shard, client: int) -> Shard:
    """A shard with its data; in a process of the workers' own, BLAS gets one thread."""
    if os.getpid() != client:
        threadpool_limits(1, user_api="blas")
    return shard.loaded()
