"""Names that training never saw, and a few labeled minutes."""

from itertools import product
from typing import Any

import numpy as np
import pytest
from sklearn.naive_bayes import GaussianNB

from experiments.harness.cases import case_of, group_folds
from experiments.harness.scoring import squared_norm
from experiments.league.unseen import Roots, cut_out, name_parts, without_parts
from experiments.studies.fewer_labels import drawn, minutes_cases
from metriclearn import Partition
from metriclearn.baselines import TunedSegmenter
from metriclearn.datasets import LabeledSequences
from metriclearn.views import Chain, Columns, Posteriors, Union

NAMES = "abcdef"


def recordings(n: int = 6, names: str = NAMES, seed: int = 0) -> LabeledSequences:
    """Every name has a mean of its own; recordings have each name twice, ten rows at a time."""
    random = np.random.default_rng(seed)
    levels = {name: 3.0 * np.random.default_rng(ord(name)).normal(size=4) for name in NAMES}
    sequences, labels = [], []
    for _ in range(n):
        runs = [*random.permutation(list(names)), *random.permutation(list(names))]
        y = np.repeat(np.array([str(name) for name in runs]), 10)
        labels.append(y)
        sequences.append(np.array([levels[name] for name in y]) + random.normal(size=(len(y), 4)))
    groups = [f"user {i}" for i in range(n)]
    return LabeledSequences("made", sequences, labels, groups, groups, list("wxyz"))


def test_names_are_cut_out_and_the_rest_is_joined() -> None:
    y = np.array(["a", "a", "b", "c", "c", "b", "a"])
    X = np.arange(7.0)[:, None]
    data = LabeledSequences("d", [X, X, X[:3]], [y, y, y[:3]], ["g"] * 3, list("nop"), ["x"])
    found = cut_out(data, ["b"])
    assert found is not None
    assert [labels.tolist() for labels in found.labels] == [["a", "a", "c", "c", "a"]] * 2
    assert found.sequences[0].ravel().tolist() == [0, 1, 3, 4, 6]
    assert cut_out(data, ["b", "c"]) is None  # no boundary is left


def test_parts_of_the_names_are_left_out_of_training_and_of_folds() -> None:
    data = recordings()
    parts = name_parts(data, 2, ["a"], seed=0)
    assert sorted(name for part in parts for name in part) == list("bcdef")
    unseen = {"parts": 2, "turns": 2, "always": ["a"]}
    for part, (words, known, folds) in zip(parts, without_parts(data, unseen, 3, seed=0)):
        assert words == f"without {', '.join(part)}"
        left = {str(name) for name in np.concatenate(known.labels)}
        assert left == set(NAMES) - set(part)
        for fitted, held_out in folds:
            assert not set(fitted.groups) & set(held_out.groups)
            assert {str(name) for name in np.concatenate(held_out.labels)} == left
            assert "a" in np.concatenate(fitted.labels)
        fewer = [len(set(np.concatenate(fitted.labels))) for fitted, _ in folds]
        first, second = (len(left) - len(p) for p in name_parts(known, 2, ["a"], seed=1))
        assert fewer == [first, second, first]


@pytest.mark.parametrize("with_features", [False, True])
def test_probabilities_of_known_names_find_segments_of_new_ones(with_features: bool) -> None:
    known, test = recordings(names="abcd"), recordings(2, seed=1)
    view: Any = Chain([Posteriors(GaussianNB(), context=0, n_folds=2), Roots()])
    if with_features:
        view = Union([Columns(0, 4), view])
    model = TunedSegmenter(view=view).fit(known.sequences, known.labels, groups=known.groups)
    truths = [Partition.from_runs(labels) for labels in test.labels]
    found = [Partition(ends=ends) for ends in model.predict_change_points(test.sequences)]
    losses = [squared_norm(one, truth) for one, truth in zip(found, truths)]
    assert max(losses) < 0.35 * min(truth.n_clusters for truth in truths)
    roots = model.present_score.rows(test.sequences[0])[:, -4:]
    np.testing.assert_allclose(np.square(roots).sum(axis=1), 1.0, atol=5e-3)


def test_a_few_minutes_are_drawn_from_whole_recordings() -> None:
    data = recordings()
    for minutes, count in ((1, 2), (3, 3), (5, 5)):
        for seed, picked in product(range(5), (False, True)):
            some = drawn(data, minutes, 40, seed, picked)
            size = minutes * 40 // count
            assert [len(x) for x in some.sequences] == [size] * count
            assert len(set(some.groups)) == min(count, len(set(data.groups)))
            changes = [len(ends) - 1 for ends in some.change_points]
            assert min(changes) > 0 if picked else max(changes) > 0
            for x, y, name, known in zip(
                some.sequences, some.labels, some.names, some.whole.labels
            ):
                i = data.names.index(name)
                start = int(np.flatnonzero(known != -1)[0])
                np.testing.assert_array_equal(x, data.sequences[i][start : start + size])
                np.testing.assert_array_equal(y, data.labels[i][start : start + size])
                assert np.count_nonzero(known != -1) == size
    with pytest.raises(ValueError, match="made has less than 19 minutes to draw from"):
        drawn(data, 19, 40, seed=0)
    whole = case_of("made", data, recordings(2, seed=1), group_folds(data, 2), "made")
    few = {"minutes": [1, 2], "rows": 40, "draws": 2}
    cases = list(minutes_cases(whole, few, 2, seed=0))
    assert [case.column for case in cases] == ["1 min", "1 min", "2 min", "2 min"]
    assert len({case.name for case in cases}) == 4
    for part in cases[0].folds[0]:
        assert part.names == part.whole.names
