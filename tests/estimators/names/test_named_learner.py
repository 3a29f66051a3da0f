"""Named segments: gradients, certificate, names in predictions, partial labels, errors."""

import cvxpy
import numpy as np
import pytest

import metriclearn
from metriclearn import (
    BundleDual,
    ChangePointMetricLearner,
    CuttingPlane,
    DiagonalMetric,
    FramePosteriors,
    FullMetric,
    NamedSegmentLearner,
    NeighborFeatures,
    Partition,
    SquaredFrobenius,
)
from metriclearn.baselines import FrameClassifier
from metriclearn.estimators.learners.large_margin import read_training, state_problem
from metriclearn.indices import partition_loss

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


def learner(**parameters) -> NamedSegmentLearner:
    return NamedSegmentLearner(**{"emissions": NeighborFeatures(1), "verbose": False} | parameters)


@pytest.fixture(scope="module")
def fitted() -> NamedSegmentLearner:
    return learner().fit(X, Y)


def accuracy(model, arrays=NEW, labels=TRUE) -> float:
    pairs = zip(model.predict(arrays), labels)
    return float(np.mean([np.mean(found == true) for found, true in pairs]))


def test_names_and_boundaries_are_predicted(fitted) -> None:
    assert fitted.classes_.tolist() == ["rest", "run", "walk"]
    assert accuracy(fitted) > 0.97
    ends, labels = fitted.predict_change_points(NEW), fitted.predict(NEW)
    for found, named in zip(ends, labels):
        changes = np.flatnonzero(named[1:] != named[:-1]) + 1
        assert set(changes) <= set(found.tolist())  # two neighbors may have one name
    assert fitted.predict(NEW[0], n_segments=1).tolist() == [fitted.predict(NEW[0], 1)[0]] * 90
    assert fitted.solution_.converged


def test_metric_alone_is_the_special_case_without_names() -> None:
    """With φ = 0 and β = 0 the problem is that of the learner without names."""
    zero = [np.hstack([x, np.zeros((len(x), 0))]) for x in X]
    solver = BundleDual(1e-6)
    named = learner(emissions=Nothing(), name_loss=0.0, solver=solver).fit(zero, Y)
    plain = ChangePointMetricLearner(
        FullMetric(), SquaredFrobenius(1e-2), solver, verbose=False
    ).fit(zero, Y)
    assert named.solution_.objective == pytest.approx(plain.solution_.objective, rel=1e-4)


class Nothing(NeighborFeatures):
    """Emissions that say nothing."""

    def transform(self, X):
        return np.zeros((len(X), 1))


@pytest.mark.parametrize("metric", [DiagonalMetric(), FullMetric()], ids=["diagonal", "full"])
def test_gradient_is_exact(metric) -> None:
    """Slopes of the hinge against finite differences, where one answer is the best nearby."""
    model = learner(metric=metric)
    problem = state_problem(model, read_training(model, X[:2], Y[:2])).problem
    rng = np.random.default_rng(0)
    for _ in range(5):
        w = problem.cone.project(0.01 * rng.normal(size=problem.cone.size))
        w[-1] = rng.uniform(0.5, 2.0)
        direction = 1e-7 * rng.normal(size=len(w))
        cuts, beyond = problem.risk(w), problem.risk(w + direction)
        predicted = cuts.mean + cuts.slope @ direction
        assert beyond.mean == pytest.approx(predicted, abs=1e-9)


def test_certificate_against_a_general_solver() -> None:
    """Cutting planes by cvxpy: their model and their best point enclose the same optimum."""
    model = learner(metric=DiagonalMetric(), regularizer=SquaredFrobenius(1.0))
    statement = state_problem(model, read_training(model, X[:3], Y[:3]))
    problem = statement.problem
    ours = BundleDual(1e-7).minimize(problem)
    n, omega = problem.cone.size, problem.terms
    w, rises = cvxpy.Variable(n, nonneg=True), cvxpy.Variable(3, nonneg=True)
    objective = cvxpy.Minimize(
        problem.risk.weights @ rises + 0.5 * omega.curvature * cvxpy.sum_squares(w[:-1])
    )
    point, constraints, best = problem.start, [w[-1] <= 100.0], np.inf
    for _ in range(60):
        cuts = problem.risk(point)
        best = min(best, cuts.mean + omega(point))
        offsets = cuts.values - cuts.slopes @ point
        constraints += [rises[i] >= offsets[i] + cuts.slopes[i] @ w for i in range(3)]
        model_value = cvxpy.Problem(objective, constraints).solve(cvxpy.CLARABEL)
        point = np.maximum(w.value, 0.0)
        if best - model_value < 1e-5 * ours.scale:
            break
    assert model_value - 1e-7 <= ours.objective <= best + 1e-7
    assert ours.lower_bound <= best + 1e-7
    assert best - model_value < 1e-3 * ours.scale


def test_permuted_names_and_shifted_features_change_nothing(fitted) -> None:
    swapped = {"rest": "z", "run": "y", "walk": "x"}
    labels = [np.array([swapped[name] for name in one], dtype=object) for one in Y]
    again = learner().fit([x + 100.0 for x in X], labels)
    expected = [[swapped[name] for name in one] for one in fitted.predict(NEW)]
    assert [one.tolist() for one in again.predict([x + 100.0 for x in NEW])] == expected


def test_partial_labels(fitted) -> None:
    """Names where known, unknown stretches, boundaries without names."""
    partial = []
    for labels in Y:
        one = labels.copy()
        one[20:50] = -1
        partial.append(one)
    model = learner().fit(X, partial)
    assert accuracy(model) > 0.95
    assert model.alternation_ is not None
    mixed = [*partial[:4], Partition.from_runs(Y[4]), Partition.from_runs(Y[5]).change_points]
    assert accuracy(learner().fit(X, mixed)) > 0.95


def test_posteriors_are_held_out() -> None:
    """Training features come from models that have not seen the group."""
    from sklearn.neighbors import KNeighborsClassifier

    codes = [np.searchsorted(NAMES.astype(str), y.astype(str)) for y in Y]
    groups = np.array([0, 0, 1, 1, 2, 2])
    posteriors = FramePosteriors(KNeighborsClassifier(1), context=0, n_folds=3)
    posteriors.fit(X, codes, groups)
    folds = [set(one.tolist()) for one in posteriors.fold_of_]
    assert [len(folds[i] | folds[i + 1]) for i in (0, 2, 4)] == [1] * 3
    alone = FramePosteriors(KNeighborsClassifier(1), context=0, n_folds=3)
    alone.fit(X[:1], codes[:1], groups[:1])  # parts of the single recording are left out
    assert np.unique(alone.fold_of_[0]).tolist() == [0, 1, 2]
    assert np.mean(alone.held_out(X[0], 0)[:, :3].argmax(axis=1) == codes[0]) < 0.999
    held_out = np.mean(
        [
            np.mean(posteriors.held_out(x, i)[:, :3].argmax(axis=1) == code)
            for i, (x, code) in enumerate(zip(X, codes))
        ]
    )
    assert held_out < 0.999  # one nearest neighbor is always right about samples it has seen
    model = learner(emissions=FramePosteriors(KNeighborsClassifier(9), context=1))
    assert accuracy(model.fit(X, Y, groups=groups)) > 0.95


def test_files_keep_the_names(fitted, tmp_path) -> None:
    loaded = metriclearn.load(metriclearn.save(fitted, tmp_path / "model.npz"))
    for a, b in zip(loaded.predict(NEW), fitted.predict(NEW)):
        assert a.tolist() == b.tolist()


def test_margins_are_those_of_the_prediction(fitted) -> None:
    """The loss without a boundary is that of the best segmentation without it."""
    ends, margins = fitted.predict_change_points(NEW[0], return_margins=True)
    assert ends.tolist() == fitted.predict_change_points(NEW[0]).tolist()
    assert np.all(margins.losses > 0)


def test_frame_classifier_smooths_by_groups_left_out() -> None:
    from sklearn.linear_model import LogisticRegression

    groups = [0, 0, 1, 1, 2, 2]
    for smoothing in ("viterbi", "mode"):
        model = FrameClassifier(LogisticRegression(), 1, smoothing=smoothing)
        model.fit(X, Y, groups=groups)
        assert accuracy(model) > 0.9
        ends = model.predict_change_points(NEW)
        losses = [
            partition_loss(Partition(ends=e), Partition.from_runs(t), normalized=True)
            for e, t in zip(ends, TRUE)
        ]
        assert model.score(NEW, TRUE) == pytest.approx(-np.mean(losses))
        assert (model.penalty_ is None) == (smoothing == "mode") != (model.width_ is None)
        assert model.losses_.min() == model.losses_[np.argmin(model.losses_)]
        np.testing.assert_allclose(model.predict_proba(NEW[0]).sum(axis=1), 1.0, atol=0.01)


def test_viterbi_equals_the_textbook() -> None:
    """A penalty per segment is a penalty per switch: against the plain recursion."""
    from sklearn.naive_bayes import GaussianNB

    model = FrameClassifier(GaussianNB(), 0).fit(X, Y)
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


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([Partition.from_runs(y) for y in Y], "needs labels of samples, whose values are names"),
        ([np.array([1, "a"] * 45, dtype=object)] * 6, "needs labels of one type"),
    ],
)
def test_labels_without_names_are_refused(labels, message) -> None:
    with pytest.raises(ValueError, match=f"NamedSegmentLearner {message}"):
        learner().fit(X, labels)
    with pytest.raises(ValueError, match=f"FrameClassifier {message}"):
        FrameClassifier().fit(X, labels)


def test_a_single_name_is_refused() -> None:
    same = [np.zeros_like(y, dtype=int) for y in Y]
    with pytest.raises(ValueError, match="FrameClassifier needs two names and more"):
        FrameClassifier().fit(X, same)
    with pytest.raises(ValueError, match="FramePosteriors needs samples of two names"):
        learner(emissions=FramePosteriors()).fit(X, same)


def test_groups_and_folds_are_checked() -> None:
    with pytest.raises(ValueError, match=r"NamedSegmentLearner.*groups"):
        learner().fit(X, Y, groups=[1, 2])
    with pytest.raises(ValueError, match='FrameClassifier needs smoothing="viterbi" or "mode"'):
        FrameClassifier(smoothing="median").fit(X, Y)
    with pytest.raises(ValueError, match="NamedSegmentLearner needs BundleDual"):
        learner(solver=CuttingPlane()).fit(X, Y)


def test_frames_far_from_the_training_data() -> None:
    """Forests read float32, and data may be beyond it."""
    forest = FrameClassifier(amount=1.0).fit(X, Y)
    assert set(forest.predict(1e100 * NEW[0])) <= set(NAMES)
