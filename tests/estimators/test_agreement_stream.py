"""Streams of an agreement: its segments are those of all samples at once, whatever the chunks."""

import tracemalloc
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

import metriclearn as ml
from metriclearn.apps.console.live import live_segments
from metriclearn.baselines import EqualCuts
from metriclearn.estimators import Agreement
from metriclearn.estimators.scores.segment_score import SegmentScore
from tests.budget import examples
from tests.estimators.test_stream import (
    DATA,
    chunks_of,
    one_by_one,
    segmenter_of,
    signal_of,
    streamed,
)

METRICS = {"diagonal": [ml.ChangePointMetricLearner(), ml.WhitenedMetricLearner()]}


@pytest.fixture(scope="module")
def consensus() -> ml.Segmenter:
    """Some of its models have penalties in the unit of the variance, which no stream knows."""
    return ml.Segmenter(METRICS, n_folds=2, verbose=False).fit(DATA.sequences, DATA.labels)


@pytest.fixture(scope="module")
def follower() -> ml.Segmenter:
    """A consensus for streams."""
    learner = ml.Segmenter(METRICS, n_folds=2, for_streams=True, verbose=False)
    return learner.fit(DATA.sequences, DATA.labels)


def consensus_of(rng: np.random.Generator, n_features: int, names: int) -> ml.Segmenter:
    """Random models with random weights, of which some know names where there are names."""
    models = []
    for j in range(int(rng.integers(1, 7))):
        named = names if j == 0 or rng.random() < 0.5 else 0
        min_size, penalty = int(rng.choice([1, 1, 4])), float(rng.choice([0.5, 3.0, 12.0, 50.0]))
        models.append(segmenter_of(rng, n_features, min_size, penalty, named))
    weights = rng.dirichlet(np.ones(len(models)))
    classes = np.array(["lie", "run", "sit", "walk"]) if names else None
    classes = models[0].present_score.classes if len(models) == 1 else classes
    name_loss = float(rng.choice([0.0, 0.01, 0.2]))
    return agreed(
        [model.present_score for model in models], n_features, weights, classes, name_loss
    )


def agreed(scores: list[Any], n_features: int, weights: Any, *names: Any) -> ml.Segmenter:
    """A segmenter that has learned these scores and weights."""
    segmenter, n = ml.Segmenter(), len(scores)
    segmenter.agreement_ = Agreement(scores, list(range(n)), ["family"] * n, weights, *names)
    segmenter.view_, segmenter.n_features_in_ = None, n_features
    return segmenter


def test_equals_the_whole_sequence() -> None:
    """Random signals, models, weights, names and chunkings."""
    found = 0
    for case in range(examples(400)):
        rng = np.random.default_rng(case)
        n_features, names = int(rng.integers(1, 5)), int(rng.choice([0, 0, 2, 4]))
        consensus = consensus_of(rng, n_features, names)
        X = signal_of(rng, int(rng.integers(5, 500)), n_features, int(rng.choice([0, 2])))
        ends, labels = streamed(consensus.stream(), chunks_of(rng, X))
        batch = consensus.predict_change_points(X)
        assert ends == batch.tolist()
        if names:
            told = np.repeat(labels, np.diff([0, *ends]))
            assert told.tolist() == consensus.predict(X).tolist()
        found += len(ends) > 1
    assert found > examples(400) / 3


def test_pending_and_final_segments_are_those_of_the_samples_so_far(follower) -> None:
    """After every row; most changes are final long before the end, and memory does not grow."""
    rng = np.random.default_rng(0)
    X = np.repeat(4.0 * rng.normal(size=(12, 6)), 60, axis=0) + rng.normal(size=(720, 6))
    stream, final = follower.stream(), []
    assert stream.pending().ends.tolist() == []
    for t, row in enumerate(X):
        final += stream.push(row).ends.tolist()
        assert len(stream.places_) < 40
        if t % 45 == 0:
            whole = [*final, *stream.pending().ends.tolist()]
            assert whole == follower.predict_change_points(X[: t + 1]).tolist()
    assert len(final) >= 8
    other = stream.copy()
    ends = [*final, *stream.finish().ends.tolist()]
    assert ends == follower.predict_change_points(X).tolist()
    assert [*final, *other.finish().ends.tolist()] == ends
    for method in (partial(stream.push, X), stream.pending):
        with pytest.raises(ValueError, match="is finished or has not begun"):
            method()
    found = [end for _, end, _ in live_segments(follower, np.array_split(X, 7))]
    assert found == ends


def test_a_limit_bounds_delay_and_memory_and_is_told_once() -> None:
    rng = np.random.default_rng(2)
    scores = [SegmentScore(np.eye(1), penalty) for penalty in (10.0, 12.0, 14.0)]
    consensus = agreed(scores, 1, np.full(3, 1 / 3))
    X = np.concatenate([rng.normal(size=1000), rng.normal(size=400) + 1.0, rng.normal(size=500)])
    stream = consensus.stream(max_delay=400)

    def check(t: int, found: list[int]) -> None:
        assert len(stream.places_) <= 401

    found, late = one_by_one(stream, X, check)
    assert max(late) <= 400
    ends = [*found, *stream.finish().ends.tolist()]
    assert ends[-1] == len(X)
    assert (np.diff(ends) > 0).all()
    calm = consensus.stream(max_delay=5000)
    assert streamed(calm, np.array_split(X, 9))[0] == consensus.predict_change_points(X).tolist()
    assert calm.exact_
    np.testing.assert_allclose(ends[-3:-1], consensus.predict_change_points(X)[-3:-1], atol=30)


def test_a_calm_stream_needs_no_more_memory_after_a_long_time() -> None:
    """Names are voted for since the last change, which may be long ago."""
    rng = np.random.default_rng(0)
    scores = [segmenter_of(rng, 1, 1, 50.0, names=2).present_score for _ in range(2)]
    stream = agreed(scores, 1, np.full(2, 0.5), scores[0].classes).stream(max_delay=64)

    def peak(n: int) -> int:
        stream.push(np.zeros((n, 1)))
        tracemalloc.start()
        stream.push(np.zeros((256, 1)))
        needed = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return needed

    peak(64)
    assert peak(256) > peak(20000) / 2
    assert stream.places_.tolist() == [0]  # no change so far


def test_the_follower_of_models_with_names_has_names() -> None:
    rng = np.random.default_rng(0)
    named, nameless = (segmenter_of(rng, 3, 1, 3.0, n).present_score for n in (3, 0))
    many = agreed([nameless, named], 3, np.array([0.9, 0.1]), named.classes)
    assert many.follower().classes_ is not None


def test_what_cannot_follow_is_named_with_the_remedy(consensus) -> None:
    X, y = DATA.sequences, DATA.labels
    with pytest.raises(ValueError, match=r"of 36 these cannot: 18 of diagonal .*for_streams=True "):
        consensus.stream()
    agreement = consensus.agreement_
    (score,) = consensus.follower().agreement_.scores
    able = [one.unit is None for one in agreement.scores]
    place = agreement.scores.index(score)
    assert able[place]
    assert agreement.weights[place] == agreement.weights[able].max()
    x = X[0]
    ends, _ = streamed(consensus.follower().stream(), [x[:9], x[9:]])
    assert ends == score.segment(x).change_points.tolist()
    members: dict[str, Any] = {
        **METRICS,
        "given": [ml.ChangePointMetricLearner(n_segments="given")],
    }
    both = ml.Segmenter(members, n_folds=2, for_streams=True, verbose=False).fit(X, y)
    both.stream()  # tuned penalties
    scores = [replace(both.agreement_.scores[0], min_size=12), *both.agreement_.scores[1:]]
    both.agreement_ = replace(both.agreement_, scores=scores)
    with pytest.raises(ValueError, match=r"max_delay of at least 48, four times .* got 40"):
        both.stream(40)
    both.stream(48)
    cuts = ml.Segmenter({"cuts": [EqualCuts()]}, n_folds=2, verbose=False).fit(X, y)
    with pytest.raises(ValueError, match=r"3 of cuts .*needs a model with a score"):
        cuts.stream()
    with pytest.raises(ValueError, match="can follow it, got none; fit with for_streams=True"):
        cuts.follower()
    one = ml.Segmenter({"cuts": [EqualCuts()]}, combine="best", n_folds=2, verbose=False).fit(X, y)
    with pytest.raises(ValueError, match="Segmenter needs a model with a score for a stream, got"):
        one.stream()
    filled = ml.Segmenter(METRICS, view=ml.views.Fill(), n_folds=2, verbose=False).fit(X, y)
    behind = filled.behind(ml.views.LeaveOut())
    with pytest.raises(ValueError, match=r"without NaN take segmenter\.behind\(None\)\.stream"):
        behind.stream()
    with pytest.raises(ValueError, match=r"needs view=None for a stream, got Fill\(\)"):
        filled.stream()
