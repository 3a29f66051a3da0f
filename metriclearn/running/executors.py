"""Evaluate the shards of a risk in threads of this process, or with Dask on many machines.

A risk is a weighted sum of the losses of data sets, and a shard holds some of these data sets. The
shard computes the losses and gradients of its data sets, and returns only weighted sums
(:class:`Sums`). An executor sends the shards to threads or machines and evaluates them there. Sums
are added in a fixed order, so the result does not depend on where a shard is evaluated.
"""

from __future__ import annotations

import logging
import os
import sys
import uuid
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from contextvars import ContextVar, copy_context
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from itertools import pairwise, repeat
from threading import Lock
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, Protocol, Self

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from threadpoolctl import ThreadpoolController

from metriclearn.running.extras import optional
from metriclearn.running.notes import OUTSIDE, last_outside
from metriclearn.running.parameters import Jobs, Needs, Positive, Whole, needs

if TYPE_CHECKING:
    from distributed import Client, Future

_LOGGER = logging.getLogger(__name__)
_FAN_IN = 16  # number of sums that one task of the tree, or the client, adds up
# The limits of all blocks that restrict BLAS now, and the number of these blocks.
_LOCK, _LIMITS, _BLOCKS = Lock(), ExitStack(), 0
_MANY_FEATURES = 500  # BLAS needs more threads
_CLIENT = Needs(
    "a distributed.Client, a cluster or the address of a scheduler",
    lambda one: (
        isinstance(one, str) or hasattr(one, "scatter") or hasattr(one, "scheduler_address")
    ),
)
_POOL: ContextVar[ThreadPoolExecutor | None] = ContextVar("pool", default=None)  # of ``jobs``
_SHARDS_PER_THREAD = 4  # shards of this process, because some data sets take longer than others


class Sums(NamedTuple):
    """Weighted sums of losses and gradients over one shard, separately for each group.

    Data set i has the weight s_i, the loss L_i(w) and the gradient ∂L_i(w). A risk consists of one
    or more functions. Each function is a sum over a group of data sets. ``groups`` (G,) holds the
    numbers of the groups that the shard contains, in increasing order. ``values`` (G,) holds Σ s_i
    L_i(w) and ``slopes`` (G, n) holds Σ s_i ∂L_i(w), where i runs over the data sets of the group
    in the shard.
    """

    groups: NDArray
    values: NDArray
    slopes: NDArray


class Shard(Protocol):
    """Protocol of objects that hold some of the data sets of a risk.

    A ``lazy`` shard knows only where its data are stored, so it can be sent again at any time.
    """

    lazy: bool

    def loaded(self) -> Self:
        """Return the same shard with its data in memory."""


class Executor(Protocol):
    """Protocol of objects that send shards to threads or machines, and call functions there."""

    def count(self, n_items: int) -> int:
        """Return the number of shards into which ``n_items`` data sets should be divided."""

    def place(self, shards: Sequence[Any]) -> list[Any]:
        """Send shards to their machines, and return a handle for each."""

    def each(
        self, placed: list[Any], function: Callable[..., Any], *arguments: Any, total: Any = None
    ) -> list[Any]:
        """Call ``function(shard, *arguments)`` for every shard, and return the results in order.

        ``placed`` are the handles that ``place`` returned. ``total`` is a function that adds up a
        list of results. If ``total`` is given, an executor may replace successive results by their
        sum.
        """


@contextmanager
def one_blas_thread(n_features: int = 0) -> Iterator[None]:
    """Restrict BLAS to one thread within a ``with`` block, if there are fewer than 500 features.

    More BLAS threads would then only wait for each other. BLAS has one number of threads for the
    whole process. So if blocks of several threads overlap, the restriction lasts until the last of
    them ends, and only then the number from before the first is back.
    """
    global _BLOCKS
    if n_features >= _MANY_FEATURES:
        yield
        return
    with _LOCK:
        _LIMITS.enter_context(_limited())
        _BLOCKS += 1
    try:
        yield
    finally:
        with _LOCK:
            _BLOCKS -= 1
            if _BLOCKS == 0:
                _LIMITS.close()


def _limited() -> AbstractContextManager[Any]:
    """Restrict BLAS to one thread from now on, until the end of a ``with`` block if there is one.

    The search for loaded libraries takes milliseconds, as long as a small fit. So it is repeated
    only after modules were imported, because libraries are loaded together with modules.
    """
    return _libraries(len(sys.modules)).limit(limits=1, user_api="blas")


@lru_cache(1)
def _libraries(n_modules: int) -> ThreadpoolController:
    """Find the libraries with threads that were loaded with so many modules."""
    return ThreadpoolController()


@contextmanager
def jobs(n_jobs: int | None) -> Iterator[None]:
    """Give :func:`in_threads` this many threads, as in joblib, within a ``with`` block.

    The filters of warnings are the same after the block, although scikit-learn sets and resets them
    in threads, in any order.
    """
    count = effective_n_jobs(n_jobs)
    pool = None if count == 1 else ThreadPoolExecutor(count)
    token = _POOL.set(pool)
    try:
        with nullcontext() if pool is None else warnings.catch_warnings():
            yield
    finally:
        _POOL.reset(token)
        if pool is not None:
            pool.shutdown(wait=False, cancel_futures=True)


def in_threads(
    function: Callable[..., Any], *columns: Iterable[Any], alone: bool = False
) -> list[Any]:
    """Call a function for the items of columns, as ``map`` does, in the threads of :func:`jobs`.

    Threads are efficient for long recordings, because compiled oracles release Python's global
    lock. Calls within a thread run one after another. They see the context of the caller, such as
    ``numpy.errstate``, and their notes point to the line of the user. If ``alone``, each call is
    made in the thread of the caller, and may use the other threads.
    """
    items = list(zip(*columns))
    if (pool := _POOL.get()) is None or alone or len(items) < 2:
        return [function(*one) for one in items]
    context = copy_context()
    context.run(_POOL.set, None)
    context.run(OUTSIDE.set, last_outside())
    return list(pool.map(lambda one: context.copy().run(function, *one), items))


def add_up(parts: Sequence[Sums]) -> Sums:
    """Add the sums of several shards, separately for each function, in the given order."""
    if len(parts) == 1:
        return parts[0]
    groups, values, slopes = map(np.concatenate, zip(*parts))
    functions, place = np.unique(groups, return_inverse=True)
    total = Sums(functions, np.zeros(len(functions)), np.zeros((len(functions), slopes.shape[1])))
    np.add.at(total.values, place, values)
    np.add.at(total.slopes, place, slopes)
    return total


def shard_bounds(group_bounds: NDArray, count: int) -> NDArray:
    """Divide a sequence of data sets, sorted by group, into about ``count`` shards.

    Returns the index of the first data set of each shard, followed by the number of data sets.
    ``group_bounds`` describes the groups in the same way. If there are at least as many groups as
    shards, a shard holds whole groups. Then each function is summed within one shard, so not even
    the last bit of the result depends on the number of shards. If there are fewer groups, each
    group is divided into several shards.
    """
    groups = len(group_bounds) - 1
    if count <= groups:
        return group_bounds[np.linspace(0, groups, count + 1).astype(int)]
    parts = -(-count // groups)
    within = (np.linspace(a, b, parts + 1).astype(int) for a, b in pairwise(group_bounds))
    return np.unique(np.concatenate(list(within)))


@dataclass(eq=False, repr=False)
class ThreadExecutor(BaseEstimator):
    """Evaluate shards in threads of this process.

    Threads are efficient because compiled oracles and BLAS release Python's global lock. A lazy
    shard reads its data sets one after the other in every round, so memory holds at most one data
    set per thread. If several threads are used here, or if there are fewer than 500 features,
    learners restrict BLAS to one thread.

    Parameters
    ----------
    n_jobs : int, optional
        Number of threads, as in joblib: one by default, −1 for one per CPU.

    Raises
    ------
    ValueError
        If a parameter is out of range. The ``fit`` of a learner raises this error.

    See Also
    --------
    DaskExecutor : evaluates shards on many machines.
    """

    n_jobs: Jobs = None

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
    """Evaluate shards on the workers of a Dask cluster, on this machine or on many machines.

    Data sets in memory are sent to the workers once. Data sets on disk (see
    :class:`metriclearn.datasets.SequenceFolder`) are read once by the workers, which keep them in
    memory. In every round of a solver, the workers get the parameters w, and compute the sums of
    their shards. The workers add these sums in batches, and return the few sums that remain. In
    Dask's dashboard, the tasks are called ``load-shard``, ``value-and-slope`` and ``add-up``.

    If a worker is lost, its shards are read again by another worker, or sent again from this
    process if the data are in memory. Up to rounding, the result is the same as on one machine. On
    workers, BLAS uses one thread, as is usual with Dask. Start workers with one thread each,
    because short sequences hold Python's global lock for much of the time. If the scheduler is
    lost, the run ends with an error. A solver with a ``checkpoint`` can resume under a new
    scheduler.

    Parameters
    ----------
    client : distributed.Client, a cluster such as distributed.LocalCluster, or str
        The cluster to use. A string is the address of a scheduler such as
        ``"tcp://127.0.0.1:8786"``. The connection is made at first use.
    shards_per_thread : int
        Number of shards per thread of the cluster. The threads are counted once, when the data
        are divided into shards. If a worker is lost, many small shards are distributed more evenly
        over the others. But each shard costs the scheduler about 1 ms in every round.
    retries : int
        How many times in a row a round is repeated after shards were lost.
    patience : float
        How many seconds to wait for the first worker.

    Raises
    ------
    ValueError
        If ``client`` is of another kind, or if a parameter is out of range.
    ImportError
        If Dask is not installed.
    RuntimeError
        If no worker connects, the scheduler is lost, or shards were lost too often.

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

    @needs
    def __init__(
        self,
        client: Annotated[Any, _CLIENT],
        *,
        shards_per_thread: Annotated[int, Whole(1)] = 2,
        retries: Annotated[int, Whole(0)] = 5,
        patience: Annotated[float, Positive()] = 60.0,
    ) -> None:
        self._given = client
        self.shards_per_thread, self.retries, self.patience = shards_per_thread, retries, patience

    @cached_property
    def client(self) -> Client:
        """The connected client."""
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
                        "DaskExecutor lost its scheduler; start it again and resume from the "
                        "solver's checkpoint, if it has one."
                    ) from error
                if attempt == self.retries:
                    raise RuntimeError(
                        f"DaskExecutor lost shards {attempt + 1} times in a row ({error}); "
                        "give the workers more memory, or make smaller shards with "
                        "shards_per_thread."
                    ) from error
                _LOGGER.warning(
                    "shards were lost with a worker and will be placed again: %s", error
                )
                for shard in placed:
                    shard.home = None
                    if shard.future.status in ("cancelled", "lost", "error"):
                        shard.put()
        raise AssertionError

    def _ask(
        self, placed: list[_Placed], total: Any, function: Callable[..., Any], *arguments: Any
    ) -> list[Any]:
        """Call the function for all shards, with one message for each worker.

        If ``total`` is given, workers add the results in batches, and the sums in batches again,
        until few sums are left.
        """
        from distributed import wait

        # Workers pass a long w on to each other; a short w is sent with every task.
        sent = [
            self.client.scatter(argument, hash=False) if np.size(argument) >= 2**11 else argument
            for argument in arguments
        ]
        if not all(shard.home for shard in placed):  # wait until all are loaded somewhere
            loading = [shard.future for shard in placed]
            with self.client.as_current():
                wait(loading)
            held = self.client.who_has(loading)
            for shard in placed:
                shard.home = next(iter(held.get(shard.future.key, ())), None)
        answers: dict[_Placed, Future] = {}
        for home in dict.fromkeys(shard.home for shard in placed):
            there = [shard for shard in placed if shard.home == home]
            # Otherwise an idle worker would take tasks from a busy one and copy their shards,
            # which takes longer than waiting.
            where: dict[str, Any] = {"workers": [home], "allow_other_workers": True} if home else {}
            futures = [shard.future for shard in there]
            answers.update(zip(there, self._submit(function, futures, *sent, **where)))
        parts = [answers[shard] for shard in placed]
        while total is not None and len(parts) > _FAN_IN:
            batches = [parts[i : i + _FAN_IN] for i in range(0, len(parts), _FAN_IN)]
            parts = self._submit(total, batches)
        return self.client.gather(parts)

    def _submit(
        self, function: Callable[..., Any], items: Sequence[Any], *arguments: Any, **where: Any
    ) -> list[Future]:
        """Submit a task for each item, all in one message. Tasks are named after the function."""
        name, token = function.__name__.strip("_").replace("_", "-"), uuid.uuid4().hex[:12]
        keys = [f"{name}-{token}-{i}" for i in range(len(items))]
        rest = [[argument] * len(items) for argument in arguments]
        options = {"key": keys, "pure": False, "retries": self.retries, **where}
        return self.client.map(function, items, *rest, **options)

    def __deepcopy__(self, memo: Any) -> Self:
        """Return the executor itself, because a connection is never copied.

        If scikit-learn clones an estimator, the clone therefore has the same executor.
        """
        return self

    def __reduce__(self) -> Any:
        """Rebuild the executor in another process, for the same scheduler."""
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
    """A shard, its Dask future, and the worker that holds it (None if this is not known yet)."""

    def __init__(self, client: Client, shard: Shard) -> None:
        self.client, self.original = client, shard
        self.home = None
        self.put()

    def put(self) -> None:
        """Send the shard to a worker, or let a worker load it."""
        if self.original.lazy:
            key = f"load-shard-{uuid.uuid4().hex[:12]}"
            submit = self.client.submit
            self.future = submit(_load, self.original, os.getpid(), key=key, pure=False)
        else:
            self.future = self.client.scatter(self.original, hash=False)


def _load(shard: Shard, client: int) -> Shard:
    """Load the data of a shard. In a worker process, also restrict BLAS to one thread."""
    if os.getpid() != client:
        _limited()
    return shard.loaded()
