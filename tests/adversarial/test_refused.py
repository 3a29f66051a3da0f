"""What is refused: a call, and a part of its one sentence. Here those of indices and pictures."""

import math
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.cluster import KMeans

import metriclearn as ml
import metriclearn.indices as indices
from metriclearn import baselines, clusterers, plots
from metriclearn.problem.partition import Partition
from tests.adversarial import refused_core, refused_fits
from tests.sentences import Rows, assert_refused, every_row

NAN, INF = math.nan, math.inf
P9, P10 = (Partition.from_change_points([n]) for n in (9, 10))
LABELS: list[tuple[Any, Any, str]] = [
    ([1, 2], [1, 2, 3], "of the 2 true labels, got 3"),
    (None, [1], "contingency"),
    (np.array(["2020-01-01", "NaT"], dtype="datetime64[D]"), [1, 2], "NaN"),
    (np.array([complex("nan"), 1]), [1, 2], "NaN"),
    (np.ma.array([1, 2], mask=[0, 1]), [1, 2], "mask"),
    (P9, P10, "of the 9 samples, got 10"),
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
    ([3, 10], [5, 11], None, "10 and 11|10 samples, got 11"),
    (["a"], [5], 10, "real numbers"),
    ([[3]], [5], 10, "flat"),
    ([True], [5], 10, "integer"),
    (np.array([2**63], dtype=np.uint64), [5], None, "of at least 1"),
    (P9, [5], 10, "9 and 10|9 samples, got 10"),
]
POINTS: list[tuple[Any, Any, Any, str]] = [
    ([[0.0], [1.0]], [1, 1], None, "two clusters"),
    ([[0.0], [1.0]], [0, 1, 2], None, "of the 2 points, got 3"),
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
INDICES: Rows = [
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
    (lambda: indices.edit_score([0, 1], [0]), "of the 2 true labels, got 1"),
    (lambda: indices.hausdorff([5], [6], 12.5), "n_samples"),
    (lambda: indices.random_walk_index(np.ones((2, 2)), [0, 1], [0, 0], base=1), "base"),
    (lambda: indices.silhouette_score(np.eye(3) * 1e200, [0, 1, 1]), "squared distances"),
    (lambda: indices.edit_score(P9, P9, ignore_label=0), "samples or segments to ignore"),
    (lambda: indices.weighted_adjusted_rand_score([0, 1], [0]), "of the 2 true labels, got 1"),
    (lambda: indices.weighted_adjusted_rand_score([0], [0], slope=-1), "slope"),
    (lambda: indices.compare([0], [0], field="dance"), 'field="speech", "music", "video" or'),
    (lambda: indices.compare([0], [0], field="video", rate=0), "rate"),
    (lambda: indices.compare([0], [0], field="music", rate=10), "two frames"),
    (lambda: indices.compare([0], [0], field="music", ignore_label=0), "every sample"),
    (lambda: indices.compare(contingency=[[1]], field="video"), "order of time"),
    (lambda: indices.compare([0, 1], [0], field="video"), "of the 2 true labels, got 1"),
    (lambda: indices.f_measure({1: [5], 2: [5, 11]}, [5, 10]), "5 and 10"),
    (lambda: indices.covering(["a", "a"], ["a", "b"]), "from_runs"),
    *(
        (lambda bad=bad: indices.annotation_error([5], [bad], 10), "annotation_error")
        for bad in [(5, 5, 1), (-1, 5, 1), (5, 11, 1), (5, 6), (0, 9, 3, 1)]
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
    *((lambda f=f: f(np.ones((2, 2)), [0, 1], [0]), "of the 2 true labels, got 1") for f in WALKS),
    *((lambda f=f: f([1, 2], [1]), "of the 2 true labels, got 1") for f in GAMMAS),
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
    (lambda: indices.mann_whitney_exact_p(0, 0, 3), "between 1 and"),
    (lambda: indices.mann_whitney_critical(3, 3, 1.5), "alpha"),
    (lambda: indices.stability_pairwise([[0, None], [None, 0]]), "share a point"),
    (lambda: indices.stability_pairwise([[0, 1], [0]]), "of the 2 true labels, got 1"),
    (lambda: indices.adjusted(indices.rand_score, [0], [0], n_permutations=1), "n_permutations"),
    (lambda: indices.stability_summary([]), "minimum of 1"),
    (lambda: indices.stability(KMeans(2), np.eye(3), n_bootstrap=1), "n_bootstrap"),
    (lambda: indices.stability(KMeans(2), np.eye(3), compare="all"), "pairwise"),
]
EMPTY, FAST = np.zeros((3, 4, 3)), {"objective": [4.0, 2.0], "lower_bound": [0.0, 1.9]}
WEIGHTS = [[3.0, 1.0, 0.5], [2.0, 0.5, 0.0], [1.0, 0.0, 0.0]]
TOLD, CAME = [0.1, 0.3, 0.8, 1.0], [0, 0.3, 1, 1]
OUTCOMES = r"needs probabilities .* from 0.1 to 1 and outcomes \[0.0, 0.3, 1.0\]"
UNLEARNED = ml.ChangePointMetricLearner()
PICTURES: Rows = [
    (lambda: plots.plot_segmentation({}), "needs one or more segmentations"),
    (lambda: plots.plot_segmentation({"t": [9], "ours": [8]}), r"last change-points \[8, 9\]"),
    (lambda: plots.plot_segmentation({"t": [9]}, np.ones(8)), "signal of 8 rows"),
    (lambda: plots.plot_annotations([0.0], {}, []), "and a signal of 1 rows"),
    (lambda: plots.plot_timeline({}), "one strip or more"),
    (lambda: plots.plot_embeddings({}, [0]), "at least one panel"),
    (lambda: plots.plot_embeddings({"x": np.ones((6, 2))}, [0] * 5), r"shape \(5, 2\) for 'x'"),
    (lambda: plots.plot_image_segmentations([EMPTY], {"people": [EMPTY[:, :3, 0]]}), "'people'"),
    (lambda: plots.plot_weights([1, INF]), "got inf at row 1 of weights"),
    (lambda: plots.plot_segmentation({"t": [9]}, None, {"ours": 1.0}), r"strips, got \['ours'\]"),
    (lambda: plots.plot_convergence({"a": {**FAST, "lower_bound": [3, 3]}}), "below the best obj"),
    (lambda: plots.plot_convergence({"a": {**FAST, "passes": [4, 2]}}), r"pass numpy\.cumsum"),
    (lambda: plots.plot_weights([1.0], ["a"], highlight=["z"]), r"got \['z'\]"),
    (lambda: ACCUMULATION(min_clusters=5, max_clusters=4).fit(PAIR), "got 5 and 4"),
    (lambda: plots.plot_weights([1.0], ["a", "b"]), "one name for each of the 1 features, got 2"),
    (lambda: plots.plot_weights([1.0], top=0), "top of at least 1"),
    (lambda: plots.plot_metric_matrix(np.ones((2, 3))), "symmetric square matrix"),
    (lambda: plots.plot_convergence({}), "at least one trace"),
    (lambda: plots.plot_convergence(UNLEARNED), "a fitted learner, or names with a table"),
    (lambda: plots.plot_convergence({"a": {"lower_bound": [1.0]}}), "'objective' in the trace of"),
    (lambda: plots.plot_convergence({"a": {**FAST, "scale": 0.0}}), "one positive number as scale"),
    (lambda: plots.plot_elbow([1], [3.0], [[2.0, 1.0]]), r"\(smallest, largest\)"),
    (lambda: plots.plot_elbow([1, 2], [3.0, 2.0], None, 5), r"among n_segments \[1, 2\], got 5"),
    (lambda: plots.plot_regularization_path([0.1, 1], WEIGHTS), "2 strengths, 3 rows"),
    (lambda: plots.plot_regularization_path([-1, 0.2, 1], WEIGHTS), "strengths of zero or more"),
    (lambda: plots.plot_scaling([1, 2], [0, 1]), "positive seconds for two or more different"),
    (lambda: plots.expected_calibration_error(TOLD, CAME), f"expected_cal.* {OUTCOMES}"),
    (lambda: plots.plot_reliability(TOLD, CAME), f"plot_reliability {OUTCOMES}"),
    (lambda: plots.plot_margins([4, 9], [1.0], np.zeros(8), [[3, 5]]), "9 gains and 1 conf"),
]
FAR, PAIR = [[1e200], [0.0]], [[0.0], [1.0]]
ACCUMULATION, GIBBS = clusterers.EvidenceAccumulation, clusterers.GibbsDPMixture
ACCUMULATE, SHARE = clusterers.evidence_accumulation, clusterers.spherical_responsibilities
COST = clusterers.penalized_kmeans_objective


def assign(x: Any, counts: Any, means: Any) -> Any:
    options = {"variance": 1.0, "prior_variance": 1.0, "penalty": 1.0}
    return clusterers.assignment_probabilities(x, counts, means, **options)


CLUSTERERS: Rows = [
    (lambda: clusterers.DPMeans().fit(FAR), "rescale X"),
    (lambda: clusterers.DPMeans().fit(PAIR, sample_weight=[1, 0]), "above zero, got 0"),
    (lambda: COST(PAIR, [0, 0, 1], 1.0), "of the 2 rows of X, got 3"),
    (lambda: COST(PAIR, [0, 1], -1.0), "a penalty of at least 0, got -1"),
    (lambda: ACCUMULATE([[0, 1]], 1.5), "threshold=None or a number between 0 and 1, got 1"),
    (lambda: ACCUMULATE([[None, 1]]), "without None"),
    *(
        (lambda read=read, runs=runs: read(runs), "a list of labelings|of the 2 samples, got 3")
        for read in (ACCUMULATE, clusterers.coassociation)
        for runs in ([], [[0, 1], [0, 1, 2]])
    ),
    (lambda: assign([0.0, 1.0], [1], [[0.0]]), r"means \(K, d\)"),
    (lambda: assign([0.0], [-1], [[0.0]]), "counts of at least 0"),
    (lambda: assign([NAN], [1], [[0.0]]), "got NaN at row 0 of x"),
    (lambda: assign([1e200], [1], [[0.0]]), "assignment_probabilities needs squared distances"),
    (lambda: SHARE([[0.0]], [1.0], PAIR, 1.0), "k weights and 1 or k variances"),
    (lambda: SHARE([[0.0]], [1.0], [[0.0, 1.0]], 1.0), r"means of shape \(k, d\)"),
    (lambda: SHARE([[0.0]], [1.0, 1.0], PAIR, 0.0), "variances > 0"),
    (lambda: SHARE([[NAN]], [1.0], [[0.0]], 1.0), "got NaN at row 0, feature 0 of X"),
    (lambda: SHARE(FAR, [1.0], [[0.0]], 1.0), "spherical_responsibilities needs squared dist"),
    (lambda: GIBBS().fit(FAR), "GibbsDPMixture needs squared distances below 1e300"),
    (lambda: ACCUMULATION().fit(FAR), "EvidenceAccumulation needs squared distances"),
    (lambda: GIBBS(variance=1e-310).fit(PAIR), r"1e300 variances, got 1\.0e"),
]
RNG = np.random.default_rng(0)
X = [RNG.normal(size=(n, 2)) for n in (60, 90, 47)]
Y = [np.arange(len(x)) // 15 for x in X]
PAIRED = (baselines.MMC(), baselines.NeighborhoodComponents())
CHUNKLETS = baselines.RelevantComponents(contiguous=False)
KMEANS = baselines.MetricKMeans().fit(X[0], Y[0])
CUTS = baselines.EqualCuts
BASELINES: Rows = [
    *((lambda m=m: m.fit(X[0], np.zeros(60)), f"{type(m).__name__} .* two cl") for m in PAIRED),
    *(
        (lambda m=m: m.fit(X[:2], [np.zeros(60), np.ones(90)]), r"got 1 class in each of the 2")
        for m in PAIRED
    ),
    *((lambda m=m: m.fit(np.eye(2), [0, 1]), "needs a pair of samples with th") for m in PAIRED),
    *(
        (lambda y=y: CHUNKLETS.fit(X[0], y), "in some chunklet, but no two of the 60 ")
        for y in ([-1] * 60, np.full(60, -1, dtype=object), np.arange(60))
    ),
    (lambda: CHUNKLETS.fit(X[0], Y[0][:10]), "one label per sample"),
    *(
        (
            lambda n=n: KMEANS.predict(X[0], n_clusters=n),
            "a whole n_clusters from 1 to 60 for the 6",
        )
        for n in (True, np.array(2.5), np.array(0), "3", [True])
    ),
    (lambda: CUTS().predict(X), "not fitted"),
    (lambda: CUTS().fit(X), "EqualCuts requires y to be passed"),
    (lambda: CUTS(0).fit(X, Y), "EqualCuts needs n_segments=None or a whole number"),
    (lambda: CUTS().fit(X, Y).predict(np.zeros((9, 3))), "EqualCuts is expecting 2 features"),
    (lambda: CUTS().fit(X, [np.full(len(y), -1) for y in Y]), "needs labels, but all labels"),
    (lambda: CUTS().fit(X, Y, length=3), "EqualCuts needs X, y as arguments of fit"),
]
MINE = {"index": INDICES, "picture": PICTURES, "clusterer": CLUSTERERS, "baseline": BASELINES}


@pytest.mark.filterwarnings("ignore")
@every_row(MINE | refused_core.ROWS | refused_fits.ROWS)
def test_refused_in_one_sentence(call, sentence: str) -> None:
    with assert_refused(sentence):
        call()
