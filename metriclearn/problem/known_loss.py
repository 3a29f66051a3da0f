"""The loss of a segmentation on what is known of the truth, and the form it is added to.

Knowledge falls into pieces: maximal stretches in which every position is known to be a change or
not, and annotated regions whose changes are not located. A segmentation M pays, for every piece,
the distance of its restriction to the nearest partition N that agrees with the piece,

    T ℓ(M, known) = Σ_pieces min_{N agrees} ‖M|piece − N‖²_F.

On a known stretch N is unique and the distance that of the paper (Eq. 8); on a region it is the
number of missing changes, or of changes too many. Everything else is free: an unlabeled sample
never costs anything. ℓ is 0 exactly for the segmentations that agree with all that is known, and
is the paper's ℓ when all is known.

Every term is a sum over segments (s, u] of a charge that takes O(1) from a table, so that
loss-augmented inference stays an exact dynamic program; M|piece is not linear in M, which is why
this is a loss for segmentations only.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from metriclearn.problem.forms import LowRankForm
from metriclearn.problem.knowledge import PartialPartition, Pieces, Region, pieces_of
from metriclearn.problem.partition import Partition

__all__ = [
    "ChargedForm",
    "Charges",
    "KnownLoss",
    "charge_table",
    "charges",
    "known_loss",
]


class Charges(NamedTuple):
    """What segments (s, u] are charged on the pieces, in O(1) each; see :func:`charge_table`.

    Attributes
    ----------
    table : array (T+1, 12)
    slack : array (T+1,)
        At least charge(s,u) − charge(s,t) − charge(t,u), for every split t.
    pieces : Pieces
    overlap, presence : float
    """

    table: NDArray[np.float64]
    slack: NDArray[np.float64]
    pieces: Pieces
    overlap: float
    presence: float

    def of(self, ends: NDArray) -> NDArray[np.float64]:
        """Charge of every segment with the given ends, (K,)."""
        s, u = np.append(0, ends[:-1]), ends
        at_s, at_u = self.table[s], self.table[u]
        one = s >= at_u[:, 0]
        shared = np.where(one, (u - s) * at_u[:, 1], (at_u[:, 2] + at_s[:, 3]) / (u - s))
        total = np.where(s >= at_u[:, 4], at_u[:, 11] - shared, at_u[:, 5] + at_s[:, 6])
        total += np.maximum(0.0, at_u[:, 7] - at_s[:, 8])
        return total + np.maximum(0.0, at_s[:, 9] - at_u[:, 10])

    def mirrored(self) -> Charges:
        """The same with the samples in reverse order."""
        T = len(self.slack) - 1
        stretches = [
            (int(T - ends[-1]), T - np.append(ends[-2::-1], start))
            for start, ends in reversed(self.pieces.stretches)
        ]
        regions = [Region(T - r.stop, T - r.start, r.kind) for r in self.pieces.regions[::-1]]
        return charge_table(Pieces(stretches, regions), T, self.overlap, self.presence)


@lru_cache(maxsize=1024)
def charges(known: PartialPartition) -> Charges:
    """Charges whose sum over segments is T ℓ(M, known), O(T + R²)."""
    pieces = pieces_of(known)
    return charge_table(pieces, known.n_samples, overlap=2.0, presence=1.0)


def charge_table(pieces: Pieces, n_samples: int, overlap: float, presence: float) -> Charges:
    """Charges ``presence``·1{(s,u] meets the stretch} − ``overlap``·ρ(s,u), and one per error.

    ρ(s,u) = Σ_k |(s,u] ∩ C_k|² / (|C_k| |(s,u] ∩ stretch|) is 1 for a whole stretch. With
    ``overlap`` κ, no ``presence`` and everything known this is the −κN of a form. Columns, by
    the position of a segment's end u or start s:

    0 start of the true segment of sample u−1, 1 κ/|C|, 2 and 3 the two halves of κ·(overlap)
    across true segments (as in :mod:`metriclearn.oracles.pruned`), 4 start of the stretch of
    sample u−1, 5 and 6 the two halves of the charge across stretches, 7 and 8 the regions ended
    before u and begun by s, whose positive difference counts jumped regions, 9 and 10 the same
    for regions with at most one change, whose negative difference counts the changes too many,
    11 ``presence``.
    """
    T = n_samples
    table, slack = np.zeros((T + 1, 12)), np.zeros(T + 1)
    table[:, 4], table[:, 11] = T + 1, presence
    whole = np.zeros(T + 1)  # charge of all stretches ended by a position
    for start, ends in pieces.stretches:
        _fill_stretch(table, start, ends, overlap, presence)
        whole[ends[-1] :] += presence - overlap
        slack[start + 1 : ends[-1]] = max(overlap - presence, 0.0)
    table[:, 5] += whole
    table[:, 6] -= whole
    for region in pieces.regions:
        slack[region.start + 1 : region.stop] += 1.0
        table[region.stop :, 7] += 1.0
        table[region.start + 1 :, 8] += 1.0
        if region.kind.most == 1:
            table[region.start + 1 :, 9] += 1.0
            table[region.stop :, 10] += 1.0
    return Charges(table, slack, pieces, overlap, presence)


def _fill_stretch(
    table: NDArray, start: int, ends: NDArray, overlap: float, presence: float
) -> None:
    """Columns 0 to 6 at the positions of one stretch."""
    stop = int(ends[-1])
    sizes = np.diff(ends, prepend=start)
    first, last = np.repeat(ends - sizes, sizes), np.repeat(ends, sizes)
    size, u = np.repeat(sizes, sizes), np.arange(start + 1, stop + 1)
    s = u - 1
    table[u, 0], table[u, 1], table[u, 4] = first, overlap / size, start
    before = first - start + (u - first) ** 2 / size  # overlap of (start, u]
    after = (last - s) ** 2 / size - (last - start)  # … of (s, stop], less stop − start
    table[u, 2], table[s, 3] = overlap * before, overlap * after
    inner_u, inner_s = u[:-1], s[1:]
    table[inner_u, 5] = presence - overlap * before[:-1] / (inner_u - start)
    left = (after[1:] + stop - start) / (stop - inner_s)
    table[inner_s, 6] = presence - overlap * left - (presence - overlap)


class KnownLoss:
    """ℓ(M, known), the loss on what is known of a truth; see the top of the module.

    Truths remember what is known of them; their completed parts do not enter (``completion_free``).
    """

    completion_free = True

    def __call__(self, partition: Any, truth: Any) -> float:
        return self.squared_norm(partition, truth) / truth.n_samples

    def squared_norm(self, partition: Partition, truth: Any) -> float:
        """T ℓ, O(K)."""
        return truth.n_samples * known_loss(partition, truth.known)

    def augment(self, form: Any, truth: Any, scale: float) -> tuple[Any, float]:
        charged = charges(truth.known)
        blocks = sum(len(ends) for _, ends in charged.pieces.stretches)
        return ChargedForm(form, charged, scale), scale * blocks


def known_loss(partition: Partition, known: PartialPartition) -> float:
    """ℓ(M, known) of a segmentation, O(K)."""
    charged = charges(known)
    blocks = sum(len(ends) for _, ends in charged.pieces.stretches)
    total = float(np.sum(charged.of(partition.change_points))) + blocks
    return max(0.0, total) / known.n_samples


class ChargedForm:
    """⟨A, M⟩ + scale·Σ_segments charge, a function of segmentations that is not linear in M.

    Parameters
    ----------
    form : LowRankForm
        A; it may have a shift but no reference partition with weight.
    charges : Charges
    scale : float
        α.
    """

    def __init__(self, form: LowRankForm, charges: Charges, scale: float) -> None:
        self.form, self.charges, self.scale = form, charges, float(scale)
        self.n_samples = form.n_samples

    @property
    def cumulative(self) -> NDArray:
        """Cumulative sums of the centered factors, (T+1, r)."""
        return self.form.cumulative

    @property
    def shift(self) -> float:
        """c, the worth of one more segment."""
        return self.form.shift

    def at(self, partition: Partition) -> float:
        """Value of a segmentation."""
        charged = np.sum(self.charges.of(partition.change_points))
        return self.form.at(partition) + self.scale * float(charged)

    def shifted(self, shift: float) -> ChargedForm:
        """The same with A + shift·I."""
        return ChargedForm(self.form.shifted(shift), self.charges, self.scale)

    @classmethod
    def from_low_rank(cls, form: LowRankForm) -> ChargedForm:
        """A form ZZᵀ − κN + cI with its −κN turned into charges."""
        weighted = form.truth is not None and form.weight > 0
        stretches = [(0, form.truth.change_points)] if form.truth is not None and weighted else []
        table = charge_table(Pieces(stretches, []), form.n_samples, form.weight, presence=0.0)
        return cls(form.without_truth(), table, float(weighted))
