import numpy as np
import pytest
from numpy.typing import NDArray

from metriclearn.datasets import make_change_points


def test_every_number_of_segments_and_every_position_occurs() -> None:
    dataset = make_change_points(400, 6, 1, 1, (1, 3), min_size=2, random_state=0)
    found = {tuple(ends.tolist()) for ends in dataset.change_points}
    assert found == {(6,), (2, 6), (3, 6), (4, 6), (2, 4, 6)}


def test_without_noise_features_change_exactly_where_they_should() -> None:
    dataset = make_change_points(
        2, n_samples=100, n_features=8, n_relevant=2, noise=0.0, jump=2.0, distractor_group=3,
        feature_seed=1, random_state=4,
    )  # fmt: skip
    for X, ends in zip(dataset.sequences, dataset.change_points):
        changes = [tuple(np.flatnonzero(np.diff(column)) + 1) for column in X.T]
        assert {changes[i] for i in dataset.relevant} == {tuple(ends[:-1])}
        others = [changes[i] for i in range(8) if i not in dataset.relevant]
        assert len(set(others)) == 2
        assert sorted(others.count(change) for change in set(others)) == [3, 3]
        assert tuple(ends[:-1]) not in others


def test_noise_and_jump_are_standard_deviations() -> None:
    still = make_change_points(1, 20000, 1, 1, noise=0.5, jump=0.0, random_state=0)
    assert still.sequences[0].std() == pytest.approx(0.5, rel=0.02)
    steps = make_change_points(1, 20, 4000, 1, (2, 2), noise=0.0, jump=3.0, random_state=0)
    assert steps.sequences[0][0].std() == pytest.approx(3.0, rel=0.04)


def test_seeds() -> None:
    def draw(seed: int, feature_seed: int | None) -> tuple[list[int], NDArray]:
        seeds = {"feature_seed": feature_seed, "random_state": seed}
        dataset = make_change_points(1, n_samples=60, n_features=20, n_relevant=4, **seeds)
        return dataset.relevant.tolist(), dataset.sequences[0]

    assert draw(0, 7)[0] == draw(1, 7)[0] != [0, 1, 2, 3]
    assert draw(0, 8)[0] != draw(0, 7)[0]
    assert draw(0, None)[0] == [0, 1, 2, 3]
    np.testing.assert_array_equal(draw(0, 7)[1], draw(0, 7)[1])
    assert np.any(draw(0, 7)[1] != draw(1, 7)[1])


IMPOSSIBLE = [("n_segments", (3, 2)), ("n_segments", (0, 2)), ("n_samples", 8), ("n_relevant", 301)]
IMPOSSIBLE += [(name, 0) for name in ("min_size", "n_relevant", "distractor_group", "n_series")]


@pytest.mark.parametrize(("name", "value"), IMPOSSIBLE)
def test_impossible_data_are_refused(name: str, value: object) -> None:
    with pytest.raises(ValueError, match="make_change_points needs"):
        make_change_points(**{name: value})
