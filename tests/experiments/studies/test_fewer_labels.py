"""The experiment of Figure 1 at its tiny size, and its pieces."""

from itertools import pairwise
from pathlib import Path

import numpy as np

from experiments.studies.fewer_labels import Stretches, draw_figure1
from metriclearn.datasets import make_change_points
from tests.experiments.command import results_of


def test_stretches_have_the_fraction_and_grow() -> None:
    data = make_change_points(4, 120, 5, 2, (3, 4), random_state=0)
    parts = {f: Stretches.draw(data, f, random_state=7) for f in (0.1, 0.5, 1.0)}
    for fraction, part in parts.items():
        X, labels = part.training(told=False)
        assert X is data.sequences
        for known, full, place in zip(labels, data.labels, part.places):
            assert place.stop - place.start == round(120 * fraction)
            np.testing.assert_array_equal(known[place], full[place])
            assert np.all(np.delete(known, place) == -1)
    for small, large in pairwise(parts.values()):
        for inner, outer in zip(small.places, large.places):
            assert outer.start <= inner.start < inner.stop <= outer.stop


def test_tiny_run(tmp_path: Path) -> None:
    results = results_of(tmp_path, "experiment=figure1", "tiny=true", "n_jobs=1")
    (table,) = results["tables"]
    assert list(table["columns"]) == ["50 % labeled", "100 % labeled"]
    rows = {(row["method"], row["column"]): row for row in results["rows"]}
    methods = {method for method, _ in rows}
    assert len(methods) == 8
    assert len(rows) == 16
    assert methods - {name for name in methods if name.endswith(", K given")} == {
        "ours",
        "one segment",
    }
    assert all(row["units"] == ["draw 0", "draw 1"] for row in rows.values())
    assert "<figure>" in (tmp_path / "report.html").read_text(encoding="utf-8")
    figure = draw_figure1(results)
    assert "With all labels, the learned metric" in " ".join(figure.get_suptitle().split())
