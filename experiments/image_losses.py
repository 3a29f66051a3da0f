"""Losses of segmented images over all pixels, and paired tests between methods."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import ttest_rel

from metriclearn.features.image import ImageNodes
from metriclearn.indices import jaccard_score
from metriclearn.problem.losses import FrobeniusLoss
from metriclearn.problem.partition import Partition

__all__ = ["LOSSES", "image_losses", "paired_tests"]


def squared_norm(found: NDArray, truth: NDArray) -> float:
    """‖M − N‖²_F."""
    pair = (Partition.from_labels(found.ravel()), Partition.from_labels(truth.ravel()))
    return FrobeniusLoss().squared_norm(*pair)


def jaccard_distance(found: NDArray, truth: NDArray) -> float:
    """One less the Jaccard index of the pairs of pixels put together."""
    return 1.0 - float(jaccard_score(truth.ravel(), found.ravel()))


def foreground_distance(found: NDArray, truth: NDArray) -> float:
    """One less the intersection over union with the label 1, for the cluster that has the most."""
    figure = truth == 1
    shares = [
        np.sum(figure & (found == label)) / np.sum(figure | (found == label))
        for label in np.unique(found)
    ]
    return 1.0 - float(max(shares))


def covering_distance(found: NDArray, truth: NDArray) -> float:
    """One less the covering of the true regions by the best ones found (Arbeláez et al. 2011)."""
    _, rows = np.unique(truth.ravel(), return_inverse=True)
    _, columns = np.unique(found.ravel(), return_inverse=True)
    table = np.zeros((rows.max() + 1, columns.max() + 1))
    np.add.at(table, (rows, columns), 1.0)
    own = table.sum(axis=1)
    union = own[:, None] + table.sum(axis=0) - table
    return 1.0 - float(own @ np.max(table / union, axis=1)) / truth.size


LOSSES: dict[str, tuple[str, Callable[[NDArray, NDArray], float]]] = {
    "partition_loss": ("‖M−N‖²", squared_norm),
    "jaccard": ("pairwise Jaccard distance", jaccard_distance),
    "foreground": ("foreground IoU distance", foreground_distance),
    "covering": ("covering distance", covering_distance),
}


def image_losses(
    model: Any,
    nodes: Sequence[ImageNodes],
    label_maps: Sequence[Sequence[NDArray]],
    losses: Sequence[str] = ("partition_loss",),
) -> dict[str, NDArray]:
    """Losses of every image, averaged over its annotators, each with their own K."""
    values: dict[str, list[float]] = {loss: [] for loss in losses}
    for own, maps in zip(nodes, label_maps):
        counts = [len(np.unique(truth)) for truth in maps]
        found = {K: model.predict([own], [K])[0] for K in sorted(set(counts))}
        for loss in losses:
            measure = LOSSES[loss][1]
            values[loss].append(
                float(np.mean([measure(found[K], truth) for K, truth in zip(counts, maps)]))
            )
    return {loss: np.array(column) for loss, column in values.items()}


def paired_tests(
    losses: Mapping[str, Mapping[str, Mapping[str, float]]],
    pairs: Sequence[Sequence[str]],
    names: Mapping[str, Sequence[str]],
) -> list[dict[str, Any]]:
    """Two-sided paired t-tests over images.

    Parameters
    ----------
    losses : dict
        Method → loss → image → value.
    pairs : sequence of (first, second)
        Methods to compare.
    names : dict
        Sets of images by their description.
    """
    tests = []
    for first, second in pairs:
        for description, chosen in names.items():
            for loss in losses[first]:
                own, other = (
                    np.array([losses[method][loss][name] for name in chosen])
                    for method in (first, second)
                )
                if len(chosen) < 2:
                    continue
                test, difference = ttest_rel(own, other), own - other
                tests.append(
                    {
                        "first": first,
                        "second": second,
                        "images": description,
                        "loss": loss,
                        "n": len(chosen),
                        "mean": float(difference.mean()),
                        "deviation": float(difference.std(ddof=1)),
                        "relative": float(1.0 - own.mean() / other.mean()),
                        "t": float(test.statistic),
                        "p": float(test.pvalue),
                    }
                )
    return tests
