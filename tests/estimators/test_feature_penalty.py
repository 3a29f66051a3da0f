"""Penalties that depend on the sequence and on the boundary: one convex problem, certified."""

import copy
import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import metriclearn as ml
from metriclearn.baselines import TunedSegmenter
from metriclearn.problem.joint_features import PenalizedFeatures, PenalizedSamples, Samples
from metriclearn.solvers.mahalanobis import PenalizedMetric
from tests.oracles.signals import noisy_steps


def flags(X: np.ndarray) -> np.ndarray:
    """The second column, which marks some positions, as a feature of the change before it."""
    return np.append(X[:, 1], 0.0)[:, None]


def loudness(X: np.ndarray) -> np.ndarray:
    return np.array([np.mean(np.diff(X[:, 0]) ** 2)])


def marked(seed: int, T: int = 60) -> tuple[np.ndarray, np.ndarray]:
    """Faint steps under noise of the sequence's own level, which a second column marks, mostly."""
    rng = np.random.default_rng(seed)
    X, truth = noisy_steps(seed, T, K=4, P=1)
    X = 0.4 * X + rng.choice([0.3, 1.5]) * rng.normal(size=(T, 1))
    marks = 0.3 * rng.normal(size=T)
    marks[truth.change_points[:-1]] += 1.0
    return np.column_stack([X, marks]), truth.labels


TRAINING = [marked(seed) for seed in range(8)]
XS, YS = [X for X, _ in TRAINING], [y for _, y in TRAINING]
TEST = [marked(seed) for seed in range(100, 120)]
BOTH = ml.FeaturePenalty((flags, loudness), strength=0.3)
PRECISE = ml.BundleDual(tolerance=1e-5, max_rounds=2000)


def learner(**parameters) -> ml.ChangePointMetricLearner:
    given = {"solver": PRECISE, "verbose": False, **parameters}
    return ml.ChangePointMetricLearner(**given)


@pytest.mark.parametrize("metric", [ml.DiagonalMetric(), ml.FullMetric()])
def test_scores_and_their_gradients(metric) -> None:
    """⟨A, M⟩ by dense matrices and a sum over changes; slopes by finite differences."""
    rng = np.random.default_rng(0)
    X, penalty = rng.normal(size=(12, 3)), ml.FeaturePenalty((flags,))
    truth = ml.Partition.from_change_points([4, 12])
    penalty.fit([X], [truth])
    family = PenalizedMetric(metric, penalty.n_columns)
    features = PenalizedFeatures(family)
    samples = PenalizedSamples(X, more=penalty.columns)
    root, v = rng.normal(size=(3, 3)), rng.uniform(size=penalty.n_columns)
    w = np.append(metric.coordinates(root), v)
    form = features.at(w)(samples)
    plain = Samples(X).form(metric.components(family.split(w)[0]))
    partition = ml.Partition.from_change_points([3, 5, 9, 12])
    expected = plain.at(partition) - penalty.weighted(v).penalties(X)[[3, 5, 9]].sum()
    assert form.at(partition) == pytest.approx(expected)
    slope = features.gradient(samples, form, partition)
    for i in range(len(w)):
        step = np.zeros_like(w)
        step[i] = 1e-6
        high, low = (features.at(w + sign * step)(samples).at(partition) for sign in (1, -1))
        assert (high - low) / 2e-6 == pytest.approx(slope[i], rel=1e-4, abs=1e-5)


CASES = [
    (ml.DiagonalMetric(), ml.L1(1e-3)),
    (ml.DiagonalMetric(), ml.SquaredFrobenius(1e-2, center=0.1)),
    (ml.FullMetric(), ml.Trace(1e-3)),
]


@pytest.mark.parametrize(("metric", "regularizer"), CASES, ids=str)
@pytest.mark.parametrize("n_segments", [None, "given"])
def test_certificates(metric, regularizer, n_segments) -> None:
    """To 1e-4, not above what another solver reaches, and lower than without penalties."""
    given = {"metric": metric, "regularizer": regularizer, "n_segments": n_segments}
    solver = ml.BundleDual(tolerance=1e-4, max_rounds=2000)
    solved = learner(penalty=BOTH, **{**given, "solver": solver}).fit(XS, YS)
    assert solved.solution_.relative_gap <= 1e-4
    other = learner(penalty=BOTH, **given, solver=ml.solvers.ProjectedSubgradient(max_rounds=40))
    with pytest.warns(ConvergenceWarning, match="stopped"):
        other.fit(XS, YS)
    assert solved.solution_.lower_bound <= other.solution_.objective
    assert other.solution_.lower_bound <= solved.solution_.objective
    plain = learner(**given).fit(XS, YS)
    assert solved.solution_.objective < plain.solution_.objective


def test_weights_are_not_negative_where_that_is_said() -> None:
    penalty = ml.FeaturePenalty((flags, loudness), nonnegative=(True, False), strength=0.3)
    fitted = learner(penalty=penalty, regularizer=ml.SquaredFrobenius(1e-3)).fit(XS, YS)
    assert fitted.feature_penalty_.coef_[0] == 0.0
    assert fitted.feature_penalty_.n_columns == 3
    assert fitted.solution_.converged


def test_segments_of_single_samples_are_told() -> None:
    fitted, noisy = learner().fit(XS, YS), TEST[0][0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted.predict(XS)
        fitted.predict(noisy, n_segments=60)
    fitted.score_ = fitted.score_.at(1e-3 * fitted.penalty_)
    with pytest.warns(UserWarning, match=r"fewer than two samples on average in 1 of 3 data sets"):
        assert len(fitted.predict_change_points([noisy, 0 * noisy, noisy[:5]])[0]) > 30


def test_penalties_go_no_further_than_they_were_learned() -> None:
    """The quieter the cheaper, but a constant sequence costs as much as the quietest one."""
    penalty = ml.FeaturePenalty((ml.views.SequenceFeatures(("log_noise",)),))
    fitted = learner(penalty=penalty, regularizer=ml.SquaredFrobenius(1e-3)).fit(XS, YS)
    assert fitted.feature_penalty_.coef_[0] > 0.0
    quietest = min(fitted.feature_penalty_.penalties(X)[0] for X in XS)
    for size in (0.0, 1e-9, 1e-3):
        quiet = size * XS[0] + 2.0
        assert fitted.feature_penalty_.penalties(quiet)[0] == pytest.approx(quietest)
        assert fitted.predict_change_points(quiet).tolist() == [60]
    assert fitted.feature_penalty_.penalties(100.0 * XS[0])[0] == max(
        fitted.feature_penalty_.penalties(X)[0] for X in XS
    )


def test_margins_use_penalties() -> None:
    penalty = ml.FeaturePenalty((ml.views.SequenceFeatures(), ml.views.BoundaryFeatures((3,))))
    fitted = learner(penalty=penalty, solver=ml.BundleDual()).fit(XS, YS)
    assert len(fitted.feature_penalty_.coef_) == 7
    for X, _ in TEST:
        ends = fitted.predict_change_points(X)
        np.testing.assert_array_equal(fitted.boundary_margins(X).change_points, ends)


# The penalty of least loss on other data


@pytest.mark.parametrize(
    ("parameters", "unit"),
    [
        ({}, None),
        ({}, "variance"),
        ({"penalty": BOTH}, None),
        ({"n_segments": "given"}, None),
        ({"n_segments": "given"}, "variance"),
    ],
)
def test_tuned_penalties_are_the_best_of_all(parameters, unit) -> None:
    """Against a fine grid; with penalties of positions, and where no penalty was learned."""
    Xs, ys = [X for X, _ in TEST[:6]], [y for _, y in TEST[:6]]
    tuned = learner(regularizer=ml.SquaredFrobenius(1.0), **parameters).fit(XS, YS)
    tuned.tune_penalty(Xs, ys, unit)

    def loss(penalty: float) -> float:
        other = copy.copy(tuned)
        other.score_ = tuned.score_.at(penalty, unit)
        pairs = zip(other.predict_change_points(Xs), ys)
        partitions = [(ml.Partition(ends=ends), ml.Partition.from_labels(y)) for ends, y in pairs]
        return float(np.mean([ml.problem.FrobeniusLoss()(*pair) for pair in partitions]))

    best = loss(tuned.penalty_)
    assert all(best <= loss(tuned.penalty_ * f) + 1e-12 for f in np.geomspace(0.01, 100, 60))
    assert tuned.penalty_ > 0


def test_penalties_in_units_of_each_sequences_variance(tmp_path) -> None:
    """Sequences of any contrast have the same segments, states and margins; a fit forgets it."""
    Xs, ys = [X for X, _ in TEST[:6]], [y for _, y in TEST[:6]]
    louder = [4.0**i * X + 3.0 for i, X in zip(range(-3, 3), Xs)]
    plain = learner().fit(XS, YS).tune_penalty(louder, ys)
    fitted = copy.copy(plain).tune_penalty(Xs, ys, unit="variance")
    penalty, absolute = fitted.penalty_, plain.penalty_
    assert fitted.score(louder, ys) == fitted.score(Xs, ys) > plain.score(louder, ys)
    for X, loud in zip(Xs, louder):
        np.testing.assert_array_equal(fitted.predict_states(X), fitted.predict_states(loud))
        margins, others = fitted.boundary_margins(X), fitted.boundary_margins(loud)
        np.testing.assert_allclose(margins.losses, others.losses)
        Z = X @ fitted.components_.T
        by_hand = copy.copy(plain)
        by_hand.score_ = plain.score_.at(penalty * Z.var(axis=0).sum())
        np.testing.assert_array_equal(by_hand.predict(X), fitted.predict(X))
        np.testing.assert_array_equal(by_hand.predict_states(X), fitted.predict_states(X))
        in_units = by_hand.boundary_margins(X).losses / Z.var(axis=0).sum()
        np.testing.assert_allclose(in_units, margins.losses, atol=1e-9)
    assert fitted.predict_change_points(np.ones((9, 2))).tolist() == [9]
    for size in (2.0**-500, 2.0**500):  # whose squares are no numbers
        np.testing.assert_array_equal(fitted.predict(size * Xs[0]), fitted.predict(Xs[0]))
        again = copy.copy(plain).tune_penalty([size * X for X in Xs], ys, unit="variance")
        assert again.penalty_ == pytest.approx(penalty)
    file = ml.save(fitted, tmp_path / "model.npz")
    np.testing.assert_array_equal(ml.load(file).predict(louder[0]), fitted.predict(Xs[0]))
    with pytest.raises(ValueError, match="needs unit=None or"):
        fitted.tune_penalty(Xs, ys, unit="std")
    assert fitted.tune_penalty(louder, ys).penalty_ == absolute
    assert fitted.tune_penalty(Xs, ys, "variance").fit(XS, YS).score_.unit is None
    baseline = TunedSegmenter().fit(Xs, ys).tune_penalty(Xs, ys, "variance")
    assert baseline.score(louder, ys) == baseline.score(Xs, ys)
    assert baseline.fit(Xs, ys).score_.unit is None


def test_short_sequences_tell_nothing_of_the_penalty() -> None:
    fitted = learner(min_size=3).fit(XS, [np.repeat(np.arange(6), 10)] * len(XS))
    penalty = fitted.tune_penalty(*TEST[0]).penalty_
    short = [TEST[0][0], np.ones((2, 2))], [TEST[0][1], np.zeros(2)]
    assert fitted.tune_penalty(*short).penalty_ == penalty
    assert fitted.tune_penalty(TEST[0][0][:3], np.zeros(3)).penalty_ > 0
    with pytest.raises(ValueError, match="at least min_size=3"):
        fitted.tune_penalty(np.ones((2, 2)), np.zeros(2))


def steps(X: np.ndarray) -> np.ndarray:
    return np.abs(np.diff(X, axis=0, prepend=X[:1], append=X[-1:])) / DEVIATION


SMALL = [1e-6 * np.array(x)[:, None] for x in ([-0.09, -0.12, -0.3, 0.2], [-6.4, 3.7, 1, 1.8, 0.5])]
DEVIATION = np.std(SMALL[1])
