"""Scores of segmentations of labeled sequences: ‖M − N‖², and agreement of names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import hmean

from experiments.harness.procedure import Scores
from metriclearn import PartialPartition, Partition
from metriclearn.datasets import LabeledSequences
from metriclearn.indices import compare, precision_recall
from metriclearn.problem import KnownLoss
from metriclearn.problem.named_segments import NamedPartition

NAMES = "names_right"
Pairs = Sequence[tuple[Partition, Partition]]  # found and true


def sequence_losses(
    model: Any, data: LabeledSequences, n_clusters: str = "estimated"
) -> NDArray[np.float64]:
    """Compute the loss ‖M − N‖²_F of a model on every sequence, (N,). The number of segments is
    estimated or given.

    If some samples are labeled −1, only the labeled parts count.
    """
    return squared_norms(segmented(model, data, n_clusters), data)


def squared_norms(pairs: Pairs, data: LabeledSequences) -> NDArray[np.float64]:
    """Compute the loss ‖M − N‖²_F of the predicted segmentation of every sequence, (N,)."""
    labeled = zip(pairs, data.labels)
    return np.array([squared_norm(found, truth_of(labels)) for (found, _), labels in labeled])


def named_scores(model: Any, found: Sequence[Partition], data: LabeledSequences) -> Scores:
    """Score the predicted names of every sequence on the samples that have a true name, (N,) each.

    The scores are the fraction of samples with the right name, and the edit score and F1 of action
    segmentation. If the segmentations ``found`` have no names, ``model.predict`` gives the names.
    """
    named = [one for one in found if isinstance(one, NamedPartition)]
    predicted = [model.classes_[one.sample_names] for one in named]
    predicted = predicted or model.predict(data.sequences)
    rows = []
    for names, labels in zip(predicted, data.labels):
        pair = labels[labels != -1], names[labels != -1]
        segments = compare(*pair, field="video")
        of_names = {f"named_{name}": value for name, value in segments.items()}
        rows.append({NAMES: float(np.mean(pair[0] == pair[1])), **of_names})
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


def truth_of(labels: NDArray) -> Partition | PartialPartition:
    """Return the true segmentation, in which runs of equal labels are segments, or partial labels
    if some labels are −1."""
    if np.any(labels == -1):
        return PartialPartition(len(labels), labels)
    return Partition.from_runs(labels)


def squared_norm(found: Partition, truth: Partition | PartialPartition) -> float:
    """Compute the loss ‖M − N‖²_F of a segmentation, on the labeled parts of the truth."""
    return KnownLoss().squared_norm(found, truth)


def inner_f1(true: NDArray, found: Any, margin: float) -> float:
    """Compute the F1 of changes within a margin, from segment ends. ``found`` may lack the last."""
    pair = precision_recall(true, np.union1d(found, true[-1:]).astype(int), margin=margin)
    return float(hmean(pair)) if min(pair) > 0 else 0.0


def least_loss(candidates: Iterable[Any], predict: Any, X: Sequence[Any], y: Sequence[Any]) -> Any:
    """Choose the candidate whose segment ends ``predict(x, candidate)`` have the least mean ‖M −
    N‖². Among equally good candidates, choose the first one.
    """
    truths = [truth_of(labels) for labels in y]

    def loss(candidate: Any) -> float:
        found = [Partition(ends=predict(x, candidate)) for x in X]
        return sum(map(squared_norm, found, truths))

    return min(candidates, key=loss)


def segmented(model: Any, data: LabeledSequences, n_clusters: str) -> Pairs:
    """Return the predicted and the true partition of every sequence, with the number of segments
    estimated or given.

    The predicted partitions have names if the model belongs to this package and has learned names.
    """
    truths = [Partition.from_runs(labels) for labels in data.labels]
    if n_clusters == "estimated" and hasattr(model, "segmented"):
        found = model.segmented(model.read_data(data.sequences), None)
        return list(zip(found, truths))
    given = {"n_segments": [truth.n_clusters for truth in truths]} if n_clusters == "given" else {}
    ends = model.predict_change_points(data.sequences, **given)
    return [(Partition(ends=e), truth) for e, truth in zip(ends, truths)]
