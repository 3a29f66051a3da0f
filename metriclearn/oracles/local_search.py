"""Improve the rounded relaxation by a local search, which moves single samples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from metriclearn.oracles.rounding import PivotedRounding, Rounding
from metriclearn.oracles.spectral import SpectralRelaxation
from metriclearn.problem.forms import LowRankForm
from metriclearn.problem.partition import Partition
from metriclearn.problem.projector import Projector
from metriclearn.running.components import ComponentParameters
from metriclearn.running.parameters import Of, Whole

# Kernels that allocate nothing need no reference counts.
_WITHIN: Any = {"nogil": True, "_nrt": False, "forceinline": True}
_RISE = 1e-10  # relative to the cluster values: smaller rises of ⟨A, M⟩ are rounding


class Bounds(NamedTuple):
    """A partition, its value ⟨A, M⟩, and the value of the relaxation.

    The largest value that a partition can have lies between these two values.
    """

    partition: Partition
    lower: float
    upper: float


class _Terms(NamedTuple):
    """The labels (T,) and sizes of the true clusters, and the numbers κ and c of −κN + cI."""

    labels: NDArray
    sizes: NDArray
    weight: float
    shift: float


class _Clusters(NamedTuple):
    """The numbers from which the value of every cluster C is computed; see :func:`_improve`.

    ``sums`` (K, r) holds the sums of factors Σ_C z. ``counts`` (K, D) holds the numbers |C∩D_d| for
    the true clusters D_d. ``sizes`` (K,) holds |C|, ``squares`` (K,) holds ‖Σ_C z‖², and
    ``overlap`` (K,) holds Σ_d |C∩D_d|²/|D_d|.
    """

    sums: NDArray
    counts: NDArray
    sizes: NDArray
    squares: NDArray
    overlap: NDArray


@dataclass(eq=False, repr=False)
class LocalSearch(ComponentParameters):
    """Find a partition M with a large value ⟨A, M⟩, for A = ZZᵀ − κN + cI.

    The value of M is a lower bound of the maximum over all partitions. This is Hartigan's
    algorithm. Each sample in turn moves to the cluster that raises ⟨A, M⟩ most, until a pass
    changes nothing. If K is unknown, a sample may also open a cluster, and empty clusters are
    removed. A pass takes O(TKr) time. If the shift c makes nearly every sample a separate cluster,
    a pass takes O(T²r).

    One search starts from the rounded relaxation. If the form has a true partition N with K
    clusters (any number if K is unknown), another search starts from N. The better result is
    returned. So the result never has a lower value than N, and a structured hinge that uses this
    oracle is never negative.

    In loss-augmented inference, this oracle comes closer to the maximum than the relaxation does,
    but it certifies less. The value of the local search may be below the maximum. So the objective
    that a solver computes is only a lower bound of the true objective. Nevertheless, the cuts of
    the solver are valid minorants, and the lower bound of the solver is valid.

    Parameters
    ----------
    relaxation : SpectralRelaxation
    rounding : Rounding
        ``PivotedRounding()`` or ``RowKMeans()``.
    max_passes : int
        Largest number of passes over the samples for each start.

    Raises
    ------
    ValueError
        If parameters cannot be used, or if there are more clusters than samples.
    TypeError
        For a form that is not a LowRankForm.

    References
    ----------
    Hartigan, Clustering Algorithms, 1975; Telgarsky & Vattani, "Hartigan's method: k-means
    clustering without Voronoi", AISTATS 2010.
    """

    relaxation: Annotated[SpectralRelaxation, Of("__call__", "SpectralRelaxation()")] = (
        SpectralRelaxation(keep_constant=True)  # noqa: RUF009
    )
    rounding: Annotated[Rounding, Of("__call__", "PivotedRounding()")] = PivotedRounding()  # noqa: RUF009
    max_passes: Annotated[int, Whole(1)] = 100

    over_partitions = True

    def __call__(self, form: LowRankForm, n_clusters: int | None = None) -> Partition:
        """Return the best partition found, with ``n_clusters`` clusters if this number is given."""
        return self.bounds(form, n_clusters).partition

    def bounds(
        self, form: LowRankForm, n_clusters: int | None = None, relaxed: Projector | None = None
    ) -> Bounds:
        """Return the best partition found, its value, and the value of the relaxation.

        Parameters
        ----------
        form : LowRankForm
        n_clusters : int, optional
        relaxed : Projector, optional
            The result of the relaxation, if it has been computed already.

        Raises
        ------
        TypeError
            If the form is not a :class:`LowRankForm`.
        ValueError
            If T samples cannot have that many clusters.
        """
        if not isinstance(form, LowRankForm):
            raise TypeError(
                f"LocalSearch needs a LowRankForm, got {type(form).__name__}; use the rounded "
                "SpectralRelaxation for other forms."
            )
        relaxed = self.relaxation(form, n_clusters) if relaxed is None else relaxed
        # The true partition is a start, so that the hinge is never negative.
        starts = [self.rounding(relaxed, n_clusters)]
        if form.truth is not None and n_clusters in (None, form.truth.n_clusters):
            starts.append(form.truth)
        ends = [self.improved(form, start, n_clusters is None) for start in starts]
        values = [form.at(partition) for partition in ends]
        best = int(np.argmax(values))
        return Bounds(ends[best], values[best], max(form.at(relaxed), values[best]))

    def improved(self, form: LowRankForm, start: Partition, free: bool = True) -> Partition:
        """Move samples of the partition ``start`` while ⟨A, M⟩ rises; K may change if ``free``."""
        truth = form.truth if form.truth is not None and form.weight else None
        labels = start.labels.copy()
        _improve(
            np.ascontiguousarray(form.centered),
            labels,
            start.n_clusters,
            _Terms(
                np.zeros_like(labels) if truth is None else truth.labels,
                np.ones(1) if truth is None else truth.sizes.astype(np.float64),
                0.0 if truth is None else float(form.weight),
                float(form.shift),
            ),
            free,
            self.max_passes,
        )
        return Partition.from_labels(labels)


@njit(nogil=True, cache=True)
def _improve(Z, labels, n_clusters, terms, free, max_passes):
    """Move samples one at a time while ⟨ZZᵀ − κN + cI, M⟩ rises; ``labels`` is changed in place.

    Let D_d be the true clusters. A cluster C has the value (‖Σ_C z‖² − κ Σ_d |C∩D_d|²/|D_d|)/|C| +
    c. The terms of this value are stored (:class:`_Clusters`). So evaluating one move takes O(r)
    time, and evaluating all moves of a sample takes O(Kr). If ``free``, a sample may open a new
    cluster, and a cluster may lose its last sample.
    """
    room = min(len(Z), 2 * n_clusters + 16) if free else n_clusters
    clusters = _Clusters(
        np.zeros((room, Z.shape[1])),
        np.zeros((room, len(terms.sizes))),
        np.zeros(room),
        np.zeros(room),
        np.zeros(room),
    )
    # Sums and counts are updated with every move. The squares are computed anew from them, so that
    # their rounding does not build up.
    for i in range(len(Z)):
        _shift(Z[i], labels[i], terms.labels[i], 1.0, clusters)
    for k in range(n_clusters):
        _refresh(k, clusters, terms.sizes)
    used = n_clusters
    for _ in range(max_passes):
        changed = False
        for i in range(len(Z)):
            a, d = labels[i], terms.labels[i]
            # If K is given, the last sample of a cluster has to stay.
            if clusters.sizes[a] == 1.0 and not free:
                continue
            target = _best_target(Z[i], a, d, clusters, used, terms, free)
            if target == a:
                continue
            changed = True
            if target == -1:
                target = np.argmin(clusters.sizes[:used])  # an emptied cluster, or the next number
                if clusters.sizes[target] > 0.0:
                    target, used = used, used + 1
                if used > len(clusters.sums):
                    sums, counts, sizes, squares, overlap = clusters
                    clusters = _Clusters(
                        _doubled(sums),
                        _doubled(counts),
                        _doubled(sizes),
                        _doubled(squares),
                        _doubled(overlap),
                    )
            _shift(Z[i], a, d, -1.0, clusters)
            _shift(Z[i], target, d, 1.0, clusters)
            labels[i] = target
            _refresh(a, clusters, terms.sizes)
            _refresh(target, clusters, terms.sizes)
        if not changed:
            break


@njit(**_WITHIN)
def _best_target(z, a, d, clusters, used, terms, free):
    """Return the cluster that the sample z should join, or −1 if it should open a new cluster.

    Before the move, the sample is in cluster ``a``. If no move raises ⟨A, M⟩, the result is ``a``.
    The true cluster of the sample is ``d``.
    """
    sums, counts, sizes, squares, overlap = clusters
    weight, shift, share = terms.weight, terms.shift, 1.0 / terms.sizes[d]
    norm, inner = _dot(z, z), _dot(sums[a], z)
    before = (squares[a] - weight * overlap[a]) / sizes[a] + shift
    rest = 0.0
    if sizes[a] > 1.0:
        # Without z, ‖Σz‖² falls by 2⟨Σz, z⟩ − ‖z‖² and |C∩D_d|² by 2|C∩D_d| − 1.
        left = overlap[a] - (2.0 * counts[a, d] - 1.0) * share
        rest = (squares[a] - 2.0 * inner + norm - weight * left) / (sizes[a] - 1.0) + shift
    best, target, scale = 0.0, a, abs(before) + abs(rest)
    if free and sizes[a] > 1.0:
        # The value of the cluster {z}, whose only sample lies in D_d.
        alone = norm - weight * share + shift
        if rest + alone - before > _RISE * (scale + abs(alone)):
            best, target = rest + alone - before, -1
    for b in range(used):
        if b == a or sizes[b] == 0.0:
            continue
        # With z, ‖Σz‖² grows by 2⟨Σz, z⟩ + ‖z‖² and |C∩D_d|² by 2|C∩D_d| + 1.
        old = (squares[b] - weight * overlap[b]) / sizes[b] + shift
        joined = overlap[b] + (2.0 * counts[b, d] + 1.0) * share
        new = squares[b] + 2.0 * _dot(sums[b], z) + norm - weight * joined
        new = new / (sizes[b] + 1.0) + shift
        # Only the clusters that z leaves and joins change their values.
        rise = rest + new - before - old
        if rise > best and rise > _RISE * (scale + abs(old) + abs(new)):
            best, target = rise, b
    return target


@njit(**_WITHIN)
def _dot(x, y):
    total = 0.0
    for j in range(len(x)):
        total += x[j] * y[j]
    return total


@njit(**_WITHIN)
def _shift(z, k, d, sign, clusters):
    """Add the sample z of the true cluster d to cluster k (sign 1), or remove it (sign −1)."""
    clusters.sizes[k] += sign
    clusters.counts[k, d] += sign
    for j in range(len(z)):
        clusters.sums[k, j] += sign * z[j]


@njit(**_WITHIN)
def _refresh(k, clusters, true_sizes):
    """Compute ``squares`` and ``overlap`` of cluster k from the sums and counts of the cluster."""
    sums, counts, _, squares, overlap = clusters
    squares[k], overlap[k] = _dot(sums[k], sums[k]), 0.0
    for d in range(len(true_sizes)):
        overlap[k] += counts[k, d] * counts[k, d] / true_sizes[d]


@njit(nogil=True, cache=True)
def _doubled(rows):
    """Return the rows, one for each cluster, followed by the same number of rows of zeros."""
    return np.concatenate((rows, np.zeros_like(rows)))
