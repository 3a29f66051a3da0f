"""Local search: between enumeration's best and the relaxation, never below its starts."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metriclearn.oracles.local_search import LocalSearch
from metriclearn.oracles.rounding import RowKMeans
from metriclearn.oracles.spectral import SpectralRelaxation
from metriclearn.problem.forms import LowRankForm
from metriclearn.problem.partition import Partition
from tests.exhaustive import all_partitions


@st.composite
def forms(draw, most: int):
    T, seed = draw(st.integers(2, most)), draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(T, draw(st.integers(1, 3))))
    weight = draw(st.sampled_from([0.0, 1.0, 4.0]))
    shift = draw(st.sampled_from([-2.0, -0.3, 0.0, 0.5]))
    truth = Partition.from_labels(rng.integers(0, min(T, 3), T))
    return LowRankForm(Z - Z.mean(axis=0)).plus(truth, weight).shifted(shift)


def brute(form: LowRankForm, count: int | None) -> float:
    found = all_partitions(form.n_samples, count)
    return max(form.at(Partition.from_labels(labels)) for labels in found)


@settings(max_examples=60, deadline=None)
@given(forms(7), st.data())
def test_lies_between_truth_enumeration_and_relaxation(form, data) -> None:
    count = data.draw(st.one_of(st.none(), st.integers(1, form.n_samples)))
    bounds = LocalSearch().bounds(form, count)
    best = brute(form, count)
    assert bounds.lower == pytest.approx(form.at(bounds.partition), abs=1e-9)
    assert bounds.lower <= best + 1e-9 <= bounds.upper + 2e-9
    assert count is None or bounds.partition.n_clusters == count
    if count in (None, form.truth.n_clusters):
        assert bounds.lower >= form.at(form.truth) - 1e-9


@settings(max_examples=60, deadline=None)
@given(forms(50), st.data())
def test_is_never_above_the_relaxation_and_no_single_move_is_left(form, data) -> None:
    count = data.draw(st.one_of(st.none(), st.integers(1, form.n_samples)))
    found = LocalSearch()(form, count)
    for keep in (False, True):
        assert form.at(found) <= form.at(SpectralRelaxation(keep)(form, count)) + 1e-8
    value = form.at(found)
    for i in range(0, form.n_samples, 7):
        for target in range(found.n_clusters + 1):
            labels = found.labels.copy()
            labels[i] = target
            moved = Partition.from_labels(labels)
            if count in (None, moved.n_clusters):
                assert form.at(moved) <= value + 1e-7


def test_often_finds_the_best() -> None:
    rng = np.random.default_rng(0)
    hits = 0
    for _ in range(100):
        form = LowRankForm(rng.normal(size=(6, 2)))
        hits += LocalSearch().bounds(form, 3).lower >= brute(form, 3) - 1e-9
    assert hits >= 90


def test_opens_and_closes_clusters() -> None:
    centers = np.array([[0.0, 0.0], [8.0, 0.0], [0.0, 9.0], [20.0, 20.0]])
    truth = Partition.from_labels(np.repeat(np.arange(4), [20, 30, 25, 1]))
    rng = np.random.default_rng(1)
    Z = centers[truth.labels] + 0.3 * rng.normal(size=(76, 2))
    form = LowRankForm(Z - Z.mean(axis=0), shift=-20.0)
    search = LocalSearch()
    assert search(form) == truth
    assert search(form.shifted(-1e6)).n_clusters == 1  # emptied clusters are closed


def test_many_clusters_grow_past_the_room_set_aside() -> None:
    rng = np.random.default_rng(2)
    form = LowRankForm(rng.normal(size=(200, 3)), shift=50.0)
    found = LocalSearch()(form)
    assert found.n_clusters == 200  # every cluster brings 50
    assert form.at(found) == pytest.approx(np.sum(form.factors**2) + 200 * 50.0)


def test_labels_shuffled_or_not_and_k_means_rounding() -> None:
    rng = np.random.default_rng(3)
    Z = np.repeat([[0.0, 0.0], [5.0, 1.0], [1.0, 6.0]], 30, axis=0) + rng.normal(size=(90, 2))
    order = rng.permutation(90)
    for rounding in (RowKMeans(), LocalSearch().rounding):
        search = LocalSearch(rounding=rounding)
        first = search(LowRankForm(Z - Z.mean(axis=0)), 3)
        second = search(LowRankForm((Z - Z.mean(axis=0))[order]), 3)
        assert Partition.from_labels(first.labels[order]) == second
