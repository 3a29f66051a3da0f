"""Local search: single-sample moves that raise ⟨A, M⟩, from the rounded relaxation."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from metriclearn.oracles.rounding import PivotedRounding, Rounding
from metriclearn.oracles.spectral import SpectralRelaxation
from metriclearn.problem.forms import LowRankForm
from metriclearn.problem.partition import Partition
from metriclearn.problem.projector import Projector
from metriclearn.running.parameters import ComponentParameters

__all__ = ["Bounds", "LocalSearch"]


class Bounds(NamedTuple):
    """A partition, its ⟨A, M⟩ and the relaxation's: max over partitions lies between the two."""

    partition: Partition
    lower: float
    upper: float


class LocalSearch(ComponentParameters):
    """A partition of large ⟨A, M⟩ for A = ZZᵀ − κN + cI: a lower bound on the best one.

    Hartigan's moves: every sample in turn goes where ⟨A, M⟩ rises most, until a pass changes
    nothing; with K unknown a sample may also open a cluster, and an emptied one is closed. O(Kr)
    a sample, so O(T²r) where the shift c makes nearly every sample a cluster. Two starts, the
    better end is kept: the rounded relaxation, and N itself where the form has one with the K
    asked for. So the result is never below N's value, and a structured hinge that uses this
    oracle is never negative.

    As loss-augmented inference it is tighter than the relaxation but certifies less: the value
    may miss the maximum, so a solver's objective is a lower bound of the true one. Its cuts are
    true minorants all the same, and its lower bound is therefore valid.

    Parameters
    ----------
    relaxation : SpectralRelaxation
    rounding : Rounding
        ``PivotedRounding()`` or ``RowKMeans()``.
    max_passes : int
        Passes over the samples at most, for each start.

    References
    ----------
    Hartigan, Clustering Algorithms, 1975; Telgarsky & Vattani, "Hartigan's method: k-means
    clustering without Voronoi", AISTATS 2010.
    """

    def __init__(
        self,
        relaxation: SpectralRelaxation = SpectralRelaxation(keep_constant=True),  # noqa: B008
        rounding: Rounding = PivotedRounding(),  # noqa: B008
        max_passes: int = 100,
    ) -> None:
        self.relaxation = relaxation
        self.rounding = rounding
        self.max_passes = max_passes

    over_partitions = True

    def __call__(self, form: LowRankForm, n_clusters: int | None = None) -> Partition:
        """Best partition found, with ``n_clusters`` clusters if given."""
        return self.bounds(form, n_clusters).partition

    def bounds(self, form: LowRankForm, n_clusters: int | None = None) -> Bounds:
        """Best partition found, its value and the relaxation's.

        Raises
        ------
        TypeError
            If the form has no factors.
        ValueError
            If T samples cannot have that many clusters.
        """
        return self.from_relaxed(form, self.relaxation(form, n_clusters), n_clusters)

    def from_relaxed(
        self, form: LowRankForm, relaxed: Projector, n_clusters: int | None = None
    ) -> Bounds:
        """As :meth:`bounds`, with the relaxation already solved."""
        if not isinstance(form, LowRankForm):
            raise TypeError(
                f"LocalSearch needs a LowRankForm, got {type(form).__name__}; use the rounded "
                "SpectralRelaxation for other forms."
            )
        starts = [self.rounding(relaxed, n_clusters)]
        if form.truth is not None and n_clusters in (None, form.truth.n_clusters):
            starts.append(form.truth)
        ends = [self._improve(form, start, n_clusters is None) for start in starts]
        values = [form.at(partition) for partition in ends]
        best = int(np.argmax(values))
        return Bounds(ends[best], values[best], max(form.at(relaxed), values[best]))

    def _improve(self, form: LowRankForm, start: Partition, free: bool) -> Partition:
        from metriclearn.oracles.moves import improve

        single = Partition(ends=np.array([form.n_samples]))
        truth = form.truth if form.truth is not None and form.weight else single
        weight = form.weight if form.truth is not None else 0.0
        labels = start.labels.copy()
        factors = np.ascontiguousarray(form.factors, dtype=np.float64)
        improve(
            factors,
            labels,
            truth.labels,
            truth.sizes.astype(np.float64),
            start.n_clusters,
            float(weight),
            float(form.shift),
            free,
            self.max_passes,
        )
        return Partition.from_labels(labels)
