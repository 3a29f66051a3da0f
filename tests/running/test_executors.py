"""Executors: threads and Dask workers, even if some die, give the result of one thread."""

import ctypes
import pickle
import shutil
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from threadpoolctl import threadpool_info, threadpool_limits

import metriclearn as ml
from metriclearn.datasets import make_change_points, pack_sequences
from metriclearn.running.executors import (
    DaskExecutor,
    ThreadExecutor,
    in_threads,
    jobs,
    one_blas_thread,
    shard_bounds,
)
from metriclearn.running.notes import note
from tests.cluster import Cluster
from tests.processes import kill_after_writing
from tests.solvers.complete_problem import hinge_of, watched_by

DATA = make_change_points(24, 300, 6, 2, (3, 6), random_state=0)


def learner(**parameters: Any) -> ml.ChangePointMetricLearner:
    solver = parameters.pop("solver", ml.BundleDual(1e-5))
    return ml.ChangePointMetricLearner(
        ml.FullMetric(), ml.SquaredFrobenius(0.1), solver, verbose=False, **parameters
    )


def train(state: Path, address: str) -> ml.ChangePointMetricLearner:
    """Train with a checkpoint on the workers of a scheduler."""
    training = learner(solver=ml.BundleDual(1e-5, checkpoint=str(state)))
    return training.set_params(executor=DaskExecutor(address)).fit(DATA.sequences, DATA.labels)


@pytest.fixture(scope="module")
def expected() -> ml.ChangePointMetricLearner:
    return learner().fit(DATA.sequences, DATA.labels)


@pytest.fixture(scope="module", params=["in memory", "on disk"])
def data(request: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any]:
    """The same sequences and labels as arrays, and as packed files."""
    if request.param == "in memory":
        return DATA.sequences, DATA.labels
    packed = pack_sequences(DATA.sequences, DATA.labels, tmp_path_factory.mktemp("packed"))
    return packed.sequences, packed.labels


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    pytest.importorskip("distributed", reason="Dask is optional: pip install metriclearn[dask]")
    running = Cluster(tmp_path_factory.mktemp("cluster"))
    try:
        yield running
    finally:
        running.close()


@pytest.fixture
def client(cluster: Cluster) -> Iterator[Any]:
    connected = cluster.connect()
    cluster.with_workers(connected, 2)
    try:
        yield connected
    finally:
        connected.close()


def assert_same(found: Any, expected: Any) -> None:
    """Bit for bit."""
    np.testing.assert_array_equal(found.components_, expected.components_)
    ours, theirs = found.solution_, expected.solution_
    np.testing.assert_array_equal(ours.w, theirs.w)
    assert ours.trace.objective == theirs.trace.objective
    assert ours.trace.lower_bound == theirs.trace.lower_bound


class Killer:
    """Kills something after a round: at once, or later, in the middle of the next round.

    Parameters
    ----------
    kill : callable
    at_round : int
    delay : float
        In seconds.
    """

    def __init__(self, kill: Callable[[], None], at_round: int, delay: float = 0.0) -> None:
        self.kill, self.at_round, self.delay = kill, at_round, delay
        self.killed = False

    def on_round(self, progress: Any) -> None:
        if progress.round == self.at_round and not self.killed:
            self.killed = True
            if self.delay:
                threading.Timer(self.delay, self.kill).start()
            else:
                self.kill()

    def on_end(self, solution: Any) -> None:
        assert self.killed


def test_shards_are_whole_groups_or_parts_of_one() -> None:
    groups = np.array([0, 3, 6, 10])
    assert shard_bounds(groups, 1).tolist() == [0, 10]
    assert shard_bounds(groups, 3).tolist() == [0, 3, 6, 10]
    assert shard_bounds(groups, 6).tolist() == [0, 1, 3, 4, 6, 8, 10]
    assert shard_bounds(groups, 100).tolist() == list(range(11))


@pytest.mark.parametrize("threads", [1, 3])
def test_threads(threads: int, expected: Any, data: tuple[Any, Any]) -> None:
    assert_same(learner(executor=ThreadExecutor(threads)).fit(*data), expected)


def blas_threads() -> dict[str, int]:
    """The number of threads of each BLAS that this process has loaded, by its file."""
    found = (one for one in threadpool_info() if one["user_api"] == "blas")
    return {one["filepath"]: one["num_threads"] for one in found}


def test_every_blas_has_one_thread_during_a_fit_though_it_was_loaded_after_another_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As an extension module does, the second BLAS comes with a new module."""
    learner().fit(DATA.sequences[:2], DATA.labels[:2])
    with threadpool_limits(2, user_api="blas"):  # libraries may have brought one without threads
        file = Path(next(name for name, threads in blas_threads().items() if threads == 2))
    later = tmp_path / file.name
    monkeypatch.setitem(sys.modules, "later", ModuleType("later"))
    ctypes.CDLL(str(shutil.copy(file, later)))
    seen: list[dict[str, int]] = []
    with threadpool_limits(2, user_api="blas"):
        assert blas_threads()[str(later)] == 2
        watched = watched_by(lambda _: seen.append(blas_threads()))
        learner(callbacks=watched).fit(DATA.sequences[:2], DATA.labels[:2])
        after = blas_threads()
    assert {threads[str(later)] for threads in seen} == {1}
    assert {number for threads in seen for number in threads.values()} == {1}
    assert after[str(later)] == 2


def test_overlapping_fits_leave_blas_as_they_found_it() -> None:
    """The first of two fits in threads ends before the second."""
    first, second = one_blas_thread(), one_blas_thread()
    with threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        first.__enter__(), second.__enter__()
        first.__exit__(None, None, None)
        assert set(blas_threads().values()) == {1}
        second.__exit__(None, None, None)
        assert blas_threads() == before


def test_dask(client: Any, expected: Any, data: tuple[Any, Any]) -> None:
    assert_same(learner(executor=DaskExecutor(client)).fit(*data), expected)


def test_many_shards_and_a_long_w(client: Any) -> None:
    """24 sums are added over a tree; workers pass a w of 20 kB on to each other."""
    data = make_change_points(24, 60, 70, 2, (2, 3), random_state=0)
    truths = [ml.Partition.from_runs(labels) for labels in data.labels]
    for executor in (DaskExecutor(client, shards_per_thread=12), ThreadExecutor(2)):
        risk = hinge_of(data.sequences, truths, ml.FullMetric(), "learned", executor=executor)
        assert executor.count(24) == (24 if isinstance(executor, DaskExecutor) else 8)
        alone = replace(risk, executor=ThreadExecutor())
        w = risk.terms.cone.join(risk.terms.cone.metric.coordinates(0.1 * np.eye(70)), 0.5)
        assert w.nbytes > 2**14
        for found, expected in zip(risk(w), alone(w)):
            np.testing.assert_array_equal(found, expected)
        assert risk.fingerprint == alone.fingerprint
        np.testing.assert_allclose(risk.truth_slope, alone.truth_slope, rtol=1e-12)


@pytest.mark.parametrize("delay", [0.0, 0.02])
def test_killed_worker(delay, cluster, client, expected, data) -> None:
    """After SIGKILL in the middle of training one worker finishes with the same result."""
    killer = Killer(cluster.kill_a_worker, 3, delay)
    found = learner(executor=DaskExecutor(client), callbacks=[killer]).fit(*data)
    cluster.with_workers(client, 1)  # the other one is gone
    assert_same(found, expected)


def test_killed_client(cluster: Cluster, client: Any, expected: Any, tmp_path: Path) -> None:
    """Another process resumes from the checkpoint of a killed one and gets the same result."""
    state, address = tmp_path / "state.npz", client.scheduler.address
    assert kill_after_writing(state, 0.0, train, state, address)
    with np.load(state) as file:
        done = len(file["rows"])
    assert 0 < done < len(expected.solution_.trace)
    assert_same(train(state, address), expected)


def test_clusterings_and_partial_labels(client: Any) -> None:
    rng = np.random.default_rng(0)
    y = [rng.integers(0, 3, 40) for _ in range(3)]
    X = [np.eye(3)[labels] * 3 + rng.normal(size=(40, 3)) for labels in y]
    here = ml.ClusteringMetricLearner(verbose=False, random_state=0)
    there = clone(here).set_params(executor=DaskExecutor(client))
    assert_same(there.fit(X, y), here.fit(X, y))
    assert there.relaxed_objective_ == pytest.approx(here.relaxed_objective_)
    partial = [labels.copy() for labels in DATA.labels[:4]]
    for labels in partial:
        labels[100:140] = -1
    found = learner(executor=DaskExecutor(client)).fit(DATA.sequences[:4], partial)
    alone = learner().fit(DATA.sequences[:4], partial)
    assert_same(found, alone)
    assert found.alternation_ == alone.alternation_


def test_normalized_cuts_with_a_killed_worker(cluster: Cluster, client: Any) -> None:
    """Threads, and workers of which one dies during training, give the same result."""
    rng = np.random.default_rng(0)
    y = [np.arange(30) * 2 // 30 for _ in range(4)]
    X = [rng.normal(size=(30, 3)) + 3.0 * np.outer(labels, (1, 0, 0)) for labels in y]
    y = [np.where(rng.random(30) < 0.5, labels, -1) for labels in y]
    here = ml.NormalizedCutMetricLearner(starts=(1e-2, 1e-1), verbose=False)
    alone = here.fit(X, y)
    assert_same(clone(here).set_params(n_jobs=2).fit(X, y), alone)
    killer = Killer(cluster.kill_a_worker, 1, 0.02)
    executor = DaskExecutor(client)
    there = clone(here).set_params(executor=executor, callbacks=[killer]).fit(X, y)
    cluster.with_workers(client, 1)  # the other one is gone
    assert_same(there, alone)
    assert there.start_objectives_ == alone.start_objectives_
    for found, expected in zip(there.completions_ or [], alone.completions_ or []):
        np.testing.assert_array_equal(found, expected)


def test_errors_of_workers_are_those_of_one_machine(client: Any) -> None:
    class Broken:
        def __len__(self) -> int:
            return 5

        def __getitem__(self, i: int) -> np.ndarray:
            return np.full((30, 2), np.nan if i == 3 else 1.0) + np.arange(30)[:, None]

    sentence = "needs finite numbers, got NaN at row 0, feature 0 of data set 3"
    for executor in (ThreadExecutor(), DaskExecutor(client)):
        with pytest.raises(ValueError, match=sentence):
            learner(executor=executor).fit(Broken(), [np.arange(30) // 10] * 5)


def test_executor_is_not_copied_and_not_saved(client: Any, tmp_path: Path) -> None:
    executor = DaskExecutor(client)
    estimator = learner(executor=executor)
    assert clone(estimator).executor is executor
    assert clone(learner(executor=ThreadExecutor(2))).executor.n_jobs == 2
    fitted = estimator.fit(DATA.sequences[:4], DATA.labels[:4])
    again = ml.load(ml.save(fitted, tmp_path / "model.npz"))
    assert again.executor is None
    np.testing.assert_array_equal(again.components_, fitted.components_)
    with pytest.raises(ValueError, match="a cluster or the address of a scheduler, got 7"):
        DaskExecutor(7)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="needs a whole retries of at least 0, got -1"):
        DaskExecutor(client, retries=-1)
    again = pickle.loads(pickle.dumps(executor))
    assert repr(again) == repr(executor) == f"DaskExecutor({client.scheduler.address!r})"


def test_lost_scheduler_is_one_sentence(tmp_path: Path) -> None:
    pytest.importorskip("distributed", reason="Dask is optional: pip install metriclearn[dask]")
    cluster = Cluster(tmp_path)
    client = cluster.connect(timeout=3)
    try:
        with pytest.raises(RuntimeError, match=r"needs a worker, but .* had none for 0\.2 s"):
            learner(executor=DaskExecutor(client, patience=0.2)).fit(DATA.sequences, DATA.labels)
        cluster.with_workers(client, 1)

        training = learner(
            executor=DaskExecutor(client), callbacks=[Killer(cluster.kill_the_scheduler, 2)]
        )
        with pytest.raises(RuntimeError, match="DaskExecutor lost its scheduler; start it again"):
            training.fit(DATA.sequences, DATA.labels)
    finally:
        client.close(timeout=1)
        cluster.close()


def test_threads_of_a_block_keep_the_order_and_have_no_threads_of_their_own() -> None:
    met = threading.Barrier(2, timeout=30)

    def here(number: int) -> tuple[int, list[int]]:
        met.wait()  # only two threads at the same time pass
        assert threading.current_thread() is not threading.main_thread()
        return number, in_threads(lambda other: threading.get_ident() - other, [0] * 2)

    with jobs(2):
        found = in_threads(here, range(8))
        with pytest.raises(ZeroDivisionError):
            in_threads(lambda one: 1 / one, [1, 0])
        alone = in_threads(lambda one: threading.current_thread(), [0])
    assert [number for number, _ in found] == list(range(8))
    assert all(first == second for _, (first, second) in found)
    main = threading.main_thread()
    assert alone == [main]
    assert in_threads(lambda one: threading.current_thread(), "ab") == [main] * 2
    assert in_threads(max, []) == []


def test_threads_see_the_context_of_the_caller_and_leave_filters_of_warnings_alone() -> None:
    filters, both = list(warnings.filters), threading.Barrier(2, timeout=30)
    first, last = threading.Event(), threading.Event()

    def here(number: int) -> str:
        """The second call saves the filters of the first, and ends after it."""
        assert number == 0 or first.wait(30)
        with warnings.catch_warnings(action="error", category=ResourceWarning):
            first.set()
            both.wait()
            assert number == 0 or last.wait(30)
        last.set()
        return np.geterr()["over"]

    with np.errstate(over="raise"), jobs(2):
        assert in_threads(here, range(2)) == ["raise"] * 2
        main = [threading.current_thread()] * 2
        assert in_threads(lambda one: threading.current_thread(), "ab", alone=True) == main
    assert warnings.filters == filters
    with pytest.warns(UserWarning, match="found") as caught, jobs(2):
        in_threads(note, ["found"] * 2)
    assert {one.filename for one in caught} == {__file__}
