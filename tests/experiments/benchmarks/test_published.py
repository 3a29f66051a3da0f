"""Penalties that are chosen on other series, and how boundaries count."""

import json

import numpy as np
from sklearn.model_selection import LeaveOneOut

from experiments.benchmarks.published import (
    CENTERS,
    PENALTIES,
    SPREADS,
    agreed,
    along_penalties,
    left_out,
    path_of,
    turing,
)
from experiments.benchmarks.recordings import PEERS
from experiments.data.generated_videos import plan
from experiments.harness.scoring import inner_f1


def test_the_penalty_and_the_candidate_come_from_the_other_series() -> None:
    tables = np.zeros((2, 3, 2, 5))
    tables[0, 0, :, 1] = tables[0, 1, :, 1] = 0.9  # what suits the first two
    tables[1, 2, :, 3] = 0.5
    tables[1, 0, :, 2:5] = 0.7
    # without the third: candidate 0 at 1; without the first: 0 at 1; without the second:
    # candidate 1 at 3, where the first and the third are good
    np.testing.assert_array_equal(left_out(tables, LeaveOneOut()), [[0.9, 0.0, 0.0]] * 2)


def test_a_random_penalty_has_the_answer_of_the_least_expected_error() -> None:
    random = np.random.default_rng(0)
    path = path_of(np.repeat([0.0, 5.0, 2.0, 2.5], 15)[:, None] + random.normal(size=(60, 1)) / 3)
    numbers = np.arange(len(path.change_points), dtype=float)[:, None]
    found, at_penalty = agreed(path, numbers, 60.0), along_penalties(path, numbers, 60.0)[0]
    assert found.shape == (len(SPREADS), 1, len(CENTERS))
    for spread, center in [(0, 5), (11, 39)]:
        weights = np.exp(-0.5 * (np.log(PENALTIES / CENTERS[center]) / SPREADS[spread]) ** 2)
        ends = path.change_points
        agreement = [[sum(turing({1: ends[int(a)]}, b)[:2]) for a in at_penalty] for b in ends]
        assert found[spread, 0, center] == np.argmax(np.average(agreement, 1, weights))


def test_boundaries_count_within_the_margin_and_committed_cuts_are_of_planned_videos() -> None:
    true = np.array([10, 20, 30])
    for found, f1 in ([11, 22, 30], 1.0), ([11, 25], 0.5), ([30], 0.0):
        assert inner_f1(true, found, 2) == f1
    _, shots = plan(240.0, np.random.default_rng([0, 2, 1]))
    cuts = json.loads(PEERS.read_text(encoding="utf-8"))["AdaptiveDetector"]["3"]["test1"]
    ends = np.cumsum([shot.n_frames for shot in shots])
    assert ends[-1] == 1200
    assert inner_f1(ends, cuts, 1) > 0.9
    assert inner_f1(ends, [cut + 4 for cut in cuts], 1) < 0.1
