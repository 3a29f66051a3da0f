"""The number of labels that learning takes to pay off, by hand."""

import pytest

from experiments.benchmarks.learning_curve import RESULTS, SETTINGS, needed, sentence
from experiments.harness.results import read_results


# Of hapt and neuroblastoma the curve shows choices of earlier runs.
@pytest.mark.parametrize("experiment", sorted(SETTINGS.keys() - {"hapt", "neuroblastoma"}))
def test_methods_have_the_parameters_that_the_committed_results_chose(experiment: str) -> None:
    rows = read_results(RESULTS / f"{experiment}.json")["rows"]
    for method, (_, parameters, option) in SETTINGS[experiment].methods.items():
        one = "ours/one model" if method == "ours" else method
        chosen = max((row for row in rows if row["method"] in (one, method)), key=_is_one)["choice"]
        for name, value in parameters.items():
            assert f"{name.split('__')[-1]} = {value:g}" in chosen
        assert ("tuned afterwards" in chosen) == (option is not None)


def _is_one(row: dict) -> bool:
    """Whether a row is of one model, not of a consensus."""
    return row["method"] == "ours/one model"


def panel(means: list[float], better: str = "less") -> dict:
    """Ours with 1, 2 and 4 labeled recordings, against 3.0 of rca."""
    curve = [(mean, 0.1) for mean in means]
    return {
        "title": "phones",
        "item": "recording",
        "better": better,
        "numbers": [1, 2, 4],
        "curves": {"ours": curve},
        "flat": {"rca": 3.0, "one segment": 9.0},
    }


def test_worth_it_where_it_stays_better_than_all_others() -> None:
    assert needed(panel([2.0, 4.0, 1.0])) == 4  # one lucky recording is not enough
    assert needed(panel([2.0, 2.5, 1.0])) == 1
    assert needed(panel([2.0, 2.0, 3.0])) is None
    assert needed(panel([2.0, 4.0, 5.0], "more")) == 2
    assert sentence(panel([4.0, 2.5, 1.0])).startswith(
        "phones: pays off from 2 recordings on, 2.50"
    )
    assert sentence(panel([4.0, 4.0, 3.5])).startswith("phones: all 4 are not enough, 3.50")
