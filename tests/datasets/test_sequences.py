from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metriclearn.datasets import LabeledSequences
from metriclearn.problem import AT_LEAST_ONE, NO_CHANGE


def build(people: list[str], **changes: object) -> LabeledSequences:
    n = len(people)
    parts: dict = {
        "name": "toy",
        "sequences": [np.full((4, 2), float(i)) for i in range(n)],
        "labels": [np.array(["a", "a", "b", "a"]) for _ in range(n)],
        "groups": people,
        "names": [f"s{i}" for i in range(n)],
        "feature_names": ["u", "v"],
    }
    return LabeledSequences(**(parts | changes))


def test_without_a_label_the_stretches_between_are_sequences() -> None:
    dataset = build(["g", "h"], labels=[np.array([0, 9, 1, 2]), np.array([3, 3, 4, 4])])
    known = dataset.with_unlabeled("9")
    assert [y.tolist() for y in known.labels] == [[0], [1, 2], [3, 3, 4, 4]]
    assert (known.groups, known.names) == (["g", "g", "h"], [dataset.names[i] for i in (0, 0, 1)])
    np.testing.assert_array_equal(known.sequences[1], dataset.sequences[0][2:])
    with pytest.raises(ValueError, match=r"samples of label '7' and others, got \['0', "):
        dataset.with_unlabeled("7")


@pytest.mark.parametrize("n_changes", [1, 2, 3, 9])
def test_pieces_of_long_sequences_have_few_changes_and_lose_none(n_changes: int) -> None:
    labels = [np.repeat(np.arange(6) % 3, [3, 1, 4, 5, 2, 5]), np.repeat(7, 20)]
    rows = [np.arange(40.0).reshape(20, 2), np.zeros((20, 2))]
    dataset = build(["g", "h"], labels=labels, sequences=rows, starts=[[10], []])
    cut = dataset.in_pieces(n_changes)
    first = [i for i, name in enumerate(cut.names) if name == dataset.names[0]]
    assert cut.groups == ["g"] * len(first) + ["h"]
    np.testing.assert_array_equal(np.vstack([cut.sequences[i] for i in first]), rows[0])
    np.testing.assert_array_equal(np.concatenate([cut.labels[i] for i in first]), labels[0])
    counts = [len(ends) - 1 for ends in cut.change_points]
    assert sum(counts) == 6
    assert max(counts) <= n_changes + (n_changes == 1)  # one segment has a single row


@pytest.mark.parametrize("label", ["é", "e\u0301", " é "])
def test_unlabeled_samples_stay_near_known_boundaries(label: str) -> None:
    """For the median length of a segment on each side; labels are equal if people see them so."""
    labels = [np.repeat(["a", "é", "b", "é"], [3, 6, 4, 7]), np.repeat(["a", "é"], [3, 17])]
    labels.append(np.repeat(list("abababab"), 3))
    rows = [np.zeros((len(one), 2)) for one in labels]
    dataset = build(["g", "h", "h"], labels=labels, sequences=rows, starts=[[3, 16], [], []])
    near = dataset.with_unlabeled(label)
    assert ["".join(y) for y in near.labels] == ["aaaééé", "bbbbéééééé", "aaa", "aaabbb" * 4]
    first, second, whole, _ = near.labelings
    assert first.sample_labels.tolist() == ["a", "a", "a", -1, -1, -1]
    constraints = [[(r.start, r.stop, r.kind) for r in one.constraints] for one in (first, second)]
    assert constraints[0] == [(2, 4, AT_LEAST_ONE), (0, 3, NO_CHANGE)]
    assert constraints[1] == [(6, 8, AT_LEAST_ONE), (0, 4, NO_CHANGE)]
    assert whole.tolist() == ["a", "a", "a"]
    # without starts, nothing is known where labels end
    cut = replace(dataset, starts=[[], [], []]).with_unlabeled(label)
    assert ["".join(y) for y in cut.labels] == ["aaa", "bbbb", "aaa", "aaabbb" * 4]
    assert cut.unlabeled is None


def test_unlabeled_samples_stay_if_they_are_most() -> None:
    labels = [np.repeat(["a", "?", "b"], [3, 14, 3]), np.repeat(["?", "a"], [12, 8])]
    dataset = build(["g", "h"], labels=labels, sequences=[np.zeros((20, 2))] * 2)
    kept = dataset.with_unlabeled("?")
    assert (kept.sequences, kept.unlabeled) == (dataset.sequences, "?")
    names = [one.sample_labels.tolist() for one in kept.labelings]
    assert names == [["a"] * 3 + [-1] * 14 + ["b"] * 3, [-1] * 12 + ["a"] * 8]


BAD_DATA = [
    ({"labels": [np.zeros(4)]}, "lists of one length, got .*'labels': 1"),
    ({"labels": [np.zeros(4), np.zeros(3)]}, r"in sequence 's1', got \(3,\) labels"),
    ({"sequences": [np.zeros((4, 2)), np.zeros((4, 3))]}, r"in sequence 's1', .* shape \(4, 3\)"),
    ({"sequences": [np.zeros((4, 2)), np.zeros(4)]}, r"got 1 dimension\(s\) in sequence 's1'"),
    ({"sequences": [np.zeros((4, 2)), np.full((4, 2), np.inf)]}, "got inf at .* sequence 's1'"),
    ({"labels": [np.zeros(4), np.array([0, np.nan, 0, 0])]}, "in sequence 's1': .* NaN"),
    ({"sequences": [], "labels": [], "groups": [], "names": []}, "needs non-empty lists"),
]
BAD_SPLITS: list[tuple[dict[str, Any], str]] = [
    ({}, "exactly one of fractions"),
    ({"fractions": (0.5, 0.5), "n_test": 1}, "exactly one of fractions"),
    ({"fractions": (0.5, 0.4)}, "sum to 1"),
    ({"fractions": (0.25, 0.25, 0.25, 0.25)}, "of 3 groups"),
    ({"n_test": 3}, r"or n_test between, .* got \[0.0, 1.0\] of 3"),
    ({"n_test": 0}, "or n_test between"),
    ({"groups": [["p"], ["x"]]}, "distinct groups among .*'x'"),
    ({"groups": [["p", "q"], ["q"]]}, "distinct groups among"),
    ({"groups": [["p"], []]}, "non-empty parts"),
]


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        *((lambda changes=c: build(["p", "q"], **changes), text) for c, text in BAD_DATA),
        *(
            (lambda rule=r: build(list("pqr")).split_by_group(**rule), text)
            for r, text in BAD_SPLITS
        ),
        (lambda: build(["p"]).select([]), "at least one integer index"),
        (lambda: build(["p", "q"]).select([True, False]), "at least one integer index"),
    ],
)
def test_what_does_not_fit_is_refused(call: Callable[[], Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        call()


@settings(deadline=None)
@given(
    st.lists(st.sampled_from("abcdef"), min_size=3, max_size=12).filter(lambda g: len(set(g)) >= 3),
    st.sampled_from([(0.5, 0.25, 0.25), (0.98, 0.01, 0.01), (0.2, 0.8), (1.0,)]),
    st.integers(0, 5),
)
def test_split_never_divides_a_group(groups, fractions: tuple[float, ...], seed: int) -> None:
    dataset = build(groups)
    parts = dataset.split_by_group(fractions, random_state=seed)
    again = dataset.split_by_group(fractions, random_state=seed)
    members = [set(part.groups) for part in parts]
    assert [part.names for part in parts] == [part.names for part in again]
    assert sorted(name for part in parts for name in part.names) == sorted(dataset.names)
    assert sum(len(group) for group in members) == len(set(groups))
    assert all(part.names == sorted(part.names, key=dataset.names.index) for part in parts)


def test_split_counts() -> None:
    dataset = build([f"g{i}" for i in range(10)])
    sizes = [len(p) for p in dataset.split_by_group((0.5, 0.3, 0.2), random_state=0)]
    assert sizes == [5, 3, 2]
    assert [len(p) for p in dataset.split_by_group(n_test=3, random_state=0)] == [7, 3]
    drawn = {
        tuple(dataset.split_by_group(n_test=3, random_state=seed)[1].names) for seed in range(5)
    }
    assert len(drawn) > 1
