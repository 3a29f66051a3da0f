"""NormalizedCutMetricLearner from end to end, on synthetic images and feature arrays."""

import copy
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter
from sklearn.base import clone

import metriclearn as ml
from experiments.rivals.image_baselines import EuclideanSimilarity
from metriclearn.features.media.image import Color, PixelBlocks, Position, Superpixels
from metriclearn.similarities import Neighborhood, NodeLabels, Nodes
from metriclearn.similarities.normalized_cut import Discretization, KMeansRounding, ThresholdCut
from metriclearn.solvers.base import Problem
from metriclearn.solvers.mahalanobis import MetricCone
from tests.sentences import Rows, assert_refused, every_row
from tests.similarities.problems import Expanded, hinge_of
from tests.training import assert_never_rises, some_of

SMALL = ml.features.ImageFeatures(PixelBlocks(100), (Color(), Position()))
ONE = ml.features.ImageFeatures(PixelBlocks(1), SMALL.groups)
FLAT = np.full((40, 50, 3), 0.5)


def arrays(count: int = 4, seed: int = 0, size: int = 60) -> tuple[list[NDArray], list[NDArray]]:
    """One feature of five tells the clusters, and a louder one says something else."""
    random = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(count):
        labels = random.permutation(np.arange(size) % 2)
        features = random.normal(size=(size, 5))
        features[:, 0] += 3.0 * labels
        features[:, 1] = 4.0 * random.integers(0, 2, size) + 0.3 * random.normal(size=size)
        X.append(features)
        y.append(labels)
    return X, y


def images(count: int = 3, seed: int = 0) -> tuple[list[NDArray], list[NDArray]]:
    """A bluish disk, on a background whose lightness is divided elsewhere."""
    random = np.random.default_rng(seed)
    row, column = np.mgrid[:40, :50]
    pixels, maps = [], []
    for _ in range(count):
        center = random.uniform((15, 18), (25, 32))
        disk = (row - center[0]) ** 2 + (column - center[1]) ** 2 < 11**2
        image = 0.35 + 0.35 * (column[..., None] > random.integers(20, 30)) * np.ones(3)
        image = image + disk[..., None] * np.array([-0.12, -0.05, 0.15])
        noise = gaussian_filter(random.normal(size=(40, 50, 3)), (1, 1, 0))
        pixels.append(np.clip(image + 0.05 * noise, 0, 1))
        maps.append(disk.astype(int))
    return pixels, maps


def learner_of(**parameters: Any) -> ml.NormalizedCutMetricLearner:
    """From one start; what is asked of results here does not need the best of three."""
    return ml.NormalizedCutMetricLearner(**{"starts": (1e-2,), "verbose": False, **parameters})


@pytest.fixture(scope="module")
def of_images() -> ml.NormalizedCutMetricLearner:
    pytest.importorskip("skimage")
    return fitted()


def test_learns_which_feature_counts() -> None:
    X, y = arrays()
    test_X, test_y = arrays(seed=1)
    learner = ml.NormalizedCutMetricLearner(verbose=False).fit(X, y)
    assert learner.score(test_X, test_y) > -0.6
    assert EuclideanSimilarity().fit(X, y).score(test_X, test_y) < -1.5
    weights = np.diag(learner.get_mahalanobis_matrix()) * learner.scale_**2
    assert weights[0] > 20 * weights[1:].max()
    assert np.all(np.diff(learner.solution_.trace.objective) <= 0)
    assert len(learner.start_objectives_) == 3
    # one outer step of each decides which goes on, here to where all of them in full get
    tried = min(objective for _, objective in learner.start_objectives_)
    assert learner.solution_.trace.objective[0] == tried
    whole = clone(learner).set_params(solver=ml.solvers.CCCP()).fit(X, y)
    assert learner.solution_.objective == pytest.approx(whole.solution_.objective, rel=1e-3)


@pytest.mark.parametrize(
    "parameters",
    [
        {"metric": ml.FullMetric()},
        {"similarity": ml.similarities.FourierSimilarity(200)},
        {"normalized": True, "loss_scale": 0.1},
        {"normalized": True, "loss_scale": 0.01, "ramp": True, "starts": [0.1]},
        {"balance": -1.0},
        {"rounding": Discretization()},
        {"regularizer": ml.L1(1e-2)},
        {
            "solver": ml.solvers.CCCP(ml.BundleDual(max_rounds=25)),
            "regularizer": ml.SquaredFrobenius(1.0),
        },
        {"alternation": ml.estimators.Alternation(start=ml.estimators.PrincipalStart())},
    ],
)
def test_every_part_can_be_exchanged(parameters: dict[str, Any]) -> None:
    """With partial labels, which are learned from as full ones are, in turns with completions."""
    X, y = arrays(3, size=40)
    learner = learner_of(**parameters).fit(X, some_of(y, 0.5))
    assert learner.score(*arrays(seed=1)) > -0.9
    assert np.all(np.diff(learner.solution_.trace.objective) <= 0)
    assert_never_rises(learner.alternation_)


def test_images_in_label_maps_out(of_images: ml.NormalizedCutMetricLearner) -> None:
    (X, y), (test_X, test_y) = images(), images(seed=1)
    euclidean = EuclideanSimilarity(features=SMALL).fit(X, y)
    assert of_images.score(test_X, test_y) > 0.7 * euclidean.score(test_X, test_y)
    labels = of_images.predict_labels_image(test_X[0])
    assert labels.shape == (40, 50)
    assert set(np.unique(labels)) == {0, 1}
    np.testing.assert_array_equal(labels, of_images.predict(test_X[0]))
    listed = of_images.score(test_X[0], np.asarray(test_y[0]).tolist())
    assert listed == of_images.score(test_X[0], test_y[0])
    several = of_images.predict(test_X, [2, 3, 4])
    assert [len(np.unique(labels)) for labels in several] == [2, 3, 4]
    assert list(of_images.feature_names_in_) == SMALL.names
    nodes = [SMALL.nodes(image) for image in X]
    again = learner_of().fit(nodes, y)
    np.testing.assert_allclose(again.components_, of_images.components_)
    np.testing.assert_array_equal(again.predict(nodes[0]), of_images.predict(X[0]))


def test_given_similarities_are_a_convex_problem() -> None:
    """The optimum is that of the certified convex solver on the same risk."""
    random = np.random.default_rng(0)
    stacks, y = [], []
    for _ in range(3):
        labels = random.permutation(np.arange(20) % 2)
        good = (labels[:, None] == labels).astype(float)
        noise = random.uniform(size=(2, 20, 20))
        stacks.append(np.stack([good, *(noise + noise.transpose(0, 2, 1)) / 2]))
        y.append(labels)
    solver = ml.solvers.CCCP(ml.solvers.FactorDescent(500, 1e-13), 1e-9, 30)
    learner = learner_of(
        regularizer=ml.SquaredFrobenius(0.1),
        similarity=ml.similarities.GivenSimilarities(),
        solver=solver,
    ).fit(stacks, y)
    problems = [
        Expanded(Nodes(stack, np.ones(20)), NodeLabels.from_labels(labels), np.arange(20), labels)
        for stack, labels in zip(stacks, y)
    ]
    hinge = hinge_of(
        problems, ml.DiagonalMetric(), ml.similarities.GivenSimilarities(), loss_scale=0.03
    )
    cone = MetricCone(ml.DiagonalMetric(), 3, learns_penalty=False)
    exact = ml.BundleDual(1e-7, 500).minimize(
        Problem(hinge, ml.SquaredFrobenius(0.1), cone, np.zeros(3))
    )
    assert exact.converged
    assert learner.solution_.objective == pytest.approx(exact.objective, rel=1e-3)
    assert learner.score(stacks, y) == 0.0
    weights = np.diag(learner.get_mahalanobis_matrix())
    assert weights[0] > 5 * weights[1:].max()


def test_given_similarities_without_any() -> None:
    """A weight of 0 leaves no similarity at all; that is no reason for NaN."""
    stack = np.eye(3)[None]
    with pytest.warns(UserWarning, match="learned a metric that is .nearly. zero"):
        model = learner_of(similarity=GIVEN).fit([stack], [[0, 1, 1]])
    assert sorted(np.unique(model.predict([stack], 2)[0])) == [0, 1]


# Odd images and extreme settings


@pytest.mark.parametrize("rounding", [ThresholdCut(), KMeansRounding(), Discretization()])
def test_odd_images_are_divided_all_the_same(of_images, rounding) -> None:
    model = copy.copy(of_images).set_params(rounding=rounding)
    assert set(np.unique(model.predict(FLAT))) == {0, 1}
    assert model.predict(FLAT, None).shape == (40, 50)
    assert not model.predict(FLAT[:1, :1], 1).any()
    assert model.predict(FLAT[:1], 2).shape == (1, 50)
    assert not model.predict(ONE.nodes(FLAT), None).any()
    few = ml.features.ImageFeatures(PixelBlocks(6), SMALL.groups).nodes(images()[0][0])
    assert len(np.unique(model.predict(few, len(few.sizes)))) <= len(few.sizes)


def test_superpixels_of_one_color() -> None:
    pytest.importorskip("skimage")
    nodes = ml.features.ImageFeatures(Superpixels(50)).nodes(FLAT)
    assert np.all(np.isfinite(nodes.features))
    assert nodes.sizes.sum() == 2000


def test_masks_of_one_label(of_images: ml.NormalizedCutMetricLearner) -> None:
    """Nothing is to be told apart: everything is one cluster, and one image may be so."""
    X, y = images()
    with pytest.warns(UserWarning, match="put all samples of every data set together"):
        alone = clone(of_images).fit(X, [labels * 0 for labels in y])
    assert alone.solution_.objective == pytest.approx(0.0, abs=1e-3)
    assert not alone.predict(X[0], None).any()
    mixed = clone(of_images).fit(X, [*y[:2], y[2] * 0])
    assert mixed.score(X[:2], y[:2]) > -2.0
    truths = [labels.astype(bool) for labels in y[:2]]
    assert mixed.score(X[:2], truths) == pytest.approx(mixed.score(X[:2], y[:2]))


# What is refused, in a sentence

IMAGES, MASKS = images()


@cache
def fitted() -> ml.NormalizedCutMetricLearner:
    return learner_of(features=SMALL).fit(IMAGES, MASKS)


def fit_of(y: Any = MASKS, X: Any = IMAGES, **parameters: Any) -> Callable[[], Any]:
    """Fit to images, the last of which may have another mask."""
    labels = y if isinstance(y, list) else [*MASKS[:2], y]
    return lambda: learner_of(features=SMALL, **parameters).fit(X, labels)


def near(neighborhood: Any = None, **options: Any) -> ml.similarities.GaussianSimilarity:
    return ml.similarities.GaussianSimilarity(neighborhood, **options)


DISK, GIVEN = MASKS[2], ml.similarities.GivenSimilarities()
REFUSED: Rows = [
    *(
        (lambda X=X, count=count: fitted().predict(X, count), sentence)
        for X, count, sentence in [
            (np.full((4, 4, 3), np.nan), 2, "needs finite numbers, got NaN at position"),
            (FLAT[..., 0], 2, "A gray image needs three equal channels"),
            (np.dstack([FLAT, FLAT[..., :1]]), 2, "drop an alpha channel"),
            ((FLAT * 65535).astype(np.uint16), 2, "got uint16 from 32767 to 32767"),
            (ONE.nodes(FLAT), 2, "from 1 to 1 for the 1 nodes"),
            (FLAT, 101, "from 1 to 99 for the 99 nodes of data set 0, got 101"),
            ([FLAT, FLAT], [2], "one n_clusters for each of the 2 data sets, got 1"),
            (np.ones((9, 3)), 2, "is expecting 5 features"),
        ]
    ),
    (fit_of(DISK[:-1]), r"shape \(40, 50\) for data set 2.*got \(39, 50\)"),
    (fit_of(np.dstack([DISK] * 3)), r"got \(40, 50, 3\); resize .* neighbor\.$"),
    (fit_of(DISK * 0 - 1), "cover no sample of data set 2"),
    (fit_of(DISK * np.nan), "labels of data set 2.*NaN"),
    (fit_of(np.arange(2000).reshape(40, 50)), "99 nodes and 2000 labels"),
    (fit_of([DISK], [FLAT[..., 0]]), r"label to every row; a gray image needs three channels\.$"),
    (fit_of([[0, 1]], [np.eye(4)]), r"shape \(4,\)"),
    (fit_of(starts=()), "at least one positive start"),
    (fit_of(solver=ml.BundleDual()), r"CCCP\(\)"),
    (fit_of(similarity=near(Neighborhood(-2.0))), "got -2.0 and 99 positions"),
    (fit_of(similarity=near(Neighborhood(0.1))), "holds no pair"),
    (fit_of(similarity=near(memory=float("nan"))), "memory of at least"),
    (fit_of(similarity=GIVEN, metric=ml.FullMetric()), "of given similarities"),
]


@every_row({"cuts": REFUSED})
def test_refused(call: Callable[[], Any], sentence: str) -> None:
    pytest.importorskip("skimage")
    with assert_refused(sentence):
        call()


def test_the_first_image_may_be_labeled_in_full() -> None:
    """Labels of others are completed all the same: the order of images does not matter."""
    X, y = arrays(3)
    labels = [y[0], *some_of(y, 0.5)[1:]]
    learner = ml.NormalizedCutMetricLearner(starts=(1e-2,), verbose=False)
    first = clone(learner).fit(X, labels)
    second = clone(learner).fit([X[i] for i in (1, 0, 2)], [labels[i] for i in (1, 0, 2)])
    np.testing.assert_allclose(first.components_, second.components_, rtol=1e-6)
