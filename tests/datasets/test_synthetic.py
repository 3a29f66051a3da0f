import pytest

from metriclearn.datasets import make_change_points


def test_every_number_of_segments_and_every_position_occurs() -> None:
    dataset = make_change_points(400, 6, 1, 1, (1, 3), min_size=2, random_state=0)
    found = {tuple(ends.tolist()) for ends in dataset.change_points}
    assert found == {(6,), (2, 6), (3, 6), (4, 6), (2, 4, 6)}


def test_noise_and_jump_are_standard_deviations() -> None:
    still = make_change_points(1, 20000, 1, 1, noise=0.5, jump=0.0, random_state=0)
    assert still.sequences[0].std() == pytest.approx(0.5, rel=0.02)
    steps = make_change_points(1, 20, 4000, 1, (2, 2), noise=0.0, jump=3.0, random_state=0)
    assert steps.sequences[0][0].std() == pytest.approx(3.0, rel=0.04)


IMPOSSIBLE = [("n_segments", (3, 2)), ("n_segments", (0, 2)), ("n_samples", 8), ("n_relevant", 301)]
IMPOSSIBLE += [(name, 0) for name in ("min_size", "n_relevant", "distractor_group", "n_series")]


@pytest.mark.parametrize(("name", "value"), IMPOSSIBLE)
def test_impossible_data_are_refused(name: str, value: object) -> None:
    with pytest.raises(ValueError, match="make_change_points needs"):
        make_change_points(**{name: value})
