import numpy as np
import pytest
from sklearn.base import clone

from metriclearn.estimators.learners.alternation import KnownStart, PrincipalStart
from metriclearn.estimators.learners.data_penalty import DataPenaltyMetricLearner
from metriclearn.estimators.penalties.interval_regression import IntervalRegression, path_errors
from metriclearn.estimators.penalties.penalty_learner import PenaltyLearner
from metriclearn.features.sequence import SequenceFeatures
from metriclearn.oracles.change_points import ChangePoints
from metriclearn.problem.forms import LowRankForm, center
from metriclearn.problem.knowledge import EXACTLY_ONE, NO_CHANGE, PartialPartition
from metriclearn.problem.partition import Partition
from metriclearn.solvers.regularizers import L1

SMOOTH = IntervalRegression(1e-3)


def sequences(n: int, seed: int) -> tuple[list, list, list]:
    """The first of four columns changes at 15 and 33, the others change elsewhere.

    Every sequence has a scale of its own, so that one penalty cannot do.
    """
    rng = np.random.default_rng(seed)
    X, known, truth = [], [], []
    for _ in range(n):
        signal = rng.normal(size=(48, 4)) * 0.5
        signal[:, 0] += np.repeat([0.0, 2.5, -1], [15, 18, 15])
        for column in range(1, 4):
            signal[int(rng.integers(5, 44)) :, column] += 3.0
        X.append(10.0 ** rng.uniform(-1.5, 1.5) * signal)
        regions = [(0, 13, NO_CHANGE), (12, 19, EXACTLY_ONE), (18, 30, NO_CHANGE)]
        known.append(PartialPartition(48, regions=[*regions, (30, 37, EXACTLY_ONE)]))
        truth.append(Partition.from_change_points([15, 33, 48]))
    return X, known, truth


def test_metric_and_penalty_learned_together_beat_either_alone() -> None:
    X, known, _ = sequences(14, 0)
    test, regions, _ = sequences(20, 1)
    fixed = PenaltyLearner(regression=SMOOTH).fit(X, known)
    both = DataPenaltyMetricLearner(regression=SMOOTH, n_turns=2).fit(X, known)
    one = DataPenaltyMetricLearner(sequence_features=SequenceFeatures(()), n_turns=2).fit(X, known)
    assert both.score(test, regions) > max(fixed.score(test, regions), one.score(test, regions))
    assert both.score(test, regions) >= -0.05
    weights = np.sum(both.components_**2, axis=0)
    assert weights[0] > 3 * weights[1:].max()
    assert [len(both.steps_), both.steps_[-1].errors] == [3, 0.0]
    assert both.steps_[-1].interval_objective < 0.5 * both.steps_[0].interval_objective


def test_a_penalty_per_sequence_is_a_scale_of_its_features() -> None:
    rng = np.random.default_rng(0)
    for penalty, scale in zip(rng.uniform(0.1, 30, 20), rng.uniform(0.01, 100, 20)):
        Z = np.cumsum(rng.normal(size=(60, 3)), axis=0)
        penalized = ChangePoints()(LowRankForm(center(Z), shift=-penalty * scale))
        scaled = ChangePoints()(LowRankForm(center(Z / np.sqrt(scale)), shift=-penalty))
        assert penalized == scaled


def test_steps_and_paths_agree_with_predictions() -> None:
    X, known, _ = sequences(8, 2)
    learner = DataPenaltyMetricLearner(regression=SMOOTH, start=PrincipalStart(), n_turns=1)
    learner.fit(X, known)
    errors = [
        sum(k.label_errors(Partition(ends=ends)))
        for k, ends in zip(known, learner.predict_change_points(X))
    ]
    assert learner.training_errors_[:, 0].tolist() == errors
    least = [path_errors(path, k).min() for path, k in zip(learner.paths(X), known)]
    assert learner.training_errors_[:, 1].tolist() == least
    assert learner.learner_.alternation_ is not None
    known_all = learner.predict_change_points(X, known)
    assert all(k.allows(Partition(ends=ends)) for k, ends in zip(known, known_all))


def test_shared_identity_paths_and_unconstrained_completions() -> None:
    X, known, _ = sequences(8, 3)
    learner = DataPenaltyMetricLearner(regression=SMOOTH)
    paths = learner.identity_paths(X)
    alone = clone(learner).fit(X, known)
    shared = clone(learner).fit(X, known, paths)
    np.testing.assert_allclose(shared.components_, alone.components_, rtol=1e-9)
    free = clone(learner).set_params(constrained=False).fit(X, known, paths)
    assert free.learner_.alternation_ is None  # its labels were complete
    kept = clone(learner).set_params(n_turns=2, keep_best=True).fit(X, known, paths)
    best = min(step.interval_objective for step in kept.steps_[1:])
    assert kept.regression_.objective_ == pytest.approx(best)


def test_full_labels_train_too() -> None:
    X, _, truth = sequences(10, 4)
    test, _, answers = sequences(10, 5)
    learner = DataPenaltyMetricLearner(regression=SMOOTH, n_turns=1).fit(X, truth)
    fixed = PenaltyLearner(regression=SMOOTH).fit(X, truth)
    assert learner.score(test, answers) > 0.5 * fixed.score(test, answers)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"longest": 10}, "raise longest"),
        ({"learner__regularizer": L1(1e3)}, "lower the strength"),
        ({"start": KnownStart()}, "such as IdentityStart.., which does not learn, got KnownStart"),
    ],
)
def test_errors_in_one_sentence(parameters, message) -> None:
    X, known, _ = sequences(3, 6)
    with pytest.raises(ValueError, match=message):
        DataPenaltyMetricLearner().set_params(**parameters).fit(X, known)


class InterruptedRegression(IntervalRegression):
    """Ctrl-C in the third fit: after the metric of the second turn."""

    fits = 0

    def fit(self, X, y, sample_weight=None):
        InterruptedRegression.fits += 1
        if self.fits == 3:
            raise KeyboardInterrupt
        return super().fit(X, y, sample_weight)


def test_interrupted_turns_go_on_with_the_same_result(tmp_path) -> None:
    X, known, _ = sequences(8, 7)
    learner = DataPenaltyMetricLearner(regression=InterruptedRegression(1e-3), n_turns=2)
    kept = clone(learner).set_params(learner__alternation__checkpoint=str(tmp_path / "state.npz"))
    with pytest.raises(KeyboardInterrupt):
        clone(kept).fit(X, known)
    assert (tmp_path / "state.npz.1").exists()
    whole, resumed = learner.fit(X, known), kept.fit(X, known)
    np.testing.assert_allclose(resumed.components_, whole.components_, rtol=1e-10)
    np.testing.assert_array_equal(resumed.predict_penalties(X), whole.predict_penalties(X))
    objectives = [[step.objective for step in done.steps_[1:]] for done in (resumed, whole)]
    assert objectives[0] == pytest.approx(objectives[1])
