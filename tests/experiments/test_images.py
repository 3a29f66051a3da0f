"""The experiment ``images``: losses by hand, paired tests, candidates, methods end to end."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import ttest_rel

from experiments.image_baselines import Euclidean, Grid, Learned, Spectral
from experiments.image_losses import LOSSES, image_losses, paired_tests
from experiments.images import Fold, _choose, _evaluate, _split
from metriclearn import CCCP, FactorDescent, ImageFeatures, NormalizedCutMetricLearner
from metriclearn.datasets import LabeledImages
from metriclearn.features.image import Color, PixelBlocks, Position
from tests.estimators.test_normalized_cuts import images, quiet  # noqa: F401

TRUTH = np.array([[0, 0, 1, 1], [0, 0, 1, 1]])
FOUND = np.array([[5, 5, 5, 7], [5, 5, 5, 7]])


@pytest.mark.parametrize(
    ("loss", "expected"),
    [
        # cells 4, 2, 2 of clusters 6, 2 and 4, 4: Tr MN = 16/24 + 4/24 + 4/8
        ("partition_loss", 4 - 2 * (16 / 24 + 4 / 24 + 4 / 8)),
        # pairs together in both: 6 + 1 + 1; in the truth 12, found 16
        ("jaccard", 1 - 8 / (12 + 16 - 8)),
        ("foreground", 1 - 2 / 4),
        ("covering", 1 - (4 * 4 / 6 + 4 * 2 / 4) / 8),
    ],
)
def test_losses_by_hand(loss: str, expected: float) -> None:
    measure = LOSSES[loss][1]
    assert measure(FOUND, TRUTH) == pytest.approx(expected, abs=1e-12)
    assert measure(TRUTH, TRUTH) == pytest.approx(0.0, abs=1e-12)
    assert measure(1 - TRUTH, TRUTH) == pytest.approx(0.0, abs=1e-12)


def test_annotators_are_averaged_each_with_their_own_count() -> None:
    class Model:
        def predict(self, nodes: list, counts: list[int]) -> list:  # type: ignore[type-arg]
            return [FOUND if counts == [2] else np.zeros((2, 4), int)]

    found = image_losses(Model(), [None], [[TRUTH, np.zeros((2, 4))]])  # type: ignore[list-item]
    single = LOSSES["partition_loss"][1](FOUND, TRUTH)
    np.testing.assert_allclose(found["partition_loss"], [single / 2])


def test_paired_tests_are_scipys() -> None:
    random = np.random.default_rng(0)
    a, b = random.normal(size=(2, 20)) + np.array([[0.0], [1.0]])
    names = [f"i{place}" for place in range(20)]
    losses = {"ours": {"l": dict(zip(names, a))}, "grid": {"l": dict(zip(names, b))}}
    all_, few = paired_tests(losses, [("ours", "grid")], {"all": names, "few": names[:5]})
    expected = ttest_rel(a, b)
    assert (all_["t"], all_["p"]) == pytest.approx((expected.statistic, expected.pvalue))
    assert all_["deviation"] == pytest.approx(np.std(a - b, ddof=1))
    assert all_["relative"] == pytest.approx(1 - a.mean() / b.mean())
    assert (few["n"], few["images"]) == (5, "few")


@pytest.fixture(scope="module")
def everything() -> Fold:
    pytest.importorskip("skimage")
    pixels, maps = images(6)
    data = LabeledImages("disks", pixels, [[m] for m in maps], [f"d{i}" for i in range(6)])
    features = ImageFeatures(PixelBlocks(100), (Color(), Position()))
    return Fold(data, [features.nodes(image) for image in pixels])


def test_splits_are_disjoint_and_by_seed(everything: Fold) -> None:
    train, test = _split(everything, 4, None, 0)
    assert sorted(train.data.names + test.data.names) == everything.data.names
    assert _split(everything, 4, None, 0)[0].data.names == train.data.names
    assert _split(everything, 4, 1, 1)[1].data.names != []
    with pytest.raises(ValueError, match="n_train from 1 to 5"):
        _split(everything, 6, None, 0)


@pytest.mark.parametrize(
    ("method", "words"),
    [
        (
            Learned(
                NormalizedCutMetricLearner(solver=CCCP(FactorDescent(8), max_rounds=2)),
                {"regularizer__strength": [1e-2, 1e-1]},
            ),
            "outer steps",
        ),
        (Grid([3, 4], [1e-2, 1.0]), "of 4 pairs"),
        (Grid([1], [1e-2, 1.0], keep=[0, 3]), "of 4 pairs"),
        (Euclidean(), ""),
        (Spectral({"gamma": [0.1]}), "gamma 0.1"),
    ],
    ids=["learned", "grid", "part of the features", "euclidean", "scikit-learn"],
)
def test_methods_train_and_are_scored(everything: Fold, method: object, words: str) -> None:
    train, test = _split(everything, 4, None, 0)
    measures = ["partition_loss", "jaccard", "foreground"]
    result = _evaluate("name", method, 0, train, test, 2, measures)  # type: ignore[arg-type]
    assert list(result.losses) == measures
    assert all(len(values) == 2 for values in result.losses.values())
    assert len(result.training) == 4
    assert words in result.choice


def test_candidates_are_chosen_on_held_out_training_images(everything: Fold) -> None:
    train, _ = _split(everything, 4, None, 0)
    seen: list[tuple[float, int]] = []

    class Counting(Euclidean):
        def fit(self, nodes, labels, parameters):  # type: ignore[no-untyped-def]
            seen.append((parameters["scale"], len(nodes)))
            return super().fit(nodes, labels, parameters)

    parameters, text = _choose(Counting(grid={"scale": [1e-6, 1.0, 300.0]}), train, 2)
    assert seen == [(scale, 2) for scale in (1e-6, 1.0, 300.0) for _ in range(2)]
    assert f"scale = {parameters['scale']:g}" in text
