"""Training, prediction and memory of learned normalized cuts, and the error of random features.

    python -m experiments.benchmarks.normalized_cuts [--tiny]

* training: a fit to 10 images of horses with 1500 or more nodes each, to convergence.
* prediction: one image of 300×225 pixels is segmented from its superpixels. The time includes the
  computation of features.
* large: one value and gradient of the objective, and one normalized cut, for 20 000 nodes and a
  memory budget of 1 GiB. Three kinds of similarities are timed: all pairs (the matrix W alone would
  take 3 GiB), neighbors only, and an approximation by random features.
* random features: relative error of the training objective against the number D of features.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter

import metriclearn as ml
from experiments.benchmarks import machine
from experiments.benchmarks.benchmark import Benchmark, Run
from experiments.benchmarks.problems import problem_of
from metriclearn.datasets import load_dataset
from metriclearn.features.media.image import (
    Color,
    ColorContext,
    GradientEnergy,
    ImageNodes,
    PixelBlocks,
    Position,
    Superpixels,
)
from metriclearn.plots import plot_scaling
from metriclearn.similarities import Neighborhood, Similarity
from metriclearn.similarities.normalized_cut import NormalizedCut, ThresholdCut
from metriclearn.solvers.mahalanobis import Metric

BENCH = Benchmark("normalized_cuts", __doc__)
_BUDGET = 2.0**30
_KINDS: dict[str, Similarity] = {
    "all pairs": ml.similarities.GaussianSimilarity(memory=_BUDGET),
    "neighbors within 5 pixels": ml.similarities.GaussianSimilarity(Neighborhood(5.0), _BUDGET),
    "500 random features": ml.similarities.FourierSimilarity(500),
}
_METRICS: dict[str, Metric] = {"diagonal": ml.DiagonalMetric(), "full": ml.FullMetric()}


def images_of(count: int) -> tuple[list[NDArray], list[NDArray]]:
    """Read images of horses with their masks."""
    data = load_dataset("weizmann_horses")
    some = data.select(np.random.RandomState(0).permutation(len(data))[:count])
    return some.images, some.labels


def ellipse() -> tuple[NDArray, NDArray]:
    """Draw a noisy image (225, 300, 3) with an ellipse of a different color. Returns the image and
    its mask."""
    random = np.random.default_rng(0)
    row, column = np.mgrid[:225, :300]
    mask = ((row - 112) / 70.0) ** 2 + ((column - 150) / 110.0) ** 2 < 1.0
    texture = gaussian_filter(random.normal(size=(225, 300, 3)), (3, 3, 0))
    image = 0.4 + 0.8 * texture + mask[..., None] * random.uniform(-0.2, 0.2, 3)
    return np.clip(image, 0.0, 1.0), mask.astype(np.int64)


@BENCH.table("training", _METRICS, apart=True)
def training(metric: str, run: Run) -> machine.Row:
    """Train on 10 images of at least 1500 nodes.

    10 images, two threads; an outer step from each of three starts, then the best.
    """
    images, labels = images_of(2 if run.tiny else 10)
    features = ml.features.ImageFeatures(PixelBlocks(60 if run.tiny else 1600))
    nodes = [features.nodes(image) for image in images]
    learner = ml.NormalizedCutMetricLearner(_METRICS[metric], n_jobs=2, verbose=False)
    timing = machine.Timing().run(lambda: learner.fit(nodes, labels))
    solution = learner.solution_
    return {
        "metric": metric,
        "images": len(nodes),
        "least nodes": min(len(one.sizes) for one in nodes),
        **timing.cells,
        "outer steps": len(solution.trace),
        "relaxations": solution.trace.oracle_calls[-1],
        "objective": f"{solution.scale:.4f} to {solution.objective:.4f}",
    }


@BENCH.table("prediction", apart=True)
def prediction(case: None, run: Run) -> machine.Row:
    """Predict one image of 300×225 pixels, after another prediction has loaded all libraries.

    Superpixels and features included.
    """
    from skimage.transform import resize

    images, labels = images_of(3)
    features = ml.features.ImageFeatures(Superpixels(50 if run.tiny else 400))
    learner = ml.NormalizedCutMetricLearner(features=features, verbose=False)
    learner.fit(images, labels)
    image = resize(images[0], (225, 300))
    timing = machine.timed(partial(learner.predict_labels_image, image), run.repeats)
    return {"image": "300×225", "nodes": len(features.nodes(image).sizes), **timing.cells}


def hinge_of(similarity: Similarity, nodes: list[ImageNodes], masks: list[NDArray]) -> Any:
    """Return the risk of a diagonal metric, that is, the training objective without a
    regularizer."""
    learner = ml.NormalizedCutMetricLearner(similarity=similarity, loss_scale=0.01, verbose=False)
    return problem_of(learner, nodes, masks).risk


@BENCH.table("large", _KINDS, apart=True)
def large(kind: str, run: Run) -> machine.Row:
    """Time one value and gradient of the objective, and one normalized cut, for a graph whose
    matrix W exceeds the memory budget.

    Budget for similarities: 1 GiB.
    """
    image, mask = ellipse()
    groups = (Color(), Position(), GradientEnergy(), ColorContext())
    blocks = PixelBlocks(2500 if run.tiny else 20_100)
    image_nodes = ml.features.ImageFeatures(blocks, groups).nodes(image)
    similarity = _KINDS[kind]
    hinge = hinge_of(similarity, [image_nodes], [mask])
    nodes, truth = hinge.samples[0], hinge.truths[0]
    before, w = machine.peak_mebibytes(), np.full(nodes.n_features, 0.02)
    value = machine.Timing().run(lambda: hinge(w))
    normalized = NormalizedCut(similarity.operator(nodes, ml.DiagonalMetric().components(w)))
    cut = machine.Timing().run(lambda: ThresholdCut()(normalized, 2))
    return {
        "similarity": kind,
        "nodes": nodes.n_samples,
        "value and slope": value,
        "processor s": value.processor_median,
        "normalized cut": cut,
        "processor s of the cut": cut.processor_median,
        "objective": f"{value.result.mean:.4f}",
        "‖M−N‖²": f"{truth.squared_norm(cut.result):.2f}",
        "of which for it": machine.peak_mebibytes() - before,
    }


@BENCH.table("random features")
def random_features(case: None, run: Run) -> Iterator[machine.Row]:
    """Compare the objective of 3 images under random features with the exact one. The relative
    errors of all draws are kept.

    Objective of 3 images, 30 draws each.
    """
    counts, runs = ((50, 100), 2) if run.tiny else ((50, 100, 200, 400, 800, 1600), 30)
    images, masks = images_of(3)
    nodes = [ml.features.ImageFeatures(Superpixels(300)).nodes(image) for image in images]
    w = np.full(nodes[0].features.shape[1], 0.03)

    def value(similarity: Similarity) -> machine.Call:
        return partial(hinge_of(similarity, nodes, masks), w)

    exact = machine.Timing().run(value(ml.similarities.GaussianSimilarity()))
    errors = np.empty((len(counts), runs))
    for place, count in enumerate(counts):
        timing = machine.Timing()
        for draw in range(runs):
            timing.run(value(ml.similarities.FourierSimilarity(count, draw)))
            errors[place, draw] = abs(timing.result.mean / exact.result.mean - 1.0)
        yield {
            "D": count,
            "root mean square relative error": np.sqrt(np.mean(errors[place] ** 2)),
            "largest": errors[place].max(),
            "random features": timing,
            "exact": exact,
        }
    run.kept |= {"counts": counts, "errors": errors}


def draw(record: Mapping[str, Any]) -> Figure:
    """Plot the error of the training objective against the number of random features."""
    counts, errors = record["counts"], np.sqrt(np.mean(np.square(record["errors"]), axis=1))
    power = machine.power_of(counts, errors)
    title = f"Random features: error of the training objective ~ D^{power:.2f}"
    options: Any = {"xlabel": "random features D", "ylabel": "relative error", "title": title}
    return plot_scaling(counts, errors, -0.5, label="root mean square", **options)


if __name__ == "__main__":
    BENCH.main()
