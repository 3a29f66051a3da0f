"""Weights by least squares in the space of partitions, and held-out rows of shared views."""

from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.tree import DecisionTreeClassifier

import metriclearn as ml
from metriclearn import views
from metriclearn.datasets import make_change_points
from metriclearn.estimators.reading.data_sets import DataSets
from metriclearn.estimators.reading.given import Given
from metriclearn.estimators.selection.parts import Parts, PartViews
from metriclearn.estimators.selection.stacking import (
    answers_alike,
    inner_products,
    name_products,
    pull,
    stacked_weights,
)
from metriclearn.problem.named_segments import NamedPartition

DATA = make_change_points(6, n_features=3, n_relevant=2, random_state=0)
TREE = DecisionTreeClassifier(random_state=0)
METRICS = {
    "diagonal": [ml.ChangePointMetricLearner(ml.DiagonalMetric(), ml.L1(1e-2))],
    "whitened": [ml.WhitenedMetricLearner()],
}


def segmentation(T: int, rng: Any) -> ml.Partition:
    inner = np.flatnonzero(rng.random(T - 1) < rng.uniform(0.05, 0.5)) + 1
    return ml.Partition(ends=np.append(inner, T))


def problem(rng: Any, m: int, T: int = 12, n: int = 3) -> tuple[NDArray, NDArray]:
    rows = []
    for _ in range(n):
        answers = [segmentation(T, rng) for _ in range(m)]
        rows.append(inner_products(answers, segmentation(T, rng)))
    return np.sum([G for G, _ in rows], axis=0), np.sum([b for _, b in rows], axis=0)


def test_weights_are_those_of_cvxpy() -> None:
    for seed in range(200):
        rng = np.random.default_rng(seed)
        m = int(rng.integers(1, 12))
        G, b = problem(rng, m)
        rho = float(rng.choice([0.1, 1.0]))
        q = cp.Variable(m)
        ridge = rho * np.trace(G) / m
        root = np.linalg.cholesky(G + ridge * np.eye(m))
        loss = cp.sum_squares(root.T @ q) - 2 * (b + ridge / m) @ q
        exact = cp.Problem(cp.Minimize(loss), [q >= 0, cp.sum(q) == 1])
        exact.solve(cp.CLARABEL, tol_gap_abs=1e-12, tol_gap_rel=1e-12, tol_feas=1e-12)
        found = stacked_weights(G, b, rho)
        np.testing.assert_allclose(found, q.value, atol=1e-6, err_msg=f"seed {seed}")


def test_products_are_those_of_the_matrices() -> None:
    rng = np.random.default_rng(0)
    answers, truth = [segmentation(15, rng) for _ in range(5)], segmentation(15, rng)
    known = np.array([0] * 4 + [-1] * 3 + [0] * 3 + [3] * 5)
    partial = ml.PartialPartition(15, labels=known)
    codes = np.array([0, 1, -1] * 5)
    for labels, rows in ((truth, [np.arange(15)]), (partial, [np.arange(4), np.arange(7, 15)])):
        G, b = inner_products(answers, labels)
        dense = [
            [ml.Partition.from_runs(one.labels[r]).to_array() for r in rows] for one in answers
        ]
        right = truth.labels if labels is truth else known
        N = [ml.Partition.from_runs(right[r]).to_array() for r in rows]
        expected = [[sum((a * c).sum() for a, c in zip(A, C)) for C in dense] for A in dense]
        np.testing.assert_allclose(G, expected)
        np.testing.assert_allclose(b, [sum((a * c).sum() for a, c in zip(A, N)) for A in dense])
    G, b = inner_products(answers, codes)
    seen = np.flatnonzero(codes >= 0)
    A, B = (ml.Partition.from_labels(one.labels[seen]).to_array() for one in answers[:2])
    assert G[0, 1] == pytest.approx((A * B).sum())
    right = ml.Partition.from_labels(codes[seen]).to_array()
    assert b[1] == pytest.approx((B * right).sum())


def test_products_of_names_are_shares_of_equal_names() -> None:
    one, other = NamedPartition([2, 4], [0, 1]), NamedPartition([3, 4], [0, 1])
    G, b = name_products([one, other, ml.Partition(ends=np.array([4]))], np.array([0, 0, -1, 1]))
    np.testing.assert_allclose(G, [[1, 1, 0], [1, 1, 0], [0, 0, 0]])
    np.testing.assert_allclose(b, [1, 1, 0])


def test_a_region_that_needs_a_change_counts_who_has_one() -> None:
    region = ml.PartialPartition(10, regions=[ml.Region(2, 8, ml.problem.AT_LEAST_ONE)])
    ends = ([5, 10], [10], [2, 10], [3, 4, 10])
    G, b = inner_products([ml.Partition(ends=np.array(one)) for one in ends], region)
    assert b.tolist() == [1, 0, 0, 1]
    assert np.diag(G).tolist() == [1, 0, 0, 1]


def test_a_member_given_twice_shares_its_weight_and_changes_no_answer() -> None:
    rng = np.random.default_rng(1)
    G, b = problem(rng, 4, n=8)
    twice = [0, 1, 2, 3, 1]
    first = stacked_weights(G, b, 0.1)
    both = stacked_weights(G[np.ix_(twice, twice)], b[twice], 0.1, np.array(twice))
    expected = first[twice] / [1, 2, 1, 1, 2]
    np.testing.assert_allclose(both, expected, atol=1e-9)
    answers = [{0: segmentation(9, rng), 1: segmentation(7, rng)} for _ in range(3)]
    assert answers_alike([*answers, answers[1]]).tolist() == [0, 1, 2, 1]
    more = {**METRICS, "again": METRICS["whitened"]}
    found = [
        ml.Segmenter(one, n_folds=3).fit(DATA.sequences, DATA.labels) for one in (METRICS, more)
    ]
    for X in DATA.sequences:
        ends = [segmenter.predict_change_points(X).tolist() for segmenter in found]
        assert ends[0] == ends[1]
    weights = [one.agreement_.weights.sum() for one in found]
    np.testing.assert_allclose(weights, 1.0)


def test_few_segments_pull_weights_together_without_a_jump() -> None:
    assert [pull(n) for n in (0, 30, 40, 1000)] == [np.inf, 20 / 30, 0.5, 0.1]
    pulls = [pull(n) for n in range(1, 300)]
    assert sorted(pulls, reverse=True) == pulls
    assert pull(29) == pytest.approx(pull(30), rel=0.12)
    for rho in (np.inf, pull(3)):
        weights = stacked_weights(np.eye(3), np.arange(3.0) / 3, rho)
        np.testing.assert_allclose(weights, 1 / 3, atol=2e-3)


@pytest.mark.parametrize(
    "view",
    [
        views.Posteriors(TREE, 0, 1),
        views.Chain([views.Windows(sides=True), views.Posteriors(TREE, 0, 1)]),
        views.Chain([views.OwnScale(), views.ExpectedBoundaries(TREE, 1, None)]),
    ],
    ids=["posteriors", "of windows", "boundaries"],
)
@pytest.mark.parametrize("groups", [[0, 1, 2, 3, 4, 5], [0, 0, 1, 1, 2, 2], [0, 0, 0, 0, 0, 1]])
def test_rows_that_are_held_out_do_not_know_their_labels(view: Any, groups: list[int]) -> None:
    """Not even if the labels of its group are shuffled; others change."""
    rng, parts = np.random.default_rng(0), Parts.of(np.array(groups), 3)
    codes = [np.asarray(one) % 3 for one in DATA.labels]

    def rows(labels: list[NDArray]) -> PartViews:
        truths = list(map(ml.Partition.from_runs, labels))
        data = DataSets(DATA.sequences, False, None)
        given = Given(data, labels, truths, parts.groups, None, labels, np.arange(3))
        return PartViews(view, parts, given)

    before = rows(codes)
    for k, places in enumerate(parts):
        for i, seen in zip(places.tolist(), before.training(k)):
            np.testing.assert_array_equal(*before.seen(k, i).values(), seen)
    for g in set(groups):
        here = [i for i, group in enumerate(groups) if group == g]
        shuffled = [rng.permutation(one) if i in here else one for i, one in enumerate(codes)]
        after, changed = rows(shuffled), False
        for k, places in enumerate(parts.left_out):
            for i, old, new in zip(places, before.left_out(k), after.left_out(k)):
                if i in here:
                    np.testing.assert_array_equal(old, new)
                changed = changed or not np.array_equal(old, new)
            train = zip(list(parts)[k], before.training(k), after.training(k))
            assert all(np.array_equal(old, new) for i, old, new in train if i in here)
        assert changed or len(set(groups)) == 1
