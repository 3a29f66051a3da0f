"""Images, masks and numbers of clusters that nobody should pass, and images that are merely odd."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from metriclearn import (
    DiagonalMetric,
    FullMetric,
    GaussianSimilarity,
    GivenSimilarities,
    ImageFeatures,
    NormalizedCutMetricLearner,
    Trace,
)
from metriclearn.features.image import PixelBlocks, Superpixels
from metriclearn.similarities import Neighborhood
from metriclearn.similarities.normalized_cut import Discretization, KMeansRounding, ThresholdCut
from tests.estimators.test_normalized_cuts import SMALL, arrays, images

pytest.importorskip("skimage")
FLAT = np.full((40, 50, 3), 0.5)
ONE = ImageFeatures(PixelBlocks(1), SMALL.groups)


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield


def learner(**parameters: Any) -> NormalizedCutMetricLearner:
    return NormalizedCutMetricLearner(features=SMALL, verbose=False, **parameters)


@pytest.fixture(scope="module")
def fitted() -> NormalizedCutMetricLearner:
    return learner(starts=(1e-2,)).fit(*images())


@pytest.mark.parametrize("rounding", [ThresholdCut(), KMeansRounding(), Discretization()])
def test_odd_images_are_divided_all_the_same(
    fitted: NormalizedCutMetricLearner, rounding: Any
) -> None:
    model = copy.copy(fitted).set_params(rounding=rounding)
    assert set(np.unique(model.predict(FLAT))) == {0, 1}
    assert model.predict(FLAT, None).shape == (40, 50)
    assert not model.predict(FLAT[:1, :1], 1).any()
    assert model.predict(FLAT[:1], 2).shape == (1, 50)
    assert not model.predict(ONE.nodes(FLAT), None).any()
    few = ImageFeatures(PixelBlocks(6), SMALL.groups).nodes(images()[0][0])
    assert len(np.unique(model.predict(few, len(few.sizes)))) <= len(few.sizes)


@pytest.mark.parametrize(
    ("X", "count", "message"),
    [
        (np.full((4, 4, 3), np.nan), 2, "finite pixels, got NaN"),
        (FLAT[..., 0], 2, "A gray image needs three equal channels"),
        (np.dstack([FLAT, FLAT[..., :1]]), 2, "drop an alpha channel"),
        ((FLAT * 65535).astype(np.uint16), 2, "got uint16 from 32767 to 32767"),
        (ONE.nodes(FLAT), 2, "from 1 to 1 for the 1 nodes"),
        (FLAT, 101, "from 1 to 99 for the 99 nodes of data set 0, got 101"),
        (FLAT, "2", "got '2'"),
        ([FLAT], [2.5], "got 2.5"),
        ([FLAT, FLAT], [2], "one n_clusters for each of the 2 data sets, or one for all, got 1"),
        ([], 2, "empty list"),
        (None, 2, "got 1 dimension"),
    ],
)
def test_what_cannot_be_divided_is_named(
    fitted: NormalizedCutMetricLearner, X: Any, count: Any, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        fitted.predict(X, count)


def with_last(masks: list[NDArray], last: Any) -> list[Any]:
    return [*masks[:-1], last]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda y: with_last(y, y[-1][:-1]), r"shape \(40, 50\) for data set 2.*got \(39, 50\)"),
        (lambda y: with_last(y, np.dstack([y[-1]] * 3)), r"got \(40, 50, 3\); resize"),
        (lambda y: with_last(y, y[-1] * 0 - 1), "cover no sample of data set 2"),
        (lambda y: with_last(y, y[-1] * np.nan), "labels of data set 2.*NaN"),
        (lambda y: with_last(y, np.arange(2000).reshape(40, 50)), "99 nodes and 2000 labels"),
        (lambda y: y[:2], r"3 image\(s\) and 2 label map"),
        (lambda y: None, "requires y"),
        (lambda y: 3, "one label map per image, got 3"),
    ],
)
def test_wrong_masks_are_named(change: Any, message: str) -> None:
    X, y = images()
    with pytest.raises(ValueError, match=message):
        learner().fit(X, change(y))


def test_a_gray_image_is_told_from_features() -> None:
    X, y = images(1)
    with pytest.raises(ValueError, match="a gray image needs three channels"):
        learner().fit([X[0][..., 0]], y)
    with pytest.raises(ValueError, match="3 are constant in each"):
        learner().fit([FLAT], y)


def test_masks_of_one_label() -> None:
    """Nothing is to be told apart: everything is one cluster, and one image may be so."""
    X, y = images()
    alone = learner(starts=(1e-2,)).fit(X, [labels * 0 for labels in y])
    assert alone.solution_.objective == pytest.approx(0.0, abs=1e-3)
    assert not alone.predict(X[0], None).any()
    mixed = learner(starts=(1e-2,)).fit(X, with_last(y, y[-1] * 0))
    assert mixed.score(X[:2], y[:2]) > -2.0
    truths = [labels.astype(bool) for labels in y[:2]]
    assert mixed.score(X[:2], truths) == pytest.approx(mixed.score(X[:2], y[:2]))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"similarity": GaussianSimilarity(Neighborhood(-2.0))}, "got -2.0 and 99 positions"),
        ({"similarity": GaussianSimilarity(Neighborhood(0.1))}, "holds no pair"),
        ({"similarity": GaussianSimilarity(memory=float("nan"))}, "memory of at least"),
        ({"alternation": 3}, r"an? alternation such as Alternation\(\)"),
    ],
)
def test_wrong_components_are_named(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        learner(**parameters).fit(*images())


@pytest.mark.parametrize(
    "parameters",
    [
        {"starts": (1e6,)},
        {"starts": (1e-30,)},
        {"loss_scale": 1e6},
        {"loss_scale": 1e-12},
        {"regularizer": Trace(1e8)},
        {"regularizer": Trace(1e8), "metric": FullMetric()},
        {"similarity": GaussianSimilarity(Neighborhood(4.6))},
    ],
    ids=["huge start", "tiny start", "huge α", "tiny α", "no metric", "no full metric", "parts"],
)
def test_extreme_settings_stay_finite(parameters: dict[str, Any]) -> None:
    X, y = images()
    model = learner(**{"starts": (1e-2,), **parameters}).fit(X, y)
    assert np.all(np.isfinite(model.components_))
    assert np.all(np.diff(model.solution_.trace.objective) <= 0)
    assert -4.0 <= model.score(X, y) <= 0.0
    assert model.predict(X[0], None).shape == (40, 50)


@pytest.mark.parametrize("factor", [1e150, 1e-150])
def test_the_scale_and_offset_of_features_do_not_matter(factor: float) -> None:
    X, y = arrays(2)
    plain = learner(starts=(1e-2,)).fit(X, y)
    scaled = learner(starts=(1e-2,)).fit([factor * own for own in X], y)
    assert scaled.score([factor * own for own in X], y) == pytest.approx(plain.score(X, y))
    moved = learner(starts=(1e-2,)).fit([own + 1e6 for own in X], y)
    np.testing.assert_allclose(moved.components_, plain.components_, rtol=1e-3, atol=1e-6)


def test_given_similarities_without_any() -> None:
    """A weight of 0 leaves no similarity at all; that is no reason for NaN."""
    stack = np.eye(3)[None]
    model = learner(similarity=GivenSimilarities()).fit([stack], [[0, 1, 1]])
    assert sorted(np.unique(model.predict([stack], 2)[0])) == [0, 1]
    full = learner(similarity=GivenSimilarities(), metric=FullMetric())
    with pytest.raises(ValueError, match="weights of given similarities"):
        full.fit([stack], [[0, 1, 1]])
    assert isinstance(learner().metric, DiagonalMetric)


def test_superpixels_of_one_color() -> None:
    nodes = ImageFeatures(Superpixels(50)).nodes(FLAT)
    assert np.all(np.isfinite(nodes.features))
    assert nodes.sizes.sum() == 2000
