"""Segmenter: members, their answers and the measures of doubt."""

import copy
import re
import threading
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold
from sklearn.tree import DecisionTreeClassifier

import metriclearn as ml
from metriclearn.baselines import EqualCuts, TunedSegmenter
from metriclearn.datasets import make_change_points
from metriclearn.estimators import Member, Viterbi
from metriclearn.estimators.scores.agreement import answers_of
from metriclearn.estimators.selection.families import default_members
from metriclearn.problem.consensus_form import ConsensusForm
from metriclearn.problem.losses import FrobeniusLoss
from metriclearn.problem.partition import LabeledPartition
from metriclearn.problem.regions import AT_LEAST_ONE, AT_MOST_ONE
from metriclearn.running.row_times import evenly
from tests.exhaustive import all_segmentations
from tests.sentences import assert_refused

DATA = make_change_points(8, 80, 6, 3, (3, 5), random_state=0)
NEW = make_change_points(4, 80, 6, 3, (3, 5), random_state=1)
QUICK = ml.BundleDual(tolerance=0.1)
METRIC = ml.ChangePointMetricLearner(solver=QUICK)
METRICS = {"diagonal": [METRIC, METRIC], "euclidean": [TunedSegmenter()]}
MEMBER = {"diagonal": [METRIC]}
NAMED = {
    "frames": [Viterbi(ml.views.Posteriors(LogisticRegression(), 1), penalty=2.0)],
    "segments": [ml.NamedSegmentLearner(emissions=ml.views.Neighbors(1), solver=QUICK)],
    "diagonal": [METRIC],
}


CLASSES = np.array(["sit", "walk"])


def named_recordings(n: int, seed: int):
    """Recordings in which two names take turns, and their labels."""
    rng = np.random.default_rng(seed)
    labels = [np.repeat(["sit", "walk", "sit", "walk"], rng.integers(10, 20, 4)) for _ in range(n)]
    return [rng.normal(size=(len(one), 2)) + (one == "walk")[:, None] for one in labels], labels


@pytest.fixture(scope="module")
def consensus() -> ml.Segmenter:
    return ml.Segmenter(METRICS, n_folds=2).fit(DATA.sequences, DATA.labels)


def test_the_models_of_a_member_share_the_penalty_that_is_best_for_all_of_them(consensus) -> None:
    """No common penalty has a smaller mean loss on the recordings left out.

    They also answer with half and with twice this penalty.
    """
    assert max(len(repr(one)) for one in (consensus.agreement_, consensus.cross_fit_)) < 3000
    scores = consensus.agreement_.scores
    penalties = np.array([score.penalty for score in scores]).reshape(-1, 3)
    np.testing.assert_array_equal(penalties, penalties[:, [0, 0, 0]])
    np.testing.assert_allclose(penalties[0::3], penalties[1::3] / 2)
    np.testing.assert_allclose(penalties[2::3], penalties[1::3] * 2)
    places = np.flatnonzero(~np.isnan(consensus.cross_fit_.losses[0]))
    assert len(places) == 8
    parts = GroupKFold(2).split(places, groups=places)
    pairs = [(score, test) for score, (_, test) in zip(scores[3:5], parts)]
    for factor in (0.5, 0.9, 1.1, 2.0):
        losses = []
        for score, test in pairs:
            other = score.at(factor * score.penalty, score.unit)
            for i in test:
                found = other.segment(DATA.sequences[i])
                truth = ml.Partition.from_labels(DATA.labels[i])
                losses.append(FrobeniusLoss().squared_norm(found, truth))
        assert np.mean(losses) >= consensus.cross_fit_.losses[1].mean() - 1e-9


@pytest.mark.parametrize("n_segments", [None, 4])
def test_answer_is_the_best_compromise(consensus, n_segments) -> None:
    """No model's own answer is a better compromise, up to what the shift makes a segment worth."""
    scores = consensus.agreement_.scores
    answers = [[s.segment(X, n_segments) for X in NEW.sequences] for s in scores]
    found = consensus.predict_change_points(NEW.sequences, n_segments)
    expected = consensus.expected_loss(NEW.sequences, n_segments)
    for i, X in enumerate(NEW.sequences):
        form = ConsensusForm([one[i] for one in answers], consensus.agreement_.weights)
        assert form.expected_loss(ml.Partition(ends=found[i])) == pytest.approx(expected[i])
        shifted = form.shifted(0.0 if n_segments else consensus.agreement_.shift)
        best = shifted.at(ml.Partition(ends=found[i]))
        assert all(shifted.at(N) <= best + 1e-9 for N in form.members)
        numbers = consensus.predict(X, n_segments)
        np.testing.assert_array_equal(np.flatnonzero(np.diff(numbers)) + 1, found[i][:-1])
        if n_segments:
            assert len(found[i]) == n_segments


@pytest.fixture(scope="module", params=["metrics", "names"])
def twice(request, consensus, tmp_path_factory) -> list[ml.Segmenter]:
    """A consensus, of metrics or also of models with names, and what its file holds."""
    if request.param == "names":
        X, y = named_recordings(4, 0)
        frames = Viterbi(ml.views.Posteriors(LogisticRegression(), 1))
        members = {"frames": [frames], "named": [ml.NamedSegmentLearner()], **METRICS}
        consensus = ml.Segmenter(members, n_folds=2, verbose=False).fit(X, y)
    return [consensus, ml.load(ml.save(consensus, tmp_path_factory.mktemp("twice") / "model.npz"))]


@pytest.mark.parametrize("n_segments", [None, 4])
def test_models_of_one_fit_answer_as_they_do_alone(twice, n_segments) -> None:
    """They read the recordings together; a recording of one sample is one segment for all."""
    X = named_recordings(4, 0)[0] if twice[0].classes_ is not None else DATA.sequences
    new = [*X[:2], X[2][:4]] if n_segments else [*X[:2], X[2][:1]]
    for model in twice:
        agreement = model.agreement_
        assert agreement.fits == twice[0].agreement_.fits
        for X in new:
            rest = n_segments, agreement.classes
            together = answers_of(agreement.scores, agreement.fits, X, *rest)
            alone = answers_of(agreement.scores, range(len(agreement.scores)), X, *rest)
            for one, other in zip(together, alone):
                np.testing.assert_array_equal(one.change_points, other.change_points)
                assert type(one) is type(other)
                if hasattr(one, "names"):
                    np.testing.assert_array_equal(one.names, other.names)


def test_a_recording_left_out_is_weighed_by_the_others(consensus) -> None:
    """Members are split in two, and each half is right where the other is not."""
    table, halves = consensus.cross_fit_, ([*range(8, 81, 8)], [*range(5, 81, 15)])
    camps = [ml.Partition(ends=np.array(ends)) for ends in halves]
    answers = [dict.fromkeys(range(8), camps[c % 2]) for c in range(len(table.answers))]
    first = table.parts.left_out[0]
    truths = [camps[0] if i in first else camps[1] for i in range(8)]
    given = table.given._replace(truths=truths)
    _, _, found = replace(table, answers=tuple(answers), given=given).consensus(0.0)
    assert all(found[i] == (camps[1] if i in first else camps[0]) for i in range(8))


def test_no_boundary_more_or_less_is_a_better_compromise_for_a_recording_left_out() -> None:
    """A segment is worth what the agreement adds, and families weigh the same."""
    uniform = ml.Segmenter(METRICS, combine="uniform", n_folds=2)
    table = uniform.fit(DATA.sequences, DATA.labels).cross_fit_
    np.testing.assert_allclose(uniform.agreement_.weights, [1 / 72] * 36 + [1 / 36] * 18)
    for i, found in uniform.left_out_.items():
        form = ConsensusForm([one[i] for one in table.answers], table.equal_shares())
        form = form.shifted(uniform.agreement_.shift)
        for t in range(1, 80):
            other = np.setxor1d(found.change_points, [t])
            assert form.at(ml.Partition(ends=other)) <= form.at(found) + 1e-9


def test_shares_of_models(consensus) -> None:
    X = NEW.sequences[0]
    ends = consensus.predict_change_points(X)
    shares, near = consensus.boundary_shares(X), consensus.boundary_shares(X, tolerance=2)
    for place, end in enumerate(ends[:-1]):
        found = [s.segment(X).change_points for s in consensus.agreement_.scores]
        expected = np.dot(consensus.agreement_.weights, [end in one for one in found])
        assert shares[place] == pytest.approx(expected)
        close = [np.any(np.abs(one[:-1] - end) <= 2) for one in found]
        assert near[place] == pytest.approx(np.dot(consensus.agreement_.weights, close))


def test_probabilities_are_learned_from_recordings_left_out(consensus, tmp_path) -> None:
    """They rise with the shares, and are right on average where they were learned."""
    found, distances = consensus.left_out_, consensus.rates_.distances
    assert distances.shape == (sum(one.n_clusters - 1 for one in found.values()), 19)
    truths = [ml.Partition.from_labels(labels).change_points for labels in DATA.labels]
    expected = [
        np.abs(end - truths[i][:-1]).min()
        for i, one in found.items()
        for end in one.change_points[:-1]
    ]
    np.testing.assert_array_equal(distances[:, 0], expected)
    loaded = ml.load(ml.save(consensus, tmp_path / "model.npz"))
    shares = np.concatenate(loaded.boundary_shares(NEW.sequences, tolerance=1))
    rates = np.concatenate(loaded.boundary_probabilities(NEW.sequences, tolerance=1))
    assert np.all(np.diff(rates[np.argsort(shares)]) >= 0)
    assert 0.0 <= rates.min() <= rates.max() <= 1.0
    certain = copy.copy(loaded)
    # Of two boundaries that are all true, or all false, the rate is not certain.
    certain.rates_ = replace(loaded.rates_, distances=np.full((2, 19), 3.0), edges=np.inf)
    for tolerance, rate in ((2, 0.25), (3, 0.75)):  # a boundary is true up to the tolerance
        for X in (NEW.sequences, NEW.sequences[0]):
            assert np.all(np.hstack(certain.boundary_probabilities(X, tolerance=tolerance)) == rate)
    # As many boundaries of some share as there are, of which some are true: their rate.
    for true in (30, 90):
        distances = np.zeros((100, 19))
        distances[true:, 0] = 9.0
        certain.rates_ = replace(loaded.rates_, distances=distances, edges=np.inf)
        rates = np.concatenate(certain.boundary_probabilities(NEW.sequences))
        assert rates[shares > 0.999] == pytest.approx(true / 100, abs=1e-3)


@pytest.mark.parametrize("n_segments", [None, 4])
def test_what_is_known_of_new_recordings(consensus, n_segments) -> None:
    """The best compromise of all segmentations that agree with the annotations."""
    X = [one[:8] for one in NEW.sequences]
    labels = np.array([0, 0, -1, -1, -1, 1, 1, 2])
    known = [labels, ml.PartialPartition(8, same=[(0, 5)]), [3, 8], np.full(8, -1)]
    allowed = [ml.PartialPartition(8, labels), known[1], ml.PartialPartition(8, [0] * 3 + [1] * 5)]
    count = None if n_segments is None else [4, 4, 2, 4]
    found = consensus.predict_change_points(X, count, known)
    expected = consensus.expected_loss(X, count, known)
    counts = count or [None] * 4
    scores = consensus.agreement_.scores
    answers = [[s.segment(x, k) for x, k in zip(X, counts)] for s in scores]
    for i, fact in enumerate([*allowed, None]):
        form = ConsensusForm([one[i] for one in answers], consensus.agreement_.weights)
        every = all_segmentations(8, None if count is None else count[i])
        every = [ml.Partition(ends=np.array(ends)) for ends in every]
        shifted, answer = form.shifted(consensus.agreement_.shift), ml.Partition(ends=found[i])
        values = [shifted.at(M) for M in every if fact is None or fact.allows(M)]
        assert shifted.at(answer) == pytest.approx(max(values))
        assert expected[i] == pytest.approx(form.expected_loss(answer))
        assert fact is None or fact.allows(answer)
    assert 7 in found[0]
    assert found[2].tolist() == [3, 8]
    assert len(consensus.boundary_shares(X, count, known=known)[2]) == 1


def test_names() -> None:
    """Labels that return are names; members without names take part in the boundaries."""
    (X, y), (new, truth) = named_recordings(8, 0), named_recordings(4, 1)
    consensus = ml.Segmenter(NAMED, n_folds=2).fit(X, y)
    assert consensus.classes_.tolist() == ["sit", "walk"]
    found = consensus.predict(new)
    assert np.mean(np.concatenate(found) == np.concatenate(truth)) > 0.9
    known = [np.array(["walk"] * 5 + [-1] * (len(one) - 5), dtype=object) for one in truth]
    assert all((one[:5] == "walk").all() for one in consensus.predict(new, known=known))
    with assert_refused(r"names that it has learned, \['sit', 'walk'\], got 'run'"):
        consensus.predict(new[0], known=["run"] * len(new[0]))
    by_rows = ml.Segmenter(METRICS, n_folds=2).fit(X, y)  # no member predicts names
    known[1:] = [None] * (len(new) - 1)
    assert (by_rows.predict(new, known=known)[0][:5] == "walk").all()
    without = ml.Segmenter(METRICS, names=False, n_folds=2).fit(X, y)
    assert without.classes_ is None
    assert -without.score(new, truth) < 0.1


def test_names_that_no_two_groups_share_are_no_names() -> None:
    """Speakers of one group say nothing about those of another."""
    X, y = named_recordings(4, seed=0)
    groups = [0, 0, 1, 1]
    own = [np.char.add(one, str(group)) for one, group in zip(y, groups)]
    frames = Viterbi(ml.views.Posteriors(LogisticRegression(), 1))
    members = {"frames": [frames], **METRICS}
    for labels, names in ((y, ["sit", "walk"]), (own, None)):
        classes = ml.Segmenter(members, n_folds=2).fit(X, labels, groups).classes_
        assert (None if classes is None else classes.tolist()) == names


@pytest.mark.parametrize(
    ("first", "second", "are_names"),
    [
        (["sit", "walk", "lie"], ["sit", "walk", "lie"], True),
        ([3, 1, 2], [1, 2, 3], True),
        ([True, False], [True, False], True),
        ([0, 1, 2], [0, 1, 2], False),
        ([0.5, 1.0, 2.0], [0.0, 1.0], False),
        (["shot 1", "shot 2", "shot 3"], ["shot 1", "shot 2"], False),
        (["sit", "walk"], ["lie", "run"], False),
    ],
)
@pytest.mark.parametrize("kind", [None, object])
def test_labels_that_occur_once_in_each_recording(kind, first, second, are_names) -> None:
    y = [np.repeat(np.array(one, dtype=kind), 20) for one in (first, second)]
    X = [np.random.default_rng(0).normal(size=(len(one), 2)) for one in y]
    fitted = ml.Segmenter(ml.ChangePointMetricLearner(), n_folds=2, verbose=False)
    with warnings.catch_warnings(action="ignore"):
        assert bool(fitted.fit(X, y).labels_) == are_names


def test_a_change_of_rhythm_is_found_in_a_single_signal() -> None:
    """Waves of equal size with periods of 20, 10 and 5 samples: means and deviations are alike."""
    noise = 0.2 * np.random.default_rng(0).normal(size=(4, 360, 1))
    y = [np.repeat(np.roll([0, 1, 2, 1, 0, 2], i), 60) for i in range(4)]
    periods = [np.array([20, 10, 5])[kinds] for kinds in y]
    X = [np.sin(np.cumsum(2 * np.pi / p))[:, None] + e for p, e in zip(periods, noise)]
    families = default_members()
    losses = {}
    for kind in ("details", "convolutions", "windows"):
        some = {name: one for name, one in families.items() if name.startswith(kind)}
        found = ml.Segmenter(some, names=False, n_folds=2, verbose=False).fit(X, y).validation_
        losses[kind] = found.loss
    assert max(losses["details"], losses["convolutions"]) < 0.5 * losses["windows"]


def test_default_members_learn_from_partial_labels_and_names() -> None:
    plain, named, wide = (set(default_members(*one)) for one in ((), (CLASSES,), (None, 41)))
    assert wide < plain < named
    known = [np.where(np.arange(80) < 60, labels, -1) for labels in DATA.labels]
    two = dict(list(default_members().items())[:2])
    consensus = ml.Segmenter(two, n_folds=2).fit(DATA.sequences[:4], known[:4])
    assert -consensus.score(DATA.sequences, known) < 0.1
    # Probabilities come from labeled stretches, but not of boundaries near their open ends
    edges = [60 - t for one in consensus.left_out_.values() for t in one.change_points if t < 60]
    np.testing.assert_array_equal(consensus.rates_.edges, edges)
    (rates,) = consensus.boundary_probabilities(DATA.sequences[:1], tolerance=2)
    assert np.all((rates >= 0) & (rates <= 1))
    with assert_refused("more than 60 rows from rows without a label, to learn probabilities from"):
        consensus.boundary_probabilities(DATA.sequences, tolerance=60)


def partly(y: list, keep: Callable[[int], NDArray]) -> list:
    """Labels of the rows that ``keep(T)`` selects, −1 elsewhere."""
    return [np.where(keep(len(one)), one, -1) for one in y]


def metric_of(X: list, y: list, **parameters: Any) -> tuple[NDArray, NDArray]:
    """The metric of a learner in a Segmenter, and of the same learner alone."""
    solver = ml.BundleDual(tolerance=1e-2)
    learner = ml.ChangePointMetricLearner(ml.DiagonalMetric(), solver=solver, **parameters)
    members = {"diagonal": [learner]}
    fitted = ml.Segmenter(members, n_folds=2, verbose=False).fit(X, y)
    alone = clone(learner).fit(X, y).components_
    return fitted.cross_fit_.models[0][-1].components_, alone


@pytest.mark.filterwarnings("ignore:.* learned a penalty of 0")  # from labels of single rows
def test_members_learn_from_labeled_stretches_and_the_rows_between_two_that_are_close() -> None:
    X, y = DATA.sequences[:4], DATA.labels[:4]
    known = partly(y, lambda T: np.arange(T) < 60)
    parts = [one[:60] for one in X], [one[:60] for one in y]
    found, whole = metric_of(X, known)
    np.testing.assert_array_equal(found, metric_of(*parts)[0])
    assert np.abs(found - whole).max() > 1e-3 * np.abs(whole).max()
    # two stretches of a recording count by their lengths
    rows = [slice(0, 20), slice(60, 80)]
    known = partly(y, lambda T: (np.arange(T) < 20) | (np.arange(T) >= 60))
    cut = [[one[part] for one in some for part in rows] for some in (X, y)]
    np.testing.assert_array_equal(metric_of(X, known)[0], metric_of(*cut)[1])
    # close stretches stay together, and so do labels of single rows, which tell only boundaries
    for keep in (
        lambda T: (np.abs(np.arange(T) - 40) > 2) & (np.arange(T) >= 15),
        lambda T: np.arange(T) % 3 == 0,
        lambda T: np.arange(T) % 20 < 2,
    ):
        np.testing.assert_array_equal(*metric_of(X, partly(y, keep)))
    # annotated regions need the rows around them
    firsts = [ml.Partition.from_runs(one).change_points[:1] for one in y]
    regions = [ml.PartialPartition(80, None, one, (), [(50, 70, AT_MOST_ONE)]) for one in firsts]
    np.testing.assert_array_equal(*metric_of(X, regions))


def test_every_part_learns_even_from_labels_without_a_boundary_and_from_few_rows() -> None:
    """Without a labeled boundary in some part, its members see whole recordings."""
    X, y = DATA.sequences[:4], DATA.labels[:4]
    first = [ml.Partition.from_runs(one).change_points[0] for one in y]
    known = [
        np.where(np.arange(len(one)) < t + 10 * (i == 2), one, -1)
        for i, (one, t) in enumerate(zip(y, first))
    ]
    learner = ml.ChangePointMetricLearner()
    for every, labels in (
        (1, known),
        (30, partly(y, lambda T: np.abs(np.arange(T) - T // 2) < 12)),
    ):
        member = Member("diagonal", learner, every=every)
        fitted = ml.Segmenter({"diagonal": [member]}, n_folds=2, verbose=False).fit(X, labels)
        assert all(len(one.components_) for one in fitted.cross_fit_.models[0])


def test_a_segment_that_is_labeled_in_part_may_be_shorter_than_the_smallest_one() -> None:
    X, y = DATA.sequences[:4], DATA.labels[:4]
    sizes = [ml.Partition.from_runs(one).sizes for one in y]
    least = int(min(map(min, sizes)))
    known = partly(y, lambda T: (np.arange(T) > 30) & (np.arange(T) < 60))
    assert any(np.diff(np.flatnonzero(np.diff(one[31:60])), prepend=-1).min() < least for one in y)
    found, _ = metric_of(X, known, min_size=least)
    assert len(found) > 0
    assert np.isfinite(found).all()
    for size in ("3", None, 2.5):
        with assert_refused("a whole min_size"):
            metric_of(X, known, min_size=size)


def test_penalties_are_tuned_on_labeled_rows_and_eight_usual_segments_around() -> None:
    """As on recordings that have no other rows, and a smallest segment more on each side."""
    data, labeled = make_change_points(4, 240, 6, 3, (24, 24), random_state=2), slice(100, 140)
    sizes = [ml.Partition.from_runs(one[labeled]).sizes for one in data.labels]
    around = 8 * int(np.median(np.concatenate(sizes))) + 1
    known = partly(data.labels, lambda T: (np.arange(T) >= 100) & (np.arange(T) < 140))
    tuned = []
    for more in (100, around, around - 20):
        rows = slice(100 - more, 140 + more)
        cut = [[one[rows] for one in some] for some in (data.sequences, known)]
        fitted = ml.Segmenter(MEMBER, n_folds=2, verbose=False).fit(*cut)
        scores = [c.scores[0] for c in fitted.cross_fit_.candidates if not c.rule.towards]
        tuned.append({score.unit: score.penalty for score in scores})
    assert tuned[0][None] == pytest.approx(tuned[1][None], rel=1e-9)
    assert tuned[0][None] != pytest.approx(tuned[2][None], rel=1e-9)
    assert tuned[0]["variance"] != pytest.approx(tuned[1]["variance"], rel=1e-9)


def test_with_few_labels_penalties_go_by_the_rate_of_labeled_boundaries_too() -> None:
    """A quarter of each recording is labeled, so three quarters tell nothing but their rows."""
    members = MEMBER
    X, y = DATA.sequences[:6], DATA.labels[:6]
    few = [np.where(np.arange(len(one)) < 40, one, -1) for one in y]
    fitted = ml.Segmenter(members, n_folds=3, verbose=False).fit(X, few)
    rules = [one.rule for one in fitted.cross_fit_.candidates]
    assert [rule.towards for rule in rules if rule.unit is None] == [0.0, 0.5, 1.0]
    tuned, both, rate = (
        one.scores[0].penalty for one in fitted.cross_fit_.candidates if one.rule.unit is None
    )
    assert both == pytest.approx(np.sqrt(tuned * rate))
    # "by the labeled rate" finds as many boundaries in unlabeled rows, or fewer where numbers jump
    scores = next(one for one in fitted.cross_fit_.candidates if one.rule.towards == 1.0).scores
    parts = fitted.cross_fit_.parts.left_out
    ends = [score.segment(X[i]).change_points for score, some in zip(scores, parts) for i in some]
    hidden = sum(np.count_nonzero((one >= 40) & (one < len(X[0]))) for one in ends)
    usual, least, most = fitted.expected_length_
    assert least < usual < most
    expected = sum(len(x) - 40 for x in X) / usual
    assert 0.7 * expected <= hidden <= expected + 0.5
    assert "rows on average, between" in fitted.summary()["segments expected"]
    # A length that is stated counts as ten more boundaries
    long = ml.Segmenter(members, n_folds=3, verbose=False, segment_length=500).fit(X, few)
    assert long.expected_length_[0] > 2 * usual
    assert "stated length of 500 rows" in long.summary()["segments expected"]
    whole = ml.Segmenter(members, n_folds=3, verbose=False, segment_length=500).fit(X, y)
    assert whole.expected_length_ is None
    np.testing.assert_array_equal(
        whole.agreement_.weights,
        ml.Segmenter(members, n_folds=3, verbose=False).fit(X, y).agreement_.weights,
    )


def test_labels_that_tell_no_rate_of_boundaries_leave_multiples_of_the_tuned_penalty() -> None:
    """At most one boundary may be none, so nobody knows how many to expect, unless it is stated."""
    members = MEMBER
    X, regions = DATA.sequences[:4], [(t, t + 20, AT_MOST_ONE) for t in (0, 20, 50)]
    y = [ml.PartialPartition(80, regions=regions)] * 4
    fitted = ml.Segmenter(members, n_folds=2, verbose=False).fit(X, y)
    rules = [one.rule for one in fitted.cross_fit_.candidates if one.rule.unit is None]
    assert [rule.multiple for rule in rules] == [0.5, 1.0, 2.0]
    assert fitted.expected_length_ is None
    assert "segments expected" not in fitted.summary()
    stated = ml.Segmenter(members, n_folds=2, verbose=False, segment_length=20).fit(X, y)
    assert stated.expected_length_[0] == pytest.approx(20, rel=0.1)


@pytest.mark.parametrize("combine", ["consensus", "best"])
def test_labels_that_allow_a_boundary_everywhere_do_not_divide_all_rows(combine) -> None:
    """No label contradicts a small penalty, so only the labeled rate says how many to find."""
    data = make_change_points(4, 200, 4, 3, (5, 8), random_state=1)
    ends = [np.flatnonzero(np.diff(y)) + 1 for y in data.labels]
    near = [[(max(t - 9, 0), min(t + 9, 200), AT_LEAST_ONE) for t in one[::2]] for one in ends]
    y = [ml.PartialPartition(200, regions=regions) for regions in near]
    members = MEMBER
    fitted = ml.Segmenter(members, n_folds=2, combine=combine, verbose=False)
    found = fitted.fit(data.sequences, y).predict_change_points(data.sequences)
    assert sum(map(len, found)) < 2 * sum(len(one) + 1 for one in ends)


def test_changes_alone_are_all_changes_from_the_first_to_the_last() -> None:
    data = make_change_points(4, 200, 4, 3, (5, 8), random_state=1)
    ends = [np.flatnonzero(np.diff(y)) + 1 for y in data.labels]
    alone = [ml.PartialPartition(200, change_points=one[:3]) for one in ends]
    rows = np.arange(200)
    between = [
        np.where((one[0] - 1 <= rows) & (rows <= one[2]), np.searchsorted(one, rows, "right"), -1)
        for one in ends
    ]
    new = ml.Segmenter(MEMBER, n_folds=2, verbose=False)
    with pytest.warns(UserWarning, match="was given changes alone, so it takes them as all"):
        one = clone(new).fit(data.sequences, alone)
    other = clone(new).fit(data.sequences, between)
    for X in data.sequences:
        np.testing.assert_array_equal(*(some.predict_change_points(X) for some in (one, other)))


def test_changes_alone_keep_names_and_need_three_segments() -> None:
    data = make_change_points(4, 200, 4, 3, (5, 8), random_state=1)
    ends = [np.flatnonzero(np.diff(y)) + 1 for y in data.labels]
    new = ml.Segmenter(MEMBER, n_folds=2, verbose=False)
    named = [np.full(200, -1, dtype=object) for _ in ends]
    for labels, some in zip(named, ends):
        for i, t in enumerate(some):
            labels[t - 1 : t + 1] = "ab"[i % 2], "ba"[i % 2]
    with pytest.warns(UserWarning, match="was given changes alone"):
        fitted = clone(new).fit(data.sequences, named)
    assert set(fitted.predict(data.sequences[0])) == {"a", "b"}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        first = ml.PartialPartition(200, change_points=ends[0][:3])
        found = clone(new).fit(data.sequences[:1], [first]).predict_change_points(data.sequences)
    assert not any("changes alone" in str(one.message) for one in caught)
    assert max(map(len, found)) < 100  # almost every row was a segment


def test_a_single_recording_with_all_labels_is_not_partly_labeled() -> None:
    """Its parts are, but together they tell how many boundaries there are."""
    X, y = (
        np.vstack(DATA.sequences[:4]),
        np.concatenate([one + 10 * i for i, one in enumerate(DATA.labels[:4])]),
    )
    for labels, multiples in ((y, {0.5, 1.0, 2.0}), (np.where(np.arange(320) < 280, y, -1), {1.0})):
        with pytest.warns(UserWarning, match="labels of one group"):
            fitted = ml.Segmenter(TunedSegmenter(), n_folds=3, verbose=False).fit([X], [labels])
        assert {one.rule.multiple for one in fitted.cross_fit_.candidates} == multiples


def test_threads_change_no_answer_and_leave_the_filters_of_warnings_alone(monkeypatch) -> None:
    """Filters are of all threads: set in one, they would come and go in the others."""
    usual, threads = warnings.catch_warnings, set()
    X, y = DATA.sequences, DATA.labels

    def watched(*args, **options):
        threads.add(threading.current_thread())
        return usual(*args, **options)

    monkeypatch.setattr(warnings, "catch_warnings", watched)
    zero = ml.ChangePointMetricLearner(regularizer=ml.L1(1e6))  # of which each fit warns
    members = {"zero": [zero], "whitened": [ml.WhitenedMetricLearner()]}
    with usual(record=True) as caught:
        warnings.simplefilter("always")
        one, several = (ml.Segmenter(members, n_folds=2, n_jobs=n).fit(X, y) for n in (1, 3))
        for data in (X, X[0]):
            np.testing.assert_equal(several.predict(data), one.predict(data))
    assert threads == {threading.main_thread()}
    assert np.array_equal(several.cross_fit_.losses, one.cross_fit_.losses)
    assert np.array_equal(several.agreement_.weights, one.agreement_.weights)
    assert all("held out" in str(one.message) for one in caught)


def test_other_models_answer_one_by_one_for_many_recordings_and_for_one(monkeypatch) -> None:
    usual, threads = EqualCuts.segmented, set()

    def watched(*args):
        threads.add(threading.current_thread())
        return usual(*args)

    monkeypatch.setattr(EqualCuts, "segmented", watched)
    fitted = ml.Segmenter({"cuts": [EqualCuts()], **MEMBER}, n_folds=2, n_jobs=2, verbose=False)
    fitted.fit(DATA.sequences, DATA.labels).predict(DATA.sequences)
    halves = np.repeat([0, 1], 40)
    with pytest.warns(UserWarning, match="nothing, because too few boundaries are labeled"):
        alone = ml.Segmenter(EqualCuts(), verbose=False).fit(DATA.sequences[:1], [halves])
    assert alone.predict(DATA.sequences[0]).tolist() == halves.tolist()
    assert threads == {threading.main_thread()}


def test_names_and_numbers_are_used_as_asked() -> None:
    X, y = named_recordings(6, 0)
    frames = {"frames": NAMED["frames"]}
    for options, groups in (({}, None), ({"combine": "best"}, None), ({}, [0] * 6)):
        segmenter = ml.Segmenter(frames, names=False, n_folds=2, verbose=False, **options)
        found = segmenter.fit(X, y, groups).predict(X[0])
        assert found.dtype.kind == "i"
        assert len(segmenter.predict_change_points(X[0], n_segments=6)) == 6
    follower = segmenter.fit(X, y).follower()
    assert follower.validation_ is follower.choice_ is None
    assert follower.summary()["boundaries found"] == "not known"  # and not for lack of recordings


def test_groups_follow_recordings_that_are_cut_or_left_out() -> None:
    X, y = named_recordings(4, 0)
    y[0][20:25], y[1][:-1] = "-1", "-1"  # r0 becomes two stretches, and r1 one row
    names = list("abcd")
    data = ml.datasets.LabeledSequences("d", X, y, names, names, ["p", "q"])
    with (
        pytest.warns(UserWarning, match="count as unlabeled"),
        pytest.warns(UserWarning, match=r"stretches of one row .* are left out: b\."),
    ):
        fitted = ml.Segmenter(METRICS, n_folds=2, verbose=False).fit(data, groups=[0, 1, 2, 2])
    assert fitted.cross_fit_.parts.groups.tolist() == [0, 0, 1, 1]
    with assert_refused("y=None for LabeledSequences"):
        ml.Segmenter(METRICS).fit(data, y)
    for kind in (np.array, pd.Series, partial(pd.Series, dtype=object), pd.Categorical):
        for one in (ml.Segmenter(MEMBER, n_folds=2, verbose=False), MEMBER["diagonal"][0]):
            with pytest.warns(UserWarning, match="the label '-1' is a text, so it counts as a cl"):
                one.fit(X, list(map(kind, y)))


def test_a_tuned_penalty_is_best_for_names_that_were_held_out() -> None:
    """A classifier that has memorized its rows would need no penalty there."""
    X, y = named_recordings(4, 0)
    tree = ml.views.Posteriors(DecisionTreeClassifier(random_state=0), 0, 2)
    codes = [np.searchsorted(CLASSES, one) for one in y]
    labels = ml.views.Labels(list(map(ml.Partition.from_runs, y)), codes, CLASSES)
    rows = clone(tree).fit_transform(X, labels)
    penalty = Viterbi(tree).fit(X, y).penalty_
    assert penalty == Viterbi(None).fit(rows, y).penalty_
    assert penalty > Viterbi(None).fit(clone(tree).fit(X, labels).transform(X), y).penalty_


def test_default_members_may_see_some_of_the_columns() -> None:
    X, y = named_recordings(4, 0)
    n, rng = X[0].shape[1], np.random.default_rng(0)
    wide = [np.column_stack([x, rng.normal(size=(len(x), 2))]) for x in X]
    some = ("scaled, whitened", "trees, own scale, Viterbi", "windows, own scale, diagonal")
    found = []
    for data, before in ((X, None), (wide, ml.views.Columns(0, n))):
        members = default_members(CLASSES, n, before=before)
        members = {name: members[name] for name in some}
        found.append(ml.Segmenter(members, n_folds=2, verbose=False).fit(data, y))
    assert np.array_equal(*(one.cross_fit_.losses for one in found))
    for one, other in zip(found[0].predict(X), found[1].predict(wide)):
        assert np.array_equal(one, other)


def test_a_choice_tries_the_tuned_penalty_with_partial_labels_where_it_was_left_open() -> None:
    """Not only the one halfway to that by the labeled rate."""
    X, y = named_recordings(4, 0)
    known = [np.where(np.arange(len(one)) < 0.7 * len(one), one == "walk", -1) for one in y]
    view, found = ml.views.Posteriors(LogisticRegression(), 0, 1), []
    for penalty in ("tuned", None):
        members = {"a": [Member("a", Viterbi(None, penalty=penalty), view)]}
        fitted = ml.Segmenter(members, combine="best", names=True, n_folds=2, verbose=False)
        found.append(fitted.fit(X, known))
    assert np.array_equal(*(one.cross_fit_.losses for one in found))
    assert len(found[0].cross_fit_.candidates) == 2
    tuned, left_open = (one.agreement_.scores[0].penalty for one in found)
    assert left_open == pytest.approx(tuned)


def test_log_probabilities_of_any_size_and_in_the_order_of_names() -> None:
    """A constant in all columns does not matter, even if exp of the column is 0."""
    y = named_recordings(2, 0)[1]
    X = [np.log(np.where(one[:, None] == CLASSES, 0.7, 0.3)) for one in y]
    found = [Viterbi(None).fit([x - far for x in X], y) for far in (0.0, 2000.0)]
    for model, far in zip(found, (0.0, 2000.0)):
        np.testing.assert_allclose(model.predict_proba(X[0] - far), np.exp(X[0]))


def test_models_vote_for_names_even_if_no_names_were_left_out() -> None:
    """All votes then count the same; with weights of 0, each segment had the first name."""
    y = named_recordings(4, 0)[1]
    X = [np.log(np.where(one[:, None] == CLASSES, 0.7, 0.3)) for one in y]
    ends = [np.append(np.flatnonzero(one[1:] != one[:-1]) + 1, len(one)) for one in y[2:]]
    members = {"decoded": [Viterbi(None, classes=CLASSES)]}
    made = ml.Segmenter(members, names=True, n_folds=2).fit(X, [*y[:2], *ends], [0, 0, 1, 1])
    for i in (0, 1):  # their weights come from recordings without names
        np.testing.assert_array_equal(CLASSES[made.left_out_[i].sample_names], y[i])


def test_recordings_that_teach_nothing_stop_no_member() -> None:
    """They are in no part, wherever they are in the list; one recording left is divided."""
    X, y = named_recordings(5, 0)
    unlabeled = X[0], np.full(len(X[0]), -1)
    for lacking in ((X[0][:1], y[0][:1]), unlabeled):

        def fits(members, X, y, lacking=lacking):
            """With such a recording at the start, and without it."""
            return [
                ml.Segmenter(members, n_folds=2, verbose=False).fit([*more, *X], [*labels, *y])
                for more, labels in ([[one] for one in lacking], ([], []))
            ]

        after, before = fits(NAMED, X[1:], y[1:])
        assert sorted(after.left_out_) == [1, 2, 3, 4]
        np.testing.assert_array_equal(after.agreement_.weights, before.agreement_.weights)
        for new in X:
            np.testing.assert_array_equal(after.predict(new), before.predict(new))
    long = [np.vstack(X[1:4])], [np.hstack(y[1:4])]  # eleven boundaries
    alone, other = fits({"diagonal": NAMED["diagonal"]}, *long)
    assert len(alone.cross_fit_.parts.left_out) == 2
    np.testing.assert_array_equal(alone.predict(X[2]), other.predict(X[2]))
    few, same = fits(METRICS, X[1:2], y[1:2])  # three boundaries, so nothing is left out
    np.testing.assert_array_equal(few.predict(X[2]), same.predict(X[2]))


def test_columns_in_another_order_are_refused_at_any_rate() -> None:
    frames = [pd.DataFrame(X, columns=list("abcdef")) for X in DATA.sequences]
    segmenter = ml.Segmenter(METRICS, n_folds=2, rate=1.0, verbose=False).fit(frames, DATA.labels)
    twice = frames[0].loc[frames[0].index.repeat(2)]
    times = evenly(len(twice), 2.0)
    with pytest.warns(UserWarning, match="rows are averaged"):
        found = segmenter.segments(twice, times)
    assert [end for _, end, _ in found] == segmenter.predict_change_points(frames[0]).tolist()
    with (
        pytest.warns(UserWarning, match="rows are averaged"),
        assert_refused("feature names it was fitted with"),
    ):
        segmenter.segments(twice[list("bacdef")], times)


def test_labeled_stretches_are_validated() -> None:
    """Of partly labeled recordings, the loss is that of labeled stretches, as in KnownLoss."""
    X, y = named_recordings(6, 0)
    masked = [np.array(one, dtype=object) for one in y]
    for k, one in enumerate(masked):
        one[: 3 * k] = -1
    segmenter = ml.Segmenter(METRICS, n_folds=3, verbose=False).fit(X, masked)
    truths = [ml.PartialPartition(len(one), one) for one in masked]
    losses = [
        ml.problem.KnownLoss().squared_norm(segmenter.left_out_[i], truths[i]) for i in range(6)
    ]
    found = segmenter.validation_
    assert found.loss == pytest.approx(np.mean(losses))
    whole = [ml.Partition.from_runs(one[one != -1]).n_clusters - 1 for one in masked]
    assert (found.boundaries, found.one_segment) == (sum(whole), np.mean(whole))


@pytest.mark.parametrize("form", ["names", "partitions", "equal neighbors"])
def test_members_learn_from_every_third_row_and_answer_for_all(form) -> None:
    X, y = named_recordings(4, 0)
    truths = [ml.Partition.from_runs(one) for one in y]
    fewer = [ml.Partition.from_labels(truth.labels[::3]) for truth in truths]
    given: Any = {"names": y, "partitions": truths}.get(form)
    if form == "equal neighbors":
        given = [LabeledPartition(N.change_points, np.full(N.n_clusters, "sit")) for N in truths]
    member = Member("metric", ml.ChangePointMetricLearner(), every=3)
    segmenter = ml.Segmenter({"metric": [member]}, n_folds=2, verbose=False).fit(X, given)
    expected = ml.ChangePointMetricLearner().fit([one[::3] for one in X], fewer)
    found = segmenter.cross_fit_.models[0][-1]
    np.testing.assert_array_equal(found.components_, expected.components_)
    assert [len(segmenter.left_out_[i].labels) for i in range(4)] == list(map(len, X))


def steps(n: int):
    """Two recordings of eight segments with n rows each, and their names."""
    rng, names = np.random.default_rng(0), np.repeat([0, 1, 2, 3, 0, 1, 2, 3], n)
    return [rng.normal(size=(8 * n, 1)) + 9.0 * names[:, None] for _ in range(2)], names


@pytest.mark.parametrize(("labeled", "every"), [(2000, 1), (8000, 2)])
def test_thinned_members_learn_from_eight_thousand_labeled_rows(labeled, every) -> None:
    X, names = steps(1000)
    y = [np.where(np.arange(8000) < labeled, names, -1)] * 2
    whitened = ml.estimators.Member("whitened", ml.WhitenedMetricLearner(), every=None)
    segmenter = ml.Segmenter({"whitened": [whitened]}, verbose=False).fit(X, y)
    assert [member.every for member in segmenter.cross_fit_.members] == [every]


def test_a_number_among_texts_is_no_text(recwarn) -> None:
    """Lists of texts and −1 are read as they are."""
    X, y = named_recordings(3, 0)
    y = [[-1, *one[1:].tolist()] for one in y]
    segmenter = ml.Segmenter(METRICS, n_folds=3, verbose=False).fit(X, y)
    assert segmenter.labels_ == ["sit", "walk"]
    assert not [one for one in recwarn if "counts as a class" in str(one.message)]


def test_stretches_without_a_boundary_tell_nothing_of_boundaries(recwarn) -> None:
    """Where only the rows around changes are unlabeled, no boundary can be found or missed."""
    X, names = steps(25)
    unsure = (np.arange(200) + 2) % 25 < 4
    y = [np.where(unsure, -1, names)] * 2
    segmenter = ml.Segmenter(METRICS, n_folds=2, verbose=False).fit(X, y)
    assert segmenter.validation_ is None
    segmenter.fit(X, [np.zeros(200)] * 2)
    assert [one for one in recwarn if "labels that put all samples of ever" in str(one.message)]
    assert not [one for one in recwarn if "no better than" in str(one.message)]


def test_default_members_that_fail_are_told_with_their_reason(tmp_path) -> None:
    """Without the first recording, there is only one name, and no boundary."""
    X, y = named_recordings(2, 0)
    y[1][:] = y[0][0]
    segmenter = ml.Segmenter(n_folds=2, verbose=False)
    with pytest.warns(UserWarning, match="members of 12 of .. families are left out") as caught:
        segmenter.fit(X, y)
    (note,) = [str(one.message) for one in caught if "left out. " in str(one.message)]
    loaded = ml.load(ml.save(segmenter, tmp_path / "model.npz"))
    told = loaded.summary()["members left out"]
    for family, why in {
        "expected boundaries, scaled, diagonal": "ExpectedBoundaries needs a labeled boundary",
        "logistic, scaled, Viterbi": "Posteriors needs samples of two names",
    }.items():
        assert why in loaded.missing_[family]
        for text in (note, told):
            assert text.count(repr(family)) == text.count(why) == 1
    assert not {share.family for share in loaded.shares_} & set(loaded.missing_)


def test_neighbors_of_one_label_are_joined() -> None:
    """The learner separates three levels, which have two labels."""
    X = (
        np.repeat([0.0, 4.0, 5.0, 0.0, 5.0, 4.0], 10)[:, None]
        + 0.1 * np.sin(np.arange(60.0))[:, None]
    )
    y = np.repeat(["low", "high", "low", "high"], [10, 20, 10, 20])
    data = ml.datasets.LabeledSequences("d", [X], [y], ["g"], ["s"], ["x"])
    segmenter = ml.Segmenter(ml.ChangePointMetricLearner()).fit(data)
    scores = [score.at(1e-3) for score in segmenter.agreement_.scores]
    segmenter.agreement_ = replace(segmenter.agreement_, scores=scores)
    assert len(segmenter.predict_change_points(X)) == 6
    assert [label for *_, label in segmenter.segments(X)] == ["low", "high"] * 2


def test_the_summary_tells_on_how_many_groups_it_rests() -> None:
    X, y = named_recordings(6, 0)
    n = sum(1 + np.count_nonzero(one[1:] != one[:-1]) for one in y)
    rests = {}
    for n_groups in (6, 3, 1):
        segmenter = ml.Segmenter(METRICS, n_folds=2, verbose=False)
        rests[n_groups] = segmenter.fit(X, y, np.arange(6) % n_groups).summary()["rests on"]
        assert "members left out" not in segmenter.summary()
    assert rests[6] == f"6 independent groups, {n} labeled segments"
    for few, text in ((3, "From 3 groups nobody can"), (1, "From 1 group nobody can")):
        assert f"{n} labeled segments. {text} know how others differ" in rests[few]


def test_labels_of_several_kinds_keep_their_names_where_rows_are_missing() -> None:
    X, y = named_recordings(3, 0)
    X[0][5] = np.nan
    partial = y[1].astype(object)
    partial[:10] = -1
    N, learner = (
        ml.Partition.from_runs(y[0]),
        ml.NamedSegmentLearner(emissions=ml.views.Neighbors(0)),
    )
    given = LabeledPartition(N.change_points, y[0][N.change_points - 1])
    segmenter = ml.Segmenter(learner, n_folds=2, verbose=False)
    with pytest.warns(UserWarning, match="1 of .* rows have no value"):
        segmenter.fit(X, [given, partial, ml.Partition.from_runs(y[2]).change_points])
    assert segmenter.classes_.tolist() == sorted(set(y[0]))


def test_names_are_predicted_as_they_were_given_by_members_without_names_too(tmp_path) -> None:
    X, y = named_recordings(4, 0)
    numbers = {name: 10 * i for i, name in enumerate(sorted(set(np.concatenate(y).tolist())))}
    coded = [np.array([numbers[name] for name in one.tolist()]) for one in y]
    segmenter = ml.Segmenter({"one": [ml.WhitenedMetricLearner()]}, n_folds=2, verbose=False)
    for labels in (y, coded):
        fitted = segmenter.fit(X, labels)
        assert fitted.classes_ is None
        for one in (fitted, ml.load(fitted.save(tmp_path / "model.npz"))):
            found = one.predict(X)
            right = np.mean([np.mean(a == b) for a, b in zip(found, labels)])
            assert right > 0.8
            assert all(a.dtype.kind == labels[0].dtype.kind for a in found)
            ends = one.predict_change_points(X[0])
            spelled = [
                name for start, end, name in one.segments(X[0]) for _ in range(int(end - start))
            ]
            assert spelled == found[0].astype(str).tolist()
            assert set(np.flatnonzero(found[0][1:] != found[0][:-1]) + 1) <= set(ends.tolist())


@pytest.mark.parametrize(("combine", "known"), [("consensus", 70), ("uniform", 120), ("best", 70)])
def test_quiet_recordings_are_not_cut_at_every_row_by_penalties_of_positions(
    combine: str, known: int
) -> None:
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(4), 30)
    noise = rng.normal(size=(8, 120, 3))
    means = 4 * rng.normal(size=(8, 4, 3))
    X = [np.exp(rng.uniform(-1.5, 1.5)) * (m[labels] + e) for m, e in zip(means, noise)]
    learner = ml.ChangePointMetricLearner(penalty=ml.FeaturePenalty((np.std,)))
    segmenter = ml.Segmenter({"one": [learner]}, combine=combine, n_folds=4, verbose=False)
    given = np.where(np.arange(120) < known, labels, -1)
    ends = segmenter.fit(X, [given] * 8).predict_change_points([X[0], *(0.01 * noise)])
    assert {30, 60, 90, 120} <= set(ends[0].tolist())
    assert len(ends[0]) <= 6
    assert [len(one) for one in ends[1:]] == [1] * 8


INDICES: dict[str, Callable[[pd.DatetimeIndex], pd.Index]] = {
    "stamps of a zone": lambda clock: clock.tz_localize("Europe/Paris"),
    "texts": lambda clock: clock.astype(str),
    "periods": lambda clock: clock.to_period("ms"),
    "durations of Python": lambda clock: pd.Index([*(clock - clock[0])], dtype=object),
    "a level": lambda clock: pd.MultiIndex.from_arrays([["a"] * len(clock), clock]),
}


@pytest.mark.parametrize("kind", INDICES)
def test_segments_of_a_frame_have_the_times_of_its_index(kind: str) -> None:
    X, y = named_recordings(3, 0)
    start = pd.Timestamp("2026-03-01 08:00")
    clocks = [start + pd.to_timedelta(np.arange(len(x)) / 20, unit="s") for x in X]
    frames = [pd.DataFrame(x, index=INDICES[kind](clock)) for x, clock in zip(X, clocks)]
    plain, timed = (
        ml.Segmenter({"one": [ml.WhitenedMetricLearner()]}, n_folds=2, rate=rate, verbose=False)
        for rate in (None, 20.0)
    )
    for segmenter in (plain, timed):
        found = segmenter.fit(frames, y).segments(frames[0])
        rows = segmenter.segments(X[0])
        scale = 20.0 if segmenter is plain else 1.0
        assert [end for _, end, _ in found] == pytest.approx([end / scale for _, end, _ in rows])
    slow = frames[0].set_axis(start + pd.to_timedelta(np.arange(len(X[0])), unit="s"))
    with pytest.raises(ValueError, match="has 1 rows per second, but the model needs 20"):
        timed.segments(slow)
    assert plain.segments(slow) == plain.segments(X[0])
    words = r"counts (40|1) row\(s\) per second, but by its index data set 0 has 20; pass rate=20"
    for other in (clone(timed).set_params(rate=40.0), clone(plain).set_params(segment_length=2.0)):
        with pytest.warns(UserWarning, match=words):
            other.fit(frames, y)
    names = [f"row {i}" for i in range(len(X[0]))]
    assert plain.segments(frames[0].set_axis(names)) == plain.segments(X[0])
    again = pd.concat([frames[0][:1], frames[0][:-1]])
    remedy = "drop one of them, or average these rows (frame.groupby(level=0).mean())."
    with pytest.raises(ValueError, match=f"{re.escape(remedy)}$"):
        plain.segments(again)
    with pytest.raises(ValueError, match="segments needs one recording, got a list; call it for"):
        plain.segments(X)


@pytest.mark.parametrize("kind", ["Int64", "Float64", "int64[pyarrow]"])
@pytest.mark.filterwarnings("ignore:Segmenter.segments has 20 rows per second and the model 10")
def test_missing_values_of_a_frame_are_those_of_an_array(kind: str) -> None:
    """With times, too, at twice the rate of the model: known values are averaged."""
    if "pyarrow" in kind:
        pytest.importorskip("pyarrow")
    X, y = named_recordings(3, 0)
    X = [np.rint(10 * x) for x in X]
    members = {"one": [ml.WhitenedMetricLearner()]}
    model = ml.Segmenter(members, view=ml.views.LeaveOut(), rate=10.0, n_folds=2, verbose=False)
    model.fit(X, y)
    rows = np.repeat(X[0], 2, axis=0)
    clock = pd.to_timedelta(np.arange(len(rows)) / 20, unit="s")
    frame = pd.DataFrame(rows, index=clock).astype(kind)
    frame.iloc[4:6, 1], rows[4:6, 1] = pd.NA, np.nan
    plain, timed = pd.DataFrame(rows), pd.DataFrame(rows, index=clock)
    assert model.predict(frame).tolist() == model.predict(plain).tolist()
    with pytest.warns(UserWarning, match="20 rows per second and the model 10, so rows are aver"):
        assert model.segments(frame) == model.segments(timed)
    frame[0] = "a"
    with pytest.raises(ValueError, match="array of real numbers in the data set, got something"):
        model.segments(frame)


class Doubled(BaseEstimator):
    """A view with the methods of the protocol alone."""

    reach = (0, 0)

    def fit(self, X: Any, y: Any = None, groups: Any = None) -> Any:
        return self

    def transform(self, X: Any) -> Any:
        return [2.0 * np.asarray(x) for x in X]

    def fit_transform(self, X: Any, y: Any = None, groups: Any = None) -> Any:
        return self.transform(X)


def test_a_view_needs_only_the_methods_of_the_protocol() -> None:
    X, y = named_recordings(4, 0)
    plain = ml.ChangePointMetricLearner(verbose=False)
    alone = ml.ChangePointMetricLearner(view=Doubled(), verbose=False)
    wanted = plain.fit(X, y).predict_change_points(X[0]).tolist()
    assert alone.fit(X, y).predict_change_points(X[0]).tolist() == wanted
    answers = [
        ml.Segmenter({"one": [learner]}, view=view, n_folds=2, verbose=False)
        .fit(X, y)
        .predict(X[0])
        for learner, view in ((plain, None), (plain, Doubled()), (alone, None))
    ]
    assert answers[0].tolist() == answers[1].tolist() == answers[2].tolist()
