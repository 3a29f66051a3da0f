"""Every worked case of the shared golden file: indices, clusterers, random Fourier features."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import metriclearn.clusterers as clusterers
import metriclearn.indices as indices
from metriclearn.features.fourier import fourier_features, primal_svm
from metriclearn.problem.partition import Partition

DATA = os.environ.get("METRICLEARN_DATA")
FILE = Path(DATA).parent / "golden" / "indices.json" if DATA else None
CASES = json.loads(FILE.read_text())["cases"] if FILE is not None and FILE.exists() else []


def _normalized(function: Callable[..., float]) -> Callable[..., float]:
    return lambda labels_true, labels_pred, normalizer="": function(
        labels_true, labels_pred, **({"average_method": normalizer} if normalizer else {})
    )


def _change_points(function: Callable[..., float]) -> Callable[..., float]:
    return lambda cps_true, cps_pred, n: function(
        Partition.from_change_points(cps_true, n), Partition.from_change_points(cps_pred, n)
    )


def _of_index(function: Callable[..., float]) -> Callable[..., float]:
    return lambda index, **rest: function(CALLS[index], **rest)


def _of_distance(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda distance, **rest: function(distance=CALLS[distance], **rest)


def _dunn(diameter_kind: str = "complete", **rest: Any) -> float:
    return indices.dunn_score(diameter=diameter_kind, **rest)


def _u(x: list, y: list) -> list[float]:
    return list(indices.mann_whitney_u(x, y)[:2])


def _gibbs(
    x: list, counts: list, means: list, sigma: float, rho: float, lam: float
) -> NDArray[np.float64]:
    return clusterers.assignment_probabilities(
        x, counts, means, variance=sigma, prior_variance=rho, penalty=lam
    )


def _evidence(labelings: list, threshold: float = 0.5, strict: int = 1) -> NDArray[np.int64]:
    return clusterers.evidence_accumulation(labelings, threshold, strict=bool(strict))


# the file's name of a quantity -> this package's, with the file's argument names
CALLS: dict[str, Callable[..., Any]] = {
    "rand_index": indices.rand_score,
    "adjusted_rand_index": indices.adjusted_rand_score,
    "jaccard_index": indices.jaccard_score,
    "fowlkes_mallows": indices.fowlkes_mallows_score,
    "pair_counts": indices.pair_counts,
    "pair_confusion": indices.pair_confusion_matrix,
    "mutual_information": indices.mutual_info_score,
    "normalized_mutual_information": _normalized(indices.normalized_mutual_info_score),
    "adjusted_mutual_information": _normalized(indices.adjusted_mutual_info_score),
    "variation_of_information": indices.variation_of_information,
    "normalized_variation_of_information": _normalized(indices.normalized_variation_of_information),
    "misclassification_error": indices.misclassification_error,
    "adjusted": _of_index(indices.adjusted),
    "expected_under_permutation": _of_index(indices.expected_under_permutation),
    "rand_index_changepoints": _change_points(indices.rand_score),
    "rand_index_changepoints_theorem": _change_points(indices.rand_score),
    "hausdorff_changepoints": _change_points(indices.hausdorff),
    "random_walk_index": indices.random_walk_index,
    "vi_with_neighbors": indices.vi_with_neighbors,
    "silhouette": indices.silhouette_score,
    "silhouette_samples": indices.silhouette_samples,
    "davies_bouldin": indices.davies_bouldin_score,
    "calinski_harabasz": indices.calinski_harabasz_score,
    "dunn_index": _dunn,
    "weighted_goodman_kruskal": indices.weighted_goodman_kruskal,
    "goodman_kruskal_gamma": indices.goodman_kruskal_gamma,
    "goodman_kruskal_slides": lambda a, b: indices.goodman_kruskal_gamma(a, b, ties="agree"),
    "mann_whitney_u": _u,
    "mann_whitney_u_ranks": _u,
    "mann_whitney_z": lambda x, y, continuity=0: indices.mann_whitney_z(
        x, y, continuity=bool(continuity)
    ),
    "mann_whitney_critical": lambda n1, n2, alpha_two_sided: indices.mann_whitney_critical(
        n1, n2, alpha_two_sided
    ),
    "mann_whitney_exact_p": indices.mann_whitney_exact_p,
    "stability_pairwise": _of_distance(indices.stability_pairwise),
    "stability_reference": _of_distance(indices.stability_reference),
    "stability_summary": indices.stability_summary,
    "dp_means_labels": lambda X, lam: clusterers.DPMeans(lam).fit(X).labels_,
    "dp_means_objective": lambda X, lam: clusterers.DPMeans(lam).fit(X).objective_,
    "penalized_kmeans_objective": lambda X, labels, lam: clusterers.penalized_kmeans_objective(
        X, labels, lam
    ),
    "dp_gibbs_probabilities": _gibbs,
    "em_responsibilities_spherical": lambda X, weights, means, var: (
        clusterers.spherical_responsibilities(X, weights, means, var)
    ),
    "coassociation": clusterers.coassociation,
    "evidence_accumulation": _evidence,
    "evidence_accumulation_lifetime_labels": lambda labelings: clusterers.evidence_accumulation(
        labelings, None
    ),
    "rff": fourier_features,
    "svm_primal_exact": lambda Phi, y, C: list(primal_svm(Phi, y, C)),
}
SPECIAL = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}


def assert_close(found: Any, expected: Any, tolerance: float) -> None:
    if isinstance(expected, dict):
        assert found.keys() == expected.keys()
        for key in expected:
            assert_close(found[key], expected[key], tolerance)
    elif isinstance(expected, list):
        assert len(found) == len(expected)
        for one, other in zip(found, expected):
            assert_close(one, other, tolerance)
    elif expected is None:
        assert found is None
    else:
        value = SPECIAL.get(expected, expected)
        if math.isfinite(value):
            assert abs(found - value) <= tolerance * max(1.0, abs(value))
        else:
            assert float(found) == value or (math.isnan(value) and math.isnan(found))


@pytest.mark.skipif(not CASES, reason="METRICLEARN_DATA has no sibling golden/indices.json")
@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_golden_case(case: dict[str, Any]) -> None:
    call, args = CALLS[case["function"]], case["args"]
    if "raises" in case:
        with pytest.raises(ValueError):  # noqa: PT011  (the file gives no message)
            call(**args)
    elif case.get("compare") == "partition":
        assert Partition.from_labels(call(**args)) == Partition.from_labels(case["expected"])
    else:
        assert_close(call(**args), case["expected"], case.get("tol", 1e-10))


@pytest.mark.skipif(not CASES, reason="METRICLEARN_DATA has no sibling golden/indices.json")
def test_every_case_runs() -> None:
    assert len(CASES) >= 190
    assert {case["function"] for case in CASES} <= CALLS.keys()
