"""Named segments: gradients, certificate, names in predictions, partial labels, errors."""

from itertools import product
from types import SimpleNamespace

import cvxpy
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import metriclearn as ml
from metriclearn.estimators import Viterbi
from metriclearn.estimators.scores.confidence import NameCalibration
from metriclearn.estimators.scores.name_weights import with_constant
from tests.exhaustive import all_segmentations, equivalence_matrix, labels_of
from tests.solvers.complete_problem import watched_by

NAMES = np.array(["rest", "run", "walk"], dtype=object)


def recordings(count: int, T: int = 90, seed: int = 0):
    """Recordings whose names set the mean of two of four features, and their labels."""
    rng = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(count):
        codes = np.repeat(rng.integers(0, 3, 6), T // 6)
        rows = 0.7 * rng.normal(size=(T, 4))
        rows[:, 0] += 2.0 * (codes == 1)
        rows[:, 1] += 2.0 * (codes == 2)
        X.append(rows)
        y.append(NAMES[codes])
    return X, y


X, Y = recordings(6)
NEW, TRUE = recordings(3, seed=1)


def learner(**parameters) -> ml.NamedSegmentLearner:
    return ml.NamedSegmentLearner(
        **{"emissions": ml.views.Neighbors(1), "verbose": False} | parameters
    )


def codes(labels):
    return np.searchsorted(NAMES, labels)


def accuracy(model, arrays=NEW, labels=TRUE) -> float:
    pairs = zip(model.predict(arrays), labels)
    return float(np.mean([np.mean(found == true) for found, true in pairs]))


WAYS = {"plain": {}, "transitions": {"transitions": True}}


@pytest.mark.parametrize("way", ["plain", "transitions"])
@pytest.mark.parametrize("metric", [ml.DiagonalMetric(), ml.FullMetric()], ids=["diagonal", "full"])
def test_gradient_is_exact(metric, way) -> None:
    """Slopes of the hinge against finite differences, where one answer is the best nearby."""
    model = learner(metric=metric, **WAYS[way])
    problem = model.stated(model.read(X[:2], Y[:2])).problem
    rng = np.random.default_rng(0)
    for _ in range(5):
        w = problem.cone.project(0.01 * rng.normal(size=problem.cone.size))
        w[-1] = rng.uniform(0.5, 2.0)
        direction = 1e-7 * rng.normal(size=len(w))
        cuts, beyond = problem.risk(w), problem.risk(w + direction)
        predicted = cuts.mean + cuts.slope @ direction
        assert beyond.mean == pytest.approx(predicted, abs=1e-9)


def test_gaps_are_relative_to_a_single_segment_of_the_rarest_name() -> None:
    """At the start of training it is the answer of largest loss, among all, and none is tied."""
    rng = np.random.default_rng(0)
    codes = [rng.integers(0, 2, 7) for _ in range(10)]
    codes = [code for code in codes if len(set(code)) == 2]
    arrays = [rng.normal(size=(7, 2)) for _ in codes]
    name_loss = 0.8
    model = learner(name_loss=name_loss, solver=ml.BundleDual(max_rounds=1)).fit(arrays, codes)
    rarest = [np.bincount(code).min() for code in codes]
    penalty = 1.0 + name_loss * max(rarest)
    single, largest = [], []
    for code, rare in zip(codes, rarest):
        runs = np.cumsum(np.diff(code, prepend=code[0]) != 0)
        truth, count = equivalence_matrix(runs), runs[-1] + 1
        single.append(count - 1 + name_loss * (7 - rare) + penalty * (count - 1))
        values = []
        for ends in all_segmentations(7):
            right = sum(np.bincount(part, minlength=2).min() for part in np.split(code, ends[:-1]))
            loss = np.sum((equivalence_matrix(labels_of(ends)) - truth) ** 2)
            values.append(loss + name_loss * (7 - right) - penalty * (len(ends) - count))
        largest.append(max(values))
    np.testing.assert_allclose(single, largest, rtol=1e-12)
    assert model.solution_.scale == pytest.approx(np.mean(single) / 7, rel=1e-5)


@pytest.mark.parametrize("way", WAYS)
def test_certificate_against_a_general_solver(way: str) -> None:
    """The same problem in cvxpy, with one constraint for each of all named segmentations."""
    rng, T, C = np.random.default_rng(0), 4, 2
    arrays = [rng.normal(size=(T, 2)) for _ in range(3)]
    codes = [np.array(row) for row in ([0, 1, 1, 0], [1, 1, 0, 0], [0, 1, 0, 0])]
    model = learner(
        emissions=ml.views.Neighbors(0),
        regularizer=ml.SquaredFrobenius(0.3),
        name_loss=0.4,
        standardize=False,
        solver=ml.BundleDual(1e-8),
        **WAYS[way],
    ).fit(arrays, codes)
    unit, windows = model.name_weights_.unit, model.name_weights_.emissions
    B, W = cvxpy.Variable((2, 2), PSD=True), cvxpy.Variable((C, 3))
    tau, penalty = cvxpy.Variable((C, C)), cvxpy.Variable(nonneg=True)
    risk, constraints = cvxpy.Variable(3), [] if unit else [tau == 0]
    for i, (rows, code) in enumerate(zip(arrays, codes)):
        rows, phi = rows - rows.mean(axis=0), with_constant(windows.transform([rows])[0])

        def score(labels, names, rows=rows, phi=phi):
            M, one = equivalence_matrix(labels), np.eye(C)[np.array(names)[labels]]
            pairs = np.zeros((C, C))
            np.add.at(pairs, (names[:-1], names[1:]), 1.0)
            total = cvxpy.trace(B @ (rows.T @ M @ rows)) + cvxpy.sum(cvxpy.multiply(W, one.T @ phi))
            return total - penalty * len(names) - cvxpy.sum(cvxpy.multiply(tau, pairs))

        truth = np.append(0, np.cumsum(np.diff(code) != 0))
        N, own = equivalence_matrix(truth), score(truth, code[np.append(True, np.diff(code) != 0)])
        for ends in all_segmentations(T):
            labels = labels_of(ends)
            for names in map(np.array, product(range(C), repeat=len(ends))):
                loss = np.sum((equivalence_matrix(labels) - N) ** 2)
                loss += 0.4 * np.sum(names[labels] != code)
                constraints.append(risk[i] >= (loss + score(labels, names) - own) / T)
    squares = [cvxpy.sum_squares(B), cvxpy.sum_squares(W)]
    if unit:
        squares.append(cvxpy.sum_squares(tau) / unit**2)
    objective = cvxpy.sum(risk) / 3 + 0.15 * sum(squares)
    optimum = cvxpy.Problem(cvxpy.Minimize(objective), constraints).solve(cvxpy.CLARABEL)
    assert model.solution_.objective == pytest.approx(optimum, rel=1e-5)
    assert model.solution_.lower_bound <= optimum * (1 + 1e-6)
    np.testing.assert_allclose(model.components_.T @ model.components_, B.value, atol=1e-3)
    np.testing.assert_allclose(model.name_weights_.coef, W.value, atol=1e-3)
    if unit:
        apart = np.isfinite(model.name_weights_.transitions)
        found = model.name_weights_.transitions[apart]
        np.testing.assert_allclose(found, tau.value[apart], atol=1e-3 * unit)


def test_an_interrupted_alternation_resumes_with_names(tmp_path) -> None:
    partial = [np.where(np.arange(90) // 10 % 3 == 0, codes(labels), -1) for labels in Y]
    start, file = ml.estimators.PrincipalStart(1), tmp_path / "state.npz"
    whole = learner(alternation=ml.estimators.Alternation(start=start)).fit(X, partial)
    assert len(whole.alternation_) >= 3
    kept = ml.estimators.Alternation(start=start, checkpoint=str(file))

    def interrupt(progress) -> None:
        if file.exists():
            raise KeyboardInterrupt

    with pytest.warns(ConvergenceWarning, match="interrupted"):
        stopped = learner(alternation=kept, callbacks=watched_by(interrupt)).fit(X, partial)
    assert 1 <= len(stopped.alternation_) < len(whole.alternation_)
    resumed = learner(alternation=kept).fit(X, partial)
    assert resumed.alternation_ == whole.alternation_
    np.testing.assert_array_equal(resumed.completions_, whole.completions_)
    np.testing.assert_allclose(resumed.name_weights_.coef, whole.name_weights_.coef, atol=1e-10)
    # Other names for the same segments are another problem.
    renamed = [np.where(one >= 0, 2 - one, -1) for one in partial]
    with pytest.raises(ValueError, match="needs a checkpoint of this problem"):
        learner(alternation=kept).fit(X, renamed)


def cycles(count: int, seed: int):
    """Recordings of segments named 0 → 1 → 2 → 0; only the order tells 1 from 2 well."""
    rng, X, y = np.random.default_rng(seed), [], []
    for _ in range(count):
        codes = np.repeat(np.arange(9) % 3, rng.integers(8, 16, 9))
        rows = rng.normal(size=(len(codes), 2)) + 3.0 * (codes > 0)[:, None] * [1.0, 0.0]
        X.append(rows + 0.3 * (codes - 1.5)[:, None] * (codes > 0)[:, None] * [0.0, 1.0])
        y.append(codes)
    return X, y


def test_transitions_tell_what_samples_do_not() -> None:
    train, test = cycles(8, 0), cycles(6, 1)
    weak = ml.SquaredFrobenius(1e-3)
    plain, models = learner(emissions=ml.views.Neighbors(0), regularizer=weak), {}
    for way in WAYS:
        models[way] = clone(plain).set_params(**WAYS[way]).fit(*train)
    right = {way: accuracy(model, *test) for way, model in models.items()}
    assert right["transitions"] > right["plain"] + 0.04
    costs = models["transitions"].name_weights_.transitions
    assert costs[0, 1] < costs[0, 2] - 1.0
    assert costs[1, 2] < costs[1, 0] - 1.0
    learned = models["transitions"]
    before = learned.score(*test)
    assert learned.tune_penalty(*train).score(*test) == pytest.approx(before, abs=0.1)


def test_probabilities_of_names_are_calibrated(tmp_path) -> None:
    """Expected calibration error on recordings that nothing was learned from."""
    rng = np.random.default_rng(0)

    def noisy(count: int):
        arrays, labels = [], []
        for _ in range(count):
            names, sizes = rng.integers(0, 3, 12), rng.integers(5, 15, 12)
            means = np.array([[0.0, 0.0], [1.5, 0.0], [0.0, 1.5]])[names]
            means = np.repeat(means + 0.7 * rng.normal(size=(12, 2)), sizes, axis=0)
            arrays.append(means + 0.3 * rng.normal(size=means.shape))
            labels.append(np.repeat(names, sizes))
        return arrays, labels

    train, held_out, test = noisy(10), noisy(20), noisy(60)
    model = learner(emissions=ml.views.Neighbors(0)).fit(*train)
    with pytest.raises(ValueError, match=r"needs calibrate\(X, y\) after fit"):
        model.predict_proba(test[0])
    model.calibrate(*held_out)
    rows = model.predict_proba(test[0])
    found = np.concatenate(rows)
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    assert found.argmax(axis=1).tolist() == np.concatenate(model.predict(test[0])).tolist()
    for one, ends in zip(rows, model.predict_change_points(test[0])):
        assert np.flatnonzero(np.any(np.diff(one, axis=0) != 0, axis=1)).tolist() == [
            end - 1 for end in ends[:-1].tolist()
        ]
    truth = np.concatenate(test[1])
    right, sure = found.argmax(axis=1) == truth, found.max(axis=1)
    assert 0.6 < right.mean() < 0.95
    bins = np.minimum((10 * sure).astype(int), 9)
    error = sum(abs(np.sum(right[bins == b] - sure[bins == b])) for b in range(10)) / len(sure)
    assert error < 0.06
    loaded = ml.load(ml.save(model, tmp_path / "model.npz"))
    np.testing.assert_array_equal(loaded.predict_proba(test[0][0]), rows[0])
    assert model.boundary_margins(test[0][0]).probabilities is not None
    ends = ml.Partition.from_runs(held_out[1][0]).change_points  # changes without names
    partial = [np.append(-1, labels[1:]) for labels in held_out[1][1:]]
    nearly = model.calibrate(held_out[0], [ends, *partial]).predict_proba(test[0][0])
    np.testing.assert_allclose(nearly, rows[0], atol=0.1)
    with pytest.raises(ValueError, match="needs samples with labels of the training, such as 0"):
        model.calibrate(held_out[0], [labels + 10 for labels in held_out[1]])
    with pytest.raises(ValueError, match=r"needs calibrate\(X, y\) after fit"):
        model.set_params(loss_scale=2.0).fit(*train).predict_proba(test[0])


def test_viterbi_equals_the_textbook() -> None:
    """A penalty per segment is a penalty per switch: against the plain recursion."""
    from sklearn.naive_bayes import GaussianNB

    model = Viterbi(ml.views.Posteriors(GaussianNB(), 0)).fit(X, Y)
    logs = np.log(np.maximum(model.predict_proba(NEW[0]), 1e-3))
    best, back = logs[0].copy(), []
    for row in logs[1:]:
        switch = best.max() - model.penalty_
        back.append(np.where(best >= switch, np.arange(3), best.argmax()))
        best = np.maximum(best, switch) + row
    name = int(best.argmax())
    names = [name]
    for step in back[::-1]:
        name = int(step[name])
        names.append(name)
    assert model.predict(NEW[0]).tolist() == model.classes_[names[::-1]].tolist()


def test_names_that_are_always_right_are_as_certain_as_their_number_allows() -> None:
    """With one more sample that has both names by halves, (n + 1/2) of n + 1 samples are right."""
    weights = SimpleNamespace(classes=np.array([0, 1]))
    for n_segments, size in ((2, 5), (10, 10)):
        right = np.arange(n_segments) % 2
        scores, sizes = 3.0 * np.eye(2)[right], np.full(n_segments, size)
        known = NameCalibration.learn([(scores, sizes)], [np.repeat(right, size)], weights)
        found, n = known.of(scores, sizes)[np.arange(n_segments), right], n_segments * size
        np.testing.assert_allclose(found, (n + 0.5) / (n + 1), atol=1e-4)
