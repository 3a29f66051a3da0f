"""Partly labeled nodes: the loss over samples, completions, and learning from a few labels."""

from __future__ import annotations

import itertools
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, KFold

from metriclearn import (
    DiagonalMetric,
    FourierSimilarity,
    FullMetric,
    GaussianSimilarity,
    GivenSimilarities,
    NormalizedCutMetricLearner,
    PartialPartition,
    Partition,
    PrincipalStart,
    Region,
    load,
    save,
)
from metriclearn.estimators.alternation import Alternation
from metriclearn.oracles.spectral import TopEigenvectors
from metriclearn.problem.knowledge import NO_CHANGE
from metriclearn.similarities import Neighborhood, Nodes, SimilarityFeatures
from metriclearn.similarities.forms import SimilarityForm
from metriclearn.similarities.partial import KnownNodes, PartialSimilarityHinge, complete_nodes
from metriclearn.similarities.risk import SimilarityHinge
from metriclearn.solvers.mahalanobis import Metric, MetricCone
from tests.estimators.test_normalized_cuts import SMALL, arrays, images
from tests.similarities.problems import Expanded, dense_similarity, expanded


@pytest.fixture(autouse=True)
def quiet() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield


def hidden(problem: Expanded, share: float = 0.4, seed: int = 0) -> tuple[NDArray, KnownNodes]:
    """Labels of the samples, some of them −1 (whole nodes, too), and what that says of nodes."""
    random = np.random.default_rng(seed)
    labels = problem.truth.labels.copy()
    nodes = random.permutation(problem.nodes.n_samples)[:4]
    hide = np.isin(problem.owners, nodes) | (random.random(len(labels)) < share)
    hide[[np.flatnonzero(labels == k)[0] for k in range(problem.truth.n_clusters)]] = False
    labels[hide] = -1
    return labels, KnownNodes.from_labels(labels, problem.owners)


def completion_of(known: KnownNodes, seed: int = 0) -> Partition:
    """Some completion."""
    random, fixed = np.random.default_rng(seed), known.columns
    free = random.choice(np.unique(fixed[fixed >= 0]), len(fixed))
    clusters = np.where(fixed >= 0, fixed, free)
    return Partition.from_labels(clusters).completing(known.known)


def problems(count: int = 3) -> list[tuple[Expanded, NDArray, KnownNodes]]:
    made = [expanded(seed, n_clusters=2 + seed % 2) for seed in range(count)]
    return [(own, *hidden(own, seed=i)) for i, own in enumerate(made)]


def hinge_of(metric: Metric, similarity: Any = None, **options: Any) -> PartialSimilarityHinge:
    own = problems()
    known = [k for _, _, k in own]
    return PartialSimilarityHinge(
        SimilarityFeatures(similarity or GaussianSimilarity(), metric),
        MetricCone(metric, 3, priced=False),
        [p.nodes for p, _, _ in own],
        known,
        [completion_of(k) for k in known],
        **options,
    )


def samples_of(known: KnownNodes, labels: NDArray, owners: NDArray, truth: Partition) -> Partition:
    """The completion, sample by sample."""
    return Partition.from_labels(np.where(labels < 0, known.clusters(truth)[owners], labels))


@pytest.mark.parametrize("metric", [DiagonalMetric(), FullMetric()], ids=["diagonal", "full"])
def test_values_are_those_over_samples(metric: Metric) -> None:
    """max_M ⟨W/T, M⟩ + α‖D(M − H)‖² − ⟨W/T, H⟩ with D and H of all samples, densely."""
    w, alpha = metric.coordinates(np.random.default_rng(0).normal(size=(4, 3))), 0.07
    hinge = hinge_of(metric, loss_scale=alpha)
    for value, truth, (problem, labels, known) in zip(hinge(w).values, hinge.truths, problems()):
        T = len(labels)
        W = dense_similarity(problem.X, metric.matrix(w)) / T
        H = samples_of(known, labels, problem.owners, truth).to_array()
        D = np.diag((labels >= 0).astype(float))
        E = (problem.owners[:, None] == np.arange(problem.nodes.n_samples)).astype(float)
        E /= np.sqrt(problem.nodes.sizes)
        A = W + alpha * (D - D @ H - H @ D)
        leading = np.linalg.eigvalsh(E.T @ A @ E)[::-1][: known.n_clusters]
        expected = leading.sum() + alpha * np.trace(D @ H) - np.sum(W * H)
        assert value == pytest.approx(expected, abs=1e-10)


def test_the_loss_charges_only_what_is_known() -> None:
    """⟨form, M⟩ − ⟨A, M⟩ + constant = α‖D(M − H)‖² of every partition M of the nodes."""
    hinge, (problem, labels, known) = hinge_of(DiagonalMetric(), loss_scale=0.3), problems()[1]
    form = hinge.features.at(np.ones(3))(problem.nodes)
    augmented, constant = hinge._augmented(1, form)
    H = samples_of(known, labels, problem.owners, hinge.truths[1]).to_array()
    D, random = (labels >= 0).astype(float)[:, None], np.random.default_rng(0)
    for _ in range(5):
        nodes = Partition.from_labels(random.integers(0, 3, problem.nodes.n_samples))
        M = Partition.from_labels(nodes.labels[problem.owners]).to_array()
        E = (problem.owners[:, None] == np.arange(problem.nodes.n_samples)).astype(float)
        E /= np.sqrt(problem.nodes.sizes)
        U = np.linalg.svd(E.T @ M @ E)[0][:, : nodes.n_clusters]
        charged = np.sum(U * (augmented.matvec(U) - form.matvec(U))) + constant
        assert charged == pytest.approx(0.3 * np.sum((D * (M - H)) ** 2), abs=1e-10)
        assert known.squared_norm(nodes.labels) == pytest.approx(
            _restricted(nodes.labels[problem.owners], labels), abs=1e-10
        )


def _restricted(found: NDArray, labels: NDArray) -> float:
    """‖M − N‖² of the labeled samples alone."""
    rows = labels >= 0
    a, b = Partition.from_labels(found[rows]), Partition.from_labels(labels[rows])
    return float(np.sum((a.to_array() - b.to_array()) ** 2))


@pytest.mark.parametrize("metric", [DiagonalMetric(), FullMetric()], ids=["diagonal", "full"])
@pytest.mark.parametrize(
    "similarity",
    [GaussianSimilarity(), GaussianSimilarity(Neighborhood(1.5)), FourierSimilarity(60)],
    ids=["all pairs", "neighbors", "fourier"],
)
def test_slopes_agree_with_finite_differences(metric: Metric, similarity: Any) -> None:
    hinge, step = hinge_of(metric, similarity, loss_scale=0.05), 1e-5
    w = metric.coordinates(np.random.default_rng(1).normal(size=(4, 3)))
    slope, majorant = hinge(w).slope, hinge.linearized(w)
    np.testing.assert_allclose(majorant(w).slope, slope, atol=1e-10)
    for place, direction in enumerate(np.eye(len(w))):
        up, down = hinge(w + step * direction).mean, hinge(w - step * direction).mean
        tolerance = 1e-6 * max(1.0, np.abs(slope).max())
        assert slope[place] == pytest.approx((up - down) / (2 * step), abs=tolerance)


def test_all_labels_give_the_ordinary_hinge() -> None:
    made = [expanded(seed, n_clusters=2) for seed in range(3)]
    known = [KnownNodes.from_labels(p.truth.labels, p.owners) for p in made]
    features = SimilarityFeatures(GaussianSimilarity(), FullMetric())
    cone, nodes = MetricCone(FullMetric(), 3, priced=False), [p.nodes for p in made]
    partial = PartialSimilarityHinge(
        features, cone, nodes, known, [completion_of(k) for k in known]
    )
    ordinary = SimilarityHinge(features, cone, nodes, [p.labels for p in made])
    for seed in range(3):
        w = FullMetric().coordinates(np.random.default_rng(seed).normal(size=(4, 3)))
        np.testing.assert_allclose(partial(w).values, ordinary(w).values, atol=1e-12)
        np.testing.assert_allclose(partial(w).slopes, ordinary(w).slopes, atol=1e-11)


@pytest.mark.parametrize("loss_scale", [1e-3, 0.1, 1.0])
def test_never_negative(loss_scale: float) -> None:
    hinge = hinge_of(FullMetric(), loss_scale=loss_scale)
    for seed, size in itertools.product(range(4), (1e-3, 1.0, 1e3)):
        w = size * FullMetric().coordinates(np.random.default_rng(seed).normal(size=(4, 3)))
        assert hinge(w).values.min() >= -1e-12


def test_completions_keep_what_is_known_and_come_near_the_best() -> None:
    """Against the enumeration of all completions of 7 free nodes."""
    for seed in range(6):
        problem = expanded(seed, n_clusters=2)
        labels = problem.truth.labels.copy()
        labels[problem.owners >= 5] = -1
        if len(np.unique(labels[labels >= 0])) < 2:
            continue
        known = KnownNodes.from_labels(labels, problem.owners)
        form = SimilarityForm(GaussianSimilarity().operator(problem.nodes, np.eye(3)))
        found = complete_nodes(form, known)
        assert known.known.allows_clusters(found)
        seeded = np.unique(known.columns[known.labeled])
        values = []
        for free in itertools.product(seeded, repeat=int(np.sum(known.columns < 0))):
            clusters = known.columns.copy()
            clusters[clusters < 0] = free
            values.append(_value(form, known, clusters))
        assert _value(form, known, known.clusters(found)) >= max(values) * (1 - 0.01)


def _value(form: SimilarityForm, known: KnownNodes, clusters: NDArray) -> float:
    counts = known.completed(clusters)
    root = counts / np.sqrt(known.sizes)[:, None] / np.sqrt(counts.sum(axis=0))
    return float(np.sum(root * form.matvec(root)))


def test_spans_move_as_one_and_take_a_label() -> None:
    random = np.random.default_rng(0)
    labels = np.full(30, -1)
    labels[[0, 20]] = 0, 1
    known = KnownNodes.from_labels(labels, same=[(0, 6), (7, 15)])
    assert known.columns.tolist() == [0] * 6 + [-1] * 14 + [1] + [-1] * 9
    nodes = Nodes(random.normal(size=(30, 2)), np.ones(30))
    form = SimilarityForm(GaussianSimilarity().operator(nodes, np.eye(2)))
    clusters = known.clusters(complete_nodes(form, known))
    assert set(clusters[:6]) == {0}
    assert len(set(clusters[7:15])) == 1
    assert set(clusters) == {0, 1}


def few(y: list[NDArray], share: float, seed: int = 0) -> list[NDArray]:
    random = np.random.default_rng(seed)
    return [np.where(random.random(labels.shape) < share, labels, -1) for labels in y]


def test_a_partly_labeled_set_gives_nearly_the_metric_of_the_full_one() -> None:
    X, y = arrays(6)
    test_X, test_y = arrays(seed=1)
    known = few(y, 0.4)
    learner = NormalizedCutMetricLearner(verbose=False).fit(X, known)
    full = NormalizedCutMetricLearner(verbose=False).fit(X, y)
    trace = learner.alternation_
    steps = [f for pair in zip(trace.completed, trace.learned) for f in pair]
    assert np.all(np.diff(steps) <= 1e-12)
    shares = [np.diag(m.get_mahalanobis_matrix()) * m.scale_**2 for m in (learner, full)]
    partial_share, full_share = (own / own.sum() for own in shares)
    np.testing.assert_allclose(partial_share, full_share, atol=0.05)
    assert learner.score(test_X, test_y) > full.score(test_X, test_y) - 0.15
    wrong = [np.mean(done != labels) for done, labels in zip(learner.completions_, y)]
    assert np.mean(wrong) < 0.12
    for done, labels in zip(learner.completions_, known):
        np.testing.assert_array_equal(done[labels >= 0], labels[labels >= 0])


@pytest.mark.parametrize(
    "parameters",
    [
        {"metric": FullMetric()},
        {"similarity": FourierSimilarity(200)},
        {"normalized": True, "loss_scale": 0.1},
        {"alternation": Alternation(start=PrincipalStart())},
        {"n_jobs": 2},
    ],
    ids=["full", "fourier", "normalized", "principal", "threads"],
)
def test_every_part_can_be_exchanged(parameters: dict[str, Any]) -> None:
    X, y = arrays()
    learner = NormalizedCutMetricLearner(verbose=False, **parameters).fit(X, few(y, 0.5))
    trace = learner.alternation_
    steps = [f for pair in zip(trace.completed, trace.learned) for f in pair]
    assert np.all(np.diff(steps) <= 1e-12)
    assert learner.score(*arrays(seed=1)) > -1.0
    assert learner.score(X, few(y, 0.5)) > -1.0


def test_images_with_unlabeled_pixels() -> None:
    pytest.importorskip("skimage")
    X, y = images(4)
    scribbles = []
    for labels in y:
        kept = np.full(labels.shape, -1)
        kept[::7] = labels[::7] * 5 + 2  # labels 2 and 7, on every seventh row
        scribbles.append(kept)
    learner = NormalizedCutMetricLearner(features=SMALL, verbose=False).fit(X, scribbles)
    full = NormalizedCutMetricLearner(features=SMALL, verbose=False).fit(X, y)
    test = images(seed=1)
    assert learner.score(*test) > full.score(*test) - 0.15
    for done, labels, known in zip(learner.completions_, y, scribbles):
        assert done.shape == labels.shape
        assert set(np.unique(done)) == {2, 7}
        np.testing.assert_array_equal(done[known >= 0], known[known >= 0])
        assert np.mean((done == 7) != (labels == 1)) < 0.05
    flat = [PartialPartition(known.size, known.ravel()) for known in scribbles]
    again = NormalizedCutMetricLearner(features=SMALL, verbose=False).fit(X, flat)
    np.testing.assert_allclose(again.components_, learner.components_)


def test_neighborhoods_and_given_similarities() -> None:
    pytest.importorskip("skimage")
    X, y = images()
    similarity = GaussianSimilarity(Neighborhood(15.0))
    learner = NormalizedCutMetricLearner(similarity=similarity, features=SMALL, verbose=False)
    learner.fit(X, few(y, 0.2))
    assert [done.shape for done in learner.completions_] == [(40, 50)] * 3
    random = np.random.default_rng(0)
    labels = random.permutation(np.arange(20) % 2)
    noise = random.uniform(size=(2, 20, 20))
    stack = np.stack([labels[:, None] == labels, *(noise + noise.transpose(0, 2, 1)) / 2])
    known = np.where(np.arange(20) < 8, labels, -1)
    given = NormalizedCutMetricLearner(similarity=GivenSimilarities(), verbose=False)
    given.fit([stack], [known])
    np.testing.assert_array_equal(given.completions_[0], labels)
    assert given.score([stack], [labels]) == 0.0


def test_full_labels_are_learned_as_ever() -> None:
    X, y = arrays()
    full = NormalizedCutMetricLearner(verbose=False).fit(X, y)
    assert (full.alternation_, full.completions_) == (None, None)
    known = [PartialPartition(len(labels), labels) for labels in y]
    again = NormalizedCutMetricLearner(verbose=False).fit(X, known)
    np.testing.assert_array_equal(again.components_, full.components_)
    partitions = [Partition.from_labels(labels) for labels in y]
    once_more = NormalizedCutMetricLearner(verbose=False).fit(X, partitions)
    np.testing.assert_array_equal(once_more.components_, full.components_)


def test_grid_search_scores_what_is_known_and_models_are_saved(tmp_path: Path) -> None:
    X, y = arrays()
    known = few(y, 0.5)
    search = GridSearchCV(
        NormalizedCutMetricLearner(starts=(1e-2,), verbose=False),
        {"regularizer__strength": [1e-2, 1.0]},
        cv=KFold(2),
        error_score="raise",
    ).fit(X, known)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    best = search.best_estimator_
    found = best.predict(X[0])
    expected = _restricted(found, known[0])
    assert best.score(X[:1], known[:1]) == pytest.approx(-expected, abs=1e-12)
    loaded = load(save(best, tmp_path / "model.npz"))
    np.testing.assert_array_equal(loaded.predict(X[0]), found)
    np.testing.assert_array_equal(loaded.completions_[1], best.completions_[1])
    assert loaded.alternation_.learned == best.alternation_.learned


def test_an_interrupted_alternation_goes_on(tmp_path: Path) -> None:
    X, y = arrays()
    known, file = few(y, 0.25), str(tmp_path / "state.npz")
    start = Alternation(start=PrincipalStart())
    whole = NormalizedCutMetricLearner(verbose=False, alternation=start).fit(X, known)
    first = Alternation(2, PrincipalStart(), file)
    NormalizedCutMetricLearner(verbose=False, alternation=first).fit(X, known)
    rest = Alternation(20, PrincipalStart(), file)
    resumed = NormalizedCutMetricLearner(verbose=False, alternation=rest).fit(X, known)
    assert len(whole.alternation_) > 2
    np.testing.assert_allclose(resumed.components_, whole.components_, rtol=1e-5)
    assert resumed.alternation_.reason == whole.alternation_.reason


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([[-1] * 60], "cover no sample of data set 0"),
        ([[0.0, float("nan")] * 30], "labels of data set 0.*NaN"),
        ([PartialPartition(59, [0, 1] + [-1] * 57)], r"shape \(60,\)"),
    ],
)
def test_wrong_labels_are_named(y: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        NormalizedCutMetricLearner(verbose=False).fit(arrays(1)[0], y)


def test_spans_of_pixels_are_refused_in_one_sentence() -> None:
    pytest.importorskip("skimage")
    X, y = images(1)
    known = PartialPartition(2000, y[0].ravel(), same=[(0, 3)])
    with pytest.raises(ValueError, match="2000 pixels of image 0, row by row and with labels only"):
        NormalizedCutMetricLearner(features=SMALL, verbose=False).fit(X, [known])
    short = PartialPartition(100, [0, 1] + [-1] * 98)
    with pytest.raises(ValueError, match="2000 pixels of image 0"):
        NormalizedCutMetricLearner(features=SMALL, verbose=False).fit(X, [short])


def test_words_may_be_unlabeled_too() -> None:
    X, y = arrays(2)
    words: list[Any] = [["cat" if v else "dog" for v in labels] for labels in y]
    words[0][5:30] = [-1] * 25
    learner = NormalizedCutMetricLearner(verbose=False).fit(X, words)
    assert set(learner.completions_[0]) == {"cat", "dog"}
    assert learner.completions_[1].tolist() == words[1]


def test_labels_say_nothing_of_regions() -> None:
    """A span and labels that contradict each other are refused, as for every learner."""
    with pytest.raises(ValueError, match="contradict"):
        PartialPartition(4, [0, 1, -1, -1], same=[(0, 2)])
    known = PartialPartition(4, [0, 0, -1, 1], regions=[Region(0, 2, NO_CHANGE)])
    assert KnownNodes.from_labels(known.labels, same=known.same).columns.tolist() == [0, 0, -1, 1]


def test_one_known_cluster_is_completed_by_itself() -> None:
    labels = np.array([0, 0, -1, -1, 0])
    known = KnownNodes.from_labels(labels)
    nodes = Nodes(np.random.default_rng(0).normal(size=(5, 2)), np.ones(5))
    form = SimilarityForm(GaussianSimilarity().operator(nodes, np.eye(2)))
    assert complete_nodes(form, known).n_clusters == 1
    assert TopEigenvectors()(form, 1).n_clusters == 1
