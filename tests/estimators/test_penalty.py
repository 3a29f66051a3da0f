import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

import metriclearn as ml
from metriclearn.estimators.penalties.interval_regression import (
    IntervalRegression,
    moved_penalty,
    path_errors,
    target_interval,
)
from metriclearn.estimators.penalties.penalty_learner import BayesianCriterion
from metriclearn.views.hermite import SlidingMoments

CONSTANT = ml.views.SequenceFeatures(())


def objective(
    regression: IntervalRegression, columns: np.ndarray, y: np.ndarray, v: np.ndarray
) -> float:
    """The formula of the docstring, v = (weights of the standardized columns, b)."""
    z = columns @ v[:-1] + v[-1]
    hinge = np.maximum(0, regression.margin - (z - y[:, 0])) ** 2
    hinge += np.maximum(0, regression.margin - (y[:, 1] - z)) ** 2
    r = regression.l1_ratio
    penalty = r * np.abs(v[:-1]).sum() + (1 - r) / 2 * np.sum(v[:-1] ** 2)
    return float(hinge.mean() + regression.strength * penalty)


def problem(seed: int = 0, n: int = 60) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4)) * [1, 10, 0.1, 1] + 3
    center = 2 * X[:, 0] - 0.1 * X[:, 1] + rng.normal(0, 0.5, n)
    y = np.column_stack([center - rng.uniform(0, 3, n), center + rng.uniform(0, 3, n)])
    y[::3, 0], y[1::4, 1] = -np.inf, np.inf
    return X, y


@pytest.mark.parametrize(
    ("strength", "l1_ratio", "products"),
    [(0.0, 0.0, 0.0), (0.1, 0.0, 0.0), (0.3, 0.5, 0.0), (0.5, 1.0, 0.0), (0.05, 0.0, 0.5)],
)
def test_nothing_nearby_is_better(strength: float, l1_ratio: float, products: float) -> None:
    """Products are more columns of the same problem."""
    X, y = problem()
    regression = IntervalRegression(strength, l1_ratio, products=products).fit(X, y)
    scale, (i, j) = X.std(axis=0), np.triu_indices(4)
    Z = (X - X.mean(axis=0)) / scale
    C = regression.product_coef_ * np.outer(scale, scale)
    np.testing.assert_array_equal(C, C.T)
    slopes = (2.0 - np.eye(4))[i, j] * C[i, j] / (products or 1.0)
    assert slopes.any() == (products > 0)
    columns = np.hstack([Z, products * Z[:, i] * Z[:, j]])
    v = np.concatenate([regression.coef_ * scale, slopes, [0.0]])
    v[-1] = regression.predict(X[:1])[0] - columns[0] @ v[:-1]
    value = objective(regression, columns, y, v)
    assert value == pytest.approx(regression.objective_, rel=1e-9)
    rng = np.random.default_rng(1)
    for size in (1e-1, 1e-2, 1e-3):  # convex: no better point nearby is no better point at all
        for step in rng.normal(size=(100, len(v))) * size:
            assert objective(regression, columns, y, v + step) >= value - 1e-10


def test_a_fitted_curvature_is_kept_and_never_gives_nan() -> None:
    X, y = problem(3)
    curved = IntervalRegression(products=0.5).fit(X, y)
    expected = curved.predict(X)
    np.testing.assert_array_equal(curved.set_params(products=0.0).predict(X), expected)
    with pytest.raises(ValueError, match=r"whose products are finite, got up to \d.*e\+16"):
        curved.predict(1e160 * X)


@pytest.mark.parametrize(
    "regression", [IntervalRegression(0.5, 1.0), IntervalRegression(0.05, products=0.5)]
)
def test_units_do_not_matter(regression: IntervalRegression) -> None:
    X, y = problem(3)
    expected = clone(regression).fit(X, y).predict(X)
    other = regression.fit(1000 * X - 7, y)
    np.testing.assert_allclose(other.predict(1000 * X - 7), expected, atol=1e-5)


def test_constant_and_constant_columns() -> None:
    y = np.array([[0.0, 4.0], [1.0, np.inf], [-np.inf, 3.0]])
    constant = IntervalRegression(margin=1.0).fit(np.zeros((3, 0)), y)
    assert 2 - 1e-6 <= constant.intercept_ <= 2 + 1e-6
    same = IntervalRegression().fit(np.full((3, 1), 5.0), y)
    assert same.coef_.tolist() == [0.0]
    assert same.score(np.full((3, 1), 5.0), y) == 1.0


def test_weights_count_copies() -> None:
    X, y = problem(2, 12)
    weights = np.array([1, 2, 3] * 4)
    repeated = IntervalRegression(0.0).fit(np.repeat(X, weights, axis=0), np.repeat(y, weights, 0))
    weighted = IntervalRegression(0.0).fit(X, y, weights)
    assert weighted.objective_ == pytest.approx(repeated.objective_, rel=1e-6)


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 10_000), st.integers(1, 4))
def test_target_interval_by_trying_penalties(seed: int, n_regions: int) -> None:
    rng = np.random.default_rng(seed)
    T = int(rng.integers(12, 40))
    X = np.cumsum(rng.normal(size=(T, 1)) * (rng.uniform(size=(T, 1)) < 0.2), axis=0)
    X += rng.normal(0, 0.1, X.shape)
    cuts = np.unique(rng.choice(np.arange(1, T), n_regions + 1, replace=False))
    kinds = rng.choice(
        [ml.problem.NO_CHANGE, ml.problem.EXACTLY_ONE, ml.problem.AT_LEAST_ONE], len(cuts) - 1
    )
    spans = [(int(a), int(b) + 1, k) for a, b, k in zip(cuts, cuts[1:], kinds)]
    known = ml.PartialPartition(T, regions=spans)
    path = ml.oracles.segmentation_path(X, (0.0, np.inf))
    errors = path_errors(path, known)
    low, high = target_interval(path, errors)
    tried = np.exp(np.linspace(-12, 12, 300))
    results = [sum(known.label_errors(ml.Partition(ends=path.at(penalty)))) for penalty in tried]
    least = errors.min()
    assert min(results) >= least
    for penalty, wrong in zip(tried, results):
        if low + 1e-9 < np.log(penalty) < high - 1e-9:
            assert wrong == least
    for (cheap, dear), wrong in zip(path.penalties, errors):
        if wrong == least and cheap > 0:
            assert np.log(dear) - np.log(cheap) <= high - low + 1e-9


def sequences(n: int = 12, seed: int = 0) -> tuple[list, list]:
    """Steps under noise whose level differs by sequence, so that one penalty cannot do."""
    rng = np.random.default_rng(seed)
    X, known = [], []
    for i in range(n):
        scale = 10.0 ** rng.uniform(-2, 2)
        signal = np.repeat([0.0, 6, 2, 8], 15) + rng.normal(size=60)
        X.append(scale * signal[:, None])
        regions = [
            (0, 12, ml.problem.NO_CHANGE),
            (12, 18, ml.problem.EXACTLY_ONE),
            (18, 27, ml.problem.NO_CHANGE),
        ]
        known.append(ml.PartialPartition(60, regions=regions[i % 2 :]))
    return X, known


def test_known_regions_hold_and_move_the_penalty() -> None:
    X, known = sequences()
    learner = ml.PenaltyLearner(sequence_features=CONSTANT).fit(X, known)
    results = learner.predict_change_points(X, known)
    assert all(fact.allows(ml.Partition(ends=ends)) for fact, ends in zip(known, results))
    moving = clone(learner).set_params(own_weight=1e6).fit(X, known)
    moved = moving.predict_change_points(X, known)
    wrong = [sum(abs(len(ends) - 4) for ends in some) for some in (results, moved)]
    assert wrong[1] < 0.5 * wrong[0]  # nothing is known of the two changes on the right
    # margins compare segmentations that agree with what is known, at the penalty of each
    margins = moving.boundary_margins(X, known, tolerance=1)
    for found, ends, fact in zip(margins, moved, known):
        assert np.array_equal(found.change_points, ends)
        inside = [region for region in fact.regions if region.kind is ml.problem.NO_CHANGE]
        for region in inside:
            assert np.all(found.gains[region.start + 1 : region.stop] == -np.inf)
        one = [region for region in fact.regions if region.kind is ml.problem.EXACTLY_ONE]
        assert len(found.losses) == len(ends) - 1
        assert all(found.gains[r.start + 1 : r.stop].max() == 0.0 for r in one)


def test_moved_penalty_is_the_minimizer() -> None:
    grid = np.linspace(-30, 30, 60_001)
    rng = np.random.default_rng(0)
    for _ in range(25):
        z, low, width, margin, weight = rng.uniform([-9, -5, 0, 0, 0], [9, 5, 4, 3, 20])
        for a, b in ((low, low + width), (-np.inf, low), (low, np.inf), (-np.inf, np.inf)):
            cost = np.maximum(0, margin - (grid - a)) ** 2 + np.maximum(0, margin - (b - grid)) ** 2
            best = grid[np.argmin((grid - z) ** 2 + weight * cost)]
            assert moved_penalty(z, (a, b), margin, weight) == pytest.approx(best, abs=2e-3)


def test_counts_are_those_of_the_path() -> None:
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(T, 2)) + 3 * np.repeat([0, 1, 0, 2], T // 4)[:, None] for T in (40, 80)]
    shape, logs = SlidingMoments(3, scale="noise"), (-1.0, 0.5, 2.0, 4.0, 9.0)
    rows = ml.estimators.SegmentCounts(logs, shape, min_size=3).fit_transform(X)
    for row, x in zip(rows, X):
        path = ml.oracles.segmentation_path(shape.fit_transform(x), (0.1, 1e5), min_size=3)
        expected = [len(path.at(np.exp(log))) for log in logs]
        np.testing.assert_allclose(np.exp(row), expected)
    assert len(set(rows[0])) >= 4
    assert list(ml.estimators.SegmentCounts((0.5, 2)).get_feature_names_out()) == [
        "segments0.5",
        "segments2",
    ]


def test_paths_known_from_before_change_nothing() -> None:
    X, known = sequences()
    learner = ml.PenaltyLearner().fit(X, known)
    again = clone(learner).fit(X, known, learner.paths(X))
    np.testing.assert_array_equal(again.intervals_, learner.intervals_)
    np.testing.assert_allclose(again.predict_penalties(X), learner.predict_penalties(X))


def test_recordings_that_bound_the_penalty_on_one_side_count() -> None:
    X, known = sequences()
    known[:6] = [ml.PartialPartition(60, regions=[(18, 27, ml.problem.NO_CHANGE)])] * 6
    learner = ml.PenaltyLearner().fit(X, known)
    ends = np.isfinite(learner.intervals_)
    some, rows = ends.any(axis=1), learner.sequence_features_.transform(X)
    assert some.sum() > ends.all(axis=1).sum()
    expected = clone(learner.regression).fit(rows[some], learner.intervals_[some]).predict(rows)
    np.testing.assert_allclose(np.log(learner.predict_penalties(X)), expected)


def test_bayesian_criterion() -> None:
    rng = np.random.default_rng(0)
    X = np.repeat([0.0, 1.0, 0.2], 400)[:, None] + rng.normal(0, 0.1, (1200, 1))
    criterion = BayesianCriterion().fit([X])
    assert criterion.predict_penalties([X])[0] == pytest.approx(2 * 0.01 * np.log(1200), rel=0.1)
    assert len(criterion.predict_change_points(X)) == 3
    both = criterion.fit([np.hstack([X, X])]).predict_penalties([np.hstack([X, X])])[0]
    assert both == pytest.approx(4 * 0.01 * np.log(1200), rel=0.1)
    # a constant column or whole numbers change nothing, and a loud column hides the changes
    loud = 9.0 * rng.normal(size=X.shape)
    for other, n_segments in ((np.zeros_like(X), 3), (np.round(X), 3), (loud, 1)):
        beside = np.hstack([X, other])
        assert len(criterion.fit([beside]).predict_change_points(beside)) == n_segments
    for alone in (np.round(4.0 * X), np.repeat(X[::400], 400, axis=0)):
        assert criterion.fit([alone]).predict_change_points(alone).tolist() == [400, 800, 1200]
