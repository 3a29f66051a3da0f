"""Compute losses between partitions, and add them to forms for loss-augmented inference.

:class:`FrobeniusLoss` is linear in M and applies to all partitions. :class:`KnownLoss` is for
segmentations only. If labels are partial, KnownLoss does not depend on how the labels are
completed.
"""

from __future__ import annotations

import copy
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from metriclearn.problem.charges import Charges, total_charge
from metriclearn.problem.forms import Form, LowRankForm
from metriclearn.problem.partial_labels import PartialPartition
from metriclearn.problem.partition import Partition
from metriclearn.problem.projector import Projector
from metriclearn.running.values import check_each, real_array


class Loss(Protocol):
    """A loss that can be added to a form."""

    def __call__(self, partition: Any, truth: Any) -> float:
        """Return the loss ℓ(M, N)."""

    def augment(self, form: Any, truth: Any, scale: float) -> tuple[Form, float]:
        """Add the loss to a form A, and return a new form and a constant.

        The value of the new form plus the constant is ⟨A, M⟩ + scale · T ℓ(M, N).
        """


class FrobeniusLoss:
    """The loss ℓ(M, N) = ‖D^½(M − N)‖²_F / T, where the diagonal matrix D marks labeled samples.

    Since M and N are projections,

        T ℓ = Tr M(D − DN − ND) + Tr DN,

    which is linear in M. If all labels are known, D = I, and ℓ = (Tr M + Tr N − 2 Tr MN) / T is the
    loss of the paper (Lajugie, Arlot & Bach, Eq. (8)). This loss is zero only for equal partitions.
    For partitions into K and K′ clusters, the loss is at most (K + K′ − 2)/T. Computing it takes
    O(K + K′) if both partitions are contiguous. The paper's tables report T ℓ, see
    :meth:`squared_norm`. If only some labels are known, D is 1 for labeled samples and 0 for
    others, and N is a completion of the labels. Then the loss sums only those rows of M − N that
    belong to labeled samples. Samples may be grouped into nodes, see
    :class:`metriclearn.similarities.NodeLabels`. With nodes, D holds the fraction of labeled
    samples in every node.

    This loss depends on the completion N (``completion_free`` is False), so a new completion may
    raise the objective. A learner that alternates between learning and completing stops if the
    objective rises.

    Examples
    --------
    >>> from metriclearn import Partition
    >>> from metriclearn.problem import FrobeniusLoss
    >>> M, N = Partition.from_labels([0, 0, 1, 1]), Partition.from_labels([0, 1, 1, 1])
    >>> round(FrobeniusLoss()(M, N), 3)
    0.333
    """

    completion_free = False

    def __call__(self, partition: Any, truth: Any) -> float:
        return self.squared_norm(partition, truth) / truth.n_samples

    def squared_norm(self, partition: Any, truth: Any) -> float:
        """Return T ℓ = ‖M − N‖²_F. With partial labels, sum only over labeled parts."""
        if truth.partial_labels is None and truth.share is None:
            # ‖M − N‖² = Tr M + Tr N − 2 Tr MN, as M and N are projections.
            twice = 2.0 * partition.inner(truth)
            return max(0.0, partition.n_clusters + truth.n_clusters - twice)
        check_each(type(self).__name__, "label", truth.n_samples, "samples", partition.n_samples)
        return max(0.0, self._labeled_norm(partition, truth))

    def _labeled_norm(self, partition: Any, truth: Any) -> float:
        """Return T ℓ if D is not I. Rounding may make the result slightly negative."""
        if isinstance(truth, PartialPartition):
            raise ValueError(
                f"{type(self).__name__} needs completed labels, got a PartialPartition; pass its "
                "with_completion(partition), or use KnownLoss()."
            )
        return _variable_part(partition, truth) + truth.labeled_trace

    def augment(self, form: Any, truth: Any, scale: float) -> tuple[Any, float]:
        if truth.partial_labels is None and truth.share is None:
            return form.plus(truth, 2.0 * scale).shifted(scale), scale * truth.n_clusters
        return self._labeled_augment(form, truth, scale)

    def _labeled_augment(self, form: Any, truth: Any, scale: float) -> tuple[Any, float]:
        """Add the loss to a form as :meth:`augment` does, if D is not I."""
        return FrobeniusForm(form, truth, scale), scale * truth.labeled_trace


def _variable_part(partition: Partition | Projector, truth: Any) -> float:
    """Compute Tr M(D − DN − ND) in O(T(K + K′)), from M = UUᵀ."""
    # Tr M(D − DN − ND) = Tr Uᵀ(D − DN − ND)U.
    U = partition.factor
    return float(np.sum(U * (truth.share[:, None] * U - truth.labeled_product(U))))


class FrobeniusForm:
    """The form A + scale·(D − DN − ND), given by its action on vectors.

    Parameters
    ----------
    form : Form
        A.
    truth : Partition or NodeLabels
        N, which also holds D.
    scale : float
        α.
    """

    def __init__(self, form: Form, truth: Any, scale: float) -> None:
        self.form, self.truth = form, truth
        self.scale = float(scale)
        self.n_samples = form.n_samples

    def at(self, partition: Partition | Projector) -> float:
        """Return the value ⟨A, M⟩ + scale·Tr M(D − DN − ND)."""
        return self.form.at(partition) + self.scale * _variable_part(partition, self.truth)

    def matvec(self, V: NDArray) -> NDArray:
        """Return the product with columns V (T, k), in O(Tk) more time than the product AV."""
        change = self.truth.share[:, None] * V - self.truth.labeled_product(V)
        return self.form.matvec(V) + self.scale * change

    def shifted(self, shift: float) -> FrobeniusForm:
        """Return the form A + shift·I with the same loss added to it."""
        return FrobeniusForm(self.form.shifted(shift), self.truth, self.scale)


class KnownLoss(FrobeniusLoss):
    """The loss of a segmentation on the labeled parts of the truth.

    The labels are divided into pieces of two kinds: stretches and regions. In a stretch, all
    changes are known, and the stretch is as long as possible. In an annotated region, the positions
    of changes are unknown. For every piece, the loss restricts the segmentation M to the samples of
    the piece. Then the loss adds the distance between this restriction and the nearest partition N
    that agrees with the piece,

        T ℓ(M, known) = Σ_pieces min_{N agrees} ‖M|piece − N‖²_F.

    On a known stretch N is unique, and the distance is the loss of Lajugie, Arlot & Bach, Eq. (8).
    On a region the distance is the number of missing or superfluous changes. Unlabeled samples add
    nothing. The loss ℓ is 0 exactly for the segmentations that agree with all labels. If all labels
    are known, ℓ is the paper's loss.

    Up to a constant, every term is a sum of charges, one for each segment (s,u]. A table gives each
    charge in O(1), so loss-augmented inference stays an exact dynamic program. The restriction
    M|piece is not linear in M, so this loss is for segmentations only.

    If N is a completion of partial labels, the loss ignores the completed parts
    (``completion_free``). The truth may also be the partial labels themselves. Computing the loss
    takes O(K).

    Examples
    --------
    >>> from metriclearn import PartialPartition, Partition, Region
    >>> from metriclearn.problem import EXACTLY_ONE, KnownLoss
    >>> known = PartialPartition(4, regions=[Region(0, 4, EXACTLY_ONE)])
    >>> KnownLoss()(Partition.from_labels([0, 0, 0, 0]), known)
    0.25
    """

    completion_free = True

    def _labeled_norm(self, partition: Partition, truth: Any) -> float:
        charged = truth.partial_labels.charges
        return total_charge(charged.table, partition.change_points) + charged.n_segments

    def _labeled_augment(self, form: Any, truth: Any, scale: float) -> tuple[Any, float]:
        # The charges lack the constant Tr N of every stretch: its number of segments.
        charged = truth.partial_labels.charges
        if isinstance(form, ChargedForm):
            augmented = form.with_parts(charges=charged, scale=float(scale))
        else:
            augmented = ChargedForm(form, charged, scale)
        return augmented, scale * charged.n_segments


class ChargedForm:
    """The function ⟨A, M⟩ + α·Σ charge − Σ penalty + Σ score of names, for segmentations M only.

    Parameters
    ----------
    form : LowRankForm
        A. If there are charges, A may have a shift, but no weighted reference partition.
    charges : Charges, optional
    scale : float
        α.
    penalties : array (T+1,), optional
        The penalty p_t of a change between the samples t−1 and t. A penalty may be negative. The
        first and the last entry are not used.
    names : NameScores, optional
        Scores of the names of segments.

    Raises
    ------
    ValueError
        If the penalties are not T+1 finite numbers, or are too large to be added.
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
            self.penalties = real_array("ChargedForm", "penalties", penalties, 1).copy()
            positions = self.n_samples + 1
            check_each("ChargedForm", "penalty", len(self.penalties), "positions", positions)
            self.penalties[[0, -1]] = 0.0

    def at(self, partition: Partition) -> float:
        """Return the value of a segmentation."""
        value, ends = self.form.at(partition), partition.change_points
        if self.charges is not None:
            value += self.scale * total_charge(self.charges.table, ends)
        if self.names is not None:
            value += self.names.at(partition)
        return value if self.penalties is None else value - float(self.penalties[ends].sum())

    def part(self, start: int, stop: int) -> ChargedForm:
        """Return the form of the samples start … stop − 1, without charges."""
        penalties = None if self.penalties is None else self.penalties[start : stop + 1]
        names = None if self.names is None else self.names.part(start, stop)
        return ChargedForm(self.form.part(start, stop), penalties=penalties, names=names)

    def shifted(self, shift: float) -> ChargedForm:
        """Return the same form with A + shift·I in place of A."""
        return self.with_parts(form=self.form.shifted(shift))

    def plus(self, truth: Partition, weight: float) -> ChargedForm:
        """Return the same form with A − weight·N in place of A. N is the matrix of ``truth``."""
        return self.with_parts(form=self.form.plus(truth, weight))

    def with_parts(self, **changes: Any) -> ChargedForm:
        """Return a copy with some parameters replaced, such as the form, charges or names."""
        form = copy.copy(self)
        form.__dict__.update(changes)
        form.shift = form.form.shift
        return form
