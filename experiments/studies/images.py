"""Normalized cuts of images: compare learned similarities with a grid search and other baselines.

This is the experiment of section 6.3 of the paper. For every seed some images are used for
training, and the rest for test. All hyper-parameters come from the training images: the strength
and the loss scale of learned similarities by cross-validation, the two scales of the grid by the
training loss. Every method sees the same features of the same superpixels. Losses are computed over
all pixels.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from hydra.utils import instantiate
from joblib import Parallel, delayed
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from omegaconf import DictConfig
from sklearn.metrics.cluster import contingency_matrix
from sklearn.model_selection import KFold
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import has_fit_parameter

from experiments.harness.cases import refuse_seen
from experiments.harness.procedure import Case, Losses, Method, Outcome, Procedure, Scores, Story
from experiments.harness.report import Artifacts, page
from experiments.harness.results import MEASURE, OURS, Row
from metriclearn.datasets import LabeledImages
from metriclearn.features.media.image import ImageFeatures, ImageNodes
from metriclearn.indices import covering, jaccard_score, partition_loss
from metriclearn.plots import plot_image_segmentations, plot_weights
from metriclearn.problem.partition import Partition
from metriclearn.similarities import NodeLabels

_logger = logging.getLogger(__name__)


def foreground_overlap(predicted: NDArray, truth: NDArray) -> float:
    """Compute the largest intersection over union of a predicted region with the true region of
    label 1."""
    table = contingency_matrix(truth.ravel(), predicted.ravel())
    shares = table / (table.sum(axis=1, keepdims=True) + table.sum(axis=0) - table)
    return float(shares[np.unique(truth) == 1].max(initial=0.0))


def weighted_loss(predicted: NDArray, truth: NDArray, balance: float) -> float:
    """Compute ‖D^½(M − N)‖² with D = Diag((n/n_k)^b), where n is the number of pixels and n_k is
    the size of a pixel's true region. Predicted regions serve as nodes."""
    table = contingency_matrix(predicted.ravel(), truth.ravel()).astype(float)
    return NodeLabels(table, balance=balance).squared_norm(np.arange(len(table)))


MEASURES: dict[str, tuple[str, str, Callable[[NDArray, NDArray], float]]] = {
    "foreground": ("intersection over union", "more", foreground_overlap),
    "covering": (
        "covering (intersection over union)",
        "more",
        lambda M, N: covering(Partition.from_labels(N.ravel()), Partition.from_labels(M.ravel())),
    ),
    MEASURE: (
        "‖M − N‖²",
        "less",
        lambda M, N: partition_loss(N.ravel(), M.ravel(), normalized=False),
    ),
    "by_size": ("‖D^½(M − N)‖², regions by size", "less", partial(weighted_loss, balance=-1.0)),
    "balanced": ("‖D^½(M − N)‖², balanced", "less", partial(weighted_loss, balance=1.0)),
    "jaccard": (
        "pairwise Jaccard index",
        "more",
        lambda M, N: float(jaccard_score(N.ravel(), M.ravel())),
    ),
}
CRITERIA = {0.0: MEASURE, -1.0: "by_size", 1.0: "balanced"}  # of a ``balance``


def image_scores(
    model: Any,
    nodes: Sequence[ImageNodes],
    label_maps: Sequence[Sequence[NDArray]],
    measures: Sequence[str] = (MEASURE,),
) -> dict[str, NDArray]:
    """Measure the segmentations of every image, on average over its annotators. The comparison with
    an annotator uses the segmentation with as many regions as this annotator's label map."""
    values = []
    for image, maps in zip(nodes, label_maps):
        counts = [len(np.unique(truth)) for truth in maps]
        predicted = {K: model.predict([image], n_clusters=[K])[0] for K in sorted(set(counts))}
        pairs = [(predicted[K], truth) for K, truth in zip(counts, maps)]
        values.append([np.mean([MEASURES[name][2](*pair) for pair in pairs]) for name in measures])
    return dict(zip(measures, np.array(values).T))


@dataclass(frozen=True, eq=False)
class Pictures:
    """The images for training or test, with their nodes, which are computed once."""

    data: LabeledImages
    nodes: list[ImageNodes]

    def select(self, indices: Sequence[int] | NDArray) -> Pictures:
        """Select some of the images."""
        return Pictures(self.data.select(indices), [self.nodes[i] for i in indices])

    @property
    def labels(self) -> list[NDArray]:
        """For each image, the label map of one annotator: the one whose number of regions is the
        median over all annotators of the image."""
        chosen = []
        for maps in self.data.label_maps:
            counts = [len(np.unique(labels)) for labels in maps]
            chosen.append(maps[int(np.argsort(counts, kind="stable")[(len(counts) - 1) // 2])])
        return chosen


class Images(Procedure):
    """The experiment on images. A case is a seed, which divides the images into training and test.
    No lower bounds are shown, because CCCP gives none."""

    entries = "image_methods"
    reads_test_root = True
    certified = False
    titles: Mapping[str, str] = {"given": "K given"}

    def __init__(self, config: DictConfig) -> None:
        super().__init__(config)
        self.measures = {name: MEASURES[name][:2] for name in config.measures}

    def cases(self) -> list[Case]:
        config, dataset = self.config, self.config.dataset
        everything = self._read(dataset.root, dataset.n_images)
        unseen = self._read(dataset.test_root, None) if dataset.test_root else None
        refuse_seen(everything.data, *([unseen.data] if unseen else []))
        cases = []
        for seed in range(config.seed, config.seed + config.n_seeds):
            train, test = split(everything, config.n_train, config.n_test, seed, unseen)
            cutter = KFold(min(config.n_folds, len(train.nodes)), shuffle=True, random_state=0)
            pairs = cutter.split(train.nodes)
            folds = [(train.select(part), train.select(rest)) for part, rest in pairs]
            cases.append(Case(f"seed {seed}", train, test, folds))
        return cases

    def _read(self, root: str | None, most: int | None) -> Pictures:
        """Read the first images of a folder, and compute their nodes."""
        data = instantiate(self.config.dataset.loader, _partial_=True)(root)
        data = data.select(np.arange(len(data))[:most])
        features: ImageFeatures = instantiate(self.config.features)
        jobs = (delayed(features.nodes)(image) for image in data.images)
        pictures = Pictures(data, Parallel(self.config.n_jobs)(jobs))
        sizes = [len(image.sizes) for image in pictures.nodes]
        text = "%s: %d images of %d to %d nodes, %d features"
        _logger.info(text, data.name, len(data), min(sizes), max(sizes), len(features.names))
        return pictures

    def units(self, data: Pictures) -> Sequence[str]:
        return data.data.names

    def fit(self, estimator: Any, data: Pictures, method: Method) -> Any:
        if not (self.config.every_annotator and has_fit_parameter(estimator, "sample_weight")):
            return estimator.fit(data.nodes, data.labels)
        pairs = list(zip(data.nodes, data.data.label_maps))
        nodes = [image for image, maps in pairs for _ in maps]
        labels = [labels for _, maps in pairs for labels in maps]
        weights = [1.0 / len(maps) for _, maps in pairs for _ in maps]
        return estimator.fit(nodes, labels, sample_weight=weights)

    def validate(self, method: Method, model: Any, train: Any, held_out: Pictures) -> Losses:
        maps = [[labels] for labels in held_out.labels]
        criterion = CRITERIA[self.config.criterion]
        return {"given": {None: image_scores(model, held_out.nodes, maps, [criterion])[criterion]}}

    def score(self, model: Any, option: Any, column: str, case: Case) -> tuple[Any, Scores]:
        test = case.test
        return model, image_scores(model, test.nodes, test.data.label_maps, list(self.measures))

    def table(self, name: str) -> Row:
        note = (
            f"An image counts once, by its mean over the {self.config.n_seeds} seeds that test it."
        )
        return super().table(name) | {"note": note if self.config.n_seeds > 1 else ""}

    def words(self, outcome: Outcome, column: str) -> str:
        """Return the hyper-parameters chosen on training images, in words."""
        choice, model = outcome.choices["given"], outcome.models["given"]
        words = []
        if len(choice.losses):
            words.append(f"{choice} (loss held out {choice.losses.mean():.3f})")
        search = model[-1] if isinstance(model, Pipeline) else model
        if hasattr(search, "losses_"):
            position, color = search.scales_
            words.append(
                f"weight {position:.3g} for position, {color:.3g} for the rest, of "
                f"{search.losses_.size} pairs (training loss {search.losses_.min():.3f})"
            )
        if hasattr(model, "solution_"):
            solution = model.solution_
            start = min(model.start_objectives_, key=lambda pair: pair[1])[0]
            words.append(
                f"start {start:g} of {len(model.start_objectives_)}, objective "
                f"{solution.scale:.4g} to {solution.objective:.4g} in "
                f"{len(solution.trace)} outer steps ({solution.reason}), rank {solution.rank}"
            )
        return "; ".join(words)

    def story(self, outcomes: list[Outcome], folder: Path) -> Story:
        first = {o.name: o for o in outcomes if o.case is outcomes[0].case}
        mine, features = first[OURS].models["given"], instantiate(self.config.features).names
        artifacts = Artifacts(
            figures={
                "Test images from our best to our worst": (self._segmented(first), 1),
                "What counts in the similarity": (partial(plot_weights, mine, features), 1.6),
            },
            notes=page("images.notes.j2").splitlines(),
        )
        chosen_by = MEASURES[CRITERIA[self.config.criterion]][0]
        n_test = len(outcomes[0].case.test.data)
        settings = {"config": self.config, "n_test": n_test, "chosen_by": chosen_by}
        protocol = page("images.protocol.j2", **settings).strip()
        return Story(protocol, artifacts, self.numbers(outcomes))

    def _segmented(self, by_name: Mapping[str, Outcome]) -> Callable[..., Figure]:
        """Return a function that draws test images of the first seed, ordered by our loss. On a
        narrow screen this function draws only the best and the worst image.
        """
        pair = [by_name[name] for name in self.config.drawn_methods]
        measure = next(iter(self.measures))
        words, better, _ = MEASURES[measure]
        values = [outcome.scores["given"][measure] for outcome in pair]
        order = np.argsort(values[0] if better == "less" else -values[0], kind="stable")
        means = ", ".join(f"{o.name} {v.mean():.2f}" for o, v in zip(pair, values))
        draw_of = "" if self.config.n_seeds == 1 else ", first draw"
        title = f"Mean {words} of {len(order)} test images{draw_of}: {means}"
        title += " (below each image its own)"

        def draw(ax: Axes | None = None) -> Figure:
            count = 2 if ax is not None else self.config.n_drawn
            steps = np.unique(np.linspace(0, len(order) - 1, count).round().astype(int))
            places = order[steps]
            shown = pair[0].case.test.select(places)
            counts = [len(np.unique(labels)) for labels in shown.labels]
            maps: dict[str, list[NDArray]] = {"people": shown.labels}
            captions = {}
            for outcome, mine in zip(pair, values):
                maps[outcome.name] = outcome.models["given"].predict(shown.nodes, n_clusters=counts)
                captions[outcome.name] = [f"{mine[i]:.2f}" for i in places]
            signs = {len(order) - 1: "worst", 0: "best"}
            ranks = [signs.get(step, f"{step + 1} of {len(order)}") for step in steps]
            names = [f"{name} ({rank})" for name, rank in zip(shown.data.names, ranks)]
            return plot_image_segmentations(shown.data.images, maps, captions, names, title)

        return draw


def split(
    everything: Pictures,
    n_train: int,
    n_test: int | None,
    seed: int,
    unseen: Pictures | None = None,
) -> list[Pictures]:
    """Divide the images in random order: the first are used for training, and the others for test,
    unless there are ``unseen`` images for it."""
    order = np.random.RandomState(seed).permutation(len(everything.nodes))
    most = len(order) - (unseen is None)
    if not 1 <= n_train <= most:
        raise ValueError(
            f"The experiment needs n_train from 1 to {most} of {len(order)} images, got {n_train}."
        )
    train, test = order[:n_train], order[n_train:][:n_test]
    return [everything.select(train), unseen or everything.select(test)]
