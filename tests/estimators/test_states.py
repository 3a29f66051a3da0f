"""Segments that come back get one name."""

import numpy as np
import pytest

import metriclearn as ml
from metriclearn.baselines import TunedSegmenter
from metriclearn.indices import adjusted_mutual_info_score as agreement

ACTIVITIES = np.repeat(["sit", "walk", "sit", "lie", "walk", "lie"], [20, 30, 10, 25, 15, 20])


def recordings(n: int, noise: float = 0.3) -> tuple[list, list]:
    """Two columns tell three activities apart, two are noise; every recording has another offset
    in noise only.
    """
    random = np.random.default_rng(0)
    places = {"sit": [0.0, 0.0], "walk": [4.0, 0.0], "lie": [0.0, 4.0]}
    levels = np.array([places[name] for name in ACTIVITIES])
    arrays = [
        np.hstack([levels + noise * random.normal(size=(120, 2)), random.normal(size=(120, 2))])
        for _ in range(n)
    ]
    return arrays, [ACTIVITIES] * n


@pytest.fixture(scope="module")
def learner() -> ml.ChangePointMetricLearner:
    return ml.ChangePointMetricLearner().fit(*recordings(4))


def test_labeled_states_have_their_names(learner: ml.ChangePointMetricLearner) -> None:
    X, y = recordings(6)
    learner.fit_states(X[:4], y[:4])
    assert learner.states_.names.tolist() == ["lie", "sit", "walk"]
    np.testing.assert_allclose(
        learner.states_.means[1],
        np.vstack(X[:4])[np.concatenate(y[:4]) == "sit"].mean(axis=0) @ learner.components_.T,
    )
    for array in X[4:]:
        np.testing.assert_array_equal(learner.predict_states(array), ACTIVITIES)


@pytest.mark.parametrize("way", ["counted", "learned penalty", "penalty of a segment"])
def test_without_names_recurring_segments_have_one_number(way: str) -> None:
    X, y = recordings(6)
    learner = ml.ChangePointMetricLearner().fit(X[:4], y[:4])
    if way == "learned penalty":
        other_names = [[f"{i}{name}" for name in names] for i, names in enumerate(y[:4])]
        learner.fit_states(X[:4], other_names, named=False)
        assert learner.states_.names is None
    states = learner.predict_states(X[4:], 3 if way == "counted" else None)
    for numbers in states:
        assert agreement(numbers, ACTIVITIES) == pytest.approx(1.0)


def test_one_recording_with_one_state_or_in_part_labeled() -> None:
    (X, other), (y, _) = recordings(2)
    learner = ml.ChangePointMetricLearner().fit(X, y)
    assert set(learner.fit_states(X, np.full(120, 7)).predict_states(other)) == {7}
    part = np.where(np.arange(120) < 60, y.astype(object), -1)
    assert set(learner.fit_states(X, part).predict_states(other)) == {"sit", "walk"}


def test_states_are_kept_in_files_and_forgotten_in_another_fit(tmp_path) -> None:
    X, y = recordings(3)
    learner = TunedSegmenter().fit(X[:2], y[:2]).fit_states(X[:2], y[:2])
    loaded = ml.load(learner.save(tmp_path / "model.npz"))
    np.testing.assert_array_equal(loaded.predict_states(X[2]), learner.predict_states(X[2]))
    assert not hasattr(learner.fit(X[:1], y[:1]), "states_")


def test_more_states_than_segments_are_warned_of(learner) -> None:
    (X,), _ = recordings(1)
    with pytest.warns(UserWarning, match="n_states=50 for a data set with 6 different"):
        assert len(set(learner.predict_states(X, 50))) == 6
    with pytest.raises(ValueError, match="whole n_states from 1 to 120"):
        learner.predict_states(X, 0)
