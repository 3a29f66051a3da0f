"""Learning on the label page: segments agree with the labels, and the rest is the best."""

from pathlib import Path

import numpy as np
import pytest

from metriclearn import (
    EXACTLY_ONE,
    NO_CHANGE,
    ChangePointMetricLearner,
    LowRankForm,
    PartialPartition,
    Partition,
    Region,
    boundary_margins,
)
from metriclearn.annotate.learning import Group
from metriclearn.annotate.project import partial_labels, read_annotations
from metriclearn.annotate.signals import Recording
from metriclearn.datasets.annotations import row_labels


def _random_case(seed: int) -> tuple[np.ndarray, np.ndarray, PartialPartition]:
    generator = np.random.default_rng(seed)
    T = 40
    X = np.repeat(generator.normal(size=(5, 2)), 8, axis=0) + 0.7 * generator.normal(size=(T, 2))
    changes = generator.choice(np.arange(2, T - 2), generator.integers(0, 4), replace=False)
    starts = generator.choice(T - 10, generator.integers(0, 3), replace=False)
    regions = []
    for start in starts.tolist():
        stop = start + int(generator.integers(2, 10))
        if not any(start < t < stop for t in changes):
            regions.append(Region(start, stop, NO_CHANGE))
    known = PartialPartition(T, change_points=sorted(changes.tolist()), regions=regions)
    return X, generator.normal(size=(2, 2)), known


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("one_change", [False, True])
def test_segments_agree_with_labels_and_are_best(seed: int, one_change: bool) -> None:
    X, components, labels = _random_case(seed)
    if one_change:
        labels = PartialPartition(len(X), regions=[Region(10, 26, EXACTLY_ONE)])
    learner = ChangePointMetricLearner()
    learner.components_, learner.penalty_ = components, 2.0
    recording = Recording("x", "table", Path("x.csv"), X, ["a", "b"], 1.0, float(len(X)))
    (margins,) = Group([recording], learner).segment([labels])
    form = LowRankForm(X @ components.T).shifted(-2.0)
    exact = boundary_margins(form, known=labels, tolerance=1)
    np.testing.assert_array_equal(margins.change_points, exact.change_points)
    labeled = [r.start + 1 for r in labels.constraints if r.stop - r.start == 2 and r.kind.fewest]
    ends = margins.change_points[:-1]
    assert np.all(np.isinf(margins.losses[np.isin(ends, labeled)]))
    free = [all(abs(t - other) > 1 for other in labeled) for t in ends]
    np.testing.assert_allclose(margins.losses[free], exact.losses[free], rtol=1e-6, atol=1e-8)


def test_rows_of_annotations() -> None:
    given = [
        {"start": 0.0, "end": 2.0, "kind": "segment", "label": "a"},
        {"start": 3.0, "end": 5.0, "kind": "segment", "label": "b"},
        {"start": 5.0, "end": 5.0, "kind": "change"},
        {"start": 6.0, "end": 8.0, "kind": "one change"},
    ]
    known = partial_labels(read_annotations(given, 9.0), 90, 10.0)
    assert known.allows(Partition(ends=[25, 50, 70, 90]))
    assert not known.allows(Partition(ends=[50, 70, 90]))  # none between a and b
    assert not known.allows(Partition(ends=[25, 70, 90]))  # none at 5 s
    assert not known.allows(Partition(ends=[25, 40, 50, 70, 90]))  # one in b
    assert not known.allows(Partition(ends=[25, 50, 65, 75, 90]))  # two from 6 to 8 s


@pytest.mark.parametrize("time", [0.375, 0.625, 1.125, 4.853])
def test_the_page_and_tables_have_the_same_rows(time: float) -> None:
    given = [
        {"start": 0.0, "end": time, "kind": "segment", "label": "a"},
        {"start": time, "end": 9.0, "kind": "segment", "label": "b"},
    ]
    labels = row_labels([(0.0, time, "a"), (time, 9.0, "b")], 36, 4.0)
    known = partial_labels(read_annotations(given, 9.0), 36, 4.0)
    assert known.allows(Partition(ends=[int(np.sum(labels == "a")), 36]))
