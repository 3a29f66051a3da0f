"""Forms against dense matrices."""

from typing import Any

import numpy as np
import pytest

from metriclearn import Partition
from metriclearn.problem import ChargedForm, DenseForm, LowRankForm, NameScores
from metriclearn.problem.forms import center, cumulative_sums
from tests.exhaustive import all_partitions, all_segmentations, dense_form, equivalence_matrix

TRUTH = Partition.from_change_points([2, 4, 6])
SCATTERED = Partition.from_labels([0, 1, 0, 2, 1, 0])


def signal(seed: int = 0, T: int = 6, r: int = 2) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(T, r)) + 3.0


@pytest.mark.parametrize("truth", [TRUTH, SCATTERED], ids=["segments", "clusters"])
@pytest.mark.parametrize("kind", ["low rank", "cumulative", "dense"])
def test_value_and_action_of_every_kind(kind, truth) -> None:
    """At all 203 partitions of six samples."""
    Z = signal() - signal().mean(axis=0) if kind == "cumulative" else signal()
    forms = {
        "low rank": LowRankForm(Z),
        "cumulative": LowRankForm(cumulative=cumulative_sums(Z)),
        "dense": DenseForm(Z @ Z.T),
    }
    form = forms[kind].plus(truth, 1.5).shifted(-0.4)
    A = dense_form(Z, truth.labels, 1.5, -0.4)
    V = np.random.default_rng(1).normal(size=(6, 3))
    np.testing.assert_allclose(form.matvec(V), A @ V, atol=1e-10)
    assert form.n_samples == 6
    for labels in all_partitions(6):
        expected = np.sum(A * equivalence_matrix(labels))
        assert form.at(Partition.from_labels(labels)) == pytest.approx(expected, abs=1e-9)


def test_a_part_is_the_form_of_its_samples_up_to_a_constant() -> None:
    """With penalties of positions, and with names, whose cost of a transition is kept."""
    Z, rng = signal(T=9), np.random.default_rng(1)
    penalties, scores = rng.normal(size=10), rng.normal(size=(9, 3))
    transitions = rng.random((3, 3))

    def form(rows: slice) -> list[Any]:
        plain = LowRankForm(cumulative=cumulative_sums(Z[rows])).shifted(-0.3)
        names = NameScores.of(scores[rows], None, transitions)
        at = penalties[rows.start : rows.stop + 1]
        return [plain, ChargedForm(plain, penalties=at), ChargedForm(plain, names=names)]

    segmentations = [Partition(ends=ends) for ends in all_segmentations(5)]
    for whole, alone in zip(form(slice(0, 9)), form(slice(2, 7))):
        part = whole.part(2, 7)
        gaps = [part.at(one) - alone.at(one) for one in segmentations]
        np.testing.assert_allclose(gaps, gaps[0], atol=1e-12)
        assert whole.at(Partition(ends=np.array([4, 9]))) == pytest.approx(
            whole.part(0, 9).at(Partition(ends=np.array([4, 9])))
        )


def test_plus_adds_up_and_leaves_the_form_alone() -> None:
    form = LowRankForm(signal())
    sums = form.cumulative
    twice = form.plus(TRUTH, 1.0).shifted(0.5).plus(TRUTH, 0.5).shifted(-2.0)
    assert (twice.weight, twice.shift) == (1.5, -1.5)
    assert (form.weight, form.shift, form.truth) == (0.0, 0.0, None)
    assert twice.at(TRUTH) == pytest.approx(form.at(TRUTH) - 1.5 * 3 - 1.5 * 3)
    assert twice.cumulative is sums


def test_a_dense_form_takes_several_reference_partitions() -> None:
    form = LowRankForm(signal()).plus(TRUTH, 1.0)
    dense = DenseForm(form.matvec(np.eye(6))).plus(SCATTERED, 1.0)
    expected = form.at(TRUTH) - SCATTERED.inner(TRUTH)
    assert dense.at(TRUTH) == pytest.approx(expected)


def test_centering_twice_removes_an_offset_of_1e8() -> None:
    X = np.random.default_rng(2).normal(size=(1000, 3))
    assert np.max(np.abs(center(X + 1e8).mean(axis=0))) < 1e-10
    np.testing.assert_allclose(center(X + 1e8), X - X.mean(axis=0), atol=1e-7)
    np.testing.assert_allclose(cumulative_sums(X)[1:], np.cumsum(center(X), axis=0), atol=1e-9)


def test_what_is_almost_right_is_taken() -> None:
    """No weight without a truth, and asymmetry by rounding."""
    values = [LowRankForm(signal(), None, weight=w).at(TRUTH) for w in (0, 0.0, None)]
    assert values == [LowRankForm(signal()).at(TRUTH)] * 3
    A = np.array([[1e6, 3.0], [3.0 + 1e-5, 1e6]])
    assert DenseForm(A).at(Partition.from_labels([0, 1])) == 2e6
