"""The constrained program against enumeration of all segmentations that agree."""

import itertools
import os
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metriclearn import Partition
from metriclearn.oracles import ChangePoints, ConstrainedChangePoints
from metriclearn.problem import LowRankForm
from metriclearn.problem.charges import charge
from metriclearn.problem.losses import ChargedForm, KnownLoss
from metriclearn.problem.named_segments import NameScores
from metriclearn.problem.partial_labels import PartialPartition, fewest_changes
from metriclearn.problem.regions import (
    AT_LEAST_ONE,
    AT_MOST_ONE,
    EXACTLY_ONE,
    KINDS,
    NO_CHANGE,
    ChangeCount,
    Region,
    segment_rules,
)
from tests.budget import examples
from tests.exhaustive import (
    all_segmentations,
    block_means,
    dense_form,
    equivalence_matrix,
    labels_of,
)
from tests.oracles.signals import draw_case
from tests.strategies import partial_partitions


def kind_of(inside: int, rng: np.random.Generator) -> ChangeCount:
    """A kind of region that allows this number of changes."""
    possible = [kind for kind in KINDS.values() if kind.allows(inside)]
    return possible[rng.integers(len(possible))]


def best_by_enumeration(form, known, min_size: int, n_segments=None):
    """(value, winners); value is None if nothing agrees."""
    answer = [
        ends
        for ends in all_segmentations(known.n_samples, n_segments, min_size)
        if known.allows(Partition.from_change_points(ends))
    ]
    if not answer:
        return None, set()
    values = np.array([form.at(Partition.from_change_points(ends)) for ends in answer])
    close = np.flatnonzero(values >= values.max() - 1e-9 * (1 + np.abs(values).max()))
    return values.max(), {answer[i] for i in close}


@settings(max_examples=examples(200), deadline=None)
@given(
    partial_partitions(8),
    st.integers(0, 10**6),
    st.integers(0, 3),
    st.integers(1, 3),
    st.booleans(),
)
def test_equals_enumeration(known, seed, kind, min_size, charged) -> None:
    """Constraints of all kinds, known and unknown K, with κN or the charges of a partial truth."""
    T = known.n_samples
    rng = np.random.default_rng(seed)
    form = draw_case(rng, T, kind)[0]
    if charged:
        form = LowRankForm(form.factors, shift=form.shift)
        truth = known.with_completion(Partition.from_change_points([T]))
        form, _ = KnownLoss().augment(form, truth, float(rng.choice([0.3, 1.0, 4.0])))
        known = None if kind % 2 else known
    constraint = PartialPartition(T) if known is None else known
    oracle = ConstrainedChangePoints(min_size)
    for K in (None, *range(1, T + 1)):
        if (K or 1) * min_size > T:
            continue
        best, winners = best_by_enumeration(form, constraint, min_size, K)
        if best is None:
            with pytest.raises(ValueError, match="agree"):
                oracle(form, K, known)
            continue
        answer = oracle(form, K, known)
        assert tuple(answer.change_points) in winners


def nearest(labels: np.ndarray, allowed: list[np.ndarray]) -> float:
    """min ‖M − N‖² over the allowed labelings N."""
    M = equivalence_matrix(labels)
    return min(float(np.sum((M - equivalence_matrix(other)) ** 2)) for other in allowed)


@pytest.mark.parametrize("kind", KINDS.values(), ids=repr)
def test_loss_is_the_distance_to_what_is_known(kind) -> None:
    """A labeled stretch and the region after it, by their definition on dense matrices."""
    T, rng = 6, np.random.default_rng(0)
    for border, ends in itertools.product(range(T - 1), all_segmentations(T)):
        labels = np.full(T, -1)
        labels[:border] = np.cumsum(rng.random(border) < 0.4)
        known = PartialPartition(T, labels, regions=[Region(border, T, kind)])
        partition = Partition.from_change_points(ends)
        pieces = [labels_of(other) for other in all_segmentations(T - border)]
        agreeing = [piece for piece in pieces if kind.allows(int(piece.max()))]
        expected = nearest(labels_of(ends)[border:], agreeing)
        if border:
            expected += nearest(labels_of(ends)[:border], [labels[:border]])
        assert T * KnownLoss()(partition, known) == pytest.approx(expected, abs=1e-9)


def test_all_that_follows_from_two_regions() -> None:
    """Where the loss vanishes, the fewest changes, and positions that are certain.

    All pairs of regions of five samples that one segmentation at least satisfies.
    """
    T, spans = 5, [(a, b) for a, b in itertools.combinations(range(6), 2) if b - a > 1]
    regions = [Region(*span, kind) for span in spans for kind in KINDS.values()]
    every = [Partition.from_change_points(ends) for ends in all_segmentations(T)]
    for pair in itertools.combinations(regions, 2):
        agree = [all(region.allows(one.change_points[:-1]) for region in pair) for one in every]
        if any(agree):
            known = PartialPartition(T, regions=pair)
            assert [KnownLoss()(one, known) < 1e-9 for one in every] == agree
            fewest = min(one.n_clusters for one, agrees in zip(every, agree) if agrees) - 1
            assert fewest_changes(known) == fewest
            agreeing = [one.labels for one, agrees in zip(every, agree) if agrees]
            certain = np.ptp(np.diff(agreeing, axis=1), axis=0) == 0
            settled = np.zeros(T - 1, dtype=bool)
            for start, ends in known.pieces.stretches:
                settled[start : ends[-1] - 1] = True
            np.testing.assert_array_equal(settled, certain)


@settings(max_examples=examples(200), deadline=None)
@given(partial_partitions(8), st.integers(0, 10**6))
def test_loss_vanishes_exactly_where_all_agrees(known, seed) -> None:
    answer = all_segmentations(known.n_samples)
    partition = Partition.from_change_points(answer[seed % len(answer)])
    loss = KnownLoss()(partition, known.with_completion(partition))
    assert (loss < 1e-9) == known.allows(partition)


def assert_equals_unpruned(
    form: LowRankForm | ChargedForm, known: PartialPartition, min_size: int
) -> None:
    """Against a plain O(T²) recursion, which tries every allowed segment."""
    plain = form.form if isinstance(form, ChargedForm) else form
    labels = None if plain.truth is None else plain.truth.labels
    worth = block_means(dense_form(plain.factors, labels, plain.weight, plain.shift))
    rules, T = segment_rules(known.constraints, known.n_samples), known.n_samples
    best = np.full(T + 1, -np.inf)
    best[0] = 0.0
    for u in range(1, T + 1):
        if rules.allowed[u]:
            for s in range(rules.floor[u], min(rules.ceiling[u], u - min_size + 1)):
                value = best[s] + worth[s, u]
                if isinstance(form, ChargedForm):
                    value += form.scale * charge(form.charges.table, s, u)
                best[u] = max(best[u], value)
    oracle = ConstrainedChangePoints(min_size)
    if best[T] == -np.inf:
        with pytest.raises(ValueError, match="agree"):
            oracle(form, None, known)
        return
    answer = oracle(form, None, known)
    assert known.allows(answer)
    assert answer.sizes.min() >= min_size
    assert form.at(answer) == pytest.approx(best[T], rel=1e-9, abs=1e-8)


@pytest.mark.parametrize("seed", range(3))
def test_long_signals_equal_the_unpruned_program(seed) -> None:
    """9 ≤ T ≤ 300 with regions that a random segmentation satisfies."""
    rng = np.random.default_rng(seed)
    for case in range(15):
        T = int(rng.integers(9, 300))
        cuts = np.flatnonzero(rng.random(T - 1) < 0.06) + 1
        regions = []
        for _ in range(int(rng.integers(0, 8))):
            start = int(rng.integers(0, T - 2))
            stop = int(min(T, start + 2 + rng.integers(0, 60)))
            inside = int(np.sum((cuts > start) & (cuts < stop)))
            regions.append(Region(start, stop, kind_of(inside, rng)))
        known = PartialPartition(T, regions=regions)
        min_size = int(rng.integers(1, 4))
        form = draw_case(rng, T, case % 4)[0]
        if case % 3 == 0:
            truth = known.with_completion(Partition.from_change_points([T]))
            form, _ = KnownLoss().augment(LowRankForm(form.factors, shift=form.shift), truth, 1.0)
        assert_equals_unpruned(form, known, min_size)


@pytest.mark.parametrize("seed", range(2))
def test_overlapping_regions_equal_the_unpruned_program(seed) -> None:
    """Regions with one change at most refuse starts for a while: the case that delays a drop."""
    rng = np.random.default_rng(seed)
    for _ in range(150):
        T = int(rng.integers(12, 60))
        a = int(rng.integers(2, T // 2))
        b = int(rng.integers(a + 6, T + 1))
        regions = [Region(a, b, (EXACTLY_ONE, AT_MOST_ONE)[rng.integers(2)])]
        if rng.random() < 0.5:
            kind = (EXACTLY_ONE, AT_LEAST_ONE, AT_MOST_ONE)[rng.integers(3)]
            regions.append(Region(int(rng.integers(a + 1, b - 3)), min(T, b + 5), kind))
        known, min_size = PartialPartition(T, regions=regions), int(rng.integers(1, 4))
        steps = 3.0 * rng.normal(size=(T, 1)) * (rng.random((T, 1)) < 0.3)
        Z = rng.choice([0.3, 1.0, 3.0]) * rng.normal(size=(T, 1)) + np.cumsum(steps, axis=0)
        form = LowRankForm(Z, shift=-float(rng.choice([0.3, 1.0, 5.0, 20.0])))
        if rng.random() < 0.5:
            truth = known.with_completion(Partition.from_change_points([T]))
            form, _ = KnownLoss().augment(form, truth, float(rng.choice([0.5, 2.0, 10.0])))
            known = known if rng.random() < 0.5 else PartialPartition(T)
        assert_equals_unpruned(form, known, min_size)


@pytest.mark.parametrize("costs", [None, np.zeros((1, 1))], ids=["plain", "states"])
def test_a_start_waits_for_the_last_end_that_its_rival_may_not_have(costs) -> None:
    """At 2 a change beats the start 0, but if 3 is a change, the region refuses one at 2."""
    known = PartialPartition(5, regions=[Region(1, 4, AT_MOST_ONE)])
    form = LowRankForm(np.array([[2.2], [0.0], [4.4], [-50.0], [-50.0]]), shift=-1.0)
    names = None if costs is None else NameScores.of(np.zeros((5, 1)), None, costs)
    assert best_by_enumeration(form, known, 1)[1] == {(3, 5)}
    answer = ConstrainedChangePoints()(ChargedForm(form, names=names), None, known)
    assert answer.change_points.tolist() == [3, 5]


def test_zero_label_error_on_every_copy_number_profile() -> None:
    """LOPART's own labels (Neuroblastoma): satisfied on all 154 profiles, whatever the penalty."""
    folder = os.environ.get("METRICLEARN_DATA")
    if folder is None or not (path := Path(folder) / "neuroblastoma").is_dir():
        pytest.skip("set METRICLEARN_DATA to a folder with the data set neuroblastoma")
    profiles = pd.read_csv(path / "profiles.csv.gz", dtype={"sequence_id": str})
    labels = pd.read_csv(path / "annotations.csv.gz", dtype={"sequence_id": str})
    annotated = dict(list(labels.groupby("sequence_id")))
    missed = 0
    for name, rows in profiles.groupby("sequence_id"):
        x = rows["logratio"].to_numpy()[:, None]
        regions = [
            Region(row.start - 1, row.end, (NO_CHANGE, EXACTLY_ONE)[row.changes])
            for row in annotated[name].itertuples()
        ]
        known = PartialPartition(len(x), regions=regions)
        for penalty in (0.1, 100.0):
            form = LowRankForm(x, shift=-penalty)
            assert known.label_errors(ConstrainedChangePoints()(form, None, known)) == (0, 0)
            missed += sum(known.label_errors(ChangePoints()(form)))
    assert len(annotated) == 154
    assert missed > 200  # the labels ask for something


def test_near_linear() -> None:
    """50 000 samples with regions and unlabeled ends; no array of T × T numbers could fit."""
    rng = np.random.default_rng(0)
    T = 50_000
    signal = np.repeat(rng.normal(size=(50, 3)), T // 50, axis=0) + 0.5 * rng.normal(size=(T, 3))
    regions = [Region(a, a + 300, EXACTLY_ONE) for a in range(850, T - 2000, 2000)]
    regions += [Region(a + 400, a + 1000, NO_CHANGE) for a in range(850, T - 2000, 2000)]
    known = PartialPartition(T, regions=regions)
    form = LowRankForm(signal, shift=-20.0)
    oracle = ConstrainedChangePoints()
    oracle(form, None, known)  # compiles
    begin = time.process_time()
    answer = oracle(form, None, known)
    assert time.process_time() - begin < 3.0
    assert known.label_errors(answer) == (0, 0)
    truth = known.with_completion(answer)
    augmented, _ = KnownLoss().augment(form, truth, 1.0)
    oracle(augmented)  # compiles
    begin = time.process_time()
    worst = oracle(augmented)
    assert time.process_time() - begin < 3.0
    assert augmented.at(worst) >= augmented.at(answer) - 1e-6
