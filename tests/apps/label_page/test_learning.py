"""Learning on the label page: segments agree with the labels, and the rest is the best."""

import warnings
from dataclasses import replace
from itertools import combinations, pairwise
from pathlib import Path
from time import process_time

import numpy as np
import pytest

import metriclearn as ml
from metriclearn.apps.label_page.annotation import Annotation, partial_labels, read_annotations
from metriclearn.apps.label_page.learning.check import Check, missing_labels, skill
from metriclearn.apps.label_page.learning.group import Group
from metriclearn.apps.label_page.learning.model import Model
from metriclearn.apps.label_page.learning.pieces import Given
from metriclearn.apps.label_page.signals import Recording
from metriclearn.datasets.segments import row_labels
from metriclearn.estimators.scores.segment_score import SegmentScore


def _random_case(seed: int) -> tuple[np.ndarray, np.ndarray, ml.PartialPartition]:
    generator = np.random.default_rng(seed)
    T = 40
    X = np.repeat(generator.normal(size=(5, 2)), 8, axis=0) + 0.7 * generator.normal(size=(T, 2))
    changes = generator.choice(np.arange(2, T - 2), generator.integers(0, 4), replace=False)
    starts = generator.choice(T - 10, generator.integers(0, 3), replace=False)
    regions = []
    for start in starts.tolist():
        stop = start + int(generator.integers(2, 10))
        if not any(start < t < stop for t in changes):
            regions.append(ml.Region(start, stop, ml.problem.NO_CHANGE))
    known = ml.PartialPartition(T, change_points=sorted(changes.tolist()), regions=regions)
    return X, generator.normal(size=(2, 2)), known


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("one_change", [False, True])
def test_segments_agree_with_labels_and_are_best(seed: int, one_change: bool) -> None:
    X, components, labels = _random_case(seed)
    if one_change:
        known = [] if seed % 2 else [10 + seed]  # then there is no other
        regions = [ml.Region(9, 26, ml.problem.EXACTLY_ONE)]
        labels = ml.PartialPartition(len(X), change_points=known, regions=regions)
    learner = ml.ChangePointMetricLearner()
    learner.score_ = SegmentScore(components, 2.0)
    recording = Recording("x", "table", Path("x.csv"), X, ["a", "b"], 1.0, float(len(X)))
    given = Given([labels], [], [np.full(len(X), -1)])
    (margins,) = Group([recording], Model(learner)).segment(given)
    form = ml.problem.LowRankForm(X @ components.T).shifted(-2.0)
    exact = ml.oracles.boundary_margins(form, known=labels, tolerance=1)
    np.testing.assert_array_equal(margins.change_points, exact.change_points)
    labeled = [r.start + 1 for r in labels.constraints if r.stop - r.start == 2 and r.kind.fewest]
    ends = margins.change_points[:-1]
    assert np.all(np.isinf(margins.losses[np.isin(ends, labeled)]))
    free = [all(abs(t - other) > 1 for other in labeled) for t in ends]
    np.testing.assert_allclose(margins.losses[free], exact.losses[free], rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("time", [0.375, 0.625, 1.125, 4.853])
def test_the_page_and_tables_have_the_same_rows(time: float) -> None:
    given = [
        {"start": 0.0, "end": time, "kind": "segment", "label": "a"},
        {"start": time, "end": 9.0, "kind": "segment", "label": "b"},
    ]
    labels = row_labels([(0.0, time, "a"), (time, 9.0, "b")], 36, 4.0)
    known = partial_labels(read_annotations(given, 9.0), 36, 4.0)
    assert known.allows(ml.Partition(ends=[int(np.sum(labels == "a")), 36]))


RATE = 4.0
NAMES = ["rest", "walk", "turn"]


def _kinds(seed: int, n_segments: int) -> tuple[Recording, list[Annotation]]:
    """A recording whose segments have one of three means, and its true annotations."""
    generator = np.random.default_rng(seed)
    sizes = generator.integers(20, 60, n_segments)
    places = (np.arange(n_segments) + seed) % 3
    X = np.repeat(np.array([[0.0, 0.0], [2.0, 0.0], [2.0, 2.0]])[places], sizes, axis=0)
    X = X + 0.8 * generator.normal(size=X.shape)
    times = [0.0, *(np.cumsum(sizes) / RATE).tolist()]
    given = [
        Annotation(start, end, "segment", NAMES[place])
        for start, end, place in zip(times, times[1:], places.tolist())
    ]
    given += [Annotation(time, time, "change") for time in times[1:-1]]
    one = Recording(f"r{seed}", "table", Path("x.csv"), X, ["a", "b"], RATE, len(X) / RATE)
    return one, sorted(given)


def _learned(annotations: dict, recordings: list[Recording]) -> tuple[Group, Given]:
    group = Group(recordings)
    given = group.given(annotations)
    group.learn(given)
    group.validate(given)
    return group, given


def test_names_are_learned_and_those_of_a_person_stay() -> None:
    pairs = [_kinds(seed, 9) for seed in range(3)]
    recordings = [one for one, _ in pairs]
    first, (second, truth) = pairs[0], pairs[1]
    # of the second recording one segment has a label, on purpose a wrong one
    odd = truth[0]._replace(label="turn" if truth[0].label != "turn" else "rest")
    group, given = _learned({"r0": first[1], "r1": [odd]}, recordings)
    assert given.names == sorted(NAMES)
    assert group.model is not None
    margins = group.segment(given)
    for one, found, codes, annotations in zip(recordings, margins, given.codes, pairs):
        names, sure = group.model.named(one.features, found.change_points, codes)
        rows = np.repeat(names, np.diff(found.change_points, prepend=0))
        wanted = np.empty(len(rows), dtype=object)
        for label in annotations[1]:
            if label.kind == "segment":
                wanted[round(label.start * RATE) : round(label.end * RATE)] = label.label
        if one is second:
            assert names[0] == odd.label
            assert sure[0] == 1.0
            wanted[: round(odd.end * RATE)] = odd.label
        assert np.mean(rows == wanted) > 0.93
        assert min(sure) > 0.5
        assert len(sure) == len(names) == len(found.change_points)
    # most of the others are as sure as they are right
    _, sure = group.model.named(recordings[2].features, margins[2].change_points)
    assert 0.85 < np.mean(sure) < 1.0


@pytest.mark.parametrize("is_joint", [False, True])
def test_boundaries_agree_with_labels_if_names_move_them(is_joint: bool) -> None:
    recordings, annotations = zip(*(_kinds(seed, 9) for seed in range(2)))
    group, given = _learned({"r0": annotations[0]}, list(recordings))
    assert group.model is not None
    group.model = replace(group.model, is_joint=is_joint)
    marks = [one for one in annotations[1] if one.kind == "change"][2:4]
    quiet = Annotation(1.0, marks[0].start - 1.0, "no change")
    given = group.given({"r0": annotations[0], "r1": sorted([*marks, quiet])})
    ends = group.segment(given)[1].change_points
    assert {round(one.start * RATE) for one in marks} <= set(ends.tolist())
    assert given.partial[1].allows(ml.Partition(ends=ends))


def test_the_check_counts_boundaries_and_has_an_interval() -> None:
    pairs = [_kinds(seed, 9) for seed in range(3)]
    group, _ = _learned({one.name: given for one, given in pairs[:2]}, [one for one, _ in pairs])
    checked = group.judgment.checked
    assert checked is not None
    assert checked.stretches == 8  # eight changes in each recording, two for each part
    assert checked.agreed + checked.missed == 16
    assert checked.agreed >= 13
    assert checked.right > 0.9 * checked.named
    point = checked.as_json()
    n = checked.agreed + checked.missed + checked.extra
    assert 0 < point["low"] < 0.95 <= checked.agreed / n <= point["high"] <= 1
    # Wilson's interval by its formula
    share, z = checked.agreed / n, 1.959964
    middle = (share + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * np.sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
    assert (point["low"], point["high"]) == pytest.approx((middle - half, middle + half), abs=1e-3)
    assert Check().as_json() == {}
    assert (checked + checked).agreed == 2 * checked.agreed


def test_a_model_is_shown_once_it_is_better_than_one_segment_on_what_is_held_out() -> None:
    one, annotations = _kinds(0, 9)
    changes = [given for given in annotations if given.kind == "change"]
    segments = [given for given in annotations if given.kind == "segment"]
    # boundaries without labels on both sides cannot be held out
    group, _ = _learned({"r0": changes}, [one])
    assert group.model is not None
    assert (group.is_shown, group.judgment.missing) == (False, 3)
    for count in range(1, 6):
        group, _ = _learned({"r0": sorted([*segments[:count], *changes[: count - 1]])}, [one])
        assert group.judgment.missing == max(4 - count, 0)
        assert group.is_shown == (count > 3)
    # where features tell nothing, more labels are asked for, but never more than twice as many
    noise = replace(one, features=np.random.default_rng(0).normal(size=one.features.shape))
    for count in (4, 6, 9):
        group, _ = _learned({"r0": sorted([*segments[:count], *changes[: count - 1]])}, [noise])
        assert not group.is_shown
        assert 1 <= group.judgment.missing < count


def test_learning_from_labels_that_leave_little_to_learn_warns_of_nothing() -> None:
    one, _ = _kinds(0, 6)
    X = one.features[:, :1]
    constant = replace(one, features=np.hstack([X, np.ones_like(X)]))
    marks = [Annotation(2.0, 2.0, "change")]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        group, _ = _learned({"r0": marks}, [constant])
    assert group.model is not None


def test_segments_that_differ_in_how_much_a_signal_moves_are_learned() -> None:
    generator = np.random.default_rng(0)
    ends = np.arange(48, 721, 48)
    spread = np.repeat(np.where(np.arange(15) % 2, 3.0, 1.0), 48)
    recordings, annotations = [], {}
    for name in "abc":
        X = spread[:, None] * generator.normal(size=(720, 2))
        recordings.append(Recording(name, "table", Path("x.csv"), X, ["u", "v"], RATE, 720 / RATE))
    spans = [(t - 48, t) for t in ends.tolist()]
    for name in "ab":
        annotations[name] = sorted(
            [Annotation(a / RATE, b / RATE, "no change") for a, b in spans]
            + [Annotation(b / RATE, b / RATE, "change") for _, b in spans[:-1]]
        )
    group, given = _learned(annotations, recordings)
    assert group.is_shown
    found = group.segment(given)[2].change_points
    assert len(found) == len(ends)
    assert np.abs(found - ends).max() <= 8
    # windows have a length that suits the labels, and stay while it does
    assert group.seen.sizes == (2, 8, 32)
    rows = group.seen.rows
    group.learn(group.given({name: annotations[name][:-3] for name in "ab"}))
    assert group.seen.rows is rows


def test_learning_from_nearly_all_labels_of_a_long_recording_is_as_fast_as_from_all() -> None:
    generator = np.random.default_rng(0)
    n_segments, length = 90, 200
    levels = np.repeat(generator.normal(size=(n_segments, 8)), length, axis=0)
    X = levels + generator.normal(size=levels.shape)
    one = Recording("r", "table", Path("x.csv"), X, [*"abcdefgh"], RATE, len(X) / RATE)
    ends = np.arange(n_segments + 1) * length / RATE
    seconds = []
    for count in (n_segments, n_segments, n_segments - 2):
        segments = [Annotation(a, b, "no change") for a, b in pairwise(ends[: count + 1].tolist())]
        changes = [Annotation(t, t, "change") for t in ends[1:count].tolist()]
        group = Group([one])
        given = group.given({"r": sorted([*segments, *changes])})
        begun = process_time()
        group.learn(given)
        seconds.append(process_time() - begun)
        assert group.model is not None
    assert seconds[2] < 4 * seconds[1] + 1.0


@pytest.mark.parametrize("jump", [0.0, 4.0])
def test_a_model_of_segments_shorter_than_a_second_is_shown_only_if_it_finds_them(jump) -> None:
    """Half a second is then longer than a segment, so a boundary anywhere would be near one."""
    generator = np.random.default_rng(0)
    recordings, annotations, rate = [], {}, 100.0
    for name in "abc":
        ends = np.cumsum(generator.integers(12, 38, 20))
        levels = jump * np.repeat(np.arange(20) % 2, np.diff(ends, prepend=0))
        X = levels[:, None] + generator.normal(size=(ends[-1], 3))
        recordings.append(Recording(name, "table", Path("x.csv"), X, [*"uvw"], rate, len(X) / rate))
        times = [0.0, *(ends[:8] / rate).tolist()]
        stretches = [Annotation(a, b, "no change") for a, b in pairwise(times)]
        annotations[name] = sorted(stretches + [Annotation(t, t, "change") for t in times[1:-1]])
    group, _ = _learned(annotations, recordings)
    assert group.is_shown == (jump > 0)


@pytest.mark.parametrize("true", [[4], [6], [3, 8], [2, 3, 9]])
@pytest.mark.parametrize("tolerance", [0, 1, 2])
def test_neither_boundaries_at_random_nor_equal_cuts_have_skill(true, tolerance) -> None:
    """The mean over all places is at most 0, and that of the right ones more, if chance is low."""
    known, n_rows = np.array(true), 12
    for count in (1, 2):
        every = map(np.array, combinations(range(1, n_rows), count))
        assert np.mean([skill(cuts, known, n_rows, tolerance) for cuts in every]) <= 1e-12
        equal = np.round(np.arange(1, count + 1) * n_rows / (count + 1)).astype(int)
        assert skill(equal, known, n_rows, tolerance) <= 0
    assert skill(known, known, n_rows, 0) >= 0
    assert skill(known[:0], known, n_rows, tolerance) == 0
    assert missing_labels([0.0] * 9, 8, is_useful=True) == 0 < missing_labels([0.0] * 9, 8)


def test_windows_of_other_sizes_leave_the_use_of_names_and_an_error_leaves_all() -> None:
    one, annotations = _kinds(0, 9)
    group, _ = _learned({"r0": annotations}, [one])
    assert group.model is not None
    group.model = replace(group.model, is_joint=True)
    sizes = group.seen.sizes
    parts = [given for given in annotations if given.kind == "segment"][:4]
    short = [
        Annotation(start, start + 1.0, "segment", given.label)
        for given in parts
        for start in np.arange(given.start, given.end - 1.0).tolist()
    ]
    given = group.given({"r0": sorted(short)})
    group.learn(given)
    assert group.seen.sizes != sizes
    assert group.model is not None
    assert group.model.is_joint
    # what windows refuse is refused each time
    group = Group([replace(one, features=1e160 * one.features)])
    for _ in range(2):
        with pytest.raises(ValueError, match="rescale X"):
            group.learn(given)


def test_a_check_is_of_its_own_labels_though_newer_ones_are_learned_meanwhile() -> None:
    pairs = [_kinds(seed, 12) for seed in range(2)]
    recordings = [one for one, _ in pairs]
    before = {"r0": pairs[0][1]}
    alone, given = _learned(before, recordings)
    group = Group(recordings)
    group.learn(given)
    newer = group.given(before | {"r1": pairs[1][1]})
    learned = []

    def pause() -> None:
        if len(learned) in (1, 9):
            group.learn(newer)
        learned.append(group.model)

    group.validate(given, pause)
    # after every round of a solver, before every stretch
    assert len(learned) > 30
    assert group.judgment.checked == alone.judgment.checked
    assert group.judgment.missing == 0
    assert group.model is not None
    assert learned[-1] is not learned[0]
    assert group.model.learner is learned[-1].learner


def test_a_check_goes_on_though_all_labels_are_removed_before_its_first_stretch() -> None:
    one, annotations = _kinds(0, 9)
    group, given = _learned({"r0": annotations}, [one])
    missing = group.judgment.missing
    group.learn(group.given({}))  # as during the check of another group
    group.validate(given)
    assert (group.model, group.judgment.missing) == (None, missing)
