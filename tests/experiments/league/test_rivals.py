"""Rivals in the league: what they find where it is known, and programs against enumeration."""

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from experiments.rivals.boundaries import (
    ArcCurve,
    BoundaryClassifier,
    OrdinalDiscriminants,
    best_boundaries,
)
from experiments.rivals.ms_tcn import MultiStageNetwork
from experiments.rivals.random_field import ConditionalRandomField
from metriclearn import Partition

TRUTH = np.repeat(["a", "b", "a"], 30)


def noisy(seed: int, step: float = 2.0) -> list[np.ndarray]:
    random = np.random.default_rng(seed)
    levels = step * (TRUTH == "b")[:, None]
    return [random.normal(size=(90, 2)) + levels for _ in range(4)]


@pytest.mark.parametrize("model", [ConditionalRandomField(), MultiStageNetwork(n_rounds=40)])
def test_names_are_found(model: Any) -> None:
    if isinstance(model, ConditionalRandomField):
        pytest.importorskip("pycrfsuite")
    else:
        pytest.importorskip("torch")
    found = model.fit(noisy(0), [TRUTH] * 4).predict(noisy(1))
    assert min(np.mean(labels == TRUTH) for labels in found) > 0.95
    ends = model.predict_change_points(noisy(1))
    assert [one.tolist() for one in ends] == [
        Partition.from_runs(labels).change_points.tolist() for labels in found
    ]


def test_the_same_seed_trains_the_same_network() -> None:
    pytest.importorskip("torch")
    scores = [
        MultiStageNetwork(n_rounds=2).fit(noisy(0), [TRUTH] * 4).stages_.state_dict()["0.2.bias"]
        for _ in range(2)
    ]
    assert scores[0].tolist() == scores[1].tolist()


def test_a_classifier_of_boundaries_finds_them() -> None:
    model = BoundaryClassifier(LogisticRegression(), widths=(8,))
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
