"""Streams: their segments are those of all samples at once, whatever the chunks."""

import warnings
from collections.abc import Callable, Iterator
from functools import partial
from linecache import getline
from typing import Any

import numpy as np
import pandas as pd
import pytest

import metriclearn as ml
from metriclearn.baselines import TunedSegmenter
from metriclearn.datasets import make_change_points
from metriclearn.estimators.scores.name_weights import NameWeights
from metriclearn.estimators.scores.segment_score import SegmentScore
from metriclearn.problem.forms import LowRankForm
from metriclearn.problem.partition import Partition
from tests.budget import examples

CONTEXT = 2


def segmenter_of(
    rng: np.random.Generator, n_features: int, min_size: int, penalty: float, names: int = 0
) -> Any:
    """A segmenter with a random metric, and with random scores of names."""
    kind: Any = ml.NamedSegmentLearner if names else ml.ChangePointMetricLearner
    segmenter = kind(min_size=min_size)
    rank = int(rng.integers(0, n_features + 1)) if rng.random() < 0.3 else n_features
    components, weights_of_names = rng.normal(size=(rank, n_features)), None
    if rng.random() < 0.5:
        components = np.diag(rng.random(n_features))[: max(1, rank)]
    segmenter.n_features_in_ = n_features
    if names:
        emissions = ml.views.Neighbors(CONTEXT).fit([rng.normal(size=(50, n_features))])
        n_columns = emissions.transform(np.zeros((1, n_features))).shape[1] + 1
        weights = rng.normal(size=(names, n_columns)) * rng.choice([0.03, 0.3, 1.0])
        classes = np.array(["sit", "walk", "run", "lie"])[:names]
        weights_of_names = NameWeights(emissions, classes, n_columns, weights)
    segmenter.score_ = SegmentScore(components, penalty, names=weights_of_names)
    return segmenter


def signal_of(rng: np.random.Generator, n_samples: int, n_features: int, kind: int) -> np.ndarray:
    """Levels with noise; kind 1 whole numbers with ties, kind 2 far from 0, kind 3 a constant."""
    levels = rng.normal(size=(int(rng.integers(1, 9)), n_features)) * rng.choice([0.0, 1.0, 4.0])
    X = levels[np.sort(rng.integers(0, len(levels), n_samples))]
    X = X + rng.normal(size=X.shape) * rng.choice([0.1, 1.0])
    if kind == 1:
        X = np.round(X)
    if kind == 3:
        X[:] = 1e5
    return X + (1e6 if kind == 2 else 0.0)


def chunks_of(rng: np.random.Generator, X: Any) -> Iterator[Any]:
    """X in random chunks, of which some are empty."""
    begin, largest = 0, int(rng.choice([2, 30, 60, 400]))
    while begin < len(X):
        size = int(rng.integers(0, largest))
        yield X[begin : begin + size]
        begin += size


def streamed(stream: ml.estimators.SegmenterStream, chunks: Any) -> tuple[list[int], Any]:
    """All segments that a stream returns."""
    parts = [*map(stream.push, chunks), stream.finish()]
    names = None
    if parts[0].names is not None:
        names = np.concatenate([part.names for part in parts]).tolist()
    return np.concatenate([part.ends for part in parts]).tolist(), names


def one_by_one(
    stream: ml.estimators.SegmenterStream, X: np.ndarray, check: Callable[[int, list[int]], None]
) -> tuple[list[int], list[int]]:
    """Ends of segments, and after how many samples each was told; a limit is told of once."""
    found, late = [], []
    sentence = f"{stream.who} decided by max_delay={stream.max_delay}"
    with pytest.warns(UserWarning, match=sentence) as told:  # noqa: PT031
        for t, value in enumerate(X):
            ends = stream.push([value]).ends.tolist()
            late += [t + 1 - end for end in ends]
            found += ends
            check(t, found)
    (warning,) = told
    assert "stream.push(" in getline(warning.filename, warning.lineno)
    assert not stream.exact_
    return found, late


def value(segmenter: Any, X: np.ndarray, ends: list[int]) -> tuple[float, float]:
    """⟨A, M⟩ of a segmentation with its best names, and the size of what rounding may change."""
    Z = np.hstack([(X - X.mean(axis=0)) @ segmenter.components_.T, np.zeros((len(X), 1))])
    total = LowRankForm(Z).shifted(-segmenter.penalty_).at(Partition(ends=np.array(ends)))
    size = float(np.sum(Z**2)) + segmenter.penalty_ * len(ends)
    if segmenter.name_weights_ is not None:
        rows = segmenter.name_weights_.scores(X)
        sums = np.vstack([np.zeros(rows.shape[1]), np.cumsum(rows, axis=0)])[[0, *ends]]
        total += float(np.diff(sums, axis=0).max(axis=1).sum())
        size += float(np.abs(rows).sum())
    return total, size


def assert_stream_equals_batch(rng: np.random.Generator) -> None:
    """One random signal, metric and chunking: the segments, and names, of all samples at once."""
    kind, n_features = int(rng.choice([0, 0, 0, 1, 1, 2, 2, 3])), int(rng.integers(1, 5))
    min_size = int(rng.integers(2, 7)) if rng.random() < 0.2 else 1
    n_samples = int(rng.integers(1, 400 if rng.random() < 0.9 else 2000))
    named = rng.random() < 1 / 3 and n_samples >= min_size
    names = int(rng.integers(2, 5)) if named else 0
    penalty = float(rng.choice([0.0, 0.5, 3.0, 12.0, 50.0]))
    segmenter = segmenter_of(rng, n_features, min_size, penalty, names)
    X = signal_of(rng, n_samples, n_features, kind)
    batch = segmenter.predict_change_points(X).tolist()
    ends, labels = streamed(segmenter.stream(), chunks_of(rng, X))
    if ends != batch:  # as good, which occurs only where there are ties
        first, size = value(segmenter, X, batch)
        second, _ = value(segmenter, X, ends)
        assert abs(first - second) <= 1e-11 * size + 1e-12
        assert kind in (1, 3) or penalty == 0.0 or not len(segmenter.components_)
    elif names:
        told = np.repeat(labels, np.diff([0, *ends]))
        assert told.tolist() == segmenter.predict(X).tolist()
    if kind == 1 and not names:
        # Not a bit depends on chunks, so ties are resolved in the same way.
        again, _ = streamed(segmenter.stream(), chunks_of(rng, X))
        assert again == ends


def test_equals_the_whole_sequence() -> None:
    """Random signals, metrics, names and chunkings; where there are ties, as good."""
    for case in range(examples(2000)):
        assert_stream_equals_batch(np.random.default_rng(case))


DATA = make_change_points(4, 150, 6, 2, (3, 5), random_state=0)


@pytest.fixture(scope="module")
def learner() -> ml.ChangePointMetricLearner:
    """A learner with two informative features of six."""
    return ml.ChangePointMetricLearner(verbose=False).fit(DATA.sequences, DATA.labels)


def levels(n_segments: int, size: int, seed: int = 0) -> np.ndarray:
    """Segments of equal sizes with six features, of which the learner sees two."""
    rng = np.random.default_rng(seed)
    centers = 4.0 * rng.normal(size=(n_segments, 6))
    return np.repeat(centers, size, axis=0) + rng.normal(size=(n_segments * size, 6))


def test_row_by_row(learner) -> None:
    """Changes are final a few samples after they happen, and stay; memory does not grow."""
    X = levels(40, 250)
    batch, stream = learner.predict_change_points(X), learner.stream()
    found, delays, most = [], [], 0
    for t, row in enumerate(X):
        ends = stream.push(row).ends.tolist()
        found += ends
        delays += [t + 1 - end for end in ends]
        most = max(most, len(stream.sums_))
    assert found == batch[: len(found)].tolist()
    assert np.median(delays) <= 60
    assert most <= 2000
    assert [*found, *stream.finish().ends] == batch.tolist()


def test_pending(learner) -> None:
    """What is pending is the best end as of now, with the margins of the samples since."""
    X = levels(4, 30)
    stream = learner.stream()
    assert [len(stream.pending().ends), len(stream.pending().losses)] == [0, 0]
    committed = []
    for t in range(0, len(X), 5):
        committed += stream.push(X[t : t + 5]).ends.tolist()
        pending, batch = stream.pending(), learner.predict_change_points(X[: t + 5])
        assert [*committed, *pending.ends.tolist()] == batch.tolist()
        start = committed[-1] if committed else 0
        form = LowRankForm(X[start : t + 5] @ learner.components_.T).shifted(-learner.penalty_)
        margins = ml.oracles.boundary_margins(form)
        np.testing.assert_allclose(pending.losses, margins.losses, rtol=1e-6, atol=1e-9)


def test_max_delay_bounds_delay_and_memory() -> None:
    """Where nothing is decided earlier, a change is final after max_delay; it is told once."""
    rng = np.random.default_rng(2)
    segmenter = segmenter_of(rng, 1, 1, 12.0)
    segmenter.score_ = SegmentScore(np.eye(1), 12.0)
    X = np.concatenate([rng.normal(size=5000), rng.normal(size=400) + 0.6, rng.normal(size=3000)])
    stream = segmenter.stream(max_delay=200)

    def check(t: int, found: list[int]) -> None:
        assert len(stream.sums_) <= 1000
        if t % 20 == 0:
            assert stream.pending().ends[0] > (found[-1] if found else 0)

    found, late = one_by_one(stream, X, check)
    assert max(late) <= 200
    # Both changes are where they are in all samples at once.
    batch = segmenter.predict_change_points(X).tolist()
    assert [*found, *stream.finish().ends] == batch[-3:]
    np.testing.assert_allclose(found, [5000, 5400], atol=30)


def test_a_segment_keeps_its_mean_when_its_rows_are_forgotten() -> None:
    """A step that does not pay is no change, however long ago its rows were."""
    X = np.repeat([[0.0], [1.0], [2.0]], [300, 3000, 600], axis=0)
    segmenter = segmenter_of(np.random.default_rng(0), 1, 1, 300.0)
    segmenter.score_ = SegmentScore(np.eye(1), 300.0)
    stream = segmenter.stream(max_delay=400)
    with warnings.catch_warnings(action="ignore"):  # of the limit
        ends, _ = streamed(stream, np.array_split(X, 390))
    assert ends == segmenter.predict_change_points(X).tolist() == [3300, 3900]
    assert len(stream.sums_) < 1700


def test_a_score_reads_the_neighbors_of_the_neighbors_of_its_view() -> None:
    """A changed row changes what is read of the rows in reach, and of no others."""
    view, emissions = ml.views.Windows((2,)), ml.views.Neighbors(3)
    learner = ml.NamedSegmentLearner(emissions=emissions, view=view, verbose=False)
    names = [labels % 2 for labels in DATA.labels]
    score, x = learner.fit(DATA.sequences, names).score_, DATA.sequences[0].copy()
    before = score.read(x).names
    x[50] += 9.0
    touched = np.flatnonzero((score.read(x).names != before).any(axis=1))
    assert score.reach == (5, 5)
    assert (touched.min(), touched.max()) == (45, 55)


def test_encoders() -> None:
    """How many rows they see; those that see all are refused."""
    torch = pytest.importorskip("torch")
    from metriclearn import encoders
    from metriclearn.encoders.networks import rows_seen

    small, convolution = encoders.WindowEncoder, encoders.TemporalConvolution
    assert rows_seen(convolution(6, n_blocks=2, causal=True)) == (12, 0)
    assert rows_seen(convolution(6, n_blocks=3)) == (14, 14)
    assert rows_seen(encoders.Ensemble(6, encoder=small)) == (2, 2)
    assert rows_seen(torch.nn.LSTM(6, 2)) is None
    view = encoders.Encoder(partial(encoders.Normalized, encoder=small), n_epochs=1)
    learner = ml.ChangePointMetricLearner(view=view).fit(DATA.sequences, DATA.labels)
    with pytest.raises(ValueError, match="reads a known number of neighbors"):
        learner.stream()


def test_rows_of_all_kinds(learner) -> None:
    """Lists, 1-D rows, data frames and empty chunks are read; others get one sentence."""
    X = levels(3, 20)
    batch = learner.predict_change_points(X).tolist()
    lists, frames, single = (X.tolist(), pd.DataFrame(X), X.astype(np.float32).astype(float))
    assert streamed(learner.stream(), [lists, []])[0] == batch
    assert streamed(learner.stream(), [frames[:7], frames[7:7], frames[7:]])[0] == batch
    assert (
        streamed(learner.stream(), list(single))[0]
        == learner.predict_change_points(single).tolist()
    )
    one = TunedSegmenter(penalty=1.0).fit([np.repeat([[0.0], [5.0]], 9, axis=0)])
    assert streamed(one.stream(), [[0.0, 0.1, 0.0], 5.0, [5.1, 5.0]])[0] == [3, 6]
    stream = learner.stream()
    stream.push(X[:5])
    for rows, message in [
        (np.full((2, 6), np.nan), "finite numbers, got NaN at row 0, feature 0 of rows from 5 on"),
        (np.full((1, 6), np.inf), "feature 0 of rows from 5 on; impute or remove such samples"),
        (None, "finite numbers, got NaN of rows from 5 on"),
        (X[:, :5], r"rows of 6 features, got shape \(60, 5\)"),
        (X[0, :5], r"rows of 6 features, got shape \(5,\)"),
        (X[None], r"rows of 6 features, got shape \(1, 60, 6\)"),
        ([["a"] * 6], "number"),
        (1e200 * X, "squares under the metric can be added"),
    ]:
        with pytest.raises((ValueError, TypeError), match=message):
            stream.push(rows)
    assert stream.n_samples_ == 5
    assert [*stream.push(X[5:]).ends, *stream.finish().ends] == batch
    for method in (partial(stream.push, X), stream.pending, stream.finish):
        with pytest.raises(ValueError, match=r"is finished or has not begun.*segmenter.stream"):
            method()
    with pytest.raises(ValueError, match="needs a sample before finish"):
        learner.stream().finish()
