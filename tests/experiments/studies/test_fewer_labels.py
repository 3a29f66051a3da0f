"""The experiment of Figure 1 at its tiny size, and its pieces."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from experiments.studies.fewer_labels import plot_information, stretch_of_each
from metriclearn.datasets import make_change_points
from tests.experiments.command import results_of


def test_stretches_have_the_fraction_and_grow() -> None:
    data = make_change_points(4, 120, 5, 2, (3, 4), random_state=0)
    parts = {f: stretch_of_each(data, f, 7) for f in (0.1, 0.5, 1.0)}
    for fraction, part in parts.items():
        for i, (known, full) in enumerate(zip(part.whole.labels, data.labels)):
            (place,) = np.nonzero(known != -1)
            assert np.ptp(place) + 1 == len(place) == round(120 * fraction)
            np.testing.assert_array_equal(part.whole.sequences[i], data.sequences[i])
            np.testing.assert_array_equal(part.sequences[i], data.sequences[i][place])
            np.testing.assert_array_equal(known[place].astype(int), full[place])
            np.testing.assert_array_equal(part.labels[i], full[place])
    for small, large in pairwise(parts.values()):
        for inner, outer in zip(small.whole.labels, large.whole.labels):
            assert np.all(outer[inner != -1] != -1)


@pytest.mark.filterwarnings("error:constrained_layout not applied")
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
    figure = plot_information(results)
    assert "With all labels, the learned metric" in " ".join(figure.get_suptitle().split())
