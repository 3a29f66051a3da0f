"""Where alternation begins: a first metric, and the labels completed under it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from metriclearn.estimators.learned_metric import principal_components
from metriclearn.oracles.best_penalty import best_penalty
from metriclearn.oracles.change_points import ConstrainedChangePoints, PricedSegmentation
from metriclearn.problem.forms import LowRankForm
from metriclearn.problem.knowledge import PartialPartition, pieces_of
from metriclearn.problem.known_loss import KnownLoss
from metriclearn.problem.partition import Partition
from metriclearn.running.parameters import Needs, number

__all__ = [
    "FirstMetric",
    "KnownStart",
    "PrincipalStart",
    "complete_segmentations",
    "known_stretches",
    "labeled_samples",
]

Piece = tuple[NDArray, PartialPartition]
FitKnown = Callable[[list[NDArray], list[PartialPartition], NDArray], NDArray]
"""Learns from arrays with partial labels and weights; returns components (r, P)."""
CutKnown = Callable[[NDArray, PartialPartition], list[Piece]]
"""The parts of a data set of which something is known."""


@runtime_checkable
class FirstMetric(Protocol):
    """The metric of the first completion."""

    def components(
        self,
        arrays: Sequence[NDArray],
        knowns: Sequence[PartialPartition],
        fit: FitKnown,
        cut: CutKnown,
    ) -> NDArray:
        """Lᵀ, (r, P); ``fit`` is the learner itself, for other data sets."""
        ...


class PrincipalStart(BaseEstimator):
    """Principal components of the standardized data sets, as in section 5.2 of the paper.

    Parameters
    ----------
    n_components : int
        Capped at the number of features.
    """

    PARAMETERS: ClassVar[Mapping[str, Needs]] = {"n_components": number(1, whole=True)}

    def __init__(self, n_components: int = 10) -> None:
        self.n_components = n_components

    def components(
        self,
        arrays: Sequence[NDArray],
        knowns: Sequence[PartialPartition],
        fit: FitKnown,
        cut: CutKnown,
    ) -> NDArray:
        """Leading eigenvectors of the pooled correlation matrix over standard deviations."""
        return principal_components(arrays, self.n_components)[1]


class KnownStart(BaseEstimator):
    """The metric learned from what is known alone: annotated stretches, or labeled samples.

    Each stretch of a sequence is a data set of its own, and so are the labeled samples of a
    table. Where labels are known this is the convex problem of full labels, and no wrong first
    completion leads it astray: on one draw of the synthetic data with 30 % of the labels, the
    validation loss was 0.25, 0.44 and 1.11 for three regularizers, and 1.32, 1.04 and 1.69 after
    principal components. Annotated regions
    are cut out, too, and completed under principal components. Where there are no changes at all
    in what is known, principal components serve alone.
    """

    def components(
        self,
        arrays: Sequence[NDArray],
        knowns: Sequence[PartialPartition],
        fit: FitKnown,
        cut: CutKnown,
    ) -> NDArray:
        """Components learned from the stretches; of principal components where that gives none."""
        parts = [cut(array, known) for array, known in zip(arrays, knowns)]
        pieces = [piece for own in parts for piece, _ in own]
        labels = [label for own in parts for _, label in own]
        lengths = [[len(piece) for piece, _ in own] for own in parts]
        weights = [length / sum(own) for own in lengths for length in own]
        changes = any(region.kind.fewest for label in labels for region in label.constraints)
        if changes:
            varies = np.sum([np.ptp(piece, axis=0) for piece in pieces], axis=0) > 0
            components = np.zeros((0, len(varies)))
            if varies.any():
                found = fit([piece[:, varies] for piece in pieces], labels, np.array(weights))
                components = np.zeros((len(found), len(varies)))
                components[:, varies] = found
            if len(components):
                return components
        return PrincipalStart().components(arrays, knowns, fit, cut)


def known_stretches(array: NDArray, known: PartialPartition) -> list[Piece]:
    """Maximal stretches that constraints cover, those that share a position in one."""
    covered = np.zeros(known.n_samples + 1, dtype=np.int64)
    for region in known.constraints:
        covered[region.start + 1 : region.stop] = 1
    borders = np.flatnonzero(np.diff(covered, prepend=0, append=0)).reshape(-1, 2)
    spans = [(int(first) - 1, int(stop)) for first, stop in borders]
    return [(array[start:stop], known.within(start, stop)) for start, stop in spans]


def labeled_samples(array: NDArray, known: PartialPartition) -> list[Piece]:
    """The labeled samples of a table, where there are two or more."""
    rows = np.flatnonzero(known.labels >= 0)
    return [(array[rows], PartialPartition(len(rows), known.labels[rows]))] if len(rows) > 1 else []


def complete_segmentations(
    arrays: Sequence[NDArray],
    knowns: Sequence[PartialPartition],
    components: NDArray,
    min_size: int = 1,
) -> list[Partition]:
    """First completions: best segmentations that agree, under a given metric.

    The penalty is the one whose segmentations, made without the annotations, have the least loss
    on what is known.

    Parameters
    ----------
    arrays : sequence of (T_i, P) arrays
    knowns : sequence of PartialPartition
    components : array (r, P)
        Lᵀ of the metric, such as that of principal components.
    min_size : int

    Raises
    ------
    ValueError
        If annotations leave no room for ``min_size``.
    """
    forms = [LowRankForm(array @ components.T) for array in arrays]
    guesses = [_guess(form, known, min_size) for form, known in zip(forms, knowns)]
    penalty, _ = best_penalty(forms, guesses, min_size=min_size, loss=KnownLoss())
    oracle = ConstrainedChangePoints(min_size)
    return [
        oracle(form.shifted(-penalty), None, known).completing(known)
        for form, known in zip(forms, knowns)
    ]


def _guess(form: LowRankForm, known: PartialPartition, min_size: int) -> Partition:
    """A completion with about as many segments per sample as where the labels are known."""
    problem = PricedSegmentation(form, min_size, known)
    fewest, most = len(problem.coarsest.ends), len(problem.finest.ends)
    pieces = pieces_of(known)
    changes = sum(len(ends) - 1 for _, ends in pieces.stretches)
    changes += sum(region.kind.fewest for region in pieces.regions)
    covered = sum(int(ends[-1]) - start for start, ends in pieces.stretches)
    covered += sum(region.stop - region.start for region in pieces.regions)
    share = known.n_samples / max(covered, 1)
    wanted = int(np.clip(round(changes * share) + 1, fewest, most))
    return Partition(ends=problem.solve_count(wanted)).completing(known)
