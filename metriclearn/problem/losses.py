"""Losses between partitions, and what each adds to a form inside loss-augmented inference.

:class:`FrobeniusLoss` is linear in the partition and serves all of them. :class:`KnownLoss` is
for segmentations of which only some is known, and is exact there.
"""

from __future__ import annotations

import copy
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

import numpy as np
from numba import njit
from numpy.typing import NDArray

from metriclearn.problem.forms import Form, LowRankForm
from metriclearn.problem.knowledge import PartialPartition, Pieces, Region, pieces_of
from metriclearn.problem.partition import Partition
from metriclearn.problem.projector import Projector


class Loss(Protocol):
    """A loss that is linear in M, so that it can be added to a form."""

    def __call__(self, partition: Any, truth: Any) -> float:
        """ℓ(M, N)."""

    def augment(self, form: Any, truth: Any, scale: float) -> tuple[Form, float]:
        """(A′, a) with ⟨A′, M⟩ + a = ⟨A, M⟩ + scale · T ℓ(M, N) for every M."""


class FrobeniusLoss:
    """ℓ(M, N) = ‖D^½(M − N)‖²_F / T, with D a diagonal that marks the labeled samples.

    As M and N are projections,

        T ℓ = Tr M(D − DN − ND) + Tr DN,

    which is linear in M. With all labels known D = I, and ℓ = (Tr M + Tr N − 2 Tr MN) / T is the
    loss of the paper (Lajugie, Arlot & Bach, Eq. (8)): zero only for equal partitions, at most
    (K + K′ − 2)/T, O(K + K′) for contiguous partitions. The paper's tables report T ℓ, see
    :meth:`squared_norm`. Where some labels are known, D is 1 on the labeled samples and N a
    completion: a labeled sample pays if its cluster differs from its cluster in the completion, and
    an unlabeled sample pays nothing for its row. Samples may be grouped into nodes, see
    :class:`metriclearn.similarities.NodeLabels`; D is then the share of labeled samples.

    As N enters, completing labels may raise the objective (``completion_free`` is False);
    alternation then stops.

    Examples
    --------
    >>> from metriclearn import FrobeniusLoss, Partition
    >>> M, N = Partition.from_labels([0, 0, 1, 1]), Partition.from_labels([0, 1, 1, 1])
    >>> round(FrobeniusLoss()(M, N), 3)
    0.333
    """

    completion_free = False

    def __call__(self, partition: Partition | Projector, truth: Partition) -> float:
        return self.squared_norm(partition, truth) / truth.n_samples

    def squared_norm(self, partition: Partition | Projector, truth: Partition) -> float:
        """T ℓ: ‖M − N‖²_F, over the rows of labeled samples where some are not."""
        if truth.share is None:
            # ‖M − N‖² = Tr M + Tr N − 2 Tr MN, as M and N are projections.
            twice = 2.0 * partition.inner(truth)
            return max(0.0, partition.n_clusters + truth.n_clusters - twice)
        return max(0.0, _variable_part(partition, truth) + truth.labeled_trace)

    def augment(self, form: Any, truth: Partition, scale: float) -> tuple[Form, float]:
        if truth.share is None:
            return form.plus(truth, 2.0 * scale).shifted(scale), scale * truth.n_clusters
        return FrobeniusForm(form, truth, scale), scale * truth.labeled_trace


def _variable_part(partition: Partition | Projector, truth: Any) -> float:
    """Tr M(D − DN − ND), O(T(K + K′)) with M = UUᵀ."""
    # Tr M(D − DN − ND) = Tr Uᵀ(D − DN − ND)U.
    U = partition.factor
    return float(np.sum(U * (truth.share[:, None] * U - truth.labeled_product(U))))


class FrobeniusForm:
    """A + scale·(D − DN − ND), known through its action.

    Parameters
    ----------
    form : Form
        A.
    truth : Partition or NodeLabels
        N, which knows D.
    scale : float
        α.
    """

    def __init__(self, form: Form, truth: Any, scale: float) -> None:
        self.form, self.truth = form, truth
        self.scale = float(scale)
        self.n_samples = form.n_samples

    def at(self, partition: Partition | Projector) -> float:
        """⟨A, M⟩ + scale·Tr M(D − DN − ND)."""
        return self.form.at(partition) + self.scale * _variable_part(partition, self.truth)

    def matvec(self, V: NDArray) -> NDArray:
        """The action on (T, k) columns, O(Tk) more than for A."""
        change = self.truth.share[:, None] * V - self.truth.labeled_product(V)
        return self.form.matvec(V) + self.scale * change

    def shifted(self, shift: float) -> FrobeniusForm:
        """A + shift·I with the same loss added to it."""
        return FrobeniusForm(self.form.shifted(shift), self.truth, self.scale)


# Columns of charge_table: what a segment (s, u] takes from the row of its end u (U) or start s (S).
# Start of the true segment of sample u−1.
_TRUE_START_U = 0
# 2/|C| of that segment.
_SHARE_U = 1
# Halves of 2·(overlap) where the ends lie in two true segments.
_BEFORE_U, _AFTER_S = 2, 3
# Start of the known stretch of sample u−1, T+1 outside of stretches.
_STRETCH_U = 4
# Halves of the charge of all stretches where the ends lie in two.
_UNTIL_U, _SINCE_S = 5, 6
# Regions that end up to u, that begin before s.
_ENDED_U, _BEGUN_S = 7, 8
# The same of regions with at most one change.
_BEGUN_SINGLE_S, _ENDED_SINGLE_U = 9, 10
_N_COLUMNS = 11


class Charges(NamedTuple):
    """What segments (s, u] are charged on the pieces, in O(1) each; see :func:`charge_table`.

    Attributes
    ----------
    table : array (T+1, 11)
    slack : array (T+1,)
        At least charge(s,u) − charge(s,t) − charge(t,u), for every split t.
    pieces : Pieces
    """

    table: NDArray[np.float64]
    slack: NDArray[np.float64]
    pieces: Pieces

    def mirrored(self) -> Charges:
        """The same with the samples in reverse order."""
        T = len(self.slack) - 1
        stretches = [
            (int(T - ends[-1]), T - np.append(ends[-2::-1], start))
            for start, ends in reversed(self.pieces.stretches)
        ]
        regions = [Region(T - r.stop, T - r.start, r.kind) for r in self.pieces.regions[::-1]]
        return charge_table(Pieces(stretches, regions), T)


@njit(nogil=True, cache=True, forceinline=True)
def charge(table: NDArray, s: int, u: int) -> float:
    """The charge of the segment (s, u], from a :func:`charge_table`."""
    # Both ends lie in one known stretch.
    if s >= table[u, _STRETCH_U]:
        if s >= table[u, _TRUE_START_U]:
            total = 1.0 - (u - s) * table[u, _SHARE_U]
        else:
            total = 1.0 - (table[u, _BEFORE_U] + table[s, _AFTER_S]) / (u - s)
    else:
        total = table[u, _UNTIL_U] + table[s, _SINCE_S]
    # Regions that should hold a change, but lie inside the segment.
    total += max(0.0, table[u, _ENDED_U] - table[s, _BEGUN_S])
    return total + max(0.0, table[s, _BEGUN_SINGLE_S] - table[u, _ENDED_SINGLE_U])


@njit(nogil=True, cache=True)
def total_charge(table: NDArray, ends: NDArray) -> float:
    """The charges of the segments with the given ends (K,) together."""
    total, s = 0.0, 0
    for u in ends:
        total += charge(table, s, u)
        s = u
    return total


@lru_cache(maxsize=1024)
def charges(known: PartialPartition) -> Charges:
    """Charges whose sum over segments is T ℓ(M, known) − (known segments), O(T + R²)."""
    return charge_table(pieces_of(known), known.n_samples)


def charge_table(pieces: Pieces, n_samples: int) -> Charges:
    """Charges of segments on labeled pieces: ‖M|piece − N‖² written as a sum over segments.

    On a stretch with the true segments C_k, a segment that meets it is charged 1 − 2ρ(s,u) with
    ρ(s,u) = Σ_k |(s,u] ∩ C_k|² / (|C_k| |(s,u] ∩ stretch|), as
    ‖M − N‖² = Tr M − 2 Tr MN + Tr N and the last term is constant. On a region it is charged 1
    for every change that is missing or too many.
    """
    table, slack = np.zeros((n_samples + 1, _N_COLUMNS)), np.zeros(n_samples + 1)
    table[:, _STRETCH_U] = n_samples + 1
    # A segment that begins and ends in different stretches pays until[u] + since[s]: the stretches
    # in between have ended by u but not by s; each is charged 1 − 2.
    whole = np.zeros(n_samples + 1)
    for start, ends in pieces.stretches:
        _fill_stretch(table, start, ends)
        # A whole stretch is charged 1 − 2.
        whole[ends[-1] :] -= 1.0
        slack[start + 1 : ends[-1]] = 1.0
    table[:, _UNTIL_U] += whole
    table[:, _SINCE_S] -= whole
    for region in pieces.regions:
        slack[region.start + 1 : region.stop] += 1.0
        table[region.stop :, _ENDED_U] += 1.0
        table[region.start + 1 :, _BEGUN_S] += 1.0
        if region.kind.most == 1:
            table[region.start + 1 :, _BEGUN_SINGLE_S] += 1.0
            table[region.stop :, _ENDED_SINGLE_U] += 1.0
    return Charges(table, slack, pieces)


def _fill_stretch(table: NDArray, start: int, ends: NDArray) -> None:
    """The columns of true segments and stretches at the positions of one stretch."""
    stop = int(ends[-1])
    sizes = np.diff(ends, prepend=start)
    first, last = np.repeat(ends - sizes, sizes), np.repeat(ends, sizes)
    size, u = np.repeat(sizes, sizes), np.arange(start + 1, stop + 1)
    s = u - 1
    table[u, _TRUE_START_U] = first
    table[u, _SHARE_U] = 2.0 / size
    table[u, _STRETCH_U] = start
    # Whole true segments count their length, the one cut by an end its share: (start, u] holds all
    # before ``first`` and u − first of the |C| samples of the one at u, (s, stop] likewise.
    # Overlap of (start, u] with the true segments.
    before = first - start + (u - first) ** 2 / size
    # Overlap of (s, stop], less stop − start.
    after = (last - s) ** 2 / size - (last - start)
    table[u, _BEFORE_U], table[s, _AFTER_S] = 2.0 * before, 2.0 * after
    # For segments that leave the stretch: at the end u what (start, u] pays, at the start s what
    # (s, stop] pays, less the −1 of the whole stretch, which ``whole`` adds for it later.
    inner_u, inner_s = u[:-1], s[1:]
    table[inner_u, _UNTIL_U] = 1.0 - 2.0 * before[:-1] / (inner_u - start)
    left = (after[1:] + stop - start) / (stop - inner_s)
    table[inner_s, _SINCE_S] = 1.0 - 2.0 * left + 1.0


class KnownLoss:
    """The loss of a segmentation on the labeled parts of the truth.

    Knowledge falls into pieces: maximal stretches in which every position is known to be a change
    or not, and annotated regions whose changes are not located. A segmentation M pays, for every
    piece, the distance of its restriction to the nearest partition N that agrees with the piece,

        T ℓ(M, known) = Σ_pieces min_{N agrees} ‖M|piece − N‖²_F.

    On a known stretch N is unique and the distance that of the paper (Lajugie, Arlot & Bach,
    Eq. (8)); on a region it is the number of missing changes, or of changes too many. Everything
    else is free: an unlabeled sample never costs anything. ℓ is 0 exactly for the segmentations
    that agree with all that is known, and is the paper's ℓ when all is known.

    Every term is a sum over segments (s, u] of a charge that takes O(1) from a table, so that
    loss-augmented inference stays an exact dynamic program; M|piece is not linear in M, which is
    why this is a loss for segmentations only.

    Truths keep their partial labels; their completed parts do not enter (``completion_free``).

    Examples
    --------
    >>> from metriclearn import EXACTLY_ONE, KnownLoss, PartialPartition, Partition, Region
    >>> known = PartialPartition(4, regions=[Region(0, 4, EXACTLY_ONE)])
    >>> KnownLoss()(Partition.from_labels([0, 0, 0, 0]), known)
    0.25
    """

    completion_free = True

    def __call__(self, partition: Partition, truth: Any) -> float:
        """ℓ of a segmentation, O(K); the truth may be the partial labels themselves."""
        charged = charges(truth.partial_labels)
        total = total_charge(charged.table, partition.change_points) + charged.pieces.n_segments
        return max(0.0, total) / truth.n_samples

    def augment(self, form: Any, truth: Any, scale: float) -> tuple[Any, float]:
        # The charges lack the constant Tr N of every stretch: its number of segments.
        charged = charges(truth.partial_labels)
        form = form if isinstance(form, ChargedForm) else ChargedForm(form)
        return form.charged(charged, scale), scale * charged.pieces.n_segments


class ChargedForm:
    """⟨A, M⟩ + scale·Σ charge − Σ penalty + Σ score of names, a function of segmentations only.

    Parameters
    ----------
    form : LowRankForm
        A; with charges it may have a shift but no reference partition with weight.
    charges : Charges, optional
    scale : float
        α.
    penalties : array (T+1,), optional
        p_t of a change between the samples t−1 and t, of either sign; the first and the last are
        not used.
    names : NameScores, optional
        Scores of the names of segments.

    Raises
    ------
    ValueError
        If there are penalties, but not T+1 finite ones that can be added.
    """

    def __init__(
        self,
        form: LowRankForm,
        charges: Charges | None = None,
        scale: float = 0.0,
        penalties: NDArray | None = None,
        names: Any = None,
    ) -> None:
        self.form, self.charges, self.names = form, charges, names
        self.scale = 0.0 if charges is None else float(scale)
        self.n_samples, self.shift = form.n_samples, form.shift
        self.cumulative = form.cumulative
        self.penalties = penalties
        if penalties is not None:
            self.penalties = np.array(penalties, dtype=np.float64)
            if self.penalties.shape != (self.n_samples + 1,):
                raise ValueError(
                    f"ChargedForm needs {self.n_samples + 1} penalties, one for every position "
                    "0 … T (the first and the last are not used), got shape "
                    f"{self.penalties.shape}."
                )
            self.penalties[[0, -1]] = 0.0
            if not np.all(np.abs(self.penalties) <= 1e280):
                raise ValueError(
                    "ChargedForm needs finite penalties from -1e280 to 1e280; change the unit, or "
                    "remove NaN and infinity."
                )

    def at(self, partition: Partition) -> float:
        """Value of a segmentation."""
        value, ends = self.form.at(partition), partition.change_points
        if self.charges is not None:
            value += self.scale * total_charge(self.charges.table, ends)
        if self.names is not None:
            value += self.names.at(partition)
        return value if self.penalties is None else value - float(self.penalties[ends].sum())

    def shifted(self, shift: float) -> ChargedForm:
        """The same with A + shift·I."""
        return self._with(form=self.form.shifted(shift))

    def plus(self, truth: Partition, weight: float) -> ChargedForm:
        """The same with A − weight·N, N the matrix of ``truth``."""
        return self._with(form=self.form.plus(truth, weight))

    def with_names(self, names: Any) -> ChargedForm:
        """The same with other scores of names."""
        return self._with(names=names)

    def charged(self, charges: Charges, scale: float) -> ChargedForm:
        """The same with other charges."""
        return self._with(charges=charges, scale=float(scale))

    def _with(self, **changes: Any) -> ChargedForm:
        form = copy.copy(self)
        form.__dict__.update(changes)
        form.shift = form.form.shift
        return form
