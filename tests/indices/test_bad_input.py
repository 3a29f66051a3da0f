"""Input that the indices refuse, and their messages; labels and change-points: tests/problem."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.cluster import KMeans

import metriclearn.indices as indices
from metriclearn.problem.partition import Partition

NAN, INF = math.nan, math.inf
P9, P10 = (Partition.from_change_points([n]) for n in (9, 10))
LABELS: list[tuple[Any, Any, str]] = [
    ([1, 2], [1, 2, 3], "2 and 3"),
    (None, [1], "contingency"),
    (np.array(["2020-01-01", "NaT"], dtype="datetime64[D]"), [1, 2], "NaN"),
    (np.array([complex("nan"), 1]), [1, 2], "NaN"),
    (np.ma.array([1, 2], mask=[0, 1]), [1, 2], "mask"),
    (P9, P10, "9 and 10 samples"),
]
TABLES: list[tuple[Any, str]] = [
    ([1, 2], "dimension"),
    ([[0, 0]], "positive"),
    ([[-1, 2]], "non-negative"),
    ([[0.5, 1]], "whole"),
    ([[NAN, 1]], "finite"),
    ([[2**62, 1]], r"2\*\*62"),
]
CHANGE_POINTS: list[tuple[Any, Any, int | None, str]] = [
    ([3, 3], [5], 10, "3 twice"),
    ([3, 10], [5, 11], None, "10 and 11"),
    (["a"], [5], 10, "real numbers"),
    ([[3]], [5], 10, "flat"),
    ([True], [5], 10, "integer"),
    (np.array([2**63], dtype=np.uint64), [5], None, "from 1"),
    (P9, [5], 10, "9 and 10"),
]
POINTS: list[tuple[Any, Any, Any, str]] = [
    ([[0.0], [1.0]], [1, 1], None, "two clusters"),
    ([[0.0], [1.0]], [0, 1, 2], None, "3 labels for 2"),
    ([0.0, 1.0], [0, 1], None, "1 dimension"),
    ([[0.0], [INF]], [0, 1], None, "got inf"),
    (np.eye(3), [0, 1, 1], -np.eye(3), "metric"),
    (np.eye(3), [0, 1, 1], np.ones(2), "metric"),
    (np.eye(3), [0, 1, 1], np.triu(np.ones((3, 3))), "metric"),
]
GRAPHS: list[tuple[Any, str]] = [
    (np.zeros((2, 2)), "edges"),
    (csr_array((2, 2)), "edges"),
    ([[0, -1], [-1, 0]], "at least 0"),
    ([[0, 1], [2, 0]], "symmetric"),
    ([[0, NAN], [NAN, 0]], "finite"),
    (np.ones((3, 3)), "shape"),
]
GAMMAS = (indices.goodman_kruskal_gamma, indices.weighted_goodman_kruskal)
WALKS = (indices.random_walk_index, indices.vi_with_neighbors)
CALLS: list[tuple[Callable[[], Any], str]] = [
    *((lambda a=a, b=b: indices.rand_score(a, b), text) for a, b, text in LABELS),
    *((lambda table=table: indices.rand_score(contingency=table), text) for table, text in TABLES),
    (lambda: indices.rand_score([0], [0], contingency=[[1]]), "either"),
    (lambda: indices.rand_score(contingency=[[1]], ignore_label=-1), "either"),
    (lambda: indices.rand_score(P9, P9, ignore_label=-1), "ignore"),
    (lambda: indices.rand_score([-1], [-1], ignore_label=-1), "at least one"),
    (lambda: indices.plot_contingency(range(3000), range(3000)), "at most"),
    *(
        (lambda base=base: indices.variation_of_information([0, 1], [0, 1], base=base), "base")
        for base in (1.0, -2, NAN)
    ),
    (lambda: indices.normalized_mutual_info_score([0], [0], average_method="mean"), "average"),
    (lambda: indices.expected_mutual_information(np.array([2, 3]), np.array([4])), "equal sums"),
    *(
        (lambda f=f, a=a, b=b, n=n: f(a, b, n), text)
        for a, b, n, text in CHANGE_POINTS
        for f in (indices.hausdorff, indices.covering)
    ),
    (lambda: indices.precision_recall([5], [5], 10, margin=-1), "margin"),
    (lambda: indices.f_measure([5], [5], 10, margin=NAN), "margin"),
    (lambda: indices.covering({}, [5], 10), "annotator"),
    (lambda: indices.segmental_f1([0], [0], overlap=0), "overlap"),
    (lambda: indices.edit_score([0, 1], [0]), "2 and 1"),
    (lambda: indices.hausdorff([5], [6], 12.5), "n_samples"),
    (lambda: indices.random_walk_index(np.ones((2, 2)), [0, 1], [0, 0], base=1), "base"),
    (lambda: indices.silhouette_score(np.eye(3) * 1e200, [0, 1, 1]), "squared distances"),
    (lambda: indices.edit_score(P9, P9, ignore_label=0), "which segments to ignore"),
    (lambda: indices.weighted_adjusted_rand_score([0, 1], [0]), "2 and 1"),
    (lambda: indices.weighted_adjusted_rand_score([0], [0], slope=-1), "slope"),
    (lambda: indices.compare([0], [0], field="dance"), 'field="speech", "music", "video" or'),
    (lambda: indices.compare([0], [0], field="video", rate=0), "rate"),
    (lambda: indices.compare([0], [0], field="music", rate=10), "two frames"),
    (lambda: indices.compare([0], [0], field="music", ignore_label=0), "every sample"),
    (lambda: indices.compare(contingency=[[1]], field="video"), "order of time"),
    (lambda: indices.compare([0, 1], [0], field="video"), "2 and 1"),
    (lambda: indices.f_measure({1: [5], 2: [5, 11]}, [5, 10]), "5 and 10"),
    (lambda: indices.covering(["a", "a"], ["a", "b"]), "from_runs"),
    *(
        (lambda bad=bad: indices.annotation_error([5], [bad], 10), "annotation_error")
        for bad in [(5, 5, 1), (-1, 5, 1), (5, 11, 1), (5, 6)]
    ),
    *(
        (lambda f=f, X=X, y=y, B=B: f(X, y, metric=B), text)
        for X, y, B, text in POINTS
        for f in (indices.calinski_harabasz_score, indices.dunn_score)
    ),
    (lambda: indices.silhouette_score(np.eye(2), [0, 1], kind="fast"), "kind"),
    (lambda: indices.calinski_harabasz_score(np.eye(2), [0, 1]), "fewer clusters"),
    (lambda: indices.dunn_score(np.eye(2), [0, 1], separation="median"), "separation"),
    (lambda: indices.dunn_score(np.eye(2), [0, 1], diameter="single"), "diameter"),
    *((lambda S=S: indices.random_walk_index(S, [0, 1], [0, 0]), text) for S, text in GRAPHS),
    *((lambda f=f: f(np.ones((2, 2)), [0, 1], [0]), "2 and 1") for f in WALKS),
    *((lambda f=f: f([1, 2], [1]), "2 and 1") for f in GAMMAS),
    *((lambda f=f: f([1, NAN], [1, 2]), "NaN") for f in GAMMAS),
    *((lambda f=f: f([1], [1], ties="half"), "ties") for f in GAMMAS),
    (lambda: indices.weighted_goodman_kruskal([1], [1], denominator="sum"), "denominator"),
    (lambda: indices.goodman_kruskal_gamma([1], [1], contingency=[[1]]), "either"),
    (lambda: indices.goodman_kruskal_gamma(contingency=np.eye(3) * 1e10), "at most"),
    (lambda: indices.mann_whitney_u([], [1]), "needs"),
    (lambda: indices.mann_whitney_u([NAN], [1]), "needs"),
    (lambda: indices.mann_whitney_u([1], [1], method="fast"), "method"),
    (lambda: indices.mann_whitney_exact_p(99, 2, 3), "from 0 to"),
    (lambda: indices.mann_whitney_critical(0, 3), "between 1 and"),
    (lambda: indices.mann_whitney_critical(3, 3, 1.5), "alpha"),
    (lambda: indices.stability_pairwise([[0, None], [None, 0]]), "share a point"),
    (lambda: indices.stability_pairwise([[0, 1], [0]]), "same samples"),
    (lambda: indices.stability_summary([]), "minimum of 1"),
    (lambda: indices.stability(KMeans(2), np.eye(3), n_bootstrap=1), "n_bootstrap"),
    (lambda: indices.stability(KMeans(2), np.eye(3), compare="all"), "pairwise"),
]


@pytest.mark.parametrize(("call", "message"), CALLS)
def test_bad_input_is_refused(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
