"""Normalized cuts of images: learned similarities against a grid search, Euclidean, scikit-learn.

Section 6.3 of the paper. For every seed some images are for training and the rest for test. All
hyper-parameters come from the training images: the strength and the loss scale of learned
similarities by cross-validation over them, the two scales of the grid by the loss on them. Every
method sees the same features of the same superpixels; losses are over all pixels.
"""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from hydra.utils import instantiate
from joblib import Parallel, delayed
from numpy.typing import NDArray
from omegaconf import DictConfig, OmegaConf
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import KFold, ParameterGrid
from threadpoolctl import threadpool_limits

from experiments.comparison import statistics
from experiments.image_baselines import ImageMethod
from experiments.image_losses import LOSSES, image_losses, paired_tests
from experiments.report import Artifacts, write_report
from metriclearn.datasets import LabeledImages
from metriclearn.features.image import ImageFeatures, ImageNodes
from metriclearn.plots import plot_image_segmentations, plot_learned_scales

__all__ = ["Fold", "run"]

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Fold:
    """The images of one role, with their nodes: nothing is computed twice."""

    data: LabeledImages
    nodes: list[ImageNodes]

    def select(self, indices: Sequence[int] | NDArray) -> Fold:
        """Some of the images."""
        return Fold(self.data.select(indices), [self.nodes[i] for i in indices])

    @property
    def labels(self) -> list[NDArray]:
        """Per image, the label map whose number of regions is the median of its annotators."""
        chosen = []
        for maps in self.data.label_maps:
            counts = [len(np.unique(labels)) for labels in maps]
            chosen.append(maps[int(np.argsort(counts, kind="stable")[(len(counts) - 1) // 2])])
        return chosen


@dataclass(frozen=True)
class _Result:
    """One method on one seed: losses of the test images by name, and what was chosen."""

    method: str
    seed: int
    names: list[str]
    losses: dict[str, NDArray]
    training: NDArray
    choice: str
    seconds: float
    model: Any


def run(config: DictConfig, folder: Path, command: str) -> Path:
    """Compare the methods of ``config.image_methods``; write tables, pictures and the report."""
    begun = time.perf_counter()
    everything = _load(config)
    seeds = range(config.seed, config.seed + config.n_seeds)
    parts = [_split(everything, config.n_train, config.n_test, seed) for seed in seeds]
    methods: dict[str, ImageMethod] = {
        entry.name: instantiate(entry.method) for entry in config.image_methods.values()
    }
    with warnings.catch_warnings(), threadpool_limits(1, user_api="blas"):
        warnings.simplefilter("ignore", ConvergenceWarning)
        jobs = [
            delayed(_evaluate)(name, method, seed, *part, config.n_folds, list(config.losses))
            for seed, part in zip(seeds, parts)
            for name, method in methods.items()
        ]
        results = []
        for result in Parallel(config.n_jobs, return_as="generator")(jobs):
            results.append(result)
            loss = result.losses["partition_loss"].mean()
            _logger.info("seed %d, %s: test ‖M−N‖² %.3f", result.seed, result.method, loss)
    tests = paired_tests(
        {name: _by_image(results, name) for name in methods},
        config.compared,
        _image_sets(results, everything),
    )
    folder.mkdir(parents=True, exist_ok=True)
    table = _table(results, tests, list(methods))
    _logger.info("\n%s", table)
    (folder / "images.md").write_text(table + "\n", encoding="utf-8")
    _draw(results, parts[0][1], config, folder)
    document = {
        "experiment": config.name,
        "rows": _rows(results, list(methods)),
        "tests": tests,
        "seconds": time.perf_counter() - begun,
        "config": OmegaConf.to_container(config, resolve=True),
    }
    return write_report(folder, document, _artifacts(results, config, everything), command)


def _load(config: DictConfig) -> Fold:
    data = instantiate(config.dataset.loader, _partial_=True)(config.dataset.root)
    data = data.select(np.arange(len(data))[: config.dataset.n_images])
    features: ImageFeatures = instantiate(config.features)
    nodes = Parallel(config.n_jobs)(delayed(features.nodes)(image) for image in data.images)
    sizes = [len(own.sizes) for own in nodes]
    _logger.info(
        "%s: %d images of %d to %d nodes, %d features",
        data.name,
        len(data),
        min(sizes),
        max(sizes),
        len(features.names),
    )
    return Fold(data, nodes)


def _split(everything: Fold, n_train: int, n_test: int | None, seed: int) -> tuple[Fold, Fold]:
    """The first images of a random order for training, the others for test."""
    order = np.random.RandomState(seed).permutation(len(everything.nodes))
    if not 1 <= n_train < len(order):
        raise ValueError(
            f"The experiment needs n_train from 1 to {len(order) - 1} of {len(order)} images, got "
            f"{n_train}."
        )
    train, test = order[:n_train], order[n_train:][:n_test]
    return everything.select(train), everything.select(test)


def _evaluate(
    name: str,
    method: ImageMethod,
    seed: int,
    train: Fold,
    test: Fold,
    n_folds: int,
    measures: list[str],
) -> _Result:
    """Choose on the training images, train, then look at the test images once."""
    begun = time.process_time()
    parameters, words = _choose(method, train, n_folds)
    model = method.fit(train.nodes, train.labels, parameters)
    seconds = time.process_time() - begun
    training = image_losses(model, train.nodes, [[own] for own in train.labels])
    losses = image_losses(model, test.nodes, test.data.label_maps, measures)
    choice = f"{words}{method.choice(model)}"
    names, loss = test.data.names, training["partition_loss"]
    return _Result(name, seed, names, losses, loss, choice, seconds, model)


def _choose(method: ImageMethod, train: Fold, n_folds: int) -> tuple[Mapping[str, Any], str]:
    """The candidate with the least mean loss on held-out folds of the training images."""
    candidates = list(ParameterGrid(dict(method.grid)))
    if len(candidates) == 1:
        return candidates[0], ""
    folds = KFold(min(n_folds, len(train.nodes)), shuffle=True, random_state=0)
    held_out = []
    for parameters in candidates:
        losses: list[float] = []
        for inner, outer in folds.split(train.nodes):
            part, rest = train.select(inner), train.select(outer)
            model = method.fit(part.nodes, part.labels, parameters)
            found = image_losses(model, rest.nodes, [[own] for own in rest.labels])
            losses += found["partition_loss"].tolist()
        held_out.append(float(np.mean(losses)))
    best = int(np.argmin(held_out))
    words = ", ".join(f"{key} = {value:g}" for key, value in candidates[best].items())
    return candidates[best], f"{words} (held-out loss {held_out[best]:.3f}); "


def _by_image(results: Sequence[_Result], method: str) -> dict[str, dict[str, float]]:
    """Loss → image → mean over the seeds in which the image is for test."""
    own = [result for result in results if result.method == method]
    found: dict[str, dict[str, float]] = {}
    for loss in own[0].losses:
        values: dict[str, list[float]] = {}
        for result in own:
            for name, value in zip(result.names, result.losses[loss]):
                values.setdefault(name, []).append(float(value))
        found[loss] = {name: float(np.mean(column)) for name, column in values.items()}
    return found


def _image_sets(results: Sequence[_Result], everything: Fold) -> dict[str, list[str]]:
    """All images, and those that no seed trains on (all method choices were made without them)."""
    tested = [set(result.names) for result in results]
    any_seed, every_seed = set.union(*tested), set.intersection(*tested)
    names = everything.data.names
    return {
        "all": [name for name in names if name in any_seed],
        "never for training": [name for name in names if name in every_seed],
    }


def _pooled(results: Sequence[_Result], method: str) -> dict[str, NDArray]:
    """Losses of all seeds, one after the other."""
    own = [result for result in results if result.method == method]
    return {loss: np.concatenate([r.losses[loss] for r in own]) for loss in own[0].losses}


def _rows(results: Sequence[_Result], methods: Sequence[str]) -> list[dict[str, Any]]:
    rows = []
    for method in methods:
        own = [result for result in results if result.method == method]
        head = {"method": method, "n_clusters": "given"}
        pooled = _pooled(results, method)
        rows += [head | {"split": "test"} | statistics(pooled[loss], loss) for loss in pooled]
        training = np.concatenate([result.training for result in own])
        rows.append(head | {"split": "train"} | statistics(training))
        rows[-1]["seconds"] = float(sum(result.seconds for result in own))
    return rows


def _table(results: Sequence[_Result], tests: Sequence[dict[str, Any]], methods: list[str]) -> str:
    """Markdown: means over all test images, every seed's mean, and the paired tests."""
    seeds = sorted({result.seed for result in results})
    measures = list(results[0].losses)
    words = " | ".join(LOSSES[loss][0] for loss in measures)
    lines = [
        f"| method | {words} | training ‖M−N‖² | processor s per seed |",
        "|---|" + "---:|" * (len(measures) + 2),
    ]
    for method in methods:
        pooled = _pooled(results, method)
        own = [result for result in results if result.method == method]
        cells = [
            f"{pooled[loss].mean():.3f} ± {pooled[loss].std(ddof=1) / len(pooled[loss]) ** 0.5:.3f}"
            for loss in measures
        ]
        training = np.mean([result.training.mean() for result in own])
        seconds = np.mean([result.seconds for result in own])
        lines.append(f"| {method} | {' | '.join(cells)} | {training:.3f} | {seconds:.0f} |")
    lines += ["", "Mean test ‖M−N‖² of every seed:", ""]
    lines += [f"| method | {' | '.join(f'seed {seed}' for seed in seeds)} |"]
    lines += ["|---|" + "---:|" * len(seeds)]
    for method in methods:
        own = [result for result in results if result.method == method]
        cells = [f"{result.losses['partition_loss'].mean():.3f}" for result in own]
        lines.append(f"| {method} | {' | '.join(cells)} |")
    lines += ["", "Paired differences per image, averaged over the seeds in which it is for test:"]
    lines += ["", "| first | second | loss | images | mean difference | s.d. | lower by | t | p |"]
    lines += ["|---|---|---|---:|---:|---:|---:|---:|---:|"]
    for test in tests:
        lines.append(
            f"| {test['first']} | {test['second']} | {LOSSES[test['loss']][0]} "
            f"| {test['images']}, {test['n']} | {test['mean']:.3f} | {test['deviation']:.3f} "
            f"| {100 * test['relative']:.1f} % | {test['t']:.1f} | {test['p']:.1e} |"
        )
    lines += ["", "What the training images chose:", ""]
    lines += [f"* {r.method}, seed {r.seed}: {r.choice}" for r in results if r.choice]
    return "\n".join(lines)


def _draw(
    results: Sequence[_Result],
    test: Fold,
    config: DictConfig,
    folder: Path,
) -> None:
    """Eight test images of the first seed, from the best to the worst of the first method."""
    first, second = config.drawn_methods
    own = {r.method: r for r in results if r.seed == config.seed}
    order = np.argsort(own[first].losses["partition_loss"], kind="stable")
    places = order[np.unique(np.linspace(0, len(order) - 1, config.n_drawn).round().astype(int))]
    shown = test.select(places)
    counts = [len(np.unique(labels)) for labels in shown.labels]
    maps = {
        name: [own[name].model.predict([n], K)[0] for n, K in zip(shown.nodes, counts)]
        for name in (first, second)
    }
    captions = {
        name: [f"loss {own[name].losses['partition_loss'][i]:.2f}" for i in places]
        for name in (first, second)
    }
    words = [""] * len(places)
    words[0], words[len(places) // 2], words[-1] = " (best)", " (median)", " (worst)"
    means = [own[name].losses["partition_loss"].mean() for name in (first, second)]
    figure = plot_image_segmentations(
        shown.data.images,
        {"people": shown.labels, **maps},
        captions,
        [f"{name}{word}" for name, word in zip(shown.data.names, words)],
        f"Learned similarity: mean loss {means[0]:.2f} on test images, {second}: {means[1]:.2f}",
    )
    figure.savefig(folder / "segmentations.png", dpi=110)
    model = own[first].model
    weights, names = np.diag(model.get_mahalanobis_matrix()), instantiate(config.features).names
    plot_learned_scales(weights, model.scale_, names).savefig(folder / "scales.png", dpi=110)


def _artifacts(results: Sequence[_Result], config: DictConfig, everything: Fold) -> Artifacts:
    own = [r for r in results if r.seed == config.seed and hasattr(r.model, "solution_")]
    weights = {r.method: _weights(r.model) for r in own}
    choices = {r.method: f"seed {r.seed}: {r.choice}" for r in results if r.seed == config.seed}
    return Artifacts(
        weights=weights,
        feature_names=instantiate(config.features).names,
        traces={r.method: vars(r.model.solution_.trace) for r in own},
        choices={method: text for method, text in choices.items() if text},
        notes=[
            f"{config.n_seeds} seeds; each draws {config.n_train} of {len(everything.nodes)} "
            "images for training, and tests on the others. Nothing is chosen on test images.",
            "Losses are over all pixels; K is that of each person's label map.",
            "images.md has all losses, every seed, the paired t-tests and what was chosen; "
            "segmentations.png shows test images from the best to the worst, scales.png the scales "
            "that the similarity has learned.",
            "The objective of learned similarities is not convex: no lower bound is known, and the "
            "0 in its place is that of every hinge.",
        ],
    )


def _weights(model: Any) -> NDArray:
    components = model.components_ * model.scale_
    B = components.T @ components
    diagonal = np.count_nonzero(B) == np.count_nonzero(np.diag(B))
    return np.diag(B) if diagonal else B
