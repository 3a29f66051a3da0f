"""Rivals in the league: what they find where it is known, and programs against enumeration."""

import sys
from itertools import combinations, product
from types import ModuleType
from typing import Any
from unittest import mock

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression

from experiments.rivals.boundaries import (
    ArcCurve,
    BoundaryClassifier,
    OrdinalDiscriminants,
    ScoreProfile,
    best_boundaries,
)
from experiments.rivals.random_field import ConditionalRandomField
from experiments.rivals.row_networks import MultiStageNetwork, SegmentationTransformer, attention
from experiments.rivals.windows import (
    PENALTIES,
    ModeFilter,
    RandomConvolutions,
    WindowClassifier,
    most_frequent,
    smoothed,
)
from metriclearn import Partition
from metriclearn.indices import partition_loss
from metriclearn.views import Labels, Posteriors, Windows

TRUTH = np.repeat(["a", "b", "a"], 30)


def noisy(seed: int, step: float = 2.0) -> list[np.ndarray]:
    random = np.random.default_rng(seed)
    levels = step * (TRUTH == "b")[:, None]
    return [random.normal(size=(90, 2)) + levels for _ in range(4)]


NEEDED = {
    ConditionalRandomField: "pycrfsuite",
    MultiStageNetwork: "torch",
    SegmentationTransformer: "torch",
}


@pytest.mark.parametrize(
    "model",
    [
        ConditionalRandomField(),
        MultiStageNetwork(n_rounds=15),
        SegmentationTransformer(n_rounds=20),
        ModeFilter(Posteriors(LogisticRegression(), 1, n_folds=2)),
        WindowClassifier(LogisticRegression()),
        WindowClassifier(thin=True),
    ],
)
def test_names_are_found(model: Any) -> None:
    pytest.importorskip(NEEDED.get(type(model), "sklearn"))
    found = model.fit(noisy(0), [TRUTH] * 4).predict(noisy(1))
    assert min(np.mean(labels == TRUTH) for labels in found) > 0.95
    ends = model.predict_change_points(noisy(1))
    assert [one.tolist() for one in ends] == [
        Partition.from_runs(labels).change_points.tolist() for labels in found
    ]


@pytest.mark.parametrize("kind", [MultiStageNetwork, SegmentationTransformer])
def test_the_same_seed_trains_the_same_network(kind: Any) -> None:
    pytest.importorskip("torch")
    scores = [
        kind(n_rounds=2).fit(noisy(0), [TRUTH] * 4).network_.state_dict()["0.2.bias"]
        for _ in range(2)
    ]
    assert scores[0].tolist() == scores[1].tolist()


@pytest.mark.parametrize("rows", [1, 5, 70, 101])
@pytest.mark.parametrize("width", [1, 2, 8, 64])
def test_attention_in_blocks_is_that_of_every_window(width: int, rows: int) -> None:
    torch = pytest.importorskip("torch")
    random = np.random.default_rng(width)
    query, key, value = (random.normal(size=(count, rows)) for count in (4, 4, 3))
    inputs = [torch.from_numpy(one)[None] for one in (query, key, value)]
    found = attention(*inputs, width)[0].numpy()
    for t in range(rows):
        seen = np.arange(max(t - width // 2, 0), min(t - width // 2 + width, rows))
        weights = np.exp(query[:, t] @ key[:, seen] / 2)
        expected = value[:, seen] @ (weights / weights.sum())
        np.testing.assert_allclose(found[:, t], expected, atol=1e-12)


@pytest.fixture(scope="module")
def rocket() -> Any:
    """Kernels in plain Python: numba would compile them for half a minute."""
    with mock.patch("numba.config.DISABLE_JIT", True):
        return pytest.importorskip("pyts.transformation").ROCKET


@pytest.mark.filterwarnings("ignore:lbfgs failed to converge")
@pytest.mark.usefixtures("rocket")
def test_convolutions_tell_rhythms_apart() -> None:
    def rhythms(seed: int) -> list[np.ndarray]:
        random = np.random.default_rng(seed)
        phase = np.cumsum(np.where(TRUTH == "b", 1.5, 0.5))
        return [np.sin(phase[:, None]) + 0.3 * random.normal(size=(90, 1)) for _ in range(4)]

    model = WindowClassifier(LogisticRegression(), view=RandomConvolutions(20))
    found = model.fit(rhythms(0), [TRUTH] * 4).predict(rhythms(1))
    assert min(np.mean(labels == TRUTH) for labels in found) > 0.9


def test_convolutions_are_those_of_the_window_around_each_row(rocket: Any) -> None:
    X = np.random.default_rng(0).normal(size=(40, 2))
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    labels = Labels([Partition(ends=np.array([14, 28, 40]))])
    model = RandomConvolutions(8).fit([X], labels)
    assert model.widths_ == [11, 15]
    (rows,) = model.transform([X])
    assert rows.shape == (40, 2 + 2 * 8)
    np.testing.assert_allclose(rows[:, :2], X, atol=1e-12)
    last = model.kernels_[1][1]
    assert isinstance(last, rocket)
    for t in (0, 20, 39):
        window = X[np.clip(np.arange(t - 7, t + 8), 0, 39), 1]
        np.testing.assert_allclose(rows[t, -4:], last.transform(window[None])[0], rtol=1e-6)
    (again,) = RandomConvolutions(8).fit([X], labels).transform([X])
    np.testing.assert_array_equal(rows, again)


def test_a_mode_filter_smooths_by_groups_left_out() -> None:
    """The width has the least loss on the recordings that the classifiers have not seen."""
    X, y, groups = noisy(2, 1.5), [TRUTH] * 4, [7, 7, 1, 1]
    view = Posteriors(LogisticRegression(), 0, n_folds=2)
    model = ModeFilter(view).fit(X, y, groups=groups)
    halves = [slice(0, 2), slice(2, 4)]
    losses = dict.fromkeys((1, 3, 5, 7, 11, 15, 21, 31, 45, 63, 91, 127), 0.0)
    rows = np.vstack(X)
    Z = np.split((rows - rows.mean(axis=0)) / rows.std(axis=0), 4)
    for seen, new in (halves, halves[::-1]):
        alone = LogisticRegression().fit(np.vstack(Z[seen]), np.tile(TRUTH, 2))
        for table in Z[new]:
            found = alone.predict(table) == "b"
            for width in losses:
                around = [found[max(t - width // 2, 0) : t + width // 2 + 1] for t in range(90)]
                runs = Partition.from_runs([bool(2 * sum(w) > len(w)) for w in around])
                losses[width] += partition_loss(Partition.from_runs(TRUTH), runs)
    assert model.width_ == min(losses, key=losses.__getitem__) > 1
    assert most_frequent(np.array([2, 0, 0, 2, 1]), 3).tolist() == [0, 0, 0, 0, 1]


def test_smoothed_names_are_the_best_ones() -> None:
    random = np.random.default_rng(1)
    for penalty in (0.0, 0.7, 3.0):
        logs = random.normal(size=(6, 3))

        def value(codes: Any) -> float:
            changes = np.sum(np.diff(codes) != 0)
            return logs[np.arange(6), list(codes)].sum() - penalty * changes  # noqa: B023

        best = max(map(value, product(range(3), repeat=6)))
        assert value(smoothed(logs, penalty)) == pytest.approx(best)


def test_the_penalty_of_windows_is_tuned_on_groups_left_out() -> None:
    X, y, groups = noisy(2, 1.0), [TRUTH] * 4, [7, 7, 1, 1]
    model = WindowClassifier(LogisticRegression(), n_folds=2).fit(X, y, groups=groups)
    losses = np.zeros(len(PENALTIES))
    halves = [slice(0, 2), slice(2, 4)]
    rows = Windows(sides=True).fit_transform(X, Labels([Partition.from_runs(TRUTH)] * 4))
    for seen, new in (halves, halves[::-1]):
        alone = LogisticRegression().fit(np.vstack(rows[seen]), np.tile(TRUTH, 2))
        for table in rows[new]:
            logs = np.log(np.maximum(alone.predict_proba(table), 1e-3))
            for j, penalty in enumerate(PENALTIES):
                found = Partition.from_runs(smoothed(logs, penalty))
                losses[j] += partition_loss(Partition.from_runs(TRUTH), found)
    assert model.penalty_ == PENALTIES[losses.argmin()]


@pytest.mark.parametrize("widths", [(8,), None])
def test_a_classifier_of_boundaries_finds_them(widths: Any) -> None:
    model = BoundaryClassifier(LogisticRegression(), widths=widths)
    found = model.fit(noisy(0, 5.0), [TRUTH] * 4).predict_change_points(noisy(1, 5.0))
    for ends in found:
        assert len(ends) == 3
        assert np.max(np.abs(ends - [30, 60, 90])) <= 2


def test_boundaries_with_a_distance_are_the_best_ones() -> None:
    random = np.random.default_rng(0)
    for distance in (1, 2, 3):
        gains = random.normal(size=7)  # of the ends 1, …, 7
        best = max(
            sum(gains[t - 1] for t in some)
            for k in range(8)
            for some in combinations(range(1, 8), k)
            if all(np.diff(some) >= distance)
        )
        ends = best_boundaries(gains, distance)
        assert ends[-1] == 8
        assert np.all(np.diff(ends[:-1]) >= distance)
        assert sum(gains[t - 1] for t in ends[:-1]) == pytest.approx(best)


def test_ordinal_discriminants_weigh_what_differs_between_neighbors() -> None:
    random = np.random.default_rng(0)
    truth = Partition.from_runs(TRUTH)
    X = [np.column_stack([x[:, 0], 9 * random.normal(size=90)]) for x in noisy(0)]
    metric = OrdinalDiscriminants(n_components=1, shrinkage=0.0).fit(X, [truth] * 4)
    first, second = np.abs(metric.components_[0]) * np.vstack(X).std(axis=0)
    assert first > 5 * second


def test_arcs_are_few_where_a_rhythm_changes() -> None:
    t = np.arange(100)
    random = np.random.default_rng(0)
    x = np.concatenate([np.sin(t), np.sign(np.sin(t / 3))])[:, None]
    X = [x + 0.1 * random.normal(size=x.shape) for _ in range(2)]
    y = [np.repeat([0, 1], 100)] * 2
    found = ArcCurve().fit(X, y).predict_change_points(X)
    assert all(len(ends) == 2 and abs(ends[0] - 100) <= 10 for ends in found)


def test_clasp_has_the_better_of_two_numbers_of_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    class Halves:  # stands in for claspy, which needs other versions of libraries
        def __init__(self, n_segments: Any = "learn", **given: Any) -> None:
            self.n = 1 if n_segments == "learn" else n_segments

        def fit_predict(self, x: Any) -> Any:
            return np.arange(1, self.n) * len(x) // self.n

    package = ModuleType("experiments.rivals.compiled_clasp")
    monkeypatch.setattr(package, "BinaryClaSPSegmentation", Halves, raising=False)
    monkeypatch.setitem(sys.modules, package.__name__, package)
    X = [np.arange(90.0).reshape(30, 3)] * 2
    for labels, option, ends in (
        (np.zeros(30, dtype=int), "learned", [60]),
        (np.repeat([0, 1, 2], 10), "as long as labeled", [10, 20, 30, 40, 50, 60]),
    ):
        model = ScoreProfile().fit(X, [labels] * 2)
        assert model.option_ == option
        assert model.predict_change_points([np.zeros((60, 3))])[0].tolist() == ends


def test_one_label_alone_is_always_predicted() -> None:
    """Boosting that has seen one label gives probabilities in two columns."""
    X = [np.random.default_rng(i).normal(size=(40, 2)) for i in range(2)]
    model = WindowClassifier(HistGradientBoostingClassifier(max_iter=2), n_folds=2)
    found = model.fit(X, [np.full(40, "a")] * 2).predict(X)
    assert [set(names) for names in found] == [{"a"}] * 2
