"""Change-points on a torch device against enumeration and the processor's path."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metriclearn import (
    ChangePointMetricLearner,
    ChangePoints,
    DenseForm,
    LowRankForm,
    Partition,
    SummedArea,
    TorchChangePoints,
    load,
    save,
)
from metriclearn.datasets import make_change_points
from metriclearn.oracles import torch_change_points
from metriclearn.problem import risk
from metriclearn.problem.forms import cumulative_sums
from tests.exhaustive import best_segmentation, dense_form

torch = pytest.importorskip("torch", reason="torch is not installed")
NO_GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device is there")
DEVICES = ["cpu", pytest.param("cuda", marks=NO_GPU)]


def segmentation(rng: np.random.Generator, T: int, most: int = 10) -> Partition:
    K = int(rng.integers(1, min(T, most) + 1))
    cuts = rng.choice(np.arange(1, T), K - 1, replace=False) if K > 1 else []
    return Partition.from_change_points(cuts, T)


def case(rng: np.random.Generator, T: int) -> LowRankForm:
    """Jumps of none to many deviations; with a loss, whose labels may be wrong, or without."""
    rank, alpha = int(rng.integers(1, 6)), float(rng.choice([0.0, 0.2, 1.0, 4.0]))
    truth = segmentation(rng, T)
    means = rng.normal(size=(truth.n_clusters, rank))[truth.labels]
    Z = rng.choice([0.0, 1.0, 5.0]) * means + rng.choice([0.1, 1.0]) * rng.normal(size=(T, rank))
    labels = truth if rng.random() < 0.5 else segmentation(rng, T)
    shift = alpha - float(rng.choice([0.1, 1.0, 3.0, 20.0]))
    form = LowRankForm(Z)
    return form.plus(labels, 2.0 * alpha, shift) if alpha else LowRankForm(Z, shift=shift)


def size_of(form: LowRankForm, *found: Partition) -> float:
    """‖Z‖² + κK + |c|K: what rounding errors of ⟨A, M⟩ are relative to."""
    most = max(partition.n_clusters for partition in found)
    return float(np.sum(form.factors**2)) + most * (form.weight + abs(form.shift))


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.lists(st.integers(-3, 3), min_size=1, max_size=8), min_size=1, max_size=4),
    st.integers(0, 127),
    st.sampled_from([0.0, 0.1, 0.5, 2.0]),
    st.integers(-4, 4),
    st.integers(1, 4),
)
def test_equals_enumeration(signals, cuts, alpha, c, min_size) -> None:
    """Batches of integer signals with ties, K unknown and every K."""
    signals = [signal for signal in signals if len(signal) >= min_size] or [[1] * min_size]
    forms, counts, winners = [], [], []
    for signal in signals:
        T = len(signal)
        truth = Partition.from_runs(np.cumsum([(cuts >> t) & 1 for t in range(T)]))
        Z = np.array(signal, dtype=float)[:, None]
        A = dense_form(Z, truth.labels, 2 * alpha, c)
        for K in (None, *range(1, T // min_size + 1)):
            forms.append(LowRankForm(Z, truth, 2 * alpha, c))
            counts.append(K)
            winners.append(best_segmentation(A, K, min_size)[1])
    for found, best in zip(TorchChangePoints("cpu", min_size).many(forms, counts), winners):
        assert tuple(found.change_points) in best


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("width", [4, 32])
def test_equals_the_processor_on_ragged_batches(device, width, monkeypatch) -> None:
    """360 sequences of up to 150 samples and 16 tiles: the same segments, K known and unknown."""
    monkeypatch.setattr(torch_change_points, "_WIDTHS", (width, width))
    rng = np.random.default_rng(width)
    for min_size in (1, 2, 3, 7):
        forms = [case(rng, int(rng.integers(min_size, min(150, 16 * width)))) for _ in range(45)]
        counts = [
            None if i % 3 else int(rng.integers(1, min(20, form.n_samples // min_size) + 1))
            for i, form in enumerate(forms)
        ]
        found = TorchChangePoints(device, min_size).many(forms, counts)
        for form, count, mine in zip(forms, counts, found):
            theirs = ChangePoints(min_size)(form, count)
            assert mine == theirs
            assert mine.sizes.min() >= min_size


def test_equals_algorithm_1() -> None:
    rng = np.random.default_rng(3)
    forms = [case(rng, int(rng.integers(2, 60))) for _ in range(30)]
    for form, found in zip(forms, TorchChangePoints("cpu").many(forms)):
        labels = None if form.truth is None else form.truth.labels
        A = dense_form(form.factors - form.factors.mean(0), labels, form.weight, form.shift)
        best = form.at(SummedArea()(DenseForm(A)))
        assert form.at(found) == pytest.approx(best, abs=1e-12 * size_of(form, found))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("single", [False, True])
def test_bounds_of_the_errors(device, single) -> None:
    """Long runs, an offset of 1e6 and large jumps; white noise with nothing to prune."""
    rng = np.random.default_rng(0)
    bound = 3e-6 if single else 1e-12
    truth = segmentation(rng, 3000, 60)
    jumps = 100.0 * rng.normal(size=(truth.n_clusters, 5))[truth.labels] + 1e6
    ramp = np.linspace(0.0, 1e4, 3000)[:, None] + rng.normal(size=(3000, 2))
    noise = rng.normal(size=(2000, 8))
    forms = [
        LowRankForm(jumps + rng.normal(size=(3000, 5))).plus(truth, 20.0, -60.0),
        LowRankForm(ramp, shift=-1e3),
        LowRankForm(noise, shift=-8 * 1.5),
        LowRankForm(noise).plus(Partition(ends=np.array([2000])), 40.0, -20.0),
    ]
    oracle = TorchChangePoints(device, single_precision=single)
    for form, found in zip(forms, oracle.many(forms)):
        best = ChangePoints()(form)
        centered = LowRankForm.from_cumulative(form.cumulative)
        if form.truth is not None:
            centered = centered.plus(form.truth, form.weight, 0.0)
        centered.shift = form.shift
        assert centered.at(best) - centered.at(found) <= bound * size_of(centered, best, found)
        assert single or found == best


def test_many_segments_within_a_tile() -> None:
    """Every sample its own segment, and segments of two: pointers are followed, not waited for."""
    rng = np.random.default_rng(1)
    Z = np.cumsum(rng.normal(size=(700, 3)), axis=0)
    pairs = np.repeat(rng.normal(size=(350, 3)), 2, axis=0) + 0.01 * rng.normal(size=(700, 3))
    forms = [LowRankForm(Z, shift=0.5), LowRankForm(pairs, shift=-0.05)]
    found = TorchChangePoints("cpu").many(forms)
    np.testing.assert_array_equal(found[0].change_points, np.arange(1, 701))
    np.testing.assert_array_equal(found[1].change_points, np.arange(2, 701, 2))


def test_tiles_are_pruned() -> None:
    """Products: few with changes or clear prices, near all of them at the worst price."""
    rng = np.random.default_rng(2)
    T, r, width = 2000, 16, 128
    noise = rng.normal(size=(T, r))
    changes = noise + 2.0 * np.repeat(rng.normal(size=(40, r)), 50, axis=0)
    everything = (T // width + 1) * (T // width + 2) / 2 * width**2 * (r + 1)

    def share(Z, price) -> float:
        sums = cumulative_sums(Z)
        padded = torch.as_tensor(np.pad(sums, ((0, -T % width), (0, 0)), mode="edge"))[None]
        weight = np.zeros(1)
        program = torch_change_points.TiledProgram(padded, np.array([T]), None, weight, width=width)
        program.solve(np.array([-price]))
        return program.products / everything

    assert share(changes, 2 * r * np.log(T)) < 0.3
    assert share(noise, 2 * r * np.log(T)) < 0.3
    assert 0.9 < share(noise, 2.0 * r) < 1.1


def test_little_memory_means_several_batches() -> None:
    rng = np.random.default_rng(4)
    forms = [case(rng, int(rng.integers(1500, 2500))) for _ in range(6)]
    oracle = TorchChangePoints("cpu", memory=2.0**20)
    assert [len(batch) for batch in oracle._batches(forms)] == [1] * 6
    assert oracle.many(forms) == TorchChangePoints("cpu").many(forms)


def test_edges_of_batches() -> None:
    oracle = TorchChangePoints("cpu")
    assert oracle.many([]) == []
    single = LowRankForm(np.ones((1, 2)), shift=-1.0)
    assert oracle(single) == oracle(single, 1) == Partition(ends=np.array([1]))
    constant = LowRankForm(np.zeros((40, 1)), shift=-1.0)
    assert oracle(constant).n_clusters == 1
    assert oracle(constant, 7).n_clusters == 7
    frozen = cumulative_sums(np.arange(6.0).reshape(3, 2))
    frozen.flags.writeable = False
    assert oracle(LowRankForm.from_cumulative(frozen)) == ChangePoints()(
        LowRankForm.from_cumulative(frozen)
    )


def test_products_are_made_on_the_device() -> None:
    rng = np.random.default_rng(5)
    X, L = rng.normal(size=(200, 6)), rng.normal(size=(3, 6))
    lazy = LowRankForm.from_product(cumulative_sums(X), L)
    lazy.shift = -3.0
    direct = LowRankForm(X @ L.T, shift=-3.0)
    assert TorchChangePoints("cpu")(lazy) == ChangePoints()(direct)
    assert "cumulative" not in vars(lazy)
    np.testing.assert_allclose(lazy.cumulative, direct.cumulative, atol=1e-10)


def test_arrays_stay_on_the_device_while_they_live() -> None:
    kept, device = torch_change_points._Kept("meta", 3000.0), torch.device("meta")
    first, second = np.zeros((10, 20)), np.ones((10, 20))
    tensor = kept.tensor(first, np.asarray, device)
    assert kept.tensor(first, np.asarray, device) is tensor
    assert kept.tensor(second, np.asarray, device) is not kept.tensor(
        second, np.asarray, device
    )  # 3200 bytes: too many
    del first, tensor
    assert kept.tensor(second, np.asarray, device) is kept.tensor(second, np.asarray, device)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("parameters", [{}, {"n_segments": "given"}, {"min_size": 4}])
def test_learners_learn_and_predict_the_same(device, parameters, tmp_path) -> None:
    data = make_change_points(12, 90, 6, 2, (3, 5), random_state=0)
    plain = ChangePointMetricLearner(**parameters).fit(data.sequences, data.labels)
    learner = ChangePointMetricLearner(oracle=TorchChangePoints(device), **parameters)
    learner.fit(data.sequences, data.labels)
    np.testing.assert_allclose(learner.components_, plain.components_, atol=1e-9)
    assert learner.solution_.objective == pytest.approx(plain.solution_.objective, abs=1e-9)
    X = [data.sequences[0], data.sequences[1][:50], data.sequences[2][:3]]
    counts = [3, 2, 1] if parameters.get("n_segments") else None
    if "min_size" in parameters:
        counts = None
    for mine, theirs in zip(learner.predict(X, counts), plain.predict(X, counts)):
        np.testing.assert_array_equal(mine, theirs)
    np.testing.assert_array_equal(
        learner.predict_change_points(X[0], 4), plain.predict_change_points(X[0], 4)
    )
    learner.oracle(LowRankForm(X[0]))  # leaves tensors on the device, which are not saved
    again = load(save(learner, tmp_path / "model.npz"))
    assert again.oracle.device == device
    np.testing.assert_array_equal(again.predict(X[0], 4), learner.predict(X[0], 4))


def test_stored_sequences_are_read_a_few_at_a_time(monkeypatch) -> None:
    data = make_change_points(12, 90, 6, 2, (3, 5), random_state=0)

    class Folder:
        def __len__(self) -> int:
            return len(data.sequences)

        def __getitem__(self, i: int) -> np.ndarray:
            return data.sequences[i]

    sizes: list[int] = []
    real = TorchChangePoints.many

    def many(self, forms, counts=None):
        sizes.append(len(forms))
        return real(self, forms, counts)

    monkeypatch.setattr(TorchChangePoints, "many", many)
    monkeypatch.setattr(risk, "_ROWS_AT_ONCE", 270)
    learner = ChangePointMetricLearner(oracle=TorchChangePoints("cpu"))
    learner.fit(Folder(), data.labels)
    assert set(sizes) == {1, 2, 3}  # 90 samples each, the first batch ends before the 270th
    plain = ChangePointMetricLearner().fit(data.sequences, data.labels)
    np.testing.assert_allclose(learner.components_, plain.components_, atol=1e-9)


@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize("with_truths", [False, True])
def test_all_tensors_are_on_the_device(single, with_truths) -> None:
    """Operations that mix devices fail; "meta" is one that every build of torch has."""
    width, samples = 16, np.array([60, 50, 40])
    sums = torch.empty(3, 65, 5, dtype=torch.float64, device="meta")
    truths = torch_change_points.Truths(*torch.empty(4, 3, 65, dtype=torch.float64, device="meta"))
    program = torch_change_points.TiledProgram(
        sums,
        samples,
        truths if with_truths else None,
        np.full(3, float(with_truths)),
        min_size=4,
        width=width,
        single_precision=single,
    )
    state = program._begin(np.zeros(3))
    block = program._block(2, 3, state)
    within = (block.positions - 1).expand(3, -1)
    diagonal = program._worth(block, block.rows, within, torch.float64)
    program._evaluate(block, state, block.rows, state.last[:, 32])
    values = torch.maximum(block.outside, state.F[:, 33:49])
    inner, chosen = diagonal.max(1)
    own = inner > block.outside
    program._follow(diagonal, state.F[:, 32], block.outside, own, chosen)
    assert program._promising(block, state, values).device.type == "meta"
    program._mark_beaten(3, 3, state)
    assert {tensor.device.type for tensor in state} == {"meta"}


def test_a_metric_of_rank_zero_predicts_one_segment() -> None:
    data = make_change_points(4, 60, 4, 2, (3, 3), random_state=0)
    learner = ChangePointMetricLearner(oracle=TorchChangePoints("cpu"))
    learner.fit(data.sequences, data.labels)
    learner.components_ = np.zeros((0, 4))
    assert set(learner.predict(data.sequences[0])) == {0}


def test_threads_and_pickles() -> None:
    data = make_change_points(9, 60, 4, 2, (3, 3), random_state=1)
    oracle = pickle.loads(pickle.dumps(TorchChangePoints("cpu")))
    one = ChangePointMetricLearner(oracle=oracle).fit(data.sequences, data.labels)
    two = ChangePointMetricLearner(oracle=oracle, n_jobs=2).fit(data.sequences, data.labels)
    np.testing.assert_array_equal(one.components_, two.components_)
    assert "kept_" not in pickle.loads(pickle.dumps(oracle)).__dict__


def test_errors_name_the_remedy() -> None:
    form = LowRankForm(np.ones((3, 1)))
    with pytest.raises(ValueError, match="needs a device that is there, got device='nowhere'"):
        TorchChangePoints("nowhere")(form)
    if not torch.cuda.is_available():
        with pytest.raises(ValueError, match=r'finds the processor only; pass device="cpu"'):
            TorchChangePoints("cuda")(form)
    with pytest.raises(ValueError, match="needs 4 samples for 4 segment"):
        TorchChangePoints("cpu")(form, 4)
    with pytest.raises(ValueError, match="min_size of at least 1"):
        TorchChangePoints("cpu", 0)(form)
    with pytest.raises(TypeError, match="use the SummedArea oracle"):
        TorchChangePoints("cpu")(DenseForm(np.eye(3)))
    with pytest.raises(ValueError, match="finite factors, got NaN"):
        TorchChangePoints("cpu").many([form, LowRankForm(np.array([[1.0], [np.nan]]))])
    with pytest.raises(ValueError, match="got 2 for 1"):
        TorchChangePoints("cpu").many([form], [1, 2])
    with pytest.raises(ValueError, match="memory of at least"):
        TorchChangePoints("cpu", memory=10)(form)
    scattered = form.plus(Partition.from_labels([0, 1, 0]), 2.0, 0.0)
    with pytest.raises(ValueError, match="contiguous"):
        TorchChangePoints("cpu")(scattered)
    X = np.random.default_rng(0).normal(size=(9, 2))
    for wrong in (TorchChangePoints, "cuda", ChangePoints()):
        with pytest.raises(ValueError, match="needs an oracle such as TorchChangePoints"):
            ChangePointMetricLearner(oracle=wrong).fit(X, np.arange(9) // 3)
