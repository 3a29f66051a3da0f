"""The number of labels that learning takes to pay off, by hand."""

import pytest

from experiments.benchmarks.learning_curve import needed, sentence


@pytest.mark.parametrize(
    ("means", "better", "count", "words"),
    [
        ([2.0, 4.0, 1.0], "less", 4, "pays off from 4 recordings on, 1.00 against the best of"),
        ([2.0, 2.5, 1.0], "less", 1, "pays off from 1 recording on, 2.00 against the best of the"),
        ([4.0, 2.5, 1.0], "less", 2, "pays off from 2 recordings on, 2.50 against the best of the"),
        ([2.0, 2.0, 3.0], "less", None, "all 4 are not enough, 3.00 against the best of the"),
        ([2.0, 4.0, 5.0], "more", 2, "pays off from 2 recordings on, 4.00 against the best of the"),
    ],
)
def test_worth_it_where_it_stays_better_than_all_others(means, better, count, words) -> None:
    """Ours with 1, 2 and 4 labeled recordings, against 3.0 of rca: one lucky recording is not
    enough."""
    panel = {
        "title": "phones",
        "item": "recording",
        "better": better,
        "numbers": [1, 2, 4],
        "curves": {"ours": [(mean, 0.1) for mean in means]},
        "flat": {"rca": 3.0, "one segment": 9.0},
    }
    assert needed(panel) == count
    assert sentence(panel).startswith(f"phones: {words}")
