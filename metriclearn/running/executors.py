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

from metriclearn.running.parameters import number

if TYPE_CHECKING:
    from distributed import Client, Future
    from distributed.deploy import Cluster

__all__ = ["DaskExecutor", "Executor", "Shard", "Sums", "ThreadExecutor", "add_up", "shard_bounds"]

_LOGGER = logging.getLogger(__name__)
_FAN_IN = 16  # sums that one task of the tree, or the client, adds up
_SHARDS_PER_THREAD = 4  # of this process, as data sets may take longer than others


class Sums(NamedTuple):
    """Σ s_i L_i(w) and Σ s_i ∂L_i(w) over the data sets of one shard, per function.

    ``groups`` (G,) says which functions of the risk, in increasing order; ``values`` is (G,),
    ``slopes`` (G, n).
    """

    groups: NDArray
    values: NDArray
    slopes: NDArray


class Shard(Protocol):
    """Some of the data sets of a risk.

    ``stored`` says that the shard only knows where its data are, so that it can be sent again at
    any time; ``owners`` are the functions its data sets belong to.
    """

    stored: bool
    owners: NDArray

    def loaded(self) -> Self:
        """The same shard with its data in memory."""


class Executor(Protocol):
    """Places shards, and asks them."""

    def count(self, n_items: int) -> int:
        """Into how many shards to divide so many data sets."""

    def place(self, shards: Sequence[Any]) -> Any:
        """Bring shards to where they are evaluated; what comes back stands for them."""

    def each(
        self,
        shards: Any,
        function: Callable[..., Any],
        *arguments: Any,
        chosen: NDArray | None = None,
        total: Callable[[Sequence[Any]], Any] | None = None,
    ) -> list[Any]:
        """``function(shard, *arguments)`` of every placed shard, in their order.

        Shards without a part in the functions ``chosen`` may be left out, and neighboring answers
        may come back as their ``total``.
        """


def add_up(parts: Sequence[Sums]) -> Sums:
    """Sums of several shards, in the order given: function by function, O(total size)."""
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
    """

    n_jobs: int | None = None

    def count(self, n_items: int) -> int:
        threads = effective_n_jobs(self.n_jobs)
        return 1 if threads == 1 else min(n_items, _SHARDS_PER_THREAD * threads)

    def place(self, shards: Sequence[Shard]) -> Sequence[Shard]:
        return shards

    def each(
        self,
        shards: Sequence[Any],
        function: Callable[..., Any],
        *arguments: Any,
        chosen: NDArray | None = None,
        total: Callable[[Sequence[Any]], Any] | None = None,
    ) -> list[Any]:
        if effective_n_jobs(self.n_jobs) == 1:  # saves a millisecond of every round
            return list(map(function, shards, *map(repeat, arguments)))
        threads = Parallel(n_jobs=self.n_jobs, backend="threading")
        return list(threads(delayed(function)(shard, *arguments) for shard in shards))


class DaskExecutor:
    """Workers of a Dask cluster, on this machine or on many.

    Data sets in memory are scattered once. Those that are only named (see
    :class:`metriclearn.datasets.SequenceFolder`) are read by the workers, once, and kept by them.
    A round sends w, and the workers' sums come back over a tree of additions; tasks are called
    ``load-shard``, ``value-and-slope`` and ``add-up`` on Dask's dashboard.

    A lost worker costs its shards: Dask has another one read them again, and scattered ones are
    scattered again from here. The sums, and so the result, are those of one machine. Workers
    give BLAS one thread, as Dask does, and should have one thread each: Python's lock is held in
    a good part of the work on short sequences. When the scheduler is lost, the run ends with an
    error; a solver with a ``checkpoint`` goes on from there under a new one.

    Parameters
    ----------
    client : distributed.Client, a cluster such as distributed.LocalCluster, or str
        A string is the address of a scheduler such as ``"tcp://127.0.0.1:8786"``. Clusters and
        addresses are connected to at first use.
    shards_per_thread : int
        Shards for every thread of the cluster there is when they are placed; those of a lost
        worker go to so many others. More take more time of the scheduler, about 1 ms each.
    retries : int
        How often in a row a round is repeated after its shards were lost.
    patience : float
        Seconds to wait for the first worker.

    Raises
    ------
    RuntimeError
        If no worker comes, the scheduler is gone, or shards were lost too often.
    """

    def __init__(
        self,
        client: Client | Cluster | str,
        *,
        shards_per_thread: int = 2,
        retries: int = 5,
        patience: float = 60.0,
    ) -> None:
        known = ("scatter", "scheduler_address")  # of a client, of a cluster
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
        from distributed import Client

        return Client(self._given, set_as_default=False)

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

    def place(self, shards: Sequence[Shard]) -> _Placed:
        return _Placed(self.client, shards)

    def each(
        self,
        shards: _Placed,
        function: Callable[..., Any],
        *arguments: Any,
        chosen: NDArray | None = None,
        total: Callable[[Sequence[Any]], Any] | None = None,
    ) -> list[Any]:
        every = enumerate(shards.originals)
        asked = [i for i, s in every if chosen is None or np.isin(s.owners, chosen).any()]

        def one_round() -> list[Any]:
            # a long w travels once, and from worker to worker; a short one with every task
            long = [getattr(argument, "nbytes", 0) >= 2**14 for argument in arguments]
            sent = [
                self.client.scatter(argument, hash=False) if far else argument
                for argument, far in zip(arguments, long)
            ]
            parts = self._at_home(function, shards, asked, *sent)
            while total is not None and len(parts) > _FAN_IN:
                batches = [parts[i : i + _FAN_IN] for i in range(0, len(parts), _FAN_IN)]
                parts = self._submit(total, batches)
            return self.client.gather(parts)

        return self._repeated(shards, one_round)

    def _at_home(
        self, function: Callable[..., Any], shards: _Placed, asked: Sequence[int], *arguments: Any
    ) -> list[Future]:
        """One task per shard asked for, on the worker that has it, or any if that is gone.

        Left free, an idle worker would take tasks over from a busy one and have their shards
        copied, which takes longer than to wait.
        """
        homes = shards.homes()
        tasks: dict[int, Future] = {}
        for home in dict.fromkeys(homes[i] for i in asked):
            there = [i for i in asked if homes[i] == home]
            where = {"workers": [home], "allow_other_workers": True} if home else {}
            futures = [shards.futures[i] for i in there]
            tasks.update(zip(there, self._submit(function, futures, *arguments, **where)))
        return [tasks[i] for i in asked]

    def _submit(
        self, function: Callable[..., Any], items: Sequence[Any], *arguments: Any, **where: Any
    ) -> list[Future]:
        """One task per item, in one message, under a name that the dashboard shows."""
        name, token = function.__name__.strip("_").replace("_", "-"), uuid.uuid4().hex[:12]
        keys = [f"{name}-{token}-{i}" for i in range(len(items))]
        rest = [[argument] * len(items) for argument in arguments]
        options = {"key": keys, "pure": False, "retries": self.retries, **where}
        return self.client.map(function, items, *rest, **options)

    def _repeated(self, shards: _Placed, ask: Callable[[], list[Any]]) -> list[Any]:
        """Ask, again where shards were lost on the way."""
        from concurrent.futures import CancelledError

        from distributed import KilledWorker

        for attempt in range(self.retries + 1):
            try:
                return ask()
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
                shards.replace_lost()
        raise AssertionError

    def __deepcopy__(self, memo: Any) -> Self:
        """A connection is not copied, also where scikit-learn clones its estimator."""
        return self

    def __reduce__(self) -> Any:
        """In another process: the same scheduler."""
        numbers = ("shards_per_thread", "retries", "patience")
        make = partial(DaskExecutor, **{name: getattr(self, name) for name in numbers})
        return make, (self._address,)

    @property
    def _address(self) -> str:
        if isinstance(self._given, str):
            return self._given
        return str(self.client.scheduler_info(n_workers=0)["address"])

    def __repr__(self) -> str:
        return f"DaskExecutor({self._address!r})"


class _Placed:
    """Futures of shards, and what brings a lost one back."""

    def __init__(self, client: Client, shards: Sequence[Shard]) -> None:
        self.client, self.originals = client, list(shards)
        self.futures = [self._place(i) for i in range(len(shards))]
        self._homes: list[str | None] = []

    def _place(self, i: int) -> Future:
        shard = self.originals[i]
        if not shard.stored:
            return self.client.scatter(shard, hash=False)
        key = f"load-shard-{uuid.uuid4().hex[:12]}-{i}"
        return self.client.submit(_load, shard, os.getpid(), key=key, pure=False)

    def homes(self) -> list[str | None]:
        """The workers that have the shards, once they are there."""
        if not self._homes:
            from distributed import wait

            with self.client.as_current():
                wait(self.futures)
            held = self.client.who_has(self.futures)
            self._homes = [next(iter(held.get(f.key, ())), None) for f in self.futures]
        return self._homes

    def replace_lost(self) -> None:
        """Place shards again that no worker has and none will make."""
        self._homes = []
        for i, future in enumerate(self.futures):
            if future.status in ("cancelled", "lost", "error"):
                self.futures[i] = self._place(i)


def _load(shard: Shard, client: int) -> Shard:
    """A shard with its data; in a process of the workers' own, BLAS gets one thread."""
    if os.getpid() != client:
        threadpool_limits(1, user_api="blas")
    return shard.loaded()
