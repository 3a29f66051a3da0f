"""The Frobenius loss against its definition, at all pairs of small partitions."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metriclearn import PartialPartition, Partition
from metriclearn.oracles.spectral import SpectralRelaxation
from metriclearn.problem import DenseForm, FrobeniusLoss, KnownLoss, LowRankForm
from tests.conformance.test_plugs import TooManyClusters
from tests.exhaustive import all_partitions, all_segmentations, equivalence_matrix
from tests.strategies import partial_partitions

LOSS = FrobeniusLoss()


def test_definition_range_and_zero_only_at_equality_for_all_pairs_of_five_samples() -> None:
    partitions = [Partition.from_labels(labels) for labels in all_partitions(5)]
    matrices = [equivalence_matrix(p.labels) for p in partitions]
    assert len(partitions) == 52
    for a, M in zip(partitions, matrices):
        for b, N in zip(partitions, matrices):
            value = LOSS(a, b)
            assert value == pytest.approx(np.sum((M - N) ** 2) / 5, abs=1e-12)
            assert value == pytest.approx(LOSS(b, a), abs=1e-14)
            assert 0.0 <= value <= (a.n_clusters + b.n_clusters - 2) / 5 + 1e-14
            assert (value < 1e-12) == (a == b)
            assert LOSS.squared_norm(a, b) == pytest.approx(5 * value, abs=1e-12)


def test_equal_partitions_of_many_samples_have_loss_exactly_zero() -> None:
    ends = np.sort(np.random.default_rng(1).choice(np.arange(1, 9999), 777, replace=False))
    partition = Partition.from_change_points(ends, 9999)
    assert LOSS(partition, Partition.from_labels(partition.labels)) == 0.0


def completion(labels, mask) -> Partition:
    known = PartialPartition(len(labels), [c if kept else -1 for c, kept in zip(labels, mask)])
    return known.with_completion(Partition.from_labels(labels))


@settings(max_examples=150, deadline=None)
@given(st.integers(1, 9).flatmap(lambda T: st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 3), st.booleans()), min_size=T, max_size=T
)))  # fmt: skip
def test_loss_and_augmented_form_equal_the_dense_definition(rows) -> None:
    """For full labels and for labels of some rows."""
    one, other, mask = (np.array(column) for column in zip(*rows))
    truth = Partition.from_labels(other) if mask.all() else completion(other.tolist(), mask)
    M, H = equivalence_matrix(one), equivalence_matrix(other)
    expected = float(np.sum((M - H)[mask] ** 2))
    partition = Partition.from_labels(one)
    assert LOSS.squared_norm(partition, truth) == pytest.approx(expected, abs=1e-12)
    Z = np.random.default_rng(0).normal(size=(len(one), 2))
    D = np.diag(mask.astype(float))
    A = Z @ Z.T + 1.7 * (D - D @ H - H @ D)
    for plain in (LowRankForm(Z), DenseForm(Z @ Z.T)):
        form, offset = LOSS.augment(plain, truth, 1.7)
        if not mask.all():
            np.testing.assert_allclose(form.matvec(np.eye(len(one))), A, atol=1e-12)
            assert form.at(partition) == pytest.approx(np.sum(A * M), abs=1e-10)
        total = np.sum(Z @ Z.T * M) + 1.7 * expected
        assert form.at(partition) + offset == pytest.approx(total, abs=1e-10)
        shifted = form.shifted(2.0).at(partition)
        assert shifted + offset == pytest.approx(total + 2 * partition.n_clusters, abs=1e-10)


# A new loss is a row.
LOSSES: list[Any] = [LOSS, KnownLoss(), TooManyClusters()]


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
def test_augmented_forms_add_the_loss_to_all_segmentations_of_six_samples(loss) -> None:
    form = LowRankForm(np.random.default_rng(0).normal(size=(6, 2)))
    every = [Partition(ends=np.array(ends)) for ends in all_segmentations(6)]
    for truth in every:
        augmented, constant = loss.augment(form, truth, 1.7)
        for one in every:
            total = form.at(one) + 1.7 * 6 * loss(one, truth)
            assert augmented.at(one) + constant == pytest.approx(total, abs=1e-10)


@settings(max_examples=100, deadline=None)
@given(partial_partitions(7))
def test_one_more_change_adds_no_more_than_the_rise(known) -> None:
    loss, T = KnownLoss().squared_norm, known.n_samples
    for ends in all_segmentations(T):
        before = loss(Partition(ends=np.array(ends)), known)
        for t in set(range(1, T)) - set(ends):
            after = loss(Partition(ends=np.union1d(ends, [t])), known)
            assert after - before <= known.charges.rise + 1e-12


def test_projectors_equal_dense_ones_too() -> None:
    rng = np.random.default_rng(1)
    Z = rng.normal(size=(30, 3))
    truth = completion(rng.integers(0, 3, 30).tolist(), rng.random(30) < 0.5)
    for shift in (-5.0, 0.3):  # the second has a filling
        projector = SpectralRelaxation()(LowRankForm(Z, truth, 1.0, shift))
        M, H = projector.to_array(), truth.to_array()
        rows = truth.partial_labels.labels >= 0
        D = np.diag(rows.astype(float))
        expected = np.trace(D @ M) + np.trace(D @ H) - 2 * np.trace(D @ M @ H)
        assert LOSS.squared_norm(projector, truth) == pytest.approx(expected, abs=1e-9)
