"""The segmentation of least expected loss against the enumeration of all segmentations."""

import numpy as np
import pytest

import metriclearn as ml
from metriclearn import Partition
from metriclearn.oracles.expected_loss import best_clustering, best_consensus
from metriclearn.problem import FrobeniusLoss
from metriclearn.problem.consensus_form import ConsensusForm
from metriclearn.problem.named_segments import NamedPartition, PartialNames
from metriclearn.problem.partial_labels import PartialPartition
from metriclearn.problem.regions import KINDS, Region
from tests.budget import examples
from tests.exhaustive import all_partitions, all_segmentations
from tests.oracles.test_names import agrees


def random_members(rng: np.random.Generator, T: int, C: int | None):
    """One to six segmentations, with names or without."""
    drawn = [rng.integers(0, C or 4, T) for _ in range(int(rng.integers(1, 7)))]
    smooth = [np.where(rng.random(T) < 0.6, codes[0], codes) for codes in drawn]
    members = [
        Partition.from_runs(c) if C is None else NamedPartition.from_codes(c) for c in smooth
    ]
    # Some members may have no names.
    return members + [Partition.from_runs(smooth[0])] * int(rng.integers(0, 2))


def segmentations(T: int, count: int | None):
    return (Partition(ends=np.array(ends)) for ends in all_segmentations(T, count))


def random_annotations(rng: np.random.Generator, T: int, C: int | None):
    """What a random segmentation satisfies: labels and regions."""
    codes = rng.integers(0, C or 3, T)
    given = np.where(rng.random(T) < 0.3, codes, -1)
    if C is not None:
        return PartialNames(PartialPartition(T, given), given)
    regions = []
    for _ in range(int(rng.integers(0, 3))):
        start = int(rng.integers(0, T - 1))
        stop = int(rng.integers(start + 2, T + 1))
        inside = np.count_nonzero(np.diff(codes[start:stop]))
        possible = [kind for kind in KINDS.values() if kind.allows(inside)]
        regions.append(Region(start, stop, possible[rng.integers(len(possible))]))
    return PartialPartition(T, given, regions=regions)


def values_of_all(form: ConsensusForm, C: int | None, count: int | None, known) -> list[float]:
    """Of every segmentation that agrees with the annotations, each with its best names."""
    T, plain = form.n_samples, ConsensusForm(form.members, form.weights)
    if C is None:
        every = segmentations(T, count)
        return [plain.at(one) for one in every if known is None or known.allows(one)]
    # What each sample costs under each name; names of different segments do not depend on each
    # other.
    costs = np.zeros((T, C))
    for q, member in zip(form.weights, form.members):
        if isinstance(member, NamedPartition):
            costs += form.name_loss * q * (member.sample_names[:, None] != np.arange(C))
    if known is not None:
        costs[(known.names[:, None] >= 0) & (known.names[:, None] != np.arange(C))] = np.inf
    values = []
    for ends in map(np.array, all_segmentations(T, count)):
        sums = np.add.reduceat(costs, np.append(0, ends[:-1]), axis=0)
        one = NamedPartition(ends, sums.argmin(axis=1))
        if np.isfinite(sums.min(axis=1)).all() and (known is None or known.allows(one)):
            values.append(plain.at(one) - sums.min(axis=1).sum())
    return values


def assert_consensus_is_best(rng: np.random.Generator) -> None:
    """With and without weights, names, a number of segments, and annotations."""
    T = int(rng.integers(2, 9))
    C = int(rng.integers(1, 4)) if rng.random() < 0.4 else None
    members = random_members(rng, T, C)
    weights = rng.random(len(members)) + 0.01 if rng.random() < 0.5 else None
    form = ConsensusForm(members, weights, name_loss=float(rng.choice([0.0, 0.3])))
    known = random_annotations(rng, T, C) if rng.random() < 0.5 else None
    count = int(rng.integers(1, T + 1)) if rng.random() < 0.4 else None
    values = values_of_all(form, C, count, known)
    if not values:
        with pytest.raises(ValueError, match="agrees with the annotations"):
            best_consensus(form, count, known)
        return
    found = best_consensus(form, count, known)
    assert isinstance(found, NamedPartition) == (C is not None)
    assert found.n_clusters == (count or found.n_clusters)
    if known is not None:
        assert agrees(found, known) if C else known.allows(found)
    assert form.at(found) == pytest.approx(max(values), abs=1e-10)


def test_consensus_equals_enumeration() -> None:
    rng = np.random.default_rng(0)
    for _ in range(examples(1000)):
        assert_consensus_is_best(rng)


def test_a_reward_for_segments() -> None:
    """Above 1 the form takes more segments than any member has."""
    form = ConsensusForm([Partition(ends=np.array([2, 6])), Partition(ends=np.array([6]))])
    for shift in (0.5, 1.1, 2.0):
        shifted = form.shifted(shift)
        best = max(map(shifted.at, segmentations(6, None)))
        assert shifted.at(best_consensus(shifted)) == pytest.approx(best)
    assert best_consensus(form.shifted(2.0)).n_clusters > 2


def test_pruning_at_work() -> None:
    """Long members: the value of the best segmentation is that of all layers together."""
    rng = np.random.default_rng(0)
    truth = np.cumsum(rng.integers(5, 60, 60))
    members = []
    for _ in range(12):
        ends = truth + rng.integers(-3, 4, len(truth))
        ends = np.unique(np.append(ends[rng.random(len(ends)) < 0.8], truth[-1] + 5))
        members.append(Partition(ends=ends[ends <= truth[-1] + 5]))
    form = ConsensusForm(members)
    found = best_consensus(form)
    values = [form.at(best_consensus(form, k)) for k in range(1, 90)]
    assert form.at(found) == pytest.approx(max(values), rel=1e-12)
    assert 30 < found.n_clusters < 90


def test_form_is_the_expected_loss() -> None:
    """Σ q ‖M − N_j‖² for all partitions, by every way to the form."""
    rng, T = np.random.default_rng(1), 6
    labelings = rng.integers(0, 3, (4, T))
    members, weights = [Partition.from_labels(labels) for labels in labelings], rng.random(4)
    form, loss, V = ConsensusForm(members, weights), FrobeniusLoss(), rng.normal(size=(T, 2))
    dense = 2 * sum(q * N.factor @ N.factor.T for q, N in zip(form.weights, members)) - np.eye(T)
    np.testing.assert_allclose(form.matvec(V), dense @ V, atol=1e-12)
    every = [Partition.from_labels(labels) for labels in all_partitions(T)]
    for M in every:
        mean = sum(q * loss.squared_norm(M, N) for q, N in zip(form.weights, members))
        assert form.expected_loss(M) == pytest.approx(mean, abs=1e-12)
        assert form.at(M) == pytest.approx(np.sum(dense * (M.factor @ M.factor.T)), abs=1e-12)
        assert form.shifted(0.5).at(M) == pytest.approx(form.at(M) + 0.5 * M.n_clusters)
        assert form.shifted(0.5).expected_loss(M) == pytest.approx(mean, abs=1e-12)
    best = min(map(form.expected_loss, every))
    found = ml.oracles.LocalSearch()(form.low_rank())
    assert form.expected_loss(found) == pytest.approx(best)


def test_clusterings_are_close_to_the_best_of_all() -> None:
    """Never worse than the best member, so within twice the least loss, and mostly the best."""
    rng = np.random.default_rng(0)
    n, best = examples(200), 0
    for _ in range(n):
        T = int(rng.integers(2, 8))
        shared = rng.integers(0, 3, T)
        drawn = [np.where(rng.random(T) < 0.5, shared, rng.integers(0, 3, T)) for _ in range(5)]
        members = [Partition.from_labels(labels) for labels in drawn]
        form = ConsensusForm(members, rng.random(5) + 0.01)
        count = members[0].n_clusters if rng.random() < 0.5 else None
        found, lower, upper = best_clustering(form, count)
        values = [form.at(Partition.from_labels(labels)) for labels in all_partitions(T, count)]
        assert lower == pytest.approx(form.at(found))
        assert lower - 1e-9 <= max(values) <= upper + 1e-9
        alike = [one for one in members if count in (None, one.n_clusters)]
        assert lower >= max(map(form.at, alike)) - 1e-9
        assert found.n_clusters == (count or found.n_clusters)
        least = min(
            form.expected_loss(Partition.from_labels(labels)) for labels in all_partitions(T, count)
        )
        assert count is not None or form.expected_loss(found) <= 2 * least + 1e-9
        best += form.expected_loss(found) <= least + 1e-9
    assert best >= 0.9 * n
