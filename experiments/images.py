"""Normalized cuts of images: learned similarities against a grid search, Euclidean, scikit-learn.

Section 6.3 of the paper. For every seed some images are for training and the rest for test. All
hyper-parameters come from the training images: the strength and the loss scale of learned
similarities by cross-validation over them, the two scales of the grid by the loss on them. Every
method sees the same features of the same superpixels; losses are over all pixels.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from hydra.utils import instantiate
from joblib import Parallel, delayed
from numpy.typing import NDArray
from pandas import DataFrame, concat
from scipy.stats import ttest_rel
from sklearn.metrics.cluster import contingency_matrix
from sklearn.model_selection import KFold
from sklearn.pipeline import Pipeline

from experiments.procedure import (
    Case,
    Losses,
    Method,
    Outcome,
    Procedure,
    Scores,
    Story,
    grouped,
    pooled_rows,
)
from experiments.report import MEASURE, Artifacts, learned_metrics, page
from metriclearn.datasets import LabeledImages
from metriclearn.features.image import ImageFeatures, ImageNodes
from metriclearn.indices import jaccard_score, partition_loss
from metriclearn.plots import plot_image_segmentations, plot_learned_scales

_logger = logging.getLogger(__name__)


def _overlaps(predicted: NDArray, truth: NDArray) -> NDArray:
    """Intersection over union of all true regions with all predicted ones."""
    table = contingency_matrix(truth.ravel(), predicted.ravel())
    return table / (table.sum(axis=1, keepdims=True) + table.sum(axis=0) - table)


def foreground_distance(predicted: NDArray, truth: NDArray) -> float:
    """One less the intersection over union with the label 1, for the cluster that has the most."""
    return 1.0 - float(_overlaps(predicted, truth)[np.unique(truth) == 1].max(initial=0.0))


def covering_distance(predicted: NDArray, truth: NDArray) -> float:
    """One less the covering of the true regions by the best predicted ones.

    Arbeláez, Maire, Fowlkes & Malik, Contour detection and hierarchical image segmentation, IEEE
    TPAMI 33, 2011.
    """
    _, sizes = np.unique(truth, return_counts=True)
    return 1.0 - float(sizes @ _overlaps(predicted, truth).max(axis=1)) / truth.size


LOSSES: dict[str, tuple[str, Callable[[NDArray, NDArray], float]]] = {
    MEASURE: ("‖M−N‖²", lambda M, N: partition_loss(N.ravel(), M.ravel(), normalized=False)),
    "jaccard": (
        "pairwise Jaccard distance",
        lambda M, N: 1.0 - float(jaccard_score(N.ravel(), M.ravel())),
    ),
    "foreground": ("foreground IoU distance", foreground_distance),
    "covering": ("covering distance", covering_distance),
}


def image_losses(
    model: Any,
    nodes: Sequence[ImageNodes],
    label_maps: Sequence[Sequence[NDArray]],
    losses: Sequence[str] = (MEASURE,),
) -> dict[str, NDArray]:
    """Losses of every image, averaged over its annotators, each with their own K."""
    values = []
    for image, maps in zip(nodes, label_maps):
        counts = [len(np.unique(truth)) for truth in maps]
        predicted = {K: model.predict([image], n_clusters=[K])[0] for K in sorted(set(counts))}
        pairs = [(predicted[K], truth) for K, truth in zip(counts, maps)]
        values.append([np.mean([LOSSES[loss][1](*pair) for pair in pairs]) for loss in losses])
    return dict(zip(losses, np.array(values).T))


@dataclass(frozen=True, eq=False)
class Pictures:
    """The images of one role, with their nodes: nothing is computed twice."""

    data: LabeledImages
    nodes: list[ImageNodes]

    def select(self, indices: Sequence[int] | NDArray) -> Pictures:
        """Some of the images."""
        return Pictures(self.data.select(indices), [self.nodes[i] for i in indices])

    @property
    def labels(self) -> list[NDArray]:
        """Per image, the label map whose number of regions is the median of its annotators."""
        chosen = []
        for maps in self.data.label_maps:
            counts = [len(np.unique(labels)) for labels in maps]
            chosen.append(maps[int(np.argsort(counts, kind="stable")[(len(counts) - 1) // 2])])
        return chosen


class Images(Procedure):
    """The procedure: a case is a seed, which divides the images."""

    entries = "image_methods"

    def cases(self) -> list[Case]:
        config, dataset = self.config, self.config.dataset
        data = instantiate(dataset.loader, _partial_=True)(dataset.root)
        data = data.select(np.arange(len(data))[: dataset.n_images])
        features: ImageFeatures = instantiate(config.features)
        jobs = (delayed(features.nodes)(image) for image in data.images)
        everything = Pictures(data, Parallel(config.n_jobs)(jobs))
        sizes = [len(image.sizes) for image in everything.nodes]
        text = "%s: %d images of %d to %d nodes, %d features"
        _logger.info(text, data.name, len(data), min(sizes), max(sizes), len(features.names))
        cases = []
        for seed in range(config.seed, config.seed + config.n_seeds):
            train, test = split(everything, config.n_train, config.n_test, seed)
            cutter = KFold(min(config.n_folds, len(train.nodes)), shuffle=True, random_state=0)
            pairs = cutter.split(train.nodes)
            folds = [(train.select(part), train.select(rest)) for part, rest in pairs]
            cases.append(Case(f"seed {seed}", train, test, folds))
        return cases

    def fit(self, estimator: Any, data: Pictures, method: Method) -> Any:
        return estimator.fit(data.nodes, data.labels)

    def validate(self, method: Method, model: Any, train: Any, held_out: Pictures) -> Losses:
        return {"given": {None: _losses_of_median_maps(model, held_out)}}

    def score(self, model: Any, option: Any, column: str, case: Case) -> tuple[Any, Scores]:
        test = case.test
        losses = image_losses(model, test.nodes, test.data.label_maps, self.config.losses)
        scores = {("test", name): values for name, values in losses.items()}
        return model, scores | {("train", MEASURE): _losses_of_median_maps(model, case.train)}

    def stories(self, outcomes: list[Outcome], folder: Path) -> list[Story]:
        rows = pooled_rows(outcomes)
        tested = [outcome.case.test.data.names for outcome in outcomes]
        every_seed = set.intersection(*map(set, tested))  # what no seed trains on
        names = sorted(set().union(*tested))
        sets = {"all": names, "never for training": [n for n in names if n in every_seed]}
        tests = paired_tests(losses_by_image(outcomes), self.config.compared, sets)
        text = page(
            "images.md.j2",
            rows=grouped(rows, lambda row: row["method"]),
            outcomes=grouped(outcomes, lambda outcome: outcome.name),
            every=outcomes,
            tests=tests,
            titles=LOSSES,
            words=words_of,
        )
        _logger.info("\n%s", text)
        (folder / "images.md").write_text(text, encoding="utf-8")
        self._draw([o for o in outcomes if o.case is outcomes[0].case], folder)
        return [Story(rows, self._artifacts(outcomes), {"tests": tests})]

    def _draw(self, outcomes: Sequence[Outcome], folder: Path) -> None:
        """Eight test images of the first seed, from the best to the worst of the first method."""
        by_name = {outcome.name: outcome for outcome in outcomes}
        first, second = (by_name[name] for name in self.config.drawn_methods)
        order = np.argsort(first.losses("given"), kind="stable")
        steps = np.linspace(0, len(order) - 1, self.config.n_drawn).round().astype(int)
        places = order[np.unique(steps)]
        shown = first.case.test.select(places)
        counts = [len(np.unique(labels)) for labels in shown.labels]
        maps: dict[str, list[NDArray]] = {"people": shown.labels}
        captions = {}
        for outcome in (first, second):
            model, losses = outcome.models["given"], outcome.losses("given")
            maps[outcome.name] = model.predict(shown.nodes, n_clusters=counts)
            captions[outcome.name] = [f"loss {losses[i]:.2f}" for i in places]
        words = [""] * len(places)
        words[0], words[len(places) // 2], words[-1] = " (best)", " (median)", " (worst)"
        means = [outcome.losses("given").mean() for outcome in (first, second)]
        figure = plot_image_segmentations(
            shown.data.images,
            maps,
            captions,
            [f"{name}{word}" for name, word in zip(shown.data.names, words)],
            f"Learned similarity: mean loss {means[0]:.2f} on test images, {second.name}: "
            f"{means[1]:.2f}",
        )
        figure.savefig(folder / "segmentations.png", dpi=110)
        model, names = first.models["given"], instantiate(self.config.features).names
        weights = np.diag(model.get_mahalanobis_matrix())
        plot_learned_scales(weights, model.scale_, names).savefig(folder / "scales.png", dpi=110)

    def _artifacts(self, outcomes: Sequence[Outcome]) -> Artifacts:
        config = self.config
        first = [outcome for outcome in outcomes if outcome.case is outcomes[0].case]
        words = {outcome.name: words_of(outcome) for outcome in first}
        notes = page("images.notes.j2", config=config, n_test=len(first[0].case.test.nodes))
        return Artifacts(
            feature_names=instantiate(config.features).names,
            choices={name: f"seed {config.seed}: {text}" for name, text in words.items() if text},
            notes=notes.splitlines(),
            **learned_metrics({outcome.name: outcome.models["given"] for outcome in first}),
        )


def _losses_of_median_maps(model: Any, data: Pictures) -> NDArray:
    return image_losses(model, data.nodes, [[labels] for labels in data.labels])[MEASURE]


def split(everything: Pictures, n_train: int, n_test: int | None, seed: int) -> list[Pictures]:
    """The first images of a random order for training, the others for test."""
    order = np.random.RandomState(seed).permutation(len(everything.nodes))
    if not 1 <= n_train < len(order):
        raise ValueError(
            f"The experiment needs n_train from 1 to {len(order) - 1} of {len(order)} images, got "
            f"{n_train}."
        )
    train, test = order[:n_train], order[n_train:][:n_test]
    return [everything.select(train), everything.select(test)]


def words_of(outcome: Outcome) -> str:
    """What the training images chose."""
    choice, model = outcome.choices["given"], outcome.models["given"]
    words = []
    if len(choice.losses):
        words.append(f"{choice} (held-out loss {choice.losses.mean():.3f})")
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


def losses_by_image(outcomes: Sequence[Outcome]) -> dict[str, DataFrame]:
    """For every method images × losses, means over the seeds in which an image is for test."""
    means = {}
    for name, mine in grouped(outcomes, lambda outcome: outcome.name).items():
        frames = []
        for outcome in mine:
            scores = outcome.scores["given"].items()
            losses = {loss: values for (split, loss), values in scores if split == "test"}
            frames.append(DataFrame(losses, index=outcome.case.test.data.names))
        means[name] = concat(frames).groupby(level=0).mean()
    return means


def paired_tests(
    losses: Mapping[str, DataFrame],
    pairs: Sequence[Sequence[str]],
    names: Mapping[str, Sequence[str]],
) -> list[dict[str, Any]]:
    """Two-sided paired t-tests over images.

    Parameters
    ----------
    losses : dict
        Method → images × losses.
    pairs : sequence of (first, second)
        Methods to compare.
    names : dict
        Sets of images by their description; those of a single image are left out.
    """
    tests = []
    for (first, second), (description, chosen), loss in product(
        pairs, names.items(), next(iter(losses.values()))
    ):
        if len(chosen) < 2:
            continue
        a, b = (losses[name][loss].loc[list(chosen)].to_numpy() for name in (first, second))
        test = ttest_rel(a, b)
        tests.append(
            {
                "first": first,
                "second": second,
                "images": description,
                "loss": loss,
                "n": len(a),
                "mean": float((a - b).mean()),
                "deviation": float((a - b).std(ddof=1)),
                "relative": float(1.0 - a.mean() / b.mean()),
                "t": float(test.statistic),
                "p": float(test.pvalue),
            }
        )
    return tests
