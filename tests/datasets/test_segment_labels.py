"""Labels of segments."""

import pytest

from metriclearn.datasets.segment_labels import name_classes


@pytest.mark.parametrize(
    ("labelings", "classes"),
    [
        ([["a", "b", "a"]], True),
        ([["a", "b"], ["a"]], True),
        ([["a", "b"], ["c"]], False),  # no label recurs
        ([["a", "a"], ["a"]], False),
        ([[str(i) for i in range(n)] for n in (9, 7)], False),  # numbers of segments
        ([[str(i) for i in range(n)] for n in (8, 7)], True),
        ([[*"0123456789", "10", "11", "12", "1"]], True),
        ([[f"shot {i + 1}" for i in range(n)] for n in (4, 3)], False),
        ([[f"phase {i + 1}" for i in range(4)]] * 3, True),
        ([["1", "2"], ["1"]], True),
    ],
)
def test_labels_that_name_classes_recur(labelings: list[list[str]], classes: bool) -> None:
    assert name_classes(labelings) == classes
