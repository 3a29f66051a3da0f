"""Tests of metriclearn.annotate.learning: what is known holds, and the rest is best."""

import numpy as np
import pytest

from metriclearn import (
    EXACTLY_ONE,
    NO_CHANGE,
    LowRankForm,
    PartialPartition,
    Partition,
    Region,
    boundary_margins,
)
from metriclearn.annotate.learning import segment_known
from metriclearn.annotate.project import Annotation, known_rows, read_annotations, segments_of


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


@pytest.mark.parametrize("seed", range(40))
def test_best_segmentation_and_margins_of_the_constrained_program(seed: int) -> None:
    X, components, known = _random_case(seed)
    form = LowRankForm(X @ components.T)
    margins, sure = segment_known(X, components, 2.0, known)
    exact = boundary_margins(form.shifted(-2.0), known=known)
    np.testing.assert_array_equal(margins.change_points, exact.change_points)
    assert np.all(np.isinf(margins.losses[sure]))
    borders = [t for region in known.constraints for t in (region.start, region.stop)]
    free = ~sure & ~np.isin(margins.change_points[:-1], borders)
    np.testing.assert_allclose(margins.losses[free], exact.losses[free], rtol=1e-6, atol=1e-8)
    assert np.all(margins.losses[~sure] <= exact.losses[~sure] + 1e-8)


@pytest.mark.parametrize("seed", range(20))
def test_a_region_with_one_change_has_one(seed: int) -> None:
    X, components, _ = _random_case(seed)
    known = PartialPartition(len(X), regions=[Region(10, 26, EXACTLY_ONE)])
    margins, _ = segment_known(X, components, 2.0, known)
    assert known.allows(Partition(ends=margins.change_points))


def test_rows_of_annotations() -> None:
    given = [
        {"start": 0.0, "end": 2.0, "kind": "segment", "label": "a"},
        {"start": 3.0, "end": 5.0, "kind": "segment", "label": "b"},
        {"start": 5.0, "end": 5.0, "kind": "change"},
        {"start": 6.0, "end": 8.0, "kind": "one change"},
    ]
    known = known_rows(read_annotations(given, 9.0), 90, 10.0)
    assert known.allows(Partition(ends=[25, 50, 70, 90]))
    assert not known.allows(Partition(ends=[50, 70, 90]))  # none between a and b
    assert not known.allows(Partition(ends=[25, 70, 90]))  # none at 5 s
    assert not known.allows(Partition(ends=[25, 40, 50, 70, 90]))  # one in b
    assert not known.allows(Partition(ends=[25, 50, 65, 75, 90]))  # two from 6 to 8 s


def test_segments_of_annotations() -> None:
    many = [Annotation(1.0, 2.0, "segment", "a"), Annotation(2.0, 3.0, "no change")]
    assert segments_of("x", many, 4.0, classes=True) == [
        (0.0, 1.0, "unknown"),
        (1.0, 2.0, "a"),
        (2.0, 4.0, "unknown"),
    ]
    assert segments_of("x", many, 4.0, classes=False) == [
        (0.0, 2.0, "unknown"),
        (2.0, 3.0, "x 2"),
        (3.0, 4.0, "unknown"),
    ]
