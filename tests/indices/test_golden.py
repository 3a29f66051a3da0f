"""Tables worked by hand, and every value of the golden file that independent programs made."""

import json
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import metriclearn.clusterers as clusterers
import metriclearn.indices as indices
from metriclearn.indices.registered import listed_indices
from metriclearn.problem.partition import Partition
from metriclearn.views.fourier import fourier_features

DATA = os.environ.get("METRICLEARN_DATA")
FILE = Path(DATA).parent / "golden" / "indices.json" if DATA else None
STORED = json.loads(FILE.read_text())["cases"] if FILE is not None and FILE.exists() else []
CASES = [case for case in STORED if case["function"] != "svm_primal_exact"]  # not of this package


def _of_change_points(function: Callable[..., float]) -> Callable[..., float]:
    return lambda cps_true, cps_pred, n: function(
        Partition.from_change_points(cps_true, n), Partition.from_change_points(cps_pred, n)
    )


BY_HAND = json.loads(Path(__file__).with_name("golden.json").read_text())


@pytest.mark.parametrize("row", BY_HAND, ids=[row["about"] for row in BY_HAND])
def test_tables_worked_by_hand(row: dict[str, Any]) -> None:
    for name, value in row["values"].items():
        found = getattr(indices, name)(contingency=row["table"], **row.get("options", {}))
        assert found == pytest.approx(value, rel=1e-12, abs=1e-12), name


def test_every_index_has_a_table_worked_by_hand() -> None:
    lacking = set(listed_indices()) - {name for row in BY_HAND for name in row["values"]}
    assert not lacking, f"add values of {sorted(lacking)} to tests/indices/golden.json"


# quantities that this package calls by another name than the file
CALLS: dict[str, Callable[..., Any]] = {
    "pair_confusion": indices.pair_confusion_matrix,
    "mutual_information": indices.mutual_info_score,
    "normalized_mutual_information": indices.normalized_mutual_info_score,
    "adjusted_mutual_information": indices.adjusted_mutual_info_score,
    "rand_index_changepoints": _of_change_points(indices.rand_score),
    "rand_index_changepoints_theorem": _of_change_points(indices.rand_score),
    "hausdorff_changepoints": _of_change_points(indices.hausdorff),
    "goodman_kruskal_slides": lambda a, b: indices.goodman_kruskal_gamma(a, b, ties="agree"),
    "mann_whitney_u": lambda x, y: list(indices.mann_whitney_u(x, y)[:2]),
    "mann_whitney_u_ranks": lambda x, y: list(indices.mann_whitney_u(x, y)[:2]),
    "dp_means_labels": lambda X, penalty: clusterers.DPMeans(penalty).fit(X).labels_,
    "dp_means_objective": lambda X, penalty: clusterers.DPMeans(penalty).fit(X).objective_,
    "dp_gibbs_probabilities": clusterers.assignment_probabilities,
    "em_responsibilities_spherical": clusterers.spherical_responsibilities,
    "evidence_accumulation_lifetime_labels": lambda labelings: clusterers.evidence_accumulation(
        labelings, None
    ),
    "rff": fourier_features,
}
RENAMED = {
    "normalizer": "average_method",
    "diameter_kind": "diameter",
    "sigma": "variance",
    "var": "variance",
    "rho": "prior_variance",
    "lam": "penalty",
    "alpha_two_sided": "alpha",
}
SPECIAL = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}


def function_of(name: str) -> Callable[..., Any]:
    """The function of that name, of that name as a score, or of another name."""
    names = name, f"{name.removesuffix('_index')}_score"
    homes = [(home, one) for home in (indices, clusterers) for one in names if hasattr(home, one)]
    return CALLS.get(name) or getattr(*homes[0])


CONVERTED = {"index": function_of, "distance": function_of, "strict": bool, "continuity": bool}


def result(case: dict[str, Any]) -> Any:
    arguments = {
        RENAMED.get(name, name): CONVERTED.get(name, lambda value: value)(value)
        for name, value in case["args"].items()
    }
    return function_of(case["function"])(**arguments)


def assert_close(found: Any, expected: Any, tolerance: float) -> None:
    if isinstance(expected, dict | list):
        assert len(found) == len(expected)
        for key in expected if isinstance(expected, dict) else range(len(expected)):
            assert_close(found[key], expected[key], tolerance)
    elif expected is None:
        assert found is None
    else:
        value = SPECIAL.get(expected, expected)
        assert found == pytest.approx(value, abs=tolerance * max(1.0, abs(value)), nan_ok=True)


@pytest.mark.skipif(not CASES, reason="METRICLEARN_DATA has no sibling golden/indices.json")
def test_every_case_runs() -> None:
    assert len(CASES) >= 188


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_golden_case(case: dict[str, Any]) -> None:
    if "raises" in case:
        with pytest.raises(ValueError):  # noqa: PT011  (the file gives no message)
            result(case)
    elif case.get("compare") == "partition":
        assert Partition.from_labels(result(case)) == Partition.from_labels(case["expected"])
    else:
        assert_close(result(case), case["expected"], case.get("tol", 1e-10))
