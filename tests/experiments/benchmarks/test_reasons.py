"""Reasons of losses: which recordings are fitted to, and which are scored."""

from typing import Any

import numpy as np

from experiments.benchmarks import reasons
from metriclearn.datasets import LabeledSequences


class Recorder:
    """In place of the league: the loss is a share of what was fitted to."""

    def __init__(self) -> None:
        y = np.repeat([0, 1, 0], [2, 4, 6])
        groups = list("abcd")
        self.data = LabeledSequences("d", [np.zeros((12, 1))] * 4, [y] * 4, groups, groups, ["x"])
        self.calls: list[tuple[str, str, int, int]] = []

    def training(self, name: str) -> LabeledSequences:
        return self.data

    def method(self, key: str) -> Any:
        return type("Named", (), {"name": key})

    def loss(self, key: str, train: LabeledSequences, test: LabeledSequences) -> float:
        mine, theirs = "".join(train.groups), "".join(test.groups)
        self.calls.append((mine, theirs, len(train.sequences[0]), len(test.sequences[0])))
        return {"euclidean": 2.0, "equal_cuts": 3.0}.get(key, 1.0) / len(train)


def test_a_part_of_the_recordings_is_fitted_to() -> None:
    bench: Any = Recorder()
    (row,) = reasons.fewer_recordings(bench, "made", "full")
    assert row["ratio"] == "1.50"  # two recordings in place of three
    assert all(not set(mine) & set(theirs) for mine, theirs, *_ in bench.calls)
    bench.data = bench.data.select([0, 1])
    assert reasons.fewer_recordings(bench, "made", "full") == []


def test_second_halves_are_scored() -> None:
    bench: Any = Recorder()
    others, same = reasons.new_names(bench, "made")
    assert (others["euclidean"], same["euclidean"]) == ("0.667", "2")
    assert others["learned / euclidean"] == "0.50"
    lengths = {(mine == theirs, long, short) for mine, theirs, long, short in bench.calls}
    assert lengths == {(False, 12, 6), (True, 6, 6)}


def test_deviation_of_lengths() -> None:
    row = reasons.lengths(Recorder(), "made")  # type: ignore[arg-type]
    assert row["deviation of lengths / mean"] == f"{np.std([2, 4, 6]) / 4:.2f}"
    assert row["ratio"] == "3.00"
