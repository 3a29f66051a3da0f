"""The experiment ``images``: losses by hand, splits, a run on images of another folder."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from experiments.studies.images import MEASURES, Pictures, image_scores, split
from metriclearn.datasets import LabeledImages
from metriclearn.features import ImageFeatures
from metriclearn.features.media.image import Color, PixelBlocks, Position
from tests.estimators.test_normalized_cuts import images
from tests.experiments.command import refusal, results_of

TRUTH = np.array([[0, 0, 1, 1], [0, 0, 1, 1]])
FOUND = np.array([[5, 5, 5, 7], [5, 5, 5, 7]])


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        # cells 4, 2, 2 of clusters 6, 2 and 4, 4: Tr MN = 16/24 + 4/24 + 4/8
        ("partition_loss", 4 - 2 * (16 / 24 + 4 / 24 + 4 / 8)),
        # pairs together in both: 6 + 1 + 1; in the truth 12, found 16
        # regions of 4 and 4 of 8: D is twice or half of the identity
        ("balanced", 2 * (4 - 2 * (16 / 24 + 4 / 24 + 4 / 8))),
        ("by_size", 0.5 * (4 - 2 * (16 / 24 + 4 / 24 + 4 / 8))),
        ("jaccard", 8 / (12 + 16 - 8)),
        ("foreground", 2 / 4),
        ("covering", (4 * 4 / 6 + 4 * 2 / 4) / 8),
    ],
)
def test_measures_by_hand(name: str, expected: float) -> None:
    _, better, measure = MEASURES[name]
    perfect = 0.0 if better == "less" else 1.0
    assert measure(FOUND, TRUTH) == pytest.approx(expected, abs=1e-12)
    assert measure(TRUTH, TRUTH) == pytest.approx(perfect, abs=1e-12)
    assert measure(1 - TRUTH, TRUTH) == pytest.approx(perfect, abs=1e-12)


def test_annotators_are_averaged_each_with_their_own_count() -> None:
    class Model:
        def predict(self, X: list, n_clusters: list[int]) -> list:  # type: ignore[type-arg]
            return [FOUND if n_clusters == [2] else np.zeros((2, 4), int)]

    found = image_scores(Model(), [None], [[TRUTH, np.zeros((2, 4))]])  # type: ignore[list-item]
    single = MEASURES["partition_loss"][2](FOUND, TRUTH)
    np.testing.assert_allclose(found["partition_loss"], [single / 2])


@pytest.fixture(scope="module")
def everything() -> Pictures:
    pytest.importorskip("skimage")
    pixels, maps = images(6)
    data = LabeledImages("disks", pixels, [[m] for m in maps], [f"d{i}" for i in range(6)])
    features = ImageFeatures(PixelBlocks(100), (Color(), Position()))
    return Pictures(data, [features.nodes(image) for image in pixels])


def test_splits_are_disjoint_and_by_seed(everything: Pictures) -> None:
    train, test = split(everything, 4, None, 0)
    assert sorted(train.data.names + test.data.names) == everything.data.names
    assert split(everything, 4, None, 0)[0].data.names == train.data.names
    assert split(everything, 4, 1, 1)[1].data.names != []
    with pytest.raises(ValueError, match="n_train from 1 to 5"):
        split(everything, 6, None, 0)
    train, test = split(everything, 6, None, 0, unseen=everything.select([2]))
    assert (len(train.nodes), test.data.names) == (6, everything.data.names[2:3])


def write_images(folder: Path, places: range) -> None:
    """Disks as the Weizmann horses come: a folder of images and one of masks."""
    pixels, maps = (some[places.start :] for some in images(places.stop))
    for part in ("images", "masks"):
        (folder / part).mkdir(parents=True)
    for i, (image, labels) in enumerate(zip(pixels, maps)):
        name = f"{folder.name}{i}.png"
        Image.fromarray((255 * image).astype(np.uint8)).save(folder / "images" / name)
        Image.fromarray(labels.astype(np.uint8)).save(folder / "masks" / name)


def test_images_of_another_folder_are_for_test(tmp_path: Path) -> None:
    pytest.importorskip("skimage")
    write_images(tmp_path / "known", range(4))
    write_images(tmp_path / "unseen", range(4, 6))
    left_out = ("small_grid", "scikit_learn", "full")
    few = ("tiny=true", "n_jobs=1", *(f"~image_methods.{name}" for name in left_out))
    options = ("experiment=images", *few, "n_train=2", f"dataset.root={tmp_path}/known")
    message = refusal(tmp_path / "same", *options, f"dataset.test_root={tmp_path}/known")
    assert "test_root needs data that are not for training, but 4 of 4 are" in message
    unseen = f"dataset.test_root={tmp_path}/unseen"
    results = results_of(tmp_path / "out", *options, unseen)
    assert results["tables"][0]["words"] == "intersection over union"
    assert [table["main"] for table in results["tables"]] == [True, False, False]
    assert {tuple(row["units"]) for row in results["rows"]} == {("unseen0", "unseen1")}
    rows = {(row["method"], row["measure"]): row for row in results["rows"]}
    assert rows["one region", "partition_loss"]["mean"] == pytest.approx(1.0)  # K − 1
    assert rows["ours", "foreground"]["mean"] > rows["one region", "foreground"]["mean"]
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "could not be drawn" not in page
    assert page.count("<figure>") == 2  # the segmented images, and the learned scales
