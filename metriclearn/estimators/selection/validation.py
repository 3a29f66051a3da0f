"""How well recordings that were left out are segmented, and how well by simple baselines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metriclearn.datasets.segments import typical_tolerance
from metriclearn.estimators.learners.equal_cuts import EqualCuts
from metriclearn.estimators.selection.cross_fit import CrossFit
from metriclearn.estimators.selection.parts import Parts
from metriclearn.indices import precision_recall
from metriclearn.oracles.change_points import ChangePoints
from metriclearn.oracles.penalty_search import PenaltySearch
from metriclearn.problem.forms import LowRankForm
from metriclearn.problem.losses import FrobeniusLoss
from metriclearn.problem.partition import Partition


@dataclass(frozen=True)
class Validation:
    """Mean losses ‖M − N‖²_F and boundaries of recordings that were left out.

    Each recording is segmented by models that were fitted without it. Only penalties were tuned on
    recordings left out. The length and the penalty of the baselines are tuned on other recordings.

    Attributes
    ----------
    loss : float
        The mean loss of the answers; 0 is perfect.
    one_segment, equal_cuts, euclidean : float
        The mean losses without boundaries, of segments of equal length, and of the Euclidean metric
        of standardized features.
    boundaries : int
        The number of true boundaries.
    found : float
        The fraction of true boundaries for which a predicted boundary is within the tolerance.
    right : float
        The fraction of predicted boundaries for which a true boundary is within the tolerance; 1 if
        none is predicted.
    tolerance : float
        In seconds.
    """

    loss: float
    one_segment: float
    equal_cuts: float
    euclidean: float
    boundaries: int
    found: float
    right: float
    tolerance: float


@dataclass(frozen=True)
class Share:
    """What a family of members contributes.

    Attributes
    ----------
    family : str
    loss : float
        The least mean loss of its candidates on recordings left out.
    weight : float
        The weight of its models in the answer.
    seconds : float
        Processor time of its fits. The time of a view counts for the first member that needs it.
    """

    family: str
    loss: float
    weight: float
    seconds: float


def shares_of_families(table: CrossFit, weights: NDArray) -> list[Share]:
    """Return what each family contributes, those with the largest weight first."""
    losses, found = table.losses[:, table.places].mean(axis=1), []
    for family in dict.fromkeys(table.families):
        rows = [c for c, name in enumerate(table.families) if name == family]
        members = {table.candidates[c].member for c in rows}
        cost = sum(table.seconds[m] for m in members)
        least, weight = float(losses[rows].min()), float(weights[rows].sum())
        found.append(Share(family, least, weight, cost))
    return sorted(found, key=lambda one: (-one.weight, one.loss))


def validation_of(
    found: Mapping[int, Partition],
    truths: Sequence[Any],
    arrays: Sequence[NDArray],
    parts: Parts,
    step: float,
    tolerance: float | None,
) -> Validation | None:
    """Evaluate answers for recordings left out, and simple baselines on the same parts.

    In partly labeled recordings, each labeled stretch counts as a recording. Returns None if less
    than two parts have labeled stretches, or if no stretch has a boundary.

    Parameters
    ----------
    found : mapping of int to Partition
        The answers, by the number of the recording.
    truths, arrays : sequences
        Labels and rows of all recordings.
    parts : Parts
    step : float
        Seconds per row.
    tolerance : float, optional
        In seconds; by default a tenth of the median length of labeled segments, but at least one
        row.
    """
    if not all(isinstance(truth, Partition) for truth in truths):
        # Every labeled stretch counts as a recording.
        answers: dict[int, Partition] = {}
        known: list[Partition] = []
        rows, owners = [], []
        for i, N in sorted(found.items()):
            for start, ends in truths[i].pieces.stretches:
                stretch = slice(start, int(ends[-1]))
                answers[len(known)] = Partition.from_runs(N.labels[stretch])
                known.append(Partition(ends=ends - start))
                rows.append(arrays[i][stretch])
                owners.append(i)
        folds = [np.flatnonzero(np.isin(owners, some)) for some in parts.left_out]
        found, truths, arrays = answers, known, rows
        parts = Parts(folds, parts.groups[owners])
        held = list(map(len, parts.left_out))
        if sum(held) == max(held) or all(truth.n_clusters == 1 for truth in truths):
            return None
    if tolerance is None:
        sizes = np.concatenate([truth.sizes for truth in truths])
        tolerance = typical_tolerance(sizes * step, step)
    # Numbers of true, found, predicted and right boundaries.
    counts, losses, loss = np.zeros(4), [], FrobeniusLoss().squared_norm
    for i, N in sorted(found.items()):
        losses.append(loss(N, truths[i]))
        sizes = np.array([truths[i].n_clusters, N.n_clusters]) - 1
        right, share = precision_recall(truths[i], N, margin=tolerance / step + 1e-6)
        counts += [sizes[0], share * sizes[0], sizes[1], right * sizes[1]]
    true, hits, predicted, right = counts.tolist()
    return Validation(
        float(np.mean(losses)),
        true / len(losses),  # ‖M − N‖² = K − 1
        *_plain_losses(truths, arrays, parts),
        int(true),
        hits / true if true else 1.0,
        right / predicted if predicted else 1.0,
        float(tolerance),
    )


def _plain_losses(
    truths: Sequence[Partition], arrays: Sequence[NDArray], parts: Parts
) -> tuple[float, float]:
    """Compute the mean losses of equal cuts and of the Euclidean metric on parts left out."""
    scale = np.concatenate(arrays).std(axis=0)
    varies = scale > 0
    forms = [LowRankForm(X[:, varies] / scale[varies]) for X in arrays]
    cut, straight, loss = [], [], FrobeniusLoss().squared_norm
    for rest, held in zip(parts, parts.left_out):
        known = [truths[i] for i in rest]
        cuts = EqualCuts().fit([arrays[i] for i in rest], known)
        penalty, _ = PenaltySearch([forms[i] for i in rest], known, 1, exact=False).best()
        for i in held:
            cut.append(loss(cuts.segmented(cuts.read_data(arrays[i]))[0], truths[i]))
            straight.append(loss(ChangePoints()(forms[i].shifted(-penalty)), truths[i]))
    return float(np.mean(cut)), float(np.mean(straight))
