"""ChangePointMetricLearner: what it learns, what leaves it unchanged, what it refuses."""

from __future__ import annotations

import logging

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from metriclearn import (
    L1,
    BundleDual,
    ChangePointMetricLearner,
    ChangePoints,
    DiagonalMetric,
    FrobeniusLoss,
    FullMetric,
    LowRankForm,
    Partition,
    ProjectedSubgradient,
    SquaredFrobenius,
    Trace,
)
from metriclearn.datasets import make_change_points

PAIRS = [
    (DiagonalMetric(), SquaredFrobenius(0.1)),
    (DiagonalMetric(), L1(1e-2)),
    (DiagonalMetric(), Trace(1e-2)),
    (FullMetric(), SquaredFrobenius(0.1)),
    (FullMetric(), Trace(1e-2)),
]
NAMES = [f"{type(m).__name__}-{type(r).__name__}" for m, r in PAIRS]


def sequences(seed: int = 0, n: int = 5, noise: float = 1.0, jump: float = 1.5):
    """Five sequences of 120 samples; 2 of 6 features change at the labeled change-points."""
    data = make_change_points(n, 120, 6, 2, (3, 5), noise=noise, jump=jump, random_state=seed)
    return data.sequences, data.labels


XS, YS = sequences()


def learn(X=XS, y=YS, sample_weight=None, **parameters) -> ChangePointMetricLearner:
    defaults = {"solver": BundleDual(tolerance=1e-7), "regularizer": SquaredFrobenius(0.1)}
    return ChangePointMetricLearner(**{**defaults, **parameters}).fit(X, y, sample_weight)


def assert_same(mine, theirs, change=lambda B: B, rtol: float = 1e-3) -> None:
    """Equal up to the tolerance of the solver, in the metric and the penalty."""
    A, B = mine.get_mahalanobis_matrix(), change(theirs.get_mahalanobis_matrix())
    np.testing.assert_allclose(A, B, atol=rtol * np.abs(A).max())
    objective = theirs.solution_.objective
    assert mine.solution_.objective == pytest.approx(objective, abs=2e-7 * mine.solution_.scale)
    if mine.penalty_ is not None:
        assert mine.penalty_ == pytest.approx(theirs.penalty_, rel=rtol)


@pytest.mark.parametrize("n_segments", [None, "given"])
@pytest.mark.parametrize(("metric", "regularizer"), PAIRS, ids=NAMES)
def test_learns_the_relevant_features_and_segments_new_sequences(
    metric, regularizer, n_segments
) -> None:
    X, y = sequences(1, n=8, noise=0.7, jump=2.0)
    learner = ChangePointMetricLearner(metric, regularizer, n_segments=n_segments).fit(X, y)
    assert learner.solution_.converged
    weights = np.diag(learner.get_mahalanobis_matrix()) * learner.scale_**2
    assert set(np.argsort(weights)[-2:]) == {0, 1}
    X_new, y_new = sequences(2, n=8, noise=0.7, jump=2.0)
    untrained = ChangePoints()
    euclidean = [
        FrobeniusLoss()(untrained(LowRankForm(x / x.std(axis=0)), N.n_clusters), N)
        for x, N in ((x, Partition.from_labels(labels)) for x, labels in zip(X_new, y_new))
    ]
    assert learner.score(X_new, y_new) > -0.75 * np.mean(euclidean)
    assert learner.score(X, y) > -0.02


def test_default_learner_on_the_example_of_its_docstring() -> None:
    data = make_change_points(n_features=30, n_relevant=3, random_state=0)
    learner = ChangePointMetricLearner().fit(data.sequences, data.labels)
    assert learner.solution_.converged
    weights = np.diag(learner.get_mahalanobis_matrix())
    assert set(np.argsort(weights)[-3:]) == set(data.relevant)


def test_fitted_attributes_fit_together() -> None:
    learner = learn(metric=FullMetric())
    B, L = learner.get_mahalanobis_matrix(), learner.components_.T
    np.testing.assert_allclose(B, L @ L.T)
    assert np.linalg.eigvalsh(B).min() >= -1e-12
    assert learner.n_features_in_ == 6
    pooled = np.sqrt(np.mean(np.concatenate([(X - X.mean(axis=0)) ** 2 for X in XS]), axis=0))
    np.testing.assert_allclose(learner.scale_, pooled)
    w = learner.solution_.w
    np.testing.assert_allclose(
        FullMetric().matrix(w[:-1]) / np.outer(pooled, pooled), B, atol=1e-12
    )
    assert learner.penalty_ == w[-1]
    np.testing.assert_array_equal(learn(standardize=False).scale_, np.ones(6))


def test_transform_distances_and_matrix_agree() -> None:
    rng = np.random.default_rng(0)
    for metric in (DiagonalMetric(), FullMetric()):
        learner = learn(metric=metric)
        pairs = rng.normal(size=(20, 2, 6))
        difference = pairs[:, 0] - pairs[:, 1]
        B = learner.get_mahalanobis_matrix()
        expected = np.sqrt(np.einsum("np,pq,nq->n", difference, B, difference))
        np.testing.assert_allclose(learner.pair_distance(pairs), expected, rtol=1e-10)
        moved = learner.transform(pairs[:, 0]) - learner.transform(pairs[:, 1])
        np.testing.assert_allclose(np.linalg.norm(moved, axis=1), expected, rtol=1e-9)
        several = learner.transform(XS)
        assert isinstance(several, list)
        np.testing.assert_array_equal(several[1], learner.transform(XS[1]))


def test_predictions_are_exact_segmentations_under_the_learned_metric() -> None:
    learner = learn(min_size=2)
    for X, ends, labels in zip(XS, learner.predict_change_points(XS), learner.predict(XS)):
        form = LowRankForm(learner.transform(X), shift=-learner.penalty_)
        np.testing.assert_array_equal(ends, ChangePoints(2)(form).change_points)
        np.testing.assert_array_equal(labels, Partition.from_change_points(ends).labels)
    for K in (1, 4, 60):
        form = LowRankForm(learner.transform(XS[0]))
        ends = learner.predict_change_points(XS[0], n_segments=K)
        np.testing.assert_array_equal(ends, ChangePoints(2)(form, K).change_points)
    counts = [3, 1, 2, 7, 5]
    assert [len(e) for e in learner.predict_change_points(XS, n_segments=counts)] == counts
    assert [labels.max() + 1 for labels in learner.predict(XS, n_segments=counts)] == counts


def test_score_is_minus_the_mean_loss() -> None:
    learner = learn()
    losses = [
        FrobeniusLoss()(Partition.from_change_points(ends), Partition.from_runs(y))
        for ends, y in zip(learner.predict_change_points(XS), YS)
    ]
    assert learner.score(XS, YS) == pytest.approx(-np.mean(losses))
    weights = [1.0, 0.0, 2.0, 0.0, 0.5]
    expected = -np.average(losses, weights=weights)
    assert learner.score(XS, YS, sample_weight=weights) == pytest.approx(expected)
    assert learner.score(XS[0], YS[0]) == pytest.approx(-losses[0])
    assert learner.score(XS, learner.predict(XS)) == 0.0


@pytest.mark.parametrize(
    "rule",
    [
        {"penalty": 0.4, "loss_scale": 0.5},
        {"penalty": 0.0},
        {"penalty": np.float32(2.0)},
        {"penalty": 1},
    ],
)
def test_fixed_penalty_is_kept(rule) -> None:
    learner = learn(**rule)
    assert learner.penalty_ == rule["penalty"]
    assert isinstance(learner.penalty_, float)
    assert len(learner.solution_.w) == 6


def test_given_numbers_of_segments() -> None:
    learner = learn(n_segments="given")
    assert learner.penalty_ is None
    counts = [len(set(y)) for y in YS]
    found = learner.predict_change_points(XS, n_segments=counts)
    losses = [
        FrobeniusLoss()(Partition.from_change_points(ends), Partition.from_runs(y))
        for ends, y in zip(found, YS)
    ]
    assert learner.score(XS, YS) == pytest.approx(-np.mean(losses))
    with pytest.raises(ValueError, match="fitted with n_segments='given' and has no penalty; pass"):
        learner.predict(XS)


def test_paper_is_a_named_preset() -> None:
    learner = ChangePointMetricLearner.paper(regularizer=SquaredFrobenius(0.1), n_jobs=1)
    assert (learner.penalty, learner.loss_scale, learner.n_jobs) == (1.0, 1.0, 1)
    assert ChangePointMetricLearner.paper(penalty=2.0).penalty == 2.0
    learner.fit(XS, YS)
    same = ChangePointMetricLearner(
        regularizer=SquaredFrobenius(0.1), penalty=1.0, loss_scale=1.0
    ).fit(XS, YS)
    np.testing.assert_array_equal(learner.components_, same.components_)
    assert learner.penalty_ == 1.0


def test_the_papers_setting_finds_too_few_segments_with_noise() -> None:
    """MATH section 2: with λ = α = 1 the certified optimum shrinks B; a learned λ does not."""
    data = make_change_points(8, 200, 30, 3, (5, 8), random_state=0)
    new = make_change_points(8, 200, 30, 3, (5, 8), random_state=1)
    regularizer = SquaredFrobenius(0.1)
    paper = ChangePointMetricLearner.paper(regularizer=regularizer)
    learned = ChangePointMetricLearner(regularizer=regularizer)
    paper.fit(data.sequences, data.labels)
    learned.fit(data.sequences, data.labels)
    assert paper.solution_.converged
    found = [len(ends) for ends in paper.predict_change_points(new.sequences)]
    truth = [labels.max() + 1 for labels in new.labels]
    assert np.mean(found) < 0.7 * np.mean(truth)
    assert learned.score(new.sequences, new.labels) > 0.7 * paper.score(new.sequences, new.labels)


# What must not change the result


@pytest.mark.parametrize(("metric", "regularizer"), PAIRS[::3], ids=NAMES[::3])
class TestInvariance:
    def test_names_of_labels(self, metric, regularizer) -> None:
        renamed = [[f"state {9 - label}" for label in y] for y in YS]
        mine = learn(metric=metric, regularizer=regularizer)
        theirs = learn(y=renamed, metric=metric, regularizer=regularizer)
        np.testing.assert_array_equal(mine.components_, theirs.components_)
        assert mine.penalty_ == theirs.penalty_

    def test_labels_as_partitions(self, metric, regularizer) -> None:
        partitions = [Partition.from_runs(y) for y in YS]
        mine = learn(metric=metric, regularizer=regularizer)
        theirs = learn(y=partitions, metric=metric, regularizer=regularizer)
        np.testing.assert_array_equal(mine.components_, theirs.components_)

    def test_shift_of_every_sequence(self, metric, regularizer) -> None:
        rounded = [np.round(X * 2**12) / 2**12 for X in XS]
        shifted = [X + np.arange(6) * 1e6 * (i + 1) for i, X in enumerate(rounded)]
        mine = learn(rounded, metric=metric, regularizer=regularizer)
        theirs = learn(shifted, metric=metric, regularizer=regularizer)
        assert_same(mine, theirs)
        for X, Z in zip(rounded, shifted):
            np.testing.assert_array_equal(
                mine.predict_change_points(X), mine.predict_change_points(Z)
            )

    def test_units_of_features(self, metric, regularizer) -> None:
        c = np.array([1e-3, 1.0, 1e3, 10.0, 0.1, 7.0])
        mine = learn(metric=metric, regularizer=regularizer)
        theirs = learn([X * c for X in XS], metric=metric, regularizer=regularizer)
        assert_same(mine, theirs, lambda B: B * np.outer(c, c))
        np.testing.assert_array_equal(mine.predict(XS[0]), theirs.predict(XS[0] * c))

    def test_order_of_sequences(self, metric, regularizer) -> None:
        assert_same(
            learn(metric=metric, regularizer=regularizer),
            learn(XS[::-1], YS[::-1], metric=metric, regularizer=regularizer),
        )

    def test_order_of_features(self, metric, regularizer) -> None:
        order = [3, 1, 5, 0, 2, 4]
        theirs = learn([X[:, order] for X in XS], metric=metric, regularizer=regularizer)
        mine = learn(metric=metric, regularizer=regularizer)
        assert_same(mine, theirs, lambda B: B[np.ix_(np.argsort(order), np.argsort(order))])

    def test_direction_of_time(self, metric, regularizer) -> None:
        assert_same(
            learn(metric=metric, regularizer=regularizer),
            learn(
                [X[::-1] for X in XS], [y[::-1] for y in YS], metric=metric, regularizer=regularizer
            ),
        )

    def test_every_sequence_twice(self, metric, regularizer) -> None:
        assert_same(
            learn(metric=metric, regularizer=regularizer),
            learn(XS + XS, YS + YS, metric=metric, regularizer=regularizer),
        )

    def test_scale_of_the_weights(self, metric, regularizer) -> None:
        weights = np.array([1.0, 2.0, 3.0, 1.0, 0.5])
        mine = learn(sample_weight=weights, metric=metric, regularizer=regularizer)
        theirs = learn(sample_weight=40.0 * weights, metric=metric, regularizer=regularizer)
        assert_same(mine, theirs)
        different = learn(metric=metric, regularizer=regularizer)
        assert different.penalty_ != pytest.approx(mine.penalty_, rel=1e-4)

    def test_number_of_threads(self, metric, regularizer) -> None:
        mine = learn(metric=metric, regularizer=regularizer, n_jobs=1)
        theirs = learn(metric=metric, regularizer=regularizer, n_jobs=2)
        np.testing.assert_array_equal(mine.components_, theirs.components_)
        assert mine.penalty_ == theirs.penalty_

    def test_earlier_fits(self, metric, regularizer) -> None:
        learner = ChangePointMetricLearner(metric, regularizer)
        other = sequences(9, n=2)
        learner.fit([X[:, :4] for X in other[0]], other[1]).fit(XS, YS)
        fresh = ChangePointMetricLearner(metric, regularizer).fit(XS, YS)
        np.testing.assert_array_equal(learner.components_, fresh.components_)
        assert learner.solution_.trace.objective == fresh.solution_.trace.objective

    def test_types_and_layouts(self, metric, regularizer) -> None:
        rounded = [np.round(X * 64) / 64 for X in XS]
        mine = learn(rounded, metric=metric, regularizer=regularizer)
        for change in (
            lambda X: X.astype(np.float32),
            np.asfortranarray,
            lambda X: np.repeat(X, 2, axis=0)[::2],
            lambda X: X.tolist(),
        ):
            theirs = learn([change(X) for X in rounded], metric=metric, regularizer=regularizer)
            assert_same(mine, theirs)


@pytest.mark.parametrize("standardize", [True, False])
def test_weight_zero_is_dropping_the_sequence(standardize) -> None:
    kept = [0, 1, 3, 4]
    mine = learn(sample_weight=[2, 1, 0, 1, 1], standardize=standardize)
    theirs = learn(
        [XS[i] for i in kept],
        [YS[i] for i in kept],
        sample_weight=[2, 1, 1, 1],
        standardize=standardize,
    )
    assert_same(mine, theirs)


@pytest.mark.parametrize("standardize", [True, False])
def test_weight_two_is_having_the_sequence_twice(standardize) -> None:
    mine = learn(sample_weight=[1, 2, 1, 1, 1], standardize=standardize)
    theirs = learn([*XS, XS[1]], [*YS, YS[1]], standardize=standardize)
    assert_same(mine, theirs)


def test_rotation_of_the_features_of_a_full_metric() -> None:
    Q = np.linalg.qr(np.random.default_rng(0).normal(size=(6, 6)))[0]
    mine = learn(metric=FullMetric(), standardize=False)
    theirs = learn([X @ Q for X in XS], metric=FullMetric(), standardize=False)
    assert_same(mine, theirs, lambda B: Q @ B @ Q.T)


def test_loss_scale_rescales_the_solution() -> None:
    """α times the hinge of (B/α, λ/α): strength α·μ at scale α gives α·B and α·λ."""
    mine = learn(regularizer=L1(1e-2), loss_scale=1.0)
    theirs = learn(regularizer=L1(1e-2), loss_scale=4.0)
    np.testing.assert_allclose(
        4.0 * mine.get_mahalanobis_matrix(), theirs.get_mahalanobis_matrix(), atol=1e-4
    )
    assert theirs.penalty_ == pytest.approx(4.0 * mine.penalty_, rel=1e-3)


# Solvers, progress and interruption


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_subgradient_solver_comes_close() -> None:
    exact = learn()
    approximate = ChangePointMetricLearner(
        regularizer=SquaredFrobenius(0.1),
        solver=ProjectedSubgradient(max_rounds=150, tolerance=0.3),
    ).fit(XS, YS)
    assert approximate.solution_.objective >= exact.solution_.lower_bound
    assert approximate.solution_.objective <= 1.2 * exact.solution_.objective


@pytest.mark.parametrize("solver", [BundleDual(max_rounds=2), ProjectedSubgradient(max_rounds=2)])
def test_warning_when_the_gap_was_not_reached(solver) -> None:
    with pytest.warns(ConvergenceWarning, match=r"stopped \(max_rounds\) at a relative gap of"):
        learner = ChangePointMetricLearner(solver=solver).fit(XS, YS)
    assert not learner.solution_.converged
    assert len(learner.solution_.trace) == 2
    assert len(learner.predict_change_points(XS)) == 5


@pytest.mark.parametrize("solver", [BundleDual(), ProjectedSubgradient()])
def test_interruption_keeps_the_best_metric(solver, monkeypatch) -> None:
    calls, real = [], ChangePoints.__call__

    def interrupted(self, form, n_clusters=None):
        calls.append(1)
        if len(calls) > 23:
            raise KeyboardInterrupt
        return real(self, form, n_clusters)

    monkeypatch.setattr(ChangePoints, "__call__", interrupted)
    with pytest.warns(ConvergenceWarning, match=r"stopped \(interrupted\)"):
        learner = ChangePointMetricLearner(solver=solver).fit(XS, YS)
    monkeypatch.undo()
    assert learner.solution_.reason == "interrupted"
    assert learner.solution_.objective <= learner.solution_.scale
    assert len(learner.predict(XS)) == 5


def test_checkpoint_of_a_learner(tmp_path) -> None:
    path = str(tmp_path / "fit.npz")
    with pytest.warns(ConvergenceWarning):
        learn(solver=BundleDual(tolerance=1e-7, max_rounds=4, checkpoint=path))
    resumed = learn(solver=BundleDual(tolerance=1e-7, checkpoint=path))
    whole = learn()
    np.testing.assert_allclose(resumed.components_, whole.components_, rtol=1e-10)
    with pytest.raises(ValueError, match="needs a checkpoint of this problem"):
        learn(*sequences(5), solver=BundleDual(tolerance=1e-7, checkpoint=path))


@pytest.mark.parametrize("solver", [BundleDual(), ProjectedSubgradient(max_rounds=20)])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_progress_bar_on_demand_only(solver, capsys) -> None:
    ChangePointMetricLearner(solver=solver, verbose=True).fit(XS, YS)
    shown = capsys.readouterr().err
    assert "ChangePointMetricLearner" in shown
    assert "gap=" in shown
    ChangePointMetricLearner(solver=solver, verbose=False).fit(XS, YS)
    ChangePointMetricLearner(solver=solver).fit(XS, YS)
    captured = capsys.readouterr()
    assert captured.err == captured.out == ""


def test_log_line_of_a_fit(caplog) -> None:
    with caplog.at_level(logging.INFO, logger="metriclearn"):
        learn()
    assert any("converged after" in record.message for record in caplog.records)


# Shapes of data


def test_one_sequence_and_a_list_of_one() -> None:
    alone = learn(XS[0], YS[0])
    listed = learn([XS[0]], [YS[0]])
    np.testing.assert_array_equal(alone.components_, listed.components_)
    assert alone.predict(XS[1]).shape == (120,)
    assert alone.predict_change_points(XS[1])[-1] == 120
    assert isinstance(alone.predict([XS[1]]), list)


def test_three_dimensional_array() -> None:
    stacked = learn(np.stack(XS), np.stack(YS))
    listed = learn()
    np.testing.assert_array_equal(stacked.components_, listed.components_)
    assert len(stacked.predict(np.stack(XS))) == 5


def test_lengths_may_differ_and_short_sequences_are_predicted() -> None:
    cuts = (120, 100, 90, 110, 60)
    learner = learn(
        [X[:T] for X, T in zip(XS, cuts)], [y[:T] for y, T in zip(YS, cuts)], min_size=3
    )
    assert [len(labels) for labels in learner.predict([X[:T] for X, T in zip(XS, cuts)])] == list(
        cuts
    )
    assert learner.predict_change_points(XS[0][:1]).tolist() == [1]
    assert learner.predict_change_points(XS[0][:2]).tolist() == [2]


def test_labels_that_return_start_new_segments() -> None:
    returning = [np.asarray(y) % 2 for y in YS]
    np.testing.assert_array_equal(learn(y=returning).components_, learn().components_)


def test_a_metric_that_learned_nothing_still_predicts() -> None:
    """A huge strength leaves B = 0: no components, one segment, distances 0."""
    for metric, kind in ((DiagonalMetric(), L1), (FullMetric(), Trace)):
        learner = learn(metric=metric, regularizer=kind(1e6))
        assert learner.components_.shape == (0, 6)
        assert learner.transform(XS[0]).shape == (120, 0)
        np.testing.assert_array_equal(learner.get_mahalanobis_matrix(), np.zeros((6, 6)))
        np.testing.assert_array_equal(learner.pair_distance(np.ones((2, 2, 6))), [0.0, 0.0])
        assert learner.predict_change_points(XS[0]).tolist() == [120]
        assert len(learner.predict_change_points(XS[0], n_segments=4)) == 4


def test_labels_without_any_change() -> None:
    whole = [np.zeros(120)] * 5
    for metric, regularizer in PAIRS:
        learner = learn(y=whole, metric=metric, regularizer=regularizer)
        assert learner.solution_.converged
        assert learner.score(XS, whole) == 0.0


def test_labels_that_change_at_every_sample() -> None:
    every = [np.arange(120)] * 5
    learner = learn(y=every)
    assert learner.solution_.converged
    assert learner.score(XS, every) == 0.0


# What is refused, each in one sentence


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"penalty": -1.0}, r'needs penalty="learned" or a number of at least 0, got -1.0'),
        ({"penalty": "learn"}, r'needs penalty="learned" or a number of at least 0, got .learn.'),
        ({"penalty": np.nan}, r'needs penalty="learned" or a number of at least 0, got nan'),
        ({"penalty": np.inf}, r'needs penalty="learned" or a .*number of at least 0'),
        ({"penalty": None}, r'needs penalty="learned" or a .*number of at least 0'),
        ({"loss_scale": 0.0}, "needs a positive loss_scale, got 0.0"),
        ({"loss_scale": -2.0}, "needs a positive loss_scale, got -2.0"),
        ({"loss_scale": np.inf}, "needs a positive loss_scale, got inf"),
        ({"loss_scale": np.nan}, "needs a positive loss_scale, got nan"),
        ({"loss_scale": None}, "needs a positive loss_scale, got None"),
        ({"n_segments": 5}, r'needs n_segments=None or "given", got 5; a number of segments is'),
        ({"n_segments": "known"}, r'needs n_segments=None or "given", got .known.'),
        ({"min_size": 0}, "needs a whole min_size of at least 1, got 0"),
        ({"min_size": 200}, "needs labeled segments of at least min_size=200 samples, but data"),
        ({"min_size": 1.5}, "needs .*min_size.* got 1.5"),
        ({"min_size": None}, "needs .*min_size.* got None"),
        ({"regularizer": L1(0.0)}, "L1 needs a positive strength, got 0.0"),
        ({"regularizer": SquaredFrobenius(-1.0)}, "SquaredFrobenius needs a positive strength"),
        ({"regularizer": Trace(np.nan)}, "Trace needs a positive strength, got nan"),
        ({"regularizer": L1(), "metric": FullMetric()}, "L1 needs a DiagonalMetric"),
        ({"regularizer": "l1"}, "ChangePointMetricLearner needs .*regularizer.*got 'l1'"),
        ({"regularizer": SquaredFrobenius}, "ChangePointMetricLearner needs .*regulari"),
        ({"regularizer": L1("a")}, "L1 needs a positive strength, got 'a'"),
        ({"metric": "full"}, "ChangePointMetricLearner needs .*metric.*got 'full'"),
        ({"solver": "bundle"}, "ChangePointMetricLearner needs .*solver.*got 'bundle'"),
    ],
)
def test_bad_parameters(parameters, message) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        ChangePointMetricLearner(**parameters).fit(XS, YS)
    one_sentence(caught.value)


def one_sentence(error: BaseException) -> None:
    text = str(error)
    assert "\n" not in text
    assert text.endswith(".")
    assert len(text) < 300


def changed(i: int, change) -> list[np.ndarray]:
    return [change(X.copy()) if j == i else X for j, X in enumerate(XS)]


def with_nan(X: np.ndarray) -> np.ndarray:
    X[7, 3] = np.nan
    return X


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        (changed(2, with_nan), YS, "finite numbers, got NaN at row 7, feature 3 of data set 2"),
        (changed(1, lambda X: X[:-1]), YS, "got 120 labels for the 119 samples of data set 1"),
        (changed(1, lambda X: X[:, :5]), YS, "same features in every data set, got 6 .* and 5"),
        (XS[:4], YS, r"one labeling per data set, got 4 data set\(s\) and 5 labeling"),
        (XS, None, "requires y to be passed, but the target y is None"),
        (changed(0, lambda X: X[:1]), [YS[0][:1], *YS[1:]], "at least 2 samples in .*data set 0"),
        (changed(0, lambda X: X[:0]), [[], *YS[1:]], r"found array with 0 sample\(s\)"),
        (XS, [np.full(120, -1), *YS[1:]], "they cover no sample of data set 0"),
        (XS, [np.append(YS[0][:-1], -1), *YS[1:]], "got 1 samples with −1 in data set 0"),
        ([X * [1, 1, 0, 1, 0, 1] for X in XS], YS, r"but 2 are constant in each \(2, 4\); remove"),
    ],
)
def test_bad_data(X, y, message) -> None:
    with pytest.raises(ValueError, match=f"ChangePointMetricLearner.*{message}") as caught:
        ChangePointMetricLearner().fit(X, y)
    one_sentence(caught.value)


def test_bad_data_leave_an_earlier_fit_untouched() -> None:
    learner = learn()
    components, penalty = learner.components_, learner.penalty_
    for X, y in ((changed(2, with_nan), YS), (XS[:4], YS), (XS, [np.full(120, -1), *YS[1:]])):
        with pytest.raises(ValueError, match="ChangePointMetricLearner"):
            learner.fit(X, y)
    assert learner.components_ is components
    assert learner.penalty_ == penalty
    learner.predict(XS)


@pytest.mark.parametrize(
    ("n_segments", "message"),
    [
        (121, "a whole n_segments from 1 to 120 for the 120 samples of data set 0, got 121"),
        (0, "a whole n_segments from 1 to 120 for the 120 samples of data set 0, got 0"),
        ([3, 3, -1, 3, 3], "n_segments from 1 to 120 .* of data set 2, got -1"),
        (2.7, "needs a whole n_segments from 1 to 120 .* got 2.7"),
        ("three", "needs a whole n_segments from 1 to 120 .* got .three."),
        ([3, 3], "one n_segments for each of the 5 data sets, or one for all, got 2"),
    ],
)
def test_bad_numbers_of_segments(n_segments, message) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        learn().predict(XS, n_segments=n_segments)
    one_sentence(caught.value)


def test_bad_input_after_fitting() -> None:
    learner = learn()
    for method in (learner.predict, learner.predict_change_points, learner.transform):
        with pytest.raises(ValueError, match=r"X has 5 features, but .* is expecting 6 features"):
            method(XS[0][:, :5])
        with pytest.raises(ValueError, match="finite numbers, got NaN at row 7, feature 3"):
            method(with_nan(XS[0].copy()))
    with pytest.raises(ValueError, match="got 119 labels for the 120 samples of the data set"):
        learner.score(XS[0], YS[0][:-1])
    for shape in ((3, 2, 5), (3, 6), (3, 1, 6)):
        with pytest.raises(ValueError, match=r"needs pairs of shape \(n, 2, 6\), got"):
            learner.pair_distance(np.zeros(shape))


@pytest.mark.xfail(strict=True, reason="B22: the distance of NaN is NaN")
def test_distances_of_bad_pairs() -> None:
    pairs = np.zeros((3, 2, 6))
    pairs[1, 0, 2] = np.nan
    with pytest.raises(ValueError, match="finite"):
        learn().pair_distance(pairs)


def test_nothing_works_before_fitting() -> None:
    learner = ChangePointMetricLearner()
    for call in (
        lambda: learner.predict(XS),
        lambda: learner.predict_change_points(XS),
        lambda: learner.transform(XS),
        lambda: learner.score(XS, YS),
        lambda: learner.pair_distance(np.zeros((1, 2, 6))),
        learner.get_mahalanobis_matrix,
    ):
        with pytest.raises(NotFittedError, match="is not fitted yet"):
            call()


# Peers


@pytest.mark.parametrize(("metric", "regularizer"), PAIRS[::3], ids=NAMES[::3])
def test_the_learned_matrix_gives_the_same_segmentation_in_ruptures(metric, regularizer) -> None:
    """Pelt's cost of a segment is Σ (x−x̄)ᵀB(x−x̄), so its penalty per change is λ."""
    ruptures = pytest.importorskip("ruptures")
    from ruptures.costs import CostMl

    learner = learn(metric=metric, regularizer=regularizer)
    B = learner.get_mahalanobis_matrix()
    for X in XS + sequences(3)[0]:
        for penalty in (learner.penalty_, 3.0 * learner.penalty_):
            pelt = ruptures.Pelt(custom_cost=CostMl(metric=B), min_size=1, jump=1)
            theirs = pelt.fit(X).predict(pen=penalty)
            form = LowRankForm(learner.transform(X), shift=-penalty)
            np.testing.assert_array_equal(ChangePoints()(form).change_points, theirs)
        mine = learner.predict_change_points(X)
        pelt = ruptures.Pelt(custom_cost=CostMl(metric=B), min_size=1, jump=1).fit(X)
        np.testing.assert_array_equal(mine, pelt.predict(pen=learner.penalty_))


@pytest.mark.parametrize("offset", [1e6, 1e8])
def test_predictions_of_data_with_a_large_offset(offset) -> None:
    learner = learn()
    for X in XS:
        rounded = np.round(X * 2**12) / 2**12
        np.testing.assert_array_equal(
            learner.predict_change_points(rounded + offset),
            learner.predict_change_points(rounded),
        )
